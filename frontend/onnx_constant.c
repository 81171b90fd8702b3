/* frontend/onnx_constant.c - the number a built value of one element has, when constants alone determine it.
 *
 * Bounds, conditions and numbers of rounds are often computed by nodes from constants.  The few operations such a value is made of are copied
 * into a function of their own, which the interpreter runs: in double, rounded by casts only.
 */
#include "frontend/onnx_import_private.h"
#include "ir/interp.h"

enum { MAX_OPS = 64, MAX_ELEMENTS = KNOWN_MAX };

typedef struct Copy {
  const Func *from;
  Builder b;
  Val of[MAX_OPS][2]; /* value there, value here */
  int n;
} Copy;

static bool computes(OpKind kind) {
  switch (kind) {
    case OP_const: case OP_cast: case OP_select: case OP_broadcast: case OP_reshape: case OP_transpose: case OP_slice: case OP_concat:
    case OP_reduce: case OP_gather: case OP_iota: case OP_copy: return true;
    default: return op_class(kind) != OC_OTHER;
  }
}

/* 0 when something else than constants is behind the value, or too much. */
static Val copy_value(Copy *c, Val v, int depth) {
  const Op *op = op_of(c->from, v);
  const Type *t = type_of(c->from, v);
  Val in[MAX_OPERANDS];
  int64_t dims[MAX_RANK], elements = 1;
  for (int i = 0; i < c->n; i++)
    if (c->of[i][0] == v) return c->of[i][1];
  if (depth > MAX_OPS || !computes(op->kind) || !type_constant_dims(t, dims)) return 0;
  for (int d = 0; d < t->rank; d++) elements = dims[d] > MAX_ELEMENTS ? MAX_ELEMENTS + 1 : elements * dims[d];
  if (elements > MAX_ELEMENTS) return 0;
  for (int i = 0; i < op->nin; i++)
    if (!(in[i] = copy_value(c, op->in[i], depth + 1))) return 0;
  if (c->n == MAX_OPS) return 0;
  OpSpec spec = op_spec_of(c->from, op);
  spec.in = in;
  Val made = build_op(&c->b, &spec);
  if (made) c->of[c->n][0] = v, c->of[c->n++][1] = made;
  return made;
}

bool constant_number(Node *n, Val v, double *out) {
  const Type *t = type_of(n->b->f, v);
  Arena *scratch = arena_new();
  Diags *diags = diags_new(scratch);
  Func *f = ARENA_NEW(n->m->arena, Func);
  f->name = "constant";
  f->level = 1;
  ARENA_PUSH(n->m->arena, &f->values, (Value){0}); /* item 0 is no value */
  Copy c = {.from = n->b->f, .b = builder_new(n->m, f, diags)};
  InterpResult result;
  Val made = copy_value(&c, v, 0);
  if (made) build_output(&c.b, "x", made, NULL);
  bool ok = made && interp_run(n->m, f, &(InterpOptions){0}, 0, NULL, scratch, &result, diags) && interp_elements(&result.outputs[0].tensor) == 1;
  if (ok) *out = dtype_is_float(t->dtype) ? result.outputs[0].tensor.cells[0].f : (double)result.outputs[0].tensor.cells[0].i;
  arena_free(scratch);
  return ok;
}
