/* passes/facts/labels.c - labels flow from the inputs through dimensions and factors.
 *
 * Seeds: a dimension of an input or state whose symbol has a name of a batch, a sequence or experts; without a named
 * batch, dimension 0 of an input of two or more dimensions (or dimension 1, if a loop reads the input row by row at the
 * number of its round: dimension 0 is then the sequence); dimension 1 of a matrix of integers (token ids) is the
 * sequence, bound or not.  A dimension that was merged from several keeps the list of its parts, so that a later split
 * restores them.  A constant number of experts has no symbol; a weight that the model declares as one of experts then
 * shows which dimension they are.  Labels only grow (other < expert < sequence < batch), forwards and backwards over
 * the function until nothing changes; backwards, because only the use of a bias's broadcast shows what its new
 * dimensions are.  Weights keep their declared labels.
 */
#include "passes/facts/labels.h"

#include <string.h>

#include "base/hash.h"

/* Labels; small, because every dimension and factor of a function has some. */
typedef struct Parts {
  uint8_t n, items[MAX_DIM_FACTORS];
} Parts;

typedef struct Flow {
  Module *m;
  const Func *f;
  const Rule *const *rules;
  Parts **values;  /* by value and dimension */
  Parts **factors; /* by operation and factor */
  bool changed;
} Flow;

static const char *const names[LABEL_COUNT] = {"none", "other", "expert", "sequence", "batch"};
const char *label_name(Label l) { return names[l]; }

bool labels_include(const OpLabels *labels, const Rule *r, Label l) {
  for (int i = 0; i < r->nfactors; i++)
    if (labels->factors[i] == l) return true;
  return false;
}

/* True if the inputs of a rule are equal: kind, attributes except names of sources, types, and which operands are zeros
 * (ir/layout/rule_make.h). */
static bool same_rule(const Func *f, const Op *x, const Op *y) {
  if (x->kind != y->kind || x->nin != y->nin || x->nout != y->nout || x->nattrs != y->nattrs) return false;
  for (int i = 0; i < x->nin; i++)
    if (type_of(f, x->in[i]) != type_of(f, y->in[i]) ||
        op_is_zeros(op_of(f, x->in[i])) != op_is_zeros(op_of(f, y->in[i])))
      return false;
  for (int i = 0; i < x->nout; i++)
    if (type_of(f, x->out + (Val)i) != type_of(f, y->out + (Val)i)) return false;
  for (int i = 0; i < x->nattrs; i++)
    if (!(op_is_source(x->kind) && x->attrs[i].key == AT_name) && !attr_equal(&x->attrs[i], &y->attrs[i])) return false;
  return true;
}

static uint64_t made_from(const Func *f, const Op *op) {
  uint64_t h = hash64_mix((uint64_t)op->kind, (uint64_t)op->nin);
  for (int i = 0; i < op->nin; i++) h = hash64_mix(h, (uint64_t)(uintptr_t)type_of(f, op->in[i]));
  for (int i = 0; i < op->nout; i++) h = hash64_mix(h, (uint64_t)(uintptr_t)type_of(f, op->out + (Val)i));
  return h;
}

/* Layers share rules: an operation takes the rule of the last one with an equal hash if the two are equal. */
const Rule **rules_of(Module *m, const Func *f) {
  const Rule **rules = ARENA_ARRAY(m->arena, const Rule *, f->ops.n);
  Arena *scratch = arena_new();
  enum { SLOTS = 1 << 12 };
  size_t *last = ARENA_ARRAY(scratch, size_t, SLOTS); /* by hash: an operation, plus 1 */
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    size_t *slot = &last[made_from(f, op) & (SLOTS - 1)];
    bool known = *slot && same_rule(f, &f->ops.items[*slot - 1], op);
    rules[i] = known ? rules[*slot - 1] : rule_of(m, f, op);
    *slot = i + 1;
  }
  arena_free(scratch);
  return rules;
}

/* ---- seeds */

static bool one_of(const char *name, const char *const *list) {
  for (; *list; list++)
    if (strcmp(name, *list) == 0) return true;
  return false;
}

static Label label_of_name(const char *name) {
  static const char *const batch[] = {"b", "B", "n", "N", "bs", NULL}, *const sequence[] = {"s",   "S",   "t",    "T",
                                                                                            "tgt", "src", "time", NULL},
                           *const expert[] = {"e", "expert", "experts", NULL};
  if (one_of(name, batch) || strstr(name, "batch")) return LABEL_BATCH;
  if (one_of(name, sequence) || strstr(name, "seq")) return LABEL_SEQUENCE;
  return one_of(name, expert) ? LABEL_EXPERT : LABEL_OTHER;
}

static Label label_of_extent(const Module *m, const Expr *e) {
  if (e->kind == EX_SYM) return label_of_name(m->symbols.items[e->value].name);
  Label best = LABEL_OTHER;
  for (int i = 0; i < e->n; i++) {
    Label l = label_of_extent(m, e->args[i]);
    if (l > best) best = l;
  }
  return best;
}

static void seed(Flow *w, const Op *op) {
  const Type *t = type_of(w->f, op->out);
  Parts *dims = w->values[op->out];
  bool named = false;
  int first = 0; /* the first dimension that could be the batch */
  while (first + 1 < t->rank && dims[first].n) first++;
  for (int d = 0; d < t->rank; d++) {
    Label l = op->kind == OP_param ? LABEL_OTHER : label_of_extent(w->m, t->dims[d]);
    named |= l == LABEL_BATCH;
    if (l > LABEL_OTHER || !dims[d].n) dims[d] = (Parts){1, {(uint8_t)l}};
  }
  int64_t experts = op->kind == OP_param || op->kind == OP_read ? op_int(op, AT_experts, -1) : -1;
  if (experts >= 0 && experts < t->rank) dims[experts].items[0] = LABEL_EXPERT;
  if (op->kind != OP_input || t->rank < 2) return;
  bool feature = first > 0 && first + 1 == t->rank && dtype_is_float(t->dtype); /* a sequence of vectors has no batch */
  if (!named && !feature && dims[first].items[0] == LABEL_OTHER) dims[first].items[0] = LABEL_BATCH;
  if (t->rank == 2 && !dtype_is_float(t->dtype) && dims[1].items[0] == LABEL_OTHER) dims[1].items[0] = LABEL_SEQUENCE;
}

/* ---- flow */

static void raise(Flow *w, Parts *to, const Parts *from) {
  if (!from->n) return;
  if (to->n != from->n) {
    if (to->n && !(to->n == 1 && to->items[0] <= LABEL_OTHER)) return;
    *to = *from;
    w->changed = true;
    return;
  }
  for (int i = 0; i < to->n; i++) {
    if (from->items[i] <= to->items[i]) continue;
    to->items[i] = from->items[i];
    w->changed = true;
  }
}

/* The n-th part of a dimension belongs to its n-th factor; the last factor gets the rest. */
static void dim_to_factors(Flow *w, Parts *factors, const DimFactors *k, const Parts *dim) {
  if (!dim->n) return;
  if (k->n == 1) {
    raise(w, &factors[k->f[0]], dim);
    return;
  }
  for (int i = 0; i < k->n; i++) {
    Parts one = {1, {dim->items[i < dim->n ? i : dim->n - 1]}};
    raise(w, &factors[k->f[i]], &one);
  }
}

/* A factor without a label keeps its place among the others. */
static void factors_to_dim(Flow *w, const Parts *factors, const DimFactors *k, Parts *dim) {
  static const Parts unknown = {1, {LABEL_OTHER}};
  Parts all = {0};
  bool known = false;
  for (int i = 0; i < k->n; i++) {
    const Parts *parts = factors[k->f[i]].n ? &factors[k->f[i]] : &unknown;
    known |= parts != &unknown;
    for (int j = 0; j < parts->n && all.n < MAX_DIM_FACTORS; j++) all.items[all.n++] = parts->items[j];
  }
  if (known) raise(w, dim, &all);
}

static void flow_op(Flow *w, size_t index, bool backwards) {
  const Op *op = &w->f->ops.items[index];
  const Rule *r = w->rules[index];
  Parts *factors = w->factors[index];
  for (int i = 0; i < op->nin; i++)
    for (int d = 0; d < r->operands[i].rank; d++)
      dim_to_factors(w, factors, &r->operands[i].dims[d], &w->values[op->in[i]][d]);
  for (int i = 0; i < op->nout; i++)
    for (int d = 0; d < r->results[i].rank; d++)
      dim_to_factors(w, factors, &r->results[i].dims[d], &w->values[op->out + (Val)i][d]);
  for (int i = 0; i < op->nout && op->kind != OP_param; i++)
    for (int d = 0; d < r->results[i].rank; d++)
      factors_to_dim(w, factors, &r->results[i].dims[d], &w->values[op->out + (Val)i][d]);
  for (int i = 0; backwards && i < op->nin; i++)
    if (op_of(w->f, op->in[i])->kind != OP_param)
      for (int d = 0; d < r->operands[i].rank; d++)
        factors_to_dim(w, factors, &r->operands[i].dims[d], &w->values[op->in[i]][d]);
}

static void flow_all(Flow *w) {
  do {
    w->changed = false;
    for (size_t i = 0; i < w->f->ops.n; i++) flow_op(w, i, false);
    for (size_t i = w->f->ops.n; i-- > 0;) flow_op(w, i, true);
  } while (w->changed);
}

/* ---- loops: values that are read or written at the number of the round */

static void seed_scanned(Flow *w, size_t index, const bool *rounds) {
  const Op *op = &w->f->ops.items[index];
  int place = op->kind == OP_gather ? 1 : op->kind == OP_update ? 2 : -1;
  if (place < 0 || !rounds[op->in[place]]) return;
  const Rule *r = w->rules[index];
  const DimFactors *k = &r->operands[0].dims[op_int(op, AT_axis, 0)];
  if (k->n == 1) raise(w, &w->factors[index][k->f[0]], &(Parts){1, {LABEL_SEQUENCE}});
}

static void find_scanned(Flow *w, Arena *scratch) {
  bool *rounds = ARENA_ARRAY(scratch, bool, w->f->values.n), any = false; /* made of the round */
  for (size_t i = 0; i < w->f->ops.n; i++) {
    const Op *op = &w->f->ops.items[i];
    for (Val v = op->out; v < op_end(op); v++) {
      if (type_of(w->f, v)->rank) continue;
      for (int k = 0; k < op->nin; k++) rounds[v] |= rounds[op->in[k]] && op->kind != OP_gather && op->kind != OP_take;
      rounds[v] |= op->kind == OP_loop;
      any |= rounds[v];
    }
  }
  for (size_t i = 0; any && i < w->f->ops.n; i++) seed_scanned(w, i, rounds);
  if (any) flow_all(w);
}

const OpLabels *labels_of(Module *m, const Func *f, const Rule *const *rules) {
  Arena *scratch = arena_new();
  Flow w = {.m = m, .f = f, .rules = rules};
  w.values = ARENA_ARRAY(scratch, Parts *, f->values.n);
  w.factors = ARENA_ARRAY(scratch, Parts *, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    w.factors[i] = ARENA_ARRAY(scratch, Parts, rules[i]->nfactors);
    for (Val v = op->out; v < op_end(op); v++) w.values[v] = ARENA_ARRAY(scratch, Parts, type_of(f, v)->rank);
  }
  find_scanned(&w, scratch);
  for (size_t i = 0; i < f->ops.n; i++) {
    if (op_is_declared(f->ops.items[i].kind)) seed(&w, &f->ops.items[i]);
  }
  flow_all(&w);
  OpLabels *out = ARENA_ARRAY(m->arena, OpLabels, f->ops.n);
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; k < rules[i]->nfactors; k++) {
      uint8_t l = w.factors[i][k].n ? w.factors[i][k].items[0] : LABEL_OTHER;
      out[i].factors[k] = !rules[i]->factors[k].size ? LABEL_NONE : l == LABEL_NONE ? LABEL_OTHER : l;
    }
  arena_free(scratch);
  return out;
}
