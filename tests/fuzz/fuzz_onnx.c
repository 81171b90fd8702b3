/* tests/fuzz/fuzz_onnx.c - libFuzzer target: any bytes as an ONNX model; its tensors' data, and the import of its
 * graph.  External data is not followed: the model's path is in a folder that does not exist. */
#include <stddef.h>
#include <stdint.h>

#include "frontend/onnx/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  Arena *arena = arena_new();
  Diags *d = diags_new(arena);
  OnnxFile *f = onnx_file_open_bytes(d, "/nonexistent/fuzz.onnx", bytes, n);
  if (f) {
    const Onnx__GraphProto *graph = onnx_file_model(f)->graph;
    OnnxData data;
    for (size_t i = 0; i < graph->n_initializer; i++) onnx_file_data(f, d, graph->initializer[i], &data);
    for (size_t i = 0; i < graph->n_node; i++)
      for (size_t k = 0; k < graph->node[i]->n_attribute; k++)
        if (graph->node[i]->attribute[k]->t) onnx_file_data(f, d, graph->node[i]->attribute[k]->t, &data);
    Module *m;
    bool ok = onnx_import(&m, f, NULL, d);
    if (!ok && !d->errors) __builtin_trap(); /* a failure without a message; missing data is reported once */
    if (ok) verify_module(m, d);
    module_free(m);
  }
  onnx_file_close(f);
  arena_free(arena);
  return 0;
}
