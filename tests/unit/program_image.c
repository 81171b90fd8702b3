/* tests/unit/program_image.c - building, opening, damaging, printing and sizing Programs. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/hash.h"
#include "program/cpu.h"
#include "program/image.h"
#include "program/memory.h"
#include "program/build.h"
#include "tests/test.h"

/* A Program with every kind of record: symbol batch, mesh [tp=2, mb=2 time], two stages. */
static uint32_t add_exchange_body(ProgramBuilder *b, uint32_t stage, uint32_t batch) {
  uint32_t half = program_expr(b, PX_div, batch, program_const(b, 2));
  uint32_t bytes = program_expr(b, PX_mul, half, program_const(b, 16));
  uint32_t extents[2] = {half, program_const(b, 4)};
  uint32_t body = program_count_bodies(b), tensors[2];
  const char *const names[] = {"x", "y"};
  for (uint32_t i = 0; i < 2; i++) {
    uint32_t buffer = program_add_buffers(b, &(ProgramBuffer){.name = program_string(b, names[i]),
                                                              .class_ = i ? PC_activation : PC_input,
                                                              .stage = stage,
                                                              .entry = 0,
                                                              .body = body,
                                                              .first = i,
                                                              .last = 2,
                                                              .slots = 1 + stage,
                                                              .bytes = bytes});
    tensors[i] = program_add_tensors(b, &(ProgramTensor){.buffer = buffer,
                                                         .offset = program_const(b, 0),
                                                         .dtype = DT_f32,
                                                         .extents = program_list_of(b, 2, extents)});
  }
  uint32_t zero = program_const(b, 0);
  ProgramInstr x = {.kind = PI_fill,
                    .where = program_string(b, "fill"),
                    .object = PROGRAM_NONE,
                    .guard = PROGRAM_NONE,
                    .event = PROGRAM_NONE,
                    .tensors = program_list_of(b, 1, tensors),
                    .value = 1};
  uint32_t first = program_add_instrs(b, &x);
  x = (ProgramInstr){.kind = PI_all_reduce,
                     .where = program_string(b, "sum"),
                     .object = 0,
                     .guard = PROGRAM_NONE,
                     .event = 0,
                     .key = stage,
                     .tensors = program_list_of(b, 2, tensors)};
  program_add_instrs(b, &x);
  x = (ProgramInstr){
      .kind = PI_wait, .where = program_string(b, "sum"), .object = PROGRAM_NONE, .guard = PROGRAM_NONE, .event = 0};
  program_add_instrs(b, &x);
  x = (ProgramInstr){.kind = stage ? PI_fetch : PI_feed,
                     .where = program_string(b, "io"),
                     .object = 0,
                     .guard = PROGRAM_NONE,
                     .event = PROGRAM_NONE,
                     .tensors = program_list_of(b, 1, tensors),
                     .exprs = program_list_of(b, 2, (uint32_t[]){zero, zero}),
                     .mask = stage ? 1 : 0};
  program_add_instrs(b, &x);
  return program_add_bodies(
      b, &(ProgramBody){program_string(b, stage ? "second" : "first"), 0, stage, PHASE_fwd, first, 4});
}

static ProgramBuilder *example(void) {
  ProgramBuilder *b = program_builder_new();
  program_add_symbols(
      b, &(ProgramSymbol){.name = program_string(b, "batch"), .min = 2, .max = 64, .multiple = 2, .hint = 8});
  program_add_axes(b, &(ProgramAxis){.name = program_string(b, "tp"), .size = 2});
  program_add_axes(b, &(ProgramAxis){.name = program_string(b, "mb"), .size = 2, .temporal = 1});
  uint32_t batch = program_sym(b, 0), four = program_const(b, 4), tp = program_coordinate(b, 0);
  program_add_groups(b, &(ProgramGroup){program_list_of(b, 1, (uint32_t[]){0}), PROGRAM_NONE, PROGRAM_NONE});
  ProgramList dims = program_list_of(b, 2, (uint32_t[]){batch, four});
  program_add_ports(
      b, &(ProgramPort){program_string(b, "x"), DT_f32, dims, PROGRAM_NONE, PROGRAM_NONE, 0, PROGRAM_NONE, {0}});
  program_add_ports(
      b, &(ProgramPort){program_string(b, "y"), DT_f32, dims, PROGRAM_NONE, PROGRAM_NONE, 0, PROGRAM_NONE, {0}});
  uint32_t flops[] = {3, program_expr(b, PX_mul, batch, four), 1, four};
  program_add_entries(b, &(ProgramEntry){.name = program_string(b, "main"),
                                         .n_inputs = 1,
                                         .outputs = 1,
                                         .n_outputs = 1,
                                         .flops = program_list_of(b, 4, flops)});
  for (uint32_t stage = 0; stage < 2; stage++) {
    program_add_schedules(b, &(ProgramSchedule){2 * stage, 2});
    uint32_t body = add_exchange_body(b, stage, batch);
    for (uint32_t mb = 0; mb < 2; mb++) program_add_calls(b, &(ProgramCall){body, mb});
  }
  uint32_t blob = program_add_blobs(b, &(ProgramBlob){.path = program_string(b, "w.bin"), .bytes = 4096, .hash = 1});
  uint32_t two = program_const(b, 2), lo = program_expr(b, PX_mul, tp, two), hi = program_expr(b, PX_add, lo, two);
  uint32_t one = program_const(b, 1);
  for (uint32_t i = 0; i < 2; i++) { /* cut along dimension 0: in place; along 1: not */
    uint32_t buffer = program_add_buffers(b, &(ProgramBuffer){.name = program_string(b, "w"),
                                                              .class_ = PC_param,
                                                              .entry = PROGRAM_NONE,
                                                              .body = PROGRAM_NONE,
                                                              .slots = 1,
                                                              .bytes = program_const(b, 32)});
    uint32_t rows[] = {lo, hi, program_const(b, 0), four}, columns[] = {program_const(b, 0), four, lo, hi};
    program_add_params(b, &(ProgramParam){.name = program_string(b, i ? "columns" : "rows"),
                                          .dtype = DT_f32,
                                          .buffer = buffer,
                                          .dims = program_list_of(b, 2, (uint32_t[]){four, four}),
                                          .interval = program_list_of(b, 4, i ? columns : rows),
                                          .init = PINIT_blob,
                                          .blob = blob,
                                          .source_dtype = DT_f32,
                                          .strides = program_list_of(b, 2, (uint32_t[]){four, one}),
                                          .offset = 64});
  }
  uint32_t buffer = program_add_buffers(b, &(ProgramBuffer){.name = program_string(b, "s"),
                                                            .class_ = PC_state,
                                                            .stage = 1,
                                                            .entry = PROGRAM_NONE,
                                                            .body = PROGRAM_NONE,
                                                            .slots = 1,
                                                            .bytes = program_expr(b, PX_mul, batch, four)});
  program_add_states(b, &(ProgramState){.name = program_string(b, "s"),
                                        .dtype = DT_f32,
                                        .stage = 1,
                                        .buffer = buffer,
                                        .dims = program_list_of(b, 1, &batch),
                                        .interval = program_list_of(b, 2, (uint32_t[]){program_const(b, 0), batch}),
                                        .value = 0.5});
  return b;
}

typedef struct Image {
  void *bytes;
  size_t n;
} Image;

static Image finish(ProgramBuilder *b) {
  Image image = {0};
  program_embed_image(b, PIMAGE_cubin, "sm_80", 100, 0);
  program_embed_image(b, PIMAGE_cubin, "sm_90", 5000, 0);
  RtError error = {0};
  ProgramFacts facts = {"example", "cpux4", "test", 2, 1, NULL, NULL, 2e12, "bf16"};
  CHECKF(program_builder_finish(b, &facts, &image.bytes, &image.n, &error) == RT_OK, "%s", error.text);
  program_builder_free(b);
  return image;
}

static void expressions_are_stored_once_and_folded(void) {
  ProgramBuilder *b = program_builder_new();
  uint32_t s = program_sym(b, program_add_symbols(b, &(ProgramSymbol){.name = program_string(b, "n"), .multiple = 1}));
  uint32_t x = program_expr(b, PX_add, s, program_const(b, 3));
  CHECK(x == program_expr(b, PX_add, s, program_const(b, 3)));
  CHECK(program_string(b, "n") == program_string(b, "n"));
  CHECK(program_string(b, "") == 0);
  CHECK(program_expr(b, PX_div, program_const(b, -7), program_const(b, 2)) == program_const(b, -4));
  CHECK(program_at_exprs(b, program_expr(b, PX_div, program_const(b, 1), program_const(b, 0)))->kind == PX_div);
  CHECK(program_at_exprs(b, program_expr(b, PX_mul, program_const(b, INT64_MAX), program_const(b, 2)))->kind == PX_mul);
  program_builder_free(b);
}

static void prints(void) {
  Image image = finish(example());
  Program p;
  RtError error = {0};
  CHECKF(program_open(image.bytes, image.n, &p, &error) == RT_OK, "%s", error.text);
  Arena *a = arena_new();
  Text t = {.arena = a};
  program_print(&p, &t);
  const char *const parts[] = {
      "program 20 \"example\" for cpux4\npeak 2e+12 of \"bf16\"\nsymbol batch min 2 max 64 multiple 2 hint 8\n"
      "mesh [tp=2, mb=2 time] stages 2\n",
      "group 0 tp\nblob 0 \"w.bin\" bytes 4096\nblob 1 embedded bytes 100\nblob 2 embedded bytes 5000\n"
      "image cubin \"sm_80\" in blob 1\nimage cubin \"sm_90\" in blob 2\n",
      "param \"rows\" stage 0 : f32[4, 4] part @tp*2 .. (@tp*2) + 2, 0 .. 4 = blob 0 offset 64 strides [4, 1] in b4\n",
      "state \"s\" stage 1 : f32[batch] part 0 .. batch = 0.5 in b6\n",
      "buffer b2 \"x\" input stage 1 bytes (batch div 2)*16 slots 2 live 0..2 of body 1\n",
      "entry main\n  input \"x\" : f32[batch, 4]\n  output \"y\" : f32[batch, 4]\n  flops 3 * (batch*4) + 1 * (4)\n  "
      "stage 0: fwd.first(0) "
      "fwd.first(1)\n",
      "body 0 fwd.first of main stage 0\n  fill b0:f32[batch div 2, 4] value 1  # fill\n",
      "  all_reduce over tp b0:f32[batch div 2, 4] b1:f32[batch div 2, 4] sum key 0 event 0  # sum\n",
      "event 0  # sum\n  wait event 0  # sum\n",
  };
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    CHECKF(strstr(text_str(&t), parts[i]), "missing:\n%s\nin:\n%s", parts[i], text_str(&t));
  char text[100];
  program_instr_text(&p, 1, text, sizeof text);
  CHECK_STR(text, "all_reduce of sum over tp");
  arena_free(a);
  program_close(&p);
  free(image.bytes);
}

/* Predicted times are for all instructions or for none, and are numbers. */
static void predicted_times(void) {
  static const struct {
    uint32_t missing;
    float first;
    double request;
    const char *fault;
  } cases[] = {{0, 1e-6f, 2e-6, NULL},
               {0, 1e-6f, 2e25, NULL}, /* a loop of as many rounds as an integer counts */
               {1, 1e-6f, 2e-6, "the number of predicted times is wrong"},
               {0, -1e-6f, 2e-6, "the time of predicted[0]"},
               {0, INFINITY, 2e-6, "the time of predicted[0]"},
               {0, 1e-6f, (double)NAN, "the predicted time of entries[0]"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ProgramBuilder *b = example();
    ProgramFacts facts = {"example", "cpux4", "test", 2, 1, NULL, "gpu sm_80", 0, NULL};
    RtError error = {0};
    Image image = {0};
    Program p;
    program_at_entries(b, 0)->seconds = cases[i].request;
    for (uint32_t k = cases[i].missing; k < program_count_instrs(b); k++) program_add_predicted(b, &cases[i].first);
    bool ok = program_builder_finish(b, &facts, &image.bytes, &image.n, &error) == RT_OK;
    CHECKF(ok == !cases[i].fault && (ok || strstr(error.text, cases[i].fault)), "case %zu: %s", i, error.text);
    program_builder_free(b);
    if (ok && program_open(image.bytes, image.n, &p, &error) == RT_OK) {
      CHECK(p.n_predicted == p.n_instrs && p.predicted[1] == 1e-6f);
      CHECK_STR(program_text(&p, p.header->planned), "gpu sm_80");
      program_close(&p);
    }
    free(image.bytes);
  }
}

static void ranks_and_groups(void) {
  Image image = finish(example());
  Program p;
  CHECK(program_open(image.bytes, image.n, &p, NULL) == RT_OK);
  CHECK(p.ranks == 4 && p.ranks_per_stage == 2 && p.micro_batches == 2 && program_stage(&p, 3) == 1);
  int64_t c[PROGRAM_MAX_AXES];
  program_coordinates(&p, 3, c);
  CHECK(c[0] == 1 && c[1] == 0 && program_rank_at(&p, 1, c) == 3);
  CHECK(program_flops(&p, 0, (int64_t[]){8}) == 3 * 8 * 4 + 4 && isnan(program_flops(&p, 0, (int64_t[]){INT64_MAX})));
  Program without = p; /* an entry that is no training step */
  ProgramEntry entry = p.entries[0];
  entry.flops.n = 0;
  without.entries = &entry;
  CHECK(isnan(program_flops(&without, 0, (int64_t[]){8})));
  ProgramMembers m = program_group_of(&p, 0, 3);
  CHECK(m.n == 2 && program_member(&m, 0) == 2 && program_member(&m, 1) == 3 && m.place == 1);
  program_close(&p);
  free(image.bytes);
}

/* ---- damage */

static void put_hash(unsigned char *image, size_t n) {
  size_t begin = offsetof(ProgramHeader, table_bytes);
  uint64_t h = hash64(image + begin, n - begin, 0);
  memcpy(image + offsetof(ProgramHeader, table_hash), &h, sizeof h);
}

/* The accesses of a loader to an image that opened. */
static void use(const Program *p) {
  Arena *a = arena_new();
  Text t = {.arena = a};
  program_print(p, &t);
  for (uint32_t i = 0; i < p->n_images; i++) program_image_text(p, i, &t);
  uint32_t image;
  RtError lack = {0};
  if (program_image_choose(p, "GPU", "sm_90", &image, &lack)) CHECK(lack.status == RT_UNSUPPORTED && *lack.text);
  else CHECK(image < p->n_images);
  int64_t symbols[PROGRAM_MAX_SYMBOLS];
  for (uint32_t s = 0; s < p->n_symbols; s++) symbols[s] = p->symbols[s].hint;
  for (uint32_t e = 0; e < p->n_entries; e++)
    for (uint32_t stage = 0; stage < p->stages; stage++) {
      MemoryPlan plan;
      if (memory_plan(p, e, stage, symbols, &plan, NULL)) continue;
      RtError error = {0};
      if (memory_check(p, e, stage, &plan, &error)) CHECKF(!strstr(error.text, "overlap"), "%s", error.text);
      memory_plan_free(&plan);
    }
  for (uint32_t r = 0; r < p->ranks; r++)
    for (uint32_t g = 0; g < p->n_groups; g++) {
      ProgramMembers m = program_group_of(p, g, r);
      CHECK(m.n == 0 || program_member(&m, m.place) == r);
    }
  arena_free(a);
}

static bool opens(const unsigned char *image, size_t n) {
  unsigned char *exact = malloc(n ? n : 1); /* so that a sanitizer detects every overread */
  memcpy(exact, image, n);
  Program p;
  RtError error = {0};
  RtStatus status = program_open(exact, n, &p, &error);
  if (status == RT_OK) {
    use(&p);
    program_close(&p);
  } else {
    CHECK(*error.text && error.status == status);
  }
  free(exact);
  return status == RT_OK;
}

static void damage_is_noticed(void) {
  Image image = finish(example());
  unsigned char *bytes = image.bytes;
  CHECK(opens(bytes, image.n));
  for (size_t i = 0; i < image.n; i++) {
    bytes[i] ^= 0x41;
    CHECKF(!opens(bytes, image.n), "byte %zu", i);
    bytes[i] ^= 0x41;
  }
  for (size_t n = 0; n < image.n; n += 7) CHECK(!opens(bytes, n));
  free(image.bytes);
}

static void damage_with_a_right_checksum_is_harmless(void) {
  static const unsigned char flips[] = {0x01, 0x80, 0xff};
  Image image = finish(example());
  unsigned char *bytes = image.bytes;
  size_t refused = 0, tried = 0;
  for (size_t i = 0; i < image.n; i++)
    for (size_t k = 0; k < sizeof flips; k++) {
      bytes[i] ^= flips[k];
      put_hash(bytes, image.n);
      refused += !opens(bytes, image.n);
      tried++;
      bytes[i] ^= flips[k];
    }
  CHECKF(refused > tried / 2, "%zu of %zu refused", refused, tried);
  free(image.bytes);
}

/* ---- sizes */

static RtStatus bind(const Program *p, int rank, int64_t n, int64_t m, int64_t *symbol, RtError *error) {
  ProgramShape shape = {rank, {n, m}};
  *symbol = -1;
  return program_bind(p, 0, &shape, symbol, error);
}

static void symbols_bind(void) {
  Image image = finish(example());
  Program p;
  CHECK(program_open(image.bytes, image.n, &p, NULL) == RT_OK);
  int64_t s;
  CHECK(bind(&p, 2, 6, 4, &s, NULL) == RT_OK && s == 6);
  CHECK(bind(&p, -1, 0, 0, &s, NULL) == RT_OK && s == 8);
  static const struct {
    int rank;
    int64_t n, m;
    const char *text;
  } cases[] = {
      {1, 6, 0, "input 'x' has 1 dimension, but the model expects 2"},
      {2, 66, 4, "input 'x': dimension 0 is 66, but this program was compiled for batch from 2 to 64"},
      {2, 0, 4, "input 'x': dimension 0 is 0, but this program was compiled for batch from 2 to 64"},
      {2, 7, 4, "input 'x': dimension 0 is 7, but batch must be a multiple of 2"},
      {2, 6, 5, "input 'x': dimension 1 is 5, but must be 4"},
      {2, -1, 4, "input 'x': dimension 0 is negative"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    RtError error = {0};
    CHECK(bind(&p, cases[i].rank, cases[i].n, cases[i].m, &s, &error) == RT_BAD_INPUT);
    CHECK_STR(error.text, cases[i].text);
  }
  int64_t fixed = 4;
  RtError error = {0};
  CHECK(program_bind(&p, 0, &(ProgramShape){2, {6, 4}}, &fixed, &error) == RT_BAD_INPUT);
  CHECK_STR(error.text, "input 'x': dimension 0 is 6, but batch is 4 in the size given for 'batch'");
  ProgramShape shape;
  CHECK(program_port_shape(&p, 1, &(int64_t){10}, &shape, NULL) == RT_OK && shape.rank == 2 && shape.dims[0] == 10);
  program_close(&p);
  free(image.bytes);
}

static void overflow_is_an_error(void) {
  ProgramBuilder *b = example();
  uint32_t e = program_expr(b, PX_mul, program_sym(b, 0), program_const(b, INT64_MAX / 3));
  program_at_buffers(b, 0)->bytes = e;
  Image image = finish(b);
  Program p;
  CHECK(program_open(image.bytes, image.n, &p, NULL) == RT_OK);
  MemoryPlan plan;
  RtError error = {0};
  CHECK(memory_plan(&p, 0, 0, &(int64_t){8}, &plan, &error) == RT_BAD_INPUT);
  CHECKF(strstr(error.text, "with batch = 8"), "%s", error.text);
  error = (RtError){0};
  CHECK(memory_plan(&p, 0, 0, &(int64_t){3}, &plan, &error) == RT_BAD_INPUT);
  CHECKF(strstr(error.text, "buffer 'x' would have"), "%s", error.text);
  program_close(&p);
  free(image.bytes);
}

static void weights_in_place(void) {
  Image image = finish(example());
  Program p;
  CHECK(program_open(image.bytes, image.n, &p, NULL) == RT_OK);
  MemoryPlan plan;
  CHECK(memory_plan(&p, PROGRAM_NONE, 0, NULL, &plan, NULL) == RT_OK);
  CHECK(plan.offsets[p.params[0].buffer] == MEMORY_IN_PLACE && plan.offsets[p.params[1].buffer] == 0);
  CHECK(plan.mapped_bytes == 64 && plan.bytes[SPACE_PARAM] == 64 && plan.bytes[SPACE_ARENA] == 0);
  memory_plan_free(&plan);
  CHECK(memory_plan(&p, 0, 1, &(int64_t){8}, &plan, NULL) == RT_OK);
  CHECK(plan.bytes[SPACE_PARAM] == 0 && plan.bytes[SPACE_STATE] == 64 && plan.class_bytes[PC_state] == 64);
  CHECK(plan.bytes[SPACE_ARENA] == 256 && plan.live_bytes[SPACE_ARENA] == 256 && plan.class_bytes[PC_input] == 128);
  memory_plan_free(&plan);
  program_close(&p);
  free(image.bytes);
}

static void cpu_sets(void) {
  char missing[32] = "";
  const char *have = program_cpu_features();
  CHECK(program_cpu_list_has(have, "", missing, sizeof missing));
  CHECK(program_cpu_list_has(have, have, missing, sizeof missing));
  CHECK(!program_cpu_list_has("sse3 avx avx2", "sse3 mmx9000 avx", missing, sizeof missing));
  CHECK_STR(missing, "mmx9000");
  CHECK(!program_cpu_list_has("avx2", "avx", missing, 3)); /* no part of a word; cut to the buffer */
  CHECK_STR(missing, "av");
}

/* ---- images */

typedef struct ImageSpec {
  ProgramImageKind kind;
  const char *arch;
} ImageSpec;

static const ImageSpec all_specs[] = {
    {PIMAGE_object, "sse3"},  {PIMAGE_cubin, "sm_80"},    {PIMAGE_ptx, "compute_70"}, {PIMAGE_object, "sse3 avx2 fma"},
    {PIMAGE_cubin, "sm_90a"}, {PIMAGE_ptx, "compute_80"}, {PIMAGE_cubin, "sm_86"},    {PIMAGE_cubin, "sm_90"},
};
enum { ALL_SPECS = sizeof all_specs / sizeof *all_specs };

/* With the images of a mask over `specs`; false after the reason. */
static bool open_with(const ImageSpec *specs, uint32_t mask, Program *p, void **bytes, RtError *error) {
  ProgramBuilder *b = example();
  ProgramFacts facts = {"example", "cpux4", "test", 2, 1, NULL, NULL, 2e12, "bf16"};
  size_t n;
  for (uint32_t i = 0; i < 32; i++)
    if (mask >> i & 1) program_embed_image(b, specs[i].kind, specs[i].arch, 100 + i, 0);
  RtStatus status = program_builder_finish(b, &facts, bytes, &n, error);
  program_builder_free(b);
  return !status && program_open(*bytes, n, p, error) == RT_OK;
}

static void images_are_chosen(void) {
  static const struct {
    uint32_t mask;
    const char *device, *arch;
    int want; /* index in all_specs; -1 for none */
    const char *text;
  } cases[] = {
      {0xff, "CPU", "sse3 ssse3 avx avx2 fma", 3, ""},
      {0xff, "CPU", "sse3 ssse3", 0, ""},
      {0x08, "CPU", "sse3 avx2", -1, "this CPU lacks fma, which the machine that compiled the program has"},
      {0xff, "GPU", "sm_80", 1, ""},
      {0xff, "GPU", "sm_89", 6, ""}, /* a later minor version */
      {0xff, "GPU", "sm_90", 4, ""}, /* the code for exactly this one */
      {0xef, "GPU", "sm_90", 7, ""},
      {0x10, "GPU", "sm_91", -1, "the program has machine code (cubin sm_90a) that a GPU of sm_91 does not run"},
      {0xff, "GPU", "sm_75", 2, ""},  /* compiled by the driver */
      {0xff, "GPU", "sm_120", 5, ""}, /* the later of two */
      {0xff, "GPU", "sm_60", -1, "that a GPU of sm_60 does not run"},
      {0x82, "GPU", "sm_120", -1, "(cubin sm_80, cubin sm_90) that a GPU of sm_120 does not run"},
      {0x82, "CPU", "sse3", -1, "no machine code for a CPU; it has cubin sm_80, cubin sm_90"},
      {0x01, "GPU", "sm_90", -1, "no machine code for a GPU; it has object"},
      {0x00, "CPU", "sse3", -1, "the program has no machine code for a CPU"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Program p;
    void *bytes = NULL;
    RtError error = {0};
    uint32_t image;
    CHECKF(open_with(all_specs, cases[i].mask, &p, &bytes, &error), "%s", error.text);
    RtStatus status = program_image_choose(&p, cases[i].device, cases[i].arch, &image, &error);
    if (cases[i].want < 0)
      CHECKF(status == RT_UNSUPPORTED && strstr(error.text, cases[i].text), "case %zu: %d %s", i, status, error.text);
    else
      CHECKF(status == RT_OK && p.images[image].kind == all_specs[cases[i].want].kind &&
                 strcmp(program_text(&p, p.images[image].arch), all_specs[cases[i].want].arch) == 0,
             "case %zu: %d %s", i, status, status ? error.text : program_text(&p, p.images[image].arch));
    program_close(&p);
    free(bytes);
  }
}

static void images_that_are_none(void) {
  static const struct {
    ImageSpec specs[2];
    const char *fault;
  } cases[] = {
      {{{PIMAGE_cubin, "sm_90"}, {PIMAGE_ptx, "compute_90"}}, NULL},
      {{{PIMAGE_cubin, "sm_90"}, {PIMAGE_cubin, "sm_90"}}, "the architecture of images[1]"}, /* twice */
      {{{PIMAGE_cubin, "sm_90"}, {PIMAGE_cubin, "compute_90"}}, "the architecture of images[1]"},
      {{{PIMAGE_cubin, "sm_"}, {PIMAGE_ptx, "compute_90"}}, "the architecture of images[0]"},
      {{{PIMAGE_cubin, "sm_9"}, {PIMAGE_ptx, "compute_90"}}, "the architecture of images[0]"},
      {{{PIMAGE_cubin, "sm_90b"}, {PIMAGE_ptx, "compute_90"}}, "the architecture of images[0]"},
      {{{PIMAGE_cubin, "sm_90"}, {PIMAGE_ptx, "compute_99999999999"}}, "the architecture of images[1]"},
      {{{PIMAGE_COUNT, ""}, {PIMAGE_ptx, "compute_90"}}, "the kind of images[0]"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Program p;
    void *bytes = NULL;
    RtError error = {0};
    bool ok = open_with(cases[i].specs, 3, &p, &bytes, &error);
    CHECKF(ok == !cases[i].fault && (ok || strstr(error.text, cases[i].fault)), "case %zu: %s", i, error.text);
    if (ok) program_close(&p);
    free(bytes);
  }
}

int main(void) {
  RUN(expressions_are_stored_once_and_folded);
  RUN(prints);
  RUN(predicted_times);
  RUN(ranks_and_groups);
  RUN(damage_is_noticed);
  RUN(damage_with_a_right_checksum_is_harmless);
  RUN(symbols_bind);
  RUN(overflow_is_an_error);
  RUN(weights_in_place);
  RUN(cpu_sets);
  RUN(images_are_chosen);
  RUN(images_that_are_none);
  return test_summary();
}
