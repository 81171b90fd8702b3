/* codegen/cuda/target.c - kernels for NVIDIA's GPUs: CUDA texts, compiled by NVRTC.
 *
 * A kernel takes one struct of eight-byte words: the operands and results of its unit in order (pointers), then its
 * scalars; if it checks indices, then the address of its note and the number of its instruction.
 *
 * With --save-temps, the text of an image with the hash H (program_blob_hash) is saved as H.cu, sixteen hexadecimal
 * digits, so that the source of a given cubin or PTX can be found. */
#include "codegen/target.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
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
    u->blocks = k->launch.blocks, u->threads = k->launch.threads, u->shared = k->launch.shared;
    u->looks = k->looks;
    u->how = k->how;
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

/* Returns "compute_90" for "sm_90". */
static const char *virtual_arch(Arena *a, const char *arch) {
  return arena_printf(a, "compute_%s", strncmp(arch, "sm_", 3) == 0 ? arch + 3 : arch);
}

static bool keep_text(const KernelCompile *how, const char *text, const void *image, size_t bytes) {
  unsigned long long hash = program_blob_hash(image, bytes);
  return !how->dir ||
         file_write(how->diags, arena_printf(how->arena, "%s/%016llx.cu", how->dir, hash), 0666, text, strlen(text));
}

static bool compile(const KernelCompile *how, const char *const *list, size_t n, KernelImages *out) {
  CudaImage image;
  Text all = {.arena = how->arena};
  *out = (KernelImages){0};
  if (!how->arch)
    return diag_error(how->diags, DIAG_usage_value, (Loc){0}, "the target does not name the architecture of its GPUs");
  for (size_t i = 0; i < n; i++) text_add(&all, list[i]);
  const char *text = text_str(&all);
  if (!nvrtc_compile(how->arena, how->diags, text, how->arch, &image) ||
      !keep_text(how, text, image.cubin, image.cubin_bytes) || !keep_text(how, text, image.ptx, strlen(image.ptx)))
    return false;
  out->items[out->n++] =
      (KernelImage){.kind = PIMAGE_cubin, .arch = how->arch, .data = image.cubin, .bytes = image.cubin_bytes};
  out->items[out->n++] = (KernelImage){
      .kind = PIMAGE_ptx, .arch = virtual_arch(how->arena, how->arch), .data = image.ptx, .bytes = strlen(image.ptx)};
  return true;
}

static bool identify(const KernelCompile *how, CacheKey *k) {
  int major, minor;
  if (!how->arch || !nvrtc_found(&major, &minor)) return false;
  cache_key_text(k, how->arch);
  cache_key_number(k, (uint64_t)major), cache_key_number(k, (uint64_t)minor);
  return true;
}

static bool ready(Arena *a, Diags *d, const Cache *cache) {
  (void)a, (void)cache;
  return nvrtc_ready(d);
}

/* Returns cuBLAS's default according to its documentation (cublasSetWorkspace): with less, algorithms are left out. */
static uint64_t workspace(const char *arch) {
  int version = cuda_arch(arch);
  return (uint64_t)(version >= 120 ? 12 : version >= 90 ? 32 : 4) << 20;
}

/* Algorithms of cuDNN that need more are left out.  Not measured; equal to cuBLAS's default on large GPUs. */
enum { CONV_WORKSPACE = 32 << 20 };

static const char *const prelude = dialect_prelude;
extern const KernelTarget kernel_target_cuda;
const KernelTarget kernel_target_cuda = {.language = "CUDA",
                                         .prelude = &prelude,
                                         .has_template = cuda_template_exists,
                                         .print = print,
                                         .definition = cuda_text,
                                         .texts = texts,
                                         .compile = compile,
                                         .identify = identify,
                                         .ready = ready,
                                         .schedule = cuda_schedule_print,
                                         .workspace = workspace,
                                         .conv_workspace = CONV_WORKSPACE};
