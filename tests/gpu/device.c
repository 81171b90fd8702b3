/* tests/gpu/device.c - the GPU as a device: copies, fills and products at random shapes, compared with plain loops on
 * the host, one by one and recorded; and transfers between host and device in pieces. */
#include <stdlib.h>
#include <string.h>

#include "program/box.h"
#include "program/build.h"
#include "runtime/device/device.h"
#include "tests/test.h"

enum { ROUNDS = 300, BYTES = 1 << 16 };

static Device *device;
static const DeviceOps *ops;
static Program program;
static void *tables;
static char *memory; /* of the device */
static uint64_t seed = 1;

/* splitmix64 */
static int64_t below(int64_t n) {
  uint64_t z = seed += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (int64_t)((z ^ z >> 31) % (uint64_t)n);
}

#define FINE(call) \
  do { \
    RtError error = {0}; \
    CHECKF((call) == RT_OK, "%s", error.text); \
  } while (0)

/* A Program whose only instruction is a product: the device opens its library. */
static void open_device(void) {
  ProgramBuilder *b = program_builder_new();
  uint32_t two = program_const(b, 2), one = program_const(b, 1), zero = program_const(b, 0);
  uint32_t dims[] = {two, two}, exprs[] = {two, two, two, two, one, two, one, two, one, zero, zero};
  ProgramList square = program_list_of(b, 2, dims);
  uint32_t bytes = program_const(b, 16), tensors[3];
  program_add_entries(b, &(ProgramEntry){.name = program_string(b, "main")});
  for (int i = 0; i < 3; i++) {
    uint32_t buffer = program_add_buffers(b, &(ProgramBuffer){.class_ = PC_activation, .slots = 1, .bytes = bytes});
    tensors[i] =
        program_add_tensors(b, &(ProgramTensor){.buffer = buffer, .offset = zero, .dtype = DT_f32, .extents = square});
  }
  program_add_instrs(b, &(ProgramInstr){.kind = PI_gemm,
                                        .where = program_string(b, "product"),
                                        .object = PROGRAM_NONE,
                                        .guard = PROGRAM_NONE,
                                        .tensors = program_list_of(b, 3, tensors),
                                        .exprs = program_list_of(b, 11, exprs),
                                        .dim2 = DT_f32,
                                        .event = PROGRAM_NONE,
                                        .blocks = PROGRAM_NONE});
  program_add_bodies(b, &(ProgramBody){.name = program_string(b, "main"), .phase = PHASE_fwd, .n = 1});
  program_add_calls(b, &(ProgramCall){0});
  program_add_schedules(b, &(ProgramSchedule){.n = 1});
  ProgramFacts facts = {"device", "test", "test", 1, 0, "gpu", NULL, 0, NULL};
  size_t size;
  FINE(program_builder_finish(b, &facts, &tables, &size, &error));
  program_builder_free(b);
  if (!tables) exit(1);
  FINE(program_open(tables, size, &program, &error));
  static Artifact artifact;
  artifact.program = program;
  ops = devices_find("gpu");
  DeviceOptions options = {.artifact = &artifact};
  FINE(ops->open(&options, &device, &error));
  if (!device) exit(test_summary());
  FINE(ops->alloc(device, 8 * BYTES, &memory, &error));
}

/* ---- one by one, or recorded */

static void make(DeviceRun *run, DeviceCall *c, bool recorded) {
  void *recording = NULL;
  if (!recorded) {
    FINE(run(device, c, &error));
    return;
  }
  FINE(ops->record(device, c, 1, &recording, &error));
  if (!recording) return;
  FINE(ops->replay(device, recording, &error));
  FINE(ops->finish(device, &error));
  ops->forget(device, recording);
}

static void fill_random(unsigned char *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)below(256);
}

static void compare(const char *what, const unsigned char *want, const char *at, size_t n, int round) {
  static unsigned char have[4 * BYTES];
  FINE(ops->read(device, have, at, n, &error));
  CHECKF(memcmp(want, have, n) == 0, "%s, round %d", what, round);
}

/* ---- copies of boxes: up to five dimensions */

static size_t shape(uint32_t rank, int64_t *extents, int64_t most) {
  size_t n = 1;
  for (uint32_t d = 0; d < rank; d++) n *= (size_t)(extents[d] = 1 + below(most));
  return n;
}

static void copies(void) {
  static unsigned char from[BYTES], to[BYTES];
  static const DType types[] = {DT_u8, DT_bf16, DT_f32, DT_f64};
  for (int round = 0; round < ROUNDS; round++) {
    DType type = types[below(4)];
    uint32_t rank = (uint32_t)below(6);
    int64_t a[8], b[8], scalars[24];
    size_t size = dtype_bytes(type), n = shape(rank, a, 6) * size, m = shape(rank, b, 6) * size;
    for (uint32_t d = 0; d < rank; d++) {
      int64_t least = a[d] < b[d] ? a[d] : b[d];
      scalars[d] = below(20) ? 1 + below(least) : 0;
      scalars[rank + d] = below(a[d] - scalars[d] + 1);
      scalars[2 * rank + d] = below(b[d] - scalars[d] + 1);
    }
    fill_random(from, n);
    fill_random(to, m);
    CallTensor tensors[] = {{.dtype = type, .rank = rank, .elements = (int64_t)(n / size), .extents = a},
                            {.dtype = type, .rank = rank, .elements = (int64_t)(m / size), .extents = b}};
    void *data[] = {memory, memory + BYTES};
    DeviceCall c = {.kind = PI_copy, .n_tensors = 2, .tensors = tensors, .data = data, .scalars = scalars};
    FINE(ops->upload(device, data[0], from, n, &error));
    FINE(ops->upload(device, data[1], to, m, &error));
    bool empty = false;
    for (uint32_t d = 0; d < rank; d++) empty |= scalars[d] == 0;
    make(ops->copy, &c, round % 2 && !empty);
    box_move(rank, size, scalars, (Box){(char *)from, a, scalars + rank}, (Box){(char *)to, b, scalars + 2 * rank});
    compare("copy", to, data[1], m, round);
  }
}

/* ---- fills: every width, rows apart */

static void fills(void) {
  static unsigned char bytes[BYTES];
  static const DType types[] = {DT_bool, DT_i8, DT_f16, DT_i32, DT_f32, DT_i64, DT_f64};
  static const double values[] = {0, 1, -1, -0.0, 0.5, 1e9};
  for (int round = 0; round < ROUNDS; round++) {
    DType type = types[below(7)];
    double value = dtype_is_float(type) ? values[below(6)] : values[below(2)];
    int64_t size = (int64_t)dtype_bytes(type), rows = below(5), n = below(20), stride = (n + below(4)) * size;
    unsigned char element[8] = {0};
    dtype_store_f(type, element, value);
    fill_random(bytes, BYTES / 8);
    FINE(ops->upload(device, memory, bytes, BYTES / 8, &error));
    CallTensor tensor = {.dtype = type};
    void *data[] = {memory};
    int64_t scalars[] = {rows, n, stride};
    DeviceCall c = {
        .kind = PI_fill, .n_tensors = 1, .tensors = &tensor, .data = data, .scalars = scalars, .value = value};
    make(ops->fill, &c, round % 2 && rows && n);
    for (int64_t r = 0; r < rows; r++)
      for (int64_t i = 0; i < n; i++) memcpy(bytes + r * stride + i * size, element, (size_t)size);
    compare("fill", bytes, memory, BYTES / 8, round);
  }
}

/* ---- products: of small whole numbers, which every type sums exactly */

typedef struct Types {
  DType operands, result, sums;
} Types;

static double at(const unsigned char *m, DType t, int64_t i) {
  return dtype_load_f(t, m + i * (int64_t)dtype_bytes(t));
}

static void put_numbers(unsigned char *m, DType t, int64_t n) {
  for (int64_t i = 0; i < n; i++) dtype_store_f(t, m + i * (int64_t)dtype_bytes(t), (double)(below(7) - 3));
}

/* Plain loops, over at least one index. */
static void reference(const GemmCall *g, int loop, const unsigned char *a, const unsigned char *b, unsigned char *c,
                      const unsigned char *bias, const unsigned char *residual) {
  int64_t in = (int64_t)dtype_bytes(g->operands), out = (int64_t)dtype_bytes(g->result);
  if (loop < g->loops) {
    for (int64_t i = 0; i < g->extent[loop]; i++)
      reference(g, loop + 1, a + i * g->a_step[loop] * in, b + i * g->b_step[loop] * in, c + i * g->c_step[loop] * out,
                bias, residual + i * g->c_step[loop] * out);
    return;
  }
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++) {
      int64_t place = i * g->c_m + j * g->c_n;
      double sum = g->accumulate ? at(c, g->result, place) : 0;
      for (int64_t l = 0; l < g->k; l++)
        sum += at(a, g->operands, i * g->a_m + l * g->a_k) * at(b, g->operands, l * g->b_k + j * g->b_n);
      if (g->epilogue.bias) sum += at(bias, g->result, j);
      if (g->epilogue.residual) sum += at(residual, g->result, place);
      if (g->epilogue.activation == ACT_relu && sum < 0) sum = 0;
      dtype_store_f(g->result, c + place * out, sum);
    }
}

static GemmCall random_product(void) {
  static const Types types[] = {{DT_f32, DT_f32, DT_f32},
                                {DT_f64, DT_f64, DT_f64},
                                {DT_f16, DT_f32, DT_f32},
                                {DT_bf16, DT_bf16, DT_f32},
                                {DT_f16, DT_f16, DT_f32}};
  Types t = types[below(5)];
  GemmCall g = {
      .operands = t.operands, .result = t.result, .sums = t.sums, .m = below(7), .n = below(7), .k = below(7)};
  bool ta = below(2), tb = below(2), follows = t.result != DT_f64 && below(2);
  int64_t pad = below(3);
  g.a_m = ta ? 1 : g.k + pad, g.a_k = ta ? g.m + pad : 1;
  g.b_k = tb ? 1 : g.n + pad, g.b_n = tb ? g.k + pad : 1;
  g.c_m = g.n + pad, g.c_n = 1;
  if (follows) g.epilogue = (Epilogue){below(2), below(2), below(2) ? ACT_relu : ACT_none};
  g.accumulate = !g.epilogue.residual && below(2);
  g.loops = (int)below(4);
  int64_t step = 10 * 10;
  for (int i = g.loops; i-- > 0; step *= g.extent[i] + 1) {
    g.extent[i] = below(8) ? 1 + below(3) : 0;
    g.a_step[i] = below(3) ? step : 0;
    g.b_step[i] = below(3) ? step : 0;
    g.c_step[i] = step;
  }
  return g;
}

/* Compares values: a sum with a single term -0 may be 0. */
static void compare_numbers(const unsigned char *want, const char *where, DType t, int64_t n, int round) {
  static unsigned char have[BYTES];
  int64_t wrong = 0;
  FINE(ops->read(device, have, where, (size_t)n * dtype_bytes(t), &error));
  for (int64_t i = 0; i < n; i++) wrong += at(have, t, i) != at(want, t, i);
  CHECKF(wrong == 0, "product, round %d: %lld of %lld numbers", round, (long long)wrong, (long long)n);
}

static void products(void) {
  static unsigned char m[4][BYTES], bias[64];
  enum { NUMBERS = BYTES / 8 };
  for (int round = 0; round < ROUNDS; round++) {
    GemmCall g = random_product();
    for (int i = 0; i < 4; i++) put_numbers(m[i], i < 2 ? g.operands : g.result, NUMBERS);
    put_numbers(bias, g.result, 8);
    for (size_t i = 0; i < 4; i++) FINE(ops->upload(device, memory + i * BYTES, m[i], BYTES, &error));
    FINE(ops->upload(device, memory + 4 * BYTES, bias, sizeof bias, &error));
    g.a = memory, g.b = memory + BYTES, g.c = memory + 2 * BYTES;
    if (g.epilogue.residual) g.residual = memory + 3 * BYTES;
    if (g.epilogue.bias) g.bias = memory + 4 * BYTES;
    bool empty = !g.m || !g.n || (!g.k && g.accumulate && !epilogue_any(g.epilogue));
    for (int i = 0; i < g.loops; i++) empty |= !g.extent[i];
    DeviceCall c = {.kind = PI_gemm, .gemm = &g};
    make(ops->gemm, &c, round % 2 && !empty);
    reference(&g, 0, m[0], m[1], m[2], bias, m[3]);
    compare_numbers(m[2], memory + 2 * BYTES, g.result, NUMBERS, round);
  }
}

/* ---- transfers larger than pinned memory */

/* Copies the part of `extents` from `start` on, of an array of bytes, to the device and back. */
static void large_port(char *there, const unsigned char *from, unsigned char *to, const int64_t *whole,
                       int64_t *extents, int64_t *start) {
  CallTensor tensor = {.dtype = DT_f32, .rank = 2, .elements = extents[0] * extents[1], .extents = extents};
  void *data[] = {there};
  DeviceCall c = {.n_tensors = 1, .tensors = &tensor, .data = data, .scalars = start};
  DevicePort port = {.at = (char *)(uintptr_t)from, .extents = whole};
  c.kind = PI_feed;
  FINE(ops->feed(device, &c, &port, &error));
  memset(to, 0, (size_t)(whole[0] * whole[1]) * 4);
  c.kind = PI_fetch;
  port.at = (char *)to;
  FINE(ops->fetch(device, &c, &port, &error));
  bool same = true;
  for (int64_t i = 0; i < whole[0] * whole[1]; i++) {
    int64_t row = i / whole[1] - start[0], column = i % whole[1] - start[1];
    bool inside = row >= 0 && row < extents[0] && column >= 0 && column < extents[1];
    same &= memcmp(to + 4 * i, inside ? from + 4 * i : (const unsigned char[4]){0}, 4) == 0;
  }
  CHECK(same);
}

static void large_moves(void) {
  size_t n = (37u << 20) + 13;
  unsigned char *from = malloc(n), *to = malloc(n);
  char *there;
  if (!from || !to) exit(1);
  for (size_t i = 0; i < n; i++) from[i] = (unsigned char)(i * 2654435761u >> 13);
  FINE(ops->alloc(device, n, &there, &error));
  FINE(ops->upload(device, there, from, n, &error));
  FINE(ops->read(device, to, there, n, &error));
  CHECK(memcmp(from, to, n) == 0);
  int64_t rows = (int64_t)(n / 4) / 3, whole[] = {rows, 3};
  large_port(there, from, to, whole, (int64_t[]){rows, 2}, (int64_t[]){0, 1});
  large_port(there, from, to, whole, (int64_t[]){rows - 7, 3}, (int64_t[]){5, 0}); /* in a row */
  large_port(there, from, to, whole, whole, (int64_t[]){0, 0});
  ops->release(device, there, n);
  free(from);
  free(to);
}

int main(void) {
  open_device();
  RUN(copies);
  RUN(fills);
  RUN(products);
  RUN(large_moves);
  ops->release(device, memory, 8 * BYTES);
  ops->close(device);
  program_close(&program);
  free(tables);
  return test_summary();
}
