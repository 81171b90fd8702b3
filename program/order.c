/* program/order.c - see order.h. */
#include "program/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/traffic.h"

/* One communication instruction of one call. */
typedef struct Op {
  uint32_t instr, micro_batch;
  bool again;      /* in the second round of a loop */
  uint32_t number; /* among the operations of its stage on its pair group; PROGRAM_NONE for a group within the stage */
} Op;

/* The next step of a stage: an operation, or a wait (op = PROGRAM_NONE). */
typedef struct Step {
  uint32_t op;
  uint32_t instr, micro_batch;
} Step;

typedef struct Line {
  Op *ops;
  Step *steps;
  uint32_t n_ops, n_steps;
  uint32_t at;   /* the current step */
  bool entered;  /* the current step is issued */
  bool *pending; /* [event][micro-batch]: issued, and not waited for yet */
  uint32_t *met; /* per group: operations issued */
} Line;

typedef struct Check {
  const Program *p;
  uint32_t entry;
  Line *lines; /* per stage */
  RtError *error;
} Check;

enum { TEXT = 200 };

static const ProgramGroup *group_of(const Check *c, const Op *o) {
  return &c->p->groups[c->p->instrs[o->instr].object];
}

static bool is_pair(const ProgramGroup *g) { return g->from != PROGRAM_NONE; }

static RtStatus wrong(const Check *c, uint32_t stage, uint32_t instr, uint32_t micro_batch, const char *what) {
  char text[TEXT];
  program_instr_text(c->p, instr, text, sizeof text);
  return rt_error(c->error, RT_INTERNAL, "order of communication in %s: rank %u, %s, micro-batch %u: %s",
                  program_text(c->p, c->p->entries[c->entry].name), stage * c->p->ranks_per_stage, text, micro_batch,
                  what);
}

/* ---- the schedule of a stage, written out */

static void add_op(const Check *c, Line *l, uint32_t instr, uint32_t micro_batch, bool again, uint32_t *counts) {
  uint32_t group = c->p->instrs[instr].object;
  l->steps[l->n_steps++] = (Step){l->n_ops, instr, micro_batch};
  l->ops[l->n_ops++] = (Op){instr, micro_batch, again, is_pair(&c->p->groups[group]) ? counts[group]++ : PROGRAM_NONE};
}

static RtStatus write_out(const Check *c, uint32_t stage) {
  const Program *p = c->p;
  const ProgramSchedule *s = &p->schedules[c->entry * p->stages + stage];
  Line *l = &c->lines[stage];
  size_t most = 0;
  for (uint32_t k = s->calls; k < s->calls + s->n; k++) {
    const ProgramBody *b = &p->bodies[p->calls[k].body];
    for (uint32_t i = b->instrs, again = PROGRAM_NONE; i < b->instrs + b->n; i = program_next(p, i, &again))
      most += program_instr_is_comm(p->instrs[i].kind) || p->instrs[i].kind == PI_wait;
  }
  uint32_t *counts = calloc(p->n_groups + 1, sizeof *counts);
  l->ops = calloc(most + 1, sizeof *l->ops);
  l->steps = calloc(most + 1, sizeof *l->steps);
  l->met = calloc(p->n_groups + 1, sizeof *l->met);
  l->pending = calloc((size_t)p->header->n_events * p->micro_batches + 1, sizeof *l->pending);
  if (most >= PROGRAM_NONE || !counts || !l->ops || !l->steps || !l->met || !l->pending) {
    free(counts);
    return rt_error(c->error, RT_FAILED, "out of memory");
  }
  for (uint32_t k = s->calls; k < s->calls + s->n; k++) {
    const ProgramBody *b = &p->bodies[p->calls[k].body];
    for (uint32_t i = b->instrs, again = PROGRAM_NONE; i < b->instrs + b->n; i = program_next(p, i, &again)) {
      if (p->instrs[i].kind == PI_wait) l->steps[l->n_steps++] = (Step){PROGRAM_NONE, i, p->calls[k].micro_batch};
      if (program_instr_is_comm(p->instrs[i].kind))
        add_op(c, l, i, p->calls[k].micro_batch, again != PROGRAM_NONE, counts);
    }
  }
  free(counts);
  return RT_OK;
}

/* ---- transfers */

/* True if the entry has separate backward bodies, so that its stages interleave forward and backward. */
static bool in_turns(const Check *c) {
  for (uint32_t i = 0; i < c->p->n_bodies; i++) {
    const ProgramBody *b = &c->p->bodies[i];
    if (b->entry == c->entry && (b->phase == PHASE_bwd || b->phase == PHASE_wgt)) return true;
  }
  return false;
}

/* Checks such an entry: each end of a transfer is a body apart from the computation of a micro-batch (D42), since only
 * so can a schedule put something between them.  The body of a transfer holds nothing else but waits. */
static RtStatus transfers_ok(const Check *c) {
  const Program *p = c->p;
  bool turns = in_turns(c);
  for (uint32_t i = 0; i < p->n_bodies && turns; i++) {
    const ProgramBody *b = &p->bodies[i];
    if (b->entry != c->entry || !program_phase_each(b->phase)) continue;
    uint32_t transfer = PROGRAM_NONE, others = 0;
    for (uint32_t k = b->instrs; k < b->instrs + b->n; k++) {
      bool pair = p->instrs[k].kind == PI_send || p->instrs[k].kind == PI_recv;
      others += p->instrs[k].kind != PI_wait;
      if (pair && transfer == PROGRAM_NONE) transfer = k;
    }
    if (transfer != PROGRAM_NONE && others > 1)
      return wrong(c, b->stage, transfer, 0, "a transfer needs a body of its own");
  }
  return RT_OK;
}

/* ---- pairs */

/* Returns the next operation on a group at or after `from`; NULL at the end. */
static const Op *next_on(const Check *c, uint32_t stage, uint32_t group, uint32_t *from) {
  const Line *l = &c->lines[stage];
  while (*from < l->n_ops && c->p->instrs[l->ops[*from].instr].object != group) (*from)++;
  return *from < l->n_ops ? &l->ops[(*from)++] : NULL;
}

static RtStatus pairs_ok(const Check *c, uint32_t group) {
  const Program *p = c->p;
  const ProgramGroup *g = &p->groups[group];
  uint32_t i = 0, j = 0;
  for (;;) {
    const Op *a = next_on(c, g->from, group, &i), *b = next_on(c, g->to, group, &j);
    if (!a && !b) return RT_OK;
    if (!b) return wrong(c, g->from, a->instr, a->micro_batch, "the other stage does not receive it");
    if (!a) return wrong(c, g->to, b->instr, b->micro_batch, "the other stage does not send it");
    if (p->instrs[a->instr].kind != PI_send)
      return wrong(c, g->from, a->instr, a->micro_batch, "this side of the group sends");
    if (p->instrs[b->instr].kind != PI_recv)
      return wrong(c, g->to, b->instr, b->micro_batch, "this side of the group receives");
    if (p->instrs[a->instr].key == p->instrs[b->instr].key && a->micro_batch == b->micro_batch) continue;
    char other[TEXT], what[2 * TEXT];
    program_instr_text(p, b->instr, other, sizeof other);
    snprintf(what, sizeof what, "the other stage receives %s, micro-batch %u, instead", other, b->micro_batch);
    return wrong(c, g->from, a->instr, a->micro_batch, what);
  }
}

/* ---- keys */

typedef struct Use {
  uint32_t key, stage, instr, micro_batch;
} Use;

static int by_key(const void *x, const void *y) {
  const Use *a = x, *b = y;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  if (a->stage != b->stage) return a->stage < b->stage ? -1 : 1;
  if (a->instr != b->instr) return a->instr < b->instr ? -1 : 1;
  return a->micro_batch < b->micro_batch ? -1 : a->micro_batch > b->micro_batch;
}

static RtStatus key_ok(const Check *c, const Use *a, const Use *b) {
  const ProgramInstr *x = &c->p->instrs[a->instr], *y = &c->p->instrs[b->instr];
  if (a->key != b->key) return RT_OK;
  if (a->stage != b->stage) {
    if (is_pair(&c->p->groups[x->object]) && x->object == y->object) return RT_OK;
    return wrong(c, b->stage, b->instr, b->micro_batch, "its key belongs to other communication of another stage");
  }
  if (a->instr != b->instr)
    return wrong(c, b->stage, b->instr, b->micro_batch, "its key belongs to another instruction as well");
  return a->micro_batch == b->micro_batch ? wrong(c, b->stage, b->instr, b->micro_batch, "it is executed twice")
                                          : RT_OK;
}

static RtStatus keys_ok(const Check *c) {
  size_t n = 0;
  for (uint32_t s = 0; s < c->p->stages; s++) n += c->lines[s].n_ops;
  Use *uses = calloc(n + 1, sizeof *uses);
  if (!uses) return rt_error(c->error, RT_FAILED, "out of memory");
  n = 0;
  for (uint32_t s = 0; s < c->p->stages; s++)
    for (uint32_t i = 0; i < c->lines[s].n_ops; i++) {
      const Op *o = &c->lines[s].ops[i];
      if (!o->again) uses[n++] = (Use){c->p->instrs[o->instr].key, s, o->instr, o->micro_batch};
    }
  qsort(uses, n, sizeof *uses, by_key);
  RtStatus status = RT_OK;
  for (size_t i = 1; i < n && !status; i++) status = key_ok(c, &uses[i - 1], &uses[i]);
  free(uses);
  return status;
}

/* ---- loops */

/* The pending events (issued, and not waited for yet) while a body is read. */
typedef struct Loops {
  uint32_t *of; /* per event: the loop it was issued in; PROGRAM_NONE if no pending event of a loop */
  uint32_t open[PROGRAM_MAX_LOOPS], begun[PROGRAM_MAX_LOOPS], n; /* the loops around, and the pending events of each */
} Loops;

static const char *event_fault(const Program *p, uint32_t instr, Loops *l) {
  const ProgramInstr *x = &p->instrs[instr];
  uint32_t loop = l->n ? l->open[l->n - 1] : PROGRAM_NONE;
  if (x->kind == PI_loop) {
    l->open[l->n] = instr;
    l->begun[l->n++] = 0;
  } else if (x->kind == PI_repeat) {
    if (l->begun[--l->n]) return "a round ends while its communication is still under way";
  } else if (x->kind == PI_wait) {
    if (loop == PROGRAM_NONE && l->of[x->event] == PROGRAM_NONE) return NULL;
    if (l->of[x->event] != loop || x->lag) return "it waits for communication of another round or outside the loop";
    l->of[x->event] = PROGRAM_NONE;
    l->begun[l->n - 1]--;
  } else if (program_instr_is_comm(x->kind) && x->event != PROGRAM_NONE && loop != PROGRAM_NONE &&
             l->of[x->event] != loop) {
    l->of[x->event] = loop;
    l->begun[l->n - 1]++;
  }
  return NULL;
}

/* Checks that events begin and end in one round, so that two rounds stand for any number of them, also none. */
static RtStatus loops_ok(const Check *c) {
  const Program *p = c->p;
  Loops l = {.of = malloc(sizeof *l.of * (p->header->n_events + 1u))};
  if (!l.of) return rt_error(c->error, RT_FAILED, "out of memory");
  RtStatus status = RT_OK;
  for (uint32_t b = 0; b < p->n_bodies && !status; b++) {
    if (p->bodies[b].entry != c->entry) continue;
    memset(l.of, 0xff, sizeof *l.of * (p->header->n_events + 1u));
    for (uint32_t i = p->bodies[b].instrs; i < p->bodies[b].instrs + p->bodies[b].n && !status; i++) {
      const char *fault = event_fault(p, i, &l);
      if (fault) status = wrong(c, p->bodies[b].stage, i, 0, fault);
    }
  }
  free(l.of);
  return status;
}

/* ---- progress */

/* True if the other stage has not reached the operation at which this one is. */
static bool not_met(const Check *c, uint32_t stage) {
  const Line *l = &c->lines[stage];
  const Op *o = &l->ops[l->steps[l->at].op];
  const ProgramGroup *g = group_of(c, o);
  if (!is_pair(g)) return false;
  uint32_t other = g->from == stage ? g->to : g->from;
  return c->lines[other].met[c->p->instrs[o->instr].object] <= o->number;
}

/* Lets the operation join the rendezvous of its group. */
static RtStatus issue(const Check *c, uint32_t stage) {
  Line *l = &c->lines[stage];
  const Op *o = &l->ops[l->steps[l->at].op];
  const ProgramInstr *x = &c->p->instrs[o->instr];
  l->entered = true;
  l->met[x->object]++;
  if (x->event == PROGRAM_NONE) return RT_OK;
  bool *pending = &l->pending[(size_t)x->event * c->p->micro_batches + o->micro_batch];
  if (*pending) return wrong(c, stage, o->instr, o->micro_batch, "its event is still under way");
  *pending = true;
  return RT_OK;
}

/* Completes the event waited for, and every operation before it. */
static RtStatus wait_for(const Check *c, uint32_t stage) {
  Line *l = &c->lines[stage];
  const Step *s = &l->steps[l->at];
  const ProgramInstr *x = &c->p->instrs[s->instr];
  if (s->micro_batch < x->lag) return RT_OK;
  bool *pending = &l->pending[(size_t)x->event * c->p->micro_batches + s->micro_batch - x->lag];
  if (!*pending) return wrong(c, stage, s->instr, s->micro_batch, "no communication of its event is pending");
  *pending = false;
  return RT_OK;
}

/* Runs the stage as far as it can go; sets *moved if it progressed. */
static RtStatus advance(const Check *c, uint32_t stage, bool *moved) {
  Line *l = &c->lines[stage];
  for (; l->at < l->n_steps; l->at++) {
    RtStatus status = RT_OK;
    bool communicates = l->steps[l->at].op != PROGRAM_NONE;
    if (!communicates) status = wait_for(c, stage);
    if (communicates && !l->entered) {
      status = issue(c, stage);
      *moved = true;
    }
    if (status) return status;
    if (communicates && not_met(c, stage)) return RT_OK;
    *moved = true;
    l->entered = false;
  }
  return RT_OK;
}

static RtStatus stuck(const Check *c, uint32_t stage) {
  const Line *l = &c->lines[stage];
  const Op *o = &l->ops[l->steps[l->at].op];
  const ProgramGroup *g = group_of(c, o);
  uint32_t other = g->from == stage ? g->to : g->from;
  const Line *ol = &c->lines[other];
  char what[2 * TEXT], at[TEXT] = "the end";
  if (ol->at < ol->n_steps) program_instr_text(c->p, ol->steps[ol->at].instr, at, sizeof at);
  snprintf(what, sizeof what, "it waits for ever, since rank %u is at %s", other * c->p->ranks_per_stage, at);
  return wrong(c, stage, o->instr, o->micro_batch, what);
}

static RtStatus progresses(const Check *c) {
  bool moved = true;
  while (moved) {
    moved = false;
    for (uint32_t s = 0; s < c->p->stages; s++) {
      RtStatus status = advance(c, s, &moved);
      if (status) return status;
    }
  }
  for (uint32_t s = 0; s < c->p->stages; s++)
    if (c->lines[s].at < c->lines[s].n_steps) return stuck(c, s);
  return RT_OK;
}

/* ---- entry points */

static RtStatus check(Check *c, const int64_t *symbols) {
  RtStatus status = RT_OK;
  for (uint32_t s = 0; s < c->p->stages && !status; s++) status = write_out(c, s);
  if (!status) status = transfers_ok(c);
  for (uint32_t g = 0; g < c->p->n_groups && !status; g++)
    if (is_pair(&c->p->groups[g])) status = pairs_ok(c, g);
  if (!status) status = keys_ok(c);
  if (!status) status = loops_ok(c);
  if (!status) status = progresses(c);
  return status || !symbols ? status : traffic_check(c->p, c->entry, symbols, c->error);
}

RtStatus order_check(const Program *p, uint32_t entry, const int64_t *symbols, RtError *error) {
  RtError local = {0};
  Check c = {p, entry, calloc(p->stages, sizeof(Line)), error ? error : &local};
  if (!c.lines) return rt_error(error, RT_FAILED, "out of memory");
  RtStatus status = check(&c, symbols);
  for (uint32_t s = 0; s < p->stages; s++) {
    Line *l = &c.lines[s];
    free(l->ops);
    free(l->steps);
    free(l->pending);
    free(l->met);
  }
  free(c.lines);
  return status;
}

RtStatus order_check_all(const Program *p, RtError *error) {
  int64_t symbols[PROGRAM_MAX_SYMBOLS + 1];
  program_default_sizes(p, symbols);
  bool sizes = traffic_has_sizes(p, symbols);
  RtStatus status = RT_OK;
  for (uint32_t e = 0; e < p->n_entries && !status; e++) status = order_check(p, e, sizes ? symbols : NULL, error);
  return status;
}
