/* ir/ops/loop.c - the frame of a loop (ir/loops.h): loop, carry, repeat, leave. ir/run/interp_loop.c runs the
 * rounds. */
#include "ir/ops/record.h"

static const Type *infer_loop(const Infer *c) {
  if (c->in[0]->rank != 0 || c->in[0]->dtype != DT_i64)
    return infer_fail(c, "the number of rounds must be an i64 scalar");
  return c->in[0];
}

static const Type *infer_repeat(const Infer *c) {
  if (op_of(c->f, c->spec->in[0])->kind != OP_loop) return infer_fail(c, "operand 0 is not a loop");
  if (c->spec->nin > 1 && (c->in[1]->rank != 0 || c->in[1]->dtype != DT_bool))
    return infer_fail(c, "operand 1 must be a bool scalar");
  return c->in[0];
}

static const Type *infer_leave(const Infer *c) {
  if (op_of(c->f, c->spec->in[0])->kind != OP_carry) return infer_fail(c, "operand 0 is not a carry");
  if (c->in[0] != c->in[1])
    return infer_fail(c, "a carry of %s cannot become %s", infer_text(c, c->in[0]), infer_text(c, c->in[1]));
  return c->in[0];
}

const OpRecord record_loop = {.infer = infer_loop, .rule = rule_none, .eval = eval_loop};
const OpRecord record_carry = {.infer = infer_same, .space = "x.. -> x..", .eval = eval_copy};
const OpRecord record_repeat = {.infer = infer_repeat, .rule = rule_none, .eval = eval_repeat};
const OpRecord record_leave = {.infer = infer_leave, .space = "x.., x.. -> x..", .eval = eval_leave};
