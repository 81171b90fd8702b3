/* runtime/launch/launch.h - is this process one of several that a launcher started, and which?
 *
 * Read in this order, the first that is there counts: --rank and --world, APC_*, torchrun's, Open MPI's, PMI's, and
 * Slurm's variables, the last only inside a step of srun (a batch script has them as well, for itself).
 */
#ifndef APC_RUNTIME_LAUNCH_LAUNCH_H
#define APC_RUNTIME_LAUNCH_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

#include "program/status.h"

typedef enum LaunchTransport { LAUNCH_TCP, LAUNCH_MPI } LaunchTransport;

/* From the command line. */
typedef struct LaunchFlags {
  int rank, world;        /* -1: not given */
  const char *rendezvous; /* HOST:PORT or FILE; NULL */
  const char *transport;  /* "tcp" or "mpi"; NULL */
} LaunchFlags;

enum { LAUNCH_ADDRESS = 512, LAUNCH_RUN = 256 };

typedef struct Launch {
  int rank, world;             /* world 1: started alone */
  int local_rank, local_world; /* on this machine, as far as known; else 0 and 1 */
  const char *by;              /* who said so */
  LaunchTransport transport;
  char address[LAUNCH_ADDRESS]; /* HOST:PORT or a file; LAUNCH_TCP only */
  char run[LAUNCH_RUN]; /* what tells this run from others, the same for all its ranks: APC_RUN_ID, or what the launcher
                           calls it; "" */
} Launch;

/* RT_USAGE when what is said makes no sense, or the ranks have no address to meet at. */
RtStatus launch_find(const LaunchFlags *flags, Launch *out, RtError *error);

/* The first host of a Slurm node list such as "gpu[003-005,9],x1": "gpu003".  False when it has none that fits. */
bool launch_first_host(const char *list, char *host, size_t size);

/* Sets OMP_NUM_THREADS to this process's share of the CPUs it may use, unless somebody has chosen it, and returns it.
 * Before the first thread. */
int launch_share_cores(const Launch *l, bool *chosen);

#endif
