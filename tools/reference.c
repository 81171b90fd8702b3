/* tools/reference.c - see reference.h. */
#include "tools/reference.h"

#include <string.h>

#include "base/file.h"
#include "ir/interp.h"

/* The interpreter does 1e7 to 1e8 operations per second. */
static const double small_flops = 3e9, small_params = 2e7;

bool reference_is_small(const Build *b) { return b->plan->flops <= small_flops && (double)b->params <= small_params; }

/* ---- weights from files */

typedef struct Blobs {
  Arena *arena;
  FileMap *maps; /* by blob; data NULL until it is opened */
} Blobs;

/* Fills the tensor from `bytes`, walking the weight's strides. */
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

static bool read_weight(void *context, const Module *m, const Param *p, InterpTensor *out, Diags *diags) {
  Blobs *blobs = context;
  FileMap *map = &blobs->maps[p->blob];
  if (!map->data && !file_map(diags, m->blobs.items[p->blob].path, map)) return false;
  if (map->size != m->blobs.items[p->blob].bytes)
    return diag_error(diags, DIAG_file_read, (Loc){.file = m->blobs.items[p->blob].path}, "the file changed while it was read");
  gather_elements(p, map->data, out);
  return true;
}

/* ---- tensors to and fro */

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

/* The sizes of all dimensions: those the inputs' shapes give, else what is planned for. */
static int64_t *symbol_values(Arena *a, const Build *b, const Tensors *inputs) {
  const Module *m = b->model.m;
  int64_t *v = ARENA_ARRAY(a, int64_t, m->symbols.n + 1);
  for (size_t i = 0; i < m->symbols.n; i++) v[i] = m->symbols.items[i].axis < 0 ? symbol_hint(&m->symbols.items[i]) : 0;
  for (size_t i = 0; i < b->l1->ops.n; i++) {
    const Op *op = &b->l1->ops.items[i];
    if (op->kind != OP_input) continue;
    const Type *type = type_of(b->l1, op->out);
    const Tensor *x = tensors_find(inputs, op_str(op, AT_name));
    for (int d = 0; d < type->rank; d++)
      if (type->dims[d]->kind == EX_SYM) v[type->dims[d]->value] = x->dims[d];
  }
  return v;
}

static bool copy_outputs(Tool *t, const InterpResult *result, Tensors *outputs) {
  *outputs = (Tensors){.items = ARENA_ARRAY(t->arena, NamedTensor, result->noutputs)};
  for (int i = 0; i < result->noutputs; i++) {
    NamedTensor *x = &outputs->items[outputs->n++];
    x->name = arena_strdup(t->arena, result->outputs[i].name);
    if (!tensor_of(&result->outputs[i].tensor, &x->tensor)) return diag_error(t->diags, DIAG_run, (Loc){0}, "no memory");
  }
  return true;
}

bool reference_run(Tool *t, const Build *b, const Tensors *inputs, Tensors *outputs) {
  Arena *a = arena_new();
  Module *m = b->model.m;
  Blobs blobs = {a, ARENA_ARRAY(a, FileMap, m->blobs.n)};
  InterpNamed *named = ARENA_ARRAY(a, InterpNamed, inputs->n);
  for (size_t i = 0; i < inputs->n; i++) named[i] = (InterpNamed){inputs->items[i].name, cells_of(a, &inputs->items[i].tensor)};
  InterpOptions options = {.symbols = symbol_values(a, b, inputs), .blob = read_weight, .context = &blobs, .max_cells = (int64_t)1 << 29};
  InterpResult result;
  bool ok = interp_run(m, b->l1, &options, (int)inputs->n, named, a, &result, t->diags) && copy_outputs(t, &result, outputs);
  for (size_t i = 0; i < m->blobs.n; i++)
    if (blobs.maps[i].data) file_unmap(&blobs.maps[i]);
  arena_free(a);
  return ok;
}
