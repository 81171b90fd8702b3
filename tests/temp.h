/* tests/temp.h - a temporary directory for one test program, removed when it exits. */
#ifndef APC_TESTS_TEMP_H
#define APC_TESTS_TEMP_H

#include <fts.h>
#include <stdio.h>
#include <stdlib.h>

static char temp_dir[4096];

static void temp_remove(void) {
  char *roots[] = {temp_dir, NULL};
  FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
  for (FTSENT *e; tree && (e = fts_read(tree));)
    if (e->fts_info != FTS_D) remove(e->fts_accpath);
  if (tree) fts_close(tree);
}

static inline const char *temp_root(void) {
  if (*temp_dir) return temp_dir;
  const char *base = getenv("TMPDIR");
  snprintf(temp_dir, sizeof temp_dir, "%s/apc-test-XXXXXX", base && *base ? base : "/tmp");
  if (!mkdtemp(temp_dir)) {
    perror(temp_dir);
    exit(1);
  }
  atexit(temp_remove);
  return temp_dir;
}

/* "DIR/name" in one of eight rotating buffers. */
static inline const char *temp_path(const char *name) {
  static char buffers[8][4400];
  static unsigned next;
  char *p = buffers[next++ % 8];
  snprintf(p, sizeof buffers[0], "%s/%s", temp_root(), name);
  return p;
}

static inline void temp_write(const char *path, const void *bytes, size_t n) {
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) {
    perror(path);
    exit(1);
  }
}

#endif
