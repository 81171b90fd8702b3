/* passes/check.h - is what a pass leaves what it was given?  Every pass is checked against its input, as far as that
 * can be done.
 *
 * For every pass that changed a function, the strongest of these that holds:
 *   proved     both forms have the same terms (proof/prove_same.h): equal bit by bit, for all inputs, weights and sizes
 *   proved_reals  the elements of both are the same polynomials (proof/element.h): equal over the real numbers, for all
 *   inputs, weights and sizes compared   both gave the same numbers at small sizes of every dimension (proof/trial.h)
 *   trusted    neither was possible; `note` says why differs    the numbers differ: the pass is wrong
 * The checker shares no code with the passes.
 */
#ifndef APC_PASSES_CHECK_H
#define APC_PASSES_CHECK_H

#include "ir/run/interp.h"

typedef enum PassHow { PASS_PROVED, PASS_PROVED_REALS, PASS_COMPARED, PASS_TRUSTED, PASS_DIFFERS } PassHow;
const char *pipeline_how_name(PassHow h);

/* What numbers can show of a pass that keeps no terms. */
typedef enum PassKeeps {
  KEEPS_FIELD,  /* equal wherever + - x / are those of a field: modulo p, and in floats up to rounding */
  KEEPS_REALS,  /* equal in floats up to rounding; modulo p functions such as exp, and casts that round, have no laws */
  KEEPS_NOTHING /* it is to make another function */
} PassKeeps;

typedef struct PassCheck {
  const char *pass;
  PassHow how;
  const char *note;     /* "in 3 runs at small sizes, in floats and modulo p"; why not more; NULL */
  const char *unproved; /* where the proof over the real numbers stopped; NULL: it did not, or none was needed */
} PassCheck;

/* What is done, and what came of it.  Zeroed: proofs, and numbers of models that take little work. */
typedef struct PassChecks {
  double most_work; /* element operations that all runs together may take; 0: 2e8 */
  bool (*blob)(void *context, const Module *m, const Param *p, InterpTensor *out, Diags *diags); /* proof/trial.h */
  void *context;
  struct {
    PassCheck *items;
    size_t n, cap;
  } list; /* the passes that changed a function, in order; in the module's arena */
} PassChecks;

/* Before the pass, and behind it. */
typedef struct PassWatch PassWatch;
PassWatch *pipeline_watch(Module *m);
void pipeline_check(PassChecks *checks, const PassWatch *w, Module *m, const char *pass, PassKeeps keeps);

#endif
