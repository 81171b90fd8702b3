/* tests/e2e/kill.c - a compiled program whose rank is killed or stopped ends soon, reports which rank and where, and
 * leaves no processes or files.
 *
 * usage: e2e_kill BUILD [HITS]   HITS (30; 12 with sanitizers) ranks are hit at random moments, also while they start,
 * by either signal. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "tests/e2e/e2e.h"

enum { RANKS = 2, MAX_MEMBERS = 64 };

static const DslDefine defines[] = {{"layers", "2"}, {"d", "32"}, {"heads", "4"}, {"vocab", "64"}, {"ctx", "32"}};
static const E2eHint hints[] = {{"batch", 8}, {"seq", 32}};
static char program[4400];

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void test_compile(void) {
  snprintf(program, sizeof program, "%s", temp_path("killed-model"));
  E2eModel e;
  CHECK(e2e_load(&e, "examples/gpt.apc", 5, defines, 2, hints, 1, (const char *const[]){"main"}) &&
        e2e_compile(&e, "cpux2", &(PlanOptions){.degree[DEGREE_tp] = RANKS}, program));
  e2e_free(&e);
}

/* Processes that run the program, other than `host`; the program's path is only this test's. */
static int members(pid_t host, pid_t *pids) {
  int n = 0;
  DIR *d = opendir("/proc");
  for (struct dirent *entry; d && (entry = readdir(d));) {
    char link[300], path[4400];
    snprintf(link, sizeof link, "/proc/%s/exe", entry->d_name);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) continue;
    path[length] = 0;
    pid_t pid = (pid_t)atoi(entry->d_name);
    if (pid != host && strcmp(path, program) == 0 && n < MAX_MEMBERS) pids[n++] = pid;
  }
  if (d) closedir(d);
  return n;
}

static int shared_files(void) {
  int n = 0;
  DIR *d = opendir("/dev/shm");
  for (struct dirent *entry; d && (entry = readdir(d));) n += strstr(entry->d_name, "apc") != NULL;
  if (d) closedir(d);
  return n;
}

static pid_t start(const char *errors, const char *timeout) {
  pid_t pid = fork();
  if (pid) return pid;
  int out = open("/dev/null", O_WRONLY), err = open(errors, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (out < 0 || err < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) _exit(99);
  execl(program, program, "--bench=1000000", "--dim", "batch=8", "--dim", "seq=32", "--timeout", timeout, (char *)NULL);
  _exit(99);
}

/* Waits until the host ends; returns its exit code, or -1 if that takes too long. */
static int wait_for(pid_t host, double limit) {
  int status;
  for (double end = seconds() + limit; seconds() < end; usleep(10000))
    if (waitpid(host, &status, WNOHANG) == host) return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  kill(host, SIGKILL);
  waitpid(host, &status, 0);
  return -1;
}

/* The rank of a process, from its command line; -1 if none (yet). */
static int rank_of(pid_t pid) {
  char path[64], line[8192];
  snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
  FILE *f = fopen(path, "r");
  size_t n = f ? fread(line, 1, sizeof line - 1, f) : 0;
  if (f) fclose(f);
  line[n] = 0;
  for (char *word = line; word < line + n; word += strlen(word) + 1)
    if (strcmp(word, "--rank") == 0) return atoi(word + sizeof "--rank");
  return -1;
}

/* The process of a rank, as soon as it exists; 0 after `limit` seconds. */
static pid_t process_of(pid_t host, int rank, double limit) {
  pid_t pids[MAX_MEMBERS];
  for (double end = seconds() + limit; seconds() < end; usleep(2000))
    for (int i = members(host, pids); i-- > 0;)
      if (rank_of(pids[i]) == rank) return pids[i];
  return 0;
}

/* Sends a rank the signal `delay` seconds after its start.  A loaded machine may be slow to notice: 60 s are a hang. */
static void check_hit(int rank, int signal, double delay) {
  const char *errors = temp_path("errors");
  char name[40], what[120];
  snprintf(name, sizeof name, "rank %d", rank);
  snprintf(what, sizeof what, "%s of rank %d after %.3f s", signal == SIGKILL ? "SIGKILL" : "SIGSTOP", rank, delay);
  int shared = shared_files(), code = signal == SIGKILL ? APC_FAILED : APC_LATE;
  pid_t pids[MAX_MEMBERS], host = start(errors, signal == SIGKILL ? "60s" : "2s"), victim = process_of(host, rank, 30);
  usleep((useconds_t)(delay * 1e6));
  CHECKF(victim && kill(victim, signal) == 0, "%s: it is not there", what);
  int got = wait_for(host, 60), left = members(host, pids);
  for (double end = seconds() + 5; left && seconds() < end; left = members(host, pids))
    usleep(10000); /* the ranks end with the host */
  FILE *f = fopen(errors, "r");
  char text[4000] = "";
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  if (f) fclose(f);
  text[n] = 0;
  CHECKF(got == code, "%s: exit code %d, not %d: %s", what, got, code, text);
  CHECKF(left == 0, "%s: %d processes are left", what, left);
  CHECKF(shared_files() == shared, "%s: %d files in /dev/shm, %d before", what, shared_files(), shared);
  CHECKF(strstr(text, name), "%s: the message does not name it: %s", what, text);
  CHECKF(delay < 0.8 || strstr(text, "step "), "%s: the message names no step: %s", what, text);
}

static void test_killed(void) { check_hit(1, SIGKILL, 0.8); }
static void test_stopped(void) { check_hit(0, SIGSTOP, 0.8); }

static unsigned hits = SANITIZED ? 12 : 30;

static void test_random(void) {
  for (unsigned i = 0; i < hits; i++) {
    int rank = (int)random_below(7, 1, 3 * i, RANKS), late = random_below(7, 1, 3 * i + 1, 4) == 0;
    double delay = (double)random_below(7, 1, 3 * i + 2, 1000000) * 1e-6;
    check_hit(rank, late ? SIGSTOP : SIGKILL, delay * delay * delay); /* the first moments are the most interesting */
  }
}

int main(int argc, char **argv) {
  if (apc_is_rank(argc, argv)) return apc_rank_main(argc, argv);
  if (argc != 2 && argc != 3) {
    fprintf(stderr, "usage: %s BUILD [HITS]\n", argv[0]);
    return 2;
  }
  e2e_build = argv[1];
  if (argc == 3) hits = (unsigned)strtoul(argv[2], NULL, 10);
  RUN(test_compile);
  if (access(program, X_OK) == 0) { /* else every hit would wait for a rank that never starts */
    RUN(test_killed);
    RUN(test_stopped);
    RUN(test_random);
  }
  return test_summary();
}
