/* runtime/launch/regroup.h - ranks of a launcher that meet again when their number changes: after one is lost, when one
 * leaves, or when others wait to be taken in.
 *
 * They meet by files in a folder that all machines share, FOLDER/elastic.  A process that takes part has a file there,
 * and holds a lock on it as long as it lives, so the others see who is there and who has died.  Meetings are numbered;
 * the first process to come to meeting K makes K/leader, waits for the others, and writes K/plan, which gives the
 * processes their ranks: as many as the largest number that the program has a plan for.  The others, and processes that
 * come later, wait until rank 0 finds them (regroup_waiting) and ends the round.
 *
 * Then each process starts its program again (exec), as that rank of that world, and they meet at K/meeting as ranks do
 * at any file (rendezvous.h), with the run's secret if it has one.  So no state of the broken run is left in it.
 *
 * Not done: a meeting without a shared folder.
 */
#ifndef APC_RUNTIME_LAUNCH_REGROUP_H
#define APC_RUNTIME_LAUNCH_REGROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "program/status.h"

typedef struct Regroup {
  const char *folder; /* of the checkpoints */
  int rank, world;    /* of this process in the last round */
  int local_rank, local_world;
  const uint32_t *worlds; /* numbers of ranks that the program has plans for */
  int n_worlds;
  char *const *argv;
  uint64_t run; /* regroup_run */
} Regroup;

/* Returns what tells this run from others that train in the folder: the launcher's name for it, and its program. */
uint64_t regroup_run(const char *name, uint64_t program);

/* Returns the number of the present round: 0 as the launcher started it, or that of the meeting it comes from. */
int regroup_round(void);

/* Rank 0 of a round, after it has met the others: marks the round as alive until this process ends; round 0 removes
 * what earlier runs have left, and fails if another one is alive. */
RtStatus regroup_alive(const char *folder, uint64_t run, RtError *error);
/* Rank 0, at the end of a run whose ranks meet again: removes all files of meetings, and no others. */
void regroup_end(const char *folder);

/* *late: a round of another process is alive there, so that this process, which the launcher started (again), has to
 * wait for its end.  RT_FAILED if that is the round of another run. */
RtStatus regroup_is_late(const char *folder, uint64_t run, bool *late, RtError *error);

/* Rank 0: returns how many processes wait to be taken in. */
int regroup_waiting(const char *folder);

/* Meets the others and starts the program again as a rank of the next round.  `lost`: ranks are missing, an unknown
 * number; else all of the last round come, or leave.  Returns only with an error, or RT_OK if the run has ended while
 * this process waited for a place. */
RtStatus regroup_next(const Regroup *r, bool lost, RtError *error);

/* For a rank that leaves the run while the others go on: tells them that it does not come. */
void regroup_leave(const Regroup *r);

/* As regroup_next for a process that regroup_is_late: waits until a round ends. */
RtStatus regroup_wait(const Regroup *r, RtError *error);

/* Returns the largest number of ranks that there is a plan for, at most `most`; 0 if there is none. */
int regroup_world(const uint32_t *worlds, int n, int most);

#endif
