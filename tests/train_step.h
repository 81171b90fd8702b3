/* tests/train_step.h - a model in the model language as the step of its training that the planner gets. */
#ifndef APC_TESTS_TRAIN_STEP_H
#define APC_TESTS_TRAIN_STEP_H

#include "frontend/dsl/dsl.h"
#include "passes/rewrite/passes.h"
#include "passes/pipeline.h"
#include "tests/test.h"

/* By adamw of mse; NULL after a failed check. */
static inline Module *step_of(Arena *a, const char *net, Diags *d) {
  TrainOptions train = {.loss = "mse"};
  Module *m = dsl_load("net.apc", net, &(DslOptions){.training = true}, d);
  const PassOptions o = {.train = &train, .device = target_device_traits(DEVICE_cpu)};
  bool ok = m && optimizer_parse(a, "adamw(lr=1e-3)", &train.optimizer, d) && pipeline_run(m, NULL, &o, d);
  if (!ok) diags_print(d, stderr, false);
  CHECKF(ok, "%s", net);
  if (ok) return m;
  if (m) module_free(m);
  return NULL;
}

#endif
