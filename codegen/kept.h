/* codegen/kept.h - machine code of kernels that was compiled before, in the cache (base/cache.h).
 *
 * Its key is the texts and the identity of the target's compiler (KernelTarget.identify).
 */
#ifndef APC_CODEGEN_KEPT_H
#define APC_CODEGEN_KEPT_H

#include "codegen/target.h"

/* Compiles n texts, or takes their machine code from the cache (*kept).  False after diagnostics. */
bool kernels_compile(const KernelTarget *t, const KernelCompile *how, const char *const *texts, size_t n,
                     KernelImages *out, bool *kept);

#endif
