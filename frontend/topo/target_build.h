/* frontend/topo/target_build.h - from checked blocks to a Target; what frontend/topo/target.c finds by name. */
#ifndef APC_FRONTEND_TOPO_TARGET_BUILD_H
#define APC_FRONTEND_TOPO_TARGET_BUILD_H

#include "frontend/topo/library.h"
#include "ir/target.h"

/* The blocks a target is made of; each block once, what is used before what uses it. */
enum { TARGET_PARTS = 8 };
typedef struct TargetParts {
  const TopoBlock *machine, *device;
  const TopoBlock *all[TARGET_PARTS];
  int n;
} TargetParts;

/* Follows the names in a machine block.  False after diagnostics. */
bool topo_target_parts(Diags *d, TopoLibrary *l, const TopoBlock *machine, TargetParts *out);

/* `ranks` devices of the machine (0: one whole machine).  NULL after diagnostics. */
const Target *topo_target_build(Diags *d, Arena *a, const TargetParts *parts, const char *name, int ranks);

#endif
