/* tests/suite/cost.c - runs one test and records its cost.
 *
 *   cost NAME COMMAND...          the exit code is the test's own
 *   cost --fast NAME COMMAND...   also fails if the test takes longer than the limit of fast ones
 *
 * The environment gives the file and the limit; without it nothing is written or limited:
 *   APC_COSTS   a file; every test appends "NAME wall-seconds processor-seconds exit-code"
 *   APC_FAST    the limit of a fast test, seconds of processor time on this machine (tests/suite/budget)
 *
 * Processor time is that of all processes that the test has waited for, not of those that it left running. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct Cost {
  double wall, processor; /* seconds */
  int code;               /* exit code as of a shell: 128 + the number of the signal that ended it */
} Cost;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds(struct timeval t) { return (double)t.tv_sec + 1e-6 * (double)t.tv_usec; }

static Cost run(char **command) {
  double began = now();
  pid_t child = fork();
  if (child == 0) {
    setenv("APC_CACHE", "off", 1); /* no plans or kernels of other tests, or of the user, are found */
    execvp(command[0], command);
    fprintf(stderr, "%s: %s\n", command[0], strerror(errno));
    _exit(127);
  }
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  struct rusage used;
  getrusage(RUSAGE_CHILDREN, &used);
  int code = child < 0 ? 127 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return (Cost){now() - began, seconds(used.ru_utime) + seconds(used.ru_stime), code};
}

/* One write, so that lines of tests that end at the same time stay whole. */
static void write_down(const char *name, const Cost *c) {
  const char *path = getenv("APC_COSTS");
  if (!path) return;
  char line[300];
  int n = snprintf(line, sizeof line, "%.200s %.3f %.3f %d\n", name, c->wall, c->processor, c->code);
  int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0 || write(file, line, (size_t)n) != n) fprintf(stderr, "%s: %s\n", path, strerror(errno));
  if (file >= 0) close(file);
}

int main(int argc, char **argv) {
  int fast = argc > 1 && strcmp(argv[1], "--fast") == 0;
  if (argc < 3 + fast) {
    fprintf(stderr, "usage: cost [--fast] NAME COMMAND...\n");
    return 2;
  }
  const char *name = argv[1 + fast], *most = fast ? getenv("APC_FAST") : NULL;
  Cost c = run(argv + 2 + fast);
  if (c.code > 128) fprintf(stderr, "%s: ended by signal %d\n", name, c.code - 128);
  if (most && c.code == 0 && c.processor > strtod(most, NULL)) {
    fprintf(stderr, "%s: took %.2f s of processor time, a fast test may take %s: make it faster, or no fast one\n",
            name, c.processor, most);
    c.code = 1;
  }
  write_down(name, &c);
  return c.code;
}
