/* runtime/same_run.h - whether all ranks of a run are about to do the same: compared when they can talk, before any work.
 *
 * Compared are the program (its tables, which have the hashes of its kernels and weights; each rank has checked its own bytes against
 * them), the runtime in front of it, and the weights in effect, all of their bytes.  Not compared, because machines may differ in them: the number of
 * threads, the instructions of the processor, the version of oneDNN; they can change the last places of products, the same way in every run on
 * the same machines.
 */
#ifndef APC_RUNTIME_SAME_RUN_H
#define APC_RUNTIME_SAME_RUN_H

#include <stdint.h>

#include "runtime/status.h"

/* What a rank tells of itself; sent as it is. */
typedef struct RankIdentity {
  uint64_t magic, identity_bytes;
  uint32_t rank, world;
  uint64_t program, program_bytes; /* hash of the tables, size of the image */
  uint64_t runtime;                /* which build of it */
  uint64_t weights;                /* hash of the weights in effect */
  uint32_t status, reserved;       /* not RT_OK: what this rank has cannot be used, and `text` says why */
  char text[RT_ERROR_TEXT];
} RankIdentity;

/* Of the running program: a hash of its build id (ld --build-id), which follows from its machine code. */
uint64_t runtime_build(void);

/* Begins one: all but program to text. */
RankIdentity rank_identity(int rank, int world);

/* Compares all with rank 0's.  RT_BAD_INPUT names the first rank that differs, and in what; a rank's own failure keeps its status. */
RtStatus same_run_check(const RankIdentity *all, int world, RtError *error);

#endif
