/* tools/pass_name.h - names of passes on a command line, of apc and of apc-opt. */
#ifndef APC_TOOLS_PASS_NAME_H
#define APC_TOOLS_PASS_NAME_H

#include "base/diag.h"

/* True if it is the name of a pass; false after a diagnostic that names the option and the nearest pass. */
bool tool_pass_name_check(Diags *d, const char *option, const char *name);

/* The same for --print-after, which also takes "all"; NULL if not given.  Without a list of `passes` (NULL), only the
 * pipeline runs, and passes outside it are refused. */
bool tool_print_after_check(Diags *d, const char *name, const char *passes);

#endif
