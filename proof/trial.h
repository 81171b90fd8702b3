/* proof/trial.h - does a function mean the same in two states of its module?  Tried with numbers.
 *
 * The reference interpreter runs it before and after on the same inputs, weights and states, and compares all outputs
 * and states written.  In DOMAIN_MODP everything is random and equality exact: two functions that differ as rational
 * functions agree with a chance of about their degree in 2^31, so it is an identity test at the sizes tried.  Not all
 * rewrites hold there (exp is a hash): DOMAIN_FLOAT takes the weights' own numbers when they are at hand, so that
 * variances are positive, and a tolerance.
 *
 * Deliberately not done: sizes that would take long; the caller says how much work a trial may be.
 */
#ifndef APC_PROOF_TRIAL_H
#define APC_PROOF_TRIAL_H

#include "ir/run/interp.h"

/* The functions that a module had at one time; passes replace functions, they do not change them. */
typedef struct FuncList {
  Func **items;
  size_t n;
} FuncList;

FuncList funcs_of(const Module *m, Arena *arena);
/* The module has these functions from now on. */
void funcs_set(Module *m, const FuncList *list);
Func *funcs_find(const FuncList *list, const char *name);

typedef enum TrialVerdict { TRIAL_EQUAL, TRIAL_DIFFERS, TRIAL_NOT_RUN } TrialVerdict;

typedef struct TrialOptions {
  InterpDomain domain;
  const int64_t *symbols;
  uint64_t seed;
  double tolerance; /* DOMAIN_FLOAT: relative L2 of an output */
  double most_work; /* element operations of one run; more is not run */
  /* As InterpOptions: the weights in files; NULL: random numbers by their place in the file, so that views of a weight
   * agree. */
  bool (*blob)(void *context, const Module *m, const Param *p, InterpTensor *out, Diags *diags);
  void *context;
} TrialOptions;

/* Tries one function; the module has the functions of `after` when it is called and when it returns.  `why` says what
 * differs, or why nothing was compared. */
TrialVerdict trial(Module *m, const FuncList *before, const FuncList *after, const char *name, const TrialOptions *o,
                   Arena *arena, const char **why);

/* The same of two functions of the module as it is: one of them may be of level 2, which runs on all ranks of the
 * mesh. */
TrialVerdict trial_pair(Module *m, const Func *f, const Func *g, const TrialOptions *o, Arena *arena, const char **why);

/* Sizes that the symbols' minimum, maximum and multiple allow and numbers for which `g` does not give what `f` gives,
 * or does not run where `f` does: the least sizes, small ones, the largest, and all of a dimension that has few.  `why`
 * says which, and what differs.  False: none was found with so much work.  Only the order of sums may differ: the
 * interpreter rounds in casts alone, and the sign of a zero is not looked at. */
bool trial_counterexample(Module *m, Func *f, Func *g, double most_work, Arena *arena, const char **why);

/* About how many element operations a run takes; loops whose rounds are not known count once. */
double trial_work(Module *m, const Func *f, const int64_t *symbols);

/* Small sizes for every dimension, as its minimum, maximum and multiple allow: with `number` 0 the smallest above 0,
 * with others different ones for different dimensions, not round. */
void trial_sizes(const Module *m, int number, int64_t *symbols);

#endif
