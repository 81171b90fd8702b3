/* tests/e2e/moe.c - a mixture of experts on 2 and 4 ranks: the numbers of one rank, including the dropped tokens; the
 * predicted bytes; the arithmetic of the formulas.
 *
 * usage: e2e_moe BUILD */
#include "program/artifact.h"
#include "program/traffic.h"
#include "tests/e2e/e2e.h"

enum {
  LAYERS = 2,
  D = 32,
  HEADS = 4,
  KV_HEADS = 2,
  FFN = 48,
  EXPERTS = 8,
  TOP_K = 2,
  VOCAB = 50,
  BATCH = 4,
  SEQ = 16,
  MAX_EXTRA = 4
};

typedef struct Routing {
  const char *name;
  int nextra;
  DslDefine extra[MAX_EXTRA];
  int capacity;  /* places of an expert per group; 0 for no limit */
  bool dropless; /* a token meets its own experts only */
} Routing;

static const Routing routings[] = {
    {"dense", 0, {{0}}, 0, false},
    {"capacity", 1, {{"routing", "capacity"}}, 5, false},
    {"dropping", 2, {{"routing", "capacity"}, {"capacity_factor", "0.5"}}, 2, false},
    {"dropless", 1, {{"routing", "dropless"}}, 0, true},
};
enum { NROUTINGS = sizeof routings / sizeof *routings, NLOGITS = BATCH * SEQ * VOCAB };

static const E2eHint hints[] = {{"batch", BATCH}, {"seq", SEQ}};
static int64_t tokens[BATCH * SEQ];
static float reference[NROUTINGS][NLOGITS], one_rank[NROUTINGS][NLOGITS];

static bool load(E2eModel *e, const Routing *r) {
  DslDefine defines[6 + MAX_EXTRA] = {{"layers", "2"},   {"d", "32"},   {"heads", "4"},
                                      {"kv_heads", "2"}, {"ffn", "48"}, {"vocab", "50"}};
  for (int i = 0; i < r->nextra; i++) defines[6 + i] = r->extra[i];
  return e2e_load(e, "examples/moe.apc", 6 + r->nextra, defines, 2, hints, 1, (const char *const[]){"main"});
}

/* ---- the reference interpreter, and the arithmetic by hand */

static double attention_flops(void) {
  const double n = BATCH * SEQ, group = HEADS / KV_HEADS;
  return n * 2 * D * (2 * D + 2 * D / group) + 4.0 * BATCH * SEQ * SEQ * D;
}

/* A token meets all experts or only its own, or an expert all its places; plus the router, and the weighted sum, which
 * is no contraction if dropless. */
static double mixture_flops(const Routing *r) {
  const double n = BATCH * SEQ, met = r->dropless   ? n * TOP_K
                                      : r->capacity ? (double)BATCH * EXPERTS * r->capacity
                                                    : n * EXPERTS;
  return n * 2 * D * EXPERTS + met * 3 * 2 * D * FFN + n * 2 * D * (r->dropless ? 0 : r->capacity ? TOP_K : EXPERTS);
}

static void interpret(int i) {
  E2eModel e;
  bool ok = load(&e, &routings[i]);
  CHECK(ok);
  if (!ok) return;
  int64_t *sizes = e2e_sizes(&e, BATCH, SEQ);
  InterpNamed input = {"tokens", interp_tensor(e.arena, DT_i64, 2, (int64_t[]){BATCH, SEQ})};
  for (int k = 0; k < BATCH * SEQ; k++) input.tensor.cells[k].i = tokens[k] = (k * k * 7 + 13 * k + 5) % VOCAB;
  InterpResult result;
  InterpOptions options = {.symbols = sizes, .blob = e2e_weight};
  ok = interp_run(e.m, e.l1[0], &options, 1, &input, e.arena, &result, e.diags);
  CHECK(ok);
  for (int k = 0; ok && k < NLOGITS; k++) reference[i][k] = (float)result.outputs[0].tensor.cells[k].f;
  double got = e2e_flops(&e, e.l1[0], sizes),
         want = LAYERS * (attention_flops() + mixture_flops(&routings[i])) + 2.0 * BATCH * SEQ * D * VOCAB;
  CHECKF(got == want, "%s: %.0f operations, %.0f by hand", routings[i].name, got, want);
  e2e_free(&e);
}

static void test_references(void) {
  for (int i = 0; i < NROUTINGS; i++) interpret(i);
  double loose = e2e_distance(reference[1], reference[0], NLOGITS),
         tight = e2e_distance(reference[2], reference[0], NLOGITS);
  CHECKF(tight > 1e-3 && tight > loose, "half the capacity drops nothing: %g, %g", loose, tight);
  double exact = e2e_distance(reference[3], reference[0], NLOGITS);
  CHECKF(exact <= 1e-6, "dropless is not dense: %g", exact);
}

/* ---- one program */

/* The ranks send as many bytes as the artifact says. */
static void check_traffic(const char *what, const char *path, ApcModel *model, uint64_t all[COMM_KIND_COUNT]) {
  Artifact a;
  RtError error = {0};
  CHECKF(artifact_open(path, what, &a, &error) == RT_OK, "%s: %s", what, error.text);
  int64_t symbols[8] = {0};
  for (uint32_t i = 0; i < a.program.n_symbols && i < 8; i++)
    symbols[i] = strcmp(program_text(&a.program, a.program.symbols[i].name), "batch") == 0 ? BATCH : SEQ;
  for (uint32_t rank = 0; rank < a.program.ranks; rank++) {
    uint64_t sent[COMM_KIND_COUNT] = {0}, sum = 0;
    ApcReport report = {0};
    CHECKF(traffic_sent(&a.program, 0, rank, symbols, sent, &error) == RT_OK, "%s: %s", what, error.text);
    CHECKF(apc_report(model, (int)rank, &report) == APC_OK, "%s: %s", what, apc_error(model));
    for (int k = 0; k < COMM_KIND_COUNT; k++) sum += sent[k], all[k] += sent[k];
    CHECKF(sum == report.sent_bytes && sum > 0, "%s: rank %u: %llu bytes predicted, %llu sent", what, rank,
           (unsigned long long)sum, (unsigned long long)report.sent_bytes);
  }
  artifact_close(&a);
}

/* Tokens go to their experts and back, all places of a group, except the part that stays: the same volume twice per
 * layer. */
static uint64_t exchanged_by_hand(const Routing *r, const Plan *p) {
  uint64_t places = (uint64_t)(BATCH * EXPERTS * r->capacity * D) * sizeof(float);
  return 2 * LAYERS * places * (uint64_t)(p->degree[DEGREE_ep] - 1) / (uint64_t)p->degree[DEGREE_ep];
}

static void check_program(int i, const char *target, PlanOptions options) {
  const Routing *r = &routings[i];
  char what[100];
  snprintf(what, sizeof what, "%s on %s, ep %d tp %d dp %d", r->name, target, options.degree[DEGREE_ep],
           options.degree[DEGREE_tp], options.degree[DEGREE_dp]);
  E2eModel e;
  const char *out = temp_path("moe");
  bool ok = load(&e, r) && e2e_compile(&e, target, &options, out);
  CHECKF(ok, "%s", what);
  ApcModel *model = NULL;
  static float got[NLOGITS];
  if (ok) {
    CHECKF(e.build.plan->degree[DEGREE_ep] == (options.degree[DEGREE_ep] ? options.degree[DEGREE_ep] : 1) &&
               (!options.degree[DEGREE_tp] || e.build.plan->degree[DEGREE_tp] == options.degree[DEGREE_tp]) &&
               (!options.degree[DEGREE_dp] || e.build.plan->degree[DEGREE_dp] == options.degree[DEGREE_dp]),
           "%s", what);
    bool ran = apc_load(out, NULL, &model) == APC_OK &&
               apc_bind_input(model, "tokens", APC_I64, 2, (int64_t[]){BATCH, SEQ}, tokens) == APC_OK &&
               apc_run(model, NULL) == APC_OK && apc_read_output(model, "logits", got, sizeof got) == APC_OK;
    CHECKF(ran, "%s: %s", what, apc_error(model));
    if (e.build.plan->ranks == 1) memcpy(one_rank[i], got, sizeof got);
    double distance = e2e_distance(got, reference[i], NLOGITS), alike = e2e_distance(got, one_rank[i], NLOGITS);
    CHECKF(distance <= 1e-5 && alike <= 1e-5, "%s: distance %g, of one rank %g", what, distance, alike);
    uint64_t sent[COMM_KIND_COUNT] = {0};
    if (e.build.plan->ranks > 1) check_traffic(what, out, model, sent);
    if (r->capacity && options.degree[DEGREE_ep] && !options.degree[DEGREE_tp])
      CHECKF(sent[COMM_all_to_all] == exchanged_by_hand(r, e.build.plan), "%s: %llu bytes exchanged, %llu by hand",
             what, (unsigned long long)sent[COMM_all_to_all], (unsigned long long)exchanged_by_hand(r, e.build.plan));
    apc_close(model);
  }
  e2e_free(&e);
}

static void on_every_routing(const char *target, PlanOptions options) {
  for (int i = 0; i < NROUTINGS; i++) check_program(i, target, options);
}

static void test_one_rank(void) { on_every_routing("cpu", (PlanOptions){0}); }
static void test_two_ranks(void) { on_every_routing("cpux2", (PlanOptions){.degree[DEGREE_ep] = 2}); }
static void test_four_ranks(void) { on_every_routing("cpux4", (PlanOptions){.degree[DEGREE_ep] = 4}); }
static void test_with_tp(void) {
  on_every_routing("cpux4", (PlanOptions){.degree = {[DEGREE_ep] = 2, [DEGREE_tp] = 2}});
}
static void test_tp_and_dp(void) {
  on_every_routing("cpux4", (PlanOptions){.degree = {[DEGREE_tp] = 2, [DEGREE_dp] = 2}});
}
static void test_with_dp(void) {
  on_every_routing("cpux4", (PlanOptions){.degree = {[DEGREE_ep] = 2, [DEGREE_dp] = 2}});
}

int main(int argc, char **argv) {
  int status;
  if (!e2e_start(argc, argv, &status)) return status;
  RUN(test_references);
  RUN(test_one_rank);
  RUN(test_two_ranks);
  RUN(test_four_ranks);
  RUN(test_with_tp);
  RUN(test_with_dp);
  RUN(test_tp_and_dp);
  return test_summary();
}
