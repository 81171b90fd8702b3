/* tools/pass_name.h - names of passes on a command line, of apc and of apc-opt. */
#ifndef APC_TOOLS_PASS_NAME_H
#define APC_TOOLS_PASS_NAME_H

#include "base/diag.h"

/* Is it the name of a pass?  False after a diagnostic that begins with the option and ends with the nearest name. */
bool tool_pass_name_check(Diags *d, const char *option, const char *name);

/* The same for --print-after, which takes "all" as well; NULL: it is not given.  Without a list of `passes` (NULL),
 * where only the pipeline runs, a pass that is not part of it is refused. */
bool tool_print_after_check(Diags *d, const char *name, const char *passes);

#endif
