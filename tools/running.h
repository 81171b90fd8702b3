/* tools/running.h - a model that run or bench compiled into a temporary folder and ran once (tools/cmd_run.c). */
#ifndef APC_TOOLS_RUNNING_H
#define APC_TOOLS_RUNNING_H

#include "base/npz.h"
#include "tools/execute.h"

typedef struct Running {
  Build build;
  TemporaryFolder scratch;
  Npz *expected; /* of --expect; NULL if not given */
  Tensors inputs, outputs;
  ApcModel *program;
} Running;

/* Compiles the model of the line, writes the forms of --emit, runs the program; returns an exit code.  Call
 * running_stop in either case. */
int running_start(Tool *t, Running *r);
/* Ends the program, removes the temporary folder and frees the build. */
void running_stop(Running *r);

#endif
