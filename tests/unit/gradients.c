/* Derivatives of operations against finite differences, in double: tests/gradients/ops.ir has a function for each, from
 * weights to a tensor.  It becomes a training step (mean square distance from random labels, sgd with a learning rate
 * of 1), so that the step subtracts exactly the gradient from a weight. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "ir/gradient.h"
#include "passes/pipeline.h"
#include "tests/interp_test.h"

enum { MOST = 40 }; /* elements tried per weight */

static bool seen[OP_COUNT];
/* Operations with a rule for their class, but without gradients: truth values, integers, and a remainder, which is
 * refused. */
static const OpKind idle[] = {OP_mod, OP_and, OP_or, OP_xor, OP_shl,   OP_shr,  OP_eq,
                              OP_ne,  OP_le,  OP_gt, OP_not, OP_isnan, OP_isinf};

/* Makes a step of function k of the file only; false if the file has fewer. */
static bool make_step(InterpProgram *p, const char *text, size_t k, const char **name) {
  *p = interp_program(text);
  if (k >= p->m->funcs.n) return program_free(p), false;
  Func *f = p->m->funcs.items[0] = p->m->funcs.items[k];
  p->m->funcs.n = 1, *name = f->name;
  for (size_t i = 0; i < f->ops.n; i++) seen[f->ops.items[i].kind] = true;
  TrainOptions train = {.loss = "mse"};
  PassOptions o = {.train = &train, .verify = true};
  bool ok =
      optimizer_parse(p->arena, "sgd(lr=1)", &train.optimizer, p->diags) && pipeline_run(p->m, "train", &o, p->diags);
  if (!ok) diags_print(p->diags, stderr, false);
  CHECKF(ok, "%s", *name);
  return true;
}

static double loss_of(const InterpProgram *p, const InterpOptions *o, int n, const InterpNamed *in) {
  InterpResult r;
  bool ok = interp_run(p->m, p->m->funcs.items[0], o, n, in, p->arena, &r, p->diags);
  CHECK(ok);
  return ok ? r.outputs[0].tensor.cells[0].f : NAN;
}

/* One weight: the change by the step, and the loss. */
static void check_weight(const InterpProgram *p, const char *name, InterpOptions o, int n, const InterpNamed *in,
                         const InterpTensor *written, InterpNamed *weight) {
  const double h = 1e-5;
  double tolerance = strcmp(name, "cast") == 0 ? 1e-2 : 1e-6;
  int64_t elements = interp_elements(&weight->tensor);
  for (int64_t i = 0; i < elements && i < MOST; i++) {
    double was = weight->tensor.cells[i].f, slope, gradient = was - written->cells[i].f;
    double step = strcmp(name, "cast") == 0 ? 1e-3 : h;
    weight->tensor.cells[i].f = was + step;
    slope = loss_of(p, &o, n, in);
    weight->tensor.cells[i].f = was - step;
    slope = (slope - loss_of(p, &o, n, in)) / (2 * step);
    weight->tensor.cells[i].f = was;
    CHECKF(fabs(slope - gradient) <= tolerance * (1 + fabs(slope)), "%s, %s[%lld]: %.9g, the loss says %.9g", name,
           weight->name, (long long)i, gradient, slope);
  }
}

static void check_function(InterpProgram *p, const char *name) {
  Module *m = p->m;
  InterpNamed weights[16];
  InterpOptions o = {.domain = DOMAIN_FLOAT, .params = weights};
  int n;
  InterpNamed *in = interp_random_inputs(p->m, m->funcs.items[0], DOMAIN_FLOAT, NULL, 11, p->arena, &n, p->diags);
  for (size_t i = 0; i < m->states.n; i++) {
    InterpNamed *w = &weights[o.nparams++];
    w->name = m->states.items[i].param;
    CHECK(interp_param(p->m, module_param(m, w->name), &o, p->arena, &w->tensor, p->diags));
  }
  InterpResult r;
  bool ok = interp_run(p->m, m->funcs.items[0], &o, n, in, p->arena, &r, p->diags);
  if (!ok) diags_print(p->diags, stderr, false);
  CHECKF(ok, "%s", name);
  for (int i = 0; ok && i < r.nstates; i++)
    for (int k = 0; k < o.nparams; k++)
      if (strcmp(weights[k].name, r.states[i].name) == 0)
        check_weight(p, name, o, n, in, &r.states[i].tensor, &weights[k]);
}

static void differences(void) {
  InterpProgram p;
  const char *name;
  Arena *a = arena_new();
  const char *text = file_read_text(diags_new(a), a, "tests/gradients/ops.ir", NULL);
  CHECK(text != NULL);
  text = text ? strstr(text, "apc.ir 1") + strlen("apc.ir 1") : NULL; /* interp_program writes that itself */
  for (size_t k = 0; text && make_step(&p, text, k, &name); k++) {
    check_function(&p, name);
    program_free(&p);
  }
  seen[OP_accumulate] = true; /* every loss is accumulated */
  for (size_t i = 0; i < sizeof idle / sizeof *idle; i++) seen[idle[i]] = true;
  for (int k = 1; k < OP_COUNT; k++)
    CHECKF(seen[k] || !gradient_known((OpKind)k), "no function of tests/gradients/ops.ir has a %s", op_name((OpKind)k));
  arena_free(a);
}

int main(void) {
  RUN(differences);
  return test_summary();
}
