/* codegen/cuda/dialect.h - the vocabulary of emitted CUDA kernels, after a prelude and kernel_elements.h: lanes,
 * reductions by a warp, packets of elements.  Text of the dialect (prelude_device.h): compiled for GPUs, and run on
 * CPUs by tests.
 */
/* Adjacent names of macros are no statements. */
/* clang-format off */

FN int lane_index(void) { return thread_index() % 32; }
FN int warp_index(void) { return thread_index() / 32; }

/* ---- the value of another lane */

FN float shuffle_f32(float v, int from) { return float_of(shuffle_u32(bits_of(v), from)); }
FN double shuffle_f64(double v, int from) {
  uint64_t u;
  memcpy(&u, &v, 8);
  u = shuffle_u64(u, from);
  memcpy(&v, &u, 8);
  return v;
}
#define SHUFFLE(T, type, bits) \
  FN type shuffle_##T(type v, int from) { return (type)shuffle_u##bits((uint##bits##_t)v, from); }
SHUFFLE(i8, int8_t, 32) SHUFFLE(i16, int16_t, 32) SHUFFLE(i32, int32_t, 32) SHUFFLE(i64, int64_t, 64)
SHUFFLE(u8, uint8_t, 32) SHUFFLE(u16, uint16_t, 32) SHUFFLE(bool, _Bool, 32)

/* ---- reductions by a warp: a butterfly whose left operand is always the lower lane's value, so that every lane gets
 * the value that a loop over halves of 32 lanes gives */

#define BUTTERFLY(T, type, name, op) \
  FN type warp_##name##_##T(type v) { \
    UNROLL for (int w = 16; w; w /= 2) { \
      type other = shuffle_##T(v, lane_index() ^ w); \
      v = lane_index() & w ? op##_##T(other, v) : op##_##T(v, other); \
    } \
    return v; \
  }
#define BUTTERFLIES(T, type) \
  BUTTERFLY(T, type, sum, add) BUTTERFLY(T, type, product, mul) BUTTERFLY(T, type, max, max) \
      BUTTERFLY(T, type, min, min)
BUTTERFLIES(f32, float) BUTTERFLIES(f64, double)
BUTTERFLIES(i8, int8_t) BUTTERFLIES(i16, int16_t) BUTTERFLIES(i32, int32_t) BUTTERFLIES(i64, int64_t)
BUTTERFLIES(u8, uint8_t) BUTTERFLIES(u16, uint16_t) BUTTERFLIES(u32, uint32_t) BUTTERFLIES(u64, uint64_t)
BUTTERFLY(bool, _Bool, or, or) BUTTERFLY(bool, _Bool, and, and) BUTTERFLY(bool, _Bool, max, max)
    BUTTERFLY(bool, _Bool, min, min)

/* A sum over blocks as a tree: equal subtrees are joined as soon as they are full, the rest from the small end.  Lane l
 * of the warp holds level l; all lanes push the same values. */
#define TREE(T, type) \
  typedef struct Tree_##T { type level; uint32_t count; } Tree_##T; \
  FN void push_##T(Tree_##T *s, type v) { \
    int l = 0; \
    for (uint32_t c = s->count++; c & 1; c >>= 1, l++) v = shuffle_##T(s->level, l) + v; \
    if (lane_index() == l) s->level = v; \
  } \
  FN type total_##T(const Tree_##T *s) { \
    type v = 0; \
    _Bool any = 0; \
    int l = 0; \
    for (uint32_t c = s->count; c; c >>= 1, l++) \
      if (c & 1) v = any ? shuffle_##T(s->level, l) + v : shuffle_##T(s->level, l), any = 1; \
    return v; \
  }
TREE(f32, float)
TREE(f64, double)

/* ---- packets: m of N neighbouring elements, in one access if all exist and memory is aligned */

#define PACKET(T, stored, type, N) \
  FN void load##N##_##T(type *r, const stored *p, int64_t m) { \
    stored s[N]; \
    if (m == N && (uintptr_t)p % (sizeof s < 16 ? sizeof s : 16) == 0) { \
      load_wide(s, p, (int)sizeof s); \
      UNROLL for (int i = 0; i < N; i++) r[i] = load_##T(s + i); \
    } else { \
      UNROLL for (int i = 0; i < N; i++) r[i] = i < m ? load_##T(p + i) : 0; \
    } \
  } \
  FN void store##N##_##T(stored *p, const type *r, int64_t m) { \
    stored s[N]; \
    UNROLL for (int i = 0; i < N; i++) store_##T(s + i, r[i]); \
    if (m == N && (uintptr_t)p % (sizeof s < 16 ? sizeof s : 16) == 0) { \
      store_wide(p, s, (int)sizeof s); \
    } else { \
      UNROLL for (int i = 0; i < N; i++) \
        if (i < m) p[i] = s[i]; \
    } \
  }
#define PACKETS(T, stored, type) PACKET(T, stored, type, 2) PACKET(T, stored, type, 4) PACKET(T, stored, type, 8)
PACKETS(f32, float, float) PACKETS(f64, double, double) PACKETS(f16, uint16_t, float) PACKETS(bf16, uint16_t, float)
PACKETS(i8, int8_t, int8_t) PACKETS(i16, int16_t, int16_t) PACKETS(i32, int32_t, int32_t) PACKETS(i64, int64_t, int64_t)
PACKETS(u8, uint8_t, uint8_t) PACKETS(u16, uint16_t, uint16_t) PACKETS(u32, uint32_t, uint32_t)
    PACKETS(u64, uint64_t, uint64_t)
PACKETS(bool, uint8_t, _Bool)
PACKETS(f8e4m3fn, uint8_t, float) PACKETS(f8e4m3fnuz, uint8_t, float) PACKETS(f8e5m2, uint8_t, float)
PACKETS(f8e5m2fnuz, uint8_t, float) PACKETS(f8e8m0, uint8_t, float) PACKETS(f4e2m1, uint8_t, float)
PACKETS(i4, uint8_t, int8_t) PACKETS(i2, uint8_t, int8_t) PACKETS(u4, uint8_t, uint8_t) PACKETS(u2, uint8_t, uint8_t)
