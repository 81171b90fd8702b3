/* ir/ops/record.h: every operation has the functions that its traits promise, and the closed forms of work: a
 * contraction's products, its operations and bytes, counted here by hand. */
#include "ir/ops/record.h"

#include "tests/test.h"

static void complete(void) {
  for (OpKind k = (OpKind)1; k < OP_COUNT; k++) {
    const OpRecord *r = op_record(k);
    const char *name = op_name(k);
    CHECKF(r && r->infer && r->eval, "%s", name);
    CHECKF((r->space != NULL) != (r->rule != NULL), "%s: one factor rule", name);
    CHECKF(!r->kinds || r->space, "%s: kinds are of a rule as text", name);
    CHECKF((r->body != NULL) == op_is_composite(k) && (r->symbols != NULL) == op_is_composite(k), "%s", name);
    CHECKF((r->products != NULL) == op_is_contraction(k), "%s", name);
    CHECKF((r->places != NULL) == (r->index > 0 || k == OP_within) && r->index <= op_max_operands(k), "%s", name);
    CHECKF(!r->halo || r->local || k == OP_concat, "%s: what a cut moves, attributes count", name);
    CHECKF(op_attr_rule(k, AT_start) < 0 || r->local || op_level2_only(k), "%s: start is local", name);
  }
}

/* The part of the last operation of a function on one rank that holds all of it. */
static OpPart whole(Module *m, const Func *f) {
  const Op *op = &f->ops.items[f->ops.n - 1];
  OpPart p = {.op = op, .rule = rule_of(m, f, op), .share = 1};
  int64_t n;
  for (int i = 0; i < p.rule->nfactors; i++)
    if (p.rule->factors[i].size && ex_get_const(p.rule->factors[i].size, &n)) p.size[i] = (double)n;
  for (int i = 0; i < op->nin; i++) {
    if (ex_get_const(type_elements(m, type_of(f, op->in[i])), &n)) p.in_bytes[i] = 4 * (double)n;
    if (i == 0) p.first = (double)n;
  }
  if (ex_get_const(type_elements(m, type_of(f, op->out)), &n)) p.elements = (double)n, p.bytes = 4 * (double)n;
  return p;
}

static void work(const char *lines, int products, double flops, double bytes) {
  Arena *a = arena_new();
  Diags *diags = diags_new(a);
  Module *m = ir_parse("test", arena_printf(a, "apc.ir 1\nfunc @main level 1 {\n%s}\n", lines), diags);
  CHECKF(m != NULL, "%s", lines);
  if (m) {
    Product x[MAX_PRODUCTS];
    OpPart p = whole(m, m->funcs.items[0]);
    CHECKF(op_products(&p, x) == products, "%s: %d products", lines, op_products(&p, x));
    CHECKF(op_flops(&p) == flops, "%s: %g operations", lines, op_flops(&p));
    int64_t adds = 0;
    CHECKF(ex_get_const(op_multiply_adds(m, p.op, p.rule), &adds) && (double)adds == (products ? flops / 2 : 0),
           "%s: %g multiply-adds", lines, (double)adds);
    CHECKF(op_bytes(&p) == bytes, "%s: %g bytes", lines, op_bytes(&p));
    module_free(m);
  }
  arena_free(a);
}

#define X(name, type) "%" name " = input {name=\"" name "\"} : " type "\n"

#define G(name, type) "%%" name " = input {name=\"" name "\"} : " type "\n" /* inside a format */

static void gradient(const char *of, const char *type, int products, double columns, double elements) {
  char text[800];
  snprintf(text, sizeof text,
           G("q", "f32[2,3,1,4,8]") G("k", "f32[2,3,6,8]") G("v", "f32[2,3,6,5]") G("s", "i64[4]") G("t", "i64[6]")
               G("n", "i64[]") G("o", "f32[2,3,1,4,5]") G("m", "f32[2,3,1,4]") G("l", "f32[2,3,1,4]")
                   G("d", "f32[2,3,1,4,5]") "%%y = "
           "attention_grad %%q, %%k, %%v, %%s, %%t, %%n, %%o, %%m, %%l, %%d {of=\"%s\", scale=1, causal=0} : %s\n",
           of, type);
  work(text, products, 2 * (2 * 3 * 4 * 6) * columns,
       4 * (192 + 288 + 180 + 4 + 6 + 1 + 120 + 2 * 24 + 120 + elements));
}

static void counts(void) {
  work(X("x", "f32[8]") "%y = exp %x : f32[8]\n", 0, 8, 4 * 16);
  work(X("x", "f32[2,8]") "%y = reduce %x {op=sum, axes=[1]} : f32[2]\n", 0, 16, 4 * 18);
  work(X("x", "f32[3,2,4]") X("w", "f32[3,4,5]") "%y = dot %x, %w {spec=\"bmk,bkn->bmn\"} : f32[3,2,5]\n", 1,
       2 * 3 * 2 * 4 * 5, 4 * (24 + 60 + 30));
  work(X("x", "f32[1,2,9]") X("w", "f32[4,2,3]")
       "%y = conv %x, %w {starts=[-1], strides=[2], dilations=[1], spec=\"ncH,ocH->noH\"} : f32[1,4,5]\n",
       1, 2 * 4 * 5 * 2 * 3, 4 * (18 + 24 + 20));
  /* Half of the multiply-adds of every image with every window element: strides are 2. */
  work(X("x", "f32[1,4,5]") X("w", "f32[4,2,3]")
       "%y = conv_transpose %x, %w {starts=[-1], strides=[2], dilations=[1], spec=\"noH,ocH->ncH\"} : f32[1,2,10]\n",
       1, 2 * 10 * 4 * 3, 4 * (20 + 24 + 20));
  work(X("q", "f32[2,3,1,4,8]") X("k", "f32[2,3,6,8]") X("v", "f32[2,3,6,5]") X("s", "i64[4]") X("t", "i64[6]")
           X("n", "i64[]") "%y = attention %q, %k, %v, %s, %t, %n {scale=1, causal=0} : f32[2,3,1,4,5]\n",
       2, 2 * (2 * 3 * 4 * 6) * (8 + 5), 4 * (192 + 288 + 180 + 4 + 6 + 1 + 120));
  /* Scores, the gradient of the weights, and the sum: the values' gradient needs no second one. */
  gradient("q", "f32[2,3,1,4,8]", 3, 8 + 5 + 8, 192);
  gradient("k", "f32[2,3,6,8]", 3, 8 + 5 + 8, 288);
  gradient("v", "f32[2,3,6,5]", 2, 8 + 5, 180);
  /* Reads the rows it takes; writes the rows it gets. */
  work(X("x", "f32[100,2]") X("i", "i64[3]") "%y = gather %x, %i {axis=0, start=0} : f32[3,2]\n", 0, 6,
       4 * (6 + 6 + 3));
  work(X("x", "f32[100,2]") X("u", "f32[3,2]")
           X("at", "i64[]") "%y = update %x, %u, %at {axis=0, start=0} : f32[100,2]\n",
       0, 200, 4 * (6 + 6));
  /* Two rows meet at most two of ten matrices. */
  work(X("x", "f32[2,4]") X("i", "i64[2]") X("w", "f32[10,4,5]") "%y = grouped_dot %x, %i, %w {start=0} : f32[2,5]\n",
       1, 2 * 2 * 4 * 5, 4 * (8 + 2 + 2 * 20 + 10));
}

int main(void) {
  RUN(complete);
  RUN(counts);
  return test_summary();
}
