/* ir/legal_join.c - see legal_join.h. */
#include "ir/legal_join.h"

#include <string.h>

#include "ir/legal_dot.h"
#include "ir/window.h"

typedef struct Joining {
  Module *m;
  const DeviceTraits *device;
  const Func *f;
  int *uses, *user; /* by value: number of operands and outputs that it is, and the last operation that reads it */
  int *segment;     /* by operation: number of starts and ends of loops, and of binds, before it */
  bool *constant;   /* by value: depends on constants only, so it may be computed once for all micro-batches */
  LegalJoin *joins;
} Joining;

/* The operations fused into one product or convolution. */
typedef struct Chain {
  uint32_t may;         /* bits of DeviceJoin */
  int at;               /* the operation whose result is the value so far */
  const Expr *channels; /* of a convolution; NULL for a product */
  int vector;           /* a product's bias has the result's dimensions from this one on; -1 if it can have none */
  bool bias, residual, done;
  Val value;   /* the value so far, before or after conversion */
  bool apart;  /* the value, or the vector added to it, is converted or sent */
  bool broken; /* so is the value before a reshape, or the weights: then the library is not used */
} Chain;

/* Returns the value without copies. */
static Val resolve(const Func *f, Val v) {
  for (const Op *op = op_of(f, v); op->kind == OP_copy; op = op_of(f, v)) v = op->in[0];
  return v;
}

static const Op *op_at(const Joining *j, int at) { return &j->f->ops.items[at]; }
static Val operand(const Joining *j, const Op *op, int i) { return resolve(j->f, op->in[i]); }

static void find_uses(Joining *j, Arena *a) {
  const Func *f = j->f;
  j->uses = ARENA_ARRAY(a, int, f->values.n + 1);
  j->user = ARENA_ARRAY(a, int, f->values.n + 1);
  j->segment = ARENA_ARRAY(a, int, f->ops.n + 1);
  j->constant = ARENA_ARRAY(a, bool, f->values.n + 1);
  for (size_t v = 0; v <= f->values.n; v++) j->user[v] = -1;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    bool constant = op->nin ? true : op_is_constant(op->kind);
    j->segment[i + 1] = j->segment[i] + (op_is_loop_part(op->kind) || op->kind == OP_bind);
    for (int k = 0; k < op->nin; k++) constant = constant && j->constant[op->in[k]];
    if (op->out) j->constant[op->out] = constant;
    for (int k = 0; k < op->nin && op->kind != OP_copy; k++)
      j->uses[operand(j, op, k)]++, j->user[operand(j, op, k)] = (int)i;
  }
  for (size_t i = 0; i < f->outputs.n; i++) {
    Val v = resolve(f, f->outputs.items[i].value);
    j->uses[v]++, j->user[v] = -1;
  }
}

static bool is_conversion(const Op *op) { return op_level2_only(op->kind); }

/* Returns the value before conversions and transfers. */
static Val unconverted(const Joining *j, Val v) {
  while (is_conversion(op_of(j->f, v))) v = operand(j, op_of(j->f, v), 0);
  return v;
}

/* ---- start of a chain */

/* Starts at a convolution that the device computes for all sizes.  Libraries that pack weights into blocks have
 * epilogues in f32 only. */
static bool start_conv(const Joining *j, const Op *op, Chain *c) {
  ConvLetter list[CONV_LETTERS];
  bool one[128] = {false};
  if (op->kind != OP_conv || !j->device->after_convolutions) return false;
  if (type_of(j->f, op->out)->dtype != DT_f32 && j->device->blocks) return false;
  Window win = window_of(j->f, op);
  Val weights = unconverted(j, operand(j, op, 1));
  const Type *types[3];
  for (int r = 0; r < 3; r++) {
    int n;
    const char *part = window_letters(op->kind, op_str(op, AT_spec), r, &n);
    types[r] = type_of(j->f, win.role[r] < 0 ? op->out : op->in[win.role[r]]);
    for (int d = 0; d < n; d++)
      if (part[d] >= 'a' && part[d] <= 'z') one[(int)part[d]] = ex_is_const(types[r]->dims[d], 1);
  }
  if (!op_conv_known(j->device, op->kind, op_str(op, AT_spec), type_of(j->f, op->out)->dtype,
                     op_of(j->f, weights)->kind == OP_param, one, list))
    return false;
  c->broken = weights != operand(j, op, 1) && !j->device->blocks;
  const Expr *extent[2], *unit = ex_const(j->m, 1);
  for (int i = 0; i < 2; i++) {
    const ConvLetter *l = &list[i ? CONV_OUT : CONV_GROUPS];
    extent[i] = l->found ? types[WINDOW_OUTPUT]->dims[l->dim[WINDOW_OUTPUT]] : unit;
  }
  c->may = j->device->after_convolutions;
  c->channels = ex_mul(j->m, extent[0], extent[1]);
  return true;
}

/* Starts at a product of the library whose result needs no other order. */
static bool start_dot(const Joining *j, const Op *op, Chain *c) {
  DotForm f;
  LegalDot p;
  if (op->kind != OP_dot || !j->device->after_products) return false;
  op_dot_form(&f, type_of(j->f, op->in[0])->dtype, op_str(op, AT_spec));
  for (int t = 0; t < 2; t++)
    for (int i = 0; f.spec[t][i]; i++) f.one[(int)f.spec[t][i]] = ex_is_const(type_of(j->f, op->in[t])->dims[i], 1);
  legal_dot(j->device, &f, &p);
  if (f.dtype != DT_f32 && f.dtype != DT_f16 && f.dtype != DT_bf16) return false;
  if (!p.library || p.dtype != f.dtype || strcmp(p.spec[2], f.spec[2]) != 0) return false;
  c->may = j->device->after_products;
  c->vector = p.column < 0 ? -1 : (int)(strchr(f.spec[2], p.groups[p.column].letters[0]) - f.spec[2]);
  return true;
}

/* ---- operations after it */

/* Returns the user of a value, if it is free and in the same loop; -1 otherwise. */
static int user_of(const Joining *j, const Chain *c, Val v) {
  int user = j->user[v];
  bool here = user >= 0 && j->joins[user].kind == JOIN_NONE && j->segment[user] == j->segment[c->at];
  return here ? user : -1;
}

/* Returns the only user of the chain's value, after conversions; -1 if none. */
static int find_user(const Joining *j, Chain *c) {
  c->value = op_at(j, c->at)->out, c->apart = false;
  for (int user; j->uses[c->value] == 1; c->apart = true) {
    if ((user = user_of(j, c, c->value)) < 0 || !is_conversion(op_at(j, user))) return user;
    const Type *from = type_of(j->f, c->value), *to = type_of(j->f, op_at(j, user)->out);
    if (c->channels && from->rank && from->dims[from->rank - 1] == c->channels) c->channels = to->dims[to->rank - 1];
    c->value = op_at(j, user)->out;
  }
  return -1;
}

static bool channels_innermost(const Chain *c, const Type *t) {
  return t->rank > 0 && t->dims[t->rank - 1] == c->channels;
}

/* True for a vector broadcast along all dimensions but those of the bias; ignores extents of 1. */
static bool is_bias(const Joining *j, const Chain *c, Val v, Val *vector) {
  const Op *op = op_of(j->f, v);
  const Type *to = type_of(j->f, v);
  if (op->kind != OP_broadcast) return false;
  if (c->channels ? !channels_innermost(c, type_of(j->f, c->value)) : c->vector < 0) return false;
  const Attr *dims = op_attr(op, AT_dims);
  Val from = operand(j, op, 0);
  const Type *x = type_of(j->f, from);
  int next = c->channels ? to->rank - 1 : c->vector, end = to->rank, found = 0;
  for (int d = 0; d < x->rank; d++) {
    if (ex_is_const(x->dims[d], 1)) continue;
    while (next < end && ex_is_const(to->dims[next], 1)) next++;
    if (next >= end || dims->u.ints[d] != next || x->dims[d] != to->dims[next]) return false;
    next++, found++;
  }
  while (next < end && ex_is_const(to->dims[next], 1)) next++;
  *vector = from;
  return next == end && found;
}

/* True for a value that is stored in memory, not a view of a smaller one. */
static bool is_residual(const Joining *j, Val v) {
  OpKind k = op_of(j->f, v)->kind;
  return !op_is_constant(k) && k != OP_broadcast && k != OP_transpose && k != OP_cast && k != OP_slice;
}

static LegalJoin *join(const Joining *j, Chain *c, int user, JoinKind kind) {
  LegalJoin *x = &j->joins[user];
  *x = (LegalJoin){.kind = kind,
                   .operand = operand(j, op_at(j, user), 0) == c->value ? 0 : 1,
                   .next = -1,
                   .apart = c->apart || c->broken};
  c->broken = kind == JOIN_VIEW && x->apart;
  j->joins[c->at].next = user;
  c->at = user;
  return x;
}

/* True for a single number, broadcast: on a rank, a vector may be one. */
static bool is_number(const Joining *j, Val v) {
  const Op *op = op_of(j->f, v);
  const Type *x = op->kind == OP_broadcast ? type_of(j->f, op->in[0]) : NULL;
  for (int d = 0; x && d < x->rank; d++)
    if (!ex_is_const(x->dims[d], 1)) return false;
  return x != NULL;
}

static bool is_weight(const Joining *j, Val v) {
  v = unconverted(j, v);
  while (op_of(j->f, v)->kind == OP_reshape) v = unconverted(j, operand(j, op_of(j->f, v), 0));
  return op_of(j->f, v)->kind == OP_param;
}

static bool join_addition(const Joining *j, Chain *c, int user) {
  const Op *op = op_at(j, user);
  if (op->kind != OP_add || operand(j, op, 0) == operand(j, op, 1)) return false;
  Val other = operand(j, op, operand(j, op, 0) == c->value ? 1 : 0), made = unconverted(j, other), vector = 0;
  bool number = is_number(j, made);
  if (c->may & JOINS_BIAS && !c->bias && !c->residual && (number || is_bias(j, c, made, &vector))) {
    c->apart |= number || other != made;
    LegalJoin *x = join(j, c, user, JOIN_BIAS);
    x->other = number ? 0 : vector;
    x->of_weights = is_weight(j, operand(j, op_of(j->f, made), 0));
    return c->bias = true;
  }
  if (!(c->may & JOINS_RESIDUAL) || c->residual || !is_residual(j, made)) return false;
  join(j, c, user, JOIN_RESIDUAL)->other = other;
  return c->residual = true;
}

/* True if the operation combines the chain's value with the number `value`. */
static bool has_number(const Joining *j, const Chain *c, const Op *op, double value) {
  Val other = unconverted(j, operand(j, op, operand(j, op, 0) == c->value ? 1 : 0));
  if (op_of(j->f, other)->kind == OP_broadcast) other = unconverted(j, operand(j, op_of(j->f, other), 0));
  const Op *number = op_of(j->f, other);
  return number->kind == OP_const && op_attr(number, AT_value) && op_float(number, AT_value, 0) == value;
}

static bool is_relu(const Joining *j, const Chain *c, const Op *op) {
  return op->kind == OP_relu || (op->kind == OP_max && has_number(j, c, op, 0));
}

static bool may_activate(const Chain *c, OpKind k) {
  return (k == OP_sigmoid || k == OP_tanh) && c->may & JOINS_SIGMOIDS;
}

/* Joins a relu, then perhaps an upper bound. */
static void join_relu(const Joining *j, Chain *c, int user) {
  join(j, c, user, JOIN_ACTIVATION);
  int next = find_user(j, c);
  const Op *op = next < 0 || !(c->may & JOINS_RELU6) ? NULL : op_at(j, next);
  if (op && op->kind == OP_min && has_number(j, c, op, 6)) join(j, c, next, JOIN_BOUND);
  c->done = true;
}

/* Joins x * sigmoid(x). */
static void join_silu(const Joining *j, Chain *c) {
  Val v = c->value = op_at(j, c->at)->out;
  int mul = user_of(j, c, v);
  if (j->uses[v] != 2 || mul < 0 || !(c->may & JOINS_SIGMOIDS) || op_at(j, mul)->kind != OP_mul) return;
  const Op *op = op_at(j, mul);
  if (operand(j, op, 0) == operand(j, op, 1)) return;
  Val other = operand(j, op, operand(j, op, 0) == v ? 1 : 0);
  const Op *sigmoid = op_of(j->f, other);
  if (sigmoid->kind != OP_sigmoid || operand(j, sigmoid, 0) != v || j->uses[other] != 1) return;
  j->joins[j->f->values.items[other].op] = (LegalJoin){.kind = JOIN_GATE, .next = -1};
  join(j, c, mul, JOIN_SILU);
}

static void follow(const Joining *j, Chain *c) {
  for (bool more = true; more && !c->done;) {
    int user = find_user(j, c);
    OpKind k = user < 0 ? OP_none : op_at(j, user)->kind;
    if (k == OP_reshape && c->channels && channels_innermost(c, type_of(j->f, op_at(j, user)->out)))
      join(j, c, user, JOIN_VIEW);
    else if (c->may & JOINS_RELU && user >= 0 && is_relu(j, c, op_at(j, user))) join_relu(j, c, user);
    else if (may_activate(c, k)) join(j, c, user, JOIN_ACTIVATION), c->done = true;
    else more = user >= 0 && join_addition(j, c, user);
  }
  c->apart = false;
  if (!c->done) join_silu(j, c);
}

const LegalJoin *legal_joins(Arena *a, Module *m, const DeviceTraits *d, const Func *f) {
  Joining j = {.m = m, .device = d, .f = f, .joins = ARENA_ARRAY(a, LegalJoin, f->ops.n + 1)};
  for (size_t i = 0; i <= f->ops.n; i++) j.joins[i].next = -1;
  if (!d->after_convolutions && !d->after_products) return j.joins;
  find_uses(&j, a);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    Chain c = {.at = (int)i};
    if ((op->kind == OP_conv || op->kind == OP_dot) && !j.constant[op->out] &&
        (start_conv(&j, op, &c) || start_dot(&j, op, &c)))
      follow(&j, &c);
  }
  return j.joins;
}
