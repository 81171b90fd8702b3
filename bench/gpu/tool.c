/* bench/gpu/tool.c - the parts of bench/gpu/on_device.sh that a shell cannot do, for machines without other tools.
 *
 *   gpu_tool versions                          the GPU, the driver and the libraries that programs find, NAME=VALUE
 *   gpu_tool compare GOT WANT RTOL             every tensor of WANT, both .npz or .safetensors; exit 1 if one differs
 *   gpu_tool unpack IN.gz OUT                  a program
 *   gpu_tool nccl                              a communicator of one rank, with its collectives in a graph
 *   gpu_tool ceilings BYTES N                  the speed of this GPU: a copy of that many bytes, products of N x N by
 *                                              cuBLASLt called directly; NAME=VALUE, in GB/s and TFLOP/s
 *   gpu_tool figures PROFILE.json BYTES FLOPS CEILING PLANNED OTHER
 *                                              the GPU's time of one run, and its rates from the bytes and operations
 *                                              (0 if unknown), relative to their ceiling, to the planned time and to
 *                                              PyTorch's time (us)
 *
 * Times are medians of RUNS, by the GPU's events.  Numbers are random: products of zeros are faster than others. */
#include "tests/gpu/raw.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/compare.h"
#include "base/npz.h"
#include "base/random.h"
#include "base/safetensors.h"
#include "base/statistics.h"

enum { RUNS = 10, WARM = 3, WORKSPACE = 32 << 20, ELEMENTS = 1 << 16 };

/* ---- versions */

static void say_library(const char *name, RtStatus status, int version, const RtError *error) {
  char text[32];
  gpu_library_text(version, text);
  if (status) fprintf(stderr, "%s\n", error->text);
  printf("%s=%s\n", name, status ? "none" : text);
}

static int versions(void) {
  Gpu g;
  CudaBlas blas;
  CudaDnn dnn;
  CudaNccl nccl;
  RtError error = {0};
  char name[128] = "", text[32];
  int major, minor, version;
  size_t bytes;
  raw_open(&g);
  MUST(&g, device_name, "the GPU's name", name, sizeof name - 1, g.device);
  MUST(&g, device_attribute, "the GPU", &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, g.device);
  MUST(&g, device_attribute, "the GPU", &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, g.device);
  MUST(&g, device_memory, "the GPU", &bytes, g.device);
  gpu_driver_text(g.version, text);
  printf("gpu=%s\narch=sm_%d%d\nmemory=%.0f GiB\ndriver=CUDA %s\n", name, major, minor, ldexp((double)bytes, -30),
         text);
  RtStatus status = gpu_open_blas(g.version, &blas, &version, &error);
  say_library("cublaslt", status, version, &error);
  status = gpu_open_dnn(g.version, &dnn, &version, &error);
  say_library("cudnn", status, version, &error);
  status = gpu_open_nccl(g.version, &nccl, &version, &error);
  say_library("nccl", status, version, &error);
  raw_close(&g);
  return 0;
}

/* ---- compare */

/* Returns the distance relative to `want`, extended by an equal number `least` in both; -1 if they cannot be
 * compared. */
static double distance_of(const Tensor *got, const Tensor *want, double least) {
  Distance d = {0};
  size_t size = dtype_bytes(want->dtype);
  if (got->dtype != want->dtype || !tensor_same_shape(got, want)) return -1;
  for (size_t i = 0; i * size < want->bytes; i++) {
    const char *x = (const char *)got->data + i * size, *y = (const char *)want->data + i * size;
    if (dtype_is_float(want->dtype)) distance_add(&d, dtype_load_f(want->dtype, x), dtype_load_f(want->dtype, y));
    else if (dtype_load_i(want->dtype, x) != dtype_load_i(want->dtype, y)) return INFINITY;
  }
  distance_add(&d, least, least);
  return distance_relative(&d);
}

static bool judge(const char *name, double off, double most) {
  if (off < 0) printf("%s is missing or has another type or shape\n", name);
  else printf("%s: relative L2 %.2g\n", name, off);
  return off >= 0 && off <= most;
}

static bool compare_npz(Diags *d, const char *got_file, const char *want_file, double most) {
  Npz *want = npz_open(d, want_file), *got = want ? npz_open(d, got_file) : NULL;
  bool equal = got && want->n > 0;
  for (size_t i = 0; got && i < want->n; i++) {
    const NpzMember *member = &want->items[i], *mine = npz_find(got, member->name);
    Tensor x, y;
    double off = -1;
    if (npz_read(want, member, &y)) {
      if (mine && npz_read(got, mine, &x)) {
        off = distance_of(&x, &y, 0);
        tensor_free(&x);
      }
      tensor_free(&y);
    }
    equal = judge(member->name, off, most) && equal;
  }
  npz_close(got);
  npz_close(want);
  return equal;
}

static bool compare_safetensors(Diags *d, const char *got_file, const char *want_file, double most) {
  const double least = 1e-2; /* weights that stay 0 hold rounding errors */
  Safetensors *want = safetensors_open(d, want_file), *got = want ? safetensors_open(d, got_file) : NULL;
  bool equal = got && want->n > 0;
  double worst = 0;
  for (size_t i = 0; got && i < want->n; i++) {
    const SafetensorsEntry *entry = &want->items[i], *mine = safetensors_find(got, entry->name);
    Tensor x, y;
    double off = -1;
    if (safetensors_read(want, entry, &y)) {
      if (mine && safetensors_read(got, mine, &x)) {
        off = distance_of(&x, &y, least);
        tensor_free(&x);
      }
      tensor_free(&y);
    }
    equal = judge(entry->name, off, most) && equal;
    worst = fmax(worst, off);
  }
  if (got) printf("%zu weights: relative L2 at most %.2g\n", want->n, worst);
  safetensors_close(got);
  safetensors_close(want);
  return equal;
}

static int compare(const char *got, const char *want, double most) {
  Arena *arena = arena_new();
  Diags *d = diags_new(arena);
  const char *dot = strrchr(want, '.');
  bool weights = dot && strcmp(dot, ".safetensors") == 0;
  bool equal = weights ? compare_safetensors(d, got, want, most) : compare_npz(d, got, want, most);
  diags_print(d, stderr, false);
  arena_free(arena);
  return equal ? 0 : 1;
}

/* ---- unpack */

static int unpack(const char *in, const char *out) {
  static char bytes[1 << 16];
  gzFile from = gzopen(in, "rb");
  FILE *to = from ? fopen(out, "wb") : NULL;
  int n = -1;
  bool ok = to != NULL;
  while (ok && (n = gzread(from, bytes, sizeof bytes)) > 0) ok = fwrite(bytes, 1, (size_t)n, to) == (size_t)n;
  ok = ok && n == 0;
  if (from) ok = gzclose(from) == Z_OK && ok;
  if (to) ok = fclose(to) == 0 && ok;
  if (!ok) fprintf(stderr, "%s cannot be unpacked to %s\n", in, out);
  return ok ? 0 : 1;
}

/* ---- measurement */

static CUdeviceptr memory(const Gpu *g, size_t bytes) {
  CUdeviceptr at = 0;
  MUST(g, memory_alloc, "memory", &at, bytes);
  return at;
}

/* Fills with random numbers in [-1, 1) that repeat after ELEMENTS: `size` 4 (f32), or 2 for the upper halves (bf16). */
static void fill(const Gpu *g, CUdeviceptr at, size_t bytes, size_t size, uint64_t seed) {
  static float numbers[ELEMENTS];
  static uint16_t halves[ELEMENTS];
  for (uint32_t i = 0; i < ELEMENTS; i++) {
    numbers[i] = random_uniform(seed, 0, i) * 2 - 1;
    uint32_t bits;
    memcpy(&bits, &numbers[i], sizeof bits);
    halves[i] = (uint16_t)(bits >> 16);
  }
  const void *from = size == 4 ? (const void *)numbers : halves;
  for (size_t done = 0, n; done < bytes; done += n) {
    n = bytes - done < ELEMENTS * size ? bytes - done : ELEMENTS * size;
    MUST(g, copy_to, "random numbers", at + done, from, n, g->queue);
  }
  MUST(g, queue_finish, "random numbers", g->queue);
}

/* Work to be measured repeatedly. */
typedef void Work(const Gpu *g, void *data);

/* Returns the median in milliseconds. */
static double measure(const Gpu *g, Work *work, void *data) {
  CUevent begin, end;
  double ms[RUNS];
  MUST(g, event_create, "times", &begin, CU_EVENT_DEFAULT);
  MUST(g, event_create, "times", &end, CU_EVENT_DEFAULT);
  for (int i = -WARM; i < RUNS; i++) {
    float time = 0;
    MUST(g, event_record, "times", begin, g->queue);
    work(g, data);
    MUST(g, event_record, "times", end, g->queue);
    MUST(g, queue_finish, "times", g->queue);
    MUST(g, event_elapsed, "times", &time, begin, end);
    if (i >= 0) ms[i] = (double)time;
  }
  MUST(g, event_destroy, "times", begin);
  MUST(g, event_destroy, "times", end);
  return statistics_of(ms, RUNS).median;
}

/* ---- ceilings */

typedef struct Copying {
  CUdeviceptr from, to;
  size_t bytes;
} Copying;

static void copy(const Gpu *g, void *data) {
  const Copying *c = data;
  MUST(g, copy_on, "a copy", c->to, c->from, c->bytes, g->queue);
}

static void measure_copy(const Gpu *g, size_t bytes) {
  Copying c = {memory(g, bytes), memory(g, bytes), bytes};
  fill(g, c.from, bytes, 4, 1);
  printf("copy=%.0f\n", 2 * (double)bytes / measure(g, copy, &c) * 1e-6);
  MUST(g, memory_free, "memory", c.from);
  MUST(g, memory_free, "memory", c.to);
}

typedef struct Multiplying {
  CudaBlas blas;
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t operand, result;
  cublasLtMatmulHeuristicResult_t found;
  CUdeviceptr a, b, c, workspace;
} Multiplying;

#define MUST_BLAS(g, m, member, ...) \
  do { \
    RtError error_ = {0}; \
    if (gpu_judge_blas(&(m)->blas, (m)->blas.member(__VA_ARGS__), gpu_blas_names.member, "a product", &error_)) \
      end_for(&error_); \
  } while (0)

static void *pointer(CUdeviceptr at) { return (void *)(uintptr_t)at; }

static void multiply(const Gpu *g, void *data) {
  const Multiplying *m = data;
  const float one = 1, zero = 0;
  MUST_BLAS(g, m, product, m->handle, m->product, &one, pointer(m->a), m->operand, pointer(m->b), m->operand, &zero,
            pointer(m->c), m->result, pointer(m->c), m->result, &m->found.algo, pointer(m->workspace), WORKSPACE,
            g->queue);
}

static void choose(const Multiplying *m, cublasLtMatmulHeuristicResult_t *found) {
  cublasLtMatmulPreference_t wish;
  uint64_t most = WORKSPACE;
  int n = 0;
  MUST_BLAS(g, m, preference_create, &wish);
  MUST_BLAS(g, m, preference_set, wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
  MUST_BLAS(g, m, algorithms, m->handle, m->product, m->operand, m->operand, m->result, m->result, wish, 1, found, &n);
  MUST_BLAS(g, m, preference_destroy, wish);
  if (n > 0) return;
  fprintf(stderr, "cuBLASLt has no algorithm for a product\n");
  exit(1);
}

static void measure_product(const Gpu *g, Multiplying *m, const char *name, cublasComputeType_t compute,
                            cudaDataType type, size_t n) {
  size_t size = type == CUDA_R_32F ? 4 : 2;
  m->a = memory(g, n * n * size), m->b = memory(g, n * n * size), m->c = memory(g, n * n * size);
  m->workspace = memory(g, WORKSPACE);
  fill(g, m->a, n * n * size, size, 2);
  fill(g, m->b, n * n * size, size, 3);
  MUST_BLAS(g, m, product_create, &m->product, compute, CUDA_R_32F);
  MUST_BLAS(g, m, layout_create, &m->operand, type, n, n, (int64_t)n);
  MUST_BLAS(g, m, layout_create, &m->result, type, n, n, (int64_t)n);
  choose(m, &m->found);
  printf("%s=%.1f\n", name, 2 * (double)n * (double)n * (double)n / measure(g, multiply, m) * 1e-9);
  MUST_BLAS(g, m, layout_destroy, m->result);
  MUST_BLAS(g, m, layout_destroy, m->operand);
  MUST_BLAS(g, m, product_destroy, m->product);
  const CUdeviceptr all[] = {m->a, m->b, m->c, m->workspace};
  for (int i = 0; i < 4; i++) MUST(g, memory_free, "memory", all[i]);
}

static int ceilings(size_t bytes, size_t n) {
  Gpu g;
  Multiplying m;
  RtError error = {0};
  int version;
  raw_open(&g);
  measure_copy(&g, bytes);
  if (gpu_open_blas(g.version, &m.blas, &version, &error)) end_for(&error);
  MUST_BLAS(&g, &m, create, &m.handle);
  measure_product(&g, &m, "f32", CUBLAS_COMPUTE_32F, CUDA_R_32F, n);
  measure_product(&g, &m, "tf32", CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, n);
  measure_product(&g, &m, "bf16", CUBLAS_COMPUTE_32F, CUDA_R_16BF, n);
  MUST_BLAS(&g, &m, destroy, m.handle);
  raw_close(&g);
  return 0;
}

/* ---- one rank of NCCL */

typedef struct Alone {
  CudaNccl nccl;
  ncclComm_t comm;
  CUdeviceptr from, sum, gathered, scattered;
} Alone;

static void must_nccl(const Alone *a, ncclResult_t result, const char *call) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "%s: %s: %s\n", call, a->nccl.error_text(result), a->comm ? a->nccl.last_error(a->comm) : "");
  _exit(1);
}
#define MUST_NCCL(a, member, ...) must_nccl(a, (a)->nccl.member(__VA_ARGS__), "NCCL, " #member)

/* Issues three collectives; with one rank, all of them copy. */
static void collectives(const Gpu *g, const Alone *a) {
  MUST_NCCL(a, all_reduce, pointer(a->from), pointer(a->sum), ELEMENTS, ncclFloat32, ncclSum, a->comm, g->queue);
  MUST_NCCL(a, all_gather, pointer(a->sum), pointer(a->gathered), ELEMENTS, ncclFloat32, a->comm, g->queue);
  MUST_NCCL(a, reduce_scatter, pointer(a->gathered), pointer(a->scattered), ELEMENTS, ncclFloat32, ncclMax, a->comm,
            g->queue);
}

/* Captures them as one graph, after a run outside it, so that NCCL sets up nothing during capture. */
static CUgraphExec capture(const Gpu *g, const Alone *a) {
  CUgraph graph;
  CUgraphExec exec;
  collectives(g, a);
  MUST(g, queue_finish, "collectives", g->queue);
  MUST(g, capture_begin, "a graph", g->queue, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  collectives(g, a);
  MUST(g, capture_end, "a graph", g->queue, &graph);
  MUST(g, graph_instantiate, "a graph", &exec, graph, 0);
  MUST(g, graph_destroy, "a graph", graph);
  return exec;
}

/* Replays the graph with numbers other than those at capture. */
static bool replays(const Gpu *g, const Alone *a, CUgraphExec exec, uint64_t seed) {
  static float want[ELEMENTS], got[ELEMENTS];
  const size_t bytes = sizeof want;
  fill(g, a->from, bytes, 4, seed);
  MUST(g, graph_launch, "a graph", exec, g->queue);
  MUST(g, copy_from, "a result", want, a->from, bytes, g->queue);
  MUST(g, copy_from, "a result", got, a->scattered, bytes, g->queue);
  MUST(g, queue_finish, "a graph", g->queue);
  return memcmp(got, want, bytes) == 0;
}

static int nccl(void) {
  Gpu g;
  Alone a = {0};
  RtError error = {0};
  ncclUniqueId id;
  ncclConfig_t config = {sizeof config,         NCCL_CONFIG_MAGIC,     NCCL_CONFIG_VERSION,   1,
                         NCCL_CONFIG_UNDEFINED, NCCL_CONFIG_UNDEFINED, NCCL_CONFIG_UNDEFINED, NULL,
                         NCCL_CONFIG_UNDEFINED};
  const size_t bytes = ELEMENTS * sizeof(float);
  int version, good = 0;
  raw_open(&g);
  if (gpu_open_nccl(g.version, &a.nccl, &version, &error)) end_for(&error);
  MUST_NCCL(&a, unique_id, &id);
  MUST_NCCL(&a, init, &a.comm, 1, id, 0, &config);
  a.from = memory(&g, bytes), a.sum = memory(&g, bytes);
  a.gathered = memory(&g, bytes), a.scattered = memory(&g, bytes);
  CUgraphExec exec = capture(&g, &a);
  for (uint64_t i = 0; i < 3; i++) good += replays(&g, &a, exec, i + 1);
  MUST(&g, graph_exec_destroy, "a graph", exec);
  MUST_NCCL(&a, finalize, a.comm);
  MUST_NCCL(&a, destroy, a.comm);
  const CUdeviceptr all[] = {a.from, a.sum, a.gathered, a.scattered};
  for (int i = 0; i < 4; i++) MUST(&g, memory_free, "memory", all[i]);
  raw_close(&g);
  printf("%d of 3 replays equal\n", good);
  return good == 3 ? 0 : 1;
}

/* ---- figures */

/* Returns the microseconds that the GPU computes and copies in one run. */
static double gpu_time(const char *file) {
  static const char *const parts[] = {"products", "convolutions", "kernels", "copies"};
  json_error_t error;
  json_t *d = json_load_file(file, 0, &error);
  json_t *rank = json_array_get(json_object_get(d, "ranks"), 0), *sums = json_object_get(rank, "sums_us");
  double runs = json_number_value(json_object_get(d, "runs")), us = 0;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) us += json_number_value(json_object_get(sums, parts[i]));
  if (!d) fprintf(stderr, "%s: %s\n", file, error.text);
  json_decref(d);
  return runs > 0 ? us / runs : 0;
}

static int figures(const char *file, double bytes, double flops, double ceiling, double planned, double torch) {
  double us = gpu_time(file);
  if (!(us > 0)) return 1;
  printf("%.3f ms on the GPU", us * 1e-3);
  if (bytes > 0) printf(", %.0f GB/s", bytes / us * 1e-3);
  if (flops > 0) printf(", %.1f TFLOP/s", flops / us * 1e-6);
  if (ceiling > 0)
    printf(", %.0f %% of the ceiling", 100 * (bytes > 0 ? bytes / us * 1e-3 : flops / us * 1e-6) / ceiling);
  if (planned > 0) printf(", planned %.3f ms (%.2f of it)", planned * 1e-3, us / planned);
  if (torch > 0) printf(", PyTorch %.3f ms (%.2f of its speed)", torch * 1e-3, torch / us);
  printf("\n");
  return 0;
}

/* ---- */

static double number(const char *text) {
  char *end;
  double v = strtod(text, &end);
  if (end != text && !*end && v >= 0) return v;
  fprintf(stderr, "'%s' is not a number\n", text);
  exit(2);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (argc == 2 && strcmp(what, "versions") == 0) return versions();
  if (argc == 2 && strcmp(what, "nccl") == 0) return nccl();
  if (argc == 4 && strcmp(what, "unpack") == 0) return unpack(argv[2], argv[3]);
  if (argc == 5 && strcmp(what, "compare") == 0) return compare(argv[2], argv[3], number(argv[4]));
  if (argc == 4 && strcmp(what, "ceilings") == 0) return ceilings((size_t)number(argv[2]), (size_t)number(argv[3]));
  if (argc == 8 && strcmp(what, "figures") == 0)
    return figures(argv[2], number(argv[3]), number(argv[4]), number(argv[5]), number(argv[6]), number(argv[7]));
  fprintf(stderr,
          "usage: gpu_tool versions | nccl | unpack IN.gz OUT | compare GOT WANT RTOL | ceilings BYTES N | "
          "figures PROFILE.json BYTES FLOPS CEILING PLANNED OTHER\n");
  return 2;
}
