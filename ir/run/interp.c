/* ir/run/interp.c - the reference interpreter: binding and running a function on all ranks; see interp.h.
 *
 * Values are allocated when their operation runs and freed after their last use.  Operations run one after the other,
 * each on all ranks of its stage, so that a collective finds the operands of all its members.
 */
#include "ir/run/interp.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "ir/record.h"
#include "ir/layout/body.h"
#include "ir/run/interp_internal.h"

enum { MAX_CALL_DEPTH = 64 };

/* ---- diagnostics */

const char *run_rank_text(const Run *run, int rank) {
  Text t = {.arena = run->diags->arena};
  const char *separator = "";
  if (run->nranks == 1) return "";
  text_add(&t, " on rank (");
  if (run->m->mesh.stages > 1) {
    text_printf(&t, "stage=%d", run->stages[rank]);
    separator = ", ";
  }
  for (int a = 0; a < run->naxes; a++) {
    text_printf(&t, "%s%s=%d", separator, run->m->mesh.axes[a].name, run->coordinates[rank][a]);
    separator = ", ";
  }
  text_add(&t, ")");
  return text_str(&t);
}

bool eval_fail(const Eval *e, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = arena_vprintf(e->run->diags->arena, format, args);
  va_end(args);
  Loc loc = e->op->loc;
  if (!loc.file && !loc.node) loc.node = e->op->name;
  return diag_error(e->run->diags, DIAG_interp, loc, "@%s: %s %%%s%s: %s", e->frame->f->name, op_name(e->op->kind),
                    e->op->name, run_rank_text(e->run, e->rank), text);
}

bool run_fail(const Run *run, const char *name, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = arena_vprintf(run->diags->arena, format, args);
  va_end(args);
  return diag_error(run->diags, DIAG_interp, (Loc){.node = name}, "%s", text);
}

/* ---- services for evaluators */

/* Bounded, so that sums and differences of a few values cannot overflow. */
bool eval_expr_on(const Eval *e, int rank, const Expr *x, int64_t *out) {
  const int64_t limit = (int64_t)1 << 60;
  return (ex_eval(x, e->run->symbols[rank], out) && *out >= -limit && *out <= limit) ||
         eval_fail(e, "an expression has no value here (overflow or division by zero)");
}

bool eval_same_shape(const Eval *e, int i) {
  const InterpTensor *x = e->in[i];
  for (int d = 0; d < e->out->rank; d++)
    if (x->rank != e->out->rank || x->dims[d] != e->out->dims[d])
      return eval_fail(e, "operand %d has extent %lld, the result %lld, in dimension %d", i,
                       d < x->rank ? (long long)x->dims[d] : 0, (long long)e->out->dims[d], d);
  return true;
}

bool eval_same_kind(const Eval *e) {
  return (e->in[0]->rank == e->out->rank && e->in[0]->dtype == e->out->dtype) ||
         eval_fail(e, "operand and result differ in rank or type");
}

bool eval_aligned(const Eval *e, const InterpTensor *a, const InterpTensor *b, int64_t except) {
  for (int d = 0; d < a->rank; d++)
    if (d != except && a->dims[d] != b->dims[d]) return eval_fail(e, "extents of dimension %d do not fit", d);
  return true;
}

const InterpTensor *eval_operand_on(const Eval *e, int rank) {
  const InterpTensor *t = &e->frame->values[(size_t)e->op->in[0] * (size_t)e->run->nranks + (size_t)rank];
  return t->cells ? t : NULL;
}

bool eval_result_dims_on(const Eval *e, int rank, int64_t *dims) {
  return interp_dims(type_of(e->frame->f, e->op->out), e->run->symbols[rank], dims) ||
         eval_fail(e, "the result has no extents");
}

int eval_group(const Eval *e, int naxes, const int64_t *axes, int *members, int *self) {
  const Run *run = e->run;
  int first = e->rank, n = 1;
  for (int i = 0; i < naxes; i++) {
    first -= run->coordinates[e->rank][axes[i]] * run->strides[axes[i]];
    n *= run->m->mesh.axes[axes[i]].size;
  }
  for (int k = 0; k < n; k++) {
    int rank = first, rest = k;
    for (int i = naxes - 1; i >= 0; i--) {
      int size = run->m->mesh.axes[axes[i]].size;
      rank += rest % size * run->strides[axes[i]];
      rest /= size;
    }
    members[k] = rank;
    if (rank == e->rank) *self = k;
  }
  return n;
}

/* ---- memory */

bool eval_alloc(Run *run, InterpTensor *t, const Op *op) {
  int64_t n = 1, strides = 1;
  bool overflow = false; /* the strides of an empty tensor must fit as well */
  for (int d = 0; d < t->rank; d++) {
    overflow |= __builtin_mul_overflow(n, t->dims[d], &n);
    overflow |= __builtin_mul_overflow(strides, t->dims[d] > 1 ? t->dims[d] : 1, &strides);
  }
  if (overflow || n > run->max_cells - run->cells)
    return run_fail(run, op->name, "%%%s: more than %lld elements at once are too many to interpret", op->name,
                    (long long)run->max_cells);
  run->cells += n;
  t->cells = malloc(sizeof(Cell) * (size_t)(n + 1)); /* never NULL for an empty tensor */
  if (!t->cells) die_out_of_memory("for a tensor of the interpreter");
  return true;
}

void eval_release(Run *run, InterpTensor *t) {
  if (!t->cells) return;
  run->cells -= interp_elements(t);
  free(t->cells);
  t->cells = NULL;
}

InterpTensor run_copy(Arena *arena, const InterpTensor *t) {
  InterpTensor copy = interp_tensor(arena, t->dtype, t->rank, t->dims);
  memcpy(copy.cells, t->cells, sizeof(Cell) * (size_t)interp_elements(t));
  return copy;
}

/* ---- sources: whole tensors, cut by the declared layout */

/* This rank's part of an element of a partial input (D6): all of it on one rank, or split at random. */
static Cell partial_share(const Run *run, const Layout *l, int rank, DType t, Cell v, uint64_t element) {
  uint64_t seed = run->options->partial_seed;
  int n = 1, self = 0;
  for (int a = 0; a < run->naxes; a++)
    if (l->partial_axes & (1u << a)) {
      self = self * run->m->mesh.axes[a].size + run->coordinates[rank][a];
      n *= run->m->mesh.axes[a].size;
    }
  if (l->partial != RED_SUM || !seed) {
    int owner = seed ? (int)(modp_hash(seed, element, 1) % (uint64_t)n) : 0;
    return self == owner ? v : cell_identity(run->modp, t, l->partial);
  }
  Cell rest = v;
  for (int k = 0; k < n - 1; k++) {
    uint64_t h = modp_hash(seed, element, (uint64_t)k + 2);
    Cell share;
    if (!dtype_is_float(t)) {
      share = cell_i(wrap_int(t, (int64_t)h));
      rest.i = wrap_int(t, (int64_t)((uint64_t)rest.i - (uint64_t)share.i));
    } else if (run->modp) {
      share = cell_i((int64_t)h);
      rest.i = (int64_t)modp_add((uint64_t)rest.i, modp_neg(h));
    } else {
      share = cell_f((double)(h % 2048) / 1024 - 1);
      rest.f -= share.f;
    }
    if (k == self) return share;
  }
  return rest;
}

bool run_interval(const Run *run, int rank, const DimLayout *d, int64_t extent, int64_t *lo, int64_t *hi) {
  const Expr *l, *h;
  layout_interval(run->m, d, ex_const(run->m, extent), &l, &h);
  return ex_eval(l, run->symbols[rank], lo) && ex_eval(h, run->symbols[rank], hi);
}

static bool cut(Eval *e, const InterpTensor *whole, const Layout *l) {
  int64_t at[MAX_RANK] = {0}, to[MAX_RANK] = {0}, hi, strides[MAX_RANK], index[MAX_RANK] = {0};
  if (whole->rank != e->out->rank || whole->dtype != e->out->dtype)
    return eval_fail(e, "the bound tensor has another type");
  for (int d = 0; d < whole->rank; d++) {
    hi = whole->dims[d];
    if (l && !run_interval(e->run, e->rank, &l->dims[d], whole->dims[d], &at[d], &hi))
      return eval_fail(e, "the layout has no interval");
    if (hi - at[d] != e->out->dims[d])
      return eval_fail(e, "dimension %d of extent %lld gives this rank %lld, its type says %lld", d,
                       (long long)whole->dims[d], (long long)(hi - at[d]), (long long)e->out->dims[d]);
  }
  eval_box_copy(whole->rank, e->out->dims, e->out->cells, e->out->dims, to, whole->cells, whole->dims, at);
  if (!l || !l->partial_axes) return true;
  int64_t n = interp_elements(e->out);
  eval_row_major(whole->rank, whole->dims, strides);
  for (int64_t i = 0; i < n; i++) {
    int64_t element = 0;
    for (int d = 0; d < whole->rank; d++) element += (at[d] + index[d]) * strides[d];
    e->out->cells[i] = partial_share(e->run, l, e->rank, e->out->dtype, e->out->cells[i], (uint64_t)element);
    for (int d = whole->rank - 1; d >= 0 && ++index[d] == e->out->dims[d]; d--) index[d] = 0;
  }
  return true;
}

static bool prepare(Run *run);

static const InterpTensor *whole_param(Run *run, const char *name) {
  const InterpTensor *found = interp_find(run->options->params, run->options->nparams, name);
  if (!found) found = interp_find(run->params.items, (int)run->params.n, name);
  if (found) return found;
  const Param *p = module_param(run->m, name);
  if (!p) return run_fail(run, name, "no parameter \"%s\"", name), NULL;
  if (p->init == INIT_PREPARED) {
    if (run->preparing || !prepare(run)) return run_fail(run, name, "parameter \"%s\" cannot be prepared", name), NULL;
    found = interp_find(run->params.items, (int)run->params.n, name);
    return found ? found : (run_fail(run, name, "@prepare has no output \"%s\"", name), NULL);
  }
  InterpNamed item = {.name = name};
  if (!interp_param(run->m, p, run->options, run->arena, &item.tensor, run->diags)) return NULL;
  ARENA_PUSH(run->arena, &run->params, item);
  return &run->params.items[run->params.n - 1].tensor;
}

static bool whole_state(Run *run, const char *name, InterpTensor *out) {
  const InterpTensor *found = interp_find(run->options->states, run->options->nstates, name);
  if (found) return *out = *found, true;
  const State *s = module_state(run->m, name);
  if (!s) return run_fail(run, name, "no state \"%s\"", name);
  if (s->param) {
    found = whole_param(run, s->param);
    return found && (*out = *found, true);
  }
  int64_t dims[MAX_RANK], n;
  if (!interp_dims(s->type, run->symbols[0], dims)) return run_fail(run, name, "state \"%s\" has no extents", name);
  n = 1;
  for (int d = 0; d < s->type->rank; d++)
    if (__builtin_mul_overflow(n, dims[d], &n) || n > run->max_cells)
      return run_fail(run, name, "state \"%s\" is too large to interpret", name);
  *out = interp_tensor(run->arena, s->type->dtype, s->type->rank, dims);
  for (int64_t i = 0; i < n; i++) out->cells[i] = cell_of_double(run->modp, out->dtype, s->value);
  return true;
}

static int ordinal(const Eval *e, OpKind kind) {
  int n = 0;
  for (const Op *op = e->frame->f->ops.items; op != e->op; op++) n += op->kind == kind;
  return n;
}

bool eval_source(Eval *e) {
  const char *name = op_str(e->op, AT_name);
  const Layout *l = e->frame->f->values.items[e->op->out].layout;
  if (e->op->kind == OP_input) {
    const InterpTensor *x = &e->frame->given[ordinal(e, OP_input) * e->run->nranks + e->rank];
    if (!x->cells) return eval_fail(e, "the input has no value here");
    return cut(e, x, e->frame->depth ? NULL : l);
  }
  if (e->op->kind == OP_param) {
    const InterpTensor *x = whole_param(e->run, name);
    return x && cut(e, x, l);
  }
  InterpTensor whole;
  return whole_state(e->run, name, &whole) && cut(e, &whole, l);
}

bool eval_write(Eval *e) {
  e->frame->written[ordinal(e, OP_write) * e->run->nranks + e->rank] = run_copy(e->run->arena, e->in[0]);
  return true;
}

/* ---- running */

InterpTensor *run_value(const Run *run, const Frame *frame, Val v, int rank) {
  return &frame->values[(size_t)v * (size_t)run->nranks + (size_t)rank];
}

int frame_stage(const Frame *frame, const Op *op) {
  if (frame->stage >= 0) return frame->stage;
  return op->kind == OP_transfer ? (int)op_int(op, AT_to_stage, 0) : op->stage;
}

/* Checks extents and allocates the results; the operands must be on this rank. */
static bool begin(Eval *e) {
  const Frame *frame = e->frame;
  int nin = e->op->kind == OP_transfer ? 0 : loop_made_no_round(e) ? 1 : e->op->nin;
  for (int i = 0; i < nin; i++) {
    e->in[i] = run_value(e->run, frame, e->op->in[i], e->rank);
    if (!e->in[i]->cells) return eval_fail(e, "operand %d is not on this rank", i);
  }
  for (int i = 0; i < e->op->nout; i++) {
    const Type *t = type_of(frame->f, e->op->out + (Val)i);
    InterpTensor *out = e->outs[i] = run_value(e->run, frame, e->op->out + (Val)i, e->rank);
    *out = (InterpTensor){.dtype = t->dtype, .rank = t->rank};
    if (!interp_dims(t, e->run->symbols[e->rank], out->dims))
      return eval_fail(e, "the result has no extents (negative or no value)");
    if (!eval_alloc(e->run, out, e->op)) return false;
  }
  e->out = e->outs[0];
  return true;
}

static bool run_frame(Run *run, Frame *frame, int only);

static void frame_open(Run *run, Frame *frame, Arena *scratch) {
  size_t n = (size_t)run->nranks, writes = 0;
  for (size_t i = 0; i < frame->f->ops.n; i++) writes += frame->f->ops.items[i].kind == OP_write;
  frame->loops = loops_of(scratch, frame->f);
  frame->rounds = ARENA_ARRAY(scratch, LoopRounds, (size_t)frame->loops.n * n);
  frame->last_use = loops_last_uses(scratch, frame->f, &frame->loops);
  frame->values = ARENA_ARRAY(scratch, InterpTensor, frame->f->values.n * n);
  frame->written = ARENA_ARRAY(scratch, InterpTensor, writes * n);
}

static void frame_close(Run *run, Frame *frame) {
  for (size_t i = 0; i < frame->f->values.n * (size_t)run->nranks; i++) eval_release(run, &frame->values[i]);
}

/* Moves an output of the inner frame to a result of an operation. */
static bool take_output(Run *run, const Frame *frame, const Op *op, Val v, const InterpTensor *from, int rank) {
  InterpTensor *to = run_value(run, frame, v, rank);
  Eval e = {.run = run, .frame = frame, .op = op, .rank = rank, .out = to};
  int64_t dims[MAX_RANK];
  if (!interp_dims(type_of(frame->f, v), run->symbols[rank], dims)) return eval_fail(&e, "the result has no extents");
  for (int d = 0; d < from->rank; d++)
    if (from->dims[d] != dims[d]) return eval_fail(&e, "the result has another shape than its type");
  eval_release(run, to);
  *to = *from;
  return true;
}

/* A copy, because several outputs may be one value. */
static bool copy_output(Run *run, const Frame *frame, const Op *op, Val v, const Frame *inner, size_t output,
                        int rank) {
  const InterpTensor *from = run_value(run, inner, inner->f->outputs.items[output].value, rank);
  InterpTensor copy = *from;
  if (!eval_alloc(run, &copy, op)) return false;
  memcpy(copy.cells, from->cells, sizeof *copy.cells * (size_t)interp_elements(from));
  return take_output(run, frame, op, v, &copy, rank);
}

/* Copies further results of a decomposition, and the results of a call that `result` operations read. */
static bool take_further_outputs(Run *run, const Frame *frame, const Op *op, const Frame *inner, int rank) {
  for (int i = 1; i < op->nout; i++)
    if (!copy_output(run, frame, op, op->out + (Val)i, inner, (size_t)i, rank)) return false;
  for (size_t i = 0; op->kind == OP_call && i < frame->f->ops.n; i++) {
    const Op *x = &frame->f->ops.items[i];
    if (x->kind != OP_result || x->in[0] != op->out) continue;
    if (!copy_output(run, frame, x, x->out, inner, (size_t)op_int(x, AT_index, 0), rank)) return false;
  }
  return true;
}

/* Runs `f` with the operation's operands as inputs, on the ranks of its stage (or only on one), and takes its outputs
 * as the results. */
static bool run_inner(Run *run, const Frame *frame, const Op *op, const Func *f, int stage, int only) {
  Arena *scratch = arena_new();
  size_t n = (size_t)run->nranks;
  InterpTensor *given = ARENA_ARRAY(scratch, InterpTensor, (size_t)op->nin * n);
  Frame inner = {.f = f, .given = given, .stage = stage, .depth = frame->depth + 1};
  for (int i = 0; i < op->nin; i++)
    for (size_t r = 0; r < n; r++) given[(size_t)i * n + r] = *run_value(run, frame, op->in[i], (int)r);
  frame_open(run, &inner, scratch);
  bool ok =
      inner.depth < MAX_CALL_DEPTH ? run_frame(run, &inner, only) : run_fail(run, op->name, "calls nested too deeply");
  for (int r = 0; r < run->nranks && ok; r++) {
    if (run->stages[r] != stage || (only >= 0 && r != only)) continue;
    InterpTensor *from = run_value(run, &inner, f->outputs.items[0].value, r);
    ok = take_further_outputs(run, frame, op, &inner, r) && take_output(run, frame, op, op->out, from, r);
    if (ok) from->cells = NULL; /* moved */
  }
  frame_close(run, &inner);
  arena_free(scratch);
  return ok;
}

bool eval_body(const Eval *e) {
  const Func *body = body_of(e->run->m, e->frame->f, e->op);
  return run_inner(e->run, e->frame, e->op, body, e->run->stages[e->rank], e->rank);
}

/* All ranks must compute the same size. */
static bool binds_agree(Run *run, const Frame *frame, const Op *op, int stage, int only) {
  int first = -1;
  for (int r = 0; r < run->nranks && op->kind == OP_bind; r++) {
    Eval e = {.run = run, .frame = frame, .op = op, .rank = r};
    if (run->stages[r] != stage || (only >= 0 && r != only)) continue;
    if (first < 0) first = r;
    int64_t here = run_value(run, frame, op->out, r)->cells[0].i,
            there = run_value(run, frame, op->out, first)->cells[0].i;
    if (here != there)
      return eval_fail(&e, "the size is %lld here, %lld on other ranks", (long long)here, (long long)there);
  }
  return true;
}

static bool run_op(Run *run, Frame *frame, const Op *op, int only) {
  int stage = frame_stage(frame, op);
  if (op->kind == OP_call) return run_inner(run, frame, op, module_func(run->m, op_str(op, AT_name)), stage, only);
  if (op->kind == OP_result) return true; /* done by the call */
  for (int r = 0; r < run->nranks; r++) {
    Eval e = {.run = run, .frame = frame, .op = op, .rank = r};
    if (run->stages[r] != stage || (only >= 0 && r != only)) continue;
    if (!begin(&e) || !op_record(op->kind)->eval(&e)) return false;
  }
  return loop_ranks_agree(run, frame, op, only) && binds_agree(run, frame, op, stage, only);
}

/* Frees the values whose last use is the i-th operation. */
static void release_dead(Run *run, const Frame *frame, size_t i) {
  const Op *op = &frame->f->ops.items[i];
  for (int k = -op->nout; k < op->nin; k++) {
    Val v = k < 0 ? op->out + (Val)(-k - 1) : op->in[k];
    for (int r = 0; r < run->nranks && frame->last_use[v] == i; r++) eval_release(run, run_value(run, frame, v, r));
  }
}

static bool run_frame(Run *run, Frame *frame, int only) {
  for (size_t i = 0, next; i < frame->f->ops.n; i = next) {
    if (!run_op(run, frame, &frame->f->ops.items[i], only) || !loop_step(run, frame, i, only, &next)) return false;
    if (next > i) release_dead(run, frame, i);
  }
  return true;
}

/* ---- setting up */

static bool setup_ranks(Run *run, const Func *f) {
  const Mesh *mesh = &run->m->mesh;
  bool one = f->level == 1;
  int64_t n = one ? 1 : mesh->stages;
  run->naxes = one ? 0 : mesh->naxes;
  for (int a = 0; a < run->naxes; a++) n *= mesh->axes[a].size;
  if (n > MAX_INTERP_RANKS) return run_fail(run, f->name, "%lld ranks are too many to interpret", (long long)n);
  run->nranks = (int)n;
  run->stages = ARENA_ARRAY(run->arena, int, n);
  run->coordinates = arena_alloc(run->arena, sizeof *run->coordinates * (size_t)n);
  run->symbols = ARENA_ARRAY(run->arena, int64_t *, n);
  for (int a = run->naxes - 1, stride = 1; a >= 0; a--) {
    run->strides[a] = stride;
    stride *= mesh->axes[a].size;
  }
  const int64_t *values = run->options->symbols ? run->options->symbols : interp_symbols(run->m, run->arena);
  for (int r = 0; r < run->nranks; r++) {
    run->stages[r] = one ? 0 : r / (run->nranks / mesh->stages);
    run->symbols[r] = ARENA_ARRAY(run->arena, int64_t, run->m->symbols.n);
    memcpy(run->symbols[r], values, sizeof(int64_t) * run->m->symbols.n);
    for (int a = 0; a < run->naxes; a++) {
      run->coordinates[r][a] = r / run->strides[a] % mesh->axes[a].size;
      run->symbols[r][mesh->axes[a].symbol] = run->coordinates[r][a];
    }
    module_bound_computed(run->m, run->symbols[r]);
  }
  return true;
}

static bool check_symbols(const Run *run) {
  for (size_t i = 0; i < run->m->symbols.n; i++) {
    const Symbol *s = &run->m->symbols.items[i];
    int64_t v = run->symbols[0][i];
    if (s->axis < 0 && (v < s->min || (s->max && v > s->max) || v % s->multiple != 0))
      return run_fail(run, s->name, "%lld is not a legal value of the dimension %s", (long long)v, s->name);
  }
  return true;
}

/* Binds every input to a tensor of its type.  A level-2 type is local; its shards are checked when they are cut. */
static bool bind_inputs(Run *run, Frame *frame, int ninputs, const InterpNamed *inputs, Arena *scratch) {
  const Func *f = frame->f;
  size_t n = 0;
  for (size_t i = 0; i < f->ops.n; i++) n += f->ops.items[i].kind == OP_input;
  InterpTensor *given = ARENA_ARRAY(scratch, InterpTensor, n * (size_t)run->nranks);
  n = 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (op->kind != OP_input) continue;
    const InterpTensor *x = interp_find(inputs, ninputs, op_str(op, AT_name));
    if (!x) return run_fail(run, op->name, "the input \"%s\" is not given", op_str(op, AT_name));
    for (int r = 0; r < run->nranks; r++) given[n * (size_t)run->nranks + (size_t)r] = *x;
    n++;
  }
  frame->given = given;
  return true;
}

static bool run_whole(Run *run, const Func *f, int ninputs, const InterpNamed *inputs, InterpResult *result) {
  Arena *scratch = arena_new();
  Frame frame = {.f = f, .stage = f->level == 1 ? 0 : -1};
  bool ok = bind_inputs(run, &frame, ninputs, inputs, scratch);
  if (ok) {
    frame_open(run, &frame, scratch);
    ok = run_frame(run, &frame, -1) && run_collect_outputs(run, &frame, result) &&
         run_collect_states(run, &frame, result);
    frame_close(run, &frame);
  }
  arena_free(scratch);
  return ok;
}

/* Runs @prepare, whose outputs are the weights computed from others (D27). */
static bool prepare(Run *run) {
  const Func *f = module_func(run->m, "prepare");
  InterpResult made = {0};
  InterpOptions options = *run->options;
  Run inner = {.m = run->m,
               .options = &options,
               .diags = run->diags,
               .arena = run->arena,
               .modp = run->modp,
               .max_cells = run->max_cells,
               .preparing = true};
  if (!f || f->level != 1) return run_fail(run, "prepare", "the module has no function @prepare of level 1");
  if (!setup_ranks(&inner, f) || !run_whole(&inner, f, 0, NULL, &made)) return false;
  for (int i = 0; i < made.noutputs; i++) ARENA_PUSH(run->arena, &run->params, made.outputs[i]);
  return true;
}

bool interp_run(Module *m, const Func *f, const InterpOptions *options, int ninputs, const InterpNamed *inputs,
                Arena *arena, InterpResult *result, Diags *diags) {
  Run run = {.m = m, .options = options, .diags = diags, .arena = arena, .modp = options->domain == DOMAIN_MODP};
  run.max_cells = options->max_cells ? options->max_cells : (int64_t)1 << 27;
  *result = (InterpResult){0};
  return setup_ranks(&run, f) && check_symbols(&run) && run_whole(&run, f, ninputs, inputs, result);
}
