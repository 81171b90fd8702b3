/* frontend/onnx/export.c - see export.h. */
#include "frontend/onnx/export_private.h"

#include <string.h>

#include "base/die.h"
#include "ir/layout/body.h"

/* ---- shared by all writers */

const char *export_no_form(const Writing *n, const char *why) {
  Export *x = n->x;
  unsigned kind = n->op->kind;
  if (x->refused[kind / 64] >> (kind % 64) & 1) return NULL;
  x->refused[kind / 64] |= (uint64_t)1 << (kind % 64);
  diag_error(x->diags, DIAG_onnx_export, (Loc){.node = n->op->name}, "'%s' has no ONNX form: %s", op_name(n->op->kind),
             why);
  return NULL;
}

const char *operand(const Writing *n, int i) { return n->s->names[n->op->in[i]]; }
const Type *operand_type(const Writing *n, int i) { return type_of(n->s->f, n->op->in[i]); }

static const char *node(const Writing *n, const char *type, int nin, const char *const *in, Onnx__AttributeProto *a) {
  for (int i = 0; i < nin; i++)
    if (!in[i]) return NULL;
  return onnx_write_node(n->x->w, type, n->wanted, nin, in, a != NULL, &a);
}

const char *node1(const Writing *n, const char *type, const char *x) { return node(n, type, 1, &x, NULL); }
const char *node2(const Writing *n, const char *type, const char *x, const char *y) {
  return node(n, type, 2, (const char *const[]){x, y}, NULL);
}
const char *node3(const Writing *n, const char *type, const char *x, const char *y, const char *z) {
  return node(n, type, 3, (const char *const[]){x, y, z}, NULL);
}
const char *node1_int(const Writing *n, const char *type, const char *x, const char *attr, int64_t v) {
  return node(n, type, 1, &x, onnx_write_int(n->x->w, attr, v));
}
const char *node1_ints(const Writing *n, const char *type, const char *x, const char *attr, int count,
                       const int64_t *v) {
  return node(n, type, 1, &x, onnx_write_ints(n->x->w, attr, count, v));
}

const char *import_number(const Writing *n, DType t, double v) {
  return onnx_write_scalar(n->x->w, t, v, dtype_is_float(t) ? 0 : dtype_constant_i(t, v), false);
}
const char *cast_to(const Writing *n, const char *x, DType t) { return node1_int(n, "Cast", x, "to", onnx_type_of(t)); }

static const char *vector(const Writing *n, int count, const int64_t *v) {
  return onnx_write_vector(n->x->w, count, v);
}

/* ---- sizes */

/* Computes one extent of an input that is this symbol. */
static const char *symbol_value(const Writing *n, int symbol) {
  const Func *f = n->x->main;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (op->kind != OP_input) continue;
    const Type *t = type_of(f, op->out);
    for (int d = 0; d < t->rank; d++) {
      if (t->dims[d]->kind != EX_SYM || t->dims[d]->value != symbol) continue;
      Onnx__AttributeProto *range[2] = {onnx_write_int(n->x->w, "start", d), onnx_write_int(n->x->w, "end", d + 1)};
      return onnx_write_node(n->x->w, "Shape", n->x->m->symbols.items[symbol].name, 1, &n->x->inputs[i], 2, range);
    }
  }
  return export_no_form(
      n, arena_printf(n->x->w->arena, "no input has a dimension of size '%s'", n->x->m->symbols.items[symbol].name));
}

static const char *one_number(const Writing *n, int64_t v) { return onnx_write_scalar(n->x->w, DT_i64, 0, v, true); }

/* floor(a / b) for b > 0: Div truncates, Mod has the sign of b. */
static const char *floor_division(const Writing *n, const char *a, const char *b) {
  return node2(n, "Div", node2(n, "Sub", a, node2(n, "Mod", a, b)), b);
}

static const char *compute_size(const Writing *n, const Expr *e) {
  static const char *const types[] = {[EX_MUL] = "Mul", [EX_ADD] = "Add", [EX_MIN] = "Min", [EX_MAX] = "Max"};
  if (e->kind == EX_CONST) return one_number(n, e->value);
  if (e->kind == EX_SYM) return symbol_value(n, (int)e->value);
  const char *v = import_extent_of(n, e->args[0]);
  if (e->kind == EX_DIV) return floor_division(n, v, import_extent_of(n, e->args[1]));
  for (int i = 1; i < e->n; i++) v = node2(n, types[e->kind], v, import_extent_of(n, e->args[i]));
  if (e->kind == EX_MUL && e->value != 1) v = node2(n, "Mul", v, one_number(n, e->value));
  if (e->kind == EX_ADD && e->value != 0) v = node2(n, "Add", v, one_number(n, e->value));
  return v;
}

const char *import_extent_of(const Writing *n, const Expr *e) {
  Export *x = n->x;
  for (size_t i = 0; i < x->sizes.n; i++)
    if (x->sizes.items[i].e == e) return x->sizes.items[i].name;
  Writing named = *n;
  named.wanted = "size";
  const char *name = compute_size(&named, e);
  if (name) ARENA_PUSH(x->w->arena, &x->sizes, ((Sized){e, name}));
  return name;
}

const char *extents_of(const Writing *n, int rank, const Expr *const *dims) {
  int64_t sizes[2 * MAX_RANK] = {0};
  const char *parts[2 * MAX_RANK];
  bool constant = true;
  for (int d = 0; d < rank; d++) constant = ex_get_const(dims[d], &sizes[d]) && constant;
  if (constant) return vector(n, rank, sizes);
  for (int d = 0; d < rank; d++)
    if (!(parts[d] = import_extent_of(n, dims[d]))) return NULL;
  Writing named = *n;
  named.wanted = "shape";
  return node(&named, "Concat", rank, parts, onnx_write_int(n->x->w, "axis", 0));
}

/* Reshapes with allowzero, so that an extent of 0 is 0 and not "as before". */
const char *reshaped(const Writing *n, const char *x, int rank, const Expr *const *dims) {
  const char *shape = extents_of(n, rank, dims);
  return node(n, "Reshape", 2, (const char *const[]){x, shape}, onnx_write_int(n->x->w, "allowzero", 1));
}

const char *transposed(const Writing *n, const char *x, int rank, const int64_t *perm) {
  bool moves = false;
  for (int d = 0; d < rank; d++) moves = moves || perm[d] != d;
  return moves ? node1_ints(n, "Transpose", x, "perm", rank, perm) : x;
}

static const char *expanded(const Writing *n, const char *x) {
  return node2(n, "Expand", x, extents_of(n, n->type->rank, n->type->dims));
}

/* ---- sources */

static const char *write_param(const Writing *n) {
  const Param *p = module_param(n->x->m, op_str(n->op, AT_name));
  const char *written = name_find(&n->x->params, p->name);
  Tensor t;
  if (written) return written;
  if (p->init == INIT_PREPARED) return export_no_form(n, "the weight is computed from others");
  if (!n->x->how->weight(n->x->how->context, p, &t)) return NULL;
  written = onnx_write_tensor(n->x->w, p->name, t.dtype, t.rank, t.dims, t.data, t.bytes);
  name_put(n->x->w->arena, &n->x->params, p->name, (void *)(uintptr_t)written);
  return written;
}

static const char *write_list(const Writing *n, const Attr *ints, const Attr *floats) {
  int64_t dims[MAX_RANK];
  size_t count = (size_t)(ints ? ints->n : floats->n), size = dtype_bytes(n->type->dtype);
  char *data = arena_alloc(n->x->w->arena, count * size + 1);
  if (!type_constant_dims(n->type, dims)) return export_no_form(n, "a list of elements with a symbolic shape");
  for (size_t i = 0; i < count; i++) {
    if (ints) dtype_store_i(n->type->dtype, data + i * size, ints->u.ints[i]);
    else dtype_store_f(n->type->dtype, data + i * size, floats->u.floats[i]);
  }
  return onnx_write_tensor(n->x->w, n->wanted, n->type->dtype, n->type->rank, dims, data, count * size);
}

static const char *write_const(const Writing *n) {
  const Attr *ints = op_attr(n->op, AT_ints), *floats = op_attr(n->op, AT_floats);
  if (ints || floats) return write_list(n, ints, floats);
  const char *v = import_number(n, n->type->dtype, op_float(n->op, AT_value, 0));
  return n->type->rank ? expanded(n, v) : v;
}

static const char *write_size(const Writing *n) {
  const char *v = import_extent_of(n, op_expr(n->op, AT_expr));
  if (n->type->dtype != DT_i64) v = v ? cast_to(n, v, n->type->dtype) : NULL;
  return n->type->rank ? expanded(n, v) : reshaped(n, v, 0, NULL);
}

static const char *write_iota(const Writing *n) {
  int axis = (int)op_int(n->op, AT_axis, 0);
  const Expr *count = n->type->dims[axis], *start = op_expr(n->op, AT_start), *one = ex_const(n->x->m, 1);
  const Expr *dims[MAX_RANK];
  const char *from = reshaped(n, import_extent_of(n, start), 0, NULL),
             *to = reshaped(n, import_extent_of(n, ex_add(n->x->m, start, count)), 0, NULL);
  const char *v = node3(n, "Range", from, to, onnx_write_scalar(n->x->w, DT_i64, 0, 1, false));
  if (n->type->dtype != DT_i64) v = v ? cast_to(n, v, n->type->dtype) : NULL;
  if (n->type->rank == 1) return v;
  for (int d = 0; d < n->type->rank; d++) dims[d] = d == axis ? count : one;
  return expanded(n, reshaped(n, v, n->type->rank, dims));
}

/* ---- shapes */

static const char *write_broadcast(const Writing *n) {
  const Attr *to = op_attr(n->op, AT_dims);
  const Type *t = operand_type(n, 0);
  const Expr *dims[MAX_RANK];
  const char *x = operand(n, 0);
  if (n->type->rank == 0) return node1(n, "Identity", x);
  for (int d = 0; d < n->type->rank; d++) dims[d] = ex_const(n->x->m, 1);
  for (int d = 0; d < to->n; d++) dims[to->u.ints[d]] = t->dims[d];
  if (n->type->rank != t->rank) x = reshaped(n, x, n->type->rank, dims);
  return expanded(n, x);
}

/* Ends beyond the operand are clipped, so start + extent * stride is a valid end. */
static const char *write_slice(const Writing *n) {
  const Attr *starts = op_attr(n->op, AT_starts), *strides = op_attr(n->op, AT_strides);
  const Expr *ends[MAX_RANK];
  for (int d = 0; d < n->type->rank; d++)
    ends[d] = ex_add(n->x->m, starts->u.exprs[d], ex_muli(n->x->m, n->type->dims[d], strides->u.ints[d]));
  int64_t axes[MAX_RANK];
  for (int d = 0; d < n->type->rank; d++) axes[d] = d;
  int rank = n->type->rank;
  const char *in[] = {operand(n, 0), extents_of(n, rank, starts->u.exprs), extents_of(n, rank, ends),
                      vector(n, rank, axes), vector(n, rank, strides->u.ints)};
  return node(n, "Slice", 5, in, NULL);
}

static const char *write_pad(const Writing *n) {
  const Attr *low = op_attr(n->op, AT_low), *high = op_attr(n->op, AT_high);
  const Expr *pads[2 * MAX_RANK];
  for (int d = 0; d < low->n; d++) pads[d] = low->u.exprs[d], pads[low->n + d] = high->u.exprs[d];
  if (n->type->dtype == DT_bool) return export_no_form(n, "Pad does not support bool");
  return node3(n, "Pad", operand(n, 0), extents_of(n, 2 * low->n, pads),
               import_number(n, n->type->dtype, op_float(n->op, AT_value, 0)));
}

static const char *write_concat(const Writing *n) {
  const char *in[MAX_OPERANDS];
  for (int i = 0; i < n->op->nin; i++) in[i] = operand(n, i);
  return node(n, "Concat", n->op->nin, in, onnx_write_int(n->x->w, "axis", op_int(n->op, AT_axis, 0)));
}

/* ---- reductions, contractions, indices */

static const char *reduced(const Writing *n, const char *type, const char *x, const Attr *axes) {
  OnnxWriter *w = n->x->w;
  Onnx__AttributeProto *attrs[2] = {onnx_write_int(w, "keepdims", 0),
                                    onnx_write_ints(w, "axes", axes->n, axes->u.ints)};
  if (strcmp(type, "ReduceSum") != 0) return onnx_write_node(w, type, n->wanted, 1, &x, 2, attrs);
  return node(n, type, 2, (const char *const[]){x, vector(n, axes->n, axes->u.ints)}, attrs[0]);
}

static const char *write_reduce(const Writing *n) {
  static const char *const types[] = {
      [RED_SUM] = "ReduceSum", [RED_PRODUCT] = "ReduceProd", [RED_MAX] = "ReduceMax", [RED_MIN] = "ReduceMin",
      [RED_OR] = "ReduceMax",  [RED_AND] = "ReduceMin",      [RED_ONE] = NULL};
  Reduction r = op_attr(n->op, AT_op)->u.reduction;
  const char *type = types[r], *x = operand(n, 0);
  if (!type) return export_no_form(n, "no operator picks one of equal elements");
  bool is_bool = n->type->dtype == DT_bool;
  if (is_bool) x = cast_to(n, x, DT_i32);
  const char *y = reduced(n, type, x, op_attr(n->op, AT_axes));
  return is_bool ? cast_to(n, y, DT_bool) : y;
}

static const char *write_dot(const Writing *n) {
  return node(n, "Einsum", 2, (const char *const[]){operand(n, 0), operand(n, 1)},
              onnx_write_string(n->x->w, "equation", op_str(n->op, AT_spec)));
}

/* True if the index is an input of the model that must lie inside the table anyway (ir/index_bound.h).  ONNX handles
 * negative ones itself. */
static bool index_is_checked(const Writing *n, Val index, const Expr *extent) {
  const Func *f = n->s->f;
  if (f != n->x->main) return false;
  for (;;) {
    const Op *op = op_of(f, index);
    if (op->kind == OP_input) {
      const Expr *below = index_range(n->x->m, f, index).below;
      return below && below == extent;
    }
    bool passes = op_arranges(op->kind) || op->kind == OP_cast;
    if (!passes && op->kind != OP_select) return false;
    index = op->in[passes ? 0 : 2];
  }
}

/* True if the index follows from sizes alone.  A program refuses sizes that put it outside its table, so ONNX may
 * report its own error; importing the plain Gather again also yields the largest size again. */
static bool index_follows(const Writing *n) {
  const Func *f = n->s->f;
  bool found = false;
  for (size_t i = 0; i < n->x->nspans && f == n->x->main && !found; i++)
    found = &f->ops.items[n->x->spans[i].op] == n->op;
  return found;
}

/* An index outside the operand yields 0 here and is an error in ONNX, so it is clamped and its result replaced. */
static const char *write_gather(const Writing *n, const char *type) {
  int axis = (int)op_int(n->op, AT_axis, 0);
  const Type *table = operand_type(n, 0), *index = operand_type(n, 1);
  const Expr *extent = table->dims[axis], *dims[MAX_RANK];
  Onnx__AttributeProto *attr = onnx_write_int(n->x->w, "axis", axis);
  const char *i = operand(n, 1);
  if (index->dtype != DT_i64 && index->dtype != DT_i32) i = cast_to(n, i, DT_i64);
  if (is_round_below(n, n->op->in[1], extent) || index_is_checked(n, n->op->in[1], extent) || index_follows(n))
    return node(n, type, 2, (const char *const[]){operand(n, 0), i}, attr);
  if (index->dtype == DT_i32) i = cast_to(n, i, DT_i64);
  const char *zero = onnx_write_scalar(n->x->w, DT_i64, 0, 0, false),
             *end = reshaped(n, import_extent_of(n, extent), 0, NULL);
  const char *last = node2(n, "Sub", end, onnx_write_scalar(n->x->w, DT_i64, 0, 1, false));
  const char *inside = node2(n, "Max", node2(n, "Min", i, last), zero);
  const char *y = node(n, type, 2, (const char *const[]){operand(n, 0), inside}, attr);
  const char *valid = node2(n, "Equal", i, inside);
  if (strcmp(type, "Gather") == 0 &&
      n->type->rank > index->rank + axis) { /* the index is at `axis`; the later dimensions follow */
    int rank = n->type->rank - axis;
    for (int d = 0; d < rank; d++) dims[d] = d < index->rank ? index->dims[d] : ex_const(n->x->m, 1);
    valid = reshaped(n, valid, rank, dims);
  }
  return node3(n, "Where", valid, y, import_number(n, n->type->dtype, 0));
}

static const char *write_scan(const Writing *n) {
  if (op_attr(n->op, AT_op)->u.reduction != RED_SUM) return export_no_form(n, "ONNX has only running sums (CumSum)");
  Onnx__AttributeProto *attrs[2] = {onnx_write_int(n->x->w, "exclusive", op_int(n->op, AT_exclusive, 0)),
                                    onnx_write_int(n->x->w, "reverse", op_int(n->op, AT_reverse, 0))};
  const char *in[2] = {operand(n, 0), onnx_write_scalar(n->x->w, DT_i64, 0, op_int(n->op, AT_axis, 0), false)};
  return onnx_write_node(n->x->w, "CumSum", n->wanted, 2, in, 2, attrs);
}

/* Writes both results, even if unused. */
static const char *write_topk(const Writing *n) {
  OnnxWriter *w = n->x->w;
  const char *in[2] = {operand(n, 0), import_extent_of(n, op_expr(n->op, AT_k))}, *results[2];
  if (n->type->dtype == DT_bf16) return export_no_form(n, "TopK does not support bf16");
  if (!in[1]) return NULL;
  Onnx__AttributeProto *attrs[2] = {onnx_write_int(w, "axis", op_int(n->op, AT_axis, 0)),
                                    onnx_write_int(w, "largest", op_int(n->op, AT_descending, 0) != 0)};
  results[0] = builder_unique_name(&w->names, n->wanted);
  results[1] = n->s->names[n->op->out + 1] = builder_unique_name(&w->names, n->op->names[0]);
  onnx_write_results(w, "TopK", 2, results, 2, in, 2, attrs);
  return results[0];
}

/* ---- pointwise */

typedef struct Same {
  const char *type, *dtypes;
} Same;

static const Same same[OP_COUNT] = {
#define SAME1(op, type, since, dtypes) [OP_##op] = {type, dtypes},
#define SAME2(op, type, since, dtypes) [OP_##op] = {type, dtypes},
#define WRITTEN(op, type, dtypes) [OP_##op] = {type, dtypes},
#include "frontend/onnx/ops.def"
};

static bool takes(const char *dtypes, DType t) {
  static const char letters[] = {[DTC_F] = 'F', [DTC_I] = 'I', [DTC_U] = 'U', [DTC_B] = 'B'};
  return strchr(dtypes, letters[dtype_class(t)]) != NULL;
}

static const char *write_same(const Writing *n) {
  const Same *row = &same[n->op->kind];
  const char *in[MAX_OPERANDS];
  DType t = operand_type(n, n->op->nin - 1)->dtype;
  if (!takes(row->dtypes, t))
    return export_no_form(n, arena_printf(n->x->w->arena, "%s takes no %s", row->type, dtype_name(t)));
  for (int i = 0; i < n->op->nin; i++) in[i] = operand(n, i);
  return node(n, row->type, n->op->nin, in, NULL);
}

static const char *write_shift(const Writing *n) {
  bool left = n->op->kind == OP_shl;
  if (dtype_class(n->type->dtype) != DTC_U) return export_no_form(n, "BitShift supports only unsigned integers");
  return node(n, "BitShift", 2, (const char *const[]){operand(n, 0), operand(n, 1)},
              onnx_write_string(n->x->w, "direction", left ? "LEFT" : "RIGHT"));
}

static const char *write_softmax(const Writing *n) {
  return node1_int(n, "Softmax", operand(n, 0), "axis", op_int(n->op, AT_axis, 0));
}

/* ---- functions */

static const char *write_op(const Writing *n);

bool write_range(Export *x, ExportScope *s, size_t from, size_t to, const char *prefix) {
  bool ok = true;
  for (size_t i = from; i < to; i++) {
    const Op *op = &s->f->ops.items[i];
    if (op->kind == OP_input || s->skip[i]) continue;
    if (s->f == x->main) x->w->writer = (int)i;
    bool lost = false; /* a value without an ONNX form cannot be used */
    for (int k = 0; k < op->nin; k++) lost = lost || !s->names[op->in[k]];
    Writing n = {x, s, op, op->out ? type_of(s->f, op->out) : NULL,
                 prefix ? arena_printf(x->w->arena, "%s/%s", prefix, op->name) : op->name};
    if (op->kind == OP_loop) {
      const Loop *l = &s->loops.items[s->loops.of[i]]; /* the number of the round belongs to the body */
      ok = !lost && write_loop(&n, s, l, prefix) && ok;
      i = l->end - 1;
      continue;
    }
    const char *name = lost ? NULL : write_op(&n);
    if (op->out) s->names[op->out] = name;
    ok = ok && name;
  }
  return ok;
}

static const char *write_body(const Writing *n) {
  Export *x = n->x;
  const Func *body = body_of(x->m, n->s->f, n->op);
  ExportScope s = export_scope_of(x, body);
  for (size_t i = 0; i < body->ops.n; i++) {
    const Op *op = &body->ops.items[i];
    int64_t k;
    if (op->kind != OP_input) continue;
    for (k = 0; k < n->op->nin && strcmp(op_str(op, AT_name), arena_printf(x->w->arena, "%lld", (long long)k)) != 0;
         k++) {}
    s.names[op->out] = operand(n, (int)k);
  }
  if (!write_range(x, &s, 0, body->ops.n, n->wanted)) return NULL;
  for (int k = 1; k < n->op->nout; k++) n->s->names[n->op->out + (Val)k] = s.names[body->outputs.items[k].value];
  return s.names[body->outputs.items[0].value];
}

static const char *write_op(const Writing *n) {
  DType t = n->type ? n->type->dtype : DT_f32;
  const char *x = n->op->nin ? operand(n, 0) : NULL;
  if (!dtype_computes(t)) return export_no_form(n, arena_printf(n->x->w->arena, "%s is not written", dtype_name(t)));
  if (same[n->op->kind].type) {
    if ((n->op->kind == OP_and || n->op->kind == OP_or || n->op->kind == OP_xor) && t != DT_bool)
      return export_no_form(n, "bitwise operators need operator set 18");
    return write_same(n);
  }
  switch (n->op->kind) {
    case OP_param: return write_param(n);
    case OP_const: return write_const(n);
    case OP_size: return write_size(n);
    case OP_iota: return write_iota(n);
    case OP_exp2: return node2(n, "Pow", import_number(n, t, 2), x);
    case OP_expm1: return node2(n, "Sub", node1(n, "Exp", x), import_number(n, t, 1));
    case OP_log1p: return node1(n, "Log", node2(n, "Add", import_number(n, t, 1), x));
    case OP_rsqrt: return node1(n, "Reciprocal", node1(n, "Sqrt", x));
    case OP_mod: return node(n, "Mod", 2, (const char *const[]){x, operand(n, 1)}, onnx_write_int(n->x->w, "fmod", 1));
    case OP_ne: return node1(n, "Not", node2(n, "Equal", x, operand(n, 1)));
    case OP_shl:
    case OP_shr: return write_shift(n);
    case OP_cast: return cast_to(n, x, op_attr(n->op, AT_to)->u.dtype);
    case OP_broadcast: return write_broadcast(n);
    case OP_reshape: return reshaped(n, x, n->type->rank, n->type->dims);
    case OP_within: return x; /* ONNX checks this itself */
    case OP_transpose: return node1_ints(n, "Transpose", x, "perm", n->type->rank, op_attr(n->op, AT_perm)->u.ints);
    case OP_slice: return n->type->rank ? write_slice(n) : node1(n, "Identity", x);
    case OP_pad: return write_pad(n);
    case OP_concat: return write_concat(n);
    case OP_reduce: return write_reduce(n);
    case OP_dot: return write_dot(n);
    case OP_gather: return write_gather(n, "Gather");
    case OP_take: return write_gather(n, "GatherElements");
    case OP_update: return write_update(n);
    case OP_scan: return write_scan(n);
    case OP_topk: return write_topk(n);
    case OP_opaque: return write_opaque(n);
    case OP_conv:
    case OP_conv_transpose: return write_conv(n);
    case OP_pool: return write_pool(n);
    case OP_softmax: return t == DT_f32 || t == DT_f64 ? write_softmax(n) : write_body(n);
    case OP_read:
    case OP_write: return export_no_form(n, "ONNX models have no state");
    case OP_call: die("onnx_export: the function calls others");
    default:
      return op_is_composite(n->op->kind) ? write_body(n) : export_no_form(n, "no standard operators compute it");
  }
}

static void write_inputs(Export *x, ExportScope *s) {
  x->inputs = ARENA_ARRAY(x->w->arena, const char *, s->f->ops.n + 1);
  for (size_t i = 0; i < s->f->ops.n; i++) {
    const Op *op = &s->f->ops.items[i];
    if (op->kind != OP_input) continue;
    const char *name = builder_unique_name(&x->w->names, op_str(op, AT_name));
    s->names[op->out] = x->inputs[i] = name;
    onnx_write_input(x->w, name, type_of(s->f, op->out));
  }
}

uint8_t *onnx_export(Module *m, const Func *f, const OnnxExporting *how, size_t *bytes, Diags *diags) {
  Export *x = ARENA_NEW(diags->arena, Export);
  *x = (Export){.w = onnx_writer_new(m, diags), .m = m, .diags = diags, .how = how, .main = f};
  x->spans = index_spans(m, f, &x->nspans);
  ExportScope s = export_scope_of(x, f);
  const char **outputs = ARENA_ARRAY(diags->arena, const char *, f->outputs.n);
  write_inputs(x, &s);
  for (size_t i = 0; i < f->outputs.n; i++) outputs[i] = builder_unique_name(&x->w->names, f->outputs.items[i].name);
  if (!write_range(x, &s, 0, f->ops.n, NULL)) return NULL;
  x->w->writer = -1;
  for (size_t i = 0; i < f->outputs.n; i++) {
    Val v = f->outputs.items[i].value;
    onnx_write_result(x->w, "Identity", outputs[i], 1, &s.names[v], 0, NULL);
    onnx_write_output(x->w, outputs[i], type_of(f, v));
  }
  OnnxWritten written = {.model = onnx_writer_model(x->w, f->name, how->producer, how->version),
                         .operations = x->w->writers.items,
                         .names = s.names};
  if (how->finish && !how->finish(how->context, &written)) return NULL;
  return onnx_pack(written.model, (Loc){0}, bytes, diags);
}
