/* codegen/panels.c - see panels.h. */
#include "codegen/panels.h"

#include <string.h>

#include "codegen/legal.h"
#include "codegen/rows/row_work.h"

/* ---- weights by name, stage and layout */

static PanelWeight *find(const PanelWeights *w, const char *name, int stage, const Layout *layout) {
  for (size_t i = 0; i < w->n; i++) {
    PanelWeight *p = &w->items[i];
    if (p->stage == stage && p->layout == layout && strcmp(p->name, name) == 0) return p;
  }
  return NULL;
}

bool panels_beside(const PanelWeight *p) { return p->others && p->type->dtype != DT_f32; }

const PanelWeight *panels_find(const PanelWeights *w, const char *name, int stage, const Layout *layout) {
  const PanelWeight *p = find(w, name, stage, layout);
  return p && p->type && (!p->others || panels_beside(p)) ? p : NULL;
}

/* Returns the param of which `v` is the whole, perhaps in another shape; NULL if it is not a weight. */
static const Op *weight_of(const Work *w, Val v) {
  for (;;) {
    int def = work_def(w, v);
    const Op *op = def < 0 ? NULL : w->ops.items[def].op;
    if (!op || op->kind == OP_param) return op;
    if (w->ops.items[def].class != WC_VIEW) return NULL;
    v = op->in[0];
  }
}

/* True for the cast to f32 that legalising put between 16 bits and the product that alone reads it. */
static bool widens(const Work *w, const WorkOp *o) {
  const DType from = o->op->nin ? work_type(w, o->op->in[0])->dtype : DT_f32;
  return o->op->kind == OP_cast && o->op->out >= w->f->values.n && (from == DT_f16 || from == DT_bf16) &&
         work_type(w, o->op->out)->dtype == DT_f32;
}

/* Returns the value that is the second operand of a product, before it is widened. */
static Val multiplied(const Work *w, const WorkOp *product) {
  const Val v = product->op->in[1];
  const int def = work_def(w, v);
  return def >= 0 && widens(w, &w->ops.items[def]) ? w->ops.items[def].op->in[0] : v;
}

/* Returns the list's entry for the weight of which `v` is the whole; adds it if it is new. */
static PanelWeight *seen(const Work *w, PanelWeights *list, Val v, const Op **op) {
  *op = weight_of(w, v);
  if (!*op) return NULL;
  const char *name = op_str(*op, AT_name);
  const Layout *layout = w->f->values.items[(*op)->out].layout;
  PanelWeight *p = find(list, name, w->stage, layout);
  if (p) return p;
  ARENA_PUSH(w->m->arena, list, ((PanelWeight){.name = name, .stage = w->stage, .layout = layout}));
  return &list->items[list->n - 1];
}

/* ---- readers */

static bool constant(const Expr *e, int64_t *value) {
  *value = e->value;
  return e->kind == EX_CONST;
}

/* Finds the matrix that a product reads in its weight.  False if it cannot be stored in panels. */
static bool matrix_of(const Work *w, const GemmUnit *g, const Type *type, PanelWeight *out) {
  int64_t k, n, row, column, elements;
  if (!program_panel_type(type->dtype) || !constant(g->k, &k) || !constant(g->n, &n) || !constant(g->b_k, &row) ||
      !constant(g->b_n, &column) || !constant(type_elements(w->m, type), &elements))
    return false;
  for (int i = 0; i < g->nbatch; i++)
    if (!ex_is_const(g->b_batch[i], 0)) return false;
  bool by_rows = column == 1 && row == n, by_columns = row == 1 && column == k;
  if (k < 1 || n < PROGRAM_PANEL || elements / n != k || elements % n != 0 || !(by_rows || by_columns)) return false;
  *out = (PanelWeight){.k = k, .n = n, .transposed = !by_rows};
  return true;
}

static bool same_matrix(const PanelWeight *p, const PanelWeight *q) {
  return p->k == q->k && p->n == q->n && p->transposed == q->transposed;
}

static void note_product(const Work *w, const WorkOp *o, PanelWeights *list) {
  const Op *op;
  PanelWeight *p = seen(w, list, multiplied(w, o), &op), found;
  if (!p) return;
  if (!matrix_of(w, o->gemm, work_type(w, op->out), &found)) p->others = true;
  else if (!p->type) {
    const DType type = work_type(w, op->out)->dtype;
    const Expr *dims[3] = {ex_const(w->m, (found.n + PROGRAM_PANEL - 1) / PROGRAM_PANEL),
                           ex_const(w->m, program_panel_rows(type, found.k)), ex_const(w->m, PROGRAM_PANEL)};
    p->k = found.k, p->n = found.n, p->transposed = found.transposed;
    p->type = type_get(w->m, type, 3, dims);
  } else if (!same_matrix(p, &found)) p->others = true;
}

static void note_other(const Work *w, Val v, PanelWeights *list) {
  const Op *op;
  PanelWeight *p = seen(w, list, v, &op);
  if (p) p->others = true;
}

/* Notes the readers of weights.  A view of a weight is no reader; the readers of the view are. */
static void note_readers(const Work *w, bool prepare, PanelWeights *list) {
  for (size_t i = 0; i < w->ops.n; i++) {
    const WorkOp *o = &w->ops.items[i];
    if (!o->live || (o->class == WC_VIEW && weight_of(w, o->op->out)) || (widens(w, o) && !prepare)) continue;
    for (int k = 0; k < o->op->nin; k++) {
      if (o->gemm && k == 1 && !prepare) note_product(w, o, list);
      else note_other(w, o->op->in[k], list);
    }
  }
  for (size_t i = 0; i < w->f->outputs.n && !prepare; i++) note_other(w, w->f->outputs.items[i].value, list);
}

/* ---- all of them */

/* True for f32 that was bf16 before.  In a kernel it may not be rounded yet. */
static bool was_bf16(const Work *w, Val v) {
  for (int def; (def = work_def(w, v)) >= 0; v = w->ops.items[def].op->in[0]) {
    const WorkOp *o = &w->ops.items[def];
    if (o->op->kind == OP_cast) return work_type(w, o->op->in[0])->dtype == DT_bf16;
    if (o->class != WC_VIEW) return false;
  }
  return false;
}

/* The product reads the weight itself, which it widens. */
static void read_narrow(Work *w, WorkOp *o) {
  Op *op = ARENA_NEW(w->m->arena, Op);
  Val *in = ARENA_ARRAY(w->m->arena, Val, o->op->nin);
  *op = *o->op;
  memcpy(in, op->in, sizeof *in * (size_t)op->nin);
  in[1] = multiplied(w, o);
  op->in = in, o->op = op;
}

/* Returns the listed weight that the product reads as the matrix in its panels; NULL if it reads something else. */
static const PanelWeight *panels_read(const Work *w, const WorkOp *product, const PanelWeights *list) {
  const Op *op = product->gemm ? weight_of(w, multiplied(w, product)) : NULL;
  if (!op) return NULL;
  const PanelWeight *p = panels_find(list, op_str(op, AT_name), w->stage, w->f->values.items[op->out].layout);
  PanelWeight read;
  return p && matrix_of(w, product->gemm, work_type(w, op->out), &read) && same_matrix(p, &read) ? p : NULL;
}

static void mark_products(Work *w, const PanelWeights *list) {
  for (size_t i = 0; i < w->ops.n; i++) {
    WorkOp *o = &w->ops.items[i];
    const PanelWeight *p = panels_read(w, o, list);
    if (!p) continue;
    GemmUnit *g = ARENA_NEW(w->m->arena, GemmUnit);
    *g = *o->gemm;
    g->b_k = ex_const(w->m, PROGRAM_PANEL), g->b_n = ex_const(w->m, 1);
    g->b_panel = ex_const(w->m, program_panel_rows(p->type->dtype, p->k) * PROGRAM_PANEL);
    g->narrow = p->type->dtype == DT_bf16 && was_bf16(w, o->op->in[0]);
    o->gemm = g;
    read_narrow(w, o);
  }
  work_find_live(w);
}

PanelWeights panels_choose(const struct Legal *l) {
  PanelWeights list = {0};
  if (!l->source.device->panels) return list;
  for (int i = 0; i < l->n; i++) note_readers(l->bodies[i].work, l->bodies[i].prepare, &list);
  for (int i = 0; i < l->n; i++)
    if (!l->bodies[i].prepare) mark_products(l->bodies[i].work, &list);
  return list;
}
