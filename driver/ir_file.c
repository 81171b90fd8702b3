/* driver/ir_file.c - see ir_file.h. */
#include "driver/ir_file.h"

#include <stdlib.h>
#include <string.h>

/* Returns the length of the folder in a path, with its slash. */
static size_t folder(const char *file) {
  const char *slash = strrchr(file, '/');
  return slash ? (size_t)(slash - file) + 1 : 0;
}

void driver_ir_file_locate(Module *m, const char *file) {
  for (size_t i = 0; i < m->blobs.n; i++) {
    const char **path = &m->blobs.items[i].path;
    if (**path != '/') *path = arena_printf(m->arena, "%.*s%s", (int)folder(file), file, *path);
  }
}

/* Returns `path` as the text in `file` names it: relative if it is in the folder of the text or below, else
 * absolute. */
static const char *seen_from(Arena *a, const char *file, const char *path) {
  size_t n = folder(file);
  if (*path == '/') return path;
  if (strncmp(path, file, n) == 0) return path + n + strspn(path + n, "/");
  char *whole = realpath(path, NULL);
  const char *seen = whole ? arena_strdup(a, whole) : path;
  free(whole);
  return seen;
}

const char *driver_ir_file_text(Arena *a, const Module *m, const char *file) {
  Module copy = *m;
  Text text = {.arena = a};
  copy.blobs.items = ARENA_ARRAY(a, Blob, m->blobs.n + 1);
  for (size_t i = 0; i < m->blobs.n; i++) {
    copy.blobs.items[i] = m->blobs.items[i];
    copy.blobs.items[i].path = seen_from(a, file, m->blobs.items[i].path);
  }
  module_print(&copy, &text);
  return text_str(&text);
}
