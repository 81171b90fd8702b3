/* runtime/session/host.c - the host's side of a session, see session.h: memory, commands, stopping.
 *
 * The caller's thread gives commands and waits; the keeper (keeper.c) owns the processes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "runtime/session/host.h"
#include "runtime/session/quota.h"

enum { IO_ALIGN = 1 << 16, HOST_SLEEP_MS = 500, DEFAULT_TIMEOUT_MS = 60000 };

static size_t round_up(size_t bytes) { return (bytes + IO_ALIGN - 1) / IO_ALIGN * IO_ALIGN; }

/* ---- memory ---- */

/* Enlarges the memory file; beyond a limit on the size of files the system would send a signal. */
static RtStatus enlarge(int fd, size_t bytes, RtError *error) {
  struct rlimit limit;
  if (bytes > (size_t)LLONG_MAX || (getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur))
    return rt_error(error, RT_FAILED, "%zu bytes of shared memory exceed the file size limit (ulimit -f)", bytes);
  if (ftruncate(fd, (off_t)bytes) != 0) return rt_error_errno(error, RT_FAILED, "%zu bytes of shared memory", bytes);
  return RT_OK;
}

static RtStatus create_memory(Session *s, const SessionOptions *o, int cores, RtError *error) {
  size_t transport_offset = round_up(sizeof(SessionControl));
  size_t io_offset = round_up(transport_offset + transport_local_bytes(o->world));
  int made = memfd_create("apc-session", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  s->fd = made < 0 ? -1 : fcntl(made, F_DUPFD_CLOEXEC, 3); /* standard ones may be missing */
  if (made >= 0) close(made);
  if (s->fd < 0) return rt_error_errno(error, RT_FAILED, "creating shared memory (memfd_create)");
  RtStatus status = enlarge(s->fd, io_offset, error);
  if (status != RT_OK) return status;
  fcntl(s->fd, F_ADD_SEALS, F_SEAL_SHRINK); /* so that no mapped page can disappear */
  SessionControl *c = mmap(NULL, io_offset, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
  if (c == MAP_FAILED) return rt_error_errno(error, RT_FAILED, "mapping %zu bytes of shared memory", io_offset);
  c->magic = SESSION_MAGIC;
  c->transport_offset = transport_offset;
  c->io_offset = io_offset;
  c->world = o->world;
  c->host_pid = getpid();
  c->crowded = o->world > cores;
  c->hands_on = o->hands_on;
  c->may_leave = o->may_leave;
  s->control = c;
  return RT_OK;
}

static bool is_running(const Session *s) {
  return s->commands && atomic_load(&s->control->finished) < (uint32_t)s->options.world;
}

RtStatus session_io(Session *s, size_t bytes, void **area, RtError *error) {
  SessionControl *c = s->control;
  if (bytes > s->io_bytes) {
    if (is_running(s)) return rt_error(error, RT_INTERNAL, "session_io: a command is running");
    if (bytes > (size_t)LLONG_MAX / 2)
      return rt_error(error, RT_FAILED, "inputs and outputs of %zu bytes are too large", bytes);
    size_t size = round_up(bytes);
    RtStatus status = enlarge(s->fd, c->io_offset + size, error);
    if (status != RT_OK) return status;
    void *io = s->io ? mremap(s->io, s->io_bytes, size, MREMAP_MAYMOVE)
                     : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, (off_t)c->io_offset);
    if (io == MAP_FAILED) return rt_error_errno(error, RT_FAILED, "mapping %zu bytes of inputs and outputs", size);
    s->io = io;
    s->io_bytes = size;
    c->io_bytes = size;
  }
  *area = s->io;
  return RT_OK;
}

/* ---- how the ranks are started ---- */

/* Gives the CPUs that this process may use; false if the kernel does not report them (more than CPU_MOST). */
static bool allowed_cpus(CpuMask *mask) {
  memset(mask, 0, sizeof *mask);
  return sched_getaffinity(0, sizeof *mask, (cpu_set_t *)mask) == 0;
}

static bool has_cpu(const CpuMask *mask, int cpu) { return mask->words[cpu / CPU_WORD] >> (cpu % CPU_WORD) & 1; }

static int count_cpus(const CpuMask *mask) {
  int n = 0;
  for (int i = 0; i < CPU_MOST; i++) n += has_cpu(mask, i);
  return n;
}

/* Returns the CPUs that it may use at the same time. */
static int core_count(void) {
  CpuMask mask;
  long n = allowed_cpus(&mask) ? count_cpus(&mask) : sysconf(_SC_NPROCESSORS_ONLN);
  int quota = quota_cpus("");
  if (quota && quota < n) return quota;
  return n < 1 ? 1 : (int)n;
}

int session_threads_per_rank(int world) {
  int cores = core_count();
  return cores > world ? cores / world : 1;
}

/* Assigns rank r its share: allowed CPUs number floor(r C / N) up to floor((r + 1) C / N). */
static void share_cpus(Session *s) {
  CpuMask mask;
  int world = s->options.world;
  if (s->options.no_pinning || !allowed_cpus(&mask) || count_cpus(&mask) < world) return;
  int cores = count_cpus(&mask), number = 0;
  s->pinned = true;
  for (int cpu = 0; cpu < CPU_MOST; cpu++) {
    if (!has_cpu(&mask, cpu)) continue;
    int rank = ((number + 1) * world - 1) / cores;
    s->ranks[rank].cpus.words[cpu / CPU_WORD] |= 1ul << (cpu % CPU_WORD);
    number++;
  }
}

static bool is_variable(const char *entry, const char *name) {
  size_t n = strlen(name);
  return strncmp(entry, name, n) == 0 && entry[n] == '=';
}

static bool is_ours(const char *entry) {
  return is_variable(entry, SESSION_FD_VARIABLE) || is_variable(entry, "OMP_NUM_THREADS");
}

static bool is_about_waiting(const char *entry) {
  return is_variable(entry, "OMP_WAIT_POLICY") || is_variable(entry, "GOMP_SPINCOUNT");
}

/* Copies the host's environment, with our variables replaced.  Waiting threads sleep: a spinning one takes the core
 * from the thread it waits for as soon as others want a core, and then the scheduler no longer favours it when it has
 * work (bench/results/cpu.md). */
static bool build_environment(Session *s) {
  size_t n = 0, k = 0;
  while (environ && environ[n]) n++;
  s->envp = calloc(n + 4, sizeof *s->envp);
  if (!s->envp) return false;
  bool chosen = false;
  for (size_t i = 0; i < n; i++) {
    bool waiting = is_about_waiting(environ[i]);
    if (is_ours(environ[i]) || (waiting && s->control->crowded)) continue;
    s->envp[k++] = environ[i];
    chosen |= waiting;
  }
  snprintf(s->fd_text, sizeof s->fd_text, SESSION_FD_VARIABLE "=%d", s->fd);
  int threads = s->options.threads ? s->options.threads : session_threads_per_rank(s->options.world);
  snprintf(s->threads_text, sizeof s->threads_text, "OMP_NUM_THREADS=%d", threads);
  s->envp[k++] = s->fd_text;
  s->envp[k++] = s->threads_text;
  if (!chosen) s->envp[k++] = (char *)(uintptr_t) "OMP_WAIT_POLICY=passive";
  return true;
}

/* Builds PATH ARGS... --rank R --world N; R is filled in per rank. */
static bool build_arguments(Session *s, const SessionOptions *o) {
  size_t n = 0, k = 0;
  while (o->args && o->args[n]) n++;
  s->argv = calloc(n + 6, sizeof *s->argv);
  if (!s->argv) return false;
  s->argv[k++] = (char *)(uintptr_t)s->path;
  for (size_t i = 0; i < n; i++) s->argv[k++] = (char *)(uintptr_t)o->args[i];
  snprintf(s->world_text, sizeof s->world_text, "%d", o->world);
  s->argv[k++] = (char *)(uintptr_t) "--rank";
  s->argv[k++] = s->rank_text;
  s->argv[k++] = (char *)(uintptr_t) "--world";
  s->argv[k++] = s->world_text;
  return true;
}

/* ---- starting, commands, stopping ---- */

static void free_session(Session *s) {
  if (s->io) munmap(s->io, s->io_bytes);
  if (s->control) munmap(s->control, s->control->io_offset);
  if (s->fd >= 0) close(s->fd);
  free(s->argv);
  free(s->envp);
  free(s->kept);
  free(s->path);
  pthread_mutex_destroy(&s->lock);
  free(s);
}

static RtStatus prepare(Session *s, const SessionOptions *o, RtError *error) {
  if (o->world < 1 || o->world > SESSION_MAX_RANKS)
    return rt_error(error, RT_UNSUPPORTED, "%d ranks on one machine; 1 to %d are supported", o->world,
                    SESSION_MAX_RANKS);
  RtStatus status = create_memory(s, o, core_count(), error);
  if (status != RT_OK) return status;
  s->path = strdup(o->path);
  if (o->program) snprintf(s->program_text, sizeof s->program_text, "/proc/self/fd/%d", o->program);
  s->kept = calloc((size_t)o->n_kept + 1, sizeof *s->kept);
  if (!s->path || !s->kept || !build_arguments(s, o) || !build_environment(s))
    return rt_error(error, RT_FAILED, "out of memory");
  s->kept[s->n_kept++] = s->fd;
  for (int i = 0; i < o->n_kept; i++) s->kept[s->n_kept++] = o->kept[i];
  share_cpus(s);
  return RT_OK;
}

RtStatus session_start(const SessionOptions *o, Session **out, RtError *error) {
  Session *s = calloc(1, sizeof *s);
  if (!s) return rt_error(error, RT_FAILED, "out of memory");
  s->fd = -1;
  s->options = *o;
  if (s->options.timeout_ms <= 0) s->options.timeout_ms = DEFAULT_TIMEOUT_MS;
  pthread_mutex_init(&s->lock, NULL);
  RtStatus status = prepare(s, o, error);
  if (status == RT_OK)
    s->lateness = (Lateness){.world = o->world,
                             .ranks = s->signs,
                             .timeout_ms = s->options.timeout_ms,
                             .stopped_ms = o->stopped_ms,
                             .slots = s->control->slots,
                             .command = &s->control->command,
                             .step_text = o->step_text,
                             .step_context = o->step_context};
  if (status == RT_OK) status = session_keeper_start(s, error);
  if (status != RT_OK) {
    free_session(s);
    return status;
  }
  *out = s;
  return RT_OK;
}

/* Returns the error with which the session ended. */
static RtStatus ended_error(Session *s, RtError *error) {
  pthread_mutex_lock(&s->lock);
  RtStatus status = rt_error(error, s->failure.status, "%s", s->failure.text);
  pthread_mutex_unlock(&s->lock);
  return status;
}

static void give_command(Session *s, SessionCommandKind kind, const void *payload, size_t bytes) {
  SessionControl *c = s->control;
  if (bytes) memcpy(c->payload, payload, bytes);
  c->kind = kind;
  c->payload_bytes = (uint32_t)bytes;
  atomic_store(&c->finished, 0);
  s->commands++;
  session_ring(&c->command);
}

RtStatus session_run(Session *s, const void *payload, size_t bytes, RtError *error) {
  if (atomic_load(&s->control->ended)) return ended_error(s, error);
  if (bytes > SESSION_PAYLOAD_BYTES)
    return rt_error(error, RT_INTERNAL, "session_run: a payload of %zu bytes; at most %d", bytes,
                    SESSION_PAYLOAD_BYTES);
  if (is_running(s)) return rt_error(error, RT_INTERNAL, "session_run: a command is running");
  give_command(s, SESSION_RUN, payload, bytes);
  return RT_OK;
}

RtStatus session_wait(Session *s, RtError *error) {
  SessionControl *c = s->control;
  for (;;) {
    uint32_t bell = atomic_load(&c->host_bell);
    if (!is_running(s)) return RT_OK;
    if (atomic_load(&c->ended)) return ended_error(s, error);
    session_sleep(&c->host_bell, bell, HOST_SLEEP_MS);
  }
}

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

RtStatus session_wait_for(Session *s, int ms, bool *done, RtError *error) {
  SessionControl *c = s->control;
  for (int64_t limit = now_ms() + ms;;) {
    uint32_t bell = atomic_load(&c->host_bell);
    *done = !is_running(s);
    if (*done) return RT_OK;
    if (atomic_load(&c->ended)) return ended_error(s, error);
    int64_t left = limit - now_ms();
    if (left <= 0) return RT_OK;
    session_sleep(&c->host_bell, bell, left < HOST_SLEEP_MS ? (int)left : HOST_SLEEP_MS);
  }
}

int session_leaving(const Session *s) { return (int)atomic_load(&s->control->leaving); }

int session_rank_pid(const Session *s, int rank) { return s->ranks[rank].pid; }

void session_forget(Session *s) {
  if (s) free_session(s);
}

void session_stop(Session *s) {
  if (!s) return;
  bool orderly = !is_running(s) && !atomic_load(&s->control->ended);
  atomic_store(&s->stopping, orderly ? STOP_ORDERLY : STOP_AT_ONCE); /* from here on the end of a rank is no failure */
  if (orderly) give_command(s, SESSION_EXIT, NULL, 0);
  session_ring(&s->control->watch_bell);
  pthread_join(s->keeper, NULL);
  free_session(s);
}
