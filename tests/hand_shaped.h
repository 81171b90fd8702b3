/* tests/hand_shaped.h - writes a level-2 function for a level-1 function as a person would by hand: operation by
 * operation.
 *
 * Every operation gets the pieces of its operands (tests/hand_pieces.h), moves them until they fit together, and
 * records where its result lies.  For a slice, pad, join or window, the parts of the result are chosen first, and the
 * operands are moved to hold what those need.  Most decisions may slip, so programs are right or wrong in ways that
 * lowering never produces.  hand_write returns NULL if the text is no valid function, as happens. */
#ifndef APC_TESTS_HAND_SHAPED_H
#define APC_TESTS_HAND_SHAPED_H

#include "tests/hand_task.h"

static void do_elementwise(const Task *k) {
  for (int i = 1; i < k->op->nin; i++)
    for (int d = 0; d < k->t->rank; d++) hold_as(k->h, &k->in[i], d, &k->in[0], d);
  memcpy(k->y->lo, k->in[0].lo, sizeof k->y->lo);
  finish_with(k, NULL, 0, NULL);
}

static void do_broadcast(const Task *k) {
  const Attr *dims = op_attr(k->op, AT_dims);
  const Expr *extents[MAX_RANK];
  uint32_t taken = taken_by(k);
  int from[MAX_RANK];
  memset(from, -1, sizeof from);
  for (int i = 0; i < dims->n; i++)
    if (l1_type(k->h, k->op->in[0])->dims[i] == k->t->dims[dims->u.ints[i]]) from[dims->u.ints[i]] = i;
    else hold_whole(k->h, &k->in[0], i, number(k->h, 1));
  for (int d = 0; d < k->t->rank && !k->h->failed; d++) {
    const Expr *hi;
    if (from[d] >= 0) k->y->lo[d] = k->in[0].lo[from[d]], hi = end_of(k->h, &k->in[0], from[d]);
    else want_part(k, k->t->dims[d], &taken, &k->y->lo[d], &hi);
    extents[d] = ex_sub(k->h->m, hi, k->y->lo[d]);
    if (from[d] < 0) extents[d] = place_of(k->h, extents[d]);
  }
  finish_with(k, NULL, 0, k->h->failed ? NULL : local_of(k, extents));
}

static void do_transpose(const Task *k) {
  const Attr *perm = op_attr(k->op, AT_perm);
  int64_t list[MAX_RANK];
  for (int d = 0; d < k->t->rank; d++) list[d] = perm->u.ints[d], k->y->lo[d] = k->in[0].lo[perm->u.ints[d]];
  int wrong = slip(k->h);
  if (wrong && k->t->rank > 1) {
    int a = wrong % k->t->rank, b = (a + 1) % k->t->rank;
    int64_t keep = list[a];
    list[a] = list[b], list[b] = keep;
  }
  Attr attr = attr_ints(k->h->m, AT_perm, k->t->rank, list);
  finish_with(k, &attr, 1, NULL);
}

/* Groups of dimensions with equal products; the only cut dimension of a group becomes the first of the result above
 * 1. */
static void do_reshape(const Task *k) {
  Hand *h = k->h;
  Module *m = h->m;
  const Type *x = l1_type(h, k->op->in[0]), *y = k->t;
  const Expr *extents[MAX_RANK];
  for (int d = 0; d < y->rank; d++) k->y->lo[d] = number(h, 0), extents[d] = y->dims[d];
  for (int i = 0, j = 0; (i < x->rank || j < y->rank) && !h->failed;) {
    int i0 = i, j0 = j, cut = -1, to = -1;
    const Expr *a = number(h, 1), *b = a;
    do {
      bool left = i < x->rank && (j == y->rank || (a == b ? i == i0 : ex_exact_div(m, b, a) != NULL));
      if (left) a = ex_mul(m, a, x->dims[i++]);
      else b = ex_mul(m, b, y->dims[j++]);
    } while (a != b && (i < x->rank || j < y->rank));
    if (a != b) h->failed = true;
    for (int d = i0; d < i && !h->failed; d++) {
      if (k->in[0].lo[d] == number(h, 0) && extent_of(h, &k->in[0], d) == x->dims[d]) continue;
      if (cut < 0) cut = d;
      else hold_whole(h, &k->in[0], d, x->dims[d]);
    }
    for (int d = j - 1; d >= j0; d--)
      if (!ex_is_const(y->dims[d], 1)) to = d;
    int wrong = slip(h);
    if (wrong && j > j0) to = j0 + wrong % (j - j0);
    if (cut < 0 || h->failed) continue;
    const Expr *behind_x = number(h, 1), *behind_y = behind_x, *lo = NULL, *extent = NULL;
    for (int d = cut + 1; d < i; d++) behind_x = ex_mul(m, behind_x, x->dims[d]);
    for (int d = to + 1; to >= 0 && d < j; d++) behind_y = ex_mul(m, behind_y, y->dims[d]);
    bool first = true;
    for (int d = i0; d < cut; d++) first = first && ex_is_const(x->dims[d], 1);
    if (to >= 0 && (first || wrong)) {
      lo = ex_exact_div(m, ex_mul(m, k->in[0].lo[cut], behind_x), behind_y);
      extent = ex_exact_div(m, ex_mul(m, extent_of(h, &k->in[0], cut), behind_x), behind_y);
    }
    if (lo && extent) k->y->lo[to] = lo, extents[to] = extent;
    else hold_whole(h, &k->in[0], cut, x->dims[cut]);
  }
  finish_with(k, NULL, 0, h->failed ? NULL : local_of(k, extents));
}

static void do_slice(const Task *k) {
  Hand *h = k->h;
  Module *m = h->m;
  const Attr *starts = op_attr(k->op, AT_starts), *strides = op_attr(k->op, AT_strides);
  const Expr *from[MAX_RANK], *extents[MAX_RANK];
  for (int d = 0; d < k->t->rank && !h->failed; d++) {
    uint32_t taken = taken_by(k) & ~cut_axes(h, &k->in[0], d);
    const Expr *lo, *hi, *x = l1_type(h, k->op->in[0])->dims[d];
    if (x == k->t->dims[d] && ex_is_const(starts->u.exprs[d], 0) && strides->u.ints[d] == 1) {
      k->y->lo[d] = k->in[0].lo[d], extents[d] = extent_of(h, &k->in[0], d), from[d] = number(h, 0);
      continue;
    }
    for (int e = 0; e < d; e++) taken |= axes_in(h, k->y->lo[e]) | axes_in(h, extents[e]);
    want_part(k, k->t->dims[d], &taken, &lo, &hi);
    const Expr *first = ex_add(m, starts->u.exprs[d], ex_muli(m, lo, strides->u.ints[d]));
    const Expr *end = ex_addi(m, ex_add(m, starts->u.exprs[d], ex_muli(m, ex_addi(m, hi, -1), strides->u.ints[d])), 1);
    if (below(h->r, 2)) hold_whole(h, &k->in[0], d, x);
    else hold(h, &k->in[0], d, first, below(h->r, 2) ? ex_max(m, end, first) : end);
    k->y->lo[d] = lo;
    extents[d] = ex_sub(m, hi, lo);
    from[d] = place_of(h, ex_sub(m, first, k->in[0].lo[d]));
  }
  Attr attr = attr_exprs(m, AT_starts, k->t->rank, h->failed ? starts->u.exprs : from);
  finish_with(k, &attr, 1, h->failed ? NULL : local_of(k, extents));
}

static const Expr *clipped(const Hand *h, const Expr *e, const Expr *extent) {
  return ex_min(h->m, ex_max(h->m, e, number(h, 0)), extent);
}

static void do_pad(const Task *k) {
  Hand *h = k->h;
  Module *m = h->m;
  const Attr *l1_low = op_attr(k->op, AT_low), *l1_high = op_attr(k->op, AT_high);
  const Expr *low[MAX_RANK], *high[MAX_RANK];
  for (int d = 0; d < k->t->rank && !h->failed; d++) {
    const Expr *lo, *hi, *x = l1_type(h, k->op->in[0])->dims[d], *zero = number(h, 0);
    low[d] = l1_low->u.exprs[d], high[d] = l1_high->u.exprs[d];
    k->y->lo[d] = k->in[0].lo[d];
    if (ex_is_const(low[d], 0) && ex_is_const(high[d], 0)) continue;
    uint32_t taken = taken_by(k) & ~cut_axes(h, &k->in[0], d);
    for (int e = 0; e < d; e++) taken |= axes_in(h, k->y->lo[e]);
    want_part(k, k->t->dims[d], &taken, &lo, &hi);
    k->y->lo[d] = lo;
    if (hi == k->t->dims[d] && lo == zero) {
      hold_whole(h, &k->in[0], d, x);
    } else {
      const Expr *first = clipped(h, ex_sub(m, lo, l1_low->u.exprs[d]), x),
                 *end = clipped(h, ex_sub(m, hi, l1_low->u.exprs[d]), x), *extent = ex_sub(m, hi, lo);
      hold(h, &k->in[0], d, first, end);
      low[d] = ex_max(m, zero, ex_min(m, ex_sub(m, l1_low->u.exprs[d], lo), extent));
      high[d] = ex_sub(m, ex_sub(m, extent, low[d]), ex_sub(m, end, first));
    }
    int wrong = slip(h);
    if (wrong) { /* some padding moves from the front to the end */
      const Expr *moved = ex_sub(m, astray(h, low[d], wrong - 1), low[d]);
      low[d] = ex_add(m, low[d], moved), high[d] = ex_sub(m, high[d], moved);
    }
  }
  if (h->failed) return;
  Attr attrs[] = {attr_exprs(m, AT_low, k->t->rank, low), attr_exprs(m, AT_high, k->t->rank, high)};
  finish_with(k, attrs, 2, NULL);
}

static void do_concat(const Task *k) {
  Hand *h = k->h;
  int axis = (int)op_int(k->op, AT_axis, 0);
  uint32_t taken = 0;
  for (int d = 0; d < k->t->rank; d++) {
    if (d == axis) continue;
    for (int i = 1; i < k->op->nin; i++) hold_as(h, &k->in[i], d, &k->in[0], d);
    k->y->lo[d] = k->in[0].lo[d];
    if (!h->failed) taken |= cut_axes(h, &k->in[0], d);
  }
  const Expr *lo, *hi, *offset = number(h, 0);
  want_part(k, k->t->dims[axis], &taken, &lo, &hi);
  for (int i = 0; i < k->op->nin && !h->failed; i++) {
    const Expr *x = l1_type(h, k->op->in[i])->dims[axis], *from = place_of(h, offset);
    hold(h, &k->in[i], axis, clipped(h, ex_sub(h->m, lo, from), x), clipped(h, ex_sub(h->m, hi, from), x));
    offset = ex_add(h->m, offset, x);
  }
  k->y->lo[axis] = lo;
  finish_with(k, NULL, 0, NULL);
}

static void do_reduce(const Task *k) {
  Hand *h = k->h;
  const Attr *axes = op_attr(k->op, AT_axes);
  const Expr *starts[MAX_RANK];
  Reduction r = op_attr(k->op, AT_op)->u.reduction;
  Attr attrs[4];
  bool cut = false;
  int next = 0, n = 0;
  for (int d = 0; d < l1_type(h, k->op->in[0])->rank && !h->failed; d++) {
    if (next == axes->n || axes->u.ints[next] != d) {
      k->y->lo[n++] = k->in[0].lo[d];
      continue;
    }
    if (cut_axes(h, &k->in[0], d) && k->y->axes && below(h->r, 4))
      hold_whole(h, &k->in[0], d, l1_type(h, k->op->in[0])->dims[d]);
    if (h->failed) return;
    cut |= cut_axes(h, &k->in[0], d) != 0;
    sum_over(k, &k->in[0], d, r);
    starts[next++] = place_of(h, k->in[0].lo[d]);
  }
  int nattrs = attrs_with(k, attrs, NULL, 0);
  if (cut) attrs[nattrs++] = attr_exprs(h->m, AT_starts, axes->n, starts);
  if (!h->failed) finish(k, nattrs, attrs, NULL);
}

/* Letters of products: letters that operands share lie alike, letters that the result lacks are summed. */
static void letters(const Task *k, bool capitals) {
  Hand *h = k->h;
  const char *spec = op_str(k->op, AT_spec), *second = strchr(spec, ',') + 1, *result = strstr(spec, "->") + 2;
  for (int d = 0; second[d] != '-'; d++) {
    const char *same = memchr(spec, second[d], (size_t)(second - spec));
    if (same && (capitals || second[d] >= 'a')) hold_as(h, &k->in[1], d, &k->in[0], (int)(same - spec));
  }
  for (int i = 0; i < 2 && !h->failed; i++) {
    const char *s = i ? second : spec;
    for (int d = 0; s[d] != (i ? '-' : ',') && !h->failed; d++) {
      const char *at = strchr(result, s[d]);
      bool both = i == 1 && memchr(spec, s[d], (size_t)(second - spec));
      if (s[d] < 'a' && !capitals) continue;
      if (at) k->y->lo[at - result] = k->in[i].lo[d];
      else if (!both) sum_over(k, &k->in[i], d, RED_SUM);
    }
  }
}

static void do_dot(const Task *k) {
  letters(k, true);
  finish_with(k, NULL, 0, NULL);
}

/* ---- indices */

static void do_gather(const Task *k) {
  Hand *h = k->h;
  int axis = (int)op_int(k->op, AT_axis, 0), n = 0;
  if (h->failed) return;
  sum_over(k, &k->in[0], axis, RED_ONE);
  for (int d = 0; d < axis; d++) k->y->lo[n++] = k->in[0].lo[d];
  for (int d = 0; d < l1_type(h, k->op->in[1])->rank; d++) k->y->lo[n++] = k->in[1].lo[d];
  for (int d = axis + 1; d < l1_type(h, k->op->in[0])->rank; d++) k->y->lo[n++] = k->in[0].lo[d];
  Attr start = attr_e(AT_start, place_of(h, k->in[0].lo[axis]));
  finish_with(k, &start, 1, NULL);
}

static void do_take(const Task *k) {
  int axis = (int)op_int(k->op, AT_axis, 0);
  for (int d = 0; d < k->t->rank; d++) {
    if (d != axis) hold_as(k->h, &k->in[1], d, &k->in[0], d);
    k->y->lo[d] = k->in[1].lo[d];
  }
  if (k->h->failed) return;
  sum_over(k, &k->in[0], axis, RED_ONE);
  Attr start = attr_e(AT_start, place_of(k->h, k->in[0].lo[axis]));
  finish_with(k, &start, 1, NULL);
}

static void do_scatter(const Task *k) {
  Hand *h = k->h;
  int axis = (int)op_int(k->op, AT_axis, 0), nindex = l1_type(h, k->op->in[1])->rank, n = 0;
  bool put = k->op->kind == OP_put;
  const Expr *lo, *hi, *extents[MAX_RANK];
  Reduction r = op_attr(k->op, AT_op)->u.reduction;
  for (int d = 0; d < nindex; d++) hold_as(h, &k->in[1], d, &k->in[0], put ? d : axis + d);
  if (h->failed) return;
  uint32_t taken = taken_by(k);
  want_part(k, k->t->dims[axis], &taken, &lo, &hi);
  for (int d = 0; d < l1_type(h, k->op->in[0])->rank; d++) {
    bool indexed = put ? d == axis : d >= axis && d < axis + nindex;
    if (indexed) sum_over(k, &k->in[0], d, r);
    if (n == axis) k->y->lo[n] = lo, extents[n++] = ex_sub(h->m, hi, lo);
    if (!indexed) k->y->lo[n] = k->in[0].lo[d], extents[n++] = extent_of(h, &k->in[0], d);
  }
  if (n == axis) k->y->lo[n] = lo, extents[n++] = ex_sub(h->m, hi, lo);
  Attr start = attr_e(AT_start, place_of(h, lo));
  finish_with(k, &start, 1, local_of(k, extents));
}

static void do_update(const Task *k) {
  Hand *h = k->h;
  int axis = (int)op_int(k->op, AT_axis, 0);
  for (int d = 0; d < k->t->rank; d++)
    if (d != axis) hold_as(h, &k->in[1], d, &k->in[0], d);
    else if (!slip(h)) hold_whole(h, &k->in[1], d, l1_type(h, k->op->in[1])->dims[d]);
  memcpy(k->y->lo, k->in[0].lo, sizeof k->y->lo);
  if (h->failed) return;
  Attr start = attr_e(AT_start, place_of(h, k->in[0].lo[axis]));
  finish_with(k, &start, 1, NULL);
}

static void do_grouped(const Task *k) {
  Hand *h = k->h;
  int rows = k->t->rank - 1, last = k->op->nin - 1;
  bool mlp = k->op->kind == OP_grouped_mlp;
  for (int d = 0; d < rows; d++) hold_as(h, &k->in[1], d, &k->in[0], d);
  for (int i = 3; i <= last; i++) hold_as(h, &k->in[i], 0, &k->in[2], 0);
  for (int i = 2; i < last; i++) {
    hold_whole(h, &k->in[i], 1, l1_type(h, k->op->in[i])->dims[1]);
    if (i > 2) hold_as(h, &k->in[i], 2, &k->in[2], 2);
  }
  if (mlp) hold_as(h, &k->in[last], 1, &k->in[2], 2);
  if (mlp) hold_whole(h, &k->in[0], rows, l1_type(h, k->op->in[0])->dims[rows]);
  else hold_as(h, &k->in[0], rows, &k->in[2], 1);
  if (h->failed) return;
  memcpy(k->y->lo, k->in[0].lo, sizeof k->y->lo);
  k->y->lo[rows] = k->in[last].lo[2];
  sum_over(k, &k->in[2], 0, RED_ONE);
  sum_over(k, &k->in[last], 1, RED_SUM);
  Attr start = attr_e(AT_start, place_of(h, k->in[2].lo[0]));
  finish_with(k, &start, 1, NULL);
}

/* ---- whole along some dimensions, alike along others */

static void do_along(const Task *k, int axis) {
  int wrong = slip(k->h);
  if (axis >= 0 && !wrong) hold_whole(k->h, &k->in[0], axis, l1_type(k->h, k->op->in[0])->dims[axis]);
  for (int d = 0; d < k->t->rank; d++) k->y->lo[d] = k->in[0].lo[d];
  finish_with(k, NULL, 0, NULL);
}

static void do_rope(const Task *k) {
  hold_whole(k->h, &k->in[0], k->t->rank - 1, k->t->dims[k->t->rank - 1]);
  hold_as(k->h, &k->in[1], 0, &k->in[0], k->t->rank - 3);
  memcpy(k->y->lo, k->in[0].lo, sizeof k->y->lo);
  finish_with(k, NULL, 0, NULL);
}

static void do_cross_entropy(const Task *k) {
  if (!slip(k->h)) hold_whole(k->h, &k->in[0], k->t->rank, l1_type(k->h, k->op->in[0])->dims[k->t->rank]);
  for (int d = 0; d < k->t->rank; d++) hold_as(k->h, &k->in[1], d, &k->in[0], d);
  memcpy(k->y->lo, k->in[0].lo, sizeof k->y->lo);
  finish_with(k, NULL, 0, NULL);
}

/* q [b, g, r, s, k], keys [b, g, t, k], values [b, g, t, e], positions [s] and [t], the valid length, and some
 * dimensions of [b, g, r, s, t]. */
static void do_attention(const Task *k) {
  Hand *h = k->h;
  Piece *in = k->in;
  hold_whole(h, &in[0], 4, l1_type(h, k->op->in[0])->dims[4]);
  for (int i = 1; i < 3; i++) {
    for (int d = 0; d < 2; d++) hold_as(h, &in[i], d, &in[0], d);
    if (!slip(h)) hold_whole(h, &in[i], 2, l1_type(h, k->op->in[i])->dims[2]);
  }
  hold_whole(h, &in[1], 3, l1_type(h, k->op->in[1])->dims[3]);
  hold_as(h, &in[3], 0, &in[0], 3);
  hold_as(h, &in[4], 0, &in[1], 2);
  const Attr *bias = op_attr(k->op, AT_bias);
  for (int d = 0; bias && bias->u.s[d]; d++) {
    int of = (int)(strchr("bgrst", bias->u.s[d]) - "bgrst");
    hold_as(h, &in[6], d, &in[of < 4 ? 0 : 1], of < 4 ? of : 2);
  }
  for (int d = 0; d < 4; d++) k->y->lo[d] = in[0].lo[d];
  k->y->lo[4] = in[2].lo[3];
  finish_with(k, NULL, 0, NULL);
}

/* ---- windows */

static void do_window(const Task *k) {
  Hand *h = k->h;
  Module *m = h->m;
  Window w = window_of(h->l1, k->op);
  OpKind kind = k->op->kind;
  const Expr *starts[MAX_WINDOWED], *extents[MAX_RANK];
  if (kind != OP_pool) letters(k, false);
  if (h->failed) return;
  uint32_t taken = taken_by(k);
  for (int i = 0; i < w.n && !h->failed; i++) {
    int held = kind == OP_conv_transpose ? WINDOW_OUTPUT : WINDOW_IMAGE,
        made = kind == OP_conv_transpose ? WINDOW_IMAGE : WINDOW_OUTPUT;
    if (kind == OP_conv_filter) {
      hold_whole(h, &k->in[0], w.dim[WINDOW_IMAGE][i], w.extent[WINDOW_IMAGE][i]);
      hold_whole(h, &k->in[1], w.dim[WINDOW_OUTPUT][i], w.extent[WINDOW_OUTPUT][i]);
      k->y->lo[w.dim[WINDOW_WEIGHTS][i]] = number(h, 0);
      starts[i] = place_of(h, w.start[i]);
      continue;
    }
    if (kind != OP_pool) hold_whole(h, &k->in[1], w.dim[WINDOW_WEIGHTS][i], w.extent[WINDOW_WEIGHTS][i]);
    const Expr *lo, *hi, *from, *to, *step = number(h, w.stride[i]), *have = w.extent[held][i];
    const Expr *reach = ex_addi(m, ex_muli(m, ex_addi(m, w.extent[WINDOW_WEIGHTS][i], -1), w.dilation[i]), 1);
    int d = w.dim[held][i];
    uint32_t others = taken & ~cut_axes(h, &k->in[0], d);
    want_part(k, w.extent[made][i], &others, &lo, &hi);
    if (kind == OP_conv_transpose) {
      from = ex_max(m, number(h, 0), ex_addi(m, ex_div(m, ex_sub(m, ex_sub(m, lo, w.start[i]), reach), step), 1));
      to = ex_min(m, have, ex_ceil_div(m, ex_sub(m, hi, w.start[i]), step));
    } else {
      from = ex_max(m, number(h, 0), ex_add(m, w.start[i], ex_mul(m, lo, step)));
      to = ex_min(m, have, ex_add(m, ex_add(m, w.start[i], ex_mul(m, ex_addi(m, hi, -1), step)), place_of(h, reach)));
    }
    if (below(h->r, 2)) hold_whole(h, &k->in[0], d, have);
    else hold(h, &k->in[0], d, ex_min(m, from, have), ex_max(m, to, ex_min(m, from, have)));
    k->y->lo[w.dim[made][i]] = lo;
    extents[w.dim[made][i]] = ex_sub(m, hi, lo);
    const Expr *first = kind == OP_conv_transpose
                            ? ex_sub(m, ex_add(m, w.start[i], ex_mul(m, k->in[0].lo[d], step)), lo)
                            : ex_sub(m, ex_add(m, w.start[i], ex_mul(m, lo, step)), k->in[0].lo[d]);
    starts[i] = place_of(h, first);
    taken |= axes_in(h, lo) | axes_in(h, hi);
  }
  if (h->failed) return;
  const char *spec = op_str(k->op, AT_spec), *result = spec ? strstr(spec, "->") + 2 : NULL;
  for (int d = 0; d < k->t->rank; d++) {
    bool windowed = result && result[d] < 'a';
    for (int i = 0; !result && i < w.n; i++) windowed |= w.dim[WINDOW_OUTPUT][i] == d;
    if (!result && !windowed) k->y->lo[d] = k->in[0].lo[d], extents[d] = extent_of(h, &k->in[0], d);
    if (windowed && kind == OP_conv_filter) extents[d] = k->t->dims[d];
    for (int i = 0; result && !windowed && i < 2; i++) {
      const char *s = i ? strchr(spec, ',') + 1 : spec, *at = memchr(s, result[d], strcspn(s, ",-"));
      if (at) extents[d] = extent_of(h, &k->in[i], (int)(at - s));
    }
  }
  Attr attr = attr_exprs(m, AT_starts, w.n, starts);
  finish_with(k, &attr, 1, local_of(k, extents));
}

/* The gradient of a pool: images and outputs whole along the windows, and equal parts of all other dimensions. */
static void do_pool_grad(const Task *k) {
  Hand *h = k->h;
  Window w = window_of(h->l1, k->op);
  for (int i = 0; i < w.n; i++) {
    hold_whole(h, &k->in[0], w.dim[WINDOW_IMAGE][i], w.extent[WINDOW_IMAGE][i]);
    hold_whole(h, &k->in[1], w.dim[WINDOW_OUTPUT][i], w.extent[WINDOW_OUTPUT][i]);
  }
  for (int d = 0, next = 0; d < k->t->rank; d++) {
    if (next < w.n && w.dim[WINDOW_IMAGE][next] == d) next++;
    else hold_as(h, &k->in[1], d, &k->in[0], d);
  }
  memcpy(k->y->lo, k->in[0].lo, sizeof k->y->lo);
  finish_with(k, NULL, 0, NULL);
}

/* ---- sources */

static void do_shard(const Task *k) {
  Hand *h = k->h;
  const char *name = op_str(k->op, AT_name);
  Layout l;
  cut_any(h, k->t->rank, k->t->dims, 0, &l);
  const Layout *layout = layout_get(h->m, &l);
  if (k->op->kind == OP_read) {
    for (int i = 0; i < h->nstates; i++)
      if (strcmp(h->states[i].name, name) == 0 && !slip(h)) layout = h->states[i].layout;
    if (h->nstates < MAX_HAND_STATES) h->states[h->nstates].name = name, h->states[h->nstates++].layout = layout;
  }
  const Expr *extents[MAX_RANK];
  for (int d = 0; d < k->t->rank; d++) {
    const Expr *hi;
    part_of_dim(h, &layout->dims[d], k->t->dims[d], &k->y->lo[d], &hi);
    extents[d] = ex_sub(h->m, hi, k->y->lo[d]);
  }
  if (h->failed) return;
  k->y->v = build_op(&h->b, &(OpSpec){.kind = k->op->kind,
                                      .nattrs = k->op->nattrs,
                                      .attrs = k->op->attrs,
                                      .type = local_of(k, extents),
                                      .layout = layout});
  h->failed |= !k->y->v;
}

/* Constants, ramps, random numbers: any box; listed elements are whole. */
static void do_made(const Task *k) {
  Hand *h = k->h;
  const Expr *extents[MAX_RANK], *starts[MAX_RANK];
  uint32_t taken = 0;
  bool listed = op_attr(k->op, AT_ints) || op_attr(k->op, AT_floats);
  Attr attrs[2];
  int n = 0;
  box_any(h, k->t->rank, k->t->dims, &taken, k->y->lo, extents);
  for (int d = 0; d < k->t->rank; d++) {
    if (listed) k->y->lo[d] = number(h, 0), extents[d] = k->t->dims[d];
    starts[d] = k->y->lo[d];
  }
  if (k->op->kind == OP_iota) attrs[n++] = attr_e(AT_start, place_of(h, k->y->lo[op_int(k->op, AT_axis, 0)]));
  if (k->op->kind == OP_random || k->op->kind == OP_random_keyed) {
    int wrong = slip(h), d = k->t->rank ? wrong % k->t->rank : 0;
    if (wrong && k->t->rank) starts[d] = astray(h, starts[d], wrong / 8);
    attrs[n++] = attr_exprs(h->m, AT_starts, k->t->rank, starts);
  }
  finish_with(k, attrs, n, local_of(k, extents));
}

static void do_write(const Task *k) {
  Hand *h = k->h;
  for (int i = 0; i < h->nstates; i++) {
    if (strcmp(h->states[i].name, op_str(k->op, AT_name)) != 0) continue;
    for (int d = 0; d < l1_type(h, k->op->in[0])->rank; d++) {
      const Expr *lo, *hi;
      part_of_dim(h, &h->states[i].layout->dims[d], l1_type(h, k->op->in[0])->dims[d], &lo, &hi);
      hold(h, &k->in[0], d, lo, hi);
    }
  }
  if (h->failed) return;
  build_op(&h->b,
           &(OpSpec){.kind = OP_write, .nin = 1, .in = &k->in[0].v, .nattrs = k->op->nattrs, .attrs = k->op->attrs});
}

/* ---- one operation */

static void do_op(const Task *k) {
  OpKind kind = k->op->kind;
  if (op_class(kind) != OC_OTHER) return do_elementwise(k);
  switch (kind) {
    case OP_input:
    case OP_param:
    case OP_read: return do_shard(k);
    case OP_const:
    case OP_size:
    case OP_iota:
    case OP_random:
    case OP_random_keyed: return do_made(k);
    case OP_select:
    case OP_cast:
    case OP_copy: return do_elementwise(k);
    case OP_broadcast: return do_broadcast(k);
    case OP_reshape: return do_reshape(k);
    case OP_transpose: return do_transpose(k);
    case OP_slice: return do_slice(k);
    case OP_pad: return do_pad(k);
    case OP_concat: return do_concat(k);
    case OP_reduce: return do_reduce(k);
    case OP_dot: return do_dot(k);
    case OP_gather: return do_gather(k);
    case OP_take: return do_take(k);
    case OP_scatter:
    case OP_put: return do_scatter(k);
    case OP_update: return do_update(k);
    case OP_grouped_dot:
    case OP_grouped_mlp: return do_grouped(k);
    case OP_argsort:
    case OP_topk:
    case OP_scan:
    case OP_softmax: return do_along(k, (int)op_int(k->op, AT_axis, 0));
    case OP_norm: return do_along(k, k->t->rank - 1);
    case OP_rope: return do_rope(k);
    case OP_cross_entropy: return do_cross_entropy(k);
    case OP_attention: return do_attention(k);
    case OP_conv:
    case OP_conv_transpose:
    case OP_conv_filter:
    case OP_pool: return do_window(k);
    case OP_pool_grad: return do_pool_grad(k);
    case OP_write: return do_write(k);
    default: k->h->failed = true;
  }
}

static void hand_op(Hand *h, const Op *op) {
  Piece in[MAX_OPERANDS], y = {.stage = h->b.stage};
  uint32_t alone, together;
  for (int i = 0; i < op->nin; i++) in[i] = use(h, op->in[i]);
  linear_in(op, &alone, &together);
  settle_partials(h, op, in, &y);
  if (h->failed) return;
  do_op(&(Task){h, op, in, &y, op->out ? l1_type(h, op->out) : NULL});
  for (int k = 0; k < op->nout; k++, y.v++) h->of[op->out + (Val)k] = y;
}

#endif
