/* passes/cost/comm.h - what communication inside a group of ranks costs on a target.
 *
 * A collective may be run in several ways (ring, tree, in the switches, directly; each with protocols of their own
 * latency and share of the links).  Each way is a straight line over the bytes, and the cheapest one counts; its
 * figures come from the target's `protocols` blocks.  A tier without protocols is a ring with its latency per step, at
 * its full bandwidth, plus the launch.
 */
#ifndef APC_PASSES_COST_COMM_H
#define APC_PASSES_COST_COMM_H

#include "ir/target.h"
#include "program/comm.h"

/* A group by how it lies on the tiers: how many of its ranks one block of each tier holds.  The last holds all. */
typedef struct CommGroup {
  int inside[MAX_TIERS];
} CommGroup;

/* n consecutive ranks. */
CommGroup cost_group_block(const Target *t, int n);

typedef struct CommWay {
  double fixed, per_byte;
} CommWay;

typedef struct CommCosts {
  int n; /* ranks of the group */
  int nways[COMM_KIND_COUNT];
  CommWay ways[COMM_KIND_COUNT][MAX_PROTOCOLS];
} CommCosts;

CommCosts cost_comms(const Target *t, const CommGroup *g);
/* 0 for a group of one rank.  `bytes` are those of the whole buffer of one rank: an all-gather's result, the operand of
 * the others. */
double cost_comm_seconds(const CommCosts *c, CommKind kind, double bytes);

/* One message between two ranks of a block of `span` consecutive ones. */
double cost_send_seconds(const Target *t, int span, double bytes);
/* The same between ranks of the kind that does it fastest. */
double cost_send_least(const Target *t, int span, double bytes);

#endif
