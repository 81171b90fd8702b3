/* frontend/onnx/functions.h - replaces calls of a model's own functions, and of operators that consist of a few
 * nodes of ONNX (body.h), by their bodies.
 *
 * Values and nodes of a body are renamed CALL/NAME.  Attributes that refer to the function's (ref_attr_name) take
 * the call's value, or else the function's default (attribute_proto).  The function is the one of the call's
 * overload.  The same applies in graphs of control flow (Loop, Scan, If), inside functions and outside.  The results
 * are shallow copies of messages in the arena that share everything else with the model.
 */
#ifndef APC_FRONTEND_ONNX_FUNCTIONS_H
#define APC_FRONTEND_ONNX_FUNCTIONS_H

#include "base/arena.h"
#include "base/diag.h"
#include "onnx.pb-c.h"

struct OnnxRules;

typedef struct OnnxNodes {
  Onnx__NodeProto **items;
  size_t n, cap;
} OnnxNodes;

/* Returns the nodes of the model's graph with all calls expanded, but for those of operators that have a rule, whose
 * kernel replaces the function; marks the rules that nodes use.  False after a diagnostic: functions that call
 * themselves, calls that do not fit, more than a million nodes and calls. */
bool onnx_expand_functions(Arena *arena, const Onnx__ModelProto *model, const struct OnnxRules *rules, const char *file,
                           Diags *d, OnnxNodes *out);

#endif
