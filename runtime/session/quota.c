/* runtime/session/quota.c - see quota.h.
 *
 * A limit is a time per period: "150000 100000" in cpu.max (version 2), or two files (version 1).  It applies to all
 * groups below, so the least limit on the way to the root counts.  A container may see its own group as the root of the
 * group file system while /proc shows the path outside, so missing folders are skipped.
 */
#include "runtime/session/quota.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_line(const char *folder, const char *name, char *line, int size) {
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return false;
  FILE *f = fopen(path, "re");
  bool ok = f && fgets(line, size, f);
  if (f) fclose(f);
  return ok;
}

/* Returns the limit of one group, in cores; 0 if it sets none. */
static int limit_of(const char *folder, bool second) {
  char quota[64], period[64] = "";
  long long time, length = 0;
  if (!read_line(folder, second ? "cpu.max" : "cpu.cfs_quota_us", quota, sizeof quota)) return 0;
  if (!second && !read_line(folder, "cpu.cfs_period_us", period, sizeof period)) return 0;
  char *rest;
  time = strtoll(quota, &rest, 10); /* "max", -1: none */
  length = strtoll(second ? rest : period, NULL, 10);
  if (time <= 0 || length <= 0 || time / length >= INT_MAX) return 0;
  return (int)((time - 1) / length + 1);
}

/* Returns the least limit of a group and of those above it, up to the first `top` characters of the folder. */
static int least_limit(char *folder, size_t top, bool second) {
  for (int least = 0;; *strrchr(folder, '/') = 0) {
    int n = limit_of(folder, second);
    if (n && (!least || n < least)) least = n;
    if (strlen(folder) <= top) return least;
  }
}

/* True if `word` is in a comma-separated list. */
static bool lists(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *at = list; (at = strstr(at, word)); at += n)
    if ((at == list || at[-1] == ',') && (at[n] == ',' || at[n] == 0)) return true;
  return false;
}

/* Returns the limit for a line "NUMBER:CONTROLLERS:PATH"; version 2 has no controllers. */
static int limit_of_line(const char *root, char *line) {
  char folder[PATH_MAX], *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!path) return 0;
  *path++ = 0;
  controllers++;
  path[strcspn(path, "\n")] = 0;
  bool second = *controllers == 0;
  if (!second && !lists(controllers, "cpu")) return 0;
  int top = snprintf(folder, sizeof folder, "%s/sys/fs/cgroup%s", root, second ? "" : "/cpu");
  if (top >= (int)sizeof folder - (int)strlen(path) - 1) return 0;
  strcpy(folder + top, strcmp(path, "/") == 0 ? "" : path);
  return least_limit(folder, (size_t)top, second);
}

int quota_cpus(const char *root) {
  char name[PATH_MAX], line[PATH_MAX];
  int least = 0;
  if (snprintf(name, sizeof name, "%s/proc/self/cgroup", root) >= (int)sizeof name) return 0;
  FILE *f = fopen(name, "re");
  if (!f) return 0;
  while (fgets(line, sizeof line, f)) {
    int n = limit_of_line(root, line);
    if (n && (!least || n < least)) least = n;
  }
  fclose(f);
  return least;
}
