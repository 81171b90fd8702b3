/* runtime/launch/launched.h - ranks that a launcher started, one process each, perhaps on several machines.
 *
 * Each process is a rank.  Rank 0 is also the host: it reads the inputs, decides what to run, and writes the outputs.
 * This is the counterpart of runtime/session/session.h, where the host starts the ranks and shares memory with them.
 *
 *   rank 0                                        the others
 *   launched_open                                 launched_open
 *   launched_start; then per request:             launched_serve:
 *     launched_io, inputs into it                   loads the weights on command, then per command
 *     launched_run                                  receives sizes and inputs, runs, sends its parts of the outputs
 *   launched_close                                launched_close
 *
 * Commands, inputs and parts of outputs travel through the communicator of the program, between its requests, so that
 * all of this works over every transport, on one thread.  Every rank gets whole inputs; each returns the parts of the
 * outputs that it wrote.
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
  const char *weights; /* another file with the weights; NULL if there is none */
  const char *tune;    /* file of choices; NULL if there is none */
  int timeout_ms;      /* 0: 60000 */
  const volatile sig_atomic_t
      *asked;       /* 1 when this process was asked to end the run, 2: to leave it; NULL: never asked */
  bool elastic;     /* ranks meet again when some are lost (regroup.h): stopped ones are lost soon */
  bool insecure;    /* ranks without a secret may meet over a network */
  RtError unable;   /* not RT_OK: why this rank cannot take part, for the other ranks */
  WatchStuck stuck; /* ends the process if it does not end by itself after a failure; without it MPI's own waits have no
                     * limit */
} LaunchedOptions;

/* Meets the other ranks, opens and checks the files of the weights, and compares everything that all ranks must have in
 * common (same_run.h).  With `unable` it only meets, reports the reason and fails: RT_USAGE stands for a program for
 * another number of ranks, any other status for a program that cannot be read (`artifact` is then zero).  *out is set
 * even after an error, unless there is no memory. */
RtStatus launched_open(const Launch *place, const Artifact *artifact, const LaunchedOptions *options, Launched **out,
                       RtError *error);

/* Returns a warning about this run for the user; "" if there is none. */
const char *launched_warning(const Launched *l);

/* Rank 0: loads the weights on all ranks, once. */
RtStatus launched_start(Launched *l, RtError *error);

/* Rank 0: gives the I/O area of the next request, with the layout of RequestLayout. */
RtStatus launched_io(Launched *l, size_t bytes, void **area, RtError *error);

/* Rank 0: runs a request on all ranks.  `layout`: of the request (NULL for a reset); `send_inputs`: they have
 * changed. */
RtStatus launched_run(Launched *l, const RequestHead *head, const int64_t *symbols, const RequestLayout *layout,
                      bool send_inputs, RtError *error);

/* Rank 0: runs a request whose inputs or outputs are in a file. */
RtStatus launched_run_file(Launched *l, const RequestHead *head, const int64_t *symbols, const RequestFile *file,
                           RtError *error);

/* Rank 0: true if a rank had been asked to end at the last request. */
bool launched_asked(const Launched *l);

/* Rank 0: returns how many ranks had been asked to leave the run at the last request (*asked 2). */
int launched_leaving(const Launched *l);
/* True if its ranks meet again when their number changes. */
bool launched_elastic(const Launched *l);
/* True if the run ended because another rank was lost or failed, and this one can go on. */
bool launched_lost(const Launched *l);

/* Rank 0: collects the blocks of all ranks (request_gives) in all[world * bytes]. */
RtStatus launched_given(Launched *l, const RequestHead *head, void *all, size_t bytes, RtError *error);

/* Other ranks: serves requests until rank 0 leaves; *code is the exit code that rank 0 sent. */
RtStatus launched_serve(Launched *l, int *code, RtError *error);

/* Returns the number of ranks on this machine as far as known, at least 1. */
int launched_here(const Launched *l);

/* True if this process should print its error: one per machine prints errors that all know; a rank that fails alone
 * prints its own as well. */
bool launched_tells(const Launched *l);

/* After a failure: waits until this rank has written a file that it writes beside requests. */
void launched_end_file(Launched *l);
/* For rank 0: the seconds that the others may take for it; true if that rank has ended, or is rank 0. */
double launched_file_s(const Launched *l);
uint64_t launched_written(const Launched *l); /* changes with every piece that ranks write: then the time begins anew */
bool launched_gone(const Launched *l, int rank);

/* Frees everything.  Rank 0 makes the others leave with `code`; after an error any rank ends all.  NULL is allowed. */
void launched_close(Launched *l, int code);

#endif
