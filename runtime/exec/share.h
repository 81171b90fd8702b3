/* runtime/exec/share.h - weights that ranks on one machine hold alike are in memory once.
 *
 * Memory of weights lies at the same offsets on all ranks of a stage (program/memory.h).  Where the ranks hold equal
 * bytes, the same part of a stored weight or panels of it, whole pages of that memory are mapped from one anonymous
 * file, which the ranks inherit from their host.  Before it reads any of them, a rank has written each piece itself, or
 * seen that another rank had: then a flag of the piece is set, behind the weights in the file.  Ranks begin at
 * different pieces, so that each writes its share and finds the rest there.  Nobody waits for anybody: a piece that two
 * write at the same time gets the same bytes from both, and a rank that fails leaves nothing half done.
 *
 * Not shared: what @prepare computes; weights of convolutions, which a library may put into a layout of its own where
 * they lie; ranks under a launcher.
 */
#ifndef APC_RUNTIME_EXEC_SHARE_H
#define APC_RUNTIME_EXEC_SHARE_H

#include "program/memory.h"

/* The file, as large as the weights of all stages, for the host to hand on; nothing of it is in memory before ranks
 * write to it.  -1: stages have one rank, or the system has no such file or limits its size: then every rank has
 * memory of its own. */
int exec_share_create(const Program *p);

/* How much of the memory of weights of a stage's plan is that file's, and so there once for all ranks of the stage. */
RtStatus exec_share_bytes(const Program *p, uint32_t stage, const MemoryPlan *plan, uint64_t *bytes, RtError *error);

#endif
