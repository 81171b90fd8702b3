/* tests/unit/program_phases.c - a training step by hand: two stages, bodies of all phases, transfers as separate
 * bodies, 1F1B rows, slots, sums over micro-batches.  It runs on CPU ranks with right numbers, and the same bits under
 * other schedules; one of the checkers refuses every planted slip.
 *
 * The model: h = x a in stage 0, y = h b in stage 1, loss = sum of y^2 / 2.  Gradients: of h y b, of b the sum of h y,
 * of a the sum of x times the gradient of h.  Weights are states; a step subtracts the rate times the gradient. */
#include "program/flow.h"
#include "program/memory.h"
#include "program/order.h"
#include "tests/programs.h"

static const char kernel_text[] =
    "#include <stdint.h>\n"
    "void times(void *const *t, const int64_t *x) {\n"
    "  const float *v = t[0], *w = t[1];\n  float *y = t[2];\n"
    "  for (int64_t i = 0; i < x[0]; i++) y[i] = v[i] * w[0];\n}\n"
    "void update(void *const *t, const int64_t *x) {\n"
    "  const float *g = t[0], *rate = t[1];\n  float *w = t[2];\n  w[0] -= rate[0] * g[0];\n}\n";

enum { MB = 5, MOST_ROWS = 64 };

typedef struct Row {
  const char *body; /* "fwd.main" */
  uint32_t mb;
} Row;

/* The planted slip. */
typedef enum Slip {
  NO_SLIP,
  SLOT_OF_X,
  SLOT_OF_H,
  SLOT_OF_RECEIVED,
  SLOT_OF_Y,
  SLOT_OF_GRADIENT,
  ROW_TWICE,
  ROW_MISSING,
  BODY_MISSING,
  TABLES_PER_MICRO_BATCH,
  STEP_PER_MICRO_BATCH,
  BACKWARD_FIRST,
  SEND_FIRST,
  FORWARD_TOO_EARLY,
  FORWARD_DESCENDS,
  RECEIVE_TOO_EARLY,
  RECEIVE_TOO_LATE,
  STEP_TOO_EARLY,
  TABLES_TOO_LATE,
  SUM_OF_NOTHING,
  SUM_BEGINS_AGAIN,
  SUM_ASKED_LATE,
  LIFETIME_TOO_SHORT,
  WAIT_TOO_LATE,
  SEND_OVERWRITTEN,
  TRANSFERS_WAIT,
  WEIGHTS_ONCE,
  STEP_IN_SLOTS,
  OUT_OF_PLACE,
  NOT_WRITTEN,
  SLIPS
} Slip;

/* The check that finds a slip: opening the image, order_check, flow_check, memory_check's own walk. */
typedef struct Planted {
  Slip slip;
  const char *name, *found;
} Planted;

static const Planted planted[] = {
    {SLOT_OF_X, "one slot fewer for the inputs of the gradient of a", "it should hold another value"},
    {SLOT_OF_H, "one slot fewer for a value that is sent", "while the communication of 'h' does"},
    {SLOT_OF_RECEIVED, "one slot fewer for a value received early", "it should hold another value"},
    {SLOT_OF_Y, "one slot fewer for y when two are under way", "it should hold another value"},
    {SLOT_OF_GRADIENT, "one slot fewer for a gradient that is sent", "while the communication of 'g' does"},
    {ROW_TWICE, "a row twice", "the micro-batch of calls["},
    {ROW_MISSING, "a row that is missing", "the number of calls of bodies["},
    {BODY_MISSING, "a body that is never called", "the number of calls of bodies["},
    {TABLES_PER_MICRO_BATCH, "`pre` in every micro-batch", "the micro-batch of calls["},
    {STEP_PER_MICRO_BATCH, "`step` in every micro-batch", "the micro-batch of calls["},
    {BACKWARD_FIRST, "backward before forward", "it should hold another value"},
    {SEND_FIRST, "a send before its value", "which holds nothing"},
    {FORWARD_TOO_EARLY, "a forward before the last read of its slot", "it should hold another value"},
    {FORWARD_DESCENDS, "micro-batches that do not ascend", "the micro-batch of calls["},
    {RECEIVE_TOO_EARLY, "a receive into a slot that is still read", "it should hold another value"},
    {RECEIVE_TOO_LATE, "a receive after its use", "it waits for ever"},
    {STEP_TOO_EARLY, "a step before the last gradient", "it should hold another value"},
    {TABLES_TOO_LATE, "a table that is read before it is computed", "which holds nothing"},
    {SUM_OF_NOTHING, "a sum that begins with old contents", "no body or instruction before it wrote there"},
    {SUM_BEGINS_AGAIN, "a sum that is continued in some micro-batches", "in some later micro-batches only"},
    {SUM_ASKED_LATE, "a sum that is read when more has been added", "it should hold another value"},
    {LIFETIME_TOO_SHORT, "a lifetime that ends too early", "outside its lifetime"},
    {WAIT_TOO_LATE, "a wait after the use", "while the communication of 'h' does"},
    {SEND_OVERWRITTEN, "a wait for too old a send", "while the communication of 'h' does"},
    {TRANSFERS_WAIT, "transfers that wait for each other", "it waits for ever"},
    {WEIGHTS_ONCE, "gradients of weights once", "the use of the micro-batch of instrs["},
    {STEP_IN_SLOTS, "a step that reads a slot", "the use of the micro-batch of instrs["},
    {OUT_OF_PLACE, "bodies that are not in the order of phases", "the place of bodies["},
    {NOT_WRITTEN, "a kernel that does not name its results", "no body or instruction before it wrote there"},
};

/* ---- the bodies */

typedef struct Step {
  Make m;
  Slip slip;
  uint32_t mb, lo, n, one, zero; /* expressions: the micro-batch's part of the rows */
  uint32_t down, up;             /* groups */
  uint32_t bodies[2][8], n_bodies[2];
  const char *names[2][8];
} Step;

enum { EVENT_H, EVENT_G, EVENT_H_IN, EVENT_G_IN, EVENTS };

static uint32_t slots(const Step *s, Slip fewer, uint32_t n) { return s->slip == fewer ? n - 1 : n; }

/* Of an entry, also with one slot. */
static uint32_t across(Step *s, ProgramClass class_, const char *name, uint32_t n_slots, uint32_t extent) {
  Make *m = &s->m;
  uint32_t t = make_tensor(m, class_, DT_f32, n_slots, MAKE_LIST(m, extent));
  ProgramBuffer *b = program_at_buffers(m->b, make_buffer_of(m, t));
  b->body = PROGRAM_NONE;
  b->name = program_string(m->b, name);
  return t;
}

static uint32_t add_state(Step *s, const char *name, double value) {
  Make *m = &s->m;
  uint32_t t = make_tensor(m, PC_state, DT_f32, 1, MAKE_LIST(m, s->one));
  program_add_states(m->b, &(ProgramState){.name = program_string(m->b, name),
                                           .dtype = DT_f32,
                                           .stage = m->stage,
                                           .buffer = make_buffer_of(m, t),
                                           .dims = MAKE_LIST(m, s->one),
                                           .interval = MAKE_LIST(m, s->zero, s->one),
                                           .value = value});
  return t;
}

static void begin(Step *s, uint32_t stage, ProgramPhase phase) {
  s->m.phase = phase;
  make_begin(&s->m, stage);
}

static void end(Step *s, const char *name) {
  Make *m = &s->m;
  uint32_t at = s->n_bodies[m->stage]++;
  s->names[m->stage][at] = name;
  s->bodies[m->stage][at] = make_end(m, strchr(name, '.') + 1);
}

static void launch(Step *s, const char *kernel, ProgramList tensors, ProgramList scalars, uint32_t writes) {
  make_launch(&s->m, kernel, tensors, scalars);
  program_at_instrs(s->m.b, program_count_instrs(s->m.b) - 1)->dim = writes;
}

/* sum (+)= over the rows of x y */
static void add_product(Step *s, const char *where, uint32_t x, uint32_t y, uint32_t sum) {
  Make *m = &s->m;
  uint32_t one = s->one, continues = program_expr(m->b, PX_min, s->mb, one);
  if (s->slip == SUM_OF_NOTHING) continues = one;
  if (s->slip == SUM_BEGINS_AGAIN) /* in micro-batches 1, 2 and 4 */
    continues = program_expr(
        m->b, PX_min, continues,
        program_expr(m->b, PX_max, make_sub(m, make_number(m, 3), s->mb), make_sub(m, s->mb, make_number(m, 3))));
  ProgramInstr g = make_instr(m, PI_gemm, where, MAKE_LIST(m, x, y, sum));
  g.dim2 = DT_f32;
  g.exprs = MAKE_LIST(m, one, one, s->n, s->n, one, one, one, one, one, continues, make_number(m, 0));
  make_put(m, g);
}

static void put_wait(Step *s, uint32_t event, uint32_t lag) {
  if (s->slip == TRANSFERS_WAIT) return;
  ProgramInstr x = make_instr(&s->m, PI_wait, "wait", (ProgramList){0, 0});
  x.event = event, x.lag = lag;
  make_put(&s->m, x);
}

/* A body of one transfer. */
static void put_transfer(Step *s, ProgramInstrKind kind, const char *where, uint32_t group, uint32_t tensor,
                         uint32_t event, uint32_t key) {
  ProgramInstr x = make_comm(&s->m, kind, where, group, MAKE_LIST(&s->m, tensor));
  x.event = s->slip == TRANSFERS_WAIT ? PROGRAM_NONE : event;
  x.key = key;
  make_put(&s->m, x);
}

/* The end of a step: the weight is updated, and its new value is an output. */
static void put_update(Step *s, uint32_t gradient, uint32_t rate, uint32_t weight, uint32_t output) {
  Make *m = &s->m;
  launch(s, "update", MAKE_LIST(m, gradient, rate, weight), MAKE_LIST(m, s->zero), 1);
  make_io(m, PI_fetch, output, weight, 0, MAKE_LIST(m, s->zero));
}

static void first_stage(Step *s) {
  Make *m = &s->m;
  begin(s, 0, PHASE_pre);
  uint32_t a = add_state(s, "a", 2), rate = across(s, PC_activation, "rate", 1, s->one);
  uint32_t x = across(s, PC_input, "x", slots(s, SLOT_OF_X, 2), s->n);
  uint32_t h = across(s, PC_communication, "h", slots(s, SLOT_OF_H, 2), s->n);
  uint32_t g = across(s, PC_communication, "g", 1, s->n);
  uint32_t ga = across(s, PC_activation, "ga", 1, s->one);
  ProgramInstr fill = make_instr(m, PI_fill, "rate", MAKE_LIST(m, rate));
  fill.value = 0.125;
  make_put(m, fill);
  end(s, "pre.tables");
  begin(s, 0, PHASE_fwd);
  put_wait(s, EVENT_H, s->slip == SEND_OVERWRITTEN ? 3 : 2);
  make_io(m, PI_feed, 0, x, 0, MAKE_LIST(m, s->lo));
  launch(s, "times", MAKE_LIST(m, x, a, h), MAKE_LIST(m, s->n), s->slip != NOT_WRITTEN);
  end(s, "fwd.main");
  begin(s, 0, PHASE_fwd);
  put_transfer(s, PI_send, "h", s->down, h, EVENT_H, 0);
  end(s, "fwd.send");
  begin(s, 0, PHASE_bwd);
  put_transfer(s, PI_recv, "g", s->up, g, EVENT_G_IN, 1);
  end(s, "bwd.recv");
  begin(s, 0, s->slip == WEIGHTS_ONCE ? PHASE_step : PHASE_wgt);
  put_wait(s, EVENT_G_IN, 0);
  add_product(s, "ga", x, g, ga);
  end(s, "wgt.main");
  begin(s, 0, PHASE_step);
  put_update(s, s->slip == STEP_IN_SLOTS ? x : ga, rate, a, 0);
  end(s, "step.main");
}

static void second_stage(Step *s) {
  Make *m = &s->m;
  begin(s, 1, PHASE_pre);
  uint32_t b = add_state(s, "b", 3), rate = across(s, PC_activation, "rate", 1, s->one);
  uint32_t h = across(s, PC_communication, "h", slots(s, SLOT_OF_RECEIVED, 2), s->n);
  uint32_t y = across(s, PC_activation, "y", slots(s, SLOT_OF_Y, 2), s->n);
  uint32_t g = across(s, PC_communication, "g", slots(s, SLOT_OF_GRADIENT, 2), s->n);
  uint32_t gb = across(s, PC_activation, "gb", 1, s->one), sums = across(s, PC_activation, "sums", 1, s->one);
  ProgramInstr fill = make_instr(m, PI_fill, "rate", MAKE_LIST(m, rate));
  fill.value = 0.125;
  make_put(m, fill);
  end(s, "pre.tables");
  begin(s, 1, PHASE_fwd);
  put_transfer(s, PI_recv, "h", s->down, h, EVENT_H_IN, 0);
  end(s, "fwd.recv");
  begin(s, 1, s->slip == OUT_OF_PLACE ? PHASE_wgt : PHASE_fwd);
  if (s->slip != WAIT_TOO_LATE) put_wait(s, EVENT_H_IN, 0);
  launch(s, "times", MAKE_LIST(m, h, b, y), MAKE_LIST(m, s->n), 1);
  if (s->slip == WAIT_TOO_LATE) put_wait(s, EVENT_H_IN, 0);
  end(s, "fwd.main");
  begin(s, 1, PHASE_bwd);
  put_wait(s, EVENT_G, 2);
  launch(s, "times", MAKE_LIST(m, y, b, g), MAKE_LIST(m, s->n), 1);
  end(s, "bwd.main");
  begin(s, 1, PHASE_bwd);
  put_transfer(s, PI_send, "g", s->up, g, EVENT_G, 1);
  end(s, "bwd.send");
  begin(s, 1, PHASE_wgt);
  add_product(s, "gb", h, y, gb);
  /* The sum so far. */
  if (s->slip == SUM_ASKED_LATE) end(s, "wgt.main"), begin(s, 1, PHASE_wgt);
  launch(s, "times", MAKE_LIST(m, gb, b, sums), MAKE_LIST(m, s->one), 1);
  end(s, s->slip == SUM_ASKED_LATE ? "wgt.sums" : "wgt.main");
  begin(s, 1, PHASE_step);
  put_update(s, gb, rate, b, 1);
  end(s, "step.main");
}

/* ---- the rows */

typedef struct Rows {
  Row items[MOST_ROWS];
  uint32_t n;
} Rows;

static void add(Rows *r, const char *body, uint32_t mb) { r->items[r->n++] = (Row){body, mb}; }

static uint32_t find(const Rows *r, const char *body, uint32_t mb) {
  for (uint32_t i = 0; i < r->n; i++)
    if (strcmp(r->items[i].body, body) == 0 && r->items[i].mb == mb) return i;
  CHECKF(false, "no row %s(%u)", body, mb);
  return 0;
}

static void take(Rows *r, uint32_t at) { memmove(&r->items[at], &r->items[at + 1], (--r->n - at) * sizeof *r->items); }

/* Puts a row directly before another one. */
static void move(Rows *r, const char *body, uint32_t mb, const char *before, uint32_t of) {
  take(r, find(r, body, mb));
  uint32_t at = find(r, before, of);
  memmove(&r->items[at + 1], &r->items[at], (r->n++ - at) * sizeof *r->items);
  r->items[at] = (Row){body, mb};
}

/* One forward, one backward: stage 0 is `ahead` forwards before its backwards; stage 1 receives one micro-batch
 * ahead. */
static void rows_1f1b(Rows rows[2], uint32_t ahead, bool sums) {
  rows[0] = rows[1] = (Rows){.n = 0};
  add(&rows[0], "pre.tables", 0), add(&rows[1], "pre.tables", 0);
  for (uint32_t i = 0; i < MB + ahead; i++) {
    if (i >= ahead) add(&rows[0], "bwd.recv", i - ahead), add(&rows[0], "wgt.main", i - ahead);
    if (i < MB) add(&rows[0], "fwd.main", i), add(&rows[0], "fwd.send", i);
  }
  add(&rows[1], "fwd.recv", 0);
  for (uint32_t i = 0; i < MB; i++) {
    if (i + 1 < MB) add(&rows[1], "fwd.recv", i + 1);
    add(&rows[1], "fwd.main", i), add(&rows[1], "bwd.main", i), add(&rows[1], "bwd.send", i);
    add(&rows[1], "wgt.main", i);
    if (sums) add(&rows[1], "wgt.sums", i);
  }
  add(&rows[0], "step.main", 0), add(&rows[1], "step.main", 0);
}

static void spoil_rows(Rows rows[2], Slip slip) {
  switch (slip) {
    case SLOT_OF_Y: move(&rows[1], "fwd.main", 1, "bwd.main", 0); break;
    case ROW_TWICE: add(&rows[1], "fwd.main", MB - 1); break;
    case ROW_MISSING: take(&rows[0], find(&rows[0], "wgt.main", MB - 1)); break;
    case BODY_MISSING: take(&rows[0], find(&rows[0], "step.main", 0)); break;
    case TABLES_PER_MICRO_BATCH: add(&rows[0], "pre.tables", 1); break;
    case STEP_PER_MICRO_BATCH: add(&rows[0], "step.main", 1); break;
    case BACKWARD_FIRST: move(&rows[1], "bwd.main", 2, "fwd.main", 2); break;
    case SEND_FIRST: move(&rows[0], "fwd.send", 0, "fwd.main", 0); break;
    case FORWARD_TOO_EARLY: move(&rows[0], "fwd.main", 2, "wgt.main", 0); break;
    case FORWARD_DESCENDS: move(&rows[0], "fwd.main", 1, "fwd.main", 0); break;
    case RECEIVE_TOO_EARLY: move(&rows[1], "fwd.recv", 2, "wgt.main", 0); break;
    case RECEIVE_TOO_LATE: move(&rows[1], "fwd.recv", MB - 1, "bwd.main", MB - 1); break;
    case STEP_TOO_EARLY: move(&rows[0], "step.main", 0, "wgt.main", MB - 1); break;
    case TABLES_TOO_LATE:
      move(&rows[1], "pre.tables", 0, "step.main", 0), move(&rows[1], "step.main", 0, "pre.tables", 0);
      break;
    case TRANSFERS_WAIT:
      for (uint32_t i = 1; i < MB; i++) move(&rows[1], "fwd.recv", i, "fwd.main", i);
      break;
    case WEIGHTS_ONCE:
      for (uint32_t i = 1; i < MB; i++) take(&rows[0], find(&rows[0], "wgt.main", i));
      break;
    case SUM_ASKED_LATE: move(&rows[1], "wgt.sums", 1, "wgt.sums", 2); break;
    default: break;
  }
}

static void put_rows(Step *s, const Rows rows[2]) {
  for (uint32_t stage = 0; stage < 2; stage++)
    for (uint32_t i = 0; i < rows[stage].n; i++) {
      uint32_t at = 0;
      while (at < s->n_bodies[stage] && strcmp(s->names[stage][at], rows[stage].items[i].body) != 0) at++;
      CHECKF(at < s->n_bodies[stage], "no body %s", rows[stage].items[i].body);
      make_call(&s->m, stage, s->bodies[stage][at], rows[stage].items[i].mb);
    }
  make_schedules(&s->m);
}

static Step step_new(Slip slip) {
  Step s = {.m = make_new(2), .slip = slip};
  Make *m = &s.m;
  s.mb = program_coordinate(m->b, make_axis(m, "mb", MB, true));
  uint32_t batch = make_symbol(m, "batch", 0, 12);
  s.lo = make_cut(m, s.mb, batch, MB);
  s.n = make_sub(m, make_cut(m, make_next(m, s.mb), batch, MB), s.lo);
  s.one = make_number(m, 1), s.zero = make_number(m, 0);
  s.down = program_add_groups(m->b, &(ProgramGroup){{0, 0}, 0, 1});
  s.up = program_add_groups(m->b, &(ProgramGroup){{0, 0}, 1, 0});
  m->events = EVENTS;
  m->kernels = kernel_text;
  make_port(m, "x", DT_f32, MAKE_LIST(m, batch));
  make_port(m, "a", DT_f32, MAKE_LIST(m, s.one));
  make_port(m, "b", DT_f32, MAKE_LIST(m, s.one));
  make_entry(m, "main", 1, 2);
  return s;
}

static Step step_of(Slip slip, uint32_t ahead) {
  Step s = step_new(slip);
  Rows rows[2];
  first_stage(&s);
  second_stage(&s);
  rows_1f1b(rows, ahead, slip == SUM_ASKED_LATE);
  spoil_rows(rows, slip);
  put_rows(&s, rows);
  return s;
}

/* ---- runs */

/* Two steps, on numbers that f32 holds exactly: in eighths. */
static void want_step(const float *x, int n, float *a, float *b) {
  float ga = 0, gb = 0;
  for (int i = 0; i < n; i++) {
    float h = x[i] * *a, y = h * *b;
    gb += h * y;
    ga += x[i] * (y * *b);
  }
  *a -= 0.125f * ga;
  *b -= 0.125f * gb;
}

static void check_bytes(ApcModel *m) {
  for (int r = 0; r < 2; r++) {
    ApcReport predicted, used;
    OK(apc_predict(m, r, &predicted));
    OK(apc_report(m, r, &used));
    CHECK(predicted.param_bytes == used.param_bytes && predicted.state_bytes == used.state_bytes);
    CHECK(predicted.arena_bytes == used.arena_bytes && predicted.window_bytes == used.window_bytes);
  }
}

static void steps_are_right(void) {
  Step s = step_of(NO_SLIP, 2);
  ApcModel *m = make_load(make_artifact(&s.m, "training"));
  static const int sizes[] = {12, 5, 23, 12, 1};
  float x[23], got[2], a, b;
  for (int k = 0; k < 5; k++) {
    for (int i = 0; i < sizes[k]; i++) x[i] = (float)((i + k) % 3 - 1) / 4;
    OK(apc_reset(m));
    OK(apc_bind_input(m, "x", APC_F32, 1, (int64_t[]){sizes[k]}, x));
    a = 2, b = 3;
    for (int step = 0; step < 2; step++) {
      want_step(x, sizes[k], &a, &b);
      OK(apc_run(m, NULL));
      OK(apc_read_output(m, "a", &got[0], sizeof *got));
      OK(apc_read_output(m, "b", &got[1], sizeof *got));
      CHECKF(got[0] == a && got[1] == b, "%d rows, step %d: %.9g %.9g, want %.9g %.9g", sizes[k], step, (double)got[0],
             (double)got[1], (double)a, (double)b);
    }
    if (k == 0) check_bytes(m);
  }
  apc_close(m);
}

/* Forward ahead by one instead of two: other rows, the same bits, on numbers that are rounded. */
static void bits_do_not_depend_on_the_schedule(void) {
  float x[23], got[2][2];
  for (int i = 0; i < 23; i++) x[i] = (float)(i * 7 % 23 - 11) / 97;
  for (uint32_t ahead = 1; ahead < 3; ahead++) {
    Step s = step_of(NO_SLIP, ahead);
    ApcModel *m = make_load(make_artifact(&s.m, "training"));
    OK(apc_bind_input(m, "x", APC_F32, 1, (int64_t[]){23}, x));
    OK(apc_run(m, NULL));
    OK(apc_read_output(m, "a", &got[ahead - 1][0], sizeof **got));
    OK(apc_read_output(m, "b", &got[ahead - 1][1], sizeof **got));
    apc_close(m);
  }
  CHECK(memcmp(got[0], got[1], sizeof *got) == 0);
}

/* ---- any schedule: if the checkers accept it, it gives the right numbers */

/* The memory of a stage, and its progress; sent messages are in a list per stage, in order. */
typedef struct Machine {
  const Program *p;
  uint32_t stage, row, instr; /* of the schedule, of the body */
  float *memory;              /* [buffer][slot][ROWS_MOST] */
  uint32_t received;          /* messages taken */
  struct {
    const ProgramInstr *x;
    uint32_t mb;
  } pending[EVENTS][MB];
} Machine;

enum { ROWS_MOST = 4, MESSAGES_MOST = 2 * MB };

typedef struct Messages {
  float items[MESSAGES_MOST][ROWS_MOST];
  uint32_t n;
} Messages;

static float *place(const Machine *k, const ProgramInstr *x, uint32_t i, uint32_t mb) {
  uint32_t b = k->p->tensors[program_list(k->p, x->tensors)[i]].buffer;
  return k->memory + ((size_t)b * 2 + mb % k->p->buffers[b].slots) * ROWS_MOST;
}

/* One instruction for rows x[..n) of the micro-batch; false if it has to wait for the other stage. */
static bool run_instr(Machine *k, const ProgramInstr *x, uint32_t mb, const float *rows, uint32_t n, Messages *to,
                      const Messages *from, float *out) {
  float *t[3] = {0};
  for (uint32_t i = 0; i < x->tensors.n; i++) t[i] = place(k, x, i, mb);
  switch ((ProgramInstrKind)x->kind) {
    case PI_fill: t[0][0] = (float)x->value; return true;
    case PI_feed: memcpy(t[0], rows, n * sizeof *rows); return true;
    case PI_fetch: out[x->object] = t[0][0]; return true;
    case PI_launch:
      if (strcmp(program_text(k->p, k->p->kernels[x->object].name), "update") == 0) t[2][0] -= t[1][0] * t[0][0];
      else
        for (uint32_t i = 0; i < n; i++) t[2][i] = t[0][i] * t[1][0];
      return true;
    case PI_gemm:
      if (mb == 0) t[2][0] = 0;
      for (uint32_t i = 0; i < n; i++) t[2][0] += t[0][i] * t[1][i];
      return true;
    case PI_send: memcpy(to->items[to->n++], t[0], sizeof *to->items); return true;
    case PI_recv: k->pending[x->event][mb].x = x; return true;
    case PI_wait: /* of a recv: its message arrives here at the latest */
      if (mb < x->lag || !k->pending[x->event][mb - x->lag].x) return true;
      if (k->received == from->n) return false;
      memcpy(place(k, k->pending[x->event][mb - x->lag].x, 0, mb - x->lag), from->items[k->received++],
             sizeof *from->items);
      k->pending[x->event][mb - x->lag].x = NULL;
      return true;
    default: return false;
  }
}

/* Runs a stage as far as possible; true if it advanced. */
static bool run_stage(Machine *k, const float *x, uint32_t n, Messages *to, const Messages *from, float *out) {
  const Program *p = k->p;
  const ProgramSchedule *s = &p->schedules[k->stage];
  bool moved = false;
  while (k->row < s->n) {
    const ProgramCall *call = &p->calls[s->calls + k->row];
    const ProgramBody *b = &p->bodies[call->body];
    uint32_t mb = call->micro_batch, lo = mb * n / MB, hi = (mb + 1) * n / MB;
    if (!run_instr(k, &p->instrs[b->instrs + k->instr], mb, x + lo, hi - lo, to, from, out)) return moved;
    moved = true;
    if (++k->instr == b->n) k->instr = 0, k->row++;
  }
  return moved;
}

/* Runs both stages to their end; false if they stop before. */
static bool simulate(const Program *p, const float *x, uint32_t n, float *out) {
  Machine k[2];
  Messages sent[2] = {{.n = 0}, {.n = 0}};
  for (uint32_t s = 0; s < 2; s++) {
    k[s] = (Machine){.p = p, .stage = s, .memory = calloc((size_t)p->n_buffers * 2 * ROWS_MOST, sizeof(float))};
    for (uint32_t i = 0; i < p->n_states; i++)
      k[s].memory[(size_t)p->states[i].buffer * 2 * ROWS_MOST] = (float)p->states[i].value;
  }
  for (bool moved = true; moved;) {
    bool first = run_stage(&k[0], x, n, &sent[0], &sent[1], out);
    moved = run_stage(&k[1], x, n, &sent[1], &sent[0], out) || first;
  }
  bool ended = k[0].row == p->schedules[0].n && k[1].row == p->schedules[1].n;
  free(k[0].memory);
  free(k[1].memory);
  return ended;
}

/* ---- slips */

/* Checks an image like a loader and the compiler; `error` has the text of the first error. */
static RtStatus check_then(Step *s, void (*then)(const Program *, RtStatus), RtError *error) {
  ProgramFacts facts = {"training", "test", "test", 2, EVENTS, NULL, NULL, 0, NULL};
  void *tables = NULL;
  size_t bytes;
  Program p;
  RtStatus status = program_builder_finish(s->m.b, &facts, &tables, &bytes, error);
  program_builder_free(s->m.b);
  if (status) return status;
  CHECK(program_open(tables, bytes, &p, NULL) == RT_OK);
  status = order_check_all(&p, error);
  for (uint32_t stage = 0; stage < 2 && !status; stage++) {
    MemoryPlan plan;
    CHECK(memory_plan(&p, 0, stage, &(int64_t){12}, &plan, NULL) == RT_OK);
    status = memory_check(&p, 0, stage, &plan, error);
    memory_plan_free(&plan);
  }
  if (then) then(&p, status);
  program_close(&p);
  free(tables);
  return status;
}

static RtStatus check(Step *s, RtError *error) { return check_then(s, NULL, error); }

/* In the instructions of a stage, the buffer's lifetime ends before the call of its last use. */
static void spoil_lifetime(Step *s) {
  for (uint32_t i = 0; i < program_count_buffers(s->m.b); i++) {
    ProgramBuffer *b = program_at_buffers(s->m.b, i);
    if (b->stage == 0 && b->name == program_string(s->m.b, "x")) b->last -= 2;
  }
}

static void slips_are_found(void) {
  CHECK(sizeof planted / sizeof *planted == SLIPS - 1);
  Step right = step_of(NO_SLIP, 2);
  RtError none = {0};
  CHECKF(check(&right, &none) == RT_OK, "%s", none.text);
  Step stuck = step_of(NO_SLIP, 1); /* it receives ahead of its sends, and so does its neighbour */
  CHECKF(check(&stuck, &none) == RT_INTERNAL && strstr(none.text, "it waits for ever"), "%s", none.text);
  for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
    Step s = step_of(planted[i].slip, 2);
    RtError error = {0};
    if (planted[i].slip == LIFETIME_TOO_SHORT) spoil_lifetime(&s);
    RtStatus status = check(&s, &error);
    CHECKF(status != RT_OK, "%s: not found", planted[i].name);
    CHECKF(strstr(error.text, planted[i].found) != NULL, "%s: %s", planted[i].name, error.text);
  }
}

/* ---- schedules at random */

static long accepted, harmless, harmful;

static void compare(const Program *p, RtStatus status) {
  const float x[12] = {0.25f, -0.25f, 0, 0.25f, 0.25f, -0.25f, 0, 0, 0.25f, -0.25f, 0.25f, 0.25f};
  float a = 2, b = 3, got[2] = {0};
  want_step(x, 12, &a, &b);
  bool right = simulate(p, x, 12, got) && got[0] == a && got[1] == b;
  accepted += !status;
  harmless += status && right;
  harmful += !right;
  CHECKF(status || right, "accepted: %g %g, want %g %g", (double)got[0], (double)got[1], (double)a, (double)b);
}

static uint64_t seed;
static uint32_t below(uint32_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((seed >> 33) % n);
}

/* Moves a row a little, not past another one of its body. */
static void move_some(Rows *r) {
  uint32_t from = below(r->n), to = from, most = 1 + below(6);
  bool up = below(2);
  while (most-- && (up ? to > 0 : to + 1 < r->n) &&
         strcmp(r->items[up ? to - 1 : to + 1].body, r->items[from].body) != 0)
    to += up ? UINT32_MAX : 1;
  Row row = r->items[from];
  take(r, from);
  memmove(&r->items[to + 1], &r->items[to], (r->n++ - to) * sizeof *r->items);
  r->items[to] = row;
}

/* Also with too few slots. */
static void accepted_schedules_are_right(void) {
  static const Slip of[] = {NO_SLIP, NO_SLIP, SLOT_OF_X, SLOT_OF_RECEIVED, SLOT_OF_Y};
  for (seed = 1; accepted + harmless + harmful < (SANITIZED ? 450 : 4500);) {
    Step s = step_new(of[below(5)]);
    Rows rows[2];
    RtError error = {0};
    first_stage(&s);
    second_stage(&s);
    rows_1f1b(rows, 1 + below(2), false);
    for (uint32_t n = below(6); n > 0; n--) move_some(&rows[below(2)]);
    put_rows(&s, rows);
    check_then(&s, compare, &error);
  }
  printf("%ld schedules accepted, %ld refused that give wrong numbers or stop, %ld refused that do not\n", accepted,
         harmful, harmless);
  CHECK(accepted > 200 / (SANITIZED ? 10 : 1) && harmful > 200 / (SANITIZED ? 10 : 1));
}

int main(void) {
  setenv("APC_CHECK", "1", 1);
  RUN(slips_are_found);
  RUN(accepted_schedules_are_right);
  RUN(steps_are_right);
  RUN(bits_do_not_depend_on_the_schedule);
  return test_summary();
}
