/* tools/plan_questions.h - what `apc plan` is asked beside the plan: --compare and --what-if, and what --pin costs. */
#ifndef APC_TOOLS_PLAN_QUESTIONS_H
#define APC_TOOLS_PLAN_QUESTIONS_H

#include "driver/compare.h"
#include "tools/tool.h"

/* The plans that all uses of --compare name: "tp=8,pp=8,zero=1,schedule=interleaved:4".  False after diagnostics. */
bool tool_compared(Tool *t, const DriverNamed **out, int *n);

/* One answer to --what-if: the plan for a target with other figures. */
typedef struct WhatIfPlan {
  const char *text;
  const Target *target;
  const Plan *plan; /* NULL: there is none, for this reason: */
  const char *why_not;
} WhatIfPlan;

/* For each figure alone, and, if there are several, for all of them together. */
typedef struct WhatIfs {
  WhatIfPlan *items;
  size_t n, cap;
  double as_is; /* tool_seconds_as_is */
} WhatIfs;

/* Reads --what-if for that target: "nvlink*2,memory*1.5".  False after diagnostics. */
bool tool_what_if_read(Tool *t, const Target *g, WhatIfs *out);
/* Seconds that the search alone finds for the target and the pins as they are.  Answers are held against that: the plan
 * that is shown may be given, or traded for memory, or fit as its Program takes. */
double tool_seconds_as_is(Tool *t, Build *b);
/* Searches the plans; the build has its own plan. */
void tool_what_if(Tool *t, Build *b, double as_is, WhatIfs *x);

/* Layouts that --pin forces: "layers.*.mlp.fc:2=tp", "x:0=none".  False after diagnostics. */
bool tool_pins(Tool *t, const PlanPin **out, int *n);
/* What the build's pins cost: seconds that the search finds with all of them, and, by pin, without that one; INFINITY:
 * there is no plan. */
typedef struct PinPrices {
  double with;
  const double *without;
} PinPrices;
PinPrices tool_pin_prices(Tool *t, Build *b, double as_is);
void tool_pins_show(const Tool *t, const Build *b, const PinPrices *x);
json_t *tool_pins_json(const Build *b, const PinPrices *x);

void tool_what_if_show(const Tool *t, const Plan *p, const WhatIfs *x);
json_t *tool_what_if_json(const WhatIfs *x);

#endif
