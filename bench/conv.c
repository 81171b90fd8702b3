/* bench/conv.c - the convolutions of ResNet-50 and some others: our kernel and oneDNN alternate on the same numbers.
 *
 * usage: bench_conv [IMAGES] [ROUNDS]      OMP_NUM_THREADS sets the threads of both
 *
 * Both compute only the convolution, on images with channels last; weights are converted to the library's layout before
 * it is timed.  Prints the least time of all rounds, GFLOP/s, and the largest difference of the results; stops if the
 * difference exceeds rounding.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/compare.h"
#include "codegen/cpu/c_compiler.h"
#include "codegen/rows/row_work.h"
#include "codegen/target.h"
#include "runtime/device/conv_dnnl.h"

typedef struct Layer {
  const char *what;
  int side, groups, in, out, window, stride; /* channels per group; padding is half the window */
} Layer;

static const Layer layers[] = {{"conv1", 224, 1, 3, 64, 7, 2},          {"conv2 3x3", 56, 1, 64, 64, 3, 1},
                               {"conv3 3x3/2", 56, 1, 128, 128, 3, 2},  {"conv3 1x1/2", 56, 1, 256, 512, 1, 2},
                               {"conv3 3x3", 28, 1, 128, 128, 3, 1},    {"conv4 3x3/2", 28, 1, 256, 256, 3, 2},
                               {"conv4 1x1/2", 28, 1, 512, 1024, 1, 2}, {"conv4 3x3", 14, 1, 256, 256, 3, 1},
                               {"conv5 3x3/2", 14, 1, 512, 512, 3, 2},  {"conv5 1x1/2", 14, 1, 1024, 2048, 1, 2},
                               {"conv5 3x3", 7, 1, 512, 512, 3, 1},     {"depthwise", 112, 32, 1, 1, 3, 1},
                               {"depthwise/2", 56, 144, 1, 1, 3, 2},    {"32 groups", 56, 32, 4, 4, 3, 1},
                               {"U-Net", 64, 1, 48, 48, 3, 1}};
enum { LAYERS = sizeof layers / sizeof layers[0] };

typedef struct Made {
  const Unit *unit;
  int64_t scalars[64];
  ConvShape shape;
} Made;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const char *what) {
  fprintf(stderr, "bench_conv: %s\n", what);
  exit(1);
}

static int64_t value_of(const Expr *e) {
  int64_t v = 0;
  if (!ex_eval(e, NULL, &v)) fail("an expression overflows");
  return v;
}

/* Makes the layer in level-2 form, and its kernel in the set. */
static void make_layer(Arena *a, KernelSet *set, const Layer *l, int images, Made *out) {
  int pad = l->window / 2, side = (l->side + 2 * pad - l->window) / l->stride + 1;
  const char *x = arena_printf(a, "f32[%d,%d,%d,%d,%d]", images, l->side, l->side, l->groups, l->in);
  const char *w = arena_printf(a, "f32[%d,%d,%d,%d,%d]", l->window, l->window, l->groups, l->in, l->out);
  const char *text = arena_printf(a,
                                  "apc.ir 1\nmesh [tp=1] stages 1\nparam \"w\" : %s = zeros\nfunc @main level 2 {\n  "
                                  "%%x = input {name=\"x\"} : %s @{}\n"
                                  "  %%w = param {name=\"w\"} : %s @{}\n  %%y = conv %%x, %%w {starts=[%d, %d], "
                                  "strides=[%d, %d], dilations=[1, 1], "
                                  "spec=\"nHWgc,HWgco->nHWgo\"} : f32[%d,%d,%d,%d,%d]\n  output \"y\" %%y @{}\n}\n",
                                  w, x, w, -pad, -pad, l->stride, l->stride, images, side, side, l->groups, l->out);
  Diags *diags = diags_new(a);
  Module *m = ir_parse("layer", text, diags);
  if (!m || !verify_module(m, diags)) {
    diags_print(diags, stderr, false);
    fail("the layer is not valid");
  }
  const DeviceTraits *cpu = target_device_traits(DEVICE_cpu);
  const Func *f = module_func(m, "main");
  UnitList *units = units_of(work_new(m, f, 0, cpu, true));
  kernel_target(cpu)->print(m, f, units, set);
  for (size_t i = 0; i < units->n; i++)
    if (units->items[i].kind == UNIT_KERNEL) out->unit = &units->items[i];
  if (!out->unit || !out->unit->conv || out->unit->nscalars > 64) fail("the library does not support the layer");
  int64_t numbers[PROGRAM_CONV_NUMBERS];
  for (int i = 0; i < PROGRAM_CONV_NUMBERS; i++) numbers[i] = value_of(out->unit->conv->numbers[i]);
  memcpy(&out->shape, numbers, sizeof numbers);
  out->shape.dtype = DT_f32;
  for (int i = 0; i < out->unit->nscalars; i++) out->scalars[i] = value_of(out->unit->scalars[i]);
}

static void *compile(const KernelSet *set) {
  char folder[] = "/tmp/bench-conv-XXXXXX", command[1000], path[100];
  size_t n;
  const char **texts = kernel_target(target_device_traits(DEVICE_cpu))->texts(set, &n);
  if (!mkdtemp(folder)) fail("no folder");
  for (size_t i = 0; i < n; i++) {
    snprintf(path, sizeof path, "%s/k%zu.c", folder, i);
    FILE *f = fopen(path, "w");
    if (!f || fputs(texts[i], f) < 0 || fclose(f)) fail("the kernels cannot be written");
  }
  snprintf(command, sizeof command, "cc %s %s/k*.c -o %s/k.so -lm", UNITS_CFLAGS, folder, folder);
  if (system(command) != 0) fail("the kernels cannot be compiled");
  snprintf(path, sizeof path, "%s/k.so", folder);
  void *library = dlopen(path, RTLD_NOW);
  snprintf(command, sizeof command, "rm -r %s", folder);
  if (system(command) != 0 || !library) fail("the kernels cannot be loaded");
  return library;
}

static float *numbers(int64_t n) {
  float *x = aligned_alloc(64, ((size_t)n * sizeof(float) + 63) / 64 * 64);
  if (!x) fail("out of memory");
  for (int64_t i = 0; i < n; i++) x[i] = (float)(i * 7919 % 251) / 125 - 1;
  return x;
}

static double bench_layer(const Layer *l, Made *made, void (*kernel)(void *const *, const int64_t *), ConvCache *cache,
                          int rounds) {
  const ConvShape *s = &made->shape;
  int64_t channels = s->groups * s->out, nx = s->images * s->image[1] * s->image[2] * s->groups * s->in,
          nw = channels * s->in * s->window[1] * s->window[2];
  int64_t ny = s->images * s->output[1] * s->output[2] * channels;
  float *x = numbers(nx), *w = numbers(nw), *copy = numbers(nw + nw / 16), *y = numbers(ny), *z = numbers(ny);
  ConvWeights weights = {.data = copy, .bytes = (size_t)(nw + nw / 16) * sizeof(float), .mine = true};
  ConvCall call = {.shape = *s, .x = x, .y = z, .weights = &weights};
  double least[2] = {1e9, 1e9}, flops = 2.0 * (double)ny * (double)(s->in * s->window[1] * s->window[2]), far = 0,
         norm = 0;
  RtStatus status = RT_OK;
  RtError error = {0};
  bool known = true;
  for (int r = 0; r < rounds; r++)
    for (int side = 0; side < 2; side++) {
      double begin = now();
      if (side == 0) kernel((void *const[]){x, w, y}, made->scalars);
      else known = conv_run(cache, &call, &status, &error);
      double took = now() - begin;
      if (status) fail(error.text);
      if (r && took < least[side]) least[side] = took;
    }
  for (int64_t i = 0; i < ny; i++)
    far = fmax(far, number_gap((double)y[i], (double)z[i])), norm = fmax(norm, fabs((double)y[i]));
  if (known && far > 1e-4 * norm) fail("the results differ");
  printf("| %s, %d x %d, %lld -> %lld, %lld groups | %.3f ms, %.0f | ", l->what, l->side, l->side,
         (long long)(s->groups * s->in), (long long)channels, (long long)s->groups, least[0] * 1e3,
         flops / least[0] * 1e-9);
  if (known) printf("%.3f ms, %.0f | %.2f |\n", least[1] * 1e3, flops / least[1] * 1e-9, least[0] / least[1]);
  else printf("not by the library | |\n");
  conv_weights_free(&weights);
  free(x), free(w), free(copy), free(y), free(z);
  return known ? least[0] / least[1] : 1;
}

int main(int argc, char **argv) {
  int images = argc > 1 ? atoi(argv[1]) : 1, rounds = argc > 2 ? atoi(argv[2]) : 20;
  Arena *a = arena_new();
  KernelSet set = {.arena = a};
  static Made made[LAYERS];
  RtError error = {0};
  double log_sum = 0;
  if (images < 1 || rounds < 2) fail("usage: bench_conv [IMAGES] [ROUNDS]");
  setenv("OMP_WAIT_POLICY", "passive", 0);
  if (onednn_open(&error) != RT_OK) fail(error.text);
  for (int i = 0; i < LAYERS; i++) make_layer(a, &set, &layers[i], images, &made[i]);
  void *library = compile(&set);
  ConvCache *cache = conv_cache_new();
  printf(
      "%d images, %d threads\n\n| convolution | our kernel: time, GFLOP/s | oneDNN | oneDNN is faster by |\n| --- | "
      "--- | --- | --- |\n",
      images, onednn_threads());
  for (int i = 0; i < LAYERS; i++) {
    void (*kernel)(void *const *, const int64_t *);
    void *address = dlsym(library, set.kernels.items[made[i].unit->kernel].symbol);
    if (!address) fail("a kernel is missing");
    memcpy(&kernel, &address, sizeof address);
    log_sum += log(bench_layer(&layers[i], &made[i], kernel, cache, rounds));
  }
  printf("\ngeometric mean of the last column: %.2f\n", exp(log_sum / LAYERS));
  conv_cache_free(cache);
  arena_free(a);
  return 0;
}
