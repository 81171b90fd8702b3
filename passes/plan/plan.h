/* passes/plan/plan.h - a plan: the mesh, the strategy and stage of every operation, and their predicted cost.
 *
 * Plans are found by plan_search and stored as text (D24).  docs/guide/plan.md specifies the format.
 */
#ifndef APC_PASSES_PLAN_PLAN_H
#define APC_PASSES_PLAN_PLAN_H

#include <signal.h>

#include "ir/target.h"
#include "passes/cost/plan_price.h"
#include "passes/plan/degrees.h"
#include "passes/plan/pins.h"
#include "passes/plan/recompute.h"
#include "passes/plan/said.h"

/* The progress of a search. */
typedef struct PlanProgress {
  int done, candidates;
  double best;  /* seconds of the best plan so far; INFINITY if none */
  double bound; /* seconds: lower bound of all plans, as known so far */
  double left;  /* seconds until the search ends, by its limit or at its current rate; INFINITY if unknown */
} PlanProgress;

typedef void (*PlanProgressFunc)(void *context, const PlanProgress *p);

/* Why a search finds no plan: set if memory is too small, else 0. */
typedef struct PlanLack {
  double resident; /* bytes of all weights and state */
  double nearest;  /* bytes per rank, as the search counts, of the plan that was closest; 0 if none */
  double bound;    /* for every search without a plan: lower bound in seconds, as Plan.no_gaps_bound */
} PlanLack;

/* Results of a search without forced degrees, which searches with forced degrees reuse. */
typedef struct PlanKnown PlanKnown;

typedef struct PlanOptions {
  int micro_batches;        /* 0: apc chooses */
  int degree[DEGREE_COUNT]; /* forced; 0: apc chooses */
  int schedule;             /* 1 + the PipelineSchedule of a training step; 0: apc chooses */
  int chunks;               /* of the given schedule: Mesh.chunks */
  Recompute recompute;      /* for training */
  int zero;                 /* 1 + the stage of ZeRO (zero.h); 0: apc chooses */
  const PlanPin *pins;      /* forced layouts */
  int npins;
  const PlanSaid *said; /* a file to be completed; NULL if none */
  double memory_limit;  /* bytes per rank; 0: what the target has */
  double effort; /* time limit in seconds: the best plan so far is returned, which depends on the machine; 0: none */
  double work;   /* the same limit as work, in sums or operations of equal cost; 0: the default limit */
  double *spent; /* the search adds its work, in units of `work`; may be NULL */
  const PlanKnown **known; /* shared by searches for one function, target and limit; NULL at first; may be NULL */
  const volatile sig_atomic_t *stop; /* nonzero stops the search, which returns the best plan so far; may be NULL */
  bool any;                          /* return the first plan that fits */
  bool searched;                     /* search even if everything is forced, for callers that try several */
  bool steady;         /* minimise the time from batch to batch (PlanTime.period) instead of that of one batch */
  double most_seconds; /* limit of the time of one batch; 0: none */
  double below;        /* ignore plans that are not below this value of the objective; 0: no limit */
  bool alternatives;   /* also list alternatives, each as the user would get it by forcing it */
  bool frontier;  /* list instead the Pareto frontier of the plans found: time, time from batch to batch and memory */
  PlanLack *lack; /* set if there is no plan; may be NULL */
  PlanProgressFunc show; /* called many times while the search runs; NULL if not needed */
  void *show_context;
} PlanOptions;

/* Where the search spent its time, for finding out why it is slow. */
enum { SEARCH_JOINS = 4, SEARCH_FANS = 4, SEARCH_MANY_USERS = 5 };

/* The elimination of a variable: an operation, or the layouts of a value. */
typedef struct SearchJoin {
  const char *name;
  int nscope; /* the other variables of the join */
  const char *const *scope;
  double sums;
} SearchJoin;

/* A value with many users. */
typedef struct SearchFan {
  const char *name;
  int users, choosing; /* operations; those that may want different layouts */
  int sets;            /* layouts of the value, in sets; 0: one table, or one per user */
} SearchFan;

typedef struct SearchReport {
  int candidates, graphs, solved;      /* candidates considered; graphs built; graphs solved */
  double domains, tables, order, sums; /* seconds of processor time */
  /* The graph that took the most sums: */
  double most_work;
  int variables, width,
      many; /* width: the most other variables in one join; many: values with SEARCH_MANY_USERS users */
  int njoins, nfans;
  SearchJoin joins[SEARCH_JOINS]; /* the largest */
  SearchFan fans[SEARCH_FANS];    /* those with the most users */
} SearchReport;

typedef struct Plan Plan;

typedef struct PlanAlternative {
  int degree[DEGREE_COUNT], micro_batches, zero;
  double seconds, bytes; /* seconds is INFINITY if impossible */
  bool counted;          /* bytes are counted by the search, not by a Program */
  Plan *plan;            /* NULL if impossible */
  const char *why_not;   /* NULL if possible */
  const char *named;     /* its text in --compare; NULL if not named there */
  const char *schedule;  /* plan_schedule_name */
  const char *recompute; /* recompute_name */
} PlanAlternative;

/* For a plan that was chosen for its memory, and may be slower than the fastest by a given share. */
typedef struct PlanTraded {
  double fastest, slower; /* seconds of the fastest plan; the share */
  double bytes;           /* per rank of the fastest plan, as the search counts */
  double least;           /* proved lower bound over all plans that are fast enough; 0 if none */
} PlanTraded;

struct Plan {
  const char *target;
  const Target *on; /* the target of the plan */
  const char *func;
  int ranks;
  Mesh mesh; /* axes are named after what they split; with micro-batches the temporal axis "mb" comes first */
  int degree[DEGREE_COUNT]; /* the degrees of the axes (degrees.h), whatever their names */
  int micro_batches;
  int zero;                   /* the ZeRO stage (zero.h) */
  const Strategy *strategies; /* by operation of the function */
  const int *stages;          /* by operation */
  const char *recompute;      /* recompute_name */
  uint64_t graph;             /* hash of the function */
  PlanPrice price;
  const PlanMemory *allocated; /* memory of the largest rank of its Program; NULL if not computed */
  double flops, params;        /* of the whole step on one rank; number of trainable elements */
  double one_device_seconds;   /* the best on one rank of the target; INFINITY if it does not fit */
  bool layout;                 /* everything was forced: the bound is over one mesh, with an axis per degree */
  bool mirrored;               /* the bound covers plans in which gradients follow the forward pass (D57) */
  bool steady;                 /* bound and gap are for the time from batch to batch */
  double lower_bound, gap;     /* seconds, over all allowed plans with schedule 1f1b, or the given one; gap: plan_gap */
  double no_gaps_bound;        /* seconds, over all allowed plans, for pipelines without bubbles */
  double search_seconds;
  double search_work;       /* sums formed for tables: the effort of the search, independent of the machine */
  bool cut_short;           /* the search reached its limit of time or work */
  const char *one_batch;    /* why its stages have one micro-batch if that was not forced; NULL if there is no reason */
  const PlanTraded *traded; /* NULL if it is the fastest */
  SearchReport report;
  int nalternatives;
  PlanAlternative *alternatives; /* best first, without the plan itself; then the named ones */
  int nnear; /* faster plans above the memory limit by the search's count, but possibly within it, by time */
  Plan **near;
  int nspare; /* slower plans within the limit by the search's count, by time: used if this plan's Program exceeds it */
  Plan **spare;
};

/* These functions restore the module's mesh.  To continue with a plan, give the module the plan's mesh
 * (module_set_mesh). */

/* Returns the fastest plan for the level-1 function (calls inlined) on the target.  NULL after diagnostics: no feasible
 * plan, contradictory options. */
Plan *plan_search(Module *m, const Func *f, const Target *t, const PlanOptions *o, Diags *d);

/* Returns the least seconds on one rank of the target; INFINITY if it does not fit.  `memory_limit` as in
 * PlanOptions. */
double plan_one_device_seconds(Module *m, const Func *f, const Target *t, double memory_limit);

/* Returns the sum of the operations' least seconds on one rank, without a memory limit.  Divided by n it is a lower
 * bound of the time from batch to batch on n ranks. */
double plan_least_seconds(Module *m, const Func *f, const Target *t);

/* Returns the bytes that a rank may use: `asked`, or, if that is 0, those of the target. */
static inline double plan_memory_limit(const Target *t, double asked) { return asked > 0 ? asked : target_usable(t); }

/* Returns the value that the search minimised. */
static inline double plan_seconds(const Plan *p) { return p->steady ? p->price.time.period : p->price.time.total; }

/* Returns the gap as a fraction of the plan's time; 0 if the plan is as fast as the bound. */
static inline double plan_gap(double seconds, double lower_bound) {
  return seconds > lower_bound * (1 + 1e-9) ? 1 - lower_bound / seconds : 0;
}

/* Returns the schedule of a plan by name: "none" without stages and micro-batches; inference runs micro-batches one
 * after another, as the forward pass of gpipe. */
const char *plan_schedule_name(Arena *a, const Plan *p);
const char *plan_name_of_schedule(Arena *a, bool trains, int stages, int micro_batches, PipelineSchedule s, int chunks);

/* Returns the memory of the largest rank: of the Program if computed, else as the search counts. */
static inline const PlanMemory *plan_memory(const Plan *p) { return p->allocated ? p->allocated : &p->price.memory; }

/* Describes a plan as an alternative to another, without PlanAlternative.plan. */
PlanAlternative plan_as_alternative(Arena *a, const Plan *p);

/* Returns the identity of a function for plans: a hash of its text without locations. */
uint64_t plan_graph_hash(const Module *m, const Func *f);

/* Appends the text of a plan; globs replace equal lines. */
void plan_print(Module *m, const Func *f, const Plan *p, Text *out);

/* Reads a plan for the function and prices it on the target.  NULL after diagnostics with line and column. */
Plan *plan_parse(Module *m, const Func *f, const Target *t, const char *file, const char *text, Diags *d);

#endif
