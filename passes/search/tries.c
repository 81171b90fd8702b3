/* passes/search/tries.c - the order in which candidates are tried: best first, until no remaining one can be faster
 * than the best plan.
 *
 * Candidates are visited by the time of their operations split among all ranks.  A candidate is dropped if that time,
 * or the sum of its cheapest operations, exceeds the best plan so far (at first that of one kind of parallelism alone,
 * or a conventional one), or is hardly below it (is_hopeless).  The graph's optimum, with repeated work weighted as if
 * the stages were equal, is a lower bound of a candidate; the lower bound of a run is the least of all candidates.
 *
 * All numbers of micro-batches of a pipeline are one candidate at first, with a bound for all of them.  The range is
 * halved until the bound exceeds the best plan or one number is left, which is solved.  Without stages micro-batches
 * make nothing faster, but they need less memory.
 *
 * If links differ, the orders of the axes of a candidate are bounded together before they are tried one by one.  A
 * search that begins with conventional plans goes further: it weighs and bounds many candidates before it solves one
 * (bound_first).
 */
#include <math.h>
#include <string.h>

#include "passes/search/outer.h"

/* Records that no plan of a candidate is faster than the bound. */
static void add_bound(Search *s, const Candidate *c, double bound) {
  double *least = search_fills(s, c) ? &s->run.no_gaps_bound : &s->run.lower_bound;
  *least = fmin(*least, bound);
}

/* A search that begins with conventional plans skips candidates that are hardly faster than the best: many meshes are
 * within a thousandth of each other.  The bound counts them. */
static bool is_hopeless(Search *s, double bound) {
  const double hardly = 2e-3, same = 1e-9;
  double best = search_best_time(s);
  if (isinf(bound) && isfinite(s->most_seconds)) return true;
  if (s->run.best == s->run.alone) return bound > best; /* a free axis may cover one kind alone */
  bool hopeless = bound > best * (1 - (s->named ? hardly : same));
  if (hopeless && bound < best * (1 - same)) s->run.left_alone = fmin(s->run.left_alone, bound);
  return hopeless;
}

static void add_outcome(Search *s, Outcome *o) { ARENA_PUSH(s->arena, &s->run.outcomes, o); }

/* Tries one kind of parallelism alone: for the list of alternatives, and as an early first plan, so that only faster
 * candidates are left. */
static void try_alone(Search *s, int degree) {
  double ignored;
  bool limited = true;
  Candidate c = candidate_of(s, 1, 1, 1);
  c.naxes = 1, c.sizes[0] = s->t->ranks, c.degree[0] = degree;
  while (seconds_again(s, &c, &limited) > 0 && limited && 2 * c.micro <= s->most_micro) c.least = c.micro *= 2;
  if (limited) c.least = c.micro = 1;
  Outcome *o = search_solve_mesh(s, &c, INFINITY, &ignored);
  if (o->feasible) add_outcome(s, o);
  if (o->feasible && o->seconds < search_best_time(s)) s->run.best = s->run.alone = o;
}

/* If the time is over, the candidate keeps its bound. */
static bool is_over(Search *s, const Candidate *c) {
  if (s->watch.expired) add_bound(s, c, search_total(c));
  return s->watch.expired;
}

/* Returns what was proved about the candidate; NULL if it was not solved yet. */
static const Bounded *find_bounded(const Search *s, const Candidate *c) {
  for (size_t i = 0; i < s->run.bounded.n; i++)
    if (search_same_candidate(&s->run.bounded.items[i].c, c)) return &s->run.bounded.items[i];
  return NULL;
}

/* In a pipeline that is kept full, micro-batches are no faster than an undivided batch, so its bound holds for them. */
static void lift_micro_batches(Search *s, const Candidate *c, double bound) {
  if (!s->steady || c->stages == 1 || c->micro > 1) return;
  bound = fmin(bound, search_most_in_time(s, c)); /* no more is known if it takes too long */
  for (size_t i = 0; i < s->run.candidates.n; i++) {
    Candidate *x = &s->run.candidates.items[i], whole = *x;
    whole.least = whole.micro = 1;
    if (search_same_candidate(&whole, c)) x->bound = search_bound_in_time(s, x, fmax(x->bound, bound));
  }
}

static double keep_bound(Search *s, const Candidate *c, double bound, bool limited) {
  s->run.limited = limited;
  s->run.limited_some |= limited;
  lift_micro_batches(s, c, bound);
  ARENA_PUSH(s->arena, &s->run.bounded, ((Bounded){*c, bound, limited}));
  return bound;
}

void search_add_if_known(Search *s, Outcome *o, double best) {
  bool as_good =
      s->run.alone && s->run.best == s->run.alone && o->seconds == best; /* a free axis covers this kind alone */
  if (o->strategies || o->why_not) add_outcome(s, o);
  if (o->feasible && (o->seconds < best || as_good)) s->run.best = o;
}

/* The fastest choice may not need the least memory, and pay for that by recomputing or gathering again.  So each axis
 * is also tried for one kind of parallelism, with at least one for data. */
static void try_kinds(Search *s, const Candidate *c) {
  static const Degree kinds[] = {DEGREE_dp, DEGREE_tp, DEGREE_cp};
  enum { KINDS = sizeof kinds / sizeof *kinds };
  int all = 1;
  for (int i = 0; i < c->naxes; i++) all *= KINDS;
  for (int code = 0; code < all; code++) {
    Candidate x = *c;
    double ignored;
    bool data = false, same = true, possible = true;
    for (int i = 0, rest = code; i < c->naxes; i++, rest /= KINDS) {
      Degree d = kinds[rest % KINDS];
      x.degree[i] = (int)d;
      data |= d == DEGREE_dp, same &= x.degree[0] == (int)d;
      possible &= s->has_degree[d] && !s->run.forced[d];
      bool alike = i > 0 && s->t->ntiers == 1 && c->sizes[i] == c->sizes[i - 1];
      possible &= !alike || x.degree[i] >= x.degree[i - 1]; /* the other order is the same */
    }
    if (!data || same || !possible || s->watch.expired) continue;
    search_add_if_known(s, search_solve_mesh(s, &x, search_best_time(s), &ignored), search_best_time(s));
  }
}

static bool is_free(const Candidate *c) {
  for (int i = 0; i < c->naxes; i++)
    if (c->degree[i] >= 0) return false;
  return true;
}

/* True if it takes longer for lack of memory: by recomputing or gathering, or, without gradients, by splitting more. */
static bool memory_costs(const Search *s, const Outcome *o, double bound) {
  const double much = 1e-3;
  if (o->wanted > 0 && o->seconds > o->wanted) return true;
  return s->run.limited && !func_has_gradients(s->f) && o->seconds > bound * (1 + much);
}

/* Records only that the candidate is not faster than `best`. */
static double keep_or_drop(Search *s, const Candidate *c, double best, double again) {
  if (again > 0) return keep_bound(s, c, fmax(c->bound, best - again), s->run.limited);
  lift_micro_batches(s, c, best);
  return INFINITY;
}

/* Returns the bound that was found, without recomputation for gradients. */
static double try_one(Search *s, const Candidate *c) {
  bool makes_again;
  double bound, best = search_best_time(s), again = fmax(c->again, seconds_again(s, c, &makes_again));
  const Bounded *before = find_bounded(s, c);
  if (before) return s->run.limited = before->limited, before->bound;
  if (is_over(s, c)) return c->bound;
  if (again > 0 && is_hopeless(s, c->bound + again)) return keep_bound(s, c, c->bound, makes_again);
  if (c->shares == SHARE_ANYHOW) {
    bound = fmax(c->bound, bound_mesh(s, c, 0, best - again));
    add_bound(s, c, bound + again);
    return keep_bound(s, c, bound, makes_again);
  }
  s->report.candidates++;
  Outcome *o = search_solve_mesh(s, c, best - again, &bound);
  s->run.limited |= makes_again;
  bool known = o->strategies || o->why_not;
  if (!known && !s->watch.expired) /* its cheapest operations alone take longer */
    return keep_or_drop(s, c, best, again);
  search_add_if_known(s, o, best);
  bool limited = s->run.limited;
  bool pays = o->feasible && memory_costs(s, o, bound);
  if (pays && c->stages == 1 && !s->run.zero && is_free(c)) try_kinds(s, c);
  s->run.limited = limited;
  bound = fmax(bound, c->bound);
  add_bound(s, c, bound + again);
  return keep_bound(s, c, bound, s->run.limited);
}

/* Solves a few numbers of micro-batches one by one, if a bound of the range is little more than all operations take. */
static bool try_each(Search *s, const Candidate *c) {
  enum { FEW = 4 };
  int n = 0;
  for (int m = c->least; m <= c->micro; m++) n += search_is_useful(s, c->stages, m);
  if (!c->no_gaps || n > FEW) return false;
  for (int m = c->micro; m >= c->least; m--) {
    Candidate one = *c;
    one.least = one.micro = m;
    one.bound = fmax(c->bound, ideal_seconds(s, &one));
    if (search_is_useful(s, c->stages, m) && !is_hopeless(s, search_total(&one))) try_one(s, &one);
  }
  return true;
}

/* Halves a range of micro-batches. */
static void halve(const Search *s, const Candidate *c, Candidate *few, Candidate *many) {
  *few = *many = *c;
  few->micro = useful_up_to(s, c->stages, (int)sqrt((double)c->least * c->micro));
  many->least = useful_from(s, c->stages, few->micro + 1);
}

/* Sets the recomputation that memory forces at least, if micro-batches are part of the candidate. */
static void set_again(const Search *s, Candidate *c) {
  bool ignored;
  if (c->stages > 1 || search_ranges_without_stages(s)) c->again = fmax(c->again, seconds_again(s, c, &ignored));
}

/* Halves the candidate's range of micro-batches; the half that does not fill the pipeline comes second. */
static void try_candidate(Search *s, const Candidate *given) {
  Candidate c = *given;
  c.bound = fmax(c.bound, ideal_seconds(s, &c));
  set_again(s, &c);
  if (is_hopeless(s, search_total(&c))) return;
  if (c.least == c.micro) {
    try_one(s, &c);
    return;
  }
  if (is_over(s, &c) || try_each(s, &c)) return;
  c.bound = fmax(c.bound, bound_mesh(s, &c, 0, search_best_time(s) - c.again));
  if (is_hopeless(s, search_total(&c))) return;
  Candidate few, many;
  halve(s, &c, &few, &many);
  try_candidate(s, &many);
  try_candidate(s, &few);
}

/* Bounds the numbers of micro-batches that are not tried on a mesh without stages. */
static void bound_rest(Search *s, const Candidate *c, int least, int most, double bound) {
  Candidate rest = *c;
  rest.least = useful_from(s, c->stages, least), rest.micro = useful_up_to(s, c->stages, most);
  if (rest.least > rest.micro) return;
  rest.bound = fmax(bound, ideal_seconds(s, &rest));
  if (rest.bound < s->run.lower_bound) rest.bound = fmax(rest.bound, bound_mesh(s, &rest, 0, search_best_time(s)));
  s->run.lower_bound = fmin(s->run.lower_bound, rest.bound);
}

/* If a mesh without stages misses its bound for lack of memory, micro-batches may help: activations need less memory.
 * More of them than memory requires make nothing faster. */
static void try_for_memory(Search *s, const Candidate *c, double bound) {
  bool limited = true;
  int tried = 1;
  s->run.limited_flat = func_has_gradients(s->f);
  while (2 * tried <= s->most_micro && limited && !is_hopeless(s, bound)) {
    Candidate next = *c;
    bound_rest(s, c, tried + 1, 2 * tried - 1, bound);
    next.least = next.micro = tried *= 2;
    next.bound = fmax(bound, ideal_seconds(s, &next));
    try_one(s, &next);
    limited = s->run.limited;
  }
  bound_rest(s, c, tried + 1, s->most_micro, bound);
}

/* In a large search, only bubbles of plans that were found are filled. */
static bool filled_later(const Search *s, const Candidate *c) { return search_fills(s, c) && s->large; }

/* True if all n orders of a candidate are worth one close bound, after which mostly none has to be solved.  Of long
 * steps it would cost too much. */
static bool is_bounded_closely(const Search *s, const Candidate *c, size_t n) {
  const size_t many = 3;
  return s->named && n >= many && c->naxes > 2 && c->least == c->micro && !func_has_gradients(s->f);
}

/* Bounds all orders of the first axes of candidate `first`, if it is the first of these orders; a single order only if
 * `all`.  After a close bound, orders are not bounded in groups. */
static void bound_orders(Search *s, size_t first, int loose, bool all) {
  Candidate *c = &s->run.candidates.items[first];
  size_t n = 1;
  if (first > 0 && search_same_but_for_order(c - 1, c, loose)) return;
  while (first + n < s->run.candidates.n && search_same_but_for_order(c, c + n, loose)) n++;
  bool alike = (n == 1 || s->t->ntiers == 1) && !all;
  if (said_mesh(s->said)) return; /* lines name single axes */
  if (alike || filled_later(s, c) || s->run.best == s->run.alone || is_hopeless(s, search_total(c)) || s->watch.expired)
    return;
  const bool brief = s->brief;
  s->close = all && is_bounded_closely(s, c, n);
  s->brief &= !s->close;
  double bound = bound_mesh(s, c, loose, search_best_time(s) - c->again);
  for (size_t i = 0; i < n; i++) c[i].bound = fmax(c[i].bound, bound), c[i].bounded = s->close ? 1 : loose;
  for (size_t i = 0; i < n; i++) lift_micro_batches(s, &c[i], bound);
  s->brief = brief, s->close = false;
}

/* Splits the range of micro-batches of the first remaining candidate and all its orders in two. */
static void halve_first(Search *s, size_t left) {
  const Candidate c = s->run.candidates.items[left];
  for (size_t i = left; i < s->run.candidates.n; i++) {
    Candidate whole = s->run.candidates.items[i], few, many;
    if (!search_same_but_for_order(&c, &whole, c.naxes) || whole.bounded != c.bounded) break;
    whole.bounded = MAX_AXES + 1, whole.weighed = false;
    halve(s, &whole, &few, &many);
    few.bound = fmax(few.bound, ideal_seconds(s, &few)), many.bound = fmax(many.bound, ideal_seconds(s, &many));
    few.layer_seconds = many.layer_seconds = 0; /* of another number of micro-batches */
    set_again(s, &few), set_again(s, &many);
    s->run.candidates.items[i] = many;
    ARENA_PUSH(s->arena, &s->run.candidates, few);
  }
}

/* Adds the cost of the cheapest strategies to the bounds of the first remaining candidate and all its orders. */
static void weigh_first(Search *s, size_t left) {
  const Candidate c = s->run.candidates.items[left];
  double of_layer, least = search_least_of_operations(s, &c, c.naxes, &of_layer);
  for (size_t i = left; i < s->run.candidates.n; i++) {
    Candidate *x = &s->run.candidates.items[i];
    if (!search_same_but_for_order(&c, x, c.naxes) || x->weighed) break;
    x->bound = fmax(x->bound, least), x->weighed = true, x->layer_seconds = of_layer;
    set_again(s, x);
  }
}

/* Reports the progress; candidate `left` is the first remaining one. */
static void note_progress(Search *s, size_t left) {
  double best = search_best_time(s), bound = fmin(s->run.lower_bound, s->run.left_alone);
  for (size_t i = left; i < s->run.candidates.n; i++) bound = fmin(bound, search_total(&s->run.candidates.items[i]));
  s->progress = (PlanProgress){(int)left, (int)s->run.candidates.n, best, fmin(best, bound), INFINITY};
}

/* A plan is poor if it takes so many times as long as a bound. */
static const double poor = 1.1;

/* True if a candidate that a graph has bounded should be solved at once because the plan is slower than its bound by
 * the factor `poor`: a better plan makes all other graphs smaller.  Only a few times, and not for long steps. */
static bool solves_at_once(Search *s, const Candidate *c, double much) {
  const int few = 3;
  bool graph = c->bounded <= c->naxes && s->run.best != s->run.alone,
       known = graph && c->least == c->micro && !func_has_gradients(s->f);
  if (!known || s->run.early == few || search_best_time(s) < much * search_total(c)) return false;
  s->run.early++;
  return true;
}

/* Moves the candidate with the least bound to the front, of those that a graph has bounded and that have fewer axes
 * than the first remaining one, or one number of micro-batches where that has a range; false if there is none, or if it
 * is hardly better than the plan.  Its graph is far smaller than that of the first one, or stands for many graphs,
 * which a better plan makes smaller. */
static bool brings_forward(Search *s, size_t left) {
  const double poor_for_range = 1.02;
  Candidate *items = s->run.candidates.items;
  const bool range = items[left].least < items[left].micro;
  size_t best = left;
  if (items[left].bounded <= items[left].naxes) return false;
  for (size_t i = left + 1; i < s->run.candidates.n; i++) {
    bool smaller = items[i].naxes < items[left].naxes || (range && items[i].least == items[i].micro);
    smaller &= items[i].bounded <= items[i].naxes;
    if (smaller && (best == left || search_total(&items[i]) < search_total(&items[best]))) best = i;
  }
  const Candidate first = items[best];
  if (best == left || !solves_at_once(s, &first, range ? poor_for_range : poor)) return false;
  memmove(items + left + 1, items + left, sizeof *items * (best - left));
  items[left] = first;
  return true;
}

/* True if a bound of the range of micro-batches would be far below the time of each: the share of bubbles differs, or
 * the sizes of parts do, unless one number divides the whole range. */
static bool is_wide(const Search *s, const Candidate *c) {
  const double much = 1.25, others = c->stages - 1;
  if (search_divisor(s, c) == 1) return c->micro > 2 * c->least;
  return 1 + others / c->least > much * (1 + others / c->micro);
}

/* Spends work where the bound is least.  The first remaining candidate is weighed, together with all its orders.  If
 * its range of micro-batches is wide, the range is halved and each half is weighed again.  A narrow range gets a bound
 * by a graph: first with all orders, then with fewer micro-batches, then with fewer orders, until one of each is left
 * and the candidate is still the first.  Without a plan there is nothing to compare it with. */
static void bound_first(Search *s, size_t left) {
  s->brief = true;
  while (isfinite(search_best_time(s)) && !s->watch.expired) {
    const Candidate c = s->run.candidates.items[left];
    note_progress(s, left);
    bool first = c.bounded > c.naxes, wide = is_wide(s, &c);
    int loose = first ? c.naxes : c.bounded - 1;
    bool range = first ? wide : c.least < c.micro, orders = first || loose > 1;
    if (filled_later(s, &c) || is_hopeless(s, search_total(&c)) || !(range || orders) || solves_at_once(s, &c, poor))
      break;
    if (brings_forward(s, left)) break;
    if (!c.weighed && (wide || func_has_gradients(s->f))) { /* without a range, a graph of one batch is solved fast */
      weigh_first(s, left);
    } else if (range) {
      halve_first(s, left);
    } else {
      Candidate *bounded = &s->run.candidates.items[left];
      bound_orders(s, left, loose, first);
      if (bounded->bounded > loose) bounded->bounded = loose;
    }
    sort_candidates(s, left);
  }
  s->brief = false;
}

/* Moves the candidate with the fewest axes to the front, of those with one number of micro-batches and nearly the least
 * bound: it is solved faster, and may be as good. */
static void fewest_axes_first(Search *s, size_t left) {
  const double hardly = 1e-3;
  Candidate *items = s->run.candidates.items;
  size_t best = left;
  const double least = search_total(&items[left]);
  if (is_hopeless(s, least)) return;
  for (size_t i = left; i < s->run.candidates.n && search_total(&items[i]) <= least * (1 + hardly); i++) {
    bool known = items[i].bounded <= items[i].naxes && items[i].least == items[i].micro;
    if (known && items[i].naxes < items[best].naxes) best = i;
  }
  const Candidate first = items[best];
  memmove(items + left + 1, items + left, sizeof *items * (best - left));
  items[left] = first;
}

/* Tries as many micro-batches as possible, then half as many as long as that fits. */
static void try_many_micro_batches(Search *s, int forced, const Candidate *given) {
  Candidate c = *given;
  double ignored;
  bool fits = true;
  for (c.micro = 1; 2 * c.micro <= s->most_micro;) c.micro *= 2;
  if (forced) c.micro = forced;
  for (; fits && c.micro && !s->watch.expired; c.micro = forced ? 0 : c.micro / 2) {
    c.least = c.micro;
    Outcome *o = search_solve_mesh(s, &c, search_best_time(s), &ignored);
    fits = o->feasible;
    search_add_if_known(s, o, search_best_time(s));
  }
}

/* Gives the free axes from number `axis` on kinds of parallelism that no other axis has. */
static void try_lean(Search *s, int micro, const Candidate *c, int axis, unsigned used) {
  if (axis == c->naxes) {
    try_many_micro_batches(s, micro, c);
    return;
  }
  for (int d = DEGREE_FIRST_AXIS; d < DEGREE_COUNT; d++) {
    Candidate x = *c;
    bool free = x.degree[axis] < 0, known = !search_told_apart(s, d);
    bool possible = free ? s->has_degree[d] && !s->run.forced[d] && known && !(used >> d & 1u) : x.degree[axis] == d;
    x.degree[axis] = d;
    if (possible) try_lean(s, micro, &x, axis + 1, used | 1u << d);
  }
}

/* The fastest free choice does not need the least memory.  If none fits, meshes without stages are tried with one kind
 * of parallelism per axis, which may fit. */
static void try_all_lean(Search *s, const PlanOptions *o) {
  for (size_t i = 0; i < s->run.candidates.n && !s->watch.expired && !(o->any && s->run.best); i++) {
    const Candidate c = s->run.candidates.items[i];
    if (c.stages == 1 && !c.loose && c.shares != SHARE_ANYHOW) try_lean(s, o->micro_batches, &c, 0, 0);
  }
}

/* Solves the meshes of one axis, and of one inside nodes and one between them: they are small, include each kind of
 * parallelism alone, and a large search may end before their bounds are the least. */
static void try_flat(Search *s) {
  const int ranks = s->t->ranks, node = s->t->tiers[0].group;
  double ignored;
  bool limited;
  Candidate c = candidate_of(s, 1, 1, 1);
  for (c.naxes = 1; c.naxes <= 2; c.naxes++) {
    double best = search_best_time(s);
    bool two = c.naxes == 2;
    if (ranks == 1 || (two && (ranks % node || node == 1 || node == ranks))) return;
    c.sizes[0] = two ? ranks / node : ranks, c.sizes[1] = node;
    c.degree[0] = c.degree[1] = -1;
    if (isfinite(seconds_again(s, &c, &limited)))
      search_add_if_known(s, search_solve_mesh(s, &c, best, &ignored), best);
  }
}

void search_try_all(Search *s, const PlanOptions *o, bool free_choice) {
  bool named = free_choice && s->named && !o->any, alone = free_choice && !(named && s->large);
  for (int d = DEGREE_FIRST_AXIS; alone && d < DEGREE_COUNT; d++) try_alone(s, d);
  s->brief = named;
  if (s->run.candidates.n) note_progress(s, 0);
  if (s->named && !o->any && !s->layout) search_try_named(s, o);
  s->brief = false;
  if (named && s->large) try_flat(s);
  for (size_t i = 0; i < s->run.candidates.n && !(o->any && s->run.best); i++) {
    if (named && s->steady) sort_candidates(s, i);
    if (named) bound_first(s, i);
    note_progress(s, i);
    if (named) fewest_axes_first(s, i);
    for (int loose = s->run.candidates.items[i].naxes; loose > 1 && !named; loose--) bound_orders(s, i, loose, false);
    const Candidate c = s->run.candidates.items[i];
    if (filled_later(s, &c)) {
      add_bound(s, &c, search_total(&c));
      continue;
    }
    bool alone_counts = search_ranges_without_stages(s), /* micro-batches are candidates of their own */
        without_stages = c.stages == 1 && c.micro == 1 && !c.loose && !alone_counts && !is_hopeless(s, c.bound);
    if (!without_stages) {
      try_candidate(s, &c);
      continue;
    }
    double bound = try_one(s, &c);
    if (s->run.limited && o->micro_batches == 0 && !(o->any && s->run.best)) try_for_memory(s, &c, bound);
  }
  if (!s->run.best && !s->large && !s->layout && isinf(s->below)) try_all_lean(s, o);
}

void search_try_hastily(Search *s) {
  const double part = 0.25, some = 2e8; /* of the planned work; work with which most plans are found */
  const double deadline = s->watch.deadline, most = s->watch.most;
  s->watch.deadline = INFINITY;
  s->watch.most = isfinite(deadline) ? 0 : fmax(part * most, some);
  for (int pass = 0; pass < 2 && !s->run.best && !solve_watch_stopped(&s->watch); pass++) {
    s->watch.expired = false, s->watch.spent = 0;
    s->run.hasty = pass == 0;
    s->run.outcomes.n = s->run.bounded.n = 0;
    for (size_t i = 0; i < s->run.candidates.n && !s->run.best && !s->watch.expired; i++) {
      Candidate c = s->run.candidates.items[i];
      if (c.shares == SHARE_ANYHOW) continue;                /* it only bounds other candidates */
      bool keeps = c.stages > 1 && func_has_gradients(s->f); /* kept values shrink with the number of micro-batches */
      if (keeps) c.least = c.micro;
      else c.micro = c.least;
      try_one(s, &c);
    }
  }
  s->run.gave_up = !s->run.best && s->watch.expired;
  s->run.lower_bound = s->run.no_gaps_bound = INFINITY;
  for (size_t i = 0; i < s->run.candidates.n; i++)
    add_bound(s, &s->run.candidates.items[i], search_total(&s->run.candidates.items[i]));
  s->watch.deadline = deadline, s->watch.most = most; /* for searches that continue after this one */
  s->watch.expired = true;
}
