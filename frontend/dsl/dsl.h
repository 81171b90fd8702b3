/* frontend/dsl/dsl.h - the model language: text in, a level-1 module out.
 *
 * A file (examples/gpt.apc) declares parameters, symbolic dimensions, functions and entries; loading runs it
 * at compile time and records the tensor operations it performs.  docs/dsl.md describes the language.
 * Nothing is allocated for weights: they become Params with an initialiser.
 */
#ifndef APC_FRONTEND_DSL_DSL_H
#define APC_FRONTEND_DSL_DSL_H

#include "ir/ir.h"

typedef struct DslDefine {
  const char *name, *value; /* one -D NAME=VALUE */
} DslDefine;

/* A parameter of the model, as the lines and options have it. */
typedef struct DslParameter {
  const char *name;
  bool whole; /* it is an integer: */
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
  bool training;             /* `training` is 1, and 0 in what is evaluated by the way */
  DslParameters *parameters; /* gets those of the model, in its order; may be NULL */
  int64_t max_steps;         /* expressions and statements evaluated before the model is refused; 0: the default */
} DslOptions;

/* Loads the model in `text` (NUL-terminated, kept by reference for diagnostics, like `file`).  The module
 * has one level-1 function per entry, with `training` perhaps @eval as well (load.c), and no references to `text` or
 * `file`.  Returns NULL after diagnostics; several errors are reported in one run. */
Module *dsl_load(const char *file, const char *text, const DslOptions *options, Diags *diags);

/* Elements of the trainable weights; a tied weight counts once, buffers do not count. */
int64_t dsl_parameter_count(const Module *m);

#endif
