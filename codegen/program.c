/* codegen/program.c - see program.h.
 *
 * Values become tensors: a view shares its operand's buffer, a kernel may overwrite an operand without later readers,
 * an update of a state is done in place if the old value is not read later; every other value gets its own buffer, live
 * from its definition to its last use in the body.
 */
#include "codegen/program.h"

#include <string.h>

#include "base/die.h"
#include "base/tensor.h"
#include "codegen/program_body.h"
#include "codegen/rows/row.h"
#include "codegen/unit_times.h"
#include "ir/index_bound.h"
#include "ir/layout/flops.h"
#include "ir/legal_comm.h"
#include "ir/legal_dot.h"
#include "ir/schedule.h"
#include "program/comm.h"

/* ---- tensors of a body */

static uint32_t position(const EmitBody *b) { return program_count_instrs(b->e->b) - b->start; }

/* Adds a buffer that is live at the instruction about to be added; uses extend it.  The lifetimes of buffers that later
 * bodies read are set after those bodies. */
static uint32_t body_buffer(EmitBody *b, const char *name, ProgramClass class_, const Type *t, bool handed) {
  uint32_t at = handed ? 0 : position(b);
  return program_add_buffers(b->e->b, &(ProgramBuffer){.name = emit_text(b->e, name),
                                                       .class_ = class_,
                                                       .stage = emit_place(b->e, b->stage),
                                                       .entry = b->entry,
                                                       .body = handed ? PROGRAM_NONE : b->body,
                                                       .first = at,
                                                       .last = at,
                                                       .slots = 1,
                                                       .bytes = emit_bytes(b->e, t)});
}

const Type *emit_body_type(const EmitBody *b, Val v) { return units_type(b->units, b->spec->l2, v); }

static const char *value_name(const EmitBody *b, Val v) {
  return v < b->spec->l2->values.n ? name_of(b->spec->l2, v) : "scratch";
}

/* Returns the class of a result: a temporary of units is scratch. */
static ProgramClass result_class(const EmitBody *b, Val v) {
  return v < b->spec->l2->values.n ? PC_activation : PC_workspace;
}

static bool has_target(const EmitBody *b, Val v) { return b->target && b->target[v] != PROGRAM_NONE; }

void emit_share_tensor(EmitBody *b, Val v, uint32_t tensor) {
  ProgramTensor t = *program_at_tensors(b->e->b, tensor);
  ProgramBuffer *buffer = program_at_buffers(b->e->b, t.buffer);
  if (buffer->class_ == PC_activation || buffer->class_ == PC_workspace) {
    ProgramClass class_ = emit_class_of(b, v);
    if (class_ != PC_activation) buffer->class_ = class_;
  }
  b->tensor[v] = emit_tensor(b->e, t.buffer, t.offset, emit_body_type(b, v));
}

void emit_fresh_tensor(EmitBody *b, Val v, ProgramClass class_) {
  const Type *t = emit_body_type(b, v);
  if (class_ == PC_activation) class_ = emit_class_of(b, v);
  if (has_target(b, v)) b->tensor[v] = b->target[v];
  else if (emit_in_carry(b, v)) emit_share_tensor(b, v, b->tensor[b->becomes[v]]);
  else
    b->tensor[v] = emit_tensor(b->e, body_buffer(b, value_name(b, v), class_, t, b->handed && b->handed[v]),
                               program_const(b->e->b, 0), t);
}

uint32_t emit_scratch(EmitBody *b, const Type *t) {
  return emit_tensor(b->e, body_buffer(b, "scratch", PC_workspace, t, false), program_const(b->e->b, 0), t);
}

static void note_touch(EmitBody *b, uint32_t buffer) {
  EmitTouches *l = b->touches;
  size_t i = 0;
  while (i < l->n && l->items[i].buffer != buffer) i++;
  if (i == l->n) ARENA_PUSH(b->e->m->arena, l, ((EmitTouch){buffer, ARENA_ARRAY(b->e->m->arena, bool, l->nparts)}));
  l->items[i].parts[b->part] = true;
}

uint32_t emit_instr(EmitBody *b, ProgramInstrKind kind, const char *where, uint32_t object, uint32_t n,
                    const uint32_t *tensors, ProgramList exprs) {
  ProgramBuilder *pb = b->e->b;
  emit_waits(b, kind, n, tensors);
  uint32_t at = position(b);
  for (uint32_t i = 0; i < n; i++) {
    ProgramBuffer *buffer = program_at_buffers(pb, program_at_tensors(pb, tensors[i])->buffer);
    if (buffer->body == b->body && buffer->last < at) buffer->last = at;
    if (buffer->body == PROGRAM_NONE && buffer->entry == b->entry)
      note_touch(b, program_at_tensors(pb, tensors[i])->buffer);
  }
  return program_add_instrs(pb, &(ProgramInstr){.kind = kind,
                                                .where = emit_text(b->e, where),
                                                .object = object,
                                                .guard = PROGRAM_NONE,
                                                .tensors = program_list_of(pb, n, tensors),
                                                .exprs = exprs,
                                                .event = PROGRAM_NONE,
                                                .blocks = PROGRAM_NONE});
}

static ProgramList no_exprs(EmitBody *b) { return program_list_of(b->e->b, 0, NULL); }

uint32_t emit_body_tensor(const EmitBody *b, Val v) {
  if (b->tensor[v] == PROGRAM_NONE) die("value %s is used before it exists", value_name(b, v));
  return b->tensor[v];
}

/* ---- sharing memory */

/* Returns the state to which a value is written at the end, NULL if none. */
static const char *written_to(const EmitBody *b, Val v) {
  for (size_t i = 0; i < b->units->n; i++) {
    const Unit *k = &b->units->items[i];
    if (k->kind == UNIT_WRITE && b->root[k->in[0]] == b->root[v])
      return op_str(&b->spec->l2->ops.items[k->op], AT_name);
  }
  return NULL;
}

static bool is_read(const EmitBody *b, Val v) { return op_of(b->spec->l2, v)->kind == OP_read; }

bool emit_may_share(const EmitBody *b, Val x, Val v) {
  Val root = b->root[x];
  if (b->last_use[root] > b->at) return false;
  if (root == work_sum_start(b->units->work, v)) return true;
  bool given = b->given && b->given[root] && !(root < b->spec->l2->values.n && is_read(b, root));
  if (given || (b->handed && b->handed[v])) return false;
  if (root >= b->spec->l2->values.n) return true;
  const Op *op = op_of(b->spec->l2, root);
  if (op->kind == OP_param) return false;
  if (op->kind == OP_carry) return b->becomes[v] == root;
  if (op->kind != OP_read) return !emit_is_sent(b, x);
  const char *state = written_to(b, v);
  return state && strcmp(state, op_str(op, AT_name)) == 0;
}

void emit_copy(EmitBody *b, uint32_t from, uint32_t to, const Type *t, const char *where) {
  uint32_t items[3 * MAX_RANK], n = 0, tensors[2] = {from, to};
  for (int d = 0; d < t->rank; d++) {
    items[n++] = emit_expr(b->e, t->dims[d]);
    items[n++] = program_const(b->e->b, 0);
    items[n++] = program_const(b->e->b, 0);
  }
  emit_instr(b, PI_copy, where, PROGRAM_NONE, 2, tensors, program_list_of(b->e->b, n, items));
}

/* ---- units to instructions */

/* Loads a weight that @prepare reads: one that the entries use as well, or one in memory only while it is needed. */
static bool load_param(EmitBody *b, const Op *op, const Layout *layout) {
  const char *name = op_str(op, AT_name);
  const EmitKnown *have = emit_known_param(b->e, name, op->stage, layout);
  ProgramParam r;
  if (have) return b->tensor[op->out] = have->tensor, true;
  if (!emit_param_record(b->e, name, op->stage, layout, &r)) return false;
  emit_fresh_tensor(b, op->out, PC_workspace);
  emit_instr(b, PI_load, op->name, program_add_params(b->e->b, &r), 1, &b->tensor[op->out], no_exprs(b));
  return true;
}

static bool emit_source(EmitBody *b, const Unit *u) {
  Emitting *e = b->e;
  const Func *l2 = b->spec->l2;
  const Op *op = &l2->ops.items[u->op];
  Val v = op->out;
  const Layout *layout = l2->values.items[v].layout;
  if (op->kind == OP_accumulate) { /* the initial value of a sum over micro-batches */
    emit_fresh_tensor(b, u->out[0], PC_activation);
    emit_instr(b, PI_fill, op->name, PROGRAM_NONE, 1, &b->tensor[u->out[0]], no_exprs(b));
    return true;
  }
  const Type *local = type_of(l2, v);
  if (op->kind == OP_param)
    return b->target ? load_param(b, op, layout)
                     : emit_param(e, op_str(op, AT_name), op->stage, layout, local, &b->tensor[v]);
  if (emit_is_away(b, op)) return true;
  if (op->kind == OP_read) return emit_state(e, op, layout, local, &b->tensor[v]);
  uint32_t port = 0;
  const Type *global = emit_input(e, op_str(op, AT_name), &port);
  if (!global) die("input %s is not in level 1", op_str(op, AT_name));
  if (b->last_use[v] < 0) return true; /* not read in this stage */
  emit_fresh_tensor(b, v, PC_input);
  emit_instr(b, PI_feed, op->name, port, 1, &b->tensor[v], emit_intervals(e, global, layout, false));
  return true;
}

/* Records the kernel's launch, as its own unit gives it; kernels with lower numbers may belong to later units. */
static void note_kernel(Emitting *e, const Unit *u) {
  Arena *a = e->m->arena;
  const KernelSet *set = &e->legal->kernels;
  for (size_t have = e->out->kernels.n; have <= (size_t)u->kernel; have++) {
    const Kernel *new = &set->kernels.items[have];
    const char *text = kernel_target(e->legal->source.device)->definition(a, new);
    ARENA_PUSH(a, &e->out->kernels, ((ProgramKernelText){.symbol = new->symbol, .text = text}));
  }
  ProgramKernelText *k = &e->out->kernels.items[u->kernel];
  k->how = u->how, k->threads = u->threads, k->shared = u->shared, k->looks = u->looks;
}

static void put_grid(EmitBody *b, uint32_t instr, const Unit *u) {
  if (u->blocks) program_at_instrs(b->e->b, instr)->blocks = emit_expr(b->e, u->blocks);
}

/* Returns a bit per tensor: it is read only at positions that other values name, as a table of embeddings. */
static uint32_t looked_up(const RowProgram *row) {
  uint32_t mask = 0;
  int place = 0;
  for (size_t i = 0; row && i < row->buffers.n && place < 32; i++) {
    bool named = false, plain = false;
    if (row->buffers.items[i].table) continue;
    for (size_t k = 0; k < row->nodes.n; k++) {
      const RowNode *n = &row->nodes.items[k];
      if (n->kind == RN_LOAD && n->buffer == (int)i) *(n->nargs ? &named : &plain) = true;
    }
    if (named && !plain) mask |= 1u << place;
    place++;
  }
  return mask;
}

/* True if no other operand of the unit shares the memory of operand `a`, as a part of it would. */
static bool is_read_once(const EmitBody *b, const Unit *u, int a) {
  for (int i = 0; i < u->nin; i++)
    if (i != a && b->root[u->in[i]] == b->root[u->in[a]]) return false;
  return true;
}

static void emit_kernel(EmitBody *b, const Unit *u, const char *where) {
  uint32_t n = 0, *tensors = ARENA_ARRAY(b->e->m->arena, uint32_t, u->nin + u->nout);
  for (int i = 0; i < u->nin; i++) tensors[n++] = emit_body_tensor(b, u->in[i]);
  bool *shared = ARENA_ARRAY(b->e->m->arena, bool, u->nin + 1); /* an input gives its memory away only once */
  for (int i = 0; i < u->nout; i++) {
    Val v = u->out[i];
    int a = u->alias ? u->alias[i] : -1;
    if (a >= 0 && !shared[a] && is_read_once(b, u, a) && !has_target(b, v) && !emit_in_carry(b, v) &&
        emit_may_share(b, u->in[a], v)) {
      shared[a] = true;
      emit_share_tensor(b, v, emit_body_tensor(b, u->in[a]));
    } else {
      emit_fresh_tensor(b, v, result_class(b, v));
    }
    tensors[n++] = b->tensor[v];
  }
  b->writes = (uint32_t)u->nout;
  uint32_t at =
      emit_instr(b, PI_launch, where, (uint32_t)u->kernel, n, tensors, emit_exprs(b->e, u->nscalars, u->scalars));
  program_at_instrs(b->e->b, at)->dim = b->writes;
  program_at_instrs(b->e->b, at)->mask = looked_up(u->row);
  put_grid(b, at, u);
}

/* Returns the tensor of the panels that a product reads; no view can describe them. */
static uint32_t panels_of(EmitBody *b, Val v) {
  const Val weight = b->root[v];
  const Func *l2 = b->spec->l2;
  const Layout *layout = l2->values.items[weight].layout;
  const PanelWeight *p =
      panels_find(&b->e->legal->panels, op_str(op_of(l2, weight), AT_name), op_of(l2, weight)->stage, layout);
  if (!panels_beside(p)) return emit_body_tensor(b, weight);
  return emit_panels_tensor(b->e, p, type_of(l2, weight));
}

/* Lists the operands, the result, then the epilogue's operands.  The result may take the residual's memory if no
 * operand uses it. */
static uint32_t library_tensors(EmitBody *b, const Unit *u, Epilogue e, ProgramClass class_, uint32_t tensors[5]) {
  Val y = u->out[0], last = u->in[u->nin - 1];
  uint32_t n = 0;
  bool panels = u->gemm && u->gemm->b_panel;
  tensors[n++] = emit_body_tensor(b, u->in[0]);
  tensors[n++] = panels ? panels_of(b, u->in[1]) : emit_body_tensor(b, u->in[1]);
  bool share = e.residual && is_read_once(b, u, u->nin - 1) && !has_target(b, y) && !emit_in_carry(b, y) &&
               emit_may_share(b, last, y);
  if (share) emit_share_tensor(b, y, emit_body_tensor(b, last));
  else emit_fresh_tensor(b, y, class_);
  tensors[n++] = b->tensor[y];
  for (int i = 2; i < u->nin; i++) tensors[n++] = emit_body_tensor(b, u->in[i]);
  return n;
}

static void put_epilogue(ProgramInstr *x, Epilogue e) {
  x->dim = e.activation;
  x->mask = (e.bias ? 1u : 0) | (e.residual ? 2u : 0);
}

static void emit_gemm(EmitBody *b, const Unit *u, const char *where) {
  const GemmUnit *g = u->gemm;
  Module *m = b->e->m;
  const Expr *list[PROGRAM_GEMM_NUMBERS + 4 * GEMM_MAX_BATCH] = {g->m,
                                                                 g->n,
                                                                 g->k,
                                                                 g->a_m,
                                                                 g->a_k,
                                                                 g->b_k,
                                                                 g->b_n,
                                                                 g->c_m,
                                                                 g->c_n,
                                                                 ex_const(m, 0),
                                                                 g->b_panel ? g->b_panel : ex_const(m, 0)};
  int n = PROGRAM_GEMM_NUMBERS;
  for (int i = 0; i < g->nbatch; i++) {
    list[n++] = g->batch[i];
    list[n++] = g->a_batch[i];
    list[n++] = g->b_batch[i];
    list[n++] = g->c_batch[i];
  }
  ProgramClass class_ = result_class(b, u->out[0]);
  emit_workspace(b->e, b->stage, program_const(b->e->b, (int64_t)b->e->legal->source.workspace));
  uint32_t tensors[5], ntensors = library_tensors(b, u, g->epilogue, class_, tensors);
  uint32_t index = emit_instr(b, PI_gemm, where, PROGRAM_NONE, ntensors, tensors, emit_exprs(b->e, n, list));
  ProgramInstr *x = program_at_instrs(b->e->b, index);
  put_epilogue(x, g->epilogue);
  x->dim2 = g->sums;
  if (g->narrow) x->mask |= PROGRAM_NARROW;
  if (b->e->legal->source.tf32 && g->sums == DT_f32 && emit_body_type(b, u->in[0])->dtype == DT_f32)
    x->mask |= PROGRAM_TF32;
}

/* Scratch of convolutions: a copy of weights that change, with padding to blocks; for their gradient a copy and sums of
 * that size; a fixed amount for the library's kernels; gradients of weights are summed in parts, so many times that. */
enum { CONV_COPIES = 2, CONV_SUMS = 4, CONV_ROOM = 4 << 20, CONV_PARTS = 4 };

static void room_for_blocks(EmitBody *b, Val weights) {
  Module *m = b->e->m;
  const Type *t = emit_body_type(b, weights);
  const Expr *bytes = ex_muli(m, type_elements(m, t), (int64_t)dtype_bytes(t->dtype));
  ProgramBuffer *buffer =
      program_at_buffers(b->e->b, program_at_tensors(b->e->b, emit_body_tensor(b, weights))->buffer);
  buffer->bytes = emit_expr(b->e, ex_add(m, bytes, ex_div(m, bytes, ex_const(m, LEGAL_CONV_ROOM))));
}

/* Reserves scratch for a call: weights that change, or their gradient, in blocks; sums of threads.  If their extents
 * depend on a request's sizes there is no scratch, and the kernel runs. */
static void room_to_convolve(EmitBody *b, const Unit *u) {
  Module *m = b->e->m;
  bool gradient = u->conv->result == CONV_OF_WEIGHTS;
  const Type *t = emit_body_type(b, gradient ? u->out[0] : u->in[1]);
  const Expr *bytes = ex_muli(m, type_elements(m, t), (int64_t)dtype_bytes(t->dtype));
  for (size_t i = 0; i < m->symbols.n; i++)
    if (ex_uses(bytes, (int)i)) return;
  bytes = ex_add(m, ex_muli(m, bytes, gradient ? CONV_SUMS : CONV_COPIES), ex_const(m, CONV_ROOM));
  emit_workspace(b->e, b->stage, emit_expr(b->e, bytes));
}

static void emit_conv(EmitBody *b, const Unit *u, const char *where) {
  const ConvUnit *c = u->conv;
  if (b->units->work->device->blocks && c->of_weights) room_for_blocks(b, u->in[1]);
  if (b->units->work->device->blocks && !c->of_weights) room_to_convolve(b, u);
  uint64_t room = b->e->legal->source.conv_workspace;
  if (c->result == CONV_OF_WEIGHTS) room *= CONV_PARTS;
  emit_workspace(b->e, b->stage, program_const(b->e->b, (int64_t)room));
  uint32_t tensors[5], n = library_tensors(b, u, c->epilogue, PC_activation, tensors);
  const Expr **list = ARENA_ARRAY(b->e->m->arena, const Expr *, PROGRAM_CONV_NUMBERS + u->nscalars);
  memcpy(list, c->numbers, sizeof c->numbers);
  for (int i = 0; i < u->nscalars; i++) list[PROGRAM_CONV_NUMBERS + i] = u->scalars[i];
  uint32_t index = emit_instr(b, PI_conv, where, (uint32_t)u->kernel, n, tensors,
                              emit_exprs(b->e, PROGRAM_CONV_NUMBERS + u->nscalars, list));
  ProgramInstr *x = program_at_instrs(b->e->b, index);
  put_epilogue(x, c->epilogue);
  x->dim2 = c->result;
  if (b->e->legal->source.tf32 && emit_body_type(b, u->in[0])->dtype == DT_f32) x->mask |= PROGRAM_TF32;
  put_grid(b, index, u);
}

static void emit_view(EmitBody *b, const Unit *u) {
  uint32_t source = emit_body_tensor(b, u->in[0]);
  ProgramTensor t = *program_at_tensors(b->e->b, source);
  uint32_t offset = program_expr(b->e->b, PX_add, t.offset, emit_expr(b->e, u->view_offset));
  b->tensor[u->out[0]] = emit_tensor(b->e, t.buffer, offset, emit_body_type(b, u->out[0]));
}

/* The checks of sizes that follow from this one come after it. */
static void emit_bind(EmitBody *b, const Unit *u, const char *where) {
  int symbol = (int)op_expr(&b->spec->l2->ops.items[u->op], AT_expr)->value;
  emit_view(b, u);
  emit_instr(b, PI_bind, where, b->e->symbols[symbol], 1, &b->tensor[u->out[0]], no_exprs(b));
  emit_size_checks_of_bind(b, symbol);
}

static uint32_t group_of(EmitBody *b, const ProgramGroup *g) {
  Emitting *e = b->e;
  for (uint32_t i = 0; i < program_count_groups(e->b); i++) {
    const ProgramGroup *have = program_at_groups(e->b, i);
    if (have->from != g->from || have->to != g->to || have->axes.n != g->axes.n) continue;
    bool equal = true;
    for (uint32_t k = 0; k < g->axes.n; k++)
      equal &= *program_at_indices(e->b, have->axes.first + k) == *program_at_indices(e->b, g->axes.first + k);
    if (equal) return i;
  }
  return program_add_groups(e->b, g);
}

static uint32_t axes_group(EmitBody *b, const Op *op) {
  const Attr *one = op_attr(op, AT_mesh_axis), *list = op_attr(op, AT_mesh_axes);
  uint32_t axes[MAX_AXES], n = 0;
  if (one) axes[n++] = (uint32_t)one->u.i;
  for (int i = 0; list && i < list->n; i++) axes[n++] = (uint32_t)list->u.ints[i];
  return group_of(b, &(ProgramGroup){program_list_of(b->e->b, n, axes), PROGRAM_NONE, PROGRAM_NONE});
}

/* base/reduction.def numbers both. */
_Static_assert(RED_COUNT - RED_SUM == (int)COMM_REDUCTION_COUNT, "reductions of the IR and of collectives");
static uint32_t comm_reduction(Reduction r) {
  if (r == RED_NONE) die("a collective without a reduction");
  return (uint32_t)r - RED_SUM;
}

static void emit_transfer(EmitBody *b, const Unit *u, const Op *op, uint32_t key) {
  ProgramGroup g = {program_list_of(b->e->b, 0, NULL), emit_place(b->e, op->stage),
                    emit_place(b->e, (int)op_int(op, AT_to_stage, 0))};
  uint32_t group = group_of(b, &g), at;
  if (u->nin) {
    uint32_t t = emit_body_tensor(b, u->in[0]);
    emit_wait_for_sent(b, op->name, t);
    at = emit_instr(b, PI_send, op->name, group, 1, &t, no_exprs(b));
  } else {
    emit_fresh_tensor(b, u->out[0], PC_activation);
    at = emit_instr(b, PI_recv, op->name, group, 1, &b->tensor[u->out[0]], no_exprs(b));
  }
  program_at_instrs(b->e->b, at)->key = key;
  if (b->is_transfer || b->e->legal->source.device->asynchronous) emit_event(b, at);
}

/* Returns the instruction with the operation's name. */
static ProgramInstrKind comm_instr(const Op *op) {
  for (uint32_t k = 0; k < PI_COUNT; k++)
    if (program_instr_is_comm(k) && strcmp(program_instr_name(k), op_name(op->kind)) == 0) return (ProgramInstrKind)k;
  die("no instruction for %s", op_name(op->kind));
}

/* A sum of gradients takes the memory of its part: both would be in memory until the sum is awaited. */
static bool sums_in_place(const EmitBody *b, const Unit *u, bool early) {
  Val v = u->out[0];
  bool sum = early && u->legal->kind == OP_all_reduce && !b->e->legal->source.device->contiguous_collectives;
  return sum && !has_target(b, v) && !emit_in_carry(b, v) && emit_may_share(b, u->in[0], v);
}

static void emit_comm(EmitBody *b, const Unit *u) {
  const Op *op = u->legal;
  uint32_t key = b->e->entry_base + (uint32_t)u->op;
  if (op->kind == OP_transfer) {
    emit_transfer(b, u, op, key);
    return;
  }
  const Attr *s = op_attr(op, AT_source), *t = op_attr(op, AT_target);
  uint32_t dim = (uint32_t)op_int(op, op_attr(op, AT_split) ? AT_split : AT_axis, 0), reduction = 0;
  ProgramList exprs = no_exprs(b);
  if (s) exprs = emit_exprs(b->e, 4, (const Expr *[]){s->u.exprs[0], s->u.exprs[1], t->u.exprs[0], t->u.exprs[1]});
  if (op_attr(op, AT_op)) reduction = comm_reduction(op_attr(op, AT_op)->u.reduction);
  const bool early = legal_begins_early(b->e->legal->source.device, b->spec->l2, &b->spec->l2->ops.items[u->op]);
  if (early && op->kind == OP_reduce_scatter && !b->e->legal->source.device->asynchronous) emit_limit_scattered(b);
  if (sums_in_place(b, u, early)) emit_share_tensor(b, u->out[0], emit_body_tensor(b, u->in[0]));
  else emit_fresh_tensor(b, u->out[0], result_class(b, u->out[0]));
  uint32_t tensors[2] = {emit_body_tensor(b, u->in[0]), b->tensor[u->out[0]]};
  uint32_t at = emit_instr(b, comm_instr(op), op->name, axes_group(b, op), 2, tensors, exprs);
  ProgramInstr *i = program_at_instrs(b->e->b, at);
  i->dim = dim, i->dim2 = (uint32_t)op_int(op, AT_concat, 0), i->reduction = reduction, i->key = key;
  i->value = op_float(op, AT_value, 0);
  if (early) emit_event(b, at);
}

void emit_predicted(EmitBody *b, uint32_t instr, double seconds) {
  ProgramBuilder *pb = b->e->b;
  const float none = 0, new = (float)seconds;
  while (program_count_predicted(pb) < instr) program_add_predicted(pb, &none);
  program_add_predicted(pb, &new);
}

/* Gives the last instruction since number `start` the predicted time of its unit: those before it wait. */
static void emit_time(EmitBody *b, uint32_t start, const Unit *u) {
  const uint32_t end = program_count_instrs(b->e->b);
  if (u->seconds > 0 && end > start) emit_predicted(b, end - 1, u->seconds);
}

bool emit_state_write(EmitBody *b, const Unit *u) {
  if (emit_stow_last(b, u)) return true;
  const uint32_t start = program_count_instrs(b->e->b);
  const Op *op = &b->spec->l2->ops.items[u->op];
  const char *name = op_str(op, AT_name);
  const Func *l2 = b->spec->l2;
  const StateOps *states = &b->e->facts.states;
  for (size_t i = states->first[u->op]; i != SIZE_MAX; i = states->next[i]) {
    const Op *read = &l2->ops.items[i];
    if (read->kind != OP_read || read->stage != op->stage) continue;
    uint32_t state;
    if (!emit_state(b->e, read, l2->values.items[read->out].layout, type_of(l2, read->out), &state)) return false;
    uint32_t from = emit_body_tensor(b, u->in[0]);
    if (program_at_tensors(b->e->b, from)->buffer != program_at_tensors(b->e->b, state)->buffer)
      emit_copy(b, from, state, type_of(l2, read->out), op->name);
    emit_time(b, start, u);
    return true;
  }
  die("state %s is written but no read declares its layout", name);
}

void emit_fetch(EmitBody *b, uint32_t port, const Output *o) {
  const Func *l1 = b->spec->l1;
  const Type *global = type_of(l1, l1->outputs.items[port].value);
  uint32_t replicated = 0;
  for (int a = 0; a < b->e->m->mesh.naxes; a++) replicated |= 1u << a;
  for (int d = 0; d < o->layout->rank; d++)
    for (int i = 0; i < o->layout->dims[d].n; i++) replicated &= ~(1u << o->layout->dims[d].axes[i]);
  emit_bring(b, o->value, o->name);
  uint32_t t = emit_body_tensor(b, o->value);
  uint32_t at = emit_instr(b, PI_fetch, o->name, port, 1, &t, emit_intervals(b->e, global, o->layout, false));
  program_at_instrs(b->e->b, at)->mask = replicated;
  emit_send_back(b, o->value);
}

static bool emit_work(EmitBody *b) {
  const Unit *u = &b->units->items[b->at];
  const char *where = b->spec->l2->ops.items[u->tells].name;
  const uint32_t start = program_count_instrs(b->e->b);
  switch (u->kind) {
    case UNIT_SOURCE: return emit_source(b, u);
    case UNIT_KERNEL:
      note_kernel(b->e, u);
      if (u->conv) emit_conv(b, u, where);
      else emit_kernel(b, u, where);
      break;
    case UNIT_GEMM: emit_gemm(b, u, where); break;
    case UNIT_VIEW: emit_view(b, u); return true;
    case UNIT_COMM: emit_comm(b, u); break;
    case UNIT_WRITE: return true;
    case UNIT_LOOP:
      emit_loop(b, u, where);
      emit_size_checks_of_loop(b, where);
      return true;
    case UNIT_REPEAT: emit_repeat(b, u, where); return true;
    case UNIT_BIND: emit_bind(b, u, where); return true;
  }
  emit_time(b, start, u);
  return true;
}

bool emit_unit(EmitBody *b) {
  const Unit *u = &b->units->items[b->at];
  emit_bring_operands(b, u, b->spec->l2->ops.items[u->tells].name);
  if (!emit_work(b)) return false;
  emit_stow_results(b, u);
  return true;
}

int emit_output_stage(const Func *l2, const Output *o) {
  const Op *op = op_of(l2, o->value);
  return op->kind == OP_transfer ? (int)op_int(op, AT_to_stage, 0) : op->stage;
}

/* Finds the tensor of the weight that is this output of @prepare. */
static bool prepared_tensor(EmitBody *b, const Output *o, uint32_t *tensor) {
  return emit_param(b->e, o->name, b->stage, o->layout, type_of(b->spec->l2, o->value), tensor);
}

static const EmitKnown *known_output(const EmitBody *b, const Output *o) {
  return emit_known_param(b->e, o->name, b->stage, o->layout);
}

bool emit_find_targets(EmitBody *b, size_t n) {
  const Func *l2 = b->spec->l2;
  b->target = ARENA_ARRAY(b->scratch, uint32_t, n);
  for (size_t v = 0; v < n; v++) b->target[v] = PROGRAM_NONE;
  for (size_t i = 0; i < l2->outputs.n; i++) {
    const Output *o = &l2->outputs.items[i];
    uint32_t tensor;
    if (op_of(l2, o->value)->stage != b->stage) continue;
    if (!prepared_tensor(b, o, &tensor)) return false;
    if (known_output(b, o)->panels) continue;
    if (b->target[o->value] == PROGRAM_NONE) b->target[o->value] = tensor;
  }
  return true;
}

void emit_targets(EmitBody *b) {
  const Func *l2 = b->spec->l2;
  for (size_t i = 0; i < l2->outputs.n; i++) {
    const Output *o = &l2->outputs.items[i];
    uint32_t tensors[2];
    if (op_of(l2, o->value)->stage != b->stage) continue;
    tensors[0] = emit_body_tensor(b, o->value);
    const EmitKnown *known = known_output(b, o), *beside = emit_known_beside(b->e, o->name, b->stage, o->layout);
    if (beside) emit_pack(b, beside, tensors[0]);
    if (known->panels) {
      emit_pack(b, known, tensors[0]);
      continue;
    }
    if (prepared_tensor(b, o, &tensors[1]) &&
        program_at_tensors(b->e->b, tensors[0])->buffer != program_at_tensors(b->e->b, tensors[1])->buffer)
      emit_copy(b, tensors[0], tensors[1], type_of(l2, o->value), o->name);
  }
}

/* ---- entries */

/* Returns the bytes of the only value that the input may have, in words; empty if it may have any. */
static ProgramList fixed_words(Emitting *e, const Op *op, const Type *t) {
  int64_t dims[MAX_RANK];
  size_t bytes;
  bool listed = op_attr(op, AT_ints) || op_attr(op, AT_floats);
  if (!listed || !type_constant_dims(t, dims) || !tensor_size(t->dtype, t->rank, dims, &bytes)) return (ProgramList){0};
  uint32_t n = (uint32_t)((bytes + sizeof n - 1) / sizeof n), *words = ARENA_ARRAY(e->m->arena, uint32_t, n + 1);
  op_store_listed(op, t->dtype, words);
  return program_list_of(e->b, n, words);
}

static void add_ports(Emitting *e, const ProgramEntrySpec *spec, ProgramEntry *r) {
  r->inputs = program_count_ports(e->b);
  for (size_t i = 0; i < spec->l1->ops.n; i++) {
    const Op *op = &spec->l1->ops.items[i];
    if (op->kind != OP_input) continue;
    const Type *t = type_of(spec->l1, op->out);
    const Expr *bound = dtype_is_float(t->dtype) ? NULL : index_bound(e->m, spec->l1, op->out);
    IndexRange range = index_range(e->m, spec->l1, op->out);
    program_add_ports(e->b, &(ProgramPort){.name = emit_text(e, op_str(op, AT_name)),
                                           .dtype = t->dtype,
                                           .dims = emit_exprs(e, t->rank, t->dims),
                                           .random_below = bound ? emit_expr(e, bound) : PROGRAM_NONE,
                                           .index_below = range.below ? emit_expr(e, range.below) : PROGRAM_NONE,
                                           .index_negative = range.below && range.negative,
                                           .index_ignored = range.ignored ? emit_expr(e, range.ignored) : PROGRAM_NONE,
                                           .fixed = fixed_words(e, op, t)});
    r->n_inputs++;
  }
  r->outputs = program_count_ports(e->b);
  for (size_t i = 0; i < spec->l1->outputs.n; i++) {
    const Type *t = type_of(spec->l1, spec->l1->outputs.items[i].value);
    program_add_ports(e->b, &(ProgramPort){emit_text(e, spec->l1->outputs.items[i].name),
                                           t->dtype,
                                           emit_exprs(e, t->rank, t->dims),
                                           PROGRAM_NONE,
                                           PROGRAM_NONE,
                                           0,
                                           PROGRAM_NONE,
                                           {0}});
    r->n_outputs++;
  }
}

/* Returns the model FLOPs of a training step as pairs of a count and an expression. */
static ProgramList flops_of_step(Emitting *e, const Func *l1) {
  const ModelFlops x = flops_of(e->m->arena, e->m, l1);
  uint32_t *pairs = ARENA_ARRAY(e->m->arena, uint32_t, 2 * x.n + 1);
  for (int i = 0; i < x.n; i++)
    pairs[2 * i] = (uint32_t)x.items[i].times, pairs[2 * i + 1] = emit_expr(e, x.items[i].each);
  return program_list_of(e->b, 2 * (uint32_t)x.n, pairs);
}

static bool add_entry(Emitting *e, const LegalBody *list, const ProgramTimes *times) {
  const ProgramEntrySpec *spec = list->entry;
  bool prepare = list->prepare;
  ProgramEntry r = {.name = emit_text(e, spec->name),
                    .prepare = prepare,
                    .seconds = times ? times->request : 0,
                    .inputs = program_count_ports(e->b),
                    .outputs = program_count_ports(e->b)};
  if (!prepare) add_ports(e, spec, &r);
  emit_find_facts(e, spec);
  if (e->facts.trains) r.flops = flops_of_step(e, spec->l1);
  uint32_t entry = program_add_entries(e->b, &r), n = prepare ? 1 : (uint32_t)mesh_micro_batches(&e->m->mesh);
  for (int place = 0; place < mesh_places(&e->m->mesh); place++)
    if (!emit_bodies(e, list, place, entry, n)) return false;
  e->entry_base += (uint32_t)spec->l2->ops.n;
  return true;
}

/* True if a Program can hold the module's symbols.  The diagnostic has no location: it concerns the model as a
 * whole. */
static bool fits_program(const Module *m, Diags *diags) {
  int dimensions = 0;
  for (size_t i = 0; i < m->symbols.n; i++) dimensions += m->symbols.items[i].axis < 0;
  if (dimensions <= PROGRAM_MAX_SYMBOLS) return true;
  diag_error(diags, DIAG_dimension, (Loc){0}, "a program has at most %d symbolic dimensions, this one has %d",
             PROGRAM_MAX_SYMBOLS, dimensions);
  diag_help(diags, "--dim NAME=SIZE fixes one");
  return false;
}

/* Adds a @prepare that only packs weights into panels. */
static bool add_panels(Emitting *e) {
  static const ProgramEntrySpec spec = {"prepare", NULL, NULL};
  ProgramEntry r = {.name = emit_text(e, spec.name),
                    .prepare = 1,
                    .inputs = program_count_ports(e->b),
                    .outputs = program_count_ports(e->b)};
  uint32_t entry = program_add_entries(e->b, &r);
  for (int place = 0; place < mesh_places(&e->m->mesh); place++) {
    EmitBody b = emit_body_new(e, &(LegalBody){.entry = &spec, .stage = place, .prepare = true}, entry, NULL);
    program_add_schedules(e->b, &(ProgramSchedule){program_count_calls(e->b), 1});
    program_add_calls(e->b, &(ProgramCall){b.body, 0});
    for (b.stage = 0; b.stage < e->m->mesh.stages; b.stage++)
      if (emit_place(e, b.stage) == (uint32_t)place && !emit_panels(&b)) return false;
    b.stage = place;
    emit_body_end(&b, PH_pre, spec.name);
  }
  return true;
}

/* Adds all entries.  Bodies of @prepare come after the entries, whose weights are then known. */
static bool add_entries(Emitting *e, const Legal *legal) {
  bool prepares = false;
  for (int i = 0; i < legal->n; i += e->m->mesh.stages) {
    const ProgramTimes *all = legal->source.times, *times = NULL;
    if (all && !legal->bodies[i].prepare) times = &all[i / e->m->mesh.stages];
    for (int k = i; times && k < i + e->m->mesh.stages; k++) emit_unit_times(e->m, &legal->bodies[k], times);
    if (!add_entry(e, &legal->bodies[i], times)) return false;
    prepares |= legal->bodies[i].prepare;
  }
  if (!prepares && emit_has_panels(e) && !add_panels(e)) return false;
  const float none = 0;
  while (program_count_predicted(e->b) && program_count_predicted(e->b) < program_count_instrs(e->b))
    program_add_predicted(e->b, &none);
  for (size_t i = 0; i < e->out->kernels.n; i++) {
    const ProgramKernelText *k = &e->out->kernels.items[i];
    program_add_kernels(e->b, &(ProgramKernel){.name = emit_text(e, k->symbol),
                                               .threads = (uint32_t)k->threads,
                                               .shared = (uint32_t)k->shared,
                                               .looks = k->looks});
  }
  return !e->m->expr_fault ||
         diag_error(e->diags, DIAG_dimension, (Loc){0}, "the program's buffers: %s", e->m->expr_fault);
}

bool codegen_program_of(const Legal *legal, ProgramResult *out, Diags *diags) {
  Module *m = legal->source.m;
  *out = (ProgramResult){0};
  if (!fits_program(m, diags)) return false;
  out->b = program_builder_new();
  Emitting e = {.m = m, .diags = diags, .legal = legal, .out = out, .b = out->b};
  e.blobs = ARENA_ARRAY(m->arena, uint32_t, m->blobs.n);
  for (size_t i = 0; i < m->blobs.n; i++) e.blobs[i] = PROGRAM_NONE;
  e.known_params = ARENA_ARRAY(m->arena, uint32_t, m->params.n);
  e.known_states = ARENA_ARRAY(m->arena, uint32_t, m->states.n);
  emit_symbols(&e);
  if (add_entries(&e, legal) && emit_operators(&e)) return true;
  program_builder_free(out->b);
  out->b = NULL;
  return false;
}
