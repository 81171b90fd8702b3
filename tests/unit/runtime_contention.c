/* tests/unit/runtime_contention.c - how long threads spin (runtime/comm/contention.h), and how many cores' time a
 * control group allows (runtime/session/quota.h). */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/comm/contention.h"
#include "runtime/session/quota.h"
#include "tests/temp.h"
#include "tests/test.h"

#define MS INT64_C(1000000)

/* With a look long ago: contention_spin uses the verdict only. */
static int64_t spin_at(Contention *c, int64_t now) {
  ContentionWatch seen = {.looked = now};
  return contention_spin(c, &seen, now);
}

static void test_verdict(void) {
  Contention c = {0};
  int64_t now = 1000 * MS;
  contention_judge(&c, now, 10 * MS, 1 * MS);
  CHECK(spin_at(&c, now) == CONTENTION_SPIN);
  contention_judge(&c, now, 5 * MS, 5 * MS);
  CHECK(spin_at(&c, now + 1) == CONTENTION_SPIN_CONTENDED);
  CHECK(spin_at(&c, now + 1000 * MS) == CONTENTION_SPIN);
}

/* Repeatedly found right after it was over: ever longer, up to a second; after a calm time short again. */
static void test_pauses(void) {
  Contention c = {0};
  int64_t now = 1000 * MS, before = 0;
  for (int i = 0; i < 10; i++) {
    contention_judge(&c, now, 0, 5 * MS);
    int64_t pause = atomic_load(&c.until) - now;
    CHECKF(pause >= before && pause <= 1000 * MS, "pause %d of %lld ns", i, (long long)pause);
    before = pause, now += pause + 4 * MS;
  }
  CHECK(before == 1000 * MS);
  now += 2000 * MS;
  contention_judge(&c, now, 0, 5 * MS);
  CHECK(atomic_load(&c.until) - now < 100 * MS);
}

static pid_t busy_child(void) {
  pid_t child = fork();
  if (child == 0)
    for (volatile long i = 0;; i++) {}
  return child;
}

/* Spins on one core: until the verdict is `want`, or two seconds. */
static bool spins_until(Contention *c, ContentionWatch *w, int64_t want) {
  int64_t begin = contention_clock(), now = begin, before;
  do {
    before = now, now = contention_clock();
    contention_hole(w, now - before);
    if (contention_spin(c, w, now) == want) return true;
  } while (now - begin < 2000 * MS);
  return false;
}

/* Another process on our core is detected, with and without the system's count. */
static void test_shared_core(void) {
  cpu_set_t before, one;
  sched_getaffinity(0, sizeof before, &before);
  CPU_ZERO(&one);
  for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
    if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
  pid_t child = busy_child();
  for (int file = 0; file >= -1; file--) {
    Contention c = {0};
    ContentionWatch w = {.file = file};
    CHECKF(spins_until(&c, &w, CONTENTION_SPIN_CONTENDED), "not seen %s", file ? "by holes" : "by schedstat");
  }
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  sched_setaffinity(0, sizeof before, &before);
}

/* ---- quotas */

static const char *file(const char *root, const char *folder, const char *name, const char *text) {
  char command[4096];
  snprintf(command, sizeof command, "mkdir -p '%s%s' && printf '%%b' '%s' >'%s%s/%s'", root, folder, text, root, folder,
           name);
  CHECK(system(command) == 0);
  return root;
}

static char *new_root(const char *name, const char *groups) {
  char *root = strdup(temp_path(name));
  file(root, "/proc/self", "cgroup", groups);
  return root;
}

static void test_version_2(void) {
  char *root = new_root("second", "0::/work/rank\\n");
  CHECK(quota_cpus(root) == 0);
  file(root, "/sys/fs/cgroup/work/rank", "cpu.max", "max 100000\\n");
  CHECK(quota_cpus(root) == 0);
  file(root, "/sys/fs/cgroup/work", "cpu.max", "250000 100000\\n");
  CHECK(quota_cpus(root) == 3);
  file(root, "/sys/fs/cgroup/work/rank", "cpu.max", "50000 100000\\n");
  CHECK(quota_cpus(root) == 1);
  free(root);
}

/* A container: its own group is the root, and the path in /proc does not exist. */
static void test_container(void) {
  char *root = new_root("container", "0::/system.slice/docker-1\\n");
  file(root, "/sys/fs/cgroup", "cpu.max", "200000 100000\\n");
  CHECK(quota_cpus(root) == 2);
  free(root);
}

static void test_version_1(void) {
  char *root = new_root("first", "9:cpuset:/a\\n4:cpu,cpuacct:/a\\n0::/\\n");
  file(root, "/sys/fs/cgroup/cpu/a", "cpu.cfs_period_us", "50000\\n");
  file(root, "/sys/fs/cgroup/cpu/a", "cpu.cfs_quota_us", "-1\\n");
  CHECK(quota_cpus(root) == 0);
  file(root, "/sys/fs/cgroup/cpu/a", "cpu.cfs_quota_us", "200000\\n");
  CHECK(quota_cpus(root) == 4);
  free(root);
}

int main(void) {
  RUN(test_verdict);
  RUN(test_pauses);
  RUN(test_shared_core);
  RUN(test_version_2);
  RUN(test_container);
  RUN(test_version_1);
  return test_summary();
}
