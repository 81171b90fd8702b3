/* codegen/cuda/dialect_conv.h - convolutions in the dialect, as one product of matrices (implicit GEMM; Chetlur et al.,
 * "cuDNN", 2014).  After dialect_attention.h; conv.c prints the calls.
 *
 * A row is a position of the result in all images, a column an output channel, and the sum is over the channels of each
 * element of the window.  The image's matrix is never stored: a block of 256 threads gathers 16 terms of its rows and
 * of its columns at a time into shared memory, the next ones while it multiplies.  Thread (x, y) of `across` x 256 /
 * across has `rq` times four rows by `cq` times four columns of the result.  Every sum is one chain of fused
 * multiply-adds in the order of the window, then of the channel: neither the tile nor other rows change a bit.
 *
 * If the columns of a term are contiguous, a thread reads four of them; else four terms of a column, as it does of a
 * row: filters of cuDNN's order (runtime/device/cuda/conv.c) have contiguous channels.
 *
 * Position u of the result and element k of the window meet position (first + u * step + k * reach) / divisor of the
 * operand, if that is an integer: so transposed convolutions use the same code.  Strides are in elements.
 *
 * Not done: the summed terms are not split among blocks, no tensor cores (16-bit types are summed in f32).
 */
/* Adjacent names of macros are no statements. */
/* clang-format off */

typedef struct Conv {
  int dims; /* how many of the three are used: the last ones */
  int64_t rows, channels, columns; /* channels of a group: of the operand, of the result */
  int64_t from[3], to[3], window[3];
  int64_t first[3], step[3], reach[3], divisor[3];
  int64_t x_image, x_group, x_channel, x_place[3];
  int64_t w_group, w_channel, w_column, w_place[3];
  int64_t y_image, y_group, y_column, y_place[3];
  const void *bias, *residual; /* 0 if none; indexed as the channels of all groups, and as the result */
  int relu;
} Conv;

/* A summed term: the element of the window and the channel.  After the last k[0] there are no elements. */
typedef struct ConvTerm {
  int64_t k[3], channel;
} ConvTerm;

FN void conv_step(const Conv *v, ConvTerm *t, int n) {
  t->channel += n;
  while (t->channel >= v->channels) {
    t->channel -= v->channels;
    if (++t->k[2] < v->window[2]) continue;
    t->k[2] = 0;
    if (++t->k[1] < v->window[1]) continue;
    t->k[1] = 0, t->k[0]++;
  }
}

enum { CONV_DEPTH = 16 };

/* Stores the addresses of row `row` of the matrix as row `at` of a tile with `rows`: its image, its position there for
 * the first element of the window (outside, for rows after the last), its result (-1 if none). */
FN void conv_row(const Conv *v, int64_t row, int64_t *places, int rows, int at) {
  int64_t rest = row, y = 0;
  UNROLL for (int d = 2; d >= 0; d--) {
    if (d < 3 - v->dims) continue;
    int64_t u = rest % v->to[d];
    rest /= v->to[d];
    y += u * v->y_place[d];
    places[(1 + d) * rows + at] = row < v->rows ? v->first[d] + u * v->step[d] : -(INT64_C(1) << 62);
  }
  places[at] = rest * v->x_image;
  places[4 * rows + at] = row < v->rows ? y + rest * v->y_image : -1;
}

/* Returns the index of the element of the operand that a row meets in a term; -1 if none. */
FN int64_t conv_place(const Conv *v, const ConvTerm *t, const int64_t *places, int rows, int at) {
  int64_t x = places[at] + t->channel * v->x_channel;
  _Bool there = t->k[0] < v->window[0];
  UNROLL for (int d = 0; d < 3; d++) {
    if (d < 3 - v->dims) continue;
    int64_t p = places[(1 + d) * rows + at] + t->k[d] * v->reach[d];
    there = there && p >= 0 && p % v->divisor[d] == 0 && p / v->divisor[d] < v->from[d];
    x += p / v->divisor[d] * v->x_place[d];
  }
  return there ? x : -1;
}

/* Returns the index of the weight of a term and column. */
FN int64_t conv_weight(const Conv *v, const ConvTerm *t, int64_t column) {
  int64_t at = t->channel * v->w_channel + column * v->w_column;
  UNROLL for (int d = 0; d < 3; d++) at += t->k[d] * v->w_place[d];
  return at;
}

#define CONV(T, stored) \
  /* four terms of a row */ \
  FN void conv_image_##T(float *r, const Conv *v, const stored *x, const ConvTerm *t, const int64_t *places, int rows, \
      int at) { \
    if (v->x_channel == 1 && v->channels % 4 == 0) { \
      int64_t p = conv_place(v, t, places, rows, at); \
      load4_##T(r, p < 0 ? x : x + p, p < 0 ? 0 : 4); \
    } else { \
      ConvTerm u = *t; \
      UNROLL for (int i = 0; i < 4; i++) { \
        int64_t p = conv_place(v, &u, places, rows, at); \
        r[i] = p < 0 ? 0 : load_##T(x + p); \
        conv_step(v, &u, 1); \
      } \
    } \
  } \
  /* four contiguous columns of a term */ \
  FN void conv_weights_##T(float *r, const Conv *v, const stored *w, const ConvTerm *t, int64_t column) { \
    int64_t left = t->k[0] < v->window[0] ? v->columns - column : 0; \
    load4_##T(r, w + (left > 0 ? conv_weight(v, t, column) : 0), left < 4 ? left : 4); \
  } \
  /* four terms of a column */ \
  FN void conv_filter_##T(float *r, const Conv *v, const stored *w, const ConvTerm *t, int64_t column) { \
    _Bool there = column < v->columns; \
    if (v->w_channel == 1 && v->channels % 4 == 0) { \
      there = there && t->k[0] < v->window[0]; \
      load4_##T(r, w + (there ? conv_weight(v, t, column) : 0), there ? 4 : 0); \
    } else { \
      ConvTerm u = *t; \
      UNROLL for (int i = 0; i < 4; i++) { \
        r[i] = there && u.k[0] < v->window[0] ? load_##T(w + conv_weight(v, &u, column)) : 0; \
        conv_step(v, &u, 1); \
      } \
    } \
  } \
  /* four columns of a row: the epilogue, and the stores */ \
  FN void conv_store_##T(const Conv *v, stored *y, float *r, int64_t group, int64_t column, int64_t at) { \
    int64_t left = v->columns - column < 4 ? v->columns - column : 4; \
    float more[4]; \
    at += group * v->y_group + column * v->y_column; \
    if (v->bias) { \
      load4_##T(more, (const stored *)v->bias + group * v->columns + column, left); \
      UNROLL for (int i = 0; i < 4; i++) r[i] += more[i]; \
    } \
    if (v->residual) { \
      load4_##T(more, (const stored *)v->residual + at, left); \
      UNROLL for (int i = 0; i < 4; i++) r[i] += more[i]; \
    } \
    UNROLL for (int i = 0; i < 4; i++) r[i] = v->relu ? relu_f32(r[i]) : r[i]; \
    if (v->y_column == 1) { \
      store4_##T(y + at, r, left); \
    } else { \
      UNROLL for (int i = 0; i < 4; i++) \
        if (i < left) store_##T(y + at + i * v->y_column, r[i]); \
    } \
  } \
  /* parts: 2 * CONV_DEPTH * (rows + columns) numbers; places: 5 * rows */ \
  FN void conv_tile_##T(const Conv *v, stored *y, const stored *x, const stored *w, const int across, const int rq, \
      const int cq, float *parts, int64_t *places) { \
    const int down = 256 / across, rows = 4 * rq * down, columns = 4 * cq * across; \
    const int half = CONV_DEPTH * (rows + columns); \
    const _Bool filters = v->w_column != 1; \
    int left = thread_index() % across, top = thread_index() / across, deep = thread_index() % 4 * 4; \
    int64_t panels = (v->columns + columns - 1) / columns, tiles = (v->rows + rows - 1) / rows, job = block_index(); \
    int64_t column = job % panels * columns, first = job / panels % tiles * rows, group = job / panels / tiles; \
    int64_t steps = (v->channels * v->window[0] * v->window[1] * v->window[2] + CONV_DEPTH - 1) / CONV_DEPTH; \
    x += group * v->x_group, w += group * v->w_group; \
    if (thread_index() < rows) conv_row(v, first + thread_index(), places, rows, thread_index()); \
    float sum[8][8], image[4][4], weights[2][4]; \
    UNROLL for (int i = 0; i < 64; i++) sum[i / 8][i % 8] = 0; \
    ConvTerm of_image = {{0, 0, 0}, 0}, of_weights = {{0, 0, 0}, 0}; \
    if (steps) conv_step(v, &of_image, deep), conv_step(v, &of_weights, top); \
    barrier(); \
    ROLL for (int64_t s = 0; s <= steps; s++) { /* part s is read while part s - 1 is multiplied */ \
      float *part = parts + (s & 1) * half, *ready = parts + (~s & 1) * half; \
      if (s < steps) { \
        UNROLL for (int i = 0; i < rows / 64; i++) \
          conv_image_##T(image[i], v, x, &of_image, places, rows, thread_index() / 4 + 64 * i); \
        UNROLL for (int q = 0; q < cq; q++) { \
          if (filters) { \
            int64_t of = thread_index() / 4 + 64 * q; \
            conv_filter_##T(weights[q], v, w, &of_image, of < columns ? column + of : v->columns); \
          } else if (top < CONV_DEPTH) { \
            conv_weights_##T(weights[q], v, w, &of_weights, column + 4 * (left + across * q)); \
          } \
        } \
        conv_step(v, &of_image, CONV_DEPTH), conv_step(v, &of_weights, CONV_DEPTH); \
      } \
      if (s > 0) ROLL for (int some = 0; some < CONV_DEPTH; some += 4) UNROLL for (int k = some; k < some + 4; k++) { \
        float a[8], b[8]; \
        UNROLL for (int i = 0; i < rq; i++) \
          load_wide(a + 4 * i, ready + k * rows + (4 * (top + down * i) ^ 2 * some), 16); \
        UNROLL for (int i = 0; i < cq; i++) \
          load_wide(b + 4 * i, ready + CONV_DEPTH * rows + k * columns + \
                    (4 * (left + across * i) ^ (filters ? 2 * some : 0)), 16); \
        UNROLL for (int i = 0; i < 4 * rq; i++) \
          UNROLL for (int j = 0; j < 4 * cq; j++) sum[i][j] = fused_f32(a[i], b[j], sum[i][j]); \
      } \
      if (s < steps) { /* writing four terms of eight rows has no bank conflicts; of columns neither */ \
        UNROLL for (int i = 0; i < rows / 64; i++) \
          UNROLL for (int j = 0; j < 4; j++) \
              part[(deep + j) * rows + (thread_index() / 4 + 64 * i ^ 2 * deep)] = image[i][j]; \
        UNROLL for (int q = 0; q < cq; q++) { \
          int of = thread_index() / 4 + 64 * q; \
          UNROLL for (int j = 0; j < 4; j++) { \
            if (filters && of < columns) \
              part[CONV_DEPTH * rows + (deep + j) * columns + (of ^ 2 * deep)] = weights[q][j]; \
            if (!filters && top < CONV_DEPTH) \
              part[CONV_DEPTH * rows + top * columns + 4 * (left + across * q) + j] = weights[q][j]; \
          } \
        } \
      } \
      barrier(); \
    } \
    UNROLL for (int i = 0; i < 4 * rq; i++) { \
      int64_t at = places[4 * rows + 4 * (top + down * (i / 4)) + i % 4]; \
      UNROLL for (int q = 0; q < cq; q++) \
        if (at >= 0 && column + 4 * (left + across * q) < v->columns) \
            conv_store_##T(v, y, sum[i] + 4 * q, group, column + 4 * (left + across * q), at); \
    } \
  }
CONV(f32, float)
CONV(f16, uint16_t)
CONV(bf16, uint16_t)
