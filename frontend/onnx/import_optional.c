/* frontend/onnx/import_optional.c - Optional, OptionalGetElement and OptionalHasElement of values that are certainly
 * there or certainly absent, so that nothing of them is left when the program runs.
 *
 * Not done: inputs of an optional type, and an Optional without a value.
 */
#include "frontend/onnx/import_private.h"

/* Argument 0: the value itself; 1: true if there is one. */
bool import_optional(ImportNode *n) {
  const int64_t has = has_input(n, 0);
  if (n->op->arg == 1) return import_set_known(n, 0, known_ints(n->m, DT_bool, 0, NULL, &has));
  import_set_alias(n, 0, n->in[0]);
  return true;
}
