/* frontend/topo/target_build.h - from checked blocks to a Target.  frontend/topo/target.c finds blocks by name. */
#ifndef APC_FRONTEND_TOPO_TARGET_BUILD_H
#define APC_FRONTEND_TOPO_TARGET_BUILD_H

#include "frontend/topo/library.h"
#include "ir/target.h"

/* The blocks that a machine consists of, each once, before the blocks that use it. */
enum { MOST_DEVICES = 999999 };
enum { TARGET_PARTS = 24, TARGET_DEVICES = 4, TARGET_MACHINES = 8 };
typedef struct TargetParts {
  const TopoBlock *machine;
  int ndevices;
  const TopoBlock *devices[TARGET_DEVICES]; /* in the order of the machine's statements */
  const TopoBlock *all[TARGET_PARTS];
  int n;
} TargetParts;

/* Collects the blocks that a machine block names.  False after diagnostics. */
bool topo_target_parts(Diags *d, TopoLibrary *l, const TopoBlock *machine, TargetParts *out);

/* The machines of a target: one, or several with their network. */
typedef struct TargetMachines {
  int n;
  TargetParts parts[TARGET_MACHINES];
  int times[TARGET_MACHINES];
  const TopoBlock *target;    /* NULL for a single machine */
  const TopoBlock *protocols; /* of the network; NULL if none */
} TargetMachines;

/* Collects the blocks that a target block names.  False after diagnostics. */
bool topo_target_machines(Diags *d, TopoLibrary *l, const TopoBlock *target, TargetMachines *out);

/* The number of devices of one machine. */
int topo_machine_devices(const TopoBlock *machine);

/* Builds a target of `ranks` devices; 0 takes one whole machine, or all of several.  NULL after diagnostics. */
const Target *topo_target_build(Diags *d, Arena *a, const TargetMachines *machines, const char *name, int ranks);

#endif
