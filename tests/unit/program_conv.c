/* tests/unit/program_conv.c - convolutions by oneDNN compared with plain loops: groups, dilation, strides, padding,
 * joined operations, element types, weights that change their layout, weights that change, gradients. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/conv_dnnl.h"
#include "tests/activated.h"
#include "tests/test.h"

enum { ROOM = 60000 };

static uint32_t seed = 1;
static int64_t below(int64_t n) {
  seed = seed * 1664525u + 1013904223u;
  return (int64_t)(((uint64_t)seed * (uint64_t)n) >> 32);
}

static float x[ROOM], w[ROOM], w_loaded[ROOM], y[ROOM], want[ROOM], bias[ROOM], residual[ROOM];
static double sums[ROOM];
static _Alignas(64) char room[8 << 20];
static unsigned char x16[2 * ROOM], w16[2 * ROOM], y16[2 * ROOM];

static int64_t points(const int64_t *e) { return e[0] * e[1] * e[2]; }
static int64_t image_elements(const ConvShape *s) { return s->images * s->groups * s->in * points(s->image); }
static int64_t weight_elements(const ConvShape *s) { return s->groups * s->in * s->out * points(s->window); }
static int64_t output_elements(const ConvShape *s) { return s->images * s->groups * s->out * points(s->output); }

/* The sum of one element of the result; (u) its place, (g, o) its channel. */
static double one_sum(const ConvShape *s, const float *weights, int64_t image, const int64_t *u, int64_t g, int64_t o) {
  double sum = 0;
  for (int64_t k = 0; k < points(s->window); k++) {
    int64_t at[3], rest = k, wk = 0, place = image;
    bool inside = true;
    for (int d = 2; d >= 0; d--) {
      int64_t kd = rest % s->window[d];
      rest /= s->window[d];
      at[d] = s->start[d] + u[d] * s->stride[d] + kd * s->dilation[d];
      inside = inside && at[d] >= 0 && at[d] < s->image[d];
      wk += kd * s->w_window[d];
    }
    for (int d = 0; d < 3; d++) place = place * s->image[d] + at[d];
    for (int64_t c = 0; inside && c < s->in; c++)
      sum += (double)x[(place * s->groups + g) * s->in + c] *
             (double)weights[wk + g * s->w_group + c * s->w_in + o * s->w_out];
  }
  return sum;
}

static void plain(const ConvCall *c, const float *weights) {
  const ConvShape *s = &c->shape;
  int64_t channels = s->groups * s->out;
  for (int64_t i = 0; i < output_elements(s); i++) {
    int64_t channel = i % channels, rest = i / channels, u[3];
    for (int d = 2; d >= 0; d--) u[d] = rest % s->output[d], rest /= s->output[d];
    double v = one_sum(s, weights, rest, u, channel / s->out, channel % s->out);
    if (c->epilogue.what.bias) v += (double)bias[channel];
    if (c->epilogue.what.residual) v += (double)residual[i];
    want[i] = (float)activated(c->epilogue.what.activation, v);
  }
}

/* Weights in the order [window][group][in][out], or with channels of the result outermost. */
static void weight_steps(ConvShape *s, bool outermost) {
  int64_t step = 1;
  if (!outermost) s->w_out = step, step *= s->out;
  s->w_in = step, step *= s->in;
  s->w_group = step, step *= s->groups;
  for (int d = 2; d >= 0; d--) s->w_window[d] = step, step *= s->window[d];
  if (outermost) s->w_out = step;
}

static ConvShape random_shape(void) {
  ConvShape s = {.images = 1 + below(3), .groups = 1, .in = 1 + below(20), .out = 1 + below(40), .dtype = DT_f32};
  int64_t kind = below(4);
  if (kind == 0) s.groups = 1 + below(4), s.in = 1 + below(6), s.out = 1 + below(6);
  if (kind == 1) s.groups = 1 + below(40), s.in = s.out = 1;
  if (kind == 2) s.in = 16, s.out = 16 * (1 + below(5));
  for (int d = 0; d < 3; d++) {
    bool none = d == 0 && below(3);
    s.window[d] = none ? 1 : 1 + below(3), s.stride[d] = none ? 1 : 1 + below(2),
    s.dilation[d] = none ? 1 : 1 + below(2);
    int64_t before = none ? 0 : below(3), behind = none ? 0 : below(3), reach = (s.window[d] - 1) * s.dilation[d] + 1;
    s.image[d] = none ? 1 : reach + below(6);
    s.start[d] = none ? 0 : below(8) ? -before : 1; /* 1: padding below 0, as a part of an image may need */
    s.output[d] = (s.image[d] - s.start[d] + behind - reach) / s.stride[d] + 1;
    if (s.output[d] < 1) s.output[d] = 1;
  }
  weight_steps(&s, below(2));
  return s;
}

static void fill(float *to, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = (float)(below(2001) - 1000) / 1000;
}

static double distance(const float *a, const float *b, int64_t n) {
  double far = 0, norm = 1e-30;
  for (int64_t i = 0; i < n; i++)
    far += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]), norm += (double)b[i] * (double)b[i];
  return sqrt(far / norm);
}

static bool has_room(const ConvShape *s) {
  return image_elements(s) <= ROOM && weight_elements(s) <= ROOM && output_elements(s) <= ROOM;
}

static void random_convolutions(void) {
  ConvCache *cache = conv_cache_new();
  int done = 0, grouped = 0, dilated = 0, outside = 0;
  for (int trial = 0; trial < 400; trial++) {
    ConvCall c = {.shape = random_shape(), .x = x, .y = y, .bias = bias, .residual = residual};
    const ConvShape *s = &c.shape;
    if (!has_room(s)) continue;
    c.epilogue.what = (Epilogue){.bias = below(2), .residual = below(2), .activation = (Activation)below(ACT_COUNT)};
    fill(x, image_elements(s)), fill(w, weight_elements(s)), fill(bias, s->groups * s->out),
        fill(residual, output_elements(s));
    memcpy(w_loaded, w, sizeof w);
    plain(&c, w);
    if (c.epilogue.what.residual && below(2)) {
      c.epilogue.in_place = true;
      c.residual = y;
      memcpy(y, residual, sizeof y);
    }
    ConvWeights weights = {.data = w, .bytes = (size_t)weight_elements(s) * sizeof(float), .mine = below(2)};
    c.weights = &weights;
    RtStatus status;
    RtError error = {0};
    if (conv_run(cache, &c, &status, &error)) {
      CHECKF(status == RT_OK, "trial %d: %s", trial, error.text);
      double far = distance(y, want, output_elements(s));
      CHECKF(far < 1e-5, "trial %d: off by %g", trial, far);
      CHECK(conv_weights_restore(&weights, s, &error) == RT_OK);
      done++, grouped += s->groups > 1, dilated += s->dilation[1] > 1 && s->window[1] > 1;
      for (int d = 0; d < 3; d++) outside += s->start[d] < 0;
    }
    CHECKF(memcmp(w, w_loaded, (size_t)weight_elements(s) * sizeof(float)) == 0,
           "trial %d: the weights differ from the loaded ones", trial);
    conv_weights_free(&weights);
  }
  CHECKF(done > 80 && grouped > 20 && dilated > 20 && outside > 50,
         "%d convolutions, %d grouped, %d dilated, %d padded", done, grouped, dilated, outside);
  conv_cache_free(cache);
}

/* One product of the sum over outputs and windows, added to its element. */
static void add_product(const ConvCall *c, int64_t image, int64_t weight, int64_t output) {
  double a = (double)x[image], b = (double)w[weight], out = (double)y[output];
  if (c->result == CONV_OF_OUTPUT) sums[output] += a * b;
  else if (c->result == CONV_OF_IMAGE) sums[image] += out * b;
  else sums[weight] += a * out;
}

static void all_products(const ConvCall *c) {
  const ConvShape *s = &c->shape;
  int64_t channels = s->groups * s->out;
  memset(sums, 0, sizeof sums);
  for (int64_t i = 0; i < output_elements(s); i++)
    for (int64_t k = 0; k < points(s->window); k++) {
      int64_t g = i % channels / s->out, o = i % s->out, rest = i / channels, u[3], t = k, wk = 0, place, at[3];
      bool inside = true;
      for (int d = 2; d >= 0; d--) u[d] = rest % s->output[d], rest /= s->output[d];
      for (int d = 2; d >= 0; d--) {
        at[d] = s->start[d] + u[d] * s->stride[d] + t % s->window[d] * s->dilation[d];
        wk += t % s->window[d] * s->w_window[d], t /= s->window[d];
        inside = inside && at[d] >= 0 && at[d] < s->image[d];
      }
      place = ((rest * s->image[0] + at[0]) * s->image[1] + at[1]) * s->image[2] + at[2];
      for (int64_t n = 0; inside && n < s->in; n++)
        add_product(c, (place * s->groups + g) * s->in + n, wk + g * s->w_group + n * s->w_in + o * s->w_out, i);
    }
}

/* With weights that change from call to call: outputs, gradients of images and of weights.  Operands stay unchanged,
 * the result is written whole; without workspace the caller computes. */
static void gradients(void) {
  ConvCache *cache = conv_cache_new();
  int done[CONV_RESULTS] = {0}, grouped = 0, dilated = 0, solid = 0, strided = 0, tight = 0;
  for (int trial = 0; trial < 600; trial++) {
    ConvCall c = {.shape = random_shape(), .x = x, .y = y, .w = w, .result = (ProgramConvResult)(trial % CONV_RESULTS)};
    const ConvShape *s = &c.shape;
    if (!has_room(s)) continue;
    const int64_t n[] = {output_elements(s), image_elements(s), weight_elements(s)};
    float *result[] = {y, x, w};
    fill(x, n[1]), fill(w, n[2]), fill(y, n[0]);
    all_products(&c);
    for (int64_t i = 0; i < n[c.result]; i++) want[i] = (float)sums[i], result[c.result][i] = NAN;
    memcpy(w_loaded, w, sizeof w);
    c.room = room, c.room_bytes = sizeof room;
    RtStatus status;
    RtError error = {0};
    if (!conv_run(cache, &c, &status, &error)) continue;
    CHECKF(status == RT_OK, "trial %d: %s", trial, error.text);
    double far = distance(result[c.result], want, n[c.result]);
    CHECKF(far < 1e-5, "trial %d: result %d is off by %g", trial, (int)c.result, far);
    CHECK(c.result == CONV_OF_WEIGHTS || memcmp(w, w_loaded, sizeof w) == 0);
    done[c.result]++, grouped += s->groups > 1, dilated += s->dilation[1] > 1 && s->window[1] > 1;
    solid += s->window[0] > 1, strided += s->stride[1] > 1;
    c.room_bytes = 0;
    tight += !conv_run(cache, &c, &status, &error);
  }
  CHECKF(
      done[0] > 20 && done[1] > 20 && done[2] > 20 && grouped > 10 && dilated > 10 && solid > 5 && strided > 20 &&
          tight > 20,
      "%d outputs, %d images, %d weights; %d grouped, %d dilated, %d in three dimensions, %d strided; %d without room",
      done[0], done[1], done[2], grouped, dilated, solid, strided, tight);
  printf("%d outputs, %d images, %d weights by the library\n", done[0], done[1], done[2]);
  conv_cache_free(cache);
}

/* Requests of several sizes need the same weights in several layouts; an empty one, and one that the library refuses,
 * leave them unchanged. */
static void changing_sizes(void) {
  static const int64_t sides[] = {3, 14, 1, 9, 14, 0, 3};
  ConvCache *cache = conv_cache_new();
  ConvShape s = {.images = 2,
                 .groups = 1,
                 .in = 32,
                 .out = 64,
                 .image = {1, 0, 0},
                 .window = {1, 3, 3},
                 .output = {1, 0, 0},
                 .start = {0, -1, -1},
                 .stride = {1, 1, 1},
                 .dilation = {1, 1, 1},
                 .dtype = DT_f32};
  weight_steps(&s, false);
  fill(w, weight_elements(&s));
  memcpy(w_loaded, w, sizeof w);
  ConvWeights weights = {.data = w, .bytes = (size_t)weight_elements(&s) * sizeof(float), .mine = true};
  for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++) {
    RtStatus status;
    RtError error = {0};
    s.image[1] = s.image[2] = s.output[1] = s.output[2] = sides[i];
    ConvCall c = {.shape = s, .x = x, .y = y, .weights = &weights};
    fill(x, image_elements(&s));
    plain(&c, w_loaded);
    bool done = conv_run(cache, &c, &status, &error);
    CHECKF(done == (sides[i] > 0), "side %d", (int)sides[i]);
    if (done) CHECKF(status == RT_OK && distance(y, want, output_elements(&s)) < 1e-5, "side %d", (int)sides[i]);
  }
  RtError error = {0};
  CHECK(conv_weights_restore(&weights, &s, &error) == RT_OK && memcmp(w, w_loaded, weights.bytes) == 0);
  conv_weights_free(&weights);
  conv_cache_free(cache);
}

/* Weights that may not be changed are copied when they are small, else the caller computes. */
static void weights_of_others(void) {
  ConvCache *cache = conv_cache_new();
  for (int64_t out = 16; out <= 256; out += 240) {
    RtStatus status;
    RtError error = {0};
    ConvShape s = {.images = 1,
                   .groups = 1,
                   .in = 16,
                   .out = out,
                   .image = {1, 4, 4},
                   .window = {1, 3, 3},
                   .output = {1, 4, 4},
                   .start = {0, -1, -1},
                   .stride = {1, 1, 1},
                   .dilation = {1, 1, 1},
                   .dtype = DT_f32};
    weight_steps(&s, false);
    fill(w, weight_elements(&s));
    memcpy(w_loaded, w, sizeof w);
    ConvWeights weights = {.data = w, .bytes = (size_t)weight_elements(&s) * sizeof(float)};
    ConvCall c = {.shape = s, .x = x, .y = y, .weights = &weights};
    CHECK(conv_run(cache, &c, &status, &error) == (out == 16));
    CHECK(memcmp(w, w_loaded, sizeof w) == 0);
    conv_weights_free(&weights);
  }
  conv_cache_free(cache);
}

/* Types that the library supports on this machine; rounding once at the end is the only difference. */
static void narrow_types(void) {
  static const DType types[] = {DT_bf16, DT_f16};
  ConvCache *cache = conv_cache_new();
  for (int t = 0; t < 2; t++) {
    RtStatus status;
    RtError error = {0};
    ConvShape s = {.images = 2,
                   .groups = 1,
                   .in = 16,
                   .out = 32,
                   .image = {1, 7, 6},
                   .window = {1, 3, 3},
                   .output = {1, 4, 3},
                   .start = {0, -1, -1},
                   .stride = {1, 2, 2},
                   .dilation = {1, 1, 1},
                   .dtype = types[t]};
    weight_steps(&s, false);
    fill(x, image_elements(&s)), fill(w, weight_elements(&s));
    for (int64_t i = 0; i < image_elements(&s); i++)
      dtype_store_f(types[t], x16 + 2 * i, (double)x[i]), x[i] = (float)dtype_load_f(types[t], x16 + 2 * i);
    for (int64_t i = 0; i < weight_elements(&s); i++)
      dtype_store_f(types[t], w16 + 2 * i, (double)w[i]), w[i] = (float)dtype_load_f(types[t], w16 + 2 * i);
    ConvWeights weights = {.data = w16, .bytes = (size_t)weight_elements(&s) * 2, .mine = true};
    ConvCall c = {.shape = s, .x = x16, .y = y16, .weights = &weights};
    plain(&c, w);
    bool done = conv_run(cache, &c, &status, &error);
    printf("%s: %s\n", dtype_name(types[t]), done ? "by the library" : "not by the library");
    if (done) {
      for (int64_t i = 0; i < output_elements(&s); i++) y[i] = (float)dtype_load_f(types[t], y16 + 2 * i);
      CHECKF(status == RT_OK && distance(y, want, output_elements(&s)) < 6e-3, "%s", dtype_name(types[t]));
    }
    conv_weights_free(&weights);
  }
  conv_cache_free(cache);
}

/* The path without the library: a convolution by the kernel, then this. */
static void epilogues_by_hand(void) {
  for (int a = 0; a < ACT_COUNT; a++)
    for (int i = 0; i < 4; i++) {
      Epilogue e = {.bias = i & 1, .residual = i >> 1, .activation = (Activation)a};
      fill(y, 60), fill(bias, 12), fill(residual, 60);
      for (int k = 0; k < 60; k++)
        want[k] = (float)activated(
            e.activation, (double)y[k] + (e.bias ? (double)bias[k % 12] : 0) + (e.residual ? (double)residual[k] : 0));
      epilogue_apply(e, y, 5, 12, 12, bias, residual);
      CHECKF(distance(y, want, 60) < 1e-6, "%s", program_activation_name(e.activation));
    }
}

int main(void) {
  RtError error = {0};
  if (onednn_open(&error) != RT_OK) {
    printf("%s\n", error.text);
    return 1;
  }
  if (SANITIZED)
    onednn_set_threads(1); /* LeakSanitizer crashes when it stops threads that libgomp has in the library */
  RUN(random_convolutions);
  RUN(gradients);
  RUN(changing_sizes);
  RUN(weights_of_others);
  RUN(narrow_types);
  RUN(epilogues_by_hand);
  return test_summary();
}
