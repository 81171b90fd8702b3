/* tests/embed/calls.c - the calls of apc_runtime.h from outside, for tests/embed/run.sh: the program is that of
 * program.c, whose entry main is y = x, and whose entry pair is y = x with another input w before x.
 *
 *   calls PROGRAM        checks bound outputs, fed inputs, submit, wait, cancel, threads, fork, failures
 *   calls PROGRAM sizes FILE  checks outputs of computed.ir, whose sizes data decide; FILE must not come to be
 *   calls PROGRAM N [E]  prints the mean time of N requests, with E elements (12)
 *
 * It holds ranks still with SIGSTOP, to have a request that does not end.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "apc_runtime.h"

static int passed, failed;

#define CHECK(x) ((x) ? (void)passed++ : (void)(failed++, printf("%s:%d: not %s\n", __FILE__, __LINE__, #x)))

static int says(const ApcModel *m, const char *text) { return strstr(apc_error(m), text) != NULL; }

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Sends a signal to all children, which the threads of this process have started. */
static int signal_ranks(int number, char *environment, size_t size) {
  DIR *d = opendir("/proc/self/task");
  int n = 0, pid;
  for (struct dirent *e; d && (e = readdir(d));) {
    char path[300];
    snprintf(path, sizeof path, "/proc/self/task/%s/children", e->d_name);
    FILE *f = fopen(path, "r");
    while (f && fscanf(f, "%d", &pid) == 1) {
      if (number) kill(pid, number);
      n++;
      if (!environment) continue;
      snprintf(path, sizeof path, "/proc/%d/environ", pid);
      FILE *g = fopen(path, "r");
      size_t k = g ? fread(environment, 1, size - 1, g) : 0;
      if (g) fclose(g);
      environment[k] = 0;
      for (size_t i = 0; i < k; i++)
        if (!environment[i]) environment[i] = '\n';
    }
    if (f) fclose(f);
  }
  if (d) closedir(d);
  return n;
}

static ApcStatus bind(ApcModel *m, const char *name, const float *x, int64_t n) {
  return apc_bind_input(m, name, APC_F32, 1, &n, x);
}

static void test_outputs(ApcModel *m) {
  static float x[12] = {1, 2, 3}, y[16] = {9}, more[12] = {7};
  y[12] = 5;
  CHECK(apc_bind_output(m, "z", APC_F32, y, sizeof y) == APC_USAGE && says(m, "there is no output 'z'"));
  CHECK(apc_bind_output(m, "y", APC_I32, y, sizeof y) == APC_BAD_INPUT && says(m, "is f32"));
  CHECK(apc_bind_output(m, "y", (ApcType)99, y, sizeof y) == APC_BAD_INPUT);
  CHECK(bind(m, "x", x, 12) == APC_OK && apc_bind_output(m, "y", APC_F32, y, 44) == APC_OK);
  CHECK(apc_run(m, NULL) == APC_BAD_INPUT && says(m, "output 'y' has 48 bytes, but its memory has room for 44"));
  CHECK(y[0] == 9 && apc_bind_output(m, "y", APC_F32, y, sizeof y) == APC_OK);
  CHECK(apc_run(m, NULL) == APC_OK && memcmp(x, y, sizeof x) == 0 && y[12] == 5);
  y[0] = 0;
  CHECK(apc_run_again(m) == APC_OK && y[0] == 1);
  CHECK(bind(m, "x", more, 12) == APC_OK && apc_bind_output(m, "y", APC_F32, more, sizeof more) == APC_OK);
  CHECK(apc_run(m, NULL) == APC_OK && more[0] == 7 && y[0] == 1);
  CHECK(apc_bind_output(m, "y", APC_F32, NULL, 0) == APC_OK && apc_bind_output(m, "y", APC_F32, NULL, 0) == APC_OK);
  more[0] = 8;
  CHECK(apc_run(m, NULL) == APC_OK && apc_read_output(m, "y", y, 48) == APC_OK && y[0] == 8);
}

/* y = x, so a fed x keeps its values although the caller's memory changes. */
static void test_feeds(ApcModel *m) {
  enum { MANY = 100000 };
  static float w[MANY];
  static float x[12] = {4, 5}, y[12];
  CHECK(apc_feed_input(m, "v", "y") == APC_USAGE && apc_feed_input(m, "x", "v") == APC_USAGE);
  CHECK(apc_feed_input(m, "x", "y") == APC_OK && apc_feed_input(m, "x", "y") == APC_OK);
  CHECK(bind(m, "x", x, 12) == APC_OK && apc_run(m, NULL) == APC_OK);
  x[0] = 100;
  CHECK(apc_run(m, NULL) == APC_OK && apc_read_output(m, "y", y, sizeof y) == APC_OK && y[0] == 4 && y[1] == 5);
  CHECK(bind(m, "w", w, MANY) == APC_OK); /* w comes to lie where y was */
  CHECK(apc_run(m, "pair") == APC_OK && apc_read_output(m, "y", y, sizeof y) == APC_OK && y[0] == 4);
  CHECK(bind(m, "w", w, 3) == APC_OK);
  CHECK(apc_run(m, "pair") == APC_OK && apc_run(m, "main") == APC_OK);
  CHECK(apc_read_output(m, "y", y, sizeof y) == APC_OK && y[0] == 4 && y[1] == 5);
  signal_ranks(SIGKILL, NULL, 0); /* new ranks, and the input stays */
  ApcStatus status = apc_run(m, NULL);
  CHECK(status == APC_FAILED && says(m, "was killed"));
  CHECK(apc_run(m, NULL) == APC_OK && apc_read_output(m, "y", y, sizeof y) == APC_OK && y[0] == 4);
  x[0] = 6; /* the caller's value for one request */
  CHECK(bind(m, "x", x, 12) == APC_OK && apc_run(m, NULL) == APC_OK);
  CHECK(apc_feed_input(m, "x", NULL) == APC_OK && apc_run(m, NULL) == APC_OK);
  CHECK(apc_read_output(m, "y", y, sizeof y) == APC_OK && y[0] == 6);
}

static void test_submit(ApcModel *m) {
  static float x[12] = {3}, y[12] = {0};
  CHECK(apc_wait(m, 0) == APC_USAGE && says(m, "no request runs") && apc_cancel(m) == APC_USAGE);
  CHECK(bind(m, "x", x, 12) == APC_OK && apc_bind_output(m, "y", APC_F32, y, sizeof y) == APC_OK);
  CHECK(apc_run(m, NULL) == APC_OK && signal_ranks(SIGSTOP, NULL, 0) == 2);
  x[0] = 4;
  CHECK(apc_submit(m, NULL) == APC_OK);
  x[0] = 5; /* it is copied */
  CHECK(apc_wait(m, 0) == APC_PENDING && !*apc_error(m) && apc_wait(m, 20) == APC_PENDING && y[0] == 3);
  CHECK(apc_run(m, NULL) == APC_USAGE && says(m, "a request runs") && apc_submit(m, NULL) == APC_USAGE);
  CHECK(bind(m, "x", x, 12) == APC_USAGE && apc_reset(m) == APC_USAGE && apc_inputs(m) == 1);
  signal_ranks(SIGCONT, NULL, 0);
  CHECK(apc_wait(m, -1) == APC_OK && y[0] == 4);
  CHECK(apc_wait(m, -1) == APC_USAGE && apc_cancel(m) == APC_USAGE);
  CHECK(apc_submit(m, "none") == APC_USAGE && apc_submit(m, NULL) == APC_OK && apc_wait(m, 10000) == APC_OK &&
        y[0] == 5);
}

static void test_cancel(ApcModel *m) {
  static float x[12] = {7}, y[12] = {1};
  CHECK(bind(m, "x", x, 12) == APC_OK && apc_bind_output(m, "y", APC_F32, y, sizeof y) == APC_OK);
  CHECK(signal_ranks(SIGSTOP, NULL, 0) == 2 && apc_submit(m, NULL) == APC_OK && apc_wait(m, 5) == APC_PENDING);
  double begin = now();
  CHECK(apc_cancel(m) == APC_OK && now() - begin < 2 && y[0] == 1 && signal_ranks(0, NULL, 0) == 0);
  CHECK(apc_cancel(m) == APC_USAGE && apc_wait(m, 0) == APC_USAGE && apc_run_again(m) == APC_USAGE);
  CHECK(apc_run(m, NULL) == APC_OK && y[0] == 7);
  CHECK(apc_submit(m, NULL) == APC_OK && apc_cancel(m) == APC_OK && apc_run(m, NULL) == APC_OK);
  signal_ranks(SIGSTOP, NULL, 0);
  CHECK(apc_submit(m, NULL) == APC_OK);
  signal_ranks(SIGKILL, NULL, 0);
  CHECK(apc_wait(m, 10000) == APC_FAILED && says(m, "was killed") && apc_wait(m, 0) == APC_USAGE);
}

static void test_fork(ApcModel *m) {
  static float y[12];
  CHECK(apc_run(m, NULL) == APC_OK && apc_submit(m, NULL) == APC_OK);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    int ok = apc_wait(m, -1) == APC_USAGE && says(m, "before a fork") && apc_cancel(m) == APC_USAGE &&
             apc_submit(m, NULL) == APC_USAGE && apc_feed_input(m, "x", "y") == APC_USAGE &&
             apc_bind_output(m, "y", APC_F32, y, sizeof y) == APC_USAGE && apc_set_threads(m, 1) == APC_USAGE;
    apc_close(m);
    _exit(ok ? 0 : 1);
  }
  int code = -1;
  CHECK(waitpid(child, &code, 0) == child && code == 0);
  CHECK(apc_wait(m, 10000) == APC_OK);
}

static void test_threads(const char *path) {
  static char environment[1 << 16];
  static float x[12] = {0};
  ApcModel *m;
  CHECK(apc_load(path, NULL, &m) == APC_OK);
  CHECK(apc_set_threads(m, -1) == APC_USAGE && apc_set_threads(m, 70000) == APC_USAGE &&
        apc_set_threads(m, 3) == APC_OK);
  CHECK(bind(m, "x", x, 12) == APC_OK && apc_run(m, NULL) == APC_OK);
  CHECK(signal_ranks(0, environment, sizeof environment) == 2 && strstr(environment, "\nOMP_NUM_THREADS=3\n"));
  CHECK(apc_set_threads(m, 2) == APC_USAGE && says(m, "run already"));
  signal_ranks(SIGSTOP, NULL, 0);
  CHECK(apc_submit(m, NULL) == APC_OK);
  apc_close(m); /* ends the request */
  CHECK(signal_ranks(0, NULL, 0) == 0);
  CHECK(apc_load("/dev/null", NULL, &m) != APC_OK); /* a model that could not be loaded refuses every call */
  CHECK(apc_submit(m, NULL) != APC_OK && apc_wait(m, 0) != APC_OK && apc_cancel(m) != APC_OK);
  CHECK(apc_feed_input(m, "x", "y") != APC_OK && apc_bind_output(m, "y", APC_F32, x, 48) != APC_OK);
  apc_close(m);
}

static int measure_ways(ApcModel *m, int n, const float *x, float *y, size_t elements) {
  const char *const ways[] = {"apc_run, apc_read_output", "apc_run, bound output", "apc_submit, apc_wait", "fed input"};
  const size_t bytes = elements * sizeof *x;
  if (bind(m, "x", x, (int64_t)elements) || apc_run(m, NULL)) return 1;
  for (int way = 0; way < 4; way++) {
    if (way == 1 && apc_bind_output(m, "y", APC_F32, y, bytes)) return 1;
    if (way == 3 && (apc_bind_output(m, "y", APC_F32, NULL, 0) || apc_feed_input(m, "x", "y"))) return 1;
    double begin = now();
    for (int i = 0; i < n; i++) {
      if (way == 2 ? apc_submit(m, NULL) || apc_wait(m, -1) : apc_run(m, NULL) != APC_OK) return 1;
      if (way == 0 && apc_read_output(m, "y", y, bytes)) return 1;
    }
    printf("%-26s %8.2f us\n", ways[way], (now() - begin) / n * 1e6);
  }
  return 0;
}

static int measure(ApcModel *m, int n, size_t elements) {
  float *x = calloc(elements, sizeof *x), *y = calloc(elements, sizeof *y);
  int code = x && y ? measure_ways(m, n, x, y, elements) : 1;
  free(x);
  free(y);
  return code;
}

/* Binds a and b, which leave 8 - a elements for y and 8 - a - b for z. */
static void leave(ApcModel *m, int64_t new_a, int64_t new_b) {
  static int64_t a, b;
  a = new_a, b = new_b;
  CHECK(apc_bind_input(m, "a", APC_I64, 0, NULL, &a) == APC_OK);
  CHECK(apc_bind_input(m, "b", APC_I64, 0, NULL, &b) == APC_OK);
}

static int has(ApcModel *m, const char *name, int64_t elements) {
  int rank;
  int64_t dims[APC_MAX_RANK];
  size_t bytes;
  return apc_output_shape(m, name, &rank, dims, &bytes) == APC_OK && rank == 1 && dims[0] == elements &&
         bytes == 4 * (size_t)elements;
}

/* At the bounds of a and b, y has no elements and z would have -8. */
static void test_sizes(ApcModel *m, const char *file) {
  static float q[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[16], z[8];
  int rank = 0;
  int64_t dims[APC_MAX_RANK] = {0};
  size_t bytes = 0;
  leave(m, 3, 2);
  CHECK(bind(m, "q", q, 8) == APC_OK && apc_expected_shape(m, "main", "y", &rank, dims, &bytes) == APC_OK);
  CHECK(rank == 1 && dims[0] == 8 && bytes == 32);
  CHECK(apc_expected_shape(m, "main", "z", &rank, dims, &bytes) == APC_OK && dims[0] == 8 && bytes == 32);
  CHECK(apc_run(m, "main") == APC_OK && has(m, "y", 5) && has(m, "z", 3));
  CHECK(apc_read_output(m, "y", y, 20) == APC_OK && apc_read_output(m, "z", z, 12) == APC_OK);
  CHECK(y[0] == 4 && y[4] == 8 && z[0] == 6 && z[2] == 8);
  memset(y, 0x5a, sizeof y);
  CHECK(apc_bind_output(m, "y", APC_F32, y, 28) == APC_OK && apc_run(m, "main") == APC_BAD_INPUT);
  CHECK(says(m, "output 'y' has up to 32 bytes, but its memory has room for 28"));
  CHECK(((char *)y)[0] == 0x5a && ((char *)y)[28] == 0x5a);
  leave(m, 8, 0);
  CHECK(apc_bind_output(m, "y", APC_F32, y, 32) == APC_OK && apc_run(m, "main") == APC_OK && has(m, "y", 0));
  CHECK(((char *)y)[0] == 0x5a && apc_bind_output(m, "y", APC_F32, y, 4) == APC_OK);
  CHECK(apc_run_again(m) == APC_BAD_INPUT && says(m, "up to 32 bytes")); /* not those of the last request */
  leave(m, 0, 0);
  CHECK(apc_bind_output(m, "y", APC_F32, y, 32) == APC_OK && apc_run(m, "main") == APC_OK && has(m, "y", 8));
  CHECK(y[7] == 8 && ((char *)y)[32] == 0x5a);
  CHECK(apc_write_entry(m, "made", file, NULL, 0) == APC_UNSUPPORTED && says(m, "the shape of output 'made'"));
  CHECK(access(file, F_OK) != 0);
}

int main(int argc, char **argv) {
  ApcModel *m;
  if (argc < 2 || apc_load(argv[1], NULL, &m)) return 2;
  if (argc == 4 && strcmp(argv[2], "sizes") == 0) {
    test_sizes(m, argv[3]);
    apc_close(m);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
  }
  if (argc >= 3) {
    int code = measure(m, atoi(argv[2]), argc > 3 ? (size_t)atol(argv[3]) : 12);
    apc_close(m);
    return code;
  }
  CHECK(strcmp(apc_version(), "") != 0 && apc_version_number() > 0);
  test_outputs(m);
  test_feeds(m);
  test_submit(m);
  test_cancel(m);
  test_fork(m);
  apc_close(m);
  test_threads(argv[1]);
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
