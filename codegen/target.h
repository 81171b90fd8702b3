/* codegen/target.h - code generation for a kind of device: one record per row of ir/device.def, defined in
 * codegen/NAME/target.c.  The types its libraries multiply, their calls, the operations that join these and the speed
 * of our kernels are in the row (ir/device.h), since passes decide and price by them.
 *
 * Units (codegen/rows/units.h) are the same for all devices; a record prints their kernels and launches, assembles the
 * texts and compiles them.
 */
#ifndef APC_CODEGEN_TARGET_H
#define APC_CODEGEN_TARGET_H

#include "base/cache.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/temporary.h"
#include "codegen/kernel_set.h"
#include "codegen/rows/units.h"
#include "ir/device.h"
#include "program/program.h"

/* How texts are compiled. */
typedef struct KernelCompile {
  Arena *arena;
  Diags *diags;
  const char *command;           /* the compiler; NULL: the usual one */
  const char *dir;               /* directory of texts, objects and messages */
  const TemporaryFolder *folder; /* directory of the compiler's temporary files */
  const char *arch;              /* the architecture, for devices that have several; else NULL */
  const Cache *cache;            /* where machine code is kept; NULL: nowhere */
} KernelCompile;

/* Machine code of all kernels, for one architecture (program/image.h). */
typedef struct KernelImage {
  ProgramImageKind kind;
  const char *arch;
  const void *data;
  size_t bytes;
  FileMap map; /* holds `data`; empty if `data` is in the arena */
} KernelImage;

typedef struct KernelImages {
  KernelImage items[PIMAGE_COUNT];
  size_t n;
} KernelImages;

struct ArtifactProgram; /* codegen/artifact.h */

typedef struct KernelTarget {
  const char *language;       /* of its texts: "C", "CUDA" */
  const char *const *prelude; /* begins every text */
  /* True if it prints the kernel of that operation from a template: of every row of codegen/rows/templates.def. */
  bool (*has_template)(OpKind k);
  /* Adds the kernels of units to a set, and sets the launch of each unit. */
  void (*print)(Module *m, const Func *l2, UnitList *units, KernelSet *set);
  /* Returns a kernel's definition, complete after the prelude. */
  const char *(*definition)(Arena *a, const Kernel *k);
  /* Returns whole texts with all kernels of a set; *n is their number. */
  const char **(*texts)(const KernelSet *set, size_t *n);
  /* Makes an image of each kind that the compiler supports.  False after a diagnostic.  Freed with
   * kernel_images_free. */
  bool (*compile)(const KernelCompile *how, const char *const *texts, size_t n, KernelImages *out);
  /* Adds to a key everything except the texts that their bytes depend on.  False if that is unknown, so that nothing is
   * kept. */
  bool (*identify)(const KernelCompile *how, CacheKey *k);
  /* Checks that the runtime, `stub`, can load the images compiled with `command`, and that they have every kernel of
   * the Program.  False after a diagnostic; NULL: no check. */
  bool (*check)(const KernelCompile *how, const KernelImages *images, const Program *p, const FileMap *stub);
  /* Checks that the compiler works, before there is anything to compile.  False after a diagnostic. */
  bool (*ready)(Arena *a, Diags *d, const Cache *cache);
  /* Prints the text of --emit=schedule.  CPU ranks get the Program and make their lists of device calls when sizes are
   * known; for devices on which programs do not run yet it prints the lists, at the planned sizes. */
  void (*schedule)(Arena *a, const struct ArtifactProgram *program, Text *t);
  /* Returns the bytes of scratch for its library of products, on that architecture (NULL: unknown); NULL if the library
   * allocates its own. */
  uint64_t (*workspace)(const char *arch);
  /* The most bytes of scratch for its library of convolutions, if there is one. */
  uint64_t conv_workspace;
} KernelTarget;

/* Returns the record of a kind of device. */
const KernelTarget *kernel_target(const DeviceTraits *d);

/* Returns the image of that kind; NULL if none.  kernel_images_free frees all. */
const KernelImage *kernel_image_of(const KernelImages *images, ProgramImageKind kind);
void kernel_images_free(KernelImages *images);

#endif
