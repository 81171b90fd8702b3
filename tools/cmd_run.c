/* tools/cmd_run.c - apc run MODEL: compiles into a temporary folder and runs here; also writes the forms of --emit. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/die.h"
#include "base/json_text.h"
#include "base/nearest.h"
#include "base/npy.h"
#include "base/npz.h"
#include "tools/emit.h"
#include "tools/expect.h"
#include "tools/running.h"
#include "tools/values.h"

/* ---- --output */

static bool no_output(Tool *t, const Func *f, const char *text, const char *name) {
  if (!*name)
    return diag_error(t->diags, DIAG_input, (Loc){0},
                      "--output %s: the model has %zu outputs, so the file needs a name: NAME=%s", text, f->outputs.n,
                      text);
  diag_error(t->diags, DIAG_input, (Loc){0}, "the model has no output '%s'", name);
  Nearest near = nearest_to(name);
  for (size_t i = 0; i < f->outputs.n; i++) nearest_try(&near, f->outputs.items[i].name);
  if (near.best) diag_help(t->diags, "the nearest name is '%s'", near.best);
  return false;
}

/* Checks, before any work, that the entry has the outputs that --output names. */
static bool check_outputs(Tool *t, const Func *f) {
  size_t at = 0;
  bool ok = true;
  for (const OptionUse *u; (u = option_next(&t->options, OPT_output, &at));) {
    const char *file, *name;
    if (!tool_split_binding(t, u->value, &name, &file)) {
      const char *equals = strchr(u->value, '=');
      ok = diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--output takes NAME=@FILE.npy, not '%s'", u->value);
      if (equals && equals[1])
        diag_help(t->diags, "a file's name follows '@': --output %.*s=@%s", (int)(equals - u->value), u->value,
                  equals + 1);
      continue;
    }
    bool found = !*name && f->outputs.n == 1;
    for (size_t i = 0; i < f->outputs.n; i++) found = found || strcmp(f->outputs.items[i].name, name) == 0;
    ok = (found || no_output(t, f, u->value, name)) && ok;
  }
  return ok;
}

/* ---- start and end */

/* Checks --outputs early: a tensor's file name there would fail only after the run. */
static bool check_archive(Tool *t) {
  const char *path = option_text(&t->options, OPT_outputs);
  size_t n = path ? strlen(path) : 0;
  if (n < 5 || strcmp(path + n - 4, ".npy") != 0) return true;
  diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--outputs writes an archive of all outputs (.npz), not '%s'", path);
  diag_help(t->diags, "one output goes to a file of its own: --output NAME=@%s", path);
  return false;
}

int running_start(Tool *t, Running *r) {
  const char *model = t->options.args.items[0];
  EmitList forms;
  if (!check_archive(t)) return EXIT_USAGE;
  if (!tool_emit_list(t, model_name(t->arena, model), NULL, &forms)) return tool_failed(t->diags);
  const Target *target = tool_target(t);
  int code = EXIT_OK;
  if (!target || !tool_emit_check_target(t, target, &forms) || !expect_open(t, &r->expected))
    return tool_failed(t->diags);
  if (!tool_load(t, model, target, &r->build) || !check_outputs(t, r->build.l1s[0]) ||
      !inputs_read(t, &r->build, r->build.l1s[0], &r->inputs) ||
      !tool_can_compile(t, r->build.options.target->device) || !tool_plan(t, &r->build) ||
      !inputs_make(t, &r->build, r->build.l1s[0], &r->inputs) || !driver_run(&r->build, DRIVER_lower) ||
      !tool_emit_write(t, &r->build, &forms) || !temporary_open(t->diags, t->arena, &r->scratch))
    return tool_failed(t->diags);
  const char *path = arena_printf(t->arena, "%s/%s", r->scratch.path, r->build.model.name);
  if (!driver_write(&r->build, r->build.options.target->device, path)) return tool_failed(t->diags);
  const int ranks = r->build.plan->ranks;
  tool_stage(t, "Running", "on %d rank%s", ranks, ranks == 1 ? "" : "s");
  r->program = tool_program_open(t, path, NULL, &code);
  return r->program ? tool_program_run(t, r->program, r->build.l1s[0]->name, &r->inputs) : code;
}

void running_stop(Running *r) {
  apc_close(r->program);
  temporary_close(&r->scratch);
  expect_close(r->expected);
  tensors_free(&r->inputs);
  tensors_free(&r->outputs);
  driver_free(&r->build);
}

/* ---- outputs of run */

static bool write_one(Tool *t, const Tensors *outputs, const char *text) {
  const char *file, *name;
  const Tensor *x =
      tool_split_binding(t, text, &name, &file) ? tensors_find(outputs, *name ? name : outputs->items[0].name) : NULL;
  if (!x) die("the program has no output for --output %s", text); /* check_outputs */
  return npy_write(t->diags, file, x);
}

static bool write_all(Tool *t, const Tensors *outputs, const char *path) {
  NpzWriter *w = npz_writer_open(t->diags, path);
  if (!w) return false;
  bool ok = true;
  for (size_t i = 0; ok && i < outputs->n; i++)
    ok = npz_writer_add(w, outputs->items[i].name, &outputs->items[i].tensor);
  if (ok) return npz_writer_finish(w);
  npz_writer_abandon(w);
  return false;
}

static bool write_outputs(Tool *t, const Tensors *outputs) {
  size_t at = 0;
  for (const OptionUse *u; (u = option_next(&t->options, OPT_output, &at));)
    if (!write_one(t, outputs, u->value)) return false;
  const char *all = option_text(&t->options, OPT_outputs);
  return !all || write_all(t, outputs, all);
}

/* Largest magnitude and mean of a float tensor, for a first look. */
static const char *summary(Tool *t, const Tensor *x) {
  int64_t n = tensor_elements(x);
  if (!dtype_is_float(x->dtype) || n == 0) return "";
  double sum = 0, most = 0;
  for (int64_t i = 0; i < n; i++) {
    double v = dtype_load_f(x->dtype, (const char *)x->data + (size_t)i * dtype_bytes(x->dtype));
    sum += v;
    most = fmax(most, fabs(v));
  }
  return arena_printf(t->arena, "mean %.6g, largest magnitude %.6g", sum / (double)n, most);
}

static json_t *tensor_json(const NamedTensor *x) {
  json_t *shape = json_array();
  for (int d = 0; d < x->tensor.rank; d++) json_array_append_new(shape, json_integer(x->tensor.dims[d]));
  return json_pack("{s:o, s:s, s:o}", "name", json_text(x->name), "dtype", dtype_name(x->tensor.dtype), "shape", shape);
}

static int finish_run(Tool *t, Running *r) {
  int code;
  if (!outputs_read(t, r->program, &r->outputs, &code)) return code;
  ApcReport report = {0};
  code = tool_program_status(t, r->program, apc_report(r->program, 0, &report));
  if (code || !write_outputs(t, &r->outputs)) return code ? code : tool_failed(t->diags);
  tool_stages_end(t);
  bool json = option_given(&t->options, OPT_json), ok;
  json_t *outputs = json_array(), *expected = json_array();
  for (size_t i = 0; i < r->outputs.n; i++) {
    const NamedTensor *x = &r->outputs.items[i];
    if (json) json_array_append_new(outputs, tensor_json(x));
    else
      fprintf(t->results, "output   %-24s %s  %s\n", x->name, tool_tensor_type_text(t->arena, &x->tensor),
              summary(t, &x->tensor));
  }
  bool read = expect_compare(t, r->expected, &r->outputs, expected, &ok);
  if (json && read)
    tool_json(t, json_pack("{s:s, s:i, s:f, s:O, s:O, s:b}", "schema", "apc.run/1", "ranks", apc_ranks(r->program),
                           "time_us", report.run_s * 1e6, "outputs", outputs, "expected", expected, "ok", ok));
  else if (read)
    fprintf(t->results, "time     %s on %d rank%s\n", show_seconds(t->arena, report.run_s), apc_ranks(r->program),
            apc_ranks(r->program) == 1 ? "" : "s");
  json_decref(outputs);
  json_decref(expected);
  return !read ? tool_failed(t->diags) : ok ? EXIT_OK : EXIT_MISMATCH;
}

int cmd_run(Tool *t) {
  if (!tool_args(t, 1, 1)) return EXIT_USAGE;
  Running r = {0};
  int code = running_start(t, &r);
  if (code == EXIT_OK) code = finish_run(t, &r);
  running_stop(&r);
  return code;
}
