/* program/check.c - program_open: checks an image completely, so that later code can trust it.
 *
 * In: arbitrary bytes.  Out: a Program whose every index, list, text and enumerator is in range and whose instructions
 * have the operands their row requires; or RT_BAD_INPUT naming the first fault.  Time is linear in the image, whatever
 * the number of ranks, which is bounded.  Sizes are checked later, when they are known (runtime/exec/bind.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/tensor.h"
#include "program/artifact.h"
#include "program/check.h"
#include "program/image.h"

static bool dims_ok(const Check *c, ProgramList l, uint8_t banned) {
  return l.n <= PROGRAM_MAX_RANK && exprs_ok(c, l, l.n, banned);
}

/* ---- header and sections */

static bool damaged(Check *c, const char *what) {
  rt_error(c->error, RT_BAD_INPUT, "damaged program: %s", what);
  return false;
}

static bool check_header(Check *c, const void *image, size_t bytes) {
  const ProgramHeader *h = image;
  if (bytes < sizeof *h) return damaged(c, "it is too short");
  if ((uintptr_t)image % 8) return damaged(c, "it is not aligned");
  if (h->magic != PROGRAM_MAGIC) return damaged(c, "it does not begin with the magic number");
  if (h->version != PROGRAM_VERSION) {
    rt_error(c->error, RT_UNSUPPORTED, "the program has version %u, this runtime reads version %d", h->version,
             PROGRAM_VERSION);
    return false;
  }
  if (h->header_bytes != sizeof *h) return damaged(c, "its header has another size");
  if (h->table_bytes < sizeof *h || h->table_bytes > bytes || h->image_bytes < h->table_bytes)
    return damaged(c, "its size is wrong (was the file cut off?)");
  if (h->next && (h->next % ARTIFACT_ALIGN || h->next < h->table_bytes || h->next >= h->image_bytes))
    return damaged(c, "the next program lies outside the file");
  size_t begin = offsetof(ProgramHeader, table_bytes);
  if (hash64((const char *)image + begin, h->table_bytes - begin, 0) != h->table_hash)
    return damaged(c, "its content does not match its checksum");
  return true;
}

static bool check_section(Check *c, int number, size_t record, const void **at, uint32_t *n) {
  const ProgramHeader *h = c->p->header;
  const ProgramSection *s = &h->sections[number];
  if (s->offset % 8 || s->offset < sizeof *h || s->offset > h->table_bytes || s->count >= PROGRAM_NONE ||
      s->count > (h->table_bytes - s->offset) / record)
    return damaged(c, "a section lies outside the image");
  *at = c->p->image + s->offset;
  *n = (uint32_t)s->count;
  return true;
}

static bool check_sections(Check *c) {
  Program *p = c->p;
  int number = 0;
  const void *at = NULL;
#define SECTION(name, record, doc) \
  if (!check_section(c, number++, sizeof(record), &at, &p->n_##name)) return false; \
  p->name = at;
#include "program/program.def"
#undef SECTION
  if (p->n_strings == 0 || p->strings[0] || p->strings[p->n_strings - 1]) return damaged(c, "its texts do not end");
  return true;
}

/* ---- names and sizes */

static bool check_symbols(Check *c) {
  const Program *p = c->p;
  if (p->n_symbols > PROGRAM_MAX_SYMBOLS) return damaged(c, "it has too many symbols");
  uint32_t computed = 0;
  for (uint32_t i = 0; i < p->n_symbols; i++) computed += p->symbols[i].most != 0;
  if (computed > PROGRAM_MAX_COMPUTED) return damaged(c, "it has too many computed sizes");
  for (uint32_t i = 0; i < p->n_symbols; i++) {
    const ProgramSymbol *s = &p->symbols[i];
    NEED(text_ok(c, s->name), "symbols", i, "the name");
    NEED(s->min >= 0 && (s->max == 0 || s->max >= s->min) && s->multiple >= 1 && s->hint >= 0, "symbols", i,
         "the range");
  }
  return true;
}

static bool check_mesh(Check *c) {
  Program *p = c->p;
  uint64_t per_stage = 1;
  if (p->n_axes > PROGRAM_MAX_AXES) return damaged(c, "it has too many mesh axes");
  p->micro_batches = 1;
  p->mb_axis = PROGRAM_NONE;
  for (uint32_t i = 0; i < p->n_axes; i++) {
    const ProgramAxis *a = &p->axes[i];
    NEED(text_ok(c, a->name), "axes", i, "the name");
    NEED(a->size >= 1, "axes", i, "the size");
    NEED(a->temporal == 0 || (a->temporal == 1 && p->mb_axis == PROGRAM_NONE), "axes", i, "the kind");
    if (a->temporal) {
      NEED(a->size <= PROGRAM_MAX_MICRO_BATCHES, "axes", i, "the size");
      p->mb_axis = i;
      p->micro_batches = a->size;
    } else {
      per_stage *= a->size;
      NEED(per_stage <= PROGRAM_MAX_RANKS, "axes", i, "the size");
    }
  }
  p->stages = p->header->stages;
  if (p->stages < 1 || p->stages > PROGRAM_MAX_RANKS || per_stage * p->stages > PROGRAM_MAX_RANKS)
    return damaged(c, "the number of stages is wrong");
  p->ranks_per_stage = (uint32_t)per_stage;
  p->ranks = p->ranks_per_stage * p->stages;
  return true;
}

static bool check_exprs(Check *c) {
  Program *p = c->p;
  p->expr_uses = calloc(p->n_exprs + 1u, 1);
  if (!p->expr_uses) {
    rt_error(c->error, RT_FAILED, "out of memory");
    return false;
  }
  for (uint32_t i = 0; i < p->n_exprs; i++) {
    const ProgramExpr *e = &p->exprs[i];
    NEED(e->kind < PX_COUNT, "exprs", i, "the kind");
    if (e->kind == PX_const) continue;
    if (e->kind == PX_sym) {
      NEED(e->a < p->n_symbols, "exprs", i, "the symbol");
      p->expr_uses[i] = PROGRAM_USES_SYMBOL;
      if (p->symbols[e->a].most) p->expr_uses[i] |= PROGRAM_USES_COMPUTED;
      NEED(p->symbols[e->a].most <= i, "exprs", i, "the symbol's bound");
    } else if (e->kind == PX_coordinate) {
      NEED(e->a < p->n_axes, "exprs", i, "the axis");
      p->expr_uses[i] = e->a == p->mb_axis ? PROGRAM_USES_MICRO_BATCH : PROGRAM_USES_PLACE;
    } else {
      NEED(e->a < i && e->b < i, "exprs", i, "an operand");
      p->expr_uses[i] = p->expr_uses[e->a] | p->expr_uses[e->b];
    }
    p->uses |= p->expr_uses[i];
  }
  for (uint32_t i = 0; i < p->n_symbols; i++)
    NEED(!p->symbols[i].most ||
             (expr_ok(c, p->symbols[i].most - 1) &&
              !(p->expr_uses[p->symbols[i].most - 1] & ~(PROGRAM_USES_SYMBOL | PROGRAM_USES_COMPUTED))),
         "symbols", i, "the bound");
  return true;
}

/* ---- memory */

static bool check_blobs(Check *c) {
  const Program *p = c->p;
  const ProgramHeader *h = p->header;
  for (uint32_t i = 0; i < p->n_blobs; i++) {
    const ProgramBlob *b = &p->blobs[i];
    NEED(text_ok(c, b->path), "blobs", i, "the path");
    if (*program_text(p, b->path)) {
      NEED(b->offset == 0, "blobs", i, "the offset");
      continue;
    }
    NEED(b->offset % PROGRAM_PAGE == 0 && b->offset >= h->table_bytes && b->offset <= h->image_bytes &&
             b->bytes <= h->image_bytes - b->offset,
         "blobs", i, "the range");
  }
  NEED(text_ok(c, h->name) && text_ok(c, h->target) && text_ok(c, h->producer) && text_ok(c, h->device) &&
           text_ok(c, h->planned),
       "header", 0, "a text");
  NEED(h->peak >= 0 && h->peak < INFINITY && text_ok(c, h->peak_of), "header", 0, "the peak");
  return true;
}

static bool check_images(Check *c) {
  const Program *p = c->p;
  if (p->n_images > PROGRAM_MAX_IMAGES) return damaged(c, "it has too many images");
  for (uint32_t i = 0; i < p->n_images; i++) {
    const ProgramImage *m = &p->images[i];
    NEED(m->kind < PIMAGE_COUNT, "images", i, "the kind");
    NEED(text_ok(c, m->arch) && program_image_arch_ok(m->kind, program_text(p, m->arch)), "images", i,
         "the architecture");
    NEED(m->blob < p->n_blobs && !*program_text(p, p->blobs[m->blob].path), "images", i, "the place");
    for (uint32_t k = 0; k < i; k++)
      NEED(p->images[k].kind != m->kind || strcmp(program_text(p, p->images[k].arch), program_text(p, m->arch)) != 0,
           "images", i, "the architecture");
  }
  return true;
}

static bool check_operators(Check *c) {
  const Program *p = c->p;
  for (uint32_t i = 0; i < p->n_operators; i++) {
    const ProgramOperator *o = &p->operators[i];
    NEED(text_ok(c, o->name) && text_ok(c, o->function), "operators", i, "the name");
    NEED(o->blob < p->n_blobs && !*program_text(p, p->blobs[o->blob].path), "operators", i, "the place");
    NEED(o->zero == 0, "operators", i, "the padding");
  }
  return true;
}

/* Checks kernels.  Blocks fit at least one kind of device, and every kind that the Program has code for.  Code without
 * grids may stand beside code with grids. */
static bool check_kernels(Check *c) {
  const Program *p = c->p;
  for (uint32_t i = 0; i < p->n_kernels; i++) {
    const ProgramKernel *k = &p->kernels[i];
    bool fits = k->threads == 0 && k->shared == 0;
    NEED(text_ok(c, k->name), "kernels", i, "the name");
    for (uint32_t kind = 0; kind < PIMAGE_COUNT; kind++) fits |= program_image_fits(kind, k->threads, k->shared);
    for (uint32_t m = 0; m < p->n_images; m++)
      if (program_image_has_grid(p->images[m].kind))
        fits &= program_image_fits(p->images[m].kind, k->threads, k->shared);
    NEED(fits, "kernels", i, "the block");
    NEED(k->looks == 0 || (k->looks == 1 && k->threads), "kernels", i, "the index check");
  }
  return true;
}

static bool persistent_buffer_ok(const Check *c, uint32_t buffer, uint32_t class_, uint32_t stage) {
  const Program *p = c->p;
  return buffer < p->n_buffers && p->buffers[buffer].class_ == class_ && p->buffers[buffer].stage == stage;
}

static bool all_const(const Check *c, ProgramList l) {
  for (uint32_t i = 0; i < l.n; i++) {
    const ProgramExpr *e = &c->p->exprs[c->p->indices[l.first + i]];
    if (e->kind != PX_const || e->value < 0) return false;
  }
  return true;
}

/* Computes how many stored elements lie between the first and the last element of a weight, inclusive; 0 if it is
 * empty. */
static bool param_span(const Program *p, const ProgramParam *w, int64_t *span) {
  int64_t last = 0, step;
  for (uint32_t d = 0; d < w->dims.n; d++) {
    int64_t extent = p->exprs[program_list(p, w->dims)[d]].value,
            stride = p->exprs[program_list(p, w->strides)[d]].value;
    if (extent == 0) return *span = 0, true;
    if (stride < 0 || __builtin_mul_overflow(extent - 1, stride, &step) || __builtin_add_overflow(last, step, &last))
      return false;
  }
  return !__builtin_add_overflow(last, 1, span);
}

/* True if every element of a weight lies in its blob. */
static bool param_range_ok(const Check *c, const ProgramParam *w) {
  const ProgramBlob *b = &c->p->blobs[w->blob];
  int64_t bytes;
  if (!param_span(c->p, w, &bytes) ||
      __builtin_mul_overflow(bytes, (int64_t)dtype_bytes((DType)w->source_dtype), &bytes))
    return false;
  return bytes == 0 || (w->offset <= b->bytes && (uint64_t)bytes <= b->bytes - w->offset);
}

/* True if every element of a view lies in its origin. */
static bool param_view_ok(const Check *c, const ProgramParam *w) {
  const Program *p = c->p;
  int64_t elements = 1, span;
  for (uint32_t d = 0; d < w->origin_dims.n; d++)
    if (__builtin_mul_overflow(elements, p->exprs[program_list(p, w->origin_dims)[d]].value, &elements)) return false;
  return param_span(p, w, &span) && w->first <= (uint64_t)elements && (uint64_t)span <= (uint64_t)elements - w->first;
}

static bool elements_fit(const Check *c, ProgramList dims) {
  int64_t n = 1;
  for (uint32_t d = 0; d < dims.n; d++) {
    int64_t extent = c->p->exprs[program_list(c->p, dims)[d]].value;
    if (__builtin_mul_overflow(n, extent > 1 ? extent : 1, &n) || n > INT64_MAX / 16) return false;
  }
  return true;
}

static bool check_params(Check *c) {
  const Program *p = c->p;
  for (uint32_t i = 0; i < p->n_params; i++) {
    const ProgramParam *w = &p->params[i];
    NEED(text_ok(c, w->name), "params", i, "the name");
    NEED(dtype_ok(w->dtype) && dtype_ok(w->source_dtype), "params", i, "the type");
    NEED(w->stage < p->stages, "params", i, "the stage");
    NEED(w->trainable <= PARAM_MEASURED, "params", i, "the flag");
    NEED(dims_ok(c, w->dims, 0) && all_const(c, w->dims) && elements_fit(c, w->dims), "params", i, "the shape");
    NEED(exprs_ok(c, w->interval, 2 * w->dims.n, PROGRAM_USES_SYMBOL | PROGRAM_USES_MICRO_BATCH), "params", i,
         "the part");
    NEED(w->init < PINIT_COUNT, "params", i, "the initialiser");
    NEED(!program_param_changes(w) || (w->buffer != PROGRAM_NONE && w->init != PINIT_prepared), "params", i,
         "the training");
    NEED((w->buffer == PROGRAM_NONE && w->init != PINIT_prepared) ||
             persistent_buffer_ok(c, w->buffer, PC_param, w->stage),
         "params", i, "the buffer");
    if (w->init != PINIT_blob) continue;
    NEED(w->blob < p->n_blobs, "params", i, "the file");
    NEED(exprs_ok(c, w->strides, w->dims.n, 0) && all_const(c, w->strides), "params", i, "a stride");
    NEED(param_range_ok(c, w), "params", i, "the range in the file");
    NEED(w->view <= 1, "params", i, "the flag");
    if (!w->view) continue;
    NEED(text_ok(c, w->origin), "params", i, "the whole weight");
    NEED(dims_ok(c, w->origin_dims, 0) && all_const(c, w->origin_dims) && elements_fit(c, w->origin_dims), "params", i,
         "the whole weight");
    NEED(param_view_ok(c, w), "params", i, "the range in the whole weight");
  }
  return true;
}

static bool check_states(Check *c) {
  const Program *p = c->p;
  for (uint32_t i = 0; i < p->n_states; i++) {
    const ProgramState *s = &p->states[i];
    NEED(text_ok(c, s->name), "states", i, "the name");
    NEED(dtype_ok(s->dtype), "states", i, "the type");
    NEED(s->stage < p->stages, "states", i, "the stage");
    NEED(
        persistent_buffer_ok(c, s->buffer, PC_state, s->stage) || persistent_buffer_ok(c, s->buffer, PC_away, s->stage),
        "states", i, "the buffer");
    NEED(dims_ok(c, s->dims, PROGRAM_USES_PLACE | PROGRAM_USES_MICRO_BATCH | PROGRAM_USES_COMPUTED), "states", i,
         "the shape");
    bool whole = p->buffers[s->buffer].slots == p->micro_batches; /* a slot for the part of each micro-batch */
    NEED(exprs_ok(c, s->interval, 2 * s->dims.n, whole ? 0 : PROGRAM_USES_MICRO_BATCH), "states", i, "the part");
  }
  return true;
}

/* True if the size of a buffer of this class is known when the program is loaded. */
static bool has_fixed_size(uint32_t class_) { return class_ == PC_param || class_ == PC_library; }

static bool is_of_state(uint32_t class_) { return class_ == PC_state || class_ == PC_away; }

static bool check_buffers(Check *c) {
  const Program *p = c->p;
  for (uint32_t i = 0; i < p->n_buffers; i++) {
    const ProgramBuffer *b = &p->buffers[i];
    NEED(text_ok(c, b->name), "buffers", i, "the name");
    NEED(b->class_ < PC_COUNT, "buffers", i, "the class");
    NEED(b->stage < p->stages, "buffers", i, "the stage");
    NEED(expr_ok(c, b->bytes), "buffers", i, "the size");
    NEED(b->slots >= 1 && b->slots <= PROGRAM_MAX_MICRO_BATCHES, "buffers", i, "the number of slots");
    if (has_fixed_size(b->class_) || is_of_state(b->class_)) {
      NEED(b->entry == PROGRAM_NONE && b->body == PROGRAM_NONE, "buffers", i, "the lifetime");
      NEED(b->slots == 1 || (is_of_state(b->class_) && b->slots == p->micro_batches), "buffers", i,
           "the number of slots");
      NEED(!(p->expr_uses[b->bytes] & (has_fixed_size(b->class_) ? PROGRAM_USES_SYMBOL : 0)), "buffers", i, "the size");
      continue;
    }
    NEED(b->entry < p->n_entries && b->first <= b->last, "buffers", i, "the lifetime");
    if (b->body == PROGRAM_NONE) {
      NEED(b->last < p->schedules[b->entry * p->stages + b->stage].n, "buffers", i, "the lifetime");
    } else {
      NEED(b->body < p->n_bodies, "buffers", i, "the body");
      const ProgramBody *body = &p->bodies[b->body];
      NEED(body->entry == b->entry && body->stage == b->stage && b->last < body->n, "buffers", i, "the lifetime");
    }
  }
  return true;
}

static bool check_tensors(Check *c) {
  const Program *p = c->p;
  for (uint32_t i = 0; i < p->n_tensors; i++) {
    const ProgramTensor *t = &p->tensors[i];
    NEED(t->buffer < p->n_buffers, "tensors", i, "the buffer");
    NEED(expr_ok(c, t->offset), "tensors", i, "the offset");
    NEED(dtype_ok(t->dtype), "tensors", i, "the type");
    NEED(dims_ok(c, t->extents, 0), "tensors", i, "the shape");
  }
  return true;
}

/* ---- entries and schedules */

static bool check_groups(Check *c) {
  const Program *p = c->p;
  for (uint32_t i = 0; i < p->n_groups; i++) {
    const ProgramGroup *g = &p->groups[i];
    NEED(g->axes.n <= p->n_axes && list_ok(c, g->axes), "groups", i, "the axes");
    uint32_t seen = 0;
    for (uint32_t k = 0; k < g->axes.n; k++) {
      uint32_t a = program_list(p, g->axes)[k];
      NEED(a < p->n_axes && !p->axes[a].temporal && !(seen & (1u << a)), "groups", i, "an axis");
      seen |= 1u << a;
    }
    bool pair = g->from != PROGRAM_NONE;
    NEED(pair == (g->to != PROGRAM_NONE), "groups", i, "a stage");
    if (pair)
      NEED(g->from < p->stages && g->to < p->stages && g->from != g->to && g->axes.n == 0, "groups", i, "a stage");
  }
  return true;
}

static bool bound_ok(const Check *c, uint32_t e) {
  return e == PROGRAM_NONE ||
         (expr_ok(c, e) && !(c->p->expr_uses[e] & (PROGRAM_USES_PLACE | PROGRAM_USES_MICRO_BATCH)));
}

/* True if the input may have any value, or has constant extents and the words of one value. */
static bool fixed_ok(const Check *c, const ProgramPort *t) {
  int64_t dims[PROGRAM_MAX_RANK];
  size_t bytes;
  if (!t->fixed.n) return true;
  for (uint32_t d = 0; d < t->dims.n; d++) {
    const ProgramExpr *e = &c->p->exprs[program_list(c->p, t->dims)[d]];
    if (e->kind != PX_const) return false;
    dims[d] = e->value;
  }
  return list_ok(c, t->fixed) && tensor_size((DType)t->dtype, (int)t->dims.n, dims, &bytes) &&
         t->fixed.n == bytes / sizeof(uint32_t) + (bytes % sizeof(uint32_t) != 0);
}

static bool check_ports(Check *c) {
  const Program *p = c->p;
  for (uint32_t i = 0; i < p->n_ports; i++) {
    const ProgramPort *t = &p->ports[i];
    NEED(text_ok(c, t->name), "ports", i, "the name");
    NEED(dtype_ok(t->dtype), "ports", i, "the type");
    NEED(dims_ok(c, t->dims, PROGRAM_USES_PLACE | PROGRAM_USES_MICRO_BATCH), "ports", i, "the shape");
    NEED(bound_ok(c, t->random_below) && bound_ok(c, t->index_below) && t->index_negative <= 1, "ports", i,
         "the bound");
    NEED(bound_ok(c, t->index_ignored) && (t->index_ignored == PROGRAM_NONE || t->index_below != PROGRAM_NONE), "ports",
         i, "the bound");
    NEED(fixed_ok(c, t), "ports", i, "the fixed value");
    NEED(t->index_below == PROGRAM_NONE || dtype_class((DType)t->dtype) == DTC_I ||
             dtype_class((DType)t->dtype) == DTC_U,
         "ports", i, "the bound");
  }
  return true;
}

/* Pairs of a count and an expression of sizes. */
static bool flops_ok(const Check *c, ProgramList l) {
  bool ok = l.n % 2 == 0 && list_ok(c, l);
  for (uint32_t i = 1; i < l.n && ok; i += 2)
    ok = exprs_ok(c, (ProgramList){l.first + i, 1}, 1, PROGRAM_USES_PLACE | PROGRAM_USES_MICRO_BATCH);
  return ok;
}

static bool check_entries(Check *c) {
  const Program *p = c->p;
  uint32_t port = 0;
  bool prepare = false;
  for (uint32_t i = 0; i < p->n_entries; i++) {
    const ProgramEntry *e = &p->entries[i];
    NEED(text_ok(c, e->name), "entries", i, "the name");
    NEED(e->inputs == port && e->n_inputs <= p->n_ports - port, "entries", i, "the inputs");
    port += e->n_inputs;
    NEED(e->outputs == port && e->n_outputs <= p->n_ports - port, "entries", i, "the outputs");
    port += e->n_outputs;
    NEED(e->seconds >= 0 && isfinite(e->seconds), "entries", i, "the predicted time");
    NEED(e->prepare == 0 || (e->prepare == 1 && !prepare && e->n_inputs + e->n_outputs == 0), "entries", i, "the flag");
    NEED(flops_ok(c, e->flops), "entries", i, "the model FLOPs");
    prepare |= e->prepare == 1;
  }
  return true;
}

/* True if the two bodies are ordered by entry, stage and phase. */
static bool in_order(const ProgramBody *a, const ProgramBody *b) {
  if (a->entry != b->entry) return a->entry < b->entry;
  if (a->stage != b->stage) return a->stage < b->stage;
  return a->phase <= b->phase;
}

/* Checks that bodies cover the instructions without gaps, and schedules the calls, which keeps the whole check
 * linear. */
static bool check_bodies(Check *c) {
  const Program *p = c->p;
  uint32_t at = 0;
  if (p->n_instrs > PROGRAM_MAX_INSTRS) return damaged(c, "it has too many instructions");
  for (uint32_t i = 0; i < p->n_bodies; i++) {
    const ProgramBody *b = &p->bodies[i];
    NEED(text_ok(c, b->name), "bodies", i, "the name");
    NEED(b->entry < p->n_entries && b->stage < p->stages, "bodies", i, "the entry");
    NEED(b->phase < PHASE_COUNT && !(p->entries[b->entry].prepare && program_phase_each(b->phase)), "bodies", i,
         "the phase");
    NEED(i == 0 || in_order(&p->bodies[i - 1], b), "bodies", i, "the place");
    NEED(b->instrs == at && b->n <= p->n_instrs - at, "bodies", i, "the range");
    at += b->n;
  }
  return at == p->n_instrs || damaged(c, "it has instructions outside bodies");
}

static bool check_predicted(Check *c) {
  const Program *p = c->p;
  if (p->n_predicted && p->n_predicted != p->n_instrs) return damaged(c, "the number of predicted times is wrong");
  for (uint32_t i = 0; i < p->n_predicted; i++)
    NEED(p->predicted[i] >= 0 && isfinite(p->predicted[i]), "predicted", i, "the time");
  return true;
}

/* Returns how often a body is called. */
static uint32_t calls_of(const Program *p, const ProgramBody *b) {
  return program_phase_each(b->phase) ? p->micro_batches : 1;
}

/* Checks that every body is called once, or once for every micro-batch in ascending order (D44); `made` counts the
 * calls. */
static bool check_calls(Check *c, uint32_t *made) {
  const Program *p = c->p;
  for (uint32_t k = 0; k < p->n_calls; k++) {
    const ProgramCall *call = &p->calls[k];
    NEED(call->micro_batch == made[call->body] && made[call->body] < calls_of(p, &p->bodies[call->body]), "calls", k,
         "the micro-batch");
    made[call->body]++;
  }
  for (uint32_t i = 0; i < p->n_bodies; i++)
    NEED(made[i] == calls_of(p, &p->bodies[i]), "bodies", i, "the number of calls");
  return true;
}

static bool check_schedules(Check *c) {
  const Program *p = c->p;
  uint32_t at = 0;
  if (p->n_schedules != (uint64_t)p->n_entries * p->stages) return damaged(c, "the number of schedules is wrong");
  for (uint32_t i = 0; i < p->n_schedules; i++) {
    const ProgramSchedule *s = &p->schedules[i];
    NEED(s->calls == at && s->n <= p->n_calls - at, "schedules", i, "the range");
    at += s->n;
    for (uint32_t k = s->calls; k < at; k++) {
      const ProgramCall *call = &p->calls[k];
      NEED(call->body < p->n_bodies && call->micro_batch < p->micro_batches, "calls", k, "the call");
      const ProgramBody *b = &p->bodies[call->body];
      NEED(b->entry == i / p->stages && b->stage == i % p->stages, "calls", k, "the body");
    }
  }
  if (at != p->n_calls) return damaged(c, "it has calls outside schedules");
  uint32_t *made = calloc(p->n_bodies + 1u, sizeof *made);
  if (!made) {
    rt_error(c->error, RT_FAILED, "out of memory");
    return false;
  }
  bool ok = check_calls(c, made);
  free(made);
  return ok;
}

RtStatus program_open(const void *image, size_t bytes, Program *out, RtError *error) {
  RtError local = {0};
  memset(out, 0, sizeof *out);
  Check check = {out, error ? error : &local}, *c = &check;
  out->image = image;
  out->header = image;
  if (check_header(c, image, bytes) && check_sections(c) && check_symbols(c) && check_mesh(c) && check_exprs(c) &&
      check_blobs(c) && check_images(c) && check_operators(c) && check_kernels(c) && check_groups(c) &&
      check_ports(c) && check_entries(c) && check_bodies(c) && check_schedules(c) && check_buffers(c) &&
      check_tensors(c) && check_params(c) && check_states(c) && check_predicted(c) && program_check_instrs(c))
    return RT_OK;
  program_close(out);
  return c->error->status;
}

void program_close(Program *p) {
  free(p->expr_uses);
  memset(p, 0, sizeof *p);
}
