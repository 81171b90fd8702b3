/* passes/plan/text.h - names and globs of plan files, shared by printer and parser. */
#ifndef APC_PASSES_PLAN_TEXT_H
#define APC_PASSES_PLAN_TEXT_H

#include <stdbool.h>

/* True if the glob matches the name: `*` matches any run of characters, also none; a backslash quotes the next
 * character. */
bool plan_glob(const char *glob, const char *name);

#endif
