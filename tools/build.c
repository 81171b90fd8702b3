/* tools/build.c - see build.h. */
#include "tools/build.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "driver/weight_files.h"
#include "ir/schedule.h"
#include "passes/train/train.h"
#include "tools/option_values.h"
#include "tools/outputs.h"
#include "tools/pass_name.h"
#include "tools/plan_entries.h"
#include "tools/plan_questions.h"
#include "tools/plan_times.h"
#include "tools/values.h"
#include "tools/weights_dtype.h"

/* ---- words */

static void add_degree(Text *t, const int degree[DEGREE_COUNT], int d) {
  if (degree[d] > 1) text_printf(t, "%s%s %d", t->n ? " x " : "", degree_names[d], degree[d]);
}

/* Prints tensor parallelism first, as users know it best, then the others from the outermost in. */
const char *tool_degrees_text(Arena *a, const int degree[DEGREE_COUNT], int micro_batches) {
  Text t = {.arena = a};
  add_degree(&t, degree, DEGREE_tp);
  for (int d = 0; d < DEGREE_COUNT; d++)
    if (d != DEGREE_tp) add_degree(&t, degree, d);
  if (!t.n) text_add(&t, "one rank");
  if (micro_batches > 1) text_printf(&t, ", %d micro-batches", micro_batches);
  return text_str(&t);
}

/* ---- the model */

/* True for commands that need the meaning of every operation; the others show or plan models with unknown ones.  `apc
 * inspect --unsupported` reports as compile would. */
static bool computes(const Tool *t) {
  Command c = t->options.command;
  if (c == CMD_inspect) return option_given(&t->options, OPT_unsupported);
  return c == CMD_compile || c == CMD_run || c == CMD_verify || c == CMD_bench;
}

typedef struct DimSizes {
  DimSize *items;
  size_t n, cap;
} DimSizes;

/* Adds the size; false if the dimension has another one. */
static bool add_size(Arena *a, DimSizes *list, DimSize d) {
  for (size_t i = 0; i < list->n; i++) {
    const DimSize *had = &list->items[i];
    if (strcmp(had->name, d.name) == 0) return had->size == d.size;
  }
  ARENA_PUSH(a, list, d);
  return true;
}

const DimSize *tool_dim_sizes(Tool *t, OptionId id, size_t *count) {
  DimSizes list = {0};
  size_t at = 0;
  *count = 0;
  for (const OptionUse *u; (u = option_next(&t->options, id, &at));) {
    for (const char *p = u->value; *p;) {
      size_t n = strcspn(p, ",");
      DimSize d;
      const char *number;
      split_size(t->arena, p, n, &d.name, &number);
      tool_parse_whole(number, &d.size);
      if (!add_size(t->arena, &list, d)) {
        diag_error(t->diags, DIAG_usage_value, (Loc){0}, "%s gives '%s' two sizes", option_rows[id].flag, d.name);
        return NULL;
      }
      p += n + (p[n] == ',');
    }
  }
  *count = list.n;
  return list.items ? list.items : ARENA_ARRAY(t->arena, DimSize, 1);
}

static InputShape input_shape(Arena *a, const char *value) {
  const char *text;
  InputShape s = {.rank = 1};
  split_size(a, value, strlen(value), &s.name, &text);
  for (const char *p = text; *p; p++) s.rank += *p == ',' || *p == 'x';
  int64_t *dims = ARENA_ARRAY(a, int64_t, s.rank);
  for (int i = 0; i < s.rank; i++) {
    size_t length = strcspn(text, ",x");
    tool_parse_whole(arena_strndup(a, text, length), &dims[i]);
    text += length + (i + 1 < s.rank);
  }
  s.dims = dims;
  return s;
}

static const InputShape *input_shapes(Tool *t, size_t *count) {
  struct {
    InputShape *items;
    size_t n, cap;
  } list = {0};
  size_t at = 0;
  for (const OptionUse *u; (u = option_next(&t->options, OPT_shape, &at));)
    ARENA_PUSH(t->arena, &list, input_shape(t->arena, u->value));
  *count = list.n;
  return list.items;
}

static const DslDefine *defines(Tool *t, int *count) {
  struct {
    DslDefine *items;
    size_t n, cap;
  } list = {0};
  size_t at = 0;
  for (const OptionUse *u; (u = option_next(&t->options, OPT_define, &at));) {
    DslDefine d;
    split_binding(t->arena, u->value, strlen(u->value), &d.name, &d.value);
    ARENA_PUSH(t->arena, &list, d);
  }
  *count = (int)list.n;
  return list.items;
}

/* The values of a repeatable option. */
static const char *const *texts(Tool *t, OptionId id, size_t *count) {
  struct {
    const char **items;
    size_t n, cap;
  } list = {0};
  size_t at = 0;
  for (const OptionUse *u; (u = option_next(&t->options, id, &at));) ARENA_PUSH(t->arena, &list, u->value);
  *count = list.n;
  return list.items;
}

static DriverEmbed embed(const Tool *t) {
  const char *how = option_text(&t->options, OPT_weights);
  bool all = option_given(&t->options, OPT_weights_dtype); /* their file is temporary */
  if (how && strcmp(how, "ref") == 0) return EMBED_NONE;
  return all || (how && strcmp(how, "embed") == 0) ? EMBED_ALL : EMBED_SMALL;
}

/* Sets *file to the source of the weights; with --weights ref or embed, NULL, as these name no source. */
static bool weights_file(Tool *t, const char **file) {
  const char *from = option_text(&t->options, OPT_weights);
  const bool named = from && strcmp(from, "ref") != 0 && strcmp(from, "embed") != 0;
  *file = named ? from : NULL;
  if (!named && option_given(&t->options, OPT_map))
    return diag_error(t->diags, DIAG_usage_option, (Loc){0}, "--map needs --weights FILE or a folder");
  if (!*file || driver_files_is_path(from)) return true;
  return diag_error(t->diags, DIAG_usage_value, (Loc){0},
                    "option '--weights' takes ref, embed, FILE.safetensors, an .index.json or a folder, not '%s'",
                    from);
}

static void show_stage(void *tool, const char *verb, const char *text) { tool_stage(tool, verb, "%s", text); }
static void show_said(void *tool, const char *verb, const char *text) { tool_say(tool, verb, "%s", text); }
static bool accept_model(void *tool, const Module *m) {
  tool_values_say(tool);
  return outputs_check_weights(tool, m);
}

static bool add_pad(Tool *t, TrainingRules *r, const char *value) {
  TrainingPad pad;
  const char *row;
  split_size(t->arena, value, strlen(value), &pad.table, &row);
  bool negative = *row == '-';
  if (!tool_parse_whole(row + negative, &pad.row))
    return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--pad takes TABLE=ID with a whole number, not '%s'",
                      value);
  if (negative) pad.row = -pad.row;
  ARENA_PUSH(t->arena, &r->pads, pad);
  return true;
}

/* A glob alone: where an exporter removed a dropout, the file does not say. */
static bool add_mode(Tool *t, TrainingRules *r, const char *value) {
  if (strchr(value, '='))
    return diag_error(t->diags, DIAG_later_train_mode, (Loc){0},
                      "--train-mode %s: inserting a dropout that is not in the file is not built yet", value);
  ARENA_PUSH(t->arena, &r->modes, value);
  return true;
}

/* Collects the options about weights, in the order of the command line. */
static bool training_rules(Tool *t, TrainingRules *r) {
  bool ok = true;
  for (size_t i = 0; i < t->options.uses.n; i++) {
    const OptionUse *u = &t->options.uses.items[i];
    TrainingTie tie = {0};
    switch (u->option) {
      case OPT_trainable: ARENA_PUSH(t->arena, &r->globs, ((TrainingGlob){u->value, true})); break;
      case OPT_freeze: ARENA_PUSH(t->arena, &r->globs, ((TrainingGlob){u->value, false})); break;
      case OPT_untie: ARENA_PUSH(t->arena, &r->untied, u->value); break;
      case OPT_train_mode: ok = add_mode(t, r, u->value) && ok; break;
      case OPT_layer_drop: ok = tool_layer_drop(t, r, u->value) && ok; break;
      case OPT_pad: ok = add_pad(t, r, u->value) && ok; break;
      case OPT_tie:
        split_binding(t->arena, u->value, strlen(u->value), &tie.kept, &tie.tied);
        ARENA_PUSH(t->arena, &r->ties, tie);
        break;
      default: break;
    }
  }
  return ok;
}

/* Reads --train and --optimizer; options that only --train gives a meaning are errors without it. */
static bool train_options(Tool *t, ModelOptions *o) {
  const char *loss = option_text(&t->options, OPT_train);
  const OptionId of_training[] = {OPT_optimizer, OPT_batch, OPT_zero, OPT_trainable,  OPT_freeze,
                                  OPT_tie,       OPT_untie, OPT_pad,  OPT_train_mode, OPT_layer_drop};
  bool sharded = option_given(&t->options, OPT_zero) && strcmp(option_text(&t->options, OPT_zero), "0") != 0;
  for (size_t i = 0; !loss && i < sizeof of_training / sizeof *of_training; i++)
    if (of_training[i] == OPT_zero ? sharded : option_given(&t->options, of_training[i]))
      return diag_error(t->diags, DIAG_usage_option, (Loc){0}, "%s needs --train", option_rows[of_training[i]].flag);
  const char *schedule = option_text(&t->options, OPT_schedule);
  if (!loss && schedule && strcmp(schedule, "gpipe") != 0)
    return diag_error(t->diags, DIAG_usage_option, (Loc){0},
                      "--schedule %s needs --train: inference runs micro-batches in order", schedule);
  PipelineSchedule known;
  int chunks;
  if (schedule && !schedule_parse(schedule, strlen(schedule), &known, &chunks))
    return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--schedule %s: a pipeline rank has 2 to 64 stages",
                      schedule);
  const OptionId or_none[] = {OPT_offload, OPT_recompute};
  for (size_t i = 0; !loss && i < sizeof or_none / sizeof *or_none; i++) {
    const char *what = option_text(&t->options, or_none[i]);
    if (what && strcmp(what, "none") != 0)
      return diag_error(t->diags, DIAG_usage_option, (Loc){0}, "%s %s needs --train", option_rows[or_none[i]].flag,
                        what);
  }
  if (!loss) return true;
  TrainOptions *train = ARENA_NEW(t->arena, TrainOptions);
  TrainingRules *rules = ARENA_NEW(t->arena, TrainingRules);
  train->loss = loss;
  train->rules = rules;
  train->scaled = o->floats == DT_f16;
  rules->seed = option_int(&t->options, OPT_seed, 0);
  if (!training_rules(t, rules)) return false;
  o->train = train;
  return optimizer_parse(t->arena, option_text(&t->options, OPT_optimizer), &train->optimizer, t->diags);
}

/* Only the sizes of an .onnx model may depend on the elements of an input. */
static bool input_values(Tool *t, ModelOptions *o) {
  if (model_kind(o->path) != MODEL_ONNX)
    return !option_given(&t->options, OPT_const) ||
           diag_error(t->diags, DIAG_usage_option, (Loc){0}, "--const binds inputs of .onnx models, which %s is not",
                      o->path);
  const ToolValues *values = tool_values(t);
  if (values) o->values = values->items, o->nvalues = values->n;
  return values != NULL;
}

static bool model_options(Tool *t, const char *path, ModelOptions *o) {
  const Options *given = &t->options;
  *o = (ModelOptions){.arena = t->arena,
                      .diags = t->diags,
                      .path = path,
                      .computes = computes(t),
                      .seeded = option_given(given, OPT_seed),
                      .seed = option_int(given, OPT_seed, 0),
                      .batch = option_int(given, OPT_batch, 0),
                      .kv_cache = option_int(given, OPT_kv_cache, 0),
                      .floats = t->computes_f32 ? (DType)0 : compute_storage(tool_compute(t)),
                      .print_after = option_text(given, OPT_print_after),
                      .times = t->times,
                      .checks = t->checks,
                      .watch = {t, show_stage, show_said, accept_model}};
  const char *configuration = option_text(given, OPT_configuration); /* annotations are those of the graph */
  o->graph = configuration && strcmp(configuration, "none") != 0;
  o->dims = tool_dim_sizes(t, OPT_dim, &o->ndims);
  o->hints = tool_dim_sizes(t, OPT_dim_hint, &o->nhints);
  o->shapes = input_shapes(t, &o->nshapes);
  o->operators = texts(t, OPT_op, &o->noperators);
  o->libraries = texts(t, OPT_op_library, &o->nlibraries);
  o->defines = defines(t, &o->ndefines);
  return o->dims && o->hints && tool_print_after_check(t->diags, o->print_after, NULL) &&
         weights_file(t, &o->weights) && tool_weight_maps(t, &o->maps) && train_options(t, o) && tool_lora(t, o) &&
         input_values(t, o) && tool_weights_dtype(t, o);
}

bool tool_model(Tool *t, const char *path, Model *out) {
  ModelOptions o;
  *out = (Model){0};
  return model_options(t, path, &o) && model_load(&o, out);
}

bool tool_model_parameters(Tool *t, const char *path, DslParameters *parameters, Model *out) {
  ModelOptions o;
  *out = (Model){0};
  if (!model_options(t, path, &o)) return false;
  o.parameters = parameters;
  return model_load(&o, out);
}

bool tool_model_again(Tool *t, const char *path, struct OnnxPlaces *places, Model *out) {
  ModelOptions o;
  *out = (Model){0};
  if (!model_options(t, path, &o)) return false;
  o.places = places, o.watch = (DriverWatch){0};
  o.diags = diags_new(t->arena); /* warnings were reported at the first reading */
  bool ok = model_load(&o, out);
  if (!ok) diags_append(t->diags, o.diags);
  return ok;
}

bool tool_model_with_own_weights(Tool *t, const char *path, Model *out) {
  ModelOptions o;
  *out = (Model){0};
  if (!model_options(t, path, &o)) return false;
  o.weights_named = true;
  return model_load(&o, out);
}

bool tool_model_imported(Tool *t, const char *path, Model *out) {
  ModelOptions o;
  *out = (Model){0};
  return model_options(t, path, &o) && model_load(&o, out) && model_train(&o, out);
}

bool tool_model_step(Tool *t, const char *path, int rate, Model *out, const TrainOptions **options) {
  const int64_t few = 3;
  ModelOptions o;
  *out = (Model){0};
  if (!model_options(t, path, &o)) return false;
  TrainOptions *train = ARENA_NEW(t->arena, TrainOptions);
  *train = *o.train;
  train->report = ARENA_NEW(t->arena, TrainReport);
  *options = train;
  if (rate) {
    const char *kept = train->optimizer.train, *frozen = train->optimizer.freeze;
    if (!optimizer_parse(t->arena, arena_printf(t->arena, "sgd(lr=%d)", rate), &train->optimizer, t->diags))
      return false;
    train->optimizer.train = kept, train->optimizer.freeze = frozen;
    train->scaled = false;
  }
  o.train = train;
  o.batch_most = few;
  o.watch = (DriverWatch){0};
  return model_load(&o, out) && model_train(&o, out);
}

bool tool_model_known(Tool *t, const Model *model) {
  ModelOptions o = {.arena = t->arena, .diags = t->diags, .computes = computes(t)};
  return model_check_known(&o, model);
}

/* ---- the plan */

/* Refuses degrees and micro-batch counts above 2^31; the message shows them as written. */
static bool number_possible(Tool *t, const Target *g, OptionId id, const char *name) {
  int64_t v = option_int(&t->options, id, 0);
  return v <= INT32_MAX || diag_error(t->diags, DIAG_plan_infeasible, (Loc){0},
                                      "%s %" PRId64 " is not possible on %s, which has %d rank%s", name, v, g->name,
                                      g->ranks, g->ranks == 1 ? "" : "s");
}

static const OptionId degree_options[DEGREE_COUNT] = {
#define DEGREE(name, place, label, help) [DEGREE_##name] = OPT_##name,
#include "passes/plan/degrees.def"
#undef DEGREE
};

static bool degrees_possible(Tool *t, const Target *g) {
  for (int i = 0; i < DEGREE_COUNT; i++) {
    Degree d = degrees_listed[i];
    if (!number_possible(t, g, degree_options[d], degree_names[d])) return false;
  }
  return number_possible(t, g, OPT_micro_batches, "micro-batches");
}

static Recompute recompute_option(const Options *o) {
  const char *text = option_text(o, OPT_recompute);
  Recompute r = {RECOMPUTE_auto, 0};
  if (text) recompute_parse(text, &r);
  return r;
}

/* A percentage is of the target's whole memory, including the reserved part. */
static double memory_option(const Options *o, const Target *target) {
  double asked = option_real(o, OPT_memory, 0);
  return asked < 0 ? -asked * target->memory_bytes : asked;
}

/* "10%": 0.1 */
static bool parse_part(Arena *a, const char *text, double *part) {
  size_t n = strlen(text);
  bool ok = n > 1 && text[n - 1] == '%' && tool_parse_real(arena_strndup(a, text, n - 1), part);
  *part /= 100;
  return ok && *part > 0 && *part <= 100;
}

static DriverObjective objective_named(const char *name) {
  static const char *const names[] = {"latency", "throughput", "memory", "cost"};
  int i = 0;
  while (strcmp(names[i], name) != 0) i++; /* one of options.def */
  return (DriverObjective)i;
}

/* Reads --slower of --objective memory: the largest slowdown against the fastest plan, as a fraction.  False after a
 * diagnostic. */
static bool slower_option(Tool *t, DriverObjective objective, double *part) {
  const double usual = 0.1;
  const char *text = option_text(&t->options, OPT_slower);
  *part = usual;
  if (text && !parse_part(t->arena, text, part))
    return diag_error(t->diags, DIAG_usage_value, (Loc){0},
                      "--slower takes a percentage like 10%%, up to 10000%%, not '%s'", text);
  return !text || objective == OBJECTIVE_memory ||
         diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--slower needs --objective memory");
}

/* Reads --max-latency in seconds; 0 if not given. */
static bool latency_option(Tool *t, bool replicas, double *seconds) {
  const char *text = option_text(&t->options, OPT_max_latency);
  int ms = 0;
  if (text && tool_parse_time(text, &ms)) *seconds = ms / 1e3;
  return !text || replicas ||
         diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--max-latency needs --objective throughput or cost");
}

static bool price_known(Tool *t, const Target *g) {
  const char *kind = option_given(&t->options, OPT_price) ? arena_printf(t->arena, "%s ", price_name(g->price)) : "";
  if (!isnan(target_price(g)->usd_per_hour)) return true;
  diag_error(t->diags, DIAG_target_price, (Loc){0}, "--objective cost: the %sprice of %s is not known", kind, g->name);
  diag_help(t->diags, "`apc targets show %s` prints a file that a line `price` can be added to (docs/guide/targets.md)",
            g->name);
  return false;
}

/* Reads --objective.  --compare, --what-if and --pin concern the time of a batch on the whole target. */
static bool objective_options(Tool *t, const Target *g, DriverOptions *out) {
  static const OptionId other[] = {OPT_compare, OPT_what_if, OPT_pin};
  const Options *o = &t->options;
  const char *name = option_given(o, OPT_objective) ? option_text(o, OPT_objective) : "latency";
  out->objective = objective_named(name);
  bool replicas = out->objective == OBJECTIVE_throughput || out->objective == OBJECTIVE_cost;
  if (out->objective != OBJECTIVE_latency && option_given(o, OPT_plan))
    return diag_error(t->diags, DIAG_usage_value, (Loc){0},
                      "--objective %s and --plan cannot be combined: both determine the plan", name);
  for (size_t i = 0; replicas && i < sizeof other / sizeof *other; i++)
    if (option_given(o, other[i]))
      return diag_error(t->diags, DIAG_usage_value, (Loc){0},
                        "%s cannot be combined with --objective %s: it concerns the time of a batch",
                        option_rows[other[i]].flag, name);
  if (replicas && option_given(o, OPT_optimize))
    return diag_error(
        t->diags, DIAG_usage_value, (Loc){0},
        "--optimize cannot be combined with --objective %s: it minimises the time of all calls of entries", name);
  if (replicas && g->nkinds)
    return diag_error(
        t->diags, DIAG_usage_value, (Loc){0},
        "--objective %s needs a target with equal devices, to divide into equal parts; %s has different ones (%s)",
        name, g->name, g->part);
  return slower_option(t, out->objective, &out->slower) && latency_option(t, replicas, &out->plan.most_seconds) &&
         (out->objective != OBJECTIVE_cost || price_known(t, g));
}

static PlanOptions plan_options(Tool *t, const Target *target) {
  const double least_effort = 1e-9; /* --effort 0 is a limit, too */
  const Options *o = &t->options;
  PlanOptions p = {.memory_limit = memory_option(o, target),
                   .show = t->quiet ? NULL : tool_times_show,
                   .show_context = t,
                   .micro_batches = (int)option_int(o, OPT_micro_batches, 0),
                   .recompute = recompute_option(o)};
  for (int i = 0; i < DEGREE_COUNT; i++) p.degree[i] = (int)option_int(o, degree_options[i], 0);
  if (option_given(o, OPT_zero)) p.zero = 1 + option_text(o, OPT_zero)[0] - '0';
  const char *schedule = option_text(o, OPT_schedule);
  PipelineSchedule given;
  if (schedule && schedule_parse(schedule, strlen(schedule), &given, &p.chunks)) p.schedule = 1 + (int)given;
  if (option_given(o, OPT_effort)) p.effort = fmax(option_real(o, OPT_effort, 0), least_effort);
  return p;
}

const char *tool_temps(Tool *t, const char *name) {
  if (!option_given(&t->options, OPT_save_temps)) return NULL;
  const char *dir = option_text(&t->options, OPT_save_temps);
  return dir ? dir : arena_printf(t->arena, "%s.temps", name);
}

bool tool_prints_plan(const Tool *t) {
  const char *save = option_text(&t->options, OPT_save_plan);
  return save && strcmp(save, "-") == 0;
}

static bool begin(Tool *t, const char *path, const Target *target, Build *b) {
  DriverOptions o = {.target = target,
                     .save_temps = tool_temps(t, model_name(t->arena, path)),
                     .embed = embed(t),
                     .cache = tool_cache(t),
                     .stub = tool_stub(t->arena),
                     .producer = "apc " APC_VERSION};
  bool ok = model_options(t, path, &o.model);
  driver_begin(b, &o);
  return ok;
}

bool tool_load(Tool *t, const char *path, const Target *target, Build *b) {
  if (!begin(t, path, target, b)) return false;
  DriverOptions *o = &b->options;
  o->target_text = arena_printf(t->arena, "%s: %s", target->name, tool_target_line(t->arena, target));
  o->plan = plan_options(t, target);
  o->micro_batch = option_int(&t->options, OPT_micro_batch, 0);
  o->plan_file = option_text(&t->options, OPT_plan);
  const char *offload = option_text(&t->options, OPT_offload);
  o->offload_given = offload != NULL;
  if (offload) offload_find(offload, strlen(offload), &o->offload);
  o->configuration = option_text(&t->options, OPT_configuration);
  o->save_plan = tool_prints_plan(t) ? NULL : option_text(&t->options, OPT_save_plan);
  return tool_weights_dtype_runs(t, target) && tool_calls(t, &o->calls, &o->ncalls) &&
         objective_options(t, target, o) && tool_pins(t, &o->plan.pins, &o->plan.npins) &&
         tool_compared(t, &o->named, &o->nnamed) && driver_run(b, DRIVER_simplify);
}

static bool find_plan(Tool *t, Build *b, bool alternatives) {
  b->options.plan.alternatives = alternatives;
  bool ok = degrees_possible(t, b->options.target) && driver_run(b, DRIVER_plan);
  if (b->plan && t->times) {
    tool_stages_end(t);
    tool_times_report(t, &b->plan->report);
  }
  return ok && driver_measure(b);
}

bool tool_plan(Tool *t, Build *b) { return find_plan(t, b, false); }

/* The first signal that would end apc stops the search, the second ends apc. */
static volatile sig_atomic_t asked_to_stop;

static void stop_search(int signal) { asked_to_stop = signal; }

bool tool_plan_shown(Tool *t, Build *b) {
  static const int signals[] = {SIGINT, SIGTERM};
  enum { SIGNALS = sizeof signals / sizeof *signals };
  struct sigaction was[SIGNALS], stop = {.sa_handler = stop_search, .sa_flags = (int)SA_RESETHAND};
  b->options.plan.stop = &asked_to_stop;
  for (int i = 0; i < SIGNALS; i++) {
    sigaction(signals[i], NULL, &was[i]);
    if (was[i].sa_handler != SIG_IGN) sigaction(signals[i], &stop, NULL);
  }
  bool ok = find_plan(t, b, true);
  for (int i = 0; i < SIGNALS; i++) sigaction(signals[i], &was[i], NULL);
  t->stopped = asked_to_stop != 0;
  return ok;
}

bool tool_plan_one_rank(Tool *t, const char *path, Build *b) {
  const Target *cpu = tool_target_of(t, "cpu");
  *b = (Build){0};
  if (!cpu || !begin(t, path, cpu, b)) return false;
  b->options.target_text = t->options.command == CMD_verify ? "one rank, to compare with" : "one rank";
  b->options.plan = (PlanOptions){.memory_limit = 1e18}; /* limited by this machine, not by the target */
  return driver_run(b, DRIVER_plan);
}

/* ---- the program */

const Cache *tool_cache(Tool *t) {
  if (t->cache_asked) return t->cache;
  const char *folder = cache_folder(t->arena);
  t->cache_asked = true;
  if (folder) t->cache = cache_open(t->arena, folder, true);
  if (t->cache && t->cache->why_not && getenv("APC_CACHE"))
    diag_warning(t->diags, DIAG_cache_unused, (Loc){0}, "cannot use the cache folder that APC_CACHE names, %s: %s",
                 folder, t->cache->why_not);
  return t->cache;
}

/* The prebuilt runtime is beside apc, or in the folder of an installation (tools.cmake). */
const char *tool_stub(Arena *a) {
  char self[4096];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n <= 0) return "apcrt-stub";
  self[n] = 0;
  *strrchr(self, '/') = 0;
  const char *beside = arena_printf(a, "%s/apcrt-stub", self),
             *installed = arena_printf(a, "%s/" APC_STUB_FOLDER "/apcrt-stub", self);
  return access(beside, R_OK) == 0 || access(installed, R_OK) != 0 ? beside : installed;
}

bool tool_can_compile(Tool *t, const DeviceTraits *device) {
  return codegen_stub_check(tool_stub(t->arena), t->diags) &&
         kernel_target(device)->ready(t->arena, t->diags, tool_cache(t));
}
