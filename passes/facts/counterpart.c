/* passes/facts/counterpart.c - see counterpart.h. */
#include "passes/facts/counterpart.h"

#include <string.h>

const char *counterpart_name(Arena *a, const Func *f, Val v) {
  const Op *op = op_of(f, v);
  const int k = value_index(f, v);
  if (op->kind == OP_param) return arena_printf(a, "param %s", op_str(op, AT_name));
  return k ? op->names[k - 1] : op->name;
}

/* ---- orders */

static const char *extent_text(const Counterparts *s, const Module *m, const Expr *e) {
  Text text = {.arena = s->arena};
  ex_print(m, &text, e);
  return text_str(&text);
}

static bool same_extent(const Counterparts *s, const Expr *of_model, const Expr *planned) {
  int64_t x, y;
  const bool known = ex_get_const(of_model, &x);
  if (known != ex_get_const(planned, &y)) return false;
  return known ? x == y : strcmp(extent_text(s, s->of_model, of_model), extent_text(s, s->of_plan, planned)) == 0;
}

static bool fits(const Counterparts *s, const Type *of_model, const Type *planned, const int *order) {
  bool same = of_model->rank == planned->rank;
  for (int d = 0; same && d < planned->rank; d++) same = same_extent(s, of_model->dims[d], planned->dims[order[d]]);
  return same;
}

bool counterpart_order(const Counterparts *s, Val v, Val w, int *order) {
  const Type *t = type_of(s->model, v), *u = type_of(s->planned, w);
  const Op *op = op_of(s->planned, w);
  const ValueOrder *noted =
      value_index(s->planned, w) || op->kind == OP_param ? NULL : module_order(s->of_plan, op->name);
  if (noted && noted->rank != u->rank) return false;
  for (int d = 0; d < u->rank; d++) order[d] = noted ? noted->at[d] : d;
  return fits(s, t, u, order);
}

/* The letters of part i of a spec: operands, then the result after "->". */
static const char *letters_of(const char *spec, int i, size_t *n) {
  for (; i > 0; i--) {
    spec += strcspn(spec, ",-");
    spec += *spec == ',' ? 1 : *spec ? 2 : 0;
  }
  *n = strcspn(spec, ",-");
  return spec;
}

bool counterpart_letters(const Counterparts *s, const Op *of_model, const Op *planned, int i, const Type *t,
                         const Type *u, int *order) {
  const char *x = op_str(of_model, AT_spec), *y = op_str(planned, AT_spec);
  size_t n, k;
  if (of_model->kind != planned->kind || !x || !y || t->rank != u->rank) return false;
  x = letters_of(x, i, &n), y = letters_of(y, i, &k);
  if (n != k || n != (size_t)t->rank) return false;
  for (size_t d = 0; d < n; d++) {
    const char *at = memchr(y, x[d], n);
    if (!at) return false;
    order[d] = (int)(at - y);
  }
  return fits(s, t, u, order);
}

bool counterpart_view(const char *name, const Param *weight, int *order) {
  int64_t dims[MAX_RANK], of[MAX_RANK], stride = 1;
  if (weight->init != INIT_BLOB || !weight->origin.name || strcmp(weight->origin.name, name) != 0) return false;
  const Type *whole = weight->origin.type;
  if (weight->origin.first || whole->rank != weight->type->rank) return false;
  if (!type_constant_dims(whole, dims) || !type_constant_dims(weight->type, of)) return false;
  for (int d = whole->rank - 1; d >= 0; d--) {
    int at = 0;
    while (at < whole->rank && (weight->strides[at] != stride || of[at] != dims[d])) at++;
    if (at == whole->rank) return false;
    order[d] = at;
    stride *= dims[d];
  }
  return true;
}
