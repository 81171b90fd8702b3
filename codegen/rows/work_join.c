/* codegen/rows/work_join.c - convolutions and products that absorb the operations after them.
 *
 * A convolution that the device knows (ir/legal_dot.h: op_conv_known), or the gradient of one, is described in numbers
 * (instruction `conv`).  Operations that follow it or a product of the library join it by the rules of ir/legal_join.h.
 * The joined operation takes the position of the last of them, where all its operands exist.
 */
#include <string.h>

#include "base/die.h"
#include "codegen/rows/row_work.h"
#include "ir/legal_dot.h"
#include "ir/legal_join.h"
#include "ir/window.h"

typedef struct Join {
  Work *w;
  const LegalJoin *rule; /* by operation of the function */
  bool *gone;            /* by operation of the work */
  ConvUnit conv;
  Epilogue epilogue;
  Val in[4];
  int nin, at; /* number of operands; the operation whose result is the value so far */
} Join;

/* ---- describing a convolution */

static const Type *role_type(const Join *j, const Op *op, const Window *win, int role) {
  return work_type(j->w, win->role[role] < 0 ? op->out : op->in[win->role[role]]);
}

/* Finds by letter: its extent is 1. */
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

static ProgramConvResult result_of(OpKind k) {
  return k == OP_conv ? CONV_OF_OUTPUT : k == OP_conv_transpose ? CONV_OF_IMAGE : CONV_OF_WEIGHTS;
}

static bool start_conv(Join *j, const Op *op) {
  ConvLetter list[CONV_LETTERS];
  bool one[128] = {false};
  if (op->kind != OP_conv && op->kind != OP_conv_transpose && op->kind != OP_conv_filter) return false;
  Window win = window_of(j->w->f, op);
  find_ones(j, op, &win, one);
  if (!op_conv_known(j->w->device, op->kind, op_str(op, AT_spec), work_type(j->w, op->out)->dtype,
                     is_param(j, op->in[1]), one, list))
    return false;
  j->conv = (ConvUnit){.op = op, .result = result_of(op->kind), .of_weights = is_param(j, op->in[1])};
  describe(j, op, &win, list);
  return true;
}

/* ---- joining, by the rules of ir/legal_join.h */

static Activation activation_of(OpKind k) { return k == OP_sigmoid ? ACT_sigmoid : k == OP_tanh ? ACT_tanh : ACT_relu; }

/* Returns the operation of the work that joins operation `at`, or -1. */
static int joined_by(const Join *j, int at, const LegalJoin **how) {
  const WorkOp *o = &j->w->ops.items[at];
  if (o->op->out >= j->w->f->values.n || j->rule[o->origin].next < 0) return -1; /* its result is permuted first */
  *how = &j->rule[j->rule[o->origin].next];
  if ((*how)->apart) return -1;
  return work_def(j->w, j->w->f->ops.items[j->rule[o->origin].next].out);
}

static void join_all(Join *j) {
  const LegalJoin *how;
  for (int at; (at = joined_by(j, j->at, &how)) >= 0;) {
    const Op *op = j->w->ops.items[at].op;
    switch (how->kind) {
      case JOIN_BIAS: j->epilogue.bias = true, j->in[j->nin++] = how->other; break;
      case JOIN_RESIDUAL: j->epilogue.residual = true, j->in[j->nin++] = how->other; break;
      case JOIN_ACTIVATION: j->epilogue.activation = activation_of(op->kind); break;
      case JOIN_BOUND: j->epilogue.activation = ACT_relu6; break;
      case JOIN_SILU:
        j->epilogue.activation = ACT_silu;
        j->gone[work_def(j->w, op->in[1 - how->operand])] = true;
        break;
      case JOIN_VIEW: break;
      default: die("work_join: %s joins nothing", op->name);
    }
    j->gone[j->at] = true;
    j->at = at;
  }
}

/* Lets a product that is added to a sum over micro-batches continue that sum. */
static void join_sum(Join *j) {
  const Work *w = j->w;
  Val v = w->ops.items[j->at].op->out;
  int reader = -1;
  if (!w->sums.n || j->epilogue.residual || j->epilogue.activation) return;
  for (size_t i = 0; i < w->ops.n; i++)
    for (int k = 0; k < w->ops.items[i].op->nin; k++) {
      if (w->ops.items[i].op->in[k] != v) continue;
      if (reader >= 0) return;
      reader = (int)i;
    }
  Val start = reader >= 0 ? work_sum_start(w, w->ops.items[reader].op->out) : 0;
  if (!start || w->ops.items[reader].op->kind != OP_add) return;
  j->epilogue.residual = true, j->in[j->nin++] = start;
  j->gone[j->at] = true;
  j->at = reader;
}

/* ---- all of them */

/* Replaces the last operation of a chain by the whole chain. */
static void replace(Join *j, const WorkOp *first) {
  Arena *a = j->w->arena;
  WorkOp *o = &j->w->ops.items[j->at];
  Op *op = ARENA_NEW(a, Op);
  Val *in = ARENA_ARRAY(a, Val, j->nin);
  memcpy(in, j->in, sizeof(Val) * (size_t)j->nin);
  *op = *first->op;
  op->nin = j->nin, op->in = in, op->out = o->op->out;
  WorkOp all = {.op = op, .origin = o->origin, .class = first->class, .live = true, .phase = o->phase, .group = -1};
  if (first->gemm) {
    GemmUnit *gemm = ARENA_NEW(a, GemmUnit);
    *gemm = *first->gemm;
    gemm->epilogue = j->epilogue;
    all.gemm = gemm;
  } else {
    ConvUnit *conv = ARENA_NEW(a, ConvUnit);
    *conv = j->conv;
    conv->epilogue = j->epilogue;
    all.conv = conv;
  }
  *o = all;
}

static bool start(Join *j, int at) {
  const WorkOp *o = &j->w->ops.items[at];
  const LegalJoin *how;
  j->epilogue = (Epilogue){0};
  if (o->op->nin < 2) return false;
  j->in[0] = o->op->in[0], j->in[1] = o->op->in[1], j->nin = 2, j->at = at;
  return o->gemm ? joined_by(j, at, &how) >= 0 || j->w->sums.n : o->class == WC_TEMPLATE && start_conv(j, o->op);
}

void work_join(Work *w) {
  Join j = {.w = w, .rule = w->all->joins, .gone = ARENA_ARRAY(w->arena, bool, w->ops.n + 1)};
  bool *made = ARENA_ARRAY(w->arena, bool, w->ops.n + 1);
  for (size_t i = 0; i < w->ops.n; i++) {
    const WorkOp first = w->ops.items[i];
    if (made[i] || !start(&j, (int)i)) continue;
    join_all(&j);
    if (first.gemm) join_sum(&j);
    if (first.gemm && j.at == (int)i) continue;
    replace(&j, &first);
    made[j.at] = true;
  }
  work_remove(w, j.gone);
}
