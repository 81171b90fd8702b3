/* passes/rewrite/narrow.c - computes a model of f32 in 16 bits: implements `--dtype f16` and `bf16` at level 1.
 *
 * In: flat level-1 functions.  Out: the same ones, in which products and operations on their results have operands and
 * results of the 16-bit type, with casts where values enter, leave or are needed in f32.  Weights are cast too, which
 * passes/rewrite/prepare.c moves to loading, and so are states to which such values are written.  Inputs and outputs
 * keep their types.  Kernels load and compute in f32 and round when they store; products add in f32 (docs/ir.md).  No
 * later pass knows of the option: prices, plans, proofs and code see the types.
 *
 * Every value has a role, found by going forward until nothing changes (loops and states lead back):
 *   NONE     integers, sizes, constants: positions and values computed from them (angles, masks) keep f32
 *   WEIGHT   weights, at most combined with constants
 *   KEPT     sums other than products (means, variances): f32 until they meet narrow values; f16 would overflow
 *   NARROW   all others: values that depend on float inputs, on products with weights, on rows looked up in weights
 * A product of a weight and a value of role NONE is narrow if it sums (one-hot rows); else it is an outer product and
 * keeps its role (frequencies times positions).
 *
 * Values that decide about indices are kept as well (topk, argsort, casts to integers, comparisons for equality): from
 * there back along the chain to the product that made them, which is kept too, with f32 weights.  Otherwise a router of
 * experts would choose among ties caused by rounding.
 *
 * Numbers beyond the type's largest, as in masks, become the largest; an infinite constant stays infinite.
 *
 * In a training step (recognised by a state that starts as a weight), states keep f32: they are the master copies of
 * weights and the optimizer's moments.  A weight is cast where it is used, as other weights are, in every step.  Values
 * that only reach writes and the step's results are kept, back to the products that they start from: the update, the
 * norm of gradients, the loss.  Sums of rows that an index picks (gradients of tables) are kept like other sums.
 *
 * Not supported: f64, which stays; loss scaling; choosing by operation.
 */
#include <math.h>
#include <string.h>

#include "passes/rewrite/passes.h"
#include "passes/rewrite/rewrite.h"

typedef enum Role { ROLE_NONE, ROLE_WEIGHT, ROLE_KEPT, ROLE_NARROW } Role;

typedef struct Narrow {
  Module *m;
  const Func *f;
  DType to;
  Role *role;      /* by value */
  bool *kept;      /* by operation: it decides about indices */
  Role *states;    /* by state of the module: the role of the written values */
  bool trains;     /* states keep f32 */
  bool more;       /* some role has grown */
  bool *huge;      /* by value of role NONE or WEIGHT: it contains a number beyond the type's largest */
  uint8_t *wanted; /* by value: bits of WANT_F32, WANT_NARROW */
  bool *narrow;    /* by operation: its f32 result becomes narrow */
  Rewrite r;
  Val *other; /* by old value: its new value of the other type; 0 if none */
  struct {
    Val *items;
    size_t n, cap;
  } waiting; /* old values of carries and leaves, whose casts must wait */
} Narrow;

enum { WANT_F32 = 1, WANT_NARROW = 2 };

static double largest(DType t) { return t == DT_f16 ? 65504 : 0x1.fep127; }

/* ---- roles */

static bool is_float(const Narrow *n, Val v) { return dtype_is_float(type_of(n->f, v)->dtype); }
static bool is_f32(const Narrow *n, Val v) { return type_of(n->f, v)->dtype == DT_f32; }

static size_t state_of(const Narrow *n, const Op *op) {
  const State *s = module_state(n->m, op_str(op, AT_name));
  return (size_t)(s - n->m->states.items);
}

static void grow(Narrow *n, Role *r, Role to) {
  if (*r >= to) return;
  *r = to;
  n->more = true;
}

static Role most(const Narrow *n, const Op *op) {
  Role r = ROLE_NONE;
  for (int i = 0; i < op->nin; i++)
    if (is_float(n, op->in[i]) && n->role[op->in[i]] > r) r = n->role[op->in[i]];
  return r;
}

/* True if the operation sums several terms; not if all summed dimensions have extent 1. */
static bool sums_terms(const Narrow *n, const Op *op) {
  if (op->kind != OP_dot) return true;
  const char *spec = op_str(op, AT_spec), *result = strchr(spec, '>') + 1;
  const Type *t = type_of(n->f, op->in[0]);
  for (int d = 0; d < t->rank; d++)
    if (!strchr(result, spec[d]) && !ex_is_const(t->dims[d], 1)) return true;
  return false;
}

static bool is_sum(const Narrow *n, const Op *op) {
  bool picks = n->trains && (op->kind == OP_scatter || op->kind == OP_put);
  if (op->kind != OP_reduce && op->kind != OP_scan && !picks) return false;
  Reduction r = op_attr(op, AT_op)->u.reduction;
  return r == RED_SUM || r == RED_PRODUCT;
}

static Role source_role(const Narrow *n, const Op *op) {
  switch (op->kind) {
    case OP_input: return type_of(n->f, op->out)->rank ? ROLE_NARROW : ROLE_NONE; /* a scalar input is a setting */
    case OP_param: return ROLE_WEIGHT;
    case OP_read: return n->states[state_of(n, op)];
    default: return ROLE_NONE;
  }
}

static Role role_of(const Narrow *n, const Op *op, bool kept) {
  if (op_is_source(op->kind)) return source_role(n, op);
  Role r = most(n, op);
  if (op_is_contraction(op->kind)) return kept ? ROLE_KEPT : r > ROLE_WEIGHT || sums_terms(n, op) ? ROLE_NARROW : r;
  if ((op->kind == OP_gather || op->kind == OP_take) && r == ROLE_WEIGHT && type_of(n->f, op->in[0])->rank > 1)
    r = ROLE_NARROW;
  return r == ROLE_NARROW && (kept || is_sum(n, op)) ? ROLE_KEPT : r;
}

static void visit(Narrow *n, size_t i) {
  const Op *op = &n->f->ops.items[i];
  Role r = role_of(n, op, n->kept[i]);
  if (op->kind == OP_write && !n->trains) grow(n, &n->states[state_of(n, op)], r);
  if (op->kind == OP_leave) grow(n, &n->role[op->in[0]], r);
  for (Val v = op->out; v && v < op_end(op); v++)
    if (is_float(n, v)) grow(n, &n->role[v], r);
}

/* Finds the roles in this function, repeating until nothing changes. */
static void find_roles(Narrow *n) {
  bool any = false;
  do {
    n->more = false;
    for (size_t i = 0; i < n->f->ops.n; i++) visit(n, i);
    any |= n->more;
  } while (n->more);
  n->more = any;
}

/* ---- values that decide about indices */

static bool decides(const Narrow *n, const Op *op) {
  return op->kind == OP_topk || op->kind == OP_argsort || op->kind == OP_eq || op->kind == OP_ne ||
         (op->kind == OP_cast && !is_float(n, op->out));
}

/* Returns the only narrow operand; 0 if there is none or several. */
static Val only_narrow(const Narrow *n, const Op *op) {
  Val found = 0;
  for (int i = 0; i < op->nin; i++) {
    if (n->role[op->in[i]] != ROLE_NARROW || op->in[i] == found) continue;
    if (found) return 0;
    found = op->in[i];
  }
  return found;
}

static void keep_chain(Narrow *n, Val v) {
  while (v && n->role[v] == ROLE_NARROW) {
    const Op *op = op_of(n->f, v);
    if (op_is_source(op->kind) || op_is_loop_part(op->kind) || op->kind == OP_gather || op->kind == OP_norm ||
        (op_is_contraction(op->kind) && op->kind != OP_dot))
      return;
    n->kept[n->f->values.items[v].op] = true;
    v = op->kind == OP_dot ? 0 : only_narrow(n, op);
  }
}

/* True for the operations at which kept values of a training step begin. */
static bool begins_kept(const Op *op) {
  return op_is_source(op->kind) || op_is_contraction(op->kind) || op->kind == OP_gather || op->kind == OP_take ||
         op->kind == OP_attention || op->kind == OP_attention_grad;
}

/* Keeps values of a training step that only reach writes and outputs.  Goes from users to operands. */
static void keep_update(Narrow *n) {
  bool *used_else = ARENA_ARRAY(n->m->arena, bool, n->f->values.n + 1);
  for (size_t i = n->f->ops.n; i-- > 0;) {
    const Op *op = &n->f->ops.items[i];
    bool kept = op->kind == OP_write || !begins_kept(op);
    for (Val v = op->out; v && v < op_end(op); v++) kept &= !used_else[v];
    for (int k = 0; k < op->nin; k++) used_else[op->in[k]] |= !kept;
    n->kept[i] |= kept;
  }
}

static void find_kept(Narrow *n) {
  if (n->trains) keep_update(n);
  for (size_t i = 0; i < n->f->ops.n; i++) {
    const Op *op = &n->f->ops.items[i];
    for (int k = 0; k < op->nin && decides(n, op); k++) keep_chain(n, op->in[k]);
    if (decides(n, op)) n->kept[i] = true; /* topk also returns elements */
  }
}

/* ---- types */

/* True if the operation only moves elements, so that they can be cast before: bias vectors are cast before they are
 * broadcast. */
static bool moves(OpKind k) { return op_arranges(k) || k == OP_slice || k == OP_concat; }

/* True if the f32 result becomes 16-bit; the types that its users want must be known. */
static bool is_narrow(const Narrow *n, const Op *op) {
  if (op->kind == OP_write) return is_f32(n, op->in[0]) && n->states[state_of(n, op)] == ROLE_NARROW;
  if (op->kind == OP_read) return is_f32(n, op->out) && n->role[op->out] == ROLE_NARROW;
  if (!op->out || op_is_source(op->kind) || op->kind == OP_opaque || op_is_call(op->kind)) return false;
  if (!is_f32(n, op->out)) return false;
  return n->role[op->out] == ROLE_NARROW || (moves(op->kind) && n->wanted[op->out] == WANT_NARROW);
}

/* True if operand k of a narrow operation is 16-bit.  The largest scores and sums of an attention never are. */
static bool takes_narrow(const Op *op, int k) {
  return op->kind != OP_attention_grad || k == op->nin - 1 || k < op->nin - 3;
}

/* Goes from users to operands. */
static void find_wanted(Narrow *n) {
  for (size_t i = 0; i < n->f->outputs.n; i++) n->wanted[n->f->outputs.items[i].value] |= WANT_F32;
  for (size_t i = n->f->ops.n; i-- > 0;) {
    const Op *op = &n->f->ops.items[i];
    n->narrow[i] = is_narrow(n, op);
    for (int k = 0; k < op->nin; k++)
      n->wanted[op->in[k]] |= n->narrow[i] && takes_narrow(op, k) ? WANT_NARROW : WANT_F32;
  }
}

static bool is_beyond(const Narrow *n, double x) { return isfinite(x) && fabs(x) > largest(n->to); }

static bool has_huge(const Narrow *n, const Op *op) {
  const Attr *one = op_attr(op, AT_value), *list = op_attr(op, AT_floats);
  bool found = op->kind == OP_const && one && is_beyond(n, one->u.f);
  for (int i = 0; list && i < list->n; i++) found |= is_beyond(n, list->u.floats[i]);
  for (int k = 0; k < op->nin; k++) found |= n->huge[op->in[k]];
  return found;
}

static void find_huge(Narrow *n) {
  for (size_t i = 0; i < n->f->ops.n; i++) {
    const Op *op = &n->f->ops.items[i];
    for (Val v = op->out; v && v < op_end(op); v++) n->huge[v] = n->role[v] < ROLE_KEPT && has_huge(n, op);
  }
}

/* ---- rewriting */

static const char *name_as(const Narrow *n, Val old, DType t) {
  return arena_printf(n->m->arena, "%s.%s", op_of(n->f, old)->name, dtype_name(t));
}

static Val build(Narrow *n, OpKind kind, const char *name, Val old, int nin, const Val *in, const Type *type,
                 int nattrs, const Attr *attrs) {
  return build_op(&n->r.b, &(OpSpec){.kind = kind,
                                     .name = name,
                                     .loc = op_of(n->f, old)->loc,
                                     .nin = nin,
                                     .in = in,
                                     .type = type,
                                     .nattrs = nattrs,
                                     .attrs = attrs});
}

static double within(const Narrow *n, double x) { return is_beyond(n, x) ? copysign(largest(n->to), x) : x; }

/* Returns a constant in the new type. */
static Val narrow_constant(Narrow *n, Val old, const Type *type) {
  const Op *op = op_of(n->f, old);
  const Attr *one = op_attr(op, AT_value), *list = op_attr(op, AT_floats);
  Attr a = one ? attr_f(AT_value, within(n, one->u.f)) : (Attr){0};
  if (!one) {
    double *x = ARENA_ARRAY(n->m->arena, double, (size_t)list->n + 1);
    for (int i = 0; i < list->n; i++) x[i] = within(n, list->u.floats[i]);
    a = attr_floats(n->m, AT_floats, list->n, x);
  }
  return build(n, OP_const, name_as(n, old, n->to), old, 0, NULL, type, 1, &a);
}

/* min(max(x, -largest), largest): rows of masks that hide everything stay rows of equal numbers. */
static Val bounded(Narrow *n, Val old, Val v) {
  const Type *type = type_of(n->r.b.f, v);
  Val low = build_splat(&n->r.b, type, -largest(n->to)), high = build_splat(&n->r.b, type, largest(n->to));
  Val above = build(n, OP_max, name_as(n, old, n->to), old, 2, (Val[]){v, low}, NULL, 0, NULL);
  return build(n, OP_min, name_as(n, old, n->to), old, 2, (Val[]){above, high}, NULL, 0, NULL);
}

/* Adds the cast of a value whose new form exists to the other type. */
static void add_cast(Narrow *n, Val old) {
  Val v = n->r.map[old];
  const Type *type = type_of(n->r.b.f, v);
  DType to = type->dtype == DT_f32 ? n->to : DT_f32;
  if (op_of(n->f, old)->kind == OP_const) {
    n->other[old] = narrow_constant(n, old, type_with_dtype(n->m, type, to));
    return;
  }
  if (to == n->to && n->huge[old]) v = bounded(n, old, v);
  Attr a = attr_dtype(AT_to, to);
  n->other[old] = build(n, OP_cast, name_as(n, old, to), old, 1, &v, NULL, 1, &a);
}

static bool wants_other(const Narrow *n, Val old) {
  DType t = type_of(n->r.b.f, n->r.map[old])->dtype;
  return is_f32(n, old) && n->wanted[old] & (t == DT_f32 ? WANT_NARROW : WANT_F32);
}

/* Adds waiting casts as soon as they do not come between carries or leaves. */
static void add_waiting(Narrow *n, OpKind next) {
  if (next == OP_carry || next == OP_leave) return;
  for (size_t i = 0; i < n->waiting.n; i++) add_cast(n, n->waiting.items[i]);
  n->waiting.n = 0;
}

static Val as(const Narrow *n, Val old, DType t) {
  Val v = n->r.map[old];
  return is_f32(n, old) && type_of(n->r.b.f, v)->dtype != t ? n->other[old] : v;
}

/* Rewrites one operation with operands of the types it wants. */
static bool rewrite(Narrow *n, const Op *op, bool narrow) {
  OpSpec spec = op_spec_of(n->f, op);
  Val in[MAX_OPERANDS];
  Attr to = attr_dtype(AT_to, n->to);
  for (int k = 0; k < op->nin; k++) in[k] = as(n, op->in[k], narrow && takes_narrow(op, k) ? n->to : DT_f32);
  spec.in = in;
  if (narrow && op->kind == OP_cast) spec.nattrs = 1, spec.attrs = &to;
  if (narrow && spec.type) spec.type = type_with_dtype(n->m, spec.type, n->to);
  add_waiting(n, op->kind);
  if (!rewrite_build(&n->r, op, &spec)) return false;
  for (Val v = op->out; v && v < op_end(op); v++)
    if (wants_other(n, v)) ARENA_PUSH(n->m->arena, &n->waiting, v);
  if (op->kind != OP_carry && op->kind != OP_leave) add_waiting(n, OP_none);
  return true;
}

/* A cast inside a derivative follows what the derivative follows (passes/facts/mirror.h). */
static void follow_casts(const Narrow *n) {
  Func *f = n->r.b.f;
  Arena *scratch = arena_new();
  const char **user = ARENA_ARRAY(scratch, const char *, f->values.n); /* by value: whose derivative reads it */
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; k < f->ops.items[i].nin; k++) {
      const char **have = &user[f->ops.items[i].in[k]], *name = f->ops.items[i].mirror.name;
      *have = name && (!*have || strcmp(*have, name) == 0) ? name : "";
    }
  for (size_t i = 0; i < f->ops.n; i++) {
    Op *op = &f->ops.items[i];
    if (op->kind != OP_cast || op->mirror.name || !user[op->out]) continue;
    const Mirror of = op_of(f, op->in[0])->mirror;
    if (of.name && of.operand == MIRROR_INSIDE && strcmp(of.name, user[op->out]) == 0) op->mirror = of;
  }
  arena_free(scratch);
}

static bool rewrite_all(Narrow *n, Diags *diags) {
  n->r = rewrite_start(n->m, n->f, diags);
  for (size_t i = 0; i < n->f->ops.n; i++)
    if (!rewrite(n, &n->f->ops.items[i], n->narrow[i])) return false;
  add_waiting(n, OP_none);
  for (size_t i = 0; i < n->f->outputs.n; i++) {
    Val v = n->f->outputs.items[i].value;
    if (is_f32(n, v)) n->r.map[v] = as(n, v, DT_f32);
  }
  follow_casts(n);
  rewrite_finish(&n->r);
  return diags->errors == 0;
}

/* ---- all functions */

static bool trains(const Module *m) {
  for (size_t i = 0; i < m->states.n; i++)
    if (m->states.items[i].param) return true;
  return false;
}

static Narrow begin(Module *m, const Func *f, DType to, Role *states) {
  return (Narrow){.m = m,
                  .trains = trains(m),
                  .f = f,
                  .to = to,
                  .role = ARENA_ARRAY(m->arena, Role, f->values.n + 1),
                  .kept = ARENA_ARRAY(m->arena, bool, f->ops.n + 1),
                  .states = states,
                  .huge = ARENA_ARRAY(m->arena, bool, f->values.n + 1),
                  .narrow = ARENA_ARRAY(m->arena, bool, f->ops.n + 1),
                  .wanted = ARENA_ARRAY(m->arena, uint8_t, f->values.n + 1),
                  .other = ARENA_ARRAY(m->arena, Val, f->values.n + 1)};
}

/* Repeats over all functions, because values that one function writes to a state are read by others. */
static void find_all_roles(Narrow *all, size_t n) {
  for (bool more = true; more;) {
    more = false;
    for (size_t k = 0; k < n; k++) find_roles(&all[k]), more |= all[k].more;
  }
}

/* Trained weights have role WEIGHT, moments role KEPT. */
static void begin_states(const Module *m, Role *states) {
  bool step = trains(m);
  for (size_t i = 0; i < m->states.n; i++)
    states[i] = !step ? ROLE_NONE : m->states.items[i].param ? ROLE_WEIGHT : ROLE_KEPT;
}

static void forget_roles(Narrow *all, size_t n, const Module *m, Role *states) {
  begin_states(m, states);
  for (size_t k = 0; k < n; k++) memset(all[k].role, 0, sizeof *all[k].role * (all[k].f->values.n + 1));
}

bool pass_narrow(Module *m, DType to, Diags *diags) {
  if (to == DT_f32) return true;
  Narrow *all = ARENA_ARRAY(m->arena, Narrow, m->funcs.n + 1);
  Role *states = ARENA_ARRAY(m->arena, Role, m->states.n + 1);
  size_t n = 0;
  for (size_t k = 0; k < m->funcs.n; k++)
    if (m->funcs.items[k]->level == 1) all[n++] = begin(m, m->funcs.items[k], to, states);
  begin_states(m, states);
  find_all_roles(all, n);
  for (size_t k = 0; k < n; k++) find_kept(&all[k]);
  forget_roles(all, n, m, states);
  find_all_roles(all, n);
  for (size_t i = 0; i < m->states.n; i++) {
    State *s = &m->states.items[i];
    if (states[i] == ROLE_NARROW && s->type->dtype == DT_f32) s->type = type_with_dtype(m, s->type, to);
  }
  for (size_t k = 0; k < n; k++) {
    find_wanted(&all[k]);
    find_huge(&all[k]);
    if (!rewrite_all(&all[k], diags)) return false;
  }
  return true;
}
