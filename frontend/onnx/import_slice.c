/* frontend/onnx/import_slice.c - ONNX operators that pick parts of tensors or join them. */
#include <inttypes.h>
#include <string.h>

#include "frontend/onnx/import_private.h"
#include "ir/index_bound.h"

/* ---- Concat */

bool import_concat(ImportNode *n) {
  int axis, count = 0;
  Val part[16];
  for (size_t i = 0; i < n->proto->n_input; i++)
    if (!has_input(n, i)) return node_error(n, "input %zu is missing", i);
  if (!has_attr(n, "axis")) return node_error(n, "has no axis");
  if (!node_axis(n, node_int(n, "axis", 0), input_type(n, 0)->rank, &axis)) return false;
  for (size_t i = 1; i < n->proto->n_input; i++)
    for (int d = 0; d < input_type(n, 0)->rank && d < input_type(n, i)->rank; d++)
      if (d != axis) equal_extents(n, input_type(n, 0)->dims[d], input_type(n, i)->dims[d]);
  for (size_t i = 0; i < n->proto->n_input; i++) {
    if (count == 16) part[0] = build_concat(n->b, 16, part, axis), count = 1;
    if (!(part[count++] = input(n, i))) return false;
  }
  return import_set_output(n, 0, build_concat(n->b, count, part, axis));
}

/* ---- Gather */

/* Gathers one known index: a slice without its dimension, or with it (index of rank 1). */
static bool gather_one(ImportNode *n, int axis, const Expr *place, int index_rank) {
  const Type *t = input_type(n, 0);
  int64_t at, extent;
  if (known_bounds(n->m, place).high < 0) place = ex_add(n->m, place, t->dims[axis]);
  if (ex_get_const(place, &at) && ex_get_const(t->dims[axis], &extent)) {
    if (at < 0 || at >= extent)
      return node_error(n, "index %" PRId64 " is outside dimension %d of %s", at, axis, import_type_string(n->m, t));
  } else if (!known_need(n->m, place, 0) || !known_need(n->m, ex_sub(n->m, t->dims[axis], place), 1)) {
    return false;
  }
  Val x = build_slice(n->b, input(n, 0), axis, place, ex_const(n->m, 1), 1);
  return import_set_output(n, 0, index_rank == 0 ? drop_dims(n, x, 1u << axis) : x);
}

/* A symbolic size meets a table of constant extent: the size is bounded by the table, as the model intends (a larger
 * one would fail), and the extent stays the plain symbol. */
static void bound_symbol(ImportNode *n, const Expr *e, int64_t extent) {
  if (e->kind == EX_SYM) assume_range(n->m, (int)e->value, 0, extent);
}

static bool constant_of(ImportNode *n, Val v, int64_t *c) {
  const Expr *e = uniform_integer(n->m, n->b->f, v);
  return e && ex_get_const(e, c);
}

enum { MAX_STEPS = 1000 }; /* operations between an iota and an index computed from it */

/* The iota from which a value is computed by adding constants and moving elements; NULL for other values. */
static const Op *counted_by(ImportNode *n, Val v, int64_t *offset) {
  const Func *f = n->b->f;
  *offset = 0;
  for (int steps = 0; steps < MAX_STEPS; steps++) {
    const Op *op = op_of(f, v);
    int64_t c;
    if (op->kind == OP_iota) return op;
    if (op_arranges(op->kind) || op->kind == OP_cast) {
      v = op->in[0];
      continue;
    }
    if (op->kind != OP_add) return NULL;
    if (constant_of(n, op->in[1], &c)) v = op->in[0];
    else if (constant_of(n, op->in[0], &c)) v = op->in[1];
    else return NULL;
    if (__builtin_add_overflow(*offset, c, offset)) return NULL;
  }
  return NULL;
}

/* Positions 0, 1, ... index a table, so the dimension that they count is bounded by its extent, if it is one symbol
 * plus a constant. */
static bool bound_positions(ImportNode *n, Val index, const Expr *table) {
  int64_t extent, offset;
  const Op *iota = ex_get_const(table, &extent) ? counted_by(n, index, &offset) : NULL;
  if (!iota) return true;
  const Expr *count = ex_add(n->m, type_of(n->b->f, iota->out)->dims[op_int(iota, AT_axis, 0)],
                             ex_addi(n->m, op_expr(iota, AT_start), offset));
  bool sum = count->kind == EX_ADD && count->n == 1;
  if (extent > (sum ? count->value : 0))
    bound_symbol(n, sum ? count->args[0] : count, extent - (sum ? count->value : 0));
  int64_t least = known_bounds(n->m, count).low;
  return least <= extent || node_error(n, "%" PRId64 " positions index a table of %" PRId64, least, extent);
}

bool import_gather(ImportNode *n) {
  const Type *t = input_type(n, 0), *ti = input_type(n, 1);
  ImportKnown index = input_known(n, 1);
  int axis = 0;
  size_t errors = n->b->diags->errors;
  if (!node_axis(n, node_int(n, "axis", 0), t->rank, &axis)) return false;
  if (t->rank - 1 + ti->rank > MAX_RANK) return node_error(n, "a result of %d dimensions", t->rank - 1 + ti->rank);
  if (!indices_are_inside(n, 1, 1, &t->dims[axis])) return false;
  if (index.n == 1 && index.type->rank <= 1 && gather_one(n, axis, index.items[0], index.type->rank)) return true;
  if (n->b->diags->errors != errors) return false;
  Val at = input(n, 1);
  return at && bound_positions(n, at, t->dims[axis]) &&
         import_set_output(n, 0, gather_wrapped(n, input(n, 0), at, axis));
}

/* ---- Slice */

/* True for a constant beyond every extent: INT64_MIN and INT64_MAX mean an unknown end, as do INT32_MIN and
 * INT32_MAX in a list of that type.  Adding an extent to it might not fit an int64. */
static bool far_away(DType list, int64_t bound) {
  if (list == DT_i32) return bound == INT32_MIN || bound == INT32_MAX;
  return bound < -MAX_EXTENT || bound > MAX_EXTENT;
}

/* Resolves a bound: counted from the end if negative, then clamped to [low, high].  The negative of a size counts
 * from the end, although -0 would not. */
static const Expr *place(Module *m, DType list, const Expr *e, const Expr *extent, const Expr *low, const Expr *high) {
  Bounds b = known_bounds(m, e);
  int64_t constant;
  if (ex_get_const(e, &constant) && far_away(list, constant)) return constant < 0 ? low : high;
  if (b.high < 0 || (b.low < 0 && known_need(m, ex_muli(m, e, -1), 1))) e = ex_add(m, e, extent);
  else if (b.low < 0) /* from the end unless min(1, max(0, e + 1)) is 1 */
    e = ex_add(
        m, e,
        ex_sub(m, extent, ex_mul(m, extent, ex_min(m, ex_const(m, 1), ex_max(m, ex_const(m, 0), ex_addi(m, e, 1))))));
  if (known_ge(m, e, high)) return high;
  if (!known_ge(m, high, e)) e = ex_min(m, e, high);
  return known_ge(m, e, low) ? e : ex_max(m, e, low);
}

/* Gathers index start + i * step of one dimension, for negative steps. */
static Val gather_progression(ImportNode *n, Val x, int axis, const Expr *start, const Expr *count, int64_t step) {
  Val i = iota_i64(n, 1, &count, 0);
  Val at = binary(n, OP_add, binary_number(n, OP_mul, i, (double)step),
                  build_size(n->b, type_of_ints(n->m, DT_i64, 0, NULL), start));
  return x && at ? build_gather(n->b, x, at, axis) : 0;
}

typedef struct Cut {
  int axis;
  DType list; /* of the starts and ends */
  const Expr *start, *count;
  int64_t step;
} Cut;

/* Reads a cut: start and end are in [0, extent] if the step is positive, in [0, extent - 1] and [-1, extent - 1] if
 * it is negative. */
static void read_cut(ImportNode *n, const Expr *extent, const Expr *start, const Expr *end, Cut *cut) {
  Module *m = n->m;
  const Expr *zero = ex_const(m, 0);
  int64_t step = cut->step, constant;
  if (step > 0) {
    if (ex_get_const(extent, &constant) && !ex_get_const(end, &(int64_t){0})) bound_symbol(n, end, constant);
    if (ex_is_const(start, -1)) (void)known_need(m, extent, 1); /* the last element must exist */
    start = place(m, cut->list, start, extent, zero, extent);
    end = place(m, cut->list, end, extent, zero, extent);
  } else {
    const Expr *last = ex_addi(m, extent, -1);
    start = place(m, cut->list, start, extent, zero, last);
    end = place(m, cut->list, end, extent, ex_const(m, -1), last);
  }
  const Expr *span = step > 0 ? ex_sub(m, end, start) : ex_sub(m, start, end);
  span = ex_ceil_div(m, span, ex_const(m, step > 0 ? step : -step));
  cut->start = start;
  cut->count = known_bounds(m, span).low >= 0 ? span : ex_max(m, span, zero);
  /* An empty dimension has no elements between 0 and its last one. */
  if (step < 0 && known_bounds(m, extent).low < 1) cut->count = ex_min(m, cut->count, extent);
}

/* Bounds that are unknown: only their number; they may move with a loop. */
static ImportKnown computed_list(ImportNode *n, size_t i) {
  const Type *t = input_type(n, i);
  int64_t count;
  bool list = t->rank == 1 && dtype_class(t->dtype) == DTC_I && ex_get_const(t->dims[0], &count) && count <= MAX_RANK;
  return (ImportKnown){t, list ? (int)count : -1, NULL};
}

/* Reads starts, ends, axes, steps from attributes (before 10) or inputs; axes and steps may be absent. */
static bool slice_operands(ImportNode *n, ImportKnown k[4]) {
  static const char *const names[] = {"starts", "ends", "axes", "steps"};
  for (int i = 0; i < 4; i++) {
    int count = -1;
    if (n->opset >= 10) {
      size_t in = (size_t)i + 1;
      bool computed = i < 2 && has_input(n, in) && !input_known(n, in).items;
      if (computed) k[i] = computed_list(n, in);
      if (has_input(n, in) && (!computed || k[i].n < 0) && !input_exprs(n, in, names[i], &k[i])) return false;
      continue;
    }
    const int64_t *list = i < 3 ? node_ints(n, names[i], &count) : NULL;
    if (count > KNOWN_MAX) return node_error(n, "%d %s", count, names[i]);
    if (count >= 0) k[i] = known_ints(n->m, DT_i64, 1, (int64_t[]){count}, list);
  }
  for (int i = 0; i < 4; i++)
    if ((i < 2 || k[i].items) && k[i].n != k[0].n)
      return node_error(n, "%d starts but %d %s", k[0].n, k[i].n, names[i]);
  return k[0].type != NULL || node_error(n, "has no starts");
}

bool import_slice(ImportNode *n) {
  const Type *t = input_type(n, 0);
  ImportKnown k[4] = {{0}};
  unsigned seen = 0;
  Val x = 0;
  if (!slice_operands(n, k)) return false;
  for (int i = 0; i < k[0].n; i++) {
    Cut cut = {.step = 1, .list = k[0].type->dtype};
    int64_t axis = i;
    if (k[2].items && !ex_get_const(k[2].items[i], &axis)) return node_error(n, "an axis is not a constant");
    if (k[3].items && (!ex_get_const(k[3].items[i], &cut.step) || cut.step == 0))
      return node_error(n, "a step is not a constant other than 0");
    cut.step = cut.step > MAX_EXTENT    ? MAX_EXTENT
               : cut.step < -MAX_EXTENT ? -MAX_EXTENT
                                        : cut.step; /* one element, as for any step that large */
    if (!node_axis(n, axis, t->rank, &cut.axis)) return false;
    if (seen >> cut.axis & 1) return node_error(n, "axis %d is given twice", cut.axis);
    seen |= 1u << cut.axis;
    if (!k[0].items || !k[1].items) {
      if (!x && !(x = input(n, 0))) return false;
      if (cut.step != 1) return node_error(n, "a step where the bounds are computed");
      if (!import_slice_moves(n, i, cut.axis, &x)) return false;
      continue;
    }
    read_cut(n, t->dims[cut.axis], k[0].items[i], k[1].items[i], &cut);
    if (!x && !(x = input(n, 0))) return false;
    x = cut.step > 0 ? build_slice(n->b, x, cut.axis, cut.start, cut.count, cut.step)
                     : gather_progression(n, x, cut.axis, cut.start, cut.count, cut.step);
  }
  if (k[0].n) return import_set_output(n, 0, x);
  import_set_alias(n, 0, n->in[0]);
  return true;
}

/* ---- Split */

/* The parts' extents; equal if the node does not give them (the last may be smaller since 18). */
static bool split_sizes(ImportNode *n, const Expr *extent, size_t parts, const Expr **size) {
  Module *m = n->m;
  int count = -1;
  ImportKnown k = {0};
  const int64_t *list = n->opset < 13 ? node_ints(n, "split", &count) : NULL;
  if (n->opset >= 13 && has_input(n, 1)) {
    if (!input_exprs(n, 1, "the sizes", &k)) return false;
    count = k.n;
  }
  if (count >= 0 && (size_t)count != parts) return node_error(n, "%d sizes do not fit %zu outputs", count, parts);
  if (count < 0 && n->opset >= 18 && has_attr(n, "num_outputs") && node_int(n, "num_outputs", 0) != (int64_t)parts)
    return node_error(n, "num_outputs differs from its %zu outputs", parts);
  const Expr *even = ex_exact_div(m, extent, ex_const(m, (int64_t)parts)), *left = extent;
  if (!even && count < 0 && n->opset < 18)
    return node_error(n, "%s does not split into %zu equal parts", import_type_string(m, input_type(n, 0)), parts);
  if (!even) even = ex_ceil_div(m, extent, ex_const(m, (int64_t)parts));
  for (size_t i = 0; i < parts; i++) {
    size[i] = list ? ex_const(m, list[i]) : k.items ? k.items[i] : i + 1 < parts ? even : left;
    left = ex_sub(m, left, size[i]);
    if (known_bounds(m, size[i]).high < 0) return node_error(n, "output %zu would have a negative size", i);
  }
  return left == ex_const(m, 0) || node_error(n, "the sizes do not add up to the dimension");
}

bool import_split(ImportNode *n) {
  const Type *t = input_type(n, 0);
  size_t parts = n->proto->n_output;
  const Expr **size = ARENA_ARRAY(n->m->arena, const Expr *, parts), *start = ex_const(n->m, 0);
  int axis = 0;
  if (!node_axis(n, node_int(n, "axis", 0), t->rank, &axis) || !split_sizes(n, t->dims[axis], parts, size))
    return false;
  for (size_t i = 0; i < parts; i++) {
    if (wants(n, i) && !import_set_output(n, i, build_slice(n->b, input(n, 0), axis, start, size[i], 1))) return false;
    start = ex_add(n->m, start, size[i]);
  }
  return true;
}

/* ---- Pad */

/* Sets low[d] and high[d], 0 where the node does not pad; from an attribute before 11, with axes since 18. */
static bool pad_amounts(ImportNode *n, int rank, const Expr **low, const Expr **high) {
  ImportKnown k, axes = {0};
  int count;
  for (int d = 0; d < rank; d++) low[d] = high[d] = ex_const(n->m, 0);
  if (n->opset < 11) {
    const int64_t *list = node_ints(n, "pads", &count);
    if (count < 0 || count > KNOWN_MAX) return node_error(n, "has no pads");
    k = known_ints(n->m, DT_i64, 1, (int64_t[]){count}, list);
  } else if (!input_exprs(n, 1, "the pads", &k) || (has_input(n, 3) && !input_exprs(n, 3, "the axes", &axes))) {
    return false;
  }
  int named = axes.items ? axes.n : rank;
  if (k.n != 2 * named) return node_error(n, "%d pads do not fit %d dimensions", k.n, named);
  for (int i = 0; i < named; i++) {
    int64_t axis = i;
    int d;
    if (axes.items && !ex_get_const(axes.items[i], &axis)) return node_error(n, "an axis is not a constant");
    if (!node_axis(n, axis, rank, &d)) return false;
    low[d] = k.items[i];
    high[d] = k.items[named + i];
  }
  return true;
}

/* A negative pad that removes more than the extent also removes from the pad at the other end: for three elements,
 * -4 before and 3 after leave 2 of padding. */
static void cut_rest(ImportNode *n, const Expr *extent, const Expr **cut, const Expr **other) {
  const Expr *rest = ex_add(n->m, extent, *cut);
  if (known_bounds(n->m, rest).high >= 0) return;
  *cut = ex_muli(n->m, extent, -1);
  *other = ex_add(n->m, *other, rest);
}

/* Crops the parts of one dimension that negative pads remove. */
static Val crop(ImportNode *n, Val x, int axis, const Expr **low, const Expr **high) {
  const Expr *zero = ex_const(n->m, 0), *cut_low = zero, *cut_high = zero;
  if (!x) return 0;
  cut_rest(n, type_of(n->b->f, x)->dims[axis], low, high);
  cut_rest(n, type_of(n->b->f, x)->dims[axis], high, low);
  if (known_bounds(n->m, *low).high < 0) cut_low = ex_sub(n->m, zero, *low), *low = zero;
  if (known_bounds(n->m, *high).high < 0) cut_high = ex_sub(n->m, zero, *high), *high = zero;
  if (cut_low == zero && cut_high == zero) return x;
  const Expr *extent = type_of(n->b->f, x)->dims[axis];
  return build_slice(n->b, x, axis, cut_low, ex_sub(n->m, extent, ex_add(n->m, cut_low, cut_high)), 1);
}

/* at mod period in [0, period); OP_mod itself takes the sign of `at`. */
static Val in_period(ImportNode *n, Val at, Val period) {
  return binary(n, OP_mod, binary(n, OP_add, binary(n, OP_mod, at, period), period), period);
}

/* Modes that repeat elements: element i of the result is element f(i - low) of the input.  Pads may span any number
 * of periods, as in NumPy; the only element of a dimension of extent 1 is its own reflection. */
static Val repeat_pad(ImportNode *n, Val x, int axis, const Expr *low, const Expr *high, const char *mode) {
  if (!x) return 0;
  const Expr *extent = type_of(n->b->f, x)->dims[axis];
  const Expr *count = ex_add(n->m, ex_add(n->m, low, extent), high);
  const Type *scalar = type_of_ints(n->m, DT_i64, 0, NULL);
  Val at = binary(n, OP_sub, iota_i64(n, 1, &count, 0), build_size(n->b, scalar, low));
  Val size = build_size(n->b, scalar, extent), last = build_size(n->b, scalar, ex_addi(n->m, extent, -1));
  if (strcmp(mode, "edge") == 0) {
    at = binary(n, OP_min, binary_number(n, OP_max, at, 0), last);
  } else if (strcmp(mode, "reflect") == 0) {
    const Expr *end = ex_addi(n->m, extent, -1), *period = ex_max(n->m, ex_muli(n->m, end, 2), ex_const(n->m, 1));
    bool one_turn = known_ge(n->m, end, low) && known_ge(n->m, end, high);
    at = one_turn ? build_unary(n->b, OP_abs, at) : in_period(n, at, build_size(n->b, scalar, period));
    at = binary(n, OP_sub, last, build_unary(n->b, OP_abs, binary(n, OP_sub, last, at)));
  } else {
    at = in_period(n, at, size);
  }
  return at ? build_gather(n->b, x, at, axis) : 0;
}

bool import_pad(ImportNode *n) {
  const Type *t = input_type(n, 0);
  const char *mode = node_string(n, "mode", "constant");
  const Expr *low[MAX_RANK], *high[MAX_RANK];
  double value = n->opset < 11 ? node_float(n, "value", 0) : 0;
  bool constant = strcmp(mode, "constant") == 0;
  if (!constant && strcmp(mode, "edge") != 0 && strcmp(mode, "reflect") != 0 && strcmp(mode, "wrap") != 0)
    return node_error(n, "mode is \"%s\"", mode);
  if (!pad_amounts(n, t->rank, low, high)) return false;
  if (n->opset >= 11 && has_input(n, 2) && !input_number(n, 2, &value)) return input_refused(n, 2, "the padding value");
  Val x = input(n, 0);
  for (int d = 0; d < t->rank; d++) {
    x = crop(n, x, d, &low[d], &high[d]);
    if (known_bounds(n->m, low[d]).low < 0) assume_positive(n->m, low[d]);
    if (known_bounds(n->m, high[d]).low < 0) assume_positive(n->m, high[d]);
    if (known_bounds(n->m, low[d]).low < 0 || known_bounds(n->m, high[d]).low < 0)
      return diag_error(n->b->diags, DIAG_onnx_shape, n->b->loc, "Pad: cannot tell whether a pad is negative");
    bool none = ex_is_const(low[d], 0) && ex_is_const(high[d], 0);
    if (constant || none || !x) continue;
    const Expr *extent = type_of(n->b->f, x)->dims[d];
    assume_extent(n->m, ex_addi(n->m, extent, -1));
    if (known_bounds(n->m, extent).high < 1)
      return node_error(n, "mode %s repeats elements, and dimension %d has none", mode, d);
    x = repeat_pad(n, x, d, low[d], high[d], mode);
  }
  if (!constant || !x) return import_set_output(n, 0, x);
  Attr a[] = {attr_exprs(n->m, AT_low, t->rank, low), attr_exprs(n->m, AT_high, t->rank, high),
              attr_f(AT_value, value)};
  return import_set_output(n, 0,
                           build_op(n->b, &(OpSpec){.kind = OP_pad, .nin = 1, .in = &x, .nattrs = 3, .attrs = a}));
}

/* Crops or pads each axis to its size around the middle; an odd element is cropped or padded at the end. */
bool import_center_crop_pad(ImportNode *n) {
  const Type *t = input_type(n, 0);
  ImportKnown shape;
  int listed, d = 0;
  const int64_t *list = node_ints(n, "axes", &listed);
  if (!input_shape(n, 1, "the shape", &shape)) return false;
  if (shape.n != (listed >= 0 ? listed : t->rank))
    return node_error(n, "%d sizes do not fit %d axes", shape.n, listed >= 0 ? listed : t->rank);
  Val x = input(n, 0);
  for (int i = 0; i < shape.n && x; i++) {
    if (!node_axis(n, listed >= 0 ? list[i] : i, t->rank, &d)) return false;
    const Expr *have = t->dims[d], *want = shape.items[i], *two = ex_const(n->m, 2);
    if (known_ge(n->m, have, want)) {
      if (have != want) x = build_slice(n->b, x, d, ex_div(n->m, ex_sub(n->m, have, want), two), want, 1);
      continue;
    }
    if (!known_ge(n->m, want, have))
      return diag_error(n->b->diags, DIAG_onnx_shape, n->b->loc,
                        "CenterCropPad: cannot tell whether axis %d is cut or padded", d);
    const Expr *low[MAX_RANK], *high[MAX_RANK], *more = ex_sub(n->m, want, have);
    for (int k = 0; k < t->rank; k++) low[k] = high[k] = ex_const(n->m, 0);
    low[d] = ex_div(n->m, more, two);
    high[d] = ex_sub(n->m, more, low[d]);
    Attr a[] = {attr_exprs(n->m, AT_low, t->rank, low), attr_exprs(n->m, AT_high, t->rank, high), attr_f(AT_value, 0)};
    x = build_op(n->b, &(OpSpec){.kind = OP_pad, .nin = 1, .in = &x, .nattrs = 3, .attrs = a});
  }
  return import_set_output(n, 0, x);
}
