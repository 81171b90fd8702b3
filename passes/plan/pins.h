/* passes/plan/pins.h - layouts that somebody forces: --pin 'GLOB:dim=axis'. */
#ifndef APC_PASSES_PLAN_PINS_H
#define APC_PASSES_PLAN_PINS_H

#include <stdint.h>

#include "base/diag.h"
#include "ir/ir.h"

enum { MOST_PINS = 64, PIN_NO_DEGREE = -1 };

/* The first results, if they have the dimension, of operations whose names match the glob: dimension `dim` is cut over
 * all axes of that degree, or, with PIN_NO_DEGREE, over none. */
typedef struct PlanPin {
  const char *text, *glob;
  int dim;    /* from 0; below 0 from the end, -1 the last one */
  int degree; /* a Degree (degrees.h) */
} PlanPin;

/* By operation the pins that match it, as a bit set.  NULL after a diagnostic: a pin matches nothing, or no dimension
 * of what it matches, or two contradict each other. */
const uint64_t *pins_of(Arena *a, const Func *f, const PlanPin *pins, int n, Diags *d);

/* Does the layout keep the pin?  `axes`: the mesh axes that count for its degree, as a bit set, or all that are not
 * temporal; no axis counts: a degree is not kept. */
bool pin_holds(const PlanPin *pin, const Layout *l, uint32_t axes);

#endif
