/* runtime/exec/validate.c - checks whether a call could reach outside its tensors.
 *
 * Sizes come from data (the program, the inputs' shapes), so everything that follows from them is checked once, when a
 * call gets its numbers. bind.c has already checked that each tensor lies inside its buffer.
 */
#include <stdio.h>

#include "program/box.h"
#include "runtime/exec/internal.h"

/* True if the last element that a matrix product touches is outside its tensor.  Extents and strides are at least 0. */
static bool reaches(const GemmCall *g, const int64_t *step, int64_t rows, int64_t row_step, int64_t columns,
                    int64_t column_step, int64_t elements) {
  __int128 last = (__int128)(rows - 1) * row_step + (__int128)(columns - 1) * column_step;
  for (int i = 0; i < g->loops; i++) last += (__int128)(g->extent[i] - 1) * step[i];
  return last >= elements;
}

/* Returns why a product may not read B in panels; NULL if it may. */
static const char *panels_fault(const GemmCall *g, const CallTensor *b) {
  __int128 panels = ((__int128)g->n + PROGRAM_PANEL - 1) / PROGRAM_PANEL;
  for (int i = 0; i < g->loops; i++)
    if (g->b_step[i] != 0) return "the matrices of a batch share no panels";
  if (g->b_panel < program_panel_rows(g->panels, g->k) * PROGRAM_PANEL) return "the panels have fewer than k rows";
  return panels * g->b_panel > b->elements ? "the panels reach outside their tensor" : NULL;
}

static const char *gemm_fault(const Executor *e, const Binding *b, const DeviceCall *c) {
  const ProgramInstr *x = &e->p->instrs[c->instr];
  const GemmCall *g = c->gemm;
  for (uint32_t i = 0; i < x->exprs.n; i++) {
    int64_t value = b->values[program_list(e->p, x->exprs)[i]];
    if (value < 0 || value > INT64_C(1) << 48) return "an extent or stride is negative or too large";
  }
  bool empty = g->m == 0 || g->n == 0;
  for (int i = 0; i < g->loops; i++) empty |= g->extent[i] == 0;
  if (empty) return NULL;
  if (g->epilogue.bias && c->tensors[3].elements != g->n) return "the bias has another size than a row of the result";
  if (g->epilogue.residual && c->tensors[c->n_tensors - 1].elements != c->tensors[2].elements)
    return "the residual has another size than the result";
  if (reaches(g, g->c_step, g->m, g->c_m, g->n, g->c_n, c->tensors[2].elements))
    return "the result reaches outside its tensor";
  if (g->k == 0) return NULL;
  if (reaches(g, g->a_step, g->m, g->a_m, g->k, g->a_k, c->tensors[0].elements))
    return "the first matrix reaches outside its tensor";
  if (g->b_panel) return panels_fault(g, &c->tensors[1]);
  return reaches(g, g->b_step, g->k, g->b_k, g->n, g->b_n, c->tensors[1].elements)
             ? "the second matrix reaches outside its tensor"
             : NULL;
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

/* True if the tensors match the shape.  Each extent is one of a tensor in memory, so that products do not overflow. */
static bool conv_fits(const Executor *e, const DeviceCall *c) {
  const ConvShape *s = c->conv;
  const ProgramInstr *x = &e->p->instrs[c->instr];
  int64_t in = c->tensors[program_conv_image(x)].elements, w = c->tensors[program_conv_weights(x)].elements;
  int64_t y = c->tensors[program_conv_output(x)].elements;
  if (!numbers_ok(s)) return false;
  __int128 channels = (__int128)s->groups * s->out, last = 0;
  if ((__int128)s->images * s->groups * s->in * points(s->image) != in) return false;
  if (s->images * channels * points(s->output) != y) return false;
  if (channels * s->in * points(s->window) != w) return false;
  if (w == 0) return true;
  for (int d = 0; d < 3; d++) last += (__int128)(s->window[d] - 1) * s->w_window[d];
  last += (__int128)(s->groups - 1) * s->w_group + (__int128)(s->in - 1) * s->w_in + (__int128)(s->out - 1) * s->w_out;
  if (last >= w) return false;
  for (uint32_t i = 3; i < c->n_tensors; i++) {
    bool bias = i == 3 && (x->mask & 1);
    if (c->tensors[i].elements != (bias ? channels : y)) return false;
  }
  return true;
}

static bool copy_fits(const DeviceCall *c) {
  const CallTensor *from = &c->tensors[0], *to = &c->tensors[1];
  const int64_t *extent = c->scalars, *first = extent + from->rank, *second = first + from->rank;
  return box_fits(from->rank, first, extent, from->extents) && box_fits(to->rank, second, extent, to->extents);
}

static bool pack_fits(const DeviceCall *c) {
  const int64_t *e = c->scalars, *to = c->tensors[1].extents, most = INT64_C(1) << 48;
  for (int i = 0; i < 4; i++)
    if (e[i] < 0 || e[i] > most) return false;
  if (to[0] != (e[1] + PROGRAM_PANEL - 1) / PROGRAM_PANEL) return false;
  if (to[1] != program_panel_rows((DType)c->tensors[1].dtype, e[0])) return false;
  __int128 last = (__int128)(e[0] - 1) * e[2] + (__int128)(e[1] - 1) * e[3];
  return e[0] == 0 || e[1] == 0 || last < c->tensors[0].elements;
}

static bool port_fits(const Executor *e, const Binding *b, const DeviceCall *c) {
  uint32_t port = c->object + (c->kind == PI_fetch ? e->p->entries[b->entry].n_inputs : 0);
  return box_fits(c->tensors[0].rank, c->scalars, c->tensors[0].extents, b->io.shapes[port].dims);
}

static bool load_fits(const Executor *e, const Binding *b, const DeviceCall *c) {
  const ProgramParam *t = &e->p->params[c->object];
  for (uint32_t d = 0; d < c->n_scalars; d++) {
    int64_t lo = c->scalars[d], hi = b->values[program_list(e->p, t->interval)[2 * d + 1]];
    if (lo < 0 || hi > e->p->exprs[program_list(e->p, t->dims)[d]].value || hi - lo != c->tensors[0].extents[d])
      return false;
  }
  return true;
}

static bool reduction_ok(const Executor *e, const DeviceCall *c) {
  if (c->kind != PI_all_reduce && c->kind != PI_reduce_scatter) return true;
  CommReduction reduction = (CommReduction)e->p->instrs[c->instr].reduction;
  return comm_reduction_defined(reduction, (DType)c->tensors[0].dtype);
}

const char *exec_fault(const Executor *e, const Binding *b, const DeviceCall *c) {
  if (c->blocks < 0 || c->blocks > PROGRAM_MAX_BLOCKS) return "the grid has more blocks than any device allows";
  switch ((ProgramInstrKind)c->kind) {
    case PI_gemm: return gemm_fault(e, b, c);
    case PI_conv: return conv_fits(e, c) ? NULL : "the shape is not that of the tensors";
    case PI_copy: return copy_fits(c) ? NULL : "the box reaches outside a tensor";
    case PI_bring:
    case PI_stow: return c->tensors[0].elements == c->tensors[1].elements ? NULL : "the tensors have different sizes";
    case PI_pack:
      if (!e->ops->pack) return "the device's products take no panels";
      return pack_fits(c) ? NULL : "the matrix reaches outside a tensor";
    case PI_feed:
    case PI_fetch: return port_fits(e, b, c) ? NULL : "the part reaches outside the tensor";
    case PI_load: return load_fits(e, b, c) ? NULL : "the tensor has another shape than the weight's part";
    default: break;
  }
  if (!program_instr_is_comm(c->kind)) return NULL;
  if (!e->comm) return "a program with one rank cannot communicate";
  return reduction_ok(e, c) ? NULL : "the reduction is not defined for the type";
}

RtStatus exec_refuse(const Executor *e, const DeviceCall *c, RtError *error) {
  const GemmCall *g = c->gemm;
  char text[512];
  if (c->kind != PI_gemm) return exec_error(e, c->instr, RT_INTERNAL, error, c->refused);
  int n = snprintf(text, sizeof text, "%s (m %lld, n %lld, k %lld; strides %lld %lld, %lld %lld, %lld %lld; ",
                   c->refused, (long long)g->m, (long long)g->n, (long long)g->k, (long long)g->a_m, (long long)g->a_k,
                   (long long)g->b_k, (long long)g->b_n, (long long)g->c_m, (long long)g->c_n);
  if (g->b_panel && n < (int)sizeof text)
    n += snprintf(text + n, sizeof text - (size_t)n, "panels of %lld; ", (long long)g->b_panel);
  for (int i = 0; i < g->loops && n < (int)sizeof text; i++)
    n += snprintf(text + n, sizeof text - (size_t)n, "batch of %lld, steps %lld %lld %lld; ", (long long)g->extent[i],
                  (long long)g->a_step[i], (long long)g->b_step[i], (long long)g->c_step[i]);
  if (n < (int)sizeof text)
    snprintf(text + n, sizeof text - (size_t)n, "tensors of %lld, %lld and %lld elements)",
             (long long)c->tensors[0].elements, (long long)c->tensors[1].elements, (long long)c->tensors[2].elements);
  return exec_error(e, c->instr, RT_INTERNAL, error, text);
}
