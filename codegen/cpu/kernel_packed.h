/* codegen/cpu/kernel_packed.h - packed_dot on CPUs; part of every generated text, after kernel_grouped.h.
 * kernel_packed.c prints the calls.
 *
 * A row of x becomes integers: in each group of the summed index, x is rounded to multiples of 2^-22 of a power of two
 * above its largest element, which is as exact as f32 beside that element.  Such an integer is three digits of 8 bits
 * with a sign.  So all products of a group are integer dot products of bytes, which have no rounding, with four terms
 * per lane and instruction (VNNI).  The sum of a group, times its scale, is added to the result in f32, in ascending
 * order.  So the bits of an element depend on its row and its column only: not on tiles, threads, other rows or, with
 * fused multiply-add, the instruction set.  A row with an infinity or NaN in it gives NaN.
 *
 * A weight is read once for up to PACKED_ROWS rows, as it is stored: 16 columns side by side, 4 terms of each in 4
 * bytes.  It is unpacked in registers, so few rows take as long as reading the weight.
 */

typedef struct Packed {
  int64_t rows, panels, groups, blocks; /* panels of 16 columns; blocks of 64 bytes per group and panel */
  const float *x;                       /* [rows][groups][size] */
  const uint8_t *w;                     /* [panels][groups][blocks][16][4] */
  const uint16_t *scale;                /* bf16 [panels][groups][16] */
  float *y;                             /* [rows][panels][16] */
} Packed;

enum { PACKED_LANES = 16, PACKED_PARTS = PACKED_LANES / VECTOR, PACKED_DIGITS = 3, PACKED_ROWS = 4 };
enum { PACKED_BITS = 22, PACKED_AHEAD = 4096 /* bytes: int4 reads 18 GB/s instead of 14 */ };

#define PACKED_FN FN __attribute__((always_inline))

typedef int32_t packed_ints __attribute__((vector_size(4 * VECTOR), aligned(4), may_alias));
typedef uint32_t packed_words __attribute__((vector_size(4 * VECTOR), aligned(4), may_alias));

/* ---- rows as digits */

/* A group of a row. */
typedef struct PackedGroup {
  float unit;                 /* what the integer 1 stands for; NaN if an element is not finite */
  int32_t sum[PACKED_DIGITS]; /* of its digits */
} PackedGroup;

/* A power of two of which all |x| are at most 2^PACKED_BITS. */
PACKED_FN float packed_unit(const float *x, int64_t size) {
  uint32_t most = 0;
  for (int64_t i = 0; i < size; i++) {
    uint32_t bits;
    __builtin_memcpy(&bits, x + i, 4);
    bits &= 0x7fffffff;
    most = bits > most ? bits : most;
  }
  uint32_t exponent = most >> 23;
  if (exponent == 255) return __builtin_nanf("");
  /* |x| < 2^(exponent - 126); units below 2^-120 would make those of results denormal */
  return float_of((exponent < 29 ? 7 : exponent - 126 + 127 - PACKED_BITS) << 23);
}

/* Writes the digits of a group, those of a plane side by side and planes `plane` bytes apart. */
static __attribute__((unused, noinline)) void packed_digits(const float *x, int64_t size, int8_t *to, int64_t plane,
                                                            PackedGroup *g) {
  g->unit = packed_unit(x, size);
  const float by = g->unit == g->unit ? 1 / g->unit : 0;
  int32_t sum[PACKED_DIGITS] = {0};
  for (int64_t i = 0; i < size; i++) {
    int32_t v = (int32_t)__builtin_rintf(by == 0 ? 0 : x[i] * by), low = (int8_t)v, high = (v - low) >> 8;
    int32_t middle = (int8_t)high, top = (high - middle) >> 8;
    to[i] = (int8_t)low, to[plane + i] = (int8_t)middle, to[2 * plane + i] = (int8_t)top;
    sum[0] += low, sum[1] += middle, sum[2] += top;
  }
  for (int d = 0; d < PACKED_DIGITS; d++) g->sum[d] = sum[d];
}

/* ---- dot products of bytes */

/* Adds to each lane of `sum` the products of its four bytes of w, without signs, and the four signed ones of x.  Bytes
 * of w are at most 15 unless the processor has VNNI. */
#if defined(__AVX512VNNI__) && !defined(__clang__)
#define PACKED_WHOLE 1
PACKED_FN packed_ints packed_four(packed_ints sum, packed_words w, packed_ints x) {
  return __builtin_ia32_vpdpbusd_v16si(sum, (packed_ints)w, x);
}
#elif defined(__AVX512BW__) && !defined(__clang__)
#define PACKED_WHOLE 0
typedef char packed_chars __attribute__((vector_size(64)));
typedef short packed_shorts __attribute__((vector_size(64)));
PACKED_FN packed_ints packed_four(packed_ints sum, packed_words w, packed_ints x) {
  const packed_shorts none = {0}, one = none + 1;
  const packed_ints zero = {0};
  packed_shorts pairs = __builtin_ia32_pmaddubsw512_mask((packed_chars)w, (packed_chars)x, none, -1);
  return sum + (packed_ints)__builtin_ia32_pmaddwd512_mask(pairs, one, zero, -1);
}
#elif defined(__AVX2__) && !defined(__AVX512F__) && !defined(__clang__)
#define PACKED_WHOLE 0
typedef char packed_chars __attribute__((vector_size(32)));
typedef short packed_shorts __attribute__((vector_size(32)));
PACKED_FN packed_ints packed_four(packed_ints sum, packed_words w, packed_ints x) {
  const packed_shorts one = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  packed_shorts pairs = __builtin_ia32_pmaddubsw256((packed_chars)w, (packed_chars)x);
  return sum + (packed_ints)__builtin_ia32_pmaddwd256(pairs, one);
}
#else
#define PACKED_WHOLE 1
PACKED_FN packed_ints packed_four(packed_ints sum, packed_words w, packed_ints x) {
  for (int i = 0; i < 32; i += 8) sum += (packed_ints)(w >> i & 255) * ((x << (24 - i)) >> 24);
  return sum;
}
#endif

/* bf16 as f32.  gcc 12 widens vectors of bytes and words one by one, so the instructions are named. */
#if defined(__AVX2__) && !defined(__clang__)
typedef short packed_halves __attribute__((vector_size(2 * VECTOR), aligned(2), may_alias));
PACKED_FN vector packed_bf16(const uint16_t *x) {
#ifdef __AVX512F__
  const packed_ints none = {0};
  return (vector)(__builtin_ia32_pmovzxwd512_mask(*(const packed_halves *)x, none, -1) << 16);
#else
  return (vector)(__builtin_ia32_pmovzxwd256(*(const packed_halves *)x) << 16);
#endif
}
#else
PACKED_FN vector packed_bf16(const uint16_t *x) {
  packed_words wide;
  for (int l = 0; l < VECTOR; l++) wide[l] = (uint32_t)x[l] << 16;
  return (vector)wide;
}
#endif

PACKED_FN packed_ints packed_spread(const int8_t *x) {
  int32_t four;
  __builtin_memcpy(&four, x, 4);
  return four - (packed_ints){0};
}

/* One block of 64 bytes: of 8 bits 4 terms, of 4 bits 8, the first 4 in the low halves of bytes. */
PACKED_FN void packed_block(int bits, const uint8_t *w, const uint8_t *ahead, const int8_t *const *x, int64_t plane,
                            int64_t at, int rows, packed_ints sum[PACKED_ROWS][PACKED_DIGITS][PACKED_PARTS]) {
  __builtin_prefetch(ahead);
  for (int v = 0; v < PACKED_PARTS; v++) {
    packed_words all = *(const packed_words *)(w + 4 * VECTOR * v);
    packed_words low = all & 0x0f0f0f0f, high = (all >> 4) & 0x0f0f0f0f;
    for (int r = 0; r < rows; r++)
      for (int d = 0; d < PACKED_DIGITS; d++) {
        const int8_t *digits = x[r] + d * plane + at;
        packed_ints *to = &sum[r][d][v], none = {0}, first = packed_spread(digits);
        if (bits == 4) {
          *to = packed_four(*to, low, first);
          *to = packed_four(*to, high, packed_spread(digits + 4));
        } else if (PACKED_WHOLE) *to = packed_four(*to, all, first);
        else *to = packed_four(*to, low, first) + (packed_four(none, high, first) << 4);
      }
  }
}

/* `rows` rows times `panels` panels.  bits, rows and panels are constants. */
PACKED_FN void packed_tile(const Packed *p, int bits, const int8_t *digits, const PackedGroup *group, int64_t row,
                           int rows, int64_t panel, int panels) {
  enum { MOST = 2 };
  const int64_t step = bits == 4 ? 8 : 4, size = p->blocks * step, plane = p->groups * size;
  const int64_t bytes = p->groups * p->blocks * 64;
  const uint8_t *w = p->w + panel * bytes;
  const uint16_t *scale = p->scale + panel * p->groups * PACKED_LANES;
  vector total[MOST][PACKED_ROWS][PACKED_PARTS];
  const int8_t *x[PACKED_ROWS];
  const PackedGroup *of[PACKED_ROWS];
  for (int r = 0; r < rows; r++) {
    x[r] = digits + (row + r) * PACKED_DIGITS * plane, of[r] = group + (row + r) * p->groups;
    for (int t = 0; t < panels; t++)
      for (int v = 0; v < PACKED_PARTS; v++) total[t][r][v] = vector_of(0);
  }
  for (int64_t g = 0; g < p->groups; g++, w += p->blocks * 64, scale += PACKED_LANES) {
    packed_ints sum[MOST][PACKED_ROWS][PACKED_DIGITS][PACKED_PARTS];
    for (int r = 0; r < rows; r++)
      for (int t = 0; t < panels; t++)
        for (int d = 0; d < PACKED_DIGITS; d++)
          for (int v = 0; v < PACKED_PARTS; v++)
            sum[t][r][d][v] = -(bits == 4 ? 8 : 128) * of[r][g].sum[d] - (packed_ints){0};
    /* after a panel of two the next is not the other one */
    const int64_t ahead =
        panels == 2 && g * p->blocks * 64 + PACKED_AHEAD >= bytes ? PACKED_AHEAD + bytes : PACKED_AHEAD;
    for (int64_t i = 0; i < p->blocks; i++)
      for (int t = 0; t < panels; t++) {
        const uint8_t *at = w + t * bytes + 64 * i;
        packed_block(bits, at, at + ahead, x, plane, g * size + i * step, rows, sum[t]);
      }
    for (int t = 0; t < panels; t++)
      for (int v = 0; v < PACKED_PARTS; v++) {
        vector wide = packed_bf16(scale + t * p->groups * PACKED_LANES + VECTOR * v);
        for (int r = 0; r < rows; r++) {
          vector part = __builtin_convertvector(sum[t][r][0][v], vector);
          part = vector_fma(__builtin_convertvector(sum[t][r][1][v], vector), vector_of(256), part);
          part = vector_fma(__builtin_convertvector(sum[t][r][2][v], vector), vector_of(65536), part);
          total[t][r][v] = vector_fma(part, wide * vector_of(of[r][g].unit), total[t][r][v]);
        }
      }
  }
  for (int r = 0; r < rows; r++)
    for (int t = 0; t < panels; t++)
      for (int v = 0; v < PACKED_PARTS; v++)
        *(vector *)(p->y + ((row + r) * p->panels + panel + t) * PACKED_LANES + VECTOR * v) = total[t][r][v];
}

/* All rows times a panel, or of one row times two. */
PACKED_FN void packed_rows(const Packed *p, int bits, const int8_t *digits, const PackedGroup *group, int64_t panel,
                           int panels) {
  int64_t r = 0;
  for (; r + 4 <= p->rows; r += 4)
    for (int t = 0; t < panels; t++) packed_tile(p, bits, digits, group, r, 4, panel + t, 1);
  if (r + 2 <= p->rows) {
    for (int t = 0; t < panels; t++) packed_tile(p, bits, digits, group, r, 2, panel + t, 1);
    r += 2;
  }
  if (r < p->rows && panels == 2) packed_tile(p, bits, digits, group, r, 1, panel, 2);
  else if (r < p->rows) packed_tile(p, bits, digits, group, r, 1, panel, 1);
}

PACKED_FN void packed_some(const Packed *p, int bits) {
  const int64_t size = p->blocks * (bits == 4 ? 8 : 4), plane = p->groups * size, all = p->rows * p->groups;
  int8_t *digits = scratch(0, p->rows * PACKED_DIGITS * plane + 64);
  PackedGroup *group = scratch(1, (int64_t)sizeof(PackedGroup) * all + 64);
#pragma omp parallel for schedule(static) if (p->rows * plane >= PARALLEL_WORK)
  for (int64_t i = 0; i < all; i++) {
    const int64_t r = i / p->groups, g = i % p->groups;
    packed_digits(p->x + i * size, size, digits + r * PACKED_DIGITS * plane + g * size, plane, group + i);
  }
#pragma omp parallel for schedule(static) if (p->rows * p->panels * plane >= PARALLEL_WORK / 4)
  for (int64_t i = 0; i < (p->panels + 1) / 2; i++) {
    if (2 * i + 2 <= p->panels) packed_rows(p, bits, digits, group, 2 * i, 2);
    else packed_rows(p, bits, digits, group, 2 * i, 1);
  }
}

/* bits is a constant.  So many rows at a time that their digits are small beside x. */
PACKED_FN void packed_dot(const Packed *p, int bits) {
  const int64_t size = p->blocks * (bits == 4 ? 8 : 4), most = 64;
  for (int64_t r = 0; r < p->rows; r += most) {
    Packed some = *p;
    some.rows = p->rows - r < most ? p->rows - r : most;
    some.x += r * p->groups * size, some.y += r * p->panels * PACKED_LANES;
    packed_some(&some, bits);
  }
}
