/* tools/cmd_verify.c - apc verify MODEL: is the parallel program right?
 *
 * Checks: the program on CPU ranks equals the program on one rank; if the model is small, both equal the results of the
 * reference interpreter on the model as imported, before any pass, in all outputs and final states; every pass is
 * checked against its input (passes/check.h); and the prover shows that the level-2 program computes the level-1
 * function after the passes, at any size.  Checks that were skipped are reported.  With --expect the outputs of the
 * first entry (the one that `apc run` runs) must equal those of the file; with --train the gradients must be
 * derivatives of the loss, and the update the optimizer's (tools/verify_gradient.h).  docs/inside/trust.md says what
 * each check shows.  The exit code is the verdict: right and proved, something differs or is refuted, or the proof is
 * unknown.
 */
#include <math.h>
#include <string.h>

#include "ir/opaque.h"
#include "base/json_text.h"
#include "base/machine.h"
#include "proof/prove.h"
#include "passes/check.h"
#include "tools/emit.h"
#include "tools/expect.h"
#include "tools/reference.h"
#include "tools/verify_borders.h"
#include "tools/verify_gradient.h"
#include "tools/verify_states.h"
#include "tools/verify_steps.h"
#include "tools/verify_training.h"
#include "driver/weights.h"

enum { MAX_RANKS_HERE = 64 };

/* Inputs and outputs of an entry. */
typedef struct EntryRun {
  Tensors inputs, many, one, reference, given; /* given: on one rank with the model's own weights (--weights-dtype) */
} EntryRun;

typedef struct Verify {
  Build parallel, one, given;
  Npz *expected;
  TemporaryFolder scratch;
  PassChecks passes;
  Model imported;
  WeightFiles *weights;
  const char *drawn; /* file of the weights that the model draws; NULL if the ranks draw them */
  EntryRun *entries; /* the model's entries, and one more that reads the states */
  int64_t *sizes;    /* by symbol */
  int models;        /* number of the model's entries */
  bool ran, referred;
  StepCheck step;         /* with --train */
  FirstSteps first_steps; /* with --train and --dtype */
  BorderCheck borders;
  Proof proof;       /* of the first entry that is not proved, or of the prepared weights */
  const char *rules; /* operators whose rules the proof takes as true; NULL if none */
} Verify;

/* Large models spend most of such a run on drawing normal numbers if every rank draws its own, so they are drawn once
 * and the ranks map the file.  Small models, and those whose numbers would fill the memory, draw in the ranks as
 * usual. */
static bool draw_weights(Tool *t, Verify *v) {
  const double many = 1 << 25;
  const Build *b = &v->parallel;
  const Module *m = b->model.m;
  double elements = 0, bytes = 0;
  for (size_t i = 0; i < m->params.n; i++) {
    const Param *p = &m->params.items[i];
    int64_t dims[MAX_RANK];
    if (p->init == INIT_BLOB) return true;
    if ((p->init != INIT_NORMAL && p->init != INIT_UNIFORM) || !type_constant_dims(p->type, dims)) continue;
    double n = 1;
    for (int d = 0; d < p->type->rank; d++) n *= (double)dims[d];
    elements += n, bytes += n * (double)dtype_bytes(p->type->dtype);
  }
  if (elements < many || bytes > (double)machine_memory() / 4) return true;
  tool_stage(t, "Drawing", "%.3g million weights", elements / 1e6);
  v->drawn = arena_printf(t->arena, "%s/weights.safetensors", v->scratch.path);
  return driver_weights_to_file(m, v->drawn, t->diags);
}

static Tensors *results_of(const Verify *v, const Build *b, EntryRun *e) {
  return b == &v->parallel ? &e->many : b == &v->one ? &e->one : &e->given;
}

/* Builds the program under a name of the scratch folder and runs its entries in order; states persist between them. */
static int run_program(Tool *t, Verify *v, Build *b, const char *name) {
  int code = EXIT_OK;
  const char *path = arena_printf(t->arena, "%s/%s", v->scratch.path, name);
  if (!driver_write(b, target_device_traits(DEVICE_cpu), path)) return tool_failed(t->diags);
  tool_stage(t, "Running", "%s on %d rank%s", b->model.path, b->plan->ranks, b->plan->ranks == 1 ? "" : "s");
  ApcModel *program = tool_program_open(t, path, v->drawn, &code);
  for (int i = 0; code == EXIT_OK && i < b->nentries; i++) {
    EntryRun *e = &v->entries[i];
    if (i == v->models) code = states_bind(t, b, program, v->sizes);
    if (code == EXIT_OK) code = tool_program_run(t, program, b->l1s[i]->name, &e->inputs);
    if (code == EXIT_OK) outputs_read(t, program, results_of(v, b, e), &code);
  }
  apc_close(program);
  bool given = option_given(&t->options, OPT_input) || option_given(&t->options, OPT_inputs);
  const char *sizes = model_hints_text(t->arena, &b->model);
  if (code == EXIT_BAD_INPUT && !given && *sizes)
    diag_help(t->diags, "it ran with %s; --dim-hint chooses other sizes", sizes);
  return code;
}

static bool read_inputs(Tool *t, Verify *v) {
  const Build *b = &v->parallel;
  v->models = b->nentries;
  v->entries = ARENA_ARRAY(t->arena, EntryRun, b->nentries + 1);
  for (int i = 0; i < b->nentries; i++)
    if (!inputs_read(t, b, b->l1s[i], &v->entries[i].inputs)) return false;
  return true;
}

static bool make_inputs(Tool *t, Verify *v) {
  const Build *b = &v->parallel;
  Tensors **inputs = ARENA_ARRAY(t->arena, Tensors *, v->models);
  for (int i = 0; i < v->models; i++) {
    inputs[i] = &v->entries[i].inputs;
    if (!inputs_make(t, b, b->l1s[i], inputs[i])) return false;
  }
  v->sizes = reference_symbols(t->arena, b->model.m, v->models, (const Func *const *)b->l1s, inputs);
  return true;
}

/* Reads the model again, without passes, and interprets it. */
static bool refer(Tool *t, Verify *v) {
  const Build *b = &v->one;
  const char *path = t->options.args.items[0];
  Tensors **inputs = ARENA_ARRAY(t->arena, Tensors *, v->models),
          **outputs = ARENA_ARRAY(t->arena, Tensors *, v->models);
  for (int i = 0; i < v->models; i++) inputs[i] = &v->entries[i].inputs, outputs[i] = &v->entries[i].reference;
  if (!reference_is_small(&b->model, b->params, v->models, b->model.entries, inputs)) return true;
  if (!tool_model_imported(t, path, &v->imported)) return false;
  tool_stage(t, "Interpreting", "%s as imported", path);
  return v->referred = reference_run(t, &v->imported, v->models, b->model.entries, inputs, outputs,
                                     &v->entries[v->models].reference);
}

/* Runs the model with its own weights, to say what --weights-dtype changes. */
static int run_given(Tool *t, Verify *v) {
  if (!option_given(&t->options, OPT_weights_dtype)) return EXIT_OK;
  t->weights_as_given = true;
  bool ok = tool_plan_one_rank(t, t->options.args.items[0], &v->given) && driver_run(&v->given, DRIVER_lower);
  t->weights_as_given = false;
  return ok ? run_program(t, v, &v->given, "given") : tool_failed(t->diags);
}

/* With --train in 16 bits: compares the first steps with those in f32. */
static int run_steps(Tool *t, Verify *v) {
  if (!option_given(&t->options, OPT_train) || !compute_storage(tool_compute(t))) return EXIT_OK;
  const StepRun r = {.model = t->options.args.items[0],
                     .path = arena_printf(t->arena, "%s/one", v->scratch.path),
                     .entry = v->parallel.l1s[0]->name,
                     .folder = v->scratch.path,
                     .weights = v->drawn,
                     .inputs = &v->entries[0].inputs};
  return first_steps(t, &r, &v->first_steps);
}

static int run_both(Tool *t, Verify *v) {
  const char *path = t->options.args.items[0];
  if (!temporary_open(t->diags, t->arena, &v->scratch) || !make_inputs(t, v) || !draw_weights(t, v))
    return tool_failed(t->diags);
  int code = run_program(t, v, &v->parallel, "parallel");
  if (code != EXIT_OK) return code;
  if (!tool_plan_one_rank(t, path, &v->one) || !driver_run(&v->one, DRIVER_lower) || !states_entry_add(t, &v->one))
    return tool_failed(t->diags);
  code = run_program(t, v, &v->one, "one");
  if (code != EXIT_OK) return code;
  v->ran = true;
  code = run_given(t, v);
  if (code == EXIT_OK) code = run_steps(t, v);
  if (code != EXIT_OK) return code;
  return refer(t, v) ? borders_check(t, &v->parallel, v->scratch.path, &v->borders) : tool_failed(t->diags);
}

static void prove_entries(Tool *t, Verify *v) {
  Build *b = &v->parallel;
  tool_stage(t, "Proving", "%s on %d ranks", b->model.path, b->plan->ranks);
  Module *m = b->model.m;
  v->proof = (Proof){.verdict = PROVED};
  v->rules = opaque_ruled(t->arena, m);
  for (int i = 0; i < b->nentries && v->proof.verdict == PROVED; i++)
    v->proof = proof_join(m, v->proof, prove(m, b->l1s[i], b->l2s[i]));
  if (v->proof.verdict != PROVED) return;
  v->proof = proof_join(m, v->proof, prove_states(m, b->nentries, (const Func *const *)b->l2s));
  v->proof = proof_join(m, v->proof, prove_prepare(m, b->prepare_l1, b->prepare_l2, b->nentries, b->l2s));
}

/* ---- the verdict */

typedef struct OutputCheck {
  const char *name;
  Difference one, reference; /* many ranks against one; the larger error of both against the interpreter */
  Difference weights;        /* with --weights-dtype: one rank against the model's own weights */
  bool given, ok;
  bool noted; /* not judged */
} OutputCheck;

/* True for the accuracy of an evaluation in 16 bits: rounding decides labels whose largest logits almost tie, so a few
 * rows change it by any amount. */
static bool only_noted(const Tool *t, const Verify *v, const EntryRun *e, const char *name) {
  const int entry = (int)(e - v->entries);
  return option_given(&t->options, OPT_train) && compute_storage(tool_compute(t)) && strcmp(name, "accuracy") == 0 &&
         entry < v->models && strcmp(v->parallel.l1s[entry]->name, "eval") == 0;
}

static Difference difference(const Tool *t, const Verify *v, const char *name, const Tensor *x, const Tensor *y) {
  if (!x || !y) return (Difference){INFINITY, INFINITY, false};
  if (!option_given(&t->options, OPT_train)) return compare(t, x, y);
  TrainedStep step = {v->one.model.m, &v->entries[0].one, NULL};
  for (int i = 0; i < v->models; i++) /* later ones repeat them */
    if (strcmp(v->parallel.l1s[i]->name, "states") == 0) step.states = &v->entries[i].one;
  return compare_trained(t, &step, name, x, y);
}

static OutputCheck check_output(const Tool *t, const Verify *v, const EntryRun *e, const NamedTensor *one) {
  OutputCheck c = {.name = one->name};
  const Tensor *many = tensors_find(&e->many, one->name);
  c.one = difference(t, v, one->name, many, &one->tensor);
  c.ok = c.one.ok;
  const Tensor *given = tensors_find(&e->given, one->name);
  if (given) c.given = true, c.weights = difference(t, v, one->name, &one->tensor, given);
  c.noted = only_noted(t, v, e, one->name) && isfinite(c.one.max_abs);
  c.ok = c.ok || c.noted;
  if (!v->referred) return c;
  const Tensor *want = tensors_find(&e->reference, one->name);
  Difference x = difference(t, v, one->name, many, want);
  Difference y = difference(t, v, one->name, &one->tensor, want);
  c.reference = x.rel_l2 >= y.rel_l2 ? x : y;
  c.noted = c.noted && isfinite(c.reference.max_abs);
  c.ok = c.noted || (c.ok && x.ok && y.ok);
  return c;
}

/* True if no output exists only on many ranks, or only in the interpreter. */
static bool no_others(const Verify *v, const EntryRun *e) {
  for (size_t i = 0; i < e->many.n; i++)
    if (!tensors_find(&e->one, e->many.items[i].name)) return false;
  return !v->referred || e->reference.n == e->one.n;
}

static json_t *check_json(const Verify *v, const OutputCheck *c) {
  json_t *o = json_pack("{s:o, s:o, s:o, s:b}", "name", json_text(c->name), "rel_l2", tool_json_real(c->one.rel_l2),
                        "max_abs", tool_json_real(c->one.max_abs), "ok", c->ok);
  if (c->given) json_object_set_new(o, "weights_rel_l2", tool_json_real(c->weights.rel_l2));
  json_object_set_new(o, "reference_rel_l2", v->referred ? tool_json_real(c->reference.rel_l2) : json_null());
  return o;
}

static void show_check(Tool *t, const Verify *v, const OutputCheck *c) {
  fprintf(t->results, "%-8s %-24s %d rank%s against one: relative L2 %.3g, largest difference %.3g%s%s\n",
          c->noted ? "noted"
          : c->ok  ? "equal"
                   : "DIFFERS",
          c->name, v->parallel.plan->ranks, v->parallel.plan->ranks == 1 ? "" : "s", c->one.rel_l2, c->one.max_abs,
          v->referred ? arena_printf(t->arena, "; reference: %.3g", c->reference.rel_l2) : "",
          c->one.ok && !c->ok ? ", above the tolerance" : "");
  if (c->given)
    fprintf(t->results, "weights  %-24s %s against the model's own: relative L2 %.3g, largest difference %.3g\n",
            c->name, option_text(&t->options, OPT_weights_dtype), c->weights.rel_l2, c->weights.max_abs);
}

/* Returns the weakest check of any pass. */
static PassHow weakest(const PassChecks *p) {
  PassHow how = PASS_PROVED;
  for (size_t i = 0; i < p->list.n; i++)
    if (p->list.items[i].how > how) how = p->list.items[i].how;
  return how;
}

/* If outputs differ, the proof does not cover all inputs: it is about real numbers, and results are rounded. */
static const char *proved_for(const Verify *v, bool outputs_ok) {
  if (!outputs_ok && v->rules)
    return "for all sizes, over the real numbers; the differences above come from a kernel that does not do what its "
           "rule "
           "says, from rounding, infinities or NaN, or from steps after the proof";
  if (!outputs_ok)
    return "for all sizes, over the real numbers; the differences above come from rounding, infinities or NaN, or from "
           "steps after the proof";
  return v->proof.over_reals ? "for all sizes" : "for all inputs and sizes";
}

static void show_proof(const Tool *t, const Verify *v, bool outputs_ok) {
  static const char *const model[] = {"the model", "the model over the real numbers",
                                      "the model as the passes leave it"};
  const Proof *p = &v->proof;
  PassHow how = weakest(&v->passes) < PASS_COMPARED ? weakest(&v->passes) : PASS_COMPARED;
  fprintf(t->results, "%-8s%s", proof_line(t->arena, p), p->over_reals ? ";" : "");
  if (p->verdict == PROVED)
    fprintf(t->results, " the parallel program computes %s, %s", model[how], proved_for(v, outputs_ok));
  fputc('\n', t->results);
  if (p->verdict == PROVED && v->rules)
    fprintf(t->results, "%-8s the rules of %s, which the proof takes as true\n", "given", v->rules);
}

/* Prints the passes with this kind of check; passes with the same note share a line. */
static void show_passes(const Tool *t, const PassChecks *p) {
  static const char *const words[] = {"proved", "proved", "compared", "trusted", "DIFFERS"};
  bool *shown = ARENA_ARRAY(t->arena, bool, p->list.n);
  for (size_t i = 0; i < p->list.n; i++) {
    const PassCheck *c = &p->list.items[i];
    int n = 0;
    Text names = {.arena = t->arena};
    for (size_t k = i; k < p->list.n; k++) {
      const PassCheck *d = &p->list.items[k];
      if (shown[k] || d->how != c->how || strcmp(d->note, c->note) != 0) continue;
      text_printf(&names, "%s%s", n++ ? ", " : "", d->pass);
      shown[k] = true;
    }
    if (n) fprintf(t->results, "%-8s %s %s: %s\n", words[c->how], n > 1 ? "passes" : "pass", text_str(&names), c->note);
  }
}

static json_t *passes_json(const PassChecks *p) {
  json_t *array = json_array();
  for (size_t i = 0; i < p->list.n; i++) {
    const PassCheck *c = &p->list.items[i];
    json_array_append_new(array, json_pack("{s:s, s:s, s:o}", "pass", c->pass, "check", pipeline_how_name(c->how),
                                           "note", json_text(c->note)));
  }
  return array;
}

static bool passes_right(const PassChecks *p) {
  for (size_t i = 0; i < p->list.n; i++)
    if (p->list.items[i].how == PASS_DIFFERS) return false;
  return true;
}

static json_t *borders_json(const Verify *v) {
  if (!v->ran) return json_null();
  return json_pack("{s:b, s:i, s:o, s:o}", "ok", v->borders.ok, "values", v->borders.values, "worst",
                   json_text(v->borders.worst), "reference_rel_l2", tool_json_real(v->borders.difference.rel_l2));
}

static const char *not_run(Tool *t, const Verify *v) {
  return arena_printf(t->arena, "%d ranks exceed the %d of this machine", v->parallel.options.target->ranks,
                      MAX_RANKS_HERE);
}

static bool runs_here(const Verify *v) { return v->parallel.options.target->ranks <= MAX_RANKS_HERE; }

static bool is_not_expected(Tool *t, const Verify *v) {
  return !v->expected || diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--expect: %s", not_run(t, v));
}

static bool step_right(const StepCheck *s) { return s->why || (s->gradient_ok && s->update_ok && s->loss_ok); }

static json_t *step_json(const Tool *t, const StepCheck *s) {
  if (!option_given(&t->options, OPT_train)) return json_null();
  json_t *o = json_pack("{s:b, s:o, s:i, s:b}", "checked", !s->why, "why", json_text(s->why), "directions",
                        s->directions, "ok", !s->why && step_right(s));
  json_object_set_new(o, "gradient_error", s->why ? json_null() : tool_json_real(s->gradient));
  json_object_set_new(o, "gradient_of", json_text(s->gradient_of));
  json_object_set_new(o, "update_error", s->why ? json_null() : tool_json_real(s->update));
  json_object_set_new(o, "update_of", json_text(s->update_of));
  json_object_set_new(o, "loss_error", s->why || !s->has_loss ? json_null() : tool_json_real(s->loss));
  return o;
}

/* Prints the worst result only if it is wrong: among right ones it is arbitrary. */
static void show_borders(const Tool *t, const BorderCheck *b) {
  fprintf(t->results, "%-8s kernels beyond their first blocks: %d results, reference: %.3g%s\n",
          b->ok ? "equal" : "DIFFERS", b->values, b->difference.rel_l2,
          b->ok ? "" : arena_printf(t->arena, ", at %s", b->worst));
}

static const char *at_state(Arena *a, const char *name) { return name ? arena_printf(a, ", at %s", name) : ""; }

static json_t *first_steps_json(const FirstSteps *s) {
  if (!s->steps) return json_null();
  return json_pack("{s:i, s:o, s:o, s:o}", "steps", s->steps, "loss_relative", tool_json_real(s->loss),
                   "weights_rel_l2", tool_json_real(s->weights), "weights_of", json_text(s->of));
}

static void show_first_steps(const Tool *t, const FirstSteps *s) {
  if (s->steps)
    fprintf(t->results, "%-8s the first %d steps in %s against f32: losses %.3g, weights %.3g (relative)%s\n", "apart",
            s->steps, option_text(&t->options, OPT_dtype), s->loss, s->weights, at_state(t->arena, s->of));
}

static void show_step(const Tool *t, const StepCheck *s) {
  FILE *f = t->results;
  if (s->why) {
    fprintf(f, "%-8s gradients and update: %s\n", "not run", s->why);
    return;
  }
  fprintf(f, "%-8s gradients and differences of the loss along %d random directions: relative error %.3g%s\n",
          s->gradient_ok ? "equal" : "DIFFERS", s->directions, s->gradient, at_state(t->arena, s->gradient_of));
  fprintf(f, "%-8s update and the optimizer's formula: relative error %.3g%s\n", s->update_ok ? "equal" : "DIFFERS",
          s->update, at_state(t->arena, s->update_of));
  if (s->has_loss)
    fprintf(f, "%-8s loss and its formula: relative error %.3g\n", s->loss_ok ? "equal" : "DIFFERS", s->loss);
}

/* Returns the verdict.  Equal runs prove nothing: an unknown proof stays unknown. */
static ExitCode verdict(const Verify *v, bool outputs_ok) {
  bool wrong = v->proof.verdict == REFUTED || !passes_right(&v->passes) || (v->ran && !(outputs_ok && v->borders.ok));
  return wrong ? EXIT_MISMATCH : v->proof.verdict == PROVED ? EXIT_OK : EXIT_UNDECIDED;
}

static bool check_outputs(Tool *t, const Verify *v, json_t *outputs, json_t *states) {
  bool json = option_given(&t->options, OPT_json), ok = true;
  for (int k = 0; v->ran && k < v->parallel.nentries; k++) {
    ok = ok && no_others(v, &v->entries[k]);
    for (size_t i = 0; i < v->entries[k].one.n; i++) {
      OutputCheck c = check_output(t, v, &v->entries[k], &v->entries[k].one.items[i]);
      if (k == v->models && !json) c.name = arena_printf(t->arena, "state %s", c.name);
      else if (k < v->models && v->models > 1)
        c.name = arena_printf(t->arena, "%s/%s", v->parallel.l1s[k]->name, c.name);
      ok = ok && c.ok;
      if (json) json_array_append_new(k == v->models ? states : outputs, check_json(v, &c));
      else show_check(t, v, &c);
    }
  }
  return ok;
}

static const char *last_word(const Tool *t, const Verify *v, ExitCode verdict) {
  if (verdict == EXIT_MISMATCH) return "NOT OK";
  if (verdict == EXIT_UNDECIDED) return v->ran ? "NOT PROVED, but nothing that ran differs" : "NOT PROVED";
  return option_given(&t->options, OPT_train) && v->step.why ? "ok, but gradients and update were not checked" : "ok";
}

static void show_verdict(Tool *t, const Verify *v, bool outputs_ok, ExitCode verdict) {
  show_proof(t, v, outputs_ok);
  show_passes(t, &v->passes);
  if (!v->ran) fprintf(t->results, "%-8s %s; only the prover ran\n", "not run", not_run(t, v));
  else if (!v->referred) fprintf(t->results, "%-8s not compared with the reference interpreter: too large\n", "");
  if (v->ran) show_borders(t, &v->borders);
  show_first_steps(t, &v->first_steps);
  if (option_given(&t->options, OPT_train)) show_step(t, &v->step);
  fprintf(t->results, "%s\n", last_word(t, v, verdict));
}

static int report(Tool *t, const Verify *v) {
  json_t *outputs = json_array(), *states = json_array(), *expected = json_array();
  tool_stages_end(t);
  bool outputs_ok = check_outputs(t, v, outputs, states), as_expected = true;
  bool read = !v->expected || expect_compare(t, v->expected, &v->entries[0].many, expected, &as_expected);
  bool others_ok = as_expected && (!option_given(&t->options, OPT_train) || step_right(&v->step));
  ExitCode code = others_ok ? verdict(v, outputs_ok) : EXIT_MISMATCH;
  const Proof *proof = &v->proof;
  const char *numbers = proof->verdict != PROVED ? NULL : proof->over_reals || !outputs_ok ? "real" : "all";
  if (read && option_given(&t->options, OPT_json))
    tool_json(t, json_pack("{s:s, s:i, s:o, s:O, s:O, s:O, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:b}",
                           "schema", "apc.verify/1", "ranks", v->parallel.plan->ranks, "target",
                           json_text(v->parallel.options.target->name), "outputs", outputs, "states", states,
                           "expected", expected, "proof", proof_word(proof), "proof_op", json_text(proof->op),
                           "proof_reason", json_text(proof->over_reals ? proof->over_reals : proof->reason),
                           "proof_numbers", json_text(numbers), "proof_rules", json_text(v->rules), "passes",
                           passes_json(&v->passes), "step", step_json(t, &v->step), "borders", borders_json(v),
                           "first_steps", first_steps_json(&v->first_steps), "ran", v->ran, "reference", v->referred,
                           "ok", code == EXIT_OK));
  else if (read) show_verdict(t, v, outputs_ok, code);
  json_decref(outputs);
  json_decref(states);
  json_decref(expected);
  return read ? (int)code : tool_failed(t->diags);
}

/* Checks inputs and compiler before planning.  --expect needs a run. */
static bool can_run(Tool *t, Verify *v) {
  const DriverObjective objective = v->parallel.options.objective;
  bool parts = objective == OBJECTIVE_throughput || objective == OBJECTIVE_cost; /* fewer ranks may be chosen */
  if (runs_here(v) || parts) return read_inputs(t, v) && tool_can_compile(t, target_device_traits(DEVICE_cpu));
  return is_not_expected(t, v);
}

static bool read_weights(void *context, const Module *m, const Param *p, InterpTensor *out, Diags *diags) {
  WeightFiles **files = context;
  if (!*files) *files = tool_weights_open(m->arena, m);
  return tool_weights_read(*files, m, p, out, diags);
}

static bool load_checked(Tool *t, Verify *v, const char *path, const Target *target) {
  v->passes = (PassChecks){.blob = read_weights, .context = &v->weights};
  t->checks = &v->passes;
  bool ok = tool_load(t, path, target, &v->parallel);
  t->checks = NULL;
  return ok;
}

static int verify(Tool *t, Verify *v) {
  const char *path = t->options.args.items[0];
  EmitList forms;
  if (!tool_emit_list(t, model_name(t->arena, path), NULL, &forms)) return tool_failed(t->diags);
  const Target *target = tool_target(t);
  if (!target || !tool_emit_check_target(t, target, &forms) || !expect_open(t, &v->expected) ||
      !load_checked(t, v, path, target) || !can_run(t, v) || !tool_plan(t, &v->parallel) ||
      !(runs_here(v) || is_not_expected(t, v)) || !driver_run(&v->parallel, DRIVER_lower) ||
      !tool_emit_write(t, &v->parallel, &forms) || !states_entry_add(t, &v->parallel))
    return tool_failed(t->diags);
  prove_entries(t, v);
  int code = runs_here(v) ? run_both(t, v) : EXIT_OK;
  if (code != EXIT_OK) return code;
  if (option_given(&t->options, OPT_train) && !tool_check_step(t, path, &v->step)) return tool_failed(t->diags);
  return report(t, v);
}

int cmd_verify(Tool *t) {
  if (!tool_args(t, 1, 1)) return EXIT_USAGE;
  Verify v = {0};
  int code = verify(t, &v);
  temporary_close(&v.scratch);
  expect_close(v.expected);
  for (int i = 0; v.entries && i < v.parallel.nentries; i++) {
    tensors_free(&v.entries[i].inputs);
    tensors_free(&v.entries[i].many);
    tensors_free(&v.entries[i].one);
    tensors_free(&v.entries[i].reference);
    tensors_free(&v.entries[i].given);
  }
  tool_weights_close(v.weights);
  model_free(&v.imported);
  driver_free(&v.parallel);
  driver_free(&v.one);
  driver_free(&v.given);
  return code;
}
