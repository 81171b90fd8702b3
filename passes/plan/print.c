/* passes/plan/print.c - the text of a plan (docs/guide/plan.md).
 *
 * Operations of one group (pass group: the same operation of all layers) share one line, a glob of their names with the
 * strategy of most of them.  A glob may match other operations too.  So globs come first, the widest before others, and
 * operations that are still wrong then get lines of their own: the last line that matches counts.  Operations without
 * axes, and operations of updates that are split like their weight, need no line unless a glob matches them.  Equal
 * plans give equal bytes.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "ir/schedule.h"
#include "ir/shares.h"
#include "ir/states.h"
#include "passes/facts/derived.h"
#include "passes/facts/names.h"
#include "passes/plan/file.h"
#include "passes/facts/labels.h"
#include "passes/plan/plan.h"
#include "passes/plan/text.h"
#include "passes/facts/home.h"
#include "passes/facts/zero.h"
#include "passes/plan/stage.h"

/* Checks that the name ends with the text after the last star.  This rejects most pairs quickly; a plan of a large
 * model tests a million of them. */
static bool may_end_so(const char *glob, const char *name) {
  size_t g = strlen(glob), n = strlen(name);
  while (g > 0 && glob[g - 1] != '*' && (g < 2 || glob[g - 2] != '\\')) {
    if (n == 0 || glob[--g] != name[--n]) return false;
  }
  return true;
}

bool plan_glob(const char *glob, const char *name) {
  const char *star = NULL, *retry = NULL;
  if (!may_end_so(glob, name)) return false;
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

static const char *strategy_text(const Mesh *mesh, Arena *a, const Rule *r, const Strategy *s) {
  Text t = {.arena = a};
  strategy_print(mesh, &t, r, s);
  if (s->gather_at_use) text_add(&t, " gather use");
  if (s->again) text_add(&t, " again");
  return text_str(&t);
}

/* ---- op lines */

typedef struct OpLine {
  ZeroRole kind;
  const char *glob, *strategy;
  size_t first; /* the operation it was made for */
  struct {
    uint32_t *items;
    size_t n, cap;
  } matches; /* operations */
} OpLine;

typedef struct OpGroup {
  const char *name;     /* interned */
  const char *glob;     /* of its operations; NULL if there is none, or only one operation */
  const char *strategy; /* of most of its operations */
  bool has_line;
  struct {
    uint32_t *items;
    size_t n, cap;
  } ops;
} OpGroup;

typedef struct OpLines {
  Arena *a;
  const Func *f;
  const char **strategies; /* by operation */
  const char **without;    /* by operation: its strategy without a line */
  const ZeroRole *kinds;   /* by operation */
  struct {
    OpGroup *items;
    size_t n, cap;
  } groups;
  struct {
    OpLine *items;
    size_t n, cap;
  } lines;
  int *line_of; /* by operation: the last line that matches; -1 if none */
} OpLines;

static bool same(const char *x, const char *y) { return strcmp(x, y) == 0; }

/* Groups in the order of their first operations. */
static void find_groups(OpLines *w) {
  size_t cap = 16;
  while (cap < 2 * w->f->ops.n + 2) cap *= 2;
  uint32_t *slots = ARENA_ARRAY(w->a, uint32_t, cap); /* group, plus 1 */
  for (size_t i = 0; i < w->f->ops.n; i++) {
    const char *name = w->f->ops.items[i].group;
    size_t s = hash64(name, strlen(name), 0) & (cap - 1);
    while (slots[s] && w->groups.items[slots[s] - 1].name != name) s = (s + 1) & (cap - 1);
    if (!slots[s]) {
      ARENA_PUSH(w->a, &w->groups, ((OpGroup){.name = name}));
      slots[s] = (uint32_t)w->groups.n;
    }
    OpGroup *g = &w->groups.items[slots[s] - 1];
    ARENA_PUSH(w->a, &g->ops, (uint32_t)i);
  }
}

static const char *glob_of(const OpLines *w, const OpGroup *g) {
  const char **names = ARENA_ARRAY(w->a, const char *, g->ops.n);
  for (size_t i = 0; i < g->ops.n; i++) names[i] = w->f->ops.items[g->ops.items[i]].name;
  NamePattern p = names_pattern(w->a, (int)g->ops.n, names);
  Text t = {.arena = w->a};
  bool some = false;
  for (int i = 0; i < p.n; i++) {
    some |= p.pieces[i].same != NULL;
    text_add(&t, p.pieces[i].same ? escaped(w->a, p.pieces[i].same) : "*");
  }
  return some ? text_str(&t) : NULL;
}

/* Returns the strategy of most operations of the group; the first of equals. */
static const char *majority(const OpLines *w, const OpGroup *g) {
  struct {
    const char **items;
    size_t n, cap;
  } distinct = {0};
  size_t *counts = ARENA_ARRAY(w->a, size_t, g->ops.n), best = 0;
  for (size_t i = 0; i < g->ops.n; i++) {
    const char *s = w->strategies[g->ops.items[i]];
    size_t k = 0;
    while (k < distinct.n && !same(distinct.items[k], s)) k++;
    if (k == distinct.n) ARENA_PUSH(w->a, &distinct, s);
    counts[k]++;
  }
  for (size_t k = 1; k < distinct.n; k++)
    if (counts[k] > counts[best]) best = k;
  return distinct.items[best];
}

/* One glob has one line: for a second group with the same glob, its operations get lines of their own. */
static void add_line(OpLines *w, OpGroup *g) {
  ZeroRole kind = w->kinds[g->ops.items[0]];
  g->has_line = true;
  for (size_t i = 0; i < w->lines.n; i++)
    if (w->lines.items[i].kind == kind && same(w->lines.items[i].glob, g->glob)) return;
  OpLine line = {.kind = kind, .glob = g->glob, .strategy = g->strategy, .first = g->ops.items[0]};
  for (size_t i = 0; i < w->f->ops.n; i++)
    if (kind == w->kinds[i] && plan_glob(g->glob, w->f->ops.items[i].name))
      ARENA_PUSH(w->a, &line.matches, (uint32_t)i);
  ARENA_PUSH(w->a, &w->lines, line);
}

static int wider(const void *x, const void *y) {
  const OpLine *a = x, *b = y;
  if (a->matches.n != b->matches.n) return a->matches.n > b->matches.n ? -1 : 1;
  return a->first < b->first ? -1 : a->first > b->first;
}

static void apply(OpLines *w) {
  for (size_t i = 0; i < w->f->ops.n; i++) w->line_of[i] = -1;
  if (w->lines.n) qsort(w->lines.items, w->lines.n, sizeof *w->lines.items, wider);
  for (size_t k = 0; k < w->lines.n; k++)
    for (size_t i = 0; i < w->lines.items[k].matches.n; i++) w->line_of[w->lines.items[k].matches.items[i]] = (int)k;
}

static bool is_right(const OpLines *w, size_t op) {
  int k = w->line_of[op];
  return same(k < 0 ? w->without[op] : w->lines.items[k].strategy, w->strategies[op]);
}

/* Adds lines for groups that are split, then for groups that another's glob matches, until nothing changes. */
static void choose_lines(OpLines *w) {
  for (bool changed = true; changed;) {
    changed = false;
    apply(w);
    for (size_t k = 0; k < w->groups.n; k++) {
      OpGroup *g = &w->groups.items[k];
      if (!g->glob || g->has_line) continue;
      bool wrong = false;
      for (size_t i = 0; i < g->ops.n; i++)
        wrong |= same(w->strategies[g->ops.items[i]], g->strategy) && !is_right(w, g->ops.items[i]);
      if (!wrong) continue;
      add_line(w, g);
      changed = true;
    }
  }
}

static void print_line(Text *out, ZeroRole kind, const char *glob, const char *strategy) {
  text_printf(out, "%s ", plan_line_names[kind]);
  text_quoted(out, glob);
  text_printf(out, " %s\n", strategy);
}

static void texts_of(OpLines *w, Module *m, const Plan *p) {
  const Func *f = w->f;
  const Rule **rules = rules_of(m, f);
  ZeroUpdates *updates = zero_updates(w->a, m, f, rules);
  ZeroRole *kinds = ARENA_ARRAY(w->a, ZeroRole, f->ops.n);
  w->kinds = kinds;
  w->strategies = ARENA_ARRAY(w->a, const char *, f->ops.n);
  w->without = ARENA_ARRAY(w->a, const char *, f->ops.n);
  for (size_t i = 0; i < f->ops.n; i++) {
    Strategy without = {0};
    zero_follows(updates, &p->mesh, i, p->strategies, &without);
    kinds[i] = zero_role(updates, i);
    w->strategies[i] = strategy_text(&p->mesh, w->a, rules[i], &p->strategies[i]);
    w->without[i] = strategy_text(&p->mesh, w->a, rules[i], &without);
  }
}

static void print_ops(Module *m, Arena *a, const Func *f, const Plan *p, Text *out) {
  OpLines w = {.a = a, .f = f, .line_of = ARENA_ARRAY(a, int, f->ops.n)};
  texts_of(&w, m, p);
  find_groups(&w);
  for (size_t k = 0; k < w.groups.n; k++) {
    OpGroup *g = &w.groups.items[k];
    g->glob = g->ops.n > 1 ? glob_of(&w, g) : NULL;
    g->strategy = majority(&w, g);
  }
  choose_lines(&w);
  bool *counts = ARENA_ARRAY(a, bool, w.lines.n); /* lines that are the right one for some operation */
  for (size_t i = 0; i < f->ops.n; i++)
    if (w.line_of[i] >= 0 && is_right(&w, i)) counts[w.line_of[i]] = true;
  for (size_t k = 0; k < w.lines.n; k++)
    if (counts[k]) print_line(out, w.lines.items[k].kind, w.lines.items[k].glob, w.lines.items[k].strategy);
  for (size_t i = 0; i < f->ops.n; i++)
    if (!is_right(&w, i)) print_line(out, w.kinds[i], escaped(a, f->ops.items[i].name), w.strategies[i]);
}

static void print_mesh(const Plan *p, Text *out) {
  text_add(out, "mesh [");
  for (int i = 0; i < p->mesh.naxes; i++) {
    const MeshAxis *axis = &p->mesh.axes[i];
    text_printf(out, "%s%s=%d%s", i ? ", " : "", axis->name, axis->size, axis->temporal ? " time" : "");
    mesh_shares_print(out, axis);
  }
  text_printf(out, "] stages %d\n", p->mesh.stages);
  if (p->mirrored && p->mesh.stages > 1)
    text_printf(out, "schedule %s\n", schedule_text(out->arena, p->mesh.schedule, p->mesh.chunks));
}

/* Prints the shortest numbers that read back. */
static void print_entries(const Func *f, Text *out) {
  if (!f->joint) return;
  text_add(out, "entries");
  for (int e = 0; e < f->joint->n; e++) {
    char number[32];
    for (int digits = 6; digits <= 17; digits++) {
      snprintf(number, sizeof number, "%.*g", digits, f->joint->entries[e].calls);
      if (strtod(number, NULL) == f->joint->entries[e].calls) break;
    }
    text_printf(out, " %s=%s", f->joint->entries[e].f->name, number);
  }
  text_add(out, "\n");
}

/* Prints stages by their first operations that follow no others. */
static void print_stages(Arena *a, const Func *f, const Plan *p, Text *out) {
  const bool *derived = derived_ops(a, f);
  const size_t *home = homes_of(a, f, derived);
  int stage = 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    if (!stages_is_placed(f, derived, i) || p->stages[i] == stage || (home && home[i] != i)) continue;
    stage = p->stages[i];
    text_printf(out, "stage %d ", stage);
    text_quoted(out, f->ops.items[i].name);
    text_add(out, "\n");
  }
}

void plan_print(Module *m, const Func *f, const Plan *p, Text *out) {
  Arena *a = arena_new();
  const PlanTime *t = &p->price.time;
  const PlanMemory *b = plan_memory(p);
  text_printf(out, "apc.plan 1\ngraph @%s %016" PRIx64 "\n", p->func, p->graph);
  print_entries(f, out);
  text_printf(out, "target %s ranks %d\n", p->target, p->ranks);
  print_mesh(p, out);
  if (offload_of(m) != OFFLOAD_none) text_printf(out, "offload %s\n", offload_name(offload_of(m)));
  text_printf(out, "# predicted %.3f ms: compute %.3f, memory %.3f, collectives %.3f, transfers %.3f, idle %.3f\n",
              1e3 * t->total, 1e3 * t->compute, 1e3 * t->memory_bound, 1e3 * t->collectives, 1e3 * t->transfers,
              1e3 * t->idle);
  MemoryShare shares[MEMORY_SHARES];
  text_printf(out, "# bytes per rank %s%.0f", p->allocated ? "" : "about ", b->total);
  for (int i = 0, n = cost_memory_shares(b, shares); i < n; i++)
    text_printf(out, "%s %s %.0f", i ? "," : ":", shares[i].name, shares[i].bytes);
  text_add(out, "\n");
  print_stages(a, f, p, out);
  print_ops(m, a, f, p, out);
  arena_free(a);
}
