/* codegen/cuda/template.c - prints calls of the templates in dialect_templates.h with the extents of an operation;
 * attention.c, window.c, indexing.c and grouped.c print the others. */
#include <string.h>

#include "base/die.h"
#include "codegen/cuda/template.h"
#include "codegen/rows/row_work.h"

enum { UPDATE_BLOCKS = 1024 };

const Type *ct_in(const CudaTemplate *k, int i) { return units_type(k->units, k->f, k->u->in[i]); }
const Type *ct_out(const CudaTemplate *k) { return units_type(k->units, k->f, k->u->out[0]); }

TensorPlace ct_in_place(const CudaTemplate *k, int i) {
  bool placed = k->u->place && k->u->place->in[i].type;
  return placed ? k->u->place->in[i] : work_dense_place(k->m, ct_in(k, i));
}

TensorPlace ct_out_place(const CudaTemplate *k) {
  bool placed = k->u->place && k->u->place->result;
  return placed ? k->u->place->out : work_dense_place(k->m, ct_out(k));
}

Epilogue ct_epilogue(const CudaTemplate *k) { return k->u->conv ? k->u->conv->epilogue : (Epilogue){0}; }

const char *ct_scalar(CudaTemplate *k, const Expr *e) { return rp_scalar_text(k->m, &k->scalars, e); }

void ct_launch(CudaTemplate *k, const Expr *jobs, int per_block, int threads, const char *how) {
  k->k->launch = (CudaSchedule){.threads = threads, .blocks = ex_ceil_div(k->m, jobs, ex_const(k->m, per_block))};
  k->k->how = arena_printf(k->m->arena, "%s, %d threads", how, threads);
}

void cuda_update(CudaTemplate *k) {
  const Type *x = ct_in(k, 0), *u = ct_in(k, 1);
  int axis = (int)op_int(k->op, AT_axis, 0);
  ct_launch(k, type_product(k->m, x, 0, x->rank), 256, 256, "elements");
  k->k->launch.blocks = ex_min(k->m, k->k->launch.blocks, ex_const(k->m, UPDATE_BLOCKS));
  static const char *const types[9] = {[1] = "uint8_t", [2] = "uint16_t", [4] = "uint32_t", [8] = "uint64_t"};
  size_t size = dtype_bytes(x->dtype);
  const char *t = types[size];
  text_printf(&k->body,
              "  update_%zu((%s *)a.p3, (const %s *)a.p0, (const %s *)a.p1, *a.p2, %s, %s, %s, %s, %s, %s);\n", size, t,
              t, t, ct_scalar(k, op_expr(k->op, AT_start)), ct_scalar(k, type_product(k->m, x, 0, axis)),
              ct_scalar(k, x->dims[axis]), ct_scalar(k, u->dims[axis]),
              ct_scalar(k, type_product(k->m, x, axis + 1, x->rank)), ct_scalar(k, k->k->launch.blocks));
}

const char *ct_at(CudaTemplate *k, int i, const TensorPlace *p) {
  bool first = ex_is_const(p->offset, 0);
  return arena_printf(k->m->arena, first ? "a.p%d" : "a.p%d + %s", i, first ? "" : ct_scalar(k, p->offset));
}

/* Prints the strides of the dimensions before the positions, of positions and heads. */
static void print_turned(CudaTemplate *k, const TensorPlace *p) {
  int r = p->type->rank;
  for (int d = r - 5; d < r - 1; d++) text_printf(&k->body, ", %s", d < 0 ? "0" : ct_scalar(k, p->stride[d]));
}

/* Merges the dimensions before the positions of a dense tensor into one. */
static TensorPlace few_before(Module *m, const TensorPlace *p) {
  TensorPlace few = *p;
  const Type *t = p->type;
  if (t->rank <= 5) return few;
  const Expr *dims[4] = {type_product(m, t, 0, t->rank - 3)};
  for (int d = 1; d < 4; d++) dims[d] = t->dims[t->rank - 4 + d], few.stride[d] = p->stride[t->rank - 4 + d];
  few.stride[0] = p->stride[t->rank - 4];
  few.type = type_get(m, t->dtype, 4, dims);
  return few;
}

void cuda_rope(CudaTemplate *k) {
  TensorPlace in = ct_in_place(k, 0), out = ct_out_place(k), x = few_before(k->m, &in), y = few_before(k->m, &out);
  const Type *t = x.type;
  int r = t->rank;
  const Expr *pairs = ex_div(k->m, t->dims[r - 1], ex_const(k->m, 2));
  ct_launch(k, ex_mul(k->m, type_product(k->m, t, 0, r - 2), pairs), 256, 256, "pair of all heads per thread");
  text_printf(&k->body, "  rope_%s(%s, %s, a.p1, %s, %s, %s, %s, %s, %a, %d", dtype_name(t->dtype), ct_at(k, 2, &y),
              ct_at(k, 0, &x), ct_scalar(k, type_product(k->m, t, 0, r - 3)),
              r < 4 ? "1" : ct_scalar(k, t->dims[r - 4]), ct_scalar(k, t->dims[r - 3]), ct_scalar(k, t->dims[r - 2]),
              ct_scalar(k, t->dims[r - 1]), op_float(k->op, AT_base, 10000), op_int(k->op, AT_interleaved, 0) != 0);
  print_turned(k, &x), print_turned(k, &y);
  text_add(&k->body, ");\n");
}

static CudaTemplateFn *const families[OP_COUNT] = {
#define TEMPLATE(op, family) [OP_##op] = cuda_##family,
#include "codegen/rows/templates.def"
};

bool cuda_template_exists(OpKind k) { return families[k] != NULL; }

const char *cuda_template(Module *m, const Func *l2, const UnitList *units, const Unit *u, const char *arch,
                          CudaKernel *out) {
  enum { TENSOR_ARCH = 80 };
  CudaTemplate k = {.m = m,
                    .f = l2,
                    .units = units,
                    .u = u,
                    .op = u->conv ? u->conv->op : &l2->ops.items[u->op],
                    .body = {.arena = m->arena},
                    .k = out,
                    .tensor = !cuda_arch(arch) || cuda_arch(arch) >= TENSOR_ARCH};
  if (!families[k.op->kind]) die("cuda_template: no template for %s", op_name(k.op->kind));
  families[k.op->kind](&k);
  DType *dtypes = ARENA_ARRAY(m->arena, DType, u->nin + u->nout);
  for (int i = 0; i < u->nin; i++) dtypes[i] = units_type(units, l2, u->in[i])->dtype;
  for (int i = 0; i < u->nout; i++) dtypes[u->nin + i] = units_type(units, l2, u->out[i])->dtype;
  Text t = {.arena = m->arena};
  cuda_print_head(&t, out->launch.threads, u->nin + u->nout, dtypes, u->nout, k.scalars.n, out->looks);
  text_printf(&t, "%s}\n\n", text_str(&k.body));
  out->nscalars = (int)k.scalars.n, out->scalars = k.scalars.items;
  return text_str(&t);
}
