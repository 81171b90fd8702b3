/* program/flow.c - see flow.h. */
#include "program/flow.h"

#include <stdio.h>
#include <stdlib.h>

/* The contents of a slot: its last write, and the number of writes by that micro-batch. */
typedef struct Held {
  uint32_t instr;       /* PROGRAM_NONE if nothing was written */
  uint32_t micro_batch; /* PROGRAM_NONE for a body that runs once */
  uint32_t writes;
} Held;

/* How the micro-batch of a write relates to that of its reader. */
typedef enum Age { AGE_NOTHING, AGE_ONCE, AGE_SAME, AGE_BEFORE, AGE_LAST, AGE_OTHER } Age;

typedef struct Found {
  uint32_t instr, writes;
  Age age;
} Found;

/* A read or write of a buffer that lives across bodies, in the order of a walk. */
typedef struct Touch {
  uint32_t instr, buffer;
  bool write;
  bool sum;      /* a read by a gemm if it accumulates */
  Found want[2]; /* a read: the value it needs in micro-batch 0, and in any other */
} Touch;

typedef struct Touches {
  Touch *items;
  size_t n, cap;
} Touches;

typedef struct Flow {
  const Program *p;
  uint32_t entry, stage;
  uint32_t first_body, end_body; /* those of the entry and stage */
  uint32_t micro_batches;        /* of the current walk */
  Held *held;                    /* per slot */
  size_t *slots;                 /* per buffer: its first slot */
  Touches *touches;              /* per body, from first_body on */
  bool *sums;                    /* per instruction and class of micro-batch: true if the gemm continues a sum */
  RtError *error;
} Flow;

static bool in_flow(const Flow *f, const ProgramBuffer *b) { return b->entry == f->entry && b->stage == f->stage; }

static Held *slot_of(const Flow *f, uint32_t buffer, uint32_t micro_batch) {
  return &f->held[f->slots[buffer] + micro_batch % f->p->buffers[buffer].slots];
}

static bool runs_once(const Flow *f, uint32_t body) { return !program_phase_each(f->p->bodies[body].phase); }

static RtStatus out_of_memory(const Flow *f) { return rt_error(f->error, RT_FAILED, "out of memory"); }

/* ---- the values found */

static Age age_of(const Flow *f, const Held *h, uint32_t body, uint32_t micro_batch) {
  if (h->instr == PROGRAM_NONE) return AGE_NOTHING;
  if (h->micro_batch == PROGRAM_NONE) return AGE_ONCE;
  if (runs_once(f, body)) return h->micro_batch + 1 == f->micro_batches ? AGE_LAST : AGE_OTHER;
  if (h->micro_batch == micro_batch) return AGE_SAME;
  return h->micro_batch + 1 == micro_batch ? AGE_BEFORE : AGE_OTHER;
}

static Found find(const Flow *f, const Held *h, uint32_t body, uint32_t micro_batch) {
  return (Found){h->instr, h->writes, age_of(f, h, body, micro_batch)};
}

static void put(const Flow *f, Held *h, uint32_t instr, uint32_t body, uint32_t micro_batch) {
  uint32_t of = runs_once(f, body) ? PROGRAM_NONE : micro_batch;
  bool more = h->instr != PROGRAM_NONE && h->micro_batch == of;
  *h = (Held){instr, of, more ? h->writes + 1 : 1};
}

static RtStatus wrong(const Flow *f, uint32_t body, const Touch *t, uint32_t micro_batch, const Held *h,
                      const char *what) {
  const Program *p = f->p;
  const ProgramBody *b = &p->bodies[body];
  char text[200], writer[300] = "nothing";
  program_instr_text(p, t->instr, text, sizeof text);
  if (h->instr != PROGRAM_NONE) {
    char of[200];
    program_instr_text(p, h->instr, of, sizeof of);
    if (h->micro_batch == PROGRAM_NONE) snprintf(writer, sizeof writer, "the value that %s wrote", of);
    else snprintf(writer, sizeof writer, "the value that %s wrote in micro-batch %u", of, h->micro_batch);
  }
  return rt_error(f->error, RT_INTERNAL,
                  "values of %s: rank %u, %s in %s.%s, micro-batch %u, reads buffer '%s', which holds %s: %s",
                  program_text(p, p->entries[f->entry].name), f->stage * p->ranks_per_stage, text,
                  program_phase_name(b->phase), program_text(p, b->name), micro_batch,
                  program_text(p, p->buffers[t->buffer].name), writer, what);
}

/* ---- gemms that continue a sum, in some micro-batches */

/* Returns the expression that decides whether a gemm continues a sum. */
static uint32_t sum_expr(const Program *p, uint32_t instr) { return program_list(p, p->instrs[instr].exprs)[9]; }

static RtStatus sums_of(const Flow *f, uint32_t mb, const int64_t *values) {
  const Program *p = f->p;
  const ProgramBody *last = &p->bodies[f->end_body - 1];
  for (uint32_t i = p->bodies[f->first_body].instrs; i < last->instrs + last->n; i++) {
    if (p->instrs[i].kind != PI_gemm) continue;
    bool sum = values[sum_expr(p, i)] != 0, *to = &f->sums[2 * (size_t)i];
    if (mb > 1 && sum != to[1])
      return rt_error(f->error, RT_INTERNAL, "values of %s: '%s' continues a sum in some later micro-batches only",
                      program_text(p, p->entries[f->entry].name), program_text(p, p->instrs[i].where));
    to[mb > 0] = sum;
    if (mb == 0) to[1] = sum;
  }
  return RT_OK;
}

static bool sums_vary(const Flow *f) {
  const Program *p = f->p;
  for (uint32_t i = p->bodies[f->first_body].instrs; i < p->n_instrs; i++)
    if (p->instrs[i].kind == PI_gemm && (p->expr_uses[sum_expr(p, i)] & PROGRAM_USES_MICRO_BATCH)) return true;
  return false;
}

/* Finds the gemms that continue a sum, in micro-batch 0 and in the others, which are alike. */
static RtStatus find_sums(const Flow *f) {
  const Program *p = f->p;
  int64_t *values = calloc(p->n_exprs + 1u, sizeof *values), at[PROGRAM_MAX_AXES];
  RtStatus status = values ? RT_OK : out_of_memory(f);
  program_coordinates(p, f->stage * p->ranks_per_stage, at);
  uint32_t each = sums_vary(f) ? p->micro_batches : 1;
  for (uint32_t mb = 0; mb < each && !status; mb++) {
    if (p->mb_axis != PROGRAM_NONE) at[p->mb_axis] = mb;
    status = program_eval(p, NULL, at, values, f->error);
    if (!status) status = sums_of(f, mb, values);
  }
  free(values);
  return status;
}

/* ---- the order without a schedule */

static RtStatus note(const Flow *f, uint32_t body, Touch t) {
  Touches *l = &f->touches[body - f->first_body];
  if (l->n == l->cap) {
    size_t cap = 2 * l->cap + 16;
    Touch *more = realloc(l->items, cap * sizeof *more);
    if (!more) return out_of_memory(f);
    l->items = more, l->cap = cap;
  }
  l->items[l->n++] = t;
  return RT_OK;
}

/* A body in a micro-batch; `at` counts the touches of its walk, which are the same in every micro-batch. */
typedef struct Visit {
  uint32_t body, micro_batch;
  size_t at;
} Visit;

/* Follows one access.  Buffers of one body are followed only here, since every schedule runs the whole body. */
static RtStatus touch(const Flow *f, Visit *v, Touch t) {
  const ProgramBuffer *b = &f->p->buffers[t.buffer];
  Held *h = slot_of(f, t.buffer, v->micro_batch);
  uint32_t class_ = v->micro_batch > 0;
  bool reads = !t.write && (!t.sum || f->sums[2 * (size_t)t.instr + class_]);
  if (b->body == PROGRAM_NONE) {
    RtStatus status = v->micro_batch == 0 ? note(f, v->body, t) : RT_OK;
    if (status) return status;
    f->touches[v->body - f->first_body].items[v->at++].want[class_] = find(f, h, v->body, v->micro_batch);
  }
  if (t.write) put(f, h, t.instr, v->body, v->micro_batch);
  if (!reads || h->instr != PROGRAM_NONE) return RT_OK;
  return wrong(f, v->body, &t, v->micro_batch, h, "no body or instruction before it wrote there");
}

/* Follows reads first: an instruction may overwrite what it reads. */
static RtStatus visit_instr(const Flow *f, Visit *v, uint32_t instr) {
  const Program *p = f->p;
  const ProgramInstr *x = &p->instrs[instr];
  RtStatus status = RT_OK;
  for (int writes = 0; writes < 2; writes++)
    for (uint32_t i = 0; i < x->tensors.n && !status; i++) {
      uint32_t buffer = p->tensors[program_list(p, x->tensors)[i]].buffer;
      bool written = program_instr_writes(x, i), sum = x->kind == PI_gemm && written;
      if (!in_flow(f, &p->buffers[buffer])) continue;
      if (!writes && (!written || sum)) status = touch(f, v, (Touch){.instr = instr, .buffer = buffer, .sum = sum});
      if (writes && written && !status) status = touch(f, v, (Touch){.instr = instr, .buffer = buffer, .write = true});
    }
  return status;
}

/* Clears the buffers of a body: values of earlier calls are gone. */
static void forget(const Flow *f, uint32_t body) {
  for (uint32_t i = 0; i < f->p->n_buffers; i++) {
    const ProgramBuffer *b = &f->p->buffers[i];
    for (uint32_t s = 0; in_flow(f, b) && b->body == body && s < b->slots; s++)
      f->held[f->slots[i] + s].instr = PROGRAM_NONE;
  }
}

static RtStatus visit_body(const Flow *f, uint32_t body, uint32_t micro_batch) {
  const ProgramBody *b = &f->p->bodies[body];
  Visit v = {body, micro_batch, 0};
  RtStatus status = RT_OK;
  forget(f, body);
  for (uint32_t i = b->instrs, again = PROGRAM_NONE; i < b->instrs + b->n && !status; i = program_next(f->p, i, &again))
    status = visit_instr(f, &v, i);
  return status;
}

static RtStatus walk_bodies(Flow *f) {
  RtStatus status = RT_OK;
  f->micro_batches = f->p->micro_batches < 2 ? f->p->micro_batches : 2;
  for (uint32_t b = f->first_body, end; b < f->end_body && !status; b = end) {
    bool once = runs_once(f, b);
    for (end = b + 1; end < f->end_body && runs_once(f, end) == once;) end++;
    for (uint32_t mb = 0; mb < (once ? 1 : f->micro_batches) && !status; mb++)
      for (uint32_t i = b; i < end && !status; i++) status = visit_body(f, i, mb);
  }
  return status;
}

/* ---- the schedule */

static RtStatus replay(const Flow *f, uint32_t body, uint32_t micro_batch) {
  const Touches *l = &f->touches[body - f->first_body];
  for (size_t k = 0; k < l->n; k++) {
    const Touch *t = &l->items[k];
    Held *h = slot_of(f, t->buffer, micro_batch);
    if (t->write) {
      put(f, h, t->instr, body, micro_batch);
      continue;
    }
    if (t->sum && !f->sums[2 * (size_t)t->instr + (micro_batch > 0)]) continue;
    Found have = find(f, h, body, micro_batch);
    const Found *want = &t->want[micro_batch > 0];
    if (have.age != want->age || have.instr != want->instr)
      return wrong(f, body, t, micro_batch, h, "it should hold another value");
    if (have.writes != want->writes) return wrong(f, body, t, micro_batch, h, "a summand is missing");
  }
  return RT_OK;
}

static RtStatus walk_schedule(Flow *f) {
  const Program *p = f->p;
  const ProgramSchedule *s = &p->schedules[f->entry * p->stages + f->stage];
  RtStatus status = RT_OK;
  f->micro_batches = p->micro_batches;
  for (uint32_t k = s->calls; k < s->calls + s->n && !status; k++)
    status = replay(f, p->calls[k].body, p->calls[k].micro_batch);
  return status;
}

/* ---- the whole */

static RtStatus prepare(Flow *f, size_t *slots) {
  const Program *p = f->p;
  *slots = 0;
  f->slots = calloc(p->n_buffers + 1u, sizeof *f->slots);
  for (uint32_t i = 0; f->slots && i < p->n_buffers; i++) {
    f->slots[i] = *slots;
    if (in_flow(f, &p->buffers[i])) *slots += p->buffers[i].slots;
  }
  f->held = malloc((*slots + 1) * sizeof *f->held);
  f->touches = calloc(f->end_body - f->first_body + 1u, sizeof *f->touches);
  f->sums = calloc(2 * (size_t)p->n_instrs + 1, sizeof *f->sums);
  return f->slots && f->held && f->touches && f->sums ? RT_OK : out_of_memory(f);
}

static void clear(const Flow *f, size_t slots) {
  for (size_t i = 0; i < slots; i++) f->held[i] = (Held){.instr = PROGRAM_NONE};
}

RtStatus flow_check(const Program *p, uint32_t entry, uint32_t stage, RtError *error) {
  RtError local = {0};
  Flow f = {.p = p, .entry = entry, .stage = stage, .error = error ? error : &local};
  size_t slots;
  while (f.first_body < p->n_bodies &&
         (p->bodies[f.first_body].entry != entry || p->bodies[f.first_body].stage != stage))
    f.first_body++;
  for (f.end_body = f.first_body;
       f.end_body < p->n_bodies && p->bodies[f.end_body].entry == entry && p->bodies[f.end_body].stage == stage;)
    f.end_body++;
  if (f.first_body == f.end_body) return RT_OK;
  RtStatus status = prepare(&f, &slots);
  if (!status) status = find_sums(&f);
  if (!status) {
    clear(&f, slots);
    status = walk_bodies(&f);
  }
  if (!status) {
    clear(&f, slots);
    status = walk_schedule(&f);
  }
  for (uint32_t i = 0; f.touches && i < f.end_body - f.first_body; i++) free(f.touches[i].items);
  free(f.touches);
  free(f.slots);
  free(f.held);
  free(f.sums);
  return status;
}

RtStatus flow_check_all(const Program *p, RtError *error) {
  RtStatus status = RT_OK;
  for (uint32_t e = 0; e < p->n_entries && !status; e++)
    for (uint32_t s = 0; s < p->stages && !status; s++) status = flow_check(p, e, s, error);
  return status;
}
