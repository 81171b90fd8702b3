/* codegen/cpu/kernel_pools.h - loops of pools and of the gradient of a pool by max, over any strides; part of every
 * generated text, after kernel_windows.h, whose descriptions they have.  kernel_window.c expands one of the macros per
 * kernel. */

/* ---- pools: `inner` elements after the last windowed dimension are contiguous in operand and result; if that is one,
 * lines of the result are computed together */

#define POOL(T, stored, type, IDENTITY, COMBINE) \
  do { \
    if (inner == 1) POOL_LINES(T, stored, type, IDENTITY, COMBINE); \
    else POOL_PLACES(T, stored, type, IDENTITY, COMBINE); \
  } while (0)

#define POOL_LINES(T, stored, type, IDENTITY, COMBINE) \
  WINDOW_ROWS(T, stored, type, output, IDENTITY, { \
    for (int64_t k0 = 0; k0 < w->window[0]; k0++) { \
      int64_t x0, x1, lo, hi, s = w->stride[2] * w->image_step[2]; \
      if (!conv_image(w, 0, r0, k0, &x0)) continue; \
      for (int64_t k1 = 0; k1 < w->window[1]; k1++) { \
        if (!conv_image(w, 1, r1, k1, &x1)) continue; \
        for (int64_t k2 = 0; k2 < w->window[2]; k2++) { \
          int64_t at = a0 + x0 * w->image_step[0] + x1 * w->image_step[1] + \
                       (w->start[2] + k2 * w->dilation[2]) * w->image_step[2]; \
          outputs_inside(w, 2, k2, &lo, &hi); \
          if (s == 1) { \
            _Pragma("GCC ivdep") for (int64_t i = lo; i < hi; i++) acc[i] = COMBINE(acc[i], load_##T(a + at + i)); \
          } else { \
            _Pragma("GCC ivdep") for (int64_t i = lo; i < hi; i++) acc[i] = COMBINE(acc[i], load_##T(a + at + i * s)); \
          } \
        } \
      } \
    } \
  })

#define POOL_PLACES(T, stored, type, IDENTITY, COMBINE) \
  do { \
    int64_t rows_ = letters_count(kept) * w->output[0] * w->output[1] * w->output[2]; \
    _Pragma("omp parallel for schedule(static) if ((work) >= PARALLEL_WORK)") for (int64_t row_ = 0; row_ < rows_; \
                                                                                   row_++) { \
      int64_t u2 = row_ % w->output[2], u1 = row_ / w->output[2] % w->output[1], \
              rest = row_ / w->output[2] / w->output[1]; \
      int64_t u0 = rest % w->output[0], y0 = 0, a0 = 0, b0 = 0, x0, x1, x2; \
      type *acc = scratch(0, inner * (int64_t)sizeof(type)); \
      letters_at(kept, rest / w->output[0], &y0, &a0, &b0); \
      for (int64_t i = 0; i < inner; i++) acc[i] = IDENTITY; \
      for (int64_t k0 = 0; k0 < w->window[0]; k0++) { \
        if (!conv_image(w, 0, u0, k0, &x0)) continue; \
        for (int64_t k1 = 0; k1 < w->window[1]; k1++) { \
          if (!conv_image(w, 1, u1, k1, &x1)) continue; \
          for (int64_t k2 = 0; k2 < w->window[2]; k2++) { \
            if (!conv_image(w, 2, u2, k2, &x2)) continue; \
            const stored *from = a + a0 + x0 * w->image_step[0] + x1 * w->image_step[1] + x2 * w->image_step[2]; \
            for (int64_t i = 0; i < inner; i++) acc[i] = COMBINE(acc[i], load_##T(from + i)); \
          } \
        } \
      } \
      stored *to = y + y0 + u0 * w->output_step[0] + u1 * w->output_step[1] + u2 * w->output_step[2]; \
      for (int64_t i = 0; i < inner; i++) store_##T(to + i, acc[i]); \
    } \
  } while (0)

/* ---- the gradient of a pool by max: a is the pool's operand, b the values added at the largest element of each window
 *
 * A thread has a whole image of some neighbours after the windows, so that no other thread adds there.  It goes through
 * the windows from the last to the first: an element's terms are added in the order of the window, as everywhere
 * here. */

enum { POOL_LANES = 16, POOL_CHANNELS = 64 };
#define POOL_GRAD(T, stored, type) POOL_GRAD_##T(T, stored, type)
#define POOL_GRAD_f64(T, stored, type) POOL_GRAD_ANY(T, stored, type)
#define POOL_GRAD_f16(T, stored, type) POOL_GRAD_ANY(T, stored, type)
#define POOL_GRAD_bf16(T, stored, type) POOL_GRAD_ANY(T, stored, type)
#define POOL_GRAD_f32(T, stored, type) \
  do { \
    if (inner % VECTOR == 0) pool_grad_vectors(y, a, b, w, kept, inner, work); \
    else POOL_GRAD_ANY(T, stored, type); \
  } while (0)

#define POOL_GRAD_ANY(T, stored, type) \
  do { \
    int64_t lanes_ = inner < POOL_LANES ? inner : POOL_LANES, chunks_ = (inner + POOL_LANES - 1) / POOL_LANES; \
    int64_t items_ = letters_count(kept) * chunks_, places_ = w->image[0] * w->image[1] * w->image[2]; \
    _Pragma("omp parallel for schedule(static) if ((work) >= PARALLEL_WORK)") for (int64_t item_ = 0; item_ < items_; \
                                                                                   item_++) { \
      int64_t y0 = 0, a0 = 0, b0 = 0, first = item_ % chunks_ * POOL_LANES; \
      int64_t n = inner - first < lanes_ ? inner - first : lanes_; \
      type *sums = scratch(0, places_ * lanes_ * (int64_t)sizeof(type)); \
      letters_at(kept, item_ / chunks_, &y0, &a0, &b0); \
      for (int64_t i = 0; i < places_ * lanes_; i++) sums[i] = 0; \
      for (int64_t u0 = w->output[0]; u0-- > 0;) \
        for (int64_t u1 = w->output[1]; u1-- > 0;) \
          for (int64_t u2 = w->output[2]; u2-- > 0;) { \
            const stored *from = \
                b + b0 + first + u0 * w->output_step[0] + u1 * w->output_step[1] + u2 * w->output_step[2]; \
            POOL_LARGEST(T, stored, type) \
            for (int64_t i = 0; i < n; i++) \
              if (at[i] >= 0) sums[at[i] * lanes_ + i] += load_##T(from + i); \
          } \
      for (int64_t x0 = 0; x0 < w->image[0]; x0++) \
        for (int64_t x1 = 0; x1 < w->image[1]; x1++) \
          for (int64_t x2 = 0; x2 < w->image[2]; x2++) { \
            stored *to = y + y0 + first + x0 * w->image_step[0] + x1 * w->image_step[1] + x2 * w->image_step[2]; \
            const type *sum = sums + ((x0 * w->image[1] + x1) * w->image[2] + x2) * lanes_; \
            for (int64_t i = 0; i < n; i++) store_##T(to + i, sum[i]); \
          } \
    } \
  } while (0)

/* Finds per lane the first largest element of the window of output (u0, u1, u2), and its position: -1 if none. */
#define POOL_LARGEST(T, stored, type) \
  type largest[POOL_LANES] = {0}; \
  int64_t at[POOL_LANES], x0, x1, x2; \
  for (int64_t i = 0; i < n; i++) at[i] = -1; \
  for (int64_t k0 = 0; k0 < w->window[0]; k0++) { \
    if (!conv_image(w, 0, u0, k0, &x0)) continue; \
    for (int64_t k1 = 0; k1 < w->window[1]; k1++) { \
      if (!conv_image(w, 1, u1, k1, &x1)) continue; \
      for (int64_t k2 = 0; k2 < w->window[2]; k2++) { \
        if (!conv_image(w, 2, u2, k2, &x2)) continue; \
        int64_t place = (x0 * w->image[1] + x1) * w->image[2] + x2; \
        const stored *from = a + a0 + first + x0 * w->image_step[0] + x1 * w->image_step[1] + x2 * w->image_step[2]; \
        for (int64_t i = 0; i < n; i++) { \
          type v = load_##T(from + i); \
          if (at[i] < 0 || v > largest[i] || (v != v && largest[i] == largest[i])) largest[i] = v, at[i] = place; \
        } \
      } \
    } \
  }

/* ---- the same for whole vectors in f32, without branches by their elements: a thread has up to POOL_CHANNELS
 * neighbours, whose windows it goes through together, and adds in the result */

/* The elements of one window that are in the image: how many per dimension, the first's offset, and the steps. */
typedef struct PoolWindow {
  int64_t n[3], first, step[3];
} PoolWindow;

FN PoolWindow pool_window(const Windows *w, const int64_t *u) {
  PoolWindow p = {.first = 0};
  for (int d = 0; d < 3; d++) {
    int64_t lo = 0, hi = w->window[d], x;
    while (lo < hi && !conv_image(w, d, u[d], lo, &x)) lo++;
    while (hi > lo && !conv_image(w, d, u[d], hi - 1, &x)) hi--;
    conv_image(w, d, u[d], lo, &x);
    p.n[d] = hi - lo, p.first += x * w->image_step[d], p.step[d] = w->dilation[d] * w->image_step[d];
  }
  return p;
}

/* y where the mask is set, else x. */
FN lane_index pool_select(lane_index mask, lane_index x, lane_index y) { return (mask & y) | (~mask & x); }

/* Returns per lane which element of the window is the first largest. */
FN lane_index pool_largest(const PoolWindow *p, const float *a) {
  lane_index at = {0}, now = {0};
  vector largest = *(const vector *)a;
  for (int64_t k0 = 0; k0 < p->n[0]; k0++)
    for (int64_t k1 = 0; k1 < p->n[1]; k1++) {
      const float *from = a + k0 * p->step[0] + k1 * p->step[1];
      for (int64_t k2 = 0; k2 < p->n[2]; k2++, from += p->step[2], now += 1) {
        const vector value = *(const vector *)from;
        const lane_index better = (value > largest) | ((value != value) & (largest == largest));
        largest = (vector)pool_select(better, (lane_index)largest, (lane_index)value);
        at = pool_select(better, at, now);
      }
    }
  return at;
}

/* Adds to every element of the window: 0 where it is not the lane's.  That changes no bit, as sums begin with 0 and so
 * never are -0. */
FN void pool_add(const PoolWindow *p, lane_index at, vector added, float *y) {
  lane_index now = {0};
  for (int64_t k0 = 0; k0 < p->n[0]; k0++)
    for (int64_t k1 = 0; k1 < p->n[1]; k1++) {
      float *to = y + k0 * p->step[0] + k1 * p->step[1];
      for (int64_t k2 = 0; k2 < p->n[2]; k2++, to += p->step[2], now += 1)
        *(vector *)to += (vector)((lane_index)added & (at == now));
    }
}

FN void pool_zero(const Windows *w, float *y, int64_t n) {
  for (int64_t x0 = 0; x0 < w->image[0]; x0++)
    for (int64_t x1 = 0; x1 < w->image[1]; x1++)
      for (int64_t x2 = 0; x2 < w->image[2]; x2++)
        __builtin_memset(y + x0 * w->image_step[0] + x1 * w->image_step[1] + x2 * w->image_step[2], 0,
                         (size_t)n * sizeof *y);
}

/* n neighbours of one image. */
static __attribute__((unused, noinline)) void pool_grad_image(float *y, const float *a, const float *b,
                                                              const Windows *w, int64_t n) {
  int64_t u[3];
  pool_zero(w, y, n);
  for (u[0] = w->output[0]; u[0]-- > 0;)
    for (u[1] = w->output[1]; u[1]-- > 0;)
      for (u[2] = w->output[2]; u[2]-- > 0;) {
        const PoolWindow p = pool_window(w, u);
        const float *from = b + u[0] * w->output_step[0] + u[1] * w->output_step[1] + u[2] * w->output_step[2];
        if (p.n[0] <= 0 || p.n[1] <= 0 || p.n[2] <= 0) continue;
        for (int64_t i = 0; i < n; i += VECTOR)
          pool_add(&p, pool_largest(&p, a + p.first + i), *(const vector *)(from + i), y + p.first + i);
      }
}

static __attribute__((unused, noinline)) void pool_grad_vectors(float *y, const float *a, const float *b,
                                                                const Windows *w, const Letters *kept, int64_t inner,
                                                                int64_t work) {
  int64_t chunks = (inner + POOL_CHANNELS - 1) / POOL_CHANNELS, items = letters_count(kept) * chunks;
#pragma omp parallel for schedule(static) if (work >= PARALLEL_WORK)
  for (int64_t item = 0; item < items; item++) {
    int64_t first = item % chunks * POOL_CHANNELS, y0 = first, a0 = first, b0 = first;
    letters_at(kept, item / chunks, &y0, &a0, &b0);
    pool_grad_image(y + y0, a + a0, b + b0, w, inner - first < POOL_CHANNELS ? inner - first : POOL_CHANNELS);
  }
}
