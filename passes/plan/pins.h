/* passes/plan/pins.h - layouts that the user forces: --pin 'GLOB:dim=axis'. */
#ifndef APC_PASSES_PLAN_PINS_H
#define APC_PASSES_PLAN_PINS_H

#include <stdint.h>

#include "base/diag.h"
#include "ir/ir.h"

enum { MOST_PINS = 64, PIN_NO_DEGREE = -1 };

/* For operations whose names match the glob and whose first result has the dimension: dimension `dim` of the result is
 * split over all axes of that degree, or, with PIN_NO_DEGREE, over none. */
typedef struct PlanPin {
  const char *text, *glob;
  int dim;    /* from 0; negative counts from the end, -1 is the last */
  int degree; /* a Degree (degrees.h) */
} PlanPin;

/* Returns, by operation, the pins that match it, as a bit set.  NULL after a diagnostic: a pin matches no operation or
 * no dimension, or two pins contradict each other. */
const uint64_t *pins_of(Arena *a, const Func *f, const PlanPin *pins, int n, Diags *d);

/* True if the layout satisfies the pin.  `axes`: the mesh axes that count for its degree, as a bit set, or all that are
 * not temporal.  If no axis counts, a pin with a degree is not satisfied. */
bool pin_holds(const PlanPin *pin, const Layout *l, uint32_t axes);

#endif
