/* Ranks that differ: parts by shares compared with numbers, plans with all shares and all cuts into stages, memory of
 * small ranks, and statements of target files. */
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "ir/shares.h"
#include "passes/cost/plan_price.h"
#include "passes/cost/ranks.h"
#include "passes/plan/stage.h"
#include "tests/planner_case.h"
#include "tests/planner_models.h"

enum { SEED = 35, MOST_SHARES = 4 };

static const char machines[] =
    "gpu fast { memory 4 GB at 200 GB/s; launch 1 us; peak f32 2 TFLOPS; }\n"
    "gpu slow { memory 1 GB at 100 GB/s; launch 1 us; peak f32 1 TFLOPS; }\n"
    "kernels k { sustained f32 0.7; tile 64x64 0.9; tile 32x32 0.6; prologue 16; smoothing 0.2; attention 0.5; "
    "bandwidth 0.8 ramp 64 KB; }\n"
    "gpu tiled { sms 4; memory 4 GB at 200 GB/s; launch 1 us; peak f32 2 TFLOPS; kernels k; }\n"
    "gpu thin { memory 4 GB at 50 GB/s; launch 1 us; peak f32 2 TFLOPS; }\n"
    "machine two { devices 1 fast; devices 1 slow; link l at 20 GB/s latency 1 us; }\n"
    "machine back { devices 1 slow; devices 1 fast; link l at 20 GB/s latency 1 us; }\n"
    "machine three { devices 1 fast; devices 2 slow; link l at 20 GB/s latency 1 us; }\n"
    "machine four { devices 2 fast; devices 2 slow; link l at 20 GB/s latency 1 us; price 4 USD/h \"x\" 2026-01-01; }\n"
    "machine narrow { devices 1 fast; devices 1 thin; link l at 20 GB/s latency 1 us; }\n"
    "machine waves { devices 1 tiled; devices 1 slow; link l at 20 GB/s latency 1 us; }\n"
    "machine pair { devices 2 fast; link l at 40 GB/s latency 1 us; price 2 USD/h \"x\" 2026-01-01; }\n"
    "machine poor { devices 2 slow; link l at 5 GB/s latency 1 us; price 1 USD/h \"x\" 2026-01-01; }\n"
    "target both { machine pair; machine poor times 2; network n 1 at 10 Gbit/s latency 9 us; }\n";

static const Target *target(Arena *a, const char *name) {
  Diags *d = diags_new(a);
  const char *last = strcmp(name, "both") == 0 ? "" : arena_printf(a, "target last { machine %s; }", name);
  const Target *t = topo_target_parse(d, a, "m.topo", arena_printf(a, "%s%s", machines, last), name, 0);
  CHECKF(t, "%s: %s", name, d->n ? d->items[0].message : "");
  return t;
}

/* ---- parts */

static int64_t at_place(Module *m, const Expr *e, const int *at) {
  int64_t values[MAX_AXES + 8] = {0}, v = -1;
  for (int a = 0; a < m->mesh.naxes; a++) values[m->mesh.axes[a].symbol] = at[a];
  CHECK(ex_eval(e, values, &v));
  return v;
}

static void draw_mesh(Arena *a, Mesh *mesh, uint64_t round) {
  static const char *const names[] = {"p", "q", "r"};
  uint64_t drawn = 0;
  *mesh = (Mesh){.stages = 1, .naxes = 1 + (int)random_below(SEED, round, drawn++, 3)};
  for (int i = 0; i < mesh->naxes; i++) {
    int n = 1 + (int)random_below(SEED, round, drawn++, 4), *shares = ARENA_ARRAY(a, int, n);
    for (int k = 0; k < n; k++) shares[k] = 1 + (int)random_below(SEED, round, drawn++, 5);
    mesh->axes[i] =
        (MeshAxis){.name = names[i], .size = n, .shares = random_below(SEED, round, drawn++, 3) ? shares : NULL};
  }
}

/* Parts are adjacent and equal the numbers; those of the outer axes alone have the same borders. */
static void check_parts(Module *m, const DimLayout *d, int64_t extent) {
  const Expr *lo, *hi, *outer_lo, *outer_hi;
  DimLayout outer = *d;
  int at[MAX_AXES] = {0};
  int64_t end = 0;
  outer.n--;
  layout_interval(m, d, ex_const(m, extent), &lo, &hi);
  layout_interval(m, &outer, ex_const(m, extent), &outer_lo, &outer_hi);
  for (bool more = true; more;) {
    const SharePlace x = layout_place(&m->mesh, d, at);
    int64_t first = at_place(m, lo, at), last = at_place(m, hi, at);
    CHECK(first == end && first == x.before * extent / x.all && last == (x.before + x.own) * extent / x.all);
    CHECK(at_place(m, outer_lo, at) <= first && last <= at_place(m, outer_hi, at));
    if (at[d->n - 1] == 0) CHECK(at_place(m, outer_lo, at) == first);
    end = last, more = false;
    for (int i = d->n - 1; i >= 0 && !more; i--) more = ++at[i] < m->mesh.axes[i].size || (at[i] = 0, false);
  }
  CHECK(end == extent);
}

static void parts(void) {
  for (uint64_t round = 0; round < 200; round++) {
    Arena *a = arena_new();
    Module *m = module_new();
    Mesh mesh;
    draw_mesh(a, &mesh, round);
    module_set_mesh(m, &mesh);
    DimLayout d = {.n = mesh.naxes, .unit = ex_const(m, 1)};
    for (int i = 0; i < d.n; i++) d.axes[i] = (uint8_t)i;
    for (int64_t extent = 0; extent < 40; extent += 1 + extent / 4) check_parts(m, &d, extent);
    module_free(m);
    arena_free(a);
  }
}

/* ---- plans against all shares */

static double seconds_with(const Case *c, const Mesh *mesh) {
  Module *m = c->m;
  module_set_mesh(m, mesh);
  CostModel *cost = cost_model_new(m, c->t);
  double s = cost_plan(cost, m, c->f, rules_of(m, c->f), c->p->strategies, c->p->stages).time.total;
  cost_model_free(cost);
  module_set_mesh(m, &c->p->mesh);
  return s;
}

/* On one axis: the plan's shares are as good as any, and no time is below its bound. */
static void against_shares(const Case *c, int *uneven) {
  const Mesh *mesh = &c->p->mesh;
  double best = INFINITY, seconds = c->p->price.time.total;
  int shares[3] = {1, 1, 1};
  if (mesh->naxes != 1 || mesh->stages > 1) return;
  *uneven += mesh->axes[0].shares != NULL;
  CHECK(fabs(seconds_with(c, mesh) - seconds) <= 1e-12 * seconds);
  for (int code = 0; code < MOST_SHARES * MOST_SHARES * MOST_SHARES; code++) {
    for (int i = 0, rest = code; i < 3; i++, rest /= MOST_SHARES) shares[i] = 1 + rest % MOST_SHARES;
    Mesh other = *mesh;
    other.axes[0].shares = shares;
    double s = seconds_with(c, &other);
    CHECKF(s >= c->p->lower_bound * (1 - 1e-9), "%g below the bound %g", s, c->p->lower_bound);
    best = fmin(best, s);
  }
  CHECKF(seconds <= best * 1.02, "%s: %g us, with other shares %g", c->t->name, seconds * 1e6, best * 1e6);
}

static void all_shares(void) {
  static const char *const names[] = {"two", "back", "three", "narrow", "waves"};
  int uneven = 0;
  for (size_t i = 0; i < 5; i++)
    for (int width = 250; width <= 1024; width = 4 * width + 3) {
      Arena *a = arena_new();
      Case c = plan_on(a, mlp_text(a, 2, width, 4 * width), target(a, names[i]), (PlanOptions){0});
      CHECK(c.p);
      if (c.p) against_shares(&c, &uneven);
      done(&c);
    }
  CHECKF(uneven >= 4, "%d plans have shares", uneven);
}

/* ---- pipelines against all cuts */

static void all_cuts(void) {
  static const char *const names[] = {"two", "back", "narrow"};
  for (size_t i = 0; i < 3; i++)
    for (int micro = 1; micro <= 4; micro += 3) {
      Arena *a = arena_new();
      PlanOptions o = {.degree[DEGREE_pp] = 2, .micro_batches = micro};
      Case c = plan_on(a, mlp_text(a, 6, 256, 1024), target(a, names[i]), o);
      int *stages = c.p ? ARENA_ARRAY(a, int, c.f->ops.n) : NULL;
      double best = INFINITY;
      CHECK(c.p);
      CostModel *cost = c.p ? cost_model_new(c.m, c.t) : NULL;
      for (size_t at = 1; c.p && at < c.f->ops.n; at++) {
        stages_place(c.f, 2, (const size_t[]){0, at}, stages);
        best = fmin(best, cost_plan(cost, c.m, c.f, rules_of(c.m, c.f), c.p->strategies, stages).time.total);
      }
      if (c.p) {
        /* One micro-batch is cut so that it spreads work, at any cost (stage.c). */
        CHECKF(micro == 1 || c.p->price.time.total <= best * 1.02, "%s: %g us, cut elsewhere %g", names[i],
               c.p->price.time.total * 1e6, best * 1e6);
        CHECK(c.p->lower_bound <= best * (1 + 1e-9));
        cost_model_free(cost);
      }
      done(&c);
    }
}

/* ---- memory */

/* Weights of 3.4 GB: 1 GB, or slightly more than half, is too little for half of them. */
static void memory(void) {
  Arena *a = arena_new();
  const char *model = mlp_text(a, 24, 2048, 8704);
  Case c = plan_on(a, model, target(a, "two"), (PlanOptions){.degree[DEGREE_pp] = 2});
  CHECK(c.p);
  if (c.p) {
    double bytes[2] = {0};
    for (size_t i = 0; i < c.f->ops.n; i++) {
      const Type *t = type_of(c.f, c.f->ops.items[i].out);
      if (c.f->ops.items[i].kind == OP_param)
        bytes[c.p->stages[i]] += 4 * (double)t->dims[0]->value * (t->rank > 1 ? (double)t->dims[1]->value : 1);
    }
    CHECKF(bytes[0] > 2.4e9 && bytes[1] < 1e9, "%g, %g", bytes[0], bytes[1]);
    CHECK(c.p->price.memory.needs <= target_usable(c.t));
  }
  Case even = plan_on(arena_new(), model, target(a, "poor"), (PlanOptions){0});
  CHECK(!even.p);
  done(&even);
  done(&c);
}

/* ---- targets */

static void facts(void) {
  Arena *a = arena_new();
  const Target *t = target(a, "both"), *four = target(a, "four");
  if (t && four) {
    CHECK(t->ranks == 6 && t->nodes == 3 && t->nkinds == 2 && target_price(t)->usd_per_hour == 4 && t->ntiers == 2);
    CHECK(target_of_rank(t, 1) == t->kinds[0] && target_of_rank(t, 2) == t->kinds[1]);
    CHECK(t->kinds[0]->tiers[0].bandwidth == 40e9 && t->tiers[0].bandwidth == 5e9 && t->tiers[1].group == 6);
    CHECK(fabs(t->flops[CT_f32] - 8e12 / 6) < 1 && t->memory_bytes == 4e9 && isnan(t->flops[CT_bf16]));
    CHECK(four->ranks == 4 && four->kind_of[1] == 0 && four->kind_of[2] == 1);
    const Mesh mesh = {.naxes = 1, .axes = {{.name = "a", .size = 2}}, .stages = 2};
    CHECK(kinds_memory_scale(four, &mesh, 0) == 1 && kinds_memory_scale(four, &mesh, 1) == 4);
    CHECK(!kinds_shares(a, four, &mesh, 0, SHARE_BY_PRODUCTS)); /* every group has a slow rank */
  }
  arena_free(a);
}

static void malformed(void) {
#define DEVICES \
  "gpu a { memory 1 GB at 1 GB/s; launch 1 us; peak f32 1 TFLOPS; }\n" \
  "cpu c { cores 2; memory 1 GB at 1 GB/s; launch 1 us; peak f32 1 TFLOPS; }\n"
#define MACHINES \
  "machine m { devices 2 a; link l at 1 GB/s; }\nmachine n { devices 1 a; devices 2 a; link l at 1 GB/s; }\n" \
  "machine o { devices 1 c; }\n"
  static const struct {
    const char *text, *says;
  } bad[] = {{DEVICES "machine m { link l at 1 GB/s; }", "needs a statement 'devices'"},
             {DEVICES "machine m { devices 1 a; devices 1 c; link l at 1 GB/s; }", "must be of one kind"},
             {DEVICES "machine m { devices 2 c; link l at 1 GB/s; }", "describe 2 cpus as one"},
             {DEVICES MACHINES "target t { machine m; machine n; network e 1 at 1 GB/s; }", "equally many"},
             {DEVICES MACHINES "target t { machine m; machine o; network e 1 at 1 GB/s; }", "share one cpu"},
             {DEVICES MACHINES "target t { machine m; machine m; }", "given twice"},
             {DEVICES MACHINES "target t { machine m; machine q; network e 1 at 1 GB/s; }", "no machine 'q'"},
             {DEVICES MACHINES "machine p { devices 2 a; link l at 2 GB/s; }\ntarget t { machine m; machine p; }",
              "needs a network"},
             {DEVICES MACHINES "target t { machine m; network e 1 at 1 GB/s; }", "that of their own block"},
             {DEVICES MACHINES "machine p { devices 2 a; link l at 2 GB/s; }\n"
                               "target t { machine m; machine p; devices 3; network e 1 at 1 GB/s; }",
              "all of their devices"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    Arena *a = arena_new();
    Diags *d = diags_new(a);
    CHECKF(!topo_target_parse(d, a, "m.topo", bad[i].text, "t", 0), "%s", bad[i].text);
    CHECKF(d->n && strstr(d->items[0].message, bad[i].says), "%s: %s", bad[i].says, d->n ? d->items[0].message : "");
    arena_free(a);
  }
}

int main(void) {
  RUN(parts);
  RUN(all_shares);
  RUN(all_cuts);
  RUN(memory);
  RUN(facts);
  RUN(malformed);
  return test_summary();
}
