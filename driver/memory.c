/* driver/memory.c - the memory of a rank under the chosen plan: makes the Program and asks its memory plan, the one
 * that the ranks use (program/memory.h).
 *
 * The search cannot make the Program of every plan.  It counts the values of the level-1 function that are live at the
 * same time (passes/cost/held.h), without knowing which buffers are reused.  Plans are compared by that count; but the
 * limit applies to the Programs (fit.c) of the plan and of the alternatives listed beside it.
 */
#include "driver/driver.h"

#include <math.h>
#include <string.h>

#include "base/amount.h"
#include "driver/compare.h"
#include "driver/internal.h"
#include "driver/kept.h"
#include "driver/objective.h"
#include "driver/replicas.h"
#include "ir/opaque.h"
#include "passes/cost/ranks.h"
#include "program/memory.h"

static PlanMemory memory_of(const MemoryPlan *plan, bool trains) {
  const uint64_t *classes = plan->class_bytes;
  double apart = (double)(classes[PC_gathered] + classes[PC_gradient] + classes[PC_saved]);
  PlanMemory m = {.params = (double)plan->bytes[SPACE_PARAM] + (double)plan->mapped_bytes,
                  .state = (double)plan->bytes[SPACE_STATE],
                  .activations = (double)plan->bytes[SPACE_ARENA] + (double)plan->bytes[SPACE_LIBRARY] - apart,
                  .communication = (double)plan->bytes[SPACE_WINDOW],
                  .away = (double)plan->bytes[SPACE_AWAY],
                  .trains = trains,
                  .gathered = (double)classes[PC_gathered],
                  .gradients = (double)classes[PC_gradient],
                  .saved = (double)classes[PC_saved]};
  m.total = m.params + m.state + cost_memory_made(&m);
  return m;
}

static bool is_asked_for(const Program *p, uint32_t entry, const char *only) {
  const ProgramEntry *e = &p->entries[entry];
  return !e->prepare && (!only || strcmp(program_text(p, e->name), only) == 0);
}

/* Finds the peak memory over stages and requested entries; the memory of @prepare is released before them.  A training
 * program counts only its step, `only`: other entries run when states are restored, written or evaluated, and take
 * their memory then. */
static bool largest(const Program *p, const Target *g, const char *only, PlanMemory *most) {
  int64_t symbols[PROGRAM_MAX_SYMBOLS];
  *most = (PlanMemory){0};
  for (uint32_t i = 0; i < p->n_symbols; i++) symbols[i] = program_default_size(&p->symbols[i]);
  for (uint32_t e = 0; e < p->n_entries; e++)
    for (uint32_t s = 0; s < p->stages && is_asked_for(p, e, only); s++) {
      MemoryPlan plan;
      RtError error = {0};
      RtStatus status = memory_plan(p, e, s, symbols, &plan, &error);
      if (status == RT_BAD_INPUT) return false; /* exceeds 2^63 */
      if (status) program_refused("the memory of the Program just built", &error);
      PlanMemory m = memory_of(&plan, only != NULL);
      m.needs = m.total * kinds_memory_scale_of(g, (int)(s * p->ranks_per_stage), (int)p->ranks_per_stage);
      if (m.needs > most->needs) *most = m;
      memory_plan_free(&plan);
    }
  return true;
}

/* Measures the Program before machine code and weights are added.  Errors are dropped: writing the program reports
 * them. */
static bool program_memory(const Build *b, PlanMemory *most) {
  ArtifactProgram program;
  ArtifactSpec spec = driver_artifact_spec(b);
  if (!codegen_program_open(&spec, false, &program, diags_new(b->options.model.arena))) return false;
  bool ok = largest(&program.p, b->options.target, b->options.model.train ? b->l1->name : NULL, most);
  codegen_program_close(&program);
  return ok;
}

bool driver_measure_plan(Build *b) {
  const DeviceTraits *device = b->device;
  PlanMemory *memory = ARENA_NEW(b->options.model.arena, PlanMemory);
  if (opaque_unruled(b->model.m)) return true;
  driver_make_for(b, b->options.target->device);
  bool ok = driver_run(b, DRIVER_kernels);
  if (ok) {
    b->legal->source.unread = true;
    if (program_memory(b, memory)) b->plan->allocated = memory;
    b->legal->source.unread = false;
  }
  driver_make_for(b, device);
  return ok;
}

static bool refuse_size(const Build *b, double limit, double least) {
  Diags *d = b->options.model.diags;
  Arena *a = b->options.model.arena;
  if (b->options.plan_file)
    return diag_error(d, DIAG_plan_infeasible, (Loc){.file = b->options.plan_file},
                      "the plan needs %s on a rank, %s are allowed", show_bytes(a, least), show_bytes(a, limit));
  if (b->options.target->nkinds) {
    diag_error(d, DIAG_plan_infeasible, (Loc){0},
               "no feasible plan for %s: the smallest program tried takes %.2f times the memory limit of a rank",
               b->options.target->name, least / limit);
    return false;
  }
  diag_error(d, DIAG_plan_infeasible, (Loc){0},
             "no feasible plan for %s: the smallest program tried takes %s on a rank, %s are allowed",
             b->options.target->name, show_bytes(a, least), show_bytes(a, limit));
  diag_help(d, "a plan may exist with --memory %.0fKB", ceil(least / 1000));
  return false;
}

static void refuse_alternative(const Build *b, PlanAlternative *x, double limit) {
  Arena *a = b->options.model.arena;
  x->why_not =
      arena_printf(a, "its program takes %s on a rank, %s are allowed", show_bytes(a, x->bytes), show_bytes(a, limit));
  x->seconds = INFINITY;
}

/* Refuses large named plans by the search's count: their Programs are not made. */
static void refuse_counted(const Build *b, double limit) {
  Arena *a = b->options.model.arena;
  for (int i = 0; i < b->plan->nalternatives; i++) {
    PlanAlternative *x = &b->plan->alternatives[i];
    if (!x->named || !x->plan || x->plan->allocated || x->bytes <= limit || !isfinite(x->seconds)) continue;
    x->why_not = arena_printf(a, "the search counts %s on a rank, %s are allowed", show_bytes(a, x->bytes),
                              show_bytes(a, limit));
    x->seconds = INFINITY;
  }
}

static void possible_first(Arena *a, PlanAlternative *list, int n) {
  PlanAlternative *last = ARENA_ARRAY(a, PlanAlternative, n + 1);
  int kept = 0, moved = 0;
  for (int i = 0; i < n; i++)
    if (list[i].why_not) last[moved++] = list[i];
    else list[kept++] = list[i];
  for (int i = 0; i < moved; i++) list[kept + i] = last[i];
}

bool driver_is_small(const Build *b, const Plan *p) {
  const double most = 20e3; /* sum of the operations of all stages */
  double ops = 0;
  for (int i = 0; i < b->nentries; i++) ops += (double)b->l1s[i]->ops.n;
  return ops * p->mesh.stages <= most;
}

static void measure_alternative(Build *b, PlanAlternative *x, double limit) {
  if (!x->plan->allocated) {
    driver_take_plan(b, x->plan);
    if (!driver_measure_plan(b)) {
      x->why_not = "its program cannot be built", x->seconds = INFINITY;
      return;
    }
  }
  x->bytes = plan_memory(x->plan)->total, x->counted = !x->plan->allocated;
  if (plan_memory(x->plan)->needs > limit) refuse_alternative(b, x, limit);
}

/* Gives each alternative the memory of its Program, the same as if it were forced, and refuses those above the limit.
 * The user did not ask for them one by one, so their stages and errors are not shown. */
static void measure_alternatives(Build *b, double limit) {
  Plan *const chosen = b->plan;
  const DriverWatch watch = b->options.model.watch;
  Diags *diags = b->options.model.diags;
  b->options.model.watch = (DriverWatch){0};
  b->options.model.diags = diags_new(b->options.model.arena);
  for (int i = 0; i < chosen->nalternatives && !driver_is_stopped(b); i++) {
    PlanAlternative *x = &chosen->alternatives[i];
    if (x->plan && (x->plan->allocated || driver_is_small(b, x->plan))) measure_alternative(b, x, limit);
  }
  b->options.model.watch = watch, b->options.model.diags = diags;
  if (b->plan != chosen) driver_take_plan(b, chosen);
  refuse_counted(b, limit);
  possible_first(b->options.model.arena, chosen->alternatives, chosen->nalternatives);
}

/* True for a large forced layout within the limit as the search counts, if the user only wants its price. */
static bool is_asked_only(const Build *b) {
  return b->plan->layout && b->options.plan.alternatives && !b->unfit && !driver_is_small(b, b->plan);
}

/* Keeps the alternatives on the frontier, by the memory of their Programs; named plans stay. */
static void keep_frontier(Build *b) {
  Plan *p = b->plan;
  Arena *a = b->options.model.arena;
  PlanAlternative *named = ARENA_ARRAY(a, PlanAlternative, p->nalternatives + 1), *all = p->alternatives;
  int n = p->nalternatives, nnamed = 0;
  for (int i = 0; i < n; i++)
    if (all[i].named) named[nnamed++] = all[i], all[i].plan = NULL;
  driver_frontier(a, p, all, n);
  for (int i = 0; i < nnamed; i++) p->alternatives[p->nalternatives++] = named[i];
}

/* For plans on parts of a target: takes the plan of replicas on more devices each. */
static bool take_next_part(Build *b) {
  if (!b->replicas || driver_is_stopped(b)) return false;
  b->least_devices = b->options.target->ranks + 1;
  Plan *p = driver_plan_replicas(b);
  if (p) driver_take_plan(b, p);
  return p != NULL;
}

bool driver_measure(Build *b) {
  double limit = plan_memory_limit(b->options.target, b->options.plan.memory_limit);
  if (is_asked_only(b)) {
    driver_compare(b);
    refuse_counted(b, limit);
    return save_texts(b) && driver_save_plan(b);
  }
  double least;
  do {
    if (!driver_fit_plan(b, limit, &least)) return false;
  } while (least > limit && take_next_part(b));
  if (least > limit && driver_plan_away(b) && !driver_fit_plan(b, limit, &least)) return false;
  if (least > limit) return !b->options.model.diags->errors && refuse_size(b, limit, least);
  driver_compare(b);
  measure_alternatives(b, limit);
  driver_keep_plan(b);
  if (b->options.objective != OBJECTIVE_latency) keep_frontier(b);
  return save_texts(b) && driver_save_plan(b);
}
