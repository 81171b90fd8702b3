/* frontend/target.h - targets by name or from a .topo file.
 *
 * A name is `cpu`, `cpuxN`, NAME, NAMExRANKS (an exact name wins), or a path that ends in .topo.  The built-in targets are the files of
 * targets/, part of the binary.  The format of a .topo file:
 *
 *   cpu NAME { cores 2; mem 16 GB at 45 GB/s; launch 5 us; peak f32 220 GFLOPS; arch avx512; }    # gpu NAME { ... } alike
 *   node NAME { 8 gpu NAME; link nvlink 300 GB/s each-way latency 1 us; }                         # 1 cpu NAME; ranks 4;
 *   cluster NAME { 4 node NAME; link ib 25 GB/s each-way latency 5 us; }
 *
 * The last block is the target.  A cpu's figures (and its node's link) are those of the whole machine: its ranks share them evenly, and
 * when there are more ranks than cores every latency grows by that ratio.  All other rates are per device and direction.
 * Facts that are left out are unknown; peak f32, mem and link are needed.
 */
#ifndef APC_FRONTEND_TARGET_H
#define APC_FRONTEND_TARGET_H

#include "base/arena.h"
#include "base/diag.h"
#include "ir/target.h"

/* The target of that name; NULL after diagnostics (unknown names get the nearest ones). */
const Target *target_find(Diags *d, Arena *a, const char *name);

/* Parses the text of a .topo file; `ranks` > 0 takes that many (0: all).  NULL after diagnostics. */
const Target *target_parse(Diags *d, Arena *a, const char *file, const char *text, const char *name, int ranks);

/* The names of the built-in targets, in order; NULL after the last. */
const char *const *target_names(void);
/* The text of a built-in target, NULL when there is none. */
const char *target_text(const char *name);

#endif
