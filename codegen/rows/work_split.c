/* codegen/rows/work_split.c - attentions of few rows, as in decoding, on devices with many processors: one block per
 * head would leave most processors idle.
 *
 * The keys are cut into pieces of equal length.  The attention computes for each piece the maximum of the scores, the
 * sum of their exponentials and the mixture of the values, in a temporary [pieces, rows, columns + 2]; a second
 * attention, whose only operand is that temporary, joins the pieces in ascending order.  The number of pieces follows
 * from the planned sizes and is a constant, so that all machines compute the same bits.
 */
#include "codegen/rows/row_work.h"

enum {
  FEW_ROWS = 8, /* as in by_few of codegen/cuda/attention.c, like the widths */
  MOST_WIDTH = 256,
  WANTED_BLOCKS = 264, /* two for each processor of a large GPU */
  LEAST_KEYS = 512,
  MOST_PIECES = 64
};

int64_t work_expected(const Module *m, const Expr *e) {
  int64_t v, *values = ARENA_ARRAY(m->arena, int64_t, m->symbols.n + 1);
  for (size_t i = 0; i < m->symbols.n; i++) {
    const Symbol *s = &m->symbols.items[i];
    values[i] = s->axis >= 0 ? 0 : s->hint ? s->hint : 128;
  }
  return ex_eval(e, values, &v) ? v : INT64_MAX;
}

bool work_has_few_rows(const Work *w, const Op *op) {
  const Type *q = work_type(w, op->in[0]), *v = work_type(w, op->in[2]);
  int64_t width, columns;
  return q->dtype != DT_f64 && work_expected(w->m, type_product(w->m, q, 2, 4)) <= FEW_ROWS &&
         ex_get_const(q->dims[4], &width) && ex_get_const(v->dims[3], &columns) && width >= 1 && width <= MOST_WIDTH &&
         columns >= 1 && columns <= MOST_WIDTH;
}

static int64_t pieces_of(const Work *w, const Op *op) {
  const Type *q = work_type(w, op->in[0]), *k = work_type(w, op->in[1]);
  int64_t groups = work_expected(w->m, type_product(w->m, q, 0, 2)), keys = work_expected(w->m, k->dims[2]),
          rows = work_expected(w->m, type_product(w->m, q, 2, 4));
  int64_t blocks = groups < WANTED_BLOCKS ? groups * (rows > 4 ? 2 : 1) : WANTED_BLOCKS;
  int64_t pieces = blocks > 0 ? WANTED_BLOCKS / blocks : 1;
  if (pieces > keys / LEAST_KEYS) pieces = keys / LEAST_KEYS;
  return pieces < MOST_PIECES ? pieces : MOST_PIECES;
}

/* Returns the operation before its operands were placed (work_place.c). */
static const Op *unplaced(const WorkOp *o) { return o->place ? o->place->op : o->op; }

/* True if the attention is split; others are faster whole. */
static bool is_split(const Work *w, const WorkOp *o) {
  const Op *op = unplaced(o);
  return op->kind == OP_attention && work_has_few_rows(w, op) && pieces_of(w, op) >= 2;
}

/* Replaces the attention by the two operations. */
static void split(Work *w, const WorkOp *o) {
  Module *m = w->m;
  const Op *op = o->op;
  int64_t pieces = pieces_of(w, unplaced(o));
  const Type *q = work_type(w, unplaced(o)->in[0]), *v = work_type(w, unplaced(o)->in[2]);
  const Expr *dims[3] = {ex_const(m, pieces), type_product(m, q, 0, 4), ex_add(m, v->dims[3], ex_const(m, 2))};
  Op part = *op;
  part.out = 0;
  Val found = work_step(w, op, o->origin, &part, type_get(m, DT_f32, 3, dims), o->class);
  PlaceUnit *place = o->place ? ARENA_NEW(w->arena, PlaceUnit) : NULL;
  if (place) *place = *o->place, place->result = 0;
  w->ops.items[w->ops.n - 1].place = place;
  Op *join = ARENA_NEW(w->arena, Op);
  Val *in = ARENA_ARRAY(w->arena, Val, 1);
  *join = *op, *in = found;
  join->nin = 1, join->in = in;
  w->ops.items[work_add(w, join, o->origin, o->class)].place = o->place;
  if (o->place && o->place->result) w->def[o->place->result] = (int)w->ops.n - 1;
}

void work_split(Work *w) {
  size_t n = w->ops.n, first = 0;
  const WorkOp *old = w->ops.items;
  while (first < n && !is_split(w, &old[first])) first++;
  if (first == n) return;
  w->ops.items = NULL, w->ops.n = w->ops.cap = 0;
  for (size_t i = 0; i < n; i++) {
    if (is_split(w, &old[i])) {
      split(w, &old[i]);
      continue;
    }
    ARENA_PUSH(w->arena, &w->ops, old[i]);
    for (Val v = old[i].op->out; v < op_end(old[i].op); v++) w->def[v] = (int)w->ops.n - 1;
    if (old[i].place && old[i].place->result) w->def[old[i].place->result] = (int)w->ops.n - 1;
    for (int k = 0; old[i].grads && k < old[i].grads->n; k++) w->def[old[i].grads->part[k].result] = (int)w->ops.n - 1;
  }
}
