/* codegen/cpu/kernel_windows.h - loops of convolutions over any strides, and descriptions of windows; part of every
 * generated text, after kernel_templates.h.  kernel_window.c prints the descriptions and expands one of the macros per
 * kernel; those of pools are in kernel_pools.h.
 *
 * A kernel computes rows of its result along the last windowed dimension, in an accumulator of the computed type.
 * Terms are added in the order of the summed letters, then of the window, whatever the threads and the part of the
 * rank. */

/* Windowed dimensions, padded to three with extents of 1 at the front; steps in elements. */
typedef struct Windows {
  int64_t start[3], stride[3], dilation[3];
  int64_t image[3], window[3], output[3];
  int64_t image_step[3], window_step[3], output_step[3];
} Windows;

/* The other dimensions: y, a, b are steps in the result and the operands. */
typedef struct Letters {
  int n;
  int64_t extent[8], y[8], a[8], b[8];
} Letters;

FN int64_t letters_count(const Letters *l) {
  int64_t n = 1;
  for (int i = 0; i < l->n; i++) n *= l->extent[i];
  return n;
}
FN void letters_at(const Letters *l, int64_t index, int64_t *y, int64_t *a, int64_t *b) {
  for (int i = l->n; i-- > 0; index /= l->extent[i]) {
    int64_t at = index % l->extent[i];
    *y += at * l->y[i], *a += at * l->a[i], *b += at * l->b[i];
  }
}

/* Finds the outputs u of [0, n) whose window element k is in the image: [*lo, *hi). */
FN void outputs_inside(const Windows *w, int d, int64_t k, int64_t *lo, int64_t *hi) {
  int64_t x = w->start[d] + k * w->dilation[d], s = w->stride[d], last = w->image[d] - 1 - x;
  *lo = x >= 0 ? 0 : (-x + s - 1) / s;
  *hi = last < 0 ? 0 : last / s + 1;
  if (*hi > w->output[d]) *hi = w->output[d];
}

/* Dimensions 0 and 1 of a convolution: result index r and loop index j give the third index; false outside. */
FN _Bool conv_image(const Windows *w, int d, int64_t u, int64_t k, int64_t *x) {
  *x = w->start[d] + u * w->stride[d] + k * w->dilation[d];
  return *x >= 0 && *x < w->image[d];
}
FN _Bool conv_output(const Windows *w, int d, int64_t x, int64_t k, int64_t *u) {
  int64_t at = x - w->start[d] - k * w->dilation[d];
  *u = at / w->stride[d];
  return at >= 0 && *u * w->stride[d] == at && *u < w->output[d];
}

/* The last argument adds all terms of row (r0, r1) to acc, which starts as IDENTITY.  R: the role of the result, of
 * extents R[] and steps R_step[]. */
#define WINDOW_ROWS(T, stored, type, R, IDENTITY, ...) \
  do { \
    int64_t rows_ = letters_count(kept) * w->R[0] * w->R[1], n_ = w->R[2]; \
    _Pragma("omp parallel for schedule(static) if ((work) >= PARALLEL_WORK)") for (int64_t row_ = 0; row_ < rows_; \
                                                                                   row_++) { \
      int64_t y0 = 0, a0 = 0, b0 = 0, r1 = row_ % w->R[1], r0 = row_ / w->R[1] % w->R[0]; \
      type *acc = scratch(0, n_ * (int64_t)sizeof(type)); \
      letters_at(kept, row_ / w->R[1] / w->R[0], &y0, &a0, &b0); \
      for (int64_t i = 0; i < n_; i++) acc[i] = IDENTITY; \
      __VA_ARGS__ \
      stored *to = y + y0 + r0 * w->R##_step[0] + r1 * w->R##_step[1]; \
      for (int64_t i = 0; i < n_; i++) store_##T(to + i * w->R##_step[2], acc[i]); \
    } \
  } while (0)

/* ---- convolutions: a and b are the operands */

#define CONV_TERM(T, type) \
  for (int64_t k2 = 0; k2 < w->window[2]; k2++) { \
    int64_t lo, hi, s = w->stride[2] * w->image_step[2]; \
    type v = load_##T(b + b1 + k2 * w->window_step[2]); \
    outputs_inside(w, 2, k2, &lo, &hi); \
    a2 = a1 + (w->start[2] + k2 * w->dilation[2]) * w->image_step[2]; \
    if (s == 1) { \
      _Pragma("GCC ivdep") for (int64_t i = lo; i < hi; i++) acc[i] += v * load_##T(a + a2 + i); \
    } else { \
      _Pragma("GCC ivdep") for (int64_t i = lo; i < hi; i++) acc[i] += v * load_##T(a + a2 + i * s); \
    } \
  }

#define CONV_TRANSPOSE_TERM(T, type) \
  for (int64_t k2 = 0; k2 < w->window[2]; k2++) { \
    int64_t lo, hi; \
    type v = load_##T(b + b1 + k2 * w->window_step[2]); \
    outputs_inside(w, 2, k2, &lo, &hi); \
    a2 = w->start[2] + k2 * w->dilation[2]; \
    _Pragma("GCC ivdep") for (int64_t i = lo; i < hi; i++) acc[a2 + i * w->stride[2]] += \
        v * load_##T(a + a1 + i * w->output_step[2]); \
  }

#define CONV_FILTER_TERM(T, type) \
  for (int64_t k2 = 0; k2 < w->window[2]; k2++) { \
    int64_t lo, hi; \
    outputs_inside(w, 2, k2, &lo, &hi); \
    a2 = a1 + (w->start[2] + k2 * w->dilation[2]) * w->image_step[2]; \
    for (int64_t i = lo; i < hi; i++) \
      acc[k2] += load_##T(a + a2 + i * w->stride[2] * w->image_step[2]) * load_##T(b + b1 + i * w->output_step[2]); \
  }

/* R, L: roles of the result and of the loop; FIND: the third index; A, B: the index with which each operand steps. */
#define CONV_LOOPS(T, stored, type, R, L, FIND, A, ai, B, bi, TERM) \
  WINDOW_ROWS(T, stored, type, R, 0, { \
    for (int64_t sum_ = 0, sums_ = letters_count(summed); sum_ < sums_; sum_++) { \
      int64_t ignored = 0, as = a0, bs = b0; \
      letters_at(summed, sum_, &ignored, &as, &bs); \
      for (int64_t j0 = 0; j0 < w->L[0]; j0++) { \
        int64_t o0, o1, a2; \
        if (!FIND(w, 0, r0, j0, &o0)) continue; \
        for (int64_t j1 = 0; j1 < w->L[1]; j1++) { \
          if (!FIND(w, 1, r1, j1, &o1)) continue; \
          int64_t a1 = as + ai##0 * w->A##_step[0] + ai##1 * w->A##_step[1]; \
          int64_t b1 = bs + bi##0 * w->B##_step[0] + bi##1 * w->B##_step[1]; \
          TERM(T, type) \
        } \
      } \
    } \
  })

/* The image is the operand a of conv, the result of conv_transpose; conv_filter sums over outputs. */
#define conv_filter_image(w, d, k, u, x) conv_image(w, d, u, k, x)
#define CONV(T, stored, type) CONV_LOOPS(T, stored, type, output, window, conv_image, image, o, window, j, CONV_TERM)
#define CONV_TRANSPOSE(T, stored, type) \
  CONV_LOOPS(T, stored, type, image, window, conv_output, output, o, window, j, CONV_TRANSPOSE_TERM)
#define CONV_FILTER(T, stored, type) \
  CONV_LOOPS(T, stored, type, window, output, conv_filter_image, image, o, output, j, CONV_FILTER_TERM)

/* ---- f32 convolutions in tiles: the summed letter is innermost in operand 0, the lanes' letter in the result
 * (channels last)
 *
 * A tile is CONV_PIXELS positions of the result by CONV_ACROSS vectors of its innermost letter, or half as many, kept
 * in registers over the window and the summed letter; weights are packed once per block of lanes, and positions outside
 * operand 0 read zeros.  Terms are added in the order of the window, then of the summed letter, each with one rounding,
 * whatever the tile, the threads and the part. */

#if defined(__AVX512F__)
enum { CONV_PIXELS = 8, CONV_LANES = 32 }; /* 16 of 32 registers are sums */
#elif defined(__AVX__)
enum { CONV_PIXELS = 6, CONV_LANES = 16 }; /* 12 of 16 */
#else
enum { CONV_PIXELS = 3, CONV_LANES = 16 };
#endif
enum { CONV_ACROSS = CONV_LANES / VECTOR, CONV_CHUNK = 64 * CONV_PIXELS, CONV_DEPTHWISE = 64 };

typedef struct ConvTiles {
  const Windows *w;
  _Bool transposed;              /* conv_transpose: the result has the image's extents */
  const Letters *pixels, *outer; /* letters that the weights lack; letters that they have, without the lanes' */
  int64_t lanes, lanes_b;
  int64_t repeat; /* 0, or depthwise, with one summand per position and lane: so many lanes share one of operand 0 */
  int64_t sum, sum_b;
} ConvTiles;

typedef struct ConvPixel {
  const float *a;
  float *y;
  int64_t at[3]; /* conv: first image index; conv_transpose: image index - start */
} ConvPixel;

/* sums[p][v] += x[p][i] weights[i][v] for V vectors. */
#define CONV_STEP(name, V) \
  FN void name(vector *sums, const float *const *x, const float *weights, int64_t n) { \
    vector acc[CONV_PIXELS][V]; \
    const float *at[CONV_PIXELS]; \
    for (int p = 0; p < CONV_PIXELS; p++) at[p] = x[p]; \
    for (int p = 0; p < CONV_PIXELS; p++) \
      for (int v = 0; v < (V); v++) acc[p][v] = sums[p * (V) + v]; \
    for (int64_t i = 0; i < n; i++, weights += VECTOR * (V)) { \
      vector line[V]; \
      for (int v = 0; v < (V); v++) line[v] = vector_at(weights + VECTOR * v); \
      for (int p = 0; p < CONV_PIXELS; p++) { \
        vector value = vector_of(at[p][i]); \
        for (int v = 0; v < (V); v++) acc[p][v] = vector_fma(value, line[v], acc[p][v]); \
      } \
    } \
    for (int p = 0; p < CONV_PIXELS; p++) \
      for (int v = 0; v < (V); v++) sums[p * (V) + v] = acc[p][v]; \
  }
CONV_STEP(conv_step_half, CONV_ACROSS / 2)
CONV_STEP(conv_step_whole, CONV_ACROSS)

/* Loads at most a vector, padded with zeros. */
FN vector conv_some(const float *x, int64_t n) {
  vector v = vector_of(0);
  if (n > 0) __builtin_memcpy(&v, x, (size_t)(n < VECTOR ? n : VECTOR) * sizeof *x);
  return v;
}

/* Finds where window element k of dimension d meets a position of the result in operand 0; false outside. */
FN _Bool conv_meets(const ConvTiles *t, int d, int64_t at, int64_t k, int64_t *index) {
  const Windows *w = t->w;
  if (!t->transposed) {
    *index = at + k * w->dilation[d];
    return (uint64_t)*index < (uint64_t)w->image[d];
  }
  at -= k * w->dilation[d];
  if (at < 0 || (w->stride[d] > 1 && at % w->stride[d])) return 0;
  *index = w->stride[d] > 1 ? at / w->stride[d] : at;
  return *index < w->output[d];
}

/* True if the elements that a line of the window meets are contiguous.  Long lines gain nothing. */
FN _Bool conv_by_lines(const ConvTiles *t) {
  const Windows *w = t->w;
  return !t->transposed && !t->repeat && w->window[2] > 1 && w->dilation[2] == 1 && w->image_step[2] == t->sum &&
         w->window[2] * t->sum <= 2048;
}

FN void conv_pixel(const ConvTiles *t, int64_t index, float *y, const float *a, ConvPixel *p) {
  const Windows *w = t->w;
  const int64_t *extent = t->transposed ? w->image : w->output, *step = t->transposed ? w->image_step : w->output_step;
  int64_t ys = 0, as = 0, none = 0;
  for (int d = 2; d >= 0; d--) {
    int64_t u = index % extent[d];
    index /= extent[d];
    ys += u * step[d];
    p->at[d] = t->transposed ? u - w->start[d] : w->start[d] + u * w->stride[d];
  }
  letters_at(t->pixels, index, &ys, &as, &none);
  p->a = a + as, p->y = y + ys;
}

/* Finds n positions from `first` on, which are adjacent except at ends of lines; absent positions repeat the first. */
FN void conv_pixels(const ConvTiles *t, int64_t first, int64_t n, float *y, const float *a, ConvPixel *pixel) {
  const Windows *w = t->w;
  int64_t extent = t->transposed ? w->image[2] : w->output[2], u = first % extent;
  for (int64_t p = 0; p < CONV_PIXELS; p++, u++) {
    if (p >= n) pixel[p] = pixel[0];
    else if (p == 0 || u == extent) conv_pixel(t, first + p, y, a, &pixel[p]), u = p ? 0 : u;
    else {
      pixel[p] = pixel[p - 1];
      pixel[p].y += t->transposed ? w->image_step[2] : w->output_step[2];
      pixel[p].at[2] += t->transposed ? 1 : w->stride[2];
    }
  }
}

FN void conv_step(vector *sums, const float *const *x, const float *weights, int64_t n, int vectors) {
  if (vectors == CONV_ACROSS) conv_step_whole(sums, x, weights, n);
  else conv_step_half(sums, x, weights, n);
}

/* Returns one line of the window, contiguous in operand 0; a line that is partly outside is copied and padded with
 * zeros. */
FN const float *conv_line(const ConvTiles *t, const float *row, int64_t at, const float *zeros, float *copy) {
  const Windows *w = t->w;
  int64_t n = w->window[2], lo = at < 0 ? -at : 0, hi = w->image[2] - at < n ? w->image[2] - at : n;
  if (!row || lo >= hi) return zeros;
  if (lo == 0 && hi == n) return row + at * t->sum;
  __builtin_memset(copy, 0, (size_t)(n * t->sum) * sizeof *copy);
  __builtin_memcpy(copy + lo * t->sum, row + (at + lo) * t->sum, (size_t)((hi - lo) * t->sum) * sizeof *copy);
  return copy;
}

/* Adds all terms of one tile.  `lines`: zeros, then space for a line of the window per position; whole lines are one
 * step if possible. */
static __attribute__((unused, noinline)) void conv_tile(const ConvTiles *t, const ConvPixel *pixel,
                                                        const float *weights, float *lines, vector *sums, int vectors) {
  const Windows *w = t->w;
  const int64_t *step = t->transposed ? w->output_step : w->image_step;
  int64_t line = w->window[2] * t->sum, wide = VECTOR * vectors;
  const float *row[CONV_PIXELS], *x[CONV_PIXELS];
  for (int i = 0; i < CONV_PIXELS * vectors; i++) sums[i] = vector_of(0);
  for (int64_t k0 = 0; k0 < w->window[0]; k0++)
    for (int64_t k1 = 0; k1 < w->window[1]; k1++) {
      const float *from = weights + (k0 * w->window[1] + k1) * line * wide;
      _Bool any = 0;
      for (int p = 0; p < CONV_PIXELS; p++) {
        int64_t i0, i1;
        _Bool in = conv_meets(t, 0, pixel[p].at[0], k0, &i0) && conv_meets(t, 1, pixel[p].at[1], k1, &i1);
        row[p] = in ? pixel[p].a + i0 * step[0] + i1 * step[1] : NULL;
        any |= in;
      }
      if (!any) continue;
      if (conv_by_lines(t)) {
        for (int p = 0; p < CONV_PIXELS; p++)
          x[p] = conv_line(t, row[p], pixel[p].at[2], lines, lines + (p + 1) * line);
        conv_step(sums, x, from, line, vectors);
        continue;
      }
      for (int64_t k2 = 0; k2 < w->window[2]; k2++) {
        for (int p = 0; p < CONV_PIXELS; p++) {
          int64_t i2;
          x[p] = row[p] && conv_meets(t, 2, pixel[p].at[2], k2, &i2) ? row[p] + i2 * step[2] : lines;
        }
        conv_step(sums, x, from + k2 * t->sum * wide, t->sum, vectors);
      }
    }
}

/* ---- depthwise tiles: CONV_PIXELS positions by a vector of lanes stay in registers over the window.  Their addresses
 * are found once for all lanes of a block. */

typedef int lane_index __attribute__((vector_size(4 * VECTOR)));

/* Returns element index[l] of x in lane l. */
FN vector conv_permuted(vector x, lane_index index) {
#if defined(__clang__)
  vector y;
  for (int l = 0; l < VECTOR; l++) y[l] = x[index[l]];
  return y;
#else
  return __builtin_shuffle(x, index);
#endif
}

typedef struct ConvTaps {
  int64_t n;
  const float **x;       /* [n][CONV_PIXELS]: element 0 of operand 0 */
  const float **weights; /* [n] */
} ConvTaps;

FN _Bool conv_inside(const ConvTiles *t, const ConvPixel *pixel) {
  const Windows *w = t->w;
  if (t->transposed) return 0;
  for (int p = 0; p < CONV_PIXELS; p++)
    for (int d = 0; d < 3; d++)
      if (pixel[p].at[d] < 0 || pixel[p].at[d] + (w->window[d] - 1) * w->dilation[d] >= w->image[d]) return 0;
  return 1;
}

/* Lists the window elements that some position meets; positions that do not meet one read zeros. */
FN void conv_taps(const ConvTiles *t, const ConvPixel *pixel, const float *weights, const float *zeros,
                  ConvTaps *taps) {
  const Windows *w = t->w;
  const int64_t *step = t->transposed ? w->output_step : w->image_step;
  _Bool inside = conv_inside(t, pixel);
  const float *base[CONV_PIXELS];
  for (int p = 0; p < CONV_PIXELS && inside; p++)
    base[p] = pixel[p].a + pixel[p].at[0] * step[0] + pixel[p].at[1] * step[1] + pixel[p].at[2] * step[2];
  taps->n = 0;
  for (int64_t k0 = 0; k0 < w->window[0]; k0++)
    for (int64_t k1 = 0; k1 < w->window[1]; k1++)
      for (int64_t k2 = 0; k2 < w->window[2]; k2++, weights += CONV_DEPTHWISE) {
        const float **x = taps->x + taps->n * CONV_PIXELS;
        int64_t at = k0 * w->dilation[0] * step[0] + k1 * w->dilation[1] * step[1] + k2 * w->dilation[2] * step[2];
        _Bool any = inside;
        if (inside)
          for (int p = 0; p < CONV_PIXELS; p++) x[p] = base[p] + at;
        else
          for (int p = 0; p < CONV_PIXELS; p++) {
            int64_t i0, i1, i2;
            _Bool in = conv_meets(t, 0, pixel[p].at[0], k0, &i0) && conv_meets(t, 1, pixel[p].at[1], k1, &i1) &&
                       conv_meets(t, 2, pixel[p].at[2], k2, &i2);
            x[p] = in ? pixel[p].a + i0 * step[0] + i1 * step[1] + i2 * step[2] : zeros;
            any |= in;
          }
        if (any) taps->weights[taps->n++] = weights;
      }
}

/* sums[p] += x[p] weights of all taps: from element `from` on, or as FIND loads it. */
#define CONV_TAPS(name, FIND) \
  FN void name(vector *sums, const ConvTaps *taps, int64_t from, int64_t lane, lane_index index, int64_t n) { \
    vector acc[CONV_PIXELS]; \
    for (int p = 0; p < CONV_PIXELS; p++) acc[p] = vector_of(0); \
    for (int64_t i = 0; i < taps->n; i++) { \
      const float *const *x = taps->x + i * CONV_PIXELS; \
      vector line = vector_at(taps->weights[i] + lane); \
      for (int p = 0; p < CONV_PIXELS; p++) acc[p] = vector_fma(FIND, line, acc[p]); \
    } \
    for (int p = 0; p < CONV_PIXELS; p++) sums[p] = acc[p]; \
  }
CONV_TAPS(conv_taps_whole, *(const vector *)(x[p] + from))
CONV_TAPS(conv_taps_permuted, conv_permuted(*(const vector *)(x[p] + from), index))
CONV_TAPS(conv_taps_few, conv_permuted(conv_some(x[p] + from, n), index))

/* Computes lanes [first, first + lanes) of the result.  A vector of operand 0 never ends after its last element: it
 * begins earlier instead, and its elements are permuted to their lanes. */
static __attribute__((unused, noinline)) void conv_depthwise(const ConvTiles *t, const ConvPixel *pixel, int64_t places,
                                                             const ConvTaps *taps, int64_t first, int64_t lanes) {
  int64_t n = t->lanes / t->repeat;
  for (int64_t lane = 0; lane < lanes; lane += VECTOR) {
    int64_t from = (first + lane) / t->repeat, left = lanes - lane < VECTOR ? lanes - lane : VECTOR;
    vector sums[CONV_PIXELS];
    lane_index index = {0};
    if (from + VECTOR > n) from = n > VECTOR ? n - VECTOR : 0;
    for (int64_t l = 0; l < left; l++) index[l] = (int)((first + lane + l) / t->repeat - from);
    if (n < VECTOR) conv_taps_few(sums, taps, 0, lane, index, n);
    else if (t->repeat == 1 && left == VECTOR) conv_taps_whole(sums, taps, from, lane, index, n);
    else conv_taps_permuted(sums, taps, from, lane, index, n);
    for (int64_t p = 0; p < places; p++) {
      if (left == VECTOR) *(vector *)(pixel[p].y + lane) = sums[p];
      else __builtin_memcpy(pixel[p].y + lane, &sums[p], (size_t)left * sizeof(float));
    }
  }
}

/* True if the weights of a block are already in the layout of conv_pack. */
FN _Bool conv_packed(const ConvTiles *t, int64_t wide, int64_t lanes) {
  const Windows *w = t->w;
  int64_t step = lanes;
  _Bool same = lanes == wide && t->lanes_b == 1 && (t->sum == 1 || t->sum_b == step);
  step *= t->sum;
  for (int d = 2; d >= 0; step *= w->window[d--]) same = same && (w->window[d] == 1 || w->window_step[d] == step);
  return same;
}

/* Packs weights as [window][sum][lanes]; absent lanes are 0. */
FN void conv_pack(const ConvTiles *t, const float *b, float *to, int64_t wide, int64_t lanes) {
  const Windows *w = t->w;
  for (int64_t k0 = 0; k0 < w->window[0]; k0++)
    for (int64_t k1 = 0; k1 < w->window[1]; k1++)
      for (int64_t k2 = 0; k2 < w->window[2]; k2++)
        for (int64_t i = 0; i < t->sum; i++, to += wide) {
          const float *from =
              b + k0 * w->window_step[0] + k1 * w->window_step[1] + k2 * w->window_step[2] + i * t->sum_b;
          if (t->lanes_b == 1) __builtin_memcpy(to, from, (size_t)lanes * sizeof *to);
          else
            for (int64_t l = 0; l < lanes; l++) to[l] = from[l * t->lanes_b];
          for (int64_t l = lanes; l < wide; l++) to[l] = 0;
        }
}

static __attribute__((unused, noinline)) void conv_tiles(float *y, const float *a, const float *b, const ConvTiles *t,
                                                         int64_t work) {
  const Windows *w = t->w;
  const int64_t *extent = t->transposed ? w->image : w->output;
  int64_t wide = t->repeat ? CONV_DEPTHWISE : CONV_LANES, blocks = (t->lanes + wide - 1) / wide;
  int64_t pixels = letters_count(t->pixels) * extent[0] * extent[1] * extent[2],
          chunks = (pixels + CONV_CHUNK - 1) / CONV_CHUNK;
  int64_t outer = letters_count(t->outer), elements = w->window[0] * w->window[1] * w->window[2] * t->sum;
  int64_t room = conv_by_lines(t) ? (CONV_PIXELS + 1) * w->window[2] * t->sum : t->repeat ? t->lanes + VECTOR : t->sum;
  if (pixels == 0) return;
#pragma omp parallel if (work >= PARALLEL_WORK)
  {
    float *strip = scratch(0, elements * wide * (int64_t)sizeof *strip),
          *lines = scratch(1, room * (int64_t)sizeof *lines);
    const float **found = scratch(2, t->repeat ? elements * (CONV_PIXELS + 1) * (int64_t)sizeof *found : 0);
    ConvTaps taps = {0, found, found + elements * CONV_PIXELS};
    int64_t packed = -1;
    __builtin_memset(lines, 0, (size_t)room * sizeof *lines);
#pragma omp for schedule(static)
    for (int64_t item = 0; item < outer * blocks * chunks; item++) {
      int64_t chunk = item % chunks, block = item / chunks % blocks, first = block * wide, ys = first, as = 0,
              bs = first * t->lanes_b;
      int64_t lanes = t->lanes - first < wide ? t->lanes - first : wide;
      int vectors = t->repeat ? CONV_DEPTHWISE / VECTOR : lanes > CONV_LANES / 2 ? CONV_ACROSS : CONV_ACROSS / 2;
      int64_t end = (chunk + 1) * CONV_CHUNK < pixels ? (chunk + 1) * CONV_CHUNK : pixels;
      letters_at(t->outer, item / chunks / blocks, &ys, &as, &bs);
      const float *weights = conv_packed(t, VECTOR * vectors, lanes) ? b + bs : strip;
      if (weights == strip && packed != item / chunks)
        conv_pack(t, b + bs, strip, VECTOR * vectors, lanes), packed = item / chunks;
      for (int64_t at = chunk * CONV_CHUNK; at < end; at += CONV_PIXELS) {
        ConvPixel pixel[CONV_PIXELS];
        vector sums[CONV_PIXELS * CONV_ACROSS];
        int64_t n = end - at < CONV_PIXELS ? end - at : CONV_PIXELS;
        conv_pixels(t, at, n, y + ys, a + as, pixel);
        if (t->repeat) {
          conv_taps(t, pixel, weights, lines, &taps);
          conv_depthwise(t, pixel, n, &taps, first, lanes);
          continue;
        }
        conv_tile(t, pixel, weights, lines, sums, vectors);
        for (int64_t p = 0; p < n; p++) __builtin_memcpy(pixel[p].y, sums + p * vectors, (size_t)lanes * sizeof(float));
      }
    }
  }
}
