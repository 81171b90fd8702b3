/* tests/unit/program_grids.c - launches of kernels: threads and shared memory of a block within the limits of devices,
 * blocks as an expression of the rank or the micro-batch. */
#include "program/device_classes.h"
#include "tests/programs.h"

enum { RANKS = 2, MICRO_BATCHES = 2 };

typedef enum By { BY_NOTHING, BY_SIZE, BY_RANK, BY_MICRO_BATCH, BY_KINDS, NO_BLOCKS } By;

typedef struct Opened {
  Program p;
  void *tables;
  RtError error;
  bool ok;
} Opened;

/* One body that launches one kernel, 7 blocks times `by`; with images of the given architectures. */
static Opened one_launch(ProgramKernel kernel, By by, ProgramPhase phase, const char *const *cubins) {
  Make m = make_new(1);
  uint32_t tp = program_coordinate(m.b, make_axis(&m, "tp", RANKS, false));
  uint32_t mb = program_coordinate(m.b, make_axis(&m, "mb", MICRO_BATCHES, true)), n = make_symbol(&m, "n", 0, 8);
  uint32_t more[BY_KINDS] = {make_number(&m, 0), n, tp, mb};
  Opened o = {0};
  make_port(&m, "x", DT_f32, MAKE_LIST(&m, n));
  make_entry(&m, "main", 1, 0);
  m.phase = phase;
  make_begin(&m, 0);
  uint32_t x = make_tensor(&m, PC_activation, DT_f32, 1, MAKE_LIST(&m, make_number(&m, 8)));
  make_put(&m, make_instr(&m, PI_fill, "zeros", MAKE_LIST(&m, x)));
  make_launch(&m, "k0_relu", MAKE_LIST(&m, x), MAKE_LIST(&m, n));
  kernel.name = program_at_kernels(m.b, 0)->name;
  *program_at_kernels(m.b, 0) = kernel;
  if (by != NO_BLOCKS) {
    uint32_t blocks = make_add(&m, make_number(&m, 7), more[by]);
    program_at_instrs(m.b, 1)->blocks = blocks;
  }
  uint32_t body = make_end(&m, "body");
  for (uint32_t i = 0; i < (phase == PHASE_fwd ? MICRO_BATCHES : 1); i++) make_call(&m, 0, body, i);
  make_schedules(&m);
  for (; cubins && *cubins; cubins++)
    program_embed_image(m.b, **cubins == 's' ? PIMAGE_cubin : PIMAGE_object, *cubins, 10, 0);
  ProgramFacts facts = {"grid", "test", "test", 1, 0, NULL, NULL, 0, NULL};
  size_t bytes;
  o.ok = program_builder_finish(m.b, &facts, &o.tables, &bytes, &o.error) == RT_OK &&
         program_open(o.tables, bytes, &o.p, &o.error) == RT_OK;
  program_builder_free(m.b);
  return o;
}

static void opened_free(Opened *o) {
  if (o->ok) program_close(&o->p);
  free(o->tables);
}

static void blocks_of_threads_fit_devices(void) {
  static const char *const two[] = {"sm_80", "sm_90", NULL}, *const beside[] = {"avx2", "sm_90", NULL},
                           *const cpu[] = {"avx2", NULL};
  static const struct {
    ProgramKernel kernel;
    By by;
    const char *const *images;
    const char *fault; /* NULL if it opens */
  } cases[] = {
      {{.threads = 0}, NO_BLOCKS, NULL, NULL},
      {{.threads = 0}, NO_BLOCKS, cpu, NULL},
      {{.threads = 256}, BY_SIZE, NULL, NULL},
      {{.threads = 1024, .shared = 48 << 10}, BY_SIZE, two, NULL},
      {{.threads = 256}, BY_SIZE, beside, NULL},
      {{.threads = 1025}, BY_SIZE, NULL, "the block of kernels[0]"},
      {{.threads = 1, .shared = (48 << 10) + 1}, BY_SIZE, two, "the block of kernels[0]"},
      {{.shared = 8}, NO_BLOCKS, NULL, "the block of kernels[0]"},    /* of no block */
      {{.threads = 0}, NO_BLOCKS, beside, "the block of kernels[0]"}, /* a GPU has a grid */
      {{.threads = 256}, NO_BLOCKS, NULL, "the grid of instrs[1]"},
      {{.threads = 0}, BY_SIZE, NULL, "the grid of instrs[1]"},
      {{.threads = 32, .looks = 1}, BY_SIZE, NULL, NULL},
      {{.threads = 32, .looks = 2}, BY_SIZE, NULL, "the index check of kernels[0]"},
      {{.looks = 1}, NO_BLOCKS, NULL, "the index check of kernels[0]"}, /* the caller notes instead */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Opened o = one_launch(cases[i].kernel, cases[i].by, PHASE_fwd, cases[i].images);
    CHECKF(o.ok == !cases[i].fault && (o.ok || strstr(o.error.text, cases[i].fault)), "case %zu: %s", i, o.error.text);
    opened_free(&o);
  }
}

static void prints(void) {
  Opened o = one_launch((ProgramKernel){.threads = 256, .shared = 4096, .looks = 1}, BY_SIZE, PHASE_fwd, NULL);
  Text t = {.arena = arena_new()};
  CHECKF(o.ok, "%s", o.error.text);
  if (o.ok) program_print(&o.p, &t);
  CHECKF(strstr(text_str(&t), "kernel k0_relu threads 256 shared 4096 looks\n") &&
             strstr(text_str(&t), "launch k0_relu b0:f32[8] [n] blocks 7 + n  # k0_relu\n"),
         "%s", text_str(&t));
  arena_free(t.arena);
  opened_free(&o);
}

/* The number of blocks of a rank's launch in the first micro-batch; *varying is false if all other micro-batches have
   it too. */
static int64_t blocks_on(const Program *p, const ProgramValues *v, uint32_t rank, bool *varying) {
  int64_t *values = calloc(p->n_exprs + 1u, sizeof *values), coordinates[PROGRAM_MAX_AXES], blocks;
  DeviceCalls l;
  if (!values) exit(1);
  program_coordinates(p, rank, coordinates);
  program_values_of_rank(v, rank, values);
  CHECK(device_calls_make(p, 0, rank, &l, NULL) == RT_OK);
  device_calls_resolve(&l, values, coordinates, false);
  blocks = l.items[1].blocks;
  *varying = l.items[1].varying;
  CHECK(l.items[0].blocks == 1);
  device_calls_free(&l);
  free(values);
  return blocks;
}

/* Ranks that launch other numbers of blocks have their own lists. */
static void blocks_have_numbers(void) {
  static const int64_t want[BY_KINDS][RANKS] = {{7, 7}, {12, 12}, {7, 8}, {7, 7}};
  for (int by = 0; by < BY_KINDS; by++) {
    Opened o = one_launch((ProgramKernel){.threads = 32}, (By)by, PHASE_fwd, NULL);
    ProgramValues v;
    uint64_t keys[RANKS];
    CHECKF(o.ok, "%s", o.error.text);
    if (o.ok && program_values_open(&o.p, &v, &o.error) == RT_OK) {
      CHECK(program_values_bind(&v, &(int64_t){5}, 0, &o.error) == RT_OK);
      device_class_keys(&v, 0, false, keys);
      CHECKF((keys[0] != keys[1]) == (by == BY_RANK), "by %d", by);
      for (uint32_t rank = 0; rank < RANKS; rank++) {
        bool varying;
        int64_t blocks = blocks_on(&o.p, &v, rank, &varying);
        CHECKF(blocks == want[by][rank] && varying == (by == BY_MICRO_BATCH), "by %d: %d on rank %u", by, (int)blocks,
               rank);
      }
      program_values_close(&v);
    }
    opened_free(&o);
  }
}

static void bodies_called_once_know_no_micro_batch(void) {
  for (int by = 0; by < BY_KINDS; by++) {
    Opened o = one_launch((ProgramKernel){.threads = 32}, (By)by, PHASE_pre, NULL);
    CHECKF(o.ok == (by != BY_MICRO_BATCH), "by %d: %s", by, o.error.text);
    if (!o.ok) CHECKF(strstr(o.error.text, "the use of the micro-batch of instrs[1]"), "%s", o.error.text);
    opened_free(&o);
  }
}

int main(void) {
  RUN(blocks_of_threads_fit_devices);
  RUN(prints);
  RUN(blocks_have_numbers);
  RUN(bodies_called_once_know_no_micro_batch);
  return test_summary();
}
