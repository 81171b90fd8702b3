/* runtime/launch/launched.h - ranks that a launcher started, one process each, perhaps on several machines.
 *
 * Each process is a rank; that of rank 0 is the host as well: it reads the inputs, decides what runs, writes the
 * outputs.  The counterpart of runtime/session/session.h, where the host starts the ranks and shares memory with them.
 *
 *   rank 0                                        the others
 *   launched_open                                 launched_open
 *   launched_start; then per request:             launched_serve:
 *     launched_io, inputs into it                   loads the weights when told, then per command
 *     launched_run                                  receives sizes and inputs, runs, sends its parts of the outputs
 *   launched_close                                launched_close
 *
 * Commands, inputs and parts of outputs travel through the communicator of the program, between its requests, so that
 * everything here works over every transport, and one thread does all of it.  Inputs go to every rank whole; outputs
 * come back as the parts that each rank wrote.
 */
#ifndef APC_RUNTIME_LAUNCH_LAUNCHED_H
#define APC_RUNTIME_LAUNCH_LAUNCHED_H

#include <signal.h>

#include "program/artifact.h"
#include "runtime/launch/launch.h"
#include "runtime/exec/request.h"
#include "runtime/net/watch.h"

typedef struct Launched Launched;

typedef struct LaunchedOptions {
  const char *weights;                /* another file with the weights, or NULL */
  int timeout_ms;                     /* 0: 60000 */
  const volatile sig_atomic_t *asked; /* not 0 when this process was asked to end; NULL: nobody looks */
  bool insecure;                      /* ranks without a secret may meet over a network */
  RtError unable;                     /* not RT_OK: why this rank cannot take part, which the others are to learn */
  WatchStuck stuck; /* ends the process when it does not end by itself after a failure; without it MPI's own waits have
                       no limit */
} LaunchedOptions;

/* Meets the other ranks, opens and checks the files of the weights, and compares with the others what all need to have
 * in common (same_run.h).  With `unable` it only meets and says so, and fails: RT_USAGE stands for a program for
 * another number of ranks, any other status for a program that cannot be read (`artifact` is then zero). */
RtStatus launched_open(const Launch *place, const Artifact *artifact, const LaunchedOptions *options, Launched **out,
                       RtError *error);

/* What the user should know of this run, told once; "" for nothing. */
const char *launched_warning(const Launched *l);

/* Rank 0: loads its weights. */
RtStatus launched_start(Launched *l, RtError *error);

/* Rank 0: the I/O area of the next request, with the layout of RequestLayout. */
RtStatus launched_io(Launched *l, size_t bytes, void **area, RtError *error);

/* Rank 0: runs a request on all ranks.  `layout`: of the request (NULL for a reset); `send_inputs`: they are new. */
RtStatus launched_run(Launched *l, const RequestHead *head, const int64_t *symbols, const RequestLayout *layout,
                      bool send_inputs, RtError *error);

/* Rank 0: runs a request whose inputs or outputs are in a file. */
RtStatus launched_run_file(Launched *l, const RequestHead *head, const int64_t *symbols, const RequestFile *file,
                           RtError *error);

/* Rank 0: was one of the ranks asked to end, as far as the last request told? */
bool launched_asked(const Launched *l);

/* Rank 0: what all ranks give (request_gives) into all[world * bytes]. */
RtStatus launched_given(Launched *l, const RequestHead *head, void *all, size_t bytes, RtError *error);

/* The other ranks: serves until rank 0 leaves; *code is what it left with. */
RtStatus launched_serve(Launched *l, int *code, RtError *error);

/* How many ranks are on this machine, as far as known: 1 at least. */
int launched_here(const Launched *l);

/* After an error: is it this process's to tell?  One per machine tells what all know; who fails alone tells it as
 * well. */
bool launched_tells(const Launched *l);

/* Rank 0 tells the others to leave with `code`; after an error every rank makes all of them end.  NULL is allowed. */
void launched_close(Launched *l, int code);

#endif
