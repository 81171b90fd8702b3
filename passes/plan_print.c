/* passes/plan_print.c - the text of a plan (docs/plan.md).
 *
 * Names that differ only in their numbers become one line with `*` where all operations the glob matches have the same strategy;
 * otherwise every operation has its own line.  Operations without axes have none.  Equal plans give equal bytes.
 */
#include <inttypes.h>
#include <string.h>

#include "passes/plan.h"
#include "passes/plan_text.h"

bool plan_glob(const char *glob, const char *name) {
  const char *star = NULL, *retry = NULL;
  for (;;) {
    if (*glob == '*') {
      star = ++glob;
      retry = name;
      continue;
    }
    const char *g = *glob == '\\' && glob[1] ? glob + 1 : glob;
    if (*name && *g == *name) {
      glob = g + 1;
      name++;
    } else if (!*glob && !*name) {
      return true;
    } else if (star && *retry) {
      glob = star;
      name = ++retry;
    } else {
      return false;
    }
  }
}

static const char *escaped(Arena *a, const char *name) {
  Text t = {.arena = a};
  for (; *name; name++) text_printf(&t, "%s%c", *name == '*' || *name == '\\' ? "\\" : "", *name);
  return text_str(&t);
}

/* The first `most` runs of digits become stars. */
static const char *without_numbers(Arena *a, const char *name, int most) {
  Text t = {.arena = a};
  const char *digits = "0123456789";
  for (const char *s = escaped(a, name); *s;) {
    size_t n = strspn(s, digits);
    bool star = n && most-- > 0;
    if (star) text_add(&t, "*");
    else text_addn(&t, s, n ? n : 1);
    s += n ? n : 1;
  }
  return text_str(&t);
}

static const char *strategy_text(Module *m, Arena *a, const Func *f, const Plan *p, size_t op) {
  Text t = {.arena = a};
  strategy_print(m, &t, rule_of(m, f, &f->ops.items[op]), &p->strategies[op]);
  return text_str(&t);
}

static bool glob_is_exact(const Func *f, const char *glob, const char *strategy, const char *const *strategies) {
  for (size_t i = 0; i < f->ops.n; i++)
    if (plan_glob(glob, f->ops.items[i].name) && strcmp(strategies[i], strategy) != 0) return false;
  return true;
}

/* The widest of: all numbers free, the first number free, the name itself. */
static const char *glob_for(Arena *a, const Func *f, size_t op, const char *const *strategies) {
  const char *name = f->ops.items[op].name;
  for (int most = MAX_RANK; most >= 1; most -= MAX_RANK - 1) {
    const char *glob = without_numbers(a, name, most);
    if (glob_is_exact(f, glob, strategies[op], strategies)) return glob;
  }
  return escaped(a, name);
}

static void print_ops(Module *m, Arena *a, const Func *f, const Plan *p, Text *out) {
  const char **strategies = ARENA_ARRAY(a, const char *, f->ops.n);
  struct { const char **items; size_t n, cap; } printed = {0};
  for (size_t i = 0; i < f->ops.n; i++) strategies[i] = strategy_text(m, a, f, p, i);
  for (size_t i = 0; i < f->ops.n; i++) {
    bool known = strcmp(strategies[i], "{}") == 0;
    for (size_t k = 0; k < printed.n && !known; k++) known = plan_glob(printed.items[k], f->ops.items[i].name);
    if (known) continue;
    const char *glob = glob_for(a, f, i, strategies);
    ARENA_PUSH(a, &printed, glob);
    text_add(out, "op ");
    text_quoted(out, glob);
    text_printf(out, " %s\n", strategies[i]);
  }
}

static void print_mesh(const Plan *p, Text *out) {
  text_add(out, "mesh [");
  for (int i = 0; i < p->mesh.naxes; i++) {
    const MeshAxis *axis = &p->mesh.axes[i];
    text_printf(out, "%s%s=%d%s", i ? ", " : "", axis->name, axis->size, axis->temporal ? " time" : "");
  }
  text_printf(out, "] stages %d\n", p->mesh.stages);
}

static void print_stages(const Func *f, const Plan *p, Text *out) {
  int stage = 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    if (cost_is_source(f->ops.items[i].kind) || p->stages[i] == stage) continue;
    stage = p->stages[i];
    text_printf(out, "stage %d ", stage);
    text_quoted(out, f->ops.items[i].name);
    text_add(out, "\n");
  }
}

void plan_print(Module *m, const Func *f, const Plan *p, Text *out) {
  Arena *a = arena_new();
  const PlanTime *t = &p->price.time;
  const PlanMemory *b = &p->price.memory;
  text_printf(out, "apc.plan 1\ngraph @%s %016" PRIx64 "\ntarget %s ranks %d\n", p->func, p->graph, p->target, p->ranks);
  print_mesh(p, out);
  text_printf(out, "# predicted %.3f ms: compute %.3f, memory %.3f, collectives %.3f, transfers %.3f, idle %.3f\n", 1e3 * t->total, 1e3 * t->compute, 1e3 * t->memory_bound,
              1e3 * t->collectives, 1e3 * t->transfers, 1e3 * t->idle);
  text_printf(out, "# bytes per rank %.0f: weights %.0f, state %.0f, activations %.0f, communication %.0f\n", b->total, b->params, b->state, b->activations, b->communication);
  print_stages(f, p, out);
  print_ops(m, a, f, p, out);
  arena_free(a);
}
