/* tests/embed/states.c - the states of a compiled decoder through apc_runtime.h, for tests/embed/run.sh.
 *
 *   states PROGRAM            prints each state: type, name, each size with its formula, in order
 *   states PROGRAM FILE save  decodes 4 tokens, saves the states, decodes 4 more and prints them; loads the states and
 *                             decodes the same 4, also after a reset and in a model that has run nothing
 *   states PROGRAM FILE load  loads the states, decodes 4 tokens and prints them
 *   states PROGRAM FILE bad   the states of FILE are refused, and those that were there remain
 *   states PROGRAM FILE sizes of a program with any batch: apc_back restores states of other sizes than the present
 *                             ones, and saved ones load
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apc_runtime.h"

static int print_states(ApcModel *m) {
  ApcTensorInfo info;
  for (int i = 0; i < apc_states(m); i++) {
    if (apc_state_info(m, i, &info) != APC_OK || info.index_below != -1) return 1;
    printf("%d %s", (int)info.type, info.name);
    for (int d = 0; d < info.rank; d++) printf(" %lld=%s", (long long)info.dims[d], info.dim_text[d]);
    printf("\n");
  }
  if (apc_state_info(m, -1, &info) != APC_USAGE || apc_state_info(m, apc_states(m), &info) != APC_USAGE) return 1;
  return strstr(apc_error(m), "there is no state number") == NULL;
}

enum { BATCH = 2, MOST_BATCH = 6, VOCAB = 32, STEPS = 4 };

static int failed;

#define CHECK(x) ((x) ? (void)0 : (void)(failed++, printf("%s:%d: not %s\n", __FILE__, __LINE__, #x)))

/* Decodes STEPS tokens of each of `batch` sequences from position `at` on.  The tokens do not depend on the results, so
 * equal sums of the logits show equal states. */
static void decode_batch(ApcModel *m, int batch, int64_t at, double *sums) {
  float logits[MOST_BATCH * VOCAB];
  for (int i = 0; i < STEPS; i++, at++) {
    int64_t tokens[MOST_BATCH], shape[2] = {batch, 1};
    for (int k = 0; k < batch; k++) tokens[k] = (at * (7 + 2 * k) + 3 + 5 * k) % VOCAB;
    CHECK(apc_bind_input(m, "tokens", APC_I64, 2, shape, tokens) == APC_OK);
    CHECK(apc_bind_input(m, "at", APC_I64, 0, NULL, &at) == APC_OK);
    if (apc_run(m, "decode") || apc_read_output(m, "logits", logits, sizeof *logits * (size_t)(batch * VOCAB))) {
      printf("%s\n", apc_error(m));
      exit(1);
    }
    sums[i] = 0;
    for (int k = 0; k < batch * VOCAB; k++) sums[i] += logits[k] * (k % 9 - 4);
  }
}

static void decode(ApcModel *m, int64_t at, double *sums) { decode_batch(m, BATCH, at, sums); }

static void print_sums(const double *sums) {
  for (int i = 0; i < STEPS; i++) printf("%.4f\n", sums[i] * 1e3);
}

static ApcModel *open_model(const char *program) {
  ApcModel *m;
  if (apc_load(program, NULL, &m)) exit(2);
  return m;
}

static int equal(const double *a, const double *b) { return memcmp(a, b, STEPS * sizeof *a) == 0; }

static void save(const char *program, const char *file) {
  double first[STEPS], wanted[STEPS], again[STEPS], reset[STEPS];
  ApcModel *m = open_model(program);
  CHECK(apc_save_states(m, file) == APC_USAGE && strstr(apc_error(m), "initial"));
  decode(m, 0, first);
  CHECK(apc_save_states(m, file) == APC_OK);
  CHECK(apc_save_states(m, program) == APC_USAGE);
  decode(m, STEPS, wanted);
  CHECK(apc_load_states(m, file) == APC_OK);
  decode(m, STEPS, again);
  CHECK(equal(wanted, again));
  CHECK(apc_reset(m) == APC_OK && apc_save_states(m, file) == APC_USAGE);
  decode(m, STEPS, reset);
  CHECK(!equal(wanted, reset));
  CHECK(apc_load_states(m, file) == APC_OK && apc_save_states(m, file) == APC_OK);
  CHECK(apc_reset(m) == APC_OK && apc_load_states(m, file) == APC_OK);
  decode(m, STEPS, again);
  CHECK(equal(wanted, again));
  apc_close(m);
  m = open_model(program);
  CHECK(apc_load_states(m, file) == APC_OK);
  decode(m, STEPS, again);
  CHECK(equal(wanted, again));
  apc_close(m);
  print_sums(wanted);
}

static void load(const char *program, const char *file) {
  double sums[STEPS];
  ApcModel *m = open_model(program);
  CHECK(apc_load_states(m, file) == APC_OK);
  decode(m, STEPS, sums);
  apc_close(m);
  print_sums(sums);
}

static void refuse(const char *program, const char *file) {
  double sums[STEPS], wanted[STEPS], again[STEPS];
  ApcModel *m = open_model(program);
  decode(m, 0, sums);
  CHECK(apc_keep(m) == APC_OK);
  decode(m, STEPS, wanted);
  CHECK(apc_back(m) == APC_OK);
  CHECK(apc_load_states(m, file) == APC_BAD_INPUT);
  printf("%s\n", apc_error(m));
  decode(m, STEPS, again);
  CHECK(equal(wanted, again));
  apc_close(m);
}

static void change_sizes(const char *program, const char *file) {
  double sums[STEPS], wanted[STEPS], again[STEPS];
  const int other[] = {1, MOST_BATCH};
  for (int i = 0; i < 2; i++) {
    ApcModel *m = open_model(program);
    decode(m, 0, sums);
    CHECK(apc_keep(m) == APC_OK && apc_save_states(m, file) == APC_OK);
    decode(m, STEPS, wanted);
    CHECK(apc_reset(m) == APC_OK);
    decode_batch(m, other[i], 0, sums);
    CHECK(apc_back(m) == APC_OK);
    decode(m, STEPS, again);
    CHECK(equal(wanted, again));
    CHECK(apc_reset(m) == APC_OK);
    decode_batch(m, other[i], 0, sums);
    CHECK(apc_load_states(m, file) == APC_OK);
    decode(m, STEPS, again);
    CHECK(equal(wanted, again));
    apc_close(m);
  }
}

int main(int argc, char **argv) {
  if (argc == 2) {
    ApcModel *m = open_model(argv[1]);
    int code = print_states(m);
    apc_close(m);
    return code;
  }
  if (argc != 4) return 2;
  if (strcmp(argv[3], "save") == 0) save(argv[1], argv[2]);
  else if (strcmp(argv[3], "load") == 0) load(argv[1], argv[2]);
  else if (strcmp(argv[3], "sizes") == 0) change_sizes(argv[1], argv[2]);
  else refuse(argv[1], argv[2]);
  return failed != 0;
}
