/* proof/trial.h - does a function compute the same in two states of its module?  Tested with numbers.
 *
 * The reference interpreter runs it before and after on the same inputs, weights and states, and compares all outputs
 * and written states.  In DOMAIN_MODP all inputs are random and equality is exact: two functions that differ as
 * rational functions agree with a probability of about their degree / 2^31, so it is an identity test at the sizes
 * tried.  Not all rewrites hold there (exp is a hash).  DOMAIN_FLOAT uses the real weights if available, so that
 * variances are positive, positive moments of optimizers, and a tolerance; with one for 16 bits, outputs that count
 * comparisons of floats (an accuracy) are not judged, as rounding decides those of numbers that almost tie.
 *
 * Sizes that would take long are not run; the caller sets the limit of work.
 */
#ifndef APC_PROOF_TRIAL_H
#define APC_PROOF_TRIAL_H

#include "ir/run/interp.h"

/* The functions that a module had at one time; passes replace functions and never change them. */
typedef struct FuncList {
  Func **items;
  size_t n;
} FuncList;

/* Lists the functions of the module as it is now. */
FuncList funcs_of(const Module *m, Arena *arena);
/* Makes the list the functions of the module. */
void funcs_set(Module *m, const FuncList *list);
Func *funcs_find(const FuncList *list, const char *name); /* NULL if there is none */

typedef enum TrialVerdict { TRIAL_EQUAL, TRIAL_DIFFERS, TRIAL_NOT_RUN } TrialVerdict;

typedef struct TrialOptions {
  InterpDomain domain;
  const int64_t *symbols;
  uint64_t seed;
  double tolerance; /* DOMAIN_FLOAT: relative L2 of an output */
  double most_work; /* limit of element operations per run; a function above it is not run */
  /* As in InterpOptions: reads weights from files; NULL for random numbers by their place in the file, so that views of
   * a weight agree. */
  bool (*blob)(void *context, const Module *m, const Param *p, InterpTensor *out, Diags *diags);
  void *context;
} TrialOptions;

/* Tries one function; the module has the functions of `after` at the call and at return. *why describes the difference,
 * or why nothing was compared. */
TrialVerdict trial(Module *m, const FuncList *before, const FuncList *after, const char *name, const TrialOptions *o,
                   Arena *arena, const char **why);

/* The same for two functions of the module as it is: either may be of level 2, which runs on all ranks of the mesh. */
TrialVerdict trial_pair(Module *m, const Func *f, const Func *g, const TrialOptions *o, Arena *arena, const char **why);

/* Searches for sizes allowed by minimum, maximum and multiple, and inputs, at which `g` differs from `f` or fails where
 * `f` runs: the least sizes, small ones, the largest, and all sizes of a dimension with few. *why gives the sizes and
 * the difference.  False if none was found within the limit of work.  Only the order of sums may differ: the
 * interpreter rounds only in casts, and ignores the sign of a zero. */
bool trial_counterexample(Module *m, Func *f, Func *g, double most_work, Arena *arena, const char **why);

/* Estimates the element operations of a run; loops with unknown rounds count once. */
double trial_work(Module *m, const Func *f, const int64_t *symbols);

/* Sets small sizes for all dimensions, within minimum, maximum and multiple: the smallest above 0 if `number` is 0,
 * else sizes that differ between dimensions and are not round. */
void trial_sizes(const Module *m, int number, int64_t *symbols);

#endif
