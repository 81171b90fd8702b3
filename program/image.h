/* program/image.h - the machine code of a Program's kernels: which of its images a device takes.
 *
 * A Program may have several, of the kinds in program.def: one per architecture, and kinds of several devices side by
 * side.  What a device runs is decided here alone. */
#ifndef APC_PROGRAM_IMAGE_H
#define APC_PROGRAM_IMAGE_H

#include "program/program.h"

const char *program_image_kind(uint32_t kind); /* "cubin" */

/* Is that text one for the architecture of an image of this kind? */
bool program_image_arch_ok(uint32_t kind, const char *arch);

/* The image for a device ("CPU", "GPU": the rows of PROGRAM_IMAGE) of an architecture: of the first kind that it runs
 * the one that is nearest to it.  A CPU's architecture is the list of its instruction sets (program_cpu_features), a
 * GPU's "sm_90".  RT_UNSUPPORTED, saying what there is instead, when there is none. */
RtStatus program_image_choose(const Program *p, const char *device, const char *arch, uint32_t *image, RtError *error);

/* Is such code launched as a grid of blocks?  And can a block have so many threads and bytes of shared memory? */
bool program_image_has_grid(uint32_t kind);
bool program_image_fits(uint32_t kind, uint32_t threads, uint32_t shared);

/* Is a blob the bytes of an image? */
bool program_image_has_blob(const Program *p, uint32_t blob);

/* "cubin sm_90, 12.3 KiB", "object, 24.8 KiB; needs sse3 avx" */
void program_image_text(const Program *p, uint32_t image, Text *t);

#endif
