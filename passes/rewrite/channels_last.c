/* passes/rewrite/channels_last.c - moves the channels of convolutions' images into the last dimension.
 *
 * Front ends write images as [n, c, H, W].  A CPU works on 16 channels of one pixel at once, and a thread of a GPU
 * reads 16 bytes, so the channels of a pixel should be adjacent:
 *
 *   conv(x, w) "ncHW,ocHW->noHW"   becomes   conv(x', w') "nHWc,HWco->nHWo"   with transposed x, w and result
 *
 * For GPUs w' is "oHWc": the summed letters are adjacent in both operands, as cuDNN and tiled products require
 * (DeviceTraits.filters).  Weights of groups with few channels (depthwise) stay "HWgco": these are no tiled products.
 * For a library's blocks, trained weights of one group keep the order of the model ("ocHW"), see `stay`.
 *
 * In: level-1 functions, before views.c (which makes a transposed weight a view of its file; prepare.c transposes other
 * weights once).  Out: the same function with rewritten convolutions, if their weights are weights of the model.  Their
 * results stay transposed through elementwise operations, pools, concatenations, reductions, pads, splits of dimensions
 * and products, and are transposed back for all other readers; an input is transposed at its first convolution.  A
 * value that is read in both orders exists in both.
 *
 * Form k of a value of rank r: dimensions 0, 1 + k .. r - 1, 1 .. k, so k dimensions of channels (two with groups)
 * after those of the image.  The pass visits operations once, in order, and only pushes transposes forward; it does not
 * search for the fewest transposes.  Blocks of channels in the weights are left to oneDNN (runtime/device/conv_dnnl.h).
 * Gradients are made after this pass (train), so they also have their channels last.  Not supported: conv_filter of a
 * model, convolutions with computed weights, blocked images.
 */
#include <string.h>

#include "ir/legal_dot.h"
#include "passes/facts/fixed.h"
#include "passes/rewrite/passes.h"
#include "passes/rewrite/rewrite.h"

enum { FORMS = 3 }; /* form 0 is the order of the model */

typedef struct Forms {
  Val v[FORMS];
} Forms;

typedef struct Last {
  Rewrite r;
  const Fixed *fixed;
  bool filters; /* weights as whole filters, for tiled products */
  bool trained; /* weights that change in every step, for a library with blocks */
  Forms *forms; /* by old value; v[0] is r.map, and both are 0 while the value exists only in another form */
} Last;

static const Type *old_type(const Last *l, Val v) { return type_of(l->r.old, v); }

/* Dimension d of form k is dimension `perm[d]` of the model's order. */
static void order_of(int rank, int k, int *perm) {
  int n = 0;
  for (int d = 0; d < rank; d++)
    if (d == 0 || d > k) perm[n++] = d;
  for (int d = 1; d <= k && d < rank; d++) perm[n++] = d;
}

static int place_of(int rank, int k, int dim) { return dim == 0 ? 0 : dim > k ? dim - k : rank - 1 - k + dim; }

static const Type *form_type(const Last *l, const Type *t, int k) {
  const Expr *dims[MAX_RANK];
  int perm[MAX_RANK];
  order_of(t->rank, k, perm);
  for (int d = 0; d < t->rank; d++) dims[d] = t->dims[perm[d]];
  return type_get(l->r.m, t->dtype, t->rank, dims);
}

static Val transposed(Last *l, const Op *op, Val v, int rank, const int *perm) {
  int64_t list[MAX_RANK];
  for (int d = 0; d < rank; d++) list[d] = perm[d];
  return rewrite_transpose(&l->r, op, NULL, v, rank, list);
}

/* ---- a value in form k */

static Val in_form(Last *l, Val v, int k);

static Val broadcast_form(Last *l, const Op *op, int k) {
  const Attr *dims = op_attr(op, AT_dims);
  const Type *to = old_type(l, op->out);
  int64_t at[MAX_RANK];
  for (int d = 0; d < dims->n; d++) at[d] = place_of(to->rank, k, (int)dims->u.ints[d]);
  return rewrite_broadcast(&l->r, op, in_form(l, op->in[0], 0), at, "line", form_type(l, to, k));
}

static Val same_everywhere(Last *l, const Op *op, int k) {
  OpSpec spec = op_spec_of(l->r.old, op);
  spec.group = NULL;
  spec.type = form_type(l, old_type(l, op->out), k);
  return build_op(&l->r.b, &spec);
}

static Val now_in(Last *l, const Op *op, int k, Val v) {
  const int rank = old_type(l, op->out)->rank;
  int at[MAX_RANK];
  for (int d = 0; d < rank; d++) at[d] = place_of(rank, k, d);
  rewrite_note_order(&l->r, op, v, rank, at);
  return l->forms[op->out].v[k] = v;
}

static Val in_form(Last *l, Val v, int k) {
  Forms *forms = &l->forms[v];
  const Op *op = op_of(l->r.old, v);
  int rank = old_type(l, v)->rank, perm[MAX_RANK], back[MAX_RANK];
  if (forms->v[k]) return forms->v[k];
  if (k && forms->v[0] && op->kind == OP_broadcast) return now_in(l, op, k, broadcast_form(l, op, k));
  if (k && forms->v[0] && op_is_splat(op)) return now_in(l, op, k, same_everywhere(l, op, k));
  int have = 0;
  while (!forms->v[have]) have++;
  for (int d = 0; d < rank; d++) back[d] = place_of(rank, have, d);
  order_of(rank, k, perm);
  for (int d = 0; d < rank; d++) perm[d] = back[perm[d]];
  l->r.b.loc = op->loc;
  forms->v[k] = transposed(l, op, forms->v[have], rank, perm);
  if (k == 0) l->r.map[v] = forms->v[0];
  return forms->v[k];
}

/* The form other than 0 in which a value exists; 0 if none. */
static int form_of(const Last *l, Val v) {
  for (int k = 1; k < FORMS; k++)
    if (l->forms[v].v[k]) return k;
  return 0;
}

/* ---- specs: the letters of one part, with those of channels after the others */

typedef struct Spec {
  const char *part[3];
  int n[3];
} Spec;

static Spec spec_of(const Op *op) {
  const char *s = op_str(op, AT_spec), *comma = strchr(s, ','), *arrow = strstr(s, "->");
  return (Spec){{s, comma + 1, arrow + 2}, {(int)(comma - s), (int)(arrow - comma - 1), (int)strlen(arrow + 2)}};
}

static bool has(const Spec *s, int part, char letter) {
  return memchr(s->part[part], letter, (size_t)s->n[part]) != NULL;
}
static bool capital(char c) { return c >= 'A' && c <= 'Z'; }

/* Matches "ncHW" or "ngcHW": a letter that the weights lack, letters of channels, windowed letters.  Returns the number
 * of channel letters; 0 if there is no match. */
static int channels_in(const Spec *s, int part) {
  int k = 0;
  if (s->n[part] < 3 || capital(s->part[part][0]) || has(s, 1, s->part[part][0])) return 0;
  while (1 + k < s->n[part] && !capital(s->part[part][1 + k])) k++;
  for (int d = 1 + k; d < s->n[part]; d++)
    if (!capital(s->part[part][d])) return 0;
  return 1 + k < s->n[part] && k < FORMS ? k : 0;
}

static void add_form(Text *t, const Spec *s, int part, int k) {
  int perm[MAX_RANK];
  order_of(s->n[part], k, perm);
  for (int d = 0; d < s->n[part]; d++) text_addn(t, &s->part[part][perm[d]], 1);
}

typedef enum Letter { LETTER_GROUP, LETTER_RESULT, LETTER_WINDOW, LETTER_SUMMED, LETTER_CLASSES } Letter;

static Letter letter_of(const Spec *s, char c) {
  if (capital(c)) return LETTER_WINDOW;
  return !has(s, 0, c) ? LETTER_RESULT : has(s, 2, c) ? LETTER_GROUP : LETTER_SUMMED;
}

/* The order of weights: the window, then letters in the order of `s`: groups and summed letters, then those of the
 * result alone.  As filters: groups, letters of the result, the window, summed letters. */
static void weights_order(const Spec *s, bool filters, int *perm) {
  static const int places[2][LETTER_CLASSES] = {{1, 2, 0, 1}, {0, 1, 2, 3}};
  int n = 0;
  for (int place = 0; place < LETTER_CLASSES; place++)
    for (int d = 0; d < s->n[1]; d++)
      if (places[filters][letter_of(s, s->part[1][d])] == place) perm[n++] = d;
}

/* True if there are several groups with few channels of the result each. */
static bool is_narrow(const Last *l, const Op *op, const Spec *s) {
  const Type *w = old_type(l, op->in[1]);
  int64_t extent, channels = 1;
  bool groups = false;
  for (int d = 0; d < s->n[1]; d++) {
    Letter letter = letter_of(s, s->part[1][d]);
    if (letter == LETTER_GROUP) groups |= !ex_is_const(w->dims[d], 1);
    if (letter == LETTER_RESULT) channels *= ex_get_const(w->dims[d], &extent) ? extent : LEGAL_CONV_FEW;
  }
  return groups && channels < LEGAL_CONV_FEW;
}

/* ---- convolutions and products */

/* True if the weights keep the order of the model, which is that of their states: their library copies them into its
 * blocks in every step anyway, from any order, and gradients out of them.  Groups go to our kernels, too. */
static bool stay(const Last *l, const Op *op, const Spec *s) {
  if (!l->trained) return false;
  for (int d = 0; d < s->n[1]; d++)
    if (letter_of(s, s->part[1][d]) == LETTER_GROUP && !ex_is_const(old_type(l, op->in[1])->dims[d], 1)) return false;
  return true;
}

/* The weights in the kernel's order, and the letters of their spec: "HWco". */
static Val ordered_weights(Last *l, const Op *op, const Spec *s, Text *t) {
  int perm[MAX_RANK];
  if (stay(l, op, s)) {
    text_addn(t, s->part[1], (size_t)s->n[1]);
    return in_form(l, op->in[1], 0);
  }
  weights_order(s, l->filters && !is_narrow(l, op, s), perm);
  for (int d = 0; d < s->n[1]; d++) text_addn(t, &s->part[1][perm[d]], 1);
  return transposed(l, op_of(l->r.old, op->in[1]), in_form(l, op->in[1], 0), s->n[1], perm);
}

static bool try_conv(Last *l, const Op *op) {
  Spec s = spec_of(op);
  int k = channels_in(&s, 0);
  if (!k || channels_in(&s, 2) != k || s.part[0][0] != s.part[2][0] || l->fixed[op->in[1]] == FIXED_NOT) return false;
  Text t = {.arena = l->r.m->arena};
  const Type *type = form_type(l, old_type(l, op->out), k);
  add_form(&t, &s, 0, k);
  text_add(&t, ",");
  l->r.b.loc = op->loc;
  Val in[2] = {in_form(l, op->in[0], k), ordered_weights(l, op, &s, &t)};
  text_add(&t, "->");
  add_form(&t, &s, 2, k);
  OpSpec spec = op_spec_of(l->r.old, op);
  Attr attrs[8];
  for (int i = 0; i < op->nattrs; i++)
    attrs[i] = op->attrs[i].key == AT_spec ? attr_s(l->r.m, AT_spec, text_str(&t)) : op->attrs[i];
  spec.attrs = attrs, spec.in = in, spec.type = type;
  now_in(l, op, k, build_op(&l->r.b, &spec));
  return true;
}

/* Rewrites a product with an already transposed image; the channel letter after the batch is one in operand and
 * result. */
static bool try_dot(Last *l, const Op *op) {
  Spec s = spec_of(op);
  int side = form_of(l, op->in[0]) == 1 ? 0 : 1, other = 1 - side;
  if (form_of(l, op->in[side]) != 1 || form_of(l, op->in[other]) || s.n[2] < 3) return false;
  char batch = s.part[side][0];
  if (s.part[2][0] != batch || has(&s, other, batch) || !has(&s, other, s.part[2][1]) || has(&s, side, s.part[2][1]))
    return false;
  for (int d = 2; d < s.n[2]; d++)
    if (!has(&s, side, s.part[2][d])) return false;
  Text t = {.arena = l->r.m->arena};
  for (int i = 0; i < 2; i++) {
    if (i == side) add_form(&t, &s, i, 1);
    else text_addn(&t, s.part[i], (size_t)s.n[i]);
    text_add(&t, i ? "->" : ",");
  }
  add_form(&t, &s, 2, 1);
  Val in[2];
  in[side] = in_form(l, op->in[side], 1), in[other] = in_form(l, op->in[other], 0);
  OpSpec spec = op_spec_of(l->r.old, op);
  Attr a = attr_s(l->r.m, AT_spec, text_str(&t));
  spec.attrs = &a, spec.in = in, spec.type = NULL;
  now_in(l, op, 1, build_op(&l->r.b, &spec));
  return true;
}

/* ---- operations that keep the transposed order */

static int form_of_operands(const Last *l, const Op *op) {
  for (int i = 0; i < op->nin; i++)
    if (form_of(l, op->in[i])) return form_of(l, op->in[i]);
  return 0;
}

static void rebuild(Last *l, const Op *op, int k, const Attr *attrs, const Type *type) {
  Val in[MAX_OPERANDS];
  OpSpec spec = op_spec_of(l->r.old, op);
  for (int i = 0; i < op->nin; i++) in[i] = in_form(l, op->in[i], k);
  spec.in = in, spec.attrs = attrs, spec.type = type;
  now_in(l, op, k, build_op(&l->r.b, &spec));
}

static int64_t moved(const Last *l, const Op *op, int k, int64_t dim) {
  return place_of(old_type(l, op->in[0])->rank, k, (int)dim);
}

/* Adapts attributes: dimensions are renumbered (axis, axes), and lists by dimension are reordered (low, high). */
static const Attr *moved_attrs(Last *l, const Op *op, int k) {
  Attr *out = ARENA_ARRAY(l->r.m->arena, Attr, op->nattrs + 1);
  int rank = old_type(l, op->in[0])->rank, perm[MAX_RANK];
  order_of(rank, k, perm);
  for (int i = 0; i < op->nattrs; i++) {
    const Attr *a = &op->attrs[i];
    out[i] = *a;
    if (a->key == AT_axis) out[i] = attr_i(AT_axis, moved(l, op, k, a->u.i));
    if (a->key == AT_axes) {
      int64_t axes[MAX_RANK];
      for (int d = 0; d < a->n; d++) axes[d] = moved(l, op, k, a->u.ints[d]);
      out[i] = attr_ints(l->r.m, AT_axes, a->n, axes);
    }
    if (op->kind == OP_pad && (a->key == AT_low || a->key == AT_high)) {
      const Expr *e[MAX_RANK];
      for (int d = 0; d < rank; d++) e[d] = a->u.exprs[perm[d]];
      out[i] = attr_exprs(l->r.m, a->key, rank, e);
    }
  }
  return out;
}

/* Axes must be the image's (they keep their order); a reduction of the whole image returns to the model's order. */
static bool try_axes(Last *l, const Op *op, int k) {
  const Attr *axes = op_attr(op, AT_axes);
  int rank = old_type(l, op->in[0])->rank;
  for (int i = 0; i < axes->n; i++)
    if (axes->u.ints[i] <= k) return false;
  if (op->kind == OP_pool) {
    rebuild(l, op, k, moved_attrs(l, op, k), form_type(l, old_type(l, op->out), k));
    return true;
  }
  if (axes->n != rank - 1 - k) return false;
  OpSpec spec = op_spec_of(l->r.old, op);
  Val in = in_form(l, op->in[0], k);
  spec.in = &in, spec.attrs = moved_attrs(l, op, k), spec.type = NULL;
  l->r.map[op->out] = l->forms[op->out].v[0] = build_op(&l->r.b, &spec);
  return true;
}

/* Handles reshapes inside the image or of the channels: the other extents before and after are equal in both types. */
static bool try_reshape(Last *l, const Op *op, int k) {
  const Type *x = old_type(l, op->in[0]), *y = old_type(l, op->out);
  int grown = k + y->rank - x->rank;
  if (x->rank < 2 + k || y->rank < 3 || x->dims[0] != y->dims[0]) return false;
  bool channels = grown >= 1 && grown<FORMS, image = y->rank> 1 + k;
  for (int d = 1; d + k < x->rank; d++) channels = channels && x->dims[x->rank - d] == y->dims[y->rank - d];
  for (int d = 1; d <= k; d++) image = image && x->dims[d] == y->dims[d];
  if (!channels && !image) return false;
  int to = channels ? grown : k; /* [c, H] to [c, 1, H] splits the channels */
  Val in = in_form(l, op->in[0], k);
  OpSpec spec = op_spec_of(l->r.old, op);
  spec.in = &in, spec.type = form_type(l, y, to);
  now_in(l, op, to, build_op(&l->r.b, &spec));
  return true;
}

static bool try_op(Last *l, const Op *op) {
  if (!op->out) return false;
  if (op->kind == OP_conv || op->kind == OP_conv_transpose) return try_conv(l, op);
  int k = form_of_operands(l, op);
  if (!k) return false;
  if (op->kind == OP_dot) return try_dot(l, op);
  if (op->kind == OP_reshape) return try_reshape(l, op, k);
  if (op->kind == OP_pool || op->kind == OP_reduce) return try_axes(l, op, k);
  if (!op_is_elementwise(op->kind) && op->kind != OP_concat && op->kind != OP_pad) return false;
  rebuild(l, op, k, moved_attrs(l, op, k), form_type(l, old_type(l, op->out), k));
  return true;
}

static bool copy_in_order(Last *l, const Op *op) {
  for (int i = 0; i < op->nin; i++) in_form(l, op->in[i], 0);
  Val v = rewrite_copy(&l->r, op);
  for (Val r = op->out; r < op_end(op); r++) l->forms[r].v[0] = l->r.map[r];
  return v || !op->out;
}

/* Carries and leaves must be adjacent, so their operands are put into the model's order before the loop or repeat in
 * front of them. */
static void order_ahead(Last *l, size_t i) {
  const Op *op = &l->r.old->ops.items[i], *end = l->r.old->ops.items + l->r.old->ops.n;
  OpKind kind = op->kind == OP_loop ? OP_carry : OP_leave;
  if (op->kind != OP_loop && op->kind != OP_repeat) return;
  for (op++; op < end && op->kind == kind; op++) in_form(l, op->in[kind == OP_leave], 0);
}

/* After the leaves, forms that were made in the body are invisible. */
static void forget_forms(Last *l, size_t i) {
  const Func *f = l->r.old;
  if (f->ops.items[i].kind != OP_leave || (i + 1 < f->ops.n && f->ops.items[i + 1].kind == OP_leave)) return;
  for (size_t v = 1; v < f->values.n; v++) {
    for (int k = 0; k < FORMS; k++)
      if (rewrite_is_behind(&l->r, l->forms[v].v[k])) l->forms[v].v[k] = 0;
    l->r.map[v] = l->forms[v].v[0];
  }
}

static bool channels_last(Module *m, const Func *f, bool filters, bool trained, Diags *diags) {
  Arena *a = m->arena;
  Last l = {rewrite_start(m, f, diags), fixed_values(a, f), filters, trained, ARENA_ARRAY(a, Forms, f->values.n)};
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    order_ahead(&l, i);
    if (!try_op(&l, op) && !copy_in_order(&l, op)) return false;
    forget_forms(&l, i);
  }
  for (size_t i = 0; i < f->outputs.n; i++) in_form(&l, f->outputs.items[i].value, 0);
  rewrite_finish(&l.r);
  return diags->errors == 0;
}

static bool has_conv(const Func *f) {
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == OP_conv || f->ops.items[i].kind == OP_conv_transpose) return true;
  return false;
}

bool pass_channels_last(Module *m, const DeviceTraits *device, bool trained, Diags *diags) {
  for (size_t k = 0; k < m->funcs.n; k++) {
    const Func *f = m->funcs.items[k];
    if (f->level == 1 && has_conv(f) && !channels_last(m, f, device->filters, trained && device->blocks, diags))
      return false;
  }
  return true;
}
