/* ir/verify.c - the numbered rules of docs/ir.md.
 *
 * Each check names its rule (V1 ...) in the message; tests/verify has a program for each rule that must be rejected.
 * Properties that the parser and the builder guarantee (types, arity, attributes) are checked again here, because
 * passes build functions too.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "ir/calls.h"
#include "ir/holes.h"
#include "ir/loops.h"
#include "ir/module.h"
#include "ir/states.h"

typedef struct Verify {
  Module *m;
  const Func *f;
  const Calls *calls;
  Diags *diags;
  bool ok;
} Verify;

__attribute__((format(printf, 4, 5))) static void broken(Verify *v, const Op *op, const char *rule, const char *format,
                                                         ...) {
  va_list args;
  va_start(args, format);
  const char *text = arena_vprintf(v->diags->arena, format, args);
  va_end(args);
  Loc loc = op ? op->loc : (Loc){0};
  if (!loc.file && !loc.node && op) loc.node = op->name;
  if (op)
    diag_error(v->diags, DIAG_ir_verify, loc, "%s: @%s: %s %%%s: %s", rule, v->f->name, op_name(op->kind), op->name,
               text);
  else if (v->f) diag_error(v->diags, DIAG_ir_verify, loc, "%s: @%s: %s", rule, v->f->name, text);
  else diag_error(v->diags, DIAG_ir_verify, loc, "%s: %s", rule, text);
  v->ok = false;
}

/* V1: operands are values defined by earlier operations.  V2: the result types are those the record infers. */
static void check_types(Verify *v, size_t index, const Op *op) {
  for (int i = 0; i < op->nin; i++) {
    if (op->in[i] == 0 || op->in[i] >= v->f->values.n || v->f->values.items[op->in[i]].op >= (int)index) {
      broken(v, op, "V1", "operand %d is not defined above", i);
      return;
    }
  }
  OpSpec spec = op_spec_of(v->f, op);
  size_t errors = v->diags->errors;
  ResultTypes types;
  bool same = infer_types(v->m, v->f, &spec, v->diags, &types) && types.n == op->nout;
  for (int i = 0; same && i < types.n; i++) same = types.items[i] == type_of(v->f, op->out + (Val)i);
  if (!same) {
    if (v->diags->errors == errors) broken(v, op, "V2", "the result types are not the inferred ones");
    v->ok = false;
  }
}

/* V4: constant extents are not negative.  V5: level 1 has no mesh: no coordinates, layouts, stages or level-2
 * operations; the places of local parts (start, starts, extents) are those of the whole. */
static void check_extents(Verify *v, const Op *op, const Type *t) {
  for (int d = 0; d < t->rank; d++) {
    if (t->dims[d]->kind == EX_CONST && t->dims[d]->value < 0)
      broken(v, op, "V4", "extent %lld of dimension %d is negative", (long long)t->dims[d]->value, d);
    if (v->f->level == 1 && ex_uses_coordinate(v->m, t->dims[d])) broken(v, op, "V5", "a mesh coordinate at level 1");
  }
}

static void check_level1(Verify *v, const Op *op) {
  if (op_level2_only(op->kind)) broken(v, op, "V5", "communication at level 1");
  if (op->stage) broken(v, op, "V5", "a stage at level 1");
  if (op->out && v->f->values.items[op->out].layout) broken(v, op, "V5", "a layout at level 1");
  const Expr *start = op_expr(op, AT_start);
  if (start && !ex_is_const(start, 0)) broken(v, op, "V5", "start is not 0 at level 1");
  if (op->kind == OP_reduce && op_attr(op, AT_starts)) broken(v, op, "V5", "starts of a reduction at level 1");
  if (op->kind != OP_random && op->kind != OP_random_keyed && op->kind != OP_within) return;
  const Type *t = type_of(v->f, op->out);
  const Attr *starts = op_attr(op, AT_starts), *extents = op_attr(op, AT_extents);
  for (int d = 0; d < t->rank; d++)
    if (!ex_is_const(starts->u.exprs[d], 0) || (extents && extents->u.exprs[d] != t->dims[d]))
      broken(v, op, "V5", "starts and extents are not those of the whole tensor at level 1");
}

/* V23: the unit of a cut dimension is a positive number or a product of sizes, the same on all ranks, and divides the
 * extent where that is known here; else the parts would not cover the dimension. */
static bool check_units(Verify *v, const Op *op, const Layout *l, const char *what) {
  for (int d = 0; d < l->rank; d++) {
    const Expr *unit = l->dims[d].unit;
    if (l->dims[d].n == 0) continue;
    if (unit->kind == EX_CONST ? unit->value < 1 : ex_uses_coordinate(v->m, unit))
      return broken(v, op, "V23", "%s has a unit of dimension %d that is not the same positive number on all ranks",
                    what, d),
             false;
  }
  return true;
}

static void check_cover(Verify *v, const Op *op, const Layout *l, const Type *global, const char *name) {
  for (int d = 0; d < l->rank; d++)
    if (!layout_unit_divides(v->m, &l->dims[d], global->dims[d]))
      broken(v, op, "V23", "the unit of dimension %d does not divide the extent of \"%s\"", d, name);
}

/* V6: sources and outputs of level 2 declare their layout, of their rank, over axes of the mesh, each once. */
static bool check_layout(Verify *v, const Op *op, const Layout *l, int rank, const char *what) {
  uint32_t used = l ? l->partial_axes : 0;
  if (!l) return broken(v, op, "V6", "%s has no layout", what), false;
  if (l->rank != rank) return broken(v, op, "V6", "%s has a layout of rank %d for rank %d", what, l->rank, rank), false;
  if (l->partial_axes >> v->m->mesh.naxes)
    return broken(v, op, "V6", "%s is partial over an axis that the mesh does not have", what), false;
  for (int d = 0; d < rank; d++)
    for (int i = 0; i < l->dims[d].n; i++) {
      int a = l->dims[d].axes[i];
      if (a >= v->m->mesh.naxes || (used & (1u << a)))
        return broken(v, op, "V6", "%s uses an axis twice, or one that the mesh does not have", what), false;
      used |= 1u << a;
    }
  return check_units(v, op, l, what);
}

/* V7: param, read and write name a symbol of the module whose type is the value's (level 2: its local type). */
static void check_symbol(Verify *v, const Op *op) {
  const char *name = op_str(op, AT_name);
  const Type *global = NULL;
  if (op->kind == OP_param) {
    const Param *p = module_param(v->m, name);
    global = p ? p->type : NULL;
  } else if (op_is_state(op->kind)) {
    const State *s = module_state(v->m, name);
    global = s ? s->type : NULL;
  } else return;
  if (!global) {
    broken(v, op, "V7", "no %s named \"%s\"", op->kind == OP_param ? "parameter" : "state", name);
    return;
  }
  const Type *have = op->kind == OP_write ? type_of(v->f, op->in[0]) : type_of(v->f, op->out);
  if (v->f->level == 1 && have != global) broken(v, op, "V7", "the type is not that of \"%s\"", name);
  if (v->f->level == 1 || op->kind == OP_write) return;
  const Layout *l = v->f->values.items[op->out].layout;
  if (!l || l->rank != global->rank) return;
  if (layout_local_type(v->m, global, l) != have) broken(v, op, "V7", "the type is not the shard of \"%s\"", name);
  check_cover(v, op, l, global, name);
}

/* V25: a value that exists once for all micro-batches has no layout over them. */
static void check_once(Verify *v, const Op *op, Phase made, const Layout *l, const char *what, const char *name) {
  if (phase_each(made) || !l || !layout_over_time(&v->m->mesh, l)) return;
  broken(v, op, "V25", "%s \"%s\" of phase %s has a layout over the micro-batches", what, name, phase_name(made));
}

/* V17: with micro-batches, a state written in each of them is cut over them: otherwise each would read the value that
 * the previous one wrote. */
static void check_write(Verify *v, const Op *write, const Op *read) {
  const char *name = op_str(write, AT_name);
  const Layout *l = v->f->values.items[read->out].layout;
  if (read->stage != write->stage)
    broken(v, write, "V8", "\"%s\" is read in stage %d and written in stage %d", name, read->stage, write->stage);
  check_once(v, write, write->phase, l, "state", name);
  for (int a = 0; a < v->m->mesh.naxes; a++) {
    bool cut = !v->m->mesh.axes[a].temporal || v->m->mesh.axes[a].size == 1 || !l || write->phase == PH_step;
    for (int d = 0; l && d < l->rank; d++)
      for (int i = 0; i < l->dims[d].n; i++) cut |= l->dims[d].axes[i] == a;
    if (!cut) broken(v, write, "V17", "\"%s\" is written in every micro-batch", name);
  }
}

/* V8: a state is read and written in one stage, written at most once, and read only before the write.  V24: at level 2
 * a written state is read as well, since the read declares its layout. */
static void check_state_order(Verify *v) {
  Arena *scratch = arena_new();
  const StateOps states = state_ops(scratch, v->f);
  for (size_t i = 0; i < v->f->ops.n; i++) {
    const Op *w = &v->f->ops.items[i];
    bool declared = v->f->level == 1;
    if (w->kind != OP_write) continue;
    for (size_t j = states.next[i]; j != SIZE_MAX; j = states.next[j])
      if (v->f->ops.items[j].stage == w->stage)
        broken(v, &v->f->ops.items[j], "V8", "\"%s\" was written above", op_str(w, AT_name));
    for (size_t j = states.first[i]; j != SIZE_MAX; j = states.next[j]) {
      if (v->f->ops.items[j].kind != OP_read) continue;
      check_write(v, w, &v->f->ops.items[j]);
      declared = true;
    }
    if (!declared) broken(v, w, "V24", "no read declares the layout of \"%s\"", op_str(w, AT_name));
  }
  arena_free(scratch);
}

/* V9: communication is over distinct spatial axes of the mesh.  V10: it happens inside one stage; only transfer
 * crosses, to another stage that exists. */
static void check_comm(Verify *v, const Op *op) {
  const Attr *one = op_attr(op, AT_mesh_axis), *list = op_attr(op, AT_mesh_axes);
  uint32_t used = 0;
  for (int i = 0; i < (list ? list->n : one ? 1 : 0); i++) {
    int64_t a = list ? list->u.ints[i] : one->u.i;
    if (a < 0 || a >= v->m->mesh.naxes || (used & (1u << a)))
      broken(v, op, "V9", "a mesh axis is repeated or does not exist");
    else if (v->m->mesh.axes[a].temporal) broken(v, op, "V9", "communication over the micro-batch axis");
    else used |= 1u << a;
  }
  for (int i = 0; i < op->nin; i++) {
    const Op *from = op_of(v->f, op->in[i]);
    int stage = from->kind == OP_transfer ? (int)op_int(from, AT_to_stage, 0) : from->stage;
    if (stage != op->stage)
      broken(v, op, "V10", "operand %d is in stage %d, the operation in stage %d", i, stage, op->stage);
  }
  if (op->stage < 0 || op->stage >= v->m->mesh.stages)
    broken(v, op, "V10", "stage %d is not one of %d", op->stage, v->m->mesh.stages);
  if (op->kind == OP_transfer) {
    int64_t to = op_int(op, AT_to_stage, -1);
    if (to < 0 || to >= v->m->mesh.stages || to == op->stage)
      broken(v, op, "V10", "invalid transfer to stage %lld", (long long)to);
  }
}

/* The symbol of the micro-batch; -1 if there is none. */
static int micro_batch_symbol(const Mesh *mesh) {
  for (int a = 0; a < mesh->naxes; a++)
    if (mesh->axes[a].temporal) return mesh->axes[a].symbol;
  return -1;
}

/* By value: true if it is the same in all micro-batches, because it depends on inputs, weights and constants only. */
static const bool *made_of_sources(Arena *a, const Func *f) {
  bool *of = ARENA_ARRAY(a, bool, f->values.n);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    bool all = !op_is_call(op->kind) && !op_is_loop_part(op->kind);
    for (int k = 0; k < op->nin; k++) all &= of[op->in[k]];
    for (Val r = op->out; op->out && r < op_end(op); r++) of[r] = all;
  }
  return of;
}

/* The phase in which a value is complete: an accumulated one after all micro-batches. */
static Phase phase_made(const Verify *v, const Op *from) {
  bool accumulated = from->kind == OP_accumulate && (v->f->level == 1 || micro_batch_symbol(&v->m->mesh) >= 0);
  return accumulated ? PH_step : from->phase;
}

/* Checks V25 for one operation; sources: by value, at level 1. */
static void check_phase(Verify *v, const Op *op, const bool *sources) {
  int symbol = micro_batch_symbol(&v->m->mesh);
  bool each = phase_each(op->phase);
  if (op->phase == PH_pre && (op_is_loop_part(op->kind) || op->kind == OP_write))
    broken(v, op, "V25", "%s in phase pre", op_name(op->kind));
  if (op->kind == OP_accumulate && !each) broken(v, op, "V25", "accumulate in phase %s", phase_name(op->phase));
  if (v->f->level == 2 && !each && (symbol < 0 || op_uses_symbol(v->f, op, symbol)))
    broken(v, op, "V25", "phase %s, but the operation depends on the micro-batch, or the mesh has none",
           phase_name(op->phase));
  if (op_is_declared(op->kind))
    check_once(v, op, op->phase, v->f->values.items[op->out].layout, "source", op_str(op, AT_name));
  for (int i = 0; i < op->nin; i++) {
    const Op *from = op_of(v->f, op->in[i]);
    Phase made = phase_made(v, from);
    if (v->f->level == 1 && (sources[op->in[i]] || op_is_call(from->kind))) continue;
    if (made > op->phase)
      broken(v, op, "V25", "operand %d is of phase %s, the operation of %s", i, phase_name(made),
             phase_name(op->phase));
    else if (!each && phase_each(made)) broken(v, op, "V25", "operand %d is made in every micro-batch", i);
  }
}

/* V25: an operation needs no values of a later phase.  An operation that runs once for all micro-batches has no layout
 * over them, and needs only values that are computed once, or accumulated.  An operation before them is no loop or
 * write. */
static void check_phases(Verify *v) {
  Arena *scratch = arena_new();
  const bool *sources = v->f->level == 1 ? made_of_sources(scratch, v->f) : NULL;
  for (size_t i = 0; v->ok && i < v->f->ops.n; i++) check_phase(v, &v->f->ops.items[i], sources);
  for (size_t i = 0; v->ok && i < v->f->outputs.n; i++) {
    const Output *o = &v->f->outputs.items[i];
    const Op *from = op_of(v->f, o->value);
    check_once(v, from, phase_made(v, from), o->layout, "output", o->name);
  }
  arena_free(scratch);
}

/* V16: reductions over the mesh, and those of partial sources, are defined for their type. */
static void check_reduction(Verify *v, const Op *op) {
  const Attr *a = op_attr(op, AT_op);
  const Layout *l = op->out ? v->f->values.items[op->out].layout : NULL;
  DType t = op->out ? type_of(v->f, op->out)->dtype : DT_bool;
  if (a && !reduction_defined(a->u.reduction, t))
    broken(v, op, "V16", "%s is not defined for %s", reduction_name(a->u.reduction), dtype_name(t));
  if (l && l->partial_axes && !reduction_defined(l->partial, t))
    broken(v, op, "V16", "a partial %s is not defined for %s", reduction_name(l->partial), dtype_name(t));
}

/* V11: size and the rounds of a loop depend on dimensions only, since their value belongs to the whole tensor. */
static void check_size(Verify *v, const Op *op) {
  const Expr *e = op->kind == OP_loop ? op_expr(op, AT_trips) : op->kind == OP_size ? op_expr(op, AT_expr) : NULL;
  if (e && ex_uses_coordinate(v->m, e)) broken(v, op, "V11", "the expression uses a mesh coordinate");
}

/* ---- computed sizes */

/* The computed size that a bind sets; -1 if it names none. */
static int bound_symbol(const Module *m, const Op *op) {
  const Expr *e = op_expr(op, AT_expr);
  return e->kind == EX_SYM && m->symbols.items[e->value].most ? (int)e->value : -1;
}

/* V27: a bind sets a computed size, once in its function; operations that use the size stand below the bind, in its
 * stage; sources from outside do not use it. */
static void check_uses(Verify *v, const Op *op, const Op *const *bound) {
  const Module *m = v->m;
  for (size_t s = 0; s < m->symbols.n; s++) {
    if (!m->symbols.items[s].most || !op_uses_symbol(v->f, op, (int)s)) continue;
    const char *name = m->symbols.items[s].name;
    if (op_is_declared(op->kind)) broken(v, op, "V27", "a source uses the computed size %s", name);
    else if (!bound[s]) broken(v, op, "V27", "the computed size %s is not bound above", name);
    else if (bound[s]->stage != op->stage) broken(v, op, "V27", "the computed size %s is bound in another stage", name);
  }
}

static void check_bind(Verify *v, const Op *op, const Op **bound, const bool *called) {
  int symbol = bound_symbol(v->m, op);
  if (symbol < 0) broken(v, op, "V27", "the expression is not a computed size");
  else if (bound[symbol] || called[symbol]) broken(v, op, "V27", "%s is bound twice", v->m->symbols.items[symbol].name);
  else bound[symbol] = op;
  if (v->f->level == 2 && micro_batch_symbol(&v->m->mesh) >= 0) broken(v, op, "V27", "a bind with micro-batches");
}

/* A call expands the callee, and with it a bind: each function sets a size once, itself or by one call. */
static void check_bind_of_call(Verify *v, const Op *op, const Op *const *bound, bool *called) {
  const Called *callee = calls_find(v->calls, op_str(op, AT_name));
  for (size_t s = 0; callee && callee->binds && s < v->m->symbols.n; s++) {
    if (!callee->binds[s]) continue;
    if (bound[s] || called[s])
      broken(v, op, "V27", "@%s binds %s, which is bound above", callee->f->name, v->m->symbols.items[s].name);
    called[s] = true;
  }
}

static void check_computed(Verify *v) {
  bool any = func_binds(v->f);
  for (size_t s = 0; s < v->m->symbols.n; s++) any |= v->m->symbols.items[s].most != NULL;
  if (!any) return;
  Arena *scratch = arena_new();
  const Op **bound = ARENA_ARRAY(scratch, const Op *, v->m->symbols.n);
  bool *called = ARENA_ARRAY(scratch, bool, v->m->symbols.n); /* bound by a call */
  for (size_t i = 0; v->ok && i < v->f->ops.n; i++) {
    const Op *op = &v->f->ops.items[i];
    if (op->kind == OP_bind) check_bind(v, op, bound, called);
    else check_uses(v, op, bound);
    if (op->kind == OP_call) check_bind_of_call(v, op, bound, called);
  }
  arena_free(scratch);
}

/* ---- loops */

/* V20: at most MAX_LOOPS loops are nested; carries, at least one, directly follow their loop, leaves directly follow
 * the repeat, one per carry in the same order; a repeat ends the innermost loop, and every loop has one. */
static int carries_behind(const Func *f, size_t loop) {
  int n = 0;
  while (loop + 1 + (size_t)n < f->ops.n && f->ops.items[loop + 1 + (size_t)n].kind == OP_carry) n++;
  return n;
}

static void check_repeat(Verify *v, size_t repeat, size_t loop) {
  const Func *f = v->f;
  int n = carries_behind(f, loop);
  for (int k = 0; k < n; k++) {
    const Op *carry = &f->ops.items[loop + 1 + (size_t)k];
    size_t i = repeat + 1 + (size_t)k;
    if (i < f->ops.n && f->ops.items[i].kind == OP_leave && f->ops.items[i].in[0] == carry->out) continue;
    broken(v, &f->ops.items[repeat], "V20", "leave number %d after it is not that of %%%s", k, carry->name);
  }
}

static void check_loop_structure(Verify *v) {
  Arena *scratch = arena_new();
  struct {
    size_t *items;
    size_t n, cap;
  } open = {0};
  size_t leaves_end = 0; /* leaves of the last repeat come before it */
  for (size_t i = 0; i < v->f->ops.n && v->ok; i++) {
    const Op *op = &v->f->ops.items[i];
    OpKind before = i ? v->f->ops.items[i - 1].kind : OP_none;
    if (op->kind == OP_loop) {
      ARENA_PUSH(scratch, &open, i);
      if (!carries_behind(v->f, i)) broken(v, op, "V20", "a loop without carries");
      if (open.n > MAX_LOOPS) broken(v, op, "V20", "more than %d loops are nested", MAX_LOOPS);
    } else if (op->kind == OP_carry) {
      if (before != OP_loop && before != OP_carry) broken(v, op, "V20", "a carry does not follow its loop");
    } else if (op->kind == OP_repeat) {
      if (!open.n || v->f->ops.items[open.items[open.n - 1]].out != op->in[0]) {
        broken(v, op, "V20", "it does not end the innermost loop");
        continue;
      }
      check_repeat(v, i, open.items[open.n - 1]);
      leaves_end = i + 1 + (size_t)carries_behind(v->f, open.items[--open.n]);
    } else if (op->kind == OP_leave && i >= leaves_end) {
      broken(v, op, "V20", "a leave does not follow the repeat");
    }
  }
  if (v->ok && open.n) broken(v, &v->f->ops.items[open.items[open.n - 1]], "V20", "the loop does not end");
  arena_free(scratch);
}

/* V22: a body writes no state, draws no random numbers (each round would draw the same), calls no function that does,
 * and is in one pipeline stage. */
static bool acts_once(const Verify *v, const Op *op) {
  const Called *callee = op->kind == OP_call ? calls_find(v->calls, op_str(op, AT_name)) : NULL;
  return op_acts(op->kind) || (callee && callee->acts);
}

/* True if the leave reads another leave of the same loop. */
static bool takes_leave(const Func *f, size_t leave) {
  size_t repeat = leave;
  while (f->ops.items[repeat].kind == OP_leave) repeat--;
  return op_of(f, f->ops.items[leave].in[1]) > &f->ops.items[repeat];
}

/* V21: values of a body are visible in it only; values after the loop are its leaves, all at once. */
static void check_loops(Verify *v) {
  const Func *f = v->f;
  check_loop_structure(v);
  if (!v->ok) return;
  Arena *scratch = arena_new();
  Loops loops = loops_of(scratch, f);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    for (int k = 0; k < op->nin; k++)
      if (!loops_within(&loops, loops_reads_in(&loops, f, i), loops.of[op_of(f, op->in[k]) - f->ops.items]))
        broken(v, op, "V21", "operand %d is a value of a loop's body", k);
    if (op->kind == OP_leave && takes_leave(f, i)) broken(v, op, "V21", "operand 1 is another leave of the loop");
    if (loops.of[i] < 0) continue;
    if (op->phase == PH_pre) broken(v, op, "V25", "phase pre in a loop");
    if (acts_once(v, op)) broken(v, op, "V22", "a write, a bind or random numbers in a loop");
    if (op->kind == OP_transfer || op->stage != f->ops.items[loops.items[loops.of[i]].begin].stage)
      broken(v, op, "V22", "it leaves the pipeline stage of the loop");
  }
  for (size_t i = 0; i < f->outputs.n; i++)
    if (loops.of[op_of(f, f->outputs.items[i].value) - f->ops.items] >= 0)
      broken(v, NULL, "V21", "output \"%s\" is a value of a loop's body", f->outputs.items[i].name);
  arena_free(scratch);
}

static uint64_t hash_name(const char *name) { return hash64(name, strlen(name), 0); }

/* V12: names of operations are unique; names of outputs too, at level 2 in one layout and stage. */
static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *output_identity(const Verify *v, Arena *a, const Output *o) {
  Text t = {.arena = a};
  text_printf(&t, "\"%s\"", o->name);
  if (v->f->level == 2 && o->layout && o->value && o->value < v->f->values.n) {
    text_printf(&t, " in stage %d as ", op_of(v->f, o->value)->stage);
    layout_print(v->m, &t, o->layout);
  }
  return text_str(&t);
}

static int same_name(const void *key, const void *item) { return strcmp(key, item) == 0; }

static bool any_twice(Arena *scratch, const char *const *names, size_t n) {
  InternSet seen = {0};
  for (size_t i = 0; i < n; i++) {
    uint64_t h = hash_name(names[i]);
    if (intern_find(&seen, h, names[i], same_name)) return true;
    intern_add(scratch, &seen, h, names[i]);
  }
  return false;
}

/* Reports names that occur twice; sorts only if there are any. */
static void refuse_twice(Verify *v, Arena *scratch, const char **names, size_t n, const char *what) {
  if (!any_twice(scratch, names, n)) return;
  qsort(names, n, sizeof *names, compare_names);
  for (size_t i = 1; i < n; i++)
    if (strcmp(names[i - 1], names[i]) == 0) broken(v, NULL, "V12", "two %s%s", what, names[i]);
}

static void check_names(Verify *v) {
  size_t n = 0;
  Arena *scratch = arena_new();
  const char **names = ARENA_ARRAY(scratch, const char *, v->f->ops.n + v->f->values.n + v->f->outputs.n);
  for (size_t i = 0; i < v->f->ops.n; i++) {
    const Op *op = &v->f->ops.items[i];
    names[n++] = op->name;
    for (int k = 1; k < op->nout; k++) names[n++] = op->names[k - 1];
  }
  refuse_twice(v, scratch, names, n, "values or operations are named %");
  n = v->f->outputs.n;
  for (size_t i = 0; i < n; i++) names[i] = output_identity(v, scratch, &v->f->outputs.items[i]);
  refuse_twice(v, scratch, names, n, "outputs are named ");
  arena_free(scratch);
}

/* V13: outputs are values of the function; level 2 declares their layout, and it is not partial. */
static void check_outputs(Verify *v) {
  for (size_t i = 0; i < v->f->outputs.n; i++) {
    const Output *o = &v->f->outputs.items[i];
    if (o->value == 0 || o->value >= v->f->values.n) {
      broken(v, NULL, "V13", "output \"%s\" is not a value", o->name);
      continue;
    }
    if (v->f->level == 1) {
      if (o->layout) broken(v, NULL, "V13", "output \"%s\" has a layout at level 1", o->name);
    } else if (check_layout(v, op_of(v->f, o->value), o->layout, type_of(v->f, o->value)->rank, "an output") &&
               o->layout->partial_axes) {
      broken(v, NULL, "V13", "output \"%s\" is partial", o->name);
    }
  }
}

/* V18: a call of a block has a label for every hole in the names, groups and places of the block's operations. */
static void check_labels(Verify *v, const Op *call, const Func *callee) {
  const Attr *labels = op_attr(call, AT_labels);
  if (!labels) return;
  Arena *scratch = arena_new();
  for (size_t i = 0; i < callee->ops.n; i++) {
    const Op *op = &callee->ops.items[i];
    const char *names[4 + MAX_RESULTS] = {op->group, op->loc.file, op->loc.node, op->mirror.name, op->name};
    for (int k = 1; k < op->nout; k++) names[4 + k] = op->names[k - 1];
    for (size_t k = 0; k < sizeof names / sizeof *names && op->kind != OP_input; k++)
      if (names[k] && !holes_fill(scratch, names[k], labels->n, labels->u.strs)) {
        broken(v, call, "V18", "no label for \"%s\" in @%s", names[k], callee->name);
        break;
      }
  }
  arena_free(scratch);
}

/* V14: a call names a function of the same level; calls form no cycle, and their expansion is bounded. */
static void check_call(Verify *v, const Op *op) {
  if (op->kind != OP_call) return;
  const Called *c = calls_find(v->calls, op_str(op, AT_name));
  if (!c) return; /* reported by the type check */
  if (c->f->level != v->f->level) broken(v, op, "V14", "@%s is of level %d", c->f->name, c->f->level);
  else if (c->cyclic) broken(v, op, "V14", "the call of @%s forms a cycle", c->f->name);
  else if (c->depth >= MAX_CALL_DEPTH) broken(v, op, "V14", "calls are nested more than %d deep", MAX_CALL_DEPTH);
  check_labels(v, op, c->f);
}

static void check_written_out(Verify *v) {
  int64_t ops = 0;
  for (size_t i = 0; i < v->calls->n; i++) ops += v->calls->items[i].depth ? v->calls->items[i].ops : 0;
  if (ops > MAX_WRITTEN_OUT) broken(v, NULL, "V14", "expanded calls have more than %d operations", MAX_WRITTEN_OUT);
}

static void check_op(Verify *v, size_t index) {
  const Op *op = &v->f->ops.items[index];
  check_types(v, index, op);
  if (!v->ok) return; /* the rules below rely on types */
  for (Val k = op->out; k < op_end(op); k++) check_extents(v, op, type_of(v->f, k));
  if (v->f->level == 1) check_level1(v, op);
  else if (op_is_declared(op->kind))
    check_layout(v, op, v->f->values.items[op->out].layout, type_of(v->f, op->out)->rank, "a source");
  check_symbol(v, op);
  if (v->f->level == 2) {
    check_comm(v, op);
    check_reduction(v, op);
  }
  check_size(v, op);
  check_call(v, op);
}

static bool check_func(Module *m, const Func *f, const Calls *calls, Diags *diags) {
  Verify v = {m, f, calls, diags, true};
  /* V3: every size could be computed. */
  if (m->expr_fault) v.ok = diag_error(diags, DIAG_ir_verify, m->expr_fault_at, "V3: @%s: %s", f->name, m->expr_fault);
  for (size_t i = 0; i < f->ops.n && v.ok; i++) check_op(&v, i);
  if (!v.ok) return false;
  check_names(&v);
  check_state_order(&v);
  check_outputs(&v);
  if (v.ok) check_phases(&v);
  if (v.ok) check_loops(&v);
  if (v.ok) check_computed(&v);
  return v.ok;
}

bool verify_func(Module *m, const Func *f, Diags *diags) {
  Arena *scratch = arena_new();
  Calls calls = calls_of(scratch, m);
  bool ok = check_func(m, f, &calls, diags);
  arena_free(scratch);
  return ok;
}

/* True if `span` elements from the view's first one on are inside the whole weight. */
static bool lies_in_origin(const ParamOrigin *o, int64_t span) {
  int64_t dims[MAX_RANK], elements = 1, end = 0;
  bool ok = type_constant_dims(o->type, dims) && !__builtin_add_overflow(o->first, span, &end);
  for (int d = 0; ok && d < o->type->rank; d++) ok = !__builtin_mul_overflow(elements, dims[d], &elements);
  return ok && end <= elements;
}

/* V15: weights have constant extents and are inside their file, views inside the whole weight. */
static void check_param(Verify *v, const Param *p) {
  int64_t dims[MAX_RANK], last = 0, elements = 1;
  if (!type_constant_dims(p->type, dims)) {
    broken(v, NULL, "V15", "parameter \"%s\" has symbolic extents", p->name);
    return;
  }
  bool overflow = false;
  for (int d = 0; d < p->type->rank; d++) {
    int64_t reach;
    overflow |= __builtin_mul_overflow(elements, dims[d], &elements);
    if (p->init != INIT_BLOB) continue;
    overflow |= p->strides[d] < 0 || __builtin_mul_overflow(p->strides[d], dims[d] ? dims[d] - 1 : 0, &reach) ||
                __builtin_add_overflow(last, reach, &last);
  }
  uint64_t bytes;
  overflow |=
      __builtin_mul_overflow((uint64_t)(elements ? last + 1 : 0), (uint64_t)dtype_bytes(p->type->dtype), &bytes);
  if (!overflow && p->init == INIT_BLOB)
    overflow = __builtin_add_overflow(bytes, p->offset, &bytes) || bytes > v->m->blobs.items[p->blob].bytes;
  if (overflow) broken(v, NULL, "V15", "parameter \"%s\" is not inside its file", p->name);
  else if (p->origin.name && !lies_in_origin(&p->origin, elements ? last + 1 : 0))
    broken(v, NULL, "V15", "parameter \"%s\" is not inside \"%s\"", p->name, p->origin.name);
}

/* V19: a prepared weight is an output of @prepare, which depends on weights and constants only. */
static void check_prepare(Verify *v) {
  const Func *f = v->f = module_func(v->m, "prepare");
  for (size_t i = 0; f && i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    const Param *p = op->kind == OP_param ? module_param(v->m, op_str(op, AT_name)) : NULL;
    if (op->kind == OP_input || op_is_state(op->kind) || (p && p->init == INIT_PREPARED))
      broken(v, op, "V19", "@prepare cannot have this operation");
  }
  v->f = NULL;
  for (size_t i = 0; i < v->m->params.n; i++) {
    const Param *p = &v->m->params.items[i];
    bool made = p->init != INIT_PREPARED;
    for (size_t k = 0; f && k < f->outputs.n && !made; k++)
      made = strcmp(f->outputs.items[k].name, p->name) == 0 && type_of(f, f->outputs.items[k].value) == p->type;
    if (!made) broken(v, NULL, "V19", "parameter \"%s\" is not an output of @prepare with its type", p->name);
  }
}

static int starts_as(const void *param, const void *state) { return strcmp(param, ((const State *)state)->param) == 0; }

/* V26: a state that starts as a weight has its type, and nothing else reads the weight: other reads would keep the old
 * value when the state is written. */
static void check_starts(Verify *v) {
  const Module *m = v->m;
  Arena *scratch = arena_new();
  InternSet started = {0}; /* states by the weight they start as */
  for (size_t i = 0; i < m->states.n; i++) {
    const State *s = &m->states.items[i];
    const Param *p = s->param ? module_param(v->m, s->param) : NULL;
    if (!s->param) continue;
    bool twice = intern_find(&started, hash_name(s->param), s->param, starts_as) != NULL;
    if (!twice) intern_add(scratch, &started, hash_name(s->param), s);
    if (!p || p->type != s->type)
      broken(v, NULL, "V26", "state \"%s\" starts as \"%s\", which is not a weight of its type", s->name, s->param);
    else if (twice) broken(v, NULL, "V26", "two states start as \"%s\"", s->param);
  }
  for (size_t k = 0; k < m->funcs.n; k++)
    for (size_t j = 0; j < m->funcs.items[k]->ops.n; j++) {
      const Op *op = &m->funcs.items[k]->ops.items[j];
      const char *name = op->kind == OP_param ? op_str(op, AT_name) : NULL;
      const State *s = name ? intern_find(&started, hash_name(name), name, starts_as) : NULL;
      if (s)
        broken(v, NULL, "V26", "@%s reads weight \"%s\" itself, as which state \"%s\" starts", m->funcs.items[k]->name,
               s->param, s->name);
    }
  arena_free(scratch);
}

bool verify_module(Module *m, Diags *diags) {
  Arena *scratch = arena_new();
  Calls calls = calls_of(scratch, m);
  Verify v = {m, NULL, &calls, diags, true};
  for (size_t i = 0; i < m->params.n; i++) check_param(&v, &m->params.items[i]);
  for (size_t i = 0; i < m->funcs.n; i++)
    if (!check_func(m, m->funcs.items[i], &calls, diags)) v.ok = false;
  if (v.ok) check_written_out(&v);
  if (v.ok) check_prepare(&v);
  if (v.ok) check_starts(&v);
  arena_free(scratch);
  return v.ok;
}
