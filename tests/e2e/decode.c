/* tests/e2e/decode.c - two entries of one program that share weights and caches: prefill and decode.
 *
 * The plan of prefill is applied to decode.  Greedy tokens of prefill and twelve steps of decode must equal those of
 * recomputing the whole sequence in every step with the model without caches, on every number of ranks.  Every rank
 * keeps only the states of the layers of its stage, cut as the program says; a second session begins where the first
 * was reset; requests of another batch are refused until then. */
#include "tests/e2e/e2e.h"

enum { BATCH = 2, PROMPT = 5, STEPS = 12, LENGTH = PROMPT + STEPS, VOCAB = 64, PROMPTS = 2 };

static const DslDefine defines[] = {{"layers", "4"}, {"d", "32"},     {"heads", "4"}, {"kv_heads", "2"},
                                    {"ffn", "64"},   {"vocab", "64"}, {"ctx", "24"},  {"cache", "1"}};
static const E2eHint hints[] = {{"batch", 4}, {"seq", 16}};

/* By prompt: the prompts, then the tokens of greedy decoding; the logits of each step's last position. */
static int64_t reference_tokens[PROMPTS][BATCH][LENGTH + 1];
static float reference_logits[PROMPTS][STEPS + 1][BATCH][VOCAB];

static int64_t best(const float *logits) {
  int at = 0;
  for (int i = 1; i < VOCAB; i++)
    if (logits[i] > logits[at]) at = i;
  return at;
}

/* Runs an entry on tokens [BATCH, n] that begin at `at` (negative: the model without caches); `last` gets the logits
 * after the last. */
static bool step(ApcModel *model, const char *entry, int n, const int64_t *tokens, int64_t at,
                 float last[BATCH][VOCAB]) {
  static float logits[BATCH * LENGTH * VOCAB];
  if (apc_select(model, entry) || apc_bind_input(model, "tokens", APC_I64, 2, (int64_t[]){BATCH, n}, tokens))
    return false;
  if (at >= 0 && apc_bind_input(model, "at", APC_I64, 0, NULL, &at)) return false;
  if (apc_run(model, NULL) || apc_read_output(model, "logits", logits, (size_t)(BATCH * n * VOCAB) * sizeof *logits))
    return false;
  for (int b = 0; b < BATCH; b++) memcpy(last[b], &logits[(b * n + n - 1) * VOCAB], sizeof last[b]);
  return true;
}

/* ---- without caches, one rank */

static bool recompute(ApcModel *model, int prompt) {
  int64_t(*all)[LENGTH + 1] = reference_tokens[prompt], tokens[BATCH * LENGTH];
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
  bool ok = e2e_load(&e, "examples/llama.apc", 7, defines, 2, hints, 1, (const char *const[]){"main"}) &&
            e2e_compile(&e, "cpu", &(PlanOptions){0}, out);
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
  int64_t(*all)[LENGTH + 1] = reference_tokens[prompt], tokens[BATCH * PROMPT];
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
      CHECKF(tokens[b] == all[b][PROMPT + s], "%s, prompt %d, step %d: token %d of sequence %d is not %d", what, prompt,
             s, (int)tokens[b], b, (int)all[b][PROMPT + s]);
    }
  }
}

/* Bytes of the states that a rank reads, from the level-2 function: all micro-batches together. */
static uint64_t kept(const E2eModel *e, int rank) {
  const Mesh *mesh = &e->m->mesh;
  int64_t *symbols = e2e_sizes(e, BATCH, PROMPT), dims[MAX_RANK];
  int spatial = 1, times = 1;
  uint64_t bytes = 0;
  for (int a = 0; a < mesh->naxes; a++) *(mesh->axes[a].temporal ? &times : &spatial) *= mesh->axes[a].size;
  for (int time = 0; time < times; time++) {
    for (int a = mesh->naxes - 1, place = rank % spatial; a >= 0; a--) {
      symbols[mesh->axes[a].symbol] = mesh->axes[a].temporal ? time : place % mesh->axes[a].size;
      if (!mesh->axes[a].temporal) place /= mesh->axes[a].size;
    }
    for (size_t i = 0; i < e->l2[0]->ops.n; i++) {
      const Op *op = &e->l2[0]->ops.items[i];
      if (op->kind != OP_read || op->stage != rank / spatial) continue;
      const Type *t = type_of(e->l2[0], op->out);
      uint64_t part = dtype_bytes(t->dtype);
      CHECK(interp_dims(t, symbols, dims));
      for (int d = 0; d < t->rank; d++) part *= (uint64_t)dims[d];
      bytes += part;
    }
  }
  return bytes;
}

/* `share`: the part of all states on the rank that keeps most; the ranks of all stages together keep `copies` times all
 * of them (0: not checked). */
static void check_memory(ApcModel *model, const E2eModel *e, const char *what, double share, double copies) {
  const double whole =
      4 * 2 * (double)BATCH * 2 * 24 * 8 * 4; /* layers, keys and values, batch, heads, positions, size, f32 */
  double most = 0, all = 0;
  for (int rank = 0; rank < apc_ranks(model); rank++) {
    ApcReport is, foretold;
    CHECK(apc_report(model, rank, &is) == APC_OK && apc_predict(model, rank, &foretold) == APC_OK);
    most = fmax(most, (double)is.state_bytes);
    all += (double)is.state_bytes;
    uint64_t read = kept(e, rank);
    for (int other = 0; other < apc_ranks(model);
         other++) /* all ranks of a stage keep equally much: 4 ranks, batch 2 */
      if (other / (apc_ranks(model) / e->m->mesh.stages) == rank / (apc_ranks(model) / e->m->mesh.stages) &&
          kept(e, other) > read)
        read = kept(e, other);
    CHECKF(is.state_bytes == foretold.state_bytes && is.state_bytes == read,
           "%s: rank %d: state is %llu, predicted %llu, read %llu", what, rank, (unsigned long long)is.state_bytes,
           (unsigned long long)foretold.state_bytes, (unsigned long long)read);
    CHECKF(is.param_bytes == foretold.param_bytes, "%s: rank %d: weights are %llu, predicted %llu", what, rank,
           (unsigned long long)is.param_bytes, (unsigned long long)foretold.param_bytes);
  }
  CHECKF(most <= share * whole && (copies == 0 || all == copies * whole),
         "%s: a rank keeps %.3f of the states, all keep %.3f", what, most / whole, all / whole);
}

/* States have the sizes of the first request until they are reset. */
static void check_other_batch(ApcModel *model, const char *what) {
  int64_t tokens[3 * PROMPT] = {1, 2, 3}, at = 0;
  bool bound = apc_select(model, "prefill") == APC_OK &&
               apc_bind_input(model, "tokens", APC_I64, 2, (int64_t[]){3, PROMPT}, tokens) == APC_OK &&
               apc_bind_input(model, "at", APC_I64, 0, NULL, &at) == APC_OK;
  CHECKF(bound, "%s: %s", what, apc_error(model));
  CHECKF(apc_run(model, NULL) == APC_BAD_INPUT && strstr(apc_error(model), "other sizes"), "%s: %s", what,
         apc_error(model));
  CHECKF(apc_reset(model) == APC_OK && apc_run(model, NULL) == APC_OK, "%s, batch 3: %s", what, apc_error(model));
  CHECKF(apc_reset(model) == APC_OK, "%s: %s", what, apc_error(model));
}

static void check_target(const char *target, PlanOptions options, double share, double copies) {
  char what[120];
  snprintf(what, sizeof what, "%s, tp %d pp %d dp %d, %d micro-batches", target, options.degree[DEGREE_tp],
           options.degree[DEGREE_pp], options.degree[DEGREE_dp], options.micro_batches);
  E2eModel e;
  ApcModel *model = NULL;
  const char *out = temp_path("cached");
  bool ok = e2e_load(&e, "examples/llama.apc", 8, defines, 2, hints, 2, (const char *const[]){"prefill", "decode"}) &&
            e2e_compile(&e, target, &options, out);
  CHECKF(ok, "%s", what);
  if (ok) {
    CHECKF(apc_load(out, NULL, &model) == APC_OK && apc_entries(model) == 2, "%s: %s", what, apc_error(model));
    for (int p = 0; p < PROMPTS; p++) {
      check_prompt(model, what, p);
      if (p == 0) {
        check_memory(model, &e, what, share, copies);
        check_other_batch(model, what);
      }
    }
    apc_close(model);
  }
  e2e_free(&e);
}

static void test_one_rank(void) { check_target("cpu", (PlanOptions){0}, 1, 1); }
static void test_two_ranks(void) { check_target("cpux2", (PlanOptions){0}, 0.5, 1); }
static void test_four_ranks(void) { check_target("cpux4", (PlanOptions){0}, 0.5, 0); }
static void test_tp_2(void) { check_target("cpux2", (PlanOptions){.degree[DEGREE_tp] = 2}, 0.5, 1); }
static void test_dp_2(void) { check_target("cpux2", (PlanOptions){.degree[DEGREE_dp] = 2}, 0.5, 1); }
static void test_tp_4(void) { check_target("cpux4", (PlanOptions){.degree[DEGREE_tp] = 4}, 0.5, 0); }
static void test_pp_2(void) {
  check_target("cpux2", (PlanOptions){.degree[DEGREE_pp] = 2, .micro_batches = 1}, 0.5, 1);
}
static void test_pp_4(void) {
  check_target("cpux4", (PlanOptions){.degree[DEGREE_pp] = 4, .micro_batches = 1}, 0.25, 1);
}
static void test_tp_pp(void) {
  check_target("cpux4", (PlanOptions){.degree = {[DEGREE_tp] = 2, [DEGREE_pp] = 2}, .micro_batches = 1}, 0.25, 1);
}
static void test_pp_2_mb_2(void) {
  check_target("cpux2", (PlanOptions){.degree[DEGREE_pp] = 2, .micro_batches = 2}, 0.5, 1);
}
static void test_tp_pp_mb_2(void) {
  check_target("cpux4", (PlanOptions){.degree = {[DEGREE_tp] = 2, [DEGREE_pp] = 2}, .micro_batches = 2}, 0.25, 1);
}

int main(int argc, char **argv) {
  int status;
  if (!e2e_start(argc, argv, &status)) return status;
  RUN(test_reference);
  RUN(test_one_rank);
  RUN(test_two_ranks);
  RUN(test_four_ranks);
  RUN(test_tp_2);
  RUN(test_dp_2);
  RUN(test_tp_4);
  RUN(test_pp_2);
  RUN(test_pp_4);
  RUN(test_tp_pp);
  RUN(test_pp_2_mb_2);
  RUN(test_tp_pp_mb_2);
  return test_summary();
}
