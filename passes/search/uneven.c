/* passes/search/uneven.c - finer shares for a plan on ranks of several kinds; see outer.h.
 *
 * Candidates share work by the rate of products or of memory; a plan with both kinds of work is best in between.
 * Members of an axis with equal speed get slightly more or less as long as the plan, otherwise unchanged, becomes
 * faster.  The bound covers all shares (ANY_SHARES), so it also holds for these plans.
 */
#include <math.h>
#include <string.h>

#include "ir/shares.h"
#include "passes/search/outer.h"

enum { FINE = 12, MOST_ROUNDS = 32 }; /* initial parts of the smallest share; steps of one part */

/* Fills the shares of the outcome's axes in fine parts. */
static void fine_shares(Search *s, const Outcome *o, const int **given) {
  const Mesh *mesh = &s->m->mesh;
  int first = o->c.micro > 1;
  for (int i = 0; i < o->c.naxes; i++) {
    const MeshAxis *axis = &mesh->axes[first + i];
    int *shares = ARENA_ARRAY(s->arena, int, axis->size), least = axis->shares ? MAX_SHARE : 1;
    for (int k = 0; axis->shares && k < axis->size; k++) least = axis->shares[k] < least ? axis->shares[k] : least;
    for (int k = 0; k < axis->size; k++) shares[k] = (axis->shares ? axis->shares[k] : 1) * FINE / least;
    given[i] = shares;
  }
}

static void try_price(Search *s, Outcome *o) {
  search_set_mesh(s, &o->c, NULL);
  o->price = cost_plan(s->cost, s->m, s->f, s->rules, o->strategies, o->stages);
  o->seconds = search_seconds(s, &o->price);
  o->feasible = o->price.possible && o->price.memory.needs <= s->limit;
}

/* Gives all members of a group `by` more parts. */
static bool move(Search *s, Outcome *o, int axis, const int *group, int which, int by) {
  const int n = o->c.sizes[axis], *was = o->c.given[axis];
  int *shares = ARENA_ARRAY(s->arena, int, n);
  for (int k = 0; k < n; k++) shares[k] = was[k] + (group[k] == which ? by : 0);
  for (int k = 0; k < n; k++)
    if (shares[k] < 1 || shares[k] > MAX_SHARE) return false;
  Outcome x = *o;
  x.c.given[axis] = shares;
  search_set_mesh(s, &x.c, NULL);
  if (!mesh_shares_fit(&s->m->mesh)) return false;
  try_price(s, &x);
  if (!x.feasible || x.seconds >= o->seconds * (1 - 1e-6)) return false;
  *o = x;
  return true;
}

static bool improve_axis(Search *s, Outcome *o, int axis, const int *group) {
  static const int steps[] = {36, 12, 4, -4, 1, -1};
  bool better = false;
  for (int k = 0; k < o->c.sizes[axis]; k++)
    for (size_t i = 0; i < sizeof steps / sizeof *steps && group[k] == k; i++)
      better |= move(s, o, axis, group, k, steps[i]);
  return better;
}

void search_improve_shares(Search *s) {
  bool said = s->said && s->said->shares;
  if (!s->t->nkinds || !s->run.best || s->watch.expired || said) return;
  Outcome *o = ARENA_NEW(s->arena, Outcome);
  const int *given[MAX_AXES] = {0};
  int *groups[MAX_AXES];
  *o = *s->run.best;
  search_set_mesh(s, &o->c, NULL);
  fine_shares(s, o, given);
  for (int i = 0; i < o->c.naxes; i++) {
    groups[i] = ARENA_ARRAY(s->arena, int, o->c.sizes[i]);
    kinds_groups(s->t, &s->m->mesh, i + (o->c.micro > 1), groups[i]);
  }
  o->c.shares = SHARE_AS_GIVEN;
  memcpy(o->c.given, given, sizeof given);
  bool better = false, more = o->c.naxes > 0;
  for (int round = 0; round < MOST_ROUNDS && more; round++) {
    more = false;
    for (int axis = 0; axis < o->c.naxes; axis++) more |= improve_axis(s, o, axis, groups[axis]);
    better |= more;
  }
  if (better) search_add_if_known(s, o, search_best_time(s));
}
