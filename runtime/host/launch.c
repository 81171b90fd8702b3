/* runtime/host/launch.c - the part of apc_runtime.h for launchers. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/lost_pages.h"

#include "runtime/host/host.h"
#include "runtime/launch/regroup.h"

/* Called after a file that this rank has mapped was truncated.  The other ranks learn of its end as of any other. */
static void end_lost(const char *path, void *context) {
  const ApcLaunch *l = context;
  RtError error = {0};
  rt_error(&error, RT_FAILED, "rank %d: %s was truncated while in use", l->place.rank, path);
  if (l->stuck) l->stuck(rt_exit_code(RT_FAILED), error.text);
  _exit(rt_exit_code(RT_FAILED));
}

/* Goes on to the Program for that number of processes, unless the open one is. */
static RtStatus choose_world(const Launch *p, Artifact *a, RtError *error) {
  static const char self[] = "/proc/self/exe", name[] = "this program";
  Artifact other;
  RtError none = {0};
  const uint32_t ranks = a->program.ranks;
  if ((uint32_t)p->world == ranks) return RT_OK;
  RtStatus status = artifact_open_for(self, name, p->world, false, &other, &none);
  if (!status) {
    artifact_close(a);
    *a = other;
    return RT_OK;
  }
  if (a->n_worlds > 1) return rt_error(error, status, "%s started %d processes: %s", p->by, p->world, none.text);
  return rt_error(error, RT_USAGE,
                  "%s started %d processes, but this program was compiled for %u rank%s; start as many, or compile it "
                  "with another --target",
                  p->by, p->world, ranks, ranks == 1 ? "" : "s");
}

/* The other ranks wait for this one, and learn about a fault of its program when they meet: until then the fault is
 * *unable, and no error. */
static RtStatus open_program(ApcLaunch *l, RtError *unable) {
  RtStatus status = artifact_open("/proc/self/exe", "this program", &l->artifact, &l->error);
  if (!status) status = choose_world(&l->place, &l->artifact, &l->error);
  if (!status || l->place.world == 1) return status;
  *unable = l->error;
  l->error = (RtError){0};
  return RT_OK;
}

/* ---- ranks that meet again */

/* Fills the description of this process; `worlds` has room for all numbers. */
static Regroup regroup_of(const ApcLaunch *l, uint32_t *worlds) {
  Artifact a;
  RtError none = {0};
  Regroup r = {.folder = l->elastic,
               .rank = l->place.rank,
               .world = l->place.world,
               .local_rank = l->place.local_rank,
               .local_world = l->place.local_world,
               .worlds = worlds,
               .argv = l->argv};
  if (artifact_open_tables("/proc/self/exe", "this program", &a, &none)) return r;
  r.n_worlds = a.n_worlds;
  r.run = regroup_run(l->place.run, a.program.header->table_hash);
  memcpy(worlds, a.worlds, sizeof a.worlds);
  artifact_close(&a);
  return r;
}

/* A process that the launcher has started while a round is alive waits for the next one. */
static RtStatus join(ApcLaunch *l) {
  uint32_t worlds[ARTIFACT_MOST_WORLDS];
  bool late;
  if (!l->elastic) return RT_OK;
  Regroup r = regroup_of(l, worlds);
  RtStatus status = regroup_is_late(l->elastic, r.run, &late, &l->error);
  if (status || !late) return status;
  status = regroup_wait(&r, &l->error);
  l->ended = !status;
  return status;
}

bool host_launch_meets(const ApcLaunch *l, int code) {
  return l && l->elastic && l->launched && (code == LAUNCH_REGROUP || launched_lost(l->launched));
}

void host_launch_leave(ApcLaunch *l, int code) {
  launched_close(l->launched, code);
  l->launched = NULL;
}

ApcStatus host_launch_again(ApcLaunch *l, int code, bool leaves) {
  uint32_t worlds[ARTIFACT_MOST_WORLDS];
  Regroup r = regroup_of(l, worlds);
  if (leaves) {
    regroup_leave(&r);
    return APC_OK;
  }
  l->error = (RtError){0};
  return (ApcStatus)rt_exit_code(regroup_next(&r, code != LAUNCH_REGROUP, &l->error));
}

ApcStatus apc_launch(const ApcLaunchOptions *o, ApcLaunch **launch) {
  ApcLaunch *l = *launch = calloc(1, sizeof *l);
  if (!l) return APC_FAILED;
  LaunchFlags flags = {o->rank, o->world, o->rendezvous, o->transport};
  LaunchedOptions options = {.weights = o->weights,
                             .tune = o->tune,
                             .timeout_ms = o->timeout_ms,
                             .asked = o->asked,
                             .insecure = o->insecure != 0,
                             .stuck = o->stuck};
  RtStatus status = launch_find(&flags, &l->place, &l->error);
  l->stuck = o->stuck;
  l->argv = o->argv;
  l->elastic = l->place.world > 1 && l->place.transport == LAUNCH_TCP ? o->elastic : NULL;
  options.elastic = l->elastic != NULL;
  l->owner = getpid();
  if (!status) status = join(l);
  if (l->ended) return APC_OK;
  bool alone = !status && l->place.world == 1; /* the environment of one process says nothing about ranks */
  if (!status && (!alone || o->rank >= 0)) status = open_program(l, &options.unable);
  if (!status && alone) {
    apc_launch_close(l, 0);
    *launch = NULL;
    return APC_OK;
  }
  if (status) return (ApcStatus)rt_exit_code(status);
  lost_pages_handle(end_lost, l);
  status = launched_open(&l->place, &l->artifact, &options, &l->launched, &l->error);
  if (!status && l->elastic && l->place.rank == 0) {
    uint32_t worlds[ARTIFACT_MOST_WORLDS];
    status = regroup_alive(l->elastic, regroup_of(l, worlds).run, &l->error);
  }
  return (ApcStatus)rt_exit_code(status);
}

int apc_launch_rank(const ApcLaunch *l) { return l->place.rank; }

const char *apc_launch_error(const ApcLaunch *l) { return l ? l->error.text : "out of memory"; }

const char *apc_launch_warning(const ApcLaunch *l) { return l && l->launched ? launched_warning(l->launched) : ""; }

ApcStatus apc_launch_serve(ApcLaunch *l, int *code) {
  if (l->owner != getpid())
    return (ApcStatus)rt_exit_code(
        rt_error(&l->error, RT_USAGE, "the launch was opened before a fork; only the parent process can use it"));
  return (ApcStatus)rt_exit_code(launched_serve(l->launched, code, &l->error));
}

int apc_launch_tells(const ApcLaunch *l) {
  return !l || (l->launched ? launched_tells(l->launched) : l->place.local_rank == 0);
}

void apc_launch_close(ApcLaunch *l, int code) {
  if (!l) return;
  if (l->owner == getpid()) launched_close(l->launched, code); /* threads and connections belong to the parent */
  artifact_close(&l->artifact);
  free(l);
}
