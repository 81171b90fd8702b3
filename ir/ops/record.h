/* ir/ops/record.h - headers and declarations for the files of records (ir/record.h); private to ir/ops/. */
#ifndef APC_IR_OPS_RECORD_H
#define APC_IR_OPS_RECORD_H

#include "ir/layout/count.h"
#include "ir/run/eval.h"
#include "ir/gradient.h"
#include "ir/infer.h"
#include "ir/layout/local.h"
#include "ir/layout/rule_make.h"

/* The derivatives (ir/ops/gradient*.c), by operation or class. */
GradientFn gradient_unary, gradient_binary, gradient_compare, gradient_select, gradient_cast, gradient_copy;
GradientFn gradient_broadcast, gradient_reshape, gradient_transpose, gradient_slice, gradient_pad, gradient_concat;
GradientFn gradient_gather, gradient_take, gradient_update, gradient_scatter, gradient_put, gradient_scan,
    gradient_topk;
GradientFn gradient_reduce, gradient_dot, gradient_softmax, gradient_norm, gradient_cross_entropy;
GradientFn gradient_rope, gradient_attention, gradient_conv, gradient_conv_transpose, gradient_pool;

#define UNARY(name, ...)
#define BINARY(name, ...)
#define COMPARE(name, ...)
#define OP(name, ...) extern const OpRecord record_##name;
#include "ir/ops.def"
extern const OpRecord record_unary, record_binary, record_compare; /* of rows that are only an expression */

#endif
