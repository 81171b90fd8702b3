/* frontend/onnx/import_counted.c - operators whose results have as many elements as data decide: NonZero, Compress and
 * Unique, and TopK with a number from data.
 *
 * All of them count in the same way.  Elements are marked; the sum of the marks is bound to a computed size
 * (docs/ir.md, "Computed sizes"), whose bound is the number of elements; the running sum of the marks is the place of
 * each marked element among them, to which its index is scattered.  Equal marks, as of two operators with one
 * condition, give one size, so that their results have equal shapes.
 *
 * Not done: in the body of a loop (branches: import_merge.c); Unique along an axis.
 */
#include <string.h>

#include "frontend/onnx/counted.h"

/* ---- the size */

/* True if both values are computed alike, as far as a few operations tell. */
static bool alike(const Func *f, Val x, Val y, int depth) {
  const Op *a = op_of(f, x), *b = op_of(f, y);
  if (x == y) return true;
  if (!depth || a->kind != b->kind || a->nin != b->nin || a->nattrs != b->nattrs || type_of(f, x) != type_of(f, y))
    return false;
  if (op_is_declared(a->kind) || op_acts(a->kind) || op_is_call(a->kind) || op_is_loop_part(a->kind) ||
      a->kind == OP_opaque || value_index(f, x) != value_index(f, y))
    return false;
  for (int i = 0; i < a->nattrs; i++)
    if (!attr_equal(&a->attrs[i], &b->attrs[i])) return false;
  for (int i = 0; i < a->nin; i++)
    if (!alike(f, a->in[i], b->in[i], depth - 1)) return false;
  return true;
}

/* The size that an earlier operator bound to the same count; NULL if there is none. */
static const Expr *bound_before(const ImportNode *n, Val count) {
  enum { DEPTH = 10 };
  const Func *f = n->b->f;
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == OP_bind && alike(f, f->ops.items[i].in[0], count, DEPTH))
      return op_expr(&f->ops.items[i], AT_expr);
  return NULL;
}

/* The symbol of this node: an import that starts again finds it. */
static int symbol_of(ImportNode *n, const Expr *most) {
  const char *node = n->name + strspn(n->name, "/");
  const char *name = onnx_dim_name(n->m->arena, arena_printf(n->m->arena, "%s_size", node));
  int symbol = module_symbol_find(n->m, name);
  if (symbol < 0 || !n->m->symbols.items[symbol].most) return module_symbol_computed(n->m, name, most);
  n->m->symbols.items[symbol].most = most;
  return symbol;
}

const Expr *counted_size(ImportNode *n, Val count, const Expr *most) {
  if (!count) return NULL;
  if (import_in_loop(n) || import_trains(n->im)) {
    diag_error(n->b->diags, DIAG_onnx_shape, n->b->loc, "%s: the size of its result depends on data, %s", n->op->type,
               import_trains(n->im) ? "which training does not support" : "in a loop or branch");
    return NULL;
  }
  const Expr *size = bound_before(n, count);
  if (size) return size;
  size = ex_sym(n->m, symbol_of(n, most));
  Attr a = attr_e(AT_expr, size);
  return build_op(n->b, &(OpSpec){.kind = OP_bind, .nin = 1, .in = &count, .nattrs = 1, .attrs = &a}) ? size : NULL;
}

Val counted_indices(ImportNode *n, Val marks) {
  if (!marks) return 0;
  const Type *t = type_of(n->b->f, marks);
  Val one = build_cast(n->b, marks, DT_i64);
  const Expr *size = counted_size(n, import_reduce_axes(n, RED_SUM, one, 1, false), t->dims[0]);
  if (!size) return 0;
  Val place = binary_number(n, OP_sub, scan(n, RED_SUM, one, 0, false, false), 1);
  Val to = select3(n, marks, place, splat_like(n, one, -1));
  return counted_scatter(n, iota_i64(n, 1, t->dims, 0), to, size);
}

Val counted_scatter(ImportNode *n, Val x, Val index, const Expr *extent) {
  if (!x || !index) return 0;
  Attr a[3] = {attr_red(AT_op, RED_SUM), attr_i(AT_axis, 0), attr_e(AT_start, ex_const(n->m, 0))};
  const Type *type = type_get(n->m, type_of(n->b->f, x)->dtype, 1, &extent);
  return build_op(
      n->b, &(OpSpec){.kind = OP_scatter, .nin = 2, .in = (Val[]){x, index}, .nattrs = 3, .attrs = a, .type = type});
}

Val counted_digit(ImportNode *n, Val index, const Expr *below, const Expr *extent) {
  if (!index) return 0;
  const Type *t = type_of(n->b->f, index);
  Val high = ex_is_const(below, 1) ? index : binary(n, OP_div, index, build_size(n->b, t, below));
  return extent ? binary(n, OP_mod, high, build_size(n->b, t, extent)) : high;
}

/* ---- NonZero */

bool import_non_zero(ImportNode *n) {
  const Type *t = input_type(n, 0);
  const ImportFact *f = input_fact(n, 0);
  if (f->kind == FACT_CONSTANT) return import_known_non_zero(n);
  const Expr *all = type_elements(n->m, t), *one = ex_const(n->m, 1);
  Val at = counted_indices(n, to_bool(n, build_reshape(n->b, input(n, 0), 1, &all))), rows[MAX_RANK];
  if (!at || t->rank == 0) return import_set_output(n, 0, at ? insert_dims(n, at, 1, 2) : 0);
  const Expr *size = type_of(n->b->f, at)->dims[0];
  for (int d = 0; d < t->rank; d++) {
    Val digit = counted_digit(n, at, type_product(n->m, t, d + 1, t->rank), d ? t->dims[d] : NULL);
    rows[d] = digit ? build_reshape(n->b, digit, 2, (const Expr *[]){one, size}) : 0;
    if (!rows[d]) return false;
  }
  return import_set_output(n, 0, t->rank == 1 ? rows[0] : build_concat(n->b, t->rank, rows, 0));
}

/* ---- Compress: of the flattened tensor without an axis */

bool import_compress(ImportNode *n) {
  const Type *t = input_type(n, 0), *tc = input_type(n, 1);
  int axis = 0;
  if (has_attr(n, "axis") && !node_axis(n, node_int(n, "axis", 0), t->rank, &axis)) return false;
  if (input_known(n, 1).items) return import_known_compress(n, axis);
  if (tc->rank != 1) return node_error(n, "the condition is %s", import_type_string(n->m, tc));
  const Expr *all = type_elements(n->m, t), *extent = has_attr(n, "axis") ? t->dims[axis] : all;
  int64_t marks, elements;
  if (ex_get_const(tc->dims[0], &marks) && ex_get_const(extent, &elements) && marks > elements)
    return node_error(n, "the condition has %lld elements, the tensor %lld", (long long)marks, (long long)elements);
  Val x = has_attr(n, "axis") ? input(n, 0) : build_reshape(n->b, input(n, 0), 1, &all);
  Val at = counted_indices(n, to_bool(n, input(n, 1)));
  return import_set_output(n, 0, x && at ? build_checked_gather(n->b, OP_gather, x, at, axis) : 0);
}

/* ---- Unique: elements are sorted; each that differs from the one before begins a group */

typedef struct Groups {
  Val order;        /* by place in sorted order: the element's index */
  Val group;        /* the same: the number of its group */
  Val first, index; /* by group: the first place in sorted order, and the index of that element */
} Groups;

static bool find_groups(ImportNode *n, Val x, Groups *g) {
  Attr a[2] = {attr_i(AT_axis, 0), attr_i(AT_descending, 0)};
  g->order = x ? build_op(n->b, &(OpSpec){.kind = OP_argsort, .nin = 1, .in = &x, .nattrs = 2, .attrs = a}) : 0;
  if (!g->order) return false;
  const Expr *all = type_of(n->b->f, x)->dims[0];
  Val sorted = take(n, x, g->order, 0), place = iota_i64(n, 1, &all, 0);
  Val before = clamp_numbers(n, binary_number(n, OP_sub, place, 1), 0, 1e18);
  Val new = binary(n, OP_or, binary_number(n, OP_eq, place, 0), binary(n, OP_ne, sorted, take(n, sorted, before, 0)));
  if (!(g->first = counted_indices(n, new))) return false;
  g->group = binary_number(n, OP_sub, scan(n, RED_SUM, build_cast(n->b, new, DT_i64), 0, false, false), 1);
  g->index = build_gather(n->b, g->order, g->first, 0);
  return g->group && g->index;
}

/* Numbers the groups in the order in which they appear in the tensor. */
static bool order_by_appearance(ImportNode *n, Groups *g) {
  Attr a[2] = {attr_i(AT_axis, 0), attr_i(AT_descending, 0)};
  Val order = build_op(n->b, &(OpSpec){.kind = OP_argsort, .nin = 1, .in = &g->index, .nattrs = 2, .attrs = a});
  if (!order) return false;
  const Expr *size = type_of(n->b->f, order)->dims[0];
  Val number = counted_scatter(n, iota_i64(n, 1, &size, 0), order, size);
  g->group = number ? build_gather(n->b, number, g->group, 0) : 0;
  g->index = build_gather(n->b, g->index, order, 0);
  return g->group && g->index;
}

bool import_unique(ImportNode *n) {
  const Type *t = input_type(n, 0);
  const Expr *all = type_elements(n->m, t);
  Groups g;
  if (has_attr(n, "axis") && t->rank != 1) return node_error(n, "unique slices along an axis");
  Val x = build_reshape(n->b, input(n, 0), 1, &all);
  if (!x || !find_groups(n, x, &g)) return false;
  const Expr *size = type_of(n->b->f, g.first)->dims[0];
  if (!node_int(n, "sorted", 1) && !order_by_appearance(n, &g)) return false;
  Val one = splat_like(n, g.order, 1);
  return import_set_output(n, 0, build_gather(n->b, x, g.index, 0)) && import_set_output(n, 1, g.index) &&
         import_set_output(n, 2, counted_scatter(n, g.group, g.order, all)) &&
         import_set_output(n, 3, counted_scatter(n, one, g.group, size));
}
