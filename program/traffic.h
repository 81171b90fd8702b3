/* program/traffic.h - how many bytes ranks send each other, from the Program alone.
 *
 * Independent of the executor: sizes come from the extents of every member's own tensors, under its own
 * coordinates, and are compared between sender and receiver.
 */
#ifndef APC_PROGRAM_TRAFFIC_H
#define APC_PROGRAM_TRAFFIC_H

#include "program/comm.h"
#include "program/program.h"

/* For every communication of an entry, micro-batch and group: do the two sides of each message agree about its
 * bytes and element type, and do the parts make up the whole?  RT_INTERNAL names rank, instruction and sizes. */
RtStatus traffic_check(const Program *p, uint32_t entry, const int64_t *symbols, RtError *error);

/* Can the model have these sizes: is every extent of every tensor, on every rank, defined and not negative?  (With a
 * window of 3, an image of 1 pixel cannot be.) */
bool traffic_has_sizes(const Program *p, const int64_t *symbols);

/* Adds to sent[kind] the payload bytes that `rank` sends to other ranks in one step of the entry, with the collectives
 * of CPU ranks (runtime/comm/cpu.c).  Exact for what is outside loops; a loop counts as making the most rounds it
 * names, or one. */
RtStatus traffic_sent(const Program *p, uint32_t entry, uint32_t rank, const int64_t *symbols,
                      uint64_t sent[COMM_KIND_COUNT], RtError *error);

#endif
