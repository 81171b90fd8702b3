/* codegen/rows/work_join.c - convolutions for the CPU's library, and what joins them.
 *
 * A convolution of weights of the model, on images that hold their channels last, is described in numbers (instruction
 * `conv`).  What follows it joins it where the value has no other use, in this order: + bias per channel, + a value of
 * the same shape, an activation.  Reshapes that keep the channels innermost may stand between.  The joined operation
 * stands where the last of them stood, so that everything it reads is there.
 *
 * Only f32 convolutions are joined: 16-bit results would otherwise be rounded at other places than level 2 says.
 */
#include <string.h>

#include "codegen/rows/row_work.h"
#include "ir/legal_dot.h"
#include "ir/window.h"

typedef struct Join {
  Work *w;
  int *uses, *user; /* by value: how many operands and outputs it is, and the last operation that reads it */
  int *segment;     /* by operation: how many beginnings and ends of loops come before it */
  bool *gone;       /* by operation */
  ConvUnit conv;
  Val in[4];
  int nin, at; /* operands; the operation whose result is the value so far */
} Join;

static Val value_of(const Join *j) { return j->w->ops.items[j->at].op->out; }

/* ---- describing a convolution */

static const Type *role_type(const Join *j, const Op *op, const Window *win, int role) {
  return work_type(j->w, win->role[role] < 0 ? op->out : op->in[win->role[role]]);
}

/* By letter: is its extent 1? */
static void find_ones(const Join *j, const Op *op, const Window *win, bool *one) {
  for (int r = 0; r < 3; r++) {
    int n;
    const char *part = window_letters(op->kind, op_str(op, AT_spec), r, &n);
    for (int d = 0; d < n; d++)
      if (part[d] >= 'a' && part[d] <= 'z') one[(int)part[d]] = ex_is_const(role_type(j, op, win, r)->dims[d], 1);
  }
}

static const Expr *extent_of(const Join *j, const Op *op, const Window *win, const ConvLetter *l, int role) {
  return l->found ? role_type(j, op, win, role)->dims[l->dim[role]] : ex_const(j->w->m, 1);
}

static const Expr *step_of(const Join *j, const Op *op, const Window *win, const ConvLetter *l) {
  return l->found ? row_type_stride(j->w->m, role_type(j, op, win, WINDOW_WEIGHTS), l->dim[WINDOW_WEIGHTS])
                  : ex_const(j->w->m, 0);
}

static void describe(Join *j, const Op *op, const Window *win, const ConvLetter *list) {
  Module *m = j->w->m;
  const Expr **to = j->conv.numbers, *zero = ex_const(m, 0), *one = ex_const(m, 1);
  *to++ = extent_of(j, op, win, &list[CONV_IMAGES], WINDOW_IMAGE);
  *to++ = extent_of(j, op, win, &list[CONV_GROUPS], WINDOW_IMAGE);
  *to++ = extent_of(j, op, win, &list[CONV_IN], WINDOW_IMAGE);
  *to++ = extent_of(j, op, win, &list[CONV_OUT], WINDOW_OUTPUT);
  int before = MAX_WINDOWED - win->n;
  for (int field = 0; field < 6; field++)
    for (int i = -before; i < win->n; i++) {
      if (i < 0) *to++ = field == 3 ? zero : one;
      else if (field < 3) *to++ = win->extent[field][i];
      else *to++ = field == 3 ? win->start[i] : ex_const(m, field == 4 ? win->stride[i] : win->dilation[i]);
    }
  *to++ = step_of(j, op, win, &list[CONV_GROUPS]);
  *to++ = step_of(j, op, win, &list[CONV_IN]);
  *to++ = step_of(j, op, win, &list[CONV_OUT]);
  for (int i = -before; i < win->n; i++)
    *to++ = i < 0 ? zero : row_type_stride(m, role_type(j, op, win, WINDOW_WEIGHTS), win->dim[WINDOW_WEIGHTS][i]);
}

static bool is_param(const Join *j, Val v) {
  int def = work_def(j->w, v);
  return def >= 0 && j->w->ops.items[def].op->kind == OP_param;
}

static bool start(Join *j, int at) {
  const Op *op = j->w->ops.items[at].op;
  ConvLetter list[CONV_LETTERS];
  bool one[128] = {false};
  if (op->kind != OP_conv) return false;
  Window win = window_of(j->w->f, op);
  find_ones(j, op, &win, one);
  if (!op_conv_in_library(j->w->device, op->kind, op_str(op, AT_spec), work_type(j->w, op->out)->dtype,
                          is_param(j, op->in[1]), one, list))
    return false;
  j->conv = (ConvUnit){.op = op};
  describe(j, op, &win, list);
  j->in[0] = op->in[0], j->in[1] = op->in[1], j->nin = 2, j->at = at;
  return true;
}

/* ---- what follows */

/* What joined another convolution is no user any more; nothing moves into a loop. */
static const Op *user_of(const Join *j, Val v) {
  int user = j->user[v];
  return user >= 0 && !j->gone[user] && j->segment[user] == j->segment[j->at] ? j->w->ops.items[user].op : NULL;
}

static const Op *only_user(const Join *j, Val v) { return j->uses[v] == 1 ? user_of(j, v) : NULL; }

static void join(Join *j, int at) {
  j->gone[j->at] = true;
  j->at = at;
}

static bool channels_innermost(const Join *j, const Type *t) {
  return t->rank > 0 &&
         t->dims[t->rank - 1] == ex_mul(j->w->m, j->conv.numbers[CONV_GROUPS], j->conv.numbers[CONV_OUT]);
}

/* A vector spread over all dimensions but the last. */
static bool is_bias(const Join *j, Val v, const Type *to, Val *vector) {
  int def = work_def(j->w, v), where[MAX_RANK];
  const Op *op = def < 0 ? NULL : j->w->ops.items[def].op;
  if (!op || op->kind != OP_broadcast || !channels_innermost(j, to)) return false;
  const Type *x = work_type(j->w, op->in[0]);
  if (dense_dims(x, NULL, where) != 1 || x->dims[where[0]] != to->dims[to->rank - 1]) return false;
  *vector = op->in[0];
  return op_attr(op, AT_dims)->u.ints[where[0]] == to->rank - 1;
}

/* Something that is in memory anyway, not a picture of something smaller. */
static bool is_residual(const Join *j, Val v, const Type *to) {
  int def = work_def(j->w, v);
  if (def < 0 || work_type(j->w, v) != to) return false;
  OpKind k = j->w->ops.items[def].op->kind;
  return !op_is_constant(k) && k != OP_broadcast && k != OP_transpose && k != OP_cast && k != OP_slice &&
         k != OP_shard_slice;
}

static bool join_addition(Join *j, const Op *op) {
  Val v = value_of(j), other = op->in[op->in[0] == v ? 1 : 0], vector;
  const Type *t = work_type(j->w, v);
  if (op->kind != OP_add || op->in[0] == op->in[1]) return false;
  if (!j->conv.epilogue.bias && !j->conv.epilogue.residual && is_bias(j, other, t, &vector))
    j->conv.epilogue.bias = true, j->in[j->nin++] = vector;
  else if (!j->conv.epilogue.residual && is_residual(j, other, t))
    j->conv.epilogue.residual = true, j->in[j->nin++] = other;
  else return false;
  return true;
}

static Activation activation_of(OpKind k) {
  return k == OP_relu ? ACT_relu : k == OP_sigmoid ? ACT_sigmoid : k == OP_tanh ? ACT_tanh : ACT_none;
}

/* x * sigmoid(x) */
static bool join_silu(Join *j) {
  Val v = value_of(j);
  int mul = j->user[v];
  const Op *op = user_of(j, v);
  if (j->uses[v] != 2 || !op || op->kind != OP_mul || op->in[0] == op->in[1]) return false;
  Val other = op->in[op->in[0] == v ? 1 : 0];
  int def = work_def(j->w, other);
  const Op *sigmoid = def < 0 ? NULL : j->w->ops.items[def].op;
  if (!sigmoid || sigmoid->kind != OP_sigmoid || sigmoid->in[0] != v || j->uses[other] != 1) return false;
  j->gone[def] = true;
  join(j, mul);
  j->conv.epilogue.activation = ACT_silu;
  return true;
}

static void join_all(Join *j) {
  const Type *type = work_type(j->w, value_of(j));
  if (type->dtype != DT_f32) return;
  for (const Op *op; !j->conv.epilogue.activation && (op = only_user(j, value_of(j))) != NULL;) {
    int at = j->user[value_of(j)];
    if (op->kind == OP_reshape && channels_innermost(j, work_type(j->w, op->out))) {
      join(j, at);
    } else if (join_addition(j, op)) {
      join(j, at);
    } else if (activation_of(op->kind)) {
      j->conv.epilogue.activation = activation_of(op->kind);
      join(j, at);
    } else {
      return;
    }
  }
  if (!j->conv.epilogue.activation) join_silu(j);
}

/* ---- all of them */

static void find_uses(Join *j) {
  Work *w = j->w;
  size_t n = w->f->values.n + w->temps.n + 1;
  j->uses = ARENA_ARRAY(w->m->arena, int, n);
  j->user = ARENA_ARRAY(w->m->arena, int, n);
  j->gone = ARENA_ARRAY(w->m->arena, bool, w->ops.n + 1);
  j->segment = ARENA_ARRAY(w->m->arena, int, w->ops.n + 1);
  for (size_t v = 0; v < n; v++) j->user[v] = -1;
  for (size_t i = 0; i < w->ops.n; i++) {
    const Op *op = w->ops.items[i].op;
    bool border = w->ops.items[i].class == WC_LOOP || w->ops.items[i].class == WC_REPEAT;
    j->segment[i + 1] = j->segment[i] + border;
    bool arrives = w->ops.items[i].class == WC_COMM && op->stage != w->stage; /* reads its operand in another stage */
    for (int k = 0; k < op->nin && !arrives; k++) j->uses[op->in[k]]++, j->user[op->in[k]] = (int)i;
  }
  for (size_t i = 0; i < w->f->outputs.n; i++) {
    Val v = w->f->outputs.items[i].value;
    j->uses[v]++, j->user[v] = -1;
  }
}

static void replace(Join *j) {
  Arena *a = j->w->m->arena;
  WorkOp *o = &j->w->ops.items[j->at];
  Op *op = ARENA_NEW(a, Op);
  Val *in = ARENA_ARRAY(a, Val, j->nin);
  ConvUnit *conv = ARENA_NEW(a, ConvUnit);
  memcpy(in, j->in, sizeof(Val) * (size_t)j->nin);
  *conv = j->conv;
  *op = *conv->op;
  op->nin = j->nin, op->in = in, op->out = o->op->out;
  *o = (WorkOp){.op = op, .origin = o->origin, .class = WC_TEMPLATE, .live = true, .group = -1, .conv = conv};
}

static void compact(Join *j) {
  Work *w = j->w;
  size_t n = 0;
  for (size_t i = 0; i < w->ops.n; i++)
    if (!j->gone[i]) w->ops.items[n++] = w->ops.items[i];
  w->ops.n = n;
  for (size_t v = 0; v < w->ndef; v++) w->def[v] = -1;
  for (size_t i = 0; i < n; i++)
    if (w->ops.items[i].op->out) w->def[w->ops.items[i].op->out] = (int)i;
}

void work_join(Work *w) {
  Join j = {.w = w};
  find_uses(&j);
  for (size_t i = 0; i < w->ops.n; i++) {
    if (w->ops.items[i].class != WC_TEMPLATE || w->ops.items[i].conv || !start(&j, (int)i)) continue;
    join_all(&j);
    replace(&j);
  }
  compact(&j);
}
