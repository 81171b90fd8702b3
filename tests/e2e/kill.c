/* tests/e2e/kill.c - a compiled program whose rank is killed or stopped ends soon, says which and where, and leaves nothing. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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
        e2e_compile(&e, "cpux2", &(PlanOptions){.tp = RANKS}, program));
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

static pid_t start(const char *errors) {
  pid_t pid = fork();
  if (pid) return pid;
  int out = open("/dev/null", O_WRONLY), err = open(errors, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (out < 0 || err < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) _exit(99);
  execl(program, program, "--bench=1000000", "--dim", "batch=8", "--dim", "seq=32", "--timeout", "1500ms", (char *)NULL);
  _exit(99);
}

/* Waits until the host ends; its exit code, or -1 when that takes too long. */
static int wait_for(pid_t host, double limit) {
  int status;
  for (double end = seconds() + limit; seconds() < end; usleep(10000))
    if (waitpid(host, &status, WNOHANG) == host) return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  kill(host, SIGKILL);
  waitpid(host, &status, 0);
  return -1;
}

static void check_signal(int signal, int code, double limit) {
  const char *errors = temp_path("errors");
  int shared = shared_files();
  pid_t pids[MAX_MEMBERS], host = start(errors);
  for (double end = seconds() + 30; members(host, pids) < RANKS && seconds() < end;) usleep(10000);
  usleep(700000); /* well inside the requests */
  CHECK(members(host, pids) == RANKS);
  if (members(host, pids) == RANKS) CHECK(kill(pids[1], signal) == 0);
  double began = seconds();
  int got = wait_for(host, 60), left = members(host, pids);
  double took = seconds() - began;
  CHECKF(got == code, "exit code %d, not %d", got, code);
  CHECKF(took < limit, "it took %.1f s", took);
  CHECKF(left == 0, "%d processes are left", left);
  CHECKF(shared_files() == shared, "%d files in /dev/shm, %d before", shared_files(), shared);
  FILE *f = fopen(errors, "r");
  char text[4000] = "";
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  if (f) fclose(f);
  text[n] = 0;
  const char *rank = strstr(text, "rank ");
  CHECKF(rank && (rank[5] == '0' || rank[5] == '1') && strstr(text, "step "), "the message names no rank and step: %s", text);
}

/* A loaded machine may be slow to notice; the limits leave room for that. */
static void test_killed(void) { check_signal(SIGKILL, APC_FAILED, 10); }
static void test_stopped(void) { check_signal(SIGSTOP, APC_LATE, 15); }

int main(int argc, char **argv) {
  if (apc_is_rank(argc, argv)) return apc_rank_main(argc, argv);
  if (argc != 2) {
    fprintf(stderr, "usage: %s BUILD\n", argv[0]);
    return 2;
  }
  e2e_build = argv[1];
  RUN(test_compile);
  RUN(test_killed);
  RUN(test_stopped);
  return test_summary();
}
