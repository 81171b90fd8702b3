/* passes/train/backward.c - reverse-mode differentiation of a flat function.
 *
 * In: a function whose last operations make the loss.  Out: after them, the gradients of some of its values.  The pass
 * visits the operations from the last to the first.  Each passes the gradient of its result on to its operands
 * (ir/gradient.h), and gradients from several users of a value are added.  Only paths from a trained weight to the loss
 * are followed.
 *
 * Operations that make gradients of data follow the operation whose derivative they are, and sums over several users
 * follow the maker of the value: the planner gives them its variable (D57, passes/facts/mirror.h).  Operations that
 * make only gradients of weights follow none, but live in the stage of that operation (D49).
 *
 * Phases (D38): gradients of data are `bwd`.  Operations that only gradients of weights need are `wgt`: weights, and
 * values computed from weights alone, pass no gradient on to earlier operations.
 *
 * The pass reports an operation without a derivative and continues, so that all of them are reported.  Loops were
 * unrolled before (unroll.c).  Not supported: second derivatives.
 */
#include <string.h>

#include "ir/gradient.h"
#include "passes/train/train.h"

typedef struct Backward {
  Builder *b;
  size_t nops;
  bool *leads;                 /* by value of the forward pass: it depends on a trained weight */
  bool *data;                  /* by value of the forward pass: it depends on an input */
  Val *gradients;              /* by value of the forward pass; 0: none so far */
  const TrainWeights *weights; /* for padding */
  struct {
    const char **items;
    size_t n, cap;
  } refused; /* texts that were reported already */
  bool ok;
} Backward;

static void find_data(Backward *w) {
  const Func *f = w->b->f;
  for (size_t i = 0; i < w->nops; i++) {
    const Op *op = &f->ops.items[i];
    bool any = op->kind == OP_input;
    for (int k = 0; k < op->nin; k++) any |= w->data[op->in[k]];
    for (Val v = op->out; v && v < op_end(op); v++) w->data[v] = any;
  }
}

static void find_leading(Backward *w, const TrainedList *list) {
  const Func *f = w->b->f;
  for (size_t i = 0; i < list->n; i++) w->leads[list->items[i].read] = true;
  for (size_t i = 0; i < w->nops; i++) {
    const Op *op = &f->ops.items[i];
    bool any = false;
    for (int k = 0; k < op->nin; k++) any |= w->leads[op->in[k]];
    for (Val v = op->out; any && v && v < op_end(op); v++) w->leads[v] = dtype_is_float(type_of(f, v)->dtype);
  }
}

static void refuse(Backward *w, const Op *op, const char *what) {
  w->ok = false;
  for (size_t i = 0; i < w->refused.n; i++)
    if (strcmp(w->refused.items[i], what) == 0) return;
  ARENA_PUSH(w->b->m->arena, &w->refused, what);
  diag_error(w->b->diags, DIAG_train, op->loc, "%s has no derivative (operation '%s')", what, op->name);
}

/* Marks an operation with a variable of its own, in the stage of the maker of the value. */
static Mirror apart(const Backward *w, Val v) { return (Mirror){op_of(w->b->f, v)->name, MIRROR_APART}; }

static void add(Backward *w, Val v, Val gradient) {
  Func *f = w->b->f;
  Val *have = &w->gradients[v];
  if (!*have) {
    *have = gradient;
    return;
  }
  w->b->phase = w->data[v] ? PH_bwd : PH_wgt;
  size_t first = f->ops.n;
  Val joined = train_join_pieces(w->b, *have, gradient);
  *have = joined ? joined : build_binary(w->b, OP_add, *have, gradient);
  if (!*have) return;
  const Op *made = op_of(f, v);
  bool follows = (w->data[v] || made->kind == OP_read) && made->out == v;
  for (size_t i = first; i < f->ops.n; i++)
    f->ops.items[i].mirror =
        follows ? (Mirror){made->name, i + 1 < f->ops.n ? MIRROR_INSIDE : MIRROR_SUM} : apart(w, v);
}

/* Returns the data operand that has that gradient; MIRROR_INSIDE if none. */
static int operand_of(const Backward *w, const Gradient *g, Val gradient) {
  for (int i = 0; i < g->op->nin; i++)
    if (g->of_operands[i] == gradient && w->data[g->op->in[i]]) return i;
  return MIRROR_INSIDE;
}

/* Sets the mirrors of the operations built for one derivative, from `first` on: those that a gradient of data needs
 * follow the differentiated operation, and all of them live in its stage. */
static void link_mirrors(Backward *w, const Gradient *g, size_t first) {
  Func *f = w->b->f;
  for (size_t i = f->ops.n; i-- > first;) {
    Op *op = &f->ops.items[i];
    int operand = operand_of(w, g, op->out);
    if (operand < 0 && !op->mirror.name) continue;
    op->mirror = (Mirror){g->op->name, operand};
    for (int k = 0; k < op->nin; k++) {
      size_t made = (size_t)f->values.items[op->in[k]].op;
      if (made >= first) f->ops.items[made].mirror.name = g->op->name;
    }
  }
  for (size_t i = first; i < f->ops.n; i++)
    if (!f->ops.items[i].mirror.name) f->ops.items[i].mirror = (Mirror){g->op->name, MIRROR_APART};
}

/* Gives phase wgt to those operations from `first` on that no gradient of data needs. */
static void set_phases(Backward *w, const Op *op, size_t first, const Val *of_operands) {
  Func *f = w->b->f;
  size_t n = f->ops.n - first;
  bool *needed = ARENA_ARRAY(w->b->m->arena, bool, n + 1);
  for (int i = 0; i < op->nin; i++) {
    size_t at = (size_t)f->values.items[of_operands[i]].op;
    if (of_operands[i] && at >= first && w->data[op->in[i]]) needed[at - first] = true;
  }
  for (size_t i = n; i-- > 0;) {
    Op *made = &f->ops.items[first + i];
    made->phase = needed[i] ? PH_bwd : PH_wgt;
    for (int k = 0; k < made->nin && needed[i]; k++) {
      size_t at = (size_t)f->values.items[made->in[k]].op;
      if (at >= first) needed[at - first] = true;
    }
  }
}

/* ---- padding */

/* Returns the weight that the value is, possibly transposed; NULL if it is no weight. */
static const char *weight_of(const Func *f, Val v, bool *transposed) {
  const Op *op = op_of(f, v);
  for (; op->kind == OP_transpose && type_of(f, op->out)->rank == 2; op = op_of(f, op->in[0])) *transposed ^= true;
  return op->kind == OP_read || op->kind == OP_param ? op_str(op, AT_name) : NULL;
}

/* True if the operation looks up rows of that table. */
static bool takes_rows_of(const Backward *w, const Op *op, const TrainingPad *pad) {
  bool transposed = false;
  if (op->kind != OP_gather || op_int(op, AT_axis, 0) != 0) return false;
  const char *weight = weight_of(w->b->f, op->in[0], &transposed);
  return weight && strcmp(weight, train_root(w->weights, pad->table, &transposed)) == 0 && !transposed;
}

/* Finds the padding row, which gets no gradient, of the table that the operation looks up; false if none. */
static bool padding_of(const Backward *w, const Op *op, int64_t *row) {
  const TrainingRules *r = w->weights->o->rules;
  int64_t rows;
  for (size_t i = 0; r && i < r->pads.n; i++) {
    if (!takes_rows_of(w, op, &r->pads.items[i]) || !ex_get_const(type_of(w->b->f, op->in[0])->dims[0], &rows))
      continue;
    *row = r->pads.items[i].row + (r->pads.items[i].row < 0 ? rows : 0);
    return true;
  }
  return false;
}

/* Reports a padding row of a table that no operation looks up. */
static bool check_pads(const Backward *w) {
  const TrainingRules *r = w->weights->o->rules;
  bool ok = true;
  for (size_t i = 0; r && i < r->pads.n; i++) {
    bool taken = false;
    for (size_t k = 0; k < w->nops && !taken; k++) taken = takes_rows_of(w, &w->b->f->ops.items[k], &r->pads.items[i]);
    if (!taken)
      ok = diag_error(w->b->diags, DIAG_usage_value, (Loc){0}, "--pad %s=%lld: no operation takes rows of that table",
                      r->pads.items[i].table, (long long)r->pads.items[i].row);
  }
  return ok;
}

/* The gradient of the looked-up rows, 0 for padding rows. */
static Val without_padding(Backward *w, const Op *op, int64_t row, Val gradient) {
  Builder *b = w->b;
  const Type *index = type_of(b->f, op->in[1]), *type = type_of(b->f, gradient);
  int64_t dims[MAX_RANK];
  for (int d = 0; d < index->rank; d++) dims[d] = d;
  Attr a = attr_ints(b->m, AT_dims, index->rank, dims);
  Val is = build_binary(b, OP_eq, op->in[1], build_splat(b, index, (double)row));
  const Type *flags = type_get(b->m, DT_bool, type->rank, type->dims);
  is = build_op(b, &(OpSpec){.kind = OP_broadcast, .nin = 1, .in = &is, .type = flags, .nattrs = 1, .attrs = &a});
  Val in[] = {is, build_splat(b, type, 0), gradient};
  return build_op(b, &(OpSpec){.kind = OP_select, .nin = 3, .in = in});
}

/* Builds the gradients of the operands of one operation; false if building failed. */
static bool visit(Backward *w, const Op *op) {
  bool wanted[MAX_OPERANDS], any = false, asked = false;
  Val of_results[MAX_RESULTS] = {0}, of_operands[MAX_OPERANDS] = {0};
  for (int i = 0; i < op->nout; i++) asked |= (of_results[i] = w->gradients[op->out + (Val)i]) != 0;
  for (int i = 0; i < op->nin; i++) any |= wanted[i] = w->leads[op->in[i]];
  if (!asked || !any) return true;
  Gradient g = {w->b, op, of_results, wanted, of_operands, NULL};
  w->b->loc = op->loc;
  w->b->prefix = arena_printf(w->b->m->arena, "%s.grad.", op->name);
  w->b->phase = PH_bwd;
  size_t first = w->b->f->ops.n;
  int64_t row;
  if (padding_of(w, op, &row)) of_results[0] = without_padding(w, op, row, of_results[0]);
  if (!gradient_build(&g)) return false;
  set_phases(w, op, first, of_operands);
  if (g.refused) return refuse(w, op, g.refused), true;
  link_mirrors(w, &g, first);
  for (int i = 0; i < op->nin; i++)
    if (wanted[i] && of_operands[i]) add(w, op->in[i], of_operands[i]);
  return true;
}

/* Accumulates the gradient of the weight; no earlier operation adds to it. */
static void accumulate(Backward *w, Trained *t) {
  Val g = w->gradients[t->read];
  w->b->prefix = arena_printf(w->b->m->arena, "%s.grad.", t->name), w->b->phase = PH_wgt;
  t->gradient =
      g ? build_op(w->b, &(OpSpec){.kind = OP_accumulate, .nin = 1, .in = &g, .mirror = apart(w, t->read)}) : 0;
}

/* By value: the first operation that reads it, plus 1; 0 if none. */
static size_t *first_uses(Arena *a, const Func *f) {
  size_t *first = ARENA_ARRAY(a, size_t, f->values.n);
  for (size_t i = f->ops.n; i-- > 0;)
    for (int k = 0; k < f->ops.items[i].nin; k++) first[f->ops.items[i].in[k]] = i + 1;
  return first;
}

bool train_backward(Builder *b, const TrainWeights *weights, Val loss, Val seed, TrainedList *list) {
  Arena *a = b->m->arena;
  size_t nvalues = b->f->values.n;
  Backward w = {.b = b, .nops = b->f->ops.n, .weights = weights, .ok = true};
  w.leads = ARENA_ARRAY(a, bool, nvalues);
  w.data = ARENA_ARRAY(a, bool, nvalues);
  w.gradients = ARENA_ARRAY(a, Val, nvalues);
  if (!check_pads(&w)) return false;
  find_data(&w);
  find_leading(&w, list);
  b->prefix = "loss.grad.", b->phase = PH_bwd;
  w.gradients[loss] = seed ? build_cast(b, seed, type_of(b->f, loss)->dtype) : build_splat(b, type_of(b->f, loss), 1);
  const size_t *first_use = first_uses(a, b->f);
  bool built = true;
  for (size_t i = w.nops; i-- > 0 && built;) {
    Op op = b->f->ops.items[i]; /* a copy, because the list grows */
    built = visit(&w, &op);
    for (size_t k = 0; k < list->n && built; k++)
      if (first_use[list->items[k].read] == i + 1) accumulate(&w, &list->items[k]);
  }
  b->prefix = NULL, b->loc = (Loc){0}, b->phase = PH_fwd;
  return built && w.ok;
}
