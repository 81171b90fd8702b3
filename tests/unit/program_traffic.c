/* tests/unit/program_traffic.c - the bytes that traffic.h derives from a Program equal those that its ranks send, and
 * the memory of the compiler's plan equals their allocation.
 *
 * One program per communication kind, so that the sum that the runtime reports is that of the kind. */
#include "program/memory.h"
#include "program/order.h"
#include "program/traffic.h"
#include "runtime/session/session.h"
#include "tests/programs.h"

typedef struct Shape {
  uint32_t n, lo, mine; /* expressions: rows, and this rank's part */
} Shape;

static Shape shape_of(Make *m, uint32_t axis, int64_t ranks) {
  uint32_t r = program_coordinate(m->b, axis), n = make_symbol(m, "n", 0, 7), lo = make_cut(m, r, n, ranks);
  return (Shape){n, lo, make_sub(m, make_cut(m, make_next(m, r), n, ranks), lo)};
}

/* y = one communication of kind `kind` applied to x; columns of 5 are cut as unevenly as the rows. */
static Make one_collective(ProgramInstrKind kind, uint32_t ranks, int stages) {
  Make m = make_new((uint32_t)stages);
  uint32_t axis = make_axis(&m, "a", ranks, false);
  Shape s = shape_of(&m, axis, ranks);
  uint32_t c = make_number(&m, 5), zero = make_number(&m, 0), r = program_coordinate(m.b, axis),
           one = make_number(&m, 1);
  uint32_t c_lo = make_cut(&m, r, c, ranks), c_mine = make_sub(&m, make_cut(&m, make_next(&m, r), c, ranks), c_lo);
  bool pair = kind == PI_send, cut = kind != PI_all_reduce && kind != PI_reduce_scatter;
  uint32_t hi = make_add(&m, s.lo, s.mine), rows = cut ? s.mine : s.n;
  uint32_t group = program_add_groups(m.b, &(ProgramGroup){pair ? (ProgramList){0, 0} : MAKE_LIST(&m, axis),
                                                           pair ? 0 : PROGRAM_NONE, pair ? 1 : PROGRAM_NONE});
  make_port(&m, "x", DT_f32, MAKE_LIST(&m, s.n, c));
  make_entry(&m, "main", 1, 0);
  make_begin(&m, 0);
  uint32_t x = make_tensor(&m, PC_input, DT_f32, 1, MAKE_LIST(&m, rows, c));
  make_io(&m, PI_feed, 0, x, 0, MAKE_LIST(&m, cut ? s.lo : zero, zero));
  if (pair) {
    make_put(&m, make_comm(&m, PI_send, "cut", group, MAKE_LIST(&m, x)));
    uint32_t first = make_end(&m, "first");
    make_begin(&m, 1);
    uint32_t got = make_tensor(&m, PC_activation, DT_f32, 1, MAKE_LIST(&m, rows, c));
    ProgramInstr recv = make_comm(&m, PI_recv, "cut", group, MAKE_LIST(&m, got));
    recv.key = program_at_instrs(m.b, program_count_instrs(m.b) - 1)->key;
    make_put(&m, recv);
    make_call(&m, 0, first, 0);
    make_call(&m, 1, make_end(&m, "second"), 0);
    make_schedules(&m);
    return m;
  }
  bool wide = kind == PI_exchange, columns = kind == PI_all_to_all || kind == PI_reduce_scatter;
  uint32_t out = wide ? make_add(&m, s.mine, make_number(&m, 2)) : s.n;
  uint32_t y = make_tensor(&m, PC_activation, DT_f32, 1, MAKE_LIST(&m, out, columns ? c_mine : c));
  ProgramInstr i = make_comm(&m, kind, "it", group, MAKE_LIST(&m, x, y));
  i.dim = columns ? 1 : 0;
  if (wide) i.exprs = MAKE_LIST(&m, s.lo, hi, make_sub(&m, s.lo, one), make_add(&m, hi, one));
  make_put(&m, i);
  make_call(&m, 0, make_end(&m, "body"), 0);
  make_schedules(&m);
  return m;
}

static void check_memory(const Program *p, const ApcReport *used, uint32_t rank, const int64_t *symbols) {
  MemoryPlan plan;
  RtError error = {0};
  CHECKF(memory_plan(p, 0, program_stage(p, rank), symbols, &plan, &error) == RT_OK, "%s", error.text);
  CHECK(plan.bytes[SPACE_WINDOW] == used->window_bytes && plan.bytes[SPACE_PARAM] == used->param_bytes);
  CHECKF(plan.bytes[SPACE_ARENA] == used->arena_bytes, "rank %u: plan %llu, used %llu", rank,
         (unsigned long long)plan.bytes[SPACE_ARENA], (unsigned long long)used->arena_bytes);
  memory_plan_free(&plan);
}

static void compare(ProgramInstrKind kind, uint32_t ranks) {
  static const int sizes[] = {7,    64,   1, 301,
                              3000, 9001, 5}; /* around the limits of a direct all_reduce, and in several pieces */
  enum { MOST = 9001 };
  Make make = one_collective(kind, ranks, kind == PI_send ? 2 : 1);
  const char *path = make_artifact(&make, "one");
  Artifact a;
  RtError error = {0};
  CHECKF(artifact_open(path, "one", &a, &error) == RT_OK, "%s", error.text);
  CHECKF(order_check_all(&a.program, &error) == RT_OK, "%s", error.text);
  ApcModel *m;
  float *x = calloc(5 * MOST, sizeof *x);
  OK(apc_load(path, NULL, &m));
  uint64_t predicted[2 * 3] = {0}, total = 0; /* two stages of at most three */
  int most = 0;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    int64_t symbols[1] = {sizes[s]};
    bool largest = sizes[s] > most;
    if (largest) most = sizes[s];
    OK(apc_bind_input(m, "x", APC_F32, 2, (int64_t[]){sizes[s], 5}, x));
    OK(apc_run(m, NULL));
    for (uint32_t r = 0; r < a.program.ranks; r++) {
      uint64_t sent[COMM_KIND_COUNT] = {0};
      ApcReport report = {0};
      CHECKF(traffic_sent(&a.program, 0, r, symbols, sent, &error) == RT_OK, "%s", error.text);
      for (int k = 0; k < COMM_KIND_COUNT; k++) predicted[r] += sent[k];
      OK(apc_report(m, (int)r, &report));
      total += predicted[r];
      CHECKF(predicted[r] == report.sent_bytes, "%s, %u ranks, n %d, rank %u: predicted %llu, sent %llu",
             program_instr_name(kind), ranks, sizes[s], r, (unsigned long long)predicted[r],
             (unsigned long long)report.sent_bytes);
      if (largest) check_memory(&a.program, &report, r, symbols);
    }
  }
  CHECKF(total > 0, "%s sends nothing", program_instr_name(kind));
  free(x);
  apc_close(m);
  artifact_close(&a);
}

static void every_kind(void) {
  static const ProgramInstrKind kinds[] = {PI_all_reduce, PI_all_gather, PI_reduce_scatter,
                                           PI_all_to_all, PI_exchange,   PI_send};
  for (int k = 0; k < 6; k++)
    for (uint32_t ranks = 2; ranks <= 3; ranks++) compare(kinds[k], ranks);
}

typedef struct Opened {
  void *image;
  size_t bytes;
  Program p;
} Opened;

static Opened open_made(Make *m) {
  Opened o;
  RtError error = {0};
  ProgramFacts facts = {"m", "t", "t", m->stages, 0, NULL, NULL, 0, NULL};
  CHECKF(program_builder_finish(m->b, &facts, &o.image, &o.bytes, &error) == RT_OK &&
             program_open(o.image, o.bytes, &o.p, &error) == RT_OK,
         "%s", error.text);
  program_builder_free(m->b);
  return o;
}

static void close_opened(Opened *o) {
  program_close(&o->p);
  free(o->image);
}

/* A pair whose sides disagree about bytes is refused. */
static void sizes_are_checked(void) {
  static const ProgramInstrKind kinds[] = {PI_all_gather, PI_reduce_scatter, PI_all_to_all,
                                           PI_exchange,   PI_all_reduce,     PI_send};
  for (int k = 0; k < 6; k++) {
    Make m = one_collective(kinds[k], 2, kinds[k] == PI_send ? 2 : 1);
    uint32_t last = program_count_tensors(m.b) - 1; /* the received one */
    ProgramTensor *t = program_at_tensors(m.b, last);
    uint32_t first = *program_at_indices(m.b, t->extents.first),
             second = *program_at_indices(m.b, t->extents.first + 1);
    ProgramList larger = MAKE_LIST(&m, make_next(&m, first), second);
    program_at_tensors(m.b, last)->extents = larger;
    Opened o = open_made(&m);
    RtError error = {0};
    CHECK(order_check_all(&o.p, &error) == RT_INTERNAL);
    CHECKF(strstr(error.text, "rank 0, "), "%s: %s", program_instr_name(kinds[k]), error.text);
    close_opened(&o);
  }
}

/* Bytes that a rank sends of n rows of 5 numbers, if the parts of all ranks are equal and contiguous. */
static uint64_t sent_by_one(ProgramInstrKind kind, uint64_t ranks, uint64_t rows, uint32_t rank) {
  uint64_t part = rows / ranks * 5 * 4;
  switch ((int)kind) {
    case PI_all_gather: return part * (ranks - 1);
    case PI_exchange:
      return UINT64_C(20) * ((rank > 0 ? 1u : 0u) + (rank + 1 < ranks ? 1u : 0u)); /* a row to each neighbour */
    case PI_send: return rank < ranks ? part : 0;                                  /* the first stage's ranks */
    default: return UINT64_MAX;
  }
}

/* A Program for 16,384 ranks is as large as one for 8, and all queries are answered quickly. */
static void many_ranks(uint32_t ranks) {
  static const ProgramInstrKind kinds[] = {PI_all_gather, PI_exchange, PI_send, PI_all_reduce, PI_all_to_all};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    int stages = kinds[k] == PI_send ? 2 : 1;
    Make small = one_collective(kinds[k], 8, stages), large = one_collective(kinds[k], ranks, stages);
    Opened few = open_made(&small), many = open_made(&large);
    const Program *p = &many.p;
    RtError error = {0};
    CHECK(p->ranks == ranks * (uint32_t)stages && few.bytes == many.bytes);
    int64_t symbols[1] = {(int64_t)ranks * 2};
    CHECKF(order_check(p, 0, symbols, &error) == RT_OK, "%s", error.text);
    MemoryPlan plan;
    CHECKF(memory_plan(p, 0, 0, symbols, &plan, &error) == RT_OK, "%s", error.text);
    CHECK(plan.bytes[SPACE_WINDOW] + plan.bytes[SPACE_ARENA] > 0);
    CHECK(memory_check(p, 0, 0, &plan, &error) == RT_OK);
    memory_plan_free(&plan);
    uint32_t asked[] = {0, 1, ranks / 2, p->ranks - 1};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
      uint64_t sent[COMM_KIND_COUNT] = {0}, total = 0, want = sent_by_one(kinds[k], ranks, ranks * 2ull, asked[i]);
      CHECKF(traffic_sent(p, 0, asked[i], symbols, sent, &error) == RT_OK, "%s", error.text);
      for (int c = 0; c < COMM_KIND_COUNT; c++) total += sent[c];
      CHECKF(want == UINT64_MAX || total == want, "%s on %u ranks, rank %u: %llu bytes, not %llu",
             program_instr_name(kinds[k]), ranks, asked[i], (unsigned long long)total, (unsigned long long)want);
    }
    close_opened(&few);
    close_opened(&many);
  }
}

static void a_thousand_ranks(void) { many_ranks(1024); }
static void sixteen_thousand_ranks(void) { many_ranks(16384); }

/* Members whose rows differ in length, and which have `rows` of them each: without rows nothing is sent and nothing
 * differs, with rows it does; neither case examines each pair. */
static void unlike_members(ProgramInstrKind kind, int64_t rows, RtStatus want) {
  const uint32_t ranks = 16384;
  Make m = make_new(1);
  uint32_t axis = make_axis(&m, "a", ranks, false), columns = make_next(&m, program_coordinate(m.b, axis)),
           n = make_number(&m, rows), zero = make_number(&m, 0);
  uint32_t all = kind == PI_all_gather ? make_number(&m, rows * ranks) : n;
  uint32_t group =
      program_add_groups(m.b, &(ProgramGroup){MAKE_LIST(&m, axis), .from = PROGRAM_NONE, .to = PROGRAM_NONE});
  make_entry(&m, "main", 0, 0);
  make_begin(&m, 0);
  uint32_t x = make_tensor(&m, PC_activation, DT_f32, 1, MAKE_LIST(&m, n, columns)),
           y = make_tensor(&m, PC_activation, DT_f32, 1, MAKE_LIST(&m, all, columns));
  ProgramInstr i = make_comm(&m, kind, "it", group, MAKE_LIST(&m, x, y));
  if (kind == PI_exchange) i.exprs = MAKE_LIST(&m, zero, n, zero, n);
  make_put(&m, i);
  make_call(&m, 0, make_end(&m, "body"), 0);
  make_schedules(&m);
  Opened o = open_made(&m);
  RtError error = {0};
  RtStatus status = traffic_check(&o.p, 0, NULL, &error);
  CHECKF(status == want && (!want || strstr(error.text, "differ in bytes")), "%s of %d rows: %s",
         program_instr_name(kind), (int)rows, error.text);
  close_opened(&o);
}

static void unlike_members_of_many(void) {
  static const ProgramInstrKind kinds[] = {PI_all_gather, PI_exchange};
  for (int k = 0; k < 2; k++) {
    unlike_members(kinds[k], 0, RT_OK);
    unlike_members(kinds[k], 2, RT_INTERNAL);
  }
}

/* An image for more ranks than any machine has is refused before anything is allocated for each. */
static void too_many_ranks(void) {
  Make m = one_collective(PI_all_gather, PROGRAM_MAX_RANKS + 1, 1);
  void *image;
  size_t bytes;
  RtError error = {0};
  ProgramFacts facts = {"m", "t", "t", 1, 0, NULL, NULL, 0, NULL};
  CHECK(program_builder_finish(m.b, &facts, &image, &bytes, &error) == RT_INTERNAL); /* it opens its own result */
  CHECKF(strstr(error.text, "the size of axes[0]"), "%s", error.text);
  program_builder_free(m.b);
}

/* A program for more ranks than one machine starts is refused when it is opened, before each rank is examined. */
static void too_many_to_start(void) {
  Make make = one_collective(PI_all_gather, SESSION_MAX_RANKS + 1, 1);
  const char *path = make_artifact(&make, "many");
  ApcModel *m;
  CHECK(apc_load(path, NULL, &m) == APC_UNSUPPORTED);
  CHECKF(strstr(apc_error(m), "the program is for 65 ranks; it starts at most 64 by itself"), "%s", apc_error(m));
  apc_close(m);
}

int main(void) {
  RUN(every_kind);
  RUN(a_thousand_ranks);
  RUN(sixteen_thousand_ranks);
  RUN(unlike_members_of_many);
  RUN(too_many_ranks);
  RUN(too_many_to_start);
  RUN(sizes_are_checked);
  return test_summary();
}
