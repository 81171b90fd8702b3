/* tests/doubles/report.c - see double.h and report.h: the lock, the environment, faults, violations, the end.
 *
 * All doubles of a process share one lock.  A call of an API holds it from beginning to end; the thread that serves
 * idle queues (queue.c) holds it for one piece of work. */
#define _GNU_SOURCE
#include "tests/doubles/report.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
  pthread_mutex_t lock;
  int depth;
  int64_t calls, failed, dropped, work, violations, last_call;
  bool drops;
  uint64_t random;
  bool begun;
  int device;
  pid_t pid;
  void (*leaks[4])(void);
  int nleaks;
} report = {.lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP, .device = -1};

int64_t report_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t report_last_call(void) { return report.last_call; }
void report_lock(void) { pthread_mutex_lock(&report.lock), report.depth++; }
void report_unlock(void) { report.depth--, pthread_mutex_unlock(&report.lock); }

/* The doubles hold the lock at most twice, when one library calls another. */
void report_sleep(int64_t nanoseconds) {
  int depth = report.depth;
  struct timespec t = {0, nanoseconds};
  for (int i = 0; i < depth; i++) report_unlock();
  nanosleep(&t, NULL);
  for (int i = 0; i < depth; i++) report_lock();
}

void double_nap(void) { report_sleep(50000); }

/* ---- the environment */

int64_t double_setting(const char *name, int64_t otherwise) {
  const char *text = getenv(name);
  return text && *text ? strtoll(text, NULL, 0) : otherwise;
}

/* splitmix64 */
uint64_t double_random(void) {
  uint64_t x = report.random += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* ---- violations */

void report_add(const char *setting, const char *line) {
  const char *path = getenv(setting);
  int fd = path && *path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
  if (fd < 0) return;
  if (write(fd, line, strlen(line)) < 0) fprintf(stderr, "double: %s: %s\n", path, strerror(errno));
  close(fd);
}

void double_violation(const char *format, ...) {
  char said[1500], line[1600];
  va_list list;
  va_start(list, format);
  vsnprintf(said, sizeof said, format, list);
  va_end(list);
  snprintf(line, sizeof line, "double: %s\n", said);
  fputs(line, stderr);
  report_add("DOUBLES_REPORT", line);
  report.violations++;
}

/* ---- faults */

void report_uses(int device) {
  if (report.device >= 0) return;
  report.device = device;
  report.random += (uint64_t)device << 32;
}

bool report_is_meant(void) {
  int64_t on = double_setting("DOUBLES_ON", -1);
  return on < 0 || on == report.device;
}

/* "7": the seventh call; "cuMemAlloc_v2:2": the second of this name, of which `seen` were. */
static bool is_it(const char *setting, const char *name, int64_t *seen) {
  const char *text = getenv(setting), *colon = text ? strchr(text, ':') : NULL;
  if (!text || !*text || !report_is_meant()) return false;
  if (!colon) return report.calls == strtoll(text, NULL, 10);
  size_t n = (size_t)(colon - text);
  return strlen(name) == n && strncmp(name, text, n) == 0 && ++*seen == strtoll(colon + 1, NULL, 10);
}

bool double_drops(void) { return report.drops; }

int64_t double_pretended(int way) {
  int64_t fastest = double_setting("DOUBLES_FASTEST", -1);
  return fastest < 0 ? 0 : way == fastest ? 10000 : 20000 + 100 * (int64_t)way;
}

bool report_fails_late(void) {
  report.work++;
  return report_is_meant() && report.work == double_setting("DOUBLES_FAIL_LATE", -1);
}

bool report_stalls(void) {
  int64_t from = double_setting("DOUBLES_STALL", -1);
  return from >= 0 && report.work + 1 >= from && report_is_meant();
}

static void note_name(const char *name) {
  char line[100];
  if (!getenv("DOUBLES_NAMES") || !report_is_meant()) return;
  snprintf(line, sizeof line, "%s\n", name);
  report_add("DOUBLES_NAMES", line);
}

bool double_turn(const char *setting, int64_t *seen, const char *what) {
  note_name(setting);
  if (++*seen != double_setting(setting, -1) || !report_is_meant()) return false;
  fprintf(stderr, "double: %s %lld, %s, as asked for\n", setting, (long long)*seen, what);
  return true;
}

bool double_enter(const char *name) {
  report_lock();
  if (report.begun && getpid() != report.pid) double_violation("%s: the process forked after cuInit", name);
  report.calls++;
  bool fails = is_it("DOUBLES_FAIL", name, &report.failed);
  note_name(name);
  report.drops = is_it("DOUBLES_DROP", name, &report.dropped);
  if (fails || report.drops)
    fprintf(stderr, "double: call %lld, %s, %s as asked for\n", (long long)report.calls, name,
            fails ? "fails" : "is left out");
  if (!fails && report.depth == 1) double_serve();
  return !fails && !report.drops;
}

void double_leave(const bool *entered) {
  (void)entered;
  report.last_call = report_now();
  report_unlock();
}

/* ---- the end */

static void at_end(int status, void *unused) {
  char line[64];
  (void)unused;
  if (report.begun && getpid() != report.pid) return;
  report_lock();
  for (int i = 0; status == 0 && i < report.nleaks; i++) report.leaks[i]();
  snprintf(line, sizeof line, "%lld\n", (long long)report.calls);
  if (report.calls) report_add("DOUBLES_CALLS", line);
  fflush(NULL);
  if (report.violations) _exit(DOUBLE_EXIT);
  report_unlock();
}

void double_at_end(void (*leaks)(void)) {
  if (report.nleaks < (int)(sizeof report.leaks / sizeof *report.leaks)) report.leaks[report.nleaks++] = leaks;
}

void report_begin(void) {
  if (report.begun) return;
  report.begun = true, report.pid = getpid();
}

static __attribute__((constructor)) void loaded(void) {
  report.random = (uint64_t)double_setting("DOUBLES_SEED", 0) * 0x2545f4914f6cdd1du + 1;
  on_exit(at_end, NULL);
}
