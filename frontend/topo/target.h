/* frontend/topo/target.h - targets by name or from a .topo file (docs/targets.md).
 *
 * A name is that of a machine or target block of a built-in file (targets/, part of the binary), NAMExDEVICES, or a
 * path that ends in .topo (its last machine or target) or in .topoxDEVICES.  An exact name wins.
 */
#ifndef APC_FRONTEND_TOPO_TARGET_H
#define APC_FRONTEND_TOPO_TARGET_H

#include "base/arena.h"
#include "base/diag.h"
#include "ir/target.h"

/* How `source` begins in what `apc calibrate` writes (Target.measured). */
#define TARGET_MEASURED "measured by apc calibrate"

/* The target of that name; NULL after diagnostics (unknown names get the nearest one). */
const Target *topo_target_find(Diags *d, Arena *a, const char *name);
/* The same where blocks of a file come before the built-in ones of their names; NULL: no file. */
const Target *topo_target_find_with(Diags *d, Arena *a, const char *name, const char *file);

/* The last machine or target of a text; `ranks` > 0 takes that many devices (0: as it says).  NULL after
 * diagnostics. */
const Target *topo_target_parse(Diags *d, Arena *a, const char *file, const char *text, const char *name, int ranks);

/* The canonical text of everything a target is made of: parsed, it gives the same target.  NULL after diagnostics. */
const char *topo_target_text(Diags *d, Arena *a, const char *name, const char *file);

/* The same target for products of f32 values in another type; NULL when the device does not have it. */
const Target *topo_target_computing_in(Arena *a, const Target *t, ComputeType type);
/* It, paid for on other terms. */
const Target *topo_target_priced(Arena *a, const Target *t, PriceKind kind);
/* It, at so much an hour for a whole machine, by whose word. */
const Target *topo_target_costing(Arena *a, const Target *t, double usd_per_hour, const char *terms);
/* It, with kernels that are known but not built; itself where the target knows none. */
const Target *topo_target_assuming(Arena *a, const Target *t, bool trains);

/* The names of the built-in targets, in order; NULL after the last. */
const char *const *topo_target_names(Arena *a);

#endif
