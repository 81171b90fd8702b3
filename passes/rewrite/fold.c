/* passes/rewrite/fold.c - folds batch norms after convolutions and products into their weights.
 *
 *   conv(x, w) * s + t   becomes   conv(x, w * s) + t'
 *
 * where s and t are weights or constants with one number per channel of the result.  Any chain of additions,
 * subtractions, products and quotients with such operands is one scale and one shift, so a batch norm written as (y -
 * mean) / sqrt(variance + eps) * gamma + beta costs a request only the addition of t'; prepare.c computes w * s and t'
 * at loading.
 *
 * In, out: level-1 functions.  A chain begins at a convolution or product of an activation with a weight and continues
 * while its value has one use; a reshape that merges groups and channels may be in between.  Chains without a scale are
 * left as they are.  Not supported: scales by constants after products (they fuse into later operations, and the weight
 * can stay in its file); 16-bit weights, which would be rounded once more.
 */
#include <string.h>

#include "ir/loops.h"
#include "passes/facts/fixed.h"
#include "passes/rewrite/passes.h"
#include "passes/rewrite/rewrite.h"

enum { MAX_CHAIN = 16 };

typedef struct Chain {
  const Op *first;              /* the convolution or product */
  int weights;                  /* the operand with the weights */
  const Op *merge;              /* a reshape; NULL if none */
  const Op *ops[MAX_CHAIN];     /* elementwise, in order */
  const Op *vectors[MAX_CHAIN]; /* by op: its other operand, a broadcast or a constant */
  bool vector_first[MAX_CHAIN];
  int n;
  const Type *type;                      /* of the values of the elementwise operations */
  int channels[MAX_RANK], nchannels;     /* dimensions of `type` that the weights have */
  int in_weights[MAX_RANK], nin_weights; /* the weights' channel dimensions, in the order of the result */
} Chain;

typedef struct Fold {
  Rewrite r;
  const Fixed *fixed;
  int *uses;          /* by value; outputs count */
  const Op **user;    /* by value: the last operation that uses it */
  const Chain **ends; /* by operation: the chain that ends there */
  bool *inside;       /* by operation: part of a chain, before its end */
  Loops loops;        /* a chain must be in one loop body, because it moves to its end */
} Fold;

static int op_number(const Fold *f, const Op *op) { return (int)(op - f->r.old->ops.items); }
static const Type *type_in(const Fold *f, Val v) { return type_of(f->r.old, v); }

/* ---- finding chains */

/* Returns the letters of part 0, 1 (operands) or 2 (result) of a spec; *n of them. */
static const char *letters(const Op *op, int part, int *n) {
  const char *spec = op_str(op, AT_spec), *start = part == 0   ? spec
                                                   : part == 1 ? strchr(spec, ',') + 1
                                                               : strstr(spec, "->") + 2;
  *n = (int)strcspn(start, part == 0 ? "," : "-");
  return start;
}

/* Finds the dimensions of the result that the weights have, without windowed ones. */
static void find_channels(const Fold *f, Chain *c) {
  int n, m;
  const char *result = letters(c->first, 2, &n), *weights = letters(c->first, c->weights, &m);
  c->type = type_in(f, c->first->out);
  for (int d = 0; d < n; d++) {
    const char *at = memchr(weights, result[d], (size_t)m);
    if (!at || (result[d] >= 'A' && result[d] <= 'Z')) continue;
    c->channels[c->nchannels++] = d;
    c->in_weights[c->nin_weights++] = (int)(at - weights);
  }
}

static bool ascending(const int *list, int n) {
  for (int i = 1; i < n; i++)
    if (list[i] <= list[i - 1]) return false;
  return true;
}

static bool start_chain(const Fold *f, const Op *op, Chain *c) {
  *c = (Chain){.first = op, .weights = -1};
  if (op->kind != OP_conv && op->kind != OP_conv_transpose && op->kind != OP_dot) return false;
  DType t = type_in(f, op->out)->dtype;
  if (t != DT_f32 && t != DT_f64) return false;
  for (int i = 0; i < 2; i++)
    if (fixed_by_weights(f->fixed[op->in[i]]) && f->fixed[op->in[1 - i]] == FIXED_NOT && (i == 1 || op->kind == OP_dot))
      c->weights = i;
  if (c->weights < 0) return false;
  find_channels(f, c);
  return c->nchannels > 0 && ascending(c->in_weights, c->nin_weights);
}

/* True for [n, g, o, H] -> [n, g * o, H]: two neighbouring dimensions of channels become one. */
static bool merges_channels(const Fold *f, const Chain *c, const Op *op) {
  const Type *to = type_in(f, op->out);
  if (op->kind != OP_reshape || c->merge || c->n || c->nchannels != 2 || c->channels[1] != c->channels[0] + 1 ||
      to->rank != c->type->rank - 1)
    return false;
  for (int d = 0; d < to->rank; d++)
    if (d != c->channels[0] && to->dims[d] != c->type->dims[d < c->channels[0] ? d : d + 1]) return false;
  return true;
}

static bool is_channel(const Chain *c, int64_t dim) {
  for (int i = 0; i < c->nchannels; i++)
    if (c->channels[i] == dim) return true;
  return false;
}

/* Returns the operation that gives one number per channel: a constant, or the broadcast of a fixed value over all other
 * dimensions; NULL if it is neither. */
static const Op *vector_of(const Fold *f, const Chain *c, Val v) {
  const Op *op = op_of(f->r.old, v);
  if (op->kind == OP_const && op_attr(op, AT_value)) return op;
  if (op->kind != OP_broadcast || f->fixed[op->in[0]] == FIXED_NOT) return NULL;
  const Attr *dims = op_attr(op, AT_dims);
  const Type *x = type_in(f, op->in[0]);
  for (int i = 0; i < x->rank; i++)
    if (!ex_is_const(x->dims[i], 1) && !is_channel(c, dims->u.ints[i])) return NULL;
  return op;
}

static bool add_to_chain(const Fold *f, Chain *c, const Op *op, Val v) {
  if (merges_channels(f, c, op)) {
    c->merge = op, c->type = type_in(f, op->out), c->nchannels = 1;
    return true;
  }
  if ((op->kind != OP_add && op->kind != OP_sub && op->kind != OP_mul && op->kind != OP_div) || c->n == MAX_CHAIN ||
      op->in[0] == op->in[1])
    return false;
  int other = op->in[0] == v ? 1 : 0;
  const Op *vector = vector_of(f, c, op->in[other]);
  if (!vector || (op->kind == OP_div && other == 0)) return false;
  c->ops[c->n] = op, c->vectors[c->n] = vector, c->vector_first[c->n++] = other == 0;
  return true;
}

/* True if the chain has a scale that is worth a copy of the weights. */
static bool worth_folding(const Fold *f, const Chain *c) {
  for (int i = 0; i < c->n; i++) {
    bool scales = c->ops[i]->kind == OP_mul || c->ops[i]->kind == OP_div;
    if (scales &&
        (c->first->kind != OP_dot || (c->vectors[i]->nin && fixed_by_weights(f->fixed[c->vectors[i]->in[0]]))))
      return true;
  }
  return false;
}

static bool same_body(const Fold *f, const Op *x, const Op *y) {
  return f->loops.of[op_number(f, x)] == f->loops.of[op_number(f, y)];
}

static void find_chain(Fold *f, const Op *op) {
  Chain c;
  if (!start_chain(f, op, &c)) return;
  Val v = op->out;
  while (f->uses[v] == 1 && f->user[v] && same_body(f, op, f->user[v]) && add_to_chain(f, &c, f->user[v], v))
    v = f->user[v]->out;
  if (!worth_folding(f, &c)) return;
  Chain *kept = ARENA_NEW(f->r.m->arena, Chain);
  *kept = c;
  f->inside[op_number(f, c.first)] = true;
  if (c.merge) f->inside[op_number(f, c.merge)] = true;
  for (int i = 0; i < c.n; i++) f->inside[op_number(f, c.ops[i])] = true;
  f->ends[op_number(f, c.ops[c.n - 1])] = kept;
}

/* ---- building */

static const Type *channels_type(const Fold *f, const Chain *c) {
  const Expr *dims[MAX_RANK];
  for (int i = 0; i < c->nchannels; i++) dims[i] = c->type->dims[c->channels[i]];
  return type_get(f->r.m, c->type->dtype, c->nchannels, dims);
}

static Val broadcast(Fold *f, Val v, int n, const int64_t *dims, const Type *to) {
  if (type_of(f->r.b.f, v) == to) return v;
  Attr a = attr_ints(f->r.m, AT_dims, n, dims);
  return build_op(&f->r.b, &(OpSpec){.kind = OP_broadcast, .nin = 1, .in = &v, .nattrs = 1, .attrs = &a, .type = to});
}

/* Returns the operand of operation i as [channels]. */
static Val vector(Fold *f, const Chain *c, int i) {
  const Op *op = c->vectors[i];
  const Type *to = channels_type(f, c);
  const Expr *extents[MAX_RANK];
  int64_t dims[MAX_RANK];
  int n = 0;
  if (op->kind == OP_const) return build_splat(&f->r.b, to, op_float(op, AT_value, 0));
  const Type *x = type_in(f, op->in[0]);
  for (int d = 0; d < x->rank; d++) {
    if (ex_is_const(x->dims[d], 1)) continue;
    for (int k = 0; k < c->nchannels; k++)
      if (c->channels[k] == op_attr(op, AT_dims)->u.ints[d]) dims[n] = k;
    extents[n++] = x->dims[d];
  }
  Val v = f->r.map[op->in[0]];
  if (n < x->rank) v = build_reshape(&f->r.b, v, n, extents);
  return broadcast(f, v, n, dims, to);
}

typedef struct Affine {
  Val scale, shift; /* [channels]; 0 stands for 1 and 0 */
} Affine;

static Affine times(Fold *f, Affine a, OpKind kind, Val v) {
  Val one = a.scale || kind == OP_mul ? 0 : build_splat(&f->r.b, type_of(f->r.b.f, v), 1);
  a.scale = a.scale ? build_binary(&f->r.b, kind, a.scale, v) : one ? build_binary(&f->r.b, kind, one, v) : v;
  if (a.shift) a.shift = build_binary(&f->r.b, kind, a.shift, v);
  return a;
}

static Affine apply(Fold *f, const Chain *c, Affine a, int i) {
  OpKind kind = c->ops[i]->kind;
  Builder *b = &f->r.b;
  Val v = vector(f, c, i);
  if (kind == OP_mul || kind == OP_div) return times(f, a, kind, v);
  if (kind == OP_sub && c->vector_first[i]) {
    a = times(f, a, OP_mul, build_splat(b, type_of(b->f, v), -1));
    kind = OP_add;
  }
  if (a.shift) a.shift = build_binary(b, kind, a.shift, v);
  else a.shift = kind == OP_add ? v : build_unary(b, OP_neg, v);
  return a;
}

/* Returns the weights with scaled channels. */
static Val scaled(Fold *f, const Chain *c, Val scale) {
  Val old = c->first->in[c->weights], w = f->r.map[old];
  const Type *type = type_in(f, old);
  const Expr *extents[MAX_RANK];
  int64_t dims[MAX_RANK];
  for (int i = 0; i < c->nin_weights; i++) dims[i] = c->in_weights[i], extents[i] = type->dims[c->in_weights[i]];
  if (c->merge) scale = build_reshape(&f->r.b, scale, c->nin_weights, extents);
  Val in[2] = {w, broadcast(f, scale, c->nin_weights, dims, type)};
  return build_op(&f->r.b, &(OpSpec){.kind = OP_mul,
                                     .name = arena_printf(f->r.m->arena, "%s.folded", op_of(f->r.old, old)->name),
                                     .nin = 2,
                                     .in = in});
}

static void fold_chain(Fold *f, const Chain *c) {
  const Op *last = c->ops[c->n - 1];
  Affine a = {0};
  Val in[2] = {f->r.map[c->first->in[0]], f->r.map[c->first->in[1]]};
  int64_t dims[MAX_RANK];
  f->r.b.loc = c->first->loc;
  f->r.b.prefix = arena_printf(f->r.m->arena, "%s.", c->first->name);
  for (int i = 0; i < c->n; i++) a = apply(f, c, a, i);
  in[c->weights] = scaled(f, c, a.scale);
  Val shift = a.shift;
  for (int i = 0; i < c->nchannels; i++) dims[i] = c->channels[i];
  if (shift) shift = broadcast(f, shift, c->nchannels, dims, c->type);
  f->r.b.prefix = NULL;
  OpSpec spec = op_spec_of(f->r.old, c->first);
  spec.in = in;
  Val y = build_op(&f->r.b, &spec);
  if (c->merge) {
    spec = op_spec_of(f->r.old, c->merge);
    spec.in = &y;
    y = build_op(&f->r.b, &spec);
  }
  if (shift) {
    Val sum[2] = {y, shift};
    y = build_op(
        &f->r.b,
        &(OpSpec){.kind = OP_add, .name = last->name, .loc = last->loc, .stage = last->stage, .nin = 2, .in = sum});
  }
  f->r.map[last->out] = y;
}

static bool fold(Module *m, const Func *old, Diags *diags) {
  Arena *a = m->arena;
  Fold f = {.r = rewrite_start(m, old, diags),
            .fixed = fixed_values(a, old),
            .uses = ARENA_ARRAY(a, int, old->values.n),
            .user = ARENA_ARRAY(a, const Op *, old->values.n),
            .ends = ARENA_ARRAY(a, const Chain *, old->ops.n + 1),
            .inside = ARENA_ARRAY(a, bool, old->ops.n + 1),
            .loops = loops_of(a, old)};
  for (size_t i = 0; i < old->ops.n; i++)
    for (int k = 0; k < old->ops.items[i].nin; k++)
      f.uses[old->ops.items[i].in[k]]++, f.user[old->ops.items[i].in[k]] = &old->ops.items[i];
  for (size_t i = 0; i < old->outputs.n; i++) f.uses[old->outputs.items[i].value]++;
  for (size_t i = 0; i < old->ops.n; i++)
    if (!f.inside[i]) find_chain(&f, &old->ops.items[i]);
  for (size_t i = 0; i < old->ops.n; i++) {
    if (f.ends[i]) fold_chain(&f, f.ends[i]);
    else if (!f.inside[i] && !rewrite_copy(&f.r, &old->ops.items[i]) && old->ops.items[i].out) return false;
  }
  rewrite_finish(&f.r);
  return diags->errors == 0;
}

bool pass_fold(Module *m, Diags *diags) {
  for (size_t k = 0; k < m->funcs.n; k++)
    if (m->funcs.items[k]->level == 1 && !fold(m, m->funcs.items[k], diags)) return false;
  return true;
}
