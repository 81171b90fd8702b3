/* tests/e2e/forced.c - every way to split a model gives the model's numbers, shares the work, and takes the predicted
 * memory.
 *
 * usage: e2e_forced BUILD gpt|llama|onnx */
#include "tests/e2e/e2e.h"

typedef struct Subject {
  const char *name, *path;
  int ndefines;
  DslDefine defines[8];
  int64_t vocab;
} Subject;

static const Subject subjects[] = {
    {"gpt", "examples/gpt.apc", 5, {{"layers", "4"}, {"d", "32"}, {"heads", "4"}, {"vocab", "64"}, {"ctx", "32"}}, 64},
    {"llama",
     "examples/llama.apc",
     6,
     {{"layers", "4"}, {"d", "32"}, {"heads", "4"}, {"kv_heads", "4"}, {"ffn", "64"}, {"vocab", "64"}},
     64},
    {"onnx", "examples/gpt-tiny.onnx", 0, {{0}}, 512},
};
static const Subject *subject;

/* Plans are for one size, requests have others. */
static const E2eHint hints[] = {{"batch", 24}, {"seq", 24}};
typedef struct Size {
  int64_t batch, seq;
} Size;
static const Size sizes[] = {{4, 12}, {1, 12}, {3, 7}};
enum { NSIZES = sizeof sizes / sizeof *sizes };

typedef struct Reference {
  int64_t *tokens;
  float *logits;
  size_t n;
} Reference;
static Reference references[NSIZES];
static double one_rank_params;

static bool load(E2eModel *e) {
  return e2e_load(e, subject->path, subject->ndefines, subject->defines, 2, hints, 1, (const char *const[]){"main"});
}

/* ---- the reference interpreter, once per size */

static bool interpret(E2eModel *e, const Size *s, Reference *r) {
  int64_t dims[] = {s->batch, s->seq}, *values = e2e_sizes(e, s->batch, s->seq);
  InterpNamed tokens = {"tokens", interp_tensor(e->arena, DT_i64, 2, dims)};
  r->tokens = malloc((size_t)(s->batch * s->seq) * sizeof *r->tokens);
  for (int64_t i = 0; i < s->batch * s->seq; i++)
    r->tokens[i] = tokens.tensor.cells[i].i = (i * i * 7 + 13 * i + 5 * s->seq) % subject->vocab;
  InterpResult result;
  InterpOptions options = {.symbols = values, .blob = e2e_weight};
  if (!interp_run(e->m, e->l1[0], &options, 1, &tokens, e->arena, &result, e->diags)) return false;
  const InterpTensor *y = &result.outputs[0].tensor;
  r->n = (size_t)interp_elements(y);
  r->logits = malloc(r->n * sizeof *r->logits);
  for (size_t i = 0; i < r->n; i++) r->logits[i] = (float)y->cells[i].f;
  return true;
}

static void test_reference(void) {
  E2eModel e;
  bool ok = load(&e);
  for (int i = 0; ok && i < NSIZES; i++) ok = interpret(&e, &sizes[i], &references[i]);
  if (!ok) e2e_diags(&e);
  CHECK(ok);
  e2e_free(&e);
}

/* ---- one program */

/* Memory for activations and communication grows with the requests and is kept: it equals the prediction for the
 * largest request so far. */
typedef struct Largest {
  uint64_t arena, window;
} Largest;

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void check_memory(ApcModel *model, const char *what, Largest *largest, double *params) {
  *params = 0;
  for (int rank = 0; rank < apc_ranks(model); rank++) {
    ApcReport is = {0}, foretold = {0};
    CHECKF(apc_report(model, rank, &is) == APC_OK && apc_predict(model, rank, &foretold) == APC_OK, "%s: %s", what,
           apc_error(model));
    foretold.arena_bytes = largest[rank].arena = larger(largest[rank].arena, foretold.arena_bytes);
    foretold.window_bytes = largest[rank].window = larger(largest[rank].window, foretold.window_bytes);
#define SAME(field) \
  CHECKF(is.field == foretold.field, "%s: rank %d: " #field " is %llu, predicted %llu", what, rank, \
         (unsigned long long)is.field, (unsigned long long)foretold.field)
    SAME(param_bytes);
    SAME(mapped_bytes);
    SAME(state_bytes);
    SAME(arena_bytes);
    SAME(window_bytes);
#undef SAME
    *params = fmax(*params, (double)(is.param_bytes + is.mapped_bytes));
  }
}

static void check_size(ApcModel *model, const char *what, const Size *s, const Reference *r, Largest *largest,
                       double *params) {
  float *got = calloc(r->n, sizeof *got);
  bool ran = apc_bind_input(model, "tokens", APC_I64, 2, (int64_t[]){s->batch, s->seq}, r->tokens) == APC_OK &&
             apc_run(model, NULL) == APC_OK && apc_read_output(model, "logits", got, r->n * sizeof *got) == APC_OK;
  CHECKF(ran, "%s, batch %d, seq %d: %s", what, (int)s->batch, (int)s->seq, apc_error(model));
  if (ran) {
    double distance = e2e_distance(got, r->logits, r->n);
    CHECKF(distance <= 1e-4, "%s, batch %d, seq %d: distance %g", what, (int)s->batch, (int)s->seq, distance);
    check_memory(model, what, largest, params);
  }
  free(got);
}

/* The most work, at the planned sizes, and weights of the busiest rank, as parts of the whole; 0: not checked. */
static void check_program(const char *target, PlanOptions options, double work, double weights) {
  char what[200];
  snprintf(what, sizeof what, "%s on %s, tp %d pp %d dp %d, %d micro-batches", subject->name, target,
           options.degree[DEGREE_tp], options.degree[DEGREE_pp], options.degree[DEGREE_dp], options.micro_batches);
  E2eModel e;
  const char *out = temp_path("model");
  double params = 0;
  bool ok = load(&e) && e2e_compile(&e, target, &options, out);
  CHECKF(ok, "%s", what);
  ApcModel *model = NULL;
  if (ok) {
    for (int d = 0; d < DEGREE_COUNT; d++) CHECK(!options.degree[d] || e.build.plan->degree[d] == options.degree[d]);
    CHECK(!options.micro_batches || e.build.plan->micro_batches == options.micro_batches);
    CHECKF(apc_load(out, NULL, &model) == APC_OK, "%s: %s", what, apc_error(model));
    Largest largest[4] = {0};
    for (int i = 0; i < NSIZES; i++) check_size(model, what, &sizes[i], &references[i], largest, &params);
    apc_close(model);
    const int64_t *planned = e2e_sizes(&e, hints[0].size, hints[1].size);
    double part = e2e_flops(&e, e.l2[0], planned) / e2e_flops(&e, e.l1[0], planned);
    if (work > 0)
      CHECKF(part <= work, "%s: the busiest rank does %.3f of the work (tp %d pp %d dp %d)", what, part,
             e.build.plan->degree[DEGREE_tp], e.build.plan->degree[DEGREE_pp], e.build.plan->degree[DEGREE_dp]);
    if (weights > 0)
      CHECKF(params <= weights * one_rank_params, "%s: a rank keeps %.3f of the weights", what,
             params / one_rank_params);
    if (e.build.plan->ranks == 1) one_rank_params = params;
  }
  e2e_free(&e);
}

static void test_one_rank(void) { check_program("cpu", (PlanOptions){0}, 1.001, 0); }
static void test_two_ranks(void) { check_program("cpux2", (PlanOptions){0}, 0.55, 0); }
static void test_three_ranks(void) { check_program("cpux3", (PlanOptions){0}, 0.4, 0); }
static void test_four_ranks(void) { check_program("cpux4", (PlanOptions){0}, 0.4, 0); }
static void test_tp(void) { check_program("cpux4", (PlanOptions){.degree[DEGREE_tp] = 4}, 0.4, 0.4); }
static void test_dp(void) { check_program("cpux4", (PlanOptions){.degree[DEGREE_dp] = 4}, 0.4, 0); }
static void test_pp(void) { check_program("cpux4", (PlanOptions){.degree[DEGREE_pp] = 4}, 0.4, 0.42); }
static void test_pp_at_once(void) {
  check_program("cpux4", (PlanOptions){.degree[DEGREE_pp] = 4, .micro_batches = 1}, 0.4, 0.42);
}
static void test_tp_pp(void) {
  check_program("cpux4", (PlanOptions){.degree = {[DEGREE_tp] = 2, [DEGREE_pp] = 2}}, 0.4, 0.4);
}
/* Halves of everything, and sizes that do not divide. */
static void test_pp_1(void) {
  check_program("cpux2", (PlanOptions){.degree[DEGREE_pp] = 2, .micro_batches = 1}, 0.65, 0.6);
}
static void test_pp_2(void) {
  check_program("cpux2", (PlanOptions){.degree[DEGREE_pp] = 2, .micro_batches = 2}, 0.65, 0.6);
}
static void test_pp_4(void) {
  check_program("cpux2", (PlanOptions){.degree[DEGREE_pp] = 2, .micro_batches = 4}, 0.65, 0.6);
}

int main(int argc, char **argv) {
  if (apc_is_rank(argc, argv)) return apc_rank_main(argc, argv);
  for (size_t i = 0; argc == 3 && i < sizeof subjects / sizeof *subjects; i++)
    if (strcmp(subjects[i].name, argv[2]) == 0) subject = &subjects[i];
  if (!subject) {
    fprintf(stderr, "usage: %s BUILD gpt|llama|onnx\n", argv[0]);
    return 2;
  }
  e2e_build = argv[1];
  RUN(test_reference);
  RUN(test_one_rank);
  RUN(test_two_ranks);
  RUN(test_three_ranks);
  RUN(test_four_ranks);
  RUN(test_tp);
  RUN(test_dp);
  RUN(test_pp);
  RUN(test_pp_at_once);
  RUN(test_tp_pp);
  RUN(test_pp_1);
  RUN(test_pp_2);
  RUN(test_pp_4);
  for (int i = 0; i < NSIZES; i++) {
    free(references[i].tokens);
    free(references[i].logits);
  }
  return test_summary();
}
