/* driver/operators.h - operators that the user defines: --op and --op-library.
 *
 * A rule is `DOMAIN.NAME: RULE` (ir/opaque_rule.h), given by an option, or one of the lines of a file NAME.ops beside a
 * library NAME.so.  Options come before files.
 */
#ifndef APC_DRIVER_OPERATORS_H
#define APC_DRIVER_OPERATORS_H

#include "driver/model.h"
#include "frontend/onnx/rules.h"

/* Collects the rules of the options; false after a diagnostic that points at the character. */
bool operators_rules(const ModelOptions *o, OnnxRules *out);
/* Reports rules of --op that no node of the model uses; false if there are any. */
bool operators_used(const ModelOptions *o, const OnnxRules *rules);
/* Loads the libraries, and gives every operator of the module that has a rule its function, where one of them has it
 * (opaque_kernel).  False after a diagnostic. */
bool operators_kernels(const ModelOptions *o, Module *m);

#endif
