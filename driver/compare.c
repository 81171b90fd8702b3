/* driver/compare.c - see compare.h.
 *
 * A named plan is the result of a search with the named options forced, as on the command line.  If other alternatives
 * report the memory of their Programs (driver/memory.c), so does it.  A plan for other hardware is the result of a
 * search on a target with scaled figures; only the search counts its memory.
 */
#include "driver/compare.h"

#include <math.h>
#include <string.h>

#include "base/nearest.h"
#include "base/text.h"
#include "driver/internal.h"
#include "frontend/topo/target_kinds.h"

/* ---- plans that are named */

static PlanOptions options_of(const Build *b, const DriverNamed *x) {
  PlanOptions o = b->options.plan;
  memcpy(o.degree, x->forced.degree, sizeof o.degree);
  o.micro_batches = x->forced.micro_batches;
  o.zero = x->forced.zero;
  o.schedule = x->forced.schedule, o.chunks = x->forced.chunks;
  o.recompute = x->forced.recompute;
  o.said = NULL; /* lines of a plan file restrict only the chosen plan */
  o.alternatives = false;
  return o;
}

static PlanAlternative named_alternative(Build *b, const DriverNamed *x, const PlanKnown **known) {
  Arena *a = b->options.model.arena;
  Diags *why = diags_new(a);
  PlanOptions o = options_of(b, x);
  o.known = known;
  Plan *p = driver_search_near(b, &o, x->micro_batch, why);
  PlanAlternative out = {.seconds = INFINITY,
                         .why_not = p ? NULL : diags_first_error(why)->message,
                         .schedule = "none",
                         .recompute = "none"};
  if (p) out = plan_as_alternative(a, p);
  else memcpy(out.degree, x->forced.degree, sizeof out.degree);
  out.named = x->text, out.plan = p;
  return out;
}

void driver_compare(Build *b) {
  Plan *p = b->plan;
  const int n = p->nalternatives, more = b->options.nnamed;
  const PlanKnown *known = NULL;
  if (!more) return;
  PlanAlternative *list = ARENA_ARRAY(b->options.model.arena, PlanAlternative, n + more);
  if (n) memcpy(list, p->alternatives, sizeof *list * (size_t)n);
  for (int i = 0; i < more; i++) list[n + i] = named_alternative(b, &b->options.named[i], &known);
  p->alternatives = list, p->nalternatives = n + more;
}

/* ---- what-if hardware */

static void multiply_links(TargetTier *t, double factor) {
  t->bandwidth *= factor, t->pair *= factor;
  for (int i = 0; i < t->nprotocols; i++) t->protocols[i].most *= factor;
}

static bool joins_machines(const Target *g, const TargetTier *t) { return t->group > g->per_machine; }

/* False if the target has no such links. */
static bool multiply_tiers(Target *g, const WhatIf *x) {
  const bool network = strcmp(x->figure, "network") == 0;
  bool any = false;
  for (int i = 0; i < g->ntiers; i++) {
    TargetTier *t = &g->tiers[i];
    if (network ? !joins_machines(g, t) : strcmp(t->name, x->figure) != 0) continue;
    multiply_links(t, x->factor);
    any = true;
  }
  return any;
}

static const char *const figures[] = {"compute", "memory", "bandwidth", "launch"};
enum { FIGURES = sizeof figures / sizeof *figures };

static bool multiply(Target *g, const WhatIf *x) {
  if (strcmp(x->figure, "compute") == 0) {
    for (int i = 0; i < CT_COUNT; i++) g->flops[i] *= x->factor;
  } else if (strcmp(x->figure, "memory") == 0) {
    g->memory_bytes *= x->factor;
  } else if (strcmp(x->figure, "bandwidth") == 0) {
    g->memory_bandwidth *= x->factor;
  } else if (strcmp(x->figure, "launch") == 0) {
    g->launch *= x->factor, g->host *= x->factor;
  } else {
    return multiply_tiers(g, x);
  }
  return true;
}

static void refuse_figure(Arena *a, const Target *g, const WhatIf *x, Diags *d) {
  Nearest near = nearest_to(x->figure);
  Text all = {.arena = a};
  for (int i = 0; i < FIGURES; i++)
    text_printf(&all, "%s%s", i ? ", " : "", figures[i]), nearest_try(&near, figures[i]);
  if (g->ntiers && joins_machines(g, &g->tiers[g->ntiers - 1]))
    text_add(&all, ", network"), nearest_try(&near, "network");
  for (int i = 0; i < g->ntiers; i++) text_printf(&all, ", %s", g->tiers[i].name), nearest_try(&near, g->tiers[i].name);
  diag_error(d, DIAG_usage_value, (Loc){0}, "--what-if %s: %s has no figure '%s'", x->text, g->name, x->figure);
  if (near.best) diag_help(d, "the nearest is '%s'", near.best);
  else diag_help(d, "it has %s", text_str(&all));
}

/* Returns the scaled target, named after the change; NULL if it has no such figure. */
static const Target *multiplied(Arena *a, const Target *g, const WhatIf *x) {
  Target *out = ARENA_NEW(a, Target);
  *out = *g;
  out->name = arena_printf(a, "%s with %s", g->name, x->text);
  return multiply(out, x) ? out : NULL;
}

const Target *driver_target_if(Arena *a, const Target *g, const WhatIf *x, Diags *d) {
  const Target *out = multiplied(a, g, x);
  const Target **kinds = ARENA_ARRAY(a, const Target *, g->nkinds + 1);
  for (int i = 0; i < g->nkinds; i++) { /* only one kind may have a link */
    kinds[i] = multiplied(a, g->kinds[i], x);
    if (kinds[i]) out = kinds[i];
    else kinds[i] = g->kinds[i];
  }
  if (out) return g->nkinds ? topo_target_with_kinds(a, g, kinds) : out;
  refuse_figure(a, g, x, d);
  return NULL;
}

const Plan *driver_what_if(Build *b, const Target *target, const char **why_not) {
  const Target *own = b->options.target;
  Diags *why = diags_new(b->options.model.arena);
  PlanOptions o = b->options.plan;
  o.alternatives = false;
  b->options.target = target;
  const Plan *p = driver_search(b, &o, b->options.micro_batch, why);
  b->options.target = own;
  *why_not = p ? NULL : diags_first_error(why)->message;
  return p;
}
