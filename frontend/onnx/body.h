/* frontend/onnx/body.h - operators that a few nodes of ONNX take the place of (bodies.def).
 *
 * What a call gives (inputs, outputs, attributes) decides which nodes of the body there are; the function that comes
 * out has no attributes of its own, and is expanded as a function of the model (functions.h).  Its nodes are of the
 * newest operator set, whatever the model's is.
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

/* NULL: the operator has none. */
const OnnxBody *onnx_body_find(const char *domain, const char *type);

/* The nodes for this call, as a function; NULL and *why when the call does not fit the operator.  A body that does not
 * parse dies. */
Onnx__FunctionProto *onnx_body_of(Arena *a, const OnnxBody *body, const Onnx__NodeProto *call, const char **why);

/* Is it a node of a body? */
bool onnx_body_has_made(const Onnx__NodeProto *node);

#endif
