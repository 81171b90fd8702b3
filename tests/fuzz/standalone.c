/* tests/fuzz/standalone.c - runs a fuzz target without libFuzzer, under any compiler.
 *
 *   fuzz_NAME [-n MUTATIONS] [-k ONLY] [-c] [-o FILE] [-v] SEED_FILE_OR_DIRECTORY...
 *
 * Feeds each seed unchanged, then MUTATIONS (2000) changed copies.  Change number k of a seed depends only on k and the
 * seed's bytes, so a failure repeats: -v prints each number, -k runs only that one, -o writes its input to a file.
 * -c feeds every beginning of each seed, too.  A crash, a sanitizer report or a hang (ctest's time limit) is a failure;
 * so is a call without any seed. */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/random.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Options {
  unsigned mutations;
  long only; /* -1: all; 0: the seed itself */
  const char *output;
  bool verbose, cuts;
} Options;

typedef struct Input {
  uint8_t *data;
  size_t n;
} Input;

/* A stream of random numbers for one mutation. */
typedef struct Draw {
  uint64_t seed, stream, next;
} Draw;

static size_t draw(Draw *d, size_t below) {
  return below ? (size_t)random_below(d->seed, d->stream, d->next++, below) : 0;
}

static void *must(void *p) {
  if (p) return p;
  perror("memory");
  exit(2);
}

static void flip_bit(Input *in, Draw *d) {
  if (in->n) in->data[draw(d, in->n)] ^= (uint8_t)(1u << draw(d, 8));
}

static void set_byte(Input *in, Draw *d) {
  static const uint8_t bytes[] = {0,   1,   0x7f, 0x80, 0xff, '0', '9', '-', '"', '\'',
                                  '(', ')', '{',  '}',  '[',  ']', ',', ' ', '\n'};
  size_t at = draw(d, in->n), pick = draw(d, sizeof bytes + 8);
  if (in->n) in->data[at] = pick < sizeof bytes ? bytes[pick] : (uint8_t)draw(d, 256);
}

/* Writes a little-endian number at the edges of its width: lengths, offsets, counts. */
static void set_number(Input *in, Draw *d) {
  size_t width = (size_t)1 << draw(d, 4), sign = draw(d, 2), near = draw(d, 4);
  if (in->n < width) return;
  static const uint64_t edges[] = {0, 0x7fffffffffffffffu, 0xffffffffffffffffu, 0x8000000000000000u};
  uint64_t v = edges[draw(d, 4)] >> (64 - 8 * width);
  v = sign ? v + near : v - near;
  memcpy(in->data + draw(d, in->n - width + 1), &v, width);
}

/* Adds a number to the number at a place. */
static void add_number(Input *in, Draw *d) {
  size_t width = (size_t)1 << draw(d, 4);
  if (in->n < width) return;
  uint8_t *at = in->data + draw(d, in->n - width + 1);
  uint64_t v = 0;
  memcpy(&v, at, width);
  v += draw(d, 33) - 16;
  memcpy(at, &v, width);
}

static void truncate_end(Input *in, Draw *d) { in->n = draw(d, in->n + 1); }

static void remove_range(Input *in, Draw *d) {
  size_t at = draw(d, in->n), n = draw(d, in->n - at < 64 ? in->n - at + 1 : 64);
  memmove(in->data + at, in->data + at + n, in->n - at - n);
  in->n -= n;
}

/* Copies a range of the input before another place. */
static void repeat_range(Input *in, Draw *d) {
  size_t from = draw(d, in->n), n = draw(d, in->n - from < 64 ? in->n - from + 1 : 64), to = draw(d, in->n + 1);
  uint8_t *grown = must(malloc(in->n + n + 1));
  memcpy(grown, in->data, to);
  memcpy(grown + to, in->data + from, n);
  memcpy(grown + to + n, in->data + to, in->n - to);
  free(in->data);
  in->data = grown;
  in->n += n;
}

/* Swaps a decimal number in text for another. */
static void change_decimal(Input *in, Draw *d) {
  static const char *const numbers[] = {"0",   "-1", "2147483648", "9223372036854775807", "18446744073709551616",
                                        "1e9", "3"};
  const char *text = numbers[draw(d, sizeof numbers / sizeof *numbers)];
  size_t at = draw(d, in->n), end, length = strlen(text);
  while (at < in->n && (in->data[at] < '0' || in->data[at] > '9')) at++;
  for (end = at; end < in->n && in->data[end] >= '0' && in->data[end] <= '9';) end++;
  if (at == in->n) return;
  uint8_t *changed = must(malloc(in->n + length));
  memcpy(changed, in->data, at);
  memcpy(changed + at, text, length);
  memcpy(changed + at + length, in->data + end, in->n - end);
  free(in->data);
  in->data = changed;
  in->n += length - (end - at);
}

static void (*const changes[])(Input *, Draw *) = {flip_bit,     set_byte,     set_number,   add_number,
                                                   truncate_end, remove_range, repeat_range, change_decimal};
#define CHANGES (sizeof changes / sizeof *changes)

/* The seed after 1 to 4 changes; number 0 is the seed itself.  The copy is exactly as long as its data, so that
 * overreads are detected. */
static Input mutated(const Input *seed, unsigned number) {
  Input in = {must(malloc(seed->n + 1)), seed->n};
  Draw d = {hash64(seed->data, seed->n, 0), number, 0};
  memcpy(in.data, seed->data, seed->n);
  if (number)
    for (size_t i = 0, n = 1 + draw(&d, 4); i < n; i++) changes[draw(&d, CHANGES)](&in, &d);
  in.data = must(realloc(in.data, in.n ? in.n : 1));
  return in;
}

static Input read_seed(const char *path) {
  FILE *f = must(fopen(path, "rb"));
  Input in = {0};
  for (size_t cap = 4096, got = 1; got; cap *= 2) {
    in.data = must(realloc(in.data, cap));
    got = fread(in.data + in.n, 1, cap - in.n, f);
    in.n += got;
  }
  fclose(f);
  return in;
}

static void write_input(const char *path, const Input *in) {
  FILE *f = must(fopen(path, "wb"));
  fwrite(in->data, 1, in->n, f);
  fclose(f);
}

/* Feeds every beginning of the seed, each in memory of its own length. */
static void run_cuts(const Input *seed) {
  for (size_t n = 0; n < seed->n; n++) {
    uint8_t *cut = must(malloc(n ? n : 1));
    memcpy(cut, seed->data, n);
    LLVMFuzzerTestOneInput(cut, n);
    free(cut);
  }
}

static void run_seed(const char *path, const Options *o) {
  Input seed = read_seed(path);
  fprintf(stderr, "%s: %zu bytes\n", path, seed.n);
  if (o->cuts) run_cuts(&seed);
  for (unsigned k = 0; k <= o->mutations; k++) {
    if (o->only >= 0 && k != (unsigned)o->only) continue;
    if (o->verbose) fprintf(stderr, "mutation %u\n", k);
    Input in = mutated(&seed, k);
    if (o->output) write_input(o->output, &in);
    LLVMFuzzerTestOneInput(in.data, in.n);
    free(in.data);
  }
  free(seed.data);
}

static int not_hidden(const struct dirent *e) { return e->d_name[0] != '.'; }

/* Runs a file, or all files of a directory in the order of their names; returns their number. */
static int run_path(const char *path, const Options *o) {
  struct stat st;
  struct dirent **names;
  if (stat(path, &st) != 0) {
    perror(path);
    exit(2);
  }
  if (!S_ISDIR(st.st_mode)) {
    run_seed(path, o);
    return 1;
  }
  int n = scandir(path, &names, not_hidden, alphasort);
  for (int i = 0; i < n; i++) {
    char file[4096];
    snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name);
    run_seed(file, o);
    free(names[i]);
  }
  if (n >= 0) free(names);
  return n;
}

int main(int argc, char **argv) {
  Options o = {.mutations = 2000, .only = -1};
  int seeds = 0;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "-v") == 0) o.verbose = true;
    else if (strcmp(argv[i], "-c") == 0) o.cuts = true;
    else if (strcmp(argv[i], "-n") == 0 && i + 1 < argc) o.mutations = (unsigned)strtoul(argv[++i], NULL, 10);
    else if (strcmp(argv[i], "-k") == 0 && i + 1 < argc) o.only = strtol(argv[++i], NULL, 10);
    else if (strcmp(argv[i], "-o") == 0 && i + 1 < argc) o.output = argv[++i];
    else seeds += run_path(argv[i], &o);
  }
  printf("%d seeds, %u mutations each\n", seeds, o.mutations);
  return seeds > 0 ? 0 : 1;
}
