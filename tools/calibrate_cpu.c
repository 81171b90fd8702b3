/* tools/calibrate_cpu.c - the probes of a CPU, and the fits that give the figures of passes/cost/cpu.c.
 *
 * One rank of all cores is measured; figures in target files are those of the whole machine.  Each step subtracts the
 * times that earlier steps have explained: launches and caches first, then products, then the rest.
 */
#include <math.h>
#include <string.h>

#include "frontend/topo/target.h"
#include "program/epilogue.h"
#include "program/shares.h"
#include "runtime/session/session.h"
#include "tools/calibrate.h"

enum { LEVELS = 6, MOVED = 4 }; /* LEVELS: of caches, the last one is memory; MOVED: sums per probe */

typedef struct CpuFigures {
  double threads;
  double request, launch, fork;
  double rate;                  /* FLOP per second of large products */
  int levels;                   /* number of measured caches; the last one is memory */
  double moved[LEVELS];         /* bytes per second */
  double read[LEVELS];          /* the same for weights */
  double product, pack, turned; /* of the library: seconds per product, per packed element, per element if transposed */
  CpuConv conv[CONV_WAYS];
  double attention, group, row, pair;
  double element[OP_COUNT];
  bool lost; /* a measurement gave no figure, which is reported */
} CpuFigures;

typedef struct ProbeModel {
  Text inputs, body;
  int n;
} ProbeModel;

static ProbeModel probe_model(Arena *a) { return (ProbeModel){.inputs = {.arena = a}, .body = {.arena = a}}; }

static void input(ProbeModel *m, const char *name, const char *type) {
  text_printf(&m->inputs, "%s%s: %s", m->inputs.n ? ", " : "", name, type);
}

static const char *model_text(Arena *a, ProbeModel *m) {
  return arena_printf(a, "import nn\nentry main(%s) {\n%s}\n", text_str(&m->inputs), text_str(&m->body));
}

/* Returns the time of a kernel on all threads, without its launch. */
static double on_all(const CpuFigures *f, double seconds, bool alone) {
  if (f->threads <= 1) return seconds - f->launch;
  return alone ? (seconds - f->launch) / f->threads : seconds - f->launch - f->fork;
}

/* ---- requests and launches: one small kernel, and many */

enum { MANY = 64 };

static const char *small_kernels(Arena *a, int n) {
  ProbeModel m = probe_model(a);
  for (int i = 0; i < n; i++) {
    input(&m, arena_printf(a, "x%d", i), "f32[16]");
    text_printf(&m.body, "output p%d = relu(x%d)\n", i, i);
  }
  return model_text(a, &m);
}

static const char *one_text(Arena *a) { return small_kernels(a, 1); }
static const char *many_text(Arena *a) { return small_kernels(a, MANY); }

static void fit_one(Calibrate *c, CpuFigures *f, const ProbeTimes *x) {
  f->request = x->request; /* one request has one launch */
  (void)c;
}

static void fit_many(Calibrate *c, CpuFigures *f, const ProbeTimes *x) {
  f->launch = fmax(x->request - f->request, 0) / (MANY - 1);
  f->request = fmax(f->request - f->launch, 0);
  calibrate_note(c, "request", "", f->request, 0, 0);
  calibrate_note(c, "launch", "", f->launch, 0, 0);
}

/* ---- caches and memory: sums of arrays that the previous run left in some cache, or in none */

static const double moved_bytes[LEVELS] = {0.5e6, 1.5e6, 6e6, 20e6, 64e6, 256e6}; /* bytes of all arrays of a probe */

static long length_of(int level) {
  return lround(moved_bytes[level] / (3 * 4 * MOVED) / 256);
} /* rows of 256 elements */

static const char *moved_text(Arena *a, int level) {
  ProbeModel m = probe_model(a);
  const char *type = arena_printf(a, "f32[%ld, 256]", length_of(level));
  for (int i = 0; i < MOVED; i++) {
    input(&m, arena_printf(a, "x%d", i), type), input(&m, arena_printf(a, "y%d", i), type);
    text_printf(&m.body, "output p%d = x%d + y%d\n", i, i, i);
  }
  return model_text(a, &m);
}

/* Returns bytes per second, of a kernel that took so long beyond its launch. */
static double rate_of(Calibrate *c, CpuFigures *f, double bytes, double seconds) {
  if (seconds > 0) return bytes / seconds;
  if (!f->lost)
    diag_error(c->t->diags, DIAG_calibrate_busy, (Loc){0},
               "a kernel that reads %.2g MB took no longer than a launch: others use this machine", bytes / 1e6);
  f->lost = true;
  return 1;
}

static void fit_moved(Calibrate *c, CpuFigures *f, const ProbeTimes *x, int level) {
  double times[MOVED], n = 256. * (double)length_of(level);
  for (int i = 0; i < MOVED; i++) times[i] = calibrate_time(x, i, "launch");
  double seconds = calibrate_median(times, MOVED);
  double rate = rate_of(c, f, 12 * n, on_all(f, seconds, 2 * n < SHARES_KERNEL));
  calibrate_note(c, "move", arena_printf(c->arena, "%.0f bytes", moved_bytes[level]), seconds, 0, 12 * n);
  f->moved[level] = level && rate > f->moved[level - 1] ? f->moved[level - 1] : rate;
}

/* ---- weights: products of one row, which read each weight once in a run */

static const double weights_bytes[LEVELS] = {0.5e6, 1.5e6, 6e6, 20e6, 64e6, 256e6}; /* of all weights of a probe */

static int side_of(int level) { return (int)lround(sqrt(weights_bytes[level] / 4 / MOVED) / 16) * 16; }

static const char *read_text(Arena *a, int level) {
  ProbeModel m = probe_model(a);
  const int n = side_of(level);
  for (int i = 0; i < MOVED; i++) {
    input(&m, arena_printf(a, "x%d", i), arena_printf(a, "f32[1, %d]", n));
    text_printf(&m.body, "weight w%d : f32[%d, %d] = normal(0.1)\noutput p%d = matmul(x%d, w%d)\n", i, n, n, i, i, i);
  }
  return model_text(a, &m);
}

static void fit_read(Calibrate *c, CpuFigures *f, const ProbeTimes *x, int level) {
  double times[MOVED], n = (double)side_of(level) * side_of(level);
  for (int i = 0; i < MOVED; i++) times[i] = calibrate_time(x, i, "gemm");
  double seconds = calibrate_median(times, MOVED);
  double rate = rate_of(c, f, 4 * n, on_all(f, seconds, n < SHARES_PRODUCT));
  calibrate_note(c, "read weights", arena_printf(c->arena, "%.0f bytes", weights_bytes[level]), seconds, 0, 4 * n);
  f->read[level] = level && rate > f->read[level - 1] ? f->read[level - 1] : rate;
}

/* ---- products */

typedef struct Shape {
  int m, k, n;
} Shape;

static double operations(Shape s) { return 2. * s.m * s.k * s.n; }

static const char *shape_text(Arena *a, Shape s) { return arena_printf(a, "%dx%dx%d", s.m, s.k, s.n); }

/* Products with weights, stored as panels.  The time of a shared call beyond its arithmetic is the cost of sharing. */
static const Shape shapes[] = {{48, 256, 256},  {64, 256, 512}, {96, 256, 256}, {128, 256, 512}, {64, 512, 256},
                               {192, 256, 256}, {64, 512, 512}, {16, 256, 256}, {24, 256, 256},  {64, 64, 64}};
enum { LARGE = 7, SHARED = 9, SHAPES = sizeof shapes / sizeof *shapes };

static const char *weights_text(Arena *a) {
  ProbeModel m = probe_model(a);
  for (int i = 0; i < SHAPES; i++) {
    Shape s = shapes[i];
    input(&m, arena_printf(a, "x%d", i), arena_printf(a, "f32[%d, %d]", s.m, s.k));
    text_printf(&m.body, "weight w%d : f32[%d, %d] = normal(0.1)\noutput p%d = matmul(x%d, w%d)\n", i, s.k, s.n, i, i,
                i);
  }
  return model_text(a, &m);
}

/* On an idle machine, n cores together are about n times as fast as one. */
static void warn_busy(Calibrate *c, const CpuFigures *f, double one) {
  const double usual = 0.75;
  if (!(f->threads > 1 && f->rate < usual * f->threads * one)) return;
  diag_warning(c->t->diags, DIAG_calibrate_busy, (Loc){0},
               "products ran at %s on %.0f cores, and at %s on one: others use this machine",
               show_scaled(c->arena, f->rate, "FLOPS"), f->threads, show_scaled(c->arena, one, "FLOPS"));
  diag_help(c->t->diags, "figures of shared kernels come out too slow; measure again when the machine is idle");
}

static void fit_weights(Calibrate *c, CpuFigures *f, const ProbeTimes *x) {
  double rates[LARGE], forks[SHARED - LARGE], one = 0;
  for (int i = 0; i < SHAPES; i++) {
    double seconds = calibrate_time(x, i, "gemm");
    calibrate_note(c, "product of weights", shape_text(c->arena, shapes[i]), seconds, operations(shapes[i]), 0);
    if (i < LARGE) rates[i] = operations(shapes[i]) / seconds;
    else if (i < SHARED) forks[i - LARGE] = seconds;
    else one = operations(shapes[i]) / seconds;
  }
  f->rate = calibrate_median(rates, LARGE);
  for (int i = LARGE; i < SHARED; i++) forks[i - LARGE] -= operations(shapes[i]) / f->rate + f->launch;
  f->fork = f->threads > 1 ? fmax(0, calibrate_median(forks, SHARED - LARGE)) : 0;
  warn_busy(c, f, one);
}

/* Products of two values by the library, with the second operand as it is or transposed. */
static const struct {
  int batch;
  Shape s;
} pairs_of[] = {{1, {16, 64, 64}},  {1, {64, 64, 64}},    {8, {16, 32, 16}},   {8, {64, 64, 64}},   {1, {256, 64, 64}},
                {1, {16, 256, 64}}, {1, {64, 256, 256}},  {1, {24, 256, 512}}, {1, {64, 256, 512}}, {1, {64, 512, 256}},
                {16, {32, 64, 32}}, {1, {128, 256, 512}}, {1, {32, 512, 128}}};
enum { PAIRS = sizeof pairs_of / sizeof *pairs_of };

static const char *values_in(Arena *a, bool turned) {
  ProbeModel m = probe_model(a);
  for (int i = 0; i < PAIRS; i++) {
    Shape s = pairs_of[i].s;
    int b = pairs_of[i].batch;
    input(&m, arena_printf(a, "x%d", i), arena_printf(a, "f32[%d, %d, %d]", b, s.m, s.k));
    input(&m, arena_printf(a, "y%d", i), arena_printf(a, "f32[%d, %d, %d]", b, turned ? s.n : s.k, turned ? s.k : s.n));
    text_printf(&m.body, "output p%d = einsum(\"bmk,%s->bmn\", x%d, y%d)\n", i, turned ? "bnk" : "bkn", i, i);
  }
  return model_text(a, &m);
}

static const char *values_text(Arena *a) { return values_in(a, false); }
static const char *turned_text(Arena *a) { return values_in(a, true); }

/* Returns the time of a product's arithmetic. */
static double shared_work(const CpuFigures *f, double work) {
  double alone = work / f->rate * f->threads;
  return work / 2 < SHARES_PRODUCT || f->threads <= 1 ? alone : fmin(alone, f->fork + work / f->rate);
}

/* Fits the time of products beyond their arithmetic; errors are relative to the whole product. */
static void fit_library(Calibrate *c, const CpuFigures *f, const ProbeTimes *x, const char *what, double *begin,
                        double *pack) {
  FitRow rows[PAIRS];
  double factor[FIT_FEATURES];
  for (int i = 0; i < PAIRS; i++) {
    Shape s = pairs_of[i].s;
    double b = pairs_of[i].batch, seconds = calibrate_time(x, i, "gemm"), work = b * operations(s);
    calibrate_note(c, what, arena_printf(c->arena, "%.0f of %s", b, shape_text(c->arena, s)), seconds, work, 0);
    seconds -= f->launch;
    rows[i] = (FitRow){{b, b * s.k * s.n}, seconds - shared_work(f, work), seconds};
  }
  calibrate_fit(PAIRS, rows, 2, factor);
  *begin = factor[0], *pack = factor[1];
}

static void fit_values(Calibrate *c, CpuFigures *f, const ProbeTimes *x) {
  fit_library(c, f, x, "product of values", &f->product, &f->pack);
}

static void fit_turned(Calibrate *c, CpuFigures *f, const ProbeTimes *x) {
  double other;
  fit_library(c, f, x, "product of values, turned", &other, &f->turned);
}

/* ---- kernels of rows */

typedef struct Element {
  OpKind op;
  const char *text; /* over x, y and z: f32[ROWS, COLUMNS] */
  int times;        /* how often the operation occurs; negative: its figure serves all cheap operations */
} Element;

enum { ROWS = 64, COLUMNS = 512, ELEMENTS_LEVEL = 2 }; /* all arrays of the probe are 3 MB */

static const Element elements[] = {{OP_exp, "exp(x)", 1},
                                   {OP_exp2, "exp2(x)", 1},
                                   {OP_expm1, "expm1(x)", 1},
                                   {OP_log, "log(x)", 1},
                                   {OP_log1p, "log1p(x)", 1},
                                   {OP_sin, "sin(x)", 1},
                                   {OP_cos, "cos(x)", 1},
                                   {OP_tanh, "tanh(x)", 1},
                                   {OP_erf, "erf(x)", 1},
                                   {OP_sigmoid, "sigmoid(x)", 1},
                                   {OP_pow, "pow(x, y)", 1},
                                   {OP_div, "x / y", 1},
                                   {OP_sqrt, "sqrt(x)", 1},
                                   {OP_rsqrt, "rsqrt(x)", 1},
                                   {OP_recip, "recip(x)", 1},
                                   {OP_softmax, "softmax(x)", 1},
                                   {OP_norm, "layer_normalize(x)", 1},
                                   {OP_reduce, "max(x, 1)", 1},
                                   {OP_transpose, "transpose(x, [1, 0])", 1},
                                   {OP_scan, "cumsum(x, 1)", 1},
                                   {OP_concat, "concat([x, y], 1)", 2},
                                   {OP_pad, "pad(x, [1, 1], [1, 1])", 1},
                                   {OP_add, "(x * y + x) * (x + y * 0.5) + x * 0.1", 7}};
enum { ELEMENTS = sizeof elements / sizeof *elements };

static const OpKind cheap[] = {OP_add, OP_sub, OP_mul, OP_max, OP_min, OP_neg, OP_abs, OP_relu, OP_select};

static double bytes_moved(const Element *e) {
  const double whole = 4. * ROWS * COLUMNS;
  bool two = strchr(e->text, 'y') != NULL;
  if (e->op == OP_reduce) return whole;
  return e->op == OP_concat ? 4 * whole : two ? 3 * whole : 2 * whole;
}

static const char *elements_text(Arena *a) {
  ProbeModel m = probe_model(a);
  const char *type = arena_printf(a, "f32[%d, %d]", ROWS, COLUMNS);
  input(&m, "x", type), input(&m, "y", type);
  for (int i = 0; i < ELEMENTS; i++) text_printf(&m.body, "output p%d = %s\n", i, elements[i].text);
  return model_text(a, &m);
}

static void fit_elements(Calibrate *c, CpuFigures *f, const ProbeTimes *x) {
  for (int i = 0; i < ELEMENTS; i++) {
    const Element *e = &elements[i];
    const double n = (double)ROWS * COLUMNS * (e->op == OP_concat ? 2 : 1), bytes = bytes_moved(e);
    double seconds = calibrate_time(x, i, "launch");
    int work = (op_is_elementwise(e->op) ? op_element_cost(e->op) * e->times : 1) + 1;
    double all = on_all(f, seconds, n * work < SHARES_KERNEL);
    calibrate_note(c, op_name(e->op), arena_printf(c->arena, "%.0f elements", n), seconds, 0, bytes);
    f->element[e->op] =
        isnan(seconds) ? 0
                       : fmax(0, all - bytes / f->moved[f->levels > ELEMENTS_LEVEL ? ELEMENTS_LEVEL : f->levels - 1]) /
                             n / e->times;
  }
  for (size_t i = 0; i < sizeof cheap / sizeof *cheap; i++) f->element[cheap[i]] = f->element[OP_add];
}

/* ---- attention */

static const struct {
  int heads, rows, keys, depth;
} heads_of[] = {{2, 16, 16, 32},   {4, 64, 64, 64},    {4, 128, 128, 64}, {12, 197, 197, 64}, {4, 512, 512, 64},
                {32, 32, 32, 32},  {4, 64, 64, 16},    {8, 1, 128, 64},   {8, 1, 1024, 64},   {8, 96, 96, 32},
                {2, 256, 256, 64}, {12, 128, 128, 64}, {8, 16, 64, 32},   {8, 384, 384, 32}};
enum { HEADS = sizeof heads_of / sizeof *heads_of };

static const char *attention_text(Arena *a) {
  ProbeModel m = probe_model(a);
  for (int i = 0; i < HEADS; i++) {
    int h = heads_of[i].heads, depth = heads_of[i].depth;
    const char *keys = arena_printf(a, "f32[1, %d, %d, %d]", h, heads_of[i].keys, depth);
    input(&m, arena_printf(a, "q%d", i), arena_printf(a, "f32[1, %d, %d, %d]", h, heads_of[i].rows, depth));
    input(&m, arena_printf(a, "k%d", i), keys), input(&m, arena_printf(a, "v%d", i), keys);
    text_printf(&m.body, "output p%d = attention(q%d, k%d, v%d)\n", i, i, i, i);
  }
  return model_text(a, &m);
}

static void fit_attention(Calibrate *c, CpuFigures *f, const ProbeTimes *x) {
  FitRow rows[HEADS];
  double factor[FIT_FEATURES];
  for (int i = 0; i < HEADS; i++) {
    double h = heads_of[i].heads, r = heads_of[i].rows, pairs = h * r * heads_of[i].keys;
    double work = 4 * pairs * heads_of[i].depth, seconds = calibrate_time(x, i, "launch");
    calibrate_note(c, "attention",
                   arena_printf(c->arena, "%.0f of %.0fx%dx%d", h, r, heads_of[i].keys, heads_of[i].depth), seconds,
                   work, 0);
    rows[i] = (FitRow){{work / f->rate, h, h * r, pairs}, on_all(f, seconds, work / 2 < SHARES_KERNEL), 0};
  }
  calibrate_fit(HEADS, rows, 4, factor);
  f->attention = fmin(2, factor[0] > 0 ? 1 / factor[0] : 2);
  f->group = factor[1], f->row = factor[2], f->pair = factor[3];
}

/* ---- convolutions */

typedef struct ConvShapeOf {
  int images, in, size, out, window, stride, groups;
} ConvShapeOf;

static const ConvShapeOf convs[] = {
    {1, 3, 112, 64, 7, 2, 1},  {1, 64, 56, 64, 3, 1, 1},   {1, 64, 56, 64, 1, 1, 1},   {1, 16, 16, 16, 3, 1, 1},
    {1, 16, 32, 32, 3, 1, 1},  {1, 3, 32, 16, 3, 1, 1},    {1, 256, 14, 256, 3, 1, 1}, {4, 64, 14, 64, 3, 1, 1},
    {1, 64, 28, 64, 3, 1, 64}, {1, 96, 28, 96, 3, 1, 96},  {1, 128, 28, 64, 1, 1, 1},  {1, 64, 28, 256, 1, 1, 1},
    {1, 8, 64, 8, 3, 1, 1},    {1, 128, 16, 128, 3, 2, 1}, {1, 32, 64, 32, 3, 1, 1},   {1, 16, 8, 16, 3, 1, 1},
    {1, 4, 16, 16, 3, 1, 1},   {1, 32, 4, 32, 3, 1, 1},    {1, 64, 4, 64, 1, 1, 1}};
enum { CONVS = sizeof convs / sizeof *convs };

/* The row of a fit on one thread. */
static FitRow conv_row(const CpuFigures *f, double work, double columns, double results, double seconds) {
  double filled = ceil(columns / PROGRAM_PANEL) * PROGRAM_PANEL / columns;
  return (FitRow){{1, f->threads * work * filled / f->rate, f->threads * results}, seconds - f->launch, 0};
}

static CpuConv conv_figures(const FitRow *rows, int n) {
  double factor[FIT_FEATURES];
  calibrate_fit(n, rows, 3, factor);
  return (CpuConv){.begin = factor[0], .element = factor[2], .share = fmin(2, factor[1] > 0.5 ? 1 / factor[1] : 2)};
}

/* Returns the time that several threads add to the figures of one. */
static double shared_seconds(const CpuFigures *f, const CpuConv *x, const FitRow *rows, int n, const double *works,
                             const double *seconds) {
  double more[CONVS];
  int known = 0;
  for (int i = 0; i < n && f->threads > 1; i++) {
    bool alone = works[i] / 2 < SHARES_CONVOLUTION;
    double all = (rows[i].feature[1] / x->share + rows[i].feature[2] * x->element) / f->threads;
    if (seconds[i] > 0) more[known++] = seconds[i] - f->launch - x->begin - (alone ? all * f->threads : all + f->fork);
  }
  return known ? fmax(0, calibrate_median(more, known)) : 0;
}

static const char *convs_text(Arena *a) {
  ProbeModel m = probe_model(a);
  for (int i = 0; i < CONVS; i++) {
    ConvShapeOf s = convs[i];
    input(&m, arena_printf(a, "x%d", i), arena_printf(a, "f32[%d, %d, %d, %d]", s.images, s.in, s.size, s.size));
    text_printf(&m.body, "output p%d = conv2d(x%d, %d, %d, stride=%d, groups=%d, bias=false) as \"c%d\"\n", i, i, s.out,
                s.window, s.stride, s.groups, i);
  }
  return model_text(a, &m);
}

typedef struct Convs {
  FitRow rows[CONVS];
  double works[CONVS], seconds[CONVS];
} Convs;

static void list_convs(Calibrate *c, const CpuFigures *f, const ProbeTimes *x, const char *what, Convs *out) {
  for (int i = 0; i < CONVS; i++) {
    ConvShapeOf s = convs[i];
    double side = s.size / s.stride, results = s.images * side * side * s.out;
    out->works[i] = 2 * results * s.in / s.groups * s.window * s.window;
    out->seconds[i] = calibrate_time(x, i, "conv");
    calibrate_note(c, what,
                   arena_printf(c->arena, "%d of %dx%d, %d to %d, %dx%d, %d groups", s.images, s.size, s.size, s.in,
                                s.out, s.window, s.window, s.groups),
                   out->seconds[i], out->works[i], 0);
    out->rows[i] = conv_row(f, out->works[i], s.out, results, out->seconds[i]);
  }
}

static void fit_conv_alone(Calibrate *c, CpuFigures *f, const ProbeTimes *x) {
  Convs all;
  list_convs(c, f, x, "convolution on one thread", &all);
  f->conv[CONV_forward] = conv_figures(all.rows, CONVS);
}

static void fit_convs(Calibrate *c, CpuFigures *f, const ProbeTimes *x) {
  Convs all;
  CpuConv *forward = &f->conv[CONV_forward];
  list_convs(c, f, x, "convolution", &all);
  forward->shared = shared_seconds(f, forward, all.rows, CONVS, all.works, all.seconds);
}

/* Transposed convolutions. */
static const struct {
  int in, size, out, window;
} reverses[] = {{128, 16, 64, 2},  {64, 32, 32, 2}, {32, 32, 16, 2}, {64, 28, 64, 3}, {16, 32, 16, 3},
                {128, 14, 128, 3}, {16, 4, 16, 3},  {32, 4, 32, 2},  {8, 8, 16, 2}};
enum { REVERSES = sizeof reverses / sizeof *reverses };

static const char *reverse_text(Arena *a) {
  ProbeModel m = probe_model(a);
  for (int i = 0; i < REVERSES; i++) {
    input(&m, arena_printf(a, "x%d", i),
          arena_printf(a, "f32[1, %d, %d, %d]", reverses[i].in, reverses[i].size, reverses[i].size));
    text_printf(&m.body, "output p%d = conv2d_transpose(x%d, %d, %d, stride=%d, bias=false) as \"c%d\"\n", i, i,
                reverses[i].out, reverses[i].window, reverses[i].window == 2 ? 2 : 1, i);
  }
  return model_text(a, &m);
}

/* On one thread; the cost of sharing is that of forward convolutions. */
static void fit_reverse(Calibrate *c, CpuFigures *f, const ProbeTimes *x) {
  FitRow rows[REVERSES];
  for (int i = 0; i < REVERSES; i++) {
    int size = reverses[i].size, window = reverses[i].window, out = reverses[i].out;
    double side = window == 2 ? 2 * size : size + 2, results = side * side * out;
    double work = 2. * size * size * reverses[i].in * out * window * window, seconds = calibrate_time(x, i, "conv");
    calibrate_note(c, "transposed convolution",
                   arena_printf(c->arena, "%dx%d, %d to %d, %dx%d", size, size, reverses[i].in, out, window, window),
                   seconds, work, 0);
    rows[i] = conv_row(f, work, out, results, seconds);
  }
  f->conv[CONV_transpose] = conv_figures(rows, REVERSES);
  f->conv[CONV_transpose].shared = f->conv[CONV_forward].shared;
  f->conv[CONV_filter] = f->conv[CONV_transpose]; /* the model language has no function for the third direction */
}

/* ---- the file */

static void print_kernels(Text *o, const CpuFigures *f) {
  text_printf(o, "kernels cpu-measured {\n  attention %.3g;\n  fork %.4g ns;\n", f->attention, f->fork * 1e9);
  for (int i = 0; i + 1 < f->levels; i++)
    text_printf(o, "  cache %.4g MB at %.4g GB/s;\n", moved_bytes[i] / 1e6, f->moved[i] / 1e9);
  for (int i = 0; i < f->levels; i++)
    text_printf(o, "  weights %.4g MB at %.4g GB/s;\n", weights_bytes[i] / 1e6, f->read[i] / 1e9);
  text_printf(o, "  product %.4g ns pack %.4g ns turned %.4g ns;\n", f->product * 1e9, f->pack * 1e9, f->turned * 1e9);
  for (int i = 0; i < CONV_WAYS; i++)
    text_printf(o, "  convolution %s begin %.4g ns shared %.4g ns element %.4g ns share %.3g;\n",
                compute_conv_way_name((ConvWay)i), f->conv[i].begin * 1e9, f->conv[i].shared * 1e9,
                f->conv[i].element * 1e9, f->conv[i].share);
  text_printf(o, "  scores group %.4g ns row %.4g ns pair %.4g ns;\n", f->group * 1e9, f->row * 1e9, f->pair * 1e9);
  for (int i = 0; i < OP_COUNT; i++)
    if (f->element[i] > 0) text_printf(o, "  element %s %.4g ns;\n", op_name((OpKind)i), f->element[i] * 1e9);
  text_add(o, "}\n");
}

static void print_cpu(Calibrate *c, const CpuFigures *f, double ranks) {
  Text *o = &c->blocks;
  const Target *was = topo_target_find(c->t->diags, c->arena, "cpu");
  const double double_share = was->flops[CT_f64] / was->flops[CT_f32];
  text_printf(o, "cpu measured {\n  cores %.0f;\n  memory %.4g GB at %.4g GB/s;\n", f->threads,
              c->target->memory_bytes * c->target->ranks / 1e9, f->moved[f->levels - 1] / 1e9);
  text_printf(o, "  request %.4g us ranks %.4g us;\n  launch %.4g ns;\n  peak f32 %.4g GFLOPS;\n", f->request * 1e6,
              ranks * 1e6, f->launch * 1e9, f->rate / 1e9);
  text_printf(o, "  peak f64 %.4g GFLOPS;\n  kernels cpu-measured;\n", f->rate * double_share / 1e9);
  text_add(o,
           "  note \"not measured: the size of memory, and f64, which has the share of f32 that it has in the fixed "
           "figures\";\n}\n");
}

/* ---- all probes */

typedef struct CpuProbe {
  const char *name;
  const char *(*text)(Arena *a);
  void (*fit)(Calibrate *c, CpuFigures *f, const ProbeTimes *x);
  int threads; /* 0: all */
} CpuProbe;

/* Ordered so that every fit finds the figures that it subtracts. */
static const CpuProbe alone[] = {{"request", one_text, fit_one, 0},
                                 {"launches", many_text, fit_many, 0},
                                 {"weights", weights_text, fit_weights, 0},
                                 {"values", values_text, fit_values, 0},
                                 {"turned", turned_text, fit_turned, 0},
                                 {"elements", elements_text, fit_elements, 0},
                                 {"attention", attention_text, fit_attention, 0},
                                 {"convolution", convs_text, fit_conv_alone, 1},
                                 {"convolutions", convs_text, fit_convs, 0},
                                 {"reverse", reverse_text, fit_reverse, 1}};
enum {
  ALONE = sizeof alone / sizeof *alone,
  FIRST = 3,
  ALL = ALONE + 2 * LEVELS + 2
}; /* FIRST: the first probe after those of caches */

/* A program with almost no work, on all ranks. */
static Probe ranks_probe(Calibrate *c) {
  PlanPin *pin = ARENA_NEW(c->arena, PlanPin);
  *pin = (PlanPin){.text = "p0:1=tp", .glob = "p0", .dim = 1, .degree = DEGREE_tp};
  return (Probe){.name = "ranks",
                 .text = "entry main(x: f32[1, 64]) {\n  output p0 = relu(x)\n}\n",
                 .target = c->target,
                 .pins = pin,
                 .npins = 1};
}

static int levels_of(const Calibrate *c) { return calibrate_is_rehearsal(c) ? 2 : LEVELS; }

static int list_probes(Calibrate *c, Probe *out) {
  const Target *one = topo_target_find(c->t->diags, c->arena, "cpu");
  int n = 0;
  for (int i = 0; i < ALONE; i++)
    out[n++] =
        (Probe){.name = alone[i].name, .text = alone[i].text(c->arena), .target = one, .threads = alone[i].threads};
  for (int i = 0; i < levels_of(c); i++)
    out[n++] = (Probe){.name = arena_printf(c->arena, "moves%d", i), .text = moved_text(c->arena, i), .target = one};
  for (int i = 0; i < levels_of(c); i++)
    out[n++] = (Probe){.name = arena_printf(c->arena, "reads%d", i), .text = read_text(c->arena, i), .target = one};
  if (c->target->ranks < 2) return n;
  out[n++] = ranks_probe(c);
  out[n++] = calibrate_comm_probe(c);
  return n;
}

static void fit_all(Calibrate *c, CpuFigures *f, const Probe *p) {
  for (int i = 0; i < ALONE; i++) {
    for (int k = 0; k < f->levels && i == FIRST; k++) {
      fit_moved(c, f, &p[ALONE + k].times, k);
      fit_read(c, f, &p[ALONE + f->levels + k].times, k);
    }
    alone[i].fit(c, f, &p[i].times);
  }
}

bool calibrate_cpu(Calibrate *c) {
  CpuFigures f = {.threads = session_threads_per_rank(1), .levels = levels_of(c)};
  Probe probes[ALL];
  const int n = list_probes(c, probes), several = c->target->ranks - 1;
  const TargetTier *fixed = &c->target->tiers[0];
  double link;
  if (!calibrate_run(c, probes, n)) return false;
  fit_all(c, &f, probes);
  if (f.lost) return false;
  print_kernels(&c->blocks, &f);
  print_cpu(c, &f, several ? fmax(0, probes[n - 2].times.request - f.request - f.launch) / several : 0);
  if (several && !calibrate_comm(c, &probes[n - 1].times, "ranks-measured", &link)) return false;
  text_printf(&c->blocks, "machine %s {\n  devices 1 measured;\n", c->target->machine);
  if (several) text_printf(&c->blocks, "  link shared-memory at %.4g GB/s with ranks-measured;\n", link / 1e9);
  else
    text_printf(&c->blocks,
                "  link shared-memory at %.4g GB/s latency %.4g us;\n  note \"the link is not measured: "
                "calibrate with --target cpux2\";\n",
                fixed->bandwidth / 1e9, fixed->latency * 1e6);
  return true;
}
