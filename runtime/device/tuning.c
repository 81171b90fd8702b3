/* runtime/device/tuning.c - see tuning.h. */
#include "runtime/device/tuning.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"

#define FIRST_LINE "apc tuning 1"
#define OF "of "

/* ---- reading */

/* Reads the file as text; *text is NULL if it does not exist. */
static RtStatus read_text(Arena *arena, const char *path, char **text, size_t *n, RtError *error) {
  struct stat st;
  *text = NULL;
  if (stat(path, &st) && errno == ENOENT) return RT_OK;
  Diags *diags = diags_new(arena);
  *text = file_read_text(diags, arena, path, n);
  return *text ? RT_OK : rt_error(error, RT_BAD_INPUT, "--tune %s: %s", path, diags->items[0].message);
}

/* Fails if a file cannot be made there, before anything is measured. */
static RtStatus check_folder(const char *path, RtError *error) {
  const char *slash = strrchr(path, '/');
  char *folder = slash ? strndup(path, (size_t)(slash - path + 1)) : strdup(".");
  if (!folder) return rt_error(error, RT_FAILED, "out of memory");
  RtStatus status = access(folder, W_OK) == 0
                        ? RT_OK
                        : rt_error_errno(error, RT_BAD_INPUT, "--tune %s: the file cannot be made", path);
  free(folder);
  return status;
}

static uint64_t hash_of(const char *text, size_t n) {
  uint64_t h = hash64(text, n, 0x74756e65);
  return h <= TUNING_ABSENT ? h + 2 : h;
}

/* Takes a line off the text; NULL at its end. */
static char *next_line(char **text) {
  char *line = *text, *end = strchr(line, '\n');
  if (!*line) return NULL;
  *text = end ? end + 1 : line + strlen(line);
  if (end) *end = 0;
  return line;
}

/* Returns what is wrong with a key after those so far; NULL if nothing is. */
static const char *order_fault(const Tuning *t, const char *key) {
  int order = t->n ? strcmp(t->items[t->n - 1].key, key) : -1;
  return order == 0            ? "the key is there twice"
         : order > 0           ? "the keys are not in the order of their bytes"
         : t->n == TUNING_MOST ? "it has more than 65536 choices"
                               : NULL;
}

static RtStatus parse_choice(Tuning *t, char *line, unsigned number, RtError *error) {
  char *equals = strstr(line, " = ");
  const char *fault = !equals                               ? "expected KEY = CHOICE"
                      : equals == line                      ? "the key is empty"
                      : equals - line >= TUNING_KEY         ? "the key is too long"
                      : strlen(equals + 3) >= TUNING_CHOICE ? "the choice is too long"
                                                            : NULL;
  if (!fault) *equals = 0, fault = order_fault(t, line);
  if (fault) return rt_error(error, RT_BAD_INPUT, "--tune %s:%u: %s", t->path, number, fault);
  return tuning_add(t, line, equals + 3) ? RT_OK : rt_error(error, RT_FAILED, "out of memory");
}

static RtStatus parse(Tuning *t, char *text, RtError *error) {
  const char *line = next_line(&text);
  if (!line || strcmp(line, FIRST_LINE) != 0)
    return rt_error(error, RT_BAD_INPUT, "--tune %s:1: expected '" FIRST_LINE "', so this is no tuning file", t->path);
  line = next_line(&text);
  if (!line || strncmp(line, OF, strlen(OF)) != 0 || strlen(line) >= TUNING_OF)
    return rt_error(error, RT_BAD_INPUT, "--tune %s:2: expected '" OF "' and a device", t->path);
  snprintf(t->of, sizeof t->of, "%s", line + strlen(OF));
  RtStatus status = RT_OK;
  char *choice;
  for (unsigned number = 3; !status && (choice = next_line(&text)); number++)
    status = parse_choice(t, choice, number, error);
  return status;
}

/* Fails if the text is malformed. */
static RtStatus check_text(const char *path, char *text, RtError *error) {
  Tuning *t = calloc(1, sizeof *t);
  if (t) t->path = strdup(path);
  RtStatus status = t && t->path ? parse(t, text, error) : rt_error(error, RT_FAILED, "out of memory");
  tuning_close(t);
  return status;
}

RtStatus tuning_hash(const char *path, uint64_t *hash, RtError *error) {
  *hash = TUNING_NONE;
  if (!path) return RT_OK;
  if (!*path) return rt_error(error, RT_USAGE, "--tune needs a file");
  Arena *arena = arena_new();
  char *text;
  size_t n;
  RtStatus status = read_text(arena, path, &text, &n, error);
  if (!status) *hash = text ? hash_of(text, n) : TUNING_ABSENT;
  if (!status) status = text ? check_text(path, text, error) : check_folder(path, error);
  arena_free(arena);
  return status;
}

static RtStatus read_all(Tuning *t, uint64_t hash, RtError *error) {
  Arena *arena = arena_new();
  char *text = NULL;
  size_t n = 0;
  RtStatus status = read_text(arena, t->path, &text, &n, error);
  if (!status && (!text || hash_of(text, n) != hash))
    status = rt_error(error, RT_BAD_INPUT, "--tune %s: the file changed while the program started", t->path);
  if (!status) status = parse(t, text, error);
  arena_free(arena);
  return status;
}

RtStatus tuning_open(const char *path, uint64_t hash, Tuning **out, RtError *error) {
  *out = NULL;
  if (hash == TUNING_NONE) return RT_OK;
  Tuning *t = calloc(1, sizeof *t);
  if (t) t->path = strdup(path);
  if (!t || !t->path) {
    tuning_close(t);
    return rt_error(error, RT_FAILED, "out of memory");
  }
  t->makes = hash == TUNING_ABSENT;
  RtStatus status = t->makes ? RT_OK : read_all(t, hash, error);
  if (status) tuning_close(t);
  else *out = t;
  return status;
}

void tuning_close(Tuning *t) {
  if (!t) return;
  free(t->items);
  free(t->path);
  free(t);
}

/* ---- the table */

const char *tuning_find(const Tuning *t, const char *key) {
  for (uint32_t i = 0; t && i < t->n; i++)
    if (strcmp(t->items[i].key, key) == 0) return t->items[i].choice;
  return NULL;
}

bool tuning_add(Tuning *t, const char *key, const char *choice) {
  if (t->n == t->room) {
    uint32_t room = t->room ? 2 * t->room : 64;
    TuningChoice *items = realloc(t->items, room * sizeof *items);
    if (!items) return false;
    t->items = items, t->room = room;
  }
  TuningChoice *c = &t->items[t->n++];
  memset(c, 0, sizeof *c); /* ranks send it as it is */
  snprintf(c->key, sizeof c->key, "%s", key);
  snprintf(c->choice, sizeof c->choice, "%s", choice);
  return true;
}

void tuning_drop(Tuning *t) { t->n = 0, t->makes = false; }

/* ---- writing */

static int by_key(const void *a, const void *b) {
  return strcmp(((const TuningChoice *)a)->key, ((const TuningChoice *)b)->key);
}

RtStatus tuning_write(const Tuning *t, RtError *error) {
  if (t->n > TUNING_MOST)
    return rt_error(error, RT_UNSUPPORTED, "--tune %s: %u choices; a file has at most %d", t->path, t->n, TUNING_MOST);
  Arena *arena = arena_new();
  Diags *diags = diags_new(arena);
  TuningChoice *sorted = ARENA_ARRAY(arena, TuningChoice, t->n + 1);
  if (t->n) memcpy(sorted, t->items, t->n * sizeof *sorted);
  qsort(sorted, t->n, sizeof *sorted, by_key);
  FileWriter *w = file_writer_open(diags, t->path, 0666);
  char line[TUNING_KEY + TUNING_CHOICE + 8];
  int n = snprintf(line, sizeof line, FIRST_LINE "\n" OF "%s\n", t->of);
  bool ok = w && file_writer_add(w, line, (size_t)n);
  for (uint32_t i = 0; ok && i < t->n; i++) {
    n = snprintf(line, sizeof line, "%s = %s\n", sorted[i].key, sorted[i].choice);
    ok = file_writer_add(w, line, (size_t)n);
  }
  if (ok) ok = file_writer_finish(w);
  else if (w) file_writer_abandon(w);
  RtStatus status = ok ? RT_OK : rt_error(error, RT_FAILED, "--tune %s: %s", t->path, diags->items[0].message);
  arena_free(arena);
  return status;
}
