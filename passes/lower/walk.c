/* passes/lower/walk.c - see walk.h. */
#include "passes/lower/walk.h"

#include <string.h>

#include "base/die.h"
#include "passes/lower/walk_internal.h"

/* ---- the rules */

WalkSupply walk_supply(const Op *maker, bool derived, const Layout *wanted) {
  if (op_is_anywhere(maker) && !wanted->partial_axes) return SUPPLY_ANYWHERE;
  if (op_is_source(maker->kind) && maker->kind != OP_read) return SUPPLY_SOURCE;
  return derived ? SUPPLY_AGAIN : SUPPLY_SENT;
}

const Layout *walk_travel(Module *m, const Type *global, const Layout *produced, const Layout *wanted) {
  bool first = produced->partial_axes || layout_bytes(m, global, wanted) <= layout_bytes(m, global, produced);
  return first ? wanted : produced;
}

const Layout *walk_output(Module *m, const Layout *produced) {
  if (!produced->partial_axes) return produced;
  Layout whole = *produced;
  whole.partial_axes = 0;
  return layout_get(m, &whole);
}

bool walk_layout_once(const Module *m, const Layout *layout) {
  return mesh_micro_batches(&m->mesh) > 1 && !layout_over_time(&m->mesh, layout);
}

static bool picked_before(const Strategy *s, int pick) {
  for (int i = 0; i < pick; i++)
    if (s->picks[i].factor == s->picks[pick].factor) return true;
  return false;
}

static uint32_t axes_of_factor(const Strategy *s, int factor) {
  uint32_t axes = 0;
  for (int i = 0; i < s->n; i++)
    if (s->picks[i].factor == factor) axes |= 1u << s->picks[i].axis;
  return axes;
}

/* *at counts positions: for each pick the dimensions of the operand. */
bool walk_window(const Rule *r, const Strategy *s, int operand, int *at, WalkWindow *out) {
  const TensorFactors *x = &r->operands[operand];
  for (; *at < s->n * MAX_RANK; (*at)++) {
    int pick = *at / MAX_RANK, d = *at % MAX_RANK, factor = s->picks[pick].factor;
    if (r->factors[factor].kind != FK_HALO || d >= x->rank) {
      *at = pick * MAX_RANK + MAX_RANK - 1;
      continue;
    }
    if (!x->dims[d].n || x->dims[d].f[0] != factor || picked_before(s, pick)) continue;
    *out = (WalkWindow){factor, d, axes_of_factor(s, factor)};
    (*at)++;
    return true;
  }
  return false;
}

/* ---- versions */

int walk_stage(const WalkScope *s, size_t op) { return s->stages ? s->stages[op] : s->stage; }

static Phase phase_of_op(const WalkScope *s, size_t index) { return s->f->ops.items[index].phase; }

/* The phase of the current reader.  Gradients of weights share converted and recomputed values with those of data.
 */
static Phase phase_now(const Walk *w, const WalkScope *s) {
  Phase p = phase_of_op(s, w->now);
  return p == PH_wgt ? PH_bwd : p;
}

/* True if versions of the results of operation number `index` are made once, before all micro-batches.  Values of phase
 * `step` are not: they would have to be kept until then. */
static bool is_once(const Walk *w, const WalkScope *s, size_t index, const Layout *layout) {
  const Op *op = &s->f->ops.items[index];
  bool once = s->once && s->once[index] && op->phase != PH_step && s->loop < 0 && walk_layout_once(w->m, layout);
  for (int i = 0; i < op->nout && once && !op_is_source(op->kind); i++)
    once = walk_layout_once(w->m, strategy_result(w->m, s->rules[index], &s->strategies[index], i));
  return once;
}

/* True if the current reader, in that stage, sees only recomputed results of the operation. */
static bool is_again(const Walk *w, const WalkScope *s, size_t index, int stage) {
  return s->again && s->strategies[index].again && !w->sending && w->now < s->f->ops.n && phase_now(w, s) == PH_bwd &&
         stage == walk_stage(s, index) && !is_once(w, s, index, walk_produced(w, s, index, 0));
}

/* Returns the versions that the current reader sees in that stage. */
static Versions *versions_seen(const Walk *w, const WalkScope *s, Val value, int stage) {
  if (w->summed) return &s->sums[value];
  return &(is_again(w, s, (size_t)s->f->values.items[value].op, stage) ? s->again : s->versions)[value];
}

Val walk_find(const Walk *w, const WalkScope *s, Val value, const Layout *layout, int stage) {
  const Versions *v = versions_seen(w, s, value, stage);
  for (size_t i = 0; i < v->n; i++) {
    const Version *x = &v->items[i];
    bool visible =
        (!s->loops || loops_within(s->loops, s->loop, x->loop)) && (x->segment < 0 || x->segment == s->segment);
    if (x->layout == layout && x->stage == stage && visible) return x->v;
  }
  return 0;
}

void walk_add(Walk *w, const WalkScope *s, Val value, const Layout *layout, int stage, int loop, Val v) {
  ARENA_PUSH(w->arena, versions_seen(w, s, value, stage), ((Version){layout, stage, loop, -1, v}));
}

/* Records a version made in the current loop. */
static Val add_here(Walk *w, const WalkScope *s, Val value, const Layout *layout, int stage, Val v) {
  if (v) walk_add(w, s, value, layout, stage, s->loop, v);
  return v;
}

/* The phase in which operation number `index` makes a version. */
static Phase phase_of(const Walk *w, const WalkScope *s, size_t index, const Layout *layout) {
  if (s->from) return s->phase;
  if (w->summed) return PH_step;
  if (mesh_micro_batches(&w->m->mesh) == 1) return PH_fwd;
  if (is_again(w, s, index, walk_stage(s, index))) return phase_now(w, s);
  return is_once(w, s, index, layout) ? PH_pre : phase_of_op(s, index);
}

/* The phase of the current reader. */
static Phase reading_phase(const Walk *w, const WalkScope *s) {
  if (s->from) return s->phase;
  if (mesh_micro_batches(&w->m->mesh) == 1) return PH_fwd;
  if (w->sending) return PH_fwd;
  if (w->now < s->f->ops.n) return phase_now(w, s);
  Phase last = PH_fwd; /* for outputs */
  for (size_t i = 0; i < s->f->ops.n; i++)
    if (s->f->ops.items[i].phase == PH_step) last = PH_step;
  return last;
}

/* The phase in which a version in layout `from`, made by operation number `index`, is converted to `to`. */
static Phase conversion_phase(const Walk *w, const WalkScope *s, size_t index, const Layout *from, const Layout *to) {
  const Op *op = &s->f->ops.items[index];
  if (w->summed) return PH_step;
  if (is_once(w, s, index, from) && is_once(w, s, index, to)) return PH_pre;
  Phase made = op->kind == OP_accumulate ? PH_step : phase_of(w, s, index, from), read = reading_phase(w, s);
  return made > read && mesh_micro_batches(&w->m->mesh) > 1 ? made : read;
}

static const Layout *form_of(const Walk *w, const Layout *l) { return w->sink->form ? w->sink->form(w, l) : l; }

const Layout *walk_operand(const Walk *w, const WalkScope *s, size_t index, int operand) {
  return form_of(w, strategy_operand(w->m, s->rules[index], &s->strategies[index], operand));
}

const WalkScope *walk_outermost(const WalkScope *s) {
  while (s->from) s = s->from;
  return s;
}

const Layout *walk_produced(const Walk *w, const WalkScope *s, size_t index, int result) {
  return form_of(w, strategy_result(w->m, s->rules[index], &s->strategies[index], result));
}

static Val source(Walk *w, const WalkScope *s, const Op *op, const Layout *layout, int stage) {
  w->phase = phase_of(w, s, (size_t)s->f->values.items[op->out].op, layout);
  return add_here(w, s, op->out, layout, stage, w->sink->source(w, s, op, layout, stage, false));
}

/* Returns a version that was sent here in an earlier phase, without partial sums.  Later readers use it, because by
 * then the sending stage does other work. */
static const Version *sent_before(const Walk *w, const WalkScope *s, Val value, int stage) {
  const Versions *v = &s->versions[value];
  size_t index = (size_t)s->f->values.items[value].op;
  if (mesh_micro_batches(&w->m->mesh) == 1 || reading_phase(w, s) <= phase_of(w, s, index, v->produced)) return NULL;
  for (size_t i = 0; i < v->n; i++)
    if (v->items[i].stage == stage && !v->items[i].layout->partial_axes) return &v->items[i];
  return NULL;
}

/* Receives the value from its stage as early as possible.  It travels in one layout, and is converted here if another
 * is wanted. */
static Val send(Walk *w, const WalkScope *s, Val value, const Layout *layout, int stage) {
  const Versions *v = w->summed ? &s->sums[value] : &s->versions[value];
  size_t index = (size_t)s->f->values.items[value].op;
  const Version *before = w->summed ? NULL : sent_before(w, s, value, stage);
  if (before) {
    w->phase = conversion_phase(w, s, index, before->layout, layout);
    return add_here(w, s, value, layout, stage,
                    walk_step(w)->convert(w, s, value, before->v, before->layout, layout, stage));
  }
  const Layout *travel = walk_travel(w->m, type_of(s->f, value), v->produced, layout);
  bool sending = w->sending;
  w->sending = true;
  Val there = walk_want(w, s, value, travel, v->stage);
  w->phase = conversion_phase(w, s, index, v->produced, travel);
  w->sending = sending;
  if (!there) return 0;
  Val here = add_here(w, s, value, travel, stage, walk_step(w)->transfer(w, s, value, there, travel, v->stage, stage));
  return here && travel != layout ? walk_want(w, s, value, layout, stage) : here;
}

Val walk_want(Walk *w, const WalkScope *s, Val value, const Layout *layout, int stage) {
  const Versions *v = versions_seen(w, s, value, stage);
  const Op *op = op_of(s->f, value);
  size_t index = (size_t)s->f->values.items[value].op;
  Val have = walk_find(w, s, value, layout, stage), original;
  if (have) return have;
  WalkSupply supply = walk_supply(op, (s->derived && s->derived[index]) || is_again(w, s, index, stage), layout);
  if (supply == SUPPLY_ANYWHERE) return source(w, s, op, layout, stage);
  original = walk_find(w, s, value, v->produced, stage);
  if (!original && supply == SUPPLY_SOURCE) original = source(w, s, op, v->produced, stage);
  else if (!original && supply == SUPPLY_AGAIN) original = walk_make(w, s, index, value_index(s->f, value), stage);
  else if (!original) return send(w, s, value, layout, stage);
  if (!original || v->produced == layout) return original;
  bool at_use = s->at_use && s->at_use[index] && !w->sending;
  w->phase =
      !at_use || s->segment == SEGMENT_PRE ? conversion_phase(w, s, index, v->produced, layout) : reading_phase(w, s);
  Val made =
      add_here(w, s, value, layout, stage, walk_step(w)->convert(w, s, value, original, v->produced, layout, stage));
  if (at_use && made) s->versions[value].items[s->versions[value].n - 1].segment = s->segment;
  return made;
}

/* ---- states */

/* Returns the place of the state that operation `index` of the function reads or writes. */
static const StatePlace *state_place(Walk *w, size_t index, const Layout *wanted, int stage) {
  size_t *place = &w->place_of[w->state_ops.first[index]];
  if (!*place) {
    ARENA_PUSH(w->arena, &w->states, ((StatePlace){wanted, stage}));
    *place = w->states.n;
  }
  return &w->states.items[*place - 1];
}

static bool make_write(Walk *w, const WalkScope *s, size_t index, int stage) {
  const Op *op = &s->f->ops.items[index];
  const char *name = op_str(op, AT_name);
  size_t known = w->states.n;
  StatePlace place = *state_place(w, index, walk_operand(w, s, index, 0), stage);
  if (w->diags && place.stage != stage)
    return diag_error(w->diags, DIAG_plan_state, (Loc){.node = op->name},
                      "state \"%s\" is read in stage %d and written in stage %d", name, place.stage, stage);
  /* The state is never read here, so a read is emitted to declare its layout. */
  w->phase = reading_phase(w, s);
  if (w->states.n > known && !w->sink->source(w, s, op, place.layout, stage, true)) return false;
  Val v = walk_want(w, s, op->in[0], place.layout, stage);
  w->phase = reading_phase(w, s);
  return v && walk_step(w)->operation(w, s, index, &v, stage);
}

/* ---- operations */

/* True if each micro-batch has its own part of the accumulated value. */
static bool accumulates(const Walk *w, const WalkScope *s, size_t index) {
  const Strategy *st = &s->strategies[index];
  bool any = s->f->ops.items[index].kind != OP_accumulate || mesh_micro_batches(&w->m->mesh) == 1;
  for (int i = 0; i < st->n; i++) any |= s->rules[index]->factors[st->picks[i].factor].kind == FK_ACCUMULATE;
  return any;
}

static bool check_strategy(Walk *w, const WalkScope *s, size_t index) {
  const Op *op = &s->f->ops.items[index];
  const char *why;
  if (strategy_legal(&w->m->mesh, s->rules[index], &s->strategies[index], &why)) {
    if (accumulates(w, s, index)) return true;
    why = "every micro-batch has a part of what is accumulated";
  }
  Text t = {.arena = w->m->arena};
  strategy_print(&w->m->mesh, &t, s->rules[index], &s->strategies[index]);
  return diag_error(w->diags, DIAG_plan_strategy, (Loc){.node = op->name}, "strategy %s of %s: %s", text_str(&t),
                    op_name(op->kind), why);
}

static Val exchange_windows(Walk *w, const WalkScope *s, size_t index, int operand, Val v, int stage) {
  WalkWindow window;
  for (int at = 0; v && walk_window(s->rules[index], &s->strategies[index], operand, &at, &window);)
    v = walk_step(w)->exchange(w, s, index, operand, &window, v, stage);
  return v;
}

Val walk_whole(Walk *w, const WalkScope *s, size_t index, Val *in, int stage) {
  w->phase = phase_of(w, s, index, walk_produced(w, s, index, 0));
  for (int i = 0; i < s->f->ops.items[index].nin; i++)
    if (!(in[i] = exchange_windows(w, s, index, i, in[i], stage))) return 0;
  return walk_step(w)->operation(w, s, index, in, stage);
}

void walk_add_result(Walk *w, const WalkScope *s, size_t index, int result, int stage, Val v) {
  Val value = s->f->ops.items[index].out + (Val)result;
  Versions *out = versions_seen(w, s, value, stage);
  if (!out->produced) {
    out->produced = walk_produced(w, s, index, result);
    out->stage = stage;
  }
  int loop = s->loops && stage == walk_stage(s, index) ? s->loops->of[index] : s->loop;
  walk_add(w, s, value, out->produced, stage, loop, v);
}

Val walk_make(Walk *w, const WalkScope *s, size_t index, int result, int stage) {
  const Op *op = &s->f->ops.items[index];
  const Strategy *st = &s->strategies[index];
  const Rule *r = s->rules[index];
  Val in[MAX_OPERANDS], out[MAX_RESULTS];
  if (w->diags && !check_strategy(w, s, index)) return 0;
  if (op->kind == OP_call) die("calls must be inlined before versions are made");
  w->at = w->reader = op;
  if (op->kind == OP_write) return make_write(w, s, index, stage);
  if (walk_is_late(s, index)) return walk_late(w, s, index, stage);
  for (int i = 0; i < op->nin; i++)
    if (!(in[i] = walk_want(w, s, op->in[i], walk_operand(w, s, index, i), stage))) return 0;
  w->at = w->reader = op;
  w->again = s->from ? w->again : is_again(w, s, index, stage);
  if (strategy_needs_body(r, st)) {
    if (!walk_body(w, s, op, r, st, in, stage, out)) return 0;
  } else {
    if (!(out[0] = walk_whole(w, s, index, in, stage))) return 0;
    for (int i = 1; i < op->nout; i++) out[i] = out[0] + (Val)i;
  }
  w->again &= s->from != NULL;
  for (int i = 0; i < op->nout; i++) walk_add_result(w, s, index, i, stage, out[i]);
  return out[result];
}

bool walk_place(Walk *w, const WalkScope *s, size_t index) {
  const Op *op = &s->f->ops.items[index];
  Versions *v = &s->versions[op->out];
  if (v->produced) return true;
  v->produced = walk_produced(w, s, index, 0);
  v->stage = walk_stage(s, index);
  if (op->kind == OP_read) v->produced = state_place(w, index, v->produced, v->stage)->layout;
  w->at = op;
  /* Inputs and reads exist even if unused, and bodies have one stage; other sources are made for their users. */
  return (!s->from && !op_is_at_entry(op->kind)) || source(w, s, op, v->produced, v->stage);
}

static bool walk_op(Walk *w, WalkScope *s, size_t index) {
  OpKind kind = s->f->ops.items[index].kind;
  w->reader = &s->f->ops.items[index];
  if (op_is_source(kind)) return walk_place(w, s, index);
  if (kind == OP_loop) return walk_loop(w, s, index);
  if (kind == OP_bind) return walk_bind(w, s, index);
  return kind == OP_repeat ? walk_repeat(w, s, index) : walk_make(w, s, index, 0, walk_stage(s, index)) != 0;
}

/* The segment in which operation number `index` reads values that are gathered at use. */
static int segment_of(const Walk *w, const WalkScope *s, size_t index) {
  const Op *op = &s->f->ops.items[index];
  if (op->out && phase_of(w, s, index, walk_produced(w, s, index, 0)) == PH_pre) return SEGMENT_PRE;
  if (op->phase == PH_step) return SEGMENT_STEP;
  return phase_backward(op->phase) ? SEGMENT_GRADIENTS : SEGMENT_FORWARD;
}

static bool walk_ops(Walk *w, WalkScope *s) {
  for (size_t i = 0; i < s->f->ops.n; i++) {
    if (!s->from) w->now = i;
    if (s->loops) s->loop = loops_reads_in(s->loops, s->f, i);
    if (s->at_use) s->segment = segment_of(w, s, i);
    if (!walk_op(w, s, i)) return false;
  }
  s->loop = -1;
  return true;
}

/* Values computed only from weights are gathered at use if one of these weights is. */
static const bool *find_at_use(Walk *w, const WalkScope *s) {
  bool any = false, *at_use = ARENA_ARRAY(w->arena, bool, s->f->ops.n + 1),
       *of_weights = ARENA_ARRAY(w->arena, bool, s->f->ops.n + 1);
  for (size_t i = 0; i < s->f->ops.n; i++) {
    const Op *op = &s->f->ops.items[i];
    of_weights[i] = op->kind == OP_read || op_is_constant(op->kind) || (op->nin && s->once && s->once[i]);
    at_use[i] = op->kind == OP_read && s->strategies[i].gather_at_use;
    for (int k = 0; k < op->nin; k++) {
      size_t made = (size_t)s->f->values.items[op->in[k]].op;
      of_weights[i] &= of_weights[made];
      at_use[i] |= at_use[made];
    }
    at_use[i] &= of_weights[i];
    any |= at_use[i];
  }
  return any ? at_use : NULL;
}

bool walk_function(Walk *w, WalkScope *s) {
  s->versions = ARENA_ARRAY(w->arena, Versions, s->f->values.n);
  s->again = ARENA_ARRAY(w->arena, Versions, s->f->values.n);
  s->at_use = find_at_use(w, s);
  walk_find_late(w, s);
  w->state_ops = state_ops(w->arena, s->f);
  w->place_of = ARENA_ARRAY(w->arena, size_t, s->f->ops.n + 1);
  if (!walk_ops(w, s)) return false;
  w->now = s->f->ops.n;
  for (size_t i = 0; i < s->f->outputs.n; i++) {
    const Output *o = &s->f->outputs.items[i];
    const Versions *v = &s->versions[o->value];
    const Layout *layout = walk_output(w->m, v->produced);
    Val val = walk_want(w, s, o->value, layout, v->stage);
    if (!val) return false;
    w->phase = reading_phase(w, s);
    w->sink->output(w, s, o, val, layout);
  }
  return true;
}

bool walk_body(Walk *w, const WalkScope *outer, const Op *op, const Rule *r, const Strategy *st, const Val *in,
               int stage, Val *out) {
  Body *known = w->sink->open(w, outer, op);
  const Func *f = known->func;
  Strategy *strategies = ARENA_ARRAY(w->arena, Strategy, f->ops.n);
  body_follow(w->m, known, st, strategies);
  WalkScope s = {.f = f,
                 .rules = known->rules,
                 .strategies = strategies,
                 .stage = stage,
                 .versions = ARENA_ARRAY(w->arena, Versions, f->values.n),
                 .from = outer,
                 .composite = op,
                 .loop = -1,
                 .phase = phase_of(w, outer, (size_t)(op - outer->f->ops.items), strategy_result(w->m, r, st, 0))};
  w->sink->enter(w, &s, in);
  int operand = 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    if (f->ops.items[i].kind != OP_input) continue;
    Val value = f->ops.items[i].out;
    s.versions[value].produced = form_of(w, strategy_operand(w->m, r, st, operand));
    s.versions[value].stage = stage;
    add_here(w, &s, value, s.versions[value].produced, stage, in[operand++]);
  }
  bool ok = walk_ops(w, &s);
  for (int i = 0; i < op->nout && ok; i++) {
    const Layout *layout = form_of(w, strategy_result(w->m, r, st, i));
    ok = (out[i] = walk_want(w, &s, f->outputs.items[i].value, layout, stage)) != 0;
  }
  w->phase = s.phase;
  w->sink->leave(w, &s, known, out);
  return ok;
}
