/* passes/plan/entries.c - see entries.h. */
#include "passes/plan/entries.h"

#include <string.h>

#include "ir/loops.h"
#include "passes/cost/cost.h"

/* Weights, states and inputs correspond by the symbol they name, everything else by the operation's name. */
static bool corresponds(const Op *a, const Op *b) {
  if (a->kind != b->kind) return false;
  const char *x = op_str(a, AT_name), *y = op_str(b, AT_name);
  if (x && y) return strcmp(x, y) == 0;
  return strcmp(a->name, b->name) == 0;
}

/* Where a state is only read here and only written there, or the other way round, it is still one state. */
static bool is_same_state(const Op *a, const Op *b) {
  bool states = op_is_state(a->kind) && op_is_state(b->kind) && a->kind != b->kind;
  return states && strcmp(op_str(a, AT_name), op_str(b, AT_name)) == 0;
}

/* A weight may be read several times, by different users: best the read of the same name. */
static int counterpart(const Func *f, const Op *op, size_t near) {
  int found = -1;
  for (size_t i = 0; i < f->ops.n && op_is_state(op->kind); i++)
    if (f->ops.items[i].kind == OP_read && strcmp(op_str(&f->ops.items[i], AT_name), op_str(op, AT_name)) == 0)
      return (int)i; /* it says where the state is kept */
  /* The same graph has its operations at the same places: look there first. */
  if (near < f->ops.n && corresponds(&f->ops.items[near], op) && strcmp(f->ops.items[near].name, op->name) == 0)
    return (int)near;
  for (size_t i = 0; i < f->ops.n; i++) {
    if (!corresponds(&f->ops.items[i], op)) continue;
    if (strcmp(f->ops.items[i].name, op->name) == 0) return (int)i;
    if (found < 0) found = (int)i;
  }
  for (size_t i = 0; i < f->ops.n && found < 0; i++)
    if (is_same_state(&f->ops.items[i], op)) return (int)i;
  return found;
}

/* What an input is written to as it is, it comes in parts as; NULL: it is written to nothing. */
static const Op *written_to(const Func *f, const Op *input) {
  for (size_t i = 0; i < f->ops.n && input->kind == OP_input; i++)
    if (f->ops.items[i].kind == OP_write && f->ops.items[i].in[0] == input->out) return &f->ops.items[i];
  return NULL;
}

/* The same picks by factor name; picks the other rule does not allow are dropped. */
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

/* The factor that the axis cuts operand `k` of the operation by, as its maker leaves it; -1: none. */
static int factor_of_operand(Module *m, const Func *f, const Strategy *made, const Op *op, const Rule *r, int k,
                             int axis) {
  const Op *maker = op_of(f, op->in[k]);
  const Rule *rule = rule_of(m, f, maker);
  const Layout *l = strategy_result(m, rule, &made[maker - f->ops.items], value_index(f, op->in[k]));
  for (int d = 0; d < l->rank; d++)
    for (int i = 0; i < l->dims[d].n; i++)
      if (l->dims[d].axes[i] == axis && r->operands[k].dims[d].n) return r->operands[k].dims[d].f[0];
  for (int i = 0; i < r->nfactors && (l->partial_axes >> axis & 1u); i++)
    if (r->factors[i].operands >> k & 1u) return i;
  return -1;
}

/* What micro-batches cut cannot be made whole again, so an operation without a counterpart is cut by them as its
 * operands are. */
static Strategy cut_as_operands(Module *m, const Func *f, const Strategy *made, const Op *op) {
  const Rule *r = rule_of(m, f, op);
  Strategy out = {0};
  for (int a = 0; a < m->mesh.naxes; a++)
    for (int k = 0; m->mesh.axes[a].temporal && k < op->nin && !out.n; k++) {
      int factor = factor_of_operand(m, f, made, op, r, k, a);
      if (factor < 0) continue;
      out = (Strategy){.n = 1, .picks = {{(uint8_t)a, (uint8_t)factor}}};
      if (!strategy_legal(&m->mesh, r, &out, NULL)) out.n = 0;
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
  const Func *planned, *other;
  const int *stages; /* of the planned function */
  int *out_stages;
} Carrying;

static int later(int a, int b) { return a > b ? a : b; }

static int twin_stage(const Carrying *c, size_t i) {
  int twin = counterpart(c->planned, &c->other->ops.items[i], i);
  return twin < 0 ? 0 : c->stages[twin];
}

/* The stage of a loop that nothing is around: no operation in it has to go back. */
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
  Arena *scratch = arena_new();
  Loops loops = loops_of(scratch, other);
  Carrying c = {planned, other, stages, out_stages};
  for (size_t i = 0; i < other->ops.n; i++) {
    const Op *op = &other->ops.items[i];
    int twin = counterpart(planned, op, i);
    const Op *state = twin < 0 ? written_to(other, op) : NULL;
    if (state) twin = counterpart(planned, state, i);
    out_strategies[i] = twin < 0 ? cut_as_operands(m, other, out_strategies, op) : (Strategy){0};
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
