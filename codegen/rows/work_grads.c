/* codegen/rows/work_grads.c - one kernel computes the gradients of an attention by its queries, keys and values.
 *
 * Training asks for up to three attention_grads of each attention, with equal operands.  They become one operation with
 * several results (GradsUnit): one launch instead of three, and a device may compute the scores of keys and values
 * once. In: legalised operations.  The first of the operations takes the place of all.
 */
#include <string.h>

#include "codegen/rows/row_work.h"

static bool same_but_for_of(const WorkOp *a, const WorkOp *b) {
  const Op *x = a->op, *y = b->op;
  if (y->kind != OP_attention_grad || x->nin != y->nin || !work_same_time(a, b)) return false;
  return memcmp(x->in, y->in, sizeof *x->in * (size_t)x->nin) == 0;
}

/* Adds the operation to the unit in the order of the operands; false if it is there already. */
static bool add_part(GradsUnit *g, const Op *op) {
  int at = g->n;
  for (int i = 0; i < g->n; i++)
    if (strcmp(op_str(g->part[i].op, AT_of), op_str(op, AT_of)) == 0) return false;
  if (g->n == GRADS_MOST) return false;
  for (; at > 0 && strchr("qkv", *op_str(g->part[at - 1].op, AT_of)) > strchr("qkv", *op_str(op, AT_of)); at--)
    g->part[at] = g->part[at - 1];
  g->part[at] = (GradsPart){.op = op, .result = op->out};
  g->n++;
  return true;
}

void work_grads(Work *w) {
  bool *gone = ARENA_ARRAY(w->arena, bool, w->ops.n + 1), any = false;
  for (size_t i = 0; i < w->ops.n; i++) {
    WorkOp *o = &w->ops.items[i];
    if (gone[i] || o->op->kind != OP_attention_grad) continue;
    GradsUnit *g = ARENA_NEW(w->arena, GradsUnit);
    *g = (GradsUnit){0};
    add_part(g, o->op);
    for (size_t k = i + 1; k < w->ops.n; k++) {
      const WorkOp *other = &w->ops.items[k];
      if (!same_but_for_of(o, other) || !add_part(g, other->op)) continue;
      gone[k] = any = w->within[other->origin] = true;
    }
    if (g->n > 1) o->grads = g;
  }
  if (any) work_remove(w, gone);
}
