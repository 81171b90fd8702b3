/* runtime/launch/same_run.h - checks, before any work, that all ranks of a run will do the same.
 *
 * The ranks compare: the program (its tables, which have the hashes of its kernels and weights; each rank has checked
 * its own bytes against them), the runtime in front of it, all bytes of the weights in effect, the file of
 * --tune, and the environment that changes bits: oneDNN's precision and instructions, the number of threads.  If no
 * rank has chosen a number of threads, all use the least number that one would have used.  Machines may differ in the
 * instructions of the processor and the version of oneDNN, which are not compared; they can change the last digits of
 * products, the same way in every run on the same machines.
 */
#ifndef APC_RUNTIME_LAUNCH_SAME_RUN_H
#define APC_RUNTIME_LAUNCH_SAME_RUN_H

#include <stdint.h>

#include "program/status.h"

enum { SAME_RUN_VARIABLES = 6, SAME_RUN_VALUE = 32 }; /* longer values are truncated */

/* A rank's description of itself, sent as it is in memory. */
typedef struct RankIdentity {
  uint64_t magic, identity_bytes;
  uint32_t rank, world;
  uint64_t program, program_bytes; /* hash of the tables, size of the image */
  uint32_t ranks, status;          /* number of ranks it was compiled for; not RT_OK: this rank cannot run, and `text`
                                    * is the reason */
  uint64_t runtime;                /* hash of its machine code and constants */
  uint64_t weights;                /* hash of the weights in effect */
  uint64_t tuning;                 /* hash of the file of --tune (runtime/device/tuning.h) */
  int32_t threads;                 /* of a rank */
  uint32_t threads_chosen;         /* 1: by the user */
  char values[SAME_RUN_VARIABLES][SAME_RUN_VALUE];
  char text[RT_ERROR_TEXT];
} RankIdentity;

/* Returns a hash of the read-only mapped parts of the program or library that contains this runtime. */
uint64_t runtime_build(void);

/* Begins an identity: all but program, ranks, weights, threads, status and text. */
RankIdentity rank_identity(int rank, int world);

/* Compares all ranks with rank 0.  RT_BAD_INPUT names the first rank that differs, and the difference; a rank's own
 * failure keeps its status.  RT_USAGE if the program of all ranks is for another number of ranks. */
RtStatus launch_same_run_check(const RankIdentity *all, int world, RtError *error);

/* Returns the number of threads of every rank, after that check. */
int launch_same_run_threads(const RankIdentity *all, int world);

#endif
