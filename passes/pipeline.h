/* passes/pipeline.h - running level-1 passes by name, with checks, dumps and timing between them. */
#ifndef APC_PASSES_PIPELINE_H
#define APC_PASSES_PIPELINE_H

#include <stdio.h>

#include "ir/device.h"
#include "passes/check.h"
#include "passes/train/train.h"

typedef struct PassOptions {
  const DeviceTraits *device; /* what the program is for: passes that it does not want are left out; NULL: all passes */
  const TrainOptions *train;  /* the model becomes a step of its training (passes/train/train.h); NULL: no */
  DType floats;               /* f16, bf16: what values of f32 are computed in; 0: f32 */
  const char *print_after;    /* print the module after this pass ("all": every one); NULL */
  bool verify;                /* run the verifier after every pass */
  bool verify_last;           /* only behind the last one, and where a size could not be computed */
  bool times;                 /* report milliseconds per pass on stderr */
  FILE *dump;                 /* where prints go */
  PassChecks *checks;         /* check every pass against its input; NULL: no */
} PassOptions;

/* Names of the passes in pipeline order, NULL-terminated; the last ones run on demand only. */
const char *const *pipeline_names(void);

/* Does the pass run only when it is named, not in the pipeline? */
bool pipeline_on_demand(const char *name);

/* Runs the passes of a comma-separated list ("" runs none; NULL runs the whole pipeline in order).
 * False after diagnostics; an unknown name is one. */
bool pipeline_run(Module *m, const char *list, const PassOptions *options, Diags *diags);

#endif
