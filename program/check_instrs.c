/* program/check_instrs.c - the part of program_open that checks instructions: operands, objects, numbers, loops and
 * communication.
 *
 * In: a Program whose other sections have been checked.  Out: whether executors can take every instruction as it is, or
 * the first faulty one.  Time is linear in the instructions.
 */
#include <stdlib.h>

#include "program/check.h"
#include "program/comm.h"

typedef enum ExprsMode { EXPRS_ANY, EXPRS_AT_MOST, EXPRS_NUMBER, EXPRS_PER_DIM, EXPRS_GEMM, EXPRS_CONV } ExprsMode;

typedef struct InstrRow {
  uint32_t min_tensors, max_tensors;
  ExprsMode mode;
  uint32_t n;
} InstrRow;

static const InstrRow instr_rows[] = {
#define EX_ANY EXPRS_ANY, 0
#define EX_AT_MOST(n) EXPRS_AT_MOST, n
#define EX_NUMBER(n) EXPRS_NUMBER, n
#define EX_PER_DIM(n) EXPRS_PER_DIM, n
#define EX_GEMM EXPRS_GEMM, 0
#define EX_CONV EXPRS_CONV, 0
#define INSTR(name, object, min, max, writes, exprs, comm, doc) {min, max, exprs},
#include "program/program.def"
#undef INSTR
};

static bool exprs_count_ok(const Check *c, const ProgramInstr *x) {
  const InstrRow *row = &instr_rows[x->kind];
  uint32_t n = x->exprs.n;
  switch (row->mode) {
    case EXPRS_ANY: return n <= PROGRAM_MAX_WORDS;
    case EXPRS_AT_MOST: return n <= row->n;
    case EXPRS_NUMBER: return n == row->n;
    case EXPRS_PER_DIM: return n == row->n * c->p->tensors[program_list(c->p, x->tensors)[0]].extents.n;
    case EXPRS_GEMM:
      n -= PROGRAM_GEMM_NUMBERS; /* with fewer exprs this wraps around and exceeds all limits */
      return n % 4 == 0 && n / 4 <= PROGRAM_MAX_BATCH_LOOPS;
    case EXPRS_CONV: return n >= PROGRAM_CONV_NUMBERS && n <= PROGRAM_CONV_NUMBERS + 1024;
  }
  return false;
}

static bool tensors_ok(const Check *c, const ProgramInstr *x, const ProgramBody *b, uint32_t body) {
  const Program *p = c->p;
  const InstrRow *row = &instr_rows[x->kind];
  if (x->tensors.n < row->min_tensors || x->tensors.n > row->max_tensors || !list_ok(c, x->tensors)) return false;
  for (uint32_t i = 0; i < x->tensors.n; i++) {
    uint32_t t = program_list(p, x->tensors)[i];
    if (t >= p->n_tensors) return false;
    const ProgramBuffer *buffer = &p->buffers[p->tensors[t].buffer];
    if (buffer->stage != b->stage || (buffer->entry != PROGRAM_NONE && buffer->entry != b->entry) ||
        (buffer->body != PROGRAM_NONE && buffer->body != body))
      return false;
  }
  return true;
}

static bool object_ok(const Check *c, const ProgramInstr *x, const ProgramBody *b) {
  const Program *p = c->p;
  const ProgramEntry *e = &p->entries[b->entry];
  switch (program_instr_object(x->kind)) {
    case PO_NONE: return x->object == PROGRAM_NONE;
    case PO_KERNEL: return x->object < p->n_kernels;
    case PO_GROUP: return x->object < p->n_groups;
    case PO_INPUT: return x->object < e->n_inputs;
    case PO_OUTPUT: return x->object < e->n_outputs;
    case PO_PARAM: return x->object < p->n_params;
    case PO_TEXT: return text_ok(c, x->object);
    case PO_SYMBOL: return x->object < p->n_symbols && p->symbols[x->object].most;
  }
  return false;
}

static const ProgramTensor *operand(const Program *p, const ProgramInstr *x, uint32_t i) {
  return &p->tensors[program_list(p, x->tensors)[i]];
}

/* True if both tensors of an instruction have equal type and rank. */
static bool pair_ok(const Program *p, const ProgramInstr *x) {
  const ProgramTensor *a = operand(p, x, 0), *b = operand(p, x, 1);
  return a->dtype == b->dtype && a->extents.n == b->extents.n;
}

static bool like_port(const Program *p, const ProgramInstr *x, uint32_t port) {
  const ProgramTensor *t = operand(p, x, 0);
  return t->dtype == p->ports[port].dtype && t->extents.n == p->ports[port].dims.n;
}

static bool is_scalar(const ProgramTensor *t, DType dtype) { return t->dtype == (uint32_t)dtype && t->extents.n == 0; }

/* True if the activation exists and bias and residual have their tensors. */
static bool epilogue_ok(const ProgramInstr *x) {
  return !(x->mask & ~(3u | PROGRAM_TF32 | (x->kind == PI_gemm ? PROGRAM_NARROW : 0))) && x->dim < ACT_COUNT &&
         x->tensors.n == 3 + (x->mask & 1) + (x->mask >> 1 & 1);
}

static bool is_number(const Program *p, uint32_t expr, int64_t value) {
  return p->exprs[expr].kind == PX_const && p->exprs[expr].value == value;
}

/* Checks a product.  Libraries add one matrix: the old C or a residual.  The extents of bias and residual are checked
 * when sizes are known (runtime/exec/validate.c). */
static bool gemm_ok(const Program *p, const ProgramInstr *x) {
  const uint32_t *e = program_list(p, x->exprs);
  const ProgramTensor *a = operand(p, x, 0), *b = operand(p, x, 1), *c = operand(p, x, 2);
  const bool panels = !is_number(p, e[10], 0);
  if (!epilogue_ok(x) || (a->dtype != b->dtype && !panels) || !dtype_ok(x->dim2)) return false;
  if (!program_gemm_types((DType)a->dtype, (DType)c->dtype, (DType)x->dim2)) return false;
  for (uint32_t i = 3; i < x->tensors.n; i++)
    if (operand(p, x, i)->dtype != c->dtype) return false;
  if ((x->mask & PROGRAM_TF32) && (a->dtype != DT_f32 || c->dtype != DT_f32)) return false;
  if (epilogue_any(program_instr_epilogue(x)) && !is_number(p, e[8], 1)) return false;
  if ((x->mask & 2) && !is_number(p, e[9], 0)) return false;
  if ((x->mask & PROGRAM_NARROW) && (!panels || b->dtype != DT_bf16)) return false;
  return !panels || (a->dtype == DT_f32 && program_panel_type((DType)b->dtype) && is_number(p, e[5], PROGRAM_PANEL) &&
                     is_number(p, e[6], 1) && is_number(p, e[8], 1));
}

static bool pack_ok(const Program *p, const ProgramInstr *x, const ProgramEntry *e) {
  const ProgramTensor *from = operand(p, x, 0), *to = operand(p, x, 1);
  return e->prepare && from->dtype == to->dtype && program_panel_type((DType)to->dtype) && to->extents.n == 3 &&
         is_number(p, program_list(p, to->extents)[2], PROGRAM_PANEL) && p->buffers[to->buffer].class_ == PC_param;
}

/* Checks a convolution.  Only an output has an epilogue; all tensors have one type, a float that libraries may
 * support.  tf32 is for f32. */
static bool conv_ok(const Program *p, const ProgramInstr *x) {
  uint32_t dtype = operand(p, x, 0)->dtype;
  if (x->dim2 >= CONV_RESULTS || (x->dim2 && (x->mask & 3u || x->dim || x->tensors.n != 3))) return false;
  if (!epilogue_ok(x)) return false;
  if (dtype != DT_f32 && dtype != DT_f16 && dtype != DT_bf16) return false;
  if (dtype != DT_f32 && x->mask & PROGRAM_TF32) return false;
  for (uint32_t i = 1; i < x->tensors.n; i++)
    if (operand(p, x, i)->dtype != dtype) return false;
  return true;
}

/* True if the instruction has what its row of comm.def requires: a reduction, one dimension or two different ones. */
static bool collective_ok(const Program *p, const ProgramInstr *x) {
  CommKind kind = program_instr_comm(x->kind);
  uint32_t rank = operand(p, x, 0)->extents.n;
  int dims = program_comm_dims(kind);
  if (!pair_ok(p, x) || (program_comm_reduces(kind) && x->reduction >= COMM_REDUCTION_COUNT)) return false;
  return (dims < 1 || x->dim < rank) && (dims < 2 || (x->dim2 < rank && x->dim2 != x->dim));
}

static bool is_away(const Program *p, const ProgramInstr *x, uint32_t i) {
  return p->buffers[operand(p, x, i)->buffer].class_ == PC_away;
}

/* True if the instruction names tensors of class away only where it may: bring reads one, stow writes one. */
static bool away_ok(const Program *p, const ProgramInstr *x) {
  for (uint32_t i = 0; i < x->tensors.n; i++) {
    bool home = (x->kind == PI_bring && i == 0) || (x->kind == PI_stow && i == 1);
    if (is_away(p, x, i) != home) return false;
  }
  return true;
}

static bool meaning_ok(const Check *c, const ProgramInstr *x, const ProgramBody *b) {
  const Program *p = c->p;
  const ProgramEntry *e = &p->entries[b->entry];
  bool over_axes = x->kind != PI_send && x->kind != PI_recv;
  if (!away_ok(p, x)) return false;
  if (program_instr_is_comm(x->kind) && over_axes != (p->groups[x->object].from == PROGRAM_NONE)) return false;
  switch ((ProgramInstrKind)x->kind) {
    case PI_gemm: return gemm_ok(p, x);
    case PI_conv: return conv_ok(p, x);
    case PI_launch: /* tensors that it does not write may be tables */
      return x->dim <= x->tensors.n && (x->tensors.n - x->dim >= 32 || x->mask >> (x->tensors.n - x->dim) == 0);
    case PI_bring:
    case PI_stow:
    case PI_copy: return pair_ok(p, x);
    case PI_pack: return pack_ok(p, x, e);
    case PI_send: return p->groups[x->object].from == b->stage;
    case PI_recv: return p->groups[x->object].to == b->stage;
    case PI_wait: return x->event < p->header->n_events;
    case PI_feed:
      return like_port(p, x, e->inputs + x->object) &&
             exprs_ok(c, p->ports[e->inputs + x->object].dims, operand(p, x, 0)->extents.n, PROGRAM_USES_COMPUTED);
    case PI_fetch: return like_port(p, x, e->outputs + x->object) && x->mask >> p->n_axes == 0;
    case PI_load: {
      const ProgramParam *w = &p->params[x->object];
      const ProgramTensor *t = operand(p, x, 0);
      return e->prepare && w->stage == b->stage && w->buffer == PROGRAM_NONE && w->dtype == t->dtype &&
             w->dims.n == t->extents.n;
    }
    case PI_bind:
      return is_scalar(operand(p, x, 0), DT_i64) && p->stages == 1 && p->mb_axis == PROGRAM_NONE && !e->prepare &&
             x->guard == PROGRAM_NONE;
    case PI_loop: return is_scalar(operand(p, x, 0), DT_i64) && is_scalar(operand(p, x, 1), DT_i64);
    case PI_repeat:
      return is_scalar(operand(p, x, 0), DT_i64) && (x->tensors.n == 1 || is_scalar(operand(p, x, 1), DT_bool));
    default: return !program_instr_is_comm(x->kind) || collective_ok(p, x);
  }
}

/* True if an instruction of a body that is called once depends on the micro-batch.  Its expressions and tensors are in
 * range. */
static bool asks_micro_batch(const Check *c, const ProgramInstr *x) {
  const Program *p = c->p;
  if (x->guard != PROGRAM_NONE && (p->expr_uses[x->guard] & PROGRAM_USES_MICRO_BATCH)) return true;
  if (!exprs_ok(c, x->exprs, x->exprs.n, PROGRAM_USES_MICRO_BATCH)) return true;
  if (program_instr_has_grid(x) && (p->expr_uses[x->blocks] & PROGRAM_USES_MICRO_BATCH)) return true;
  for (uint32_t i = 0; i < x->tensors.n; i++) {
    const ProgramTensor *t = operand(p, x, i);
    if (p->buffers[t->buffer].slots > 1 || (p->expr_uses[t->offset] & PROGRAM_USES_MICRO_BATCH) ||
        !exprs_ok(c, t->extents, t->extents.n, PROGRAM_USES_MICRO_BATCH))
      return true;
  }
  return false;
}

static bool check_instr(Check *c, uint32_t i, uint32_t body) {
  const Program *p = c->p;
  const ProgramInstr *x = &p->instrs[i];
  const ProgramBody *b = &p->bodies[body];
  NEED(x->kind < PI_COUNT, "instrs", i, "the kind");
  NEED(text_ok(c, x->where), "instrs", i, "the location");
  NEED(tensors_ok(c, x, b, body), "instrs", i, "a tensor");
  NEED(exprs_count_ok(c, x) && exprs_ok(c, x->exprs, x->exprs.n, 0), "instrs", i, "an expression");
  NEED(object_ok(c, x, b), "instrs", i, "the object");
  NEED(x->guard == PROGRAM_NONE || expr_ok(c, x->guard), "instrs", i, "the guard");
  NEED(meaning_ok(c, x, b), "instrs", i, "an operand");
  if (program_instr_object(x->kind) == PO_KERNEL) {
    bool grid = p->kernels[x->object].threads > 0;
    NEED(grid ? expr_ok(c, x->blocks) : x->blocks == PROGRAM_NONE, "instrs", i, "the grid");
  }
  NEED(program_phase_each(b->phase) || !asks_micro_batch(c, x), "instrs", i, "the use of the micro-batch");
  bool comm = program_instr_is_comm(x->kind);
  NEED(!comm || (x->key < PROGRAM_MAX_KEY && x->guard == PROGRAM_NONE), "instrs", i, "the key or guard");
  NEED(!comm || x->event == PROGRAM_NONE || x->event < p->header->n_events, "instrs", i, "the event");
  return true;
}

/* Checks that loops and repeats name each other and nest.  A loop holds no transfers between stages, since both stages
 * would need equally many rounds, and no ports, since every round would read or write them. */
static bool check_loops(Check *c, uint32_t begin, uint32_t end) {
  const Program *p = c->p;
  uint32_t open[PROGRAM_MAX_LOOPS], n = 0;
  for (uint32_t i = begin; i < end; i++) {
    const ProgramInstr *x = &p->instrs[i];
    if (x->kind == PI_loop) {
      NEED(n < PROGRAM_MAX_LOOPS && x->dim < end - i && p->instrs[i + x->dim].kind == PI_repeat &&
               x->guard == PROGRAM_NONE,
           "instrs", i, "the loop");
      open[n++] = i;
    } else if (x->kind == PI_repeat) {
      NEED(n > 0 && i - open[n - 1] == x->dim && p->instrs[open[n - 1]].dim == x->dim && x->guard == PROGRAM_NONE &&
               program_list(p, x->tensors)[0] == program_list(p, p->instrs[open[n - 1]].tensors)[0],
           "instrs", i, "the loop");
      n--;
    } else {
      NEED(n == 0 || x->kind != PI_bind, "instrs", i, "the loop around");
      NEED(n == 0 || (x->kind != PI_send && x->kind != PI_recv && x->kind != PI_feed && x->kind != PI_fetch), "instrs",
           i, "the loop around");
    }
  }
  NEED(n == 0, "instrs", open[n - 1], "the loop");
  return true;
}

/* Counts how often instructions name each buffer; NULL if out of memory. */
static uint32_t *count_uses(const Program *p) {
  uint32_t *uses = calloc(p->n_buffers + 1u, sizeof *uses);
  for (uint32_t i = 0; uses && i < p->n_instrs; i++)
    for (uint32_t k = 0; k < p->instrs[i].tensors.n; k++) uses[operand(p, &p->instrs[i], k)->buffer]++;
  return uses;
}

/* True if only the pack reads the loaded tensor, also outside this entry, so that the load may be left out. */
static bool load_packed_ok(const Program *p, uint32_t i, uint32_t end, const uint32_t *uses) {
  const ProgramInstr *load = &p->instrs[i], *pack = load + 1;
  if (load->dim == 0) return true;
  if (load->dim != 1 || i + 1 == end || pack->kind != PI_pack) return false;
  if (load->guard != PROGRAM_NONE || pack->guard != PROGRAM_NONE) return false;
  uint32_t buffer = operand(p, load, 0)->buffer;
  return program_list(p, load->tensors)[0] == program_list(p, pack->tensors)[0] && uses[buffer] == 2 &&
         p->buffers[buffer].entry != PROGRAM_NONE;
}

static bool check_packs(Check *c) {
  const Program *p = c->p;
  uint32_t *uses = count_uses(p), wrong = PROGRAM_NONE;
  if (!uses) {
    rt_error(c->error, RT_FAILED, "out of memory");
    return false;
  }
  for (uint32_t b = 0; b < p->n_bodies; b++) {
    uint32_t end = p->bodies[b].instrs + p->bodies[b].n;
    for (uint32_t i = p->bodies[b].instrs; i < end && wrong == PROGRAM_NONE; i++)
      if (p->instrs[i].kind == PI_load && !load_packed_ok(p, i, end, uses)) wrong = i;
  }
  free(uses);
  NEED(wrong == PROGRAM_NONE, "instrs", wrong, "the pack after the load");
  return true;
}

bool program_check_instrs(Check *c) {
  const Program *p = c->p;
  for (uint32_t b = 0; b < p->n_bodies; b++) {
    uint32_t end = p->bodies[b].instrs + p->bodies[b].n;
    for (uint32_t i = p->bodies[b].instrs; i < end; i++)
      if (!check_instr(c, i, b)) return false;
    if (!check_loops(c, p->bodies[b].instrs, end)) return false;
  }
  NEED(p->header->n_events <= PROGRAM_MAX_INSTRS, "header", 0, "the number of events");
  return check_packs(c);
}
