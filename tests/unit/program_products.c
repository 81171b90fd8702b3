/* tests/unit/program_products.c - instruction `gemm` of hand-made Programs, with all epilogues: run through the whole
 * runtime and compared with plain loops, at sizes of 0 and parts of uneven size; refused if its parts do not match, by
 * the check or by the device; printed. */
#include <math.h>

#include "base/compare.h"
#include "codegen/cuda/schedule.h"
#include "tests/programs.h"

/* y[c][b][h][n] = activation(sum over k of a[b][k] w[k][h][n] + bias[n] + r[b][h][n]), rows b cut in micro-batches of
 * uneven size, heads h a batch loop; sum[k][n] = sum over b of a[b][k] a[b][n], added up over the micro-batches. */
enum { K = 3, HEADS = 2, N = 5, MICRO_BATCHES = 3, MOST = 11, KINDS = 6 * ACT_COUNT };

typedef struct Kind {
  Epilogue epilogue;
  bool in_place; /* the residual is the result's buffer */
} Kind;

static Kind kind_of(int c) {
  int residual = c / 2 % 3;
  return (Kind){{c % 2, residual > 0, (Activation)(c / 6)}, residual == 2};
}

typedef struct Sizes {
  uint32_t rows, from, k, heads, n, wide, zero, one;
} Sizes;

static ProgramInstr product(Make *m, ProgramList tensors, ProgramList exprs) {
  ProgramInstr x = make_instr(m, PI_gemm, "product", tensors);
  x.exprs = exprs;
  x.dim2 = DT_f32;
  return x;
}

static void add_kind(Make *m, const Sizes *s, int c, uint32_t a, uint32_t w, uint32_t bias) {
  Kind kind = kind_of(c);
  ProgramList dims = MAKE_LIST(m, s->one, s->rows, s->heads, s->n);
  uint32_t y = make_tensor(m, PC_output, DT_f32, 1, dims);
  uint32_t r = kind.in_place ? y : make_tensor(m, PC_input, DT_f32, 1, dims), tensors[5] = {a, w, y};
  uint32_t n = 3;
  if (kind.epilogue.residual) make_io(m, PI_feed, 3, r, 0, MAKE_LIST(m, s->zero, s->from, s->zero, s->zero));
  if (kind.epilogue.bias) tensors[n++] = bias;
  if (kind.epilogue.residual) tensors[n++] = r;
  ProgramInstr x = product(m, make_list(m, n, tensors),
                           MAKE_LIST(m, s->rows, s->n, s->k, s->k, s->one, s->wide, s->one, s->wide, s->one, s->zero,
                                     s->zero, s->heads, s->zero, s->n, s->n));
  x.dim = kind.epilogue.activation;
  x.mask = (kind.epilogue.bias ? 1u : 0) | (kind.epilogue.residual ? 2u : 0);
  make_put(m, x);
  make_io(m, PI_fetch, 0, y, 0, MAKE_LIST(m, make_number(m, c), s->from, s->zero, s->zero));
}

/* Its buffer lives over all calls: each micro-batch adds to the sum of the previous ones. */
static void add_sum(Make *m, const Sizes *s, uint32_t mb, uint32_t a) {
  uint32_t sum = make_tensor(m, PC_activation, DT_f32, 1, MAKE_LIST(m, s->k, s->k));
  program_at_buffers(m->b, make_buffer_of(m, sum))->body = PROGRAM_NONE;
  uint32_t accumulate = program_expr(m->b, PX_min, mb, s->one);
  make_put(m,
           product(m, MAKE_LIST(m, a, a, sum),
                   MAKE_LIST(m, s->k, s->k, s->rows, s->one, s->k, s->k, s->one, s->k, s->one, accumulate, s->zero)));
  make_io(m, PI_fetch, 1, sum, 0, MAKE_LIST(m, s->zero, s->zero));
}

static Make products(void) {
  Make m = make_new(1);
  uint32_t mb = program_coordinate(m.b, make_axis(&m, "mb", MICRO_BATCHES, true)),
           batch = make_symbol(&m, "b", MOST, 8);
  Sizes s = {.k = make_number(&m, K),
             .heads = make_number(&m, HEADS),
             .n = make_number(&m, N),
             .wide = make_number(&m, HEADS * N),
             .zero = make_number(&m, 0),
             .one = make_number(&m, 1)};
  s.from = make_cut(&m, mb, batch, MICRO_BATCHES);
  s.rows = make_sub(&m, make_cut(&m, make_next(&m, mb), batch, MICRO_BATCHES), s.from);
  make_port(&m, "a", DT_f32, MAKE_LIST(&m, batch, s.k));
  make_port(&m, "w", DT_f32, MAKE_LIST(&m, s.k, s.heads, s.n));
  make_port(&m, "bias", DT_f32, MAKE_LIST(&m, s.n));
  make_port(&m, "r", DT_f32, MAKE_LIST(&m, s.one, batch, s.heads, s.n));
  make_port(&m, "y", DT_f32, MAKE_LIST(&m, make_number(&m, KINDS), batch, s.heads, s.n));
  make_port(&m, "sum", DT_f32, MAKE_LIST(&m, s.k, s.k));
  make_entry(&m, "main", 4, 2);
  make_begin(&m, 0);
  uint32_t a = make_tensor(&m, PC_input, DT_f32, 1, MAKE_LIST(&m, s.rows, s.k));
  uint32_t w = make_tensor(&m, PC_input, DT_f32, 1, MAKE_LIST(&m, s.k, s.heads, s.n));
  uint32_t bias = make_tensor(&m, PC_input, DT_f32, 1, MAKE_LIST(&m, s.n));
  make_io(&m, PI_feed, 0, a, 0, MAKE_LIST(&m, s.from, s.zero));
  make_io(&m, PI_feed, 1, w, 0, MAKE_LIST(&m, s.zero, s.zero, s.zero));
  make_io(&m, PI_feed, 2, bias, 0, MAKE_LIST(&m, s.zero));
  for (int c = 0; c < KINDS; c++) add_kind(&m, &s, c, a, w, bias);
  add_sum(&m, &s, mb, a);
  uint32_t body = make_end(&m, "products");
  for (uint32_t i = 0; i < MICRO_BATCHES; i++) make_call(&m, 0, body, i);
  make_schedules(&m);
  return m;
}

static float a[MOST * K], w[K * HEADS * N], bias[N], r[MOST * HEADS * N];

static double plain(Epilogue e, int64_t row, int64_t head, int64_t n) {
  int64_t at = (row * HEADS + head) * N + n;
  double v = 0;
  for (int64_t k = 0; k < K; k++) v += (double)a[row * K + k] * (double)w[(k * HEADS + head) * N + n];
  if (e.bias) v += (double)bias[n];
  if (e.residual) v += (double)r[at];
  double s = 1 / (1 + exp(-v));
  return e.activation == ACT_relu      ? fmax(v, 0)
         : e.activation == ACT_relu6   ? fmin(fmax(v, 0), 6)
         : e.activation == ACT_sigmoid ? s
         : e.activation == ACT_silu    ? v * s
         : e.activation == ACT_tanh    ? tanh(v)
                                       : v;
}

static void check_kinds(ApcModel *m, int64_t rows) {
  static float y[KINDS * MOST * HEADS * N];
  OK(apc_read_output(m, "y", y, sizeof *y * (size_t)(KINDS * rows * HEADS * N)));
  for (int c = 0; c < KINDS; c++) {
    double worst = 0;
    for (int64_t i = 0; i < rows * HEADS * N; i++) {
      double want = plain(kind_of(c).epilogue, i / N / HEADS, i / N % HEADS, i % N);
      worst = fmax(worst, number_gap((double)y[c * rows * HEADS * N + i], want));
    }
    CHECKF(worst < 1e-5, "%d rows, kind %d: %g", (int)rows, c, worst);
  }
}

static void check_sum(ApcModel *m, int64_t rows) {
  float sum[K * K];
  OK(apc_read_output(m, "sum", sum, sizeof sum));
  for (int i = 0; i < K * K; i++) {
    double want = 0;
    for (int64_t b = 0; b < rows; b++) want += (double)a[b * K + i / K] * (double)a[b * K + i % K];
    CHECKF(number_gap((double)sum[i], want) < 1e-5, "%d rows: %g, want %g", (int)rows, (double)sum[i], want);
  }
}

static void every_kind_runs(void) {
  static const int64_t sizes[] = {7, 0, 2, MOST, 1};
  Make make = products();
  ApcModel *m = make_load(make_artifact(&make, "products"));
  for (int i = 0; i < MOST * K; i++) a[i] = (float)(i * 7 % 11 - 5) / 4;
  for (int i = 0; i < K * HEADS * N; i++) w[i] = (float)(i * 5 % 13 - 6) / 3;
  for (int i = 0; i < N; i++) bias[i] = (float)(i - 2) / 2;
  for (int i = 0; i < MOST * HEADS * N; i++) r[i] = (float)(i * 3 % 17 - 8) / 5;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int64_t rows = sizes[i];
    OK(apc_bind_input(m, "a", APC_F32, 2, (int64_t[]){rows, K}, a));
    OK(apc_bind_input(m, "w", APC_F32, 3, (int64_t[]){K, HEADS, N}, w));
    OK(apc_bind_input(m, "bias", APC_F32, 1, (int64_t[]){N}, bias));
    OK(apc_bind_input(m, "r", APC_F32, 4, (int64_t[]){1, rows, HEADS, N}, r));
    OK(apc_run(m, NULL));
    check_kinds(m, rows);
    check_sum(m, rows);
  }
  apc_close(m);
}

/* ---- one product, 2x2 */

typedef struct One {
  DType operands, result, sums;
  uint32_t activation, mask;
  DType bias;     /* f32 if there is one */
  int64_t bias_n; /* its elements */
  int64_t c_n;    /* stride of columns */
  bool accumulate;
  const char *fault; /* NULL if it opens */
  bool no_terms;     /* k is 0 */
} One;

static Make make_one(const One *o) {
  Make m = make_new(1);
  uint32_t two = make_number(&m, 2), one = make_number(&m, 1), zero = make_number(&m, 0);
  ProgramList square = MAKE_LIST(&m, two, two);
  make_port(&m, "y", o->result, square);
  make_entry(&m, "main", 0, 1);
  make_begin(&m, 0);
  uint32_t x = make_tensor(&m, PC_activation, o->operands, 1, square);
  uint32_t y = make_tensor(&m, PC_output, o->result, 1, square), tensors[5] = {x, x, y}, n = 3;
  if (o->mask & 1) tensors[n++] = make_tensor(&m, PC_activation, o->bias, 1, MAKE_LIST(&m, make_number(&m, o->bias_n)));
  if (o->mask & 2) tensors[n++] = make_tensor(&m, PC_activation, o->result, 1, square);
  for (uint32_t i = 0; i < n; i++) { make_put(&m, make_instr(&m, PI_fill, "fill", MAKE_LIST(&m, tensors[i]))); }
  ProgramInstr g = make_instr(&m, PI_gemm, "product", make_list(&m, n, tensors));
  g.exprs = MAKE_LIST(&m, two, two, o->no_terms ? zero : two, two, one, two, one, o->c_n == 1 ? two : one,
                      make_number(&m, o->c_n), make_number(&m, o->accumulate), zero);
  g.dim = o->activation, g.dim2 = o->sums, g.mask = o->mask;
  make_put(&m, g);
  make_io(&m, PI_fetch, 0, y, 0, MAKE_LIST(&m, zero, zero));
  make_call(&m, 0, make_end(&m, "body"), 0);
  make_schedules(&m);
  return m;
}

typedef void Printer(const Program *p, Text *t);

/* Opens the built Program and prints it; returns the first fault. */
static const char *opened(const One *o, Text *text, Printer *print) {
  static RtError error;
  Make m = make_one(o);
  ProgramFacts facts = {"one", "test", "test", 1, 0, NULL, NULL, 0, NULL};
  void *tables = NULL;
  size_t bytes = 0;
  Program p;
  error = (RtError){0};
  RtStatus status = program_builder_finish(m.b, &facts, &tables, &bytes, &error);
  if (!status) status = program_open(tables, bytes, &p, &error);
  if (!status) {
    print(&p, text);
    program_close(&p);
  }
  free(tables);
  program_builder_free(m.b);
  return status ? error.text : NULL;
}

static void kinds_that_do_not_go_together(void) {
  static const One kinds[] = {
      {DT_f32, DT_f32, DT_f32, ACT_relu, 3, DT_f32, 2, 1, false, NULL, false},
      {DT_f16, DT_f32, DT_f32, ACT_tanh, 1, DT_f32, 2, 1, true, NULL, false},
      {DT_f32, DT_f32, DT_f32, 0, 0, DT_f32, 2, 2, true, NULL, false},
      {DT_f32, DT_f16, DT_f32, 0, 0, DT_f32, 2, 1, false, "an operand", false},         /* no such types */
      {DT_f32, DT_f32, DT_f64, 0, 0, DT_f32, 2, 1, false, "an operand", false},         /* no such sums */
      {DT_i32, DT_i32, DT_i32, 0, 0, DT_f32, 2, 1, false, "an operand", false},         /* no floats */
      {DT_f32, DT_f32, DT_COUNT, 0, 0, DT_f32, 2, 1, false, "an operand", false},       /* no type */
      {DT_f32, DT_f32, DT_f32, ACT_COUNT, 0, DT_f32, 2, 1, false, "an operand", false}, /* no activation */
      {DT_f32, DT_f32, DT_f32, 0, 4, DT_f32, 2, 1, false, NULL, false},                 /* tf32 */
      {DT_f32, DT_f32, DT_f32, ACT_relu, 7, DT_f32, 2, 1, false, NULL, false},          /* with all epilogues */
      {DT_f16, DT_f16, DT_f32, 0, 4, DT_f32, 2, 1, false, "an operand", false},         /* tf32 of f16 */
      {DT_f32, DT_f32, DT_f32, 0, 8, DT_f32, 2, 1, false, "an operand", false},         /* no such part */
      {DT_f16, DT_f16, DT_f32, 0, 1, DT_f32, 2, 1, false, "an operand", false},         /* bias of another type */
      {DT_f32, DT_f32, DT_f32, ACT_relu, 0, DT_f32, 2, 2, false, "an operand", false},  /* columns not contiguous */
      {DT_f32, DT_f32, DT_f32, 0, 2, DT_f32, 2, 1, true, "an operand", false},          /* two added matrices */
  };
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    Text t = {.arena = arena_new()};
    const char *fault = opened(&kinds[i], &t, program_print);
    CHECKF(!fault == !kinds[i].fault && (!fault || strstr(fault, kinds[i].fault)), "kind %zu: %s", i,
           fault ? fault : "opens");
    arena_free(t.arena);
  }
}

static void prints(void) {
  Text t = {.arena = arena_new()};
  CHECK(!opened(&(One){DT_f32, DT_f32, DT_f32, ACT_relu, 3, DT_f32, 2, 1, false, NULL, false}, &t, program_print));
  CHECK(!opened(&(One){DT_f16, DT_f16, DT_f16, 0, 0, DT_f16, 2, 1, false, NULL, false}, &t, program_print));
  CHECKF(strstr(text_str(&t), "b3:f32[2, 2] [2, 2, 2, 2, 1, 2, 1, 2, 1, 0, 0] bias residual relu  # product\n"), "%s",
         text_str(&t));
  CHECKF(strstr(text_str(&t), "[2, 2, 2, 2, 1, 2, 1, 2, 1, 0, 0] sums f16  # product\n"), "%s", text_str(&t));
  arena_free(t.arena);
}

static void print_schedule(const Program *p, Text *t) { cuda_schedule_print(t->arena, &(ArtifactProgram){.p = *p}, t); }

static void schedules_for_gpus(void) {
  static const struct {
    One one;
    const char *line;
  } kinds[] = {
      {{DT_bf16, DT_bf16, DT_f32, 0, 0, 0, 0, 1, false, NULL, false}, "C b1 ld 2, bf16)\n"},
      {{DT_f16, DT_f32, DT_f32, ACT_relu, 1, DT_f32, 2, 1, true, NULL, false},
       "C b1 ld 2, beta 1, EPILOGUE_RELU_BIAS b2, f16 to f32)\n"},
      {{DT_f32, DT_f32, DT_f32, ACT_relu, 2, 0, 0, 1, false, NULL, false},
       "C b2 ld 2, D b1 ld 2, beta 1, EPILOGUE_RELU, f32)\n"},
      {{DT_f16, DT_f16, DT_f16, 0, 3, DT_f16, 2, 1, false, NULL, false},
       "C b3 ld 2, D b1 ld 2, beta 1, EPILOGUE_BIAS b2, f16, sums f16)\n"},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    Text t = {.arena = arena_new()};
    CHECK(!opened(&kinds[i].one, &t, print_schedule));
    CHECKF(strstr(text_str(&t), "cublasLtMatmul(opN opN, m 2, n 2, k 2, A b0 ld 2, B b0 ld 2, ") &&
               strstr(text_str(&t), kinds[i].line),
           "kind %zu: %s", i, text_str(&t));
    arena_free(t.arena);
  }
}

/* A product of no terms is 0, or the epilogue of 0. */
static void schedules_of_no_terms(void) {
  static const struct {
    One one;
    const char *line; /* after the comment */
  } kinds[] = {
      {{DT_f32, DT_f32, DT_f32, 0, 0, 0, 0, 1, false, NULL, true}, "    cudaMemsetAsync(b1, 0, 16)\n"},
      {{DT_f32, DT_f32, DT_f32, 0, 0, 0, 0, 1, true, NULL, true}, "  # output"},
      {{DT_f32, DT_f32, DT_f32, ACT_relu, 0, 0, 0, 1, true, NULL, true},
       "    cublasLtMatmul(opN opN, m 2, n 2, k 1, alpha 0, A b0 ld 2, B b0 ld 2, C b1 ld 2, beta 1, EPILOGUE_RELU, "
       "f32)\n"},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    Text t = {.arena = arena_new()};
    CHECK(!opened(&kinds[i].one, &t, print_schedule));
    const char *product = strstr(text_str(&t), "# product: "), *line = product ? strchr(product, '\n') : NULL;
    CHECKF(line && strncmp(line + 1, kinds[i].line, strlen(kinds[i].line)) == 0, "kind %zu: %s", i, text_str(&t));
    arena_free(t.arena);
  }
}

static const char *refused(const One *o, ApcStatus *status) {
  static char text[400];
  Make make = make_one(o);
  ApcModel *m;
  *status = apc_load(make_artifact(&make, "one"), NULL, &m);
  if (!*status) *status = apc_run(m, NULL);
  snprintf(text, sizeof text, "%s", apc_error(m));
  apc_close(m);
  return text;
}

static void cpus_refuse_other_types(void) {
  static const DType types[][3] = {
#define GEMM_TYPES(operands, result, sums) {DT_##operands, DT_##result, DT_##sums},
#include "program/program.def"
#undef GEMM_TYPES
  };
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    const One o = {types[i][0], types[i][1], types[i][2], 0, 0, DT_f32, 2, 1, false, NULL, false};
    char want[200];
    ApcStatus status;
    const char *text = refused(&o, &status);
    bool f32 = o.operands == DT_f32;
    snprintf(want, sizeof want, "CPUs multiply f32 into f32, but 'product' is %s into %s, summed in %s",
             dtype_name(o.operands), dtype_name(o.result), dtype_name(o.sums));
    CHECKF(f32 ? status == APC_OK : status == APC_UNSUPPORTED && strstr(text, want), "%d: %s", status, text);
  }
}

static void sizes_that_do_not_fit(void) {
  ApcStatus status;
  const char *text = refused(&(One){DT_f32, DT_f32, DT_f32, 0, 1, DT_f32, 3, 1, false, NULL, false}, &status);
  CHECKF(status == APC_INTERNAL && strstr(text, "the bias has another size than a row of the result"), "%d: %s", status,
         text);
}

int main(void) {
  RUN(every_kind_runs);
  RUN(kinds_that_do_not_go_together);
  RUN(prints);
  RUN(schedules_for_gpus);
  RUN(schedules_of_no_terms);
  RUN(cpus_refuse_other_types);
  RUN(sizes_that_do_not_fit);
  return test_summary();
}
