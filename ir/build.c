/* ir/build.c - adding operations to a function. */
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "ir/ir.h"
#include "ir/module.h"

/* ---- unique names: interned string -> next suffix to try */

/* A slot is taken if its round is that of the set, so that one table serves many functions without being cleared. */
typedef struct NameSlot {
  const char *name;
  uint32_t round;
  int next;
} NameSlot;

typedef struct NameSet {
  NameSlot *slots;
  size_t n, cap;
  uint32_t round;
} NameSet;

static size_t name_place(const NameSet *s, const char *name) {
  uint64_t h =
      hash_mix(1, (uint64_t)(uintptr_t)name); /* interned: the pointer is the identity, and order does not matter */
  size_t i = h & (s->cap - 1);
  while (s->slots[i].round == s->round && s->slots[i].name != name) i = (i + 1) & (s->cap - 1);
  return i;
}

static void name_grow(Module *m, NameSet *s) {
  NameSet old = *s;
  s->cap = old.cap ? old.cap * 2 : 64;
  s->slots = ARENA_ARRAY(m->arena, NameSlot, s->cap);
  s->round = 1;
  for (size_t i = 0; i < old.cap; i++)
    if (old.slots[i].round == old.round) {
      NameSlot *slot = &s->slots[name_place(s, old.slots[i].name)];
      *slot = old.slots[i];
      slot->round = 1;
    }
}

static void name_begin(Module *m, NameSet *s) {
  Interned *in = m->interned;
  if (!in->spare_names) return;
  *s = *in->spare_names;
  s->n = 0, s->round++;
  in->spare_names = NULL;
}

static NameSlot *name_slot(Module *m, NameSet *s, const char *name) {
  if (!s->cap) name_begin(m, s);
  if (2 * (s->n + 1) > s->cap) name_grow(m, s);
  return &s->slots[name_place(s, name)];
}

/* Marks a name as used; false if it already was. */
static bool name_take(Module *m, NameSet *s, const char *name) {
  NameSlot *slot = name_slot(m, s, name);
  if (slot->round == s->round) return false;
  *slot = (NameSlot){name, s->round, 1};
  s->n++;
  return true;
}

static const char *unique_name(Builder *b, const char *name) {
  if (name_take(b->m, b->names, name)) return name;
  for (;;) {
    NameSlot *slot = name_slot(b->m, b->names, name);
    const char *fresh = module_string(b->m, arena_printf(b->m->arena, "%s.%d", name, slot->next++));
    if (name_take(b->m, b->names, fresh)) return fresh;
  }
}

const char *builder_unique_name(Builder *b, const char *wanted) { return unique_name(b, module_string(b->m, wanted)); }

Builder builder_new(Module *m, Func *f, Diags *diags) {
  Builder b = {.m = m, .f = f, .diags = diags, .names = ARENA_NEW(m->arena, NameSet)};
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    name_take(m, b.names, op->name);
    for (int k = 0; k < op->nout - 1; k++) name_take(m, b.names, op->names[k]);
  }
  return b;
}

void builder_end(Builder *b) {
  if (b->names->cap && !b->m->interned->spare_names) b->m->interned->spare_names = b->names;
  b->names = NULL;
}

/* ---- building operations */

/* Arena of the function's lists and operands.  Names and attributes live in the module's arena, because copies made by
 * passes share them. */
static Arena *room_of(const Builder *b) { return b->f->own ? b->f->own : b->m->arena; }

static int attr_order(const void *a, const void *b) {
  return (int)((const Attr *)a)->key - (int)((const Attr *)b)->key;
}

static bool is_place(Loc l) { return l.file || l.node; }

/* Names of the results after the first: the wanted ones, or NAME.1, NAME.2 ... */
static const char *const *further_names(Builder *b, const Op *op, const char *const *wanted) {
  if (op->nout < 2) return NULL;
  const char **names = ARENA_ARRAY(b->m->arena, const char *, op->nout - 1);
  for (int i = 0; i < op->nout - 1; i++)
    names[i] = builder_unique_name(b, wanted ? wanted[i] : arena_printf(b->m->arena, "%s.%d", op->name, i + 1));
  return names;
}

/* Phase of a new operation: the latest phase of its operands; a sum over micro-batches counts as PH_step. */
static Phase phase_of(const Builder *b, const OpSpec *spec) {
  Phase p = spec->phase ? spec->phase : b->phase;
  for (int i = 0; !p && b->f->level == 1 && i < spec->nin; i++) {
    const Op *from = op_of(b->f, spec->in[i]);
    Phase then = from->kind == OP_accumulate ? PH_step : from->phase;
    if (then > p) p = then;
  }
  return p;
}

/* Notes the operation at which a size could not be computed. */
static void note_fault(Builder *b, const Op *op) {
  if (b->m->expr_fault && !is_place(b->m->expr_fault_at))
    b->m->expr_fault_at = is_place(op->loc) ? op->loc : (Loc){.node = op->name};
}

Val build_op(Builder *b, const OpSpec *given) {
  OpSpec spec = *given;
  if (!is_place(spec.loc)) spec.loc = b->loc;
  if (!spec.stage) spec.stage = b->stage;
  for (int i = 0; i < spec.nin; i++)
    if (spec.in[i] == 0) return 0; /* an operand already failed and was reported */
  ResultTypes types;
  if (!infer_types(b->m, b->f, &spec, b->diags, &types)) return 0;

  const char *wanted = spec.name;
  if (!wanted)
    wanted = b->prefix ? arena_printf(b->m->arena, "%s%s", b->prefix, op_name(spec.kind)) : op_name(spec.kind);
  Op op = {.kind = spec.kind,
           .stage = spec.stage,
           .phase = phase_of(b, &spec),
           .loc = spec.loc,
           .nin = spec.nin,
           .nattrs = spec.nattrs};
  op.name = builder_unique_name(b, wanted);
  op.group = spec.group ? module_string(b->m, spec.group) : b->group ? module_string(b->m, b->group) : op.name;
  op.again = spec.again;
  op.mirror = spec.mirror;
  if (op.mirror.name) op.mirror.name = module_string(b->m, op.mirror.name);
  note_fault(b, &op);
  Val *in = ARENA_ARRAY(room_of(b), Val, spec.nin);
  if (spec.nin) memcpy(in, spec.in, sizeof(Val) * (size_t)spec.nin);
  op.in = in;
  Attr *attrs = ARENA_ARRAY(b->m->arena, Attr, spec.nattrs);
  if (spec.nattrs) memcpy(attrs, spec.attrs, sizeof(Attr) * (size_t)spec.nattrs);
  if (spec.nattrs) qsort(attrs, (size_t)spec.nattrs, sizeof(Attr), attr_order);
  op.attrs = attrs;
  if (types.n) op.out = (Val)b->f->values.n;
  op.nout = types.n;
  op.names = further_names(b, &op, spec.names);
  for (int i = 0; i < types.n; i++)
    ARENA_PUSH(room_of(b), &b->f->values, ((Value){types.items[i], (int)b->f->ops.n, i ? NULL : spec.layout}));
  ARENA_PUSH(room_of(b), &b->f->ops, op);
  return op.out ? op.out : 1; /* a dummy: operations without a result are never used */
}

bool build_can_copy(const Builder *b, const Func *from, const Op *op, const Val *in) {
  for (int i = 0; i < op->nin; i++)
    if (in[i] == 0 || type_of(b->f, in[i]) != type_of(from, op->in[i])) return false;
  return !op_is_call(op->kind);
}

static const char *const *copied_names(Builder *b, const Op *op) {
  bool same = true;
  const char *names[MAX_RESULTS];
  for (int i = 0; i < op->nout - 1; i++) same &= (names[i] = unique_name(b, op->names[i])) == op->names[i];
  if (same) return op->names;
  const char **copy = ARENA_ARRAY(b->m->arena, const char *, op->nout - 1);
  memcpy(copy, names, sizeof *names * (size_t)(op->nout - 1));
  return copy;
}

void builder_reserve(Builder *b, size_t more) {
  Func *f = b->f;
  Arena *a = room_of(b);
  size_t ops = f->ops.n + more, values = f->values.n + more;
  if (ops > f->ops.cap) {
    Op *items = ARENA_ARRAY(a, Op, ops);
    if (f->ops.n) memcpy(items, f->ops.items, sizeof *items * f->ops.n);
    f->ops.items = items, f->ops.cap = ops;
  }
  if (values > f->values.cap) {
    Value *items = ARENA_ARRAY(a, Value, values);
    if (f->values.n) memcpy(items, f->values.items, sizeof *items * f->values.n);
    f->values.items = items, f->values.cap = values;
  }
}

Val build_copy(Builder *b, const Func *from, const Op *given, const Val *in) {
  Op op = *given;
  /* a function is about as large as the one it is made from */
  if (!b->f->ops.n) builder_reserve(b, (from->ops.n > from->values.n ? from->ops.n : from->values.n) * 17 / 16 + 8);
  OpSpec spec = {.phase = op.phase, .nin = op.nin, .in = in};
  if (!is_place(op.loc)) op.loc = b->loc;
  if (!op.stage) op.stage = b->stage;
  op.phase = phase_of(b, &spec);
  op.name = unique_name(b, op.name);
  if (op.nout > 1) op.names = copied_names(b, &op);
  note_fault(b, &op);
  if (op.nin) {
    Val *copy = ARENA_ARRAY(room_of(b), Val, op.nin);
    memcpy(copy, in, sizeof *in * (size_t)op.nin);
    op.in = copy;
  }
  if (op.out) op.out = (Val)b->f->values.n;
  for (int i = 0; i < op.nout; i++) {
    Value v = {type_of(from, given->out + (Val)i), (int)b->f->ops.n, i ? NULL : from->values.items[given->out].layout};
    ARENA_PUSH(room_of(b), &b->f->values, v);
  }
  ARENA_PUSH(room_of(b), &b->f->ops, op);
  return op.out ? op.out : 1;
}

void build_output(Builder *b, const char *name, Val v, const Layout *layout) {
  Output o = {module_string(b->m, name), v, layout};
  ARENA_PUSH(room_of(b), &b->f->outputs, o);
}

static void reverse_ops(Op *first, Op *end) {
  for (; first < end && first < --end; first++) {
    Op swapped = *first;
    *first = *end;
    *end = swapped;
  }
}

void func_move_ops(Func *f, size_t first, size_t to) {
  Op *ops = f->ops.items;
  size_t n = f->ops.n;
  reverse_ops(ops + to, ops + first);
  reverse_ops(ops + first, ops + n);
  reverse_ops(ops + to, ops + n);
  for (size_t i = to; i < n; i++)
    for (Val v = ops[i].out; v < op_end(&ops[i]); v++) f->values.items[v].op = (int)i;
}

/* ---- attributes */

Attr attr_i(AttrKey k, int64_t v) { return (Attr){.key = k, .u.i = v}; }
Attr attr_f(AttrKey k, double v) { return (Attr){.key = k, .u.f = v}; }
Attr attr_s(Module *m, AttrKey k, const char *v) { return (Attr){.key = k, .u.s = module_string(m, v)}; }
Attr attr_e(AttrKey k, const Expr *v) { return (Attr){.key = k, .u.e = v}; }
Attr attr_dtype(AttrKey k, DType v) { return (Attr){.key = k, .u.dtype = v}; }
Attr attr_red(AttrKey k, Reduction v) { return (Attr){.key = k, .u.reduction = v}; }

Attr attr_ints(Module *m, AttrKey k, int n, const int64_t *v) {
  int64_t *copy = ARENA_ARRAY(m->arena, int64_t, n);
  if (n) memcpy(copy, v, sizeof *v * (size_t)n);
  return (Attr){.key = k, .n = n, .u.ints = copy};
}

Attr attr_floats(Module *m, AttrKey k, int n, const double *v) {
  double *copy = ARENA_ARRAY(m->arena, double, n);
  if (n) memcpy(copy, v, sizeof *v * (size_t)n);
  return (Attr){.key = k, .n = n, .u.floats = copy};
}

Attr attr_exprs(Module *m, AttrKey k, int n, const Expr *const *v) {
  const Expr **copy = ARENA_ARRAY(m->arena, const Expr *, n);
  for (int i = 0; i < n; i++) copy[i] = v[i];
  return (Attr){.key = k, .n = n, .u.exprs = copy};
}

Attr attr_strs(Module *m, AttrKey k, int n, const char *const *v) {
  const char **copy = ARENA_ARRAY(m->arena, const char *, n);
  for (int i = 0; i < n; i++) copy[i] = module_string(m, v[i]);
  return (Attr){.key = k, .n = n, .u.strs = copy};
}

/* ---- shorthands */

static Val op1(Builder *b, OpKind k, Val x, const Type *type, int nattrs, const Attr *attrs) {
  return build_op(b, &(OpSpec){.kind = k, .nin = 1, .in = &x, .type = type, .nattrs = nattrs, .attrs = attrs});
}

static Val op2(Builder *b, OpKind k, Val x, Val y, int nattrs, const Attr *attrs) {
  return build_op(b, &(OpSpec){.kind = k, .nin = 2, .in = (Val[]){x, y}, .nattrs = nattrs, .attrs = attrs});
}

static Val op0(Builder *b, OpKind k, const Type *type, int nattrs, const Attr *attrs) {
  return build_op(b, &(OpSpec){.kind = k, .type = type, .nattrs = nattrs, .attrs = attrs});
}

Val build_unary(Builder *b, OpKind k, Val x) { return op1(b, k, x, NULL, 0, NULL); }
Val build_binary(Builder *b, OpKind k, Val x, Val y) { return op2(b, k, x, y, 0, NULL); }

Val build_bcast_to(Builder *b, Val x, int rank, const Expr *const *dims) {
  if (!x) return 0;
  const Type *t = type_of(b->f, x);
  const Type *want = type_get(b->m, t->dtype, rank, dims);
  if (t == want) return x;
  if (t->rank > rank) {
    diag_error(b->diags, DIAG_ir_verify, b->loc, "a value of rank %d does not broadcast to rank %d", t->rank, rank);
    return 0;
  }
  int64_t map[MAX_RANK];
  for (int i = 0; i < t->rank; i++) map[i] = rank - t->rank + i;
  Attr a = attr_ints(b->m, AT_dims, t->rank, map);
  return op1(b, OP_broadcast, x, want, 1, &a);
}

/* NumPy broadcasting: right-aligned, an extent of 1 stretches.  Different symbolic extents do not fit. */
static bool bcast_dims(Builder *b, const Type *x, const Type *y, int *rank, const Expr **dims) {
  *rank = x->rank > y->rank ? x->rank : y->rank;
  for (int i = 0; i < *rank; i++) {
    int xi = i - (*rank - x->rank), yi = i - (*rank - y->rank);
    const Expr *p = xi >= 0 ? x->dims[xi] : ex_const(b->m, 1), *q = yi >= 0 ? y->dims[yi] : ex_const(b->m, 1);
    if (p == q || ex_is_const(q, 1)) dims[i] = p;
    else if (ex_is_const(p, 1)) dims[i] = q;
    else {
      Text t = {.arena = b->m->arena};
      type_print(b->m, &t, x);
      text_add(&t, " and ");
      type_print(b->m, &t, y);
      return diag_error(b->diags, DIAG_ir_verify, b->loc, "shapes do not broadcast: %s", text_str(&t));
    }
  }
  return true;
}

Val build_binary_bcast(Builder *b, OpKind k, Val x, Val y) {
  int rank;
  const Expr *dims[MAX_RANK];
  if (!x || !y || !bcast_dims(b, type_of(b->f, x), type_of(b->f, y), &rank, dims)) return 0;
  return build_binary(b, k, build_bcast_to(b, x, rank, dims), build_bcast_to(b, y, rank, dims));
}

Val build_splat(Builder *b, const Type *type, double value) {
  Attr a = attr_f(AT_value, value);
  return op0(b, OP_const, type, 1, &a);
}

Val build_size(Builder *b, const Type *type, const Expr *value) {
  Attr a = attr_e(AT_expr, value);
  return op0(b, OP_size, type, 1, &a);
}

Val build_iota(Builder *b, const Type *type, int axis) {
  Attr a[] = {attr_i(AT_axis, axis), attr_e(AT_start, ex_const(b->m, 0))};
  return op0(b, OP_iota, type, 2, a);
}

Val build_bitcast(Builder *b, Val x, DType to) {
  if (x && type_of(b->f, x)->dtype == to) return x;
  Attr a = attr_dtype(AT_to, to);
  return op1(b, OP_bitcast, x, NULL, 1, &a);
}

Val build_cast(Builder *b, Val x, DType to) {
  if (x && type_of(b->f, x)->dtype == to) return x;
  Attr a = attr_dtype(AT_to, to);
  return op1(b, OP_cast, x, NULL, 1, &a);
}

Val build_reshape(Builder *b, Val x, int rank, const Expr *const *dims) {
  if (!x) return 0;
  const Type *t = type_get(b->m, type_of(b->f, x)->dtype, rank, dims);
  return t == type_of(b->f, x) ? x : op1(b, OP_reshape, x, t, 0, NULL);
}

Val build_transpose(Builder *b, Val x, const int *perm) {
  if (!x) return 0;
  int64_t p[MAX_RANK];
  bool identity = true;
  int rank = type_of(b->f, x)->rank;
  for (int i = 0; i < rank; i++) {
    p[i] = perm[i];
    identity = identity && perm[i] == i;
  }
  if (identity) return x;
  Attr a = attr_ints(b->m, AT_perm, rank, p);
  return op1(b, OP_transpose, x, NULL, 1, &a);
}

Val build_slice(Builder *b, Val x, int axis, const Expr *start, const Expr *extent, int64_t stride) {
  if (!x) return 0;
  const Type *t = type_of(b->f, x);
  const Expr *starts[MAX_RANK], *dims[MAX_RANK];
  int64_t strides[MAX_RANK];
  for (int d = 0; d < t->rank; d++) {
    starts[d] = d == axis ? start : ex_const(b->m, 0);
    dims[d] = d == axis ? extent : t->dims[d];
    strides[d] = d == axis ? stride : 1;
  }
  const Type *y = type_get(b->m, t->dtype, t->rank, dims);
  if (y == t && stride == 1 && ex_is_const(start, 0)) return x;
  Attr a[] = {attr_exprs(b->m, AT_starts, t->rank, starts), attr_ints(b->m, AT_strides, t->rank, strides)};
  return op1(b, OP_slice, x, y, 2, a);
}

Val build_concat(Builder *b, int n, const Val *x, int axis) {
  if (n == 1) return x[0];
  Attr a = attr_i(AT_axis, axis);
  return build_op(b, &(OpSpec){.kind = OP_concat, .nin = n, .in = x, .nattrs = 1, .attrs = &a});
}

Val build_reduce(Builder *b, Reduction r, Val x, int naxes, const int *axes) {
  int64_t list[MAX_RANK];
  for (int i = 0; i < naxes; i++) list[i] = axes[i];
  Attr a[] = {attr_red(AT_op, r), attr_ints(b->m, AT_axes, naxes, list)};
  return op1(b, OP_reduce, x, NULL, 2, a);
}

Val build_keepdims(Builder *b, Val reduced, Val like, int naxes, const int *axes) {
  if (!reduced || !like) return 0;
  const Type *t = type_of(b->f, like);
  int64_t map[MAX_RANK];
  int n = 0, next = 0;
  for (int d = 0; d < t->rank; d++) {
    if (next < naxes && axes[next] == d) next++;
    else map[n++] = d;
  }
  Attr a = attr_ints(b->m, AT_dims, n, map);
  return op1(b, OP_broadcast, reduced, type_with_dtype(b->m, t, type_of(b->f, reduced)->dtype), 1, &a);
}

Val build_dot(Builder *b, Val x, Val y, const char *spec) {
  Attr a = attr_s(b->m, AT_spec, spec);
  return op2(b, OP_dot, x, y, 1, &a);
}

Val build_gather(Builder *b, Val table, Val index, int axis) {
  Attr a[] = {attr_i(AT_axis, axis), attr_e(AT_start, ex_const(b->m, 0))};
  return op2(b, OP_gather, table, index, 2, a);
}

Val build_checked_gather(Builder *b, OpKind k, Val table, Val index, int axis) {
  Attr a[] = {attr_i(AT_axis, axis), attr_e(AT_start, ex_const(b->m, 0)), attr_i(AT_checked, 1)};
  return op2(b, k, table, index, 3, a);
}

Val build_within(Builder *b, Val index, const Expr *below, bool negative) {
  if (!index) return 0;
  const Expr *zeros[MAX_RANK];
  int rank = type_of(b->f, index)->rank;
  for (int d = 0; d < rank; d++) zeros[d] = ex_const(b->m, 0);
  Attr a[] = {attr_exprs(b->m, AT_starts, rank, zeros), attr_e(AT_below, below), attr_i(AT_negative, 1)};
  return op1(b, OP_within, index, NULL, 2 + negative, a);
}

static Val named_source(Builder *b, OpKind k, const char *name, const Type *type) {
  Attr a = attr_s(b->m, AT_name, name);
  return build_op(b, &(OpSpec){.kind = k, .name = name, .type = type, .nattrs = 1, .attrs = &a});
}

Val build_loop(Builder *b, Val count, const Expr *trips) {
  Attr a = attr_e(AT_trips, trips);
  return op1(b, OP_loop, count, NULL, trips != NULL, &a);
}

Val build_carry(Builder *b, Val init) { return op1(b, OP_carry, init, NULL, 0, NULL); }

void build_repeat(Builder *b, Val round, Val again) {
  build_op(b, &(OpSpec){.kind = OP_repeat, .nin = again ? 2 : 1, .in = (Val[]){round, again}});
}

Val build_leave(Builder *b, Val carry, Val next) { return op2(b, OP_leave, carry, next, 0, NULL); }

Val build_input(Builder *b, const char *name, const Type *type) { return named_source(b, OP_input, name, type); }

Val build_param(Builder *b, const char *name) {
  const Param *p = module_param(b->m, name);
  if (!p) die("build_param: no parameter %s", name);
  return named_source(b, OP_param, p->name, p->type);
}

Val build_read(Builder *b, const char *name) {
  const State *s = module_state(b->m, name);
  if (!s) die("build_read: no state %s", name);
  return named_source(b, OP_read, s->name, s->type);
}

void build_write(Builder *b, const char *name, Val v) {
  Attr a = attr_s(b->m, AT_name, name);
  const char *called = arena_printf(b->m->arena, "%s.write", name);
  build_op(b, &(OpSpec){.kind = OP_write, .name = called, .nin = 1, .in = &v, .nattrs = 1, .attrs = &a});
}
