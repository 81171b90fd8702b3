/* codegen/cuda/few.c - prints the CUDA kernel of products of few rows (codegen/rows/work_few.c): sizes, a call of
 * dialect_few.h, which gives each thread one element of the result, then what is applied to that element. */
#include "codegen/cuda/template.h"
#include "codegen/rows/row_work.h"

enum { PANEL = 32, THREADS = 256, MOST_STAGED = 4096 };

typedef struct Printing {
  CudaTemplate *k;
  const FewUnit *f;
  const char *type; /* of the elements */
  int rows;         /* of a tile: 1, 2, 4 or 8 */
  int next;         /* the next pointer */
} Printing;

static const char *number(const Printing *p, const Expr *e) { return ct_scalar(p->k, e); }

static const Expr *panels_of(const Printing *p, int i) {
  Module *m = p->k->m;
  return ex_ceil_div(m, p->f->product[i]->n, ex_const(m, PANEL));
}

/* The products whose columns are side by side: a gated result has the columns of one. */
static int side_by_side(const FewUnit *f) { return f->gated ? 1 : f->n; }

static void launch(Printing *p) {
  Module *m = p->k->m;
  int64_t planned = work_expected(m, p->f->product[0]->m);
  const Expr *panels = ex_const(m, 0);
  p->rows = 1;
  while (p->rows < 8 && p->rows < planned) p->rows *= 2;
  for (int i = 0; i < side_by_side(p->f); i++) panels = ex_add(m, panels, panels_of(p, i));
  const Expr *tiles = ex_ceil_div(m, p->f->product[0]->m, ex_const(m, p->rows));
  ct_launch(p->k, ex_mul(m, tiles, panels), 1, THREADS,
            arena_printf(m->arena, "%d row%s by %d columns per block", p->rows, p->rows > 1 ? "s" : "", PANEL));
  p->k->k->launch.shared = 4 * (MOST_STAGED + 8 * p->rows * PANEL + 10 * 8);
}

/* Prints sizes, the norm, and the pointers to its vectors. */
static void print_value(Printing *p) {
  const FewUnit *f = p->f;
  const GemmUnit *g = f->product[0];
  Text *t = &p->k->body;
  text_printf(t,
              "  SHARED(float, staged, %d);\n  SHARED(float, parts, %d);\n  SHARED(float, stats, %d);\n  Few v;\n"
              "  v.rows = %s, v.depth = %s, v.step = %s, v.norm = %d, v.eps = %a;\n",
              MOST_STAGED, 8 * p->rows * PANEL, 10 * 8, number(p, g->m), number(p, g->k), number(p, g->a_m), f->norm,
              f->eps);
  p->next = 1;
  text_printf(t, f->gain ? "  v.gain = a.p%d" : "  v.gain = 0", p->next), p->next += f->gain;
  text_printf(t, f->shift ? ", v.shift = a.p%d;\n" : ", v.shift = 0;\n", p->next), p->next += f->shift;
}

/* Prints a product: its weights, columns, operands of its epilogue and result. */
static void print_product(Printing *p, int i) {
  const GemmUnit *g = p->f->product[i];
  Text *t = &p->k->body;
  bool turned = !ex_is_const(g->b_n, 1);
  int out = p->k->u->nin + (p->f->gated ? 0 : i);
  text_printf(t, "  p[%d].weights = a.p%d, p[%d].columns = %s, p[%d].step = %s, p[%d].panels = %s;\n", i, p->next++, i,
              number(p, g->n), i, number(p, turned ? g->b_n : g->b_k), i, number(p, panels_of(p, i)));
  text_printf(t, g->epilogue.bias ? "  p[%d].bias = a.p%d" : "  p[%d].bias = 0", i, p->next);
  p->next += g->epilogue.bias;
  text_printf(t, g->epilogue.residual ? ", p[%d].residual = a.p%d" : ", p[%d].residual = 0", i, p->next);
  p->next += g->epilogue.residual;
  text_printf(t, ", p[%d].relu = %d, p[%d].out = a.p%d, p[%d].out_step = %s;\n", i, g->epilogue.activation == ACT_relu,
              i, out, i, number(p, g->c_m));
}

static void print_function(const Printing *p) {
  Text *t = &p->k->body;
  if (p->f->silu) text_add(t, "  y = y * sigmoid_f32(y);\n");
  if (p->f->function) text_printf(t, "  y = %s_f32(y);\n", op_name(p->f->function));
}

void cuda_few(CudaTemplate *k) {
  const FewUnit *f = k->u->few;
  Printing p = {.k = k, .f = f, .type = dtype_name(ct_out(k)->dtype)};
  Text *t = &k->body;
  const char *turned = ex_is_const(f->product[0]->b_n, 1) ? "0" : "1";
  launch(&p);
  print_value(&p);
  text_printf(t, "  FewProduct p[%d];\n", f->n);
  for (int i = 0; i < f->n; i++) print_product(&p, i);
  const char *more = arena_printf(k->m->arena, "%d, %s, staged, parts, stats", p.rows, turned);
  text_printf(t, "  FewPlace at = few_place(&v, p, %d, %d);\n  few_norm_%s(&v, a.p0, at.first, %d, parts, stats);\n",
              side_by_side(f), p.rows, p.type, p.rows);
  text_printf(t, "  float y = few_%s(&v, &at.p, &at, a.p0, %s);\n", p.type, more);
  if (f->gated) text_printf(t, "  float u = few_%s(&v, &p[1], &at, a.p0, %s);\n", p.type, more);
  text_printf(t, "  if (!at.inside) return;\n  y = few_end_%s(&at.p, &at, y);\n", p.type);
  print_function(&p);
  if (f->gated) text_printf(t, "  y = y * few_end_%s(&p[1], &at, u);\n", p.type);
  text_printf(t, "  few_store_%s(&at, y);\n", p.type);
}
