/* codegen/cpu/kernel_window.c - prints the kernels of convolutions and pools: their description, then one macro of
 * kernel_windows.h or kernel_pools.h. */
#include "codegen/cpu/kernel_template.h"
#include "codegen/rows/print_row.h"
#include "ir/window.h"

#include <string.h>

typedef struct Printing {
  const Work *w;
  const Op *op;
  Window window;
  Text *t;
  Scalars *s;
} Printing;

static const Type *part_type(const Printing *p, int operand) {
  return work_type(p->w, operand < 0 ? p->op->out : p->op->in[operand]);
}

static const char *number(const Printing *p, const Expr *e) { return rp_scalar_text(p->w->m, p->s, e); }

/* Prints "{1, 3, 3}": one expression per windowed dimension, padded at the front. */
static void print_three(const Printing *p, const char *name, const Expr *const *e, int64_t fill) {
  text_printf(p->t, " .%s = {", name);
  for (int i = 0; i < MAX_WINDOWED; i++) {
    int at = i - (MAX_WINDOWED - p->window.n);
    text_add(p->t, i ? ", " : "");
    if (at < 0) text_printf(p->t, "%lld", (long long)fill);
    else text_add(p->t, number(p, e[at]));
  }
  text_add(p->t, "},");
}

static void print_ints(const Printing *p, const char *name, const int64_t *v) {
  const Expr *e[MAX_WINDOWED] = {NULL};
  for (int i = 0; i < p->window.n; i++) e[i] = ex_const(p->w->m, v[i]);
  print_three(p, name, e, 1);
}

static void print_windows(const Printing *p) {
  static const char *const roles[] = {"image", "window", "output"};
  const Window *w = &p->window;
  text_add(p->t, "  const Windows windows = {");
  print_three(p, "start", w->start, 0);
  print_ints(p, "stride", w->stride);
  print_ints(p, "dilation", w->dilation);
  for (int r = 0; r < 3; r++) {
    const Expr *steps[MAX_WINDOWED];
    print_three(p, roles[r], w->extent[r], 1);
    if (w->role[r] == -2) continue;
    for (int i = 0; i < w->n; i++) steps[i] = row_type_stride(p->w->m, part_type(p, w->role[r]), w->dim[r][i]);
    print_three(p, arena_printf(p->w->m->arena, "%s_step", roles[r]), steps, 0);
  }
  text_add(p->t, "}, *const w = &windows;\n");
}

typedef struct Letter {
  const Expr *extent, *step[3]; /* of the result, operand 0 and operand 1 */
} Letter;

static void print_letters(const Printing *p, const char *name, const Letter *list, int n) {
  static const char *const fields[] = {"y", "a", "b"};
  text_printf(p->t, "  const Letters %s_letters = {.n = %d, .extent = {", name, n);
  for (int i = 0; i < n; i++) text_printf(p->t, "%s, ", number(p, list[i].extent));
  for (int f = 0; f < 3; f++) {
    text_printf(p->t, "}, .%s = {", fields[f]);
    for (int i = 0; i < n; i++) text_printf(p->t, "%s, ", list[i].step[f] ? number(p, list[i].step[f]) : "0");
  }
  text_printf(p->t, "}}, *const %s = &%s_letters;\n", name, name);
}

/* Lists the letters that are not windowed: of the result, or summed over.  Extents of 1 are left out. */
static int conv_letters(const Printing *p, bool summed, Letter *list) {
  const char *spec = op_str(p->op, AT_spec), *part[3] = {strstr(spec, "->") + 2, spec, strchr(spec, ',') + 1};
  int n = 0;
  for (const char *l = spec; *l; l++) {
    bool seen = memchr(spec, *l, (size_t)(l - spec)) != NULL;
    if (*l < 'a' || *l > 'z' || seen || summed != !strchr(part[0], *l)) continue;
    Letter x = {0};
    for (int k = 0; k < 3; k++) {
      const Type *t = part_type(p, k - 1);
      for (int d = 0; d < t->rank; d++)
        if (part[k][d] == *l) x.extent = t->dims[d], x.step[k] = row_type_stride(p->w->m, t, d);
    }
    if (!ex_is_const(x.extent, 1)) list[n++] = x;
  }
  return n;
}

static const Expr *windowed_points(const Printing *p, int role) {
  const Expr *e = ex_const(p->w->m, 1);
  for (int i = 0; i < p->window.n; i++) e = ex_mul(p->w->m, e, p->window.extent[role][i]);
  return e;
}

static bool unit_step(const Expr *e) { return e && ex_is_const(e, 1); }

/* Returns the number of results of each channel (letter c, one summand each) if they are adjacent, and channels follow
 * each other, in the result and in the weights; else 0.  Both letters are then lanes; `lanes` becomes all of them. */
static int64_t repeated(const Printing *p, const Letter *c, Letter *lanes) {
  int64_t n;
  if (!c->step[2] || !unit_step(c->step[1]) || !unit_step(lanes->step[2]) || lanes->step[1] ||
      !ex_get_const(lanes->extent, &n) || !ex_is_const(c->step[0], n) || !ex_is_const(c->step[2], n))
    return 0;
  lanes->extent = ex_mul(p->w->m, lanes->extent, c->extent);
  return n;
}

/* Prints the fast kernel, for f32 with the summed letter innermost in operand 0 and a letter of the weights innermost
 * in the result.  False if it does not apply. */
static bool print_tiles(const Printing *p, const Letter *kept, int nkept, const Letter *summed, int nsummed) {
  const Letter *sum = nsummed ? &summed[0] : NULL;
  Letter pixels[MAX_RANK], outer[MAX_RANK], lanes = {0};
  int npixels = 0, nouter = 0;
  if (p->op->kind == OP_conv_filter || part_type(p, -1)->dtype != DT_f32 || nsummed > 1 ||
      (sum && !unit_step(sum->step[1])))
    return false;
  for (int i = 0; i < nkept; i++) {
    const Letter *l = &kept[i];
    if (unit_step(l->step[0]) && l->step[2] && (!l->step[1] || (unit_step(l->step[1]) && !sum))) lanes = *l;
    else if (l->step[2]) outer[nouter++] = *l;
    else pixels[npixels++] = *l;
  }
  if (!lanes.extent) return false;
  int64_t repeat = lanes.step[1] != NULL;
  for (int i = 0; i < nouter && !sum && !repeat; i++)
    if ((repeat = repeated(p, &outer[i], &lanes))) outer[i] = outer[--nouter];
  print_letters(p, "pixels", pixels, npixels);
  print_letters(p, "outer", outer, nouter);
  text_printf(p->t, "  const ConvTiles tiles = {w, %d, pixels, outer, %s, %s, %lld, ", p->op->kind == OP_conv_transpose,
              number(p, lanes.extent), number(p, lanes.step[2]), (long long)repeat);
  text_printf(p->t, "%s, %s};\n", sum ? number(p, sum->extent) : "1", sum ? number(p, sum->step[2]) : "0");
  text_add(p->t, "  conv_tiles(y, a, b, &tiles, work);\n");
  return true;
}

/* Prints a convolution.  `work` is its multiply-adds, including those on padding. */
static void print_conv(const Printing *p) {
  Module *m = p->w->m;
  Letter kept[MAX_RANK], summed[2 * MAX_RANK];
  int nkept = conv_letters(p, false, kept), nsummed = conv_letters(p, true, summed);
  const Expr *work = ex_mul(m, windowed_points(p, WINDOW_WEIGHTS), windowed_points(p, WINDOW_OUTPUT));
  for (int i = 0; i < nkept; i++) work = ex_mul(m, work, kept[i].extent);
  for (int i = 0; i < nsummed; i++) work = ex_mul(m, work, summed[i].extent);
  DType t = part_type(p, -1)->dtype;
  text_printf(p->t, "  %s *y = ptr[2];\n  const %s *a = ptr[0], *b = ptr[1];\n", rp_stored_type(t), rp_stored_type(t));
  text_printf(p->t, "  const int64_t work = %s;\n", number(p, work));
  if (print_tiles(p, kept, nkept, summed, nsummed)) return;
  print_letters(p, "kept", kept, nkept);
  print_letters(p, "summed", summed, nsummed);
  text_printf(p->t, "  %s(%s, %s, %s);\n",
              p->op->kind == OP_conv             ? "CONV"
              : p->op->kind == OP_conv_transpose ? "CONV_TRANSPOSE"
                                                 : "CONV_FILTER",
              dtype_name(t), rp_stored_type(t), rp_value_type(t));
}

/* Prints the dimensions that are not windowed: those after the windows are `inner`, contiguous. */
static void print_kept(const Printing *p, const Expr *points) {
  Module *m = p->w->m;
  const Type *x = part_type(p, 0), *y = part_type(p, -1), *dy = p->op->nin > 1 ? part_type(p, 1) : NULL;
  const Window *w = &p->window;
  const Expr *inner = ex_const(m, 1);
  Letter kept[MAX_RANK];
  int n = 0, next = 0, last = w->dim[WINDOW_IMAGE][w->n - 1];
  for (int d = 0; d < x->rank; d++) {
    if (next < w->n && w->dim[WINDOW_IMAGE][next] == d) next++;
    else if (d > last) inner = ex_mul(m, inner, x->dims[d]);
    else if (!ex_is_const(x->dims[d], 1))
      kept[n++] = (Letter){x->dims[d],
                           {row_type_stride(m, y, d), row_type_stride(m, x, d), dy ? row_type_stride(m, dy, d) : NULL}};
  }
  const Expr *work = ex_mul(m, windowed_points(p, WINDOW_WEIGHTS), points);
  print_letters(p, "kept", kept, n);
  text_printf(p->t, "  const int64_t work = %s, inner = %s;\n", number(p, work), number(p, inner));
}

static void print_pool(const Printing *p) {
  const Type *x = part_type(p, 0);
  Reduction op = op_attr(p->op, AT_op)->u.reduction;
  print_kept(p, type_elements(p->w->m, part_type(p, -1)));
  text_printf(p->t, "  %s *y = ptr[1];\n  const %s *a = ptr[0];\n", rp_stored_type(x->dtype), rp_stored_type(x->dtype));
  DType acc = x->dtype == DT_f16 || x->dtype == DT_bf16 ? DT_f32 : x->dtype;
  text_printf(p->t, "  POOL(%s, %s, %s, %s, %s_%s);\n", dtype_name(x->dtype), rp_stored_type(x->dtype),
              rp_value_type(x->dtype), rp_identity(&(RowAcc){.op = op, .dtype = acc}), rp_combine_name(op),
              rp_suffix(x->dtype));
}

static void print_pool_grad(const Printing *p) {
  DType t = part_type(p, 0)->dtype;
  print_kept(p, type_elements(p->w->m, part_type(p, 1)));
  text_printf(p->t, "  %s *y = ptr[2];\n  const %s *a = ptr[0], *b = ptr[1];\n", rp_stored_type(t), rp_stored_type(t));
  text_printf(p->t, "  POOL_GRAD(%s, %s, %s);\n", dtype_name(t), rp_stored_type(t), rp_value_type(t));
}

void template_window(const Work *w, const Op *op, Text *t, Scalars *s) {
  Printing p = {w, op, window_of(w->f, op), t, s};
  print_windows(&p);
  if (op->kind == OP_pool) print_pool(&p);
  else if (op->kind == OP_pool_grad) print_pool_grad(&p);
  else print_conv(&p);
}
