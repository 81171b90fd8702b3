/* codegen/cuda/attention.c - prints the CUDA kernels of attention and its gradients: sizes, then a call of
 * dialect_attention.h, which has several variants, or of dialect_attention_grad.h.  The type and the planned sizes
 * choose the variant; each is correct for all sizes. */
#include <string.h>

#include "codegen/cuda/template.h"
#include "codegen/rows/row_work.h"

enum { TILE_OF_ROWS = 64, FEW_ROWS = 8, NARROW = 64, MOST_BY_TENSOR = 128 };

/* Prints the strides of the bias for the scores [b, g, r, s, t], as in template_attention; q: the queries [b, g, r, s,
 * k], which operand 0 may hold in another layout. */
static void print_bias(CudaTemplate *k, const Type *q) {
  const char *bias = op_str(k->op, AT_bias);
  const Type *t = ct_in(k, 6);
  text_printf(&k->body, "  b.bias = a.p6, b.heads = %s;\n", ct_scalar(k, q->dims[1]));
  for (int d = 0; d < 4; d++) {
    const char *at = strchr(bias, "bgrs"[d]);
    text_printf(&k->body, "  b.stride[%d] = %s;\n", d,
                at ? ct_scalar(k, type_product(k->m, t, (int)(at - bias) + 1, t->rank)) : "0");
  }
}

/* Prints the layout of a matrix's rows: `name` is a Lines of the dialect; [b, g, r, s, k] or [b, g, t, k]. */
static void print_lines(CudaTemplate *k, const char *name, const TensorPlace *p) {
  const Type *t = p->type;
  const Expr *step = p->stride[t->rank - 2], *repeat = t->rank == 5 ? p->stride[2] : NULL;
  bool even = !repeat || ex_is_const(t->dims[2], 1) || repeat == ex_mul(k->m, t->dims[3], step);
  text_printf(&k->body, "  %s.heads = %s, %s.batch = %s, %s.head = %s;\n", name, ct_scalar(k, t->dims[1]), name,
              ct_scalar(k, p->stride[0]), name, ct_scalar(k, p->stride[1]));
  text_printf(&k->body, "  %s.s = %s, %s.repeat = %s, %s.step = %s;\n", name, even ? "0" : ct_scalar(k, t->dims[3]),
              name, even ? "0" : ct_scalar(k, repeat), name, ct_scalar(k, step));
}

static bool has_sums(const CudaTemplate *k) { return k->op->nout > 1; }

/* True if it is a constant from 1 to `most`. */
static bool is_small(const Expr *e, int most, int *value) {
  int64_t v;
  bool small = ex_get_const(e, &v) && v >= 1 && v <= most;
  *value = small ? (int)v : 0;
  return small;
}

/* The function to call: attention_NAME_TYPE, with more arguments; and the group that a thread works for, which may be
 * one beyond the last. */
typedef struct Way {
  const char *name, *more, *group;
} Way;

/* Launches a warp per query row, 256 elements of the result each. */
static Way by_rows(CudaTemplate *k, const Type *q, const Type *v) {
  const Expr *chunks = ex_ceil_div(k->m, v->dims[3], ex_const(k->m, 256));
  if (has_sums(k)) chunks = ex_max(k->m, chunks, ex_const(k->m, 1));
  ct_launch(k, ex_mul(k->m, type_product(k->m, q, 0, 4), chunks), 4, 128, "query row per warp");
  return (Way){"row", "", "(block_index() * 4 + warp_index()) / (b.e > 256 ? (b.e + 255) / 256 : 1) / b.rows"};
}

/* Launches a block per 64 query rows and 64 or 128 elements of the result. */
static Way by_tiles(CudaTemplate *k, const Type *q, const Type *v) {
  Module *m = k->m;
  bool wide = work_expected(m, v->dims[3]) > NARROW;
  const Expr *panels = ex_ceil_div(m, v->dims[3], ex_const(m, wide ? 2 * NARROW : NARROW)),
             *tiles = ex_ceil_div(m, type_product(m, q, 2, 4), ex_const(m, TILE_OF_ROWS));
  if (has_sums(k)) panels = ex_max(m, panels, ex_const(m, 1));
  ct_launch(k, ex_mul(m, type_product(m, q, 0, 2), ex_mul(m, tiles, panels)), 1, 256, "64 query rows per block");
  k->k->launch.shared = (2 * 64 * 32 + 64 * 64) * 4 + (op_attr(k->op, AT_bias) ? 3 : 2) * 64 * 8;
  const char *columns = wide ? "128" : "64";
  return (Way){"tile", wide ? ", 1" : ", 0",
               arena_printf(m->arena, "block_index() / (b.e > %s ? (b.e + %s - 1) / %s : 1) / ((b.rows + 63) / 64)",
                            columns, columns, columns)};
}

/* Launches a block per 64 query rows. */
static Way by_tensor(CudaTemplate *k, const Type *q, int width, int columns) {
  Module *m = k->m;
  int ks = (width + 15) / 16, es = (columns + 15) / 16, both = 64 * (16 * ks + 8 + 16 * es + 8),
      places = op_attr(k->op, AT_bias) ? 256 : 192;
  const Expr *tiles = ex_ceil_div(m, type_product(m, q, 2, 4), ex_const(m, TILE_OF_ROWS));
  ct_launch(k, ex_mul(m, type_product(m, q, 0, 2), tiles), 1, 128, "64 query rows per block, tensor cores");
  k->k->launch.shared = 2 * both + 8 * places;
  text_printf(&k->body, "  SHARED(uint16_t, both, %d);\n  SHARED(int64_t, places, %d);\n", both, places);
  return (Way){"tensor", arena_printf(m->arena, ", %d, %d, both, places", ks, es),
               "block_index() / ((b.rows + 63) / 64)"};
}

/* Returns the number of lanes that read a row of `width` numbers, 8 each. */
static int lanes_for(int width) {
  int n = 1;
  while (8 * n < width) n *= 2;
  return n;
}

static int constant(const Expr *e) {
  int64_t v;
  return ex_get_const(e, &v) ? (int)v : 1;
}

/* Launches a block per 1, 2, 4 or 8 query rows and piece of their shared keys. */
static Way by_few(CudaTemplate *k, const Type *q, const Type *v) {
  Module *m = k->m;
  int rows = work_few_rows(k->units->work, k->op), kl = lanes_for(constant(q->dims[4])),
      el = lanes_for(constant(v->dims[3])), parts = 8 * rows * (8 * el + 2),
      pieces = k->u->split ? k->u->split->pieces : 1;
  const Expr *panels = ex_ceil_div(m, type_product(m, q, 2, 4), ex_const(m, rows)),
             *blocks = ex_mul(m, ex_const(m, pieces), ex_mul(m, type_product(m, q, 0, 2), panels));
  ct_launch(k, blocks, 1, 256,
            pieces > 1 ? "few query rows and a piece of the keys per block" : "few query rows per block");
  k->k->launch.shared = 4 * parts;
  text_printf(&k->body, "  SHARED(float, parts, %d);\n", parts);
  const char *found = pieces > 1 ? arena_printf(m->arena, "a.p%d", k->u->nin + k->u->nout - 1) : "0";
  const char *each = arena_printf(m->arena, "((b.rows + %d) / %d)", rows - 1, rows);
  return (Way){"few", arena_printf(m->arena, ", %d, %d, %d, parts, %d, %s", rows, kl, el, pieces, found),
               arena_printf(m->arena, "block_index() %% (b.groups * %s) / %s", each, each)};
}

static Way choose_way(CudaTemplate *k, const Type *q, const Type *v) {
  int width, columns;
  if (work_has_few_rows(k->units->work, k->op)) return by_few(k, q, v);
  if (q->dtype == DT_f64 || work_expected(k->m, type_product(k->m, q, 2, 4)) <= FEW_ROWS) return by_rows(k, q, v);
  if (k->tensor && q->dtype != DT_f32 && is_small(q->dims[4], MOST_BY_TENSOR, &width) &&
      is_small(v->dims[3], MOST_BY_TENSOR, &columns))
    return by_tensor(k, q, width, columns);
  return by_tiles(k, q, v);
}

/* With positions or lengths of each row of the batch, prints that `b` has those of the thread's group. */
static void print_own_positions(CudaTemplate *k, const Type *q, const char *group) {
  const Type *t[] = {ct_in(k, 3), ct_in(k, 4), ct_in(k, 5)};
  if (t[0]->rank + t[1]->rank + t[2]->rank == 2) return;
  text_printf(&k->body, "  int64_t own = %s;\n  own = (own < b.groups ? own : b.groups - 1) / %s;\n", group,
              ct_scalar(k, q->dims[1]));
  if (t[0]->rank > 1) text_printf(&k->body, "  b.query_position += own * %s;\n", ct_scalar(k, q->dims[3]));
  if (t[1]->rank > 1) text_add(&k->body, "  b.key_position += own * b.t;\n");
  if (t[2]->rank > 0) text_add(&k->body, "  b.length = a.p5[own];\n");
}

/* Prints sizes, masks and bias as `b`; `out`: NULL if the place of the result follows; `group` as in Way, NULL if all
 * rows have the same positions. */
static void print_attention(CudaTemplate *k, const TensorPlace in[3], const TensorPlace *out, const char *group) {
  const Type *q = in[0].type, *v = in[2].type;
  text_printf(&k->body, "  Attention b;\n  b.groups = %s, b.rows = %s, b.s = %s, b.t = %s, b.k = %s, b.e = %s;\n",
              ct_scalar(k, type_product(k->m, q, 0, 2)), ct_scalar(k, type_product(k->m, q, 2, 4)),
              ct_scalar(k, q->dims[3]), ct_scalar(k, v->dims[2]), ct_scalar(k, q->dims[4]), ct_scalar(k, v->dims[3]));
  text_printf(&k->body, "  b.causal = %d, b.query_position = a.p3, b.key_position = a.p4, b.length = *a.p5;\n",
              op_int(k->op, AT_causal, 0) != 0);
  if (op_attr(k->op, AT_bias)) print_bias(k, q);
  else text_add(&k->body, "  b.bias = 0;\n");
  if (group) print_own_positions(k, q, group);
  const Op *keys = op_of(k->f, k->op->in[4]);
  bool in_order = keys->kind == OP_iota && op_int(keys, AT_axis, 0) == ct_in(k, 4)->rank - 1;
  text_printf(&k->body, in_order ? "  b.used = attention_used(&b, %s);\n" : "  b.used = b.t;\n",
              in_order ? ct_scalar(k, op_expr(keys, AT_start)) : "");
  static const char *const names[3] = {"b.of_query", "b.of_keys", "b.of_values"};
  for (int i = 0; i < 3; i++) print_lines(k, names[i], &in[i]);
  if (out) print_lines(k, "b.of_result", out);
}

void cuda_attention(CudaTemplate *k) {
  const TensorPlace in[3] = {ct_in_place(k, 0), ct_in_place(k, 1), ct_in_place(k, 2)};
  const Type *q = in[0].type;
  Way way = choose_way(k, q, in[2].type);
  int at = k->op->nin;
  const TensorPlace out = ct_out_place(k);
  print_attention(k, in, &out, way.group);
  if (has_sums(k)) text_printf(&k->body, "  b.max = a.p%d, b.sum = a.p%d;\n", at + 1, at + 2);
  else text_add(&k->body, "  b.max = b.sum = 0;\n");
  text_printf(&k->body, "  attention_%s_%s(&b, %s, %s, %s, %s, %a%s);\n", way.name, dtype_name(q->dtype),
              ct_at(k, at, &out), ct_at(k, 0, &in[0]), ct_at(k, 1, &in[1]), ct_at(k, 2, &in[2]),
              op_float(k->op, AT_scale, 1), way.more);
}

/* ---- gradients: one of them, or several by one kernel (GradsUnit), each by blocks of its own */

typedef struct Grads {
  int n;
  GradsPart part[GRADS_MOST]; /* with places */
  int at[GRADS_MOST];         /* the argument that holds its result */
  bool together;              /* the blocks of keys compute those of values as well */
} Grads;

static char of_part(const Grads *g, int i) { return *op_str(g->part[i].op, AT_of); }

static Grads grads_of(const CudaTemplate *k) {
  const int first = k->op->nin;
  Grads g = {.n = 1, .part = {{.op = k->op, .out = ct_out_place(k)}}, .at = {first}};
  if (!k->u->grads) return g;
  g.n = k->u->grads->n;
  for (int i = 0; i < g.n; i++) {
    g.part[i] = k->u->grads->part[i];
    if (!g.part[i].out.type) g.part[i].out = work_dense_place(k->m, units_type(k->units, k->f, g.part[i].result));
    for (int j = 0; j < k->u->nout; j++)
      if (k->u->out[j] == g.part[i].result) g.at[i] = first + j;
  }
  return g;
}

/* How they are computed: by which function, and with how many rows and elements of a result per block. */
typedef struct GradWay {
  const char *name, *how, *more; /* more: arguments after `of`; NULL if the function takes `of` from its struct */
  int threads, rows, elements;   /* rows: of one group; 0: one per warp, of any group.  elements: 0: all */
  int shared;
} GradWay;

static GradWay grad_by_tensor(CudaTemplate *k, Grads *g, int width, int columns) {
  int ks = (width + 15) / 16, es = (columns + 15) / 16, both = 64 * (16 * ks + 8 + 16 * es + 8);
  text_printf(&k->body,
              "  SHARED(uint16_t, both, %d);\n  SHARED(float, numbers, 192);\n  SHARED(int64_t, places, 192);\n", both);
  g->together =
      width <= NARROW && columns <= NARROW && g->n > 1 && of_part(g, g->n - 1) == 'v' && of_part(g, g->n - 2) == 'k';
  return (GradWay){.name = "tensor",
                   .how = "64 rows of the result per block, tensor cores",
                   .more = arena_printf(k->m->arena, "%d, %d, both, numbers, places", ks, es),
                   .threads = 128,
                   .rows = TILE_OF_ROWS,
                   .shared = 2 * both + 4 * 192 + 8 * 192};
}

static GradWay choose_grad_way(CudaTemplate *k, Grads *g, const Type *q, const Type *v) {
  int width, columns;
  int64_t rows = work_expected(k->m, type_product(k->m, q, 2, 4)), keys = work_expected(k->m, v->dims[2]);
  if (q->dtype == DT_f64 || rows <= FEW_ROWS || keys <= FEW_ROWS)
    return (GradWay){.name = "row", .how = "row of the result per warp", .threads = 128, .elements = 256};
  if (k->tensor && q->dtype != DT_f32 && is_small(q->dims[4], MOST_BY_TENSOR, &width) &&
      is_small(v->dims[3], MOST_BY_TENSOR, &columns))
    return grad_by_tensor(k, g, width, columns);
  return (GradWay){.name = "tile",
                   .how = "64 rows of the result per block",
                   .threads = 256,
                   .rows = TILE_OF_ROWS,
                   .elements = NARROW,
                   .shared = (2 * 64 * 32 + 64 * 64 + 3 * 64) * 4 + 3 * 64 * 8};
}

/* Returns the blocks that compute part i. */
static const Expr *grad_blocks(Module *m, const GradWay *way, const Grads *g, int i) {
  const Type *y = g->part[i].out.type;
  const Expr *rows = type_product(m, y, 2, y->rank - 1), *jobs = type_product(m, y, 0, 2);
  jobs = ex_mul(m, jobs, way->rows ? ex_ceil_div(m, rows, ex_const(m, way->rows)) : rows);
  if (way->elements) jobs = ex_mul(m, jobs, ex_ceil_div(m, y->dims[y->rank - 1], ex_const(m, way->elements)));
  return way->rows ? jobs : ex_ceil_div(m, jobs, ex_const(m, way->threads / 32));
}

static void print_grad_call(CudaTemplate *k, const GradWay *way, const TensorPlace in[3], const char *more) {
  text_printf(&k->body, "  attention_grad_%s_%s(&b, &g, out, %s, %s, %s, %a, block%s);\n", way->name,
              dtype_name(in[0].type->dtype), ct_at(k, 0, &in[0]), ct_at(k, 1, &in[1]), ct_at(k, 2, &in[2]),
              op_float(k->op, AT_scale, 1), more);
}

/* Prints where the result of part i is, and on tensor cores the call; with the values' if keys' blocks compute both. */
static void print_grad(CudaTemplate *k, const Grads *g, int i, const GradWay *way, const TensorPlace in[3]) {
  const bool together = g->together && of_part(g, i) == 'k';
  const char of = together ? 'b' : of_part(g, i), *more = "0, 0";
  text_printf(&k->body, "  g.of = '%c', out = %s;\n", of, ct_at(k, g->at[i], &g->part[i].out));
  print_lines(k, "b.of_result", &g->part[i].out);
  if (together) {
    text_add(&k->body, "  Lines of_more;\n");
    print_lines(k, "of_more", &g->part[i + 1].out);
    more = arena_printf(k->m->arena, "%s, &of_more", ct_at(k, g->at[i + 1], &g->part[i + 1].out));
  }
  if (way->more) print_grad_call(k, way, in, arena_printf(k->m->arena, ", '%c', %s, %s", of, way->more, more));
}

/* Prints the parts: the first blocks compute the last part, since keys and values take longest.  Returns the number of
 * blocks. */
static const Expr *print_grads(CudaTemplate *k, const Grads *g, const GradWay *way, const TensorPlace in[3]) {
  const int last = g->n - 1 - (g->together ? 1 : 0);
  const Expr *before = NULL, *all = ex_const(k->m, 0);
  for (int i = last; i >= 0; i--) {
    const Expr *own = grad_blocks(k->m, way, g, i);
    if (i > 0 && !before) text_printf(&k->body, "  if (block < %s) {\n", ct_scalar(k, own));
    else if (i > 0)
      text_printf(&k->body, "  } else if ((block -= %s) < %s) {\n", ct_scalar(k, before), ct_scalar(k, own));
    else if (before) text_printf(&k->body, "  } else {\n  block -= %s;\n", ct_scalar(k, before));
    print_grad(k, g, i, way, in);
    before = own, all = ex_add(k->m, all, own);
  }
  if (last > 0) text_add(&k->body, "  }\n");
  if (!way->more) print_grad_call(k, way, in, "");
  return all;
}

void cuda_attention_grad(CudaTemplate *k) {
  const int at = k->op->nin;
  const TensorPlace in[3] = {ct_in_place(k, 0), ct_in_place(k, 1), ct_in_place(k, 2)}, o = ct_in_place(k, at - 4),
                    d = ct_in_place(k, at - 1);
  Grads g = grads_of(k);
  GradWay way = choose_grad_way(k, &g, in[0].type, in[2].type);
  print_attention(k, in, NULL, NULL);
  text_printf(&k->body,
              "  b.max = b.sum = 0;\n  AttentionGrad g;\n  g.o = %s, g.max = a.p%d, g.sum = a.p%d, g.d = %s;\n",
              ct_at(k, at - 4, &o), at - 3, at - 2, ct_at(k, at - 1, &d));
  print_lines(k, "g.of_o", &o), print_lines(k, "g.of_d", &d);
  text_printf(&k->body, "  %s *out;\n  int64_t block = block_index();\n", rp_stored_type(in[0].type->dtype));
  const Expr *blocks = print_grads(k, &g, &way, in);
  ct_launch(k, blocks, 1, way.threads, way.how);
  k->k->launch.shared = way.shared;
}
