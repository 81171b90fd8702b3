/* passes/facts/zero.c - see zero.h. */
#include "passes/facts/zero.h"

struct ZeroUpdates {
  const Func *f;
  const Rule *const *rules;
  Mirrors mirrors;
  const bool *storage; /* by operation */
};

bool zero_is_storage(Module *m, const Op *op) {
  if (op->kind != OP_read || !op_is_of_weight(m, op)) return false;
  const Param *p = module_param(m, module_state(m, op_str(op, AT_name))->param);
  return p && p->trainable;
}

const bool *zero_forms(Arena *a, Module *m, const Func *f) {
  bool *form = ARENA_ARRAY(a, bool, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    form[i] = zero_is_storage(m, op) || (zero_keeps_elements(op->kind) && form[f->values.items[op->in[0]].op]);
  }
  return form;
}

double zero_parts(const Mesh *mesh, const Rule *r, const Strategy *s, uint32_t axes) {
  double parts = 1;
  for (int i = 0; i < s->n; i++)
    if ((axes >> s->picks[i].axis & 1u) && r->factors[s->picks[i].factor].kind == FK_PARALLEL)
      parts *= mesh->axes[s->picks[i].axis].size;
  return parts;
}

uint32_t zero_partial_axes(const Rule *r, const Strategy *s) {
  uint32_t axes = 0;
  for (int i = 0; i < s->n; i++)
    if (r->factors[s->picks[i].factor].kind == FK_LINEAR) axes |= 1u << s->picks[i].axis;
  return axes;
}

bool zero_gather_at_use(Module *m, const Func *f, Strategy *strategies, bool at_use) {
  bool any = false;
  for (size_t i = 0; i < f->ops.n; i++) {
    if (!zero_is_storage(m, &f->ops.items[i])) continue;
    strategies[i].gather_at_use = at_use && strategies[i].n > 0;
    any |= strategies[i].n > 0;
  }
  return any;
}

/* ---- the ZeRO stage of a plan */

/* Returns the operation that accumulates the gradient of a weight, which the weight's update reads; SIZE_MAX if
 * none. */
static size_t gradient_of(const Func *f, const Mirrors *mirrors, size_t storage) {
  for (int i = 0; i < mirrors->nfollowers[storage]; i++) {
    const Op *op = &f->ops.items[mirrors->followers[storage][i]];
    for (int k = 0; k < op->nin; k++)
      if (zero_is_gradient(op_of(f, op->in[k]))) return (size_t)f->values.items[op->in[k]].op;
  }
  return SIZE_MAX;
}

static int stage_of(const Mesh *mesh, const Rule *const *rules, const Strategy *strategies, uint32_t data,
                    size_t storage, size_t gradient) {
  if (zero_parts(mesh, rules[storage], &strategies[storage], data) == 1) return 0;
  if (strategies[storage].gather_at_use) return ZERO_AT_USE;
  return gradient != SIZE_MAX && zero_parts(mesh, rules[gradient], &strategies[gradient], data) > 1 ? 2 : 1;
}

int zero_stage(Module *m, const Mesh *mesh, const Func *f, const Rule *const *rules, const Strategy *strategies,
               uint32_t data, const Mirrors *mirrors) {
  double elements[ZERO_STAGES] = {0};
  for (size_t i = 0; data && i < f->ops.n; i++) {
    int64_t dims[MAX_RANK];
    double n = 1;
    if (!zero_is_storage(m, &f->ops.items[i]) || !type_constant_dims(type_of(f, f->ops.items[i].out), dims)) continue;
    for (int d = 0; d < type_of(f, f->ops.items[i].out)->rank; d++) n *= (double)dims[d];
    elements[stage_of(mesh, rules, strategies, data, i, gradient_of(f, mirrors, i))] += n;
  }
  int most = 0;
  for (int z = 1; z < ZERO_STAGES; z++)
    if (elements[z] > elements[most]) most = z;
  return most;
}

/* ---- updates */

ZeroUpdates *zero_updates(Arena *a, Module *m, const Func *f, const Rule *const *rules) {
  ZeroUpdates *u = ARENA_NEW(a, ZeroUpdates);
  bool *storage = ARENA_ARRAY(a, bool, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++) storage[i] = zero_is_storage(m, &f->ops.items[i]);
  Loops *loops = ARENA_NEW(a, Loops);
  *loops = loops_of(a, f);
  *u = (ZeroUpdates){f, rules, mirrors_of(a, f, rules, loops, NULL, NULL), storage};
  return u;
}

const Mirrors *zero_mirrors(const ZeroUpdates *u) { return &u->mirrors; }

static bool is_update(const ZeroUpdates *u, size_t op) {
  return u->mirrors.head[op] != op && u->storage[u->mirrors.head[op]];
}

ZeroRole zero_role(const ZeroUpdates *u, size_t op) {
  if (u->storage[op]) return ZERO_STORE;
  if (is_update(u, op)) return ZERO_UPDATE;
  return zero_is_gradient(&u->f->ops.items[op]) ? ZERO_GRAD : ZERO_OP;
}

bool zero_follows(const ZeroUpdates *u, const Mesh *mesh, size_t op, const Strategy *strategies, Strategy *out) {
  if (!is_update(u, op)) return false;
  *out = mirror_strategy(mesh, u->rules[op], u->mirrors.factors[op], &strategies[u->mirrors.head[op]]);
  return true;
}
