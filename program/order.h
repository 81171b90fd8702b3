/* program/order.h - checks that the communication of a Program matches and that every step terminates.
 *
 * Pure functions on an opened Program; the compiler calls them on everything it builds, tests on everything they
 * change.
 *
 * Checked for one entry:
 *   transfers with interleaved forward and backward micro-batches, each end of a transfer between stages is a body of
 *             its own
 *   pairs     the sends of a stage to another one and the receives of that one are the same sequence of
 *             (key, micro-batch)
 *   keys      a key names one instruction of a stage, executed once per micro-batch (and round); in two stages only a
 *             send and its recv
 *   events    a wait follows the communication it waits for; no event is issued again before its wait; in a loop both
 *             are in one round
 *   progress  the step terminates although every operation is a rendezvous: it ends only when all members have
 *             reached it, however small it is, and a rank issues one after another.  With an event a rank computes
 *             meanwhile, but its queue of communication is blocked all the same.  So there is one order of all
 *             transfers that contains the order of every stage
 *   sizes     see traffic.h; only with symbols
 *
 * Why stages suffice.  All ranks of a stage run the same schedule without guards on communication, and a pair group
 * joins ranks of equal coordinates.  So ranks of a stage are always at the same place, members of a group within a
 * stage meet in any order, and only the order between stages can differ.
 *
 * Why two rounds of a loop suffice.  A loop has no pairs, so it blocks no stage, and the second round leaves the same
 * state as the first.
 *
 * Why one simulation suffices.  An operation that can end can do so whatever else ends first, so all orders of progress
 * reach the same final state.
 */
#ifndef APC_PROGRAM_ORDER_H
#define APC_PROGRAM_ORDER_H

#include "program/program.h"

/* Checks one entry.  symbols[n_symbols]; NULL: sizes are not compared.  RT_INTERNAL names rank, instruction and
 * fault. */
RtStatus order_check(const Program *p, uint32_t entry, const int64_t *symbols, RtError *error);

/* Checks all entries with the default size of every symbol; sizes only if the model can have these
 * (traffic_has_sizes). */
RtStatus order_check_all(const Program *p, RtError *error);

#endif
