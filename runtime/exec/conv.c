/* runtime/exec/conv.c - convolutions: by oneDNN where it can, by the program's own kernel otherwise.
 *
 * Weights belong to a convolution when nothing but convolutions that describe them equally reads their buffer; then the
 * library may keep them in its own layout (conv_dnnl.h).  A machine without the library runs the kernel and what
 * follows it in plain loops.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/device/conv_dnnl.h"
#include "runtime/exec/internal.h"

enum { /* places in the exprs: ConvShape in order */
       X_IMAGES,
       X_GROUPS,
       X_IN,
       X_OUT,
       X_IMAGE,
       X_WINDOW = X_IMAGE + 3,
       X_OUTPUT = X_WINDOW + 3,
       X_START = X_OUTPUT + 3,
       X_STRIDE = X_START + 3,
       X_DILATION = X_STRIDE + 3,
       X_WEIGHTS = X_DILATION + 3,
       X_KERNEL = PROGRAM_CONV_NUMBERS
};

/* ---- weights */

/* Do two convolutions describe their weights equally? */
static bool same_weights(const Program *p, const ProgramInstr *a, const ProgramInstr *b) {
  static const int places[] = {X_GROUPS,  X_IN,          X_OUT,         X_WINDOW,      X_WINDOW + 1,  X_WINDOW + 2,
                               X_WEIGHTS, X_WEIGHTS + 1, X_WEIGHTS + 2, X_WEIGHTS + 3, X_WEIGHTS + 4, X_WEIGHTS + 5};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
    if (program_list(p, a->exprs)[places[i]] != program_list(p, b->exprs)[places[i]]) return false;
  return true;
}

static uint32_t weights_tensor(const Program *p, const ProgramInstr *x) { return program_list(p, x->tensors)[1]; }

/* Who reads a buffer: the one convolution whose description all share; or others as well. */
typedef struct Readers {
  const ProgramInstr *conv;
  bool others;
} Readers;

static void find_readers(const Executor *e, const ProgramInstr *x, Readers *readers) {
  const Program *p = e->p;
  for (uint32_t i = 0; i < x->tensors.n; i++) {
    uint32_t t = program_list(p, x->tensors)[i];
    Readers *r = &readers[p->tensors[t].buffer];
    if (x->kind != PI_conv || i != 1) r->others = true;
    else if (!r->conv) r->conv = x;
    else if (weights_tensor(p, r->conv) != t || !same_weights(p, r->conv, x)) r->others = true;
  }
}

/* Weights used in their file may not be written. */
static bool writable(const Executor *e, uint32_t buffer) {
  const Space *s = &e->spaces[SPACE_PARAM];
  const char *at = e->mapped[buffer];
  return s->data && at >= s->data && at < s->data + s->bytes;
}

static RtStatus add_weights(Executor *e, const Readers *readers) {
  const Program *p = e->p;
  for (uint32_t b = 0; b < p->n_buffers; b++) {
    if (!readers[b].conv || readers[b].others || !e->mapped[b]) continue;
    ConvWeights *w = calloc(1, sizeof *w);
    if (!w) return RT_FAILED;
    *w = (ConvWeights){.data = (char *)(uintptr_t)e->mapped[b], .bytes = e->capacity[b], .mine = writable(e, b)};
    e->conv_weights[weights_tensor(p, readers[b].conv)] = w;
  }
  return RT_OK;
}

RtStatus exec_open_convs(Executor *e, RtError *error) {
  const Program *p = e->p;
  Readers *readers = calloc(p->n_buffers + 1u, sizeof *readers);
  e->conv_weights = calloc(p->n_tensors + 1u, sizeof *e->conv_weights);
  RtStatus status = readers && e->conv_weights ? RT_OK : RT_FAILED;
  bool any = false;
  for (uint32_t i = 0; !status && i < p->n_bodies; i++) {
    const ProgramBody *b = &p->bodies[i];
    if (b->stage != e->stage || p->entries[b->entry].prepare) continue; /* that one writes the weights, before */
    for (uint32_t k = b->instrs; k < b->instrs + b->n; k++) {
      find_readers(e, &p->instrs[k], readers);
      any |= p->instrs[k].kind == PI_conv;
    }
  }
  if (!status && any && onednn_open(NULL) == RT_OK) { /* without it the kernels run */
    e->conv_cache = conv_cache_new();
    status = e->conv_cache ? add_weights(e, readers) : RT_FAILED;
  }
  free(readers);
  return status ? rt_error(error, RT_FAILED, "out of memory") : RT_OK;
}

void exec_close_convs(Executor *e) {
  for (uint32_t i = 0; e->conv_weights && i < e->p->n_tensors; i++) {
    if (e->conv_weights[i]) conv_weights_free(e->conv_weights[i]);
    free(e->conv_weights[i]);
  }
  free(e->conv_weights);
  conv_cache_free(e->conv_cache);
}

/* ---- the instruction */

static ConvShape shape_of(const Executor *e, const ProgramInstr *x, DType dtype) {
  ConvShape s = {.dtype = dtype};
  int64_t numbers[PROGRAM_CONV_NUMBERS];
  for (uint32_t i = 0; i < PROGRAM_CONV_NUMBERS; i++) numbers[i] = exec_value(e, x, i);
  memcpy(&s, numbers, sizeof numbers);
  return s;
}

static bool numbers_ok(const ConvShape *s) {
  for (int d = 0; d < 3; d++) {
    if (s->image[d] < 0 || s->window[d] < 0 || s->output[d] < 0 || s->w_window[d] < 0) return false;
    if (s->stride[d] < 1 || s->dilation[d] < 1 || s->start[d] < -(INT64_C(1) << 40) || s->start[d] > INT64_C(1) << 40)
      return false;
    if (s->stride[d] > INT64_C(1) << 31 || s->dilation[d] > INT64_C(1) << 31) return false;
  }
  return s->images >= 0 && s->groups >= 0 && s->in >= 0 && s->out >= 0 && s->w_group >= 0 && s->w_in >= 0 &&
         s->w_out >= 0;
}

static __int128 points(const int64_t *extent) { return (__int128)extent[0] * extent[1] * extent[2]; }

/* Are the tensors what the shape says?  Each extent is one of a tensor that is in memory, so that products do not
 * overflow. */
static bool conv_fits(const Executor *e, const ProgramInstr *x, const ConvShape *s) {
  View in = exec_view(e, x, 0), w = exec_view(e, x, 1), y = exec_view(e, x, 2);
  if (!numbers_ok(s)) return false;
  __int128 channels = (__int128)s->groups * s->out, last = 0;
  if ((__int128)s->images * s->groups * s->in * points(s->image) != exec_elements(&in)) return false;
  if (s->images * channels * points(s->output) != exec_elements(&y)) return false;
  if (channels * s->in * points(s->window) != exec_elements(&w)) return false;
  if (exec_elements(&w) == 0) return true;
  for (int d = 0; d < 3; d++) last += (__int128)(s->window[d] - 1) * s->w_window[d];
  last += (__int128)(s->groups - 1) * s->w_group + (__int128)(s->in - 1) * s->w_in + (__int128)(s->out - 1) * s->w_out;
  if (last >= exec_elements(&w)) return false;
  for (uint32_t i = 3; i < x->tensors.n; i++) {
    View v = exec_view(e, x, i);
    bool bias = i == 3 && (x->mask & 1);
    if (exec_elements(&v) != (bias ? channels : exec_elements(&y))) return false;
  }
  return true;
}

/* The kernel would write over a residual that lies where the result goes: it is kept aside. */
static RtStatus by_kernel(const Executor *e, const ProgramInstr *x, const ConvCall *c, RtError *error) {
  const ConvShape *s = &c->shape;
  View y = exec_view(e, x, 2);
  int64_t columns = s->groups * s->out;
  float *kept = NULL;
  if (c->weights) {
    RtStatus status = conv_weights_restore(c->weights, s, error);
    if (status) return status;
  }
  if (c->epilogue.in_place && exec_elements(&y)) {
    size_t bytes = (size_t)exec_elements(&y) * sizeof(float);
    kept = malloc(bytes);
    if (!kept) return exec_error(e, x, RT_FAILED, error, "out of memory");
    memcpy(kept, c->residual, bytes);
  }
  exec_launch(e, x, X_KERNEL);
  if (columns && (x->mask || x->dim))
    epilogue_apply(&c->epilogue, c->y, exec_elements(&y) / columns, columns, c->bias, kept ? kept : c->residual);
  free(kept);
  return RT_OK;
}

RtStatus exec_conv(Executor *e, const ProgramInstr *x, RtError *error) {
  View y = exec_view(e, x, 2);
  ConvCall c = {.shape = shape_of(e, x, y.dtype),
                .x = exec_view(e, x, 0).data,
                .y = y.data,
                .weights = e->conv_weights[weights_tensor(e->p, x)]};
  if (!conv_fits(e, x, &c.shape)) return exec_error(e, x, RT_INTERNAL, error, "the shape is not that of the tensors");
  c.epilogue = (Epilogue){.bias = x->mask & 1, .residual = x->mask >> 1 & 1, .activation = (Activation)x->dim};
  if (c.epilogue.bias) c.bias = exec_view(e, x, 3).data;
  if (c.epilogue.residual) c.residual = exec_view(e, x, x->tensors.n - 1).data;
  c.epilogue.in_place = c.epilogue.residual && c.residual == c.y;
  RtStatus status;
  RtError inner = {0};
  if (c.weights && conv_run(e->conv_cache, &c, &status, &inner))
    return status ? exec_error(e, x, status, error, inner.text) : RT_OK;
  return by_kernel(e, x, &c, error);
}
