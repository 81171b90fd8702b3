/* Seeded faults in compiled Programs of pipelines that train: each is refused without a run, by the checker and in the
 * words that the list `faults` names, at every place where it can be planted.
 *
 * In: a perceptron on 2 and 4 ranks, planned for 2 and 4 stages in 4 micro-batches, under 1f1b, zbh1 and zbv, for
 * devices whose ranks wait for their sends, for CPU ranks and for devices with a queue.  A fault is planted in a copy,
 * whose lifetimes follow the moved calls, so that the fault is the only error. */
#include <stdlib.h>

#include "driver/driver.h"
#include "frontend/topo/target.h"
#include "ir/schedule.h"
#include "passes/train/train.h"
#include "program/flow.h"
#include "program/memory.h"
#include "program/order.h"
#include "tests/test.h"

enum { MICRO_BATCHES = 4, MOST_STAGES = 4, MOST_ROWS = 1024 };

/* A call of the step's schedule; `was`: its place before. */
typedef struct Row {
  uint32_t body, micro_batch, was;
} Row;

typedef struct Rows {
  Row items[MOST_ROWS];
  uint32_t n;
} Rows;

/* A modifiable copy of a Program. */
typedef struct Edit {
  Program p; /* of `tables`, which may be written to */
  void *tables;
  Rows rows[MOST_STAGES]; /* of entry 0, the step */
  uint32_t dropped;       /* a body that has become part of its neighbour; PROGRAM_NONE if none */
} Edit;

/* ---- places */

static bool is_transfer(const Program *p, const ProgramBody *b) {
  for (uint32_t i = b->instrs; i < b->instrs + b->n; i++)
    if (p->instrs[i].kind == PI_send || p->instrs[i].kind == PI_recv) return program_phase_each(b->phase);
  return false;
}

/* Waits may precede it. */
static uint32_t find_transfer(const Edit *e, uint32_t body) {
  uint32_t i = e->p.bodies[body].instrs;
  while (e->p.instrs[i].kind != PI_send && e->p.instrs[i].kind != PI_recv) i++;
  return i;
}

static const ProgramInstr *transfer_of(const Edit *e, uint32_t body) { return &e->p.instrs[find_transfer(e, body)]; }

static bool row_transfers(const Edit *e, const Row *r) { return is_transfer(&e->p, &e->p.bodies[r->body]); }

static ProgramPhase row_phase(const Edit *e, const Row *r) { return (ProgramPhase)e->p.bodies[r->body].phase; }

static ProgramBody *edit_bodies(Edit *e) { return (ProgramBody *)(uintptr_t)e->p.bodies; }
static ProgramBuffer *edit_buffers(Edit *e) { return (ProgramBuffer *)(uintptr_t)e->p.buffers; }
static ProgramInstr *edit_instrs(Edit *e) { return (ProgramInstr *)(uintptr_t)e->p.instrs; }

/* ---- copies */

static Edit edit_new(const void *tables, size_t bytes) {
  Edit e = {.tables = malloc(bytes), .dropped = PROGRAM_NONE};
  if (!e.tables) exit(1);
  memcpy(e.tables, tables, bytes);
  if (program_open(e.tables, bytes, &e.p, NULL) || e.p.stages > MOST_STAGES) exit(1);
  for (uint32_t s = 0; s < e.p.stages; s++) {
    const ProgramSchedule *t = &e.p.schedules[s];
    if (t->n >= MOST_ROWS) exit(1);
    for (uint32_t k = 0; k < t->n; k++) {
      const ProgramCall *c = &e.p.calls[t->calls + k];
      e.rows[s].items[e.rows[s].n++] = (Row){c->body, c->micro_batch, k};
    }
  }
  return e;
}

static void edit_free(Edit *e) {
  program_close(&e->p);
  free(e->tables);
}

static void row_insert(Rows *r, uint32_t at, Row row) {
  memmove(&r->items[at + 1], &r->items[at], (r->n++ - at) * sizeof row);
  r->items[at] = row;
}

static void row_remove(Rows *r, uint32_t at) {
  memmove(&r->items[at], &r->items[at + 1], (--r->n - at) * sizeof *r->items);
}

static void row_move(Rows *r, uint32_t from, uint32_t to) {
  Row row = r->items[from];
  row_remove(r, from);
  row_insert(r, to, row);
}

/* A buffer keeps its lifetime in calls. */
static void follow(const Rows *r, ProgramBuffer *b) {
  uint32_t first = PROGRAM_NONE, last = 0;
  for (uint32_t k = 0; k < r->n; k++)
    if (r->items[k].was >= b->first && r->items[k].was <= b->last) {
      if (first == PROGRAM_NONE) first = k;
      last = k;
    }
  b->first = first == PROGRAM_NONE ? 0 : first, b->last = last;
}

static void put_schedules(const Edit *e, ProgramBuilder *b) {
  const Program *p = &e->p;
  for (uint32_t i = 0; i < p->n_schedules; i++) {
    const ProgramSchedule *t = &p->schedules[i];
    const Rows *r = i < p->stages ? &e->rows[i] : NULL;
    uint32_t n = r ? r->n : t->n;
    program_add_schedules(b, &(ProgramSchedule){program_count_calls(b), n});
    for (uint32_t k = 0; k < n; k++) {
      ProgramCall c = r ? (ProgramCall){r->items[k].body, r->items[k].micro_batch} : p->calls[t->calls + k];
      if (c.body > e->dropped) c.body--;
      program_add_calls(b, &c);
    }
  }
}

/* Copies everything else unchanged. */
static ProgramBuilder *put_all(Edit *e) {
  const Program *p = &e->p;
  ProgramBuilder *b = program_builder_new();
  for (uint32_t i = 0; i < p->n_buffers; i++) {
    ProgramBuffer *x = &edit_buffers(e)[i];
    if (x->entry == 0 && x->body == PROGRAM_NONE) follow(&e->rows[x->stage], x);
    if (x->body != PROGRAM_NONE && x->body > e->dropped) x->body--;
  }
#define SECTION(name, record, doc) \
  for (uint32_t i = 0; i < p->n_##name; i++) \
    if (PS_##name != PS_calls && PS_##name != PS_schedules && (PS_##name != PS_bodies || i != e->dropped) && \
        (PS_##name != PS_strings || i > 0)) \
      program_add_##name(b, &p->name[i]);
#include "program/program.def"
#undef SECTION
  put_schedules(e, b);
  return b;
}

/* ---- faults: planted at place number n of stage s; false if there are no more */

/* One end of a transfer becomes part of the neighbouring body: that of the producer, or of the reader. */
static bool transfer_inside(Edit *e, uint32_t s, uint32_t n) {
  ProgramBody *bodies = edit_bodies(e);
  for (uint32_t i = 0; i < e->p.n_bodies; i++) {
    ProgramBody *b = &bodies[i];
    if (b->entry != 0 || b->stage != s || !is_transfer(&e->p, b)) continue;
    uint32_t into = transfer_of(e, i)->kind == PI_send ? i - 1 : i + 1;
    if (is_transfer(&e->p, &bodies[into]) || bodies[into].phase != b->phase || n--) continue;
    if (into > i) {
      bodies[into].instrs = b->instrs;
      for (uint32_t k = 0; k < e->p.n_buffers; k++) {
        ProgramBuffer *x = &edit_buffers(e)[k];
        if (x->body == into) x->first += b->n, x->last += b->n;
      }
    }
    bodies[into].n += b->n;
    e->dropped = i;
    for (uint32_t k = e->rows[s].n; k-- > 0;)
      if (e->rows[s].items[k].body == i) row_remove(&e->rows[s], k);
    return true;
  }
  return false;
}

/* Two adjacent transfers of a rank are swapped. */
static bool transfers_swapped(Edit *e, uint32_t s, uint32_t n) {
  Rows *r = &e->rows[s];
  for (uint32_t k = 1; k < r->n; k++)
    if (row_transfers(e, &r->items[k - 1]) && row_transfers(e, &r->items[k]) &&
        r->items[k - 1].body != r->items[k].body && n-- == 0) {
      row_move(r, k, k - 1);
      return true;
    }
  return false;
}

static bool touches(const Edit *e, uint32_t body, uint32_t buffer, bool writes) {
  const ProgramBody *b = &e->p.bodies[body];
  for (uint32_t i = b->instrs; i < b->instrs + b->n; i++)
    for (uint32_t t = 0; t < e->p.instrs[i].tensors.n; t++)
      if (e->p.tensors[program_list(&e->p, e->p.instrs[i].tensors)[t]].buffer == buffer &&
          (!writes || program_instr_writes(&e->p.instrs[i], t)))
        return true;
  return false;
}

/* True if another call of the same body is between. */
static bool passes_itself(const Rows *r, uint32_t k, uint32_t to) {
  for (uint32_t i = k < to ? k : to; i <= (k < to ? to : k); i++)
    if (i != k && r->items[i].body == r->items[k].body) return true;
  return false;
}

/* A send moves before the body that produces its value, a receive after the one that reads it. */
static bool transfer_too_far(Edit *e, uint32_t s, uint32_t n) {
  Rows *r = &e->rows[s];
  for (uint32_t k = 0; k < r->n; k++) {
    if (!row_transfers(e, &r->items[k])) continue;
    const ProgramInstr *x = transfer_of(e, r->items[k].body);
    uint32_t buffer = e->p.tensors[program_list(&e->p, x->tensors)[0]].buffer, to = k;
    bool sends = x->kind == PI_send;
    do to += sends ? UINT32_MAX : 1;
    while (row_transfers(e, &r->items[to]) || r->items[to].micro_batch != r->items[k].micro_batch ||
           !touches(e, r->items[to].body, buffer, sends));
    if (passes_itself(r, k, to) || n--) continue;
    row_move(r, k, to);
    return true;
  }
  return false;
}

/* The same two ends of messages to one rank, of one kind. */
static bool messages_swapped(Edit *e, uint32_t s, uint32_t n) {
  ProgramBody *bodies = edit_bodies(e);
  for (uint32_t i = 0; i < e->p.n_bodies; i++)
    for (uint32_t j = i + 1; j < e->p.n_bodies && bodies[i].entry == 0 && bodies[i].stage == s; j++) {
      if (bodies[j].entry != 0 || bodies[j].stage != s || !is_transfer(&e->p, &bodies[i])) continue;
      if (!is_transfer(&e->p, &bodies[j]) || transfer_of(e, i)->kind != transfer_of(e, j)->kind) continue;
      if (n--) continue;
      ProgramInstr *x = &edit_instrs(e)[find_transfer(e, i)], *y = &edit_instrs(e)[find_transfer(e, j)];
      uint32_t key = x->key, object = x->object;
      x->key = y->key, x->object = y->object, y->key = key, y->object = object;
      return true;
    }
  return false;
}

/* True if a send beside computation reads it. */
static bool is_sent_beside(const Edit *e, uint32_t s, uint32_t buffer) {
  for (uint32_t i = 0; i < e->p.n_bodies; i++) {
    const ProgramBody *b = &e->p.bodies[i];
    if (b->entry != 0 || b->stage != s || !is_transfer(&e->p, b)) continue;
    const ProgramInstr *x = transfer_of(e, i);
    if (x->kind == PI_send && x->event != PROGRAM_NONE && touches(e, i, buffer, false)) return true;
  }
  return false;
}

static bool fewer_slots(Edit *e, uint32_t s, uint32_t n, bool sent) {
  for (uint32_t i = 0; i < e->p.n_buffers; i++) {
    ProgramBuffer *b = &edit_buffers(e)[i];
    if (b->entry != 0 || b->stage != s || b->slots == 1 || is_sent_beside(e, s, i) != sent || n--) continue;
    b->slots--;
    return true;
  }
  return false;
}

static bool slot_fewer(Edit *e, uint32_t s, uint32_t n) { return fewer_slots(e, s, n, false); }
static bool sent_slot_fewer(Edit *e, uint32_t s, uint32_t n) { return fewer_slots(e, s, n, true); }

/* Of one body. */
static bool order_reversed(Edit *e, uint32_t s, uint32_t n) {
  for (uint32_t i = 0; i < e->p.n_bodies; i++) {
    const ProgramBody *b = &e->p.bodies[i];
    if (b->entry != 0 || b->stage != s || !program_phase_each(b->phase) || n--) continue;
    for (uint32_t k = 0; k < e->rows[s].n; k++)
      if (e->rows[s].items[k].body == i)
        e->rows[s].items[k].micro_batch = MICRO_BATCHES - 1 - e->rows[s].items[k].micro_batch;
    return true;
  }
  return false;
}

/* True if the row computes gradients of weights. */
static bool makes_gradients(const Edit *e, uint32_t s, uint32_t k) {
  const Rows *r = &e->rows[s];
  ProgramPhase phase = PHASE_bwd;
  for (uint32_t i = 0; i < r->n; i++)
    if (row_phase(e, &r->items[i]) == PHASE_wgt) phase = PHASE_wgt;
  return row_phase(e, &r->items[k]) == phase && !row_transfers(e, &r->items[k]);
}

static bool gradients_twice(Edit *e, uint32_t s, uint32_t n) {
  for (uint32_t k = 0; k < e->rows[s].n; k++)
    if (makes_gradients(e, s, k) && n-- == 0) {
      row_insert(&e->rows[s], k + 1, e->rows[s].items[k]);
      return true;
    }
  return false;
}

static bool gradients_never(Edit *e, uint32_t s, uint32_t n) {
  for (uint32_t k = 0; k < e->rows[s].n; k++)
    if (makes_gradients(e, s, k) && n-- == 0) {
      row_remove(&e->rows[s], k);
      return true;
    }
  return false;
}

/* True if a body reads a value that another one has written. */
static bool reads_of(const Edit *e, uint32_t reader, uint32_t writer) {
  for (uint32_t i = 0; i < e->p.n_buffers; i++)
    if (e->p.buffers[i].entry == 0 && touches(e, writer, i, true) && touches(e, reader, i, false)) return true;
  return false;
}

/* The calls after the last one that computes gradients of weights, up to their readers, move before it. */
static bool step_too_early(Edit *e, uint32_t s, uint32_t n) {
  Rows *r = &e->rows[s];
  for (uint32_t w = 0; w < r->n; w++) {
    if (!makes_gradients(e, s, w) || r->items[w].micro_batch != MICRO_BATCHES - 1) continue;
    for (uint32_t k = w, to = w; k < r->n; k++) {
      if (row_phase(e, &r->items[k]) != PHASE_step || !reads_of(e, r->items[k].body, r->items[w].body) || n--) continue;
      for (uint32_t i = w; i <= k; i++)
        if (row_phase(e, &r->items[i]) == PHASE_step) row_move(r, i, to++);
      return true;
    }
  }
  return false;
}

/* The transfer that a wait of the step is for; PROGRAM_NONE if it is no wait, or for something else. */
static uint32_t waited_for(const Edit *e, uint32_t s, uint32_t wait, ProgramInstrKind kind) {
  const Program *p = &e->p;
  for (uint32_t i = 0; i < p->n_bodies && p->instrs[wait].kind == PI_wait; i++) {
    const ProgramBody *b = &p->bodies[i];
    if (b->entry != 0 || b->stage != s || !is_transfer(p, b)) continue;
    const ProgramInstr *x = transfer_of(e, i);
    if (x->kind == (uint32_t)kind && x->event == p->instrs[wait].event) return find_transfer(e, i);
  }
  return PROGRAM_NONE;
}

/* In the stage: the n-th wait for a transfer of a kind that is started in another body or, for sends, in another
 * micro-batch. */
static uint32_t find_wait(const Edit *e, uint32_t s, uint32_t n, ProgramInstrKind kind, uint32_t *transfer) {
  const Program *p = &e->p;
  for (uint32_t i = 0; i < p->n_bodies; i++)
    for (uint32_t k = p->bodies[i].instrs; k < p->bodies[i].instrs + p->bodies[i].n; k++)
      if (p->bodies[i].entry == 0 && p->bodies[i].stage == s) {
        *transfer = waited_for(e, s, k, kind);
        if (*transfer != PROGRAM_NONE && n-- == 0) return k;
      }
  return PROGRAM_NONE;
}

static ProgramBuffer *moved_buffer(Edit *e, uint32_t transfer) {
  const ProgramInstr *x = &e->p.instrs[transfer];
  return &edit_buffers(e)[e->p.tensors[program_list(&e->p, x->tensors)[0]].buffer];
}

/* Moved by as many micro-batches as the sent value has slots: these are overwritten before. */
static bool wait_behind_reuse(Edit *e, uint32_t s, uint32_t n) {
  uint32_t transfer, wait = find_wait(e, s, n, PI_send, &transfer);
  if (wait != PROGRAM_NONE) edit_instrs(e)[wait].lag = moved_buffer(e, transfer)->slots;
  return wait != PROGRAM_NONE;
}

/* The lifetime of the last sent value ends with the call that sends it. */
static bool sent_ends_early(Edit *e, uint32_t s, uint32_t n) {
  uint32_t transfer, wait = find_wait(e, s, n, PI_send, &transfer), last = 0;
  if (wait == PROGRAM_NONE) return false;
  ProgramBuffer *b = moved_buffer(e, transfer);
  uint32_t buffer = (uint32_t)(b - edit_buffers(e));
  for (uint32_t k = 0; k < e->rows[s].n; k++)
    if (touches(e, e->rows[s].items[k].body, buffer, false)) last = k;
  b->last = last;
  return true;
}

static bool wait_behind_use(Edit *e, uint32_t s, uint32_t n) {
  uint32_t transfer, wait = find_wait(e, s, n, PI_recv, &transfer);
  if (wait != PROGRAM_NONE) edit_instrs(e)[wait].lag = 1;
  return wait != PROGRAM_NONE;
}

static bool wait_left_out(Edit *e, uint32_t s, uint32_t n) {
  uint32_t transfer, wait = find_wait(e, s, n, PI_recv, &transfer);
  if (wait == PROGRAM_NONE) return false;
  edit_instrs(e)[wait].event = e->p.header->n_events; /* it waits for an event that is never recorded */
  return true;
}

/* ---- the checkers */

typedef enum Checker { BY_OPEN, BY_ORDER, BY_FLOW, BY_MEMORY, CHECKERS } Checker;

static const char *const checkers[CHECKERS] = {"program_open", "order_check", "flow_check", "memory_check"};

typedef struct Fault {
  const char *name;
  bool (*plant)(Edit *e, uint32_t stage, uint32_t n);
  struct {
    Checker by;
    const char *words;
  } found[2];  /* the checker that has to refuse it, and its words; or alternatives */
  bool queue;  /* only on devices where sends are beside computation */
  bool listed; /* no fault if all ranks still follow one list of transfers */
  long planted, harmless;
} Fault;

#define OTHER_VALUE "it should hold another value"
#define NOTHING "which holds nothing"
#define FOR_EVER "it waits for ever"
#define OTHER_STAGE "the other stage"
#define UNDER_WAY "while the communication of"

#define FOUND(...) .found = {__VA_ARGS__}
static Fault faults[] = {
    {.name = "a transfer inside a body",
     .plant = transfer_inside,
     FOUND({BY_ORDER, "a transfer needs a body of its own"})},
    {.name = "two transfers swapped on a rank",
     .plant = transfers_swapped,
     FOUND({BY_ORDER, FOR_EVER}, {BY_ORDER, OTHER_STAGE}),
     .listed = true},
    {.name = "two messages swapped on a rank",
     .plant = messages_swapped,
     FOUND({BY_ORDER, FOR_EVER}, {BY_ORDER, OTHER_STAGE})},
    {.name = "a transfer on the other side of its body",
     .plant = transfer_too_far,
     FOUND({BY_FLOW, OTHER_VALUE}, {BY_FLOW, NOTHING})},
    {.name = "one slot fewer", .plant = slot_fewer, FOUND({BY_FLOW, OTHER_VALUE})},
    {.name = "one slot fewer of a sent value",
     .plant = sent_slot_fewer,
     FOUND({BY_FLOW, OTHER_VALUE}, {BY_MEMORY, UNDER_WAY}),
     .queue = true},
    {.name = "micro-batches of a body reversed",
     .plant = order_reversed,
     FOUND({BY_OPEN, "the micro-batch of calls["})},
    {.name = "gradients of weights twice", .plant = gradients_twice, FOUND({BY_OPEN, "the micro-batch of calls["})},
    {.name = "gradients of weights never",
     .plant = gradients_never,
     FOUND({BY_OPEN, "the micro-batch of calls["}, {BY_OPEN, "the number of calls of bodies["})},
    {.name = "the update before the last gradients", .plant = step_too_early, FOUND({BY_FLOW, OTHER_VALUE})},
    {.name = "a wait after the reuse of a sent value",
     .plant = wait_behind_reuse,
     FOUND({BY_MEMORY, UNDER_WAY}),
     .queue = true},
    {.name = "a wait after the use of a received value",
     .plant = wait_behind_use,
     FOUND({BY_MEMORY, UNDER_WAY}),
     .queue = true},
    {.name = "no wait for a received value", .plant = wait_left_out, FOUND({BY_MEMORY, UNDER_WAY}), .queue = true},
    {.name = "a lifetime that ends before the send",
     .plant = sent_ends_early,
     FOUND({BY_MEMORY, UNDER_WAY}),
     .queue = true},
};
enum { FAULTS = (int)(sizeof faults / sizeof *faults) };

/* The answer of each checker. */
typedef struct Answers {
  RtError of[CHECKERS];
} Answers;

static bool is_found(const Fault *f, const Answers *a) {
  for (int i = 0; i < 2; i++) {
    const RtError *said = &a->of[f->found[i].by];
    if (f->found[i].words && said->status != RT_OK && strstr(said->text, f->found[i].words)) return true;
  }
  return false;
}

static bool is_refused(const Answers *a) {
  for (int i = 0; i < CHECKERS; i++)
    if (a->of[i].status != RT_OK) return true;
  return false;
}

/* True if there is a list of all transfers of the step that contains the rows of every stage in order.  Repeatedly
 * removes a transfer that is next on both its stages, until none is left. */
static bool in_one_list(const Edit *e) {
  uint32_t at[MOST_STAGES] = {0}, left = 0;
  for (bool moved = true; moved;) {
    moved = false, left = 0;
    for (uint32_t s = 0; s < e->p.stages; s++) {
      const Rows *r = &e->rows[s];
      while (at[s] < r->n && !row_transfers(e, &r->items[at[s]])) at[s]++;
      left += r->n - at[s];
      if (at[s] == r->n) continue;
      const ProgramInstr *x = transfer_of(e, r->items[at[s]].body);
      const ProgramGroup *g = &e->p.groups[x->object];
      uint32_t other = g->from == s ? g->to : g->from;
      const Rows *q = &e->rows[other];
      while (at[other] < q->n && !row_transfers(e, &q->items[at[other]])) at[other]++;
      if (at[other] == q->n) continue;
      const Row *a = &r->items[at[s]], *b = &q->items[at[other]];
      if (transfer_of(e, b->body)->key != x->key || a->micro_batch != b->micro_batch) continue;
      at[s]++, at[other]++;
      moved = true;
    }
  }
  return left == 0;
}

/* An image that cannot be opened gives one answer. */
static Answers ask(ProgramBuilder *b, const ProgramFacts *facts) {
  Answers a = {0};
  void *tables = NULL;
  size_t bytes;
  Program p;
  if (program_builder_finish(b, facts, &tables, &bytes, &a.of[BY_OPEN])) return a;
  if (program_open(tables, bytes, &p, NULL)) exit(1);
  order_check_all(&p, &a.of[BY_ORDER]);
  flow_check_all(&p, &a.of[BY_FLOW]);
  memory_check_all(&p, &a.of[BY_MEMORY]);
  program_close(&p);
  free(tables);
  return a;
}

static void print_answers(const Answers *a) {
  for (int i = 0; i < CHECKERS; i++) fprintf(stderr, "  %s: %s\n", checkers[i], a->of[i].text);
}

static void check_planted(Fault *f, Edit *e, const ProgramFacts *facts, const char *what) {
  bool harmless = f->listed && in_one_list(e);
  ProgramBuilder *b = put_all(e);
  Answers a = ask(b, facts);
  bool right = harmless ? !is_refused(&a) : is_found(f, &a);
  CHECKF(right, "%s: %s%s", what, f->name, harmless ? ", harmless" : "");
  if (!right) print_answers(&a);
  f->planted++, f->harmless += harmless;
  program_builder_free(b);
}

static void check_fault(Fault *f, const void *tables, size_t bytes, const ProgramFacts *facts, const char *what) {
  for (uint32_t s = 0; s < facts->stages; s++)
    for (uint32_t n = 0;; n++) {
      Edit e = edit_new(tables, bytes);
      bool planted = f->plant(&e, s, n);
      if (planted) check_planted(f, &e, facts, what);
      edit_free(&e);
      if (!planted) break;
    }
}

/* ---- the order of calls */

static long same_as_equal, other_than_equal; /* orders of places, compared with those for stages of equal times */

/* A place's calls that compute, in the order of the table: all that have a body. */
static bool follows(const Edit *e, uint32_t place, const ScheduleTable *t) {
  size_t n = 0;
  bool same = true;
  for (uint32_t k = 0; k < e->rows[place].n && same; k++) {
    const Row *r = &e->rows[place].items[k];
    if (row_transfers(e, r) || !program_phase_each(row_phase(e, r))) continue;
    for (same = false; n < t->per_place && !same; n++) {
      const ScheduleCall *c = &t->calls[place * t->per_place + n];
      same = strcmp(program_phase_name(row_phase(e, r)), phase_name(c->phase)) == 0 &&
             r->micro_batch == (uint32_t)c->micro_batch;
    }
  }
  return same;
}

/* By the predicted times of stages, not as if all were equal. */
static void check_order(const Build *b, const Edit *e, const char *what) {
  Arena *a = arena_new();
  const Module *m = b->model.m;
  const ScheduleWork *phases = b->legal->source.phases;
  CHECKF(phases != NULL, "%s", what);
  ScheduleTable told = schedule_table(a, &m->mesh, phases), plain = schedule_table(a, &m->mesh, NULL);
  for (uint32_t place = 0; place < e->p.stages; place++) {
    CHECKF(follows(e, place, &told), "%s: place %u makes calls in another order", what, place);
    *(follows(e, place, &plain) ? &same_as_equal : &other_than_equal) += 1;
  }
  arena_free(a);
}

static void check_program(const Build *b, const DeviceTraits *device, const char *what) {
  ArtifactSpec spec = driver_artifact_spec(b);
  ArtifactProgram a;
  bool ok = codegen_program_open(&spec, true, &a, b->options.model.diags);
  CHECK(ok);
  if (!ok) return;
  ProgramFacts facts = {.name = "m",
                        .target = "t",
                        .producer = "test",
                        .stages = a.p.stages,
                        .n_events = a.p.header->n_events + 1, /* one more, for faults */
                        .device = device->name};
  size_t bytes = a.p.header->table_bytes;
  Edit e = edit_new(a.tables, bytes);
  CHECKF((a.p.header->n_events > 0) == device->sends_beside, "%s: %u events", what, a.p.header->n_events);
  check_order(b, &e, what);
  ProgramBuilder *same = put_all(&e);
  Answers right = ask(same, &facts);
  CHECKF(!is_refused(&right), "%s: without a fault", what);
  if (is_refused(&right)) print_answers(&right);
  program_builder_free(same);
  edit_free(&e);
  for (int i = 0; i < FAULTS; i++)
    if (!faults[i].queue || device->sends_beside) check_fault(&faults[i], a.tables, bytes, &facts, what);
  codegen_program_close(&a);
}

/* ---- the Programs */

typedef struct Case {
  const char *target, *schedule;
  int pp, tp;
} Case;

static const Case cases[] = {
    {"cpux2", "1f1b", 2, 1}, {"cpux2", "zbv", 2, 1},  {"cpux4", "1f1b", 4, 1}, {"cpux4", "zbv", 4, 1},
    {"cpux4", "zbh1", 4, 1}, {"cpux4", "1f1b", 2, 2}, {"cpux4", "zbv", 2, 2},
};

static void check_case(const Case *c) {
  static const DslDefine defines[] = {{"layers", "4"}, {"d", "8"}};
  Arena *arena = arena_new();
  Diags *diags = diags_new(arena);
  TrainOptions train = {.loss = "mse"};
  DriverOptions o = {.model = {.arena = arena,
                               .diags = diags,
                               .path = "examples/mlp.apc",
                               .computes = true,
                               .defines = defines,
                               .ndefines = 2,
                               .train = &train,
                               .batch = 16},
                     .target = topo_target_find(diags, arena, c->target),
                     .producer = "test",
                     .plan = {.degree = {[DEGREE_pp] = c->pp, [DEGREE_tp] = c->tp}, .micro_batches = MICRO_BATCHES}};
  Build b;
  PipelineSchedule schedule = SCHEDULE_1f1b;
  bool ok = o.target && optimizer_parse(arena, "adamw", &train.optimizer, diags) &&
            schedule_parse(c->schedule, strlen(c->schedule), &schedule, &o.plan.chunks);
  o.plan.schedule = 1 + (int)schedule;
  driver_begin(&b, &o);
  for (int queue = 0; queue < 3 && ok; queue++) {
    DeviceTraits device = *target_device_traits(DEVICE_cpu);
    /* as no rank, as CPU ranks, as GPUs */
    device.asynchronous = queue == 2, device.sends_beside = device.reduces_beside = queue > 0;
    driver_make_for(&b, &device);
    ok = driver_run(&b, DRIVER_kernels);
    static const char *const ways[] = {"", ", sends beside", ", all beside"};
    const char *what = arena_printf(arena, "%s pp %d tp %d%s", c->schedule, c->pp, c->tp, ways[queue]);
    if (ok) check_program(&b, &device, what);
  }
  CHECK(ok);
  if (!ok) diags_print(diags, stderr, false);
  driver_free(&b);
  arena_free(arena);
}

static void faults_are_found(void) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i]);
  printf("%ld places have another order than with equal stages, %ld have not\n", other_than_equal, same_as_equal);
  CHECK(other_than_equal > 0);
  for (int i = 0; i < FAULTS; i++) {
    Fault *f = &faults[i];
    printf("%6ld  %s", f->planted, f->name);
    if (f->listed) printf(", %ld of them only another list", f->harmless);
    printf("\n");
    CHECKF(f->planted > 2 * f->harmless, "%s was planted too rarely", f->name);
  }
}

int main(void) {
  RUN(faults_are_found);
  return test_summary();
}
