/* codegen/cuda/conv.c - prints the CUDA kernel of a convolution as a product of matrices in tiles: sizes and strides,
 * then a call of dialect_conv.h.
 *
 * For convolutions and transposed ones of f32, f16 and bf16 with at most one letter of each class, in any order of
 * dimensions.  window.c prints the others, and those of groups with few channels (depthwise), which would leave most of
 * a tile empty.  The planned sizes choose the tile; each is correct for all sizes.
 */
#include <string.h>

#include "codegen/cuda/template.h"
#include "codegen/rows/row_work.h"
#include "ir/legal_dot.h"
#include "ir/window.h"

enum { DEPTH = 16, WANTED_BLOCKS = 132 /* one for each processor of a large GPU */ };

typedef struct Printing {
  CudaTemplate *k;
  Window w;
  int from, to; /* roles of the operand and of the result */
  ConvLetter images, groups, summed, columns;
  const Type *type[3]; /* by role */
} Printing;

/* A tile: each thread computes 4 * rq rows by 4 * cq columns, with so many threads side by side. */
typedef struct Tile {
  int across, rq, cq;
} Tile;

static int rows_of(Tile t) { return 4 * t.rq * (256 / t.across); }
static int columns_of(Tile t) { return 4 * t.cq * t.across; }

static const char *number(const Printing *p, const Expr *e) { return ct_scalar(p->k, e); }

static const Expr *extent_of(const Printing *p, const ConvLetter *l, int role) {
  return l->found ? p->type[role]->dims[l->dim[role]] : ex_const(p->k->m, 1);
}

static const Expr *stride_of(const Printing *p, const ConvLetter *l, int role) {
  return l->found ? row_type_stride(p->k->m, p->type[role], l->dim[role]) : ex_const(p->k->m, 0);
}

static bool start(Printing *p) {
  const Op *op = p->k->op;
  const char *spec = op_str(op, AT_spec);
  ConvLetter letters[CONV_LETTERS];
  bool one[128] = {false}, turned = op->kind == OP_conv_transpose;
  p->from = turned ? WINDOW_OUTPUT : WINDOW_IMAGE, p->to = turned ? WINDOW_IMAGE : WINDOW_OUTPUT;
  p->w = window_of(p->k->f, op);
  for (int r = 0; r < 3; r++) {
    int n;
    const char *part = window_letters(op->kind, spec, r, &n);
    p->type[r] = units_type(p->k->units, p->k->f, p->w.role[r] < 0 ? op->out : op->in[p->w.role[r]]);
    for (int d = 0; d < n; d++)
      if (part[d] >= 'a' && part[d] <= 'z') one[(int)part[d]] = ex_is_const(p->type[r]->dims[d], 1);
  }
  if (!op_conv_letters(op->kind, spec, one, letters)) return false;
  p->images = letters[CONV_IMAGES], p->groups = letters[CONV_GROUPS];
  p->summed = letters[turned ? CONV_OUT : CONV_IN], p->columns = letters[turned ? CONV_IN : CONV_OUT];
  return true;
}

static const Expr *rows(const Printing *p) {
  const Expr *e = extent_of(p, &p->images, p->to);
  for (int i = 0; i < p->w.n; i++) e = ex_mul(p->k->m, e, p->w.extent[p->to][i]);
  return e;
}

static const Expr *blocks(const Printing *p, Tile t) {
  Module *m = p->k->m;
  const Expr *tiles = ex_ceil_div(m, rows(p), ex_const(m, rows_of(t))),
             *panels = ex_ceil_div(m, extent_of(p, &p->columns, p->to), ex_const(m, columns_of(t)));
  return ex_mul(m, extent_of(p, &p->groups, p->to), ex_mul(m, tiles, panels));
}

/* Chooses the largest tile that leaves work for all processors; the smallest if none does. */
static Tile choose(const Printing *p) {
  static const Tile tiles[] = {{16, 2, 2}, {16, 2, 1}, {16, 1, 1}};
  int64_t columns = work_expected(p->k->m, extent_of(p, &p->columns, p->to));
  int at = columns > 64 ? 0 : 1;
  if (columns <= 32) return (Tile){8, 1, 1};
  while (at < 2 && work_expected(p->k->m, blocks(p, tiles[at])) < WANTED_BLOCKS) at++;
  return tiles[at];
}

/* Prints a windowed dimension; of the three places the last ones are used. */
static void print_dimension(const Printing *p, int i) {
  Module *m = p->k->m;
  Text *t = &p->k->body;
  const Window *w = &p->w;
  int d = MAX_WINDOWED - w->n + i;
  bool turned = p->to == WINDOW_IMAGE;
  const Expr *first = turned ? ex_sub(m, ex_const(m, 0), w->start[i]) : w->start[i];
  text_printf(t, "  v.from[%d] = %s, v.to[%d] = %s, v.window[%d] = %s;\n", d, number(p, w->extent[p->from][i]), d,
              number(p, w->extent[p->to][i]), d, number(p, w->extent[WINDOW_WEIGHTS][i]));
  text_printf(t, "  v.first[%d] = %s, v.step[%d] = %lld, v.reach[%d] = %lld, v.divisor[%d] = %lld;\n", d,
              number(p, first), d, (long long)(turned ? 1 : w->stride[i]), d,
              (long long)(turned ? -w->dilation[i] : w->dilation[i]), d, (long long)(turned ? w->stride[i] : 1));
  text_printf(t, "  v.x_place[%d] = %s, v.w_place[%d] = %s, v.y_place[%d] = %s;\n", d,
              number(p, row_type_stride(m, p->type[p->from], w->dim[p->from][i])), d,
              number(p, row_type_stride(m, p->type[WINDOW_WEIGHTS], w->dim[WINDOW_WEIGHTS][i])), d,
              number(p, row_type_stride(m, p->type[p->to], w->dim[p->to][i])));
}

static void print_sizes(const Printing *p) {
  Text *t = &p->k->body;
  text_printf(t, "  Conv v;\n  v.dims = %d, v.rows = %s, v.channels = %s, v.columns = %s;\n", p->w.n,
              number(p, rows(p)), number(p, extent_of(p, &p->summed, p->from)),
              number(p, extent_of(p, &p->columns, p->to)));
  text_printf(t, "  v.x_image = %s, v.x_group = %s, v.x_channel = %s;\n", number(p, stride_of(p, &p->images, p->from)),
              number(p, stride_of(p, &p->groups, p->from)), number(p, stride_of(p, &p->summed, p->from)));
  text_printf(t, "  v.w_group = %s, v.w_channel = %s, v.w_column = %s;\n",
              number(p, stride_of(p, &p->groups, WINDOW_WEIGHTS)), number(p, stride_of(p, &p->summed, WINDOW_WEIGHTS)),
              number(p, stride_of(p, &p->columns, WINDOW_WEIGHTS)));
  text_printf(t, "  v.y_image = %s, v.y_group = %s, v.y_column = %s;\n", number(p, stride_of(p, &p->images, p->to)),
              number(p, stride_of(p, &p->groups, p->to)), number(p, stride_of(p, &p->columns, p->to)));
  for (int d = 0; d < MAX_WINDOWED - p->w.n; d++) text_printf(t, "  v.window[%d] = 1, v.w_place[%d] = 0;\n", d, d);
  for (int i = 0; i < p->w.n; i++) print_dimension(p, i);
}

static void print_joined(const Printing *p) {
  Epilogue e = ct_epilogue(p->k);
  Text *t = &p->k->body;
  text_add(t, e.bias ? "  v.bias = a.p2" : "  v.bias = 0");
  if (e.residual) text_printf(t, ", v.residual = a.p%d", p->k->u->nin - 1);
  else text_add(t, ", v.residual = 0");
  text_printf(t, ", v.relu = %d;\n", e.activation == ACT_relu);
}

/* True for groups of few channels, for which one element of the result per thread is better. */
static bool is_narrow(const Printing *p) {
  Module *m = p->k->m;
  return work_expected(m, extent_of(p, &p->groups, p->to)) > 1 &&
         work_expected(m, extent_of(p, &p->columns, p->to)) < LEGAL_CONV_FEW;
}

bool cuda_conv_tiles(CudaTemplate *k) {
  Printing p = {.k = k};
  DType t = ct_out(k)->dtype;
  bool has_text = t == DT_f32 || t == DT_f16 || t == DT_bf16;
  if (!has_text || k->op->kind == OP_conv_filter || !start(&p) || is_narrow(&p)) return false;
  Tile tile = choose(&p);
  int parts = 2 * DEPTH * (rows_of(tile) + columns_of(tile)), places = 5 * rows_of(tile);
  ct_launch(k, blocks(&p, tile), 1, 256,
            arena_printf(k->m->arena, "%d places by %d channels per block", rows_of(tile), columns_of(tile)));
  k->k->launch.shared = 4 * parts + 8 * places;
  text_printf(&k->body, "  SHARED(float, parts, %d);\n  SHARED(int64_t, places, %d);\n", parts, places);
  print_sizes(&p);
  print_joined(&p);
  text_printf(&k->body, "  conv_tile_%s(&v, a.p%d, a.p0, a.p1, %d, %d, %d, parts, places);\n", dtype_name(t), k->u->nin,
              tile.across, tile.rq, tile.cq);
  return true;
}
