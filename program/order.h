/* program/order.h - does the communication of a Program fit together, and does every step run to its end?
 *
 * Pure functions on an opened Program; the compiler calls them on everything it builds, tests on everything they
 * change.
 *
 * Checked for one entry:
 *   transfers where forward and backward of several micro-batches take turns, each end of a transfer between stages is
 *             a body of its own
 *   pairs     what a stage sends to another one and what that one receives are the same sequence of (key, micro-batch)
 *   keys      a key names one instruction of a stage, done once per micro-batch (and round); in two stages only a send
 *             and its recv
 *   events    a wait follows what it waits for; no event is issued again before its wait; in a loop both are in one
 *             round
 *   progress  the step runs to its end although every operation is a rendezvous: it ends only when all its members are
 *             at it, however small, and a rank makes one after the other.  With an event a rank computes beside it, but
 *             its queue of communication stands still all the same.  So there is a list of all transfers of which every
 *             stage follows its part
 *   sizes     see traffic.h; only with symbols
 *
 * Why stages suffice.  All ranks of a stage run the same schedule without guards on communication, and a pair group
 * joins ranks of equal coordinates.  So ranks of a stage are always at the same place, members of a group within a
 * stage meet in any order, and what can differ is the order between stages.
 *
 * Why two rounds of a loop suffice.  A loop has no pairs, so it stops nobody, and the second round leaves everything as
 * the first one did.
 *
 * Why one simulation suffices.  An operation that can end can do so whatever else ends first, so all orders of progress
 * reach the same last state.
 */
#ifndef APC_PROGRAM_ORDER_H
#define APC_PROGRAM_ORDER_H

#include "program/program.h"

/* symbols[n_symbols], or NULL: sizes are not compared.  RT_INTERNAL names rank, instruction and what is wrong. */
RtStatus order_check(const Program *p, uint32_t entry, const int64_t *symbols, RtError *error);

/* All entries, with the default size of every symbol; sizes only when the model can have these (traffic_has_sizes). */
RtStatus order_check_all(const Program *p, RtError *error);

#endif
