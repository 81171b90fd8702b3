/* passes/pipeline.h - runs level-1 passes by name, with checks, dumps and timing between them. */
#ifndef APC_PASSES_PIPELINE_H
#define APC_PASSES_PIPELINE_H

#include <stdio.h>

#include "ir/device.h"
#include "passes/check.h"
#include "passes/train/train.h"

typedef struct PassOptions {
  const DeviceTraits *device; /* the device to compile for: passes that it does not need are skipped; NULL: run all
                               * passes */
  const TrainOptions *train;  /* turn the model into a training step (passes/train/train.h); NULL: inference */
  LoraRules *lora;            /* add adapters to weights (passes/train/lora.h); NULL: none */
  DType floats;               /* f16 or bf16: the type in which f32 values are computed; 0: f32 */
  const char *print_after;    /* print the module after this pass ("all": after every pass); NULL: never */
  bool verify;                /* run the verifier after every pass */
  bool verify_last;           /* run it only after the last pass, and wherever a size could not be computed */
  bool times;                 /* report milliseconds per pass on stderr */
  FILE *dump;                 /* output of the prints */
  PassChecks *checks;         /* check every pass against its input; NULL: no checks */
} PassOptions;

/* Returns the names of the passes in pipeline order, NULL-terminated; on-demand passes come last. */
const char *const *pipeline_names(void);

/* True if the pass runs only when it is named, not as part of the pipeline. */
bool pipeline_on_demand(const char *name);

/* Runs the passes of a comma-separated list ("": none; NULL: the whole pipeline in order).  Returns false after
 * diagnostics, for example of an unknown name. */
bool pipeline_run(Module *m, const char *list, const PassOptions *options, Diags *diags);

#endif
