/* passes/cost/comm.h - the cost of communication inside a group of ranks on a target.
 *
 * A collective has several algorithms (ring, tree, in the switches, direct), each with protocols of their own latency
 * and share of the links.  The time of each is linear in the bytes; the cheapest counts.  Its figures come from the
 * target's `protocols` blocks.  A tier without protocols is priced as a ring with the tier's latency per step and full
 * bandwidth, plus the launch.
 */
#ifndef APC_PASSES_COST_COMM_H
#define APC_PASSES_COST_COMM_H

#include "ir/target.h"
#include "program/comm.h"

/* How a group lies on the tiers: the number of its ranks in one block of each tier.  The last block holds all. */
typedef struct CommGroup {
  int inside[MAX_TIERS];
} CommGroup;

/* Returns the group of n consecutive ranks. */
CommGroup cost_group_block(const Target *t, int n);

typedef struct CommWay {
  double fixed, per_byte;
} CommWay;

typedef struct CommCosts {
  int n; /* ranks of the group */
  int nways[COMM_KIND_COUNT];
  CommWay ways[COMM_KIND_COUNT][MAX_PROTOCOLS];
} CommCosts;

/* Returns the costs of every kind of communication in the group. */
CommCosts cost_comms(const Target *t, const CommGroup *g);
/* Returns the seconds of a collective, 0 for a group of one rank.  `bytes` is the whole buffer of one rank: the result
 * of an all-gather, the operand of all others. */
double cost_comm_seconds(const CommCosts *c, CommKind kind, double bytes);

/* Returns the seconds of one message between two ranks of a block of `span` consecutive ranks. */
double cost_send_seconds(const Target *t, int span, double bytes);
/* The same between ranks of the kind with the fastest links. */
double cost_send_least(const Target *t, int span, double bytes);

#endif
