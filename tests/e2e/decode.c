/* tests/e2e/decode.c - two entries of one program that share weights and caches: prefill and decode.
 *
 * The plan of prefill is carried to decode.  Greedy tokens of prefill and twelve steps of decode must be those of recomputing the
 * whole sequence in every step with the model without caches, on every number of ranks.
 */
#include "tests/e2e/e2e.h"

enum { BATCH = 2, PROMPT = 5, STEPS = 12, LENGTH = PROMPT + STEPS, VOCAB = 64, PROMPTS = 2 };

static const DslDefine defines[] = {{"layers", "2"}, {"d", "32"}, {"heads", "4"}, {"kv_heads", "2"}, {"ffn", "64"}, {"vocab", "64"}, {"ctx", "24"}, {"cache", "1"}};
static const E2eHint hints[] = {{"batch", 4}, {"seq", 16}};

/* By prompt: the prompts, then what greedy decoding adds; the logits of each step's last position. */
static int64_t reference_tokens[PROMPTS][BATCH][LENGTH + 1];
static float reference_logits[PROMPTS][STEPS + 1][BATCH][VOCAB];

static int64_t best(const float *logits) {
  int at = 0;
  for (int i = 1; i < VOCAB; i++)
    if (logits[i] > logits[at]) at = i;
  return at;
}

/* Runs an entry on tokens [BATCH, n] that begin at `at` (negative: the model without caches); `last` gets the logits after the last. */
static bool step(ApcModel *model, const char *entry, int n, const int64_t *tokens, int64_t at, float last[BATCH][VOCAB]) {
  static float logits[BATCH * LENGTH * VOCAB];
  if (apc_select(model, entry) || apc_bind_input(model, "tokens", APC_I64, 2, (int64_t[]){BATCH, n}, tokens)) return false;
  if (at >= 0 && apc_bind_input(model, "at", APC_I64, 0, NULL, &at)) return false;
  if (apc_run(model, NULL) || apc_read_output(model, "logits", logits, (size_t)(BATCH * n * VOCAB) * sizeof *logits)) return false;
  for (int b = 0; b < BATCH; b++) memcpy(last[b], &logits[(b * n + n - 1) * VOCAB], sizeof last[b]);
  return true;
}

/* ---- without caches, one rank */

static bool recompute(ApcModel *model, int prompt) {
  int64_t (*all)[LENGTH + 1] = reference_tokens[prompt], tokens[BATCH * LENGTH];
  for (int b = 0; b < BATCH; b++)
    for (int i = 0; i < PROMPT; i++) all[b][i] = (17 * b + 5 * i * i + 29 * prompt + 3) % VOCAB;
  for (int s = 0; s <= STEPS; s++) {
    int n = PROMPT + s;
    for (int b = 0; b < BATCH; b++) memcpy(&tokens[b * n], all[b], (size_t)n * sizeof *tokens);
    if (!step(model, "main", n, tokens, -1, reference_logits[prompt][s])) return false;
    for (int b = 0; b < BATCH; b++) all[b][n] = best(reference_logits[prompt][s][b]);
  }
  return true;
}

static void test_reference(void) {
  E2eModel e;
  ApcModel *model = NULL;
  const char *out = temp_path("uncached");
  bool ok = e2e_load(&e, "examples/llama.apc", 7, defines, 2, hints, 1, (const char *const[]){"main"}) && e2e_compile(&e, "cpu", &(PlanOptions){0}, out);
  CHECK(ok);
  if (ok) {
    CHECK(apc_load(out, NULL, &model) == APC_OK);
    for (int p = 0; p < PROMPTS; p++) CHECKF(recompute(model, p), "%s", apc_error(model));
    apc_close(model);
  }
  CHECK(memcmp(reference_tokens[0], reference_tokens[1], sizeof reference_tokens[0]) != 0);
  e2e_free(&e);
}

/* ---- with caches */

static void check_prompt(ApcModel *model, const char *what, int prompt) {
  int64_t (*all)[LENGTH + 1] = reference_tokens[prompt], tokens[BATCH * PROMPT];
  float logits[BATCH][VOCAB];
  for (int b = 0; b < BATCH; b++) memcpy(&tokens[b * PROMPT], all[b], PROMPT * sizeof *tokens);
  for (int s = 0; s <= STEPS; s++) {
    int n = s ? 1 : PROMPT;
    bool ran = step(model, s ? "decode" : "prefill", n, tokens, s ? PROMPT + s - 1 : 0, logits);
    CHECKF(ran, "%s, prompt %d, step %d: %s", what, prompt, s, apc_error(model));
    if (!ran) return;
    double distance = e2e_distance(logits[0], reference_logits[prompt][s][0], BATCH * VOCAB);
    CHECKF(distance <= 1e-4, "%s, prompt %d, step %d: distance %g", what, prompt, s, distance);
    for (int b = 0; b < BATCH; b++) {
      tokens[b] = best(logits[b]);
      CHECKF(tokens[b] == all[b][PROMPT + s], "%s, prompt %d, step %d: token %d of sequence %d is not %d", what, prompt, s, (int)tokens[b], b, (int)all[b][PROMPT + s]);
    }
  }
}

/* A stage may be without states: with one micro-batch plans are known to leave one nearly empty. */
static void check_memory(ApcModel *model, const char *what) {
  uint64_t all = 0;
  for (int rank = 0; rank < apc_ranks(model); rank++) {
    ApcReport is, foretold;
    CHECK(apc_report(model, rank, &is) == APC_OK && apc_predict(model, rank, &foretold) == APC_OK);
    all += is.state_bytes;
    CHECKF(is.state_bytes == foretold.state_bytes, "%s: rank %d: state is %llu, foretold %llu", what, rank,
           (unsigned long long)is.state_bytes, (unsigned long long)foretold.state_bytes);
    CHECKF(is.param_bytes == foretold.param_bytes, "%s: rank %d: weights are %llu, foretold %llu", what, rank, (unsigned long long)is.param_bytes,
           (unsigned long long)foretold.param_bytes);
  }
  CHECKF(all > 0, "%s: no rank keeps states", what);
}

static void check_target(const char *target, PlanOptions options) {
  char what[120];
  snprintf(what, sizeof what, "%s, tp %d pp %d dp %d", target, options.tp, options.pp, options.dp);
  E2eModel e;
  ApcModel *model = NULL;
  const char *out = temp_path("cached");
  bool ok = e2e_load(&e, "examples/llama.apc", 8, defines, 2, hints, 2, (const char *const[]){"prefill", "decode"}) && e2e_compile(&e, target, &options, out);
  CHECKF(ok, "%s", what);
  if (ok) {
    CHECKF(apc_load(out, NULL, &model) == APC_OK && apc_entries(model) == 2, "%s: %s", what, apc_error(model));
    for (int p = 0; p < PROMPTS; p++) {
      check_prompt(model, what, p);
      if (p == 0) check_memory(model, what);
      CHECKF(apc_reset(model) == APC_OK, "%s: %s", what, apc_error(model));
    }
    apc_close(model);
  }
  e2e_free(&e);
}

static void test_one_rank(void) { check_target("cpu", (PlanOptions){0}); }
static void test_two_ranks(void) { check_target("cpux2", (PlanOptions){0}); }
static void test_four_ranks(void) { check_target("cpux4", (PlanOptions){0}); }
static void test_tp_2(void) { check_target("cpux2", (PlanOptions){.tp = 2}); }
static void test_pp_2(void) { check_target("cpux2", (PlanOptions){.pp = 2, .micro_batches = 1}); }
static void test_dp_2(void) { check_target("cpux2", (PlanOptions){.dp = 2}); }
static void test_tp_4(void) { check_target("cpux4", (PlanOptions){.tp = 4}); }
static void test_tp_pp(void) { check_target("cpux4", (PlanOptions){.tp = 2, .pp = 2, .micro_batches = 1}); }

int main(int argc, char **argv) {
  if (apc_is_rank(argc, argv)) return apc_rank_main(argc, argv);
  if (argc != 2) {
    fprintf(stderr, "usage: %s BUILD\n", argv[0]);
    return 2;
  }
  e2e_build = argv[1];
  RUN(test_reference);
  RUN(test_one_rank);
  RUN(test_two_ranks);
  RUN(test_four_ranks);
  RUN(test_tp_2);
  RUN(test_pp_2);
  RUN(test_dp_2);
  RUN(test_tp_4);
  RUN(test_tp_pp);
  return test_summary();
}
