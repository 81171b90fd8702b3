/* tools/plan_questions.h - further questions to `apc plan`: --compare, --what-if, and the cost of each --pin. */
#ifndef APC_TOOLS_PLAN_QUESTIONS_H
#define APC_TOOLS_PLAN_QUESTIONS_H

#include "driver/compare.h"
#include "tools/tool.h"

/* Reads all uses of --compare: "tp=8,pp=8,zero=1,schedule=interleaved:4".  False after diagnostics. */
bool tool_compared(Tool *t, const DriverNamed **out, int *n);

/* One answer to --what-if: the plan for a target with scaled figures. */
typedef struct WhatIfPlan {
  const char *text;
  const Target *target;
  const Plan *plan; /* NULL if none; why_not then has the reason */
  const char *why_not;
} WhatIfPlan;

/* The answers for each figure alone and, if there are several, for all together. */
typedef struct WhatIfs {
  WhatIfPlan *items;
  size_t n, cap;
  double as_is; /* tool_seconds_as_is */
} WhatIfs;

/* Reads --what-if for that target: "nvlink*2,memory*1.5".  False after diagnostics. */
bool tool_what_if_read(Tool *t, const Target *g, WhatIfs *out);
/* Returns the seconds of the plan that the search alone finds for the unchanged target and pins.  Answers are compared
 * with that, as the shown plan may come from a file, be chosen for its memory, or by the memory of its Program. */
double tool_seconds_as_is(Tool *t, Build *b);
/* Searches the plans; the build keeps its own plan. */
void tool_what_if(Tool *t, Build *b, double as_is, WhatIfs *x);

/* Reads the layouts that --pin forces: "layers.*.mlp.fc:2=tp", "x:0=none".  False after diagnostics. */
bool tool_pins(Tool *t, const PlanPin **out, int *n);
/* The cost of the build's pins: seconds of the plan with all of them and, by pin, without that one; INFINITY if there
 * is no plan. */
typedef struct PinPrices {
  double with;
  const double *without;
} PinPrices;
/* Searches without each pin; `as_is`: seconds with all pins, from tool_seconds_as_is. */
PinPrices tool_pin_prices(Tool *t, Build *b, double as_is);
/* Print the prices, or return them as a JSON list. */
void tool_pins_show(const Tool *t, const Build *b, const PinPrices *x);
json_t *tool_pins_json(const Build *b, const PinPrices *x);

/* Print the answers as lines or as a JSON list; `p` is the build's plan. */
void tool_what_if_show(const Tool *t, const Plan *p, const WhatIfs *x);
json_t *tool_what_if_json(const WhatIfs *x);

#endif
