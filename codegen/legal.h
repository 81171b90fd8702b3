/* codegen/legal.h - level 2 legalised for a device, and its units: stages `legalise` and `kernels` of the driver.
 *
 * In: for each entry its level-1 and level-2 function, both in one module with its mesh.  Out of legalise: per entry
 * and stage the operations that the device's libraries and kernels perform (codegen/rows/row_work.h).  Out of
 * kernels_print: the same as units, with the texts of their kernels and their launches.
 */
#ifndef APC_CODEGEN_LEGAL_H
#define APC_CODEGEN_LEGAL_H

#include "codegen/kernel_set.h"
#include "codegen/panels.h"
#include "codegen/rows/units.h"
#include "codegen/target.h"
#include "ir/schedule.h"

/* The predicted times of an entry, in seconds. */
typedef struct ProgramTimes {
  const double *ops; /* by operation of level 2: of one execution */
  double request;    /* of a whole request, as the plan says */
  double launch;     /* to start a kernel */
  double bandwidth;  /* of memory, in bytes per second */
} ProgramTimes;

typedef struct ProgramEntrySpec {
  const char *name;
  const Func *l1, *l2;
} ProgramEntrySpec;

typedef struct ProgramSource {
  Module *m;
  int nentries;
  const ProgramEntrySpec *entries;
  const Func *prepare_l1,
      *prepare_l2;            /* @prepare, which runs once at loading; NULL if no entry reads a prepared weight */
  const DeviceTraits *device; /* the device it is legalised for */
  const ScheduleWork *phases; /* stage times, for the order of interleaved forward and backward; NULL: equal */
  const char *arch;           /* of its devices, if there are several; NULL if unknown */
  bool tf32;                  /* f32 products may round their operands to tf32 (--dtype tf32) */
  uint64_t workspace, conv_workspace; /* bytes of scratch in which its libraries multiply and convolve; 0 if unknown */
  bool embed; /* weights read from files are embedded; else the Program names them by path, size and hash */
  const ProgramTimes *times; /* by entry: predicted times; NULL if unknown */
  bool unread;               /* neither: their files are not opened, for a Program that is shown and not written */
} ProgramSource;

typedef struct LegalBody {
  const ProgramEntrySpec *entry;
  int stage;
  bool prepare;
  struct Work *work;
  UnitList *units; /* NULL before kernels_print */
} LegalBody;

typedef struct Legal {
  ProgramSource source;
  ProgramEntrySpec prepare; /* as an entry */
  int n;
  LegalBody *bodies; /* by entry, then by stage; those of @prepare, if any, come last */
  PanelWeights panels;
  KernelSet kernels; /* of all bodies; number in the set = number in the Program */
} Legal;

/* Legalises all entries; kernels_print then makes their units and kernels.  Everything lives in the module's arena. */
Legal *legalise(const ProgramSource *source);
void kernels_print(Legal *l);

/* Adds to `m`, a copy of the module without them, the legalised entries as functions of level 2, called NAME.legal, and
 * to `remarks` a comment per call of a library (legal_print.c).  The printed text parses back and can be proved. */
void codegen_legal_add_funcs(const Legal *l, Module *m, Text *remarks, Diags *diags);

#endif
