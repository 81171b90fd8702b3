/* ir/module.c - modules: strings, symbols, mesh, weights, state, functions; types. */
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "ir/ir.h"
#include "ir/module.h"

Module *module_new(void) {
  Arena *arena = arena_new();
  Module *m = ARENA_NEW(arena, Module);
  m->arena = arena;
  m->interned = ARENA_NEW(arena, Interned);
  m->mesh.stages = 1;
  return m;
}

void module_free(Module *m) {
  if (!m) return;
  for (size_t i = 0; i < m->made.n; i++) arena_free(m->made.items[i]->own);
  arena_free(m->arena);
}

/* ---- strings */

static uint64_t hash_bytes(const char *s) { return hash64(s, strlen(s), 0); }

static int string_equal(const void *key, const void *item) { return strcmp(key, item) == 0; }

const char *module_string(Module *m, const char *s) {
  if (!s) return NULL;
  uint64_t h = hash_bytes(s);
  const char *found = intern_find(&m->interned->strings, h, s, string_equal);
  if (found) return found;
  char *copy = arena_strdup(m->arena, s);
  intern_add(m->arena, &m->interned->strings, h, copy);
  return copy;
}

/* ---- symbols and mesh */

int module_symbol_find(const Module *m, const char *name) {
  for (size_t i = 0; i < m->symbols.n; i++)
    if (strcmp(m->symbols.items[i].name, name) == 0) return (int)i;
  return -1;
}

int64_t module_symbol_from(const Symbol *s, int64_t size) {
  int64_t over = size % s->multiple, from;
  return !over || __builtin_add_overflow(size, s->multiple - over, &from) ? size - over : from;
}

static int symbol_add(Module *m, const char *name, int axis) {
  Symbol s = {module_string(m, name), axis, 0, 0, 1, 0, NULL};
  ARENA_PUSH(m->arena, &m->symbols, s);
  return (int)m->symbols.n - 1;
}

int module_symbol(Module *m, const char *name) {
  int found = module_symbol_find(m, name);
  if (found >= 0) return found;
  if (name[0] == '@') die("no mesh axis for coordinate %s", name);
  return symbol_add(m, name, -1);
}

int module_symbol_computed(Module *m, const char *wanted, const Expr *most) {
  const char *name = wanted;
  for (int i = 1; module_symbol_find(m, name) >= 0; i++) name = arena_printf(m->arena, "%s.%d", wanted, i);
  int symbol = symbol_add(m, name, -1);
  m->symbols.items[symbol].most = most;
  return symbol;
}

bool ex_uses_computed(const Module *m, const Expr *e) {
  if (e->kind == EX_SYM) return m->symbols.items[e->value].most != NULL;
  for (int i = 0; i < e->n; i++)
    if (ex_uses_computed(m, e->args[i])) return true;
  return false;
}

void module_bound_computed(const Module *m, int64_t *values) {
  for (size_t i = 0; i < m->symbols.n; i++) {
    const Expr *most = m->symbols.items[i].most;
    if (most && (!ex_eval(most, values, &values[i]) || values[i] < 0)) values[i] = 0;
  }
}

bool op_uses_symbol(const Func *f, const Op *op, int symbol) {
  for (Val v = op->out; v < op_end(op); v++)
    for (int d = 0; d < type_of(f, v)->rank; d++)
      if (ex_uses(type_of(f, v)->dims[d], symbol)) return true;
  for (int i = 0; i < op->nattrs; i++) {
    const Attr *a = &op->attrs[i];
    if (attr_kind(a->key) == AK_EXPR && ex_uses(a->u.e, symbol)) return true;
    for (int k = 0; attr_kind(a->key) == AK_EXPRS && k < a->n; k++)
      if (ex_uses(a->u.exprs[k], symbol)) return true;
  }
  return false;
}

bool func_binds(const Func *f) {
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == OP_bind) return true;
  return false;
}

void module_set_mesh(Module *m, const Mesh *mesh) {
  if (mesh->naxes > MAX_AXES || mesh->stages < 1) die("mesh with %d axes, %d stages", mesh->naxes, mesh->stages);
  m->mesh = *mesh;
  for (int a = 0; a < mesh->naxes; a++) {
    MeshAxis *axis = &m->mesh.axes[a];
    axis->name = module_string(m, axis->name);
    if (axis->shares)
      axis->shares = memcpy(ARENA_ARRAY(m->arena, int, axis->size), axis->shares, sizeof(int) * (size_t)axis->size);
    const char *name = arena_printf(m->arena, "@%s", axis->name);
    int s = module_symbol_find(m, name);
    axis->symbol = s >= 0 ? s : symbol_add(m, name, a);
    m->symbols.items[axis->symbol].axis = a;
    m->symbols.items[axis->symbol].max = axis->size - 1;
  }
}

const Expr *mesh_coordinate(Module *m, int axis) { return ex_sym(m, m->mesh.axes[axis].symbol); }

int mesh_axis_find(const Mesh *mesh, const char *name) {
  for (int a = 0; a < mesh->naxes; a++)
    if (strcmp(mesh->axes[a].name, name) == 0) return a;
  return -1;
}

int mesh_ranks(const Mesh *mesh) {
  int n = mesh->stages;
  for (int a = 0; a < mesh->naxes; a++)
    if (!mesh->axes[a].temporal) n *= mesh->axes[a].size;
  return n;
}

int mesh_micro_batches(const Mesh *mesh) {
  for (int a = 0; a < mesh->naxes; a++)
    if (mesh->axes[a].temporal) return mesh->axes[a].size;
  return 1;
}

/* ---- weights, state, functions */

int module_blob(Module *m, const char *path, uint64_t bytes) {
  for (size_t i = 0; i < m->blobs.n; i++)
    if (strcmp(m->blobs.items[i].path, path) == 0) return (int)i;
  Blob b = {module_string(m, path), bytes};
  ARENA_PUSH(m->arena, &m->blobs, b);
  return (int)m->blobs.n - 1;
}

/* Models have tens of thousands of weights, and of states in training, so both are found by hash.  Module.params may
 * move, indices stay. */
typedef struct NameSlot {
  const char *name;
  size_t index;
} NameSlot;

static int slot_equal(const void *key, const void *item) { return strcmp(key, ((const NameSlot *)item)->name) == 0; }

static void add_slot(Module *m, InternSet *s, const char *name, size_t index) {
  NameSlot *slot = ARENA_NEW(m->arena, NameSlot);
  *slot = (NameSlot){name, index};
  intern_add(m->arena, s, hash_bytes(name), slot);
}

Param *module_param(Module *m, const char *name) {
  const NameSlot *slot = intern_find(&m->interned->params, hash_bytes(name), name, slot_equal);
  return slot ? &m->params.items[slot->index] : NULL;
}

Param *module_param_add(Module *m, const char *name, const Type *type) {
  if (module_param(m, name)) die("parameter %s twice", name);
  Param p = {.name = module_string(m, name), .type = type, .init = INIT_ZEROS, .trainable = true};
  int64_t stride = 1;
  for (int d = type->rank - 1; d >= 0; d--) {
    int64_t extent = 0;
    p.strides[d] = stride;
    ex_get_const(type->dims[d], &extent);
    if (__builtin_mul_overflow(stride, extent > 0 ? extent : 1, &stride)) ex_overflow(m), stride = 1;
  }
  add_slot(m, &m->interned->params, p.name, m->params.n);
  ARENA_PUSH(m->arena, &m->params, p);
  return &m->params.items[m->params.n - 1];
}

State *module_state(Module *m, const char *name) {
  const NameSlot *slot = intern_find(&m->interned->states, hash_bytes(name), name, slot_equal);
  return slot ? &m->states.items[slot->index] : NULL;
}

State *module_state_add(Module *m, const char *name, const Type *type, double value) {
  if (module_state(m, name)) die("state %s twice", name);
  State s = {module_string(m, name), type, value, NULL, false};
  add_slot(m, &m->interned->states, s.name, m->states.n);
  ARENA_PUSH(m->arena, &m->states, s);
  return &m->states.items[m->states.n - 1];
}

void module_state_remove(Module *m, const char *name) {
  size_t n = 0;
  m->interned->states = (InternSet){0};
  for (size_t i = 0; i < m->states.n; i++) {
    if (strcmp(m->states.items[i].name, name) == 0) continue;
    add_slot(m, &m->interned->states, m->states.items[i].name, n);
    m->states.items[n++] = m->states.items[i];
  }
  m->states.n = n;
}

Func *module_func(const Module *m, const char *name) {
  for (size_t i = 0; i < m->funcs.n; i++)
    if (strcmp(m->funcs.items[i]->name, name) == 0) return m->funcs.items[i];
  return NULL;
}

Func *module_func_add(Module *m, const char *name, int level) {
  Func *f = ARENA_NEW(m->arena, Func);
  f->name = module_string(m, name);
  f->level = level;
  ARENA_PUSH(m->arena, &f->values, ((Value){NULL, -1, NULL}));
  for (size_t i = 0; i < m->funcs.n; i++)
    if (strcmp(m->funcs.items[i]->name, name) == 0) {
      m->funcs.items[i] = f;
      return f;
    }
  ARENA_PUSH(m->arena, &m->funcs, f);
  return f;
}

void module_func_remove(Module *m, const Func *f) {
  size_t n = 0;
  for (size_t i = 0; i < m->funcs.n; i++)
    if (m->funcs.items[i] != f) m->funcs.items[n++] = m->funcs.items[i];
  m->funcs.n = n;
}

const ValueOrder *module_order(const Module *m, const char *name) {
  for (size_t i = 0; i < m->orders.n; i++)
    if (strcmp(m->orders.items[i].name, name) == 0) return &m->orders.items[i];
  return NULL;
}

void module_order_note(Module *m, const char *name, int rank, const int *at) {
  ValueOrder *known = (ValueOrder *)(uintptr_t)module_order(m, name), order = {.name = name, .rank = rank};
  for (int d = 0; d < rank; d++) order.at[d] = known && known->rank == rank ? at[known->at[d]] : at[d];
  if (known) *known = order;
  else ARENA_PUSH(m->arena, &m->orders, order);
}

Func *func_new(Module *m, const char *name, int level) {
  Arena *own = arena_new();
  Func *f = ARENA_NEW(own, Func);
  *f = (Func){.own = own, .name = module_string(m, name), .level = level};
  ARENA_PUSH(own, &f->values, ((Value){NULL, -1, NULL}));
  ARENA_PUSH(m->arena, &m->made, f);
  return f;
}

static bool is_func_of(const Module *m, const Func *f) {
  for (size_t i = 0; i < m->funcs.n; i++)
    if (m->funcs.items[i] == f) return true;
  return false;
}

void module_funcs_drop(Module *m, size_t since) {
  size_t n = since;
  for (size_t i = since; i < m->made.n; i++)
    if (is_func_of(m, m->made.items[i])) m->made.items[n++] = m->made.items[i];
    else arena_free(m->made.items[i]->own);
  m->made.n = n;
}

/* ---- types */

static int type_equal(const void *key, const void *item) {
  const Type *a = key, *b = item;
  if (a->dtype != b->dtype || a->rank != b->rank) return 0;
  for (int i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return 0;
  return 1;
}

const Type *type_get(Module *m, DType dtype, int rank, const Expr *const *dims) {
  if (rank < 0 || rank > MAX_RANK) die("type of rank %d", rank);
  Type key = {dtype, rank, {NULL}};
  uint64_t h = hash_mix((uint64_t)dtype, (uint64_t)rank);
  for (int i = 0; i < rank; i++) {
    key.dims[i] = dims[i];
    h = hash_mix(h, dims[i]->hash);
  }
  const Type *found = intern_find(&m->interned->types, h, &key, type_equal);
  if (found) return found;
  Type *t = ARENA_NEW(m->arena, Type);
  *t = key;
  intern_add(m->arena, &m->interned->types, h, t);
  return t;
}

const Type *type_of_ints(Module *m, DType dtype, int rank, const int64_t *dims) {
  const Expr *e[MAX_RANK];
  for (int i = 0; i < rank; i++) e[i] = ex_const(m, dims[i]);
  return type_get(m, dtype, rank, e);
}

const Type *type_with_dtype(Module *m, const Type *t, DType dtype) { return type_get(m, dtype, t->rank, t->dims); }

const Expr *type_product(Module *m, const Type *t, int from, int to) {
  const Expr *n = ex_const(m, 1);
  for (int d = from; d < to; d++) n = ex_mul(m, n, t->dims[d]);
  return n;
}

const Expr *type_elements(Module *m, const Type *t) { return type_product(m, t, 0, t->rank); }

bool type_constant_dims(const Type *t, int64_t *dims) {
  for (int i = 0; i < t->rank; i++)
    if (!ex_get_const(t->dims[i], &dims[i])) return false;
  return true;
}

void type_print(const Module *m, Text *t, const Type *type) {
  text_add(t, dtype_name(type->dtype));
  text_add(t, "[");
  for (int i = 0; i < type->rank; i++) {
    if (i) text_add(t, ", ");
    ex_print(m, t, type->dims[i]);
  }
  text_add(t, "]");
}
