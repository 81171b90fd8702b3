/* tests/e2e/prepare.c - weights that are computed from weights: the model's numbers on ranks of every kind, computed
 * once, in the predicted memory.
 *
 * The reference is the interpreter on the model as it was read, before any pass.
 *
 * usage: e2e_prepare BUILD */
#include "tests/e2e/e2e.h"

/* Dequantised products with a scale per column and with one number, a 16-bit product, joined keys, weight norm of a
 * matrix that the first and the last product share.  %s is the file of weights. */
static const char model_text[] =
    "apc.ir 1\n"
    "symbol b hint 24\n"
    "symbol s hint 24\n"
    "blob \"%s\" bytes 20480\n"
    "param \"q1\" : i8[64, 96] = blob 0 offset 0 strides [96, 1]\n"
    "param \"scale\" : f32[96] = normal 0.02 seed 4\n"
    "param \"q2\" : i8[96, 64] = blob 0 offset 6144 strides [64, 1]\n"
    "param \"half\" : f16[64, 64] = blob 0 offset 12288 strides [64, 1]\n"
    "param \"k1\" : f32[64, 32] = normal 0.1 seed 6\n"
    "param \"k2\" : f32[64, 32] = normal 0.1 seed 7\n"
    "param \"v\" : f32[64, 64] = normal 0.1 seed 8\n"
    "param \"gain\" : f32[64] = uniform 1 seed 9\n"
    "func @main level 1 {\n"
    "  %%x = input {name=\"x\"} : f32[b, s, 64]\n"
    "  %%v = param {name=\"v\"} : f32[64, 64]\n"
    "  %%vv = mul %%v, %%v : f32[64, 64]\n"
    "  %%sum = reduce %%vv {axes=[0], op=sum} : f32[64]\n"
    "  %%norm = rsqrt %%sum : f32[64]\n"
    "  %%gain = param {name=\"gain\"} : f32[64]\n"
    "  %%gn = mul %%gain, %%norm : f32[64]\n"
    "  %%gns = broadcast %%gn {dims=[1]} : f32[64, 64]\n"
    "  %%wn = mul %%v, %%gns : f32[64, 64]\n"
    "  %%in = dot %%x, %%wn {spec=\"bsk,kn->bsn\"} : f32[b, s, 64]\n"
    "  %%q1 = param {name=\"q1\"} : i8[64, 96]\n"
    "  %%f1 = cast %%q1 {to=f32} : f32[64, 96]\n"
    "  %%scale = param {name=\"scale\"} : f32[96]\n"
    "  %%scales = broadcast %%scale {dims=[1]} : f32[64, 96]\n"
    "  %%w1 = mul %%f1, %%scales : f32[64, 96]\n"
    "  %%h = dot %%in, %%w1 {spec=\"bsk,kn->bsn\"} : f32[b, s, 96]\n"
    "  %%g = tanh %%h : f32[b, s, 96]\n"
    "  %%q2 = param {name=\"q2\"} : i8[96, 64]\n"
    "  %%f2 = cast %%q2 {to=f32} : f32[96, 64]\n"
    "  %%step = const {value=0.001} : f32[96, 64]\n"
    "  %%w2 = mul %%f2, %%step : f32[96, 64]\n"
    "  %%y = dot %%g, %%w2 {spec=\"bsk,kn->bsn\"} : f32[b, s, 64]\n"
    "  %%y16 = cast %%y {to=f16} : f16[b, s, 64]\n"
    "  %%half = param {name=\"half\"} : f16[64, 64]\n"
    "  %%z = dot %%y16, %%half {spec=\"bsk,kn->bsn\"} : f16[b, s, 64]\n"
    "  %%z32 = cast %%z {to=f32} : f32[b, s, 64]\n"
    "  %%k1 = param {name=\"k1\"} : f32[64, 32]\n"
    "  %%k2 = param {name=\"k2\"} : f32[64, 32]\n"
    "  %%k = concat %%k1, %%k2 {axis=1} : f32[64, 64]\n"
    "  %%a = dot %%z32, %%k {spec=\"bsk,kn->bsn\"} : f32[b, s, 64]\n"
    "  %%o = dot %%a, %%wn {spec=\"bsk,kn->bsn\"} : f32[b, s, 64]\n"
    "  output \"o\" %%o\n"
    "}\n";

/* A state whose size comes with the request, and a weight that is prepared before any request. */
static const char state_text[] =
    "apc.ir 1\n"
    "symbol s hint 24\n"
    "param \"g\" : f32[64] = uniform 1 seed 9\n"
    "state \"sum\" : f32[s, 64] = 0\n"
    "func @main level 1 {\n"
    "  %x = input {name=\"x\"} : f32[s, 64]\n"
    "  %g = param {name=\"g\"} : f32[64]\n"
    "  %g2 = mul %g, %g : f32[64]\n"
    "  %gs = broadcast %g2 {dims=[1]} : f32[s, 64]\n"
    "  %y = mul %x, %gs : f32[s, 64]\n"
    "  %old = read {name=\"sum\"} : f32[s, 64]\n"
    "  %new = add %old, %y : f32[s, 64]\n"
    "  write \"next\" %new {name=\"sum\"}\n"
    "  output \"o\" %new\n"
    "}\n";

/* The results of @prepare: w1, w2, half in f32, k and wn. */
enum { PREPARED_BYTES = 4 * (64 * 96 + 96 * 64 + 3 * 64 * 64) };

typedef struct Size {
  int64_t batch, seq;
} Size;
static const Size sizes[] = {{4, 12}, {1, 5}};
enum { NSIZES = sizeof sizes / sizeof *sizes };
static float *inputs[NSIZES], *references[NSIZES];
static const char *model_path, *state_path;

static size_t elements(const Size *s) { return (size_t)(s->batch * s->seq * 64); }

static float input_at(size_t i) { return (float)((double)((i * 7919 + 13) % 251) / 125.0 - 1); }

static void write_model(void) {
  static unsigned char weights[20480];
  static char text[sizeof model_text + 4096];
  for (size_t i = 0; i < 12288; i++) weights[i] = (unsigned char)(i * 37 % 255); /* i8: negative too */
  for (size_t i = 0; i < 4096; i++)
    dtype_store_f(DT_f16, weights + 12288 + 2 * i, (double)((i * 31 + 5) % 97) / 970.0 - 0.05);
  char *blob = strdup(temp_path("weights.bin"));
  temp_write(blob, weights, sizeof weights);
  model_path = strdup(temp_path("model.ir"));
  snprintf(text, sizeof text, model_text, blob);
  temp_write(model_path, text, strlen(text));
  state_path = strdup(temp_path("state.ir"));
  temp_write(state_path, state_text, strlen(state_text));
  free(blob);
}

/* ---- the reference: the model as it was read */

static bool interpret(E2eModel *e, int k) {
  const Size *s = &sizes[k];
  int64_t dims[] = {s->batch, s->seq, 64}, *values = ARENA_ARRAY(e->arena, int64_t, e->m->symbols.n);
  values[module_symbol(e->m, "b")] = s->batch;
  values[module_symbol(e->m, "s")] = s->seq;
  InterpNamed x = {"x", interp_tensor(e->arena, DT_f32, 3, dims)};
  InterpOptions options = {.symbols = values, .blob = e2e_weight};
  InterpResult result;
  inputs[k] = calloc(elements(s), sizeof(float));
  references[k] = calloc(elements(s), sizeof(float));
  for (size_t i = 0; i < elements(s); i++) x.tensor.cells[i].f = inputs[k][i] = input_at(i);
  if (!interp_run(e->m, module_func(e->m, "main"), &options, 1, &x, e->arena, &result, e->diags)) return false;
  for (size_t i = 0; i < elements(s); i++) references[k][i] = (float)result.outputs[0].tensor.cells[i].f;
  return true;
}

static void test_reference(void) { e2e_interpret(model_path, NSIZES, interpret); }

/* ---- programs */

static bool run(ApcModel *m, const char *what, int k) {
  const Size *s = &sizes[k];
  float *got = calloc(elements(s), sizeof *got);
  bool ok = apc_bind_input(m, "x", APC_F32, 3, (int64_t[]){s->batch, s->seq, 64}, inputs[k]) == APC_OK &&
            apc_run(m, NULL) == APC_OK && apc_read_output(m, "o", got, elements(s) * sizeof *got) == APC_OK;
  CHECKF(ok, "%s: %s", what, apc_error(m));
  double distance = ok ? e2e_distance(got, references[k], elements(s)) : 1;
  CHECKF(distance < 1e-3, "%s: distance %g", what,
         distance); /* the product in 16 bits is rounded, the interpreter's is not */
  free(got);
  return ok;
}

/* A rank holds the predicted bytes, which the planner counted too; the weights that others are computed from are not
 * kept. */
static void check_memory(ApcModel *m, const char *what, int k, double part, double planned) {
  bool busiest = false;
  for (int rank = 0; rank < apc_ranks(m); rank++) {
    ApcReport is = {0}, foretold = {0};
    CHECKF(apc_report(m, rank, &is) == APC_OK && apc_predict(m, rank, &foretold) == APC_OK, "%s: %s", what,
           apc_error(m));
    CHECKF(is.param_bytes == foretold.param_bytes, "%s: rank %d keeps %llu bytes of weights, predicted %llu", what,
           rank, (unsigned long long)is.param_bytes, (unsigned long long)foretold.param_bytes);
    CHECKF(is.mapped_bytes == 0 && foretold.mapped_bytes == 0, "%s: rank %d keeps weights that only @prepare reads",
           what, rank);
    if (k == 0)
      CHECKF(is.arena_bytes == foretold.arena_bytes, "%s: rank %d has an arena of %llu bytes, predicted %llu", what,
             rank, (unsigned long long)is.arena_bytes, (unsigned long long)foretold.arena_bytes);
    CHECKF(is.window_bytes == foretold.window_bytes, "%s: window of rank %d", what, rank);
    CHECKF((double)is.param_bytes <= part * PREPARED_BYTES, "%s: rank %d keeps %.3f of the weights", what, rank,
           (double)is.param_bytes / PREPARED_BYTES);
    CHECKF(is.prepared == 1, "%s: rank %d prepared its weights %llu times", what, rank,
           (unsigned long long)is.prepared);
    busiest |= fabs(planned - (double)is.param_bytes) <= 0.02 * (double)is.param_bytes + 64;
  }
  CHECKF(busiest, "%s: the planner counts %g bytes of weights, no rank keeps as much", what, planned);
}

static void check_program(const char *target, PlanOptions options, double part) {
  char what[200];
  snprintf(what, sizeof what, "%s, tp %d pp %d dp %d, %d micro-batches", target, options.degree[DEGREE_tp],
           options.degree[DEGREE_pp], options.degree[DEGREE_dp], options.micro_batches);
  E2eModel e;
  const char *out = temp_path("program");
  ApcModel *m = NULL;
  bool ok = e2e_load(&e, model_path, 0, NULL, 0, NULL, 1, (const char *const[]){"main"}) &&
            e2e_compile(&e, target, &options, out);
  CHECKF(ok, "%s", what);
  if (ok) {
    CHECKF(apc_load(out, NULL, &m) == APC_OK, "%s: %s", what, apc_error(m));
    CHECKF(strstr(apc_describe(m, 1), "\"weights\": 24736,"), "%s: the number of weights is not the model's", what);
    CHECKF(!strstr(apc_describe(m, 1), "\"prepare\""), "%s: @prepare is shown as an entry", what);
    for (int i = 0; i < 3; i++) {
      int k = i == 2;
      if (!run(m, what, k)) break;
      check_memory(m, what, k, part, e.build.plan->price.memory.params);
    }
    apc_close(m);
  }
  e2e_free(&e);
}

static void test_one_rank(void) { check_program("cpu", (PlanOptions){0}, 1); }
static void test_two_ranks(void) { check_program("cpux2", (PlanOptions){0}, 1); }
static void test_three_ranks(void) { check_program("cpux3", (PlanOptions){0}, 1); }
static void test_four_ranks(void) { check_program("cpux4", (PlanOptions){0}, 1); }
static void test_tp_2(void) { check_program("cpux2", (PlanOptions){.degree[DEGREE_tp] = 2}, 0.51); }
/* 64 is not a multiple of 3. */
static void test_tp_3(void) { check_program("cpux3", (PlanOptions){.degree[DEGREE_tp] = 3}, 0.36); }
static void test_tp_4(void) { check_program("cpux4", (PlanOptions){.degree[DEGREE_tp] = 4}, 0.26); }
static void test_dp(void) { check_program("cpux4", (PlanOptions){.degree[DEGREE_dp] = 4}, 1); }
static void test_pp(void) { check_program("cpux4", (PlanOptions){.degree[DEGREE_pp] = 4}, 0.51); }
static void test_pp_mb(void) { check_program("cpux2", (PlanOptions){.degree[DEGREE_pp] = 2, .micro_batches = 4}, 0.8); }
static void test_tp_pp(void) {
  check_program("cpux4", (PlanOptions){.degree = {[DEGREE_tp] = 2, [DEGREE_pp] = 2}}, 0.4);
}

static bool run_state(ApcModel *m, const float *x, float *out) {
  return apc_bind_input(m, "x", APC_F32, 2, (int64_t[]){5, 64}, x) == APC_OK && apc_run(m, NULL) == APC_OK &&
         apc_read_output(m, "o", out, 5 * 64 * sizeof *out) == APC_OK;
}

/* Preparation runs before the first request; states take their size from that request and are not created anew.
 * Weights given at the start instead of the model's own are prepared like them. */
static void test_states_and_weights(void) {
  static const char header[] = "{\"g\":{\"dtype\":\"F32\",\"shape\":[64],\"data_offsets\":[0,256]}}";
  unsigned char file[8 + sizeof header - 1 + 256] = {sizeof header - 1};
  E2eModel e;
  const char *out = temp_path("program"), *weights = temp_path("twos.safetensors");
  ApcModel *own = NULL, *given = NULL;
  float x[5 * 64], once[5 * 64], twice[5 * 64], other[5 * 64], two = 2;
  memcpy(file + 8, header, sizeof header - 1);
  for (size_t i = 0; i < 64; i++) memcpy(file + 8 + sizeof header - 1 + 4 * i, &two, 4);
  temp_write(weights, file, sizeof file);
  for (size_t i = 0; i < 5 * 64; i++) x[i] = input_at(i);
  bool ok = e2e_load(&e, state_path, 0, NULL, 0, NULL, 1, (const char *const[]){"main"}) &&
            e2e_compile(&e, "cpux2", &(PlanOptions){0}, out);
  CHECK(ok);
  if (ok) {
    ok = apc_load(out, NULL, &own) == APC_OK && run_state(own, x, once) && run_state(own, x, twice);
    CHECKF(ok, "%s", apc_error(own));
    for (size_t i = 0; ok && i < 5 * 64; i++)
      CHECK((once[i] != 0) == (x[i] != 0) && fabsf(twice[i] - 2 * once[i]) <= 1e-6f);
    ok = apc_load(out, &(ApcOptions){.weights = weights}, &given) == APC_OK && run_state(given, x, other);
    CHECKF(ok, "%s", apc_error(given));
    for (size_t i = 0; ok && i < 5 * 64; i++) CHECK(other[i] == 4 * x[i]);
    apc_close(own);
    apc_close(given);
  }
  e2e_free(&e);
}

int main(int argc, char **argv) {
  int status;
  if (!e2e_start(argc, argv, &status)) return status;
  write_model();
  RUN(test_reference);
  RUN(test_one_rank);
  RUN(test_two_ranks);
  RUN(test_three_ranks);
  RUN(test_four_ranks);
  RUN(test_tp_2);
  RUN(test_tp_3);
  RUN(test_tp_4);
  RUN(test_dp);
  RUN(test_pp);
  RUN(test_pp_mb);
  RUN(test_tp_pp);
  RUN(test_states_and_weights);
  for (int k = 0; k < NSIZES; k++) {
    free(inputs[k]);
    free(references[k]);
  }
  return test_summary();
}
