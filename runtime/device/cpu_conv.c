/* runtime/device/cpu_conv.c - convolutions on the CPU: by oneDNN if it can, else by the program's own kernel.
 *
 * The library may keep weights in its own layout (conv_dnnl.h) if only convolutions read their buffer, all with the
 * same description of the weights.  Weights that bodies write are copied in every call.  A machine without the library
 * runs the kernel, and the epilogue in plain loops.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/device/conv_dnnl.h"
#include "runtime/device/cpu.h"

enum { /* places in the exprs: ConvShape in order */
       X_GROUPS = 1,
       X_IN,
       X_OUT,
       X_WINDOW = X_OUT + 1 + 3,
       X_WEIGHTS = X_WINDOW + 5 * 3
};

/* ---- weights */

/* True if two convolutions describe their weights equally. */
static bool same_weights(const Program *p, const ProgramInstr *a, const ProgramInstr *b) {
  static const int places[] = {X_GROUPS,  X_IN,          X_OUT,         X_WINDOW,      X_WINDOW + 1,  X_WINDOW + 2,
                               X_WEIGHTS, X_WEIGHTS + 1, X_WEIGHTS + 2, X_WEIGHTS + 3, X_WEIGHTS + 4, X_WEIGHTS + 5};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
    if (program_list(p, a->exprs)[places[i]] != program_list(p, b->exprs)[places[i]]) return false;
  return true;
}

static uint32_t weights_tensor(const Program *p, const ProgramInstr *x) { return program_list(p, x->tensors)[1]; }

/* True if the instruction is a convolution of weights that no body writes.  Any other reader of the weights is one of
 * the `others` below. */
static bool has_own_weights(const Program *p, const ProgramInstr *x) {
  uint32_t buffer = p->tensors[weights_tensor(p, x)].buffer;
  if (x->kind != PI_conv || x->dim2 != CONV_OF_OUTPUT || p->buffers[buffer].class_ != PC_param) return false;
  for (uint32_t i = 0; i < p->n_params; i++)
    if (p->params[i].buffer == buffer && program_param_changes(&p->params[i])) return false;
  return true;
}

/* The readers of a buffer: the one convolution whose description all share, and whether there are others. */
typedef struct Readers {
  const ProgramInstr *conv;
  bool others;
} Readers;

static void find_readers(const Program *p, const ProgramInstr *x, Readers *readers) {
  bool own = x->kind == PI_conv && has_own_weights(p, x);
  for (uint32_t i = 0; i < x->tensors.n; i++) {
    uint32_t t = program_list(p, x->tensors)[i];
    Readers *r = &readers[p->tensors[t].buffer];
    if (!own || i != 1) r->others = true;
    else if (!r->conv) r->conv = x;
    else if (weights_tensor(p, r->conv) != t || !same_weights(p, r->conv, x)) r->others = true;
  }
}

static RtStatus add_weights(CpuDevice *d, const Readers *readers, const DeviceWeights *weights) {
  const Program *p = d->p;
  for (uint32_t b = 0; b < p->n_buffers; b++) {
    if (!readers[b].conv || readers[b].others || !weights->address[b]) continue;
    ConvWeights *w = calloc(1, sizeof *w);
    if (!w) return RT_FAILED;
    *w = (ConvWeights){
        .data = (char *)(uintptr_t)weights->address[b], .bytes = weights->bytes[b], .mine = weights->writable[b]};
    d->conv_weights[weights_tensor(p, readers[b].conv)] = w;
  }
  return RT_OK;
}

void cpu_convs_workspace(Device *device, char *at, uint64_t bytes) {
  CpuDevice *d = (CpuDevice *)device;
  d->space = at, d->space_bytes = bytes;
}

RtStatus cpu_convs_weights(Device *device, const DeviceWeights *weights, RtError *error) {
  CpuDevice *d = (CpuDevice *)device;
  const Program *p = d->p;
  Readers *readers = calloc(p->n_buffers + 1u, sizeof *readers);
  d->conv_weights = calloc(p->n_tensors + 1u, sizeof *d->conv_weights);
  RtStatus status = readers && d->conv_weights ? RT_OK : RT_FAILED;
  bool any = false;
  for (uint32_t i = 0; !status && i < p->n_bodies; i++) {
    const ProgramBody *b = &p->bodies[i];
    if (b->stage != d->stage || p->entries[b->entry].prepare) continue; /* it only writes the weights, before */
    for (uint32_t k = b->instrs; k < b->instrs + b->n; k++) {
      find_readers(p, &p->instrs[k], readers);
      any |= p->instrs[k].kind == PI_conv;
    }
  }
  if (!status && any && !d->own_convs && onednn_open(NULL) == RT_OK) { /* without it the kernels run */
    d->conv_cache = conv_cache_new();
    status = d->conv_cache ? add_weights(d, readers, weights) : RT_FAILED;
  }
  free(readers);
  return status ? rt_error(error, RT_FAILED, "out of memory") : RT_OK;
}

void cpu_convs_close(CpuDevice *d) {
  for (uint32_t i = 0; d->conv_weights && i < d->p->n_tensors; i++) {
    if (d->conv_weights[i]) conv_weights_free(d->conv_weights[i]);
    free(d->conv_weights[i]);
  }
  free(d->conv_weights);
  conv_cache_free(d->conv_cache);
}

/* ---- the call */

/* Runs the kernel.  It would overwrite a residual in place of the result, so that is copied first. */
static RtStatus by_kernel(const CpuDevice *d, const DeviceCall *c, const ConvCall *call, RtError *error) {
  const ConvShape *s = &call->shape;
  int64_t elements = c->tensors[2].elements, columns = s->groups * s->out;
  float *kept = NULL;
  if (call->weights) {
    RtStatus status = conv_weights_restore(call->weights, s, error);
    if (status) return status;
  }
  if (call->epilogue.in_place && elements) {
    size_t bytes = (size_t)elements * sizeof(float);
    kept = malloc(bytes);
    if (!kept) return rt_error(error, RT_FAILED, "out of memory");
    memcpy(kept, call->residual, bytes);
  }
  cpu_launch(d, c);
  if (columns && epilogue_any(call->epilogue.what))
    epilogue_apply(call->epilogue.what, call->y, elements / columns, columns, columns, call->bias,
                   kept ? kept : call->residual);
  free(kept);
  return RT_OK;
}

RtStatus cpu_conv(CpuDevice *d, const DeviceCall *c, RtError *error) {
  const ProgramInstr *x = &d->p->instrs[c->instr];
  bool own = has_own_weights(d->p, x);
  ConvCall call = {.shape = *c->conv,
                   .x = c->data[program_conv_image(x)],
                   .w = c->data[program_conv_weights(x)],
                   .y = c->data[program_conv_output(x)],
                   .weights = own ? d->conv_weights[c->tensors[1].index] : NULL,
                   .result = (ProgramConvResult)x->dim2,
                   .room = d->space,
                   .room_bytes = d->space_bytes};
  Epilogue *what = &call.epilogue.what;
  *what = program_instr_epilogue(x);
  if (epilogue_any(*what) && call.shape.dtype != DT_f32)
    return rt_error(error, RT_UNSUPPORTED, "a convolution of %s with an epilogue is for GPUs",
                    dtype_name((DType)call.shape.dtype));
  if (what->bias) call.bias = c->data[3];
  if (what->residual) call.residual = c->data[c->n_tensors - 1];
  call.epilogue.in_place = what->residual && call.residual == call.y;
  RtStatus status;
  if ((call.weights || !own) && conv_run(d->conv_cache, &call, &status, error)) return status;
  return by_kernel(d, c, &call, error);
}
