/* frontend/topo/target_build.h - from checked blocks to a Target; what frontend/topo/target.c finds by name. */
#ifndef APC_FRONTEND_TOPO_TARGET_BUILD_H
#define APC_FRONTEND_TOPO_TARGET_BUILD_H

#include "frontend/topo/library.h"
#include "ir/target.h"

/* The blocks a machine is made of; each block once, what is used before what uses it. */
enum { MOST_DEVICES = 999999 };
enum { TARGET_PARTS = 24, TARGET_DEVICES = 4, TARGET_MACHINES = 8 };
typedef struct TargetParts {
  const TopoBlock *machine;
  int ndevices;
  const TopoBlock *devices[TARGET_DEVICES]; /* in the order of the machine's statements */
  const TopoBlock *all[TARGET_PARTS];
  int n;
} TargetParts;

/* Follows the names in a machine block.  False after diagnostics. */
bool topo_target_parts(Diags *d, TopoLibrary *l, const TopoBlock *machine, TargetParts *out);

/* The machines of a target: one, or several with what joins them. */
typedef struct TargetMachines {
  int n;
  TargetParts parts[TARGET_MACHINES];
  int times[TARGET_MACHINES];
  const TopoBlock *target;    /* of several */
  const TopoBlock *protocols; /* of their network; NULL: none */
} TargetMachines;

/* Follows the names in a target block.  False after diagnostics. */
bool topo_target_machines(Diags *d, TopoLibrary *l, const TopoBlock *target, TargetMachines *out);

/* Devices of one machine. */
int topo_machine_devices(const TopoBlock *machine);

/* `ranks` devices (0: as many as one machine has, or as all of several have).  NULL after diagnostics. */
const Target *topo_target_build(Diags *d, Arena *a, const TargetMachines *machines, const char *name, int ranks);

#endif
