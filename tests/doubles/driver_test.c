/* tests/doubles/driver_test.c - the double of the driver: correct programs stay correct under every seed, and races
 * that a GPU shows only now and then are found.
 *
 * Kernels are compiled by NVRTC; without it their cases are skipped (and the program says so). */
#include <stdatomic.h>

#include "base/hash.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/cuda/print_cuda.h"
#include "tests/doubles/child.h"
#include "tests/doubles/cubin.h"
#include "tests/doubles/cuda_calls.h"
#include "tests/doubles/ptx.h"

enum { N = 1000 };

/* ---- helpers of the cases */

static CUcontext context;
static CUstream one, two;
static CUdeviceptr a, b;

static void begin(void) {
  MUST(cuInit(0));
  MUST(cuDevicePrimaryCtxRetain(&context, 0));
  MUST(cuCtxSetCurrent(context));
  MUST(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
  MUST(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
  MUST(cuMemAlloc_v2(&a, N));
  MUST(cuMemAlloc_v2(&b, N));
}

static int end(int result) {
  MUST(cuStreamSynchronize(one));
  MUST(cuStreamSynchronize(two));
  MUST(cuMemFree_v2(a));
  MUST(cuMemFree_v2(b));
  MUST(cuStreamDestroy_v2(one));
  MUST(cuStreamDestroy_v2(two));
  MUST(cuDevicePrimaryCtxRelease_v2(0));
  return result;
}

static int look(CUdeviceptr at, unsigned char want) {
  unsigned char got[N];
  MUST(cuCtxSynchronize());
  MUST(cuMemcpyDtoH_v2(got, at, N));
  for (int i = 0; i < N; i++)
    if (got[i] != want) return WRONG;
  return RIGHT;
}

/* ---- order */

static int copies(bool waits) {
  CUevent e;
  begin();
  MUST(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
  MUST(cuMemsetD8Async(a, 7, N, one));
  MUST(cuEventRecord(e, one));
  if (waits) MUST(cuStreamWaitEvent(two, e, 0));
  MUST(cuMemcpyDtoDAsync_v2(b, a, N, two));
  int result = look(b, 7);
  MUST(cuEventDestroy_v2(e));
  return end(result);
}
static int with_wait(void) { return copies(true); }
static int without_wait(void) { return copies(false); }

static int read_back(bool waits) {
  unsigned char *to;
  int result = RIGHT;
  begin();
  MUST(cuMemHostAlloc((void **)&to, N, 0));
  for (int round = 0; round < 2; round++) { /* the second finds the values of the first if it does not wait */
    MUST(cuMemsetD8Async(a, 5, N, one));
    MUST(cuMemcpyDtoHAsync_v2(to, a, N, one));
    if (waits) MUST(cuStreamSynchronize(one));
    for (int i = 0; i < N; i++)
      if (to[i] != 5) result = WRONG;
    MUST(cuStreamSynchronize(one));
  }
  MUST(cuMemFreeHost(to));
  return end(result);
}
static int read_at_last(void) { return read_back(true); }
static int read_too_early(void) { return read_back(false); }

static int pageable(void) {
  static unsigned char from[N];
  begin();
  memset(from, 3, N);
  MUST(cuMemcpyHtoDAsync_v2(a, from, N, one));
  memset(from, 4, N);
  return end(look(a, 3));
}

/* Two streams, captured: 7 goes to a, and from there to b. */
static int captured(bool waits, bool joins) {
  CUevent e;
  CUgraph g;
  CUgraphExec x;
  begin();
  MUST(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
  MUST(cuStreamBeginCapture_v2(one, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  if (!waits) MUST(cuEventRecord(e, one));
  MUST(cuMemsetD8Async(a, 7, N, one));
  if (waits) MUST(cuEventRecord(e, one));
  MUST(cuStreamWaitEvent(two, e, 0));
  MUST(cuMemcpyDtoDAsync_v2(b, a, N, two));
  MUST(cuEventRecord(e, two));
  if (joins) MUST(cuStreamWaitEvent(one, e, 0));
  if (cuStreamEndCapture(one, &g)) return REFUSED;
  MUST(cuGraphInstantiateWithFlags(&x, g, 0));
  MUST(cuGraphDestroy(g));
  MUST(cuMemsetD8Async(a, 9, N, one));
  MUST(cuGraphLaunch(x, one));
  MUST(cuMemsetD8Async(a, 8, N, one)); /* after all of the graph */
  int result = look(b, 7);
  MUST(cuGraphExecDestroy(x));
  MUST(cuEventDestroy_v2(e));
  return end(result);
}
static int graph_with_wait(void) { return captured(true, true); }
static int graph_without_wait(void) { return captured(false, true); }
static int graph_unjoined(void) { return captured(true, false); }

/* A graph writes a word of pinned memory, before and after a copy, while the host polls it. */
static int words(void) {
  _Atomic uint32_t *word;
  CUgraph g;
  CUgraphExec x;
  uint32_t seen = 0;
  begin();
  MUST(cuMemHostAlloc((void **)&word, sizeof *word, 0));
  atomic_init(word, 0);
  MUST(cuStreamBeginCapture_v2(one, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  MUST(cuMemsetD32Async((CUdeviceptr)(uintptr_t)word, 1, 1, one));
  MUST(cuMemsetD8Async(a, 7, N, one));
  MUST(cuMemsetD32Async((CUdeviceptr)(uintptr_t)word, 2, 1, one));
  MUST(cuStreamEndCapture(one, &g));
  MUST(cuGraphInstantiateWithFlags(&x, g, 0));
  MUST(cuGraphDestroy(g));
  MUST(cuGraphLaunch(x, one));
  MUST(cuGraphExecDestroy(x)); /* destroyed after its launch is over */
  while (cuStreamQuery(one) == CUDA_ERROR_NOT_READY) {
    uint32_t now = atomic_load(word);
    CHECKF(now >= seen && now <= 2, "%u after %u", now, seen);
    seen = now;
  }
  CHECK(atomic_load(word) == 2);
  MUST(cuMemFreeHost((void *)word));
  return end(test_failed_here ? WRONG : look(a, 7));
}

/* Captured from the second stream, launched in the first; later work of the second stream is unordered with it. */
static int graph_beside(void) {
  CUgraph g;
  CUgraphExec x;
  CUevent e;
  begin();
  MUST(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
  MUST(cuStreamBeginCapture_v2(one, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  MUST(cuEventRecord(e, one));
  MUST(cuStreamWaitEvent(two, e, 0));
  MUST(cuMemsetD8Async(a, 7, N, two));
  MUST(cuEventRecord(e, two));
  MUST(cuStreamWaitEvent(one, e, 0));
  MUST(cuStreamEndCapture(one, &g));
  MUST(cuGraphInstantiateWithFlags(&x, g, 0));
  MUST(cuGraphDestroy(g));
  MUST(cuGraphLaunch(x, one));
  MUST(cuMemsetD8Async(a, 7, 1, two));
  MUST(cuStreamSynchronize(one));
  MUST(cuStreamSynchronize(two));
  MUST(cuGraphExecDestroy(x));
  MUST(cuEventDestroy_v2(e));
  return end(RIGHT);
}

static int forbidden(void) {
  CUgraph g;
  CUdeviceptr more;
  begin();
  MUST(cuStreamBeginCapture_v2(one, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(cuMemAlloc_v2(&more, N) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(cuStreamEndCapture(one, &g) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  return end(test_failed_here ? WRONG : RIGHT);
}

/* Large memory starts as 0xff, up to its last bytes, and is not shared: other allocations do not see what is
   written. */
static int large_memory(void) {
  enum { LARGE = (1 << 20) + 5000 };
  static unsigned char got[2][LARGE];
  CUdeviceptr x, y;
  int result = RIGHT;
  begin();
  MUST(cuMemAlloc_v2(&x, LARGE));
  MUST(cuMemAlloc_v2(&y, LARGE));
  MUST(cuMemsetD8Async(x + 4096, 7, 10, one));
  MUST(cuMemcpyDtoHAsync_v2(got[0], x, LARGE, one));
  MUST(cuMemcpyDtoHAsync_v2(got[1], y, LARGE, one));
  MUST(cuStreamSynchronize(one));
  for (int i = 0; i < LARGE; i++)
    if (got[0][i] != (i >= 4096 && i < 4106 ? 7 : 0xff) || got[1][i] != 0xff) result = WRONG;
  MUST(cuMemFree_v2(x));
  MUST(cuMemFree_v2(y));
  return end(result);
}

/* Two streams write the same value: the numbers are always right. */
static int same_value(void) {
  begin();
  MUST(cuMemsetD8Async(a, 7, N, one));
  MUST(cuMemsetD8Async(a + N - 1, 7, 1, two));
  return end(look(a, 7));
}

/* Both read a, and write to different places. */
static int apart(void) {
  begin();
  MUST(cuMemsetD8Async(a, 7, N, one));
  MUST(cuStreamSynchronize(one));
  MUST(cuMemcpyDtoDAsync_v2(b, a, N / 2, one));
  MUST(cuMemcpyDtoDAsync_v2(b + N / 2, a, N / 2, two));
  return end(look(b, 7));
}

static void order(void) {
  CHECKF(child_wrong("with_wait") == 0, "with_wait");
  CHECKF(child_wrong("read_at_last") == 0, "read_at_last");
  CHECKF(child_wrong("graph_with_wait") == 0, "graph_with_wait");
  int waits = child_wrong("without_wait"), reads = child_wrong("read_too_early"), sources = child_wrong("pageable"),
      graphs = child_wrong("graph_without_wait");
  CHECKF(waits > 2 && reads > 10 && sources > 2 && graphs > 2, "found by %d, %d, %d, %d of %d seeds", waits, reads,
         sources, graphs, SEEDS);
  child_ends("graph_unjoined", REFUSED, NULL, NULL);
  child_ends("forbidden", RIGHT, NULL, NULL);
  CHECKF(child_wrong("words") == 0, "words");
}

static void races(void) {
  for (int seed = 1; seed <= SEEDS; seed++) {
    char setting[40];
    snprintf(setting, sizeof setting, "DOUBLES_SEED=%d", seed);
    CHECK(CHILD("without_wait", setting, "DOUBLES_WATCH=1") == DOUBLE_EXIT && strstr(child_said, "a race"));
    CHECK(CHILD("same_value", setting, "DOUBLES_WATCH=1") == DOUBLE_EXIT && strstr(child_said, "use byte 999 of 1000"));
    CHECKF(CHILD("with_wait", setting, "DOUBLES_WATCH=1") == RIGHT, "%s", child_said);
    CHECKF(CHILD("apart", setting, "DOUBLES_WATCH=1") == RIGHT, "%s", child_said);
    CHECKF(CHILD("graph_with_wait", setting, "DOUBLES_WATCH=1") == RIGHT, "%s", child_said);
    CHECKF(CHILD("words", setting, "DOUBLES_WATCH=1") == RIGHT, "%s", child_said);
    CHECK(CHILD("graph_without_wait", setting, "DOUBLES_WATCH=1") == DOUBLE_EXIT && strstr(child_said, "a race"));
    CHECK(CHILD("graph_beside", setting, "DOUBLES_WATCH=1") == DOUBLE_EXIT && strstr(child_said, "a race"));
    CHECK(CHILD("same_value", setting) == RIGHT);
  }
}

/* ---- memory */

static int new_memory(void) {
  begin();
  return end(look(a, 0xff));
}

static int outside(void) {
  begin();
  CHECK(cuMemcpyDtoDAsync_v2(b + 1, a, N, one) == CUDA_ERROR_INVALID_VALUE);
  return end(test_failed_here ? WRONG : RIGHT);
}

static int other_device(void) {
  CUcontext other;
  begin();
  MUST(cuDevicePrimaryCtxRetain(&other, 1));
  MUST(cuCtxSetCurrent(other));
  CHECK(cuMemsetD8Async(a, 0, N, NULL) == CUDA_ERROR_INVALID_VALUE);
  MUST(cuCtxSetCurrent(context));
  MUST(cuDevicePrimaryCtxRelease_v2(1));
  return end(test_failed_here ? WRONG : RIGHT);
}

static int host_address(void) {
  char local[N];
  begin();
  CHECK(cuMemsetD8Async((CUdeviceptr)(uintptr_t)local, 0, N, one) == CUDA_ERROR_INVALID_VALUE);
  return end(test_failed_here ? WRONG : RIGHT);
}

static int on_the_host(void) {
  begin();
  return end(*(volatile char *)(uintptr_t)a);
}

static int too_early_given_back(void) {
  CUdeviceptr c;
  begin();
  MUST(cuMemAlloc_v2(&c, N));
  MUST(cuMemsetD8Async(c, 0, N, one));
  MUST(cuMemFree_v2(c));
  return end(RIGHT);
}

static int leaks(void) {
  CUdeviceptr c;
  CUevent e;
  begin();
  MUST(cuMemAlloc_v2(&c, N));
  MUST(cuEventCreate(&e, 0));
  return end(RIGHT);
}

static int box(void) {
  unsigned char got[N];
  begin();
  MUST(cuMemsetD8Async(a, 1, N, one));
  MUST(cuMemsetD2D8Async(a, 100, 2, 50, 10, one));
  CUDA_MEMCPY3D m = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                     .srcDevice = a,
                     .srcPitch = 100,
                     .srcHeight = 5,
                     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                     .dstDevice = b,
                     .dstPitch = 50,
                     .dstHeight = 4,
                     .WidthInBytes = 50,
                     .Height = 4,
                     .Depth = 2,
                     .srcXInBytes = 25};
  MUST(cuMemcpy3DAsync_v2(&m, one));
  MUST(cuStreamSynchronize(one));
  MUST(cuMemcpyDtoH_v2(got, b, N));
  for (int i = 0; i < N; i++)
    if (got[i] != (i >= 400 ? 0xff : i % 50 < 25 ? 2 : 1)) return WRONG;
  return end(RIGHT);
}

static void memory(void) {
  child_ends("new_memory", RIGHT, NULL, NULL);
  child_ends("large_memory", RIGHT, NULL, NULL);
  child_ends("box", RIGHT, NULL, NULL);
  child_ends("outside", DOUBLE_EXIT, "1000 bytes at byte 1 of an allocation of 1000", NULL);
  child_ends("other_device", DOUBLE_EXIT, "on device 1 is given an address of device 0", NULL);
  child_ends("host_address", DOUBLE_EXIT, "is not pinned", NULL);
  child_ends("on_the_host", -SIGSEGV, "the host reads or writes memory of a device", NULL);
  child_ends("too_early_given_back", DOUBLE_EXIT, "unfinished work uses the memory", "DOUBLES_SEED=3");
  child_ends("leaks", DOUBLE_EXIT, "1000 bytes of device 0 are not freed", NULL);
  CHECK(strstr(child_said, "1 events of device 0 are not destroyed"));
}

/* ---- faults on demand */

static int faults(void) {
  CUdeviceptr c;
  begin();
  CUresult code = cuMemAlloc_v2(&c, N);
  if (!code) MUST(cuMemFree_v2(c));
  return end(code == CUDA_ERROR_OUT_OF_MEMORY ? WRONG : (int)code);
}

static int device(void) {
  int n, version, major;
  begin();
  MUST(cuDeviceGetCount(&n));
  MUST(cuDriverGetVersion(&version));
  MUST(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  return end(n == 3 && version == 11040 && major == 7 ? RIGHT : WRONG);
}

static int fails_late(void) {
  begin();
  MUST(cuMemsetD8Async(a, 1, N, one));
  CHECK(cuStreamSynchronize(one) == CUDA_ERROR_LAUNCH_FAILED);
  CHECK(cuStreamSynchronize(two) == CUDA_ERROR_LAUNCH_FAILED);
  _exit(test_failed_here ? WRONG : RIGHT);
}

static int stalls(void) {
  CUevent e;
  begin();
  MUST(cuEventCreate(&e, 0));
  MUST(cuMemsetD8Async(a, 1, N, one));
  MUST(cuEventRecord(e, one));
  for (int i = 0; i < 100; i++)
    if (cuEventQuery(e) != CUDA_ERROR_NOT_READY) return WRONG;
  usleep(50000);
  _exit(cuEventQuery(e) == CUDA_ERROR_NOT_READY ? RIGHT : WRONG);
}

/* The device goes on without further calls. */
static int goes_on(void) {
  unsigned char *to;
  begin();
  MUST(cuMemHostAlloc((void **)&to, N, 0));
  MUST(cuMemsetD8Async(a, 5, N, one));
  MUST(cuMemcpyDtoHAsync_v2(to, a, N, one));
  for (int i = 0; i < 1000 && *(volatile unsigned char *)to != 5; i++) usleep(10000);
  int result = to[0] == 5 ? RIGHT : WRONG;
  MUST(cuStreamSynchronize(one));
  MUST(cuMemFreeHost(to));
  return end(result);
}

static void on_demand(void) {
  child_ends("faults", RIGHT, NULL, NULL);
  child_ends("faults", WRONG, "cuMemAlloc_v2, fails as asked for", "DOUBLES_FAIL=cuMemAlloc_v2:3");
  child_ends("faults", WRONG, NULL, "DOUBLES_MEMORY=2500");
  child_ends("faults", REFUSED, "cuStreamCreate", "DOUBLES_FAIL=4");
  CHECK(CHILD("device", "DOUBLES_GPUS=3", "DOUBLES_DRIVER=11040", "DOUBLES_ARCH=75") == RIGHT);
  child_ends("with_wait", WRONG, "is left out", "DOUBLES_DROP=cuMemsetD8Async:1");
  child_ends("fails_late", RIGHT, NULL, "DOUBLES_FAIL_LATE=1");
  child_ends("stalls", RIGHT, NULL, "DOUBLES_STALL=1");
  child_ends("goes_on", RIGHT, NULL, NULL);
}

/* ---- kernels */

static const char *const text =
    "typedef struct add_args { const float *x; float *y; int64_t n; } add_args;\n"
    "KERNEL(add, add_args, 64) {\n"
    "  SHARED(float, s, 64);\n"
    "  int64_t i = block_index() * 64 + thread_index();\n"
    "  s[thread_index()] = i < a.n ? a.x[i] : 0;\n"
    "  barrier();\n"
    "  if (i < a.n) a.y[i] = s[63 - (63 - thread_index())] + 1;\n"
    "}\n";

typedef struct AddArgs {
  CUdeviceptr x, y;
  int64_t n;
} AddArgs;

static CUmodule module;
static CUfunction add;

static void begin_kernels(void) {
  static char image[1 << 20];
  begin();
  FILE *f = fopen(getenv("CUBIN"), "rb");
  if (!f || !fread(image, 1, sizeof image, f)) exit(REFUSED);
  fclose(f);
  MUST(cuModuleLoadData(&module, image));
  MUST(cuModuleGetFunction(&add, module, "add"));
}

static int end_kernels(int result) {
  MUST(cuStreamSynchronize(one));
  MUST(cuModuleUnload(module));
  return end(result);
}

static CUresult launch(const AddArgs *args, size_t bytes, unsigned blocks, unsigned threads) {
  void *extra[] = {(void *)1, (void *)(uintptr_t)args, (void *)2, &bytes, NULL};
  return cuLaunchKernel(add, blocks, 1, 1, threads, 1, 1, 0, one, NULL, extra);
}

static int kernel(void) {
  float got[N / 4];
  begin_kernels();
  AddArgs args = {a, b, N / 4};
  void *parameters[] = {&args};
  MUST(cuMemsetD32Async(a, 0x40000000, N / 4, one)); /* 2 */
  MUST(cuLaunchKernel(add, 4, 1, 1, 64, 1, 1, 0, one, parameters, NULL));
  MUST(cuMemcpyDtoHAsync_v2(got, b, N, one));
  MUST(cuStreamSynchronize(one));
  for (int i = 0; i < N / 4; i++)
    if (got[i] != 3) return WRONG;
  return end_kernels(RIGHT);
}

/* A kernel that reads 100 numbers of a and writes them to b, while another stream writes into a. */
static int beside(const CUdeviceptr *in, int at) {
  begin_kernels();
  MUST(cuMemsetD8Async(a, 0, N, one));
  MUST(cuStreamSynchronize(one));
  AddArgs args = {a, b, 100};
  void *parameters[] = {&args};
  MUST(cuLaunchKernel(add, 2, 1, 1, 64, 1, 1, 0, one, parameters, NULL));
  MUST(cuMemsetD8Async(*in + (CUdeviceptr)at, 0, 1, two));
  return end_kernels(RIGHT);
}
static int kernel_reads(void) { return beside(&a, 399); }
static int kernel_reads_not(void) { return beside(&a, 400); }
static int kernel_writes(void) { return beside(&b, 396); }
static int kernel_writes_not(void) { return beside(&b, 400); }

static int parameter_bytes(void) {
  begin_kernels();
  AddArgs args = {a, b, 1};
  CHECK(launch(&args, 16, 1, 64) == CUDA_ERROR_INVALID_VALUE);
  return end_kernels(test_failed_here ? WRONG : RIGHT);
}

static int threads(void) {
  begin_kernels();
  AddArgs args = {a, b, 1};
  CHECK(launch(&args, sizeof args, 1, 128) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(&args, sizeof args, 0, 64) == CUDA_ERROR_INVALID_VALUE);
  return end_kernels(test_failed_here ? WRONG : RIGHT);
}

static int kernel_outside(void) {
  begin_kernels();
  AddArgs args = {a, b, N * 40};
  MUST(launch(&args, sizeof args, N, 64));
  return end_kernels(RIGHT);
}

static int freed(void) {
  CUdeviceptr c;
  begin_kernels();
  MUST(cuMemAlloc_v2(&c, N));
  MUST(cuMemFree_v2(c));
  AddArgs args = {c, b, 1};
  MUST(launch(&args, sizeof args, 1, 64));
  return cuStreamSynchronize(one) == CUDA_ERROR_ILLEGAL_ADDRESS ? RIGHT : WRONG;
}

static int unknown(void) {
  begin_kernels();
  CHECK(cuModuleGetFunction(&add, module, "sub") == CUDA_ERROR_NOT_FOUND);
  return end_kernels(test_failed_here ? WRONG : RIGHT);
}

static const char *const archs[] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"};

static void keep(Arena *arena, const char *all, const void *image, size_t bytes) {
  unsigned long long hash = hash64(image, bytes, bytes);
  temp_write(temp_path(arena_printf(arena, "%016llx.cu", hash)), all, strlen(all));
}

static void check_ptx(const CudaImage *image) {
  Cubin ptx;
  CHECK(ptx_read(image->ptx, &ptx) == NULL && ptx.n == 1 && ptx.arch >= 80);
  const CubinKernel *k = ptx.kernels;
  CHECKF(strcmp(k->name, "add") == 0 && k->parameter_bytes == 24 && k->threads == 64 && k->shared == 256,
         "%s, %d bytes, %d threads, %d bytes shared", k->name, k->parameter_bytes, k->threads, k->shared);
  free(ptx.kernels);
}

/* Compiles the text, keeps it as apc keeps its own, and reads the images. */
static void make_cubin(const char *arch) {
  static char settings[3][4500];
  Arena *arena = arena_new();
  Diags *d = diags_new(arena);
  CudaImage image;
  Cubin cubin;
  const char *all = arena_printf(arena, "%s%s", dialect_prelude, text), *at = temp_path("cubin");
  CHECKF(nvrtc_compile(arena, d, all, arch, &image), "%s", arch);
  CHECK(cubin_read(image.cubin, &cubin) == NULL);
  const CubinKernel *k = cubin.kernels;
  CHECKF(cubin.bytes == image.cubin_bytes && cubin.n == 1, "%s: %zu bytes of %zu, %d kernels", arch, cubin.bytes,
         image.cubin_bytes, cubin.n);
  CHECKF(cubin.arch == atoi(arch + 3) && strcmp(k->name, "add") == 0 && k->parameter_bytes == 24 && k->threads == 64,
         "%s: %d, %s, %d bytes, %d threads", arch, cubin.arch, k->name, k->parameter_bytes, k->threads);
  CHECKF(k->shared == image.usage.items[0].shared && k->registers == image.usage.items[0].registers,
         "%s: %d bytes shared, %d registers", arch, k->shared, k->registers);
  temp_write(at, image.cubin, image.cubin_bytes);
  keep(arena, all, image.cubin, image.cubin_bytes);
  keep(arena, all, image.ptx, strlen(image.ptx));
  temp_write(temp_path("ptx"), image.ptx, strlen(image.ptx));
  check_ptx(&image);
  snprintf(settings[0], sizeof settings[0], "CUBIN=%s", at);
  snprintf(settings[1], sizeof settings[1], "DOUBLES_TEXTS=/nowhere:%s", temp_root());
  snprintf(settings[2], sizeof settings[2], "DOUBLES_CACHE=%s", temp_root());
  for (int i = 0; i < 3; i++) putenv(settings[i]);
  free(cubin.kernels);
  arena_free(arena);
}

static void kernels(void) {
  for (size_t i = sizeof archs / sizeof *archs; i-- > 0;) make_cubin(archs[i]); /* sm_80 last */
  CHECKF(child_wrong("kernel") == 0, "kernel");
  child_ends("kernel_reads", DOUBLE_EXIT, "use byte 399 of 1000", "DOUBLES_WATCH=1");
  child_ends("kernel_writes", DOUBLE_EXIT, "use byte 396 of 1000", "DOUBLES_WATCH=1");
  child_ends("kernel_reads_not", RIGHT, NULL, "DOUBLES_WATCH=1");
  child_ends("kernel_writes_not", RIGHT, NULL, "DOUBLES_WATCH=1");
  child_ends("kernel", RIGHT, NULL, "DOUBLES_ARCH=86");
  child_ends("kernel", REFUSED, "209", "DOUBLES_ARCH=90");
  char ptx[4500];
  snprintf(ptx, sizeof ptx, "CUBIN=%s", temp_path("ptx"));
  CHECK(CHILD("kernel", ptx, "DOUBLES_ARCH=120") == RIGHT);
  CHECK(CHILD("kernel", ptx, "DOUBLES_ARCH=75") == REFUSED && strstr(child_said, "218"));
  child_ends("kernel", DOUBLE_EXIT, "there is no text", "DOUBLES_TEXTS=/nowhere");
  child_ends("kernel", WRONG, "has a wrong address", "DOUBLES_SHIFT=1");
  child_ends("parameter_bytes", DOUBLE_EXIT, "add: 16 bytes of parameters of 24", NULL);
  child_ends("threads", RIGHT, "64 threads", NULL);
  child_ends("kernel_outside", -SIGSEGV, "add reaches outside of its memory", NULL);
  child_ends("freed", DOUBLE_EXIT, "is memory that is not allocated", NULL);
  child_ends("unknown", RIGHT, NULL, NULL);
}

#define CASE(name) \
  { #name, name }
static const ChildCase cases[] = {CASE(with_wait),
                                  CASE(without_wait),
                                  CASE(read_at_last),
                                  CASE(read_too_early),
                                  CASE(pageable),
                                  CASE(graph_with_wait),
                                  CASE(graph_without_wait),
                                  CASE(graph_unjoined),
                                  CASE(graph_beside),
                                  CASE(words),
                                  CASE(same_value),
                                  CASE(apart),
                                  CASE(kernel_reads),
                                  CASE(kernel_reads_not),
                                  CASE(kernel_writes),
                                  CASE(kernel_writes_not),
                                  CASE(forbidden),
                                  CASE(new_memory),
                                  CASE(large_memory),
                                  CASE(outside),
                                  CASE(other_device),
                                  CASE(host_address),
                                  CASE(on_the_host),
                                  CASE(too_early_given_back),
                                  CASE(leaks),
                                  CASE(box),
                                  CASE(faults),
                                  CASE(device),
                                  CASE(fails_late),
                                  CASE(stalls),
                                  CASE(goes_on),
                                  CASE(kernel),
                                  CASE(parameter_bytes),
                                  CASE(threads),
                                  CASE(kernel_outside),
                                  CASE(freed),
                                  CASE(unknown),
                                  {0}};

int main(int argc, char **argv) {
  int result, major, minor;
  if (child_is(argc, argv, cases, &result)) return result;
  RUN(order);
  RUN(races);
  RUN(memory);
  RUN(on_demand);
  if (nvrtc_found(&major, &minor)) RUN(kernels);
  else printf("without kernels: no NVRTC\n");
  return test_summary();
}
