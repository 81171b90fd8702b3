/* driver/internal.h - what driver.c has elsewhere. */
#ifndef APC_DRIVER_INTERNAL_H
#define APC_DRIVER_INTERNAL_H

#include "driver/driver.h"

/* From now on that stage and those after it count as not run. */
void driver_go_back(Build *b, DriverStage to);

/* together.c */
/* Which entry of several is planned, where not all are. */
void driver_say_entries(const Build *b);
/* Plans all entries together from now on: what is planned is their joint function.  `loc`: of the line of a plan file
 * that says so.  False: there is no such entry. */
bool driver_join_entries(Build *b, int n, const DriverCalls *calls, Loc loc);
/* Sets *strategies and *stages to the part of the plan that is of that entry. */
void driver_entry_choice(const Build *b, int entry, const Strategy **strategies, const int **stages);

/* The plan that was found for all entries, or a better one that begins with what one of them would have alone; the
 * bound is raised to the sum of theirs, where that is known, in what is left of the effort of the search that began
 * then. */
Plan *driver_hold_against_entries(const Build *b, const PlanOptions *options, int64_t micro_batch, double began,
                                  Plan *p);

/* memory.c */
/* Makes the Program of the plan there is, and sets what the largest of its ranks allocates (Plan.allocated); false
 * after diagnostics. */
bool driver_measure_plan(Build *b);
/* Programs of so much take a second or less to make, for whom `apc plan` is to be quick (docs/plan.md). */
bool driver_is_small(const Build *b, const Plan *p);

/* fit.c: takes a plan whose Program is within the limit, if there is one, beginning with the one there is; *least: what
 * its Program takes, or, where there is none, the smallest one that was made.  False after diagnostics. */
bool driver_fit_plan(Build *b, double limit, double *least);

/* plan.c */
bool stage_plan(Build *b);
/* One of several searches, in what the others have left of --effort.  `micro_batch`: as DriverOptions.micro_batch. */
Plan *driver_search(Build *b, const PlanOptions *options, int64_t micro_batch, Diags *d);
/* The same; where no plan is within the limit as the search counts, but one that may be as its Program takes, that one,
 * and *why has the error. */
Plan *driver_search_near(Build *b, const PlanOptions *options, int64_t micro_batch, Diags *why);
/* What a further search is asked for. */
typedef struct PlanTry {
  double limit;      /* bytes of a rank, as the search counts them */
  int zero;          /* as PlanOptions.zero */
  bool alternatives; /* are to be listed, if they were asked for, */
  bool listed;       /* or whether they were or not */
  bool same_mesh;    /* only the mesh and the schedule of the plan there is are looked at; without alternatives */
} PlanTry;

/* The plan to go on with: what was lowered for another one is dropped, and its mesh becomes the module's, which the
 * text of the module says and level 2 stands on. */
void driver_take_plan(Build *b, Plan *p);
/* Such a plan in the place of the one there is; false: there is none, and the old one stays.  Says nothing.  All
 * searches share --effort. */
bool driver_plan_again(Build *b, const PlanTry *asked);
/* Some of --effort is left, or it has no limit. */
bool driver_has_effort(const Build *b);
/* Whoever waits has asked to stop (PlanOptions.stop). */
static inline bool driver_is_stopped(const Build *b) { return b->options.plan.stop && *b->options.plan.stop; }
/* The plan that `was` becomes an alternative to the one there is, and so do its alternatives. */
void driver_plan_beside(Build *b, Plan *was);
/* The same of a plan that is not the build's yet. */
void driver_list_beside(const Build *b, Plan *p, Plan *was);
/* Says why there is no plan, and how many devices would do; false. */
bool driver_refuse(Build *b, const Diags *why);
bool driver_save_plan(const Build *b); /* --save-plan */
bool save_texts(const Build *b);       /* the texts of --save-temps: the IR as far as it has come, and the plan */

#endif
