/* driver/fewest.c - see fewest.h.
 *
 * Tries larger and larger numbers of devices: single ones up to one machine, then whole machines, from the least on
 * which the weights fit.  A plan is looked for, not the best, and not for long; so the number is one that is enough,
 * and the first of those tried.
 */
#include "driver/fewest.h"

#include <math.h>
#include <string.h>

#include "frontend/topo/target.h"

enum { MOST_TRIES = 8 };
static const double try_work = 2e9; /* sums: some seconds */

static bool any_plan(Build *b, const Target *g, double memory_limit) {
  PlanOptions o = {.memory_limit = memory_limit, .any = true, .work = try_work};
  return plan_search(b->model.m, b->l1, g, &o, diags_new(b->model.m->arena)) != NULL;
}

/* The same target with n devices, as it would be written; NULL when there is none. */
static const Target *with_devices(Arena *a, const Target *g, int n) {
  const char *end = arena_printf(a, "x%d", g->ranks);
  size_t length = strlen(g->name), k = strlen(end);
  bool counted = length > k && strcmp(g->name + length - k, end) == 0;
  const char *name = arena_printf(a, "%.*sx%d", (int)(counted ? length - k : length), g->name, n);
  const Target *more = topo_target_find(diags_new(a), a, name);
  return more ? topo_target_computing_in(a, more, g->compute) : NULL;
}

void driver_help_fewest(Build *b, const PlanOptions *options, double resident) {
  const Target *g = b->options.target;
  double usable = plan_memory_limit(g, options->memory_limit);
  bool forced = options->micro_batches;
  for (int i = 0; i < DEGREE_COUNT; i++) forced |= options->degree[i] > 0;
  if (forced && any_plan(b, g, options->memory_limit)) {
    diag_help(b->options.model.diags, "without what is forced there is a plan that fits");
    return;
  }
  if (g->device->shared_memory && options->memory_limit == 0) {
    if (g->ranks > 1)
      diag_help(b->options.model.diags, "ranks of one machine share its memory: more of them do not help");
    return;
  }
  double least = ceil(resident / usable);
  int tries = 0;
  for (double n = fmax(g->ranks + 1, least); tries < MOST_TRIES && n < 1e5; tries++, n++) {
    if (n > g->per_machine) n = ceil(n / g->per_machine) * g->per_machine;
    const Target *more = with_devices(b->options.model.arena, g, (int)n);
    if (!more) {
      if (least > g->per_machine)
        diag_help(b->options.model.diags,
                  "weights and state alone need %.0f such devices, which one machine does not have", least);
      return;
    }
    if (!any_plan(b, more, options->memory_limit)) continue;
    diag_help(b->options.model.diags, "the fewest devices on which a plan was found are %d: --target %s", more->ranks,
              more->name);
    return;
  }
}
