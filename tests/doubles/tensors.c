/* tests/doubles/tensors.c - inputs and outputs in memory of a device, through apc_runtime.h; for tensors.sh.
 *
 * tensors float PROGRAM: with an input x[8, 12] of f32 and an output y[8, 3]: the same bits as with memory of the host,
 * when the request runs call by call, when it is captured and when it is replayed, on every device, at any place in an
 * allocation, with work that fills the input still to come.
 *
 * tensors index PROGRAM: with an input `tokens` of i64: indices on a device are checked as those of the host.
 *
 * tensors cpu PROGRAM: a program for CPUs says what to do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/apc_runtime.h"
#include "tests/doubles/cuda_calls.h"

enum { ROWS = 8, IN = 12, OUT = 3, DEVICES = 2, BYTES_X = ROWS * IN * 4, BYTES_Y = ROWS * OUT * 4, AT = 320 };

static int failed;
static ApcModel *m;

#define CHECK(x) \
  ((x) ? (void)0 : (void)(failed++, printf("%s:%d: not %s: %s\n", __FILE__, __LINE__, #x, m ? apc_error(m) : "")))

static const int64_t shape[] = {ROWS, IN};

static void fill(float *x, int seed) {
  for (int i = 0; i < ROWS * IN; i++) x[i] = (float)((i * 37 + seed * 101) % 64) / 32 - 1;
}

/* An allocation on a device; the tensor begins AT bytes after its begin. */
static char *place(ApcDeviceMemory *a) { return (char *)apc_device_data(a) + AT; }

/* Copies to a device without waiting, in the default stream of its context. */
static void write_late(int device, void *to, const void *from, size_t bytes) {
  CUcontext context, now;
  CHECK(cuDevicePrimaryCtxRetain(&context, device) == 0 && cuCtxSetCurrent(context) == 0);
  CHECK(cuMemcpyHtoDAsync_v2((CUdeviceptr)(uintptr_t)to, from, bytes, NULL) == 0);
  CHECK(apc_run(m, NULL) == APC_OK);
  CHECK(cuCtxGetCurrent(&now) == 0 && now == context); /* the caller's context stays */
  CHECK(cuCtxSetCurrent(NULL) == 0 && cuDevicePrimaryCtxRelease_v2(device) == 0);
}

static void host_result(const float *x, float *y) {
  CHECK(apc_bind_input(m, "x", APC_F32, 2, shape, x) == APC_OK);
  CHECK(apc_run(m, NULL) == APC_OK && apc_read_output(m, "y", y, BYTES_Y) == APC_OK);
}

static void on_device(int device, int out_device) {
  ApcDeviceMemory *in = NULL, *out = NULL;
  const void *data;
  size_t bytes;
  int rank;
  int64_t dims[APC_MAX_RANK];
  CHECK(apc_device_alloc(m, device, AT + BYTES_X, &in) == APC_OK);
  CHECK(apc_device_alloc(m, out_device, AT + BYTES_Y + 4, &out) == APC_OK);
  CHECK(apc_bind_device_input(m, "x", APC_F32, 2, shape, device, place(in)) == APC_OK);
  CHECK(apc_expected_shape(m, NULL, "y", &rank, dims, &bytes) == APC_OK);
  CHECK(rank == 2 && dims[0] == ROWS && dims[1] == OUT && bytes == BYTES_Y);
  for (int run = 0; run < 5; run++) {
    float x[ROWS * IN], wanted[ROWS * OUT], y[ROWS * OUT + 1];
    fill(x, 10 * device + run);
    host_result(x, wanted);
    memset(y, 0x5a, sizeof y);
    CHECK(apc_device_write(out, AT, y, sizeof y) == APC_OK);
    CHECK(apc_bind_device_input(m, "x", APC_F32, 2, shape, device, place(in)) == APC_OK);
    CHECK(apc_bind_device_output(m, "y", APC_F32, out_device, place(out), BYTES_Y) == APC_OK);
    for (int again = 0; again < 3; again++) { /* call by call, captured, replayed */
      write_late(device, place(in), x, sizeof x);
      CHECK(apc_device_read(out, AT, y, sizeof y) == APC_OK);
      CHECK(memcmp(y, wanted, BYTES_Y) == 0 && memcmp(&y[ROWS * OUT], "\x5a\x5a\x5a\x5a", 4) == 0);
    }
    CHECK(apc_output_shape(m, "y", &rank, dims, &bytes) == APC_OK && bytes == BYTES_Y);
    CHECK(apc_output_data(m, "y", &data) == APC_USAGE && strstr(apc_error(m), "in the device's memory"));
    CHECK(apc_read_output(m, "y", y, BYTES_Y) == APC_USAGE && apc_write_outputs(m, "y.npz") == APC_USAGE);
    CHECK(apc_submit(m, NULL) == APC_OK && apc_wait(m, -1) == APC_OK && apc_run_again(m) == APC_OK);
    CHECK(apc_device_read(out, AT, y, BYTES_Y) == APC_OK && memcmp(y, wanted, BYTES_Y) == 0);
    CHECK(apc_bind_device_output(m, "y", APC_F32, 0, NULL, 0) == APC_OK);
    CHECK(apc_run(m, NULL) == APC_OK && apc_read_output(m, "y", y, BYTES_Y) == APC_OK); /* only the input */
    CHECK(memcmp(y, wanted, BYTES_Y) == 0);
  }
  apc_device_free(in);
  apc_device_free(out);
}

typedef struct Managed { /* DLManagedTensor */
  char *data;
  int32_t device_type, device, rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t offset;
  void *context;
  void (*deleter)(struct Managed *);
} Managed;

static const char *capsule_name;
static int is_named(void *unused, const char *name) { return (void)unused, strcmp(capsule_name, name) == 0; }
static void *content(void *capsule, const char *name) { return (void)name, capsule; }

/* Tensors for other libraries keep the memory; a leak is found when the process ends. */
static void shared(void) {
  const int64_t dims[3] = {2, 0, 4}, full[2] = {ROWS, IN};
  float x[ROWS * IN];
  ApcDeviceMemory *a = NULL;
  CHECK(apc_device_alloc(m, 1, BYTES_X, &a) == APC_OK);
  CHECK(!apc_device_dlpack(a, APC_F8E4M3FN, 2, full) && !apc_device_dlpack(a, APC_F64, 2, full));
  CHECK(!apc_device_dlpack(a, APC_F32, APC_MAX_RANK + 1, full) && !apc_device_dlpack(a, APC_F32, -1, full));
  Managed *t = apc_device_dlpack(a, APC_F32, 2, full), *empty = apc_device_dlpack(a, APC_BOOL, 3, dims);
  CHECK(t->data == apc_device_data(a) && t->device_type == 2 && t->device == 1 && t->rank == 2 && t->code == 2);
  CHECK(t->bits == 32 && t->lanes == 1 && t->shape[0] == ROWS && t->strides[0] == IN && t->strides[1] == 1);
  CHECK(empty->code == 6 && empty->bits == 8 && empty->shape[1] == 0 && empty->strides[0] == 4);
  ApcCapsuleEnd end = apc_capsule_destructor(is_named, content);
  capsule_name = "dltensor", end(empty);
  capsule_name = "used_dltensor", end(t); /* taken: not ended here */
  CHECK(apc_device_read(a, 0, x, BYTES_X) == APC_OK);
  apc_device_free(a);
  CHECK(apc_bind_device_input(m, "x", APC_F32, 2, full, 1, t->data) == APC_OK); /* is memory still */
  t->deleter(t);
}

static void refused(void) {
  float x[ROWS * IN] = {0};
  ApcDeviceMemory *a = NULL;
  CHECK(apc_device_alloc(m, 0, BYTES_X, &a) == APC_OK);
  char *at = apc_device_data(a);
  CHECK(apc_device_read(a, 4, x, BYTES_X) == APC_USAGE && apc_device_read(a, BYTES_X + 1, x, 0) == APC_USAGE);
  CHECK(apc_bind_device_input(m, "x", APC_F32, 2, shape, 0, x) == APC_BAD_INPUT);
  CHECK(strstr(apc_error(m), "input 'x': the address") && strstr(apc_error(m), "is not in memory of CUDA device 0"));
  CHECK(apc_bind_device_input(m, "x", APC_F32, 2, shape, 0, at + 4) == APC_BAD_INPUT);
  CHECK(strstr(apc_error(m), "384 bytes are needed, and the memory on CUDA device 0 has 380"));
  CHECK(apc_bind_device_input(m, "x", APC_F32, 2, shape, 1, at) == APC_BAD_INPUT);
  CHECK(apc_bind_device_input(m, "x", APC_F32, 2, shape, 99, at) == APC_BAD_INPUT);
  CHECK(strstr(apc_error(m), "no CUDA device 99"));
  CHECK(apc_bind_device_input(m, "x", APC_I32, 2, shape, 0, at) == APC_BAD_INPUT);
  CHECK(apc_bind_device_input(m, "z", APC_F32, 2, shape, 0, at) == APC_USAGE);
  CHECK(apc_bind_device_output(m, "z", APC_F32, 0, at, 4) == APC_USAGE);
  CHECK(apc_bind_device_output(m, "y", APC_F32, 0, at, 4) == APC_OK && apc_run(m, NULL) == APC_BAD_INPUT);
  CHECK(strstr(apc_error(m), "output 'y' has 96 bytes"));
  CHECK(apc_bind_device_output(m, "y", APC_F32, 0, NULL, 0) == APC_OK);
  CHECK(apc_expected_shape(m, "nothing", "y", &(int){0}, (int64_t[APC_MAX_RANK]){0}, &(size_t){0}) == APC_USAGE);
  apc_device_free(a);
}

static void floats(void) {
  float x[ROWS * IN], y[ROWS * OUT];
  ApcDeviceMemory *a = NULL;
  fill(x, 1);
  host_result(x, y);
  for (int d = 0; d < DEVICES; d++) on_device(d, DEVICES - 1 - d);
  refused();
  shared();
  CHECK(apc_bind_input(m, "x", APC_F32, 2, shape, x) == APC_OK && apc_run(m, NULL) == APC_OK);
  CHECK(apc_device_alloc(m, 0, 64, &a) == APC_OK);
  apc_close(m);
  m = NULL;
  apc_device_free(a); /* outlives its model */
}

static void indices(void) {
  int64_t tokens[16] = {0}, dims[2] = {1, 16};
  ApcDeviceMemory *a = NULL;
  ApcTensorInfo info;
  CHECK(apc_input_info(m, 0, &info) == APC_OK);
  CHECK(apc_device_alloc(m, 1, sizeof tokens, &a) == APC_OK);
  const void *logits;
  for (int bad = 0; bad < 2; bad++) {
    for (int i = 0; i < 16; i++) tokens[i] = i % info.index_below;
    if (bad) tokens[5] = info.index_below;
    CHECK(apc_device_write(a, 0, tokens, sizeof tokens) == APC_OK);
    CHECK(apc_bind_device_input(m, "tokens", APC_I64, 2, dims, 1, apc_device_data(a)) == APC_OK);
    CHECK(apc_run(m, NULL) == (bad ? APC_BAD_INPUT : APC_OK));
    CHECK(!bad || strstr(apc_error(m), "element [0, 5]"));
    if (!bad) CHECK(apc_output_data(m, "logits", &logits) == APC_OK && ((const float *)logits)[0] != 0);
  }
  apc_device_free(a);
}

int main(int argc, char **argv) {
  if (argc != 3 || apc_load(argv[2], NULL, &m)) {
    printf("%s\n", apc_error(m));
    return 1;
  }
  if (strcmp(argv[1], "float") == 0) floats();
  if (strcmp(argv[1], "index") == 0) indices();
  if (strcmp(argv[1], "cpu") == 0) {
    char memory[BYTES_X];
    ApcDeviceMemory *a;
    CHECK(apc_bind_device_input(m, "x", APC_F32, 2, shape, 0, memory) == APC_BAD_INPUT);
    CHECK(strstr(apc_error(m), "input 'x': the program runs on CPUs") &&
          strstr(apc_error(m), "copy the tensor to the host"));
    CHECK(apc_device_alloc(m, 0, 8, &a) == APC_BAD_INPUT && !a);
  }
  apc_close(m);
  if (!failed) printf("fine\n");
  return failed != 0;
}
