/* tests/ranks/ranks.h - for test programs that are host and rank in one: the host starts itself again.
 *
 * main of such a program is `return ranks_main(argc, argv, host, command)`.  A rank opens a communicator and calls
 * `command` for every command of the host; its error is reported to the host. */
#ifndef APC_TESTS_RANKS_H
#define APC_TESTS_RANKS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/comm/cpu.h"
#include "runtime/session/session.h"

typedef struct RankContext {
  int rank, world;
  SessionRank *session;
  Comm *comm;
  int everyone; /* the group of all ranks */
} RankContext;

typedef RtStatus RankCommand(RankContext *r, const SessionCommand *command, RtError *error);

static inline RtStatus ranks_open(RankContext *r, RtError *error) {
  RtStatus status = session_rank_open(r->rank, r->world, &r->session, error);
  if (status != RT_OK) return status;
  Transport *transport;
  status = session_rank_transport(r->session, &transport, error);
  if (status != RT_OK) return status;
  CommOptions options = {.progress = session_rank_progress(r->session)};
  status = comm_cpu_open(transport, &options, &r->comm, error);
  if (status != RT_OK) return status;
  int members[SESSION_MAX_RANKS];
  for (int i = 0; i < r->world; i++) members[i] = i;
  return comm_group(r->comm, members, r->world, &r->everyone, error);
}

static inline RtStatus ranks_serve(RankContext *r, RankCommand *command, RtError *error) {
  for (;;) {
    SessionCommand c;
    RtStatus status = session_rank_next(r->session, &c, error);
    if (status != RT_OK || c.kind == SESSION_EXIT) return status;
    status = command(r, &c, error);
    if (status != RT_OK) return status;
    session_rank_finish(r->session);
  }
}

static inline int ranks_main(int argc, char **argv, int (*host)(int, char **), RankCommand *command) {
  RankContext r = {0};
  for (int i = 1; i + 1 < argc; i++) {
    if (strcmp(argv[i], "--rank") == 0) r.rank = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--world") == 0) r.world = atoi(argv[i + 1]);
  }
  if (r.world == 0) return host(argc, argv);
  RtError error = {0};
  if (ranks_open(&r, &error) == RT_OK) ranks_serve(&r, command, &error);
  if (error.status != RT_OK && r.session) session_rank_fail(r.session, &error);
  if (error.status != RT_OK && !r.session) fprintf(stderr, "%s\n", error.text);
  comm_close(r.comm);
  session_rank_close(r.session);
  return rt_exit_code(error.status);
}

static inline double ranks_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* splitmix64: the same numbers on every rank from the same seed. */
static inline uint64_t ranks_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

#endif
