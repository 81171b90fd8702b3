/* codegen/cuda/target.c - kernels for NVIDIA's GPUs: CUDA texts, compiled by NVRTC.
 *
 * A kernel takes one struct of eight-byte words: the operands and results of its unit in order (pointers), then its
 * scalars.  How many blocks are launched is the first expression of a launch. */
#include "codegen/target.h"

#include "codegen/cuda/kernels.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/cuda/schedule.h"

static void print(Module *m, const Func *l2, UnitList *units, KernelSet *set) {
  const CudaKernel *kernels = cuda_kernels(m, l2, units, set);
  for (size_t i = 0; i < units->n; i++) {
    Unit *u = &units->items[i];
    const CudaKernel *k = &kernels[i];
    if (u->kind != UNIT_KERNEL) continue;
    u->kernel = k->kernel, u->nscalars = k->nscalars, u->scalars = k->scalars;
    u->blocks = k->launch.blocks, u->threads = k->launch.threads, u->how = k->how;
  }
}

static const char **texts(const KernelSet *s, size_t *n) {
  Text t = {.arena = s->arena};
  const char **list = ARENA_ARRAY(s->arena, const char *, 1);
  text_add(&t, dialect_prelude);
  for (size_t i = 0; i < s->kernels.n; i++) text_add(&t, cuda_text(s->arena, &s->kernels.items[i]));
  list[0] = text_str(&t), *n = 1;
  return list;
}

static bool compile(const KernelCompile *how, const char *const *list, size_t n, KernelImage *out) {
  CudaImage image;
  Text all = {.arena = how->arena};
  for (size_t i = 0; i < n; i++) text_add(&all, list[i]);
  if (!nvrtc_compile(how->arena, how->diags, text_str(&all), how->arch, &image)) return false;
  *out = (KernelImage){.data = image.cubin, .bytes = image.cubin_bytes, .assembly = image.ptx};
  return true;
}

static const char *const prelude = dialect_prelude;
extern const KernelTarget kernel_target_cuda;
const KernelTarget kernel_target_cuda = {&prelude, print, cuda_text, texts, compile, cuda_schedule_print};
