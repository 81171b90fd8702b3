/* runtime/exec/param_paths.c - see param_paths.h. */
#include "runtime/exec/param_paths.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static bool has_size(const char *path, uint64_t bytes) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == bytes;
}

/* True if `file` can be the blob; files of equal size are distinguished by name. */
static bool is_blob(const Program *p, uint32_t blob, const char *file) {
  const char *name = base_name(file);
  if (!has_size(file, p->blobs[blob].bytes)) return false;
  if (strcmp(base_name(program_text(p, p->blobs[blob].path)), name) == 0) return true;
  for (uint32_t i = 0; i < p->n_blobs; i++)
    if (p->blobs[i].bytes == p->blobs[blob].bytes && strcmp(base_name(program_text(p, p->blobs[i].path)), name) == 0)
      return false;
  return true;
}

/* A model names its data files relative to its own folder, but the program only knows full paths: returns the longest
 * end of the path that exists in `folder`. */
static char *find_below(const char *folder, size_t n, const char *path, uint64_t bytes) {
  char *found = malloc(n + strlen(path) + 2);
  for (const char *end = path; found && end; end = strchr(end, '/')) {
    while (*end == '/') end++;
    sprintf(found, "%.*s/%s", (int)n, folder, end);
    if (has_size(found, bytes)) return found;
  }
  free(found);
  return NULL;
}

char *param_path_find(const Program *p, uint32_t blob, const char *place) {
  const char *path = program_text(p, p->blobs[blob].path);
  struct stat st;
  if (stat(place, &st) != 0) return NULL;
  if (S_ISDIR(st.st_mode)) return find_below(place, strlen(place), path, p->blobs[blob].bytes);
  if (is_blob(p, blob, place)) return strdup(place);
  size_t n = (size_t)(base_name(place) - place);
  return n ? find_below(place, n - 1, path, p->blobs[blob].bytes) : find_below(".", 1, path, p->blobs[blob].bytes);
}
