/* passes/train/backward.c - reverse-mode differentiation of a flat function.
 *
 * In: a function whose last operations make the loss.  Out: behind them, the gradients of some of its values.
 * Operations are gone through from the last to the first; each gives what its result got to its operands
 * (ir/gradient.h), and what a value gets from several users is added.  Only what leads from a trained weight to the
 * loss is followed.
 *
 * An operation without a derivative is named, and the walk goes on, so that all are named at once.  Not done: loops,
 * whose carries would have to be stacked; second derivatives.
 */
#include <string.h>

#include "ir/gradient.h"
#include "passes/train/train.h"

typedef struct Backward {
  Builder *b;
  size_t nops;
  bool *leads;    /* by value of the forward pass: a trained weight leads to it */
  Val *gradients; /* by the same; 0: none so far */
  struct {
    const char **items;
    size_t n, cap;
  } refused; /* texts that were said already */
  bool ok;
} Backward;

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
  diag_error(w->b->diags, DIAG_train, op->loc, "%s cannot be trained through (operation '%s')", what, op->name);
}

static void add(Backward *w, Val v, Val gradient) {
  Val *have = &w->gradients[v];
  *have = *have ? build_binary(w->b, OP_add, *have, gradient) : gradient;
}

/* Gives to the operands of one operation; false when building failed. */
static bool visit(Backward *w, const Op *op) {
  bool wanted[MAX_OPERANDS], any = false, asked = false;
  Val of_results[MAX_RESULTS] = {0}, of_operands[MAX_OPERANDS] = {0};
  for (int i = 0; i < op->nout; i++) asked |= (of_results[i] = w->gradients[op->out + (Val)i]) != 0;
  for (int i = 0; i < op->nin; i++) any |= wanted[i] = w->leads[op->in[i]];
  if (!asked || !any) return true;
  Gradient g = {w->b, op, of_results, wanted, of_operands, NULL};
  w->b->loc = op->loc;
  w->b->prefix = arena_printf(w->b->m->arena, "%s.grad.", op->name);
  if (!gradient_build(&g)) return false;
  if (g.refused) return refuse(w, op, g.refused), true;
  for (int i = 0; i < op->nin; i++)
    if (wanted[i] && of_operands[i]) add(w, op->in[i], of_operands[i]);
  return true;
}

bool train_backward(Builder *b, Val loss, TrainedList *list) {
  Arena *a = b->m->arena;
  size_t nvalues = b->f->values.n;
  Backward w = {.b = b, .nops = b->f->ops.n, .ok = true};
  w.leads = ARENA_ARRAY(a, bool, nvalues);
  w.gradients = ARENA_ARRAY(a, Val, nvalues);
  find_leading(&w, list);
  b->prefix = "loss.grad.";
  w.gradients[loss] = build_splat(b, type_of(b->f, loss), 1);
  bool built = true;
  for (size_t i = w.nops; i-- > 0 && built;) {
    Op op = b->f->ops.items[i]; /* a copy: the list grows */
    built = visit(&w, &op);
  }
  b->prefix = NULL, b->loc = (Loc){0};
  for (size_t i = 0; i < list->n; i++) list->items[i].gradient = w.gradients[list->items[i].read];
  return built && w.ok;
}
