/* passes/facts/counterpart.h: a value of a model and the value of its name after the passes have the same elements, in
 * the order that the function gives.  Both functions run in the interpreter with all values as outputs, at sizes of
 * which many are equal, so that types do not show the order. */
#include "passes/facts/counterpart.h"

#include "driver/model.h"
#include "ir/run/interp.h"
#include "tests/test.h"

typedef struct Case {
  const char *path;
  DslDefine defines[8];
  int least; /* values that must have a counterpart */
} Case;

static const Case cases[] = {
    {"examples/gpt.apc", {{"layers", "1"}, {"d", "16"}, {"heads", "4"}, {"vocab", "8"}}, 30},
    {"examples/llama.apc",
     {{"layers", "1"}, {"d", "16"}, {"heads", "4"}, {"kv_heads", "4"}, {"ffn", "16"}, {"vocab", "8"}},
     20},
    {"examples/vit.apc",
     {{"layers", "1"}, {"d", "16"}, {"heads", "4"}, {"ffn", "16"}, {"patch", "4"}, {"image", "8"}, {"classes", "4"}},
     20},
    {"examples/resnet.apc", {{"depth", "18"}, {"width", "4"}, {"classes", "4"}, {"image", "32"}}, 40},
    {"examples/unet.apc", {{"channels", "4"}, {"levels", "2"}, {"image", "8"}}, 30},
};

static Arena *arena;
static Diags *diags;

static bool load(const Case *c, Model *out) {
  const DimSize hints[] = {{"batch", 4}, {"seq", 4}};
  int n = 0;
  while (n < 8 && c->defines[n].name) n++;
  ModelOptions o = {
      .arena = arena, .diags = diags, .path = c->path, .computes = true, .defines = c->defines, .ndefines = n};
  bool ok = model_load(&o, out);
  for (size_t i = 0; ok && i < 2; i++) {
    const int symbol = module_symbol_find(out->m, hints[i].name);
    if (symbol >= 0) out->m->symbols.items[symbol].hint = hints[i].size;
  }
  return ok;
}

/* Makes every value an output, called after its number. */
static void show_all(Module *m, Func *f) {
  f->outputs.n = 0;
  for (size_t v = 1; v < f->values.n; v++)
    ARENA_PUSH(f->own ? f->own : m->arena, &f->outputs,
               ((Output){.name = arena_printf(m->arena, "%zu", v), .value = (Val)v}));
}

/* The values of a function, by number less 1; weights that @prepare computes are computed first. */
static const InterpNamed *values_of(Module *m, Func *f, int ninputs, const InterpNamed *inputs) {
  const Func *prepare = module_func(m, "prepare");
  InterpOptions o = {0};
  InterpResult prepared = {0}, all = {0};
  if (prepare && !interp_run(m, prepare, &o, 0, NULL, arena, &prepared, diags)) return NULL;
  o.params = prepared.outputs, o.nparams = prepared.noutputs;
  show_all(m, f);
  return interp_run(m, f, &o, ninputs, inputs, arena, &all, diags) ? all.outputs : NULL;
}

/* The element of `t` at the place of element `i` of `of`. */
static double at_place(const InterpTensor *of, const InterpTensor *t, int64_t i, const int *order) {
  int64_t place[MAX_RANK], at = 0;
  for (int d = of->rank - 1; d >= 0; d--) place[order[d]] = i % of->dims[d], i /= of->dims[d];
  for (int d = 0; d < t->rank; d++) at = at * t->dims[d] + place[d];
  return dtype_is_float(t->dtype) ? t->cells[at].f : (double)t->cells[at].i;
}

static void compare(const char *name, const InterpTensor *x, const InterpTensor *y, const int *order) {
  const double tolerance = 1e-4;
  double difference = 0, size = 0;
  for (int64_t i = 0; i < interp_elements(x); i++) {
    const double a = dtype_is_float(x->dtype) ? x->cells[i].f : (double)x->cells[i].i, b = at_place(x, y, i, order);
    difference += (a - b) * (a - b), size += a * a;
  }
  CHECKF(difference <= tolerance * tolerance * size, "%s differs by %g of %g", name, difference, size);
}

static void check_case(const Case *c, DeviceKind device) {
  Model model, planned;
  int ninputs, compared = 0, order[MAX_RANK];
  bool ok = load(c, &model) && load(c, &planned) && pipeline_run(model.m, "inline", &(PassOptions){0}, diags) &&
            pipeline_run(planned.m, NULL, &(PassOptions){.device = target_device_traits(device)}, diags);
  CHECKF(ok, "%s", c->path);
  if (!ok) return;
  Func *f = module_func(model.m, model.entries[0]), *g = module_func(planned.m, planned.entries[0]);
  const InterpNamed *inputs =
      interp_random_inputs(model.m, f, DOMAIN_FLOAT, interp_symbols(model.m, arena), 7, arena, &ninputs, diags);
  const InterpNamed *x = values_of(model.m, f, ninputs, inputs), *y = values_of(planned.m, g, ninputs, inputs);
  CHECKF(x && y, "%s", c->path);
  const Counterparts s = {arena, model.m, planned.m, f, g};
  for (Val v = 1; x && y && v < f->values.n; v++)
    for (Val w = 1; w < g->values.n; w++) {
      const char *name = counterpart_name(arena, f, v);
      if (strcmp(name, counterpart_name(arena, g, w)) != 0 || !counterpart_order(&s, v, w, order)) continue;
      compare(name, &x[v - 1].tensor, &y[w - 1].tensor, order);
      compared++;
      break;
    }
  CHECKF(compared >= c->least, "%s: %d values", c->path, compared);
  model_free(&model), model_free(&planned);
}

static void check_all(void) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    check_case(&cases[i], DEVICE_cpu);
    check_case(&cases[i], DEVICE_cuda);
  }
}

int main(void) {
  arena = arena_new(), diags = diags_new(arena);
  RUN(check_all);
  diags_print(diags, stderr, false);
  arena_free(arena);
  return test_summary();
}
