/* ir/index_bound.c - see index_bound.h. */
#include "ir/index_bound.h"

#include <math.h>

#include "ir/loops.h"
#include "ir/record.h"

static bool is_integer(const Type *t) { return dtype_class(t->dtype) == DTC_I || dtype_class(t->dtype) == DTC_U; }

static bool any_operand(const Op *op, const bool *from) {
  for (int i = 0; i < op->nin; i++)
    if (from[op->in[i]]) return true;
  return false;
}

/* Number of valid indices for the operation's index operand, whose number is *operand; NULL for operations that index
 * nothing. */
static const Expr *indexed_extent(Module *m, const Func *f, const Op *op, int *operand) {
  const OpRecord *record = op_record(op->kind);
  *operand = record->index;
  return record->places ? record->places(m, f, op) : NULL;
}

/* ---- indices used unchanged */

typedef struct Ranging {
  const Func *f;
  bool *same;           /* by value: its elements are elements of the input */
  const Expr **wrapped; /* by value: its elements are those of the input, with this added to negative ones */
  const Expr **ignored; /* by value of either kind: elements equal to this were replaced by another number */
} Ranging;

const Expr *uniform_integer(Module *m, const Func *f, Val v) {
  const Op *op = op_of(f, v);
  while (op_is_view(op->kind)) op = op_of(f, op->in[0]);
  const Attr *value = op->kind == OP_const ? op_attr(op, AT_value) : NULL;
  if (op->kind == OP_size) return op_expr(op, AT_expr);
  return value && fabs(value->u.f) < 0x1p53 ? ex_const(m, (int64_t)value->u.f) : NULL;
}

/* Returns n of select(x < 0, x + n, x); NULL for anything else. */
static const Expr *wrapped_by(Module *m, const Ranging *r, const Op *op) {
  if (op->kind != OP_select || !r->same[op->in[2]]) return NULL;
  const Op *test = op_of(r->f, op->in[0]), *sum = op_of(r->f, op->in[1]);
  const Expr *zero = test->kind == OP_lt && r->same[test->in[0]] ? uniform_integer(m, r->f, test->in[1]) : NULL;
  if (!zero || !ex_is_const(zero, 0) || sum->kind != OP_add) return NULL;
  for (int i = 0; i < 2; i++)
    if (r->same[sum->in[i]]) return uniform_integer(m, r->f, sum->in[1 - i]);
  return NULL;
}

/* Returns n of select(x != n, x, other) or select(x == n, other, x), and the operand number of x; NULL for anything
 * else. */
static const Expr *ignored_by(Module *m, const Ranging *r, const Op *op, int *operand) {
  if (op->kind != OP_select) return NULL;
  const Op *test = op_of(r->f, op->in[0]);
  *operand = test->kind == OP_ne ? 1 : 2;
  Val x = op->in[*operand];
  if ((test->kind != OP_ne && test->kind != OP_eq) || !r->same[x] || r->ignored[x]) return NULL;
  for (int i = 0; i < 2; i++)
    if (test->in[i] == x) return uniform_integer(m, r->f, test->in[1 - i]);
  return NULL;
}

/* True if the result has all elements of operand 0 (for a join, of any operand), and no others. */
static bool keeps_elements(const Func *f, const Op *op) {
  if (op->kind == OP_within) return true;
  if (op->kind == OP_cast)
    return is_integer(type_of(f, op->in[0])) &&
           (type_of(f, op->out)->dtype == DT_i64 || type_of(f, op->out)->dtype == DT_i32);
  return op_arranges(op->kind) || op->kind == OP_concat;
}

bool index_is_moved(const Func *f, const Op *op) { return op->kind != OP_concat && keeps_elements(f, op); }

static bool comes_from_input(const Ranging *r, Val v) { return r->same[v] || r->wrapped[v]; }

static void follow_select(Module *m, Ranging *r, const Op *op) {
  int operand;
  const Expr *n = wrapped_by(m, r, op), *ignored = ignored_by(m, r, op, &operand);
  if (n) {
    r->wrapped[op->out] = n;
    r->ignored[op->out] = r->ignored[op->in[2]];
  } else if (ignored) {
    r->same[op->out] = true;
    r->ignored[op->out] = ignored;
  }
}

static void follow(Module *m, Ranging *r, const Op *op) {
  if (!op->out) return;
  if (op->kind == OP_select) follow_select(m, r, op);
  if (!keeps_elements(r->f, op)) return;
  for (int i = 0; i < op->nin; i++) {
    Val x = op->in[i];
    if (!comes_from_input(r, x)) continue;
    r->ignored[op->out] = comes_from_input(r, op->out) && r->ignored[op->out] != r->ignored[x] ? NULL : r->ignored[x];
    if (r->same[x]) r->same[op->out] = true;
    if (r->wrapped[x]) r->wrapped[op->out] = r->wrapped[x];
  }
}

/* The state of a walk that starts at v; 0 for none. */
static Ranging ranging_of(Module *m, const Func *f, Val v) {
  Ranging r = {f, ARENA_ARRAY(m->arena, bool, f->values.n), ARENA_ARRAY(m->arena, const Expr *, f->values.n),
               ARENA_ARRAY(m->arena, const Expr *, f->values.n)};
  r.same[v] = v && is_integer(type_of(f, v));
  return r;
}

IndexRange index_range(Module *m, const Func *f, Val v) {
  IndexRange range = {NULL, true, NULL};
  if (!v || !is_integer(type_of(f, v))) return range; /* its elements are no indices */
  Ranging r = ranging_of(m, f, v);
  Loops loops = loops_of(m->arena, f);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    follow(m, &r, op);
    if (loops.of[i] >= 0) continue; /* the loop may have no rounds */
    int index;
    /* for a grouped operation, the index -1 means no group */
    const Expr *extent = op_is_grouped(op->kind) ? NULL : indexed_extent(m, f, op, &index);
    if (!extent) continue;
    Val x = op->in[index];
    bool wrapped = r.wrapped[x] == extent;
    if (!r.same[x] && !wrapped) continue;
    wrapped = wrapped || op_int(op, AT_negative, 0) != 0;
    range.ignored = !range.below || range.ignored == r.ignored[x] ? r.ignored[x] : NULL;
    range.below = range.below ? ex_min(m, range.below, extent) : extent;
    range.negative = range.negative && wrapped;
  }
  return range;
}

/* ---- trial inputs for a model */

/* Integers that depend on the input, by value; `computed`: they are not elements of it. */
typedef struct Tainted {
  bool *from, *computed;
} Tainted;

static bool is_computed(const Func *f, const Op *op, const Tainted *t) {
  const Op *test = op->kind == OP_select ? op_of(f, op->in[0]) : NULL;
  if (test && test->kind == OP_lt && test->in[0] == op->in[2]) return t->computed[op->in[2]]; /* x < 0 ? x + n : x */
  return (!test && !keeps_elements(f, op) && !op_is_loop_part(op->kind)) || any_operand(op, t->computed);
}

static void taint(const Func *f, const Op *op, const Tainted *t) {
  if (!any_operand(op, t->from)) return;
  for (Val r = op->out; r < op_end(op); r++)
    if (is_integer(type_of(f, r))) t->from[r] = true, t->computed[r] |= is_computed(f, op, t);
}

/* The operand of a leave is the carry of the next round, which earlier operations may use.  True if that changes the
 * carry. */
static bool taint_carry(const Op *leave, const Tainted *t) {
  Val carry = leave->in[0], v = leave->out;
  bool more = (t->from[v] && !t->from[carry]) || (t->computed[v] && !t->computed[carry]);
  t->from[carry] |= t->from[v], t->computed[carry] |= t->computed[v];
  return more;
}

const Expr *index_bound(Module *m, const Func *f, Val v) {
  Tainted t = {ARENA_ARRAY(m->arena, bool, f->values.n), ARENA_ARRAY(m->arena, bool, f->values.n)};
  const Expr *bound = NULL;
  t.from[v] = true;
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < f->ops.n; i++) {
      const Op *op = &f->ops.items[i];
      int index;
      const Expr *extent = indexed_extent(m, f, op, &index);
      if (extent && t.from[op->in[index]]) {
        const Expr *most = t.computed[op->in[index]] ? ex_min(m, extent, ex_const(m, 2)) : extent;
        bound = bound ? ex_min(m, bound, most) : most;
      }
      if (!extent || t.from[op->in[0]]) taint(f, op, &t);
      more |= op->kind == OP_leave && taint_carry(op, &t);
    }
  }
  return bound;
}

/* ---- indices that follow from sizes */

/* Returns the smallest value of an expression that grows with every symbol; false for any other. */
static bool smallest(const Module *m, const Expr *e, int64_t *out) {
  int64_t sum = e->value, v;
  switch (e->kind) {
    case EX_CONST: break;
    case EX_SYM: sum = m->symbols.items[e->value].axis < 0 ? m->symbols.items[e->value].min : 0; break;
    case EX_MUL:
      if (e->value < 0) return false;
      for (int i = 0; i < e->n; i++)
        if (!smallest(m, e->args[i], &v) || v < 0 || __builtin_mul_overflow(sum, v, &sum)) return false;
      break;
    case EX_ADD:
      for (int i = 0; i < e->n; i++)
        if (!smallest(m, e->args[i], &v) || __builtin_add_overflow(sum, v, &sum)) return false;
      break;
    default: return false;
  }
  *out = sum;
  return true;
}

bool size_never_below(const Module *m, const Expr *e, int64_t bound) {
  int64_t v;
  return smallest(m, e, &v) && v >= bound;
}

/* 1 if the type has elements, 0 if it is empty; NULL if it is never empty. */
static const Expr *any_elements(Module *m, const Type *t) {
  const Expr *any = NULL;
  for (int d = 0; d < t->rank; d++)
    if (!size_never_below(m, t->dims[d], 1)) any = ex_min(m, any ? any : ex_const(m, 1), t->dims[d]);
  return any;
}

/* The elements of a value: first ... last all occur, and no others; first is NULL if unknown. */
typedef struct Span {
  const Expr *first, *last;
} Span;

static Span shifted(Module *m, Span a, const Expr *by) {
  return a.first && by ? (Span){ex_add(m, a.first, by), ex_add(m, a.last, by)} : (Span){0};
}

/* select(x < 0, y, x) is x if no element is negative. */
static Span span_of_select(Module *m, const Func *f, const Span *spans, const Op *op) {
  const Op *test = op_of(f, op->in[0]);
  Span x = spans[op->in[2]];
  const Expr *zero = test->kind == OP_lt && test->in[0] == op->in[2] ? uniform_integer(m, f, test->in[1]) : NULL;
  return zero && ex_is_const(zero, 0) && x.first && size_never_below(m, x.first, 0) ? x : (Span){0};
}

static Span span_of(Module *m, const Func *f, const Span *spans, const Op *op) {
  const Type *t = type_of(f, op->out);
  const Expr *same = uniform_integer(m, f, op->out);
  if (same) return (Span){same, same};
  if (op->kind == OP_iota) {
    const Expr *start = op_expr(op, AT_start);
    return (Span){start, ex_addi(m, ex_add(m, start, t->dims[op_int(op, AT_axis, 0)]), -1)};
  }
  if (op->kind == OP_add) {
    Span sum = shifted(m, spans[op->in[0]], uniform_integer(m, f, op->in[1]));
    return sum.first ? sum : shifted(m, spans[op->in[1]], uniform_integer(m, f, op->in[0]));
  }
  if (op->kind == OP_sub) {
    const Expr *by = uniform_integer(m, f, op->in[1]);
    return shifted(m, spans[op->in[0]], by ? ex_muli(m, by, -1) : NULL);
  }
  if (op->kind == OP_select) return span_of_select(m, f, spans, op);
  return index_is_moved(f, op) ? spans[op->in[0]] : (Span){0};
}

/* Operations that define a result for indices outside: a label of -1 gives the log-sum-exp and its derivative
 * (passes/train/loss.c), a place of -1 skips an element. */
static bool may_be_outside(OpKind k) { return k == OP_cross_entropy || k == OP_take || k == OP_scatter || k == OP_put; }

IndexSpan *index_spans(Module *m, const Func *f, size_t *n) {
  Span *spans = ARENA_ARRAY(m->arena, Span, f->values.n);
  IndexSpan *out = ARENA_ARRAY(m->arena, IndexSpan, f->ops.n + 1);
  Loops loops = loops_of(m->arena, f);
  *n = 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    int index;
    if (loops.of[i] >= 0 || !op->out) continue;
    const Expr *below = may_be_outside(op->kind) ? NULL : indexed_extent(m, f, op, &index);
    const Span *at = below ? &spans[op->in[index]] : NULL;
    bool from_the_end = at && at->first && op_int(op, AT_negative, 0) && !size_never_below(m, at->first, 0);
    if (at && at->first && !from_the_end)
      out[(*n)++] = (IndexSpan){i, at->first, at->last, below, any_elements(m, type_of(f, op->in[index]))};
    if (is_integer(type_of(f, op->out))) spans[op->out] = span_of(m, f, spans, op);
  }
  return out;
}

/* ---- ranges of indices */

/* Follows all integer inputs at once; the operands of a join must come from inputs in the same way. */
static void follow_inputs(Module *m, Ranging *r, const Op *op) {
  if (op->kind == OP_input) r->same[op->out] = is_integer(type_of(r->f, op->out));
  follow(m, r, op);
  bool alike = op->kind != OP_concat || comes_from_input(r, op->out);
  for (int i = 0; op->kind == OP_concat && i < op->nin; i++)
    alike = alike && r->same[op->in[i]] == r->same[op->in[0]] && r->wrapped[op->in[i]] == r->wrapped[op->in[0]] &&
            r->ignored[op->in[i]] == r->ignored[op->in[0]];
  if (!alike) r->same[op->out] = false, r->wrapped[op->out] = NULL;
}

static bool never_above(Module *m, const Expr *e, const Expr *most) {
  return size_never_below(m, ex_sub(m, most, e), 0);
}

Val index_unwrapped(Module *m, const Func *f, const Op *op, const Expr *below) {
  if (op->kind != OP_select) return 0;
  Val x = op->in[2];
  Ranging r = ranging_of(m, f, x);
  return wrapped_by(m, &r, op) == below ? x : 0;
}

/* True for a list of numbers, or a loop's round number, below `below` for all sizes. */
static bool is_inside(Module *m, const Func *f, Val v, const Expr *below) {
  const Op *op = op_of(f, v);
  while (index_is_moved(f, op)) op = op_of(f, op->in[0]);
  const Attr *ints = op->kind == OP_const ? op_attr(op, AT_ints) : NULL;
  if (op->kind == OP_loop) return op_expr(op, AT_trips) && never_above(m, op_expr(op, AT_trips), below);
  for (int i = 0; ints && i < ints->n; i++)
    if (ints->u.ints[i] < 0 || !size_never_below(m, ex_addi(m, below, -1 - ints->u.ints[i]), 0)) return false;
  return ints != NULL;
}

static IndexPlace place_of(Module *m, const Ranging *r, const Op *op, bool in_loop) {
  int index;
  const Expr *below = indexed_extent(m, r->f, op, &index);
  if (!below || is_inside(m, r->f, op->in[index], below)) return INDEX_INSIDE;
  Val x = op->in[index];
  bool checked = (r->same[x] || r->wrapped[x] == below) && !r->ignored[x] && !in_loop && !op_is_grouped(op->kind);
  return checked ? INDEX_CHECKED : INDEX_ANYWHERE;
}

IndexPlace *index_places(Module *m, const Func *f) {
  Ranging r = ranging_of(m, f, 0);
  IndexPlace *out = ARENA_ARRAY(m->arena, IndexPlace, f->ops.n + 1);
  Loops loops = loops_of(m->arena, f);
  size_t n;
  for (size_t i = 0; i < f->ops.n; i++) {
    follow_inputs(m, &r, &f->ops.items[i]);
    out[i] = place_of(m, &r, &f->ops.items[i], loops.of[i] >= 0);
  }
  const IndexSpan *spans = index_spans(m, f, &n);
  for (size_t i = 0; i < n; i++) {
    bool always =
        size_never_below(m, spans[i].first, 0) && never_above(m, spans[i].last, ex_addi(m, spans[i].below, -1));
    out[spans[i].op] = always ? INDEX_INSIDE : INDEX_CHECKED;
  }
  return out;
}

/* ---- slices and topk */

static bool always(Module *m, const SizeCondition *c) {
  return size_never_below(m, c->value, 0) && size_never_below(m, ex_sub(m, c->most, c->value), 0);
}

/* The last element start + (extent - 1) * stride exists if start + extent * stride <= have + stride - 1; without an
 * extent there is no last element. */
int slice_conditions(Module *m, const Func *f, const Op *op, int d, SizeCondition out[2]) {
  const Expr *start = op_attr(op, AT_starts)->u.exprs[d], *extent = type_of(f, op->out)->dims[d],
             *have = type_of(f, op->in[0])->dims[d];
  int64_t stride = op_attr(op, AT_strides)->u.ints[d], constant;
  int n = 0;
  if (ex_get_const(start, &constant) && ex_get_const(extent, &constant) && ex_get_const(have, &constant)) return 0;
  const Expr *most = ex_addi(m, ex_sub(m, have, ex_muli(m, extent, stride)), stride - 1);
  const SizeCondition all[] = {{extent, have}, {start, most}};
  for (int i = 0; i < 2; i++)
    if (!always(m, &all[i])) out[n++] = all[i];
  return n;
}

int topk_conditions(Module *m, const Func *f, const Op *op, SizeCondition *out) {
  *out = (SizeCondition){op_expr(op, AT_k), type_of(f, op->in[0])->dims[op_int(op, AT_axis, 0)]};
  return !always(m, out);
}
