/* frontend/onnx/body.h - operators that are replaced by a few nodes of ONNX (bodies.def).
 *
 * The inputs, outputs and attributes of a call decide which nodes of the body are used.  The resulting function has
 * no attributes of its own and is expanded like a function of the model (functions.h).  Its nodes belong to the
 * newest operator set, independent of the model's.
 */
#ifndef APC_FRONTEND_ONNX_BODY_H
#define APC_FRONTEND_ONNX_BODY_H

#include <stdbool.h>

#include "base/arena.h"
#include "onnx.pb-c.h"

typedef struct OnnxBody {
  const char *domain, *type, *text;
} OnnxBody;

extern const OnnxBody onnx_bodies[];
extern const size_t onnx_nbodies;

/* Finds the body of an operator; NULL if it has none. */
const OnnxBody *onnx_body_find(const char *domain, const char *type);

/* Returns the nodes for this call as a function; NULL and *why if the call does not fit the operator.  Dies on a
 * body that does not parse. */
Onnx__FunctionProto *onnx_body_of(Arena *a, const OnnxBody *body, const Onnx__NodeProto *call, const char **why);

/* True if the node was made from a body. */
bool onnx_body_has_made(const Onnx__NodeProto *node);

#endif
