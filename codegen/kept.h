/* codegen/kept.h - machine code of kernels that was compiled before, in the cache (base/cache.h).
 *
 * Its key is the texts and what the target says of its compiler (KernelTarget.identify).
 */
#ifndef APC_CODEGEN_KEPT_H
#define APC_CODEGEN_KEPT_H

#include "codegen/target.h"

/* Compiles n texts, or takes what was kept of them: *kept.  False after diagnostics. */
bool kernels_compile(const KernelTarget *t, const KernelCompile *how, const char *const *texts, size_t n,
                     KernelImages *out, bool *kept);

#endif
