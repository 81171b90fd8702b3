/* runtime/stub/tokens.c - see tokens.h. */
#include "runtime/stub/tokens.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

typedef struct Shard {
  const char *path;
  FileMap map;
  int64_t first; /* its first row among all */
} Shard;

struct Tokens {
  Diags *diags;
  TokenFormat format;
  struct {
    Shard *items;
    size_t n, cap;
  } shards;
  int64_t rows;
};

static bool is_folder(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool ends_in_bin(const char *name) {
  size_t n = strlen(name);
  return n > 4 && strcmp(name + n - 4, ".bin") == 0;
}

bool tokens_named(const char *path) { return ends_in_bin(path) || is_folder(path); }

static bool refuse(const Tokens *t, const char *path, const char *what) {
  return diag_error(t->diags, DIAG_file_read, file_loc(t->diags, path), "%s", what);
}

/* ---- opening */

/* 32-bit tokens that are read as 16 bits: each second one is 0.  Text has no such run. */
static bool looks_wide(const Shard *s) {
  const size_t pairs = s->map.size / 4, enough = 64;
  for (size_t i = 0; i < pairs && i < 4096; i++)
    if (s->map.data[4 * i + 2] || s->map.data[4 * i + 3]) return false;
  return pairs >= enough && s->map.size % 4 == 0;
}

static bool add_shard(Tokens *t, const char *path) {
  Shard s = {.path = path, .first = t->rows};
  const size_t bytes = (size_t)t->format.bits / 8;
  if (!file_map(t->diags, path, &s.map)) return false;
  ARENA_PUSH(t->diags->arena, &t->shards, s);
  if (s.map.size % bytes)
    return refuse(t, path,
                  arena_printf(t->diags->arena, "its %zu bytes are no whole number of %d-bit tokens", s.map.size,
                               t->format.bits));
  if (bytes == 2 && looks_wide(&s))
    return refuse(t, path, "every second token of 16 bits is 0: are these 32-bit tokens (--bits 32)?");
  int64_t count = (int64_t)(s.map.size / bytes);
  if (count > t->format.length) t->rows += (count - 1) / t->format.length;
  return true;
}

static int is_shard(const struct dirent *e) { return e->d_name[0] != '.' && ends_in_bin(e->d_name); }

/* By bytes, whatever the locale says. */
static int by_name(const struct dirent **x, const struct dirent **y) { return strcmp((*x)->d_name, (*y)->d_name); }

static bool add_folder(Tokens *t, const char *path) {
  struct dirent **list;
  int n = scandir(path, &list, is_shard, by_name);
  if (n < 0) return refuse(t, path, arena_printf(t->diags->arena, "cannot read the folder: %s", strerror(errno)));
  bool ok = true;
  for (int i = 0; i < n; i++) {
    ok = ok && add_shard(t, arena_printf(t->diags->arena, "%s/%s", path, list[i]->d_name));
    free(list[i]);
  }
  free(list);
  return ok && (n || refuse(t, path, "there is no file in the folder whose name ends in .bin"));
}

Tokens *tokens_open(Diags *diags, const char *path, const TokenFormat *format) {
  Tokens *t = ARENA_NEW(diags->arena, Tokens);
  *t = (Tokens){.diags = diags, .format = *format};
  if (is_folder(path) ? add_folder(t, path) : add_shard(t, path)) return t;
  tokens_close(t);
  return NULL;
}

void tokens_close(Tokens *t) {
  for (size_t i = 0; t && i < t->shards.n; i++) file_unmap(&t->shards.items[i].map);
}

int64_t tokens_rows(const Tokens *t) { return t->rows; }

/* ---- reading */

/* The last shard whose first row is not behind this one: those before it without rows have the same first row. */
static const Shard *shard_of(const Tokens *t, int64_t row) {
  size_t low = 0, high = t->shards.n;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (t->shards.items[middle].first <= row) low = middle;
    else high = middle;
  }
  return &t->shards.items[low];
}

bool tokens_read(Tokens *t, int64_t row, int64_t *out) {
  const Shard *s = shard_of(t, row);
  const int64_t first = (row - s->first) * t->format.length;
  const size_t bytes = (size_t)t->format.bits / 8;
  const uint8_t *from = s->map.data + (size_t)first * bytes;
  for (int64_t i = 0; i <= t->format.length; i++, from += bytes) {
    uint32_t token = from[0] | (uint32_t)from[1] << 8;
    if (bytes == 4) token |= (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
    out[i] = token;
    if (token < (uint64_t)t->format.below) continue;
    return refuse(t, s->path,
                  arena_printf(t->diags->arena, "token %" PRId64 " is %" PRIu32 "; the model's vocabulary has %" PRId64,
                               first + i, token, t->format.below));
  }
  return true;
}
