/* program/image.h - machine code of a Program's kernels, and which image a device takes.
 *
 * A Program may have several images, of the kinds in program.def: one per architecture, and kinds for several devices
 * side by side.  Only this file decides which one a device runs. */
#ifndef APC_PROGRAM_IMAGE_H
#define APC_PROGRAM_IMAGE_H

#include "program/program.h"

/* Returns the name of a kind of image: "cubin". */
const char *program_image_kind(uint32_t kind);

/* True if `arch` is valid for an image of this kind. */
bool program_image_arch_ok(uint32_t kind, const char *arch);

/* Finds the image for a device ("CPU", "GPU": the rows of PROGRAM_IMAGE) of an architecture: of the first kind that the
 * device runs, the nearest one.  The architecture of a CPU is the list of its instruction sets (program_cpu_features),
 * that of a GPU "sm_90".  RT_UNSUPPORTED if there is none; the message lists the images that exist. */
RtStatus program_image_choose(const Program *p, const char *device, const char *arch, uint32_t *image, RtError *error);

/* program_image_has_grid: true if code of this kind is launched as a grid of blocks.  program_image_fits: true if a
 * block can have this many threads and bytes of shared memory. */
bool program_image_has_grid(uint32_t kind);
bool program_image_fits(uint32_t kind, uint32_t threads, uint32_t shared);

/* True if the blob holds an image. */
bool program_image_has_blob(const Program *p, uint32_t blob);

/* Appends "cubin sm_90, 12.3 KiB", or "object, 24.8 KiB; needs sse3 avx". */
void program_image_text(const Program *p, uint32_t image, Text *t);

#endif
