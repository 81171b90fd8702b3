/* Outlining: the text gets shorter, inlining gives back every byte, and the calls mean the same as the flat
   function. */
#include <glob.h>

#include "base/file.h"
#include "base/random.h"
#include "frontend/dsl/dsl.h"
#include "frontend/onnx/import.h"
#include "frontend/topo/target.h"
#include "ir/run/interp.h"
#include "proof/prove.h"
#include "passes/lower/lower.h"
#include "passes/pipeline.h"
#include "passes/plan/plan.h"
#include "tests/planner_models.h"
#include "tests/test.h"

static const PassOptions checked = {.verify = true};
static const DslDefine cached[] = {{"layers", "2"}, {"d", "16"},    {"heads", "4"}, {"kv_heads", "2"},
                                   {"ffn", "12"},   {"vocab", "9"}, {"ctx", "10"},  {"cache", "1"}};

static Module *load_onnx(const char *path, Diags *d) {
  Module *m = NULL;
  OnnxFile *file = onnx_file_open(d, path);
  OnnxImportOptions none = {0};
  bool ok = file && onnx_import(&m, file, &none, d);
  if (file) onnx_file_close(file);
  if (ok) return m;
  module_free(m);
  return NULL;
}

static Module *load(const char *path, const DslOptions *o, Arena *a, Diags *d) {
  if (strcmp(path + strlen(path) - 5, ".onnx") == 0) return load_onnx(path, d);
  const char *text = file_read_text(d, a, path, NULL);
  return text ? dsl_load(path, text, o, d) : NULL;
}

static const char *text_of(const Module *m, Arena *a) {
  Text t = {.arena = a};
  module_print(m, &t);
  return text_str(&t);
}

static size_t calls_of(const Module *m) {
  size_t n = 0;
  for (size_t k = 0; k < m->funcs.n; k++)
    for (size_t i = 0; i < m->funcs.items[k]->ops.n; i++) n += m->funcs.items[k]->ops.items[i].kind == OP_call;
  return n;
}

/* Through the passes, outlined and inlined; returns the number of calls in between. */
static size_t there_and_back(Module *m, const char *passes, const char *name, Arena *a, Diags *d) {
  CHECKF(pipeline_run(m, passes, &checked, d), "%s", name);
  const char *flat = text_of(m, a);
  CHECKF(pipeline_run(m, "outline", &checked, d), "%s", name);
  const char *outlined = text_of(m, a);
  size_t calls = calls_of(m);
  if (strlen(flat) > 4096)
    CHECKF((calls > 0) == (strlen(outlined) < strlen(flat)), "%s: %zu calls, %zu of %zu bytes", name, calls,
           strlen(outlined), strlen(flat));
  Module *again = ir_parse(name, outlined, d);
  CHECKF(again != NULL, "%s", name);
  if (again) {
    CHECK_STR(text_of(again, a), outlined);
    CHECK(pipeline_run(again, "inline", &checked, d));
    CHECKF(strcmp(text_of(again, a), flat) == 0, "%s, parsed: not what it was", name);
    module_free(again);
  }
  CHECKF(pipeline_run(m, "inline", &checked, d), "%s", name);
  CHECKF(strcmp(text_of(m, a), flat) == 0, "%s: not what it was", name);
  return calls;
}

static void models_come_back(void) {
  glob_t files = {0};
  CHECK(glob("examples/*.apc", 0, NULL, &files) == 0 && glob("examples/*.onnx", GLOB_APPEND, NULL, &files) == 0);
  CHECK(files.gl_pathc >= 4);
  DslOptions defaults = {0}, cache = {.ndefines = sizeof cached / sizeof *cached, .defines = cached};
  for (size_t i = 0; i <= files.gl_pathc; i++) {
    Arena *a = arena_new();
    Diags *d = diags_new(a);
    bool last = i == files.gl_pathc;
    const char *path = last ? "examples/llama.apc" : files.gl_pathv[i];
    Module *m = load(path, last ? &cache : &defaults, a, d);
    CHECKF(m != NULL, "%s", path);
    size_t calls = m ? there_and_back(m, NULL, path, a, d) : 0;
    if (strstr(path, "gpt.apc")) CHECK(calls == 12);
    if (strstr(path, "gpt-tiny.onnx")) CHECK(calls == 2);
    if (last) CHECK(calls == 4); /* two entries */
    if (test_failed_here) diags_print(d, stderr, false);
    if (m) module_free(m);
    arena_free(a);
  }
  globfree(&files);
}

/* Names of the usual exporters: "Add", "Add_7"; numbers that count nodes; an unrelated name; braces. */
static void any_names_come_back(void) {
  static const char *const names[3][4] = {{"a.0.Exp", "Sin", "Relu_2", "odd{"},
                                          {"a.1.Exp", "Sin_7", "Relu_9", "{{1}"},
                                          {"a.2.Exp", "Sin_13", "Relu_10", "even"}};
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Text t = {.arena = a};
  const char *x = "x";
  text_add(&t, "apc.ir 1\nfunc @main level 1 {\n  %x = input {name=\"x\"} : f32[4]\n");
  for (int i = 0; i < 3; i++) {
    static const char *const kinds[] = {"exp", "sin", "relu", "tanh"};
    for (int k = 0; k < 4; k++) {
      text_printf(&t, "  %%\"%s\" = %s %%\"%s\" : f32[4] loc \"file%d\" 7:3 node \"node %s\"\n", names[i][k], kinds[k],
                  x, i, names[i][k]);
      x = names[i][k];
    }
  }
  text_printf(&t, "  output \"y\" %%\"%s\"\n}\n", x);
  Module *m = ir_parse("names.ir", text_str(&t), d);
  CHECK(m != NULL);
  CHECK(there_and_back(m, NULL, "names.ir", a, d) == 3);
  if (test_failed_here) diags_print(d, stderr, false);
  module_free(m);
  arena_free(a);
}

/* Outputs and states of every entry, as numbers modulo p. */
static InterpResult *results(Module *m, const char *const *entries, int n, Arena *a, Diags *d) {
  InterpResult *all = ARENA_ARRAY(a, InterpResult, n);
  InterpOptions o = {.domain = DOMAIN_MODP, .symbols = interp_symbols(m, a)};
  for (int i = 0; i < n; i++) {
    int ninputs;
    const Func *f = module_func(m, entries[i]);
    InterpNamed *inputs = interp_random_inputs(m, f, o.domain, o.symbols, 7, a, &ninputs, d);
    CHECK(inputs && interp_run(m, f, &o, ninputs, inputs, a, &all[i], d));
  }
  return all;
}

static void same_numbers(Module *m, const char *passes, const char *const *entries, int n, Arena *a, Diags *d) {
  InterpResult *flat = results(m, entries, n, a, d);
  CHECK(pipeline_run(m, passes, &checked, d) && pipeline_run(m, "outline", &checked, d));
  InterpResult *outlined = results(m, entries, n, a, d);
  for (int i = 0; i < n; i++) {
    CHECK(flat[i].noutputs == outlined[i].noutputs && flat[i].nstates == outlined[i].nstates && flat[i].noutputs > 0);
    for (int k = 0; k < flat[i].noutputs; k++)
      CHECK(interp_equal(&flat[i].outputs[k].tensor, &outlined[i].outputs[k].tensor, DOMAIN_MODP, 0, a, NULL));
    for (int k = 0; k < flat[i].nstates; k++)
      CHECK(interp_equal(&flat[i].states[k].tensor, &outlined[i].states[k].tensor, DOMAIN_MODP, 0, a, NULL));
  }
}

static void calls_mean_the_same(void) {
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Module *m = ir_parse("gpt.ir", gpt_text(a, &(GptShape){3, 8, 2, 12, 11, 5, 2}), d);
  CHECK(m != NULL);
  same_numbers(m, NULL, (const char *[]){"main"}, 1, a, d);
  CHECK(calls_of(m) == 3);
  module_free(m);
  DslOptions cache = {.ndefines = sizeof cached / sizeof *cached, .defines = cached};
  m = load("examples/llama.apc", &cache, a, d); /* several results: keys and values */
  CHECK(m != NULL);
  m->symbols.items[module_symbol_find(m, "batch")].hint = 2;
  m->symbols.items[module_symbol_find(m, "seq")].hint = 5;
  same_numbers(m, NULL, (const char *[]){"prefill", "decode"}, 2, a, d);
  CHECK(calls_of(m) == 4);
  if (test_failed_here) diags_print(d, stderr, false);
  module_free(m);
  arena_free(a);
}

/* ---- random functions: repeated segments, wired and named at random, with weights, constants, states and other
 * operations in between */

typedef struct Random {
  uint64_t seed, n;
  Arena *a;
  Text head, body;
  struct {
    const char **items;
    size_t n, cap;
  } shared; /* values made outside of segments */
  int names, sources;
} Random;

static int draw(Random *r, int bound) { return (int)random_below(r->seed, 3, r->n++, (uint64_t)bound); }

static const char *shared(Random *r) { return r->shared.items[draw(r, (int)r->shared.n)]; }

enum { STEPS = 10 };

/* One operation of a segment; parts that are equal in every instance are drawn once. */
typedef struct Step {
  int kind, from[2], at[2], constant;
  const char *global[2];
  bool written;
} Step;

typedef enum From { BEFORE, INSIDE, GLOBAL, WEIGHT, CONSTANT, OWN_CONSTANT, STATE, FROMS } From;

static Step draw_step(Random *r, int index) {
  Step s = {.kind = draw(r, 6), .constant = draw(r, 5), .written = draw(r, 4) == 0};
  for (int k = 0; k < 2; k++) {
    s.from[k] = draw(r, 3) ? INSIDE : draw(r, FROMS);
    if (s.from[k] == INSIDE && !index) s.from[k] = BEFORE;
    s.at[k] = index ? draw(r, index) : 0;
    s.global[k] = shared(r);
  }
  return s;
}

static const char *new_source(Random *r, const Step *s, From from, const char **state) {
  const char *name = arena_printf(r->a, "%c.%d", "bigwcos"[from], r -> sources++);
  if (from == WEIGHT) {
    text_printf(&r->head, "param \"%s\" : f32[4] = constant %d\n", name, draw(r, 9));
    text_printf(&r->body, "  %%%s = param {name=\"%s\"} : f32[4]\n", name, name);
  } else if (from == STATE) {
    text_printf(&r->head, "state \"%s\" : f32[4] = %d\n", name, draw(r, 9));
    text_printf(&r->body, "  %%%s = read {name=\"%s\"} : f32[4]\n", name, name);
    *state = name;
  } else {
    text_printf(&r->body, "  %%%s = const {value=%d} : f32[4]\n", name, from == CONSTANT ? s->constant : draw(r, 9));
  }
  return name;
}

static const char *emit_instance(Random *r, const Step *steps, int n, const char *before, const char *style,
                                 int segment, int instance) {
  static const char *const kinds[] = {"exp", "sin", "relu", "add", "mul", "sub"};
  const char *values[STEPS], *states[STEPS] = {NULL};
  for (int i = 0; i < n; i++) {
    const char *in[2], *state = NULL;
    for (int k = 0; k < (steps[i].kind < 3 ? 1 : 2); k++) {
      From from = (From)steps[i].from[k];
      in[k] = from == BEFORE   ? before
              : from == INSIDE ? values[steps[i].at[k]]
              : from == GLOBAL ? steps[i].global[k]
                               : new_source(r, &steps[i], from, &state);
    }
    values[i] = *style == 'n' ? arena_printf(r->a, "n%d", r->names++)
                              : arena_printf(r->a, "seg%d/%d/%s_%d", segment, instance, kinds[steps[i].kind], i);
    text_printf(&r->body, "  %%%s = %s %%%s", values[i], kinds[steps[i].kind], in[0]);
    if (steps[i].kind >= 3) text_printf(&r->body, ", %%%s", in[1]);
    text_add(&r->body, " : f32[4]\n");
    states[i] = steps[i].written ? state : NULL;
  }
  for (int i = 0; i < n; i++)
    if (states[i]) text_printf(&r->body, "  write \"%s.w\" %%%s {name=\"%s\"}\n", states[i], values[n - 1], states[i]);
  if (draw(r, 4) == 0) ARENA_PUSH(r->a, &r->shared, values[draw(r, n)]); /* used after the segment */
  return values[n - 1];
}

static const char *random_text(Random *r) {
  const char *x = "x";
  r->head = r->body = (Text){.arena = r->a};
  text_add(&r->head, "apc.ir 1\n");
  text_add(&r->body, "func @main level 1 {\n  %x = input {name=\"x\"} : f32[4]\n");
  ARENA_PUSH(r->a, &r->shared, x);
  for (int s = 0, segments = 1 + draw(r, 3); s < segments; s++) {
    Step steps[STEPS];
    int n = 2 + draw(r, STEPS - 2), times = 1 + draw(r, 5);
    const char *style = draw(r, 2) ? "numbered" : "path";
    for (int i = 0; i < n; i++) steps[i] = draw_step(r, i);
    for (int i = 0; i < times; i++) x = emit_instance(r, steps, n, x, style, s, i);
    ARENA_PUSH(r->a, &r->shared, x);
  }
  text_printf(&r->body, "  output \"y\" %%%s\n  output \"z\" %%%s\n}\n", x, shared(r));
  text_add(&r->head, text_str(&r->body));
  return text_str(&r->head);
}

static void random_functions(void) {
  size_t calls = 0;
  for (uint64_t seed = 0; seed < 300 && !test_failed_here; seed++) {
    Arena *a = arena_new();
    Diags *d = diags_new(a);
    Random r = {.seed = seed, .a = a};
    const char *text = random_text(&r);
    Module *m = ir_parse("random.ir", text, d);
    CHECKF(m != NULL, "%s", text);
    if (m) {
      calls += there_and_back(m, "order,group", "random.ir", a, d);
      module_free(m);
      m = ir_parse("random.ir", text, d);
      same_numbers(m, "order,group", (const char *[]){"main"}, 1, a, d);
      module_free(m);
    }
    if (test_failed_here) fprintf(stderr, "seed %d\n%s", (int)seed, text), diags_print(d, stderr, false);
    arena_free(a);
  }
  CHECKF(calls > 600, "%zu calls", calls);
}

/* The ranks' program is proved to compute the outlined model. */
static void prover_reads_calls(void) {
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Module *m = ir_parse("gpt.ir", gpt_text(a, &(GptShape){3, 64, 4, 128, 100, 16, 4}), d);
  const Target *t = topo_target_find(d, a, "cpux2");
  CHECK(m && t && pipeline_run(m, NULL, &checked, d));
  const Plan *p = plan_search(m, module_func(m, "main"), t, &(PlanOptions){.degree[DEGREE_tp] = 2}, d);
  CHECK(p != NULL);
  if (p) module_set_mesh(m, &p->mesh);
  Func *rank = p ? lower_spmd(m, module_func(m, "main"), &(LowerPlan){.strategies = p->strategies, .stages = p->stages},
                              "rank", d)
                 : NULL;
  CHECK(rank && pipeline_run(m, "outline", &checked, d) && calls_of(m) == 3);
  if (rank) {
    Proof proof = prove(m, module_func(m, "main"), rank);
    CHECKF(proof.verdict == PROVED, "%s %s: %s", verdict_name(proof.verdict), proof.op, proof.reason);
  }
  if (test_failed_here) diags_print(d, stderr, false);
  module_free(m);
  arena_free(a);
}

int main(void) {
  RUN(models_come_back);
  RUN(any_names_come_back);
  RUN(calls_mean_the_same);
  RUN(random_functions);
  RUN(prover_reads_calls);
  return test_summary();
}
