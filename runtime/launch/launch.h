/* runtime/launch/launch.h - finds out whether a launcher started this process as one of several, and which.
 *
 * The first of these that is set counts: --rank and --world, APC_*, torchrun's, Open MPI's, PMI's, and Slurm's
 * variables, the last only inside a step of srun (a batch script has them as well, for itself).
 */
#ifndef APC_RUNTIME_LAUNCH_LAUNCH_H
#define APC_RUNTIME_LAUNCH_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

#include "program/status.h"

typedef enum LaunchTransport { LAUNCH_TCP, LAUNCH_MPI } LaunchTransport;

/* Options of the command line. */
typedef struct LaunchFlags {
  int rank, world;        /* -1: not given */
  const char *rendezvous; /* HOST:PORT or FILE; NULL if not given */
  const char *transport;  /* "tcp" or "mpi"; NULL if not given */
} LaunchFlags;

enum { LAUNCH_ADDRESS = 512, LAUNCH_RUN = 256 };

typedef struct Launch {
  int rank, world;             /* world 1: started alone */
  int local_rank, local_world; /* on this machine if known, else 0 and 1 */
  const char *by;              /* the launcher, for messages */
  LaunchTransport transport;
  char address[LAUNCH_ADDRESS]; /* HOST:PORT or a file; LAUNCH_TCP only */
  char run[LAUNCH_RUN]; /* distinguishes this run from others, the same for all its ranks: APC_RUN_ID, or the launcher's
                         * name for it; "" if there is none */
} Launch;

/* Reads flags and environment.  RT_USAGE if they are inconsistent, or if the ranks have no address to meet at. */
RtStatus launch_find(const LaunchFlags *flags, Launch *out, RtError *error);

/* Gives the first host of a Slurm node list such as "gpu[003-005,9],x1": "gpu003".  False if it has none that fits. */
bool launch_first_host(const char *list, char *host, size_t size);

/* Returns OMP_NUM_THREADS after setting it to this process's share of its CPUs, unless the user has set it (*chosen).
 * Call it before the first thread starts. */
int launch_share_cores(const Launch *l, bool *chosen);

#endif
