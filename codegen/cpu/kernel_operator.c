/* codegen/cpu/kernel_operator.c - prints the kernel of an operator that apc does not know: a call of the function in
 * its library, with this rank's extents. */
#include <string.h>

#include "codegen/cpu/kernel_template.h"
#include "codegen/rows/print_row.h"

static void print_extents(const Work *w, const Type *type, const char *name, int i, Text *t, Scalars *s) {
  text_printf(t, "  const int64_t %s%d[] = {", name, i);
  for (int d = 0; d < type->rank; d++) text_printf(t, "%s, ", rp_scalar_text(w->m, s, type->dims[d]));
  text_add(t, "0};\n");
}

static void print_tensors(const Work *w, int n, const Val *v, int first, const char *name, Text *t, Scalars *s) {
  for (int i = 0; i < n; i++) print_extents(w, work_type(w, v[i]), name, i, t, s);
  text_printf(t, "  const ApcOpTensor %s[] = {\n", name);
  for (int i = 0; i < n; i++) {
    const Type *type = work_type(w, v[i]);
    text_printf(t, "    {ptr[%d], (ApcOpType)%d, %d, %s%d, operator_elements(%d, %s%d)},\n", first + i,
                (int)type->dtype, type->rank, name, i, type->rank, name, i);
  }
  text_add(t, "    {0}};\n");
}

/* Prints a C string; the text may contain anything. */
static void print_string(Text *t, const char *s) {
  text_add(t, "\"");
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c >= ' ' && c < 127 && c != '"' && c != '\\' && c != '?') text_printf(t, "%c", c);
    else text_printf(t, "\\%03o", c);
  }
  text_add(t, "\"");
}

void template_opaque(const Work *w, const Op *op, Text *t, Scalars *s) {
  const char *attributes = op_str(op, AT_attributes);
  const WorkOp *o = &w->ops.items[work_def(w, op->out)];
  const Expr *bytes = o->scratch ? work_type(w, o->scratch)->dims[0] : ex_const(w->m, 0);
  Val out[MAX_RESULTS];
  for (int i = 0; i < op->nout; i++) out[i] = op->out + (Val)i;
  print_tensors(w, op->nin, op->in, 0, "in", t, s);
  print_tensors(w, op->nout, out, op->nin, "out", t, s);
  text_printf(t,
              "  const ApcOpCall call = {.ninputs = %d, .noutputs = %d, .inputs = in, .outputs = out, .attributes = ",
              op->nin, op->nout);
  print_string(t, attributes ? attributes : "{}");
  text_printf(t, ",\n    .scratch = %s, .scratch_bytes = %s};\n",
              o->scratch ? arena_printf(w->m->arena, "ptr[%d]", op->nin + op->nout) : "0",
              rp_scalar_text(w->m, s, bytes));
  text_add(t, "  operator_call(");
  print_string(t, op_str(op, AT_kind));
  text_add(t, ", &call);\n");
}

bool template_is_operator(const char *text) { return strstr(text, "  operator_call(\"") != NULL; }
