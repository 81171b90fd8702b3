/* base/cache.h - what took time to make, kept between runs of the program: files in a folder of the user's.
 *
 * In: a kind, a key of all that the bytes depend on.  Out: the bytes, as they were kept.  A file is named after its
 * kind and the hash of its key; it is written whole or not at all (base/file.h), and has its length and hash in front,
 * so that any number of processes may use the folder, and one that is killed harms nothing.  What is found to be
 * damaged is removed.  The key has the hash of the program's own file: another build finds nothing of this one.
 * The folder may only be written by its owner, since machine code is kept in it.  Where it has more than CACHE_BYTES,
 * what was not used for longest is removed.  Nothing here is an error: what cannot be kept is made again.
 */
#ifndef APC_BASE_CACHE_H
#define APC_BASE_CACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/arena.h"
#include "base/hash.h"

enum { CACHE_NAME = 64 }; /* bytes of a file's name, with the 0 */
#define CACHE_BYTES ((uint64_t)512 << 20)

typedef struct Cache {
  const char *folder;
  const char *why_not; /* nothing is kept in it; NULL: it is used */
  uint64_t program;    /* hash of the program's own file */
} Cache;

/* The folder that the environment says: APC_CACHE, where it is empty or "off" none, else XDG_CACHE_HOME/apc or
 * HOME/.cache/apc.  NULL: none. */
const char *cache_folder(Arena *a);
/* Opens the folder, which is made where it is missing and `makes` is set. */
const Cache *cache_open(Arena *a, const char *folder, bool makes);

/* All that the bytes depend on. */
typedef struct CacheKey {
  const char *kind; /* a word of small letters */
  Hash64 hashes[2];
} CacheKey;
CacheKey cache_key(const Cache *c, const char *kind);
void cache_key_add(CacheKey *k, const void *bytes, size_t n);
void cache_key_text(CacheKey *k, const char *text); /* NULL is a text of its own */
void cache_key_number(CacheKey *k, uint64_t x);

/* The bytes that were kept, followed by a 0, in the arena; NULL: none were.  `c` may be NULL. */
const char *cache_find(const Cache *c, const CacheKey *k, Arena *a, size_t *n);
void cache_keep(const Cache *c, const CacheKey *k, const void *bytes, size_t n);

/* The files in the folder, the last used first. */
typedef struct CacheFile {
  char name[CACHE_NAME]; /* kind-hash */
  uint64_t bytes;
  struct timespec used;
} CacheFile;
typedef struct CacheList {
  CacheFile *items;
  size_t n, cap;
  uint64_t bytes; /* of all */
} CacheList;
void cache_list(const Cache *c, Arena *a, CacheList *out);
/* Removes all; how many there were. */
size_t cache_clear(const Cache *c, Arena *a);

#endif
