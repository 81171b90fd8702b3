/* frontend/onnx/import_suppress.c - NonMaxSuppression.
 *
 * A loop selects the best box that is left of each batch and class, and removes the boxes that overlap it too much, as
 * often as boxes may be selected or until none is left.  Round t writes the selected boxes, or -1, to row t of a list;
 * the boxes in that list are the result (import_counted.c).  Boxes and scores are compared as ONNX Runtime does: boxes
 * without area overlap nothing, and corners may be in any order.
 */
#include <math.h>

#include "frontend/onnx/counted.h"

typedef struct Suppress {
  ImportNode *n;
  const Expr *batches, *classes, *boxes;
  const Expr *rounds;        /* at most so many boxes of a class */
  Val count;                 /* the rounds as a value */
  Val low[2], high[2], area; /* corners of the boxes, [batch, box] */
  Val iou, score;            /* thresholds, f32[]; score 0 if there is none */
} Suppress;

static Val column(const Suppress *s, Val boxes, int k) {
  ImportNode *n = s->n;
  Val one = boxes ? build_slice(n->b, boxes, 2, ex_const(n->m, k), ex_const(n->m, 1), 1) : 0;
  return one ? drop_dims(n, one, 1u << 2) : 0;
}

/* Reads [y1, x1, y2, x2], or centers and sizes [x, y, width, height]. */
static bool read_boxes(Suppress *s, bool centers) {
  ImportNode *n = s->n;
  Val boxes = input(n, 0), c[4];
  for (int k = 0; k < 4; k++)
    if (!(c[k] = column(s, boxes, k))) return false;
  for (int d = 0; d < 2; d++) { /* y, x */
    Val half = centers ? binary_number(n, OP_mul, c[3 - d], 0.5) : 0, a = centers ? c[1 - d] : 0;
    s->low[d] = centers ? binary(n, OP_sub, a, half) : binary(n, OP_min, c[d], c[d + 2]);
    s->high[d] = centers ? binary(n, OP_add, a, half) : binary(n, OP_max, c[d], c[d + 2]);
    if (!s->low[d] || !s->high[d]) return false;
  }
  s->area = binary(n, OP_mul, binary(n, OP_sub, s->high[0], s->low[0]), binary(n, OP_sub, s->high[1], s->low[1]));
  return s->area != 0;
}

/* Reads how many boxes of a class may be selected: a known number, or one from data. */
static bool read_most(Suppress *s) {
  ImportNode *n = s->n;
  ImportKnown k = has_input(n, 2) ? input_known(n, 2) : (ImportKnown){0};
  const Expr *zero = ex_const(n->m, 0);
  bool data = has_input(n, 2) && !k.items;
  const Expr *most = !has_input(n, 2) ? zero : data ? NULL : ex_max(n->m, k.items[0], zero);
  s->rounds = most ? ex_min(n->m, most, s->boxes) : s->boxes;
  s->count =
      data ? build_cast(n->b, build_reshape(n->b, input(n, 2), 0, NULL), DT_i64) : import_scalar_i64(n, s->rounds);
  return s->count != 0;
}

static Val threshold(ImportNode *n, size_t i) { return build_reshape(n->b, input(n, i), 0, NULL); }

static bool read(Suppress *s) {
  ImportNode *n = s->n;
  const Type *t = input_type(n, 0), *ts = input_type(n, 1);
  if (t->rank != 3 || ts->rank != 3 || !ex_is_const(t->dims[2], 4))
    return node_error(n, "boxes are %s, scores %s", import_type_string(n->m, t), import_type_string(n->m, ts));
  s->batches = ts->dims[0], s->classes = ts->dims[1], s->boxes = ts->dims[2];
  if (!equal_extents(n, t->dims[0], s->batches) || !equal_extents(n, t->dims[1], s->boxes))
    return node_error(n, "boxes are %s, scores %s", import_type_string(n->m, t), import_type_string(n->m, ts));
  if (!read_boxes(s, node_int(n, "center_point_box", 0) != 0) || !read_most(s)) return false;
  const Type *f32 = type_of_ints(n->m, DT_f32, 0, NULL);
  s->iou = has_input(n, 3) ? threshold(n, 3) : build_splat(n->b, f32, 0);
  s->score = has_input(n, 4) ? threshold(n, 4) : 0;
  return s->iou && (s->score || !has_input(n, 4));
}

/* [batch, box] as [batch, 1, box]; the selected boxes' [batch, class] as [batch, class, 1] */
static Val of_boxes(const Suppress *s, Val v) { return v ? insert_dims(s->n, v, 1u << 1, 3) : 0; }
static Val of_selected(const Suppress *s, Val v, Val at) {
  Val x = v ? take(s->n, v, at, 1) : 0;
  return x ? insert_dims(s->n, x, 1u << 2, 3) : 0;
}

/* True where a box overlaps the selected one of its batch and class by more than the threshold: [batch, class, box]. */
static Val overlaps(const Suppress *s, Val at) {
  ImportNode *n = s->n;
  Val both = 0;
  for (int d = 0; d < 2; d++) {
    Val high = binary(n, OP_min, of_boxes(s, s->high[d]), of_selected(s, s->high[d], at));
    Val low = binary(n, OP_max, of_boxes(s, s->low[d]), of_selected(s, s->low[d], at));
    Val side = high && low ? binary_number(n, OP_max, binary(n, OP_sub, high, low), 0) : 0;
    if (!side) return 0;
    both = both ? binary(n, OP_mul, both, side) : side;
  }
  Val mine = of_boxes(s, s->area), its = of_selected(s, s->area, at);
  if (!mine || !its) return 0;
  Val all = binary(n, OP_sub, binary(n, OP_add, mine, its), both);
  Val real = binary(n, OP_and, binary_number(n, OP_gt, mine, 0), binary_number(n, OP_gt, its, 0));
  real = binary(n, OP_and, real, binary(n, OP_and, binary_number(n, OP_gt, both, 0), binary_number(n, OP_gt, all, 0)));
  return binary(n, OP_and, real, binary(n, OP_gt, binary(n, OP_div, both, all), s->iou));
}

/* One round: `left` marks the boxes that may be selected, `scores` is theirs.  Sets *at to the index of the selected
 * box, *any to whether there is one, [batch, class]; returns the boxes left. */
static Val select_best(const Suppress *s, Val scores, Val left, Val *at, Val *any) {
  ImportNode *n = s->n;
  Val lowest = splat_like(n, scores, -INFINITY);
  Val valid = select3(n, left, scores, lowest), best = import_reduce_axes(n, RED_MAX, valid, 1u << 2, true);
  if (!best) return 0;
  const Type *t = type_of(n->b->f, scores);
  Val is_best = binary(n, OP_and, left, binary(n, OP_eq, valid, best)), place = iota_i64(n, 3, t->dims, 2);
  Val none = is_best ? build_size(n->b, type_of(n->b->f, place), s->boxes) : 0;
  *at = none ? import_reduce_axes(n, RED_MIN, select3(n, is_best, place, none), 1u << 2, false) : 0;
  if (!*at) return 0;
  *any = binary(n, OP_lt, *at, build_size(n->b, type_of(n->b->f, *at), s->boxes));
  Val over = *any ? overlaps(s, *at) : 0;
  Val its = over ? binary(n, OP_eq, place, insert_dims(n, *at, 1u << 2, 3)) : 0;
  Val gone = its ? binary(n, OP_or, its, over) : 0;
  return gone ? binary(n, OP_and, left, build_unary(n->b, OP_not, gone)) : 0;
}

/* Returns the selected boxes, or -1: [round, batch, class]. */
static Val select_all(const Suppress *s) {
  ImportNode *n = s->n;
  Val scores = input(n, 1), left = 0;
  if (!scores) return 0;
  const Type *t = type_of(n->b->f, scores);
  left = s->score ? binary(n, OP_gt, scores, s->score) : build_splat(n->b, type_with_dtype(n->m, t, DT_bool), 1);
  const Expr *dims[] = {s->rounds, s->batches, s->classes}, *one = ex_const(n->m, 1);
  Val list = build_splat(n->b, type_get(n->m, DT_i64, 3, dims), -1), at, any;
  Val round = left && list ? build_loop(n->b, s->count, s->rounds) : 0;
  if (!round) return 0;
  Val left_now = build_carry(n->b, left), list_now = build_carry(n->b, list);
  Val left_next = select_best(s, scores, left_now, &at, &any);
  if (!left_next) return 0;
  Val row = select3(n, any, at, splat_like(n, at, -1));
  row = row ? build_reshape(n->b, row, 3, (const Expr *[]){one, s->batches, s->classes}) : 0;
  Attr a[2] = {attr_i(AT_axis, 0), attr_e(AT_start, ex_const(n->m, 0))};
  Val list_next =
      row ? build_op(
                n->b,
                &(OpSpec){.kind = OP_update, .nin = 3, .in = (Val[]){list_now, row, round}, .nattrs = 2, .attrs = a})
          : 0;
  Val again = list_next ? import_reduce_axes(n, RED_OR, left_next, 7, false) : 0;
  if (!again) return 0;
  build_repeat(n->b, round, again);
  build_leave(n->b, left_now, left_next);
  return build_leave(n->b, list_now, list_next);
}

/* Lists [batch, class, box] of the selected boxes, by batch, class and round. */
bool import_non_max_suppression(ImportNode *n) {
  Suppress s = {.n = n};
  Val list = read(&s) ? select_all(&s) : 0, columns[3];
  if (!list) return false;
  Val by_class = build_transpose(n->b, list, (const int[]){1, 2, 0});
  const Expr *all = by_class ? type_elements(n->m, type_of(n->b->f, by_class)) : NULL, *one = ex_const(n->m, 1);
  Val flat = all ? build_reshape(n->b, by_class, 1, &all) : 0;
  Val at = flat ? counted_indices(n, binary_number(n, OP_ge, flat, 0)) : 0;
  if (!at) return false;
  const Expr *size = type_of(n->b->f, at)->dims[0];
  columns[0] = counted_digit(n, at, ex_mul(n->m, s.classes, s.rounds), NULL);
  columns[1] = counted_digit(n, at, s.rounds, s.classes);
  columns[2] = build_gather(n->b, flat, at, 0);
  for (int k = 0; k < 3; k++)
    if (!columns[k] || !(columns[k] = build_reshape(n->b, columns[k], 2, (const Expr *[]){size, one}))) return false;
  return import_set_output(n, 0, build_concat(n->b, 3, columns, 1));
}
