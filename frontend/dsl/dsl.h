/* frontend/dsl/dsl.h - the model language: text in, a level-1 module out.
 *
 * A file (examples/gpt.apc) declares parameters, symbolic dimensions, functions and entries.  Loading runs it at
 * compile time and records the tensor operations that it performs.  docs/guide/dsl.md describes the language.  Nothing
 * is allocated for weights: they become Params with an initialiser.
 */
#ifndef APC_FRONTEND_DSL_DSL_H
#define APC_FRONTEND_DSL_DSL_H

#include "ir/ir.h"

typedef struct DslDefine {
  const char *name, *value; /* one -D NAME=VALUE */
} DslDefine;

/* A parameter of the model with the value it was given. */
typedef struct DslParameter {
  const char *name;
  bool whole; /* an integer, its value is: */
  int64_t value;
} DslParameter;

typedef struct DslParameters {
  Arena *arena;
  DslParameter *items;
  size_t n, cap;
} DslParameters;

typedef struct DslOptions {
  int ndefines;
  const DslDefine *defines;
  bool training;             /* `training` is 1, but 0 in the evaluation entry */
  DslParameters *parameters; /* receives the parameters of the model in order; may be NULL */
  int64_t max_steps;         /* maximum number of expressions and statements to evaluate; 0: the default */
} DslOptions;

/* Loads the model in `text` (NUL-terminated, kept by reference for diagnostics, like `file`).  The module has one
 * level-1 function per entry, with `training` perhaps @eval as well (load.c), and no references to `text` or `file`.
 * Returns NULL after diagnostics; one run reports several errors. */
Module *dsl_load(const char *file, const char *text, const DslOptions *options, Diags *diags);

/* Counts the elements of the trainable weights; a tied weight counts once, buffers do not count. */
int64_t dsl_parameter_count(const Module *m);

#endif
