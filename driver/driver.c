/* driver/driver.c - the compiler as a table of stages; see driver.h. */
#include "ir/opaque.h"
#include "driver/driver.h"

#include <stdlib.h>
#include <string.h>

#include "driver/internal.h"
#include "passes/lower/lower.h"
#include "passes/facts/labels.h"

static void free_program(Build *b) {
  if (b->program.b) program_builder_free(b->program.b);
  b->program = (ProgramResult){0};
}

/* Drops level 2: it uses symbols of the plan's mesh, which another plan does not have. */
static void drop_lowered(Build *b) {
  for (int i = 0; b->l2s && i < b->nentries; i++) module_func_remove(b->model.m, b->l2s[i]);
  module_func_remove(b->model.m, b->prepare_l2);
  b->l2s = NULL, b->l2 = b->prepare_l2 = NULL;
}

void driver_go_back(Build *b, DriverStage to) {
  if (to <= DRIVER_program) free_program(b);
  if (to <= DRIVER_lower) drop_lowered(b);
  if (b->next > to) b->next = to;
}

/* ---- load, simplify */

/* Chooses the size to plan for of every dimension that stays symbolic, and reports it. */
static void settle_hints(Build *b) {
  const ModelOptions *o = &b->options.model;
  const int *symbols;
  int n = model_dimensions(o->arena, &b->model, &symbols);
  for (int i = 0; i < n; i++) {
    Symbol *s = &b->model.m->symbols.items[symbols[i]];
    s->hint = symbol_hint(s);
  }
  if (n)
    driver_watch_say(&o->watch, o->arena, "Symbolic", "planning for %s (--dim-hint, --dim)",
                     model_hints_text(o->arena, &b->model));
}

static bool choose_entries(Build *b) {
  const DriverOptions *o = &b->options;
  for (int i = 0; i < o->nentries; i++)
    if (!module_func(b->model.m, o->entries[i]))
      return diag_error(o->model.diags, DIAG_model_kind, (Loc){.file = b->model.path}, "the model has no function @%s",
                        o->entries[i]);
  if (!o->nentries) return true;
  b->model.nentries = o->nentries;
  b->model.entries = ARENA_ARRAY(o->model.arena, const char *, o->nentries);
  for (int i = 0; i < o->nentries; i++) b->model.entries[i] = o->entries[i];
  return true;
}

static bool stage_load(Build *b) {
  const ModelOptions *o = &b->options.model;
  if (!model_load(o, &b->model) || !model_check_known(o, &b->model) || !choose_entries(b)) return false;
  if (!b->options.ncalls && !b->options.plan_file) driver_say_entries(b); /* otherwise reported with the plan */
  b->params = model_parameters(b->model.m);                               /* before passes turn them into views */
  settle_hints(b);
  return true;
}

static bool stage_simplify(Build *b) {
  if (!model_passes(&b->options.model, &b->model, b->options.target->device)) return false;
  b->nentries = b->model.nentries;
  b->l1s = ARENA_ARRAY(b->options.model.arena, Func *, b->nentries);
  for (int i = 0; i < b->nentries; i++) b->l1s[i] = module_func(b->model.m, b->model.entries[i]);
  b->l1 = b->l1s[0];
  return true;
}

/* ---- lower */

static Func *lower_entry(Build *b, CostModel *cost, int entry) {
  const ModelOptions *o = &b->options.model;
  const Func *l1 = b->l1s[entry];
  const Strategy *strategies;
  const int *stages;
  driver_entry_choice(b, entry, &strategies, &stages);
  b->steps[entry] = (LowerSteps){0};
  LowerPlan plan = {
      .strategies = strategies, .stages = stages, .cost = cost_move, .cost_context = cost, .steps = &b->steps[entry]};
  Func *l2 = lower_spmd(b->model.m, l1, &plan, arena_printf(o->arena, "%s.spmd", l1->name), o->diags);
  return l2 && verify_func(b->model.m, l2, o->diags) ? l2 : NULL;
}

/* Lowers @prepare, the work on weights at loading. */
static bool lower_weights(Build *b) {
  Diags *d = b->options.model.diags;
  b->prepare_l1 = module_func(b->model.m, "prepare");
  if (!b->prepare_l1) return true;
  b->prepare_l2 = lower_prepare(b->model.m, b->prepare_l1, b->nentries, b->l2s, "prepare.spmd", d);
  return b->prepare_l2 && verify_func(b->model.m, b->prepare_l2, d);
}

static bool stage_lower(Build *b) {
  const ModelOptions *o = &b->options.model;
  driver_watch_stage(&o->watch, o->arena, "Lowering", "%s to %d rank%s", b->model.path, b->plan->ranks,
                     b->plan->ranks == 1 ? "" : "s");
  CostModel *cost = cost_model_new(b->model.m, b->options.target);
  b->l2s = ARENA_ARRAY(o->arena, Func *, b->nentries);
  b->steps = ARENA_ARRAY(o->arena, LowerSteps, b->nentries);
  bool ok = true;
  for (int i = 0; ok && i < b->nentries; i++) ok = (b->l2s[i] = lower_entry(b, cost, i)) != NULL;
  b->l2 = b->l2s[0];
  cost_model_free(cost);
  return ok && lower_weights(b);
}

bool driver_lower_also(Build *b, Func *l1) {
  Arena *a = b->options.model.arena;
  int n = b->nentries++;
  Func **l1s = ARENA_ARRAY(a, Func *, n + 1), **l2s = ARENA_ARRAY(a, Func *, n + 1);
  memcpy(l1s, b->l1s, sizeof *l1s * (size_t)n);
  memcpy(l2s, b->l2s, sizeof *l2s * (size_t)n);
  LowerSteps *steps = ARENA_ARRAY(a, LowerSteps, n + 1);
  memcpy(steps, b->steps, sizeof *steps * (size_t)n);
  CostModel *cost = cost_model_new(b->model.m, b->options.target);
  l1s[n] = l1, b->l1s = l1s, b->steps = steps;
  l2s[n] = lower_entry(b, cost, n), b->l2s = l2s;
  driver_go_back(b, DRIVER_legalise);
  cost_model_free(cost);
  return l2s[n] != NULL;
}

/* ---- legalise, kernels, program, artifact */

static bool embeds(const Build *b) {
  const Module *m = b->model.m;
  double bytes = 0;
  for (size_t i = 0; i < m->blobs.n; i++) bytes += (double)m->blobs.items[i].bytes;
  return b->options.embed == EMBED_ALL || (b->options.embed == EMBED_SMALL && bytes < 0x1p30);
}

/* Returns the times of stages of interleaved pipelines; NULL if the stages are not interleaved. */
static const ScheduleWork *phases_of(const Build *b) {
  Module *m = b->model.m;
  if (!b->plan || !schedule_in_turns(&m->mesh, b->l1)) return NULL;
  CostModel *cost = cost_model_new(m, b->options.target);
  const Rule *const *rules = (const Rule *const *)rules_of(m, b->l1);
  const ScheduleWork *work =
      cost_plan_phases(b->options.model.arena, cost, m, b->l1, rules, b->plan->strategies, b->plan->stages);
  cost_model_free(cost);
  return work;
}

static bool stage_legalise(Build *b) {
  ProgramEntrySpec *entries = ARENA_ARRAY(b->options.model.arena, ProgramEntrySpec, b->nentries);
  for (int i = 0; i < b->nentries; i++) entries[i] = (ProgramEntrySpec){b->l1s[i]->name, b->l1s[i], b->l2s[i]};
  const KernelTarget *t = kernel_target(b->device);
  b->legal = legalise(&(ProgramSource){.m = b->model.m,
                                       .nentries = b->nentries,
                                       .entries = entries,
                                       .prepare_l1 = b->prepare_l1,
                                       .prepare_l2 = b->prepare_l2,
                                       .device = b->device,
                                       .phases = phases_of(b),
                                       .arch = b->options.target->arch,
                                       .tf32 = b->options.target->compute == CT_tf32,
                                       .workspace = t->workspace ? t->workspace(b->options.target->arch) : 0,
                                       .conv_workspace = t->conv_workspace,
                                       .embed = embeds(b)});
  return true;
}

static bool stage_kernels(Build *b) {
  kernels_print(b->legal);
  return true;
}

/* Only a Program that is written needs predicted times. */
static bool stage_program(Build *b) {
  b->legal->source.times = b->options.out ? driver_times(b) : NULL;
  return codegen_program_of(b->legal, &b->program, b->options.model.diags);
}

/* Returns the target's devices as ProgramHeader.planned names them. */
static const char *planned_devices(const Build *b) {
  const Target *t = b->options.target;
  return arena_printf(b->options.model.arena, "%s%s%s%s", t->device->name, t->arch ? " " : "", t->arch ? t->arch : "",
                      t->measured ? " calibrated" : "");
}

/* Returns the type of the target's peak and its source, which a program prints beside utilisation. */
static const char *source_of_peak(const DriverOptions *o) {
  const Target *t = o->target;
  const char *source = t->measured                     ? "measured by apc calibrate"
                       : t->device->kind == DEVICE_cpu ? "the figures of the target, not measured on this machine"
                                                       : arena_printf(o->model.arena, "the peak of %s", t->part);
  return arena_printf(o->model.arena, "%s, %s", compute_name(t->compute), source);
}

ArtifactSpec driver_artifact_spec(const Build *b) {
  const DriverOptions *o = &b->options;
  return (ArtifactSpec){.legal = b->legal,
                        .name = b->model.name,
                        .target = o->target->name,
                        .producer = o->producer,
                        .planned = planned_devices(b),
                        .peak = target_peak(o->target),
                        .peak_of = source_of_peak(o),
                        .stub = o->stub,
                        .out = o->out,
                        .arch = o->target->arch,
                        .save_temps = o->save_temps,
                        .cache = o->cache};
}

static bool stage_artifact(Build *b) {
  ArtifactSpec spec = driver_artifact_spec(b);
  bool ok = codegen_write(&spec, &b->program, &b->report, b->options.model.diags);
  if (ok && b->report.kept)
    driver_watch_say(&b->options.model.watch, b->options.model.arena, "Kept",
                     "the kernels of an earlier compile (apc cache)");
  return ok;
}

/* ---- the table */

typedef struct Stage {
  const char *name;
  bool (*run)(Build *b);
} Stage;

static const Stage stages[DRIVER_STAGES] = {
#define STAGE(name, makes) {#name, stage_##name},
#include "driver/stages.def"
#undef STAGE
};

void driver_begin(Build *b, const DriverOptions *options) {
  *b = (Build){.options = *options, .device = target_device_traits(DEVICE_cpu)};
}

bool driver_run(Build *b, DriverStage last) {
  for (; b->next <= last; b->next++)
    if (!stages[b->next].run(b)) return false;
  return true;
}

void driver_make_for(Build *b, const DeviceTraits *device) {
  if (b->device != device) driver_go_back(b, DRIVER_legalise);
  b->device = device;
}

/* Refuses plans that keep states away on devices whose programs cannot do that yet. */
static bool can_put_away(const Build *b, const DeviceTraits *device) {
  const Offload away = offload_of(b->model.m);
  if (away == OFFLOAD_none || device->shared_memory) return true;
  diag_error(b->options.model.diags, DIAG_later_offload, (Loc){0},
             "--offload %s is not built yet for programs of GPUs; `apc plan` prices it", offload_name(away));
  return false;
}

bool driver_can_compile(const Build *b, const DeviceTraits *device) {
  const ModelOptions *o = &b->options.model;
  if (!can_put_away(b, device)) return false;
  const char *names = device->kind == DEVICE_cpu ? NULL : opaque_ruled(o->arena, b->model.m);
  return !names ||
         diag_error(o->diags, DIAG_later_op, (Loc){0}, "%s: the kernel of such an operator runs on CPUs only", names);
}

/* Checks for errors that need no compilation first. */
bool driver_write(Build *b, const DeviceTraits *device, const char *out) {
  const ModelOptions *o = &b->options.model;
  if (!driver_can_compile(b, device)) return false;
  b->options.out = out;
  driver_make_for(b, device);
  driver_go_back(b, DRIVER_program); /* writing closed the Program */
  if (!driver_run(b, DRIVER_lower) || !save_texts(b)) return false;
  driver_watch_stage(&o->watch, o->arena, "Compiling", "%s", out);
  return codegen_stub_check(b->options.stub, o->diags) && driver_run(b, DRIVER_artifact);
}

/* Runs the stages of one of several Programs up to the Program itself. */
static bool make_part(Build *b, const char *out, ArtifactPart *part) {
  const DeviceTraits *device = b->options.target->device;
  if (!driver_can_compile(b, device)) return false;
  b->options.out = out;
  driver_make_for(b, device);
  driver_go_back(b, DRIVER_program);
  if (!driver_run(b, DRIVER_program)) return false;
  *part = (ArtifactPart){.spec = driver_artifact_spec(b), .program = &b->program};
  return true;
}

bool driver_write_all(Build *builds, int n, const char *out) {
  const ModelOptions *o = &builds[0].options.model;
  ArtifactPart *parts = ARENA_ARRAY(o->arena, ArtifactPart, n);
  bool ok = codegen_stub_check(builds[0].options.stub, o->diags);
  for (int i = 0; ok && i < n; i++) ok = make_part(&builds[i], out, &parts[i]);
  if (ok) driver_watch_stage(&o->watch, o->arena, "Compiling", "%s", out);
  ok = ok && codegen_write_all(parts, n, o->diags);
  for (int i = 0; ok && i < n; i++) builds[i].report = parts[i].report;
  return ok;
}

void driver_free(Build *b) {
  free_program(b);
  model_free(&b->model);
}
