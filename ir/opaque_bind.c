/* ir/opaque_bind.c - a rule on types: extents by name, types of results, sizes; see opaque_rule.h.
 *
 * Extents come from operands: first those of dimensions that are one name, then given ones, then the missing name of
 * joined dimensions, by exact division.  A name that several operands have must have one extent.
 */
#include <jansson.h>
#include <string.h>

#include "ir/opaque_rule.h"

typedef struct Binding {
  Module *m;
  const OpaqueRule *r;
  const char *attributes;
  bool local;
  OpaqueBound *out;
  const char *why; /* NULL until something does not fit */
} Binding;

static const char *extent_text(const Binding *k, const Expr *e) {
  Text t = {.arena = k->m->arena};
  ex_print(k->m, &t, e);
  return text_str(&t);
}

/* True if both extents may be equal: those of parts may have different forms. */
static bool agree(const Binding *k, const Expr *a, const Expr *b) {
  int64_t x, y;
  return a == b || (k->local && !(ex_get_const(a, &x) && ex_get_const(b, &y)));
}

static void refuse_extents(Binding *k, const char *name, const Expr *a, const Expr *b) {
  if (k->why) return;
  k->out->clash[0] = a, k->out->clash[1] = b;
  k->why = arena_printf(k->m->arena, "the dimension '%s' of its rule is %s in one place and %s in another", name,
                        extent_text(k, a), extent_text(k, b));
}

static void set_size(Binding *k, int name, int at, const Expr *e) {
  const Expr **size = &k->out->size[name][at];
  if (!*size) *size = e;
  else if (!agree(k, *size, e)) refuse_extents(k, k->r->names[name].name, *size, e);
}

/* ---- operands */

static bool has_group(const OpaqueRule *r, const OpaqueDim *d) { return d->n && r->names[d->names[0]].group; }

static bool any_group(const OpaqueRule *r, const OpaqueTensor *t) {
  bool any = false;
  for (int d = 0; d < t->n; d++) any |= has_group(r, &t->dims[d]);
  return any;
}

static bool fits_rank(Binding *k, int i, const OpaqueTensor *t, const Type *type) {
  bool grouped = any_group(k->r, t);
  int least = t->n - grouped;
  bool fits = grouped ? type->rank >= least : type->rank == least;
  if (!fits && !k->why)
    k->why = arena_printf(k->m->arena, "operand %d has %d dimension%s, its rule has %s%d", i, type->rank,
                          type->rank == 1 ? "" : "s", grouped ? "at least " : "", least);
  return fits;
}

/* How many dimensions the group of a tensor that fits stands for. */
static int spread_of(const OpaqueTensor *t, int rank) { return rank - (t->n - 1); }

static void bind_group(Binding *k, int name, int n, const Expr *const *dims) {
  int *known = &k->out->n[name];
  if (*known >= 0 && *known != n && !k->why)
    k->why =
        arena_printf(k->m->arena, "'%s..' of its rule stands for %d dimensions in one operand and for %d in another",
                     k->r->names[name].name, *known, n);
  if (k->why) return;
  *known = n;
  for (int i = 0; i < n; i++) set_size(k, name, i, dims[i]);
}

/* Binds the dimensions that are one name; checks numbers. */
static void bind_operand(Binding *k, int i, const Type *type) {
  const OpaqueTensor *t = &k->r->operands[i];
  if (t->typed && t->dtype != type->dtype && !k->why)
    k->why = arena_printf(k->m->arena, "operand %d is %s, its rule says %s", i, dtype_name(type->dtype),
                          dtype_name(t->dtype));
  if (!fits_rank(k, i, t, type)) return;
  for (int d = 0, at = 0; d < t->n; d++) {
    const OpaqueDim *x = &t->dims[d];
    int n = has_group(k->r, x) ? spread_of(t, type->rank) : 1;
    if (has_group(k->r, x)) bind_group(k, x->names[0], n, type->dims + at);
    else if (x->n == 1) set_size(k, x->names[0], 0, type->dims[at]);
    else if (!x->n && !agree(k, ex_const(k->m, x->number), type->dims[at]) && !k->why)
      k->why = arena_printf(k->m->arena, "dimension %d of operand %d is %s, its rule says %lld", at, i,
                            extent_text(k, type->dims[at]), (long long)x->number);
    at += n;
  }
}

/* Finds the missing name of a joined dimension.  True if it was found. */
static bool divide(Binding *k, const OpaqueDim *x, const Expr *extent) {
  const Expr *product = ex_const(k->m, 1);
  int missing = -1;
  for (int i = 0; i < x->n; i++) {
    const Expr *size = k->out->size[x->names[i]][0];
    if (!size && missing >= 0) return false;
    if (size) product = ex_mul(k->m, product, size);
    else missing = x->names[i];
  }
  if (missing < 0) {
    if (!agree(k, product, extent)) refuse_extents(k, k->r->names[x->names[0]].name, product, extent);
    return false;
  }
  int64_t by;
  const Expr *size = ex_get_const(product, &by) && by <= 0 ? NULL : ex_exact_div(k->m, extent, product);
  if (!size && k->local) size = ex_div(k->m, extent, product);
  if (!size && !k->why)
    k->why = arena_printf(k->m->arena, "an extent of %s is no multiple of %s, which its rule needs for '%s'",
                          extent_text(k, extent), extent_text(k, product), k->r->names[missing].name);
  if (size) set_size(k, missing, 0, size);
  return size != NULL;
}

static bool divide_operands(Binding *k, const Type *const *in) {
  bool more = false;
  for (int i = 0; i < k->r->noperands && !k->why; i++) {
    const OpaqueTensor *t = &k->r->operands[i];
    int spread = spread_of(t, in[i]->rank);
    for (int d = 0, at = 0; d < t->n && !k->why; d++) {
      if (t->dims[d].n > 1) more |= divide(k, &t->dims[d], in[i]->dims[at]);
      at += has_group(k->r, &t->dims[d]) ? spread : 1;
    }
  }
  return more;
}

/* ---- given sizes */

bool opaque_attribute(const char *attributes, const char *name, int64_t *out) {
  json_t *all = attributes ? json_loads(attributes, 0, NULL) : NULL, *x = all ? json_object_get(all, name) : NULL;
  bool found = json_is_integer(x);
  if (found) *out = json_integer_value(x);
  json_decref(all);
  return found;
}

static const Expr *extent_of(Module *m, const OpaqueBound *b, int name) {
  const Expr *e = ex_const(m, 1);
  for (int i = 0; i < b->n[name]; i++) {
    if (!b->size[name][i]) return NULL;
    e = ex_mul(m, e, b->size[name][i]);
  }
  return e;
}

const Expr *size_text_expr(Module *m, const SizeText *s, const OpaqueBound *b, const char *attributes) {
  int64_t v;
  if (s->op == '0') return ex_const(m, s->number);
  if (s->op == 'd') return extent_of(m, b, s->name);
  if (s->op == 'a') return opaque_attribute(attributes, s->attribute, &v) ? ex_const(m, v) : NULL;
  const Expr *x = size_text_expr(m, s->left, b, attributes), *y = size_text_expr(m, s->right, b, attributes);
  if (!x || !y) return NULL;
  if (s->op == '/') return ex_get_const(y, &v) && v <= 0 ? NULL : ex_div(m, x, y);
  return s->op == '+' ? ex_add(m, x, y) : s->op == '-' ? ex_sub(m, x, y) : ex_mul(m, x, y);
}

double size_text_number(const SizeText *s, const double *extent, const char *attributes) {
  int64_t v;
  if (s->op == '0') return (double)s->number;
  if (s->op == 'd') return extent[s->name];
  if (s->op == 'a') return opaque_attribute(attributes, s->attribute, &v) ? (double)v : 0;
  double x = size_text_number(s->left, extent, attributes), y = size_text_number(s->right, extent, attributes);
  if (s->op == '/') return y != 0 ? x / y : 0;
  return s->op == '+' ? x + y : s->op == '-' ? x - y : x * y;
}

static const char *missing_attribute(const SizeText *s, const char *attributes) {
  int64_t v;
  if (!s || s->op == '0' || s->op == 'd') return NULL;
  if (s->op == 'a') return opaque_attribute(attributes, s->attribute, &v) ? NULL : s->attribute;
  const char *left = missing_attribute(s->left, attributes);
  return left ? left : missing_attribute(s->right, attributes);
}

static void check_attributes(Binding *k, const SizeText *s) {
  const char *name = missing_attribute(s, k->attributes);
  if (name && !k->why)
    k->why =
        arena_printf(k->m->arena, "its rule uses '%s', which is neither a dimension nor an integer attribute", name);
}

/* Sets the extents that the rule gives and that can be computed now.  True if there was one. */
static bool give_sizes(Binding *k) {
  bool more = false;
  for (int i = 0; i < k->r->nnames && !k->why; i++) {
    const SizeText *s = k->r->names[i].size;
    if (!s || (k->out->size[i][0] && k->out->n[i] == 1)) continue;
    const Expr *e = size_text_expr(k->m, s, k->out, k->attributes);
    if (!e) continue;
    set_size(k, i, 0, e);
    more = true;
  }
  return more;
}

/* The extents that the rule gives must be those of the operands. */
static void check_given(Binding *k) {
  for (int i = 0; i < k->r->nnames && !k->why; i++) {
    const SizeText *s = k->r->names[i].size;
    const Expr *e = s ? size_text_expr(k->m, s, k->out, k->attributes) : NULL;
    if (s && !e) k->why = arena_printf(k->m->arena, "the extent of '%s' cannot be computed", k->r->names[i].name);
    else if (s) set_size(k, i, 0, e);
  }
}

/* Each dimension of a name, and each number, is a factor (ir/layout/rule.h). */
static void check_count(Binding *k) {
  enum { MOST = 32 };
  int n = 0;
  for (int i = 0; i < k->r->nnames; i++) n += k->out->n[i];
  for (int i = 0; i < k->r->noperands; i++)
    for (int d = 0; d < k->r->operands[i].n; d++) n += k->r->operands[i].dims[d].n == 0;
  for (int i = 0; i < k->r->nresults; i++)
    for (int d = 0; d < k->r->results[i].n; d++) n += k->r->results[i].dims[d].n == 0;
  if (n > MOST) k->why = arena_printf(k->m->arena, "its rule has more than %d dimensions here", MOST);
}

static void check_known(Binding *k) {
  for (int i = 0; i < k->r->nnames && !k->why; i++)
    for (int d = 0; d < k->out->n[i] && !k->why; d++)
      if (!k->out->size[i][d])
        k->why = arena_printf(k->m->arena,
                              "the extent of '%s' does not follow from the operands; say it in the rule: %s=SIZE",
                              k->r->names[i].name, k->r->names[i].name);
}

/* The extent of a name.  False if it does not fit 64 bits; *known is false if it has symbols. */
static bool extent_value(const OpaqueBound *b, int name, int64_t *v, bool *known) {
  *v = 1;
  for (int i = 0; i < b->n[name]; i++) {
    int64_t n = 1;
    *known &= ex_get_const(b->size[name][i], &n);
    if (__builtin_mul_overflow(*v, n, v)) return false;
  }
  return true;
}

/* A size as a number, likewise; there is none of a quotient by 0 or less either. */
static bool size_value(const Binding *k, const SizeText *s, int64_t *v, bool *known) {
  int64_t x, y;
  if (s->op == '0') return *v = s->number, true;
  if (s->op == 'd') return extent_value(k->out, s->name, v, known);
  if (s->op == 'a') return opaque_attribute(k->attributes, s->attribute, v);
  if (!size_value(k, s->left, &x, known) || !size_value(k, s->right, &y, known)) return false;
  if (s->op == '+') return !__builtin_add_overflow(x, y, v);
  if (s->op == '-') return !__builtin_sub_overflow(x, y, v);
  if (s->op == '*') return !__builtin_mul_overflow(x, y, v);
  if (y <= 0) return false;
  return *v = x / y - (x % y < 0), true;
}

/* Scratch without symbols must be a number of bytes that fits a device; scratch with symbols is left to the runs. */
static void check_scratch(Binding *k) {
  const int64_t most = (int64_t)1 << 40;
  bool known = true;
  int64_t bytes = 0;
  if (!k->r->scratch) return;
  bool fits = size_value(k, k->r->scratch, &bytes, &known);
  if (!known || (fits && bytes >= 0 && bytes <= most)) return;
  if (!fits) k->why = "scratch has no size of 64 bits";
  else
    k->why = arena_printf(k->m->arena, "scratch is %lld%s", (long long)bytes,
                          bytes < 0 ? "" : " bytes, which is more than 2^40");
}

/* ---- results */

static const Type *result_type(Binding *k, const OpaqueTensor *t, DType first) {
  const Expr *dims[MAX_RANK];
  int rank = 0;
  for (int d = 0; d < t->n && !k->why; d++) {
    const OpaqueDim *x = &t->dims[d];
    int n = has_group(k->r, x) ? k->out->n[x->names[0]] : 1;
    if (rank + n > MAX_RANK)
      k->why = arena_printf(k->m->arena, "a result would have more than %d dimensions", MAX_RANK);
    for (int i = 0; i < n && !k->why; i++) {
      const Expr *e = x->n ? k->out->size[x->names[0]][i] : ex_const(k->m, x->number);
      for (int f = 1; f < x->n; f++) e = ex_mul(k->m, e, k->out->size[x->names[f]][0]);
      dims[rank++] = e;
    }
  }
  return k->why ? NULL : type_get(k->m, t->typed ? t->dtype : first, rank, dims);
}

static void make_results(Binding *k, int nin, const Type *const *in) {
  for (int i = 0; i < k->r->nresults && !k->why; i++) {
    if (!nin && !k->r->results[i].typed) k->why = "without operands its rule must give the types of the results";
    else k->out->results[i] = result_type(k, &k->r->results[i], nin ? in[0]->dtype : DT_f32);
  }
}

bool opaque_bind(Module *m, const OpaqueRule *r, int nin, const Type *const *in, const char *attributes, bool local,
                 OpaqueBound *out, const char **why) {
  Binding k = {m, r, attributes, local, out, NULL};
  *out = (OpaqueBound){0};
  if (nin != r->noperands)
    k.why = arena_printf(m->arena, "it has %d operand%s, its rule has %d", nin, nin == 1 ? "" : "s", r->noperands);
  for (int i = 0; i < r->nnames; i++) out->n[i] = r->names[i].group ? -1 : 1;
  for (int i = 0; i < r->nnames; i++) check_attributes(&k, r->names[i].size);
  check_attributes(&k, r->work);
  check_attributes(&k, r->scratch);
  for (int i = 0; i < nin && !k.why; i++) bind_operand(&k, i, in[i]);
  for (bool found = true; found && !k.why;) {
    found = give_sizes(&k);
    if (divide_operands(&k, in)) found = true;
  }
  if (!k.why) check_given(&k);
  if (!k.why) check_known(&k);
  if (!k.why) check_scratch(&k);
  if (!k.why) check_count(&k);
  if (!k.why) make_results(&k, nin, in);
  *why = k.why;
  return !k.why;
}
