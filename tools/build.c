/* tools/build.c - see build.h. */
#include "tools/build.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "codegen/cpu/c_compiler.h"
#include "passes/lower/lower.h"
#include "passes/plan/entries.h"
#include "tools/fewest.h"
#include "tools/ir_file.h"
#include "tools/micro_batch.h"
#include "tools/plan_times.h"

/* ---- words */

static void degree(Text *t, const char *name, int n) {
  if (n > 1) text_printf(t, "%s%s %d", t->n ? " x " : "", name, n);
}

const char *degrees_text(Arena *a, int tp, int pp, int dp, int cp, int ep, int micro_batches) {
  Text t = {.arena = a};
  degree(&t, "tp", tp);
  degree(&t, "pp", pp);
  degree(&t, "dp", dp);
  degree(&t, "cp", cp);
  degree(&t, "ep", ep);
  if (!t.n) text_add(&t, "one rank");
  if (micro_batches > 1) text_printf(&t, ", %d micro-batches", micro_batches);
  return text_str(&t);
}

const char *hints_text(Tool *t, const Model *model) {
  const int *symbols;
  int n = model_dimensions(t, model, &symbols);
  Text text = {.arena = t->arena};
  for (int i = 0; i < n; i++) {
    const Symbol *s = &model->m->symbols.items[symbols[i]];
    text_printf(&text, "%s%s %" PRId64, i ? ", " : "", s->name, symbol_hint(s));
  }
  return text_str(&text);
}

/* ---- planning */

static void find_entries(Tool *t, Build *b) {
  b->nentries = b->model.nentries;
  b->l1s = ARENA_ARRAY(t->arena, Func *, b->nentries);
  for (int i = 0; i < b->nentries; i++) b->l1s[i] = module_func(b->model.m, b->model.entries[i]);
  b->l1 = b->l1s[0];
}

/* The first entry is planned; the others take its choices over (passes/plan/entries.h). */
static void say_entries(Tool *t, const Model *m) {
  Text names = {.arena = t->arena};
  for (int i = 1; i < m->nentries; i++) text_printf(&names, "%s%s", i > 1 ? ", " : "", m->entries[i]);
  if (m->nentries > 1)
    tool_say(t, "Entries", "planning for %s; %s share%s its weights and states", m->entries[0], text_str(&names),
             m->nentries == 2 ? "s" : "");
}

/* Every dimension that stays symbolic gets the size to plan for, and the user hears of it. */
static void settle_hints(Tool *t, Build *b) {
  const int *symbols;
  int n = model_dimensions(t, &b->model, &symbols);
  for (int i = 0; i < n; i++) {
    Symbol *s = &b->model.m->symbols.items[symbols[i]];
    s->hint = symbol_hint(s);
  }
  if (n) tool_say(t, "Symbolic", "planning for %s (--dim-hint, --dim)", hints_text(t, &b->model));
}

/* Degrees, and numbers of micro-batches, that no machine reaches: said as they were written. */
static bool degrees_possible(Tool *t, const Target *g) {
  static const struct {
    OptionId id;
    const char *name;
  } forced[] = {{OPT_tp, "tp"}, {OPT_pp, "pp"}, {OPT_dp, "dp"},
                {OPT_ep, "ep"}, {OPT_cp, "cp"}, {OPT_micro_batches, "micro-batches"}};
  for (size_t i = 0; i < sizeof forced / sizeof *forced; i++) {
    int64_t v = option_int(&t->options, forced[i].id, 0);
    if (v > INT32_MAX)
      return diag_error(t->diags, DIAG_plan_infeasible, (Loc){0},
                        "%s %" PRId64 " is not possible on %s, which has %d rank%s", forced[i].name, v, g->name,
                        g->ranks, g->ranks == 1 ? "" : "s");
  }
  return true;
}

static int degree_option(const Options *o, OptionId id) { return (int)option_int(o, id, 0); }

/* What holds for every search: its limits, and who looks on. */
static PlanOptions search_options(Tool *t) {
  const double least_effort = 1e-9; /* 0 seconds are a limit as well */
  const Options *o = &t->options;
  PlanOptions p = {
      .memory_limit = option_real(o, OPT_memory, 0), .show = t->quiet ? NULL : plan_times_show, .show_context = t};
  if (option_given(o, OPT_effort)) p.effort = fmax(option_real(o, OPT_effort, 0), least_effort);
  return p;
}

static PlanOptions plan_options(Tool *t) {
  const Options *o = &t->options;
  PlanOptions p = search_options(t);
  p.tp = degree_option(o, OPT_tp), p.pp = degree_option(o, OPT_pp), p.dp = degree_option(o, OPT_dp),
  p.cp = degree_option(o, OPT_cp);
  p.ep = degree_option(o, OPT_ep), p.micro_batches = degree_option(o, OPT_micro_batches);
  return p;
}

/* What is forced must be what the plan file says. */
static bool agrees(Tool *t, const Plan *p, const char *file) {
  const struct {
    OptionId id;
    const char *name;
    int has;
  } forced[] = {{OPT_tp, "--tp", p->tp}, {OPT_pp, "--pp", p->pp},
                {OPT_dp, "--dp", p->dp}, {OPT_ep, "--ep", p->ep},
                {OPT_cp, "--cp", p->cp}, {OPT_micro_batches, "--micro-batches", p->micro_batches}};
  for (size_t i = 0; i < sizeof forced / sizeof *forced; i++) {
    int want = (int)option_int(&t->options, forced[i].id, 0);
    if (want && want != forced[i].has)
      return diag_error(t->diags, DIAG_plan_options, (Loc){.file = file}, "%s %d was asked for, the plan has %d",
                        forced[i].name, want, forced[i].has);
  }
  return true;
}

static bool fits(Tool *t, const Build *b, const Plan *p, const char *file) {
  double limit = option_real(&t->options, OPT_memory, target_usable(b->target));
  return p->price.memory.total <= limit ||
         diag_error(t->diags, DIAG_plan_infeasible, (Loc){.file = file}, "the plan needs %s on a rank, %s are allowed",
                    show_bytes(t->arena, p->price.memory.total), show_bytes(t->arena, limit));
}

/* The plan is no alternative to itself; one of its degrees that takes another time is. */
static void add_alternative(Plan *p, PlanAlternative *list, const PlanAlternative *x) {
  bool same = x->tp == p->tp && x->pp == p->pp && x->dp == p->dp && x->cp == p->cp && x->ep == p->ep &&
              x->micro_batches == p->micro_batches;
  if (!same || fabs(x->seconds - p->price.time.total) > 1e-9 * p->price.time.total) list[p->nalternatives++] = *x;
}

/* What a search says beside its plan: the bound, and what else there is. */
static void compare_with_search(Tool *t, Plan *p, const Plan *searched) {
  const PlanAlternative best = {.tp = searched->tp,
                                .pp = searched->pp,
                                .dp = searched->dp,
                                .cp = searched->cp,
                                .ep = searched->ep,
                                .micro_batches = searched->micro_batches,
                                .seconds = searched->price.time.total,
                                .bytes = searched->price.memory.total};
  PlanAlternative *list = ARENA_ARRAY(t->arena, PlanAlternative, searched->nalternatives + 1);
  p->alternatives = list;
  add_alternative(p, list, &best);
  for (int i = 0; i < searched->nalternatives; i++) add_alternative(p, list, &searched->alternatives[i]);
  p->lower_bound = searched->lower_bound;
  p->gap = plan_gap(p->price.time.total, p->lower_bound);
  p->search_seconds = searched->search_seconds;
  p->cut_short = searched->cut_short;
  p->report = searched->report;
  p->flops = searched->flops;
}

/* A plan that cannot be used is refused before the search, which only who is shown the plan needs.  Then it is read
 * again, because the plan that is used has to leave its mesh in the module; that the search finds nothing is no error
 * here. */
static Plan *read_plan(Tool *t, Build *b, const char *file, const PlanOptions *options) {
  const char *text = file_read_text(t->diags, t->arena, file, NULL);
  if (!text) return NULL;
  diag_source(t->diags, file, text);
  Plan *p = plan_parse(b->model.m, b->l1, b->target, file, text, t->diags);
  if (!p || !agrees(t, p, file) || !fits(t, b, p, file)) return NULL;
  const Plan *searched =
      options->alternatives ? plan_search(b->model.m, b->l1, b->target, options, diags_new(t->arena)) : NULL;
  double one_device = plan_one_device_seconds(b->model.m, b->l1, b->target, options->memory_limit);
  p = plan_parse(b->model.m, b->l1, b->target, file, text, t->diags);
  p->one_device_seconds = one_device;
  if (searched) compare_with_search(t, p, searched);
  return p;
}

const char *build_temps(Tool *t, const char *name) {
  if (!option_given(&t->options, OPT_save_temps)) return NULL;
  const char *dir = option_text(&t->options, OPT_save_temps);
  return dir ? dir : arena_printf(t->arena, "%s.temps", name);
}

/* The texts of --save-temps: the IR as far as it has come, and the plan. */
static bool save_texts(Tool *t, const Build *b) {
  const char *dir = build_temps(t, b->model.name);
  if (!dir) return true;
  Text plan = {.arena = t->arena};
  const char *file = arena_printf(t->arena, "%s/%s.ir", dir, b->model.name),
             *l1 = ir_file_text(t->arena, b->model.m, file);
  plan_print(b->model.m, b->l1, b->plan, &plan);
  mkdir(dir, 0777); /* that it failed shows when the files are written */
  return file_write(t->diags, file, 0666, l1, strlen(l1)) &&
         file_write(t->diags, arena_printf(t->arena, "%s/%s.plan", dir, b->model.name), 0666, text_str(&plan), plan.n);
}

static bool save_plan(Tool *t, const Build *b, const char *file) {
  Text text = {.arena = t->arena};
  plan_print(b->model.m, b->l1, b->plan, &text);
  return file_write(t->diags, file, 0666, text_str(&text), text.n);
}

bool build_load(Tool *t, const char *path, const Target *target, Build *b) {
  *b = (Build){.target = target};
  if (!model_load(t, path, &b->model) || !model_check_known(t, &b->model)) return false;
  say_entries(t, &b->model);
  b->params = model_parameters(b->model.m); /* before passes make views of them */
  settle_hints(t, b);
  if (!model_passes(t, &b->model, target->device)) return false;
  find_entries(t, b);
  return true;
}

bool build_prints_plan(const Tool *t) {
  const char *save = option_text(&t->options, OPT_save_plan);
  return save && strcmp(save, "-") == 0;
}

static bool find_plan(Tool *t, Build *b, bool alternatives) {
  if (!degrees_possible(t, b->target)) return false;
  const char *file = option_text(&t->options, OPT_plan), *save = option_text(&t->options, OPT_save_plan);
  tool_stage(t, "Planning", "%s on %s: %s", b->model.path, b->target->name, target_line(t->arena, b->target));
  PlanOptions options = plan_options(t), unforced = search_options(t);
  double resident = 0;
  options.too_large = &resident;
  options.alternatives = unforced.alternatives = alternatives;
  int64_t micro_batch = option_int(&t->options, OPT_micro_batch, 0);
  b->plan = file          ? read_plan(t, b, file, &unforced)
            : micro_batch ? plan_micro_batch(t, b, &options, micro_batch)
                          : plan_search(b->model.m, b->l1, b->target, &options, t->diags);
  if (!b->plan && resident > 0 && !file) help_fewest(t, b, &options, resident);
  if (b->plan && t->times) {
    tool_stages_end(t);
    plan_times_report(t, &b->plan->report);
  }
  return b->plan && save_texts(t, b) && (!save || build_prints_plan(t) || save_plan(t, b, save));
}

bool build_plan(Tool *t, Build *b) { return find_plan(t, b, false); }
bool build_plan_shown(Tool *t, Build *b) { return find_plan(t, b, true); }

bool build_plan_one_rank(Tool *t, const char *path, Build *b) {
  const Target *cpu = tool_target_of(t, "cpu");
  if (!cpu || !build_load(t, path, cpu, b)) return false;
  tool_stage(t, "Planning", "%s on one rank%s", path, t->options.command == CMD_verify ? ", to compare with" : "");
  PlanOptions options = {.memory_limit = 1e18}; /* the memory is this machine's, not the target's */
  b->plan = plan_search(b->model.m, b->l1, b->target, &options, t->diags);
  return b->plan != NULL;
}

/* ---- lowering */

static Func *lower_entry(Tool *t, Build *b, CostModel *cost, const Func *l1, const Strategy *strategies,
                         const int *stages) {
  LowerPlan plan = {.strategies = strategies, .stages = stages, .cost = cost_move, .cost_context = cost};
  Func *l2 = lower_spmd(b->model.m, l1, &plan, arena_printf(t->arena, "%s.spmd", l1->name), t->diags);
  return l2 && verify_func(b->model.m, l2, t->diags) ? l2 : NULL;
}

static Func *lower_other(Tool *t, Build *b, CostModel *cost, const Func *l1) {
  Strategy *strategies = ARENA_ARRAY(t->arena, Strategy, l1->ops.n);
  int *stages = ARENA_ARRAY(t->arena, int, l1->ops.n);
  plan_carry(b->model.m, b->l1, b->plan->strategies, b->plan->stages, l1, strategies, stages);
  return lower_entry(t, b, cost, l1, strategies, stages);
}

/* What is done to weights at loading. */
static bool lower_weights(Tool *t, Build *b) {
  b->prepare_l1 = module_func(b->model.m, "prepare");
  if (!b->prepare_l1) return true;
  b->prepare_l2 = lower_prepare(b->model.m, b->prepare_l1, b->nentries, b->l2s, "prepare.spmd", t->diags);
  return b->prepare_l2 && verify_func(b->model.m, b->prepare_l2, t->diags);
}

bool build_lower(Tool *t, Build *b) {
  tool_stage(t, "Lowering", "%s to %d rank%s", b->model.path, b->plan->ranks, b->plan->ranks == 1 ? "" : "s");
  CostModel *cost = cost_model_new(b->model.m, b->target);
  b->l2s = ARENA_ARRAY(t->arena, Func *, b->nentries);
  bool ok = true;
  for (int i = 0; ok && i < b->nentries; i++) {
    b->l2s[i] = i == 0 ? lower_entry(t, b, cost, b->l1, b->plan->strategies, b->plan->stages)
                       : lower_other(t, b, cost, b->l1s[i]);
    ok = b->l2s[i] != NULL;
  }
  b->l2 = b->l2s[0];
  cost_model_free(cost);
  return ok && lower_weights(t, b);
}

bool build_lower_also(Tool *t, Build *b, Func *l1) {
  int n = b->nentries++;
  Func **l1s = ARENA_ARRAY(t->arena, Func *, n + 1), **l2s = ARENA_ARRAY(t->arena, Func *, n + 1);
  memcpy(l1s, b->l1s, sizeof *l1s * (size_t)n);
  memcpy(l2s, b->l2s, sizeof *l2s * (size_t)n);
  CostModel *cost = cost_model_new(b->model.m, b->target);
  l1s[n] = l1, l2s[n] = lower_other(t, b, cost, l1);
  b->l1s = l1s, b->l2s = l2s;
  cost_model_free(cost);
  return l2s[n] != NULL;
}

/* ---- the program */

/* The prebuilt runtime lies beside apc, or in the folder of an installation that tools.cmake names. */
const char *build_stub(Arena *a) {
  char self[4096];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n <= 0) return "apcrt-stub";
  self[n] = 0;
  *strrchr(self, '/') = 0;
  const char *beside = arena_printf(a, "%s/apcrt-stub", self),
             *installed = arena_printf(a, "%s/" APC_STUB_FOLDER "/apcrt-stub", self);
  return access(beside, R_OK) == 0 || access(installed, R_OK) != 0 ? beside : installed;
}

bool build_can_compile(Tool *t) {
  return artifact_stub_check(build_stub(t->arena), t->diags) && c_compiler_check(t->arena, t->diags, NULL);
}

/* By default weights are embedded while they are less than 1 GiB. */
static bool embeds(const Tool *t, const Module *m) {
  const char *how = option_text(&t->options, OPT_weights);
  if (how && strcmp(how, "ref") == 0) return false;
  if (how && strcmp(how, "embed") == 0) return true;
  double bytes = 0;
  for (size_t i = 0; i < m->blobs.n; i++) bytes += (double)m->blobs.items[i].bytes;
  return bytes < 0x1p30;
}

ArtifactSpec build_artifact_spec(Tool *t, const Build *b, const char *out) {
  ProgramEntrySpec *entries = ARENA_ARRAY(t->arena, ProgramEntrySpec, b->nentries);
  for (int i = 0; i < b->nentries; i++) entries[i] = (ProgramEntrySpec){b->l1s[i]->name, b->l1s[i], b->l2s[i]};
  return (ArtifactSpec){.source = {.m = b->model.m,
                                   .nentries = b->nentries,
                                   .entries = entries,
                                   .prepare_l1 = b->prepare_l1,
                                   .prepare_l2 = b->prepare_l2,
                                   .embed = embeds(t, b->model.m)},
                        .name = b->model.name,
                        .target = b->target->name,
                        .producer = "apc " APC_VERSION,
                        .stub = build_stub(t->arena),
                        .out = out,
                        .save_temps = build_temps(t, b->model.name)};
}

bool build_program(Tool *t, Build *b, const char *out) {
  ArtifactSpec spec = build_artifact_spec(t, b, out);
  if (!save_texts(t, b)) return false;
  tool_stage(t, "Compiling", "%s", out);
  return artifact_write(&spec, &b->report, t->diags);
}

void build_free(Build *b) { model_free(&b->model); }
