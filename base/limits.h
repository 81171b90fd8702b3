/* base/limits.h - bounds that both the code and the explanations of diagnostics (base/diag.def) use.  Bounds that no
 * explanation states are defined where they are checked. */
#ifndef APC_BASE_LIMITS_H
#define APC_BASE_LIMITS_H

#define LIMIT_OPSET_FIRST 1    /* of the default ONNX operator set: the oldest version that is read */
#define LIMIT_OPSET_LAST 28    /* and the newest */
#define LIMIT_OPSET_WRITTEN 17 /* the version of exported models */
#define LIMIT_EXPR_SIZE 2000   /* parts of the expression of a size */
#define LIMIT_EXPR_DEPTH 200   /* nesting depth of its parts */
#define LIMIT_CPU_RANKS 64     /* of a cpu target */
#define LIMIT_SYMBOLS 256      /* symbolic dimensions of a program */

#define LIMIT_TEXT(limit) LIMIT_TEXT_OF(limit)
#define LIMIT_TEXT_OF(number) #number

#endif
