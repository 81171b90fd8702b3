/* passes/check.h - checks that a pass left the meaning of a function unchanged, as far as that can be shown.
 *
 * For every pass that changed a function, the checker reports the strongest of these that holds:
 *   proved        both forms have the same terms (proof/prove_same.h): equal bit by bit, for all inputs and sizes
 *   proved_reals  the elements of both are the same polynomials (proof/element.h): equal over the real numbers, for all
 *                 inputs and sizes
 *   compared      both gave the same numbers at small sizes of every dimension (proof/trial.h)
 *   trusted       neither was possible; `note` says why
 *   differs       the numbers differ: the pass is wrong
 * Inputs include weights.  The checker shares no code with the passes.
 */
#ifndef APC_PASSES_CHECK_H
#define APC_PASSES_CHECK_H

#include "ir/run/interp.h"

typedef enum PassHow { PASS_PROVED, PASS_PROVED_REALS, PASS_COMPARED, PASS_TRUSTED, PASS_DIFFERS } PassHow;
/* Returns "proved", "proved_reals", "compared", "trusted" or "differs". */
const char *pipeline_how_name(PassHow h);

/* How much a comparison of numbers can show of a pass that does not keep the terms. */
typedef enum PassKeeps {
  KEEPS_FIELD,  /* equal in any field (+ - x /): modulo p, and in floats up to rounding */
  KEEPS_REALS,  /* equal in floats up to rounding; exp and rounding casts have no laws modulo p */
  KEEPS_NOTHING /* the pass makes a different function */
} PassKeeps;

typedef struct PassCheck {
  const char *pass;
  PassHow how;
  const char *note;     /* e.g. "3 runs at small sizes, in floats and modulo p"; NULL if none */
  const char *unproved; /* where the proof over the real numbers stopped; NULL if it succeeded or was not needed */
} PassCheck;

/* Options and results of the checks.  Zeroed: proofs, and comparisons of models that need little work. */
typedef struct PassChecks {
  double most_work; /* limit on the element operations of all runs together; 0: 2e8 */
  bool (*blob)(void *context, const Module *m, const Param *p, InterpTensor *out, Diags *diags); /* proof/trial.h */
  void *context;
  struct {
    PassCheck *items;
    size_t n, cap;
  } list; /* the passes that changed a function, in order; in the module's arena */
} PassChecks;

/* Use: pipeline_watch before a pass keeps the functions of the module; pipeline_check after it appends a PassCheck to
 * checks->list if a function changed.  Both allocate in the module's arena. */
typedef struct PassWatch PassWatch;
PassWatch *pipeline_watch(Module *m);
void pipeline_check(PassChecks *checks, const PassWatch *w, Module *m, const char *pass, PassKeeps keeps);

#endif
