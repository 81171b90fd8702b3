/* codegen/cpu/kernel_template.c - prints calls of the templates in kernel_templates.h, kernel_attention.h and
 * kernel_attention_grad.h with the extents of an operation. */
#include "codegen/cpu/kernel_template.h"

#include <string.h>

#include "base/die.h"
#include "ir/window.h"

static const char *span(const Work *w, Scalars *s, const Type *t, int from, int to) {
  return rp_scalar_text(w->m, s, type_product(w->m, t, from, to));
}

void template_update(const Work *w, const Op *op, Text *t, Scalars *s) {
  const Type *x = work_type(w, op->in[0]), *u = work_type(w, op->in[1]);
  int axis = (int)op_int(op, AT_axis, 0), at = work_type(w, op->in[2])->rank,
      counted = op->nin > 3 ? work_type(w, op->in[3])->rank : 0, rows = at > 0 || counted > 0;
  text_printf(t, "  update_rows(ptr[%d], ptr[0], ptr[1], ptr[2], %d, %s, %d, %s, ", op->nin, at,
              op->nin > 3 ? "ptr[3]" : "NULL", counted, rp_scalar_text(w->m, s, op_expr(op, AT_start)));
  text_printf(t, "%s, %s, %s, %s, %s, %zu);\n", rows ? span(w, s, x, 0, 1) : "1", span(w, s, x, rows, axis),
              span(w, s, x, axis, axis + 1), span(w, s, u, axis, axis + 1), span(w, s, x, axis + 1, x->rank),
              dtype_bytes(x->dtype));
}

void template_rope(const Work *w, const Op *op, Text *t, Scalars *s) {
  const Type *x = work_type(w, op->in[0]);
  int r = x->rank, rows = work_type(w, op->in[1])->rank - 1;
  text_printf(t, "  rope_%s(ptr[2], ptr[0], ptr[1], %s, %s, %s, %s, %s, %a, %d);\n", dtype_name(x->dtype),
              rows ? span(w, s, x, 0, 1) : "1", span(w, s, x, rows, r - 3), span(w, s, x, r - 3, r - 2),
              span(w, s, x, r - 2, r - 1), span(w, s, x, r - 1, r), op_float(op, AT_base, 10000),
              op_int(op, AT_interleaved, 0) != 0);
}

/* Returns the stride of the bias along dimension d of the scores [b, g, r, s, t], in elements; "0" if it lacks d. */
static const char *bias_stride(const Work *w, Scalars *s, const Op *op, int d) {
  const char *bias = op_str(op, AT_bias), *at = strchr(bias, "bgrst"[d]);
  const Type *t = work_type(w, op->in[6]);
  return at ? span(w, s, t, (int)(at - bias) + 1, t->rank) : "0";
}

/* Returns how far those of a row are apart in operand i, positions or lengths; "0" if it has the given rank, which has
 * no dimension for rows. */
static const char *each(const Work *w, Scalars *s, const Op *op, int i, int rank) {
  const Type *t = work_type(w, op->in[i]);
  return t->rank > rank ? span(w, s, t, 1, t->rank) : "0";
}

/* Prints the caches that the attention extends; their parts follow its operands and results. */
static void print_growth(const Work *w, const Op *op, const WorkOp *made, Text *t, Scalars *s) {
  const GrowUnit *g = made->grow;
  for (int i = 0; g && i < 2; i++)
    if (g->room[i]) text_printf(t, ",\n    .room[%d] = %s", i, rp_scalar_text(w->m, s, g->room[i]));
  for (int i = 0; g && i < g->n; i++)
    text_printf(t, ",\n    .growth[%d] = {.whole = ptr[%d], .more = ptr[%d], .past = %s}", g->operand[i] - 1,
                made->op->nin + op->nout + i, op->nin + i, span(w, s, work_type(w, made->op->in[g->operand[i]]), 2, 3));
}

/* Prints sizes, masks and bias: the fields that attention and its gradients share. */
static void print_attention(const Work *w, const Op *op, Text *t, Scalars *s) {
  const Type *q = work_type(w, op->in[0]), *v = work_type(w, op->in[2]);
  text_printf(t, "  const Attention a = {.rows = %s, .s = %s, .t = %s, .k = %s, .e = %s,\n", span(w, s, q, 2, 4),
              span(w, s, q, 3, 4), span(w, s, v, 2, 3), span(w, s, q, 4, 5), span(w, s, v, 3, 4));
  text_printf(t, "    .scale = (float)%a, .causal = %d, .query_position = ptr[3], .key_position = ptr[4],\n",
              op_float(op, AT_scale, 1), op_int(op, AT_causal, 0) != 0);
  if (op_attr(op, AT_bias))
    text_printf(t, "    .bias = ptr[6], .stride = {%s, %s, %s, %s},\n", bias_stride(w, s, op, 0),
                bias_stride(w, s, op, 1), bias_stride(w, s, op, 2), bias_stride(w, s, op, 3));
  text_printf(t, "    .length = ptr[5], .heads = %s, .each = {%s, %s, %s}", span(w, s, q, 1, 2), each(w, s, op, 3, 1),
              each(w, s, op, 4, 1), each(w, s, op, 5, 0));
}

void template_attention(const Work *w, const Op *op, Text *t, Scalars *s) {
  const Type *q = work_type(w, op->in[0]);
  const WorkOp *made = &w->ops.items[work_def(w, op->out)];
  int out = made->op->nin;
  print_attention(w, op, t, s);
  if (op->nout > 1) text_printf(t, ", .max = ptr[%d], .sum = ptr[%d]", out + 1, out + 2);
  print_growth(w, op, made, t, s);
  text_printf(t, "};\n  attention_%s(ptr[%d], ptr[0], ptr[1], ptr[2], %s, &a", dtype_name(q->dtype), out,
              span(w, s, q, 0, 2));
  if (q->dtype == DT_f64) text_printf(t, ", %a", op_float(op, AT_scale, 1));
  text_add(t, ");\n");
}

void template_attention_grad(const Work *w, const Op *op, Text *t, Scalars *s) {
  const Type *q = work_type(w, op->in[0]);
  int out = op->nin;
  print_attention(w, op, t, s);
  text_printf(
      t, "};\n  const AttentionGrad g = {.of = '%s', .o = ptr[%d], .max = ptr[%d], .sum = ptr[%d], .d = ptr[%d]};\n",
      op_str(op, AT_of), out - 4, out - 3, out - 2, out - 1);
  text_printf(t, "  attention_grad_%s(ptr[%d], ptr[0], ptr[1], ptr[2], %s, &a, &g", dtype_name(q->dtype), out,
              span(w, s, q, 0, 2));
  if (q->dtype == DT_f64) text_printf(t, ", %a", op_float(op, AT_scale, 1));
  text_add(t, ");\n");
}

static TemplateFn *const families[OP_COUNT] = {
#define TEMPLATE(op, family) [OP_##op] = template_##family,
#include "codegen/rows/templates.def"
};

bool template_exists(OpKind k) { return families[k] != NULL; }

const char *template_print(const Work *w, const Op *op, Scalars *s) {
  Text text = {.arena = w->m->arena}, *t = &text;
  text_add(t, "(void *const *ptr, const int64_t *x) {\n");
  if (!families[op->kind]) die("template_print: no template for %s", op_name(op->kind));
  families[op->kind](w, op, t, s);
  text_add(t, "}\n");
  return text_str(t);
}
