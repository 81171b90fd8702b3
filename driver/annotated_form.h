/* driver/annotated_form.h - finds the dimensions of a tensor of the model in an operation after the level-1 passes.
 *
 * A pass may give an operation another form: heads become a dimension of their own (passes/rewrite/views.c), joined
 * rows come apart (rows.c), a weight is read as a view.  A dimension of the tensor is then a list of factors of the
 * operation's rule, major to minor.
 */
#ifndef APC_DRIVER_ANNOTATED_FORM_H
#define APC_DRIVER_ANNOTATED_FORM_H

#include "frontend/onnx/sharding.h"
#include "ir/layout/rule.h"

/* Returns the name of an operation without the ending of a piece, "[FIRST:END]"; the name itself if it has none. */
const char *annotated_whole(Arena *a, const char *name);

/* Sets the factors of the dimensions of a node's operand, which is operand `operand` of the operation in some form.
 * False if it is another tensor, in a form whose dimensions cannot be told, or a piece that was cut along a dimension
 * that the layout splits.  `l`: NULL if there is none. */
bool annotated_operand(Module *m, const Func *f, size_t op, const Rule *r, int operand, const OnnxTensorSharding *t,
                       const Layout *l, TensorFactors *out);

/* The same for a result of a node. */
bool annotated_result(Module *m, const Func *f, size_t op, const Rule *r, int result, const OnnxTensorSharding *t,
                      const Layout *l, TensorFactors *out);

#endif
