/* base/limits.h - bounds that explanations of diagnostics tell (base/diag.def): who obeys one and who tells it take the
 * same number.  Bounds that no explanation tells stand where they are obeyed. */
#ifndef APC_BASE_LIMITS_H
#define APC_BASE_LIMITS_H

#define LIMIT_OPSET_FIRST 1    /* of the default ONNX operator set: read from this version */
#define LIMIT_OPSET_LAST 28    /* to this one */
#define LIMIT_OPSET_WRITTEN 17 /* what is exported has this one */
#define LIMIT_EXPR_SIZE 2000   /* parts of a size's expression */
#define LIMIT_EXPR_DEPTH 200   /* its parts inside each other */
#define LIMIT_CPU_RANKS 64     /* of a cpu target */
#define LIMIT_SYMBOLS 256      /* symbolic dimensions of a program */

#define LIMIT_TEXT(limit) LIMIT_TEXT_OF(limit)
#define LIMIT_TEXT_OF(number) #number

#endif
