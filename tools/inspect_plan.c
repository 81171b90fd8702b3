/* tools/inspect_plan.c - apc inspect of a plan file: mesh, stages, strategies by group of operations, predictions.
 *
 * Reads the file alone; --plan checks whether it fits a model.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/shares.h"
#include "base/file.h"
#include "base/json_text.h"
#include "passes/plan/file.h"
#include "tools/inspect.h"

bool begins_like_plan(const char *path) {
  char begin[9] = "";
  FILE *f = fopen(path, "re");
  if (f && !fgets(begin, sizeof begin, f)) begin[0] = 0;
  if (f) fclose(f);
  return strcmp(begin, "apc.plan") == 0;
}

/* ---- predictions: "predicted 12.3 ms: compute 4, memory 5" and "bytes per rank 6: weights 7", as plan_print writes
 * them; "about 6" is counted by the search */

Prediction inspect_prediction(Tool *t, const PlanFile *f, const char *begin) {
  Prediction p = {0};
  for (size_t i = 0; i < f->comments.n && !p.given; i++) {
    const char *s = f->comments.items[i];
    if (strncmp(s, begin, strlen(begin)) != 0) continue;
    static const char about[] = "about ";
    char *end;
    s += strlen(begin);
    p.estimate = strncmp(s, about, strlen(about)) == 0;
    if (p.estimate) s += strlen(about);
    p.total = strtod(s, &end);
    p.given = end != s;
    for (s = strchr(end, ':'); s; s = strchr(s, ',')) {
      s += 1 + strspn(s + 1, " ");
      const char *name = arena_strndup(t->arena, s, strcspn(s, " "));
      ARENA_PUSH(t->arena, &p.shares, ((PredictedShare){name, strtod(s + strlen(name), NULL)}));
    }
  }
  return p;
}

/* ---- JSON */

static json_t *prediction_json(const Prediction *p, const char *total, double scale) {
  if (!p->given) return json_null();
  json_t *shares = json_object();
  for (size_t i = 0; i < p->shares.n; i++)
    json_set_text(shares, p->shares.items[i].name, json_real(p->shares.items[i].value * scale));
  return json_pack("{s:f, s:b, s:o}", total, p->total * scale, "estimate", p->estimate, "shares", shares);
}

/* {"x1": ["mb", "tp"]} */
static json_t *strategy_json(Tool *t, const char *text) {
  json_t *o = json_object();
  const char *factor, *axes;
  while (plan_file_pick(t->arena, &text, &factor, &axes)) {
    json_t *list = json_array();
    for (size_t n; *axes; axes += n + (axes[n] == '.')) {
      n = strcspn(axes, ".");
      json_array_append_new(list, json_text(arena_strndup(t->arena, axes, n)));
    }
    json_set_text(o, factor, list);
  }
  return o;
}

static json_t *entries_json(const PlanFile *f) {
  json_t *list = json_array();
  for (size_t i = 0; i < f->entries.n; i++)
    json_array_append_new(list, json_pack("{s:o, s:f}", "name", json_text(f->entries.items[i].name), "weight",
                                          f->entries.items[i].weight));
  return list;
}

static json_t *shares_json(const MeshAxis *axis) {
  json_t *list = json_array();
  for (int i = 0; i < axis->size; i++) json_array_append_new(list, json_integer(axis->shares[i]));
  return list;
}

static json_t *plan_file_json(Tool *t, const PlanFile *f) {
  json_t *mesh = json_array(), *stages = json_array(), *ops = json_array();
  Prediction time = inspect_prediction(t, f, "predicted "), bytes = inspect_prediction(t, f, "bytes per rank ");
  for (int i = 0; i < f->mesh.naxes; i++) {
    const MeshAxis *axis = &f->mesh.axes[i];
    json_t *o =
        json_pack("{s:o, s:i, s:b}", "axis", json_text(axis->name), "size", axis->size, "temporal", axis->temporal);
    if (axis->shares) json_object_set_new(o, "shares", shares_json(axis));
    json_array_append_new(mesh, o);
  }
  for (int i = 1; i < f->mesh.stages; i++)
    if (f->stages[i].op)
      json_array_append_new(stages, json_pack("{s:i, s:o}", "stage", i, "from", json_text(f->stages[i].op)));
  for (size_t i = 0; i < f->ops.n; i++)
    json_array_append_new(
        ops, json_pack("{s:s, s:o, s:o, s:b}", "line", plan_line_names[f->ops.items[i].kind], "glob",
                       json_text(f->ops.items[i].glob), "strategy", strategy_json(t, f->ops.items[i].strategy),
                       "gather_at_use", f->ops.items[i].gather_at_use));
  const char *graph = f->func ? arena_printf(t->arena, "%016" PRIx64, f->graph) : NULL;
  json_t *o = json_pack(
      "{s:s, s:o, s:s, s:o, s:o, s:o, s:i, s:o, s:i, s:o, s:o, s:o, s:o}", "schema", "apc.inspect/1", "file",
      json_text(f->file), "kind", "plan", "function", json_text(f->func), "graph", json_text(graph), "target",
      json_text(f->target), "ranks", f->ranks, "mesh", mesh, "stages", f->mesh.stages, "stage_begins", stages, "ops",
      ops, "time", prediction_json(&time, "time_us", 1e3), "memory", prediction_json(&bytes, "bytes_per_device", 1));
  if (f->complete) json_object_set_new(o, "complete", json_true());
  if (f->entries.n) json_object_set_new(o, "entries", entries_json(f));
  return o;
}

/* ---- text */

static void print_prediction(Tool *t, const char *what, const Prediction *p, bool bytes) {
  printf("  %-9s %s%s", what, p->estimate ? "about " : "",
         !p->given ? "not known: the file does not say (apc plan MODEL --plan FILE does)"
         : bytes   ? show_bytes(t->arena, p->total)
                   : show_seconds(t->arena, p->total * 1e-3));
  int shown = 0;
  for (size_t i = 0; i < p->shares.n; i++) {
    const PredictedShare *s = &p->shares.items[i];
    if (s->value > 0)
      printf("%s%s %s", shown++ ? ", " : ": ", s->name,
             bytes ? show_bytes(t->arena, s->value) : show_seconds(t->arena, s->value * 1e-3));
  }
  putchar('\n');
}

static const char *note_of(const PlanFileOp *line) {
  static const char *const notes[ZERO_ROLES] = {"", "  stored", "  gradients", "  update"};
  return notes[line->kind];
}

static void print_mesh(const Tool *t, const PlanFile *f) {
  printf("  mesh     ");
  for (int i = 0; i < f->mesh.naxes; i++) {
    Text shares = {.arena = t->arena};
    mesh_shares_print(&shares, &f->mesh.axes[i]);
    printf("%s%s=%d%s%s", i ? " x " : " ", f->mesh.axes[i].name, f->mesh.axes[i].size,
           f->mesh.axes[i].temporal ? " micro-batches" : "", text_str(&shares));
  }
  if (f->ranks) printf("%s%d rank%s in", f->mesh.naxes ? ": " : " ", f->ranks, f->ranks == 1 ? "" : "s");
  else if (f->mesh.naxes) printf(" in");
  printf(" %d stage%s\n", f->mesh.stages, f->mesh.stages == 1 ? "" : "s");
}

static void print_plan_file(Tool *t, const PlanFile *f) {
  Prediction time = inspect_prediction(t, f, "predicted "), bytes = inspect_prediction(t, f, "bytes per rank ");
  size_t width = 0;
  if (f->complete) printf("%s: a partial plan, which --plan completes\n", f->file);
  else printf("%s: plan of @%s (graph %016" PRIx64 ") for %s\n", f->file, f->func, f->graph, f->target);
  if (f->stages) print_mesh(t, f);
  for (size_t i = 0; i < f->entries.n; i++)
    printf("%s%s x %g%s", i ? ", " : "  entries   ", f->entries.items[i].name, f->entries.items[i].weight,
           i + 1 < f->entries.n ? "" : "\n");
  if (!f->complete) print_prediction(t, "time", &time, false), print_prediction(t, "per rank", &bytes, true);
  for (int i = 1; i < f->mesh.stages; i++)
    if (f->stages[i].op) printf("  stage %-3d from %s\n", i, f->stages[i].op);
  for (size_t i = 0; i < f->ops.n; i++)
    if (strlen(f->ops.items[i].glob) > width) width = strlen(f->ops.items[i].glob);
  if (width > 48) width = 48;
  printf("  strategies of operations; the last matching line counts (`*`: all layers)\n");
  for (size_t i = 0; i < f->ops.n; i++)
    printf("    %-*s %s%s%s\n", (int)width, f->ops.items[i].glob, f->ops.items[i].strategy, note_of(&f->ops.items[i]),
           f->ops.items[i].gather_at_use ? ", gathered at use" : "");
}

int inspect_plan(Tool *t, const char *path) {
  const char *text = file_read_text(t->diags, t->arena, path, NULL);
  const PlanFile *f = text ? plan_file_read(t->arena, path, text, t->diags) : NULL;
  if (!f) return EXIT_BAD_INPUT;
  if (option_given(&t->options, OPT_json)) tool_json(t, plan_file_json(t, f));
  else print_plan_file(t, f);
  return EXIT_OK;
}
