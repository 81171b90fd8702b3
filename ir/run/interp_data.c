/* ir/run/interp_data.c - tensors for the interpreter: creation, filling, conversion between domains, comparison. */
#include <math.h>
#include <string.h>

#include "base/compare.h"
#include "base/random.h"
#include "ir/run/eval.h"

InterpTensor interp_tensor(Arena *arena, DType dtype, int rank, const int64_t *dims) {
  InterpTensor t = {.dtype = dtype, .rank = rank};
  if (rank) memcpy(t.dims, dims, sizeof(int64_t) * (size_t)rank);
  t.cells = ARENA_ARRAY(arena, Cell, count_cells(rank, dims));
  return t;
}

int64_t interp_elements(const InterpTensor *t) { return count_cells(t->rank, t->dims); }

const InterpTensor *interp_find(const InterpNamed *items, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(items[i].name, name) == 0) return &items[i].tensor;
  return NULL;
}

int64_t *interp_symbols(const Module *m, Arena *arena) {
  int64_t *values = ARENA_ARRAY(arena, int64_t, m->symbols.n);
  for (size_t i = 0; i < m->symbols.n; i++) {
    const Symbol *s = &m->symbols.items[i];
    if (s->axis >= 0) continue;
    values[i] = s->hint ? s->hint : module_symbol_from(s, s->min > 1 ? s->min : 1);
  }
  module_bound_computed(m, values);
  return values;
}

bool interp_dims(const Type *t, const int64_t *symbols, int64_t *dims) {
  for (int d = 0; d < t->rank; d++)
    if (!ex_eval(t->dims[d], symbols, &dims[d]) || dims[d] < 0 || dims[d] > MAX_INTERP_EXTENT) return false;
  return true;
}

/* ---- filling */

/* The number rounded to the type, as an element of the domain. */
static Cell rounded(InterpDomain domain, DType t, double v) {
  unsigned char bytes[8];
  if (!dtype_is_float(t)) return cell_of_double(false, t, v);
  dtype_store_f(t, bytes, v);
  return cell_of_double(domain == DOMAIN_MODP, t, dtype_load_f(t, bytes));
}

void interp_fill(InterpTensor *t, InterpDomain domain, uint64_t seed, double low, double high) {
  int64_t n = interp_elements(t);
  for (int64_t i = 0; i < n; i++) {
    double u = (double)random_uniform(seed, 1, (uint64_t)i);
    if (t->dtype == DT_bool) t->cells[i] = cell_i(u < 0.5);
    else
      t->cells[i] =
          rounded(domain, t->dtype, dtype_is_float(t->dtype) ? low + (high - low) * u : floor(low + (high - low) * u));
  }
}

static uint64_t hash_name(const char *name) {
  uint64_t h = 14695981039346656037u;
  for (; *name; name++) h = (h ^ (unsigned char)*name) * 1099511628211u;
  return h;
}

InterpNamed *interp_random_inputs(Module *m, const Func *f, InterpDomain domain, const int64_t *symbols, uint64_t seed,
                                  Arena *arena, int *n, Diags *diags) {
  InterpNamed *items = ARENA_ARRAY(arena, InterpNamed, f->ops.n);
  *n = 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    int64_t dims[MAX_RANK];
    if (op->kind != OP_input) continue;
    const Type *t = type_of(f, op->out);
    if (f->level != 1 || !interp_dims(t, symbols ? symbols : interp_symbols(m, arena), dims)) {
      diag_error(diags, DIAG_interp, (Loc){.node = op->name}, "the input \"%s\" has no known extents", op->name);
      return NULL;
    }
    InterpNamed *item = &items[(*n)++];
    item->name = op_str(op, AT_name);
    item->tensor = interp_tensor(arena, t->dtype, t->rank, dims);
    bool is_float = dtype_is_float(t->dtype);
    interp_fill(&item->tensor, domain, seed ^ hash_name(item->name), is_float ? -1 : 0, is_float ? 1 : 4);
  }
  return items;
}

bool interp_param(const Module *m, const Param *p, const InterpOptions *options, Arena *arena, InterpTensor *out,
                  Diags *diags) {
  int64_t dims[MAX_RANK], n = 1;
  DType t = p->type->dtype;
  bool overflow = !type_constant_dims(p->type, dims);
  for (int d = 0; d < p->type->rank && !overflow; d++) overflow = dims[d] < 0 || __builtin_mul_overflow(n, dims[d], &n);
  if (overflow || n > (options->max_cells ? options->max_cells : (int64_t)1 << 27))
    return diag_error(diags, DIAG_interp, p->loc, "parameter \"%s\" is too large to interpret", p->name);
  *out = interp_tensor(arena, t, p->type->rank, dims);
  if (p->init == INIT_BLOB) {
    if (!options->blob)
      return diag_error(diags, DIAG_interp, p->loc, "parameter \"%s\" is in a file that is not available", p->name);
    if (!options->blob(options->context, m, p, out, diags)) return false;
    if (options->domain == DOMAIN_MODP) interp_to_modp(out);
    return true;
  }
  if (p->init == INIT_PREPARED)
    return diag_error(diags, DIAG_interp, p->loc, "parameter \"%s\" must be prepared", p->name);
  for (int64_t i = 0; i < n; i++) {
    double v = 0;
    if (p->init == INIT_CONSTANT) v = p->value;
    else if (p->init == INIT_NORMAL) v = p->value * random_normal((uint64_t)p->seed, 0, (uint64_t)i);
    else if (p->init == INIT_UNIFORM)
      v = -p->value + 2 * p->value * (double)random_uniform((uint64_t)p->seed, 0, (uint64_t)i);
    out->cells[i] = rounded(options->domain, t, v);
  }
  return true;
}

void interp_to_modp(InterpTensor *t) {
  int64_t n = interp_elements(t);
  for (int64_t i = 0; i < n && dtype_is_float(t->dtype); i++)
    t->cells[i] = cell_i((int64_t)interp_residue(t->cells[i].f));
}

/* ---- comparing */

static bool cell_equal(bool is_number, double tolerance, Cell a, Cell b) {
  return is_number ? number_close(b.f, a.f, tolerance) : a.i == b.i;
}

static const char *difference(const InterpTensor *a, const InterpTensor *b, int64_t at, bool is_number, Arena *arena) {
  int64_t strides[MAX_RANK];
  Text t = {.arena = arena};
  eval_row_major(a->rank, a->dims, strides);
  text_add(&t, "element [");
  for (int d = 0; d < a->rank; d++) text_printf(&t, "%s%lld", d ? ", " : "", (long long)(at / strides[d] % a->dims[d]));
  if (is_number) text_printf(&t, "] is %.17g and %.17g", a->cells[at].f, b->cells[at].f);
  else text_printf(&t, "] is %lld and %lld", (long long)a->cells[at].i, (long long)b->cells[at].i);
  return text_str(&t);
}

static bool same_form(const InterpTensor *a, const InterpTensor *b) {
  if (a->dtype != b->dtype || a->rank != b->rank) return false;
  for (int d = 0; d < a->rank; d++)
    if (a->dims[d] != b->dims[d]) return false;
  return true;
}

bool interp_equal(const InterpTensor *a, const InterpTensor *b, InterpDomain domain, double tolerance, Arena *arena,
                  const char **why) {
  const char *ignored;
  if (!why) why = &ignored;
  *why = "types or shapes differ";
  if (!same_form(a, b)) return false;
  bool is_number = domain == DOMAIN_FLOAT && dtype_is_float(a->dtype);
  int64_t n = interp_elements(a);
  for (int64_t i = 0; i < n; i++)
    if (!cell_equal(is_number, tolerance, a->cells[i], b->cells[i])) {
      *why = difference(a, b, i, is_number, arena);
      return false;
    }
  return true;
}

double interp_distance(const InterpTensor *a, const InterpTensor *b) {
  Distance d = {0};
  if (!same_form(a, b)) return INFINITY;
  int64_t n = interp_elements(a), wrong = 0;
  for (int64_t i = 0; i < n; i++) {
    if (dtype_is_float(a->dtype)) distance_add(&d, a->cells[i].f, b->cells[i].f);
    else wrong += a->cells[i].i != b->cells[i].i;
  }
  return wrong ? (double)wrong / (double)n : distance_relative(&d);
}
