/* passes/search/again.c - cuts a choice of strategies into stages and prices it, with as little recomputation as it
 * needs to fit; see outer.h.
 */
#include <math.h>
#include <string.h>

#include "passes/facts/zero.h"
#include "passes/plan/stage.h"
#include "passes/search/outer.h"

const char search_slower_than_plan[] = "slower than the plan";

/* True for a cast of a weight that is sharded over data-parallel ranks: recomputing it would gather it again. */
static bool is_gathered(const Search *s, const Outcome *o, size_t op) {
  return s->shape->form[op] && zero_parts(&s->m->mesh, s->rules[op], &o->strategies[op], o->data_axes) > 1;
}

/* Casts that would be gathered again are kept, unless weights are gathered at use. */
static void set_again(const Search *s, const bool *again, bool at_use, Outcome *o) {
  for (size_t i = 0; i < s->f->ops.n; i++)
    o->strategies[i].again = (again[i] && (at_use || !is_gathered(s, o, i))) || said_again(s->said, i);
}

/* Prices the outcome with weights gathered at use, or before.  False if no weight is sharded, so that it makes no
 * difference. */
static bool price_gathered(Search *s, const bool *again, bool at_use, Outcome *o) {
  bool some = zero_gather_at_use(s->m, s->f, o->strategies, at_use);
  set_again(s, again, at_use, o);
  o->price = cost_plan(s->cost, s->m, s->f, s->rules, o->strategies, o->stages);
  o->seconds = search_seconds(s, &o->price);
  o->feasible = o->price.possible && o->price.memory.needs <= s->limit;
  if (!o->feasible && o->wanted == 0) o->wanted = o->seconds;
  if (!o->feasible && o->price.possible) search_keep_near(s, o);
  return some;
}

/* Weights are gathered at use if that is forced, or if the plan does not fit otherwise.  A pipeline gathers them in
 * every micro-batch, so it rather recomputes more. */
static void price_outcome(Search *s, const bool *again, Outcome *o) {
  bool some = price_gathered(s, again, s->run.zero - 1 == ZERO_AT_USE, o);
  if (!o->feasible && o->price.possible && some && !s->run.zero && (o->c.stages == 1 || s->at_use)) {
    const PlanPrice before = o->price;
    s->run.limited = true;
    price_gathered(s, again, true, o);
    if (!o->feasible) {
      zero_gather_at_use(s->m, s->f, o->strategies, false);
      set_again(s, again, false, o);
      o->price = before, o->seconds = search_seconds(s, &before);
    }
  }
  o->zero = zero_stage(s->m, &s->m->mesh, s->f, s->rules, o->strategies, o->data_axes, &s->shape->mirrors);
  if (!o->price.possible) search_no_choice(s, o);
  else if (!o->feasible) o->why_not = too_much(s, &o->price.memory);
}

/* True if the stages take longer than the best plan, by more than the difference between cutting and pricing. */
static bool is_slower(const Search *s, const Outcome *o, const StagesTime *t) {
  const double differ = 1.08;
  double micro = o->c.micro, seconds = o->c.no_gaps ? micro * t->slowest : t->sum + (micro - 1) * t->slowest;
  double takes = s->steady ? t->busiest : seconds + t->once;
  return takes > differ * search_best_time(s);
}

/* Rejects a plan that fits but whose batch takes too long; less memory would not make it faster. */
static void refuse_late(const Search *s, Outcome *o) {
  if (!o->feasible || o->price.time.total <= s->most_seconds) return;
  o->feasible = false, o->slower = true;
  o->why_not = "a batch takes longer than allowed";
}

/* Weights of the slowest stage in choosing cuts.  For a pipeline that is kept full only the slowest stage matters, as
 * long as a batch is then fast enough; 0: the number of micro-batches. */
static const double steady_weights[] = {1e4, 16, 4, 0};
enum { STEADY_WEIGHTS = sizeof steady_weights / sizeof *steady_weights };

static bool cut_and_price_steady(Search *s, const bool *again, double steady, Outcome *o) {
  const double sums = 1600; /* the work of cutting and pricing one operation */
  StagesTime time = {0};
  solve_watch_work(&s->watch, sums * (double)s->f->ops.n);
  set_again(s, again, false, o);
  StagesCut how = STAGES_CUT;
  if (o->c.stages > 1 && s->said && s->said->cuts) stages_place(s->f, s->m->mesh.stages, s->said->cuts, o->stages);
  else if (o->c.stages > 1)
    how = stages_cut(s->known_stages, s->cost, s->m, s->f, s->rules, o->strategies, s->limit, steady, o->stages, &time);
  if (how != STAGES_CUT) {
    const char *why = how == STAGES_TOO_LARGE ? " within the memory limit" : ": it has too few places for cuts";
    o->why_not = arena_printf(s->arena, "the model cannot be cut into %d stages%s", o->c.stages, why);
    o->indivisible = how == STAGES_TOO_MANY;
    return false;
  }
  o->slower = is_slower(s, o, &time);
  if (o->slower) o->why_not = search_slower_than_plan;
  else price_outcome(s, again, o), refuse_late(s, o);
  return o->feasible;
}

bool search_cut_and_price_with(Search *s, const bool *again, Outcome *o) {
  const int ways = s->steady && o->c.stages > 1 ? STEADY_WEIGHTS : 1;
  for (int i = 0; i < ways; i++) {
    bool late = i > 0 && o->price.possible && o->price.time.total > s->most_seconds;
    if (i > 0 && !late) break;
    if (cut_and_price_steady(s, again, ways > 1 ? steady_weights[i] : 0, o)) break;
  }
  return o->feasible;
}

Recompute search_made_again(const Search *s, int much) {
  if (much == 0) return (Recompute){RECOMPUTE_none, 0};
  if (much == s->nlayers) return (Recompute){RECOMPUTE_selective, 0};
  if (much == 2 * s->nlayers) return (Recompute){RECOMPUTE_full, 0};
  bool whole = much > s->nlayers;
  return (Recompute){whole ? RECOMPUTE_full_layers : RECOMPUTE_layers, whole ? much - s->nlayers : much};
}

/* Prices one amount; false if it does not fit. */
static bool price_so_much(Search *s, int much, Outcome *x) {
  Arena *scratch = arena_new();
  bool fits = search_cut_and_price_with(s, recompute_ops(scratch, s->again, search_made_again(s, much)), x);
  arena_free(scratch);
  return fits;
}

/* Recomputes as much as possible.  The last layer is recomputed at once, so all layers but the last may need less. */
static bool price_most(Search *s, int *layers, Outcome *o) {
  Outcome but_one = *o;
  *layers = s->nlayers;
  if (search_cut_and_price_with(s, s->policies[s->npolicies - 1].again, o) || o->slower || s->nlayers < 2)
    return o->feasible;
  *layers = s->nlayers - 1;
  bool fits = price_so_much(s, s->nlayers + *layers, &but_one);
  if (fits || (but_one.price.possible && but_one.price.memory.needs < o->price.memory.needs)) *o = but_one;
  return fits;
}

/* Plans differ by less than this share of the time for other reasons. */
static const double hardly = 3e-3;

/* An amount of recomputation that was tried, and the bytes below the limit; not finite if unknown. */
typedef struct Tried {
  int much;
  double left, seconds;
} Tried;

/* The amount wanted lies between too little and enough. */
typedef struct Between {
  Tried few, enough;
  double freed; /* bytes freed per unit; 0 if unknown */
  int step;     /* the step if `freed` is unknown */
  double pays;  /* less recomputation is tried only if it may save more than this share of the time */
} Between;

/* Returns the next amount to try, by the remaining memory; -1: no more. */
static int next_try(Between *b, int most) {
  const Tried *few = &b->few, *enough = &b->enough;
  bool too_few = few->much >= 0, fits = enough->much <= most;
  const Tried *known = fits ? enough : few;
  if (too_few && fits) {
    if (enough->much - few->much <= 1 || enough->seconds - few->seconds <= b->pays * enough->seconds) return -1;
    double part = few->left / (few->left - enough->left), margin = 1. / 8;
    part = isfinite(part) ? fmin(fmax(part, margin), 1 - margin) : 0.5;
    int at = few->much + (int)ceil(part * (enough->much - few->much));
    return at < enough->much ? at : enough->much - 1;
  }
  if (known->much == (fits ? 0 : most)) return -1;
  double steps = isfinite(known->left) && b->freed > 0 ? fabs(known->left) / b->freed : 0;
  int by = steps > b->step ? steps < most ? (int)ceil(steps) : most : b->step, at = known->much + (fits ? -by : by);
  b->step *= 2;
  return at < 0 ? 0 : at > most ? most : at;
}

/* Computes the bytes freed per unit from two tries. */
static void learn(Between *b, const Tried *x, const Tried *before) {
  double freed = (x->left - before->left) / (x->much - before->much);
  if (isfinite(freed) && freed > 0) b->freed = freed;
}

static Outcome room_for(const Search *s, Arena *a) {
  return (Outcome){.strategies = ARENA_ARRAY(a, Strategy, s->f->ops.n), .stages = ARENA_ARRAY(a, int, s->f->ops.n)};
}

/* Copies an outcome into memory that `to` already has. */
static void copy_choice(const Search *s, Outcome *to, const Outcome *from) {
  Strategy *strategies = to->strategies;
  int *stages = to->stages;
  *to = *from;
  to->strategies = memcpy(strategies, from->strategies, sizeof *strategies * s->f->ops.n);
  to->stages = memcpy(stages, from->stages, sizeof *stages * s->f->ops.n);
}

/* True if the outcome does not fit and is already slower than the best plan. */
static bool is_hopeless(const Search *s, const Outcome *o) {
  return !o->feasible && o->price.possible && s->run.best && o->seconds > s->run.best->seconds;
}

static Tried tried(const Search *s, int much, const Outcome *x) {
  return (Tried){much, x->price.possible ? s->limit - x->price.memory.needs : NAN, x->seconds};
}

/* Tries amounts from `at` on, until it fits and less does not fit or is hardly faster.  Keeps the fastest outcome. */
static bool price_between(Search *s, Between *b, int at, int tries, const Outcome *given, Outcome *o) {
  const int most = 2 * s->nlayers;
  Arena *a = arena_new();
  Outcome x = room_for(s, a);
  Tried before = {.much = -1};
  for (int i = 0; i < tries && at >= 0; i++) {
    copy_choice(s, &x, given);
    bool fits = price_so_much(s, at, &x) || x.slower; /* if it is slower than the best plan, it may be too much */
    Tried now = tried(s, at, &x);
    if (before.much >= 0) learn(b, &now, &before);
    before = now;
    if (!o->feasible || (x.feasible && x.seconds < o->seconds)) copy_choice(s, o, &x);
    if (fits) b->enough = now;
    else b->few = now;
    if (b->enough.much > most && is_hopeless(s, &x)) {
      o->slower = true, o->why_not = search_slower_than_plan;
      break;
    }
    at = next_try(b, most);
  }
  arena_free(a);
  return o->feasible;
}

/* Begins with a guess of the amount. */
static bool price_near(Search *s, const Outcome *given, Outcome *o) {
  enum { MOST_TRIES = 6 };
  const int most = 2 * s->nlayers;
  Between b = {.few = {.much = -1}, .enough = {.much = most + 1}, .freed = s->guess_freed, .pays = hardly};
  b.step = 1 + s->nlayers / 64;
  price_between(s, &b, s->guess < most ? s->guess : most, MOST_TRIES, given, o);
  s->run.limited |= b.enough.much > 0;
  return o->feasible;
}

/* It does not fit with `few`, and fits with `enough`, whose outcome is `o`. */
static bool price_least(Search *s, Tried few, Tried enough, const Outcome *given, Outcome *o) {
  enum { MOST_TRIES = 32 };
  Between b = {.few = few, .enough = enough, .step = 1, .pays = s->large ? hardly : 0};
  return price_between(s, &b, next_try(&b, 2 * s->nlayers), MOST_TRIES, given, o);
}

/* Recomputation takes time, so as little as fits is taken (passes/plan/recompute.h); each policy recomputes everything
 * that the one before does.  If neither the last policy fits, nor the last one that recomputes no layer whole, none
 * does: recomputing a whole layer may take more memory at once than it saves. */
static bool price_policies(Search *s, const Outcome *given, Outcome *o) {
  int most, last = s->npolicies - 1;
  if (search_cut_and_price_with(s, s->policies[0].again, o) || last == 0 || o->slower) return o->feasible;
  s->run.limited = true;
  Tried few = tried(s, 0, o);
  Outcome from = *given;
  from.wanted = o->wanted;
  bool fits = search_cut_and_price_with(s, s->policies[1].again, o);
  Tried some = tried(s, s->nlayers, o);
  if (!s->nlayers || o->slower) return fits;
  if (fits) return price_least(s, few, some, &from, o);
  copy_choice(s, o, &from);
  return price_most(s, &most, o) && price_least(s, some, tried(s, s->nlayers + most, o), &from, o);
}

static bool cut_and_price(Search *s, const Outcome *given, Outcome *o) {
  return s->guess >= 0 && s->nlayers ? price_near(s, given, o) : price_policies(s, given, o);
}

bool search_gathers_at_use(const Outcome *o) { return o->c.stages > 1 && o->zero == ZERO_AT_USE; }

/* As long as there is no plan, or the best one gathers at use, a pipeline that does not fit gathers weights at use. */
bool search_cut_and_price(Search *s, Outcome *o) {
  bool other = s->run.best && !search_gathers_at_use(s->run.best),
       may_gather = o->c.stages > 1 && !other && !s->run.zero && func_has_gradients(s->f);
  Arena *a = arena_new();
  Outcome given = room_for(s, a);
  copy_choice(s, &given, o);
  bool fits = cut_and_price(s, &given, o);
  if (!fits && may_gather && o->price.possible) {
    copy_choice(s, o, &given);
    s->at_use = true;
    fits = cut_and_price(s, &given, o);
    s->at_use = false;
  }
  arena_free(a);
  return fits;
}
