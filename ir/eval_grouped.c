/* ir/eval_grouped.c - products of rows with the matrix of their group: grouped_dot, grouped_mlp.
 *
 * Row by row, in the order of the sums; a row whose group is not held here is zeros.  Modulo p the function between the
 * products is the hash that the elementwise operation has there, so that a grouped_mlp equals the operations it stands
 * for.
 */
#include <math.h>
#include <string.h>

#include "ir/eval.h"

/* Matrices by group, [groups, rows, columns]. */
typedef struct Matrices {
  const InterpTensor *w;
  int64_t rows, columns;
} Matrices;

static Matrices matrices(const Eval *e, int i) { return (Matrices){e->in[i], e->in[i]->dims[1], e->in[i]->dims[2]}; }

/* y = x times the matrix of the group. */
static void row_times(bool modp, const Matrices *m, int64_t group, const Cell *x, Cell *y) {
  const Cell *w = m->w->cells + group * m->rows * m->columns;
  memset(y, 0, sizeof *y * (size_t)m->columns);
  for (int64_t i = 0; i < m->rows; i++, w += m->columns)
    for (int64_t j = 0; j < m->columns; j++) {
      if (modp) y[j].i = (int64_t)modp_add((uint64_t)y[j].i, modp_mul((uint64_t)x[i].i, (uint64_t)w[j].i));
      else y[j].f += x[i].f * w[j].f;
    }
}

/* gate[i] = kind(gate[i]) * up[i] */
static void join(bool modp, bool silu, int64_t n, Cell *gate, const Cell *up) {
  for (int64_t i = 0; i < n; i++) {
    uint64_t x = (uint64_t)gate[i].i, hashed = modp_hash(silu ? OP_sigmoid : OP_relu, x, 0);
    double f = gate[i].f, value = silu ? f / (1 + exp(-f)) : f < 0 ? 0 : f;
    if (modp) gate[i].i = (int64_t)modp_mul(silu ? modp_mul(x, hashed) : hashed, (uint64_t)up[i].i);
    else gate[i].f = value * up[i].f;
  }
}

/* Which of `groups` the row with this index belongs to here; -1: none. */
static int64_t group_of(int64_t index, int64_t start, int64_t groups) {
  int64_t group;
  return !__builtin_sub_overflow(index, start, &group) && group >= 0 && group < groups ? group : -1;
}

static bool fits(Eval *e, int64_t width, int64_t columns) {
  const InterpTensor *x = e->in[0], *index = e->in[1], *y = e->out;
  int64_t rows = interp_elements(index);
  bool right = interp_elements(x) == rows * width && interp_elements(y) == rows * columns;
  for (int i = 3; i < e->op->nin; i++) right &= e->in[i]->dims[0] == e->in[2]->dims[0];
  return right || eval_fail(e, "rows, indices and matrices do not fit");
}

bool eval_grouped_dot(Eval *e) {
  Matrices w = matrices(e, 2);
  int64_t start;
  if (!eval_expr(e, op_expr(e->op, AT_start), &start) || !fits(e, w.rows, w.columns)) return false;
  for (int64_t r = 0; r < interp_elements(e->in[1]); r++) {
    int64_t group = group_of(e->in[1]->cells[r].i, start, w.w->dims[0]);
    Cell *y = e->out->cells + r * w.columns;
    if (group < 0) memset(y, 0, sizeof *y * (size_t)w.columns);
    else row_times(e->run->modp, &w, group, e->in[0]->cells + r * w.rows, y);
  }
  return true;
}

bool eval_grouped_mlp(Eval *e) {
  Matrices gate = matrices(e, 2), up = matrices(e, 3), down = matrices(e, 4);
  bool silu = strcmp(op_str(e->op, AT_kind), "silu") == 0;
  int64_t start;
  if (!eval_expr(e, op_expr(e->op, AT_start), &start) || !fits(e, gate.rows, down.columns)) return false;
  if (up.rows != gate.rows || up.columns != gate.columns || down.rows != gate.columns)
    return eval_fail(e, "the matrices do not fit");
  Cell *hidden = arena_alloc(e->run->arena, 2 * sizeof *hidden * (size_t)(gate.columns + 1)),
       *other = hidden + gate.columns;
  for (int64_t r = 0; r < interp_elements(e->in[1]); r++) {
    int64_t group = group_of(e->in[1]->cells[r].i, start, gate.w->dims[0]);
    const Cell *x = e->in[0]->cells + r * gate.rows;
    Cell *y = e->out->cells + r * down.columns;
    memset(y, 0, sizeof *y * (size_t)down.columns);
    if (group < 0) continue;
    row_times(e->run->modp, &gate, group, x, hidden);
    row_times(e->run->modp, &up, group, x, other);
    join(e->run->modp, silu, gate.columns, hidden, other);
    row_times(e->run->modp, &down, group, hidden, y);
  }
  return true;
}
