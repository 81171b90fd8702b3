/* codegen/cuda/window.c - prints pools, their gradients, and the convolutions that conv.c leaves, as CUDA kernels: a
 * thread per element of the result.
 *
 * The index of the thread gives the indices of the result, i0 i1 ...; loops over summed or windowed dimensions follow,
 * j0 j1 ...  Terms are combined in the order of the CPU kernels (kernel_windows.h).
 *
 * Not done: shared memory.
 */
#include <string.h>

#include "codegen/cuda/template.h"
#include "codegen/rows/print_row.h"
#include "codegen/rows/row_work.h"
#include "ir/window.h"

typedef struct Printing {
  CudaTemplate *k;
  Window w;
  int depth;                         /* open braces */
  int loops;                         /* number of loop indices named so far */
  const char *name[3][MAX_WINDOWED]; /* of the windowed indices, by role */
  Text place[2];                     /* position in the operands: a sum of indices times strides */
} Printing;

static const Type *part_type(const Printing *p, int operand) {
  return units_type(p->k->units, p->k->f, operand < 0 ? p->k->op->out : p->k->op->in[operand]);
}

__attribute__((format(printf, 2, 3))) static void line(const Printing *p, const char *format, ...) {
  va_list args;
  va_start(args, format);
  text_printf(&p->k->body, "%*s%s\n", 2 * p->depth + 2, "", arena_vprintf(p->k->m->arena, format, args));
  va_end(args);
}

static const char *number(const Printing *p, const Expr *e) { return ct_scalar(p->k, e); }

/* Prints for (every index) {, and returns the name of the index. */
static const char *open_loop(Printing *p, const Expr *extent) {
  const char *j = arena_printf(p->k->m->arena, "j%d", p->loops++);
  line(p, "for (int64_t %s = 0; %s < %s; %s++) {", j, j, number(p, extent), j);
  p->depth++;
  return j;
}

static void close_loops_to(Printing *p, int depth) {
  while (p->depth > depth) {
    p->depth--;
    line(p, "}");
  }
}

static void close_loops(Printing *p) { close_loops_to(p, 0); }

static const char *result_index(const Printing *p, int d) { return arena_printf(p->k->m->arena, "i%d", d); }

static void print_result_indices(const Printing *p) {
  const Type *y = part_type(p, -1);
  line(p, "const int64_t element = block_index() * 256 + thread_index();");
  line(p, "if (element >= %s) return;", number(p, type_elements(p->k->m, y)));
  for (int d = 0; d < y->rank; d++)
    line(p, d ? "const int64_t i%d = element / %s %% %s;" : "const int64_t i%d = element / %s;", d,
         number(p, row_type_stride(p->k->m, y, d)), number(p, y->dims[d]));
}

static void step(Printing *p, int operand, int d, const char *index) {
  Text *t = &p->place[operand];
  text_printf(t, "%s%s * %s", t->n ? " + " : "", index, number(p, row_type_stride(p->k->m, part_type(p, operand), d)));
}

static const char *place(const Printing *p, int operand) {
  return p->place[operand].n ? text_str(&p->place[operand]) : "0";
}

/* ---- windowed dimensions */

/* Prints the index at which output u and window element k meet the image; outside it the loop continues. */
static void find_image(Printing *p, int i) {
  const Window *w = &p->w;
  const char *x = p->name[WINDOW_IMAGE][i] = arena_printf(p->k->m->arena, "x%d", i);
  line(p, "const int64_t %s = %s + %s * %lld + %s * %lld;", x, number(p, w->start[i]), p->name[WINDOW_OUTPUT][i],
       (long long)w->stride[i], p->name[WINDOW_WEIGHTS][i], (long long)w->dilation[i]);
  line(p, "if (%s < 0 || %s >= %s) continue;", x, x, number(p, w->extent[WINDOW_IMAGE][i]));
}

/* Prints the output whose window element k meets image x; if there is none the loop continues. */
static void find_output(Printing *p, int i) {
  const Window *w = &p->w;
  const char *u = p->name[WINDOW_OUTPUT][i] = arena_printf(p->k->m->arena, "u%d", i);
  line(p, "const int64_t from%d = %s - %s - %s * %lld, %s = from%d / %lld;", i, p->name[WINDOW_IMAGE][i],
       number(p, w->start[i]), p->name[WINDOW_WEIGHTS][i], (long long)w->dilation[i], u, i, (long long)w->stride[i]);
  line(p, "if (from%d < 0 || %s * %lld != from%d || %s >= %s) continue;", i, u, (long long)w->stride[i], i, u,
       number(p, w->extent[WINDOW_OUTPUT][i]));
}

/* Prints the windows: the result has one role, the loops another, and these two determine the third. */
static void print_windows(Printing *p, int result, int loop) {
  const Window *w = &p->w;
  for (int i = 0; i < w->n; i++) {
    p->name[result][i] = result_index(p, w->dim[result][i]);
    p->name[loop][i] = open_loop(p, w->extent[loop][i]);
    if (result == WINDOW_IMAGE) find_output(p, i);
    else find_image(p, i);
  }
  for (int r = 0; r < 3; r++)
    for (int i = 0; w->role[r] >= 0 && i < w->n; i++) step(p, w->role[r], w->dim[r][i], p->name[r][i]);
}

/* ---- convolutions */

/* Prints the other dimensions: those of the result, and loops over the summed ones. */
static void print_letters(Printing *p) {
  const char *spec = op_str(p->k->op, AT_spec), *part[2] = {spec, strchr(spec, ',') + 1},
             *result = strstr(spec, "->") + 2;
  for (const char *l = spec; l < result; l++) {
    if (*l < 'a' || *l > 'z' || memchr(spec, *l, (size_t)(l - spec))) continue;
    const char *index = strchr(result, *l) ? result_index(p, (int)(strchr(result, *l) - result)) : NULL;
    for (int k = 0; k < 2; k++)
      for (int d = 0; d < part_type(p, k)->rank; d++) {
        if (part[k][d] != *l) continue;
        if (!index) index = open_loop(p, part_type(p, k)->dims[d]);
        step(p, k, d, index);
      }
  }
}

static Printing start(CudaTemplate *k) {
  Printing p = {.k = k, .w = window_of(k->f, k->op), .place = {{.arena = k->m->arena}, {.arena = k->m->arena}}};
  ct_launch(k, type_elements(k->m, ct_out(k)), 256, 256, "element per thread");
  print_result_indices(&p);
  return p;
}

/* Prints the epilogue. */
static void print_joined(const Printing *p) {
  const CudaTemplate *k = p->k;
  Epilogue e = ct_epilogue(k);
  const Type *y = ct_out(k);
  const char *name = dtype_name(y->dtype);
  const Type *vector = e.bias ? ct_in(k, 2) : NULL;
  if (e.bias)
    line(p, "sum += load_%s(a.p2 + element %% %s);", name, number(p, type_product(k->m, vector, 0, vector->rank)));
  if (e.residual) line(p, "sum += load_%s(a.p%d + element);", name, k->u->nin - 1);
  if (e.activation == ACT_relu) line(p, "sum = relu_%s(sum);", rp_suffix(y->dtype));
}

static void conv(CudaTemplate *k) {
  Printing p = start(k);
  DType t = ct_out(k)->dtype;
  const char *name = dtype_name(t);
  line(&p, "%s sum = 0;", rp_value_type(t));
  print_letters(&p);
  if (k->op->kind == OP_conv) print_windows(&p, WINDOW_OUTPUT, WINDOW_WEIGHTS);
  else if (k->op->kind == OP_conv_transpose) print_windows(&p, WINDOW_IMAGE, WINDOW_WEIGHTS);
  else print_windows(&p, WINDOW_WEIGHTS, WINDOW_OUTPUT);
  line(&p, "sum += load_%s(a.p0 + (%s)) * load_%s(a.p1 + (%s));", name, place(&p, 0), name, place(&p, 1));
  close_loops(&p);
  print_joined(&p);
  line(&p, "store_%s(a.p%d + element, sum);", name, k->u->nin);
}

/* ---- pools */

/* Prints the dimensions of operand `operand` that are not windowed. */
static void print_kept(Printing *p, int operand) {
  for (int d = 0; d < part_type(p, -1)->rank; d++) {
    bool windowed = false;
    for (int i = 0; i < p->w.n; i++) windowed |= p->w.dim[WINDOW_IMAGE][i] == d;
    if (!windowed) step(p, operand, d, result_index(p, d));
  }
}

static void pool(CudaTemplate *k) {
  Printing p = start(k);
  const Type *y = ct_out(k);
  Reduction op = op_attr(k->op, AT_op)->u.reduction;
  DType t = y->dtype, computed = t == DT_f16 || t == DT_bf16 ? DT_f32 : t;
  line(&p, "%s found = %s;", rp_value_type(t), rp_identity(&(RowAcc){.op = op, .dtype = computed}));
  print_kept(&p, 0);
  print_windows(&p, WINDOW_OUTPUT, WINDOW_WEIGHTS);
  line(&p, "found = %s_%s(found, load_%s(a.p0 + (%s)));", rp_combine_name(op), rp_suffix(t), dtype_name(t),
       place(&p, 0));
  close_loops(&p);
  line(&p, "store_%s(a.p1 + element, found);", dtype_name(t));
}

/* Prints whether this element of the image, `own`, is the first largest of the window of output u: earlier elements
 * must be smaller, later ones not larger. */
static void print_is_largest(Printing *p) {
  const Window *w = &p->w;
  const Type *x = part_type(p, 0);
  const char *name = dtype_name(x->dtype);
  int depth = p->depth;
  line(p, "int largest = 1;");
  Text other = {.arena = p->k->m->arena};
  text_add(&other, "element");
  for (int i = 0; i < w->n; i++) {
    const char *j = open_loop(p, w->extent[WINDOW_WEIGHTS][i]);
    line(p, "const int64_t x%d = %s + %s * %lld + %s * %lld;", i, number(p, w->start[i]), p->name[WINDOW_OUTPUT][i],
         (long long)w->stride[i], j, (long long)w->dilation[i]);
    line(p, "if (x%d < 0 || x%d >= %s) continue;", i, i, number(p, w->extent[WINDOW_IMAGE][i]));
    text_printf(&other, " + (x%d - %s) * %s", i, p->name[WINDOW_IMAGE][i],
                number(p, row_type_stride(p->k->m, x, w->dim[WINDOW_IMAGE][i])));
  }
  line(p, "const int64_t other = %s;", text_str(&other));
  line(p, "const %s v = load_%s(a.p0 + other);", rp_value_type(x->dtype), name);
  line(p, "if (other < element && !(own > v || (own != own && v == v))) largest = 0;");
  line(p, "if (other > element && (v > own || (v != v && own == own))) largest = 0;");
  close_loops_to(p, depth);
}

static void pool_grad(CudaTemplate *k) {
  Printing p = start(k);
  DType t = ct_out(k)->dtype;
  line(&p, "const %s own = load_%s(a.p0 + element);", rp_value_type(t), dtype_name(t));
  line(&p, "%s sum = 0;", rp_value_type(t));
  print_kept(&p, 1);
  print_windows(&p, WINDOW_IMAGE, WINDOW_WEIGHTS);
  print_is_largest(&p);
  line(&p, "if (largest) sum += load_%s(a.p1 + (%s));", dtype_name(t), place(&p, 1));
  close_loops(&p);
  line(&p, "store_%s(a.p2 + element, sum);", dtype_name(t));
}

void cuda_window(CudaTemplate *k) {
  if (k->op->kind == OP_pool) pool(k);
  else if (k->op->kind == OP_pool_grad) pool_grad(k);
  else if (!cuda_conv_tiles(k)) conv(k);
}
