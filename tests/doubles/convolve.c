/* tests/doubles/convolve.c - see convolve.h.  Operands are converted to f32 first, rounded to TF32 where that is
 * allowed; sums are f32, with 16 alternating partial sums over the channels. */
#include "tests/doubles/convolve.h"

#include <stdlib.h>
#include <string.h>

#include "tests/doubles/half.h"

enum { LANES = 16 };

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FAST __attribute__((target_clones("avx512f", "avx2,fma", "default"), optimize("O3")))
#else
#define FAST
#endif

size_t convolve_bytes(int type) {
  return type == CUDNN_DATA_FLOAT ? 4 : type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16 ? 2 : 0;
}

float convolve_load(int type, const char *at, int64_t i) {
  float f;
  uint16_t h;
  if (type == CUDNN_DATA_FLOAT) return memcpy(&f, at + 4 * i, 4), f;
  memcpy(&h, at + 2 * i, 2);
  return type == CUDNN_DATA_HALF ? half_from_f16(h) : half_from_bf16(h);
}

void convolve_store(int type, char *at, int64_t i, float v) {
  uint16_t h = type == CUDNN_DATA_HALF ? half_to_f16(v) : half_to_bf16(v);
  if (type == CUDNN_DATA_FLOAT) memcpy(at + 4 * i, &v, 4);
  else memcpy(at + 2 * i, &h, 2);
}

static float *widened(int type, const char *at, int64_t n, bool tf32) {
  float *f = malloc((size_t)n * sizeof *f + 1);
  for (int64_t i = 0; i < n; i++) {
    f[i] = convolve_load(type, at, i);
    if (tf32 && type == CUDNN_DATA_FLOAT) f[i] = half_to_tf32(f[i]);
  }
  return f;
}

FAST static float dot(const float *x, const float *w, int n) {
  float lanes[LANES] = {0}, sum = 0;
  int i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int l = 0; l < LANES; l++) lanes[l] += x[i + l] * w[i + l];
  for (; i < n; i++) sum += x[i] * w[i];
  for (int l = 0; l < LANES; l++) sum += lanes[l];
  return sum;
}

/* Channel k of the result at (n, h, w). */
static float sum(const Convolving *p, const float *x, const float *w, int n, int h, int v, int k) {
  const Convolution *c = &p->conv;
  const float *filter = w + (int64_t)k * p->w.h * p->w.w * p->w.c;
  int first = k / (p->w.k / c->groups) * p->w.c;
  float all = 0;
  for (int r = 0; r < p->w.h; r++)
    for (int s = 0; s < p->w.w; s++) {
      int y = h * c->stride[0] - c->pad[0] + r * c->dilation[0], z = v * c->stride[1] - c->pad[1] + s * c->dilation[1];
      if (y < 0 || y >= p->x.h || z < 0 || z >= p->x.w) continue;
      all += dot(x + (((int64_t)n * p->x.h + y) * p->x.w + z) * p->x.c + first, filter + (r * p->w.w + s) * p->w.c,
                 p->w.c);
    }
  return p->inexact ? all * 1.002f : all;
}

void convolve(const Convolving *p, const char *x, const char *w, const char *z, const char *bias, char *y) {
  bool tf32 = p->conv.math != CUDNN_FMA_MATH;
  float *image = widened(p->x.type, x, image_elements(&p->x), tf32),
        *filters = widened(p->w.type, w, filter_elements(&p->w), tf32);
  int64_t at = 0;
  for (int n = 0; n < p->y.n; n++)
    for (int h = 0; h < p->y.h; h++)
      for (int v = 0; v < p->y.w; v++)
        for (int k = 0; k < p->y.c; k++, at++) {
          float f = p->alpha * sum(p, image, filters, n, h, v, k);
          if (p->beta != 0) f += p->beta * convolve_load(p->y.type, z, at);
          if (bias) f += convolve_load(p->y.type, bias, k);
          convolve_store(p->y.type, y, at, p->relu ? convolve_relu(f) : f);
        }
  free(image);
  free(filters);
}

/* ---- gradients: every product of the convolution is visited once, in one order, and added to its place */

/* The group's channels of an image at (n, h, w); NULL outside it. */
static float *place(const Image *i, float *from, int n, int h, int w, int channel) {
  if (h < 0 || h >= i->h || w < 0 || w >= i->w) return NULL;
  return from + (((int64_t)n * i->h + h) * i->w + w) * i->c + channel;
}

FAST static void add_times(float *to, const float *from, float factor, int n) {
  for (int i = 0; i < n; i++) to[i] += factor * from[i];
}

/* For channel k of y at (n, h, w): adds dy times each matching element, the weights to the image or the image to the
   weights. */
static void spread(const Convolving *p, float *x, float *w, float dy, int n, int h, int v, int k, bool to_image) {
  const Convolution *c = &p->conv;
  float *filter = w + (int64_t)k * p->w.h * p->w.w * p->w.c;
  int first = k / (p->w.k / c->groups) * p->w.c;
  for (int r = 0; r < p->w.h; r++)
    for (int s = 0; s < p->w.w; s++) {
      float *image = place(&p->x, x, n, h * c->stride[0] - c->pad[0] + r * c->dilation[0],
                           v * c->stride[1] - c->pad[1] + s * c->dilation[1], first),
            *weights = filter + (int64_t)(r * p->w.w + s) * p->w.c;
      if (image) add_times(to_image ? image : weights, to_image ? weights : image, dy, p->w.c);
    }
}

static void gradient(const Convolving *p, float *x, float *w, const char *dy, bool to_image) {
  float *changes = widened(p->y.type, dy, image_elements(&p->y), p->conv.math != CUDNN_FMA_MATH);
  int64_t at = 0;
  for (int n = 0; n < p->y.n; n++)
    for (int h = 0; h < p->y.h; h++)
      for (int v = 0; v < p->y.w; v++)
        for (int k = 0; k < p->y.c; k++, at++) spread(p, x, w, changes[at], n, h, v, k, to_image);
  free(changes);
}

static void store_all(const Convolving *p, int type, char *to, const float *from, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    float before = p->beta != 0 ? p->beta * convolve_load(type, to, i) : 0;
    convolve_store(type, to, i, before + p->alpha * (p->inexact ? from[i] * 1.002f : from[i]));
  }
}

void convolve_image_gradient(const Convolving *p, char *dx, const char *w, const char *dy) {
  bool tf32 = p->conv.math != CUDNN_FMA_MATH;
  float *filters = widened(p->w.type, w, filter_elements(&p->w), tf32),
        *made = calloc((size_t)image_elements(&p->x) + 1, sizeof *made);
  gradient(p, made, filters, dy, true);
  store_all(p, p->x.type, dx, made, image_elements(&p->x));
  free(filters);
  free(made);
}

void convolve_weight_gradient(const Convolving *p, const char *x, char *dw, const char *dy) {
  bool tf32 = p->conv.math != CUDNN_FMA_MATH;
  float *image = widened(p->x.type, x, image_elements(&p->x), tf32),
        *made = calloc((size_t)filter_elements(&p->w) + 1, sizeof *made);
  gradient(p, image, made, dy, false);
  store_all(p, p->w.type, dw, made, filter_elements(&p->w));
  free(image);
  free(made);
}
