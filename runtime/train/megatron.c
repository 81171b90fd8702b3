/* runtime/train/megatron.c - see megatron.h. */
#include "runtime/train/megatron.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"

enum { HEAD = 34 };

static const char magic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};

/* Types of tokens by their code. */
static const struct {
  const char *name;
  int bits;
  bool is_signed;
} types[] = {
    [1] = {"uint8", 8, false}, [2] = {"int8", 8, true},    [3] = {"int16", 16, true},  [4] = {"int32", 32, true},
    [5] = {"int64", 64, true}, [6] = {"float64", 0, true}, [7] = {"float32", 0, true}, [8] = {"uint16", 16, false}};

enum { TYPES = (int)(sizeof types / sizeof *types) };

const char *megatron_index_of(Arena *a, const char *bin) {
  const size_t n = text_ends_with(bin, ".bin") ? strlen(bin) - 4 : strlen(bin);
  return arena_printf(a, "%.*s.idx", (int)n, bin);
}

static uint64_t read_u64(const uint8_t *p) {
  uint64_t x = 0;
  for (int i = 8; i-- > 0;) x = x << 8 | p[i];
  return x;
}

static int64_t length_of(const MegatronIndex *x, uint64_t i) {
  const uint8_t *p = x->lengths + 4 * i;
  return (int32_t)(p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
}

static bool refuse(Diags *diags, const char *path, const char *what) {
  return diag_error(diags, DIAG_file_read, file_loc(diags, path), "%s", what);
}

static bool read_head(Diags *diags, const char *path, MegatronIndex *x) {
  Arena *a = diags->arena;
  const uint8_t *p = x->map.data;
  if (x->map.size < sizeof magic || memcmp(p, magic, sizeof magic) != 0)
    return refuse(diags, path,
                  "it lies beside a token file, but is no index of Megatron's: it begins with other bytes");
  if (x->map.size < HEAD) return refuse(diags, path, "the index of Megatron's is shorter than its header");
  if (read_u64(p + 9) != 1)
    return refuse(diags, path,
                  arena_printf(a, "the index has version %" PRIu64 "; only 1 is supported", read_u64(p + 9)));
  const int code = p[17];
  if (code < 1 || code >= TYPES)
    return refuse(diags, path, arena_printf(a, "the type of tokens, %d, is unknown", code));
  if (!types[code].bits)
    return refuse(diags, path, arena_printf(a, "tokens of type %s are no numbers of words", types[code].name));
  x->bits = types[code].bits, x->is_signed = types[code].is_signed;
  x->sequences = read_u64(p + 18), x->documents = read_u64(p + 26);
  const uint64_t rest = x->map.size - HEAD, limit = UINT64_C(1) << 48;
  const bool counts = x->sequences < limit && x->documents < limit;
  const uint64_t needed = counts ? x->sequences * 12 + x->documents * 8 : 0;
  if (!counts || (rest != needed && rest != needed + x->sequences))
    return refuse(diags, path,
                  arena_printf(a,
                               "its header counts %" PRIu64 " sequences and %" PRIu64 " document indices, but %" PRIu64
                               " bytes follow",
                               x->sequences, x->documents, rest));
  x->lengths = p + HEAD, x->pointers = x->lengths + 4 * x->sequences, x->starts = x->pointers + 8 * x->sequences;
  return true;
}

static bool check_sequences(Diags *diags, const char *path, uint64_t bin_bytes, const MegatronIndex *x) {
  uint64_t end = 0;
  const uint64_t bytes = (uint64_t)x->bits / 8;
  for (uint64_t i = 0; i < x->sequences; i++) {
    const int64_t n = length_of(x, i);
    if (n < 0 || read_u64(x->pointers + 8 * i) != end)
      return refuse(diags, path,
                    arena_printf(diags->arena,
                                 n < 0 ? "sequence %" PRIu64 " has a negative length"
                                       : "sequence %" PRIu64 " does not begin where the one before it ends",
                                 i));
    end += (uint64_t)n * bytes; /* at most 2^48 * 2^34 only if the file were that long: it is checked below */
    if (end > bin_bytes) break;
  }
  return end == bin_bytes ||
         refuse(diags, path,
                arena_printf(diags->arena, "its sequences have %s%" PRIu64 " bytes, but the .bin file has %" PRIu64,
                             end > bin_bytes ? "at least " : "", end, bin_bytes));
}

static bool check_documents(Diags *diags, const char *path, const MegatronIndex *x) {
  uint64_t before = 0;
  for (uint64_t i = 0; i < x->documents; i++) {
    const uint64_t at = read_u64(x->starts + 8 * i);
    if (at > x->sequences || at < before)
      return refuse(
          diags, path,
          arena_printf(diags->arena, "document index %" PRIu64 " is %" PRId64 ": out of order, or above %" PRIu64, i,
                       (int64_t)at, x->sequences));
    before = at;
  }
  return true;
}

bool megatron_open(Diags *diags, const char *path, uint64_t bin_bytes, MegatronIndex *x) {
  *x = (MegatronIndex){.bits = 0};
  return file_map(diags, path, &x->map) && read_head(diags, path, x) && check_sequences(diags, path, bin_bytes, x) &&
         check_documents(diags, path, x);
}

/* Returns the first token of a document; INT64_MAX after the last sequence. */
static int64_t first_token(const MegatronIndex *x, uint64_t document) {
  const uint64_t sequence = read_u64(x->starts + 8 * document);
  return sequence == x->sequences ? INT64_MAX
                                  : (int64_t)(read_u64(x->pointers + 8 * sequence) / ((uint64_t)x->bits / 8));
}

void megatron_starts(const MegatronIndex *x, int64_t first, int64_t n, bool *starts) {
  uint64_t low = 0, high = x->documents;
  while (low < high) { /* the first document from `first` on */
    const uint64_t middle = low + (high - low) / 2;
    if (first_token(x, middle) < first) low = middle + 1;
    else high = middle;
  }
  for (; low < x->documents; low++) {
    const int64_t at = first_token(x, low);
    if (at - first >= n) return;
    starts[at - first] = true;
  }
}
