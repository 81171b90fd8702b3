/* codegen/target.h - what code generation has of a kind of device: one record per row of ir/device.def, defined in
 * codegen/NAME/target.c.  What its libraries do is in the row (ir/device.h).
 *
 * Units (codegen/rows/units.h) are the same for all; a record prints their kernels, says how they are launched, makes
 * whole texts of them and compiles these.
 */
#ifndef APC_CODEGEN_TARGET_H
#define APC_CODEGEN_TARGET_H

#include "base/diag.h"
#include "base/file.h"
#include "base/temporary.h"
#include "codegen/kernel_set.h"
#include "codegen/rows/units.h"
#include "ir/device.h"

/* How texts are compiled. */
typedef struct KernelCompile {
  Arena *arena;
  Diags *diags;
  const char *command;           /* the compiler that is run; NULL: the usual one */
  const char *dir;               /* where texts, objects and messages go */
  const TemporaryFolder *folder; /* where its own temporary files go */
  const char *arch;              /* the architecture, for devices that have several; else NULL */
} KernelCompile;

/* Machine code. */
typedef struct KernelImage {
  const void *data;
  size_t bytes;
  const char *assembly; /* NULL where it is not given */
  FileMap map;          /* what holds `data`; no data where it is in the arena */
} KernelImage;

struct ArtifactProgram; /* codegen/artifact.h */

typedef struct KernelTarget {
  const char *const *prelude; /* in front of every text */
  /* Adds the kernels of units to a set, and says of each unit how it is launched. */
  void (*print)(Module *m, const Func *l2, UnitList *units, KernelSet *set);
  /* A kernel's definition, complete behind the prelude. */
  const char *(*definition)(Arena *a, const Kernel *k);
  /* Whole texts with all kernels of a set; *n is how many. */
  const char **(*texts)(const KernelSet *set, size_t *n);
  /* False after a diagnostic.  Free with kernel_image_free. */
  bool (*compile)(const KernelCompile *how, const char *const *texts, size_t n, KernelImage *out);
  /* The text of --emit=schedule. */
  void (*schedule)(Arena *a, const struct ArtifactProgram *program, Text *t);
} KernelTarget;

const KernelTarget *kernel_target(const DeviceTraits *d);

void kernel_image_free(KernelImage *image);

#endif
