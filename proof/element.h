/* proof/element.h - do two forms of a level-1 function compute the same, over the real numbers?  A proof from their
 * texts, for all sizes.
 *
 * Translation validation for passes that rewrite algebraically (fold, channels_last, views, norms in recognise, widen).
 * The element of a value at symbolic indices is a polynomial over elements of inputs and weight bytes (element_poly.h):
 * transposes, slices, reshapes and views only change indices, products are sums over bound indices, composites are
 * their bodies, conditions on indices are 0 or 1.  Values that keep their name are compared in order, in every order of
 * their dimensions; equal ones become atoms, so that polynomials stay as small as the change of a pass.  Atoms used by
 * only one of two elements are expanded, the latest first.  Loops are proved by induction over their rounds.
 *
 * Assumptions: the laws of real numbers where both forms are defined (rounding, overflow, -0.0 and the difference
 * between a quotient by 0 and a NaN are ignored, and a replacement for a NaN may disappear; a mask of at most -1e37 is
 * -inf; positions do not wrap), numbers in the text compared to 12 digits, bodies (ir/layout/body.h), ir/window.h.  It
 * shares no code with passes.  "Not equal" proves nothing.  Not supported: conditions on data, integer arithmetic
 * beyond positions and equal terms, calls.
 */
#ifndef APC_PROOF_ELEMENT_H
#define APC_PROOF_ELEMENT_H

#include "proof/trial.h"

/* Compares the function of that name in both lists; prepared weights are defined by the @prepare of each list.  False
 * if not proved; *why then gives the place. */
bool element_equal(Module *m, const FuncList *before, const FuncList *after, const char *name, Arena *arena,
                   const char **why);

#endif
