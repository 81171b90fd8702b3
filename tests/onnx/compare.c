/* tests/onnx/compare.c - runs an ONNX model in the reference interpreter and compares with stored outputs.
 *
 * Usage: onnx_compare MODEL.onnx INPUTS.npz OUTPUTS.npz [TOLERANCE]; for checks by hand of models of any exporter.
 * Prints the relative L2 distance of every output; exits 1 if one is over the tolerance (1e-4). */
#include <stdlib.h>
#include <string.h>

#include "base/npz.h"
#include "frontend/onnx/import.h"
#include "ir/run/interp.h"

typedef struct Named {
  InterpNamed *items;
  int n;
} Named;

static void read_elements(InterpTensor *out, const uint8_t *p) {
  for (int64_t i = 0; i < interp_elements(out); i++, p += dtype_bytes(out->dtype)) {
    if (dtype_is_float(out->dtype)) out->cells[i].f = dtype_load_f(out->dtype, p);
    else out->cells[i].i = dtype_load_i(out->dtype, p);
  }
}

static bool read_npz(Arena *arena, Diags *d, const char *path, Named *out) {
  Npz *z = npz_open(d, path);
  if (!z) return false;
  out->items = ARENA_ARRAY(arena, InterpNamed, z->n);
  bool ok = true;
  for (size_t i = 0; i < z->n && ok; i++) {
    Tensor t;
    if (!(ok = npz_read(z, &z->items[i], &t))) break;
    InterpNamed *named = &out->items[out->n++];
    named->name = arena_strdup(arena, z->items[i].name);
    named->tensor = interp_tensor(arena, t.dtype, t.rank, t.dims);
    read_elements(&named->tensor, t.data);
    tensor_free(&t);
  }
  npz_close(z);
  return ok;
}

/* The importer's params are dense; their file is the model or one of its external files. */
static bool blob_data(void *context, const Module *m, const Param *p, InterpTensor *out, Diags *d) {
  OnnxFile *f = context;
  for (uint32_t i = 0; i < onnx_file_blob_count(f); i++) {
    OnnxBlob blob = onnx_file_blob(f, i);
    if (!blob.path || strcmp(blob.path, m->blobs.items[p->blob].path) != 0) continue;
    read_elements(out, blob.data + p->offset);
    return true;
  }
  return diag_error(d, DIAG_interp, p->loc, "weight \"%s\" has no file", p->name);
}

static void bind_symbols(const Module *m, const Func *f, const Named *in, int64_t *symbols) {
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    const InterpTensor *x = op->kind == OP_input ? interp_find(in->items, in->n, op_str(op, AT_name)) : NULL;
    for (int k = 0; x && k < x->rank; k++) {
      const Expr *e = type_of(f, op->out)->dims[k];
      if (e->kind == EX_SYM && m->symbols.items[e->value].axis < 0) symbols[e->value] = x->dims[k];
    }
  }
}

static bool compare(const InterpResult *result, const Named *want, double tolerance) {
  bool ok = true;
  for (int i = 0; i < want->n; i++) {
    const InterpTensor *got = interp_find(result->outputs, result->noutputs, want->items[i].name);
    double distance = got ? interp_distance(got, &want->items[i].tensor) : 1.0 / 0.0;
    printf("%-24s relative L2 %.3g\n", want->items[i].name, distance);
    ok = ok && distance <= tolerance;
  }
  return ok;
}

static bool run(Arena *arena, Diags *d, Module **imported, OnnxFile *file, char **argv, double tolerance) {
  Named in = {0}, want = {0};
  InterpResult result;
  if (!onnx_import(imported, file, NULL, d) || !verify_module(*imported, d)) return false;
  Module *m = *imported;
  if (!read_npz(arena, d, argv[2], &in) || !read_npz(arena, d, argv[3], &want)) return false;
  const Func *f = module_func(m, "main");
  int64_t *symbols = interp_symbols(m, arena);
  bind_symbols(m, f, &in, symbols);
  InterpOptions options = {.symbols = symbols, .blob = blob_data, .context = file};
  return interp_run(m, f, &options, in.n, in.items, arena, &result, d) && compare(&result, &want, tolerance);
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: onnx_compare MODEL.onnx INPUTS.npz OUTPUTS.npz [TOLERANCE]\n");
    return 2;
  }
  Arena *arena = arena_new();
  Diags *d = diags_new(arena);
  Module *m = NULL;
  OnnxFile *file = onnx_file_open(d, argv[1]);
  bool ok = file && run(arena, d, &m, file, argv, argc > 4 ? atof(argv[4]) : 1e-4);
  diags_print(d, stderr, false);
  onnx_file_close(file);
  module_free(m);
  arena_free(arena);
  return !ok;
}
