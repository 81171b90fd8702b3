/* passes/plan/text.h - names and globs of plan files, shared by printer and parser. */
#ifndef APC_PASSES_PLAN_TEXT_H
#define APC_PASSES_PLAN_TEXT_H

#include <stdbool.h>

/* `*` matches any run of characters, also none; a backslash takes the next character as it is. */
bool plan_glob(const char *glob, const char *name);

#endif
