/* frontend/dsl/value.h - the value of an expression of the model language. */
#ifndef APC_FRONTEND_DSL_VALUE_H
#define APC_FRONTEND_DSL_VALUE_H

#include "ir/ir.h"

typedef enum ValueKind {
  V_ERROR, /* an error was reported; propagates silently */
  V_NONE,  /* nothing: an omitted argument, a function without return */
  V_INT,   /* a size: a number, or an expression of dimensions */
  V_FLOAT,
  V_STRING,
  V_LIST,
  V_DTYPE,
  V_TYPE, /* f32[batch, 4] */
  V_INIT, /* normal(0.02) */
  V_TENSOR
} ValueKind;

typedef struct DslValue {
  ValueKind kind;
  ParamInit init; /* INIT: with f as its number */
  int n;          /* LIST */
  union {
    const Expr *e;
    double f;
    const char *s;
    const struct DslValue *items;
    DType dtype;
    const Type *type;
    Val t;
  } u;
} DslValue;

/* Return values of each kind; strings and lists are kept by reference. */
static inline DslValue value_expr(const Expr *e) { return (DslValue){.kind = V_INT, .u.e = e}; }
static inline DslValue value_float(double f) { return (DslValue){.kind = V_FLOAT, .u.f = f}; }
static inline DslValue value_string(const char *s) { return (DslValue){.kind = V_STRING, .u.s = s}; }
static inline DslValue value_list(int n, const DslValue *items) {
  return (DslValue){.kind = V_LIST, .n = n, .u.items = items};
}
static inline DslValue value_none(void) { return (DslValue){.kind = V_NONE}; }
static inline DslValue value_error(void) { return (DslValue){.kind = V_ERROR}; }

#endif
