/* driver/fewest.c - see fewest.h.
 *
 * The help for models that do not fit tries device counts from the least on which the weights fit.  Each search is
 * short and accepts any plan, so the number that it reports suffices but may not be the smallest.
 */
#include "driver/fewest.h"

#include <math.h>
#include <string.h>

#include "frontend/topo/target.h"

enum { ONE_BY_ONE = 8, HELP_TRIES = 8 };
static const double try_work = 2e9;     /* unit: elementary sums; some seconds */
static const double most_devices = 1e5; /* above the size of any target */

/* ---- device counts in order: 1, 2 ... one machine, two machines, three ... */

static double number_at(const Target *g, double place) {
  double machine = g->per_machine;
  return place < machine ? place + 1 : (place - machine + 2) * machine;
}

/* Returns the first place with at least n devices. */
static double place_of(const Target *g, double n) {
  double machine = g->per_machine;
  return n <= machine ? fmax(n, 1) - 1 : ceil(n / machine) - 2 + machine;
}

static const Target *target_called(Arena *a, const Target *g, const char *name) {
  const Target *t = topo_target_find(diags_new(a), a, name);
  return t ? topo_target_computing_in(a, t, g->compute) : NULL;
}

/* Returns the target's name without a trailing device count. */
static const char *shorter_name(Arena *a, const Target *g) {
  const char *end = arena_printf(a, "x%d", g->ranks);
  size_t length = strlen(g->name), k = strlen(end);
  bool counted = length > k && strcmp(g->name + length - k, end) == 0;
  return counted ? arena_strndup(a, g->name, length - k) : g->name;
}

/* Returns the same target with n devices; NULL if there is none.  "dgx-a100x8" ends in its device count; "gh200-x4"
 * looks alike but is a name. */
static const Target *target_of(Arena *a, const Target *g, int n) {
  const char *shorter = shorter_name(a, g);
  const Target *t = target_called(a, g, arena_printf(a, "%sx%d", shorter, n));
  return t || shorter == g->name ? t : target_called(a, g, arena_printf(a, "%sx%d", g->name, n));
}

static const Target *target_at(Arena *a, const Target *g, double place) {
  double n = number_at(g, place);
  return n < most_devices ? target_of(a, g, (int)n) : NULL;
}

const char *driver_target_name(Arena *a, const Target *g, int ranks) {
  const Target *t = ranks == g->ranks ? g : target_of(a, g, ranks);
  return t ? t->name : arena_printf(a, "%sx%d", shorter_name(a, g), ranks);
}

/* ---- the search */

/* State of the search: `low` was not enough, `enough` is the target at `high`. */
typedef struct FewestPlaces {
  double low, high, step;
  const Target *enough;
} FewestPlaces;

/* Returns the next target on the way up, and its place; shortens steps that lead beyond every target. */
static const Target *step_up(const FewestSearch *f, FewestPlaces *p, double *place) {
  for (;;) {
    *place = p->low + p->step;
    const Target *t = target_at(f->arena, f->like, *place);
    if (t || p->step <= 1) return t;
    p->step = floor(p->step / 2);
  }
}

static const Target *next_place(const FewestSearch *f, FewestPlaces *p, double *place) {
  p->low = fmax(p->low, place_of(f->like, f->least) - 1);
  if (!p->enough) return step_up(f, p, place);
  *place = floor((p->low + p->high) / 2);
  return *place > p->low ? target_at(f->arena, f->like, *place) : NULL;
}

const Target *driver_fewest(FewestSearch *f) {
  FewestPlaces p = {.low = place_of(f->like, f->least) - 1, .step = 1};
  const double first = p.low + 1;
  double place;
  for (int tried = 0; tried < f->most_tries; tried++) {
    const Target *t = next_place(f, &p, &place);
    if (!t) break;
    FewestVerdict v = f->try(f, t);
    if (v == FEWEST_GIVE_UP) break;
    if (v == FEWEST_ENOUGH) p.enough = t, p.high = place;
    else p.low = place;
    if (place >= first + ONE_BY_ONE && !p.enough) p.step *= 2;
  }
  return p.enough;
}

/* ---- help */

typedef struct FewestHelp {
  const Build *b;
  double memory_limit;
} FewestHelp;

static bool any_plan(const Build *b, const Target *g, double memory_limit) {
  PlanOptions o = {.memory_limit = memory_limit, .any = true, .work = try_work};
  return plan_search(b->model.m, b->l1, g, &o, diags_new(b->model.m->arena)) != NULL;
}

static FewestVerdict try_plan(FewestSearch *f, const Target *t) {
  const FewestHelp *h = f->context;
  return any_plan(h->b, t, h->memory_limit) ? FEWEST_ENOUGH : FEWEST_MORE;
}

static void help_more(Build *b, double memory_limit, double least) {
  const Target *g = b->options.target;
  Diags *d = b->options.model.diags;
  FewestHelp help = {b, memory_limit};
  FewestSearch f = {.arena = b->options.model.arena,
                    .like = g,
                    .least = fmax(g->ranks + 1, least),
                    .most_tries = HELP_TRIES,
                    .try = try_plan,
                    .context = &help};
  const Target *t = driver_fewest(&f);
  if (t) diag_help(d, "the fewest devices on which a plan was found are %d: --target %s", t->ranks, t->name);
  else if (least > g->per_machine && !target_at(f.arena, g, place_of(g, least)))
    diag_help(d, "weights and state alone need %.0f such devices, more than one machine has", least);
}

void driver_help_fewest(Build *b, const PlanOptions *options, double resident) {
  const Target *g = b->options.target;
  bool forced = options->micro_batches;
  for (int i = 0; i < DEGREE_COUNT; i++) forced |= options->degree[i] > 0;
  if (forced && any_plan(b, g, options->memory_limit)) {
    diag_help(b->options.model.diags, "a plan fits without the forced options");
    return;
  }
  if (g->nkinds) return; /* which kind to add is unclear */
  if (g->device->shared_memory && options->memory_limit == 0) {
    if (g->ranks > 1)
      diag_help(b->options.model.diags, "ranks of one machine share its memory, so more ranks do not help");
    return;
  }
  help_more(b, options->memory_limit, ceil(resident / plan_memory_limit(g, options->memory_limit)));
}
