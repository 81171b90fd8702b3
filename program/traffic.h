/* program/traffic.h - how many bytes ranks send each other, from the Program alone.
 *
 * Independent of the executor: sizes come from the extents of every member's own tensors, under its own
 * coordinates, and are compared between sender and receiver.
 */
#ifndef APC_PROGRAM_TRAFFIC_H
#define APC_PROGRAM_TRAFFIC_H

#include "program/comm.h"
#include "program/program.h"

/* Checks every communication of an entry, micro-batch and group: the two sides of each message agree about its bytes
 * and element type, and the parts make up the whole.  RT_INTERNAL names rank, instruction and sizes. */
RtStatus traffic_check(const Program *p, uint32_t entry, const int64_t *symbols, RtError *error);

/* True if the model can have these sizes: every extent of every tensor, on every rank, is defined and not negative.
 * (With a window of 3, an image of 1 pixel is impossible.) */
bool traffic_has_sizes(const Program *p, const int64_t *symbols);

/* Adds to sent[kind] the payload bytes that `rank` sends to other ranks in one step of the entry, with the collectives
 * of CPU ranks (runtime/comm/cpu.c).  Exact outside loops; a loop counts as running its maximum number of rounds, or
 * one if it has none. */
RtStatus traffic_sent(const Program *p, uint32_t entry, uint32_t rank, const int64_t *symbols,
                      uint64_t sent[COMM_KIND_COUNT], RtError *error);

#endif
