/* driver/plan.c - the stage that finds a plan or reads it from a file; also the texts of --save-plan and
 * --save-temps. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/amount.h"
#include "base/file.h"
#include "driver/annotated.h"
#include "driver/complete.h"
#include "driver/fewest.h"
#include "driver/internal.h"
#include "driver/ir_file.h"
#include "driver/kept.h"
#include "driver/micro_batch.h"
#include "driver/objective.h"
#include "driver/replicas.h"
#include "frontend/onnx/notes.h"
#include "ir/joint.h"
#include "ir/schedule.h"
#include "passes/plan/file.h"
#include "solver/watch.h"

/* Returns the options that every search shares: limits and progress callbacks. */
static PlanOptions unforced_options(const DriverOptions *o) {
  PlanOptions p = o->plan;
  memset(p.degree, 0, sizeof p.degree);
  p.micro_batches = p.zero = 0;
  return p;
}

/* ---- a plan from a file */

/* Forced options must agree with the plan file. */
static bool number_agrees(const DriverOptions *o, const char *name, int wanted, int has) {
  return !wanted || wanted == has ||
         diag_error(o->model.diags, DIAG_plan_options, (Loc){.file = o->plan_file},
                    "--%s %d contradicts the plan, which has %d", name, wanted, has);
}

static bool agrees(const DriverOptions *o, const Func *f, const Plan *p) {
  const PlanOptions *w = &o->plan;
  for (int i = 0; i < DEGREE_COUNT; i++) {
    Degree d = degrees_listed[i];
    if (!number_agrees(o, degree_names[d], w->degree[d], p->degree[d])) return false;
  }
  if (!number_agrees(o, "micro-batches", w->micro_batches, p->micro_batches)) return false;
  if (!recompute_agrees(f, w->recompute, p->strategies))
    return diag_error(o->model.diags, DIAG_plan_options, (Loc){.file = o->plan_file},
                      "--recompute %s contradicts the plan, which has %s", recompute_text(o->model.arena, w->recompute),
                      p->recompute);
  const Mesh *mesh = &p->mesh;
  bool other = w->schedule && (w->schedule - 1 != (int)mesh->schedule || w->chunks != mesh->chunks);
  if (other && p->degree[DEGREE_pp] > 1 && p->micro_batches > 1)
    return diag_error(o->model.diags, DIAG_plan_options, (Loc){.file = o->plan_file},
                      "--schedule %s contradicts the plan, which has %s",
                      schedule_text(o->model.arena, (PipelineSchedule)(w->schedule - 1), w->chunks),
                      schedule_text(o->model.arena, mesh->schedule, mesh->chunks));
  if (w->zero && w->zero - 1 != p->zero)
    return diag_error(o->model.diags, DIAG_plan_options, (Loc){.file = o->plan_file},
                      "--zero %d contradicts the plan, which has %d", w->zero - 1, p->zero);
  return true;
}

/* Adds x unless it is the plan itself; an alternative with equal degrees and another time is added. */
static void add_alternative(Plan *p, PlanAlternative *list, const PlanAlternative *x) {
  bool same = memcmp(x->degree, p->degree, sizeof x->degree) == 0 && x->micro_batches == p->micro_batches;
  if (!same || fabs(x->seconds - p->price.time.total) > 1e-9 * p->price.time.total) list[p->nalternatives++] = *x;
}

static void list_beside(Arena *a, Plan *p, Plan *other) {
  PlanAlternative best = plan_as_alternative(a, other);
  best.plan = other;
  PlanAlternative *list = ARENA_ARRAY(a, PlanAlternative, other->nalternatives + 1);
  p->alternatives = list;
  p->nalternatives = 0;
  add_alternative(p, list, &best);
  for (int i = 0; i < other->nalternatives; i++) add_alternative(p, list, &other->alternatives[i]);
}

/* Copies the results of a search to a plan from a file: the bound and the alternatives. */
static void compare_with_search(Arena *a, Plan *p, Plan *searched) {
  list_beside(a, p, searched);
  p->lower_bound = searched->lower_bound;
  p->no_gaps_bound = fmin(searched->no_gaps_bound, p->lower_bound);
  p->gap = plan_gap(p->price.time.total, p->lower_bound);
  p->search_seconds = searched->search_seconds;
  p->cut_short = searched->cut_short;
  p->report = searched->report;
  p->flops = searched->flops;
}

/* Joins the entries that --optimize or the file names; if both do, they must agree. */
static bool join_as_file_says(Build *b, const PlanFile *f) {
  const DriverOptions *o = &b->options;
  Arena *a = o->model.arena;
  DriverCalls *calls = ARENA_ARRAY(a, DriverCalls, f->entries.n + 1);
  for (size_t i = 0; i < f->entries.n; i++)
    calls[i] = (DriverCalls){f->entries.items[i].name, f->entries.items[i].weight};
  const Func *asked = b->l1->joint ? b->l1 : NULL;
  if (!asked && !f->entries.n) return driver_say_entries(b), true;
  if (!f->entries.n && f->complete) return true;
  if (!f->entries.n)
    return diag_error(o->model.diags, DIAG_plan_options, f->func_loc,
                      "--optimize contradicts the plan, which is for @%s alone", f->func);
  if (!driver_join_entries(b, (int)f->entries.n, calls, f->entries_loc)) return false;
  for (int e = 0; asked && e < asked->joint->n; e++)
    if (asked->joint->entries[e].calls != b->l1->joint->entries[e].calls)
      return diag_error(o->model.diags, DIAG_plan_options, f->entries_loc,
                        "--optimize %s=%g contradicts the plan, which has %g", asked->joint->entries[e].f->name,
                        asked->joint->entries[e].calls, b->l1->joint->entries[e].calls);
  return true;
}

/* Refuses a plan that cannot be used before the search, whose results are only shown to the user; a search without a
 * result is no error here. */
static Plan *read_plan(Build *b, const PlanOptions *options, const char *text) {
  const DriverOptions *o = &b->options;
  Arena *a = o->model.arena;
  Diags *d = o->model.diags;
  Module *m = b->model.m;
  Plan *p = plan_parse(m, b->l1, o->target, o->plan_file, text, d);
  if (!p || !agrees(o, b->l1, p)) return NULL;
  Plan *searched = options->alternatives ? plan_search(m, b->l1, o->target, options, diags_new(a)) : NULL;
  p->one_device_seconds = plan_one_device_seconds(m, b->l1, o->target, options->memory_limit);
  if (searched) compare_with_search(a, p, searched);
  return p;
}

/* ---- texts */

static const char *plan_text(const Build *b, size_t *n) {
  Text text = {.arena = b->options.model.arena};
  plan_print(b->model.m, b->l1, b->plan, &text);
  *n = text.n;
  return text_str(&text);
}

bool save_texts(const Build *b) {
  const DriverOptions *o = &b->options;
  const char *dir = o->save_temps, *name = b->model.name;
  Arena *a = o->model.arena;
  size_t n;
  if (!dir) return true;
  const char *file = arena_printf(a, "%s/%s.ir", dir, name), *l1 = driver_ir_file_text(a, b->model.m, file),
             *plan = plan_text(b, &n);
  mkdir(dir, 0777); /* failure shows when the files are written */
  return file_write(o->model.diags, file, 0666, l1, strlen(l1)) &&
         file_write(o->model.diags, arena_printf(a, "%s/%s.plan", dir, name), 0666, plan, n);
}

bool driver_save_plan(const Build *b) {
  size_t n;
  const char *file = b->options.save_plan, *text = file ? plan_text(b, &n) : NULL;
  return !file || file_write(b->options.model.diags, file, 0666, text, n);
}

/* ---- the stage */

/* Returns the text of the file of --plan: a plan file, or what --emit=onnx kept in an ONNX file. */
static const char *file_text(const DriverOptions *o) {
  Diags *d = o->model.diags;
  OnnxNotes notes;
  if (model_kind(o->plan_file) != MODEL_ONNX) return file_read_text(d, o->model.arena, o->plan_file, NULL);
  OnnxFile *f = onnx_file_open(d, o->plan_file);
  const OnnxNoted noted = f ? onnx_notes_read(f, &notes, d) : ONNX_NOTED_NOTHING;
  onnx_file_close(f);
  if (f && noted != ONNX_NOTED)
    diag_error(d, DIAG_onnx_noted, (Loc){.file = o->plan_file}, "the file has %s",
               noted == ONNX_NOTED_ANOTHER ? "a plan for another graph" : "no plan of apc");
  return noted == ONNX_NOTED ? notes.plan : NULL;
}

void driver_take_plan(Build *b, Plan *p) {
  driver_go_back(b, DRIVER_lower);
  b->plan = p;
  b->options.target = p->on;
  module_set_mesh(b->model.m, &p->mesh);
}

Plan *driver_search(Build *b, const PlanOptions *options, int64_t micro_batch, Diags *d) {
  PlanOptions o = *options;
  double began = solve_watch_now();
  if (o.effort > 0) o.effort = fmax(o.effort - b->search_seconds, 1e-3);
  Plan *p = micro_batch ? driver_micro_batch(b, &o, micro_batch, d)
                        : plan_search(b->model.m, b->l1, b->options.target, &o, d);
  if (p) p = driver_hold_against_entries(b, &o, micro_batch, began, p);
  b->search_seconds += solve_watch_now() - began, b->searches++;
  if (p) p->search_seconds = b->search_seconds;
  return p;
}

bool driver_has_effort(const Build *b) {
  return b->options.plan.effort <= 0 || b->search_seconds < b->options.plan.effort;
}

/* Restricts a search to the mesh and schedule of the current plan. */
static void keep_mesh(const Build *b, PlanOptions *o) {
  const Mesh *mesh = &b->plan->mesh;
  o->said = plan_said_mesh(b->options.model.arena, b->l1, mesh);
  o->degree[DEGREE_pp] = mesh_places(mesh);
  o->micro_batches = mesh_micro_batches(mesh);
  if (func_has_gradients(b->l1)) o->schedule = 1 + (int)mesh->schedule, o->chunks = mesh->chunks;
  o->alternatives = false, o->known = NULL;
}

bool driver_plan_again(Build *b, const PlanTry *asked) {
  PlanOptions options = b->options.plan;
  const Plan *was = b->plan;
  options.memory_limit = asked->limit;
  options.zero = asked->zero;
  options.alternatives = (options.alternatives && asked->alternatives && !options.frontier) || asked->listed;
  if (asked->same_mesh) keep_mesh(b, &options);
  int64_t micro_batch = asked->same_mesh ? 0 : b->options.micro_batch;
  Plan *p = driver_search(b, &options, micro_batch, diags_new(b->options.model.arena));
  if (!p) return false;
  /* The old bounds hold for all plans that the search counts within the original limit. */
  p->lower_bound = fmin(p->lower_bound, was->lower_bound);
  p->no_gaps_bound = fmin(p->no_gaps_bound, was->no_gaps_bound);
  p->gap = plan_gap(plan_seconds(p), p->lower_bound);
  p->one_device_seconds = was->one_device_seconds;
  p->cut_short |= was->cut_short;
  driver_take_plan(b, p);
  return true;
}

void driver_list_beside(const Build *b, Plan *p, Plan *was) {
  if (b->options.plan.alternatives) list_beside(b->options.model.arena, p, was);
}

void driver_plan_beside(Build *b, Plan *was) {
  b->plan->search_seconds = was->search_seconds;
  driver_list_beside(b, b->plan, was);
}

Plan *driver_search_near(Build *b, const PlanOptions *options, int64_t micro_batch, Diags *why) {
  const double most = 2; /* the search may count up to twice the memory of a Program (docs/guide/plan.md) */
  PlanOptions o = *options;
  PlanLack lack = {0};
  o.lack = &lack;
  Plan *p = driver_search(b, &o, micro_batch, why);
  b->resident = lack.resident, b->nearest = lack.nearest;
  if (p || lack.nearest <= 0 || lack.nearest > most * plan_memory_limit(b->options.target, o.memory_limit)) return p;
  o.memory_limit = lack.nearest, o.known = NULL; /* known bounds are of one limit */
  Diags *again = diags_new(b->options.model.arena);
  p = driver_search(b, &o, micro_batch, again);
  if (!p && o.stop && *o.stop) diags_append(why, again);
  return p;
}

/* Returns a plan within the limit as the search counts; if that count may be too high, the nearest one: driver_measure
 * then makes its Program. */
static Plan *search_near(Build *b, const PlanOptions *options) {
  Diags *why = diags_new(b->options.model.arena);
  Plan *p = driver_search_near(b, options, b->options.micro_batch, why);
  if (!p && driver_put_away(b)) {
    why = diags_new(b->options.model.arena);
    p = driver_search_near(b, options, b->options.micro_batch, why);
  }
  const PlanSaid *said = b->options.plan.said;
  if (!p && said && said->file && !driver_is_stopped(b)) why = driver_blame_lines(b, why);
  else if (!p && said) driver_blame_annotations(b, why);
  if (p) driver_check_annotations(b, p);
  if (!p) driver_refuse(b, why);
  else if (why->errors) b->unfit = why;
  else diags_append(b->options.model.diags, why);
  return p;
}

bool driver_plan_away(Build *b) {
  if (!driver_put_away(b)) return false;
  b->unfit = NULL;
  Plan *p = search_near(b, &b->options.plan);
  if (p) driver_take_plan(b, p);
  return p != NULL;
}

bool driver_refuse(Build *b, const Diags *why) {
  diags_append(b->options.model.diags, why);
  if (b->resident > 0 && !b->options.sizes && !b->options.plan.said)
    driver_help_fewest(b, &b->options.plan, b->resident);
  return false;
}

bool stage_plan(Build *b) {
  const DriverOptions *o = &b->options;
  driver_watch_stage(&o->model.watch, o->model.arena, "Planning", "%s on %s", b->model.path, o->target_text);
  const char *text = o->plan_file ? file_text(o) : NULL;
  const PlanFile *file = text ? plan_file_read(o->model.arena, o->plan_file, text, o->model.diags) : NULL;
  if (o->plan_file && !file) return false;
  if (o->ncalls && !driver_join_entries(b, o->ncalls, o->calls, (Loc){0})) return false;
  if (file && (!join_as_file_says(b, file) || (file->complete && !driver_complete(b, file)))) return false;
  if (!file && !o->sizes && !driver_annotate(b)) return false;
  if (!driver_begin_away(b, file)) return false;
  b->kept = false;
  Plan *kept = b->searches_anew ? NULL : driver_find_kept(b);
  if (kept) {
    b->kept = true;
    driver_watch_say(&o->model.watch, o->model.arena, "Kept", "the plan of an earlier search (apc cache)");
    driver_take_plan(b, kept);
    return save_texts(b);
  }
  const PlanOptions unforced = unforced_options(o);
  bool several = o->objective == OBJECTIVE_throughput || o->objective == OBJECTIVE_cost;
  Plan *p = several ? driver_plan_replicas(b) : o->plan_file ? read_plan(b, &unforced, text) : search_near(b, &o->plan);
  if (!p && several && !o->model.diags->errors) p = search_near(b, &o->plan); /* reports why there is none */
  if (!p) return false;
  if (o->objective == OBJECTIVE_memory && !b->unfit) p = driver_least_memory(b, p, o->slower);
  driver_take_plan(b, p);
  return save_texts(b);
}
