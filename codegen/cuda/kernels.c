/* codegen/cuda/kernels.c - see kernels.h. */
#include "codegen/cuda/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/rows/row.h"

static const char *row_kernel(Module *m, const Unit *u, CudaKernel *k) {
  Scalars scalars = {0};
  const char *text = cuda_print_kernel(m, u->row, &scalars, &k->launch);
  k->nscalars = (int)scalars.n, k->scalars = scalars.items;
  k->how = cuda_schedule_text(m->arena, &k->launch);
  return text;
}

const CudaKernel *cuda_kernels(Module *m, const Func *l2, const UnitList *units, KernelSet *set) {
  CudaKernel *all = ARENA_ARRAY(m->arena, CudaKernel, units->n + 1);
  for (size_t i = 0; i < units->n; i++) {
    const Unit *u = &units->items[i];
    if (u->kind != UNIT_KERNEL) continue;
    const char *text = u->row ? row_kernel(m, u, &all[i]) : cuda_template(m, l2, units, u, set->arch, &all[i]);
    const Op *named = u->conv ? u->conv->op : &l2->ops.items[u->tells];
    all[i].kernel = kernel_set_add(set, op_name(named->kind), text);
  }
  return all;
}

int cuda_arch(const char *arch) { return arch && strncmp(arch, "sm_", 3) == 0 ? atoi(arch + 3) : 0; }

const char *cuda_text(Arena *a, const Kernel *k) {
  Text t = {.arena = a};
  for (const char *p = k->text, *end; *p; p = end) {
    end = p + strcspn(p, CUDA_NAME);
    text_addn(&t, p, (size_t)(end - p));
    if (*end) text_add(&t, k->symbol), end += strlen(CUDA_NAME);
  }
  return text_str(&t);
}
