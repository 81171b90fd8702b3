/* passes/cost/lowered.c - see lowered.h. */
#include "passes/cost/lowered.h"

#include "base/die.h"

/* Returns by step its first operation; `n`: the number of steps. */
static const size_t *first_of_steps(Arena *a, const LowerSteps *steps, size_t n) {
  size_t *first = ARENA_ARRAY(a, size_t, n + 1);
  for (size_t i = 0; i <= n; i++) first[i] = SIZE_MAX;
  for (size_t i = steps->n; i-- > 0;)
    if (steps->items[i].part == 0) first[steps->items[i].step] = i;
  return first;
}

const double *cost_of_lowered(Arena *a, const PlanLedger *ledger, const LowerSteps *steps) {
  size_t n = 0;
  for (size_t i = 0; i < steps->n; i++)
    if (steps->items[i].step > n) n = steps->items[i].step;
  const size_t *first = first_of_steps(a, steps, n);
  double *seconds = ARENA_ARRAY(a, double, steps->n + 1);
  for (size_t i = 0; i < ledger->entries.n; i++) {
    const LedgerEntry *e = &ledger->entries.items[i];
    if (e->seconds <= 0) continue;
    if (e->step > n || first[e->step] == SIZE_MAX)
      die("step %zu has a price of %g s and no operation", e->step, e->seconds);
    size_t op = first[e->step] + e->part;
    /* Of two conversions that take as long, the other one may have been lowered, with fewer moves. */
    while (op >= steps->n || steps->items[op].step != e->step) op--;
    seconds[op] += e->seconds / e->runs;
  }
  return seconds;
}
