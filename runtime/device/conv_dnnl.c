/* runtime/device/conv_dnnl.c - see conv_dnnl.h. */
#include "runtime/device/conv_dnnl.h"

#include <stdlib.h>
#include <string.h>

#include "program/shares.h"

/* ---- descriptions */

/* Returns the windowed dimensions after dropping leading ones of extent 1, down to two. */
static int windowed(const ConvShape *s) {
  bool flat = s->image[0] == 1 && s->window[0] == 1 && s->output[0] == 1 && s->start[0] == 0;
  return flat ? 2 : 3;
}

/* [images, channels, image..] with the channels last in memory. */
static OnednnLayout *image_layout(const ConvShape *s, const int64_t *extent, int64_t channels) {
  int n = windowed(s);
  int64_t dims[5] = {s->images, channels}, strides[5] = {0, 1}, step = channels;
  for (int i = n - 1; i >= 0; i--) {
    dims[2 + i] = extent[3 - n + i];
    strides[2 + i] = step;
    step *= extent[3 - n + i];
  }
  strides[0] = step;
  return onednn_strided(2 + n, dims, (DType)s->dtype, strides);
}

/* [groups,] out, in, window..; as loaded, or any layout that the library prefers. */
static OnednnLayout *weights_layout(const ConvShape *s, bool any) {
  int n = windowed(s), k = 0;
  int64_t dims[6], strides[6];
  if (s->groups > 1) dims[k] = s->groups, strides[k++] = s->w_group;
  dims[k] = s->out, strides[k++] = s->w_out;
  dims[k] = s->in, strides[k++] = s->w_in;
  for (int i = 3 - n; i < 3; i++) dims[k] = s->window[i], strides[k++] = s->w_window[i];
  return any ? onednn_any(k, dims, (DType)s->dtype) : onednn_strided(k, dims, (DType)s->dtype, strides);
}

/* True if every output meets the image.  If one does not, oneDNN 2.6 crashes with a joined sum. */
static bool meets_image(const ConvShape *s, int d) {
  for (int64_t u = 0; u < s->output[d]; u++) {
    int64_t k = 0, at = s->start[d] + u * s->stride[d];
    while (k < s->window[d] && (at + k * s->dilation[d] < 0 || at + k * s->dilation[d] >= s->image[d])) k++;
    if (k == s->window[d]) return false;
  }
  return true;
}

/* Computes the padding on both sides of the image.  Elements after the last window do not matter, so a negative padding
 * there becomes 0. */
static bool padding(const ConvShape *s, OnednnConv *c) {
  c->n = windowed(s);
  for (int i = 0; i < c->n; i++) {
    int d = 3 - c->n + i;
    int64_t last = s->start[d] + (s->output[d] - 1) * s->stride[d] + (s->window[d] - 1) * s->dilation[d];
    c->stride[i] = s->stride[d], c->dilation[i] = s->dilation[d];
    c->before[i] = -s->start[d];
    c->behind[i] = last + 1 - s->image[d];
    if (c->behind[i] < 0 && c->behind[i] + s->stride[d] > 0) c->behind[i] = 0;
    if (c->before[i] < 0 || c->behind[i] < 0 || !meets_image(s, d)) return false;
  }
  return true;
}

static bool empty(const ConvShape *s) {
  int64_t n = s->images * s->groups * s->in * s->out;
  for (int d = 0; d < 3; d++) n *= s->image[d] > 0 && s->window[d] > 0 && s->output[d] > 0;
  return n == 0;
}

static OnednnPrimitive *make(const ConvCall *call, OnednnLayout *weights) {
  const ConvShape *s = &call->shape;
  OnednnConv conv = {.result = call->result, .room = call->weights ? 0 : call->room_bytes};
  OnednnLayout *layout[ONEDNN_ARGS] = {NULL};
  int64_t channels = s->groups * s->out, one = 1;
  if (!padding(s, &conv)) return NULL;
  layout[ONEDNN_X] = image_layout(s, s->image, s->groups * s->in);
  layout[ONEDNN_Y] = image_layout(s, s->output, channels);
  layout[ONEDNN_BIAS] = onednn_strided(1, &channels, (DType)s->dtype, &one);
  layout[ONEDNN_W] = weights;
  OnednnPrimitive *p = onednn_primitive(&conv, layout, call->epilogue);
  onednn_layout_free(layout[ONEDNN_X]);
  onednn_layout_free(layout[ONEDNN_Y]);
  onednn_layout_free(layout[ONEDNN_BIAS]);
  return p;
}

/* ---- weights */

static RtStatus no_memory(RtError *error) { return rt_error(error, RT_FAILED, "out of memory"); }

/* Reorders the weights in place; takes ownership of `to`. */
static RtStatus change_layout(ConvWeights *w, const ConvShape *s, OnednnLayout *to, RtError *error) {
  OnednnLayout *loaded = w->layout ? NULL : weights_layout(s, false);
  const OnednnLayout *from = w->layout ? w->layout : loaded;
  size_t bytes = onednn_layout_bytes(to);
  void *copy = aligned_alloc(64, (bytes + 63) / 64 * 64);
  bool room = from && copy, ok = room && onednn_reorder(from, w->data, to, copy);
  if (ok) memcpy(w->data, copy, bytes);
  free(copy);
  onednn_layout_free(loaded);
  if (!room) return no_memory(error);
  if (!ok) return rt_error(error, RT_FAILED, "oneDNN could not reorder the weights of a convolution");
  onednn_layout_free(w->layout);
  w->layout = to;
  return RT_OK;
}

RtStatus conv_weights_restore(ConvWeights *w, const ConvShape *s, RtError *error) {
  if (!w->layout) return RT_OK;
  OnednnLayout *loaded = weights_layout(s, false);
  if (!loaded) return no_memory(error);
  RtStatus status = change_layout(w, s, loaded, error);
  if (status) onednn_layout_free(loaded);
  else onednn_layout_free(w->layout), w->layout = NULL;
  return status;
}

static RtStatus copy_apart(ConvWeights *w, const ConvShape *s, OnednnLayout *to, RtError *error) {
  OnednnLayout *loaded = weights_layout(s, false);
  size_t bytes = onednn_layout_bytes(to);
  void *copy = aligned_alloc(64, (bytes + 63) / 64 * 64);
  RtStatus status = w->layout ? conv_weights_restore(w, s, error) : RT_OK;
  if (!status && (!loaded || !copy)) status = no_memory(error);
  if (!status && !onednn_reorder(loaded, w->data, to, copy))
    status = rt_error(error, RT_FAILED, "oneDNN could not reorder the weights of a convolution");
  onednn_layout_free(loaded);
  if (status) {
    free(copy);
    return status;
  }
  free(w->apart);
  onednn_layout_free(w->apart_layout);
  w->apart = copy, w->apart_layout = to;
  return RT_OK;
}

void conv_weights_free(ConvWeights *w) {
  onednn_layout_free(w->layout);
  onednn_layout_free(w->apart_layout);
  free(w->apart);
}

static bool can_have(const ConvWeights *w, size_t bytes) {
  return (w->mine && bytes <= w->bytes) || bytes <= CONV_APART;
}

/* Provides the weights in the layout that a primitive needs. */
static RtStatus weights_for(ConvWeights *w, const ConvShape *s, const OnednnLayout *want, void **data, RtError *error) {
  RtStatus status = RT_OK;
  if (w->layout && onednn_layout_equal(w->layout, want)) return *data = w->data, RT_OK;
  if (w->apart && onednn_layout_equal(w->apart_layout, want)) return *data = w->apart, RT_OK;
  /* copied, as `want` belongs to a primitive */
  OnednnLayout *copy = onednn_layout_copy(want);
  bool inside = w->mine && onednn_layout_bytes(want) <= w->bytes;
  if (!copy) return no_memory(error);
  status = inside ? change_layout(w, s, copy, error) : copy_apart(w, s, copy, error);
  if (status) onednn_layout_free(copy);
  else *data = inside ? w->data : w->apart;
  return status;
}

/* ---- primitives by sizes */

typedef struct Key {
  ConvShape shape;
  int64_t bias, residual, in_place, activation, threads, result, changing;
} Key;

typedef struct Entry {
  Key key;
  bool tried;
  OnednnPrimitive *primitive; /* NULL: the library does not support it */
  OnednnLayout *weights;
  size_t weights_bytes;
} Entry;

enum { ENTRIES = 1024 }; /* a power of two; when three quarters are used, all are dropped */
struct ConvCache {
  Entry entries[ENTRIES];
  int used;
};

ConvCache *conv_cache_new(void) { return calloc(1, sizeof(ConvCache)); }

static void forget(ConvCache *c) {
  for (int i = 0; i < ENTRIES; i++) {
    onednn_primitive_free(c->entries[i].primitive);
    onednn_layout_free(c->entries[i].weights);
  }
  memset(c, 0, sizeof *c);
}

void conv_cache_free(ConvCache *c) {
  if (c) forget(c);
  free(c);
}

static uint64_t hash_key(const Key *k) {
  const unsigned char *p = (const unsigned char *)k;
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < sizeof *k / sizeof(int64_t); i++) {
    uint64_t v;
    memcpy(&v, p + i * sizeof v, sizeof v);
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  }
  return h;
}

static Entry *find_entry(ConvCache *c, const ConvCall *call) {
  const Epilogue *e = &call->epilogue.what;
  Key k;
  memset(&k, 0, sizeof k);
  k = (Key){call->shape,   e->bias,          e->residual,  call->epilogue.in_place,
            e->activation, onednn_threads(), call->result, call->weights == NULL};
  if (4 * c->used > 3 * ENTRIES) forget(c);
  uint64_t i = hash_key(&k) % ENTRIES;
  while (c->entries[i].tried && memcmp(&c->entries[i].key, &k, sizeof k) != 0) i = (i + 1) % ENTRIES;
  if (!c->entries[i].tried) c->entries[i].key = k;
  return &c->entries[i];
}

/* Keeps the present layout of the weights if the library is fast with it. */
static void fill_entry(ConvCache *c, Entry *e, const ConvCall *call) {
  const ConvWeights *w = call->weights;
  e->tried = true;
  c->used++;
  if (!empty(&call->shape) && w && w->layout) e->primitive = make(call, w->layout);
  if (!empty(&call->shape) && !e->primitive) {
    OnednnLayout *any = weights_layout(&call->shape, true);
    e->primitive = any ? make(call, any) : NULL;
    onednn_layout_free(any);
  }
  if (!e->primitive) return;
  e->weights = onednn_weights_layout(e->primitive);
  e->weights_bytes = e->weights ? onednn_layout_bytes(e->weights) : SIZE_MAX;
}

static double multiply_adds(const ConvShape *s) {
  double n = (double)s->images * (double)s->groups * (double)s->in * (double)s->out;
  for (int d = 0; d < 3; d++) n *= (double)s->window[d] * (double)s->output[d];
  return n;
}

/* ---- weights that change, and their gradient */

static size_t whole_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* Copies between the tensor and the library's layout: to the tensor for gradients of weights, else from it. */
static RtStatus copy_weights(const ConvCall *call, const Entry *e, RtError *error) {
  OnednnLayout *plain = weights_layout(&call->shape, false);
  if (!plain) return no_memory(error);
  bool ok = call->result == CONV_OF_WEIGHTS ? onednn_reorder(e->weights, call->room, plain, call->w)
                                            : onednn_reorder(plain, call->w, e->weights, call->room);
  onednn_layout_free(plain);
  return ok ? RT_OK : rt_error(error, RT_FAILED, "oneDNN could not reorder the weights of a convolution");
}

/* True if the weights already lie as the library needs them. */
static bool lie_so(const ConvCall *call, const Entry *e) {
  OnednnLayout *plain = weights_layout(&call->shape, false);
  bool equal = plain && onednn_layout_equal(plain, e->weights);
  onednn_layout_free(plain);
  return equal;
}

static bool run_changing(const Entry *e, const ConvCall *call, void **data, RtStatus *status, RtError *error) {
  bool direct = e->weights && lie_so(call, e);
  size_t copy = direct ? 0 : whole_lines(e->weights_bytes);
  if (!e->weights || copy > call->room_bytes || onednn_room(e->primitive) > call->room_bytes - copy) return false;
  data[ONEDNN_W] = direct ? call->w : call->room;
  data[ONEDNN_ROOM] = call->room ? (char *)call->room + copy : NULL;
  if (!direct && call->result != CONV_OF_WEIGHTS) *status = copy_weights(call, e, error);
  if (!*status && !onednn_execute(e->primitive, data))
    *status = rt_error(error, RT_FAILED, "oneDNN could not compute a convolution");
  if (!*status && !direct && call->result == CONV_OF_WEIGHTS) *status = copy_weights(call, e, error);
  return true;
}

static bool run(ConvCache *cache, const ConvCall *call, RtStatus *status, RtError *error) {
  void *data[ONEDNN_ARGS] = {
      [ONEDNN_X] = call->x, [ONEDNN_Y] = call->y, [ONEDNN_BIAS] = call->bias, [ONEDNN_RESIDUAL] = call->residual};
  Entry *e = find_entry(cache, call);
  if (!e->tried) fill_entry(cache, e, call);
  if (e->primitive && !call->weights) return run_changing(e, call, data, status, error);
  if (!e->primitive || !can_have(call->weights, e->weights_bytes)) return false;
  *status = weights_for(call->weights, &call->shape, e->weights, &data[ONEDNN_W], error);
  if (!*status && !onednn_execute(e->primitive, data))
    *status = rt_error(error, RT_FAILED, "oneDNN could not compute a convolution");
  return true;
}

bool conv_run(ConvCache *cache, const ConvCall *call, RtStatus *status, RtError *error) {
  *status = RT_OK;
  if (!cache || !onednn_version()) return false;
  int threads = onednn_threads();
  bool alone = threads > 1 && multiply_adds(&call->shape) < SHARES_CONVOLUTION;
  if (alone) onednn_set_threads(1);
  bool done = run(cache, call, status, error);
  if (alone) onednn_set_threads(threads);
  return done;
}
