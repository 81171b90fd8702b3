/* program/print.c - a Program as text, for people and tests.  See program.h. */
#include <inttypes.h>
#include <stdio.h>

#include "program/comm.h"
#include "program/image.h"
#include "program/program.h"

static void print_expr(const Program *p, Text *t, uint32_t e) {
  char text[400];
  text_add(t, program_expr_text(p, e, text, sizeof text));
}

static void print_exprs(const Program *p, Text *t, ProgramList l) {
  text_add(t, "[");
  for (uint32_t i = 0; i < l.n; i++) {
    if (i) text_add(t, ", ");
    print_expr(p, t, program_list(p, l)[i]);
  }
  text_add(t, "]");
}

static void print_part(const Program *p, Text *t, ProgramList interval) {
  for (uint32_t d = 0; d < interval.n / 2; d++) {
    text_add(t, d ? ", " : " part ");
    print_expr(p, t, program_list(p, interval)[2 * d]);
    text_add(t, " .. ");
    print_expr(p, t, program_list(p, interval)[2 * d + 1]);
  }
}

static const char *init_name(uint32_t init) {
  static const char *const names[] = {
#define PROGRAM_INIT(name, doc) #name,
#include "program/program.def"
#undef PROGRAM_INIT
  };
  return names[init];
}

static void print_mesh(const Program *p, Text *t) {
  for (uint32_t i = 0; i < p->n_symbols; i++) {
    const ProgramSymbol *s = &p->symbols[i];
    text_printf(t, "symbol %s min %" PRId64, program_text(p, s->name), s->min);
    if (s->max) text_printf(t, " max %" PRId64, s->max);
    if (s->multiple > 1) text_printf(t, " multiple %" PRId64, s->multiple);
    char most[200];
    if (s->hint) text_printf(t, " hint %" PRId64, s->hint);
    if (s->most) text_printf(t, " most %s", program_expr_text(p, s->most - 1, most, sizeof most));
    text_add(t, "\n");
  }
  text_add(t, "mesh [");
  for (uint32_t i = 0; i < p->n_axes; i++)
    text_printf(t, "%s%s=%u%s", i ? ", " : "", program_text(p, p->axes[i].name), p->axes[i].size,
                p->axes[i].temporal ? " time" : "");
  text_printf(t, "] stages %u\n", p->stages);
}

static void print_group(const Program *p, Text *t, uint32_t i) {
  const ProgramGroup *g = &p->groups[i];
  if (g->from != PROGRAM_NONE) text_printf(t, "stage %u to %u", g->from, g->to);
  for (uint32_t k = 0; k < g->axes.n; k++)
    text_printf(t, "%s%s", k ? "." : "", program_text(p, p->axes[program_list(p, g->axes)[k]].name));
}

static void print_blobs(const Program *p, Text *t) {
  for (uint32_t i = 0; i < p->n_blobs; i++) {
    const ProgramBlob *b = &p->blobs[i];
    text_printf(t, "blob %u ", i);
    if (*program_text(p, b->path)) text_quoted(t, program_text(p, b->path));
    else text_add(t, "embedded");
    text_printf(t, " bytes %" PRIu64 "\n", b->bytes);
  }
}

static void print_images(const Program *p, Text *t) {
  for (uint32_t i = 0; i < p->n_images; i++) {
    const ProgramImage *m = &p->images[i];
    text_printf(t, "image %s ", program_image_kind(m->kind));
    text_quoted(t, program_text(p, m->arch));
    text_printf(t, " in blob %u\n", m->blob);
  }
}

static void print_operators(const Program *p, Text *t) {
  for (uint32_t i = 0; i < p->n_operators; i++) {
    text_add(t, "operator ");
    text_quoted(t, program_text(p, p->operators[i].name));
    text_printf(t, " by %s in blob %u\n", program_text(p, p->operators[i].function), p->operators[i].blob);
  }
}

static void print_grids(const Program *p, Text *t) {
  for (uint32_t i = 0; i < p->n_kernels; i++) {
    const ProgramKernel *k = &p->kernels[i];
    if (k->threads) text_printf(t, "kernel %s threads %u", program_text(p, k->name), k->threads);
    if (k->shared) text_printf(t, " shared %u", k->shared);
    if (k->looks) text_add(t, " looks");
    if (k->threads) text_add(t, "\n");
  }
}

static void print_origin(const Program *p, Text *t, const ProgramParam *w) {
  text_add(t, " of ");
  text_quoted(t, program_text(p, w->origin));
  print_exprs(p, t, w->origin_dims);
  text_printf(t, " first %" PRIu64, w->first);
}

static void print_param(const Program *p, Text *t, const ProgramParam *w) {
  text_add(t, "param ");
  text_quoted(t, program_text(p, w->name));
  text_printf(t, " stage %u : %s", w->stage, dtype_name((DType)w->dtype));
  print_exprs(p, t, w->dims);
  print_part(p, t, w->interval);
  text_printf(t, " = %s", init_name(w->init));
  if (w->init == PINIT_blob) {
    text_printf(t, " %u offset %" PRIu64 " strides ", w->blob, w->offset);
    print_exprs(p, t, w->strides);
    if (w->view) print_origin(p, t, w);
    if (w->source_dtype != w->dtype) text_printf(t, " from %s", dtype_name((DType)w->source_dtype));
  }
  if (w->init == PINIT_constant || w->init == PINIT_normal || w->init == PINIT_uniform) {
    text_add(t, " ");
    text_double(t, w->value);
  }
  if (w->init == PINIT_normal || w->init == PINIT_uniform)
    text_printf(t, " seed %" PRIu64 " stream %" PRIu64, w->seed, w->stream);
  if (w->buffer != PROGRAM_NONE) text_printf(t, " in b%u", w->buffer);
  text_add(t, "\n");
}

static void print_memory(const Program *p, Text *t) {
  for (uint32_t i = 0; i < p->n_params; i++) print_param(p, t, &p->params[i]);
  for (uint32_t i = 0; i < p->n_states; i++) {
    const ProgramState *s = &p->states[i];
    text_add(t, "state ");
    text_quoted(t, program_text(p, s->name));
    text_printf(t, " stage %u : %s", s->stage, dtype_name((DType)s->dtype));
    print_exprs(p, t, s->dims);
    print_part(p, t, s->interval);
    text_add(t, " = ");
    text_double(t, s->value);
    text_printf(t, " in b%u\n", s->buffer);
  }
  for (uint32_t i = 0; i < p->n_buffers; i++) {
    const ProgramBuffer *b = &p->buffers[i];
    text_printf(t, "buffer b%u ", i);
    text_quoted(t, program_text(p, b->name));
    text_printf(t, " %s stage %u bytes ", program_class_name(b->class_), b->stage);
    print_expr(p, t, b->bytes);
    if (b->slots > 1) text_printf(t, " slots %u", b->slots);
    if (b->entry != PROGRAM_NONE) text_printf(t, " live %u..%u of ", b->first, b->last);
    if (b->entry != PROGRAM_NONE && b->body != PROGRAM_NONE) text_printf(t, "body %u", b->body);
    else if (b->entry != PROGRAM_NONE) text_printf(t, "%s", program_text(p, p->entries[b->entry].name));
    text_add(t, "\n");
  }
}

static void print_tensor(const Program *p, Text *t, uint32_t i) {
  const ProgramTensor *x = &p->tensors[i];
  text_printf(t, " b%u", x->buffer);
  const ProgramExpr *offset = &p->exprs[x->offset];
  if (offset->kind != PX_const || offset->value) {
    text_add(t, "+");
    print_expr(p, t, x->offset);
  }
  text_printf(t, ":%s", dtype_name((DType)x->dtype));
  print_exprs(p, t, x->extents);
}

static void print_object(const Program *p, Text *t, const ProgramInstr *x, const ProgramEntry *e) {
  switch (program_instr_object(x->kind)) {
    case PO_NONE: return;
    case PO_KERNEL: text_printf(t, " %s", program_text(p, p->kernels[x->object].name)); return;
    case PO_GROUP:
      text_add(t, " over ");
      print_group(p, t, x->object);
      return;
    case PO_INPUT: text_printf(t, " %s", program_text(p, p->ports[e->inputs + x->object].name)); return;
    case PO_OUTPUT: text_printf(t, " %s", program_text(p, p->ports[e->outputs + x->object].name)); return;
    case PO_PARAM: text_printf(t, " %s", program_text(p, p->params[x->object].name)); return;
    case PO_SYMBOL: text_printf(t, " %s", program_text(p, p->symbols[x->object].name)); return;
    case PO_TEXT:
      text_add(t, " ");
      text_quoted(t, program_text(p, x->object));
      return;
  }
}

/* Prints the type of the sums if it is not the usual one. */
static void print_sums(const Program *p, Text *t, const ProgramInstr *x) {
  DType operands = (DType)p->tensors[program_list(p, x->tensors)[0]].dtype;
  if (x->dim2 != program_gemm_sums(operands)) text_printf(t, " sums %s", dtype_name((DType)x->dim2));
}

static void print_collective(Text *t, const ProgramInstr *x) {
  CommKind kind = program_instr_comm(x->kind);
  if (program_comm_dims(kind) > 0) text_printf(t, " dim %u", x->dim);
  if (program_comm_dims(kind) > 1) text_printf(t, " to %u", x->dim2);
  if (program_comm_reduces(kind)) text_printf(t, " %s", program_comm_reduction_name((CommReduction)x->reduction));
}

static void print_instr(const Program *p, Text *t, const ProgramInstr *x, const ProgramEntry *e, int depth) {
  text_printf(t, "%*s%s", 2 + 2 * depth, "", program_instr_name(x->kind));
  print_object(p, t, x, e);
  for (uint32_t i = 0; i < x->tensors.n; i++) {
    if (i && x->kind == PI_loop) text_add(t, " below");
    if (i && x->kind == PI_repeat) text_add(t, " while");
    print_tensor(p, t, program_list(p, x->tensors)[i]);
  }
  if (x->exprs.n) {
    text_add(t, x->kind == PI_loop ? " at most " : " ");
    print_exprs(p, t, x->exprs);
  }
  if (program_instr_is_comm(x->kind)) print_collective(t, x);
  if (x->kind == PI_fill || x->kind == PI_exchange) {
    text_add(t, " value ");
    text_double(t, x->value);
  }
  if (x->kind == PI_conv && x->dim2) text_add(t, x->dim2 == CONV_OF_IMAGE ? " of image" : " of weights");
  if (x->kind == PI_conv || x->kind == PI_gemm) program_epilogue_text(t, program_instr_epilogue(x));
  if (x->kind == PI_gemm) print_sums(p, t, x);
  if ((x->kind == PI_conv || x->kind == PI_gemm) && (x->mask & PROGRAM_TF32)) text_add(t, " tf32");
  if (x->kind == PI_gemm && (x->mask & PROGRAM_NARROW)) text_add(t, " bf16");
  if (x->kind == PI_load && x->dim) text_add(t, " packed");
  if (x->kind == PI_fetch && x->mask) text_printf(t, " mask %#x", x->mask);
  if (program_instr_is_comm(x->kind)) text_printf(t, " key %u", x->key);
  if (x->kind == PI_wait || (program_instr_is_comm(x->kind) && x->event != PROGRAM_NONE))
    text_printf(t, " event %u", x->event);
  if (x->kind == PI_wait && x->lag) text_printf(t, " lag %u", x->lag);
  if (program_instr_has_grid(x)) {
    text_add(t, " blocks ");
    print_expr(p, t, x->blocks);
  }
  if (x->guard != PROGRAM_NONE) {
    text_add(t, " if ");
    print_expr(p, t, x->guard);
  }
  text_printf(t, "  # %s\n", program_text(p, x->where));
}

static void print_ports(const Program *p, Text *t, const char *word, uint32_t first, uint32_t n) {
  for (uint32_t i = first; i < first + n; i++) {
    text_printf(t, "  %s ", word);
    text_quoted(t, program_text(p, p->ports[i].name));
    text_printf(t, " : %s", dtype_name((DType)p->ports[i].dtype));
    print_exprs(p, t, p->ports[i].dims);
    if (p->ports[i].random_below != PROGRAM_NONE)
      text_add(t, " random below "), print_expr(p, t, p->ports[i].random_below);
    if (p->ports[i].index_below != PROGRAM_NONE) {
      text_printf(t, " indexes %s", p->ports[i].index_negative ? "either way " : "");
      print_expr(p, t, p->ports[i].index_below);
    }
    if (p->ports[i].index_ignored != PROGRAM_NONE) text_add(t, " or "), print_expr(p, t, p->ports[i].index_ignored);
    if (p->ports[i].fixed.n) text_add(t, " fixed");
    text_add(t, "\n");
  }
}

/* Prints "flops 12 * (2*batch*seq) + 2 * (16*batch)". */
static void print_flops(const Program *p, Text *t, ProgramList l) {
  if (l.n) text_add(t, "  flops");
  for (uint32_t i = 0; i < l.n; i += 2) {
    text_printf(t, "%s %u * (", i ? " +" : "", program_list(p, l)[i]);
    print_expr(p, t, program_list(p, l)[i + 1]);
    text_add(t, ")");
  }
  if (l.n) text_add(t, "\n");
}

static void print_entry(const Program *p, Text *t, uint32_t i) {
  const ProgramEntry *e = &p->entries[i];
  text_printf(t, "entry %s%s\n", program_text(p, e->name), e->prepare ? " prepare" : "");
  print_ports(p, t, "input", e->inputs, e->n_inputs);
  print_ports(p, t, "output", e->outputs, e->n_outputs);
  print_flops(p, t, e->flops);
  for (uint32_t stage = 0; stage < p->stages; stage++) {
    const ProgramSchedule *s = &p->schedules[i * p->stages + stage];
    text_printf(t, "  stage %u:", stage);
    for (uint32_t k = s->calls; k < s->calls + s->n; k++)
      text_printf(t, " %s.%s(%u)", program_phase_name(p->bodies[p->calls[k].body].phase),
                  program_text(p, p->bodies[p->calls[k].body].name), p->calls[k].micro_batch);
    text_add(t, "\n");
  }
}

void program_print(const Program *p, Text *t) {
  text_printf(t, "program %d ", PROGRAM_VERSION);
  text_quoted(t, program_text(p, p->header->name));
  text_printf(t, " for %s\n", program_text(p, p->header->target));
  if (p->header->peak > 0) {
    text_add(t, "peak ");
    text_double(t, p->header->peak);
    text_add(t, " of ");
    text_quoted(t, program_text(p, p->header->peak_of));
    text_add(t, "\n");
  }
  print_mesh(p, t);
  for (uint32_t i = 0; i < p->n_groups; i++) {
    text_printf(t, "group %u ", i);
    print_group(p, t, i);
    text_add(t, "\n");
  }
  print_blobs(p, t);
  print_images(p, t);
  print_operators(p, t);
  print_grids(p, t);
  print_memory(p, t);
  for (uint32_t i = 0; i < p->n_entries; i++) print_entry(p, t, i);
  for (uint32_t i = 0; i < p->n_bodies; i++) {
    const ProgramBody *b = &p->bodies[i];
    text_printf(t, "body %u %s.%s of %s stage %u\n", i, program_phase_name(b->phase), program_text(p, b->name),
                program_text(p, p->entries[b->entry].name), b->stage);
    int depth = 0;
    for (uint32_t k = b->instrs; k < b->instrs + b->n; k++) {
      depth -= p->instrs[k].kind == PI_repeat;
      print_instr(p, t, &p->instrs[k], &p->entries[b->entry], depth);
      depth += p->instrs[k].kind == PI_loop;
    }
  }
}

void program_instr_text(const Program *p, uint32_t instr, char *text, size_t size) {
  const ProgramInstr *x = &p->instrs[instr];
  int n = snprintf(text, size, "%s of %s", program_instr_name(x->kind), program_text(p, x->where));
  if (program_instr_object(x->kind) != PO_GROUP) return;
  const ProgramGroup *g = &p->groups[x->object];
  for (uint32_t k = 0; k < g->axes.n && n >= 0 && (size_t)n < size; k++)
    n += snprintf(text + n, size - (size_t)n, "%s%s", k ? "." : " over ",
                  program_text(p, p->axes[program_list(p, g->axes)[k]].name));
  if (g->from != PROGRAM_NONE && n >= 0 && (size_t)n < size)
    snprintf(text + n, size - (size_t)n, " from stage %u to %u", g->from, g->to);
}
