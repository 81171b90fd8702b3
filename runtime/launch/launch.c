/* runtime/launch/launch.c - see launch.h. */
#define _GNU_SOURCE
#include "runtime/launch/launch.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/session/session.h"

/* In the order of the search.  `inside` must be set as well; `mpi`: its ranks are MPI processes. */
typedef struct Launcher {
  const char *by, *rank, *world, *local_rank, *local_world, *inside;
  bool mpi;
  const char *run[2]; /* both parts of its name for the run */
} Launcher;

static const Launcher launchers[] = {
    {"APC_RANK", "APC_RANK", "APC_WORLD_SIZE", "APC_LOCAL_RANK", "APC_LOCAL_WORLD_SIZE", NULL, false, {NULL}},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", NULL, false, {"TORCHELASTIC_RUN_ID"}},
    {"mpirun",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     NULL,
     true,
     {"PMIX_NAMESPACE"}},
    {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, true, {NULL}},
    {"srun",
     "PMIX_RANK",
     "SLURM_NTASKS",
     "SLURM_LOCALID",
     NULL,
     "SLURM_STEP_ID",
     true,
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
    {"srun",
     "SLURM_PROCID",
     "SLURM_NTASKS",
     "SLURM_LOCALID",
     NULL,
     "SLURM_STEP_ID",
     false,
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};

/* Ports below those that Linux gives to outgoing connections (32768 and above). */
enum { LAUNCHERS = sizeof launchers / sizeof *launchers, SLURM_PORTS = 12000, SLURM_FIRST_PORT = 20000 };

static const char *variable(const char *name) {
  const char *text = name ? getenv(name) : NULL;
  return text && *text ? text : NULL;
}

static bool whole(const char *text, long min, long max, int *out) {
  char *end;
  errno = 0;
  long v = strtol(text, &end, 10);
  if (!*text || *end || errno || v < min || v > max) return false;
  *out = (int)v;
  return true;
}

/* Numbers near the top stand for batch scripts and the like, which are no steps of srun. */
static bool is_step(const char *text) {
  int id;
  return text && whole(text, 0, INT_MAX, &id);
}

static bool is_there(const Launcher *l) {
  return variable(l->rank) && variable(l->world) && (!l->inside || is_step(variable(l->inside)));
}

/* Names the run.  A name that is too long is truncated: runs that differ only after that count as equal. */
static void name_run(const Launcher *l, Launch *out) {
  const char *chosen = variable("APC_RUN_ID"), *first = l ? variable(l->run[0]) : NULL,
             *second = l ? variable(l->run[1]) : NULL;
  if (chosen) snprintf(out->run, sizeof out->run, "APC_RUN_ID %s", chosen);
  else if (first) snprintf(out->run, sizeof out->run, "%s %s %s", l->by, first, second ? second : "");
}

static RtStatus take_variables(const Launcher *l, Launch *out, RtError *error) {
  const char *rank = variable(l->rank), *world = variable(l->world), *tasks = variable("SLURM_TASKS_PER_NODE");
  if (!whole(world, 1, INT_MAX, &out->world) || !whole(rank, 0, out->world - 1, &out->rank))
    return rt_error(error, RT_USAGE, "%s=%s and %s=%s are not a rank and a number of ranks", l->rank, rank, l->world,
                    world);
  out->by = l->by;
  name_run(l, out);
  out->transport = l->mpi ? LAUNCH_MPI : LAUNCH_TCP;
  if (variable(l->local_rank)) whole(variable(l->local_rank), 0, INT_MAX, &out->local_rank);
  if (variable(l->local_world)) whole(variable(l->local_world), 1, INT_MAX, &out->local_world);
  else if (l->inside && tasks) out->local_world = atoi(tasks) > 0 ? atoi(tasks) : 1; /* "2(x3)": two on each of three */
  return RT_OK;
}

static RtStatus find_place(const LaunchFlags *f, Launch *out, RtError *error) {
  *out = (Launch){.world = 1, .local_world = 1, .by = "itself"};
  if ((f->rank < 0) != (f->world < 0)) return rt_error(error, RT_USAGE, "--rank and --world belong together");
  if (f->rank >= 0) {
    if (f->rank >= f->world)
      return rt_error(error, RT_USAGE, "there is no rank %d in a world of %d", f->rank, f->world);
    out->rank = f->rank;
    out->world = f->world;
    out->by = "--rank";
    name_run(NULL, out);
    return RT_OK;
  }
  for (int i = 0; i < LAUNCHERS; i++)
    if (is_there(&launchers[i])) return take_variables(&launchers[i], out, error);
  return RT_OK;
}

/* ---- the meeting place */

bool launch_first_host(const char *list, char *host, size_t size) {
  size_t stem = strcspn(list, "[,");
  const char *number = list[stem] == '[' ? list + stem + 1 : "";
  size_t digits = strcspn(number, "-,]"), tail = 0;
  const char *after = number[0] ? strchr(number, ']') : NULL;
  if (number[0] && !after) return false;
  if (after) tail = strcspn(after + 1, ",");
  if (stem + digits + tail == 0 || stem + digits + tail >= size) return false;
  memcpy(host, list, stem);
  memcpy(host + stem, number, digits);
  if (tail) memcpy(host + stem + digits, after + 1, tail);
  host[stem + digits + tail] = 0;
  return true;
}

static bool slurm_address(char *address) {
  char host[256];
  const char *nodes = variable("SLURM_STEP_NODELIST"), *job = variable("SLURM_JOB_ID");
  if (!is_step(variable("SLURM_STEP_ID"))) return false;
  if (!nodes) nodes = variable("SLURM_JOB_NODELIST");
  if (!nodes || !launch_first_host(nodes, host, sizeof host)) return false;
  unsigned long id = (job ? strtoul(job, NULL, 10) : 0) * 31 + strtoul(variable("SLURM_STEP_ID"), NULL, 10);
  snprintf(address, LAUNCH_ADDRESS, "%s:%lu", host, SLURM_FIRST_PORT + id % SLURM_PORTS);
  return true;
}

/* torchrun's agent may listen at its port itself; then ranks meet at the next port. */
static bool torch_address(char *address) {
  const char *host = variable("MASTER_ADDR"), *port = variable("MASTER_PORT"),
             *taken = variable("TORCHELASTIC_USE_AGENT_STORE");
  int number;
  if (!host || !port || !whole(port, 1, 65534, &number)) return false;
  bool six = strchr(host, ':') && *host != '['; /* brackets separate its end from the port */
  snprintf(address, LAUNCH_ADDRESS, six ? "[%s]:%d" : "%s:%d", host, number + (taken && strcmp(taken, "True") == 0));
  return true;
}

static bool find_address(const LaunchFlags *f, char *address) {
  const char *given = f->rendezvous ? f->rendezvous : variable("APC_ADDR");
  if (!given) return torch_address(address) || slurm_address(address);
  snprintf(address, LAUNCH_ADDRESS, "%s", given);
  return strlen(given) < LAUNCH_ADDRESS;
}

static const char *wanted_transport(const LaunchFlags *f) {
  return f->transport ? f->transport : variable("APC_TRANSPORT");
}

static RtStatus check_transport(const LaunchFlags *f, RtError *error) {
  const char *name = wanted_transport(f);
  if (!name || strcmp(name, "tcp") == 0 || strcmp(name, "mpi") == 0) return RT_OK;
  return rt_error(error, RT_USAGE, "the transport '%s' is neither tcp nor mpi", name);
}

static RtStatus choose_transport(const LaunchFlags *f, Launch *out, RtError *error) {
  const char *name = wanted_transport(f);
  if (name) out->transport = strcmp(name, "mpi") == 0 ? LAUNCH_MPI : LAUNCH_TCP;
  else if (f->rendezvous) out->transport = LAUNCH_TCP;
  if (out->transport == LAUNCH_MPI || find_address(f, out->address)) return RT_OK;
  return rt_error(error, RT_USAGE,
                  "rank %d of %d (%s) has no address to meet at: give all ranks the same "
                  "--rendezvous HOST:PORT (of rank 0) or --rendezvous FILE",
                  out->rank, out->world, out->by);
}

RtStatus launch_find(const LaunchFlags *f, Launch *out, RtError *error) {
  RtStatus status = find_place(f, out, error);
  if (!status) status = check_transport(f, error); /* even for one process, which needs none */
  if (!status && out->world == 1 && f->rank < 0 && f->rendezvous)
    return rt_error(error, RT_USAGE, "--rendezvous needs --rank and --world");
  return status || out->world == 1 ? status : choose_transport(f, out, error);
}

int launch_share_cores(const Launch *l, bool *chosen) {
  char text[32];
  const char *slurm = variable("SLURM_CPUS_PER_TASK");
  *chosen = variable("OMP_NUM_THREADS") != NULL;
  snprintf(text, sizeof text, "%d", session_threads_per_rank(l->local_world));
  setenv("OMP_NUM_THREADS", slurm ? slurm : text, !*chosen);
  setenv("OMP_WAIT_POLICY", "passive", 0);
  long n = strtol(variable("OMP_NUM_THREADS"), NULL, 10);
  return n < 1 ? 1 : n > INT_MAX ? INT_MAX : (int)n;
}
