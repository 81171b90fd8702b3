/* runtime/launch/same_run.h - whether all ranks of a run are about to do the same: compared when they can talk, before
 * any work.
 *
 * Compared are the program (its tables, which have the hashes of its kernels and weights; each rank has checked its own
 * bytes against them), the runtime in front of it, the weights in effect, all of their bytes, and what in the
 * environment changes bits: oneDNN's precision and instructions, the number of threads.  Where nobody has chosen a
 * number of threads all take the least that one would have taken.  Not compared, because machines may differ in them:
 * the instructions of the processor and the version of oneDNN; they can change the last places of products, the same
 * way in every run on the same machines.
 */
#ifndef APC_RUNTIME_LAUNCH_SAME_RUN_H
#define APC_RUNTIME_LAUNCH_SAME_RUN_H

#include <stdint.h>

#include "program/status.h"

enum { SAME_RUN_VARIABLES = 6, SAME_RUN_VALUE = 32 }; /* a longer value is cut */

/* What a rank tells of itself; sent as it is. */
typedef struct RankIdentity {
  uint64_t magic, identity_bytes;
  uint32_t rank, world;
  uint64_t program, program_bytes; /* hash of the tables, size of the image */
  uint32_t ranks, status;          /* compiled for; not RT_OK: what this rank has cannot be used, and `text` says why */
  uint64_t runtime;                /* hash of its machine code and constants */
  uint64_t weights;                /* hash of the weights in effect */
  int32_t threads;                 /* of a rank */
  uint32_t threads_chosen;         /* 1: by the user */
  char values[SAME_RUN_VARIABLES][SAME_RUN_VALUE];
  char text[RT_ERROR_TEXT];
} RankIdentity;

/* A hash of what is mapped of the program or library that this runtime is in, as far as it cannot be written to. */
uint64_t runtime_build(void);

/* Begins one: all but program, ranks, weights, threads, status and text. */
RankIdentity rank_identity(int rank, int world);

/* Compares all with rank 0's.  RT_BAD_INPUT names the first rank that differs, and in what; a rank's own failure keeps
 * its status.  RT_USAGE when the program of all is for another number of ranks. */
RtStatus launch_same_run_check(const RankIdentity *all, int world, RtError *error);

/* With how many threads each computes, after that. */
int launch_same_run_threads(const RankIdentity *all, int world);

#endif
