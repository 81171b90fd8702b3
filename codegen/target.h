/* codegen/target.h - what code generation has of a kind of device: one record per row of ir/device.def, defined in
 * codegen/NAME/target.c.  The types its libraries multiply, the calls they have, what joins these and at which rate our
 * kernels run is in the row (ir/device.h), since passes decide and price by it.
 *
 * Units (codegen/rows/units.h) are the same for all; a record prints their kernels, says how they are launched, makes
 * whole texts of them and compiles these.
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
  const char *command;           /* the compiler that is run; NULL: the usual one */
  const char *dir;               /* where texts, objects and messages go */
  const TemporaryFolder *folder; /* where its own temporary files go */
  const char *arch;              /* the architecture, for devices that have several; else NULL */
  const Cache *cache;            /* where machine code is kept; NULL: nowhere */
} KernelCompile;

/* Machine code of all kernels, for one architecture (program/image.h). */
typedef struct KernelImage {
  ProgramImageKind kind;
  const char *arch;
  const void *data;
  size_t bytes;
  FileMap map; /* what holds `data`; no data where it is in the arena */
} KernelImage;

typedef struct KernelImages {
  KernelImage items[PIMAGE_COUNT];
  size_t n;
} KernelImages;

struct ArtifactProgram; /* codegen/artifact.h */

typedef struct KernelTarget {
  const char *language;       /* of its texts: "C", "CUDA" */
  const char *const *prelude; /* in front of every text */
  /* Does it print the kernel of that operation from a template?  Of every row of codegen/rows/templates.def. */
  bool (*has_template)(OpKind k);
  /* Adds the kernels of units to a set, and says of each unit how it is launched. */
  void (*print)(Module *m, const Func *l2, UnitList *units, KernelSet *set);
  /* A kernel's definition, complete behind the prelude. */
  const char *(*definition)(Arena *a, const Kernel *k);
  /* Whole texts with all kernels of a set; *n is how many. */
  const char **(*texts)(const KernelSet *set, size_t *n);
  /* An image of each kind that the compiler makes.  False after a diagnostic.  Free with kernel_images_free. */
  bool (*compile)(const KernelCompile *how, const char *const *texts, size_t n, KernelImages *out);
  /* Adds to a key what their bytes depend on beside the texts.  False: that is not known, so that nothing is kept. */
  bool (*identify)(const KernelCompile *how, CacheKey *k);
  /* Is what was compiled with `command` what the runtime, `stub`, can load, with every kernel of the Program?  False
   * after a diagnostic; NULL: nothing is looked at. */
  bool (*check)(const KernelCompile *how, const KernelImages *images, const Program *p, const FileMap *stub);
  /* Does the compiler work, before there is anything to compile?  False after a diagnostic. */
  bool (*ready)(Arena *a, Diags *d, const Cache *cache);
  /* The text of --emit=schedule: what the ranks of such devices get.  CPU ranks get the Program and make their lists of
   * device calls when sizes are known; for devices that programs do not run on yet it is the lists, at the sizes that
   * are planned for. */
  void (*schedule)(Arena *a, const struct ArtifactProgram *program, Text *t);
  /* Bytes that its library of products wants to multiply in, on that architecture (NULL: not known); NULL: it brings
   * its own. */
  uint64_t (*workspace)(const char *arch);
  /* The most bytes that its library of convolutions may work in, where there is one. */
  uint64_t conv_workspace;
} KernelTarget;

const KernelTarget *kernel_target(const DeviceTraits *d);

/* NULL when there is none of that kind. */
const KernelImage *kernel_image_of(const KernelImages *images, ProgramImageKind kind);
void kernel_images_free(KernelImages *images);

#endif
