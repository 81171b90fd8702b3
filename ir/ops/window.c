/* ir/ops/window.c - convolutions, pools, their gradients; ir/window.h defines which elements meet. */
#include <math.h>
#include <string.h>

#include "ir/ops/record.h"
#include "ir/window.h"

/* ---- result types: written */

/* Windowed dimensions as in ir/window.h; the other letters as in a dot. */
static bool check_window_lists(const Infer *c, int n) {
  const Attr *strides = infer_attr(c, AT_strides), *dilations = infer_attr(c, AT_dilations);
  if (n < 1 || n > MAX_WINDOWED) return infer_fail(c, "unsupported number of windowed dimensions: %d", n), false;
  if (infer_attr(c, AT_starts)->n != n || strides->n != n || dilations->n != n) {
    infer_fail(c, "starts, strides and dilations need one entry for each of the %d windowed dimensions", n);
    return false;
  }
  for (int i = 0; i < n; i++)
    if (strides->u.ints[i] < 1 || dilations->u.ints[i] < 1)
      return infer_fail(c, "strides and dilations must be at least 1"), false;
  return true;
}

static const Type *infer_conv(const Infer *c) {
  const char *part[3];
  int length[3], capitals[3] = {0};
  const char *spec = infer_attr(c, AT_spec)->u.s;
  const Expr *extent[128] = {NULL};
  if (!infer_spec(spec, part, length)) return infer_fail(c, "spec \"%s\" is not of the form ncHW,ocHW->noHW", spec);
  const Type *types[3] = {c->in[0], c->in[1], c->spec->type};
  for (int p = 0; p < 3; p++) {
    if (length[p] != types[p]->rank) return infer_fail(c, "spec \"%s\" does not fit %s", spec, infer_text(c, types[p]));
    if (types[p]->dtype != types[0]->dtype || !dtype_is_float(types[p]->dtype))
      return infer_fail(c, "operands and result must be of one float type");
    for (int i = 0; i < length[p]; i++) {
      int l = part[p][i];
      capitals[p] += l <= 'Z';
      if (l <= 'Z' && !memchr(part[0], l, (size_t)length[0]))
        return infer_fail(c, "'%c' is not in every part of \"%s\"", l, spec);
      if (l <= 'Z') continue;
      if (extent[l] && extent[l] != types[p]->dims[i]) return infer_fail(c, "'%c' of \"%s\" has two extents", l, spec);
      if (!extent[l] && p == 2) return infer_fail(c, "'%c' of \"%s\" is in no operand", l, spec);
      extent[l] = types[p]->dims[i];
    }
  }
  if (capitals[0] != capitals[1] || capitals[0] != capitals[2])
    return infer_fail(c, "every part of \"%s\" needs the same capital letters", spec);
  return check_window_lists(c, capitals[0]) ? c->spec->type : NULL;
}

/* Returns x if y differs from it only along the windows. */
static const Type *fits_pool(const Infer *c, const Type *x, const Type *y) {
  const Attr *axes = infer_attr(c, AT_axes);
  if (infer_attr(c, AT_window)->n != axes->n) return infer_fail(c, "window needs one entry per axis");
  int next = 0;
  for (int d = 0; d < x->rank; d++) {
    if (next < axes->n && axes->u.ints[next] == d) next++;
    else if (x->dims[d] != y->dims[d]) return infer_fail(c, "dimension %d differs and is not windowed", d);
  }
  if (next != axes->n) return infer_fail(c, "axes must be ascending dimensions of the operand");
  return check_window_lists(c, axes->n) ? x : NULL;
}

static const Type *infer_pool(const Infer *c) {
  const Type *x = c->in[0], *y = c->spec->type;
  if (x->rank != y->rank || x->dtype != y->dtype) return infer_fail(c, "the result needs the operand's rank and type");
  return infer_reduction(c, x->dtype) && fits_pool(c, x, y) ? y : NULL;
}

static const Type *infer_pool_grad(const Infer *c) {
  const Type *x = c->in[0], *dy = c->in[1];
  if (!dtype_is_float(x->dtype)) return infer_fail(c, "not defined for %s", dtype_name(x->dtype));
  if (x->rank != dy->rank || x->dtype != dy->dtype) return infer_fail(c, "operands need the same rank and type");
  return fits_pool(c, x, dy);
}

/* ---- factor rules */

/* Assigns the letters of one part of a convolution's spec; `capital` is the kind of its windowed dimensions and
 * `prefix` distinguishes those of the weights. */
static void conv_letters(const RuleMaking *k, const char *s, const Type *t, TensorFactors *out, FactorKind capital,
                         const char *prefix) {
  const Type *result = rule_out(k);
  for (int d = 0; d < t->rank; d++) {
    bool windowed = s[d] >= 'A' && s[d] <= 'Z';
    char name[3] = {0};
    if (windowed && *prefix) name[0] = *prefix, name[1] = s[d];
    else name[0] = s[d];
    int f = rule_letter(k, name);
    if (f < 0)
      f = rule_factor(k, arena_strdup(k->m->arena, name), t->dims[d], windowed ? capital : FK_PARALLEL, RED_NONE);
    if (windowed && t == result) k->r->factors[f].size = t->dims[d];
    rule_set_dim(out, d, (uint8_t)f);
  }
}

/* Letters that the result lacks are summed; the product is linear in both operands. */
static void conv_sums(const RuleMaking *k, const char *result) {
  for (int f = 0; f < k->r->nfactors; f++) {
    Factor *x = &k->r->factors[f];
    if (x->kind == FK_PARALLEL && !strchr(result, *x->name)) x->kind = FK_REDUCE, x->reduction = RED_SUM;
  }
  rule_linear(k, 1, RED_SUM);
  rule_linear(k, 2, RED_SUM);
}

/* conv and conv_transpose: outputs are cut in place, and the elements they reach are exchanged; the window is whole. */
static void rule_conv(const RuleMaking *k) {
  const char *spec = op_str(k->op, AT_spec), *second = strchr(spec, ',') + 1, *result = strstr(spec, "->") + 2;
  conv_letters(k, spec, rule_in(k, 0), &k->r->operands[0], FK_HALO, "");
  conv_letters(k, second, rule_in(k, 1), &k->r->operands[1], FK_FROZEN, "k");
  conv_letters(k, result, rule_out(k), &k->r->results[0], FK_HALO, "");
  conv_sums(k, result);
}

/* The sum over outputs pairs every output with the images around it, so outputs and images stay whole along the
 * window. */
static void rule_conv_filter(const RuleMaking *k) {
  const char *spec = op_str(k->op, AT_spec), *second = strchr(spec, ',') + 1, *result = strstr(spec, "->") + 2;
  conv_letters(k, spec, rule_in(k, 0), &k->r->operands[0], FK_FROZEN, "i");
  conv_letters(k, second, rule_in(k, 1), &k->r->operands[1], FK_FROZEN, "o");
  conv_letters(k, result, rule_out(k), &k->r->results[0], FK_FROZEN, "k");
  conv_sums(k, result);
}

static void rule_pool(const RuleMaking *k) {
  const Attr *axes = op_attr(k->op, AT_axes);
  Reduction op = op_attr(k->op, AT_op)->u.reduction;
  rule_same_dims(k);
  for (int i = 0; i < axes->n; i++) k->r->factors[k->r->results[0].dims[axes->u.ints[i]].f[0]].kind = FK_HALO;
  if (op != RED_PRODUCT) rule_linear(k, 1, op);
}

/* An element of the image may be the largest of every window around it, so images and outputs stay whole along
 * windows. */
static void rule_pool_grad(const RuleMaking *k) {
  const Attr *axes = op_attr(k->op, AT_axes);
  for (int d = 0, next = 0; d < rule_out(k)->rank; d++) {
    bool windowed = next < axes->n && axes->u.ints[next] == d;
    FactorKind kind = windowed ? FK_FROZEN : FK_PARALLEL;
    uint8_t x = rule_numbered(k, "x", d, rule_out(k)->dims[d], kind), y = x;
    if (windowed) y = rule_numbered(k, "y", d, rule_in(k, 1)->dims[d], kind), next++;
    rule_set_dim(&k->r->operands[0], d, x);
    rule_set_dim(&k->r->operands[1], d, y);
    rule_set_dim(&k->r->results[0], d, x);
  }
  rule_linear(k, 2, RED_SUM);
}

/* ---- cut dimensions: the part of the image that is needed, and the start of its first window */

/* Returns the windowed dimension that is dimension `dim` of the tensor in that role. */
static int windowed_dim(const Window *w, int role, int dim) {
  int i = 0;
  while (w->dim[role][i] != dim) i++;
  return i;
}

static void halo_window(const HaloNeed *x, const Expr **lo, const Expr **hi) {
  Window w = window_of(x->f, x->op);
  window_image_of(x->m, &w, windowed_dim(&w, WINDOW_IMAGE, x->dim), x->lo, x->hi, lo, hi);
}

static void halo_conv_transpose(const HaloNeed *x, const Expr **lo, const Expr **hi) {
  Window w = window_of(x->f, x->op);
  window_output_of(x->m, &w, windowed_dim(&w, WINDOW_OUTPUT, x->dim), x->lo, x->hi, lo, hi);
}

/* Start of the first local window in the part of the operand that the exchange has moved here. */
static const Expr *local_window(const LocalPart *p, const Window *g, int i) {
  bool transposed = p->op->kind == OP_conv_transpose;
  int role = transposed ? WINDOW_IMAGE : WINDOW_OUTPUT, dim = g->dim[role][i];
  const Expr *lo, *hi, *held, *ignored, *start = g->start[i];
  if (!p->result->dims[dim].n) return start;
  layout_interval(p->m, &p->result->dims[dim], g->extent[role][i], &lo, &hi);
  if (transposed) {
    window_output_of(p->m, g, i, lo, hi, &held, &ignored);
    return ex_sub(p->m, ex_add(p->m, start, ex_muli(p->m, held, g->stride[i])), lo);
  }
  window_image_of(p->m, g, i, lo, hi, &held, &ignored);
  return ex_sub(p->m, ex_add(p->m, start, ex_muli(p->m, lo, g->stride[i])), held);
}

static void local_windows(const LocalPart *p, LocalAttrs *out) {
  Window w = window_of(p->f, p->op);
  const Expr *list[MAX_RANK];
  for (int i = 0; i < w.n; i++) list[i] = local_window(p, &w, i);
  local_set(out, attr_exprs(p->m, AT_starts, w.n, list));
}

/* ---- work: a multiply-add for every output, window element and summed letter */

static ProductFactors all_factors(const Rule *r) {
  ProductFactors all = {0};
  for (int i = 0; i < r->nfactors; i++)
    if (r->factors[i].size) all.k |= 1u << i;
  return all;
}

static int products_conv(const Op *op, const Rule *r, ProductFactors out[MAX_PRODUCTS]) {
  (void)op;
  *out = all_factors(r);
  return 1;
}

/* An image meets every stride-th window element. */
static int products_conv_transpose(const Op *op, const Rule *r, ProductFactors out[MAX_PRODUCTS]) {
  const Attr *strides = op_attr(op, AT_strides);
  *out = all_factors(r);
  out->every = 1;
  for (int i = 0; i < strides->n; i++)
    if (__builtin_mul_overflow(out->every, strides->u.ints[i], &out->every)) out->every = INT64_MAX;
  return 1;
}

/* Outputs and window elements determine the images, so factors iH, iW ... count once. */
static int products_conv_filter(const Op *op, const Rule *r, ProductFactors out[MAX_PRODUCTS]) {
  (void)op;
  *out = (ProductFactors){0};
  for (int i = 0; i < r->nfactors; i++)
    if (r->factors[i].size && !(r->factors[i].name[0] == 'i' && r->factors[i].name[1])) out->k |= 1u << i;
  return 1;
}

/* ---- meaning: the sums of ir/window.h taken literally */

typedef struct Walk {
  int n; /* windowed dimensions */
  int64_t start[MAX_WINDOWED], stride[MAX_WINDOWED], dilation[MAX_WINDOWED];
  int64_t extent[3][MAX_WINDOWED], step[3][MAX_WINDOWED]; /* by role: extents and strides in cells */
} Walk;

static const InterpTensor *tensor_of(const Eval *e, const Window *w, int role) {
  return w->role[role] == -1 ? e->out : w->role[role] >= 0 ? e->in[w->role[role]] : NULL;
}

static bool walk_new(const Eval *e, const Window *w, Walk *k) {
  *k = (Walk){.n = w->n};
  for (int i = 0; i < w->n; i++) {
    k->stride[i] = w->stride[i], k->dilation[i] = w->dilation[i];
    if (!eval_expr(e, w->start[i], &k->start[i])) return false;
    for (int r = 0; r < 3; r++) {
      const InterpTensor *t = tensor_of(e, w, r);
      int64_t strides[MAX_RANK];
      if (!t) {
        if (!eval_expr(e, w->extent[r][i], &k->extent[r][i])) return false;
        continue;
      }
      eval_row_major(t->rank, t->dims, strides);
      k->extent[r][i] = t->dims[w->dim[r][i]];
      k->step[r][i] = strides[w->dim[r][i]];
    }
  }
  return true;
}

/* Steps (output, window) indices; false after the last pair. */
static bool next_pair(const Walk *k, int64_t *u, int64_t *t) {
  for (int i = k->n - 1; i >= 0; i--) {
    if (++t[i] < k->extent[WINDOW_WEIGHTS][i]) return true;
    t[i] = 0;
  }
  for (int i = k->n - 1; i >= 0; i--) {
    if (++u[i] < k->extent[WINDOW_OUTPUT][i]) return true;
    u[i] = 0;
  }
  return false;
}

/* Computes the offsets in cells, by role, of one (output, window) pair; false if it meets no element of the image. */
static bool place(const Walk *k, const int64_t *u, const int64_t *t, int64_t *offset) {
  offset[0] = offset[1] = offset[2] = 0;
  for (int i = 0; i < k->n; i++) {
    int64_t x = k->start[i] + u[i] * k->stride[i] + t[i] * k->dilation[i];
    if (x < 0 || x >= k->extent[WINDOW_IMAGE][i]) return false;
    offset[WINDOW_IMAGE] += x * k->step[WINDOW_IMAGE][i];
    offset[WINDOW_WEIGHTS] += t[i] * k->step[WINDOW_WEIGHTS][i];
    offset[WINDOW_OUTPUT] += u[i] * k->step[WINDOW_OUTPUT][i];
  }
  return true;
}

static bool any_pair(const Walk *k) {
  for (int i = 0; i < k->n; i++)
    if (k->extent[WINDOW_WEIGHTS][i] == 0 || k->extent[WINDOW_OUTPUT][i] == 0) return false;
  return true;
}

/* Builds the loops over dimensions that are not windowed, of tensors y (the output's extents) and x (the image's);
 * false if their extents differ. */
static bool kept_nest(const Eval *e, const Window *w, const InterpTensor *y, const InterpTensor *x, Nest *nest) {
  int64_t xs[MAX_RANK], ys[MAX_RANK];
  eval_row_major(x->rank, x->dims, xs);
  eval_row_major(y->rank, y->dims, ys);
  for (int d = 0, next = 0; d < x->rank; d++) {
    if (next < w->n && w->dim[WINDOW_IMAGE][next] == d) {
      next++;
      continue;
    }
    if (x->dims[d] != y->dims[d])
      return eval_fail(e, "extent %lld of dimension %d does not fit", (long long)x->dims[d], d);
    nest_add(nest, x->dims[d], ys[d], xs[d], 0);
  }
  nest_close(nest);
  return true;
}

/* Builds the loops over letters that are not windowed; tensor 0 is the result. */
static bool letter_nest(const Eval *e, Nest *nest) {
  const char *spec = op_str(e->op, AT_spec), *part[3] = {strstr(spec, "->") + 2, spec, strchr(spec, ',') + 1};
  const InterpTensor *t[3] = {e->out, e->in[0], e->in[1]};
  int64_t strides[3][MAX_RANK], extent[128];
  memset(extent, -1, sizeof extent);
  for (int p = 0; p < 3; p++) {
    eval_row_major(t[p]->rank, t[p]->dims, strides[p]);
    for (int d = 0; d < t[p]->rank; d++) {
      int l = part[p][d];
      if (l <= 'Z') continue;
      if (extent[l] >= 0 && extent[l] != t[p]->dims[d])
        return eval_fail(e, "'%c' has extents %lld and %lld", l, (long long)extent[l], (long long)t[p]->dims[d]);
      extent[l] = t[p]->dims[d];
    }
  }
  for (int l = 'a'; l <= 'z'; l++)
    if (extent[l] >= 0)
      nest_add(nest, extent[l], letter_stride(part[0], t[0]->rank, strides[0], (char)l),
               letter_stride(part[1], t[1]->rank, strides[1], (char)l),
               letter_stride(part[2], t[2]->rank, strides[2], (char)l));
  nest_close(nest);
  return true;
}

static void multiply_add(bool modp, const Nest *n, const NestAt *at, Cell *y, const Cell *a, const Cell *b) {
  y += at->offset[0], a += at->offset[1], b += at->offset[2];
  for (int64_t i = 0; i < n->inner; i++, y += n->step[0], a += n->step[1], b += n->step[2]) {
    if (modp) y->i = (int64_t)modp_add((uint64_t)y->i, modp_mul((uint64_t)a->i, (uint64_t)b->i));
    else y->f += a->f * b->f;
  }
}

static bool eval_conv(Eval *e) {
  Window w = window_of(e->frame->f, e->op);
  Walk k;
  Nest nest = {0};
  int64_t u[MAX_WINDOWED] = {0}, t[MAX_WINDOWED] = {0}, offset[3];
  if (!walk_new(e, &w, &k) || !letter_nest(e, &nest)) return false;
  cells_fill(e->out, cell_i(0));
  if (!any_pair(&k)) return true;
  do {
    if (!place(&k, u, t, offset)) continue;
    Cell *cells[3]; /* result, operand 0, operand 1 */
    for (int r = 0; r < 3; r++) cells[w.role[r] + 1] = tensor_of(e, &w, r)->cells + offset[r];
    for (NestAt at = nest_begin(&nest); at.more; nest_next(&nest, &at))
      multiply_add(e->run->modp, &nest, &at, cells[0], cells[1], cells[2]);
  } while (next_pair(&k, u, t));
  return true;
}

static bool eval_pool(Eval *e) {
  Window w = window_of(e->frame->f, e->op);
  const InterpTensor *x = e->in[0], *y = e->out;
  Reduction r = op_attr(e->op, AT_op)->u.reduction;
  Walk k;
  Nest nest = {0};
  int64_t u[MAX_WINDOWED] = {0}, t[MAX_WINDOWED] = {0}, offset[3];
  if (!walk_new(e, &w, &k) || !kept_nest(e, &w, y, x, &nest)) return false;
  cells_fill(y, cell_identity(e->run->modp, y->dtype, r));
  if (!any_pair(&k)) return true;
  do {
    if (!place(&k, u, t, offset)) continue;
    for (NestAt at = nest_begin(&nest); at.more; nest_next(&nest, &at))
      cells_reduce(e->run->modp, y->dtype, r, nest.inner, y->cells + offset[WINDOW_OUTPUT] + at.offset[0], nest.step[0],
                   x->cells + offset[WINDOW_IMAGE] + at.offset[1], nest.step[1]);
  } while (next_pair(&k, u, t));
  return true;
}

/* True if x is larger than the largest so far.  NaN is the largest; residues are compared as numbers. */
static bool is_larger(bool modp, const Cell *x, const Cell *largest) {
  if (modp) return x->i > largest->i;
  return x->f > largest->f || (isnan(x->f) && !isnan(largest->f));
}

static bool is_last_of_window(const Walk *k, const int64_t *t) {
  for (int i = 0; i < k->n; i++)
    if (t[i] < k->extent[WINDOW_WEIGHTS][i] - 1) return false;
  return true;
}

/* Adds the gradients dy of all windows of one image x where the windows have their first largest element. */
static void route_gradients(bool modp, const Walk *k, const Cell *x, const Cell *dy, Cell *dx) {
  int64_t u[MAX_WINDOWED] = {0}, t[MAX_WINDOWED] = {0}, offset[3], largest = -1, from = 0;
  do {
    if (place(k, u, t, offset) && (largest < 0 || is_larger(modp, &x[offset[WINDOW_IMAGE]], &x[largest])))
      largest = offset[WINDOW_IMAGE], from = offset[WINDOW_OUTPUT];
    if (!is_last_of_window(k, t)) continue;
    if (largest >= 0 && modp) dx[largest].i = (int64_t)modp_add((uint64_t)dx[largest].i, (uint64_t)dy[from].i);
    else if (largest >= 0) dx[largest].f += dy[from].f;
    largest = -1;
  } while (next_pair(k, u, t));
}

static bool eval_pool_grad(Eval *e) {
  Window w = window_of(e->frame->f, e->op);
  const InterpTensor *x = e->in[0], *dy = e->in[1];
  Walk k;
  Nest nest = {0};
  if (!eval_same_shape(e, 0) || !walk_new(e, &w, &k) || !kept_nest(e, &w, dy, x, &nest)) return false;
  cells_fill(e->out, cell_i(0));
  if (!any_pair(&k)) return true;
  for (NestAt at = nest_begin(&nest); at.more; nest_next(&nest, &at))
    for (int64_t i = 0; i < nest.inner; i++) {
      int64_t from = at.offset[0] + i * nest.step[0], image = at.offset[1] + i * nest.step[1];
      route_gradients(e->run->modp, &k, x->cells + image, dy->cells + from, e->out->cells + image);
    }
  return true;
}

/* ---- records */

const OpRecord record_conv = {.infer = infer_conv,
                              .rule = rule_conv,
                              .halo = halo_window,
                              .local = local_windows,
                              .eval = eval_conv,
                              .products = products_conv,
                              .gradient = gradient_conv};
const OpRecord record_conv_transpose = {.infer = infer_conv,
                                        .rule = rule_conv,
                                        .halo = halo_conv_transpose,
                                        .local = local_windows,
                                        .eval = eval_conv,
                                        .products = products_conv_transpose,
                                        .gradient = gradient_conv_transpose};
/* Windowed dimensions are whole, so the attributes mean the same on a part. */
const OpRecord record_conv_filter = {
    .infer = infer_conv, .rule = rule_conv_filter, .eval = eval_conv, .products = products_conv_filter};
const OpRecord record_pool = {.infer = infer_pool,
                              .rule = rule_pool,
                              .halo = halo_window,
                              .local = local_windows,
                              .eval = eval_pool,
                              .gradient = gradient_pool};
/* Like conv_filter. */
const OpRecord record_pool_grad = {.infer = infer_pool_grad, .rule = rule_pool_grad, .eval = eval_pool_grad};
