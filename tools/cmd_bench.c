/* tools/cmd_bench.c - apc bench MODEL|PROGRAM: runs it repeatedly and reports statistics of the times.
 *
 * A model is compiled into a temporary folder first (tools/running.h).  A compiled program, recognised by its last
 * bytes, starts its own ranks as it does alone (runtime/apc_runtime.h), and its failures have its exit codes.
 */
#include <inttypes.h>

#include "base/json_text.h"
#include "base/statistics.h"
#include "program/artifact.h"
#include "tools/expect.h"
#include "tools/plan_entries.h"
#include "tools/plan_report.h"
#include "tools/running.h"

/* The measured program. */
typedef struct Subject {
  const char *path, *model, *target; /* model: the program's name for it; NULL if path is a model */
  const char *how;                   /* the plan, in words */
  double predicted_s;                /* 0 if unknown */
  bool measured;                     /* with figures of apc calibrate */
  ApcModel *program;
} Subject;

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

/* ---- reports */

static void print_statistics(Tool *t, const Subject *b, const Statistics *s, int runs) {
  Arena *a = t->arena;
  int64_t batch = apc_batch(b->program);
  if (b->model) fprintf(t->results, "%s, %s for %s", b->path, b->model, b->target);
  else fprintf(t->results, "%s on %s", b->path, b->target);
  fprintf(t->results, ", %s, %d run%s\n", b->how, runs, plural(runs));
  fprintf(t->results, "  mean        %s +- %s\n  median      %s\n  p90         %s\n  p99         %s\n",
          show_seconds(a, s->mean), show_seconds(a, s->deviation), show_seconds(a, s->median), show_seconds(a, s->p90),
          show_seconds(a, s->p99));
  fprintf(t->results, "  range       %s ... %s\n  throughput  %.1f requests/s%s\n", show_seconds(a, s->least),
          show_seconds(a, s->most), (double)batch / s->mean,
          batch > 1 ? arena_printf(a, ", %" PRId64 " in a run", batch) : "");
  if (b->predicted_s > 0)
    fprintf(t->results, "  predicted   %s (for the %s figures of target %s)\n", show_seconds(a, b->predicted_s),
            b->measured ? "measured" : "fixed", b->target);
}

static void print_json(Tool *t, const Subject *b, const Statistics *s, int runs, json_t *expected, bool ok) {
  json_t *predicted = b->predicted_s > 0 ? json_real(b->predicted_s * 1e6) : json_null();
  tool_json(
      t, json_pack("{s:s, s:o, s:o, s:o, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:f, s:o, s:O, s:b}",
                   "schema", "apc.bench/1", "model", json_text(b->model ? b->model : b->path), "program",
                   json_text(b->model ? b->path : NULL), "target", json_text(b->target), "ranks", apc_ranks(b->program),
                   "runs", runs, "mean_us", s->mean * 1e6, "stddev_us", s->deviation * 1e6, "min_us", s->least * 1e6,
                   "median_us", s->median * 1e6, "p90_us", s->p90 * 1e6, "p99_us", s->p99 * 1e6, "max_us",
                   s->most * 1e6, "batch", (json_int_t)apc_batch(b->program), "requests_per_s",
                   (double)apc_batch(b->program) / s->mean, "predicted_us", predicted, "expected", expected, "ok", ok));
}

/* ---- measuring */

static int measure(Tool *t, const Subject *b, json_t *expected, bool ok) {
  int runs = (int)option_int(&t->options, OPT_runs, 20), warmup = (int)option_int(&t->options, OPT_warmup, 3),
      code = EXIT_OK; /* check_runs */
  double *seconds = ARENA_ARRAY(t->arena, double, runs);
  for (int i = -warmup; code == EXIT_OK && i < runs; i++) {
    double begin = tool_now_ms();
    code = tool_program_status(t, b->program, apc_run_again(b->program));
    if (i >= 0) seconds[i] = (tool_now_ms() - begin) / 1e3;
  }
  if (code != EXIT_OK) return code;
  tool_stages_end(t);
  Statistics s = statistics_of(seconds, (size_t)runs);
  if (option_given(&t->options, OPT_json)) print_json(t, b, &s, runs, expected, ok);
  else print_statistics(t, b, &s, runs);
  return ok ? EXIT_OK : EXIT_MISMATCH;
}

/* Checks --expect after the first run, as states change from run to run; then measures. */
static int compare_and_measure(Tool *t, const Subject *b, Npz *want) {
  int code = EXIT_OK;
  bool ok = true;
  Tensors outputs = {0};
  json_t *expected = json_array();
  if (want && outputs_read(t, b->program, &outputs, &code)) {
    tool_stages_end(t);
    if (!expect_compare(t, want, &outputs, expected, &ok)) code = tool_failed(t->diags);
  }
  if (code == EXIT_OK) code = measure(t, b, expected, ok);
  tensors_free(&outputs);
  json_decref(expected);
  return code;
}

/* ---- a model */

static int bench_model(Tool *t) {
  Running r = {0};
  int code = running_start(t, &r);
  if (code == EXIT_OK) {
    const Plan *p = r.build.plan;
    Subject b = {.path = r.build.model.path,
                 .target = r.build.options.target->name,
                 .how = tool_degrees_text(t->arena, p->degree, p->micro_batches),
                 .predicted_s = tool_entry_seconds(&r.build, 0), /* which runs */
                 .measured = r.build.options.target->measured != NULL,
                 .program = r.program};
    code = compare_and_measure(t, &b, r.expected);
  }
  running_stop(&r);
  return code;
}

/* ---- a program */

/* Refuses options that concern compilation. */
static bool check_options(Tool *t, const char *path) {
  for (size_t i = 0; i < t->options.uses.n; i++) {
    OptionId id = t->options.uses.items[i].option;
    const OptionRow *row = &option_rows[id];
    bool compiles = (row->commands & 1u << CMD_compile) && !(row->commands & 1u << CMD_explain);
    if (compiles && id != OPT_dim && id != OPT_weights)
      return diag_error(t->diags, DIAG_usage_option, (Loc){0},
                        "option '%s' concerns compilation, but %s is already compiled", row->flag, path);
  }
  return true;
}

/* Binds random inputs; also collects the names of the inputs, for --input. */
static ApcStatus bind_random(Tool *t, ApcModel *m, Tensors *names) {
  *names = (Tensors){.items = ARENA_ARRAY(t->arena, NamedTensor, (size_t)apc_inputs(m) + 1)};
  ApcStatus status = APC_OK;
  for (int i = 0; i < apc_inputs(m) && !status; i++) {
    ApcTensorInfo info;
    status = apc_input_info(m, i, &info);
    if (!status) status = apc_bind_input_text(m, info.name, "random");
    if (!status) names->items[names->n++].name = arena_strdup(t->arena, info.name);
  }
  return status;
}

static ApcStatus bind_sizes(ApcModel *m, const DimSize *sizes, size_t n) {
  ApcStatus status = APC_OK;
  for (size_t i = 0; i < n && !status; i++) status = apc_bind_dim(m, sizes[i].name, sizes[i].size);
  return status;
}

/* Binds random values, then the inputs of the line in order.  Returns an exit code. */
static int bind_inputs(Tool *t, ApcModel *m) {
  Tensors names;
  size_t n;
  const DimSize *sizes = tool_dim_sizes(t, OPT_dim, &n);
  if (!sizes) return tool_failed(t->diags);
  ApcStatus status = bind_random(t, m, &names);
  if (!status) status = bind_sizes(m, sizes, n);
  for (size_t i = 0; i < t->options.uses.n && !status; i++) {
    const OptionUse *u = &t->options.uses.items[i];
    const char *name, *value;
    if (u->option == OPT_inputs) status = apc_bind_inputs_file(m, u->value);
    if (u->option != OPT_input) continue;
    if (!split_input(t, &names, u->value, &name, &value)) return tool_failed(t->diags);
    status = apc_bind_input_text(m, name, value);
  }
  return tool_program_status(t, m, status);
}

static int run_program(Tool *t, const Artifact *artifact, const char *path, Npz *expected) {
  const Program *p = &artifact->program;
  int code = EXIT_OK;
  Subject b = {.path = path,
               .model = program_text(p, p->header->name),
               .target = program_text(p, p->header->target),
               .how = arena_printf(t->arena, "%u rank%s", p->ranks, plural(p->ranks))};
  tool_stage(t, "Running", "on %s", b.how);
  b.program = tool_program_open(t, path, option_text(&t->options, OPT_weights), &code);
  if (b.program) code = bind_inputs(t, b.program);
  if (code == EXIT_OK) code = tool_program_status(t, b.program, apc_run(b.program, NULL));
  if (code == EXIT_OK) code = compare_and_measure(t, &b, expected);
  apc_close(b.program);
  return code;
}

static int bench_program(Tool *t, const char *path) {
  Artifact artifact;
  RtError error = {0};
  Npz *expected;
  if (artifact_open_tables(path, path, &artifact, &error) != RT_OK) {
    diag_error(t->diags, DIAG_model_kind, (Loc){.file = path}, "this is neither a model nor a program of apc: %s",
               error.text);
    diag_help(t->diags, "models have the extension .onnx, .apc or .ir; programs are recognised by their last bytes");
    return tool_failed(t->diags);
  }
  int code = !check_options(t, path) ? EXIT_USAGE : expect_open(t, &expected) ? EXIT_OK : tool_failed(t->diags);
  if (code == EXIT_OK) {
    code = run_program(t, &artifact, path, expected);
    expect_close(expected);
  }
  artifact_close(&artifact);
  return code;
}

/* ---- */

static bool check_runs(Tool *t, OptionId id) {
  enum { MOST = 1000000 };
  if (option_int(&t->options, id, 0) <= MOST) return true;
  return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "option '%s' takes at most %d, not '%s'",
                    option_rows[id].flag, MOST, option_text(&t->options, id));
}

int cmd_bench(Tool *t) {
  if (!tool_args(t, 1, 1) || !check_runs(t, OPT_runs) || !check_runs(t, OPT_warmup)) return EXIT_USAGE;
  const char *path = t->options.args.items[0];
  return model_kind(path) == MODEL_NONE ? bench_program(t, path) : bench_model(t);
}
