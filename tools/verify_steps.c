/* tools/verify_steps.c - see verify_steps.h.
 *
 * All steps take the same rows, so the loss falls in both.  The steps count from 0, as in a run.
 */
#include "tools/verify_steps.h"

#include <math.h>
#include <string.h>

enum { STEPS = 4 };

/* Results of a program: the loss of each step, and its weights after them. */
typedef struct Made {
  double loss[STEPS];
  Tensors weights;
} Made;

static double loss_of(const Tensors *list) {
  const Tensor *x = tensors_find(list, "loss");
  return x ? dtype_load_f(x->dtype, x->data) : NAN;
}

static int make_steps(Tool *t, const StepRun *r, const char *path, Made *out) {
  const Tensors *inputs = r->inputs;
  int code = EXIT_OK;
  const Tensor *step = tensors_find(inputs, "step");
  ApcModel *program = tool_program_open(t, path, r->weights, &code);
  for (int64_t i = 0; code == EXIT_OK && step && i < STEPS; i++) {
    Tensors results = {0};
    const int64_t before = *(const int64_t *)step->data;
    memcpy(step->data, &i, sizeof i);
    code = tool_program_run(t, program, r->entry, inputs);
    if (code == EXIT_OK && outputs_read(t, program, &results, &code)) out->loss[i] = loss_of(&results);
    memcpy(step->data, &before, sizeof before);
    tensors_free(&results);
  }
  const Tensors none = {0};
  if (code == EXIT_OK) code = tool_program_run(t, program, "weights", &none);
  if (code == EXIT_OK) outputs_read(t, program, &out->weights, &code);
  apc_close(program);
  return code;
}

/* Builds the step in f32. */
static int build_exact(Tool *t, const char *model, const char *path) {
  Build b = {0};
  t->computes_f32 = true;
  bool ok = tool_plan_one_rank(t, model, &b) && driver_run(&b, DRIVER_lower) &&
            driver_write(&b, target_device_traits(DEVICE_cpu), path);
  t->computes_f32 = false;
  driver_free(&b);
  return ok ? EXIT_OK : tool_failed(t->diags);
}

static void compare_made(Tool *t, const Made *made, const Made *exact, FirstSteps *out) {
  out->steps = STEPS;
  for (int i = 0; i < STEPS; i++) {
    double off = fabs(made->loss[i] - exact->loss[i]) / fmax(fabs(exact->loss[i]), 1e-30);
    out->loss = fmax(out->loss, isfinite(off) ? off : INFINITY);
  }
  for (size_t i = 0; i < exact->weights.n; i++) {
    const NamedTensor *x = &exact->weights.items[i];
    const Tensor *y = tensors_find(&made->weights, x->name);
    double off = y ? compare(t, y, &x->tensor).rel_l2 : INFINITY;
    if (off > out->weights) out->weights = off, out->of = arena_strdup(t->arena, x->name);
  }
}

int first_steps(Tool *t, const StepRun *r, FirstSteps *out) {
  Made made, exact;
  memset(&made, 0, sizeof made);
  memset(&exact, 0, sizeof exact);
  const char *plain = arena_printf(t->arena, "%s/f32", r->folder);
  int code = make_steps(t, r, r->path, &made);
  if (code == EXIT_OK) code = build_exact(t, r->model, plain);
  if (code == EXIT_OK) code = make_steps(t, r, plain, &exact);
  if (code == EXIT_OK) compare_made(t, &made, &exact, out);
  tensors_free(&made.weights);
  tensors_free(&exact.weights);
  return code;
}
