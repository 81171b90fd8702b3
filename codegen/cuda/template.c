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

/* Positions of all rows, or of each; with a count of new elements. */
static void update_of_rows(CudaTemplate *k, const char *t, size_t size, int axis) {
  const Type *x = ct_in(k, 0), *u = ct_in(k, 1);
  bool counted = k->op->nin > 3;
  int at = ct_in(k, 2)->rank, each = counted ? ct_in(k, 3)->rank : 0, rows = at || each;
  text_printf(&k->body, "  update_rows_%zu((%s *)a.p%d, (const %s *)a.p0, (const %s *)a.p1, a.p2, %d, %s, %d, ", size,
              t, k->op->nin, t, t, at, counted ? "a.p3" : "0", each);
  text_printf(&k->body, "%s, %s, %s, %s, %s, %s, %s);\n", ct_scalar(k, op_expr(k->op, AT_start)),
              rows ? ct_scalar(k, x->dims[0]) : "1", ct_scalar(k, type_product(k->m, x, rows, axis)),
              ct_scalar(k, x->dims[axis]), ct_scalar(k, u->dims[axis]),
              ct_scalar(k, type_product(k->m, x, axis + 1, x->rank)), ct_scalar(k, k->k->launch.blocks));
}

void cuda_update(CudaTemplate *k) {
  const Type *x = ct_in(k, 0), *u = ct_in(k, 1);
  int axis = (int)op_int(k->op, AT_axis, 0);
  ct_launch(k, type_product(k->m, x, 0, x->rank), 256, 256, "elements");
  k->k->launch.blocks = ex_min(k->m, k->k->launch.blocks, ex_const(k->m, UPDATE_BLOCKS));
  static const char *const types[9] = {[1] = "uint8_t", [2] = "uint16_t", [4] = "uint32_t", [8] = "uint64_t"};
  size_t size = dtype_bytes(x->dtype);
  const char *t = types[size];
  if (k->op->nin > 3 || ct_in(k, 2)->rank) {
    update_of_rows(k, t, size, axis);
    return;
  }
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
  const char *position = "a.p1";
  if (ct_in(k, 1)->rank > 1) { /* of each row of the batch */
    const Type *whole = in.type;
    position = "position";
    text_printf(&k->body,
                "  const int64_t *position = a.p1 + (block_index() * 256 + thread_index()) / %s / %s / %s * %s;\n",
                ct_scalar(k, pairs), ct_scalar(k, t->dims[r - 3]),
                ct_scalar(k, type_product(k->m, whole, 1, whole->rank - 3)), ct_scalar(k, t->dims[r - 3]));
  }
  text_printf(&k->body, "  rope_%s(%s, %s, %s, %s, %s, %s, %s, %s, %a, %d", dtype_name(t->dtype), ct_at(k, 2, &y),
              ct_at(k, 0, &x), position, ct_scalar(k, type_product(k->m, t, 0, r - 3)),
              r < 4 ? "1" : ct_scalar(k, t->dims[r - 4]), ct_scalar(k, t->dims[r - 3]), ct_scalar(k, t->dims[r - 2]),
              ct_scalar(k, t->dims[r - 1]), op_float(k->op, AT_base, 10000), op_int(k->op, AT_interleaved, 0) != 0);
  print_turned(k, &x), print_turned(k, &y);
  text_add(&k->body, ");\n");
}

/* Prints a set of rows and its place in the grid; adds its threads to *jobs. */
static void print_set(CudaTemplate *k, int i, const Expr **jobs) {
  enum { ENOUGH = 1 << 16, MOST_HEADS = 8 };
  static const char *const names[] = {"from", "to"};
  Module *m = k->m;
  const CacheSet *c = &k->u->cache->set[i];
  const Expr *places = ex_mul(m, ex_mul(m, c->extent[0], c->extent[1]), c->extent[2]),
             *pairs = ex_ceil_div(m, c->extent[4], ex_const(m, 2)), *threads = ex_mul(m, places, pairs);
  int each = work_expected(m, ex_mul(m, threads, c->extent[3])) > ENOUGH ? MOST_HEADS : 1;
  *jobs = ex_add(m, *jobs, ex_mul(m, threads, ex_ceil_div(m, c->extent[3], ex_const(m, each))));
  text_printf(&k->body, "  c[%d].places = %s, c[%d].rotated = %d, c[%d].each = %d;\n", i, ct_scalar(k, places), i,
              c->rotated, i, each);
  for (int d = 0; d < CACHE_DIMS; d++)
    text_printf(&k->body, "%sc[%d].extent[%d] = %s", d ? ", " : "  ", i, d, ct_scalar(k, c->extent[d]));
  for (int t = 0; t < 2; t++)
    for (int d = 0; d < CACHE_DIMS - 1; d++)
      text_printf(&k->body, "%sc[%d].%s[%d] = %s", d ? ", " : ";\n  ", i, names[t], d,
                  ct_scalar(k, (t ? c->to : c->from)[d]));
  text_add(&k->body, ";\n");
}

static const char *moved(CudaTemplate *k, int pointer, const Expr *offset) {
  TensorPlace at = {.offset = offset};
  return ct_at(k, pointer, &at);
}

void cuda_cache(CudaTemplate *k) {
  const CacheUnit *u = k->u->cache;
  Text *t = &k->body;
  int nin = k->u->nin, axis = (int)op_int(k->op, AT_axis, 0);
  const Type *rows = units_type(k->units, k->f, k->op->in[1]);
  const Expr *jobs = ex_const(k->m, 0);
  const char *type = dtype_name(ct_out(k)->dtype);
  text_printf(t, "  CacheSet c[%d];\n", u->n);
  for (int i = 0; i < u->n; i++) print_set(k, i, &jobs);
  jobs = ex_addi(k->m, jobs, 1); /* at least one block: caches are copied even if there are no new rows */
  ct_launch(k, jobs, 256, 256, "pair of elements of some heads per thread");
  const char *length = ct_scalar(k, ct_in(k, nin - 1)->dims[axis]), *added = ct_scalar(k, rows->dims[axis]);
  text_printf(t, "  int64_t first = update_first(*a.p1, %s, %s, %s), job = block_index() * 256 + thread_index();\n",
              ct_scalar(k, u->start), length, added);
  for (int i = 0; i < u->n; i++) {
    bool cached = i >= u->n - 2;
    text_printf(t, "  job = cache_set_%s(&c[%d], %s, %s, a.p0, %a, %d, %s, %s, job);\n", type, i,
                moved(k, nin + i, u->set[i].to_offset), moved(k, 2 + i, u->set[i].from_offset), u->base, u->interleaved,
                cached ? "first" : "0", cached ? length : "INT64_MAX");
  }
  const char *blocks = ct_scalar(k, k->k->launch.blocks);
  for (int i = 0; i < 2; i++) {
    const Type *cache = ct_in(k, nin - 2 + i);
    text_printf(t, "  cache_copy_%s(a.p%d, a.p%d, %s, %s, %s, first, %s, %s);\n", type, nin + u->n - 2 + i, nin - 2 + i,
                ct_scalar(k, type_product(k->m, cache, 0, axis)), length,
                ct_scalar(k, type_product(k->m, cache, axis + 1, cache->rank)), added, blocks);
  }
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
  if (!families[k.op->kind] && !u->few) die("cuda_template: no template for %s", op_name(k.op->kind));
  if (u->few) cuda_few(&k);
  else if (u->cache) cuda_cache(&k);
  else families[k.op->kind](&k);
  DType *dtypes = ARENA_ARRAY(m->arena, DType, u->nin + u->nout);
  for (int i = 0; i < u->nin; i++) dtypes[i] = units_type(units, l2, u->in[i])->dtype;
  for (int i = 0; i < u->nout; i++) dtypes[u->nin + i] = units_type(units, l2, u->out[i])->dtype;
  Text t = {.arena = m->arena};
  cuda_print_head(&t, out->launch.threads, u->nin + u->nout, dtypes, u->nout, k.scalars.n, out->looks);
  text_printf(&t, "%s}\n\n", text_str(&k.body));
  out->nscalars = (int)k.scalars.n, out->scalars = k.scalars.items;
  return text_str(&t);
}
