/* passes/rewrite/kv_cache.c - caches that a model takes and returns become states (--kv-cache).
 *
 * Exported decoders take the keys and values of earlier tokens as inputs, join them with those of the new tokens, and
 * return the result.  So each request moves whole caches.  Here such an input becomes a state with room for `capacity`
 * positions: the program keeps it, and a request writes its new positions only.
 *
 * In: one level-1 function.  A cache is an input x, an axis, and an output that is concat(x, new) along it, where x is
 * `past` long, a dimension, and constant otherwise.  Out: x is a slice of the state, [0, past); the concat is a slice
 * of the updated state, [0, past + new); input and output are gone.  All caches have one `past`.  It is known from
 * the shapes of other inputs, such as a mask; else an input i64[] of that name is added, and `past` becomes a size that
 * the program computes from it.  Nothing else changes, so that what the model does with the keys does not matter.
 *
 * Checked when the program runs: the slices' bounds, so that no request goes beyond the capacity.
 *
 * Not done: caches that are moved or converted between input and output, or cut on their way (sliding windows); several
 * functions.
 */
#include "passes/rewrite/kv_cache.h"

#include <inttypes.h>
#include <string.h>

#include "passes/rewrite/rewrite.h"

typedef struct Cache {
  const Op *input, *join;
  int axis;
} Cache;

typedef struct Keep {
  Rewrite r;
  int64_t capacity;
  int past; /* the symbol */
  Cache *items;
  size_t n;
  Val *state, at;  /* by cache: the state as it was; the position of the new part */
  const int *uses; /* by value */
} Keep;

/* ---- finding */

/* The cache that the value extends; false if it extends none. */
static bool find_cache(const Func *f, Val v, Cache *out) {
  const Op *join = op_of(f, v);
  if (join->kind != OP_concat || join->nin != 2 || op_of(f, join->in[0])->kind != OP_input) return false;
  *out = (Cache){op_of(f, join->in[0]), join, (int)op_int(join, AT_axis, 0)};
  return type_of(f, join->in[0])->dims[out->axis]->kind == EX_SYM;
}

/* True if the input can be a state, of the same length as the others. */
static bool fits(const Keep *k, const Module *m, const Func *f, const Cache *c, Diags *diags) {
  const Type *t = type_of(f, c->input->out);
  const char *name = op_str(c->input, AT_name);
  for (int d = 0; d < t->rank; d++) {
    int64_t size;
    if (d == c->axis && t->dims[d]->value == k->past) continue;
    if (d == c->axis)
      return diag_error(diags, DIAG_kv_cache, c->input->loc,
                        "--kv-cache: the cache '%s' has %s positions, another one %s; they must be the same dimension",
                        name, m->symbols.items[t->dims[d]->value].name, m->symbols.items[k->past].name);
    if (!ex_get_const(t->dims[d], &size)) {
      diag_error(diags, DIAG_kv_cache, c->input->loc, "--kv-cache: dimension %d of the cache '%s' has no fixed size", d,
                 name);
      diag_help(diags, "bind it, as in --dim batch=1");
      return false;
    }
  }
  return true;
}

static bool find_caches(Keep *k, const Module *m, const Func *f, Diags *diags) {
  k->items = ARENA_ARRAY(m->arena, Cache, f->outputs.n + 1);
  for (size_t i = 0; i < f->outputs.n; i++) {
    Cache *c = &k->items[k->n];
    if (!find_cache(f, f->outputs.items[i].value, c)) continue;
    for (size_t j = 0; j < k->n; j++)
      if (k->items[j].input == c->input)
        return diag_error(diags, DIAG_kv_cache, c->input->loc, "--kv-cache: two outputs extend the input '%s'",
                          op_str(c->input, AT_name));
    if (!k->n) k->past = (int)type_of(f, c->input->out)->dims[c->axis]->value;
    if (!fits(k, m, f, c, diags)) return false;
    k->n++;
  }
  if (k->n) return true;
  return diag_error(diags, DIAG_kv_cache, (Loc){0},
                    "--kv-cache: no output is an input of the model with more positions at its end");
}

static const Cache *cache_of(const Keep *k, const Op *op) {
  for (size_t i = 0; i < k->n; i++)
    if (k->items[i].input == op || k->items[i].join == op) return &k->items[i];
  return NULL;
}

/* True if the shape of an input that stays tells the length. */
static bool is_told(const Keep *k, const Func *f) {
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (op->kind == OP_input && !cache_of(k, op) && op_uses_symbol(f, op, k->past)) return true;
  }
  return false;
}

static bool name_is_free(const Func *f, const char *name, Diags *diags) {
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == OP_input && strcmp(op_str(&f->ops.items[i], AT_name), name) == 0)
      return diag_error(diags, DIAG_kv_cache, f->ops.items[i].loc,
                        "--kv-cache: the model has an input '%s', which is the name of the new input", name);
  return true;
}

/* ---- building */

/* The largest length before the new positions: the capacity less those, if they are known before it. */
static const Expr *most_of(const Keep *k) {
  Module *m = k->r.m;
  const Cache *c = &k->items[0];
  const Expr *most = ex_const(m, k->capacity), *new = type_of(k->r.old, c->join->in[1])->dims[c->axis];
  for (int s = k->past; s < (int)m->symbols.n; s++)
    if (ex_uses(new, s)) return most;
  return ex_sub(m, most, new);
}

/* Builds the input that tells how many positions are in use, and the size that it sets. */
static void add_input(Keep *k, KvCaches *out) {
  Module *m = k->r.m;
  Symbol *s = &m->symbols.items[k->past];
  const Type *t = type_of_ints(m, DT_i64, 0, NULL);
  Attr size = attr_e(AT_expr, ex_sym(m, k->past));
  out->input = s->name;
  *s = (Symbol){.name = s->name, .axis = -1, .multiple = 1, .most = most_of(k)};
  Val count = build_input(&k->r.b, s->name, t);
  build_op(&k->r.b, &(OpSpec){.kind = OP_bind, .nin = 1, .in = &count, .nattrs = 1, .attrs = &size});
}

static void keep_input(Keep *k, const Cache *c) {
  Module *m = k->r.m;
  const Type *t = type_of(k->r.old, c->input->out);
  const char *name = op_str(c->input, AT_name);
  const Expr *dims[MAX_RANK];
  memcpy(dims, t->dims, sizeof *dims * (size_t)t->rank);
  dims[c->axis] = ex_const(m, k->capacity);
  if (!module_state(m, name)) module_state_add(m, name, type_get(m, t->dtype, t->rank, dims), 0);
  Val whole = k->state[c - k->items] = build_read(&k->r.b, name);
  if (k->uses[c->input->out] > 1)
    rewrite_map(&k->r, c->input, build_slice(&k->r.b, whole, c->axis, ex_const(m, 0), ex_sym(m, k->past), 1));
}

static void keep_join(Keep *k, const Cache *c) {
  Builder *b = &k->r.b;
  Module *m = k->r.m;
  if (!k->at) k->at = build_size(b, type_of_ints(m, DT_i64, 0, NULL), ex_sym(m, k->past));
  Attr a[] = {attr_i(AT_axis, c->axis), attr_e(AT_start, ex_const(m, 0))};
  Val in[] = {k->state[c - k->items], k->r.map[c->join->in[1]], k->at};
  b->loc = c->join->loc;
  Val whole = build_op(b, &(OpSpec){.kind = OP_update, .nin = 3, .in = in, .nattrs = 2, .attrs = a});
  if (!whole) return;
  build_write(b, op_str(c->input, AT_name), whole);
  const Expr *extent = type_of(k->r.old, c->join->out)->dims[c->axis];
  rewrite_map(&k->r, c->join, build_slice(b, whole, c->axis, ex_const(m, 0), extent, 1));
}

static void drop_outputs(const Keep *k, Func *f) {
  size_t n = 0;
  for (size_t i = 0; i < f->outputs.n; i++)
    if (!cache_of(k, op_of(f, f->outputs.items[i].value))) f->outputs.items[n++] = f->outputs.items[i];
  f->outputs.n = n;
}

bool kv_caches_keep(Module *m, int64_t capacity, KvCaches *out, Diags *diags) {
  Keep k = {.capacity = capacity};
  if (m->funcs.n != 1)
    return diag_error(diags, DIAG_kv_cache, (Loc){0}, "--kv-cache: the model has %zu functions, not one", m->funcs.n);
  Func *f = m->funcs.items[0];
  if (!find_caches(&k, m, f, diags)) return false;
  *out = (KvCaches){.n = k.n, .past = m->symbols.items[k.past].name};
  bool told = is_told(&k, f);
  if (!told && !name_is_free(f, out->past, diags)) return false;
  k.uses = rewrite_uses(m->arena, f);
  k.state = ARENA_ARRAY(m->arena, Val, k.n);
  drop_outputs(&k, f);
  if (!f->outputs.n)
    return diag_error(diags, DIAG_kv_cache, (Loc){0}, "--kv-cache: the model has no outputs but its caches");
  k.r = rewrite_start(m, f, diags);
  if (!told) add_input(&k, out);
  for (size_t i = 0; i < f->ops.n && !diags->errors; i++) {
    const Op *op = &f->ops.items[i];
    const Cache *c = cache_of(&k, op);
    if (!c) rewrite_copy(&k.r, op);
    else if (op == c->input) keep_input(&k, c);
    else keep_join(&k, c);
  }
  if (!diags->errors) rewrite_finish(&k.r);
  return !diags->errors;
}
