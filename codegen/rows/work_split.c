/* codegen/rows/work_split.c - attentions of few rows, as in decoding, on devices with many processors: one block per
 * head would leave most processors idle.
 *
 * The keys in use are cut into pieces of equal length.  A block computes for its piece the maximum of the scores, the
 * sum of their exponentials and the mixture of the values, in a temporary [pieces, rows, columns + 2]; the last block
 * of a tile of rows that is done joins the pieces in ascending order.  The number of pieces follows from the planned
 * sizes and is a constant, so that all machines compute the same bits.
 */
#include "codegen/rows/row_work.h"

enum {
  FEW_ROWS = 8, /* as in attention_few of codegen/cuda/dialect_attention.h, like the widths */
  MOST_WIDTH = 256,
  WANTED_BLOCKS = 264, /* two for each processor of a large GPU */
  LEAST_KEYS = 512,
  MOST_PIECES = 64
};

int64_t work_expected(const Module *m, const Expr *e) {
  int64_t v;
  if (ex_get_const(e, &v)) return v;
  int64_t *values = ARENA_ARRAY(m->arena, int64_t, m->symbols.n + 1);
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

int work_few_rows(const Work *w, const Op *op) {
  enum { WIDE = 128, MOST_OF_WIDE = 4 };
  const Type *q = work_type(w, op->in[0]);
  int64_t expected = work_expected(w->m, type_product(w->m, q, 2, 4)), columns = 0, rows = 1;
  ex_get_const(work_type(w, op->in[2])->dims[3], &columns);
  while (rows < (columns > WIDE ? MOST_OF_WIDE : FEW_ROWS) && rows < expected) rows *= 2;
  return (int)rows;
}

static int64_t pieces_of(const Work *w, const Op *op) {
  const Type *q = work_type(w, op->in[0]), *k = work_type(w, op->in[1]);
  int64_t groups = work_expected(w->m, type_product(w->m, q, 0, 2)), keys = work_expected(w->m, k->dims[2]),
          rows = work_expected(w->m, type_product(w->m, q, 2, 4)), tile = work_few_rows(w, op);
  int64_t blocks = groups < WANTED_BLOCKS ? groups * ((rows + tile - 1) / tile) : WANTED_BLOCKS;
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

void work_split(Work *w) {
  Module *m = w->m;
  for (size_t i = 0; i < w->ops.n; i++) {
    if (!is_split(w, &w->ops.items[i])) continue;
    const Op *op = unplaced(&w->ops.items[i]);
    const Type *q = work_type(w, op->in[0]), *v = work_type(w, op->in[2]);
    SplitUnit *unit = ARENA_NEW(w->arena, SplitUnit);
    unit->pieces = (int)pieces_of(w, op);
    const Expr *dims[3] = {ex_const(m, unit->pieces), type_product(m, q, 0, 4), ex_add(m, v->dims[3], ex_const(m, 2))};
    unit->found = work_temp(w, type_get(m, DT_f32, 3, dims));
    w->def[unit->found] = (int)i;
    w->ops.items[i].split = unit;
  }
}
