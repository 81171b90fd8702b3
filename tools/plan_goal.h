/* tools/plan_goal.h - results of --objective throughput and cost: replicas, their throughput or cost, the bound. */
#ifndef APC_TOOLS_PLAN_GOAL_H
#define APC_TOOLS_PLAN_GOAL_H

#include "tools/build.h"

/* Returns the number of replicas that run at the same time: with --objective throughput as many as fit, else one. */
int tool_replicas(const Build *b);
/* Returns the seconds per batch of each replica; without replicas, the time of a batch. */
double tool_step_seconds(const Build *b);
/* Returns the USD per hour of the devices of all replicas; NaN if unknown. */
double tool_usd_per_hour(const Build *b);

/* The objective of a plan: its unit, "tokens/s" or "USD/M tokens", and values. */
typedef struct GoalFigure {
  const char *unit;
  double value, bound, gap;
} GoalFigure;
/* Returns the figures of a build with replicas. */
GoalFigure tool_goal_figure(Arena *a, const Build *b);
/* Returns a value of the objective as text, without its unit. */
const char *tool_goal_text(Arena *a, const Build *b, double value);

/* Describes the program of a plan: ", one of 8 replicas"; empty without replicas. */
const char *tool_goal_replicas_text(Arena *a, const Build *b);

/* Returns "8 x (tp 2 x dp 4)" for replicas of a plan, or "8: tp 2 x dp 4" for the devices of one. */
const char *tool_goal_choice(Arena *a, const Build *b, const PlanAlternative *x, const Plan *p);
/* Prints the table of the plan and its alternatives. */
void tool_goal_show_choices(const Tool *t, const Build *b);
/* Prints the lines below the table: replicas, devices, limits. */
void tool_goal_show(const Tool *t, const Build *b);
/* Returns the objective of the plan as JSON. */
json_t *tool_goal_json(const Build *b);
/* Adds the objective's figures to the JSON of an alternative. */
void tool_goal_add_json(const Build *b, const PlanAlternative *x, json_t *to);

#endif
