/* tests/unit/runtime_session.c - the life of a session, and every way it may end.
 *
 * Ranks run an endless sequence of collectives until one is killed, stopped, late or reports an error; the test checks
 * the status, the rank and step named, the time until it is noticed, and that no process and no memory file is left. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ranks/ranks.h"
#include "tests/test.h"

enum { TIMEOUT_MS = 400, PATIENCE = 60 }; /* seconds, for work that takes two on an idle machine */

typedef enum Job {
  JOB_SUM,     /* adds the rank to each float of the I/O area's first half, sums into the second half */
  JOB_ENDLESS, /* collectives forever */
  JOB_FINITE,  /* collectives for about `milliseconds` */
  JOB_LOITER,  /* rank `rank` computes forever, the others wait for it */
  JOB_MISS,    /* rank `rank` takes steps forever, but never joins the collective */
  JOB_EXIT,    /* rank `rank` exits with code 3 */
  JOB_REPORT,  /* rank `rank` reports bad input, the others wait for it */
  JOB_THREADS, /* checks OMP_NUM_THREADS */
} Job;

typedef struct Payload {
  Job job;
  int rank, milliseconds;
  size_t count;
} Payload;

/* ---- ranks ---- */

static RtStatus all_reduce(RankContext *r, uint64_t key, const float *src, float *dst, size_t n, RtError *error) {
  CommBlock block = comm_contiguous(0, n * sizeof *src);
  CommOp op = {.kind = COMM_all_reduce,
               .group = r->everyone,
               .dtype = DT_f32,
               .reduction = COMM_RED_sum,
               .src = src,
               .dst = dst,
               .send = &block,
               .recv = &block};
  CommTicket ticket;
  RtStatus status = comm_enqueue(r->comm, key, &op, &ticket, error);
  return status == RT_OK ? comm_wait(r->comm, ticket, error) : status;
}

static RtStatus collectives(RankContext *r, double seconds, RtError *error) {
  static float values[30000];
  double end = ranks_now() + seconds;
  RtStatus status = RT_OK;
  float more = 1;
  for (uint32_t i = 0; status == RT_OK && more > 0; i++) {
    rank_place_step(session_rank_place(r->session), 100 + i % 7);
    status = all_reduce(r, i, values, values, i % 3 ? 100 : 30000, error);
    more = r->rank == 0 && ranks_now() < end;
    if (status == RT_OK) status = all_reduce(r, i, &more, &more, 1, error);
  }
  return status;
}

static RtStatus sum_job(RankContext *r, const SessionCommand *c, size_t n, RtError *error) {
  if (c->io_bytes < (1 + (size_t)r->world) * n * sizeof(float))
    return rt_error(error, RT_FAILED, "the I/O area is small");
  float *input = c->io, *mine = malloc(n * sizeof *mine);
  for (size_t i = 0; i < n; i++) mine[i] = input[i] * (float)(r->rank + 1);
  RtStatus status = all_reduce(r, 1, mine, input + n * (size_t)(r->rank + 1), n, error);
  free(mine);
  return status;
}

static RtStatus failing_job(RankContext *r, Job job, RtError *error) {
  rank_place_step(session_rank_place(r->session), 33);
  if (job == JOB_EXIT) _exit(3);
  if (job == JOB_REPORT) return rt_error(error, RT_BAD_INPUT, "weights.safetensors: no such tensor");
  for (uint32_t i = 0;; i++) {
    usleep(1000);
    if (job == JOB_MISS) rank_place_step(session_rank_place(r->session), 33 + i % 2);
  }
}

static RtStatus command(RankContext *r, const SessionCommand *c, RtError *error) {
  Payload p;
  memcpy(&p, c->payload, sizeof p);
  float one = 1;
  switch (p.job) {
    case JOB_SUM: return sum_job(r, c, p.count, error);
    case JOB_ENDLESS: return collectives(r, 1e9, error);
    case JOB_FINITE: return collectives(r, p.milliseconds / 1000.0, error);
    case JOB_THREADS: {
      const char *threads = getenv("OMP_NUM_THREADS");
      bool right = threads && atoi(threads) == p.rank;
      if (!right) return rt_error(error, RT_FAILED, "OMP_NUM_THREADS is %s", threads ? threads : "not set");
      const char *policy = getenv("OMP_WAIT_POLICY");
      bool passive = policy && strcmp(policy, "passive") == 0;
      return passive == (p.count == 0)
                 ? RT_OK
                 : rt_error(error, RT_FAILED, "OMP_WAIT_POLICY is %s", policy ? policy : "not set");
    }
    default: break;
  }
  if (r->rank == p.rank) return failing_job(r, p.job, error);
  rank_place_step(session_rank_place(r->session), 5);
  return all_reduce(r, 77, &one, &one, 1, error);
}

/* ---- host helpers ---- */

static void step_text(void *context, int rank, uint32_t step, char *text, size_t size) {
  (void)context;
  snprintf(text, size, "step text %d/%u", rank, step);
}

static Session *start(int world, int timeout_ms) {
  SessionOptions options = {.path = "/proc/self/exe", .world = world, .timeout_ms = timeout_ms, .step_text = step_text};
  Session *s = NULL;
  RtError error = {0};
  RtStatus status = session_start(&options, &s, &error);
  CHECKF(status == RT_OK, "%s", error.text);
  return status == RT_OK ? s : NULL;
}

static RtStatus run(Session *s, Payload p, RtError *error) {
  RtStatus status = session_run(s, &p, sizeof p, error);
  return status == RT_OK ? session_wait(s, error) : status;
}

/* Memory files of sessions that this process has open. */
static int open_memories(void) {
  int n = 0;
  DIR *d = opendir("/proc/self/fd");
  for (struct dirent *e; d && (e = readdir(d));) {
    char link[64] = "", path[300];
    snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
    if (readlink(path, link, sizeof link - 1) > 0 && strstr(link, "apc-session")) n++;
  }
  if (d) closedir(d);
  return n;
}

/* Shared-memory files with our name; there must never be one. */
static int shared_files(void) {
  int n = 0;
  DIR *d = opendir("/dev/shm");
  for (struct dirent *e; d && (e = readdir(d));) n += strstr(e->d_name, "apc") != NULL;
  if (d) closedir(d);
  return n;
}

/* Stops the session; none of its processes and no memory may be left. */
static void finish(Session *s, int world) {
  int pids[SESSION_MAX_RANKS];
  for (int i = 0; i < world; i++) pids[i] = session_rank_pid(s, i);
  session_stop(s);
  for (int i = 0; i < world; i++) CHECKF(kill(pids[i], 0) != 0 && errno == ESRCH, "rank %d is left", i);
  CHECK(open_memories() == 0 && shared_files() == 0);
}

/* ---- ordinary life ---- */

static void test_commands_and_io_area(void) {
  int world = 3;
  Session *s = start(world, 20000);
  if (!s) return;
  size_t counts[] = {10, 100000, 500, 3000000};
  for (int k = 0; k < 4; k++) {
    size_t n = counts[k];
    void *io = NULL;
    RtError error = {0};
    CHECKF(session_io(s, n * sizeof(float) * 4, &io, &error) == RT_OK, "%s", error.text);
    float *area = io;
    for (size_t i = 0; i < n; i++) area[i] = (float)(i % 1000);
    CHECKF(run(s, (Payload){.job = JOB_SUM, .count = n}, &error) == RT_OK, "%s", error.text);
    size_t wrong = 0;
    for (size_t i = 0; i < 3 * n; i++) wrong += area[n + i] != 6 * area[i % n];
    CHECKF(wrong == 0, "%zu wrong of %zu", wrong, n);
  }
  RtError error = {0};
  CHECK(session_run(s, NULL, SESSION_PAYLOAD_BYTES + 1, &error) == RT_INTERNAL);
  void *io;
  error = (RtError){0};
  CHECK(session_io(s, (size_t)1 << 62, &io, &error) == RT_FAILED);
  error = (RtError){0};
  CHECKF(run(s, (Payload){.job = JOB_SUM, .count = 10}, &error) == RT_OK, "%s", error.text);
  finish(s, world);
}

static void test_threads_per_rank(void) {
  for (int world = 1; world <= 4; world++) {
    Session *s = start(world, 20000);
    if (!s) return;
    RtError error = {0};
    RtStatus status = run(s, (Payload){.job = JOB_THREADS, .rank = session_threads_per_rank(world)}, &error);
    CHECKF(status == RT_OK, "%s", error.text);
    finish(s, world);
  }
  setenv("GOMP_SPINCOUNT", "77", 1); /* the user's setting is kept */
  Session *s = start(1, 20000);
  unsetenv("GOMP_SPINCOUNT");
  RtError error = {0};
  if (!s) return;
  CHECK(run(s, (Payload){.job = JOB_THREADS, .rank = session_threads_per_rank(1), .count = 1}, &error) == RT_OK);
  finish(s, 1);
}

static void test_bad_starts(void) {
  RtError error = {0};
  Session *s = NULL;
  SessionOptions options = {.path = "/nonexistent/model", .world = 2};
  CHECK(session_start(&options, &s, &error) == RT_FAILED);
  CHECKF(strstr(error.text, "/nonexistent/model") && strstr(error.text, "No such file"), "%s", error.text);
  options = (SessionOptions){.path = "/proc/self/exe", .world = SESSION_MAX_RANKS + 1};
  error = (RtError){0};
  CHECK(session_start(&options, &s, &error) == RT_UNSUPPORTED);
  for (int round = 0; round < 50; round++) { /* not an artifact: exits at once, sometimes before start returns */
    options = (SessionOptions){.path = "/bin/true", .world = 1 + round % 8};
    error = (RtError){0};
    CHECKF(session_start(&options, &s, &error) == RT_OK, "%s", error.text);
    CHECK(run(s, (Payload){.job = JOB_THREADS}, &error) == RT_FAILED);
    CHECKF(strstr(error.text, "exited with code 0 before it was ready"), "%s", error.text);
    session_stop(s);
  }
  SessionRank *rank = NULL;
  error = (RtError){0};
  CHECK(session_rank_open(0, 1, &rank, &error) == RT_USAGE); /* no session in the environment */
  CHECK(open_memories() == 0);
}

static void *start_in_thread(void *out) {
  *(Session **)out = start(2, 20000);
  return NULL;
}

/* The parent-death signal must not come when only the thread that opened the session ends. */
static void test_session_outlives_its_thread(void) {
  pthread_t thread;
  Session *s = NULL;
  pthread_create(&thread, NULL, start_in_thread, &s);
  pthread_join(thread, NULL);
  if (!s) return;
  usleep(50000);
  RtError error = {0};
  CHECKF(run(s, (Payload){.job = JOB_FINITE, .milliseconds = 50}, &error) == RT_OK, "%s", error.text);
  finish(s, 2);
}

/* ---- ends ---- */

static uint64_t seed = 20261121;

typedef struct Ending {
  RtStatus status;
  RtError error;
  double seconds; /* from the signal to the answer */
  int rank;
} Ending;

/* Sends a signal to a random rank in the middle of collectives. */
static Ending disturb(Session *s, int world, int signal_number) {
  Ending e = {.rank = (int)(ranks_random(&seed) % (uint64_t)world)};
  Payload p = {.job = JOB_ENDLESS};
  CHECK(run(s, (Payload){.job = JOB_FINITE, .milliseconds = 1}, &e.error) == RT_OK); /* all are ready */
  CHECK(session_run(s, &p, sizeof p, &e.error) == RT_OK);
  usleep((unsigned)(ranks_random(&seed) % 80000));
  double before = ranks_now();
  kill(session_rank_pid(s, e.rank), signal_number);
  e.status = session_wait(s, &e.error);
  e.seconds = ranks_now() - before;
  return e;
}

static void check_text(const Ending *e, const char *what) {
  char text[100];
  snprintf(text, sizeof text, what, e->rank);
  CHECKF(strstr(e->error.text, text), "\"%s\" is not in: %s", text, e->error.text);
  snprintf(text, sizeof text, " (step text %d/10", e->rank);
  CHECKF(strstr(e->error.text, text), "\"%s\" is not in: %s", text, e->error.text);
}

static void test_killed_rank(void) {
  for (int round = 0; round < 10; round++) {
    int world = 2 + round % 4;
    Session *s = start(world, 20000);
    if (!s) return;
    Ending e = disturb(s, world, SIGKILL);
    CHECK(e.status == RT_FAILED && rt_exit_code(e.status) == 6);
    CHECKF(e.seconds < PATIENCE, "%.3f s", e.seconds);
    check_text(&e, "rank %d was killed by signal 9 (Killed) at step 10");
    RtError again = {0};
    CHECK(session_run(s, NULL, 0, &again) == RT_FAILED); /* the session stays ended */
    CHECK_STR(again.text, e.error.text);
    finish(s, world);
  }
}

static void test_stopped_rank(void) {
  for (int round = 0; round < 4; round++) {
    int world = 2 + round;
    Session *s = start(world, TIMEOUT_MS);
    if (!s) return;
    Ending e = disturb(s, world, SIGSTOP);
    CHECK(e.status == RT_LATE && rt_exit_code(e.status) == 7);
    CHECKF(e.seconds > 0.001 * TIMEOUT_MS && e.seconds < 0.001 * TIMEOUT_MS + PATIENCE, "%.3f s", e.seconds);
    check_text(&e, "rank %d is late: no progress for");
    CHECKF(strstr(e.error.text, " is stopped"), "%s", e.error.text);
    finish(s, world);
  }
}

/* `text` and `place` must both be in the message. */
static void ending_of(Payload p, RtStatus want, int exit_code, const char *text, const char *place) {
  Session *s = start(3, TIMEOUT_MS);
  if (!s) return;
  RtError error = {0};
  double before = ranks_now();
  RtStatus status = run(s, p, &error);
  CHECKF(status == want && rt_exit_code(status) == exit_code, "status %d", (int)status);
  CHECKF(strstr(error.text, text), "\"%s\" is not in: %s", text, error.text);
  CHECKF(strstr(error.text, place), "\"%s\" is not in: %s", place, error.text);
  CHECK(ranks_now() - before < 0.001 * TIMEOUT_MS + PATIENCE);
  finish(s, 3);
}

static void test_late_rank(void) {
  /* Rank 0 may have waited for the time-out before rank 1 has been idle for as long. */
  ending_of((Payload){.job = JOB_LOITER, .rank = 1}, RT_LATE, 7, "rank 1 is late", " at step 33 (step text 1/33)");
  ending_of((Payload){.job = JOB_MISS, .rank = 2}, RT_LATE, 7, "rank 2 is late at step 3",
            "/5), waiting in all_reduce at order key 77"); /* rank 0 or 1: either may be late first */
}

static void test_failing_rank(void) {
  ending_of((Payload){.job = JOB_EXIT, .rank = 1}, RT_FAILED, 6, "rank 1 exited with code 3 ",
            "at step 33 (step text 1/33)");
  ending_of((Payload){.job = JOB_REPORT, .rank = 2}, RT_BAD_INPUT, 1,
            "rank 2 at step 33 (step text 2/33): ", "weights.safetensors: no such tensor");
}

static void test_idle_session_loses_a_rank(void) {
  Session *s = start(2, 20000);
  if (!s) return;
  RtError error = {0};
  CHECKF(run(s, (Payload){.job = JOB_FINITE, .milliseconds = 10}, &error) == RT_OK, "%s", error.text);
  kill(session_rank_pid(s, 1), SIGKILL);
  usleep(400000);
  CHECK(run(s, (Payload){.job = JOB_ENDLESS}, &error) == RT_FAILED);
  CHECKF(strstr(error.text, "rank 1 was killed by signal 9"), "%s", error.text);
  finish(s, 2);
}

static void test_stopped_while_running(void) {
  Session *s = start(4, 20000);
  if (!s) return;
  RtError error = {0};
  Payload p = {.job = JOB_ENDLESS};
  CHECK(session_run(s, &p, sizeof p, &error) == RT_OK);
  usleep(20000);
  double before = ranks_now();
  finish(s, 4);
  CHECK(ranks_now() - before < PATIENCE);
}

/* ---- the host's own end ---- */

typedef struct HostChild {
  int pid, ranks[4];
} HostChild;

/* A host in a separate process, with four working ranks; ranks[0] is 0 if that failed. */
static HostChild start_host(int timeout_ms, int milliseconds) {
  HostChild h = {0};
  int pipe_fd[2];
  if (pipe(pipe_fd) != 0) abort();
  h.pid = fork();
  if (h.pid == 0) {
    close(pipe_fd[0]);
    setpgid(0, 0);
    signal(SIGINT, SIG_DFL); /* a shell's background jobs ignore it */
    Session *s = start(4, timeout_ms);
    Payload p = {.job = JOB_FINITE, .milliseconds = milliseconds};
    RtError error = {0};
    int pids[4];
    if (!s || session_run(s, &p, sizeof p, &error) != RT_OK) _exit(1);
    for (int i = 0; i < 4; i++) pids[i] = session_rank_pid(s, i);
    if (write(pipe_fd[1], pids, sizeof pids) != sizeof pids) _exit(1);
    RtStatus status = session_wait(s, &error);
    if (status != RT_OK) fprintf(stderr, "%s\n", error.text);
    session_stop(s);
    _exit(rt_exit_code(status));
  }
  close(pipe_fd[1]);
  bool started = read(pipe_fd[0], h.ranks, sizeof h.ranks) == sizeof h.ranks;
  CHECKF(started, "the host in a process of its own did not start");
  if (!started) h.ranks[0] = 0;
  close(pipe_fd[0]);
  return h;
}

/* Orphans become children of this process, so that it sees their end. */
static void expect_ended(int pid, double limit) {
  double before = ranks_now();
  int status = 0, got = 0;
  while ((got = waitpid(pid, &status, WNOHANG)) == 0 && ranks_now() - before < limit) usleep(1000);
  CHECKF(got == pid, "process %d is left after %.1f s", pid, limit);
  if (got == 0) kill(pid, SIGKILL);
}

static void killed_host(int signal_number, bool one_stopped) {
  HostChild h = start_host(20000, 1000000);
  if (!h.ranks[0]) return;
  usleep(50000);
  if (one_stopped) kill(h.ranks[2], SIGSTOP);
  usleep(20000);
  kill(h.pid, signal_number);
  expect_ended(h.pid, PATIENCE);
  for (int i = 0; i < 4; i++) expect_ended(h.ranks[i], PATIENCE);
}

static void test_killed_host(void) {
  killed_host(SIGKILL, false);
  killed_host(SIGKILL, true);
  killed_host(SIGTERM, true);
  killed_host(SIGINT, false);
}

/* Ctrl-Z for longer than the time-out makes no rank late. */
static void test_suspended_program(void) {
  HostChild h = start_host(TIMEOUT_MS, 500);
  if (!h.ranks[0]) return;
  usleep(100000);
  kill(-h.pid, SIGSTOP);
  usleep(3 * TIMEOUT_MS * 1000);
  kill(-h.pid, SIGCONT);
  int status = -1;
  CHECK(waitpid(h.pid, &status, 0) == h.pid);
  CHECKF(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", (unsigned)status);
}

static int host(int argc, char **argv) {
  (void)argc;
  (void)argv;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  RUN(test_commands_and_io_area);
  RUN(test_threads_per_rank);
  RUN(test_session_outlives_its_thread);
  RUN(test_killed_rank);
  RUN(test_stopped_rank);
  RUN(test_late_rank);
  RUN(test_failing_rank);
  RUN(test_idle_session_loses_a_rank);
  RUN(test_stopped_while_running);
  if (!THREAD_SANITIZER) {
    RUN(test_bad_starts);
    RUN(test_killed_host);
    RUN(test_suspended_program);
  }
  return test_summary();
}

int main(int argc, char **argv) { return ranks_main(argc, argv, host, command); }
