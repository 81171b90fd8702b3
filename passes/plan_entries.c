/* passes/plan_entries.c - see plan_entries.h. */
#include "passes/plan_entries.h"

#include <string.h>

/* Weights, states and inputs correspond by the symbol they name, everything else by the operation's name. */
static bool corresponds(const Op *a, const Op *b) {
  if (a->kind != b->kind) return false;
  const char *x = op_str(a, AT_name), *y = op_str(b, AT_name);
  if (x && y) return strcmp(x, y) == 0;
  return strcmp(a->name, b->name) == 0;
}

static int counterpart(const Func *f, const Op *op, size_t near) {
  /* The same graph has its operations at the same places: look there first. */
  if (near < f->ops.n && corresponds(&f->ops.items[near], op)) return (int)near;
  for (size_t i = 0; i < f->ops.n; i++)
    if (corresponds(&f->ops.items[i], op)) return (int)i;
  return -1;
}

/* The same picks by factor name; picks the other rule does not allow are dropped. */
static Strategy carry(Module *m, const Rule *from, const Strategy *s, const Rule *to) {
  Strategy out = {0};
  for (int i = 0; i < s->n; i++) {
    int f = rule_factor_find(to, from->factors[s->picks[i].factor].name);
    if (f < 0) continue;
    out.picks[out.n++] = (Pick){s->picks[i].axis, (uint8_t)f};
    if (!strategy_legal(m, to, &out, NULL)) out.n--;
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

int plan_carry(Module *m, const Func *planned, const Strategy *strategies, const int *stages, const Func *other, Strategy *out_strategies,
               int *out_stages) {
  int without = 0;
  for (size_t i = 0; i < other->ops.n; i++) {
    const Op *op = &other->ops.items[i];
    int twin = counterpart(planned, op, i);
    out_strategies[i] = (Strategy){0};
    out_stages[i] = stage_after_operands(other, op, out_stages);
    if (twin < 0) {
      without++;
      continue;
    }
    const Op *t = &planned->ops.items[twin];
    out_strategies[i] = carry(m, rule_of(m, planned, t), &strategies[twin], rule_of(m, other, op));
    /* A value never goes back to an earlier stage. */
    if (stages[twin] > out_stages[i]) out_stages[i] = stages[twin];
  }
  return without;
}
