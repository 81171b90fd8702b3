/* frontend/onnx/evaluate.c - see evaluate.h. */
#include "frontend/onnx/evaluate.h"

#include <math.h>
#include <string.h>

#include "frontend/onnx/number.h"

/* ---- facts by value */

static void reserve(Evaluation *e) {
  size_t n = e->f->values.n;
  if (n <= e->cap) return;
  size_t cap = e->cap ? e->cap : 64;
  while (cap < n) cap *= 2;
  ImportFact *facts = ARENA_ARRAY(e->m->arena, ImportFact, cap);
  FactTensor **tensors = ARENA_ARRAY(e->m->arena, FactTensor *, cap);
  if (e->cap) memcpy(facts, e->facts, e->cap * sizeof *facts), memcpy(tensors, e->tensors, e->cap * sizeof *tensors);
  e->facts = facts, e->tensors = tensors, e->cap = cap;
}

void evaluate_forget(Evaluation *e, size_t first) {
  if (first >= e->cap) return;
  memset(e->facts + first, 0, (e->cap - first) * sizeof *e->facts);
  memset(e->tensors + first, 0, (e->cap - first) * sizeof *e->tensors);
}

void evaluate_tensor(Evaluation *e, Val v, FactTensor tensor) {
  reserve(e);
  FactTensor *copy = e->tensors[v] = ARENA_NEW(e->m->arena, FactTensor);
  *copy = tensor;
}

void evaluate_known(Evaluation *e, Val v, const ImportKnown *k) {
  reserve(e);
  e->facts[v] = fact_of_known(e->m, k);
}

ImportFact fact_of_known(Module *m, const ImportKnown *k) {
  ImportFact f = {.kind = FACT_SIZES, .type = k->type, .n = k->n};
  Number *items = ARENA_ARRAY(m->arena, Number, k->n);
  Cell *cells = ARENA_ARRAY(m->arena, Cell, k->n);
  bool constant = true;
  for (int i = 0; i < k->n; i++) {
    items[i] = (Number){k->items[i], 1};
    constant = ex_get_const(k->items[i], &cells[i].i) && constant;
  }
  if (constant) f.kind = FACT_CONSTANT, f.cells = cells;
  else f.items = items;
  return f;
}

/* Counts work against the limit; small operations are free, as there are only as many as nodes in the file. */
static bool spend(Evaluation *e, double work) {
  if (work <= EVALUATE_FREE) return true;
  if (work > (double)(EVALUATE_WORK - e->work)) return false;
  e->work += (int64_t)work;
  return true;
}

ImportFact fact_of_tensor(Evaluation *e, FactTensor tensor) {
  ImportFact f = {.kind = FACT_LARGE, .missing = FACT_LARGE, .type = tensor.type, .n = (int64_t)tensor.elements};
  if (tensor.elements > (uint64_t)EVALUATE_ELEMENTS || !spend(e, (double)tensor.elements)) return f;
  Cell *cells = ARENA_ARRAY(e->m->arena, Cell, tensor.elements);
  DType t = tensor.type->dtype;
  for (uint64_t i = 0; i < tensor.elements; i++) {
    const uint8_t *p = tensor.bytes + i * dtype_bytes(t);
    if (dtype_is_float(t)) cells[i].f = dtype_load_f(t, p);
    else cells[i].i = dtype_load_i(t, p);
  }
  return (ImportFact){.kind = FACT_CONSTANT, .type = tensor.type, .n = f.n, .cells = cells};
}

/* ---- one operation, by the interpreter */

static InterpTensor tensor_of(const Type *t, const Cell *cells) {
  InterpTensor x = {.dtype = t->dtype, .rank = t->rank, .cells = (Cell *)(uintptr_t)cells}; /* read-only */
  type_constant_dims(t, x.dims);
  return x;
}

/* Makes a function of this operation alone, with its operands as inputs of these types.  The output is result number
 * `which`, of type `out`. */
static Func *function_of(const Evaluation *e, const Op *op, const Type *const *in, int which, const Type *out,
                         Arena *scratch) {
  Func *f = ARENA_NEW(scratch, Func);
  size_t n = (size_t)op->nin, results = (size_t)op->nout;
  f->name = "constant";
  f->level = 1;
  f->ops.items = ARENA_ARRAY(scratch, Op, n + 1);
  f->values.items = ARENA_ARRAY(scratch, Value, n + 1 + results);
  f->outputs.items = ARENA_NEW(scratch, Output);
  f->ops.n = n + 1, f->values.n = n + 1 + results, f->outputs.n = 1;
  Val *operands = ARENA_ARRAY(scratch, Val, n);
  for (size_t i = 0; i < n; i++) {
    Attr *name = ARENA_NEW(scratch, Attr);
    *name = attr_s(e->m, AT_name, arena_printf(scratch, "%zu", i));
    operands[i] = (Val)i + 1;
    f->ops.items[i] = (Op){.kind = OP_input,
                           .name = name->u.s,
                           .group = name->u.s,
                           .out = operands[i],
                           .nout = 1,
                           .nattrs = 1,
                           .attrs = name};
    f->values.items[i + 1] = (Value){.type = in[i], .op = (int)i};
  }
  f->ops.items[n] = *op;
  f->ops.items[n].in = operands;
  f->ops.items[n].out = (Val)n + 1;
  for (size_t k = 0; k < results; k++)
    f->values.items[n + 1 + k] = (Value){
        .type = k == (size_t)which ? out : type_of(e->f, op->out + (Val)k),
        .op = (int)n,
    };
  f->outputs.items[0] = (Output){.name = "x", .value = (Val)n + 1 + (Val)which};
  return f;
}

static const Cell *interpret(Evaluation *e, const Op *op, const Type *const *types, const Cell *const *in, int which,
                             const Type *out) {
  Arena *scratch = arena_new();
  Diags *diags = diags_new(scratch);
  InterpNamed inputs[MAX_OPERANDS];
  InterpResult result;
  const Func *f = function_of(e, op, types, which, out, scratch);
  for (int i = 0; i < op->nin; i++) inputs[i] = (InterpNamed){f->ops.items[i].name, tensor_of(types[i], in[i])};
  Cell *cells = NULL;
  InterpOptions options = {.max_cells = 16 * EVALUATE_ELEMENTS};
  if (interp_run(e->m, f, &options, op->nin, inputs, scratch, &result, diags)) {
    size_t n = (size_t)interp_elements(&result.outputs[0].tensor);
    cells = ARENA_ARRAY(e->m->arena, Cell, n);
    memcpy(cells, result.outputs[0].tensor.cells, n * sizeof *cells);
  }
  arena_free(scratch);
  return cells;
}

static bool constant_attrs(const Op *op) {
  for (int i = 0; i < op->nattrs; i++) {
    const Attr *a = &op->attrs[i];
    int64_t v;
    if (attr_kind(a->key) == AK_EXPR && !ex_get_const(a->u.e, &v)) return false;
    for (int k = 0; attr_kind(a->key) == AK_EXPRS && k < a->n; k++)
      if (!ex_get_const(a->u.exprs[k], &v)) return false;
  }
  return true;
}

/* Elements read and written; for contractions the product of the extents of operands and result. */
static double work_of(const Evaluation *e, const Op *op) {
  double sum = 0, product = 1, n;
  int64_t dims[MAX_RANK];
  for (int i = -op->nout; i < op->nin; i++) {
    const Type *t = type_of(e->f, i < 0 ? op->out + (Val)(-i - 1) : op->in[i]);
    n = 1;
    for (int d = 0; type_constant_dims(t, dims) && d < t->rank; d++) n *= (double)dims[d];
    sum += n, product *= n > 1 ? n : 1;
  }
  if (op_is_contraction(op->kind) || op_is_windowed(op->kind)) return product;
  return op_is_composite(op->kind) || op->kind == OP_argsort || op->kind == OP_topk ? 20 * sum : sum + 1;
}

static const Cell *constants(Evaluation *e, const Op *op, int which) {
  const Type *types[MAX_OPERANDS], *out = type_of(e->f, op->out + (Val)which);
  const Cell *in[MAX_OPERANDS];
  for (int i = 0; i < op->nin; i++) types[i] = type_of(e->f, op->in[i]), in[i] = e->facts[op->in[i]].cells;
  const Cell *cells = interpret(e, op, types, in, which, out);
  if (!cells || !dtype_is_float(out->dtype)) return cells;
  Cell *rounded = (Cell *)(uintptr_t)cells; /* allocated by interpret */
  for (int64_t i = 0, n = type_elements(e->m, out)->value; i < n; i++) {
    uint8_t bytes[8];
    dtype_store_f(out->dtype, bytes, rounded[i].f);
    rounded[i].f = dtype_load_f(out->dtype, bytes);
  }
  return cells;
}

/* ---- elements that contain sizes */

static Number element(const Evaluation *e, Val v, int64_t i) {
  const ImportFact *f = &e->facts[v];
  if (f->kind == FACT_SIZES) return f->items[i];
  if (f->kind != FACT_CONSTANT) return (Number){NULL, 1};
  return dtype_is_float(type_of(e->f, v)->dtype) ? import_number_of_double(e->m, f->cells[i].f)
                                                 : (Number){ex_const(e->m, f->cells[i].i), 1};
}

/* Bit i: operand i's elements become elements of the result, unchanged; the other operands select them. */
static unsigned moves(const Op *op) {
  if (op_arranges(op->kind)) return 1;
  switch (op->kind) {
    case OP_slice:
    case OP_pad:
    case OP_within: return 1;
    case OP_concat: return ~0u;
    case OP_gather:
    case OP_take: return op->nin ? 1 : 0;
    default: return 0;
  }
}

enum { PLACE_VALUE = -1, PLACE_ZERO = 0 }; /* no element: a value that pad adds, or zero outside a table */

static bool moved(Evaluation *e, const Op *op, Number *items, int64_t n) {
  const Type *types[MAX_OPERANDS], *out = type_of(e->f, op->out);
  const Cell *in[MAX_OPERANDS];
  Cell places[MAX_OPERANDS * KNOWN_MAX];
  Attr attrs[AT_COUNT];
  struct {
    Val v;
    int64_t i;
  } from[MAX_OPERANDS * KNOWN_MAX];
  int64_t count = 0, elements;
  for (int i = 0; i < op->nin; i++) {
    types[i] = type_of(e->f, op->in[i]);
    in[i] = e->facts[op->in[i]].cells;
    if (!(moves(op) >> i & 1)) {
      if (!in[i]) return false;
      continue;
    }
    if (!ex_get_const(type_elements(e->m, types[i]), &elements) || elements > KNOWN_MAX) return false;
    types[i] = type_with_dtype(e->m, types[i], DT_i64);
    in[i] = &places[count];
    for (int64_t k = 0; k < elements; k++, count++)
      places[count].i = count + 1, from[count].v = op->in[i], from[count].i = k;
  }
  Op places_op = *op;
  for (int i = 0; i < op->nattrs; i++)
    attrs[i] = op->attrs[i].key == AT_value ? attr_f(AT_value, PLACE_VALUE) : op->attrs[i];
  places_op.attrs = attrs;
  const Cell *cells = interpret(e, &places_op, types, in, 0, type_with_dtype(e->m, out, DT_i64));
  if (!cells) return false;
  double padded = op_float(op, AT_value, 0);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = cells[i].i;
    items[i] = at > 0 ? element(e, from[at - 1].v, from[at - 1].i)
                      : import_number_of_double(e->m, at == PLACE_VALUE ? padded : PLACE_ZERO);
  }
  return true;
}

static void elementwise(Evaluation *e, const Op *op, Number *items, int64_t n) {
  const Type *from = type_of(e->f, op->in[0]), *to = type_of(e->f, op->out);
  for (int64_t i = 0; i < n; i++) {
    Number x[3];
    for (int k = 0; k < op->nin && k < 3; k++) x[k] = element(e, op->in[k], i);
    items[i] = import_number_pointwise(e->m, op->kind, from->dtype, to->dtype, x);
  }
}

static bool reduced(Evaluation *e, const Op *op, Number *items) {
  const Type *t = type_of(e->f, op->in[0]), *to = type_of(e->f, op->out);
  const Attr *axes = op_attr(op, AT_axes), *how = op_attr(op, AT_op);
  unsigned away = 0;
  int64_t elements;
  bool started[KNOWN_MAX] = {false};
  if (!ex_get_const(type_elements(e->m, t), &elements) || elements > KNOWN_MAX || elements == 0) return false;
  for (int i = 0; i < axes->n; i++) away |= 1u << axes->u.ints[i];
  for (int64_t i = 0; i < elements; i++) {
    int64_t at = i, place = 0, scale = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
      int64_t extent = t->dims[d]->value;
      if (!(away >> d & 1)) place += at % extent * scale, scale *= extent;
      at /= extent;
    }
    Number x = element(e, op->in[0], i);
    items[place] = started[place] ? import_number_reduce(e->m, how->u.reduction, to->dtype, items[place], x) : x;
    started[place] = true;
  }
  return true;
}

static bool with_sizes(Evaluation *e, const Op *op, Number *items, int64_t n) {
  if (op->kind == OP_size) {
    for (int64_t i = 0; i < n; i++) items[i] = (Number){op_expr(op, AT_expr), 1};
    return true;
  }
  if (!constant_attrs(op)) return false;
  if (moves(op)) return moved(e, op, items, n);
  if (op->kind == OP_reduce) return reduced(e, op, items);
  if (!op_is_elementwise(op->kind)) return false;
  for (int k = 0; k < op->nin; k++) {
    int64_t elements;
    if (!ex_get_const(type_elements(e->m, type_of(e->f, op->in[k])), &elements) || elements != n) return false;
  }
  elementwise(e, op, items, n);
  return true;
}

/* ---- one value */

static bool is_source_of_data(OpKind k) {
  return op_is_at_entry(k) || op_acts(k) || op_is_call(k) || op_is_loop_part(k) || k == OP_opaque;
}

static FactKind missing_in(const ImportFact *f) {
  return f->kind == FACT_SIZES || f->kind == FACT_CONSTANT ? f->missing : f->kind;
}

/* Why the result is unknown: an operand that is data, else one that cannot be expressed, else one that is too large. */
static ImportFact blame(const Evaluation *e, const Op *op, Val v, FactKind otherwise) {
  static const FactKind order[] = {FACT_DATA, FACT_OPEN, FACT_LARGE};
  ImportFact f = {.kind = otherwise, .missing = otherwise, .type = type_of(e->f, v)};
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < op->nin; i++)
      if (missing_in(&e->facts[op->in[i]]) == order[k]) {
        f.kind = f.missing = order[k], f.cause = op->in[i];
        return f;
      }
  return f;
}

static ImportFact fact_of_op(Evaluation *e, const Op *op, Val v) {
  const Type *t = type_of(e->f, v);
  int64_t n;
  bool constant = constant_attrs(op), sizes = op->kind == OP_size;
  if (op_is_source(op->kind) && e->tensors[op->out]) return fact_of_tensor(e, *e->tensors[op->out]);
  if (is_source_of_data(op->kind)) return (ImportFact){.kind = FACT_DATA, .missing = FACT_DATA, .type = t};
  for (int i = 0; i < op->nin; i++) {
    constant = constant && e->facts[op->in[i]].kind == FACT_CONSTANT;
    sizes = sizes || e->facts[op->in[i]].kind == FACT_SIZES;
  }
  if (!ex_get_const(type_elements(e->m, t), &n)) return blame(e, op, v, FACT_OPEN);
  if (n > EVALUATE_ELEMENTS || n < 0 || ((constant || sizes) && !spend(e, work_of(e, op))))
    return blame(e, op, v, FACT_LARGE);
  if (constant) {
    const Cell *cells = constants(e, op, value_index(e->f, v));
    return cells ? (ImportFact){.kind = FACT_CONSTANT, .type = t, .n = n, .cells = cells} : blame(e, op, v, FACT_OPEN);
  }
  Number items[KNOWN_MAX];
  const char *fault = e->m->expr_fault;
  bool any = false, all = true;
  if (!sizes || n > KNOWN_MAX || !with_sizes(e, op, items, n)) return blame(e, op, v, FACT_OPEN);
  if (e->m->expr_fault != fault) { /* a size beyond 64 bits; it is an error only if it is used */
    e->m->expr_fault = fault;
    return blame(e, op, v, FACT_OPEN);
  }
  for (int64_t i = 0; i < n; i++) any = any || items[i].numerator, all = all && items[i].numerator;
  ImportFact f = blame(e, op, v, FACT_OPEN);
  if (!any && n) return f;
  Number *copy = ARENA_ARRAY(e->m->arena, Number, n);
  if (n) memcpy(copy, items, sizeof *copy * (size_t)n);
  return (ImportFact){.kind = FACT_SIZES,
                      .missing = all ? FACT_NONE : f.missing,
                      .cause = all ? 0 : f.cause,
                      .type = t,
                      .n = n,
                      .items = copy};
}

/* Evaluates operands first, without recursion: a file may chain a million operations. */
const ImportFact *evaluate(Evaluation *e, Val v) {
  struct {
    Val *items;
    size_t n, cap;
  } stack = {0};
  Arena *scratch = arena_new();
  reserve(e);
  ARENA_PUSH(scratch, &stack, v);
  while (stack.n) {
    Val top = stack.items[stack.n - 1];
    const Op *op = op_of(e->f, top);
    size_t before = stack.n;
    for (int i = 0; !e->facts[top].kind && !is_source_of_data(op->kind) && i < op->nin; i++)
      if (!e->facts[op->in[i]].kind) ARENA_PUSH(scratch, &stack, op->in[i]);
    if (stack.n != before) continue;
    if (!e->facts[top].kind) e->facts[top] = fact_of_op(e, op, top);
    stack.n--;
  }
  arena_free(scratch);
  return &e->facts[v];
}

ImportKnown fact_known(Module *m, const ImportFact *f) {
  const Expr *items[KNOWN_MAX];
  if (f->n > KNOWN_MAX || (f->kind != FACT_CONSTANT && f->kind != FACT_SIZES) || f->missing ||
      dtype_is_float(f->type->dtype))
    return (ImportKnown){0};
  for (int64_t i = 0; i < f->n; i++) {
    if (f->cells && dtype_class(f->type->dtype) == DTC_U && f->cells[i].i < 0)
      return (ImportKnown){0}; /* does not fit an int64 */
    items[i] = f->cells ? ex_const(m, f->cells[i].i) : f->items[i].numerator;
  }
  return known_make(m, f->type, items);
}
