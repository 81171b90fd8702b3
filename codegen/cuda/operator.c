/* codegen/cuda/operator.c - the kernel of an operator that apc does not know, which has one for CPUs only.
 *
 * A plan for GPUs counts its memory and launches like those of others, so it has a text; the driver refuses to write
 * code for GPUs with it (driver_can_compile). */
#include "codegen/cuda/template.h"

void cuda_opaque(CudaTemplate *k) {
  ct_launch(k, ex_const(k->m, 1), 1, 256, "a function for CPUs");
  text_add(&k->body, "#error this operator has a kernel for CPUs only\n");
}
