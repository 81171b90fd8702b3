/* runtime/train/tokens.c - see tokens.h. */
#include "runtime/train/tokens.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"
#include "runtime/train/megatron.h"

typedef struct Shard {
  const char *path;
  FileMap map;
  const uint8_t *tokens; /* after the header, if there is one */
  size_t bytes;          /* of all tokens */
  int bits;              /* of each token */
  bool indexed;          /* it has an index */
  MegatronIndex index;
  int64_t first; /* number of its first row among all */
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

static bool is_there(const char *path) {
  struct stat st;
  return stat(path, &st) == 0;
}

/* Returns the .bin file of a path that is its index, or the name of both. */
static const char *bin_of(Arena *a, const char *path) {
  if (text_ends_with(path, ".bin")) return path;
  const size_t n = text_ends_with(path, ".idx") ? strlen(path) - 4 : strlen(path);
  return arena_printf(a, "%.*s.bin", (int)n, path);
}

bool tokens_named(const char *path) {
  if (text_ends_with(path, ".bin") || text_ends_with(path, ".idx") || is_folder(path)) return true;
  Arena *a = arena_new();
  const bool both = is_there(bin_of(a, path)) && is_there(megatron_index_of(a, path));
  arena_free(a);
  return both && !is_there(path);
}

static bool refuse(const Tokens *t, const char *path, const char *what) {
  return diag_error(t->diags, DIAG_file_read, file_loc(t->diags, path), "%s", what);
}

/* ---- opening */

static uint32_t read_u32(const uint8_t *p) {
  return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Token files of llm.c: the width for a version of a magic number. */
static const struct {
  uint32_t magic, version;
  int bits;
} headers[] = {{20240520, 1, 16}, {20240801, 7, 32}}; /* of GPT-2, of LLaMA 3 */

enum { HEADER_BYTES = 256 * 4, HEADERS = (int)(sizeof headers / sizeof *headers) };

/* True for 256 numbers, zero except the first three, the last of which counts the tokens that follow: no text looks
 * like that. */
static bool looks_headed(const Shard *s) {
  if (s->map.size <= HEADER_BYTES) return false;
  for (size_t i = 12; i < HEADER_BYTES; i++)
    if (s->map.data[i]) return false;
  const uint64_t count = read_u32(s->map.data + 8), rest = s->map.size - HEADER_BYTES;
  return read_u32(s->map.data) && (count * 2 == rest || count * 4 == rest);
}

/* Returns the width in the header of a file; 0 without a header, -1 after a diagnostic. */
static int header_bits(const Tokens *t, Shard *s) {
  Arena *a = t->diags->arena;
  const uint32_t magic = s->map.size < 4 ? 0 : read_u32(s->map.data);
  int h = 0;
  while (h < HEADERS && magic != headers[h].magic) h++;
  if (h == HEADERS && !looks_headed(s)) return 0;
  if (h == HEADERS)
    return refuse(
               t, s->path,
               arena_printf(a, "it begins with a header of llm.c, but its magic number %" PRIu32 " is unknown", magic)),
           -1;
  if (s->map.size < HEADER_BYTES)
    return refuse(t, s->path, "it begins like a token file of llm.c, but is shorter than its header"), -1;
  const uint32_t version = read_u32(s->map.data + 4), count = read_u32(s->map.data + 8);
  if (version != headers[h].version)
    return refuse(t, s->path,
                  arena_printf(a,
                               "it is a token file of llm.c (%" PRIu32 ") of version %" PRIu32 "; only %" PRIu32
                               " is supported",
                               headers[h].magic, version, headers[h].version)),
           -1;
  s->tokens += HEADER_BYTES, s->bytes -= HEADER_BYTES;
  if ((uint64_t)count * (uint64_t)headers[h].bits / 8 != s->bytes)
    return refuse(t, s->path,
                  arena_printf(a, "its header (llm.c) counts %" PRIu32 " tokens of %d bits, but %zu bytes follow",
                               count, headers[h].bits, s->bytes)),
           -1;
  return headers[h].bits;
}

/* True if 32-bit tokens are read as 16-bit ones: every second one is 0.  Text has no such run. */
static bool looks_wide(const Shard *s) {
  const size_t pairs = s->bytes / 4, enough = 64;
  for (size_t i = 0; i < pairs && i < 4096; i++)
    if (s->tokens[4 * i + 2] || s->tokens[4 * i + 3]) return false;
  return pairs >= enough && s->bytes % 4 == 0;
}

/* Reads the index, if there is one; false after a diagnostic. */
static bool find_index(const Tokens *t, Shard *s) {
  const char *path = megatron_index_of(t->diags->arena, s->path);
  s->indexed = is_there(path);
  return !s->indexed || megatron_open(t->diags, path, s->map.size, &s->index);
}

/* Finds the width of tokens: that of an index or a header, which --bits must not contradict. */
static bool find_bits(const Tokens *t, Shard *s) {
  if (!find_index(t, s)) return false;
  const int said = s->indexed ? s->index.bits : header_bits(t, s), wanted = t->format.bits;
  if (said < 0) return false;
  s->bits = wanted ? wanted : said ? said : t->format.below > 1 << 16 ? 32 : 16;
  return !said || said == s->bits ||
         refuse(t, s->path,
                arena_printf(t->diags->arena, "its %s says %d-bit tokens, but --bits %d",
                             s->indexed ? "index (Megatron)" : "header (llm.c)", said, wanted));
}

static bool add_shard(Tokens *t, const char *path) {
  Shard s = {.path = path, .first = t->rows};
  if (!file_map(t->diags, path, &s.map)) return false;
  s.tokens = s.map.data, s.bytes = s.map.size;
  bool known = find_bits(t, &s);
  ARENA_PUSH(t->diags->arena, &t->shards, s);
  if (!known) return false;
  const size_t bytes = (size_t)s.bits / 8;
  if (s.bytes % bytes)
    return refuse(
        t, path,
        arena_printf(t->diags->arena, "its %zu bytes are not a whole number of %d-bit tokens", s.bytes, s.bits));
  if (bytes == 2 && s.tokens == s.map.data && !s.indexed && looks_wide(&s))
    return refuse(t, path, "every second token of 16 bits is 0: are these 32-bit tokens (--bits 32)?");
  int64_t count = (int64_t)(s.bytes / bytes);
  if (count > t->format.length) t->rows += (count - 1) / t->format.length;
  return true;
}

static int is_shard(const struct dirent *e) { return e->d_name[0] != '.' && text_ends_with(e->d_name, ".bin"); }

/* By bytes, independent of the locale. */
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
  return ok && (n || refuse(t, path, "the folder has no .bin file"));
}

Tokens *tokens_open(Diags *diags, const char *path, const TokenFormat *format) {
  Tokens *t = ARENA_NEW(diags->arena, Tokens);
  *t = (Tokens){.diags = diags, .format = *format};
  if (is_folder(path) ? add_folder(t, path) : add_shard(t, bin_of(diags->arena, path))) return t;
  tokens_close(t);
  return NULL;
}

void tokens_close(Tokens *t) {
  for (size_t i = 0; t && i < t->shards.n; i++) {
    Shard *s = &t->shards.items[i];
    file_unmap(&s->map);
    if (s->index.map.data) file_unmap(&s->index.map);
  }
}

bool tokens_indexed(const Tokens *t) {
  bool all = true;
  for (size_t i = 0; i < t->shards.n; i++) all = all && t->shards.items[i].indexed;
  return all;
}

int64_t tokens_rows(const Tokens *t) { return t->rows; }

bool tokens_identity(const Tokens *t, DataIdentity *out) {
  bool ok = true;
  for (size_t i = 0; i < t->shards.n && ok; i++) ok = data_identity_add(out, t->shards.items[i].path);
  return ok;
}

/* ---- reading */

/* Returns the last shard whose first row is not above this one; earlier shards without rows have the same first row. */
static const Shard *shard_of(const Tokens *t, int64_t row) {
  size_t low = 0, high = t->shards.n;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (t->shards.items[middle].first <= row) low = middle;
    else high = middle;
  }
  return &t->shards.items[low];
}

static int64_t token_at(const Shard *s, const uint8_t *from) {
  const int bytes = s->bits / 8;
  uint64_t x = 0;
  for (int i = bytes; i-- > 0;) x = x << 8 | from[i];
  if (!s->indexed || !s->index.is_signed || bytes == 8) return (int64_t)x;
  const uint64_t sign = UINT64_C(1) << (s->bits - 1);
  return (int64_t)((x ^ sign) - sign);
}

bool tokens_read(const Tokens *t, int64_t row, int64_t *out, bool *starts, char *error, size_t size) {
  const Shard *s = shard_of(t, row);
  const int64_t first = (row - s->first) * t->format.length;
  const size_t bytes = (size_t)s->bits / 8;
  const uint8_t *from = s->tokens + (size_t)first * bytes;
  if (starts) memset(starts, false, (size_t)t->format.length + 1);
  if (starts && t->format.end < 0) megatron_starts(&s->index, first, t->format.length + 1, starts);
  for (int64_t i = 0; i <= t->format.length; i++, from += bytes) {
    const int64_t token = out[i] = token_at(s, from);
    if (starts && t->format.end >= 0 && i && out[i - 1] == t->format.end) starts[i] = true;
    if (token >= 0 && token < t->format.below) continue;
    snprintf(error, size, "%s: token %" PRId64 " is %" PRId64 "; the model's vocabulary has %" PRId64, s->path,
             first + i, token, t->format.below);
    return false;
  }
  return true;
}
