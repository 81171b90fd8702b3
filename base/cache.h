/* base/cache.h - a cache of results that take time to compute: files in a folder of the user.
 *
 * In: a kind, and a key of everything that the bytes depend on.  Out: the bytes, as they were stored.  A file is
 * named after its kind and the hash of its key.  It is written atomically (base/file.h) and begins with its length
 * and hash, so any number of processes may use the folder and a killed process harms nothing.  Damaged files are
 * removed.  The key contains the hash of the program's own file, so another build finds nothing of this one.  Only
 * the owner may be able to write to the folder, since machine code is kept in it.  If it exceeds CACHE_BYTES, the
 * files unused for longest are removed.  Nothing here is an error: results that cannot be cached are computed again.
 */
#ifndef APC_BASE_CACHE_H
#define APC_BASE_CACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/arena.h"
#include "base/hash.h"

enum { CACHE_NAME = 64 }; /* bytes of a file's name, with the NUL */
#define CACHE_BYTES ((uint64_t)512 << 20)

typedef struct Cache {
  const char *folder;
  const char *why_not; /* why the cache is not used; NULL if it is */
  uint64_t program;    /* hash of the program's own file */
} Cache;

/* The folder that the environment names: APC_CACHE, else XDG_CACHE_HOME/apc, else HOME/.cache/apc.  NULL if none, or
 * if APC_CACHE is empty or "off". */
const char *cache_folder(Arena *a);
/* Opens the folder; creates it if it is missing and `makes` is set. */
const Cache *cache_open(Arena *a, const char *folder, bool makes);

/* Everything that the bytes depend on.  Begin with cache_key, then add to it. */
typedef struct CacheKey {
  const char *kind; /* a word of lower-case letters */
  Hash64 hashes[2];
} CacheKey;
CacheKey cache_key(const Cache *c, const char *kind);
void cache_key_add(CacheKey *k, const void *bytes, size_t n);
void cache_key_text(CacheKey *k, const char *text); /* NULL differs from every text */
void cache_key_number(CacheKey *k, uint64_t x);

/* Returns the stored bytes, followed by a NUL, in the arena; NULL if there are none.  `c` may be NULL. */
const char *cache_find(const Cache *c, const CacheKey *k, Arena *a, size_t *n);
/* Stores the bytes; failures are ignored.  `c` may be NULL. */
void cache_keep(const Cache *c, const CacheKey *k, const void *bytes, size_t n);

/* The files in the folder, the most recently used first. */
typedef struct CacheFile {
  char name[CACHE_NAME]; /* kind-hash */
  uint64_t bytes;
  struct timespec used;
} CacheFile;
typedef struct CacheList {
  CacheFile *items;
  size_t n, cap;
  uint64_t bytes; /* of all files */
} CacheList;
void cache_list(const Cache *c, Arena *a, CacheList *out);
/* Removes all files; returns how many. */
size_t cache_clear(const Cache *c, Arena *a);

#endif
