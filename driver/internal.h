/* driver/internal.h - functions that the files of driver/ share. */
#ifndef APC_DRIVER_INTERNAL_H
#define APC_DRIVER_INTERNAL_H

#include "driver/driver.h"
#include "passes/plan/file.h"

/* Marks that stage and those after it as not run. */
void driver_go_back(Build *b, DriverStage to);

/* together.c */
/* Reports which of several entries is planned, if not all are. */
void driver_say_entries(const Build *b);
/* Plans all entries together from now on, as their joint function.  `loc`: the line of the plan file that asks for it.
 * False after a diagnostic if there is no such entry. */
bool driver_join_entries(Build *b, int n, const DriverCalls *calls, Loc loc);
/* Sets *strategies and *stages to the plan's choices for that entry. */
void driver_entry_choice(const Build *b, int entry, const Strategy **strategies, const int **stages);

/* Returns the plan found for all entries, or a better one that extends the best plan of a single entry; raises the
 * bound to the sum of the entries' bounds where known.  Uses what is left of the effort of the search that began at
 * `began`. */
Plan *driver_hold_against_entries(const Build *b, const PlanOptions *options, int64_t micro_batch, double began,
                                  Plan *p);

/* times.c */
/* Returns the predicted times of the entries of a lowered build, in its arena; NULL without a plan. */
const ProgramTimes *driver_times(const Build *b);

/* memory.c */
/* Makes the Program of the current plan and sets the memory of its largest rank (Plan.allocated); false after
 * diagnostics. */
bool driver_measure_plan(Build *b);
/* True if making the plan's Program takes about a second or less, so that `apc plan` may do it (docs/guide/plan.md). */
bool driver_is_small(const Build *b, const Plan *p);

/* fit.c: chooses a plan whose Program is within the limit, if there is one, starting from the current plan.  *least:
 * bytes of its Program or, if there is none, of the smallest one made.  False after diagnostics. */
bool driver_fit_plan(Build *b, double limit, double *least);

/* plan.c: the stage that finds the plan or reads it from a file. */
bool stage_plan(Build *b);
/* Runs one of several searches, within the effort that the others have left.  `micro_batch`: as
 * DriverOptions.micro_batch. */
Plan *driver_search(Build *b, const PlanOptions *options, int64_t micro_batch, Diags *d);
/* As driver_search; but if no plan is within the limit as the search counts, returns the nearest one whose Program may
 * fit, with the error in `why`. */
Plan *driver_search_near(Build *b, const PlanOptions *options, int64_t micro_batch, Diags *why);
/* Arguments of a further search. */
typedef struct PlanTry {
  double limit;      /* bytes of a rank, as the search counts them */
  int zero;          /* as PlanOptions.zero */
  bool alternatives; /* list alternatives if the user asked for them */
  bool listed;       /* list alternatives always */
  bool same_mesh;    /* search only the mesh and schedule of the current plan, without alternatives */
} PlanTry;

/* Makes `p` the current plan: drops the lowered code of the previous plan and gives the module p's mesh, which the
 * module's text and level 2 refer to. */
void driver_take_plan(Build *b, Plan *p);
/* Replaces the current plan by the result of a further search; false if it finds none, and the old plan stays.  Reports
 * nothing.  All searches share --effort. */
bool driver_plan_again(Build *b, const PlanTry *asked);
/* True if effort is left or unlimited. */
bool driver_has_effort(const Build *b);
/* True if the caller has asked to stop (PlanOptions.stop). */
static inline bool driver_is_stopped(const Build *b) { return b->options.plan.stop && *b->options.plan.stop; }
/* Lists `was` and its alternatives as alternatives of the current plan. */
void driver_plan_beside(Build *b, Plan *was);
/* The same for a plan that is not the current one. */
void driver_list_beside(const Build *b, Plan *p, Plan *was);
/* Reports why there is no plan, and how many devices would suffice; returns false. */
bool driver_refuse(Build *b, const Diags *why);
bool driver_save_plan(const Build *b); /* --save-plan */
bool save_texts(const Build *b);       /* --save-temps: writes the IR of the stages so far, and the plan */

/* driver/away.c: what a plan keeps outside the memory of the devices.
 * driver_begin_away applies --offload, or what the plan file says; false after a diagnostic.  driver_put_away does it
 * for --offload auto when nothing fits: false if that is not asked for, done already, or impossible. */
bool driver_begin_away(Build *b, const PlanFile *file);
bool driver_put_away(Build *b);
/* Plans again, with states away, after the Programs of all other plans were too large; false if that is not asked for
 * or finds nothing. */
bool driver_plan_away(Build *b);

#endif
