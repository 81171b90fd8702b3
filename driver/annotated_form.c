/* driver/annotated_form.c - see annotated_form.h.
 *
 * A value has the name of the tensor's maker, or that with the ending of a pass.  Its dimensions are those of the
 * tensor in order, each perhaps in parts.  It may be a piece of the tensor (passes/rewrite/views.c), which is a form of
 * it for layouts that do not split the dimension along which it was cut.  The dimensions of a view of a weight follow
 * from its strides.  A product of a weight tells apart what extents cannot: several factors that one dimension of the
 * weight has come in the same order in the other operand and in the result.
 */
#include "driver/annotated_form.h"

#include <stdio.h>
#include <string.h>

#include "ir/ops.h"

/* Reads "[FIRST:END]", the ending of a piece.  Returns the text after it; the text itself if it is none. */
static const char *after_piece(const char *text, int64_t *extent) {
  long long first, end;
  int n = 0;
  if (sscanf(text, "[%18lld:%18lld]%n", &first, &end, &n) != 2 || !n) return text;
  *extent = end - first;
  return text + n;
}

/* Returns the name of an operation without the ending of a piece; the name itself if it has none. */
const char *annotated_whole(Arena *a, const char *name) {
  int64_t extent;
  for (const char *p = strchr(name, '['); p; p = strchr(p + 1, '['))
    if (!*after_piece(p, &extent)) return arena_strndup(a, name, (size_t)(p - name));
  return name;
}

/* True if the value is the tensor, perhaps with dimensions in parts or another element type (passes/rewrite/narrow.c),
 * or a piece of it: *piece is then its extent along the dimension that was cut, else 0.  Each user of a small weight
 * has a read of its own (passes/rewrite/unshare.c). */
static bool has_name(const OnnxTensorSharding *t, const Op *op, const Type *type, int64_t *piece) {
  const size_t n = strlen(t->maker);
  *piece = 0;
  if (!op->name || strncmp(op->name, t->maker, n) != 0) return false;
  const char *end = op->name + n;
  if (strncmp(end, ".heads", 6) == 0) end += 6;
  else end = after_piece(end, piece);
  if (op->kind == OP_cast && *end == '.' && strcmp(end + 1, dtype_name(type->dtype)) == 0) return true;
  return !*end || (op->kind == OP_param && strncmp(end, ".for.", 5) == 0);
}

static bool append(DimFactors *to, const DimFactors *from) {
  if (to->n + from->n > MAX_DIM_FACTORS) return false;
  for (int i = 0; i < from->n; i++) to->f[to->n++] = from->f[i];
  return true;
}

static bool is_split(const Layout *l, int d) { return l && l->dims[d].n > 0; }

/* Takes the dimensions of `now` in order: the factors of each of the tensor are those of one or more of them.  `piece`:
 * one may have this extent instead, if it is not 0 and the layout does not split it. */
static bool in_parts(Module *m, const Type *was, const Type *now, int64_t piece, const TensorFactors *in,
                     const Layout *l, TensorFactors *out) {
  int at = 0;
  *out = (TensorFactors){.rank = was->rank};
  for (int d = 0; d < was->rank; d++) {
    const Expr *product = NULL;
    bool cut = false;
    for (; product != was->dims[d] && !cut && at < now->rank; at++) {
      cut = piece && !product && now->dims[at] != was->dims[d] && ex_is_const(now->dims[at], piece) && !is_split(l, d);
      product = product ? ex_mul(m, product, now->dims[at]) : now->dims[at];
      if (!append(&out->dims[d], &in->dims[at])) return false;
    }
    if (cut) piece = 0;
    else if (product != was->dims[d]) return false;
  }
  while (at < now->rank && ex_is_const(now->dims[at], 1)) at++;
  return at == now->rank && !piece;
}

/* Lists the dimensions of a view in descending order of their strides. */
static void by_stride(const Param *p, int *order) {
  for (int v = 0; v < p->type->rank; v++) {
    int at = v;
    for (; at > 0 && p->strides[order[at - 1]] < p->strides[v]; at--) order[at] = order[at - 1];
    order[at] = v;
  }
}

/* The same for a view of a weight with the tensor's dimensions: a dimension of the view lies in the one with the
 * largest stride up to its own.  A dimension that is cut must not be split, except along whole parts in front of the
 * cut. */
static bool in_view(const Param *p, const TensorFactors *in, const Layout *l, TensorFactors *out) {
  const Type *was = p->origin.type;
  int64_t extent[MAX_RANK], stride[MAX_RANK], left[MAX_RANK], n = 1, own;
  int order[MAX_RANK];
  *out = (TensorFactors){.rank = was->rank};
  for (int d = was->rank - 1; d >= 0; d--) {
    if (!ex_get_const(was->dims[d], &extent[d])) return false;
    stride[d] = n, n *= extent[d], left[d] = n;
  }
  by_stride(p, order);
  for (int i = 0; i < p->type->rank; i++) {
    const int v = order[i];
    int d = 0;
    if (!ex_get_const(p->type->dims[v], &own)) return false;
    if (own == 1) continue;
    while (d < was->rank && (stride[d] > p->strides[v] || extent[d] == 1)) d++;
    if (d == was->rank) return false;
    const bool cut = p->strides[v] * own < left[d] && (out->dims[d].n || !is_split(l, d));
    if ((p->strides[v] * own != left[d] && !cut) || !append(&out->dims[d], &in->dims[v])) return false;
    left[d] = p->strides[v];
  }
  for (int d = 0; d < was->rank; d++)
    if (left[d] != stride[d]) return false;
  return true;
}

static const Param *weight_of(Module *m, const Func *f, Val v) {
  const Op *op = &f->ops.items[f->values.items[v].op];
  if (op->kind != OP_param) return NULL;
  return module_param(m, op_str(op, AT_name));
}

static bool same_type(const Type *a, const Type *b) {
  bool same = a->rank == b->rank;
  for (int d = 0; same && d < a->rank; d++) same = a->dims[d] == b->dims[d];
  return same;
}

static bool has_factor(const DimFactors *dim, int factor) {
  for (int i = 0; i < dim->n; i++)
    if (dim->f[i] == factor) return true;
  return false;
}

/* Sets the factors of the dimensions of a weight as the model has it. */
static bool of_weight(const Param *p, const TensorFactors *in, const Layout *l, TensorFactors *out) {
  *out = *in;
  return !p->origin.name || in_view(p, in, l, out);
}

static bool is_weight(const Param *p, const OnnxTensorSharding *t) {
  return p && strcmp(p->origin.name ? p->origin.name : p->name, t->maker) == 0 &&
         same_type(p->origin.name ? p->origin.type : p->type, t->type);
}

/* Returns the view of the tensor, or, with t NULL, of any weight, that a value of @prepare is computed from by casts
 * and concatenations; NULL if none.  *axis: of the concatenation; -1 if none. */
static const Param *prepared_from(Module *m, const Func *f, Val v, const OnnxTensorSharding *t, int *axis) {
  const Op *op = &f->ops.items[f->values.items[v].op];
  const Param *found = NULL;
  if (op->kind == OP_param) return !t || is_weight(weight_of(m, f, v), t) ? weight_of(m, f, v) : NULL;
  if (op->kind != OP_cast && op->kind != OP_concat) return NULL;
  for (int i = 0; i < op->nin && !found; i++) found = prepared_from(m, f, op->in[i], t, axis);
  if (found && op->kind == OP_concat) *axis = (int)op_int(op, AT_axis, 0);
  return found;
}

/* The same as of_weight for a weight that @prepare makes of the tensor and others side by side: ranks have parts of the
 * tensor only if they divide it along other dimensions. */
static bool of_prepared(Module *m, const Param *p, const OnnxTensorSharding *t, const TensorFactors *in,
                        TensorFactors *out) {
  const Func *f = module_func(m, "prepare");
  int axis = -1;
  const Param *view = NULL;
  for (size_t i = 0; f && i < f->outputs.n && !view; i++)
    if (strcmp(f->outputs.items[i].name, p->name) == 0) view = prepared_from(m, f, f->outputs.items[i].value, t, &axis);
  if (!view || view->type->rank != p->type->rank || !of_weight(view, in, NULL, out)) return false;
  for (int d = 0; axis >= 0 && d < out->rank; d++)
    if (out->dims[d].n && has_factor(&in->dims[axis], out->dims[d].f[0])) return false;
  return true;
}

/* ---- products with a weight */

static bool same_factors(const DimFactors *a, const DimFactors *b) {
  return a->n == b->n && memcmp(a->f, b->f, (size_t)a->n) == 0;
}

/* True if each dimension that has factors of the weight has those of one of its dimensions, or only one. */
static bool agrees(const TensorFactors *x, const TensorFactors *weight) {
  for (int d = 0; d < x->rank; d++)
    for (int e = 0; e < weight->rank; e++)
      for (int i = 0; i < x->dims[d].n; i++)
        if (has_factor(&weight->dims[e], x->dims[d].f[i]) && !same_factors(&x->dims[d], &weight->dims[e])) return false;
  return true;
}

/* The number of the operand of a product that is a weight, with the factors of its dimensions; -1 if none or both. */
static int weight_operand(Module *m, const Func *f, size_t op, const Rule *r, TensorFactors *out) {
  const Op *o = &f->ops.items[op];
  if (!op_is_contraction(o->kind) || o->nin < 2) return -1;
  const Param *p[2] = {weight_of(m, f, o->in[0]), weight_of(m, f, o->in[1])};
  const int w = p[1] != NULL;
  if (!p[0] == !p[1]) return -1;
  const bool found = p[w]->init == INIT_PREPARED ? of_prepared(m, p[w], NULL, &r->operands[w], out)
                                                 : of_weight(p[w], &r->operands[w], NULL, out);
  return found ? w : -1;
}

/* True if the product sums over the dimensions of the operand that it summed over in the model. */
static bool same_sums(const Rule *r, const TensorFactors *x, const OnnxTensorSharding *t) {
  for (int d = 0; d < x->rank; d++)
    for (int i = 0; i < x->dims[d].n; i++) {
      const bool sums = r->factors[x->dims[d].f[i]].kind == FK_REDUCE;
      if (sums != (t->summed >> d & 1u)) return false;
    }
  return t->summed != 0;
}

/* ---- orders of dimensions */

/* True if a pass may have exchanged dimensions of equal extents, which cannot be told by the type: channels and those
 * of an image (passes/rewrite/channels_last.c), heads and rows (heads.c). */
static bool may_be_turned(const Func *f, const Type *t) {
  bool attention = false, convolution = false, some = false, all = t->rank > 2;
  for (int d = 1; d < t->rank; d++) {
    all &= t->dims[d] == t->dims[1];
    for (int e = 1; e < d; e++) some |= t->dims[d] == t->dims[e] && !ex_is_const(t->dims[d], 1);
  }
  for (size_t i = 0; i < f->ops.n && (some || all); i++) {
    attention |= f->ops.items[i].kind == OP_attention;
    convolution |= f->ops.items[i].kind == OP_conv;
  }
  return (attention && some && t->rank == 4) || (convolution && all);
}

/* ---- entry */

bool annotated_operand(Module *m, const Func *f, size_t op, const Rule *r, int operand, const OnnxTensorSharding *t,
                       const Layout *l, TensorFactors *out) {
  const Op *o = &f->ops.items[op], *maker = &f->ops.items[f->values.items[o->in[operand]].op];
  const Type *type = type_of(f, o->in[operand]);
  const Param *p = weight_of(m, f, o->in[operand]);
  const TensorFactors *in = &r->operands[operand];
  TensorFactors weight;
  int64_t piece;
  if (p && p->origin.name && is_weight(p, t)) return of_weight(p, in, l, out);
  if (p && p->init == INIT_PREPARED && of_prepared(m, p, t, in, out)) return true;
  const int w = weight_operand(m, f, op, r, &weight);
  const bool named = has_name(t, maker, type, &piece) && (int)(o->in[operand] - maker->out) == t->number;
  /* A pass may have removed the reshape or transpose that made the operand of a product. */
  const bool other = w >= 0 && operand == t->place && !module_param(m, t->maker);
  if (!named && !other) return false;
  if (!other) return in_parts(m, t->type, type, piece, in, l, out) && !may_be_turned(f, type);
  if (!in_parts(m, t->type, type, named ? piece : 0, in, l, out)) return false;
  return same_sums(r, out, t) && (operand == w || agrees(out, &weight));
}

bool annotated_result(Module *m, const Func *f, size_t op, const Rule *r, int result, const OnnxTensorSharding *t,
                      const Layout *l, TensorFactors *out) {
  const Op *o = &f->ops.items[op];
  const Type *type = type_of(f, o->out + (Val)result);
  TensorFactors weight;
  int64_t piece;
  if (!has_name(t, o, type, &piece) || result != t->number) return false;
  if (!in_parts(m, t->type, type, piece, &r->results[result], l, out)) return false;
  return weight_operand(m, f, op, r, &weight) < 0 ? !may_be_turned(f, type) : agrees(out, &weight);
}
