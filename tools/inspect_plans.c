/* tools/inspect_plans.c - apc inspect A.plan B.plan: the differences, layer by layer.
 *
 * Compares the files as written, without a model.  A line of one file is compared with the last line of the other for
 * the same operations: the same glob, or one that covers it.  If the other file has lines for some of these operations,
 * those are compared instead.  Equal layers share one line.
 */
#include <string.h>

#include "ir/shares.h"
#include "base/file.h"
#include "base/json_text.h"
#include "ir/schedule.h"
#include "passes/plan/text.h"
#include "tools/inspect.h"

typedef struct Difference {
  ZeroRole kind;
  const char *glob;
  const PlanFileOp *sides[2]; /* NULL: not sharded */
} Difference;

typedef struct Differences {
  Difference *items;
  size_t n, cap;
  size_t same; /* lines without a difference */
} Differences;

static const PlanFile *read_plan(Tool *t, const char *path) {
  const char *text = file_read_text(t->diags, t->arena, path, NULL);
  return text ? plan_file_read(t->arena, path, text, t->diags) : NULL;
}

/* Returns the line that applies to these operations; NULL if none. */
static const PlanFileOp *line_of(const PlanFile *f, ZeroRole kind, const char *glob) {
  for (size_t i = f->ops.n; i-- > 0;) {
    const PlanFileOp *x = &f->ops.items[i];
    if (x->kind == kind && (strcmp(x->glob, glob) == 0 || plan_glob(x->glob, glob))) return x;
  }
  return NULL;
}

/* True if a line applies to some operations of the glob but not to all. */
static bool has_parts(const PlanFile *f, ZeroRole kind, const char *glob) {
  for (size_t i = 0; i < f->ops.n; i++) {
    const PlanFileOp *x = &f->ops.items[i];
    if (x->kind == kind && strcmp(x->glob, glob) != 0 && plan_glob(glob, x->glob)) return true;
  }
  return false;
}

static const char *strategy_of(const PlanFileOp *x) { return x ? x->strategy : "{}"; }

/* True if the strategy has that pick; *n: number of its picks. */
static bool has_pick(Arena *a, const char *strategy, const char *factor, const char *axes, int *n) {
  bool found = false;
  const char *own, *own_axes;
  *n = 0;
  for (const char *at = strategy + 1; plan_file_pick(a, &at, &own, &own_axes); ++*n)
    found |= strcmp(own, factor) == 0 && strcmp(own_axes, axes) == 0;
  return found;
}

/* Compares picks in any order. */
static bool same_strategy(Arena *a, const char *x, const char *y) {
  const char *factor, *axes;
  int n = 0, others = 0, own = 0;
  has_pick(a, y, "", "", &others);
  for (const char *at = x + 1; plan_file_pick(a, &at, &factor, &axes); own++)
    if (!has_pick(a, y, factor, axes, &n)) return false;
  return own == others;
}

static bool same_lines(Arena *a, const PlanFileOp *x, const PlanFileOp *y) {
  bool again = x && x->again, use = x && x->gather_at_use;
  return same_strategy(a, strategy_of(x), strategy_of(y)) && again == (y && y->again) && use == (y && y->gather_at_use);
}

static bool is_known(const Differences *d, ZeroRole kind, const char *glob) {
  for (size_t i = 0; i < d->n; i++)
    if (d->items[i].kind == kind && strcmp(d->items[i].glob, glob) == 0) return true;
  return false;
}

static Differences differences_of(Arena *a, const PlanFile *const f[2]) {
  Differences d = {0};
  for (int side = 0; side < 2; side++)
    for (size_t i = 0; i < f[side]->ops.n; i++) {
      const PlanFileOp *x = &f[side]->ops.items[i];
      Difference y = {x->kind, x->glob, {line_of(f[0], x->kind, x->glob), line_of(f[1], x->kind, x->glob)}};
      if (has_parts(f[!side], x->kind, x->glob)) continue;
      if (same_lines(a, y.sides[0], y.sides[1])) d.same += side == 0;
      else if (!is_known(&d, x->kind, x->glob)) ARENA_PUSH(a, &d, y);
    }
  return d;
}

static const char *mesh_text(Arena *a, const PlanFile *f) {
  Text text = {.arena = a};
  if (!f->stages) return "not given";
  for (int i = 0; i < f->mesh.naxes; i++) {
    text_printf(&text, "%s%s=%d%s", i ? " x " : "", f->mesh.axes[i].name, f->mesh.axes[i].size,
                f->mesh.axes[i].temporal ? " micro-batches" : "");
    mesh_shares_print(&text, &f->mesh.axes[i]);
  }
  text_printf(&text, "%s%d stage%s", f->mesh.naxes ? " in " : "", f->mesh.stages, f->mesh.stages == 1 ? "" : "s");
  return text_str(&text);
}

static const char *schedule_of(Arena *a, const PlanFile *f) {
  return schedule_text(a, f->mesh.schedule, f->mesh.chunks);
}

static const char *begin_of(const PlanFile *f, int stage) {
  return stage >= f->mesh.stages ? "none" : f->stages[stage].op ? f->stages[stage].op : "not given";
}

static const char *amount_text(Tool *t, const PlanFile *f, bool bytes) {
  const Prediction p = inspect_prediction(t, f, bytes ? "bytes per rank " : "predicted ");
  if (!p.given) return "not known";
  return bytes ? show_bytes(t->arena, p.total) : show_seconds(t->arena, p.total * 1e-3);
}

/* A partial plan file may omit it. */
static const char *said(const char *text) { return text ? text : "not given"; }

static void print_row(const char *what, const char *a, const char *b) {
  printf("  %-9s %s%s%s\n", what, a, strcmp(a, b) == 0 ? "" : "  ->  ", strcmp(a, b) == 0 ? "" : b);
}

static const char *side_text(Arena *a, const PlanFileOp *x) {
  const char *text = strategy_of(x);
  if (x && x->again) text = arena_printf(a, "%s again", text);
  return x && x->gather_at_use ? arena_printf(a, "%s gathered at use", text) : text;
}

static void print_differences(Tool *t, const PlanFile *const f[2], const Differences *d) {
  Arena *a = t->arena;
  printf("%s -> %s\n", f[0]->file, f[1]->file);
  print_row("target", said(f[0]->target), said(f[1]->target));
  print_row("mesh", mesh_text(a, f[0]), mesh_text(a, f[1]));
  print_row("time", amount_text(t, f[0], false), amount_text(t, f[1], false));
  print_row("per rank", amount_text(t, f[0], true), amount_text(t, f[1], true));
  if (f[0]->func && f[1]->func && f[0]->graph != f[1]->graph) printf("  the plans are for different models\n");
  print_row("schedule", schedule_of(a, f[0]), schedule_of(a, f[1]));
  for (int i = 1; i < f[0]->mesh.stages || i < f[1]->mesh.stages; i++) {
    const char *begin = begin_of(f[0], i), *other = begin_of(f[1], i);
    if (strcmp(begin, other) != 0) print_row(arena_printf(a, "stage %d", i), begin, other);
  }
  size_t width = 0;
  for (size_t i = 0; i < d->n; i++) width = strlen(d->items[i].glob) > width ? strlen(d->items[i].glob) : width;
  printf("  %zu line%s of strategies differ%s, %zu are equal\n", d->n, d->n == 1 ? "" : "s", d->n == 1 ? "s" : "",
         d->same);
  for (size_t i = 0; i < d->n; i++) {
    const Difference *x = &d->items[i];
    printf("    %-5s %-*s  %s  ->  %s\n", plan_line_names[x->kind], (int)width, x->glob, side_text(a, x->sides[0]),
           side_text(a, x->sides[1]));
  }
}

static json_t *file_json(Tool *t, const PlanFile *f) {
  const Prediction time = inspect_prediction(t, f, "predicted "), bytes = inspect_prediction(t, f, "bytes per rank ");
  return json_pack("{s:o, s:o, s:o, s:s, s:i, s:o, s:o}", "file", json_text(f->file), "target", json_text(f->target),
                   "mesh", json_text(mesh_text(t->arena, f)), "schedule", schedule_of(t->arena, f), "ranks", f->ranks,
                   "time_us", time.given ? json_real(time.total * 1e3) : json_null(), "bytes_per_device",
                   bytes.given ? json_real(bytes.total) : json_null());
}

static json_t *differences_json(Tool *t, const PlanFile *const f[2], const Differences *d) {
  json_t *list = json_array();
  for (size_t i = 0; i < d->n; i++) {
    const Difference *x = &d->items[i];
    json_array_append_new(
        list, json_pack("{s:s, s:o, s:s, s:s}", "line", plan_line_names[x->kind], "glob", json_text(x->glob), "from",
                        side_text(t->arena, x->sides[0]), "to", side_text(t->arena, x->sides[1])));
  }
  return json_pack("{s:s, s:s, s:[o, o], s:b, s:I, s:o}", "schema", "apc.inspect/1", "kind", "plans", "files",
                   file_json(t, f[0]), file_json(t, f[1]), "same_model",
                   f[0]->graph == f[1]->graph || !f[0]->func || !f[1]->func, "same_lines", (json_int_t)d->same,
                   "differences", list);
}

int inspect_plans(Tool *t, const char *path, const char *other) {
  const PlanFile *f[2] = {read_plan(t, path), NULL};
  if (f[0]) f[1] = read_plan(t, other);
  if (!f[1]) return EXIT_BAD_INPUT;
  const Differences d = differences_of(t->arena, f);
  if (option_given(&t->options, OPT_json)) tool_json(t, differences_json(t, f, &d));
  else print_differences(t, f, &d);
  return EXIT_OK;
}
