/* frontend/onnx/export_loop.c - loops as ONNX Loop.
 *
 * Carries become carried values.  A carry that only takes one row per round, in the order of rounds or in reverse,
 * becomes a scan output of the Loop; then the carry, its initial value and its update are not written separately.
 * The body reads outer values by name.  Initializers stay in the model's graph.
 */
#include "frontend/onnx/export_private.h"
#include "frontend/known.h"

typedef enum Order { CARRIED, FORWARD, BACKWARD } Order;

static const Op *loop_op(const Func *f, const Loop *l) { return &f->ops.items[l->begin]; }
static const Op *carry_op(const Func *f, const Loop *l, int k) { return &f->ops.items[l->begin + 1 + (size_t)k]; }
static const Op *leave_op(const Func *f, const Loop *l, int k) { return &f->ops.items[l->repeat + 1 + (size_t)k]; }

/* Whether `at` counts the rounds of the loop up or down. */
static Order counts(Module *m, const Func *f, const Op *loop, Val at) {
  const Op *op = op_of(f, at);
  const Expr *trips = op_expr(loop, AT_trips);
  if (at == loop->out) return FORWARD;
  bool down = trips && op->kind == OP_sub && op->in[1] == loop->out &&
              uniform_integer(m, f, op->in[0]) == ex_addi(m, trips, -1);
  return down ? BACKWARD : CARRIED;
}

/* ---- scan outputs */

static int *uses_of(Arena *a, const Func *f) {
  int *uses = ARENA_ARRAY(a, int, f->values.n);
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; k < f->ops.items[i].nin; k++) uses[f->ops.items[i].in[k]]++;
  for (size_t i = 0; i < f->outputs.n; i++) uses[f->outputs.items[i].value]++;
  return uses;
}

/* The order in which carry k collects one row of every round; all rounds must take place. */
static Order collected(Module *m, const Func *f, const Loop *l, int k) {
  const Op *loop = loop_op(f, l), *carry = carry_op(f, l, k), *leave = leave_op(f, l, k),
           *update = op_of(f, leave->in[1]);
  const Expr *trips = op_expr(loop, AT_trips);
  if (!trips || f->ops.items[l->repeat].nin > 1 || uniform_integer(m, f, loop->in[0]) != trips) return CARRIED;
  if (update->kind != OP_update || update->in[0] != carry->out) return CARRIED;
  int axis = (int)op_int(update, AT_axis, 0);
  if (type_of(f, carry->out)->dims[axis] != trips || !ex_is_const(type_of(f, update->in[1])->dims[axis], 1))
    return CARRIED;
  return counts(m, f, loop, update->in[2]);
}

ExportScope export_scope_of(Export *x, const Func *f) {
  Arena *a = x->w->arena;
  ExportScope s = {.f = f,
                   .names = ARENA_ARRAY(a, const char *, f->values.n),
                   .loops = loops_of(a, f),
                   .skip = ARENA_ARRAY(a, bool, f->ops.n)};
  int *uses = uses_of(a, f);
  for (int i = 0; i < s.loops.n; i++) {
    const Loop *l = &s.loops.items[i];
    for (int k = 0; k < l->ncarries; k++) {
      const Op *carry = carry_op(f, l, k), *update = op_of(f, leave_op(f, l, k)->in[1]),
               *initial = op_of(f, carry->in[0]);
      if (collected(x->m, f, l, k) == CARRIED || uses[carry->out] != 2 || uses[update->out] != 1) continue;
      s.skip[carry - f->ops.items] = s.skip[update - f->ops.items] = true;
      if (initial->kind == OP_const && uses[initial->out] == 1) s.skip[initial - f->ops.items] = true;
    }
  }
  return s;
}

/* ---- writing */

bool is_round_below(const Writing *n, Val index, const Expr *extent) {
  const Func *f = n->s->f;
  Module *m = n->x->m;
  const Op *op = op_of(f, index), *loop = op->kind == OP_sub ? op_of(f, op->in[1]) : op;
  const Expr *trips = loop->kind == OP_loop ? op_expr(loop, AT_trips) : NULL;
  return trips && counts(m, f, loop, index) != CARRIED && known_ge(m, extent, trips);
}

static const char *copied(const Writing *n, const char *wanted, const char *x) {
  Writing named = *n;
  named.wanted = wanted;
  return node1(&named, "Identity", x);
}

/* The maximum number of rounds, as a scalar. */
static const char *rounds(const Writing *n) {
  const Expr *trips = op_expr(n->op, AT_trips), *count = uniform_integer(n->x->m, n->s->f, n->op->in[0]);
  if (!trips || trips == count) return operand(n, 0);
  return node2(n, "Min", operand(n, 0), reshaped(n, import_extent_of(n, trips), 0, NULL));
}

/* The row that a round computes, without the dimension along which rows are stacked. */
static const char *row_of(const Writing *n, const Op *update) {
  const Type *t = type_of(n->s->f, update->in[1]);
  const Expr *dims[MAX_RANK];
  int rank = 0;
  for (int d = 0; d < t->rank; d++)
    if (d != op_int(update, AT_axis, 0)) dims[rank++] = t->dims[d];
  const char *row = n->s->names[update->in[1]];
  return row ? reshaped(n, row, rank, dims) : NULL;
}

/* Converts a scan output, stacked along dimension 0, to the carry: reversed, along another dimension. */
static const char *stacked(const Writing *n, const char *x, Order order, int rank, int axis) {
  OnnxWriter *w = n->x->w;
  int64_t perm[MAX_RANK], zero = 0, last = -1, down = -1, stop = INT64_MIN + 1;
  if (order == BACKWARD) {
    const char *in[] = {x, onnx_write_vector(w, 1, &last), onnx_write_vector(w, 1, &stop),
                        onnx_write_vector(w, 1, &zero), onnx_write_vector(w, 1, &down)};
    x = onnx_write_node(w, "Slice", n->wanted, 5, in, 0, NULL);
  }
  for (int d = 0, from = 1; d < rank; d++) perm[d] = d == axis ? 0 : from++;
  return transposed(n, x, rank, perm);
}

static const Type *without_dim(Module *m, const Type *t, int axis) {
  const Expr *dims[MAX_RANK];
  int rank = 0;
  for (int d = 0; d < t->rank; d++)
    if (d != axis) dims[rank++] = t->dims[d];
  return type_get(m, t->dtype, rank, dims);
}

/* Declares an input of the body for a value. */
static const char *body_input(const Writing *n, const char *wanted, const Type *t) {
  const char *name = builder_unique_name(&n->x->w->names, wanted);
  onnx_write_input(n->x->w, name, t);
  return name;
}

static bool body_output(const Writing *n, const char *name, const Type *t) {
  if (name) onnx_write_output(n->x->w, name, t);
  return name != NULL;
}

/* Writes the body: the condition, the carried values, then the scan outputs. */
static bool write_rounds(const Writing *n, ExportScope *s, const Loop *l, const char *prefix) {
  const Func *f = s->f;
  Module *m = n->x->m;
  const Type *flag = type_get(m, DT_bool, 0, NULL);
  const Op *repeat = &f->ops.items[l->repeat];
  s->names[n->op->out] = body_input(n, n->wanted, n->type);
  const char *more = body_input(n, "more", flag);
  for (int k = 0; k < l->ncarries; k++) {
    const Op *carry = carry_op(f, l, k);
    if (!s->skip[l->begin + 1 + (size_t)k]) s->names[carry->out] = body_input(n, carry->name, type_of(f, carry->out));
  }
  if (!write_range(n->x, s, l->body, l->repeat, prefix)) return false;
  if (repeat->nin > 1) more = s->names[repeat->in[1]];
  bool ok = body_output(n, more ? copied(n, "again", more) : NULL, flag);
  for (int k = 0; k < l->ncarries; k++) {
    const Op *leave = leave_op(f, l, k);
    const char *next = s->names[leave->in[1]];
    if (!s->skip[l->begin + 1 + (size_t)k])
      ok = body_output(n, next ? copied(n, leave->name, next) : NULL, type_of(f, leave->out)) && ok;
  }
  for (int k = 0; k < l->ncarries; k++) {
    const Op *update = op_of(f, leave_op(f, l, k)->in[1]);
    if (!s->skip[l->begin + 1 + (size_t)k]) continue;
    ok = body_output(n, row_of(n, update), without_dim(m, type_of(f, update->out), (int)op_int(update, AT_axis, 0))) &&
         ok;
  }
  return ok;
}

bool write_loop(const Writing *n, ExportScope *s, const Loop *l, const char *prefix) {
  Export *x = n->x;
  OnnxWriter *w = x->w;
  const Func *f = s->f;
  int count = 2, made = 0;
  const char **in = ARENA_ARRAY(w->arena, const char *, l->ncarries + 2),
             **results = ARENA_ARRAY(w->arena, const char *, l->ncarries);
  in[0] = rounds(n), in[1] = onnx_write_scalar(w, DT_bool, 0, 1, false);
  for (int k = 0; k < l->ncarries; k++)
    if (!s->skip[l->begin + 1 + (size_t)k]) in[count++] = s->names[carry_op(f, l, k)->in[0]];
  for (int k = 0; k < count; k++)
    if (!in[k]) return false;
  size_t sizes = x->sizes.n; /* sizes that the body computes first are visible only there */
  OnnxAround around = onnx_write_begin(w);
  bool ok = write_rounds(n, s, l, prefix);
  Onnx__AttributeProto *body = onnx_write_end(w, around, "body", n->wanted);
  x->sizes.n = sizes;
  if (!ok) return false;
  for (int skipped = 0; skipped < 2; skipped++)
    for (int k = 0; k < l->ncarries; k++) {
      const Op *leave = leave_op(f, l, k);
      if (s->skip[l->begin + 1 + (size_t)k] == (skipped == 1))
        s->names[leave->out] = results[made++] = builder_unique_name(&w->names, leave->name);
    }
  onnx_write_results(w, "Loop", made, results, count, in, 1, &body);
  for (int k = 0; k < l->ncarries; k++) {
    const Op *leave = leave_op(f, l, k), *update = op_of(f, leave->in[1]);
    if (!s->skip[l->begin + 1 + (size_t)k]) continue;
    Order order = counts(x->m, f, n->op, update->in[2]);
    s->names[leave->out] =
        stacked(n, s->names[leave->out], order, type_of(f, leave->out)->rank, (int)op_int(update, AT_axis, 0));
  }
  return true;
}

/* ---- update outside scan outputs */

/* Writes update: along the axis, positions in [at, at + k) take the row `position - at` of the value. */
const char *write_update(const Writing *n) {
  int axis = (int)op_int(n->op, AT_axis, 0), rank = n->type->rank - axis;
  const Type *tv = operand_type(n, 1);
  const Expr *extent = n->type->dims[axis], *rows = tv->dims[axis], *dims[MAX_RANK];
  OnnxWriter *w = n->x->w;
  if (n->op->nin > 3 || operand_type(n, 2)->rank) return export_no_form(n, "rows have positions of their own");
  const char *zero = onnx_write_scalar(w, DT_i64, 0, 0, false), *one = onnx_write_scalar(w, DT_i64, 0, 1, false);
  const char *end = reshaped(n, import_extent_of(n, extent), 0, NULL), *value = operand(n, 1);
  const char *from_at = node2(n, "Sub", node3(n, "Range", zero, end, one), operand(n, 2)), *row = zero;
  if (!ex_is_const(rows, 1)) {
    const char *last = node2(n, "Sub", reshaped(n, import_extent_of(n, rows), 0, NULL), one);
    row = node2(n, "Max", node2(n, "Min", from_at, last), zero);
    value = row ? onnx_write_node(w, "Gather", n->wanted, 2, (const char *const[]){value, row}, 1,
                                  (Onnx__AttributeProto *[]){onnx_write_int(w, "axis", axis)})
                : NULL;
  }
  for (int d = 0; d < rank; d++) dims[d] = d == 0 ? extent : ex_const(n->x->m, 1);
  return node3(n, "Where", reshaped(n, node2(n, "Equal", from_at, row), rank, dims), value, operand(n, 0));
}
