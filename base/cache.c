/* base/cache.c - see cache.h. */
#include "base/cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static const char magic[8] = "apckept1";

/* Stands before the bytes. */
typedef struct Front {
  char magic[8];
  uint64_t bytes, hash;
} Front;

/* ---- the folder */

const char *cache_folder(Arena *a) {
  const char *own = getenv("APC_CACHE"), *caches = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (own) return *own && strcmp(own, "off") != 0 ? own : NULL;
  if (caches && *caches == '/') return arena_printf(a, "%s/apc", caches);
  return home && *home == '/' ? arena_printf(a, "%s/.cache/apc", home) : NULL;
}

/* Makes a folder for this user only, and the missing folders above it. */
static void make_folders(Arena *a, const char *folder) {
  char *path = arena_strdup(a, folder);
  for (char *at = path + 1; *at; at++) {
    if (*at != '/') continue;
    *at = 0;
    mkdir(path, 0777);
    *at = '/';
  }
  mkdir(path, 0700);
}

/* True if other users could replace the folder: they may write to a folder above it that lacks the sticky bit. */
static bool can_be_replaced(Arena *a, const char *folder) {
  char *path = realpath(folder, NULL), *above = path ? arena_strdup(a, path) : NULL;
  bool can = !path;
  free(path);
  while (above && !can && above[1]) {
    struct stat st;
    char *end = strrchr(above, '/');
    end[end == above] = 0;
    can = stat(above, &st) || ((st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX));
  }
  return can;
}

static const char *fault_of(Arena *a, const char *folder) {
  struct stat st;
  if (stat(folder, &st)) return "it does not exist and cannot be created";
  if (!S_ISDIR(st.st_mode)) return "it is not a folder";
  if (st.st_uid != geteuid()) return "another user owns it";
  if (st.st_mode & (S_IWGRP | S_IWOTH)) return "other users may write to it";
  if (can_be_replaced(a, folder)) return "other users may replace it";
  return access(folder, R_OK | W_OK | X_OK) ? "it cannot be written" : NULL;
}

static uint64_t hash_of_program(Arena *a) {
  FileMap map;
  if (!file_map(diags_new(a), "/proc/self/exe", &map)) return 0;
  uint64_t hash = hash64(map.data, map.size, 0);
  file_unmap(&map);
  return hash;
}

const Cache *cache_open(Arena *a, const char *folder, bool makes) {
  Cache *c = ARENA_NEW(a, Cache);
  if (makes) make_folders(a, folder);
  *c = (Cache){.folder = folder, .why_not = fault_of(a, folder)};
  if (!c->why_not) c->program = hash_of_program(a);
  if (!c->why_not && !c->program) c->why_not = "the program's own file cannot be read";
  return c;
}

/* ---- keys */

CacheKey cache_key(const Cache *c, const char *kind) {
  CacheKey k = {.kind = kind};
  for (int i = 0; i < 2; i++) hash64_begin(&k.hashes[i], (uint64_t)i);
  cache_key_number(&k, c ? c->program : 0);
  return k;
}

void cache_key_add(CacheKey *k, const void *bytes, size_t n) {
  for (int i = 0; i < 2; i++) hash64_add(&k->hashes[i], &n, sizeof n), hash64_add(&k->hashes[i], bytes, n);
}

void cache_key_text(CacheKey *k, const char *text) {
  cache_key_number(k, text != NULL);
  if (text) cache_key_add(k, text, strlen(text));
}

void cache_key_number(CacheKey *k, uint64_t x) { cache_key_add(k, &x, sizeof x); }

static const char *path_of(const Cache *c, const CacheKey *k, Arena *a) {
  return arena_printf(a, "%s/%s-%016" PRIx64 "%016" PRIx64, c->folder, k->kind, hash64_end(&k->hashes[0]),
                      hash64_end(&k->hashes[1]));
}

/* ---- the files */

static bool is_ours(const char *name) {
  const char *hash = strchr(name, '-');
  return hash && hash > name && strlen(name) < CACHE_NAME && strlen(hash + 1) == 32 &&
         strspn(hash + 1, "0123456789abcdef") == 32;
}

static int last_used_first(const void *x, const void *y) {
  const CacheFile *a = x, *b = y;
  if (a->used.tv_sec != b->used.tv_sec) return a->used.tv_sec > b->used.tv_sec ? -1 : 1;
  if (a->used.tv_nsec != b->used.tv_nsec) return a->used.tv_nsec > b->used.tv_nsec ? -1 : 1;
  return strcmp(a->name, b->name);
}

void cache_list(const Cache *c, Arena *a, CacheList *out) {
  *out = (CacheList){0};
  DIR *folder = opendir(c->folder);
  for (const struct dirent *e; folder && (e = readdir(folder));) {
    CacheFile f;
    struct stat st;
    if (!is_ours(e->d_name) || fstatat(dirfd(folder), e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
      continue;
    f = (CacheFile){.bytes = (uint64_t)st.st_size, .used = st.st_mtim};
    memcpy(f.name, e->d_name, strlen(e->d_name) + 1);
    ARENA_PUSH(a, out, f);
    out->bytes += f.bytes;
  }
  if (folder) closedir(folder);
  if (out->n) qsort(out->items, out->n, sizeof *out->items, last_used_first);
}

static bool remove_file(const Cache *c, Arena *a, const CacheFile *f) {
  return unlink(arena_printf(a, "%s/%s", c->folder, f->name)) == 0;
}

size_t cache_clear(const Cache *c, Arena *a) {
  CacheList all;
  size_t n = 0;
  cache_list(c, a, &all);
  for (size_t i = 0; i < all.n; i++) n += remove_file(c, a, &all.items[i]);
  return n;
}

/* Removes files down to nine tenths of the limit, so that this happens rarely. */
static void make_room(const Cache *c, Arena *a) {
  CacheList all;
  cache_list(c, a, &all);
  if (all.bytes <= CACHE_BYTES) return;
  while (all.n > 0 && all.bytes > CACHE_BYTES / 10 * 9) {
    const CacheFile *last = &all.items[--all.n];
    remove_file(c, a, last);
    all.bytes -= last->bytes;
  }
}

/* ---- finding and keeping */

static bool is_whole(const FileMap *map) {
  Front front;
  if (map->size < sizeof front) return false;
  memcpy(&front, map->data, sizeof front);
  size_t bytes = map->size - sizeof front;
  return memcmp(front.magic, magic, sizeof magic) == 0 && front.bytes == bytes &&
         front.hash == hash64(map->data + sizeof front, bytes, 0);
}

const char *cache_find(const Cache *c, const CacheKey *k, Arena *a, size_t *n) {
  if (!c || c->why_not) return NULL;
  Arena *scratch = arena_new();
  const char *path = path_of(c, k, scratch);
  FileMap map;
  char *bytes = NULL;
  if (access(path, R_OK) == 0 && file_read(diags_new(scratch), path, &map)) {
    if (is_whole(&map)) {
      *n = map.size - sizeof(Front);
      bytes = ARENA_ARRAY(a, char, *n + 1);
      memcpy(bytes, map.data + sizeof(Front), *n);
      utimensat(AT_FDCWD, path, NULL, 0); /* marks it as used now */
    } else {
      unlink(path);
    }
    file_unmap(&map);
  }
  arena_free(scratch);
  return bytes;
}

void cache_keep(const Cache *c, const CacheKey *k, const void *bytes, size_t n) {
  if (!c || c->why_not || n > CACHE_BYTES / 2) return;
  Arena *scratch = arena_new();
  Diags *ignored = diags_new(scratch);
  Front front = {.bytes = n, .hash = hash64(bytes, n, 0)};
  memcpy(front.magic, magic, sizeof magic);
  FileWriter *w = file_writer_open(ignored, path_of(c, k, scratch), 0666);
  if (w && file_writer_add(w, &front, sizeof front) && file_writer_add(w, bytes, n)) file_writer_finish(w);
  else if (w) file_writer_abandon(w);
  make_room(c, scratch);
  arena_free(scratch);
}
