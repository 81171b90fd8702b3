/* examples/embed.c - a program of your own that runs a compiled model.
 *
 *   apc examples/mlp.apc --target cpux2 -o mlp
 *   cc -I runtime examples/embed.c build/libapcrt.a -lz -ljansson -lpthread -ldl -lm -o embed
 *   cc embed.c $(pkg-config --cflags --libs apc) -o embed        with an installed apc (docs/guide/install.md)
 *   ./embed ./mlp
 *
 * Fills every input with random numbers; prints the first output and the time of a second run.
 */
#include <stdio.h>

#include "apc_runtime.h"

static int failed(ApcModel *model) {
  fprintf(stderr, "error: %s\n", apc_error(model));
  apc_close(model);
  return 1;
}

int main(int argc, char **argv) {
  ApcModel *model;
  ApcTensorInfo info;
  ApcReport report;
  int64_t dims[APC_MAX_RANK];
  const void *values;
  size_t bytes;
  int rank;
  if (argc != 2) {
    fprintf(stderr, "usage: %s PROGRAM\n", argv[0]);
    return 2;
  }
  if (apc_load(argv[1], NULL, &model)) return failed(model);
  for (int i = 0; i < apc_inputs(model); i++)
    if (apc_input_info(model, i, &info) || apc_bind_input_text(model, info.name, "random:1")) return failed(model);
  if (apc_run(model, NULL) || apc_run_again(model)) return failed(model);
  if (apc_output_info(model, 0, &info) || apc_output_shape(model, info.name, &rank, dims, &bytes) ||
      apc_output_data(model, info.name, &values) || apc_report(model, 0, &report))
    return failed(model);
  printf("%s:", info.name);
  for (int d = 0; d < rank; d++) printf(" %lld", (long long)dims[d]);
  if (info.type == APC_F32 && bytes >= sizeof(float)) printf(" begins with %g", (double)*(const float *)values);
  printf("; %d ranks, %.3f ms\n", apc_ranks(model), report.run_s * 1e3);
  apc_close(model);
  return 0;
}
