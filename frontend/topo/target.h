/* frontend/topo/target.h - finds targets by name or in a .topo file (docs/guide/targets.md).
 *
 * A name is that of a machine or target block of a built-in file (targets/, part of the binary), NAMExDEVICES, or a
 * path that ends in .topo (its last machine or target) or in .topoxDEVICES.  An exact name wins.  Machines that are
 * found (found.h) take xDEVICES at the end of their names in the same way.
 */
#ifndef APC_FRONTEND_TOPO_TARGET_H
#define APC_FRONTEND_TOPO_TARGET_H

#include "base/arena.h"
#include "base/diag.h"
#include "ir/target.h"

/* The beginning of `source` in files that `apc calibrate` writes (Target.measured). */
#define TARGET_MEASURED "measured by apc calibrate"

/* Returns the target of that name; NULL after diagnostics (an unknown name gets the nearest one as help). */
const Target *topo_target_find(Diags *d, Arena *a, const char *name);
/* The same; blocks of `file` take precedence over built-in ones of the same name.  NULL: no file. */
const Target *topo_target_find_with(Diags *d, Arena *a, const char *name, const char *file);

/* True if a name asks for a file, or for this machine, to be read. */
bool topo_target_is_read(Arena *a, const char *name);

/* Returns the last machine or target of a text with `ranks` > 0 devices (0: as many as it says).  NULL after
 * diagnostics. */
const Target *topo_target_parse(Diags *d, Arena *a, const char *file, const char *text, const char *name, int ranks);

/* Returns the canonical text of all blocks of a target; parsing it gives the same target.  NULL after diagnostics. */
const char *topo_target_text(Diags *d, Arena *a, const char *name, const char *file);

/* The same target for products of f32 values in another type; NULL if the device does not support it. */
const Target *topo_target_computing_in(Arena *a, const Target *t, ComputeType type);
/* The same target, paid for on other terms. */
const Target *topo_target_priced(Arena *a, const Target *t, PriceKind kind);
/* The same target at a price per hour for a whole machine; `terms` says where the price comes from. */
const Target *topo_target_costing(Arena *a, const Target *t, double usd_per_hour, const char *terms);
/* The same target with kernels that are known but not built; `t` itself if the target knows none. */
const Target *topo_target_assuming(Arena *a, const Target *t, bool trains);

/* The names of the built-in targets in order, NULL after the last. */
const char *const *topo_target_names(Arena *a);

#endif
