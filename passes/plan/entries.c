/* passes/plan/entries.c - see entries.h. */
#include "passes/plan/entries.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/joint.h"
#include "ir/loops.h"
#include "ir/named.h"
#include "ir/states.h"
#include "passes/cost/cost.h"

/* True if operations correspond: weights, states and inputs by the symbol they name, all others by the operation's
 * name. */
static bool corresponds(const Op *a, const Op *b) {
  if (a->kind != b->kind) return false;
  const char *x = op_str(a, AT_name), *y = op_str(b, AT_name);
  if (x && y) return strcmp(x, y) == 0;
  return strcmp(a->name, b->name) == 0;
}

/* True if one function only reads the state and the other only writes it. */
static bool is_same_state(const Op *a, const Op *b) {
  bool states = op_is_state(a->kind) && op_is_state(b->kind) && a->kind != b->kind;
  return states && strcmp(op_str(a, AT_name), op_str(b, AT_name)) == 0;
}

/* An operation that names a symbol: a weight, a state, an input. */
typedef struct Symbolic {
  const char *symbol;
  size_t op;
} Symbolic;

/* The operations of a function, indexed for finding counterparts. */
typedef struct Twins {
  const Func *f;
  NamedOps names;
  Symbolic *symbols; /* by symbol, then in the function's order */
  size_t nsymbols;
} Twins;

static int by_symbol(const void *x, const void *y) {
  const Symbolic *a = x, *b = y;
  int order = strcmp(a->symbol, b->symbol);
  return order ? order : (a->op > b->op) - (a->op < b->op);
}

static Twins twins_of(Arena *a, const Func *f) {
  Twins t = {.f = f, .names = named_ops(a, f), .symbols = ARENA_ARRAY(a, Symbolic, f->ops.n + 1)};
  for (size_t i = 0; i < f->ops.n; i++) {
    const char *symbol = op_str(&f->ops.items[i], AT_name);
    if (symbol) t.symbols[t.nsymbols++] = (Symbolic){symbol, i};
  }
  if (t.nsymbols) qsort(t.symbols, t.nsymbols, sizeof *t.symbols, by_symbol);
  return t;
}

/* Returns the first with that symbol; `nsymbols` if none. */
static size_t first_with(const Twins *t, const char *symbol) {
  size_t low = 0, high = t->nsymbols;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (strcmp(t->symbols[middle].symbol, symbol) < 0) low = middle + 1;
    else high = middle;
  }
  return low < t->nsymbols && strcmp(t->symbols[low].symbol, symbol) == 0 ? low : t->nsymbols;
}

static bool has_symbol(const Twins *t, size_t i, const char *symbol) {
  return i < t->nsymbols && strcmp(t->symbols[i].symbol, symbol) == 0;
}

/* A weight may be read several times, for different users: prefers the read of the same name. */
static int twin_by_symbol(const Twins *t, const Op *op, const char *symbol) {
  const Op *ops = t->f->ops.items;
  int found = -1;
  for (size_t k = first_with(t, symbol); has_symbol(t, k, symbol); k++) {
    if (!corresponds(&ops[t->symbols[k].op], op)) continue;
    if (strcmp(ops[t->symbols[k].op].name, op->name) == 0) return (int)t->symbols[k].op;
    if (found < 0) found = (int)t->symbols[k].op;
  }
  for (size_t k = first_with(t, symbol); found < 0 && has_symbol(t, k, symbol); k++)
    if (is_same_state(&ops[t->symbols[k].op], op)) return (int)t->symbols[k].op;
  return found;
}

static int counterpart(const Twins *t, const Op *op, size_t near) {
  const Op *ops = t->f->ops.items;
  const char *symbol = op_str(op, AT_name);
  for (size_t k = op_is_state(op->kind) ? first_with(t, symbol) : t->nsymbols; has_symbol(t, k, symbol); k++)
    if (ops[t->symbols[k].op].kind == OP_read) return (int)t->symbols[k].op; /* it declares the stage */
  /* Equal graphs have their operations at the same places, so this place is tried first. */
  if (near < t->f->ops.n && corresponds(&ops[near], op) && strcmp(ops[near].name, op->name) == 0) return (int)near;
  if (symbol) return twin_by_symbol(t, op, symbol);
  size_t named = named_op(&t->names, op->name);
  return named != SIZE_MAX && corresponds(&ops[named], op) ? (int)named : -1;
}

/* Returns the write of an input, whose layout the input then has; NULL if the input is not written. */
static const Op *written_to(const Func *f, const Op *input) {
  for (size_t i = 0; i < f->ops.n && input->kind == OP_input; i++)
    if (f->ops.items[i].kind == OP_write && f->ops.items[i].in[0] == input->out) return &f->ops.items[i];
  return NULL;
}

/* Returns the same picks by factor name, without picks that the other rule does not allow. */
static Strategy carry(Module *m, const Rule *from, const Strategy *s, const Rule *to) {
  Strategy out = {.gather_at_use = s->gather_at_use};
  for (int i = 0; i < s->n; i++) {
    int f = rule_factor_find(to, from->factors[s->picks[i].factor].name);
    if (f < 0) continue;
    out.picks[out.n++] = (Pick){s->picks[i].axis, (uint8_t)f};
    if (!strategy_legal(&m->mesh, to, &out, NULL)) out.n--;
  }
  return out;
}

/* Returns the factor by which the axis splits operand `k`, as its maker leaves it; -1 if none. */
static int factor_of_operand(Module *m, const Func *f, const Strategy *made, const Op *op, const Rule *r, int k,
                             int axis) {
  const Op *maker = op_of(f, op->in[k]);
  const Rule *rule = rule_of(m, f, maker);
  const Layout *l = strategy_result(m, rule, &made[maker - f->ops.items], value_index(f, op->in[k]));
  for (int d = 0; d < l->rank; d++)
    for (int i = 0; i < l->dims[d].n; i++)
      if (l->dims[d].axes[i] == axis && r->operands[k].dims[d].n) return r->operands[k].dims[d].f[0];
  const bool accumulates = op->kind == OP_accumulate && m->mesh.axes[axis].temporal;
  for (int i = 0; i < r->nfactors && (l->partial_axes >> axis & 1u); i++)
    if (r->factors[i].operands >> k & 1u && (!accumulates || r->factors[i].kind == FK_ACCUMULATE)) return i;
  return -1;
}

static bool accumulates_any(const Func *f) {
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == OP_accumulate) return true;
  return false;
}

/* Splits over micro-batches cannot be joined again, so an operation without a counterpart is split by them like its
 * operands.  In the evaluation of training, where these operations read logits, also by all other axes. */
static Strategy cut_as_operands(Module *m, const Func *f, bool all, const Strategy *made, const Op *op) {
  const Rule *r = rule_of(m, f, op);
  Strategy out = {0};
  for (int a = 0; a < m->mesh.naxes; a++) {
    const int before = out.n;
    for (int k = 0; (all || m->mesh.axes[a].temporal) && k < op->nin && out.n == before; k++) {
      int factor = factor_of_operand(m, f, made, op, r, k, a);
      if (factor < 0) continue;
      out.picks[out.n++] = (Pick){(uint8_t)a, (uint8_t)factor};
      if (!strategy_legal(&m->mesh, r, &out, NULL)) out.n--;
    }
  }
  return out;
}

static int stage_after_operands(const Func *f, const Op *op, const int *stages) {
  int stage = 0;
  for (int k = 0; k < op->nin; k++) {
    int s = stages[f->values.items[op->in[k]].op];
    if (s > stage) stage = s;
  }
  return stage;
}

typedef struct Carrying {
  const Twins *twins; /* of the planned function */
  const Func *other;
  const int *stages; /* of the planned function */
  int *out_stages;
} Carrying;

static int later(int a, int b) { return a > b ? a : b; }

static int twin_stage(const Carrying *c, size_t i) {
  int twin = counterpart(c->twins, &c->other->ops.items[i], i);
  return twin < 0 ? 0 : c->stages[twin];
}

/* Returns the stage of an outermost loop: the latest of its operations, so that none of them moves to an earlier
 * one. */
static int loop_stage(const Carrying *c, const Loop *l) {
  int stage = 0;
  for (size_t i = l->begin; i < l->end; i++) {
    const Op *op = &c->other->ops.items[i];
    if (!op_is_source(op->kind)) stage = later(stage, twin_stage(c, i));
    for (int k = 0; k < op->nin; k++) {
      size_t made = (size_t)c->other->values.items[op->in[k]].op;
      if (made < l->begin) stage = later(stage, c->out_stages[made]);
    }
  }
  return stage;
}

int plan_carry(Module *m, const Func *planned, const Strategy *strategies, const int *stages, const Func *other,
               Strategy *out_strategies, int *out_stages) {
  int without = 0, stage = 0;
  const bool all = accumulates_any(other);
  Arena *scratch = arena_new();
  Loops loops = loops_of(scratch, other);
  const Twins twins = twins_of(scratch, planned);
  Carrying c = {&twins, other, stages, out_stages};
  for (size_t i = 0; i < other->ops.n; i++) {
    const Op *op = &other->ops.items[i];
    int twin = counterpart(&twins, op, i);
    const Op *state = twin < 0 ? written_to(other, op) : NULL;
    if (state) twin = counterpart(&twins, state, i);
    out_strategies[i] = twin < 0 ? cut_as_operands(m, other, all, out_strategies, op) : (Strategy){0};
    int inside = op->kind == OP_leave ? loops_reads_in(&loops, other, i) : loops.of[i],
        around = loops_entered(&loops, inside, -1);
    if (around >= 0 && loops.items[around].begin == i) stage = loop_stage(&c, &loops.items[around]);
    out_stages[i] = around >= 0 && !op_is_source(op->kind) ? stage : stage_after_operands(other, op, out_stages);
    without += twin < 0;
    if (twin >= 0) {
      out_strategies[i] =
          carry(m, rule_of(m, planned, &planned->ops.items[twin]), &strategies[twin], rule_of(m, other, op));
      /* A value never goes back to an earlier stage. */
      out_stages[i] = later(out_stages[i], stages[twin]);
    }
    if (op->kind == OP_leave) out_strategies[i] = out_strategies[other->values.items[op->in[0]].op]; /* as its carry */
  }
  arena_free(scratch);
  return without;
}

double plan_carried_seconds(Module *m, const Func *planned, const Target *t, const Plan *p, const Func *other) {
  Arena *a = arena_new();
  Strategy *strategies = ARENA_ARRAY(a, Strategy, other->ops.n + 1);
  int *stages = ARENA_ARRAY(a, int, other->ops.n + 1);
  plan_carry(m, planned, p->strategies, p->stages, other, strategies, stages);
  CostModel *c = cost_model_new(m, t);
  const PlanPrice price = cost_plan(c, m, other, (const Rule *const *)rules_of(m, other), strategies, stages);
  cost_model_free(c);
  arena_free(a);
  return price.possible ? price.time.total : INFINITY;
}

/* ---- joint planning */

static void find_degrees(CostModel *c, const Func *joint, int entry, const Rule *const *rules, const OpLabels *labels,
                         const Plan *p, int degree[DEGREE_COUNT]) {
  const JointEntry *e = &joint->joint->entries[entry];
  const size_t n = e->f->ops.n;
  Arena *scratch = arena_new();
  const Rule **own_rules = ARENA_ARRAY(scratch, const Rule *, n + 1);
  OpLabels *own_labels = ARENA_ARRAY(scratch, OpLabels, n + 1);
  Strategy *own = ARENA_ARRAY(scratch, Strategy, n + 1);
  for (size_t i = 0; i < n; i++)
    own_rules[i] = rules[e->at[i]], own_labels[i] = labels[e->at[i]], own[i] = p->strategies[e->at[i]];
  const Shares shares = shares_of(c, e->f, own_rules, own_labels, own);
  degrees_of(&p->mesh, &shares, degree);
  arena_free(scratch);
}

const PlanEntry *plan_entries(Module *m, const Func *joint, const Target *t, const Plan *p) {
  const int n = joint->joint->n;
  PlanEntry *out = ARENA_ARRAY(m->arena, PlanEntry, n);
  PlanPrice *prices = ARENA_ARRAY(m->arena, PlanPrice, n);
  const Rule *const *rules = (const Rule *const *)rules_of(m, joint);
  const OpLabels *labels = labels_of(m, joint, rules);
  CostModel *c = cost_model_new(m, t);
  cost_plan_entries(c, m, joint, rules, p->strategies, p->stages, prices);
  for (int e = 0; e < n; e++) {
    const JointEntry *entry = &joint->joint->entries[e];
    out[e] = (PlanEntry){.name = entry->f->name, .calls = entry->calls, .price = prices[e]};
    find_degrees(c, joint, e, rules, labels, p, out[e].degree);
  }
  cost_model_free(c);
  return out;
}

const Layout *plan_state_layout(Module *m, const Func *f, size_t op, const Rule *const *rules,
                                const Strategy *strategies) {
  const bool read = f->ops.items[op].kind == OP_read;
  return (read ? strategy_result : strategy_operand)(m, rules[op], &strategies[op], 0);
}

bool plan_states_agree(Module *m, const Func *joint, const Rule *const *rules, const Strategy *strategies,
                       const int *stages, size_t *a, size_t *b) {
  Arena *scratch = arena_new();
  const StateOps states = state_ops(scratch, joint);
  bool agree = true;
  for (size_t i = 0; joint->joint && i < joint->ops.n && agree; i++) {
    const size_t next = states.next[i];
    if (next == SIZE_MAX) continue;
    agree = stages[i] == stages[next] &&
            plan_state_layout(m, joint, i, rules, strategies) == plan_state_layout(m, joint, next, rules, strategies);
    if (!agree) *a = i, *b = next;
  }
  arena_free(scratch);
  return agree;
}

/* Carries an entry's plan to all operations of the joint function. */
static void carry_to_all(Module *m, const Func *joint, int entry, const Plan *alone, Strategy *strategies,
                         int *stages) {
  const JointEntry *from = &joint->joint->entries[entry];
  Arena *scratch = arena_new();
  for (int e = 0; e < joint->joint->n; e++) {
    const JointEntry *to = &joint->joint->entries[e];
    Strategy *own = ARENA_ARRAY(scratch, Strategy, to->f->ops.n + 1);
    int *at = ARENA_ARRAY(scratch, int, to->f->ops.n + 1);
    if (e != entry) plan_carry(m, from->f, alone->strategies, alone->stages, to->f, own, at);
    for (size_t i = 0; i < to->f->ops.n; i++) {
      strategies[to->at[i]] = e == entry ? alone->strategies[i] : own[i];
      stages[to->at[i]] = e == entry ? alone->stages[i] : at[i];
    }
  }
  arena_free(scratch);
}

Plan *plan_from_entry(Module *m, const Func *joint, const Target *t, int entry, const Plan *alone, const Plan *like) {
  const Mesh before = m->mesh;
  Strategy *strategies = ARENA_ARRAY(m->arena, Strategy, joint->ops.n + 1);
  int *stages = ARENA_ARRAY(m->arena, int, joint->ops.n + 1);
  Plan *p = ARENA_NEW(m->arena, Plan);
  *p = *like;
  p->mesh = alone->mesh, p->micro_batches = alone->micro_batches, p->one_batch = alone->one_batch;
  p->strategies = strategies, p->stages = stages;
  p->nalternatives = p->nnear = 0;
  module_set_mesh(m, &p->mesh);
  carry_to_all(m, joint, entry, alone, strategies, stages);
  const Rule *const *rules = (const Rule *const *)rules_of(m, joint);
  CostModel *c = cost_model_new(m, t);
  p->price = cost_plan(c, m, joint, rules, strategies, stages);
  size_t a, b;
  p->price.possible &= plan_states_agree(m, joint, rules, strategies, stages, &a, &b);
  const Shares shares = shares_of(c, joint, rules, labels_of(m, joint, rules), strategies);
  degrees_of(&p->mesh, &shares, p->degree);
  cost_model_free(c);
  module_set_mesh(m, &before);
  return p;
}
