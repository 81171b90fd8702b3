/* tools/reference.c - see reference.h. */
#include "tools/reference.h"

#include <string.h>

#include "base/file.h"
#include "proof/trial.h"
#include "tools/verify_states.h"

/* The interpreter does 1e7 to 1e8 operations per second. */
static const double small_work = 2e9, small_params = 2e7;

/* ---- weights from files */

struct WeightFiles {
  size_t n;
  FileMap *maps; /* by blob; data is NULL until it is opened */
};

WeightFiles *tool_weights_open(Arena *a, const Module *m) {
  WeightFiles *f = ARENA_NEW(a, WeightFiles);
  *f = (WeightFiles){m->blobs.n, ARENA_ARRAY(a, FileMap, m->blobs.n)};
  return f;
}

void tool_weights_close(WeightFiles *f) {
  for (size_t i = 0; f && i < f->n; i++)
    if (f->maps[i].data) file_unmap(&f->maps[i]);
}

/* Fills the tensor from `bytes` by the weight's strides. */
static void gather_elements(const Param *p, const uint8_t *bytes, InterpTensor *out) {
  int64_t index[MAX_RANK] = {0}, n = interp_elements(out);
  size_t size = dtype_bytes(p->type->dtype);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = 0;
    for (int d = 0; d < out->rank; d++) at += index[d] * p->strides[d];
    const uint8_t *element = bytes + p->offset + (uint64_t)at * size;
    uint8_t aligned[8];
    memcpy(aligned, element, size);
    if (dtype_is_float(out->dtype)) out->cells[i].f = dtype_load_f(p->type->dtype, aligned);
    else out->cells[i].i = dtype_load_i(p->type->dtype, aligned);
    for (int d = out->rank - 1; d >= 0 && ++index[d] == out->dims[d]; d--) index[d] = 0;
  }
}

bool tool_weights_read(void *files, const Module *m, const Param *p, InterpTensor *out, Diags *diags) {
  WeightFiles *f = files;
  FileMap *map = &f->maps[p->blob];
  if (!map->data && !file_map(diags, m->blobs.items[p->blob].path, map)) return false;
  if (map->size != m->blobs.items[p->blob].bytes)
    return diag_error(diags, DIAG_file_read, (Loc){.file = m->blobs.items[p->blob].path},
                      "the file changed while it was read");
  gather_elements(p, map->data, out);
  return true;
}

/* ---- conversion of tensors */

static InterpTensor cells_of(Arena *a, const Tensor *x) {
  InterpTensor out = interp_tensor(a, x->dtype, x->rank, x->dims);
  size_t step = dtype_bytes(x->dtype);
  for (int64_t i = 0; i < interp_elements(&out); i++) {
    const char *element = (const char *)x->data + (size_t)i * step;
    if (dtype_is_float(x->dtype)) out.cells[i].f = dtype_load_f(x->dtype, element);
    else out.cells[i].i = dtype_load_i(x->dtype, element);
  }
  return out;
}

static bool tensor_of(const InterpTensor *x, Tensor *out) {
  if (!tensor_alloc(out, x->dtype, x->rank, x->dims)) return false;
  size_t step = dtype_bytes(x->dtype);
  for (int64_t i = 0; i < interp_elements(x); i++) {
    char *element = (char *)out->data + (size_t)i * step;
    if (dtype_is_float(x->dtype)) dtype_store_f(x->dtype, element, x->cells[i].f);
    else dtype_store_i(x->dtype, element, x->cells[i].i);
  }
  return true;
}

static void sizes_of(const Func *f, const Tensors *inputs, int64_t *v) {
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (op->kind != OP_input) continue;
    const Type *type = type_of(f, op->out);
    const Tensor *x = tensors_find(inputs, op_str(op, AT_name));
    for (int d = 0; d < type->rank; d++)
      if (type->dims[d]->kind == EX_SYM) v[type->dims[d]->value] = x->dims[d];
  }
}

int64_t *reference_symbols(Arena *a, const Module *m, int n, const Func *const *f, Tensors *const *inputs) {
  int64_t *v = ARENA_ARRAY(a, int64_t, m->symbols.n + 1);
  for (size_t i = 0; i < m->symbols.n; i++) v[i] = m->symbols.items[i].axis < 0 ? symbol_hint(&m->symbols.items[i]) : 0;
  for (int k = n; k-- > 0;) sizes_of(f[k], inputs[k], v);
  return v;
}

static int64_t *symbol_values(Arena *a, const Module *m, const Func *f, Tensors *inputs) {
  return reference_symbols(a, m, 1, &f, &inputs);
}

bool reference_is_small(const Model *model, int64_t params, int n, const char *const *names, Tensors *const *inputs) {
  Arena *a = arena_new();
  double work = 0;
  for (int k = 0; k < n; k++) {
    const Func *f = module_func(model->m, names[k]);
    work += trial_work(model->m, f, symbol_values(a, model->m, f, inputs[k]));
  }
  arena_free(a);
  return work <= small_work && (double)params <= small_params;
}

static bool copy_tensors(Tool *t, int n, const InterpNamed *from, Tensors *to) {
  *to = (Tensors){.items = ARENA_ARRAY(t->arena, NamedTensor, n)};
  for (int i = 0; i < n; i++) {
    NamedTensor *x = &to->items[to->n++];
    x->name = arena_strdup(t->arena, from[i].name);
    if (!tensor_of(&from[i].tensor, &x->tensor)) return diag_error(t->diags, DIAG_no_memory, (Loc){0}, "out of memory");
  }
  return true;
}

/* Replaces states by the values that a run wrote. */
static void keep_states(InterpOptions *o, InterpNamed *kept, const InterpResult *result) {
  for (int i = 0; i < result->nstates; i++) {
    int at = 0;
    while (at < o->nstates && strcmp(kept[at].name, result->states[i].name) != 0) at++;
    kept[at] = result->states[i];
    if (at == o->nstates) o->nstates++;
  }
  o->states = kept;
}

/* Reads all states by running one more function. */
static bool read_states(Tool *t, Module *m, int n, const char *const *names, Tensors *const *inputs, InterpOptions *o,
                        Arena *a, Tensors *left) {
  const Func **f = ARENA_ARRAY(a, const Func *, n), *reads = states_function(m, t->diags);
  for (int k = 0; k < n; k++) f[k] = module_func(m, names[k]);
  o->symbols = reference_symbols(a, m, n, f, inputs);
  InterpResult result;
  return reads && interp_run(m, reads, o, 0, NULL, a, &result, t->diags) &&
         copy_tensors(t, result.noutputs, result.outputs, left);
}

bool reference_run(Tool *t, const Model *model, int n, const char *const *names, Tensors *const *inputs,
                   Tensors *const *outputs, Tensors *left) {
  Arena *a = arena_new();
  Module *m = model->m;
  WeightFiles *files = tool_weights_open(a, m);
  InterpNamed *states = ARENA_ARRAY(a, InterpNamed, m->states.n + 1);
  InterpOptions options = {.blob = tool_weights_read, .context = files, .max_cells = (int64_t)1 << 29};
  bool ok = true;
  for (int k = 0; ok && k < n; k++) {
    const Func *f = module_func(m, names[k]);
    InterpNamed *named = ARENA_ARRAY(a, InterpNamed, inputs[k]->n);
    for (size_t i = 0; i < inputs[k]->n; i++)
      named[i] = (InterpNamed){inputs[k]->items[i].name, cells_of(a, &inputs[k]->items[i].tensor)};
    InterpResult result;
    options.symbols = symbol_values(a, m, f, inputs[k]);
    ok = interp_run(m, f, &options, (int)inputs[k]->n, named, a, &result, t->diags) &&
         copy_tensors(t, result.noutputs, result.outputs, outputs[k]);
    if (ok) keep_states(&options, states, &result);
  }
  if (ok && left && m->states.n) ok = read_states(t, m, n, names, inputs, &options, a, left);
  tool_weights_close(files);
  arena_free(a);
  return ok;
}
