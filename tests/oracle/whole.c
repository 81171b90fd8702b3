/* tests/oracle/whole.c - compares the outer search with the layouts that it rejected: whole [CASES [SEED]].
 *
 * Models of 2 to 8 layers, for inference and for training, are planned without force on 2, 4 and 8 ranks of one tier
 * and of two, without a limit of memory and within limits that bind.  Then fully forced layouts are searched for: each
 * way to divide the ranks, micro-batches, schedule, recomputation and stage of ZeRO, or a random sample of them (CASES;
 * 0: all).  The result of such a search is a plan, so
 *   - its price is that of cost_plan, and it is within its limit;
 *   - it is not faster than the bound of the free search within any limit that it keeps: the bound without gaps for
 *     schedules that fill them, the bound of 1f1b otherwise.  So none is faster than the plan by more than the gap;
 *   - a free search within a limit that it keeps is not refused.
 * The least memory of all layouts is one of the limits.  Layouts faster than the plan are counted: within a limit there
 * are some, as the search keeps weights and states within it exactly and activations by trial.
 *
 * As many small functions are compared with choices that do not depend on the search (tests/oracle/small.h).  With more
 * than 100 cases all limits are tried for every model. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "frontend/topo/target.h"
#include "ir/schedule.h"
#include "passes/plan/plan.h"
#include "tests/oracle/small.h"
#include "tests/test.h"
#include "tests/train_step.h"

/* ---- models and targets */

typedef struct Net {
  const char *name, *text;
  int layers; /* that repeat */
  bool experts;
} Net;

static const Net mlp = {"mlp",
                        "import nn\nentry main(x: f32[512, 2048]) {\n"
                        "  for i in 0..4 { x = relu(linear(x, 2048) as \"l{i}\") }\n"
                        "  output y = linear(x, 1000) as \"last\"\n}\n",
                        4, false};

static const Net transformer = {
    "transformer",
    "import nn\nentry main(x: f32[8, 128, 512]) {\n"
    "  for i in 0..2 {\n"
    "    x = x + (self_attention(layer_norm(x) as \"n{i}\", 8, causal=true) as \"a{i}\")\n"
    "    x = x + (linear(gelu(linear(layer_norm(x) as \"m{i}\", 2048) as \"u{i}\"), 512) as \"d{i}\")\n"
    "  }\n"
    "  output y = linear(x, 4000) as \"last\"\n}\n",
    2, false};

static const Net experts = {"experts",
                            "fn mixture(x) {\n"
                            "  weight router : f32[256, 4] = normal(0.02)\n"
                            "  expert weight up : f32[4, 256, 1024] = normal(0.02)\n"
                            "  expert weight down : f32[4, 1024, 256] = normal(0.02)\n"
                            "  share = softmax(einsum(\"bsd,de->bse\", x, router))\n"
                            "  h = relu(einsum(\"bsd,edf->besf\", x, up))\n"
                            "  return einsum(\"besd,bse->bsd\", einsum(\"besf,efd->besd\", h, down), share)\n"
                            "}\n"
                            "entry main(x: f32[8, 64, 256]) {\n"
                            "  for i in 0..2 { x = x + (mixture(x) as \"l{i}\") }\n"
                            "  output y = x\n}\n",
                            2, true};

static const Net deep = {
    "deep",
    "import nn\nentry main(x: f32[16, 128, 512]) {\n"
    "  for i in 0..8 {\n"
    "    x = x + (self_attention(layer_norm(x) as \"n{i}\", 8, causal=true) as \"a{i}\")\n"
    "    x = x + (linear(gelu(linear(layer_norm(x) as \"m{i}\", 2048) as \"u{i}\"), 512) as \"d{i}\")\n"
    "  }\n"
    "  output y = linear(x, 4000) as \"last\"\n}\n",
    8, false};

/* Pairs of devices connected by a slow network. */
static const char pairs[] =
    "machine pairs {\n  devices 2 A100-SXM4-40GB;\n  link nvlink at 300 GB/s latency 3 us;\n"
    "  network ethernet 1 at 25 Gbit/s latency 15 us;\n}\n";

typedef struct Problem {
  const Net *net;
  const char *target; /* NULL for pairs */
  int ranks;
  const char *loss, *optimizer; /* NULL if it is not trained */
  int limits;                   /* the number of limits */
} Problem;

static const Problem problems[] = {
    {&mlp, "cpux2", 2, NULL, NULL, 5},
    {&mlp, "dgx-a100x4", 4, NULL, NULL, 5},
    {&mlp, NULL, 8, NULL, NULL, 5},
    {&transformer, "cpux2", 2, NULL, NULL, 5},
    {&transformer, NULL, 4, NULL, NULL, 5},
    {&transformer, "dgx-a100x8", 8, NULL, NULL, 2},
    {&experts, "dgx-a100x4", 4, NULL, NULL, 5},
    {&experts, NULL, 8, NULL, NULL, 3},
    {&deep, NULL, 8, NULL, NULL, 2},
    {&mlp, "cpux2", 2, "cross_entropy", "adamw", 2},
    {&mlp, "dgx-a100x4", 4, "mse", "sgd(momentum=0.9)", 2},
    {&mlp, NULL, 4, "cross_entropy", "adamw", 1},
    {&mlp, NULL, 8, "cross_entropy", "adamw", 1},
    {&transformer, "dgx-a100x2", 2, "cross_entropy", "adamw", 5},
    {&transformer, NULL, 4, "cross_entropy", "sgd", 3},
    {&experts, "dgx-a100x4", 4, "mse", "adamw", 3},
    {&deep, "dgx-a100x8", 8, "cross_entropy", "adamw", 1},
};

/* ---- layouts */

typedef struct Forced {
  PlanOptions *items;
  size_t n, cap;
} Forced;

typedef struct Kind {
  int schedule, chunks; /* of PlanOptions */
} Kind;

static const Kind kinds[] = {{1 + SCHEDULE_1f1b, 0}, {1 + SCHEDULE_gpipe, 0},       {1 + SCHEDULE_zbh1, 0},
                             {1 + SCHEDULE_zbv, 2},  {1 + SCHEDULE_interleaved, 2}, {1 + SCHEDULE_interleaved, 3}};
static const Recompute policies[] = {{RECOMPUTE_none, 0},
                                     {RECOMPUTE_selective, 0},
                                     {RECOMPUTE_full, 0},
                                     {RECOMPUTE_layers, 1},
                                     {RECOMPUTE_full_layers, 1}};
static const int micro_batches[] = {1, 2, 3, 4, 8};

enum {
  KINDS = sizeof kinds / sizeof *kinds,
  POLICIES = sizeof policies / sizeof *policies,
  MICROS = sizeof micro_batches / sizeof *micro_batches,
  MOST_ZERO = 3,
};

/* All training steps with these degrees, of one schedule. */
static void add_steps(Arena *a, PlanOptions o, int layers, Forced *out) {
  bool cuts = o.degree[DEGREE_dp] > 1;
  for (int i = 0; i < POLICIES; i++)
    for (int zero = 0; zero <= (cuts ? MOST_ZERO : 0); zero++) {
      o.recompute = policies[i];
      o.zero = 1 + zero;
      if (layers > 1 || policies[i].kind < RECOMPUTE_full) ARENA_PUSH(a, out, o);
    }
}

/* All layouts of one schedule; those that do not depend on it belong to the first. */
static void add_layouts(Arena *a, const Problem *p, const int degree[DEGREE_COUNT], int kind, Forced *out) {
  for (int i = 0; i < MICROS; i++) {
    PlanOptions o = {.micro_batches = micro_batches[i]};
    memcpy(o.degree, degree, sizeof o.degree);
    bool scheduled = p->loss && degree[DEGREE_pp] > 1 && micro_batches[i] > 1;
    if (!scheduled && kind) continue;
    if (p->loss) o.schedule = kinds[kind].schedule, o.chunks = kinds[kind].chunks;
    if (p->loss) add_steps(a, o, p->net->layers, out);
    else ARENA_PUSH(a, out, o);
  }
}

static void add_degrees(Arena *a, const Problem *p, int degree[DEGREE_COUNT], int d, int rest, int kind, Forced *out) {
  if (d == DEGREE_COUNT) {
    if (rest == 1) add_layouts(a, p, degree, kind, out);
    return;
  }
  for (int n = 1; n <= rest; n++) {
    if (rest % n || (d == DEGREE_ep && n > 1 && !p->net->experts)) continue;
    degree[d] = n;
    add_degrees(a, p, degree, d + 1, rest / n, kind, out);
  }
}

/* A random sample of all, in their order: those of one schedule are adjacent. */
static Forced draw(Arena *a, const Forced *all, size_t most, uint64_t seed, uint64_t stream) {
  Forced out = {0};
  for (size_t i = 0; i < all->n; i++) {
    uint64_t left = all->n - i, wanted = most - out.n;
    if (random_below(seed, stream, i, left) < wanted) ARENA_PUSH(a, &out, all->items[i]);
  }
  return out;
}

static Forced layouts_of(Arena *a, const Problem *p) {
  Forced all = {0};
  int degree[DEGREE_COUNT];
  for (int kind = 0; kind < KINDS; kind++) add_degrees(a, p, degree, 0, p->ranks, kind, &all);
  return all;
}

static const char *text_of(Arena *a, const PlanOptions *o) {
  Text t = {.arena = a};
  for (int d = 0; d < DEGREE_COUNT; d++) text_printf(&t, "%s %d ", degree_names[d], o->degree[d]);
  text_printf(&t, "micro-batches %d", o->micro_batches);
  if (o->schedule) {
    text_printf(&t, " %s", schedule_text(a, (PipelineSchedule)(o->schedule - 1), o->chunks));
    text_printf(&t, " recompute %s zero %d", recompute_text(a, o->recompute), o->zero - 1);
  }
  if (o->memory_limit > 0) text_printf(&t, " memory %.0f", o->memory_limit);
  return text_str(&t);
}

/* ---- a problem */

/* Limits of memory: none, the least memory of all layouts, and parts of the free plan's. */
static const double parts[] = {INFINITY, 0, 0.7, 0.9, 0.5};
enum { LIMITS = sizeof parts / sizeof *parts };

typedef struct Totals {
  int searches, refused, cut_short, layouts, made_to_fit, compared, faster, much_faster;
  double most;
} Totals;

/* A layout, and its time and memory. */
typedef struct Found {
  PlanOptions options;
  const Plan *plan;
} Found;

typedef struct FoundList {
  Found *items;
  size_t n, cap;
} FoundList;

typedef struct Case {
  const Problem *problem;
  const char *name;
  Arena *a;
  Module *m;
  const Func *f;
  const Target *t;
  FoundList found;
  const PlanKnown *known;
  double limit; /* 0 for none */
  Totals totals;
} Case;

/* The numbers of a plan equal those of cost_plan, and it is within the limit. */
static void check_price(Case *c, const PlanOptions *o, const Plan *p) {
  const Mesh before = c->m->mesh;
  module_set_mesh(c->m, &p->mesh);
  CostModel *cost = cost_model_new(c->m, c->t);
  PlanPrice x = cost_plan(cost, c->m, c->f, rules_of(c->m, c->f), p->strategies, p->stages);
  cost_model_free(cost);
  module_set_mesh(c->m, &before);
  double limit = plan_memory_limit(c->t, o->memory_limit);
  CHECKF(x.possible && x.time.total == p->price.time.total && x.memory.total == p->price.memory.total,
         "%s: %s: %.17g s, priced %.17g", c->name, text_of(c->a, o), p->price.time.total, x.time.total);
  CHECKF(p->price.memory.total <= limit, "%s: %s: %.0f bytes of %.0f", c->name, text_of(c->a, o), p->price.memory.total,
         limit);
  CHECKF(p->lower_bound <= p->price.time.total && p->no_gaps_bound <= p->lower_bound, "%s: %s: bounds %g and %g of %g",
         c->name, text_of(c->a, o), p->lower_bound, p->no_gaps_bound, p->price.time.total);
}

static const Plan *search(Case *c, const PlanOptions *o) {
  Diags *d = diags_new(c->a);
  const Plan *p = plan_search(c->m, c->f, c->t, o, d);
  CHECKF(p || d->errors > 0, "%s: %s: neither a plan nor a reason", c->name, text_of(c->a, o));
  if (p) check_price(c, o, p);
  return p;
}

/* The bound that holds for it. */
static double bound_for(const Plan *free, const Plan *p) {
  bool pipeline = p->mirrored && p->mesh.stages > 1 && p->micro_batches > 1;
  bool fills = pipeline && (p->mesh.chunks > 1 || schedule_weights_apart(p->mesh.schedule));
  return fills ? free->no_gaps_bound : free->lower_bound;
}

/* Compares the result for a layout with the free plan within a limit that it keeps; NULL if it was refused. */
static void compare(Case *c, const Plan *free, const Found *x) {
  const double much = 0.01;
  CHECKF(free, "%s: %.0f bytes were refused, and there is %s", c->name, c->limit, text_of(c->a, &x->options));
  if (!free) return;
  double seconds = x->plan->price.time.total, best = free->price.time.total, bound = bound_for(free, x->plan);
  c->totals.compared++;
  CHECKF(seconds >= bound * (1 - 1e-9), "%s, %.0f bytes: %s takes %.9g s, which is below the bound %.9g of %.9g",
         c->name, c->limit, text_of(c->a, &x->options), seconds, bound, best);
  if (seconds >= best * (1 - 1e-9)) return;
  double faster = 1 - seconds / best;
  c->totals.faster++, c->totals.much_faster += faster > much;
  c->totals.most = fmax(c->totals.most, faster);
  if (faster > much)
    printf("  %s, %.0f bytes: %s takes %.6g s, %.2f %% less than %.6g; gap %.2f %%\n", c->name, c->limit,
           text_of(c->a, &x->options), seconds, 100 * faster, best, 100 * plan_gap(best, bound));
}

/* Searches every possible layout. */
static void force_all(Case *c, const Forced *layouts) {
  for (size_t i = 0; i < layouts->n; i++) {
    Found x = {.options = layouts->items[i]};
    x.options.known = &c->known;
    x.plan = search(c, &x.options);
    c->totals.layouts++;
    if (x.plan) ARENA_PUSH(c->a, &c->found, x);
  }
}

/* Layouts above the limit are searched again within it, with any recomputation and any stage of ZeRO. */
static void make_fit(Case *c, const Plan *free) {
  const size_t every = 5;
  for (size_t i = 0; i < c->found.n; i += every) {
    if (c->found.items[i].plan->price.memory.total <= c->limit) continue;
    Found x = {.options = c->found.items[i].options};
    x.options.known = NULL;
    x.options.any = true;
    x.options.memory_limit = c->limit;
    x.options.recompute.kind = RECOMPUTE_auto;
    x.options.zero = 0;
    x.plan = search(c, &x.options);
    c->totals.made_to_fit += x.plan != NULL;
    if (x.plan) compare(c, free, &x);
  }
}

static double least_bytes(const Case *c) {
  double least = INFINITY;
  for (size_t i = 0; i < c->found.n; i++) least = fmin(least, c->found.items[i].plan->price.memory.total);
  return least;
}

/* The plan counts as a layout for other limits. */
static void add_free(Case *c, const Plan *p) {
  const PlanOptions o = {.memory_limit = c->limit};
  c->totals.searches++, c->totals.refused += !p;
  if (!p) return;
  c->totals.cut_short += p->cut_short;
  ARENA_PUSH(c->a, &c->found, ((Found){o, p}));
}

/* `free`: the plan without a limit. */
static void under_limits(Case *c, int limits, const Plan *free) {
  for (int i = 0; i < limits; i++) {
    const double bytes = free->price.memory.total;
    c->limit = isinf(parts[i]) ? 0 : parts[i] > 0 ? floor(parts[i] * bytes) : least_bytes(c);
    const Plan *p = c->limit > 0 ? search(c, &(PlanOptions){.memory_limit = c->limit}) : free;
    add_free(c, p);
    for (size_t k = 0; k < c->found.n; k++)
      if (c->found.items[k].plan->price.memory.total <= plan_memory_limit(c->t, c->limit))
        compare(c, p, &c->found.items[k]);
    if (c->limit > 0) make_fit(c, p);
  }
}

static void add(Totals *all, const Totals *x) {
  all->searches += x->searches, all->refused += x->refused, all->cut_short += x->cut_short;
  all->layouts += x->layouts, all->made_to_fit += x->made_to_fit, all->compared += x->compared;
  all->faster += x->faster, all->much_faster += x->much_faster;
  all->most = fmax(all->most, x->most);
}

static void show(const char *name, const Totals *x) {
  printf("%s: %d searches (%d refused, %d cut short), %d layouts, %d more that were made to fit, %d comparisons: ",
         name, x->searches, x->refused, x->cut_short, x->layouts, x->made_to_fit, x->compared);
  printf("%d faster than the plan, %d by more than 1 %%, at most %.2f %%\n", x->faster, x->much_faster, 100 * x->most);
  fflush(stdout);
}

static Case case_of(Arena *a, const Problem *p, Diags *d) {
  Case c = {.problem = p, .a = a};
  c.t = p->target ? topo_target_find(d, a, p->target) : topo_target_parse(d, a, "pairs.topo", pairs, "pairs", p->ranks);
  c.m = step_by(a, p->net->text, p->loss, p->optimizer, d);
  c.f = c.m ? module_func(c.m, "main") : NULL;
  c.name = arena_printf(a, "%s on %s x %d%s%s", p->net->name, p->target ? p->target : "pairs", p->ranks,
                        p->loss ? ", trained by " : "", p->loss ? p->optimizer : "");
  CHECKF(c.m && c.t && c.t->ranks == p->ranks, "%s", c.name);
  return c;
}

static void one_problem(const Problem *p, size_t most, uint64_t seed, uint64_t stream, Totals *all) {
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Case c = case_of(a, p, d);
  if (c.m && c.t) {
    const Forced every = layouts_of(a, p);
    const Forced drawn = draw(a, &every, most && most < every.n ? most : every.n, seed, stream);
    const Plan *free = search(&c, &(PlanOptions){0});
    CHECKF(free, "%s: no plan without a limit", c.name);
    bool all_limits = !most || most > 100;
    force_all(&c, &drawn);
    if (free) under_limits(&c, all_limits ? LIMITS : p->limits, free);
    show(c.name, &c.totals);
    add(all, &c.totals);
  }
  diags_print(d, stderr, false);
  if (c.m) module_free(c.m);
  arena_free(a);
}

int main(int argc, char **argv) {
  const long budget = 400; /* priced choices per mesh */
  size_t most = argc > 1 ? (size_t)atoll(argv[1]) : 8;
  uint64_t seed = argc > 2 ? (uint64_t)atoll(argv[2]) : 1;
  Totals all = {0};
  SmallTotals small = {0};
  for (uint64_t i = 0; i < (most ? most : 100); i++) one_small(seed + i, budget, &small);
  small_show(&small);
  for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) one_problem(&problems[i], most, seed, i, &all);
  show("all", &all);
  printf("%d checks failed\n", test_failed_here);
  return test_failed_here || !small.steps || !all.made_to_fit || all.compared < all.layouts ? 1 : 0;
}
