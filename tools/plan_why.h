/* tools/plan_why.h - `apc plan --why NAME`, as text and as JSON. */
#ifndef APC_TOOLS_PLAN_WHY_H
#define APC_TOOLS_PLAN_WHY_H

#include "passes/search/why.h"
#include "tools/build.h"

/* The answers to all uses of --why. */
typedef struct Whys {
  Why *items;
  size_t n, cap;
} Whys;

/* Answers --why for the build's plan; false after diagnostics. */
bool tool_why(Tool *t, const Build *b, Whys *out);
/* Print the answers, or return them as JSON. */
void tool_why_show(const Tool *t, const Build *b, const Whys *x);
json_t *tool_why_json(const Tool *t, const Build *b, const Whys *x);

#endif
