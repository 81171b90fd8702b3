/* passes/train/unroll.c - loops of a known number of rounds, such as recurrent layers, round after round, so that they
 * have derivatives.
 *
 * In: a level-1 function with loops.  Out: the same function without them; a round has its own copy of the body, in
 * which the round number is a constant.  A row that is looked up at a constant place becomes a slice, whose gradients
 * are joined (pieces.c), and a carry whose rows the rounds write one by one becomes one concatenation, so that no round
 * copies all rows.
 *
 * Refused: a number of rounds that only the run knows, loops that may end early, and more than MOST_OPS operations.
 * Not done: a loop of gradients that reads stacked carries, which would need less compilation for long sequences.
 */
#include <string.h>

#include "ir/index_bound.h"
#include "ir/loops.h"
#include "passes/rewrite/rewrite.h"
#include "passes/train/train.h"

enum { MOST_OPS = 200000, MOST_DEPTH = 8 };

/* A carry whose rows are written one by one. */
typedef struct Rows {
  const Op *update; /* NULL: it is no such carry */
  Val *pieces;      /* by row */
  int axis;
} Rows;

typedef struct Unroll {
  Rewrite r;
  Loops loops;
  const int *uses;    /* by old value */
  const char *suffix; /* of names in the round */
} Unroll;

/* The number that a scalar of integers is; false if it is not known. */
static bool known(Module *m, const Func *f, Val v, int depth, int64_t *out) {
  const Op *op = op_of(f, v);
  const Expr *e = uniform_integer(m, f, v);
  int64_t x, y;
  if (e) return ex_get_const(e, out);
  bool sum = op->kind == OP_add || op->kind == OP_sub || op->kind == OP_mul;
  if (!sum || depth == MOST_DEPTH || dtype_is_float(type_of(f, v)->dtype)) return false;
  if (!known(m, f, op->in[0], depth + 1, &x) || !known(m, f, op->in[1], depth + 1, &y)) return false;
  if (x > INT32_MAX || x < -INT32_MAX || y > INT32_MAX || y < -INT32_MAX) return false;
  *out = op->kind == OP_add ? x + y : op->kind == OP_sub ? x - y : x * y;
  return true;
}

static bool refuse(const Unroll *u, const Op *loop, const char *why) {
  return diag_error(u->r.b.diags, DIAG_train, loop->loc, "the loop '%s' cannot be trained: %s", loop->name, why);
}

/* The rounds of a loop; false after a diagnostic. */
static bool rounds_of(const Unroll *u, const Loop *l, int64_t *rounds) {
  const Func *f = u->r.old;
  const Op *loop = &f->ops.items[l->begin];
  if (f->ops.items[l->repeat].nin > 1) return refuse(u, loop, "it may end before its last round");
  if (!known(u->r.m, u->r.b.f, u->r.map[loop->in[0]], 0, rounds))
    return refuse(u, loop, "the number of its rounds is not known; bind the dimension, as in --dim seq=35");
  if (*rounds < 0) *rounds = 0;
  const size_t body = l->repeat - l->body + 1, made = u->r.b.f->ops.n; /* 1: the number of the round */
  const bool few = made <= MOST_OPS && (uint64_t)*rounds <= (MOST_OPS - made) / body;
  return few || refuse(u, loop, "it has too many rounds");
}

/* ---- operations of a body */

/* A row of a table at a known place, as a slice; 0 if it is none, or after an error. */
static Val take_row(Unroll *u, const Op *op) {
  Rewrite *r = &u->r;
  const Func *f = r->b.f;
  const Val table = r->map[op->in[0]], index = r->map[op->in[1]];
  const int axis = (int)op_int(op, AT_axis, 0);
  const Expr *start = op_expr(op, AT_start), *one = ex_const(r->m, 1);
  int64_t at, extent;
  if (type_of(f, index)->rank || (start && !ex_is_const(start, 0)) || !known(r->m, f, index, 0, &at)) return 0;
  if (!ex_get_const(type_of(f, table)->dims[axis], &extent) || at < 0 || at >= extent) return 0;
  Val row = build_slice(&r->b, table, axis, ex_const(r->m, at), one, 1);
  const Type *t = type_of(r->old, op->out);
  return row ? build_reshape(&r->b, row, t->rank, t->dims) : 0;
}

static bool copy_op(Unroll *u, const Op *op) {
  Rewrite *r = &u->r;
  r->b.prefix = arena_printf(r->m->arena, "%s%s.", op->name, u->suffix), r->b.loc = op->loc;
  Val row = op->kind == OP_gather ? take_row(u, op) : 0;
  r->b.prefix = NULL;
  if (row) return rewrite_map(r, op, row), true;
  Val in[MAX_OPERANDS];
  OpSpec spec = op_spec_of(r->old, op);
  for (int i = 0; i < op->nin; i++) in[i] = r->map[op->in[i]];
  spec.in = in;
  if (op->name) spec.name = arena_printf(r->m->arena, "%s%s", op->name, u->suffix);
  return rewrite_build(r, op, &spec) || !op->out;
}

/* ---- rows that rounds write */

/* Finds whether the carry is only written, by an update in each round whose result is its next value. */
static Rows rows_of(const Unroll *u, const Loop *l, int carry, int64_t rounds) {
  const Func *f = u->r.old;
  const Op *c = &f->ops.items[l->begin + 1 + (size_t)carry];
  const Op *leave = &f->ops.items[l->repeat + 1 + (size_t)carry], *op = op_of(f, leave->in[1]);
  Rows rows = {0};
  int64_t extent;
  if (op->kind != OP_update || op->nin != 3 || op->in[0] != c->out || type_of(f, op->in[2])->rank) return rows;
  const int axis = (int)op_int(op, AT_axis, 0);
  const Expr *start = op_expr(op, AT_start);
  bool whole = ex_get_const(type_of(f, c->out)->dims[axis], &extent) && extent == rounds &&
               ex_is_const(type_of(f, op->in[1])->dims[axis], 1) && (!start || ex_is_const(start, 0));
  if (!whole || u->uses[c->out] != 2 || u->uses[op->out] != 1) return rows; /* the update and the leave */
  rows = (Rows){.update = op, .pieces = ARENA_ARRAY(u->r.m->arena, Val, rounds + 1), .axis = axis};
  return rows;
}

/* Takes the piece that an update writes; false if its place is not known, or taken. */
static bool add_piece(Unroll *u, Rows *rows, int64_t rounds) {
  int64_t at;
  const Rewrite *r = &u->r;
  if (!known(r->m, r->b.f, r->map[rows->update->in[2]], 0, &at) || at < 0 || at >= rounds || rows->pieces[at])
    return false;
  rows->pieces[at] = r->map[rows->update->in[1]];
  return true;
}

/* All pieces in their order. */
static Val join(Unroll *u, const Rows *rows, int64_t n) {
  Builder *b = &u->r.b;
  Val *list = ARENA_ARRAY(b->m->arena, Val, n + 1);
  const int most = op_max_operands(OP_concat);
  memcpy(list, rows->pieces, sizeof *list * (size_t)n);
  for (int64_t left; n > 1; n = left) {
    left = 0;
    for (int64_t i = 0; i < n; i += most) {
      const int here = (int)(n - i < most ? n - i : most);
      list[left++] = here == 1 ? list[i] : build_concat(b, here, list + i, rows->axis);
      if (!list[left - 1]) return 0;
    }
  }
  return list[0];
}

/* ---- loops */

static bool copy_range(Unroll *u, size_t from, size_t to, Rows *rows, int nrows, int64_t rounds);

/* The rounds of one loop; the values of its carries after a round are those before the next. */
static bool run_rounds(Unroll *u, const Loop *l, int64_t rounds, Rows *rows, Val *values) {
  Rewrite *r = &u->r;
  const Op *ops = r->old->ops.items, *loop = &ops[l->begin];
  const char *outer = u->suffix;
  for (int64_t t = 0; t < rounds; t++) {
    u->suffix = arena_printf(r->m->arena, "%s.round%lld", outer, (long long)t);
    r->b.prefix = arena_printf(r->m->arena, "%s%s.", loop->name, u->suffix);
    Val number = build_splat(&r->b, type_of(r->old, loop->out), (double)t);
    r->b.prefix = NULL;
    if (!number) return false;
    rewrite_map(r, loop, number);
    for (int c = 0; c < l->ncarries; c++) rewrite_map(r, &ops[l->begin + 1 + (size_t)c], values[c]);
    if (!copy_range(u, l->body, l->repeat, rows, l->ncarries, rounds)) return false;
    for (int c = 0; c < l->ncarries; c++) values[c] = r->map[ops[l->repeat + 1 + (size_t)c].in[1]];
  }
  u->suffix = outer;
  return true;
}

static bool unroll_loop(Unroll *u, const Loop *l) {
  Rewrite *r = &u->r;
  Arena *a = r->m->arena;
  const Op *ops = r->old->ops.items;
  int64_t rounds;
  if (!rounds_of(u, l, &rounds)) return false;
  Rows *rows = ARENA_ARRAY(a, Rows, l->ncarries + 1);
  Val *values = ARENA_ARRAY(a, Val, l->ncarries + 1);
  for (int c = 0; c < l->ncarries; c++) {
    values[c] = r->map[ops[l->begin + 1 + (size_t)c].in[0]];
    rows[c] = rows_of(u, l, c, rounds);
  }
  if (!run_rounds(u, l, rounds, rows, values)) return false;
  for (int c = 0; c < l->ncarries; c++) {
    const Op *leave = &ops[l->repeat + 1 + (size_t)c];
    r->b.prefix = arena_printf(a, "%s%s.", leave->name, u->suffix), r->b.loc = leave->loc;
    Val last = rows[c].update && rounds ? join(u, &rows[c], rounds) : values[c];
    r->b.prefix = NULL;
    if (!last) return false;
    rewrite_map(r, leave, last);
  }
  return true;
}

/* The carry whose rows the operation writes; NULL if none. */
static Rows *written_by(Rows *rows, int n, const Op *op) {
  for (int i = 0; i < n; i++)
    if (rows[i].update == op) return &rows[i];
  return NULL;
}

static bool copy_range(Unroll *u, size_t from, size_t to, Rows *rows, int nrows, int64_t rounds) {
  for (size_t i = from; i < to; i++) {
    const Op *op = &u->r.old->ops.items[i];
    Rows *written = written_by(rows, nrows, op);
    if (op->kind == OP_loop) {
      const Loop *l = &u->loops.items[u->loops.of[i]];
      if (!unroll_loop(u, l)) return false;
      i = l->end - 1;
    } else if (written && add_piece(u, written, rounds)) {
      rewrite_map(&u->r, op, u->r.map[op->in[0]]);
    } else if (written) {
      return refuse(u, op, "the places that its rounds write are not known, or one is written twice");
    } else if (!copy_op(u, op)) {
      return false;
    }
  }
  return true;
}

bool train_unroll(Module *m, const Func **f, Diags *diags) {
  Unroll u = {.loops = loops_of(m->arena, *f), .uses = rewrite_uses(m->arena, *f), .suffix = ""};
  if (!u.loops.n) return true;
  u.r = rewrite_start(m, *f, diags);
  if (!copy_range(&u, 0, (*f)->ops.n, NULL, 0, 0)) return false;
  *f = rewrite_finish(&u.r);
  return true;
}
