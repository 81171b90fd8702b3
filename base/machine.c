/* base/machine.c - see machine.h. */
#include "base/machine.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

/* The number in a file; UINT64_MAX if there is none ("max", or no such file). */
static uint64_t number_in(const char *path) {
  FILE *f = fopen(path, "re");
  unsigned long long v = 0;
  bool ok = f && fscanf(f, "%llu", &v) == 1;
  if (f) fclose(f);
  return ok ? v : UINT64_MAX;
}

uint64_t machine_memory(void) {
  static const char *const limits[] = {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  uint64_t most = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
  for (int i = 0; i < 2; i++) {
    uint64_t limit = number_in(limits[i]);
    if (limit < most) most = limit;
  }
  return most;
}
