/* runtime/exec/share.h - one copy in memory of weights that several ranks of a machine hold.
 *
 * The memory of weights has the same offsets on all ranks of a stage (program/memory.h).  Where the ranks hold equal
 * bytes, the same part of a stored weight or panels of it, whole pages of that memory are mapped from one anonymous
 * file, which the ranks inherit from their host.  Before a rank reads a piece, it has either written the piece itself,
 * or seen the flag of another rank that had; the flags follow the weights in the file.  Ranks begin at different
 * pieces, so that each writes its share and finds the rest written.  No rank waits for another: a piece that two ranks
 * write at the same time gets the same bytes from both, and a rank that fails leaves nothing inconsistent.
 *
 * Not shared: results of @prepare; weights of convolutions, which a library may reorder in place; ranks under a
 * launcher.
 */
#ifndef APC_RUNTIME_EXEC_SHARE_H
#define APC_RUNTIME_EXEC_SHARE_H

#include "program/memory.h"

/* Creates the file for the host, as large as the weights of all stages; its pages are allocated when ranks write them.
 * -1 if stages have one rank, or if the system has no such files or limits their size: then every rank has memory of
 * its own. */
int exec_share_create(const Program *p);

/* Computes how many bytes of a stage's weights are in that file, and so exist once for all ranks of the stage.
 * RT_FAILED without memory. */
RtStatus exec_share_bytes(const Program *p, uint32_t stage, const MemoryPlan *plan, uint64_t *bytes, RtError *error);

#endif
