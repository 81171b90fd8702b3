/* frontend/dsl/builtin.h - the checked arguments of a built-in function; private to frontend/dsl*.c. */
#ifndef APC_FRONTEND_DSL_BUILTIN_H
#define APC_FRONTEND_DSL_BUILTIN_H

#include "frontend/dsl/eval.h"

enum { MAX_ARGUMENTS = 10, MAX_EXTRA = 16 };

typedef struct Args {
  DslEval *ev;
  DslNode *call;
  int n;
  const char *names[MAX_ARGUMENTS];
  DslValue v[MAX_ARGUMENTS]; /* V_NONE if omitted */
  DslNode *at[MAX_ARGUMENTS];
  int nextra; /* keywords matched by "**" */
  DslNode *extra[MAX_EXTRA];
  DslValue extra_values[MAX_EXTRA];
} Args;

typedef DslValue BuiltinFunction(Args *a);

/* Reports that argument i is not `wanted`; returns false. */
bool dsl_arg_fail(Args *a, int i, const char *wanted);
static inline bool arg_given(const Args *a, int i) { return a->v[i].kind != V_NONE; }

/* Check and convert argument i; false after reporting.  `otherwise` is the default of an omitted argument. */
bool dsl_arg_tensor(Args *a, int i, Val *out);
bool dsl_arg_floats(Args *a, int i, Val *out); /* a tensor of a float type */
bool dsl_arg_size(Args *a, int i, const Expr **out);
bool dsl_arg_int(Args *a, int i, int64_t otherwise, int64_t *out);
bool dsl_arg_flag(Args *a, int i, bool otherwise, bool *out);
bool dsl_arg_number(Args *a, int i, double otherwise, double *out);
bool dsl_arg_string(Args *a, int i, const char **out);
bool dsl_arg_axis(Args *a, int i, int rank, int otherwise, int *out);    /* a negative axis counts from the end */
bool dsl_arg_axes(Args *a, int i, int rank, int *n, int axes[MAX_RANK]); /* ascending; all axes if omitted */
bool dsl_arg_sizes(Args *a, int i, int *n, const Expr *sizes[MAX_RANK]); /* a list of integers */
bool dsl_arg_type(Args *a, int i, const Type **out);

/* Returns the type of a tensor of the function under construction. */
static inline const Type *arg_type_of(const Args *a, Val v) { return type_of(a->ev->b.f, v); }

#define BUILTIN(name, parameters, function, doc) BuiltinFunction function;
#include "frontend/dsl/builtin.def"
#undef BUILTIN

#endif
