/* driver/together.c - entries of a model that are planned together (--optimize, or such a line in a plan file), and the
 * part of the plan for each of them.
 *
 * Entries planned together form one function (ir/joint.h).  Otherwise the first entry is planned, and the others take
 * over its choices (passes/plan/entries.h).  Entries share weights and states, which makes the graphs of a search
 * wider, and its bound may be worse than the sum of the entries' own bounds: the better of both counts.
 */
#include <math.h>
#include <string.h>

#include "base/nearest.h"
#include "driver/internal.h"
#include "ir/joint.h"
#include "passes/plan/entries.h"
#include "solver/watch.h"

void driver_say_entries(const Build *b) {
  const ModelOptions *o = &b->options.model;
  const Model *m = &b->model;
  Text names = {.arena = o->arena};
  for (int i = 1; i < m->nentries; i++) text_printf(&names, "%s%s", i > 1 ? ", " : "", m->entries[i]);
  if (m->nentries > 1)
    driver_watch_say(&o->watch, o->arena, "Entries", "planning for %s; %s share%s its weights and states",
                     m->entries[0], text_str(&names), m->nentries == 2 ? "s" : "");
}

static int entry_named(const Build *b, const char *name) {
  for (int i = 0; i < b->nentries; i++)
    if (strcmp(b->l1s[i]->name, name) == 0) return i;
  return -1;
}

static bool no_entry(const Build *b, const char *name, Loc loc) {
  Diags *d = b->options.model.diags;
  Nearest near = nearest_to(name);
  Text all = {.arena = b->options.model.arena};
  for (int i = 0; i < b->nentries; i++)
    text_printf(&all, "%s%s", i ? ", " : "", b->l1s[i]->name), nearest_try(&near, b->l1s[i]->name);
  if (loc.file) diag_error(d, DIAG_plan_model, loc, "the plan is for entry '%s', which the model does not have", name);
  else diag_error(d, DIAG_usage_value, loc, "--optimize: the model has no entry '%s'", name);
  if (near.best) diag_help(d, "the nearest is '%s'", near.best);
  else diag_help(d, "it has %s", text_str(&all));
  return false;
}

static void say_weights(const Build *b) {
  const ModelOptions *o = &b->options.model;
  Text text = {.arena = o->arena};
  for (int e = 0; e < b->nentries; e++)
    text_printf(&text, "%s%s=%g", e ? ", " : "", b->l1s[e]->name, b->l1->joint->entries[e].calls);
  driver_watch_say(&o->watch, o->arena, "Entries", "planning for %s together", text_str(&text));
}

bool driver_join_entries(Build *b, int n, const DriverCalls *calls, Loc loc) {
  double *each = ARENA_ARRAY(b->options.model.arena, double, b->nentries + 1);
  for (int i = 0; i < n; i++) {
    int entry = entry_named(b, calls[i].entry);
    if (entry < 0) return no_entry(b, calls[i].entry, loc);
    each[entry] = calls[i].times;
  }
  b->l1 = joint_func(b->model.m, b->nentries, b->l1s, each);
  say_weights(b);
  return true;
}

void driver_entry_choice(const Build *b, int entry, const Strategy **strategies, const int **stages) {
  const Func *joint = b->l1->joint ? b->l1 : NULL, *f = b->l1s[entry];
  Arena *a = b->options.model.arena;
  *strategies = b->plan->strategies, *stages = b->plan->stages;
  if (!joint && entry == 0) return;
  Strategy *own = ARENA_ARRAY(a, Strategy, f->ops.n + 1);
  int *at = ARENA_ARRAY(a, int, f->ops.n + 1);
  *strategies = own, *stages = at;
  bool has = joint && entry < joint->joint->n; /* driver_lower_also may add entries after planning */
  for (size_t i = 0; has && i < f->ops.n; i++) {
    const size_t k = joint->joint->entries[entry].at[i];
    own[i] = b->plan->strategies[k], at[i] = b->plan->stages[k];
  }
  if (has) return;
  const Strategy *first;
  const int *first_stages;
  driver_entry_choice(b, 0, &first, &first_stages);
  plan_carry(b->model.m, b->l1s[0], first, first_stages, f, own, at);
}

/* True if options are forced for all entries together: a single entry need not satisfy them. */
static bool anything_forced(const PlanOptions *o, int64_t micro_batch) {
  bool any = o->npins || o->said || o->zero || micro_batch;
  for (int i = 0; i < DEGREE_COUNT; i++) any |= o->degree[i] > 0;
  return any;
}

/* The sum of the entries' own bounds, and the best plan for all entries that extends one entry's own plan. */
typedef struct Alone {
  double bound;
  Plan *best;
} Alone;

static void plan_alone(const Build *b, int entry, const PlanOptions *o, Alone *x) {
  const DriverOptions *given = &b->options;
  const JointEntry *e = &b->l1->joint->entries[entry];
  const Plan *alone = plan_search(b->model.m, e->f, given->target, o, diags_new(given->model.arena));
  if (!alone) return;
  x->bound += e->weight * alone->lower_bound;
  Plan *all = plan_from_entry(b->model.m, b->l1, given->target, entry, alone, x->best);
  bool fits = all->price.possible && all->price.memory.needs <= plan_memory_limit(given->target, o->memory_limit);
  if (fits && all->price.time.total < x->best->price.time.total) x->best = all;
}

Plan *driver_hold_against_entries(const Build *b, const PlanOptions *options, int64_t micro_batch, double began,
                                  Plan *p) {
  const double close = 1e-3;
  const Joint *joint = b->l1->joint;
  PlanOptions o = *options;
  Alone x = {.best = p};
  const double until = o.effort > 0 ? began + o.effort : INFINITY;
  if (!joint || o.any || p->gap <= close || anything_forced(&o, micro_batch)) return p;
  o.alternatives = false, o.known = NULL, o.lack = NULL;
  for (int e = 0; e < joint->n && !driver_is_stopped(b); e++) {
    if (joint->entries[e].calls <= 0) continue;
    if (o.effort > 0) o.effort = fmax(until - solve_watch_now(), 1e-3);
    plan_alone(b, e, &o, &x);
  }
  if (x.best != p) driver_list_beside(b, x.best, p);
  x.best->lower_bound = fmin(fmax(p->lower_bound, x.bound), x.best->price.time.total);
  x.best->no_gaps_bound = x.best->lower_bound;
  x.best->gap = plan_gap(x.best->price.time.total, x.best->lower_bound);
  return x.best;
}
