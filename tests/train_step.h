/* tests/train_step.h - compiles a model in the model language to the training step that the planner gets. */
#ifndef APC_TESTS_TRAIN_STEP_H
#define APC_TESTS_TRAIN_STEP_H

#include "frontend/dsl/dsl.h"
#include "passes/rewrite/passes.h"
#include "passes/pipeline.h"
#include "tests/test.h"

/* NULL after a failed check.  Without a loss, the model itself. */
static inline Module *step_by(Arena *a, const char *net, const char *loss, const char *optimizer, Diags *d) {
  TrainOptions train = {.loss = loss};
  Module *m = dsl_load("net.apc", net, &(DslOptions){.training = loss != NULL}, d);
  const PassOptions o = {.train = loss ? &train : NULL, .device = target_device_traits(DEVICE_cpu)};
  bool ok = m && (!loss || optimizer_parse(a, optimizer, &train.optimizer, d)) && pipeline_run(m, NULL, &o, d);
  if (!ok) diags_print(d, stderr, false);
  CHECKF(ok, "%s", net);
  if (ok) return m;
  if (m) module_free(m);
  return NULL;
}

/* With adamw and mse. */
static inline Module *step_of(Arena *a, const char *net, Diags *d) {
  return step_by(a, net, "mse", "adamw(lr=1e-3)", d);
}

#endif
