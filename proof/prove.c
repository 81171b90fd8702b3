/* proof/prove.c - the prover; see prove.h.
 *
 * Every local value gets a term and a relation: the box that it holds of the term's global index space, as expressions
 * of the rank's coordinates, and the axes over which it is a partial result.  An operation is accepted if some level-1
 * operation with the same argument terms, restricted to the boxes of the operands, computes the same as the local
 * operation.  Communication has axioms of its own (prove_comm.c).  The prover makes one pass over the operations and
 * reports the first that fits nothing.  A transpose that level 1 does not have gives an order of a value's dimensions,
 * which a later transpose undoes.  The effect of operations on boxes is in prove_case.c, the arithmetic of boxes in
 * prove_span.c and prove_bound.c.  Loops are proved by induction (prove_loop.c); where that leaves a question open the
 * answer is unknown, not refuted.
 */
#include "proof/prove.h"

#include <stdarg.h>
#include <string.h>

#include "ir/layout/body.h"
#include "proof/prove_relation.h"

enum { MAX_TRIES = 64, MAX_MEANINGS = 8 };
static const Term NO_TERM = UINT32_MAX; /* of a value that level 1 does not have */

static const char *const verdict_names[] = {"proved", "refuted", "unknown"};
const char *verdict_name(Verdict v) { return verdict_names[v]; }

static bool is_over_reals(const Proof *p) { return p->verdict == PROVED && p->over_reals; }

const char *proof_word(const Proof *p) { return is_over_reals(p) ? "proved-reals" : verdict_name(p->verdict); }

const char *proof_line(Arena *a, const Proof *p) {
  Text line = {.arena = a};
  if (is_over_reals(p)) return arena_printf(a, "proved over the reals: %s", p->over_reals);
  text_add(&line, verdict_name(p->verdict));
  if (p->verdict != PROVED) text_printf(&line, ": %s", p->reason ? p->reason : "no reason given");
  if (p->verdict != PROVED && p->op) text_add(&line, ", at "), text_quoted(&line, p->op);
  return text_str(&line);
}

bool prove_fail(Prover *p, const char *format, ...) {
  va_list args;
  va_start(args, format);
  p->reason = arena_vprintf(p->m->arena, format, args);
  va_end(args);
  return false;
}

/* ---- walking a level-2 function */

static bool prove_ops(Prover *p, const Func *f, const Fact2 *inputs, Fact2 *known);

bool prove_extents(Prover *p, const Type *t, Relation *r) {
  if (t->rank != r->rank) return prove_fail(p, "the result's rank is not that of its part");
  for (int d = 0; d < r->rank; d++)
    if (!extent_is_legal(p, t->dims[d])) return prove_fail(p, "the extent of dimension %d is negative on some rank", d);
  for (int d = 0; d < r->rank; d++)
    if (!expr_equal(p, span_extent(p, &r->dims[d]), t->dims[d]))
      return prove_fail(p, "the extent of dimension %d is not that of its part", d);
  uint32_t both = relation_axes(p->m, r) & r->axes;
  if (both) return prove_fail(p, "a mesh axis both cuts the result and makes it partial");
  return true;
}

/* True if the operation computes its part of the level-1 operation `g`; `out` has one entry for each of its results. */
static bool fits_fact(Prover *p, const Func *f, const Op *op, const Fact2 *in, const Fact *g, Fact2 *out) {
  Relation rel[MAX_OPERANDS];
  for (int i = 0; i < op->nin; i++) rel[i] = in[i].relation;
  for (int k = 0; k < op->nout; k++) {
    const Type *t = type_of(f, op->out + (Val)k);
    Relation r = {.rank = t->rank};
    if (!prove_case(p, &(CaseOf){g->f, g->op, f, op, k, rel}, &r) || !prove_extents(p, t, &r)) return false;
    out[k] = (Fact2){g->terms[k], r};
  }
  return true;
}

/* Chooses among several values of level 1 with this part (overlapping slices of one value): the choice is a guess, like
 * the place of a free span.  The search for others leaves no other trace. */
static bool others_fit(Prover *p, const Func *f, const Op *op, const Fact2 *in, const Fact *facts, Fact2 *found) {
  if (!op->nin || !facts->next) return true; /* a source is determined by its attributes */
  Prover saved = *p;
  Fact2 fitting[MAX_MEANINGS][MAX_RESULTS];
  memcpy(fitting[0], found, sizeof *found * (size_t)op->nout);
  int n = 1, choice = 0;
  for (const Fact *g = facts; g && n < MAX_MEANINGS; g = g->next) {
    bool known = false;
    for (int i = 0; i < n; i++) known |= fitting[i][0].term == g->terms[0];
    n += !known && fits_fact(p, f, op, in, g, fitting[n]);
  }
  *p = saved;
  if (n == 1) return true;
  p->guessed = true;
  if (p->nguesses < MAX_GUESSES) choice = p->guesses[p->nguesses++];
  p->exhausted |= choice >= n;
  if (choice >= n) return prove_fail(p, "level 1 has no further such operation");
  memcpy(found, fitting[choice], sizeof *found * (size_t)op->nout);
  return true;
}

/* ---- transposes that level 1 does not have: legalised operations bring dimensions to the front and back */

static bool in_order(int rank, const int64_t *perm) {
  for (int d = 0; d < rank; d++)
    if (perm[d] != d) return false;
  return true;
}

/* Returns the value that the term reorders; the term itself if it is no reordering. */
static Permuted order_of(const Prover *p, Term term, int rank) {
  Permuted same = {.term = term, .of = term, .rank = rank};
  for (int d = 0; d < rank; d++) same.perm[d] = d;
  for (size_t i = 0; i < p->permuted.n; i++)
    if (p->permuted.items[i].term == term) return p->permuted.items[i];
  for (size_t i = 0; i < p->l1->ops.n; i++) { /* a transpose of level 1 may be undone as well */
    const Op *op = &p->l1->ops.items[i];
    if (op->kind != OP_transpose || p->l1_terms[op->out] != term) continue;
    same.of = p->l1_terms[op->in[0]];
    memcpy(same.perm, op_attr(op, AT_perm)->u.ints, sizeof *same.perm * (size_t)rank);
    break;
  }
  return same;
}

static Term term_of_order(Prover *p, const Permuted *x) {
  if (in_order(x->rank, x->perm)) return x->of;
  for (size_t i = 0; i < p->permuted.n; i++) {
    const Permuted *have = &p->permuted.items[i];
    if (have->of == x->of && have->rank == x->rank &&
        memcmp(have->perm, x->perm, sizeof *x->perm * (size_t)x->rank) == 0)
      return have->term;
  }
  Permuted new = *x;
  new.term = NO_TERM - 1 - (Term)p->permuted.n; /* no other term is that large */
  ARENA_PUSH(p->m->arena, &p->permuted, new);
  return new.term;
}

static bool prove_order(Prover *p, const Func *f, const Op *op, const Fact2 *in, Fact2 *out) {
  const int64_t *perm = op_attr(op, AT_perm)->u.ints;
  Permuted x = order_of(p, in->term, in->relation.rank), y = x;
  if (in->term == NO_TERM) return prove_fail(p, "level 1 has no such operation on these values");
  *out = *in;
  for (int d = 0; d < x.rank; d++) {
    y.perm[d] = x.perm[perm[d]];
    out->relation.dims[d] = in->relation.dims[perm[d]];
  }
  out->term = term_of_order(p, &y);
  return prove_extents(p, type_of(f, op->out), &out->relation);
}

static bool prove_compute(Prover *p, const Func *f, const Op *op, const Fact2 *in, Fact2 *out) {
  Term args[MAX_OPERANDS];
  for (int i = 0; i < op->nin; i++) args[i] = in[i].term;
  const Fact *facts = terms_facts(p->terms, op->kind, op->nin, args);
  if (!facts && op->kind == OP_transpose) return prove_order(p, f, op, in, out);
  if (!facts) return prove_fail(p, "level 1 has no such operation on these values");
  const char *best = NULL;
  for (int named = 1; named >= 0; named--) /* the operation of the same name first: a hint that saves guesses */
    for (const Fact *g = facts; g; g = g->next) {
      if ((strcmp(g->op->name, op->name) == 0) != named) continue;
      if (fits_fact(p, f, op, in, g, out)) return others_fit(p, f, op, in, facts, out);
      if (!best) best = p->reason;
    }
  p->reason = best;
  return false;
}

static bool prove_body(Prover *p, const Func *f, const Op *op, const Fact2 *in, Fact2 *out) {
  const Func *body = body_of(p->m, f, op);
  Fact2 *known = ARENA_ARRAY(p->m->arena, Fact2, body->values.n);
  if (!prove_ops(p, body, in, known)) return false;
  for (int k = 0; k < op->nout; k++) out[k] = known[body->outputs.items[k].value];
  return true;
}

static bool declared(Prover *p, const Type *global, const Layout *l, const Type *local, Relation *r) {
  if (!global || !l || global->rank != l->rank || global->dtype != local->dtype)
    return prove_fail(p, "level 1 has no value of that name and type");
  *r = (Relation){.rank = global->rank, .partial = l->partial, .axes = l->partial_axes};
  for (int d = 0; d < l->rank; d++) {
    r->dims[d].free = false;
    layout_interval(p->m, &l->dims[d], global->dims[d], &r->dims[d].lo, &r->dims[d].hi);
  }
  if (l->partial_axes) return prove_fail(p, "a source is declared partial");
  for (int d = 0; d < l->rank; d++)
    if (!span_covers(p, &r->dims[d], global->dims[d], l->dims[d].n, l->dims[d].axes))
      return prove_fail(p, "the parts of dimension %d do not cover it once", d);
  return prove_extents(p, local, r);
}

static const Op *source_named(const Func *f, OpKind kind, const char *name) {
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == kind && strcmp(op_str(&f->ops.items[i], AT_name), name) == 0) return &f->ops.items[i];
  return NULL;
}

static bool same_relation(Prover *p, const Relation *a, const Relation *b) {
  Span ignored;
  if (a->rank != b->rank || a->axes || b->axes) return false;
  for (int d = 0; d < a->rank; d++)
    if (!span_unify(p, &a->dims[d], &b->dims[d], &ignored)) return false;
  return true;
}

/* True if the state has the same boxes and stage as at its first read or write. */
static bool state_agrees(Prover *p, const char *name, const Relation *r, int stage) {
  for (size_t i = 0; i < p->states.n; i++) {
    const StateFact *x = &p->states.items[i];
    if (strcmp(x->name, name) == 0)
      return (x->stage == stage || prove_fail(p, "a state is in two stages")) &&
             (same_relation(p, &x->relation, r) || prove_fail(p, "a state has two layouts"));
  }
  ARENA_PUSH(p->m->arena, &p->states, ((StateFact){name, *r, stage}));
  return true;
}

/* True if each micro-batch would read the value written by the one before it. */
static bool written_again(const Prover *p, const Relation *r) {
  for (int a = 0; a < p->m->mesh.naxes; a++)
    if (p->m->mesh.axes[a].temporal && p->m->mesh.axes[a].size > 1 && !((relation_axes(p->m, r) >> a) & 1u))
      return true;
  return false;
}

static bool prove_source(Prover *p, const Func *f, const Op *op, Fact2 *out) {
  const char *name = op_str(op, AT_name);
  const Op *g = source_named(p->l1, op->kind, name);
  const Type *global = g ? type_of(p->l1, g->out) : NULL;
  if (!g && op->kind == OP_read && module_state(p->m, name))
    global = module_state(p->m, name)->type; /* only declares a layout */
  if (!declared(p, global, f->values.items[op->out].layout, type_of(f, op->out), &out->relation)) return false;
  out->term = g ? p->l1_terms[g->out] : NO_TERM;
  if (op->kind != OP_read) return true;
  return state_agrees(p, name, &out->relation, op->stage);
}

static bool prove_write(Prover *p, const Op *op, const Fact2 *in) {
  const char *name = op_str(op, AT_name);
  for (size_t i = 0; i < p->terms->writes.n; i++) {
    const Written *w = &p->terms->writes.items[i];
    if (strcmp(w->name, name) != 0) continue;
    if (w->term != in->term) return prove_fail(p, "not the value that level 1 writes");
    if (!state_agrees(p, name, &in->relation, op->stage)) return false;
    if (op->phase != PH_step && written_again(p, &in->relation)) return prove_fail(p, "written in every micro-batch");
    p->written++;
    return true;
  }
  return prove_fail(p, "level 1 does not write this state");
}

bool prove_operands(Prover *p, const ProveWalk *w, size_t i) {
  const Op *op = &w->f->ops.items[i];
  int loop = loops_reads_in(w->loops, w->f, i);
  for (int k = 0; k < op->nin; k++) {
    const Op *from = op_of(w->f, op->in[k]);
    int stage = from->kind == OP_transfer ? (int)op_int(from, AT_to_stage, 0) : from->stage;
    if (w->f->level == 2 && stage != op->stage) return prove_fail(p, "operand %d is in another stage", k);
    if (!loops_within(w->loops, loop, w->loops->of[from - w->f->ops.items]))
      return prove_fail(p, "operand %d is a value of a loop's body", k);
  }
  return true;
}

static bool prove_op(Prover *p, const Func *f, const Op *op, const Fact2 *known, Fact2 *out) {
  Fact2 in[MAX_OPERANDS];
  for (int i = 0; i < op->nin; i++) in[i] = known[op->in[i]];
  if (op->kind == OP_input || op->kind == OP_param || op->kind == OP_read) return prove_source(p, f, op, out);
  if (op->kind == OP_write) return prove_write(p, op, &in[0]);
  if (op->kind == OP_copy) {
    *out = in[0];
    out->relation.copied = true;
    return true;
  }
  if (op->kind == OP_within) { /* it reads elements, not parts of sums */
    *out = in[0];
    return !in[0].relation.axes || prove_fail(p, "the indices are partial");
  }
  if (op->kind == OP_accumulate) {
    out->term = in[0].term;
    if (!prove_accumulate(p, &in[0].relation, &out->relation)) return false;
    return note_real_comm(p, f, op, &in[0].relation, &out->relation), true;
  }
  if (op_level2_only(op->kind)) {
    out->term = in[0].term;
    if (!prove_comm(p, f, op, &in[0].relation, &out->relation) ||
        !prove_extents(p, type_of(f, op->out), &out->relation))
      return false;
    return note_real_comm(p, f, op, &in[0].relation, &out->relation), true;
  }
  if (op_is_composite(op->kind)) return prove_body(p, f, op, in, out);
  if (!prove_compute(p, f, op, in, out)) return false;
  for (int k = 0; k < op->nout; k++) note_real(p, f, op, k, in, &out[k].relation);
  return true;
}

/* The fact of a value that level 1 does not have. */
static Fact2 of_no_value(const Type *t) {
  Fact2 fact = {NO_TERM, {.rank = t->rank}};
  for (int d = 0; d < t->rank; d++) fact.relation.dims[d] = (Span){NULL, t->dims[d], true};
  return fact;
}

static bool any_needed(const ProveWalk *w, const Op *op) {
  bool any = false;
  for (Val v = op->out; v < op_end(op); v++) any |= w->needed[v];
  return any;
}

bool prove_range(Prover *p, const ProveWalk *w, size_t from, size_t to) {
  int next = 0;
  for (size_t i = from; i < to; i++) {
    const Op *op = &w->f->ops.items[i];
    Fact2 none, *out = op->out ? &w->known[op->out] : &none; /* the first of its results */
    if (w->inputs && op->kind == OP_input) {
      *out = w->inputs[next++];
      continue;
    }
    if (!w->inputs) p->op = op->name; /* inside a body, errors name the composite */
    if (!prove_operands(p, w, i)) return false;
    if (op->kind == OP_loop) {
      const Loop *l = &w->loops->items[w->loops->of[i]];
      if (!prove_loop(p, w, l)) return false;
      i = l->end - 1;
    } else if (op->kind == OP_bind) {
      if (!prove_bind(p, w, op)) return false;
    } else if (!prove_op(p, w->f, op, w->known, out)) {
      if (!w->needed || !op->out || any_needed(w, op)) return false;
      if (!p->idle.op) p->idle = (Proof){.verdict = UNKNOWN, .op = p->op, .reason = p->reason};
      for (int k = 0; k < op->nout; k++) out[k] = of_no_value(type_of(w->f, op->out + (Val)k));
    }
  }
  return true;
}

/* By value: whether an output, a write or a loop depends on it. */
static const bool *needed_of(Module *m, const Func *f) {
  bool *needed = ARENA_ARRAY(m->arena, bool, f->values.n);
  for (size_t i = 0; i < f->outputs.n; i++) needed[f->outputs.items[i].value] = true;
  for (size_t i = f->ops.n; i-- > 0;) {
    const Op *op = &f->ops.items[i];
    bool frame = op->kind == OP_loop || op->kind == OP_carry || op->kind == OP_repeat || op->kind == OP_leave;
    bool does = frame || op->kind == OP_write || op->kind == OP_bind;
    for (Val v = op->out; v < op_end(op); v++) does |= needed[v];
    for (int k = 0; k < op->nin && does; k++) needed[op->in[k]] = true;
    if (frame && op->out) needed[op->out] = true;
  }
  return needed;
}

static bool prove_ops(Prover *p, const Func *f, const Fact2 *inputs, Fact2 *known) {
  Loops loops = loops_of(p->m->arena, f);
  return prove_range(
      p, &(ProveWalk){f, &loops, inputs, known, controls_of(p->m, f, &loops), inputs ? NULL : needed_of(p->m, f)}, 0,
      f->ops.n);
}

/* True if the local value is the declared shard of the level-1 output. */
static bool prove_output(Prover *p, const Func *l2, const Output *o, const Output *g, const Fact2 *known) {
  Relation want;
  if (p->l1_terms[g->value] != known->term) return prove_fail(p, "not the value that level 1 returns");
  if (!declared(p, type_of(p->l1, g->value), o->layout, type_of(l2, o->value), &want)) return false;
  if (known->relation.axes) return prove_fail(p, "the output is a partial result");
  return same_relation(p, &want, &known->relation) || prove_fail(p, "the output is not the declared shard");
}

static const Output *output_named(const Func *f, const char *name) {
  for (size_t i = 0; i < f->outputs.n; i++)
    if (strcmp(f->outputs.items[i].name, name) == 0) return &f->outputs.items[i];
  return NULL;
}

static bool prove_outputs(Prover *p, const Func *l2, const Fact2 *known) {
  if (l2->outputs.n != p->l1->outputs.n)
    return prove_fail(p, "%zu outputs, level 1 has %zu", l2->outputs.n, p->l1->outputs.n);
  for (size_t i = 0; i < l2->outputs.n; i++) {
    const Output *o = &l2->outputs.items[i], *g = output_named(p->l1, o->name);
    p->op = o->name;
    if (!g) return prove_fail(p, "not the value that level 1 returns");
    if (!prove_output(p, l2, o, g, &known[o->value])) return false;
    p->op = p->l1->outputs.items[i].name;
    if (!output_named(l2, p->op)) return prove_fail(p, "an output of level 1 is missing");
  }
  return p->written == p->terms->writes.n || prove_fail(p, "a state of level 1 is not written");
}

static Prover prover_new(Module *m, const Func *l1) {
  Prover p = {.m = m, .l1 = l1, .terms = terms_new(m)};
  sizes_open(&p);
  p.l1_terms = terms_of_func(p.terms, l1, NULL);
  return p;
}

/* The verdict.  An expression that could not be computed leaves it unknown. */
static Proof verdict_of(Prover *p, bool ok) {
  const char *fault = p->m->expr_fault;
  p->m->expr_fault = NULL;
  if (fault) return (Proof){.verdict = UNKNOWN, .op = p->op, .reason = fault};
  if (ok) return (Proof){.verdict = PROVED, .over_reals = real_reason(p)};
  return (Proof){.verdict = p->uncertain || p->guessed ? UNKNOWN : REFUTED, .op = p->op, .reason = p->reason};
}

static Proof try_proof(Prover *p, const Func *l2) {
  Fact2 *known = ARENA_ARRAY(p->m->arena, Fact2, l2->values.n);
  p->nguesses = p->depth = 0;
  p->states.n = p->written = p->real.n = 0;
  p->uncertain = p->guessed = p->exhausted = false;
  p->idle.op = NULL;
  Proof proof = verdict_of(p, prove_ops(p, l2, NULL, known) && prove_outputs(p, l2, known));
  /* the results are proved, but an unused value is not: unknown */
  if (proof.verdict == PROVED && p->idle.op) return p->idle;
  return proof;
}

/* Advances to the next sequence of guesses, depth first: increments the last guess, or drops it if it has no more
 * places. */
static bool next_guesses(Prover *p) {
  int n = p->nguesses;
  if (p->exhausted) p->guesses[--n] = 0;
  if (!n) return false;
  p->guesses[n - 1]++;
  for (int i = n; i < MAX_GUESSES; i++) p->guesses[i] = 0;
  return true;
}

Proof prove(Module *m, const Func *l1, const Func *l2) {
  Prover p = prover_new(m, l1);
  l2 = prove_shortened(m, l2);
  Proof first = try_proof(&p, l2);
  if (first.verdict == PROVED || !p.guessed) return first;
  for (int tries = 0; tries < MAX_TRIES && next_guesses(&p); tries++)
    if (try_proof(&p, l2).verdict == PROVED) return (Proof){.verdict = PROVED, .over_reals = real_reason(&p)};
  return first;
}

/* ---- @prepare */

static bool prove_alone(Prover *p, const Func *l2) {
  for (size_t i = 0; i < l2->ops.n; i++) {
    p->op = l2->ops.items[i].name;
    if (op_is_comm(l2->ops.items[i].kind)) return prove_fail(p, "communication in @prepare");
  }
  return true;
}

/* True if every part made is a part of the value that level 1 makes. */
static bool prove_parts(Prover *p, const Func *l2, const Fact2 *known) {
  for (size_t i = 0; i < l2->outputs.n; i++) {
    const Output *o = &l2->outputs.items[i], *g = output_named(p->l1, o->name);
    p->op = o->name;
    if (!g) return prove_fail(p, "level 1 prepares no such weight");
    if (!prove_output(p, l2, o, g, &known[o->value])) return false;
  }
  return true;
}

/* True if every prepared weight that is read is made, in that layout and stage. */
static bool prove_made(Prover *p, const Func *user, const Func *l2) {
  for (size_t i = 0; i < user->ops.n; i++) {
    const Op *op = &user->ops.items[i];
    const Param *w = op->kind == OP_param ? module_param(p->m, op_str(op, AT_name)) : NULL;
    bool made = !w || w->init != INIT_PREPARED;
    for (size_t k = 0; l2 && k < l2->outputs.n && !made; k++) {
      const Output *o = &l2->outputs.items[k];
      made = strcmp(o->name, w->name) == 0 && o->layout == user->values.items[op->out].layout &&
             op_of(l2, o->value)->stage == op->stage;
    }
    p->op = op->name;
    if (!made) return prove_fail(p, "@prepare does not make this part of the weight");
  }
  return true;
}

Proof prove_prepare(Module *m, const Func *l1, const Func *l2, int nusers, Func *const *users) {
  Prover p = {.m = m};
  bool ok = true;
  if (l1 && l2) {
    p = prover_new(m, l1);
    Fact2 *known = ARENA_ARRAY(m->arena, Fact2, l2->values.n);
    ok = prove_alone(&p, l2) && prove_ops(&p, l2, NULL, known) && prove_parts(&p, l2, known);
  }
  for (int i = 0; ok && i < nusers; i++) ok = prove_made(&p, users[i], l1 ? l2 : NULL);
  return verdict_of(&p, ok);
}
