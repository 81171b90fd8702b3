/* ir/eval_window.c - convolutions, their gradients, and pools: the sums of ir/window.h taken literally. */
#include <string.h>

#include "ir/eval.h"
#include "ir/window.h"

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
      row_major(t->rank, t->dims, strides);
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

/* Offsets in cells by role of one (output, window) pair; false when it meets no element of the image. */
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

/* ---- convolutions */

/* The loops over the letters that are not windowed; tensor 0 is the result. */
static bool letter_nest(const Eval *e, Nest *nest) {
  const char *spec = op_str(e->op, AT_spec), *part[3] = {strstr(spec, "->") + 2, spec, strchr(spec, ',') + 1};
  const InterpTensor *t[3] = {e->out, e->in[0], e->in[1]};
  int64_t strides[3][MAX_RANK], extent[128];
  memset(extent, -1, sizeof extent);
  for (int p = 0; p < 3; p++) {
    row_major(t[p]->rank, t[p]->dims, strides[p]);
    for (int d = 0; d < t[p]->rank; d++) {
      int l = part[p][d];
      if (l <= 'Z') continue;
      if (extent[l] >= 0 && extent[l] != t[p]->dims[d])
        return eval_fail(e, "'%c' is %lld and %lld", l, (long long)extent[l], (long long)t[p]->dims[d]);
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

bool eval_conv(Eval *e) {
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

/* ---- pool */

bool eval_pool(Eval *e) {
  Window w = window_of(e->frame->f, e->op);
  const InterpTensor *x = e->in[0], *y = e->out;
  Reduction r = op_attr(e->op, AT_op)->u.reduction;
  Walk k;
  Nest nest = {0};
  int64_t u[MAX_WINDOWED] = {0}, t[MAX_WINDOWED] = {0}, offset[3], xs[MAX_RANK], ys[MAX_RANK];
  if (!walk_new(e, &w, &k)) return false;
  row_major(x->rank, x->dims, xs);
  row_major(y->rank, y->dims, ys);
  for (int d = 0, next = 0; d < x->rank; d++) {
    if (next < w.n && w.dim[WINDOW_IMAGE][next] == d) {
      next++;
      continue;
    }
    if (x->dims[d] != y->dims[d]) return eval_fail(e, "extent %lld of dimension %d", (long long)x->dims[d], d);
    nest_add(&nest, x->dims[d], ys[d], xs[d], 0);
  }
  nest_close(&nest);
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
