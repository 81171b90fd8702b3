/* The prover accepts every lowering of these models under random strategies, and refutes seeded faults (D35).
 *
 * Each case: a level-1 model, a mesh, random legal strategies; the lowered program must be proved.  Then every place where a fault
 * of some kind can be planted gets one, and the prover judges the mutant without running it.  A mutant may be harmless (a
 * constant cut at the wrong place is still that constant): one that is proved is run in the interpreter, and must there give
 * what level 1 gives.  The seed of a failing case is printed.
 */
#include <stdlib.h>

#include "ir/interp.h"
#include "ir/prove.h"
#include "passes/lower.h"
#include "tests/test.h"

static const char *const block =
    "symbol b\n"
    "param \"emb\" : f32[10, 8] = zeros\nparam \"g\" : f32[8] = zeros\nparam \"wq\" : f32[8, 4, 2] = zeros\n"
    "param \"wk\" : f32[8, 4, 2] = zeros\nparam \"wv\" : f32[8, 4, 2] = zeros\nparam \"wo\" : f32[4, 2, 8] = zeros\n"
    "param \"bo\" : f32[8] = zeros\nparam \"w1\" : f32[8, 12] = zeros\nparam \"b1\" : f32[12] = zeros\nparam \"w2\" : f32[12, 8] = zeros\n"
    "func @main level 1 {\n"
    "  %ids = input {name=\"ids\"} : i64[b, 6]\n"
    "  %emb = param {name=\"emb\"} : f32[10, 8]\n"
    "  %x = gather %emb, %ids {axis=0, start=0} : f32[b, 6, 8]\n"
    "  %n = norm %x {eps=1e-05, kind=\"layer\"} : f32[b, 6, 8]\n"
    "  %g = param {name=\"g\"} : f32[8]\n"
    "  %gb = broadcast %g {dims=[2]} : f32[b, 6, 8]\n"
    "  %ng = mul %n, %gb : f32[b, 6, 8]\n"
    "  %wq = param {name=\"wq\"} : f32[8, 4, 2]\n"
    "  %wk = param {name=\"wk\"} : f32[8, 4, 2]\n"
    "  %wv = param {name=\"wv\"} : f32[8, 4, 2]\n"
    "  %q = dot %ng, %wq {spec=\"bsd,dhk->bshk\"} : f32[b, 6, 4, 2]\n"
    "  %k = dot %ng, %wk {spec=\"bsd,dhk->bshk\"} : f32[b, 6, 4, 2]\n"
    "  %v = dot %ng, %wv {spec=\"bsd,dhk->bshk\"} : f32[b, 6, 4, 2]\n"
    "  %s = dot %q, %k {spec=\"bshk,bthk->bhst\"} : f32[b, 4, 6, 6]\n"
    "  %scale = const {value=0.5} : f32[b, 4, 6, 6]\n"
    "  %ss = mul %s, %scale : f32[b, 4, 6, 6]\n"
    "  %i = iota {axis=2, start=0} : i64[b, 4, 6, 6]\n"
    "  %j = iota {axis=3, start=0} : i64[b, 4, 6, 6]\n"
    "  %mask = le %j, %i : bool[b, 4, 6, 6]\n"
    "  %low = const {value=-1e30} : f32[b, 4, 6, 6]\n"
    "  %sm = select %mask, %ss, %low : f32[b, 4, 6, 6]\n"
    "  %p = softmax %sm {axis=3} : f32[b, 4, 6, 6]\n"
    "  %a = dot %p, %v {spec=\"bhst,bthk->bshk\"} : f32[b, 6, 4, 2]\n"
    "  %wo = param {name=\"wo\"} : f32[4, 2, 8]\n"
    "  %o = dot %a, %wo {spec=\"bshk,hkd->bsd\"} : f32[b, 6, 8]\n"
    "  %bo = param {name=\"bo\"} : f32[8]\n"
    "  %bob = broadcast %bo {dims=[2]} : f32[b, 6, 8]\n"
    "  %ob = add %o, %bob : f32[b, 6, 8]\n"
    "  %r = add %x, %ob : f32[b, 6, 8]\n"
    "  %w1 = param {name=\"w1\"} : f32[8, 12]\n"
    "  %h = dot %r, %w1 {spec=\"bsd,df->bsf\"} : f32[b, 6, 12]\n"
    "  %b1 = param {name=\"b1\"} : f32[12]\n"
    "  %b1b = broadcast %b1 {dims=[2]} : f32[b, 6, 12]\n"
    "  %hb = add %h, %b1b : f32[b, 6, 12]\n"
    "  %act = tanh %hb : f32[b, 6, 12]\n"
    "  %w2 = param {name=\"w2\"} : f32[12, 8]\n"
    "  %y = dot %act, %w2 {spec=\"bsf,fd->bsd\"} : f32[b, 6, 8]\n"
    "  %ry = add %r, %y : f32[b, 6, 8]\n"
    "  %m = reduce %ry {axes=[1], op=sum} : f32[b, 8]\n"
    "  %count = size {expr=6} : f32[b, 8]\n"
    "  %mean = div %m, %count : f32[b, 8]\n"
    "  %bi = iota {axis=0, start=0} : f32[b, 8]\n"
    "  %mbi = mul %mean, %bi : f32[b, 8]\n"
    "  output \"y\" %ry\n"
    "  output \"mean\" %mbi\n"
    "}\n";

static const char *const shapes =
    "param \"w\" : f32[12, 6] = zeros\n"
    "func @main level 1 {\n"
    "  %x = input {name=\"x\"} : f32[7, 12]\n"
    "  %w = param {name=\"w\"} : f32[12, 6]\n"
    "  %d = dot %x, %w {spec=\"ab,bc->ac\"} : f32[7, 6]\n"
    "  %t = transpose %d {perm=[1, 0]} : f32[6, 7]\n"
    "  %s = slice %t {starts=[1, 2], strides=[1, 1]} : f32[4, 5]\n"
    "  %p = pad %s {low=[1, 0], high=[2, 3], value=0} : f32[7, 8]\n"
    "  %c = concat %p, %p {axis=1} : f32[7, 16]\n"
    "  %h = reshape %c : f32[7, 4, 4]\n"
    "  %e = exp %h : f32[7, 4, 4]\n"
    "  %m = reshape %e : f32[7, 16]\n"
    "  %mx = reduce %m {axes=[1], op=max} : f32[7]\n"
    "  %mb = broadcast %mx {dims=[0]} : f32[7, 16]\n"
    "  %z = sub %m, %mb : f32[7, 16]\n"
    "  %rand = random {extents=[7, 16], kind=\"uniform\", seed=7, starts=[0, 0]} : f32[7, 16]\n"
    "  %zr = mul %z, %rand : f32[7, 16]\n"
    "  %tot = reduce %zr {axes=[0, 1], op=sum} : f32[]\n"
    "  output \"z\" %zr\n"
    "  output \"tot\" %tot\n"
    "}\n";

static const char *const cached =
    "state \"cache\" : f32[4, 8, 6] = 0\n"
    "func @main level 1 {\n"
    "  %x = input {name=\"x\"} : f32[4, 2, 6]\n"
    "  %pos = input {name=\"pos\"} : i64[]\n"
    "  %old = read {name=\"cache\"} : f32[4, 8, 6]\n"
    "  %new = update %old, %x, %pos {axis=1, start=0} : f32[4, 8, 6]\n"
    "  write \"save\" %new {name=\"cache\"}\n"
    "  %k = transpose %new {perm=[0, 2, 1]} : f32[4, 6, 8]\n"
    "  %s = reduce %k {axes=[2], op=sum} : f32[4, 6]\n"
    "  output \"s\" %s\n"
    "}\n";

/* Scanned inputs, stacked results, carries that are swapped, a loop in a loop, rounds and a condition that the data decide. */
static const char *const recurrent =
    "symbol b\n"
    "param \"wx\" : f32[3, 8] = zeros\nparam \"wh\" : f32[8, 8] = zeros\n"
    "func @main level 1 {\n"
    "  %x = input {name=\"x\"} : f32[6, b, 3]\n"
    "  %h0 = input {name=\"h0\"} : f32[b, 8]\n"
    "  %wx = param {name=\"wx\"} : f32[3, 8]\n"
    "  %wh = param {name=\"wh\"} : f32[8, 8]\n"
    "  %sum = reduce %wh {axes=[0, 1], op=sum} : f32[]\n"
    "  %most = abs %sum : f32[]\n"
    "  %four = const {value=4} : f32[]\n"
    "  %rounds = add %most, %four : f32[]\n"
    "  %n = cast %rounds {to=i64} : i64[]\n"
    "  %zero = const {value=0} : f32[]\n"
    "  %zeros = const {value=0} : f32[b, 8]\n"
    "  %stack = const {value=0} : f32[6, b, 8]\n"
    "  %t = loop %n {trips=6} : i64[]\n"
    "  %h = carry %h0 : f32[b, 8]\n"
    "  %g = carry %zeros : f32[b, 8]\n"
    "  %y = carry %stack : f32[6, b, 8]\n"
    "  %s = carry %zero : f32[]\n"
    "  %xt = gather %x, %t {axis=0, start=0} : f32[b, 3]\n"
    "  %xw = dot %xt, %wx {spec=\"bi,id->bd\"} : f32[b, 8]\n"
    "  %two = size {expr=2} : i64[]\n"
    "  %u = loop %two {trips=2} : i64[]\n"
    "  %k = carry %h : f32[b, 8]\n"
    "  %kw = dot %k, %wh {spec=\"bk,kd->bd\"} : f32[b, 8]\n"
    "  %kx = add %kw, %xw : f32[b, 8]\n"
    "  %kt = tanh %kx : f32[b, 8]\n"
    "  repeat \"inner\" %u\n"
    "  %kl = leave %k, %kt : f32[b, 8]\n"
    "  %h1 = sub %kl, %g : f32[b, 8]\n"
    "  %row = reshape %h1 : f32[1, b, 8]\n"
    "  %y1 = update %y, %row, %t {axis=0, start=0} : f32[6, b, 8]\n"
    "  %s1 = add %s, %most : f32[]\n"
    "  %again = lt %s1, %four : bool[]\n"
    "  repeat \"outer\" %t, %again\n"
    "  %hl = leave %h, %h1 : f32[b, 8]\n"
    "  %gl = leave %g, %h : f32[b, 8]\n"
    "  %yl = leave %y, %y1 : f32[6, b, 8]\n"
    "  %sl = leave %s, %s1 : f32[]\n"
    "  output \"h\" %hl\n"
    "  output \"g\" %gl\n"
    "  output \"y\" %yl\n"
    "}\n";

static const char *const meshes[] = {"mesh [x=2]\n", "mesh [x=3]\n", "mesh [x=2, y=2]\n", "mesh [x=2, y=3]\n", "mesh [x=2, y=2, z=2]\n", "mesh [x=2, mb=2 time]\n"};

static uint64_t seed;
static uint32_t draw(uint32_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((seed >> 33) % n);
}

/* ---- faults: each takes a copy of the program and the operation to spoil; false when it does not apply there */

typedef struct Fault {
  const char *name;
  bool (*plant)(Module *m, Func *f, size_t at);
} Fault;

static Op *op_at(Func *f, size_t at) { return &f->ops.items[at]; }

static void replace_uses(Func *f, Val old, Val by) {
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; k < f->ops.items[i].nin; k++)
      if (f->ops.items[i].in[k] == old) ((Val *)(uintptr_t)f->ops.items[i].in)[k] = by;
  for (size_t i = 0; i < f->outputs.n; i++)
    if (f->outputs.items[i].value == old) f->outputs.items[i].value = by;
}

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

/* The bias lands on every partial sum: add(all_reduce(x), b) becomes all_reduce(add(x, b)). */
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

static bool mirrored_offset(Module *m, Func *f, size_t at) {
  Op *op = op_at(f, at);
  if (op->kind != OP_shard_slice) return false;
  const Expr *start = op_expr(op, AT_start);
  for (int a = 0; a < m->mesh.naxes; a++)
    if (ex_uses(start, m->mesh.axes[a].symbol)) {
      const Expr *mirror = ex_sub(m, ex_const(m, m->mesh.axes[a].size - 1), mesh_coordinate(m, a));
      return set_attr(f, at, AT_start, attr_e(AT_start, ex_subst(m, start, m->mesh.axes[a].symbol, mirror)));
    }
  return false;
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

static bool wrong_mask_offset(Module *m, Func *f, size_t at) {
  OpKind k = op_at(f, at)->kind;
  if (k != OP_iota && k != OP_gather && k != OP_update) return false;
  return set_attr(f, at, AT_start, attr_e(AT_start, ex_addi(m, op_expr(op_at(f, at), AT_start), 1)));
}

static bool missing_place(Module *m, Func *f, size_t at) {
  OpKind k = op_at(f, at)->kind;
  if ((k != OP_iota && k != OP_gather && k != OP_update) || ex_is_const(op_expr(op_at(f, at), AT_start), 0)) return false;
  return set_attr(f, at, AT_start, attr_e(AT_start, ex_const(m, 0)));
}

static bool stale_slot(Module *m, Func *f, size_t at) {
  int mb = mesh_axis_find(&m->mesh, "mb");
  if (mb < 0) return false;
  const Expr *start = op_expr(op_at(f, at), AT_start);
  if (!start || !ex_uses(start, m->mesh.axes[mb].symbol)) return false;
  const Expr *before = ex_addi(m, mesh_coordinate(m, mb), -1);
  return set_attr(f, at, AT_start, attr_e(AT_start, ex_subst(m, start, m->mesh.axes[mb].symbol, ex_max(m, before, ex_const(m, 0)))));
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
  if ((op->kind != OP_sub && op->kind != OP_div && op->kind != OP_le) || op->in[0] == op->in[1]) return false;
  Val *in = (Val *)(uintptr_t)op->in, t = in[0];
  in[0] = in[1];
  in[1] = t;
  return true;
}

static bool local_random(Module *m, Func *f, size_t at) {
  Op *op = op_at(f, at);
  const Expr *zero[MAX_RANK];
  if (op->kind != OP_random) return false;
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

/* What decides on rounds is what each rank has computed, not what the first one has. */
static bool own_decision(Module *m, Func *f, size_t at) {
  Op *op = op_at(f, at);
  int k = op->kind == OP_loop ? 0 : 1;
  (void)m;
  if ((op->kind != OP_loop && op->kind != OP_repeat) || op->nin <= k || op_of(f, op->in[k])->kind != OP_all_reduce) return false;
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

/* Two carries of a type begin, or go on, as the other one. */
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

/* What a carry becomes is another part than it was. */
static bool moved_carry(Module *m, Func *f, size_t at) {
  if (op_at(f, at)->kind != OP_leave) return false;
  const Op *made = op_of(f, op_at(f, at)->in[1]);
  return made->kind == OP_shard_slice && mirrored_offset(m, f, (size_t)(made - f->ops.items));
}

static const Fault faults[] = {
    {"dropped all-reduce", drop_all_reduce}, {"wrong group", wrong_group}, {"wrong reduction", wrong_reduction},
    {"swapped gather order", wrong_gather_axis}, {"bias on every rank", early_bias}, {"missing shard offset", wrong_offset},
    {"mirrored shard offset", mirrored_offset}, {"mean of the local extent", local_mean}, {"doubled scale", doubled_scale},
    {"wrong mask offset", wrong_mask_offset}, {"missing place", missing_place}, {"stale micro-batch slot", stale_slot},
    {"shifted window", shifted_window}, {"wrong exchange source", wrong_source}, {"swapped operands", swapped_operands},
    {"local random numbers", local_random}, {"reduced twice", reduced_twice}, {"sum out of place", sum_out_of_place},
    {"own decision on rounds", own_decision}, {"no condition", no_condition}, {"fewer rounds", fewer_rounds}, {"exchanged starts", exchanged_starts},
    {"exchanged next values", exchanged_nexts}, {"carry stays", carry_stays}, {"moved carry", moved_carry},
};
enum { FAULTS = (int)(sizeof faults / sizeof faults[0]) };

static int proved, loops_in_time, planted[FAULTS], refuted[FAULTS], unknown[FAULTS], wrongly[FAULTS], unproved, harmless_count;

/* ---- cases */

static Func *copy_func(Module *m, const Func *f) {
  Func *g = ARENA_NEW(m->arena, Func);
  *g = *f;
  g->ops.items = ARENA_ARRAY(m->arena, Op, f->ops.n);
  memcpy(g->ops.items, f->ops.items, sizeof(Op) * f->ops.n);
  for (size_t i = 0; i < f->ops.n; i++) {
    Op *op = &g->ops.items[i];
    Val *in = ARENA_ARRAY(m->arena, Val, op->nin);
    Attr *attrs = ARENA_ARRAY(m->arena, Attr, op->nattrs);
    if (op->nin) memcpy(in, op->in, sizeof(Val) * (size_t)op->nin);
    if (op->nattrs) memcpy(attrs, op->attrs, sizeof(Attr) * (size_t)op->nattrs);
    op->in = in;
    op->attrs = attrs;
  }
  g->outputs.items = ARENA_ARRAY(m->arena, Output, f->outputs.n);
  memcpy(g->outputs.items, f->outputs.items, sizeof(Output) * f->outputs.n);
  return g;
}

/* ---- the judge of mutants that were proved: are they really harmless? */

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
  bool same = run_func(m, l1, a, &want) && run_func(m, f, a, &got) && want.noutputs == got.noutputs && want.nstates == got.nstates;
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
      if (planted[k] >= 400) break;
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
        planted[k]++;
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

/* Random over the spatial axes; the micro-batch axis cuts exactly the factors of the batch's extent, as the planner does. */
static Strategy draw_strategy(Module *m, const Func *l1, const Op *op) {
  const Rule *r = rule_of(m, l1, op);
  const Strategy *list;
  Mesh whole = m->mesh;
  int mb = mesh_axis_find(&whole, "mb");
  if (mb >= 0) m->mesh.naxes = mb; /* it is the last axis */
  int n = strategy_enumerate(m, r, true, &list);
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
        CHECKF(false, "%s: %s at %s: %s\n%s", what, verdict_name(p.verdict), p.op, p.reason, unproved < 4 ? text_str(&t) : "");
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
  const char *const models[] = {block, shapes, cached, recurrent};
  for (int k = 0; k < 4; k++)
    for (int i = 0; i < (k == 0 || k == 3 ? 6 : 5); i++) /* the others have no batch */
      for (uint64_t s = 0; s < (k == 0 ? 12 : 30); s++) run_case(models[k], meshes[i], 1000 * s + (uint64_t)(10 * i + k), s < 4);
}

static void faults_are_refuted(void) {
  int kinds = 0, total = 0;
  for (int k = 0; k < FAULTS; k++) {
    printf("  %-26s planted %4d  refuted %4d  unknown %3d  proved %d\n", faults[k].name, planted[k], refuted[k], unknown[k], wrongly[k]);
    CHECKF(wrongly[k] == 0, "%s", faults[k].name);
    CHECKF(planted[k] > 0, "%s was never planted", faults[k].name);
    kinds += refuted[k] > 0;
    total += refuted[k];
  }
  printf("  %d programs proved, %d loops with micro-batches, %d faults of %d kinds refuted, %d harmless changes proved and confirmed by running them\n", proved, loops_in_time, total,
         kinds, harmless_count);
  CHECK(kinds >= 10);
  CHECK(loops_in_time > 0); /* with micro-batches */
  CHECK(total >= 200);
}

int main(void) {
  RUN(models_are_proved);
  RUN(faults_are_refuted);
  return test_summary();
}
