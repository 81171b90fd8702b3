/* ir/ops/state.c - operations with effects outside the list of operations, or defined there: read, write, call,
 * result. */
#include "base/die.h"
#include "ir/ops/record.h"

static const Type *infer_call(const Infer *c) {
  const Func *callee = module_func(c->m, infer_attr(c, AT_name)->u.s);
  if (!callee) return infer_fail(c, "unknown function \"%s\"", infer_attr(c, AT_name)->u.s);
  if (callee == c->f) return infer_fail(c, "function \"%s\" calls itself", callee->name);
  if (!callee->outputs.n) return infer_fail(c, "function \"%s\" has no output", callee->name);
  int n = 0;
  for (size_t i = 0; i < callee->ops.n; i++) {
    const Op *op = &callee->ops.items[i];
    if (op->kind != OP_input) continue;
    if (n < c->spec->nin && type_of(callee, op->out) != c->in[n])
      return infer_fail(c, "operand %d does not fit input \"%s\" of \"%s\"", n, op->name, callee->name);
    n++;
  }
  if (n != c->spec->nin) return infer_fail(c, "\"%s\" takes %d operands", callee->name, n);
  return type_of(callee, callee->outputs.items[0].value);
}

static const Type *infer_result(const Infer *c) {
  const Op *call = op_of(c->f, c->spec->in[0]);
  if (call->kind != OP_call) return infer_fail(c, "operand 0 is not a call");
  const Func *callee = module_func(c->m, op_str(call, AT_name));
  int64_t i = infer_attr(c, AT_index)->u.i;
  if (!callee || i < 1 || i >= (int64_t)callee->outputs.n)
    return infer_fail(c, "\"%s\" has no output %lld", op_str(call, AT_name), (long long)i);
  return type_of(callee, callee->outputs.items[i].value);
}

static bool eval_call(Eval *e) { die("call %s on one rank", e->op->name); }

/* ---- accumulate */

static void rule_accumulate(const RuleMaking *k) {
  rule_same_dims(k);
  rule_linear(k, 1, RED_SUM);
  k->r->factors[rule_factor(k, "A0", NULL, FK_ACCUMULATE, RED_SUM)].operands = 1;
}

const OpRecord record_accumulate = {
    .infer = infer_same, .rule = rule_accumulate, .eval = eval_accumulate, .gradient = gradient_copy};
const OpRecord record_read = {.infer = infer_weight, .space = "-> x..", .eval = eval_source};
const OpRecord record_write = {.infer = infer_same, .space = "x.. ->", .eval = eval_write};
const OpRecord record_call = {.infer = infer_call, .rule = rule_none, .eval = eval_call};
const OpRecord record_result = {.infer = infer_result, .rule = rule_none, .eval = eval_call};
