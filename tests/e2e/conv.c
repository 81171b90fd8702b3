/* tests/e2e/conv.c - a model with convolutions of every kind gives the interpreter's numbers: with and without the
 * library, on one rank and on several, in requests of several sizes.
 *
 * usage: e2e_conv BUILD */
#include <sys/stat.h>

#include "tests/e2e/e2e.h"

/* Bias and relu; asymmetric padding, dilation and a residual; depthwise and silu; groups and sigmoid; channels that no
 * block divides and tanh; weights that two convolutions share; 16 bits. */
static const char model_text[] =
    "apc.ir 1\n"
    "symbol b hint 24\n"
    "param \"w1\" : f32[16, 8, 3, 3] = normal 0.1 seed 1\n"
    "param \"b1\" : f32[16] = normal 0.1 seed 2\n"
    "param \"w2\" : f32[16, 16, 3, 3] = normal 0.1 seed 3\n"
    "param \"w3\" : f32[16, 1, 1, 3, 3] = normal 0.3 seed 4\n"
    "param \"w4\" : f32[2, 4, 8, 3, 3] = normal 0.1 seed 5\n"
    "param \"b4\" : f32[8] = normal 0.1 seed 6\n"
    "param \"w5\" : f32[30, 8, 3, 3] = normal 0.1 seed 7\n"
    "param \"w6\" : f16[16, 30, 3, 3] = normal 0.1 seed 8\n"
    "func @main level 1 {\n"
    "  %x = input {name=\"x\"} : f32[b, 8, 9, 7]\n"
    "  %w1 = param {name=\"w1\"} : f32[16, 8, 3, 3]\n"
    "  %b1 = param {name=\"b1\"} : f32[16]\n"
    "  %w2 = param {name=\"w2\"} : f32[16, 16, 3, 3]\n"
    "  %w3 = param {name=\"w3\"} : f32[16, 1, 1, 3, 3]\n"
    "  %w4 = param {name=\"w4\"} : f32[2, 4, 8, 3, 3]\n"
    "  %b4 = param {name=\"b4\"} : f32[8]\n"
    "  %w5 = param {name=\"w5\"} : f32[30, 8, 3, 3]\n"
    "  %w6 = param {name=\"w6\"} : f16[16, 30, 3, 3]\n"
    "  %bias = broadcast %b1 {dims=[1]} : f32[b, 16, 5, 7]\n"
    "  %c1 = conv %x, %w1 {starts=[-1, -1], strides=[2, 1], dilations=[1, 1], spec=\"ncHW,ocHW->noHW\"} : f32[b, 16, "
    "5, 7]\n"
    "  %a1 = add %c1, %bias : f32[b, 16, 5, 7]\n"
    "  %r1 = relu %a1 : f32[b, 16, 5, 7]\n"
    "  %c2 = conv %r1, %w2 {starts=[-1, -3], strides=[1, 1], dilations=[2, 2], spec=\"ncHW,ocHW->noHW\"} : f32[b, 16, "
    "5, 7]\n"
    "  %a2 = add %c2, %bias : f32[b, 16, 5, 7]\n"
    "  %s2 = add %r1, %a2 : f32[b, 16, 5, 7]\n"
    "  %r2 = relu %s2 : f32[b, 16, 5, 7]\n"
    "  %again = conv %r2, %w2 {starts=[-1, -1], strides=[1, 1], dilations=[1, 1], spec=\"ncHW,ocHW->noHW\"} : f32[b, "
    "16, 5, 7]\n"
    "  %deep = reshape %again : f32[b, 16, 1, 5, 7]\n"
    "  %c3 = conv %deep, %w3 {starts=[-1, -1], strides=[1, 1], dilations=[1, 1], spec=\"ngcHW,gocHW->ngoHW\"} : f32[b, "
    "16, 1, 5, 7]\n"
    "  %m3 = reshape %c3 : f32[b, 16, 5, 7]\n"
    "  %a3 = add %m3, %bias : f32[b, 16, 5, 7]\n"
    "  %g3 = sigmoid %a3 : f32[b, 16, 5, 7]\n"
    "  %r3 = mul %a3, %g3 : f32[b, 16, 5, 7]\n"
    "  %two = reshape %r3 : f32[b, 2, 8, 5, 7]\n"
    "  %c4 = conv %two, %w4 {starts=[-1, 0], strides=[1, 1], dilations=[1, 1], spec=\"ngcHW,gocHW->ngoHW\"} : f32[b, "
    "2, 4, 5, 5]\n"
    "  %m4 = reshape %c4 : f32[b, 8, 5, 5]\n"
    "  %bias4 = broadcast %b4 {dims=[1]} : f32[b, 8, 5, 5]\n"
    "  %a4 = add %m4, %bias4 : f32[b, 8, 5, 5]\n"
    "  %r4 = sigmoid %a4 : f32[b, 8, 5, 5]\n"
    "  %c5 = conv %r4, %w5 {starts=[-2, -1], strides=[2, 2], dilations=[1, 1], spec=\"ncHW,ocHW->noHW\"} : f32[b, 30, "
    "4, 3]\n"
    "  %r5 = tanh %c5 : f32[b, 30, 4, 3]\n"
    "  %h = cast %r5 {to=f16} : f16[b, 30, 4, 3]\n"
    "  %c6 = conv %h, %w6 {starts=[-1, -1], strides=[1, 1], dilations=[1, 1], spec=\"ncHW,ocHW->noHW\"} : f16[b, 16, "
    "4, 3]\n"
    "  %o6 = cast %c6 {to=f32} : f32[b, 16, 4, 3]\n"
    "  output \"y\" %r5\n"
    "  output \"z\" %o6\n"
    "}\n";

enum { IMAGE = 8 * 9 * 7, Y = 30 * 4 * 3, Z = 16 * 4 * 3 };
static const int64_t sizes[] = {4, 1, 5, 4};
enum { NSIZES = sizeof sizes / sizeof *sizes, MOST = 5 };
static float inputs[NSIZES][MOST * IMAGE], want_y[NSIZES][MOST * Y], want_z[NSIZES][MOST * Z];
static const char *model_path;

static bool interpret(E2eModel *e, int k) {
  int64_t dims[] = {sizes[k], 8, 9, 7}, *values = ARENA_ARRAY(e->arena, int64_t, e->m->symbols.n);
  values[module_symbol(e->m, "b")] = sizes[k];
  InterpNamed x = {"x", interp_tensor(e->arena, DT_f32, 4, dims)};
  InterpOptions options = {.symbols = values, .blob = e2e_weight};
  InterpResult result;
  for (int64_t i = 0; i < sizes[k] * IMAGE; i++)
    x.tensor.cells[i].f = inputs[k][i] = (float)((double)((i * 7919 + 13 + k) % 251) / 125.0 - 1);
  if (!interp_run(e->m, module_func(e->m, "main"), &options, 1, &x, e->arena, &result, e->diags)) return false;
  for (int64_t i = 0; i < sizes[k] * Y; i++) want_y[k][i] = (float)result.outputs[0].tensor.cells[i].f;
  for (int64_t i = 0; i < sizes[k] * Z; i++) want_z[k][i] = (float)result.outputs[1].tensor.cells[i].f;
  return true;
}

static void test_reference(void) { e2e_interpret(model_path, NSIZES, interpret); }

static void run(ApcModel *m, const char *what, int k) {
  static float y[MOST * Y], z[MOST * Z];
  size_t ny = (size_t)sizes[k] * Y, nz = (size_t)sizes[k] * Z;
  bool ok = apc_bind_input(m, "x", APC_F32, 4, (int64_t[]){sizes[k], 8, 9, 7}, inputs[k]) == APC_OK &&
            apc_run(m, NULL) == APC_OK && apc_read_output(m, "y", y, ny * sizeof *y) == APC_OK &&
            apc_read_output(m, "z", z, nz * sizeof *z) == APC_OK;
  CHECKF(ok, "%s: %s", what, apc_error(m));
  if (!ok) return;
  double far_y = e2e_distance(y, want_y[k], ny), far_z = e2e_distance(z, want_z[k], nz);
  CHECKF(far_y < 1e-5 && far_z < 1e-3, "%s, %d images: distances %g and %g", what, (int)sizes[k], far_y, far_z);
}

static void run_all(const char *program, const char *what) {
  ApcModel *m = NULL;
  CHECKF(apc_load(program, NULL, &m) == APC_OK, "%s: %s", what, apc_error(m));
  if (!m) return;
  for (int k = 0; k < NSIZES; k++) run(m, what, k);
  for (int rank = 0; rank < apc_ranks(m); rank++) {
    ApcReport is = {0}, foretold = {0};
    CHECKF(apc_report(m, rank, &is) == APC_OK && apc_predict(m, rank, &foretold) == APC_OK, "%s: %s", what,
           apc_error(m));
    CHECKF(is.param_bytes == foretold.param_bytes, "%s: rank %d keeps %llu bytes of weights, predicted %llu", what,
           rank, (unsigned long long)is.param_bytes, (unsigned long long)foretold.param_bytes);
  }
  apc_close(m);
}

/* Puts invalid files into this process's folder of libraries: the ranks run the kernels of the program instead. */
static void hide_library(void) {
  const char *folder = temp_path("no-libraries");
  char path[4096];
  mkdir(folder, 0700);
  for (int version = 2; version <= 3; version++) {
    snprintf(path, sizeof path, "%s/libdnnl.so.%d", folder, version);
    temp_write(path, "none", 4);
  }
  setenv("LD_LIBRARY_PATH", folder, 1);
}

static void check_program(const char *target, PlanOptions options) {
  char what[100];
  E2eModel e;
  const char *out = temp_path("program");
  bool ok = e2e_load(&e, model_path, 0, NULL, 0, NULL, 1, (const char *const[]){"main"}) &&
            e2e_compile(&e, target, &options, out);
  CHECKF(ok, "%s", target);
  if (ok) {
    const char *libraries = getenv("LD_LIBRARY_PATH");
    char *before = libraries ? strdup(libraries) : NULL;
    snprintf(what, sizeof what, "%s, dp %d", target, options.degree[DEGREE_dp]);
    run_all(out, what);
    hide_library();
    snprintf(what, sizeof what, "%s, dp %d, without the library", target, options.degree[DEGREE_dp]);
    run_all(out, what);
    if (before) setenv("LD_LIBRARY_PATH", before, 1);
    else unsetenv("LD_LIBRARY_PATH");
    free(before);
  }
  e2e_free(&e);
}

static void test_one_rank(void) { check_program("cpu", (PlanOptions){0}); }
static void test_two_ranks(void) { check_program("cpux2", (PlanOptions){0}); }
static void test_three_ranks(void) { check_program("cpux3", (PlanOptions){0}); }
static void test_shared_channels(void) { check_program("cpux2", (PlanOptions){.degree[DEGREE_tp] = 2}); }
static void test_stages(void) { check_program("cpux2", (PlanOptions){.degree[DEGREE_pp] = 2, .micro_batches = 2}); }

int main(int argc, char **argv) {
  if (apc_is_rank(argc, argv)) return apc_rank_main(argc, argv);
  if (argc != 2) {
    fprintf(stderr, "usage: %s BUILD\n", argv[0]);
    return 2;
  }
  e2e_build = argv[1];
  model_path = strdup(temp_path("model.ir"));
  temp_write(model_path, model_text, strlen(model_text));
  RUN(test_reference);
  RUN(test_one_rank);
  RUN(test_two_ranks);
  RUN(test_three_ranks);
  RUN(test_shared_channels);
  RUN(test_stages);
  return test_summary();
}
