/* driver/complete.c - see complete.h.
 *
 * If no plan satisfies all lines, the file is tried without each line in turn, by a search that accepts any plan.  If
 * two lines each rule out every plan, neither is found.
 */
#include "driver/complete.h"

#include <string.h>

#include "driver/internal.h"
#include "ir/schedule.h"

static bool differs(const Build *b, Loc loc, const char *name, int asked, int said) {
  if (!asked || !said || asked == said) return false;
  diag_error(b->options.model.diags, DIAG_plan_options, loc, "--%s %d contradicts the plan file, which says %d", name,
             asked, said);
  return true;
}

/* Forces one option to the value that command line and file give; false if they differ. */
static bool force(const Build *b, Loc loc, const char *name, int *asked, int said) {
  if (differs(b, loc, name, *asked, said)) return false;
  if (said) *asked = said;
  return true;
}

static bool force_degrees(const Build *b, const PlanFileForce *f, PlanOptions *o) {
  for (int d = 0; d < DEGREE_COUNT; d++)
    if (!force(b, f->loc, degree_names[d], &o->degree[d], f->degree[d])) return false;
  return force(b, f->loc, "micro-batches", &o->micro_batches, f->micro_batches);
}

static int time_axis(const Mesh *mesh) {
  for (int i = 0; i < mesh->naxes; i++)
    if (mesh->axes[i].temporal) return mesh->axes[i].size;
  return 0;
}

/* Checks one file for contradictions with itself and the options. */
static bool contradict(const Build *b, const PlanFile *file) {
  const PlanFileForce *f = &file->force;
  int stages = file->stages ? mesh_places(&file->mesh) : 0, micro = time_axis(&file->mesh);
  if (stages && f->degree[DEGREE_pp] && f->degree[DEGREE_pp] != stages)
    return !diag_error(b->options.model.diags, DIAG_plan_model, f->loc, "pp=%d is forced, but the mesh has %d stage%s",
                       f->degree[DEGREE_pp], stages, stages == 1 ? "" : "s");
  if (micro && f->micro_batches && f->micro_batches != micro)
    return !diag_error(b->options.model.diags, DIAG_plan_model, f->loc,
                       "micro-batches=%d is forced, but the mesh has %d", f->micro_batches, micro);
  bool trains = f->zero > 0 || f->recompute.kind != RECOMPUTE_auto;
  return trains && !func_has_gradients(b->l1) &&
         !diag_error(b->options.model.diags, DIAG_plan_model, f->loc,
                     "zero and recompute need a training step (--train)");
}

static bool force_mesh(const Build *b, const PlanFile *file, PlanOptions *o) {
  return !file->stages || (force(b, file->mesh_loc, "pp", &o->degree[DEGREE_pp], mesh_places(&file->mesh)) &&
                           force(b, file->mesh_loc, "micro-batches", &o->micro_batches, time_axis(&file->mesh)));
}

static bool force_recompute(const Build *b, const PlanFileForce *f, PlanOptions *o) {
  Arena *a = b->options.model.arena;
  if (f->recompute.kind == RECOMPUTE_auto) return true;
  if (o->recompute.kind != RECOMPUTE_auto &&
      (o->recompute.kind != f->recompute.kind || o->recompute.layers != f->recompute.layers))
    return diag_error(b->options.model.diags, DIAG_plan_options, f->loc,
                      "--recompute %s contradicts the plan file, which says %s", recompute_text(a, o->recompute),
                      recompute_text(a, f->recompute));
  o->recompute = f->recompute;
  return true;
}

static bool force_schedule(const Build *b, const PlanFile *file, PlanOptions *o) {
  Arena *a = b->options.model.arena;
  int said = file->scheduled ? 1 + (int)file->mesh.schedule : 0;
  if (said && o->schedule && (said != o->schedule || file->mesh.chunks != o->chunks))
    return diag_error(b->options.model.diags, DIAG_plan_options, file->schedule_loc,
                      "--schedule %s contradicts the plan file, which says %s",
                      schedule_text(a, (PipelineSchedule)(o->schedule - 1), o->chunks),
                      schedule_text(a, file->mesh.schedule, file->mesh.chunks));
  if (said) o->schedule = said, o->chunks = file->mesh.chunks;
  return true;
}

/* Stage s is stored as s + 1.  A search gathers all weights at use (stage 3), or none. */
static bool force_zero(const Build *b, const PlanFile *file, PlanOptions *o) {
  Loc at_use = {0};
  for (size_t i = 0; i < file->ops.n; i++)
    if (file->ops.items[i].gather_at_use) at_use = file->ops.items[i].strategy_loc;
  int asked = o->zero, said = file->force.zero;
  if (asked && said && asked != said)
    return diag_error(b->options.model.diags, DIAG_plan_options, file->force.loc,
                      "--zero %d contradicts the plan file, which says %d", asked - 1, said - 1);
  if (said) o->zero = said;
  if (at_use.line && o->zero && o->zero - 1 != ZERO_AT_USE)
    return diag_error(b->options.model.diags, DIAG_plan_options, at_use,
                      "weights gathered at use need stage 3 of ZeRO, but stage %d is forced", o->zero - 1);
  if (at_use.line) o->zero = 1 + ZERO_AT_USE;
  return true;
}

bool driver_complete(Build *b, const PlanFile *file) {
  PlanOptions o = b->options.plan;
  const PlanFileForce *f = &file->force;
  Diags *d = b->options.model.diags;
  if (contradict(b, file)) return false;
  if (!force_degrees(b, f, &o) || !force_mesh(b, file, &o) || !force_recompute(b, f, &o) ||
      !force_schedule(b, file, &o) || !force_zero(b, file, &o))
    return false;
  o.said = plan_said(b->model.m, b->l1, b->options.target, file, d);
  if (!o.said) return false;
  b->options.plan = o;
  b->options.plan_file = NULL;
  return true;
}

/* ---- lines that contradict each other */

/* True if a plan exists without that line. */
static bool holds_without(const Build *b, size_t line) {
  const PlanFile *file = b->options.plan.said->file;
  Arena *a = b->options.model.arena;
  Diags *ignored = diags_new(a);
  PlanFile less = *file;
  PlanOptions o = b->options.plan;
  less.ops.items = ARENA_ARRAY(a, PlanFileOp, file->ops.n + 1);
  less.ops.n = 0;
  for (size_t i = 0; i < file->ops.n; i++)
    if (i != line) less.ops.items[less.ops.n++] = file->ops.items[i];
  o.said = plan_said(b->model.m, b->l1, b->options.target, &less, ignored);
  o.any = true, o.alternatives = false, o.lack = NULL, o.known = NULL, o.show = NULL;
  return o.said && plan_search(b->model.m, b->l1, b->options.target, &o, ignored);
}

Diags *driver_blame_lines(const Build *b, Diags *why) {
  enum { MOST_LINES = 64, MOST_NAMED = 4 };
  const PlanFile *file = b->options.plan.said->file;
  const Diag *first = diags_first_error(why);
  Arena *a = b->options.model.arena;
  Diags *d = diags_new(a);
  if (!first || first->code != DIAG_plan_infeasible) return why;
  for (size_t i = 0; i < file->ops.n && i < MOST_LINES && d->n < MOST_NAMED && !driver_is_stopped(b); i++) {
    const PlanFileOp *line = &file->ops.items[i];
    if (!holds_without(b, i)) continue;
    const char *what = arena_printf(a, "%s \"%s\" %s", plan_line_names[line->kind], line->glob, line->strategy);
    if (d->n) diag_note(d, line->glob_loc, "nor is there one with this line: %s", what);
    else
      diag_error(d, DIAG_plan_infeasible, line->glob_loc, "no plan satisfies this line together with the others: %s",
                 what);
  }
  if (!d->n) diag_note(why, file->complete_loc, "the search was restricted to what the file says");
  else diag_note(d, (Loc){0}, "with all lines: %s", first->message);
  return d->n ? d : why;
}
