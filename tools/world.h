/* tools/world.h - --world N,N,...: a command for several numbers of ranks. */
#ifndef APC_TOOLS_WORLD_H
#define APC_TOOLS_WORLD_H

#include "tools/tool.h"

/* Runs a command whose line has --world.  compile writes one program with a plan for each number; plan shows a plan for
 * each; verify checks each; run and bench take one number.  Returns as a command does. */
int tool_world(Tool *t, int (*command)(Tool *t));

#endif
