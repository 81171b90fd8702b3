/* tools/plan_goal.h - what --objective throughput and cost have found: replicas, what they give or cost, the bound. */
#ifndef APC_TOOLS_PLAN_GOAL_H
#define APC_TOOLS_PLAN_GOAL_H

#include "tools/build.h"

/* Replicas that run at the same time: with --objective throughput all there is room for, else one. */
int tool_replicas(const Build *b);
/* From one batch to the next of each; the time of a batch where that is what was minimised. */
double tool_step_seconds(const Build *b);
/* Dollars an hour of the devices of all of them; NaN: not known. */
double tool_usd_per_hour(const Build *b);

/* What is shown of a plan: "tokens/s" or "USD/M tokens", and how many. */
typedef struct GoalFigure {
  const char *unit;
  double value, bound, gap;
} GoalFigure;
/* Of a build with replicas. */
GoalFigure tool_goal_figure(Arena *a, const Build *b);
const char *tool_goal_text(Arena *a, const Build *b, double value);

/* ", one of 8 replicas": what a program of the plan is; empty without replicas. */
const char *tool_goal_replicas_text(Arena *a, const Build *b);

/* "8 x (tp 2 x dp 4)": replicas of a plan; "8: tp 2 x dp 4": the devices of one. */
const char *tool_goal_choice(Arena *a, const Build *b, const PlanAlternative *x, const Plan *p);
/* The plan and what was found beside it, in a table; what is said below it. */
void tool_goal_show_choices(const Tool *t, const Build *b);
void tool_goal_show(const Tool *t, const Build *b);
json_t *tool_goal_json(const Build *b);
/* What an alternative has besides. */
void tool_goal_add_json(const Build *b, const PlanAlternative *x, json_t *to);

#endif
