/* codegen/cuda/template.c - prints calls of the templates in dialect_templates.h with the extents of an operation;
 * attention.c, window.c, indexing.c and grouped.c print the others. */
#include <string.h>

#include "base/die.h"
#include "codegen/cuda/template.h"

enum { UPDATE_BLOCKS = 1024 };

const Type *ct_in(const CudaTemplate *k, int i) { return units_type(k->units, k->f, k->u->in[i]); }
const Type *ct_out(const CudaTemplate *k) { return units_type(k->units, k->f, k->u->out[0]); }
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

void cuda_rope(CudaTemplate *k) {
  const Type *x = ct_in(k, 0);
  int r = x->rank;
  const Expr *pairs = ex_div(k->m, x->dims[r - 1], ex_const(k->m, 2));
  ct_launch(k, ex_mul(k->m, type_product(k->m, x, 0, r - 2), pairs), 256, 256, "pair of all heads per thread");
  text_printf(&k->body, "  rope_%s(a.p2, a.p0, a.p1, %s, %s, %s, %s, %a, %d);\n", dtype_name(x->dtype),
              ct_scalar(k, type_product(k->m, x, 0, r - 3)), ct_scalar(k, x->dims[r - 3]), ct_scalar(k, x->dims[r - 2]),
              ct_scalar(k, x->dims[r - 1]), op_float(k->op, AT_base, 10000), op_int(k->op, AT_interleaved, 0) != 0);
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
