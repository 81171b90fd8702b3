/* codegen/cpu/kernel_prelude.h - the vocabulary of generated CPU kernels, after kernel_elements.h: reductions and
 * memory of a thread.  Begins every generated text (codegen/embed.cmake makes it a string); never included by the
 * compiler itself.
 */
/* Adjacent names of macros are no statements. */
/* clang-format off */

/* ---- reductions */

/* 32 lanes by index mod 32, then a butterfly.  At most 1024 elements. */
#define BLOCK(T, type, name, op, identity) \
  FN type block_##name##_##T(const type *restrict t, int64_t n) { \
    type lane[32]; \
    int64_t j = 0; \
    for (int l = 0; l < 32; l++) lane[l] = identity; \
    for (; j + 32 <= n; j += 32) \
      for (int l = 0; l < 32; l++) lane[l] = op##_##T(lane[l], t[j + l]); \
    for (int l = 0; j + l < n; l++) lane[l] = op##_##T(lane[l], t[j + l]); \
    for (int w = 16; w; w /= 2) \
      for (int l = 0; l < w; l++) lane[l] = op##_##T(lane[l], lane[l + w]); \
    return lane[0]; \
  }

/* A sum over blocks as a tree: equal subtrees are joined as soon as they are full, the rest from the small end. */
enum { LEVELS = 44, TILE = 64 };
#define PAIRWISE(T, type) \
  typedef struct Sum_##T { type level[LEVELS]; uint64_t count; } Sum_##T; \
  /* The blocks before that of global index `first` belong to another rank: zeros here. */ \
  FN void begin_##T(Sum_##T *s, int64_t first) { \
    s->count = (uint64_t)first / 1024; \
    for (int l = 0; s->count >> l; l++) s->level[l] = 0; \
  } \
  FN void push_##T(Sum_##T *s, type v) { \
    int l = 0; \
    for (uint64_t c = s->count++; c & 1; c >>= 1, l++) v = s->level[l] + v; \
    s->level[l] = v; \
  } \
  FN type total_##T(const Sum_##T *s) { \
    type v = 0; \
    _Bool any = 0; \
    int l = 0; \
    for (uint64_t c = s->count; c; c >>= 1, l++) \
      if (c & 1) v = any ? s->level[l] + v : s->level[l], any = 1; \
    return v; \
  } \
  typedef struct Sums_##T { type level[LEVELS][TILE]; uint64_t count; } Sums_##T; \
  FN void begin_columns_##T(Sums_##T *s, int64_t first) { \
    s->count = (uint64_t)first / 1024; \
    for (int l = 0; s->count >> l; l++) memset(s->level[l], 0, sizeof s->level[l]); \
  } \
  FN void zero_lanes_##T(type lane[32][TILE], int64_t m) { \
    memset(lane, 0, sizeof(type) * TILE * (size_t)(m < 32 ? m : 32)); \
  } \
  FN void push_lanes_##T(Sums_##T *s, type lane[32][TILE], int64_t m) { \
    if (m < 32) memset(lane[m], 0, sizeof(type) * TILE * (size_t)(32 - m)); \
    for (int h = 16; h; h /= 2) \
      for (int l = 0; l < h; l++) \
        for (int w = 0; w < TILE; w++) lane[l][w] += lane[l + h][w]; \
    int l = 0; \
    for (uint64_t c = s->count++; c & 1; c >>= 1, l++) \
      for (int w = 0; w < TILE; w++) lane[0][w] = s->level[l][w] + lane[0][w]; \
    memcpy(s->level[l], lane[0], sizeof lane[0]); \
  } \
  FN void totals_##T(const Sums_##T *s, type *v) { \
    _Bool any = 0; \
    int l = 0; \
    for (int w = 0; w < TILE; w++) v[w] = 0; \
    for (uint64_t c = s->count; c; c >>= 1, l++) { \
      if (!(c & 1)) continue; \
      for (int w = 0; w < TILE; w++) v[w] = any ? s->level[l][w] + v[w] : s->level[l][w]; \
      any = 1; \
    } \
  }
PAIRWISE(f32, float)
PAIRWISE(f64, double)

#define BLOCKS(T, type, low, high) \
  BLOCK(T, type, sum, add, 0) BLOCK(T, type, product, mul, 1) BLOCK(T, type, max, max, low) \
      BLOCK(T, type, min, min, high)
BLOCKS(f32, float, -__builtin_inff(), __builtin_inff())
BLOCKS(f64, double, -__builtin_inf(), __builtin_inf())
BLOCKS(i8, int8_t, INT8_MIN, INT8_MAX) BLOCKS(i16, int16_t, INT16_MIN, INT16_MAX)
BLOCKS(i32, int32_t, INT32_MIN, INT32_MAX) BLOCKS(i64, int64_t, INT64_MIN, INT64_MAX)
BLOCKS(u8, uint8_t, 0, UINT8_MAX) BLOCKS(u16, uint16_t, 0, UINT16_MAX)
BLOCKS(u32, uint32_t, 0, UINT32_MAX) BLOCKS(u64, uint64_t, 0, UINT64_MAX)
BLOCK(bool, _Bool, or, or, 0) BLOCK(bool, _Bool, and, and, 1)

/* ---- copies past the caches */

/* Copies of at least so many bytes do not stay in a second-level cache.  Writing them past the caches avoids reading
 * the overwritten memory; prefetching AHEAD bytes gains another fifth. */
enum { FAR = 1 << 22, AHEAD = 16384 };
#if defined(__x86_64__)
typedef float far_four __attribute__((vector_size(16), may_alias));
typedef float far_any __attribute__((vector_size(16), may_alias, aligned(1)));
FN void far_store(far_four *y, const far_any *x) {
#if defined(__clang__)
  __builtin_nontemporal_store((far_four)*x, y);
#else
  __builtin_ia32_movntps((float *)y, (far_four)*x);
#endif
}
/* Called after the last copy of a kernel, by the thread that began it: other threads order their stores at the
 * barrier. */
FN void far_end(void) { __builtin_ia32_sfence(); }
static __attribute__((unused)) void copy_far(void *to, const void *from, int64_t bytes) {
  int64_t lead = (int64_t)(-(uintptr_t)to % sizeof(far_four));
  if (lead > bytes) lead = bytes;
  if (lead) memcpy(to, from, (size_t)lead);
  far_four *y = (far_four *)((char *)to + lead);
  const far_any *x = (const far_any *)((const char *)from + lead);
  for (bytes -= lead; bytes >= 64; bytes -= 64) {
    __builtin_prefetch((const char *)x + AHEAD, 0, 2);
    for (int i = 0; i < 4; i++) far_store(y++, x++);
  }
  for (; bytes >= 16; bytes -= 16) far_store(y++, x++);
  if (bytes) memcpy(y, x, (size_t)bytes);
}
#else
FN void far_end(void) {}
FN void copy_far(void *to, const void *from, int64_t bytes) { memcpy(to, from, (size_t)bytes); }
#endif

/* ---- loops over a part of a row */

/* Clamps x to [from, to]. */
FN int64_t place(int64_t x, int64_t from, int64_t to) { return x < from ? from : x < to ? x : to; }

/* ---- memory of a thread: grows, and is kept for the next kernel */

enum { SCRATCH_SLOTS = 16 };
static __thread struct { void *data; size_t bytes; } scratch_slots[SCRATCH_SLOTS];
static __attribute__((unused, noinline)) void *scratch(int slot, int64_t bytes) {
  if (scratch_slots[slot].bytes < (size_t)bytes || !scratch_slots[slot].data) {
    size_t want = ((size_t)bytes + 4095) / 4096 * 4096 + 4096;
    free(scratch_slots[slot].data);
    scratch_slots[slot].data = aligned_alloc(64, want);
    scratch_slots[slot].bytes = want;
    if (!scratch_slots[slot].data) {
      fprintf(stderr, "kernel: out of memory for %zu bytes of row storage\n", want);
      abort();
    }
  }
  return scratch_slots[slot].data;
}
