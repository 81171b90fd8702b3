/* tests/unit/program_panels.c - a Program whose `prepare` packs a weight into panels: run through the whole runtime,
 * and refused if the panels, a product of them, or the load for the pack alone do not fit. */
#include "tests/programs.h"

enum { ROWS = 5, K = 3, N = 20, PANELS = 2 };

/* The places of the load and its pack in the Program. */
typedef enum Pair {
  APART, /* the load is not marked as for the pack alone; then any order is allowed */
  PAIR,
  PAIR_OF_TWO,
  READ_BEHIND,
  READ_BEFORE,
  PACK_FIRST,
  FILL_BEHIND,
  OTHER_TENSOR,
  GUARDED_LOAD,
  GUARDED_PACK,
  KEPT,
  PAIRS
} Pair;

/* The difference to the right Program. */
typedef struct Slip {
  const char *name, *error;
  ApcStatus status;
  int64_t b_k, b_panel, columns, column_step, panels;
  bool late; /* packed by the requested entry */
  Pair pair;
} Slip;

static uint32_t make_weight(Make *m, ProgramInit init, uint32_t buffer, ProgramList dims, ProgramList interval) {
  return program_add_params(m->b, &(ProgramParam){.name = program_string(m->b, buffer == PROGRAM_NONE ? "w" : "panels"),
                                                  .dtype = DT_f32,
                                                  .buffer = buffer,
                                                  .dims = dims,
                                                  .interval = interval,
                                                  .init = init,
                                                  .blob = PROGRAM_NONE,
                                                  .source_dtype = DT_f32,
                                                  .value = 0.5});
}

static void make_packing(Make *m, const Slip *s, uint32_t panels) {
  uint32_t k = make_number(m, K), n = make_number(m, N), zero = make_number(m, 0);
  ProgramClass class_ = s->pair == KEPT ? PC_param : PC_workspace;
  uint32_t whole = make_tensor(m, class_, DT_f32, 1, MAKE_LIST(m, k, n)),
           other = make_tensor(m, PC_workspace, DT_f32, 1, MAKE_LIST(m, k, n)),
           from = s->pair == OTHER_TENSOR || s->pair == FILL_BEHIND ? other : whole;
  ProgramInstr load = make_instr(m, PI_load, "w", MAKE_LIST(m, whole)),
               pack = make_instr(m, PI_pack, "w", MAKE_LIST(m, from, panels)),
               fill = make_instr(m, PI_fill, "w", MAKE_LIST(m, whole));
  load.object = make_weight(m, PINIT_constant, PROGRAM_NONE, MAKE_LIST(m, k, n), MAKE_LIST(m, zero, k, zero, n));
  load.dim = s->pair == PAIR_OF_TWO ? 2 : s->pair != APART;
  if (s->pair == GUARDED_LOAD) load.guard = k;
  if (s->pair == GUARDED_PACK) pack.guard = k;
  pack.exprs = MAKE_LIST(m, k, make_number(m, s->columns), n, make_number(m, s->column_step));
  if (s->late || s->pair == READ_BEFORE || s->pair == OTHER_TENSOR) make_put(m, fill);
  if (s->pair == PACK_FIRST) make_put(m, pack);
  if (!s->late) make_put(m, load);
  if (s->pair == FILL_BEHIND) make_put(m, fill);
  if (s->pair != PACK_FIRST) make_put(m, pack);
  if (s->pair == READ_BEHIND) make_put(m, fill);
}

static Make make_program(const Slip *s) {
  Make m = make_new(1);
  uint32_t rows = make_number(&m, ROWS), k = make_number(&m, K), n = make_number(&m, N), zero = make_number(&m, 0),
           one = make_number(&m, 1), count = make_number(&m, s->panels), width = make_number(&m, PROGRAM_PANEL);
  make_port(&m, "x", DT_f32, MAKE_LIST(&m, rows, k));
  make_port(&m, "y", DT_f32, MAKE_LIST(&m, rows, n));
  make_entry(&m, "main", 1, 1);
  make_begin(&m, 0);
  uint32_t panels = make_tensor(&m, PC_param, DT_f32, 1, MAKE_LIST(&m, count, k, width));
  make_weight(&m, PINIT_prepared, make_buffer_of(&m, panels), MAKE_LIST(&m, count, k, width),
              MAKE_LIST(&m, zero, count, zero, k, zero, width));
  uint32_t x = make_tensor(&m, PC_input, DT_f32, 1, MAKE_LIST(&m, rows, k)),
           y = make_tensor(&m, PC_output, DT_f32, 1, MAKE_LIST(&m, rows, n));
  if (s->late) make_packing(&m, s, panels);
  make_io(&m, PI_feed, 0, x, 0, MAKE_LIST(&m, zero, zero));
  ProgramInstr g = make_instr(&m, PI_gemm, "product", MAKE_LIST(&m, x, panels, y));
  g.dim2 = DT_f32;
  g.exprs = MAKE_LIST(&m, rows, n, k, k, one, make_number(&m, s->b_k), one, n, one, zero, make_number(&m, s->b_panel));
  make_put(&m, g);
  make_io(&m, PI_fetch, 0, y, 0, MAKE_LIST(&m, zero, zero));
  make_call(&m, 0, make_end(&m, "body"), 0);
  make_schedules(&m);
  if (s->late) return m;
  make_entry(&m, "prepare", 0, 0);
  program_at_entries(m.b, m.entry)->prepare = 1;
  m.phase = PHASE_pre;
  make_begin(&m, 0);
  make_packing(&m, s, panels);
  make_call(&m, 0, make_end(&m, "packing"), 0);
  make_schedules(&m);
  return m;
}

static const Slip right = {"right", NULL, APC_OK, PROGRAM_PANEL, K *PROGRAM_PANEL, N, 1, PANELS, false, PAIR};

/* The last panel is incomplete. */
static void runs(void) {
  Make make = make_program(&right);
  float x[ROWS][K], y[ROWS][N];
  for (int i = 0; i < ROWS; i++)
    for (int k = 0; k < K; k++) x[i][k] = (float)(i + k);
  ApcModel *m;
  bool ok = apc_load(make_artifact(&make, "panels"), NULL, &m) == APC_OK &&
            apc_bind_input(m, "x", APC_F32, 2, (int64_t[]){ROWS, K}, x) == APC_OK && apc_run(m, NULL) == APC_OK &&
            apc_read_output(m, "y", y, sizeof y) == APC_OK;
  CHECKF(ok, "%s", apc_error(m));
  for (int i = 0; ok && i < ROWS; i++)
    for (int j = 0; j < N; j++) CHECK(y[i][j] == (x[i][0] + x[i][1] + x[i][2]) / 2);
  CHECK(apc_entries(m) == 1 && strcmp(apc_entry_name(m, 0), "main") == 0 && !apc_entry_name(m, 1));
  apc_close(m);
}

/* The first fault of a Program that cannot be written. */
static const char *fault_of(const Slip *s) {
  static RtError error;
  Make m = make_program(s);
  ProgramFacts facts = {"panels", "test", "test", 1, 0, NULL, NULL, 0, NULL};
  void *tables = NULL;
  size_t bytes = 0;
  error = (RtError){0};
  RtStatus status = program_builder_finish(m.b, &facts, &tables, &bytes, &error);
  free(tables);
  program_builder_free(m.b);
  return status ? error.text : NULL;
}

/* Faults that do not depend on sizes are refused when the Program is opened, others when it runs. */
static void slips(void) {
  const Slip list[] = {
      {"rows of panels", "an operand", APC_OK, PROGRAM_PANEL - 1, K * PROGRAM_PANEL, N, 1, PANELS, false, APART},
      {"packed late", "an operand", APC_OK, PROGRAM_PANEL, K * PROGRAM_PANEL, N, 1, PANELS, true, APART},
      {"panels overlap", "the panels have fewer than k rows", APC_INTERNAL, PROGRAM_PANEL, PROGRAM_PANEL, N, 1, PANELS,
       false, APART},
      {"too few panels", "the matrix reaches outside", APC_INTERNAL, PROGRAM_PANEL, K * PROGRAM_PANEL, N, 1, 1, false,
       APART},
      {"too many columns", "the matrix reaches outside", APC_INTERNAL, PROGRAM_PANEL, K * PROGRAM_PANEL, N + 8, 1,
       PANELS, false, APART},
      {"a step too far", "the matrix reaches outside", APC_INTERNAL, PROGRAM_PANEL, K * PROGRAM_PANEL, N, 2, PANELS,
       false, APART},
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    const Slip *s = &list[i];
    const char *fault = fault_of(s);
    CHECKF(s->status ? !fault : fault && strstr(fault, s->error), "%s: %s", s->name, fault ? fault : "opens");
    if (fault) continue;
    Make make = make_program(s);
    ApcModel *m;
    ApcStatus status = apc_load(make_artifact(&make, "slip"), NULL, &m);
    if (!status) status = apc_bind_input_text(m, "x", "zeros");
    if (!status) status = apc_run(m, NULL);
    CHECKF(status == s->status && strstr(apc_error(m), s->error), "%s: %d, %s", s->name, status, apc_error(m));
    apc_close(m);
  }
}

/* A load marked for the pack alone must be so, or the Program is refused; unmarked ones all run. */
static void pairs(void) {
  for (int i = PAIR_OF_TWO; i < PAIRS; i++) {
    Slip s = right;
    s.pair = (Pair)i;
    const char *fault = fault_of(&s);
    CHECKF(fault && strstr(fault, "the pack after the load"), "%d: %s", i, fault ? fault : "opens");
  }
  Slip apart = right;
  apart.pair = APART;
  CHECKF(!fault_of(&apart), "%s", fault_of(&apart));
}

int main(void) {
  RUN(runs);
  RUN(pairs);
  RUN(slips);
  return test_summary();
}
