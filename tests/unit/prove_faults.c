/* The prover accepts every lowering of these models under random strategies, and refutes seeded faults (D35).
 *
 * Each case: a level-1 model, a mesh, random legal strategies; the lowered program must be proved.  Then every place
 * where a fault of some kind can be planted gets one, and the prover judges the mutant without running it.  A mutant
 * may be harmless (a constant cut at the wrong place is still that constant): a proved one is run in the interpreter,
 * and must give the results of level 1.  The seed of a failing case is printed. */
#include <stdlib.h>

#include "ir/run/interp.h"
#include "proof/prove.h"
#include "ir/window.h"
#include "passes/lower/lower.h"
#include "tests/mutants.h"
#include "tests/prove_models.h"
#include "tests/test.h"

static const char *const meshes[] = {"mesh [x=2]\n",      "mesh [x=3]\n",           "mesh [x=2, y=2]\n",
                                     "mesh [x=2, y=3]\n", "mesh [x=2, y=2, z=2]\n", "mesh [x=2, mb=2 time]\n"};

static uint64_t seed;
static uint32_t draw(uint32_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((seed >> 33) % n);
}

/* ---- faults: each takes a copy of the program and the operation to spoil; false if it does not apply there */

typedef struct Fault {
  const char *name;
  bool (*plant)(Module *m, Func *f, size_t at);
} Fault;

static Op *op_at(Func *f, size_t at) { return &f->ops.items[at]; }

static bool skip(Func *f, size_t at) {
  Op *op = op_at(f, at);
  if (type_of(f, op->out) != type_of(f, op->in[0])) return false;
  replace_uses(f, op->out, op->in[0]);
  return true;
}

static bool drop_all_reduce(Module *m, Func *f, size_t at) {
  (void)m;
  return op_at(f, at)->kind == OP_all_reduce && skip(f, at);
}

static bool set_attr(Func *f, size_t at, AttrKey key, Attr a) {
  Op *op = op_at(f, at);
  for (int i = 0; i < op->nattrs; i++)
    if (op->attrs[i].key == key) {
      ((Attr *)(uintptr_t)op->attrs)[i] = a;
      return true;
    }
  return false;
}

static bool wrong_group(Module *m, Func *f, size_t at) {
  const Attr *axes = op_attr(op_at(f, at), AT_mesh_axes);
  if (op_at(f, at)->kind != OP_all_reduce || axes->n != 1 || m->mesh.naxes < 2) return false;
  int64_t other = (axes->u.ints[0] + 1) % m->mesh.naxes;
  return set_attr(f, at, AT_mesh_axes, attr_ints(m, AT_mesh_axes, 1, &other));
}

static bool wrong_reduction(Module *m, Func *f, size_t at) {
  (void)m;
  OpKind k = op_at(f, at)->kind;
  if (k != OP_all_reduce && k != OP_reduce_scatter) return false;
  Reduction r = op_attr(op_at(f, at), AT_op)->u.reduction;
  return set_attr(f, at, AT_op, attr_red(AT_op, r == RED_MAX ? RED_SUM : RED_MAX));
}

static bool wrong_gather_axis(Module *m, Func *f, size_t at) {
  if (op_at(f, at)->kind != OP_all_gather || m->mesh.naxes < 2) return false;
  int64_t a = op_int(op_at(f, at), AT_mesh_axis, 0), other = (a + 1) % m->mesh.naxes;
  return m->mesh.axes[a].size == m->mesh.axes[other].size && set_attr(f, at, AT_mesh_axis, attr_i(AT_mesh_axis, other));
}

/* The bias is added to every partial sum: add(all_reduce(x), b) becomes all_reduce(add(x, b)). */
static bool early_bias(Module *m, Func *f, size_t at) {
  (void)m;
  Op *add = op_at(f, at);
  if (add->kind != OP_add) return false;
  for (int i = 0; i < 2; i++) {
    const Op *reduce = op_of(f, add->in[i]);
    int uses = 0;
    for (size_t k = 0; k < f->ops.n; k++)
      for (int j = 0; j < f->ops.items[k].nin; j++) uses += f->ops.items[k].in[j] == reduce->out;
    if (reduce->kind != OP_all_reduce || uses != 1) continue;
    ((Val *)(uintptr_t)add->in)[i] = reduce->in[0]; /* the sum is taken nowhere else, and the result is never reduced */
    return true;
  }
  return false;
}

static bool wrong_offset(Module *m, Func *f, size_t at) {
  if (op_at(f, at)->kind != OP_shard_slice) return false;
  return set_attr(f, at, AT_start, attr_e(AT_start, ex_const(m, 0)));
}

static bool mirrored_start(Module *m, Func *f, size_t at) {
  const Expr *start = op_expr(op_at(f, at), AT_start), *other = mirrored(m, start);
  return other != start && set_attr(f, at, AT_start, attr_e(AT_start, other));
}

static bool mirrored_offset(Module *m, Func *f, size_t at) {
  return op_at(f, at)->kind == OP_shard_slice && mirrored_start(m, f, at);
}

static bool local_mean(Module *m, Func *f, size_t at) {
  if (op_at(f, at)->kind != OP_size) return false;
  return set_attr(f, at, AT_expr, attr_e(AT_expr, ex_div(m, op_expr(op_at(f, at), AT_expr), ex_const(m, 2))));
}

static bool doubled_scale(Module *m, Func *f, size_t at) {
  (void)m;
  if (op_at(f, at)->kind != OP_const) return false;
  return set_attr(f, at, AT_value, attr_f(AT_value, 2 * op_float(op_at(f, at), AT_value, 0) + 1));
}

static bool has_place(OpKind k) {
  return k == OP_iota || k == OP_gather || k == OP_update || k == OP_take || k == OP_scatter || k == OP_put ||
         op_is_grouped(k);
}

static bool wrong_mask_offset(Module *m, Func *f, size_t at) {
  if (!has_place(op_at(f, at)->kind)) return false;
  return set_attr(f, at, AT_start, attr_e(AT_start, ex_addi(m, op_expr(op_at(f, at), AT_start), 1)));
}

static bool missing_place(Module *m, Func *f, size_t at) {
  if (!has_place(op_at(f, at)->kind) || ex_is_const(op_expr(op_at(f, at), AT_start), 0)) return false;
  return set_attr(f, at, AT_start, attr_e(AT_start, ex_const(m, 0)));
}

static bool stale_slot(Module *m, Func *f, size_t at) {
  int mb = mesh_axis_find(&m->mesh, "mb");
  if (mb < 0) return false;
  const Expr *start = op_expr(op_at(f, at), AT_start);
  if (!start || !ex_uses(start, m->mesh.axes[mb].symbol)) return false;
  const Expr *before = ex_addi(m, mesh_coordinate(m, mb), -1);
  return set_attr(f, at, AT_start,
                  attr_e(AT_start, ex_subst(m, start, m->mesh.axes[mb].symbol, ex_max(m, before, ex_const(m, 0)))));
}

static bool shifted_window(Module *m, Func *f, size_t at) {
  const Attr *t = op_attr(op_at(f, at), AT_target);
  if (op_at(f, at)->kind != OP_exchange) return false;
  const Expr *moved[2] = {ex_addi(m, t->u.exprs[0], 1), ex_addi(m, t->u.exprs[1], 1)};
  return set_attr(f, at, AT_target, attr_exprs(m, AT_target, 2, moved));
}

static bool wrong_source(Module *m, Func *f, size_t at) {
  const Attr *t = op_attr(op_at(f, at), AT_source);
  if (op_at(f, at)->kind != OP_exchange) return false;
  const Expr *moved[2] = {ex_const(m, 0), ex_sub(m, t->u.exprs[1], t->u.exprs[0])};
  return set_attr(f, at, AT_source, attr_exprs(m, AT_source, 2, moved));
}

static bool swapped_operands(Module *m, Func *f, size_t at) {
  (void)m;
  Op *op = op_at(f, at);
  bool mlp = op->kind == OP_grouped_mlp; /* gate and up */
  if (op->kind != OP_sub && op->kind != OP_div && op->kind != OP_le && !mlp) return false;
  Val *in = (Val *)(uintptr_t)op->in + (mlp ? 2 : 0), t = in[0];
  if (in[0] == in[1]) return false;
  in[0] = in[1];
  in[1] = t;
  return true;
}

static bool another_stream(Module *m, Func *f, size_t at) {
  (void)m;
  if (op_at(f, at)->kind != OP_random_keyed) return false;
  return set_attr(f, at, AT_stream, attr_i(AT_stream, op_int(op_at(f, at), AT_stream, 0) + 1));
}

static bool local_random(Module *m, Func *f, size_t at) {
  Op *op = op_at(f, at);
  const Expr *zero[MAX_RANK];
  if (op->kind != OP_random && op->kind != OP_random_keyed) return false;
  const Attr *starts = op_attr(op, AT_starts);
  bool any = false;
  for (int d = 0; d < starts->n; d++) {
    zero[d] = ex_const(m, 0);
    any |= starts->u.exprs[d] != zero[d];
  }
  return any && set_attr(f, at, AT_starts, attr_exprs(m, AT_starts, starts->n, zero));
}

/* Changes no value, only the order of a sum. */
static bool sum_out_of_place(Module *m, Func *f, size_t at) {
  Op *op = op_at(f, at);
  const Attr *starts = op_attr(op, AT_starts);
  const Expr *zero[MAX_RANK];
  if (op->kind != OP_reduce || !starts) return false;
  for (int i = 0; i < starts->n; i++) zero[i] = ex_const(m, 0);
  return set_attr(f, at, AT_starts, attr_exprs(m, AT_starts, starts->n, zero));
}

static bool reduced_twice(Module *m, Func *f, size_t at) {
  (void)m;
  Op *op = op_at(f, at);
  if (op->nin != 1 || op_of(f, op->in[0])->kind != OP_all_reduce || op->kind == OP_all_reduce) return false;
  const Op *reduce = op_of(f, op->in[0]);
  for (size_t i = 0; i < f->ops.n; i++) { /* another reduction of equal shape takes this one's result */
    Op *other = op_at(f, i);
    if (other->kind == OP_all_reduce && other->out > reduce->out && type_of(f, other->out) == type_of(f, reduce->out)) {
      ((Val *)(uintptr_t)other->in)[0] = reduce->out;
      return true;
    }
  }
  return false;
}

/* Each rank decides on rounds by its own value, not by that of the first. */
static bool own_decision(Module *m, Func *f, size_t at) {
  Op *op = op_at(f, at);
  int k = op->kind == OP_loop ? 0 : 1;
  (void)m;
  if ((op->kind != OP_loop && op->kind != OP_repeat) || op->nin <= k || op_of(f, op->in[k])->kind != OP_all_reduce)
    return false;
  const Op *mask = op_of(f, op_of(f, op->in[k])->in[0]);
  if (mask->kind != OP_mask_partial) return false;
  ((Val *)(uintptr_t)op->in)[k] = mask->in[0];
  return true;
}

static bool no_condition(Module *m, Func *f, size_t at) {
  (void)m;
  if (op_at(f, at)->kind != OP_repeat || op_at(f, at)->nin < 2) return false;
  op_at(f, at)->nin = 1;
  return true;
}

static bool fewer_rounds(Module *m, Func *f, size_t at) {
  if (op_at(f, at)->kind != OP_loop) return false;
  return set_attr(f, at, AT_trips, attr_e(AT_trips, ex_addi(m, op_expr(op_at(f, at), AT_trips), -1)));
}

/* Two carries of a type swap their initial values, or their next ones. */
static bool exchanged(Func *f, size_t at, OpKind kind, int operand) {
  Op *op = op_at(f, at), *other = op + 1;
  if (op->kind != kind || at + 1 == f->ops.n || other->kind != kind) return false;
  Val *a = (Val *)(uintptr_t)&op->in[operand], *b = (Val *)(uintptr_t)&other->in[operand], v = *a;
  if (v == *b || type_of(f, v) != type_of(f, *b)) return false;
  *a = *b;
  *b = v;
  return true;
}

static bool exchanged_starts(Module *m, Func *f, size_t at) { return (void)m, exchanged(f, at, OP_carry, 0); }
static bool exchanged_nexts(Module *m, Func *f, size_t at) { return (void)m, exchanged(f, at, OP_leave, 1); }

static bool carry_stays(Module *m, Func *f, size_t at) {
  Op *op = op_at(f, at);
  (void)m;
  if (op->kind != OP_leave || op->in[1] == op->in[0]) return false;
  ((Val *)(uintptr_t)op->in)[1] = op->in[0];
  return true;
}

/* The next value of a carry is another part than before. */
static bool moved_carry(Module *m, Func *f, size_t at) {
  if (op_at(f, at)->kind != OP_leave) return false;
  const Op *made = op_of(f, op_at(f, at)->in[1]);
  return made->kind == OP_shard_slice && mirrored_offset(m, f, (size_t)(made - f->ops.items));
}

/* ---- indexing and order */

static bool mirrored_place(Module *m, Func *f, size_t at) {
  return has_place(op_at(f, at)->kind) && mirrored_start(m, f, at);
}

/* Rows that several ranks have added to are taken as whole. */
static bool rows_not_reduced(Module *m, Func *f, size_t at) {
  (void)m;
  if (op_at(f, at)->kind != OP_all_reduce) return false;
  OpKind k = op_of(f, op_at(f, at)->in[0])->kind;
  return (k == OP_scatter || k == OP_put || k == OP_take || op_is_windowed(k)) && skip(f, at);
}

/* A value that every rank holds enters a sum once from each. */
static bool counted_by_all(Module *m, Func *f, size_t at) {
  (void)m;
  return op_at(f, at)->kind == OP_mask_partial && skip(f, at);
}

/* Every rank scatters all updates, not those of its part. */
static bool updates_of_all(Module *m, Func *f, size_t at) {
  Op *op = op_at(f, at);
  (void)m;
  if (op->kind != OP_scatter && op->kind != OP_put) return false;
  Val *in = (Val *)(uintptr_t)op->in;
  for (int i = 0; i < 2; i++) {
    if (op_of(f, in[i])->kind != OP_shard_slice) return false;
    in[i] = op_of(f, in[i])->in[0];
  }
  return true;
}

/* op(all_gather(x)) becomes all_gather(op(x)): sorted within parts, prefixes without those of earlier ranks. */
static bool ordered_in_parts(Module *m, Func *f, size_t at) {
  Op *op = op_at(f, at);
  (void)m;
  if (op->kind != OP_argsort && op->kind != OP_scan) return false;
  Op *gather = op_at(f, (size_t)f->values.items[op->in[0]].op);
  int uses = 0;
  if (gather->kind != OP_all_gather || op_int(gather, AT_axis, 0) != op_int(op, AT_axis, 0)) return false;
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; k < f->ops.items[i].nin; k++) uses += f->ops.items[i].in[k] == gather->out;
  if (uses != 1) return false;
  Op first = *gather, second = *op;
  *gather = second, *op = first;
  gather->name = first.name, gather->in = first.in, gather->out = first.out;
  op->name = second.name, op->in = second.in, op->out = second.out;
  f->values.items[gather->out].type = type_with_dtype(m, type_of(f, gather->in[0]), type_of(f, op->out)->dtype);
  return true;
}

static bool other_order(Module *m, Func *f, size_t at) {
  static const AttrKey keys[] = {AT_exclusive, AT_reverse, AT_descending};
  AttrKey key = op_at(f, at)->kind == OP_argsort ? keys[2] : keys[at % 2];
  (void)m;
  return set_attr(f, at, key, attr_i(key, !op_int(op_at(f, at), key, 0)));
}

/* Readers of the first result read the second. */
static bool another_result(Module *m, Func *f, size_t at) {
  Op *op = op_at(f, at);
  (void)m;
  if (op->nout < 2 || type_of(f, op->out) != type_of(f, op->out + 1)) return false;
  replace_uses(f, op->out, op->out + 1);
  return true;
}

/* The smallest instead of the largest. */
static bool other_end(Module *m, Func *f, size_t at) {
  Op *op = op_at(f, at);
  (void)m;
  if (op->kind != OP_topk) return false;
  return set_attr(f, at, AT_descending, attr_i(AT_descending, !op_int(op, AT_descending, 0)));
}

/* ---- windows */

static const Expr *begins_later(Module *m, const Expr *start) { return ex_addi(m, start, 1); }
static const Expr *begins_with_first(Module *m, const Expr *start) {
  for (int a = 0; a < m->mesh.naxes; a++) start = ex_subst(m, start, m->mesh.axes[a].symbol, ex_const(m, 0));
  return start;
}

static bool move_windows(Module *m, Func *f, size_t at, const Expr *(*moved)(Module *, const Expr *)) {
  const Expr *list[MAX_WINDOWED];
  const Attr *starts = op_attr(op_at(f, at), AT_starts);
  bool any = false;
  if (!op_is_windowed(op_at(f, at)->kind)) return false;
  for (int i = 0; i < starts->n; i++) {
    list[i] = moved(m, starts->u.exprs[i]);
    any |= list[i] != starts->u.exprs[i];
  }
  return any && set_attr(f, at, AT_starts, attr_exprs(m, AT_starts, starts->n, list));
}

static bool later_windows(Module *m, Func *f, size_t at) { return move_windows(m, f, at, begins_later); }
static bool first_windows(Module *m, Func *f, size_t at) { return move_windows(m, f, at, begins_with_first); }
static bool mirrored_windows(Module *m, Func *f, size_t at) { return move_windows(m, f, at, mirrored); }

static bool other_steps(Module *m, Func *f, size_t at) {
  AttrKey key = at % 2 ? AT_strides : AT_dilations;
  const Attr *a = op_attr(op_at(f, at), key);
  int64_t steps[MAX_RANK];
  for (int i = 0; a && i < a->n; i++) steps[i] = a->u.ints[i] + 1;
  return a && set_attr(f, at, key, attr_ints(m, key, a->n, steps));
}

/* Windows see only this rank's part, nothing of its neighbours. */
static bool no_halo(Module *m, Func *f, size_t at) {
  Op *op = op_at(f, at);
  const Attr *source = op_attr(op, AT_source);
  if (op->kind != OP_exchange || op_attr(op, AT_target)->u.exprs[0] == source->u.exprs[0]) return false;
  f->values.items[op->out].type = type_of(f, op->in[0]);
  return set_attr(f, at, AT_target, attr_exprs(m, AT_target, 2, source->u.exprs));
}

static const Fault faults[] = {
    {"dropped all-reduce", drop_all_reduce},
    {"wrong group", wrong_group},
    {"wrong reduction", wrong_reduction},
    {"swapped gather order", wrong_gather_axis},
    {"bias on every rank", early_bias},
    {"missing shard offset", wrong_offset},
    {"mirrored shard offset", mirrored_offset},
    {"mean of the local extent", local_mean},
    {"doubled scale", doubled_scale},
    {"wrong mask offset", wrong_mask_offset},
    {"missing place", missing_place},
    {"stale micro-batch slot", stale_slot},
    {"shifted window", shifted_window},
    {"wrong exchange source", wrong_source},
    {"swapped operands", swapped_operands},
    {"local random numbers", local_random},
    {"another stream", another_stream},
    {"reduced twice", reduced_twice},
    {"sum out of place", sum_out_of_place},
    {"own decision on rounds", own_decision},
    {"no condition", no_condition},
    {"fewer rounds", fewer_rounds},
    {"exchanged starts", exchanged_starts},
    {"exchanged next values", exchanged_nexts},
    {"carry stays", carry_stays},
    {"moved carry", moved_carry},
    {"place of another rank", mirrored_place},
    {"rows not reduced", rows_not_reduced},
    {"counted by all", counted_by_all},
    {"updates of all", updates_of_all},
    {"ordered in parts", ordered_in_parts},
    {"other order", other_order},
    {"later windows", later_windows},
    {"first rank's windows", first_windows},
    {"another rank's windows", mirrored_windows},
    {"other steps", other_steps},
    {"no halo", no_halo},
    {"another result", another_result},
    {"other end", other_end},
};
enum { FAULTS = (int)(sizeof faults / sizeof faults[0]) };

static int proved, loops_in_time, planted[FAULTS], planted_here[FAULTS], refuted[FAULTS], unknown[FAULTS],
    wrongly[FAULTS], unproved, harmless_count;

/* ---- the judge of proved mutants: are they really harmless? */

static bool run_func(Module *m, const Func *f, Arena *a, InterpResult *out) {
  Diags *d = diags_new(a);
  int64_t *symbols = interp_symbols(m, a);
  int b = module_symbol_find(m, "b"), n = 0;
  if (b >= 0) symbols[b] = 5;
  InterpNamed *params = ARENA_ARRAY(a, InterpNamed, m->params.n), *states = ARENA_ARRAY(a, InterpNamed, m->states.n);
  InterpOptions o = {.symbols = symbols, .params = params, .states = states, .tolerance = 1e-9};
  for (size_t i = 0; i < m->params.n + m->states.n; i++) {
    bool param = i < m->params.n;
    const Type *t = param ? m->params.items[i].type : m->states.items[i - m->params.n].type;
    InterpNamed *x = param ? &params[o.nparams++] : &states[o.nstates++];
    int64_t dims[MAX_RANK];
    type_constant_dims(t, dims);
    x->name = param ? m->params.items[i].name : m->states.items[i - m->params.n].name;
    x->tensor = interp_tensor(a, t->dtype, t->rank, dims);
    interp_fill(&x->tensor, DOMAIN_FLOAT, 77 + i, -1, 1);
  }
  InterpNamed *inputs = interp_random_inputs(m, module_func(m, "main"), DOMAIN_FLOAT, symbols, 5, a, &n, d);
  return interp_run(m, f, &o, n, inputs, a, out, d);
}

static bool harmless(Module *m, const Func *l1, const Func *f) {
  Arena *a = arena_new();
  InterpResult want, got;
  bool same = run_func(m, l1, a, &want) && run_func(m, f, a, &got) && want.noutputs == got.noutputs &&
              want.nstates == got.nstates;
  for (int i = 0; same && i < want.noutputs; i++)
    same = interp_equal(&want.outputs[i].tensor, &got.outputs[i].tensor, DOMAIN_FLOAT, 1e-7, a, NULL);
  for (int i = 0; same && i < want.nstates; i++)
    same = interp_equal(&want.states[i].tensor, &got.states[i].tensor, DOMAIN_FLOAT, 1e-7, a, NULL);
  arena_free(a);
  return same;
}

static void plant_all(Module *m, const Func *l1, const Func *l2, const char *what) {
  for (int k = 0; k < FAULTS; k++)
    for (size_t i = 0; i < l2->ops.n; i++) {
      if (planted_here[k] >= 60) break;
      Func *f = copy_func(m, l2);
      Arena *scratch = arena_new();
      Diags *d = diags_new(scratch);
      if (faults[k].plant(m, f, i) && verify_func(m, f, d)) {
        Proof p = prove(m, l1, f);
        if (p.verdict == PROVED && harmless(m, l1, f)) {
          harmless_count++;
          arena_free(scratch);
          continue;
        }
        planted[k]++, planted_here[k]++;
        if (p.verdict == PROVED) {
          wrongly[k]++;
          Text t = {.arena = scratch};
          op_print(m, &t, l2, &l2->ops.items[i]);
          fprintf(stderr, "PROVED with fault \"%s\" at: %s\n  in %s\n", faults[k].name, text_str(&t), what);
        } else if (p.verdict == REFUTED) refuted[k]++;
        else unknown[k]++;
      }
      arena_free(scratch);
    }
}

/* Random over the spatial axes; the micro-batch axis cuts exactly the factors of the batch's extent, as the planner
 * does. */
static Strategy draw_strategy(Module *m, const Func *l1, const Op *op) {
  const Rule *r = rule_of(m, l1, op);
  const Strategy *list;
  Mesh whole = m->mesh;
  int mb = mesh_axis_find(&whole, "mb");
  if (mb >= 0) m->mesh.naxes = mb; /* it is the last axis */
  int n = strategy_enumerate(m->arena, m, r, true, &list);
  Strategy s = list[draw((uint32_t)n)];
  m->mesh = whole;
  if (mb < 0) return s;
  for (int f = 0; f < r->nfactors; f++) {
    if (!r->factors[f].size || r->factors[f].size != ex_sym(m, module_symbol(m, "b"))) continue;
    memmove(&s.picks[1], &s.picks[0], sizeof(Pick) * (size_t)s.n); /* the major axis: time never has to move */
    s.picks[0] = (Pick){(uint8_t)mb, (uint8_t)f};
    s.n++;
  }
  return s;
}

static void run_case(const char *model, const char *mesh, uint64_t case_seed, bool plant) {
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  const char *what = arena_printf(a, "mesh %.*s seed %llu", (int)strlen(mesh) - 1, mesh, (unsigned long long)case_seed);
  Module *m = ir_parse("model", arena_printf(a, "apc.ir 1\n%s%s", mesh, model), d);
  seed = case_seed;
  CHECKF(m != NULL, "%s", what);
  if (m) {
    const Func *l1 = module_func(m, "main");
    Strategy *s = ARENA_ARRAY(a, Strategy, l1->ops.n);
    for (size_t i = 0; i < l1->ops.n; i++) {
      const Op *op = &l1->ops.items[i];
      s[i] = op->kind == OP_leave ? s[l1->values.items[op->in[0]].op] : draw_strategy(m, l1, op);
    }
    LowerPlan plan = {.strategies = s};
    const Func *l2 = lower_spmd(m, l1, &plan, "rank", d);
    if (l2) { /* a strategy on the micro-batch axis may have no conversion back */
      CHECKF(verify_func(m, l2, d), "%s", what);
      Proof p = prove(m, l1, l2);
      if (p.verdict == PROVED) {
        proved++;
        loops_in_time += strstr(mesh, "time") && strstr(model, " = loop ");
        if (plant) CHECKF(harmless(m, l1, l2), "%s: proved, and other numbers", what);
        if (plant) plant_all(m, l1, l2, what);
      } else {
        unproved++;
        Text t = {.arena = a};
        func_print(m, &t, l2);
        CHECKF(false, "%s: %s at %s: %s\n%s", what, verdict_name(p.verdict), p.op, p.reason,
               unproved < 4 ? text_str(&t) : "");
      }
    } else {
      CHECKF(strstr(mesh, "time"), "%s", what);
    }
  }
  if (test_failed_here) diags_print(d, stderr, false);
  module_free(m);
  arena_free(a);
}

static void models_are_proved(void) {
  const char *const models[] = {block, shapes, cached, recurrent, windowed, windowed_late, indexed, mixture, attended};
  for (int k = 0; k < 9; k++) {
    memset(planted_here, 0, sizeof planted_here);
    for (int i = 0; i < (k == 0 || k == 3 || k == 7 ? 6 : 5); i++) /* the others have no batch */
      for (uint64_t s = 0; s < (k == 0 ? 12 : 16); s++)
        run_case(models[k], meshes[i], 1000 * s + (uint64_t)(10 * i + k), s < (models[k] == indexed ? 10 : 3));
  }
}

static void faults_are_refuted(void) {
  int kinds = 0, total = 0;
  for (int k = 0; k < FAULTS; k++) {
    printf("  %-26s planted %4d  refuted %4d  unknown %3d  proved %d\n", faults[k].name, planted[k], refuted[k],
           unknown[k], wrongly[k]);
    CHECKF(wrongly[k] == 0, "%s", faults[k].name);
    CHECKF(planted[k] > 0, "%s was never planted", faults[k].name);
    kinds += refuted[k] > 0;
    total += refuted[k];
  }
  printf(
      "  %d programs proved, %d loops with micro-batches, %d faults of %d kinds refuted, %d harmless changes proved "
      "and confirmed by running them\n",
      proved, loops_in_time, total, kinds, harmless_count);
  CHECK(kinds >= 10);
  CHECK(loops_in_time > 0); /* with micro-batches */
  CHECK(total >= 200);
}

int main(void) {
  RUN(models_are_proved);
  RUN(faults_are_refuted);
  return test_summary();
}
