/* frontend/dsl/window.c - built-in convolutions and pools: the windowed operations of ir/window.h with computed
 * sizes. */
#include <string.h>

#include "frontend/dsl/builtin.h"
#include "ir/window.h"

typedef struct Sizes {
  int n;
  int64_t stride[MAX_WINDOWED], padding[MAX_WINDOWED], dilation[MAX_WINDOWED];
} Sizes;

/* Reads one number for all windowed dimensions, or a list with one for each. */
static bool per_dimension(Args *a, int i, int n, int64_t otherwise, int64_t least, int64_t *out) {
  DslValue v = a->v[i];
  if (v.kind == V_LIST && v.n != n) {
    dsl_fail(a->ev, a->at[i], DIAG_dsl_value, "'%s' has %d entries for %d windowed dimensions", a->names[i], v.n, n);
    return false;
  }
  for (int k = 0; k < n; k++) {
    DslValue one = v.kind == V_LIST ? v.u.items[k] : v;
    out[k] = otherwise;
    if (arg_given(a, i) && !dsl_value_const(one, &out[k])) return dsl_arg_fail(a, i, "integers known at compile time");
    if (out[k] < least || out[k] > INT32_MAX) {
      dsl_fail(a->ev, a->at[i], DIAG_dsl_value, "'%s' cannot contain %lld", a->names[i], (long long)out[k]);
      return false;
    }
  }
  return true;
}

/* dilation * (window - 1) + 1 */
static const Expr *reach(Module *m, const Expr *window, int64_t dilation) {
  return ex_addi(m, ex_muli(m, ex_addi(m, window, -1), dilation), 1);
}

/* (image + 2 padding - reach) // stride + 1; NULL after reporting that the window is larger than the image. */
static const Expr *output_size(Args *a, const Expr *image, const Expr *window, const Sizes *s, int i) {
  Module *m = a->ev->m;
  const Expr *span = ex_sub(m, ex_addi(m, image, 2 * s->padding[i]), reach(m, window, s->dilation[i]));
  int64_t have;
  if (ex_get_const(span, &have) && have < 0) {
    const char *w = dsl_expr_text(a->ev, window);
    dsl_fail(a->ev, a->call, DIAG_dsl_shape, "a window of %s is larger than the image of %s", w,
             dsl_expr_text(a->ev, image));
    return NULL;
  }
  return ex_addi(m, ex_div(m, span, ex_const(m, s->stride[i])), 1);
}

static void window_attrs(Args *a, const Sizes *s, Attr *out) {
  const Expr *starts[MAX_WINDOWED];
  for (int i = 0; i < s->n; i++) starts[i] = ex_const(a->ev->m, -s->padding[i]);
  out[0] = attr_exprs(a->ev->m, AT_starts, s->n, starts);
  out[1] = attr_ints(a->ev->m, AT_strides, s->n, s->stride);
  out[2] = attr_ints(a->ev->m, AT_dilations, s->n, s->dilation);
}

/* ---- convolutions */

typedef struct Spec {
  const char *text, *part[3];
  int length[3];
} Spec;

static bool split(Args *a, Spec *s) {
  if (!dsl_arg_string(a, 0, &s->text)) return false;
  const char *comma = strchr(s->text, ','), *arrow = strstr(s->text, "->");
  if (!comma || !arrow || comma > arrow) {
    dsl_fail(a->ev, a->at[0], DIAG_dsl_value, "\"%s\" is not of the form \"ncHW,ocHW->noHW\"", s->text);
    return false;
  }
  s->part[0] = s->text, s->length[0] = (int)(comma - s->text);
  s->part[1] = comma + 1, s->length[1] = (int)(arrow - comma - 1);
  s->part[2] = arrow + 2, s->length[2] = (int)strlen(arrow + 2);
  return true;
}

static int place_of(const Spec *s, int part, char letter) {
  const char *at = memchr(s->part[part], letter, (size_t)s->length[part]);
  return at ? (int)(at - s->part[part]) : -1;
}

static bool check_parts(Args *a, const Spec *s, const Type *const *t, int *windowed) {
  *windowed = 0;
  for (int p = 0; p < 2; p++)
    if (s->length[p] != t[p]->rank) {
      dsl_fail(a->ev, a->call, DIAG_dsl_shape, "\"%s\" does not fit %s", s->text, dsl_type_text(a->ev, t[p]));
      return false;
    }
  for (int i = 0; i < s->length[0]; i++) {
    char l = s->part[0][i];
    if (l < 'A' || l > 'Z') continue;
    ++*windowed;
    if (place_of(s, 1, l) >= 0 && place_of(s, 2, l) >= 0) continue;
    dsl_fail(a->ev, a->at[0], DIAG_dsl_value, "'%c' is not in every part of \"%s\"", l, s->text);
    return false;
  }
  if (*windowed < 1 || *windowed > MAX_WINDOWED || s->length[2] > MAX_RANK) {
    dsl_fail(a->ev, a->at[0], DIAG_dsl_value, "\"%s\" needs one to %d windowed dimensions, in capital letters", s->text,
             MAX_WINDOWED);
    return false;
  }
  return true;
}

static DslValue convolve(Args *a, OpKind kind) {
  Spec s;
  Val in[2];
  Sizes z;
  int64_t extra[MAX_WINDOWED];
  bool transposed = kind == OP_conv_transpose;
  if (!split(a, &s) || !dsl_arg_floats(a, 1, &in[0]) || !dsl_arg_floats(a, 2, &in[1])) return value_error();
  const Type *t[2] = {arg_type_of(a, in[0]), arg_type_of(a, in[1])};
  if (!check_parts(a, &s, t, &z.n) || !per_dimension(a, 3, z.n, 1, 1, z.stride) ||
      !per_dimension(a, 4, z.n, 0, 0, z.padding) || !per_dimension(a, 5, z.n, 1, 1, z.dilation) ||
      (transposed && !per_dimension(a, 6, z.n, 0, 0, extra)))
    return value_error();
  const Expr *dims[MAX_RANK];
  Module *m = a->ev->m;
  for (int i = 0, next = 0; i < s.length[0]; i++) { /* windowed dimensions are ordered as in the image */
    char l = s.part[0][i];
    if (l < 'A' || l > 'Z') continue;
    const Expr *image = t[0]->dims[i], *window = t[1]->dims[place_of(&s, 1, l)], *out;
    if (transposed)
      out = ex_addi(m, ex_add(m, ex_muli(m, ex_addi(m, image, -1), z.stride[next]), reach(m, window, z.dilation[next])),
                    extra[next] - 2 * z.padding[next]);
    else if (!(out = output_size(a, image, window, &z, next))) return value_error();
    dims[place_of(&s, 2, l)] = out;
    next++;
  }
  for (int i = 0; i < s.length[2]; i++) {
    char l = s.part[2][i];
    if (l >= 'A' && l <= 'Z') continue;
    int x = place_of(&s, 0, l), w = place_of(&s, 1, l);
    if (x < 0 && w < 0) return dsl_fail(a->ev, a->at[0], DIAG_dsl_value, "'%c' of the result is in neither operand", l);
    dims[i] = x >= 0 ? t[0]->dims[x] : t[1]->dims[w];
  }
  Attr attrs[4] = {attr_s(m, AT_spec, s.text)};
  window_attrs(a, &z, attrs + 1);
  dsl_begin(a->ev, a->call);
  return dsl_built(a->ev, a->call,
                   build_op(&a->ev->b, &(OpSpec){.kind = kind,
                                                 .nin = 2,
                                                 .in = in,
                                                 .nattrs = 4,
                                                 .attrs = attrs,
                                                 .type = type_get(m, t[0]->dtype, s.length[2], dims)}));
}

DslValue dsl_fn_conv(Args *a) { return convolve(a, OP_conv); }
DslValue dsl_fn_conv_transpose(Args *a) { return convolve(a, OP_conv_transpose); }

/* ---- pools: x, window, axes?, stride?, padding? */

static DslValue pool(Args *a, Reduction how) {
  Val x;
  int axes[MAX_RANK], n;
  int64_t list[MAX_WINDOWED], size[MAX_WINDOWED];
  Sizes z;
  if (!dsl_arg_floats(a, 0, &x)) return value_error();
  const Type *t = arg_type_of(a, x);
  const Expr *dims[MAX_RANK], *window[MAX_WINDOWED];
  Module *m = a->ev->m;
  if (arg_given(a, 2)) {
    if (!dsl_arg_axes(a, 2, t->rank, &n, axes)) return value_error();
  } else {
    for (n = 0; n + 2 < t->rank; n++) axes[n] = n + 2;
  }
  if (n < 1 || n > MAX_WINDOWED)
    return dsl_fail(a->ev, a->call, DIAG_dsl_shape, "%d windowed dimensions; name one to %d as axes", n, MAX_WINDOWED);
  z.n = n;
  if (!per_dimension(a, 1, n, 1, 1, size) || !per_dimension(a, 3, n, 1, 1, z.stride) ||
      !per_dimension(a, 4, n, 0, 0, z.padding))
    return value_error();
  for (int d = 0; d < t->rank; d++) dims[d] = t->dims[d];
  for (int i = 0; i < n; i++) {
    z.dilation[i] = 1;
    if (!arg_given(a, 3)) z.stride[i] = size[i];
    list[i] = axes[i];
    window[i] = ex_const(m, size[i]);
    if (!(dims[axes[i]] = output_size(a, t->dims[axes[i]], window[i], &z, i))) return value_error();
  }
  Attr attrs[6] = {attr_red(AT_op, how), attr_ints(m, AT_axes, n, list), attr_exprs(m, AT_window, n, window)};
  window_attrs(a, &z, attrs + 3);
  dsl_begin(a->ev, a->call);
  return dsl_built(a->ev, a->call,
                   build_op(&a->ev->b, &(OpSpec){.kind = OP_pool,
                                                 .nin = 1,
                                                 .in = &x,
                                                 .nattrs = 6,
                                                 .attrs = attrs,
                                                 .type = type_get(m, t->dtype, t->rank, dims)}));
}

DslValue dsl_fn_max_pool(Args *a) { return pool(a, RED_MAX); }
DslValue dsl_fn_sum_pool(Args *a) { return pool(a, RED_SUM); }
