/* passes/plan/plan.h - a plan: the mesh, the strategy and stage of every operation, and what they are predicted to
 * cost.
 *
 * Found by plan_search, kept as text (D24).  The text format is specified in docs/plan.md.
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

/* How far a search has come. */
typedef struct PlanProgress {
  int done, candidates;
  double best;  /* seconds of the best plan so far; INFINITY: none */
  double bound; /* seconds that no plan is faster than, as far as is known */
  double left;  /* seconds until the search ends, by its limit or as candidates went so far; INFINITY: not known */
} PlanProgress;

typedef void (*PlanProgressFunc)(void *context, const PlanProgress *p);

/* Of a search that finds no plan for lack of memory; 0 of others. */
typedef struct PlanLack {
  double resident; /* bytes of all weights and state */
  double nearest;  /* bytes that the search counts on a rank of the plan that was nearest; 0: there is none */
  double bound;    /* of any search without a plan: seconds that no plan is faster than, as Plan.no_gaps_bound */
} PlanLack;

/* What a search without forced degrees has found: searches that force some use it. */
typedef struct PlanKnown PlanKnown;

typedef struct PlanOptions {
  int micro_batches;        /* 0: apc chooses */
  int degree[DEGREE_COUNT]; /* forced; 0: apc chooses */
  int schedule;             /* 1 + the PipelineSchedule of a training step; 0: apc chooses */
  int chunks;               /* of the schedule that is given: Mesh.chunks */
  Recompute recompute;      /* of training */
  int zero;                 /* 1 + the stage of ZeRO (zero.h); 0: apc chooses */
  const PlanPin *pins;      /* layouts that are forced */
  int npins;
  const PlanSaid *said; /* a file that is completed; NULL */
  double memory_limit;  /* bytes per rank; 0: what the target has */
  double effort; /* seconds after which the best plan so far is taken; plans then depend on the machine's speed.  0: */
  double work;   /* the work after which it is, in sums or what takes as long; 0: a usual limit */
  double *spent; /* grows by the work that is done, as `work` counts it; may be NULL */
  const PlanKnown **known; /* kept between searches of one function on one target with one limit, NULL at first; may be
                              NULL: found each time */
  const volatile sig_atomic_t *stop; /* once it is not 0 the best plan so far is taken, or none; NULL */
  bool any;                          /* the first plan that fits will do */
  bool searched;                     /* also where all is forced: by who tries several */
  bool steady;         /* the least time from batch to batch is wanted (PlanTime.period) instead of that of one batch */
  double most_seconds; /* that one batch may take; 0: any */
  double below;        /* no plan that takes longer is wanted, in what is minimised; 0: any */
  bool alternatives;   /* list what else there is, each as whoever forces it gets it */
  bool frontier;  /* list what was found instead: time, time from batch to batch and memory, that nothing else beats */
  PlanLack *lack; /* is set when there is no plan; may be NULL */
  PlanProgressFunc show; /* called many times while the search runs; NULL: not */
  void *show_context;
} PlanOptions;

/* Where the time of a search went, for whoever wants to know why it is long. */
enum { SEARCH_JOINS = 4, SEARCH_FANS = 4, SEARCH_MANY_USERS = 5 };

/* The elimination of a variable: an operation, or the layouts that are made of a value. */
typedef struct SearchJoin {
  const char *name;
  int nscope; /* the other variables of the join */
  const char *const *scope;
  double sums;
} SearchJoin;

/* A value with many users. */
typedef struct SearchFan {
  const char *name;
  int users, choosing; /* operations; those that may ask for different layouts */
  int sets;            /* layouts that may be made of it, in sets: 0: one table, or one per user */
} SearchFan;

typedef struct SearchReport {
  int candidates, graphs, solved;      /* looked at; built; solutions of these */
  double domains, tables, order, sums; /* seconds of processor time */
  /* Of the graph that took the most sums: */
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
  double seconds, bytes; /* seconds is INFINITY when it is not possible */
  bool counted;          /* bytes are what the search counts: no Program was asked */
  Plan *plan;            /* NULL when it is not possible */
  const char *why_not;   /* NULL when it is possible */
  const char *named;     /* its text in --compare; NULL: it was not named there */
  const char *schedule;  /* plan_schedule_name */
  const char *recompute; /* recompute_name */
} PlanAlternative;

/* Of a plan that was chosen for its memory: it may be slower than the fastest by a part. */
typedef struct PlanTraded {
  double fastest, slower; /* seconds of the fastest plan; the part */
  double bytes;           /* on a rank of the fastest plan, as the search counts, */
  double least;           /* and of all plans that are fast enough at least, as far as is proved; 0: nothing is */
} PlanTraded;

struct Plan {
  const char *target;
  const Target *on; /* what it is for */
  const char *func;
  int ranks;
  Mesh mesh; /* axes are named for what they split; with micro-batches the temporal axis "mb" comes first */
  int degree[DEGREE_COUNT]; /* what the axes amount to (degrees.h), whatever their names */
  int micro_batches;
  int zero;                   /* the stage of ZeRO that it amounts to (zero.h) */
  const Strategy *strategies; /* by operation of the function */
  const int *stages;          /* by operation */
  const char *recompute;      /* recompute_name */
  uint64_t graph;             /* hash of the function */
  PlanPrice price;
  const PlanMemory *allocated; /* what the largest rank of its Program takes; NULL: it was not asked */
  double flops, params;        /* of the whole step on one rank; trainable elements */
  double one_device_seconds;   /* the best on one rank of the target; INFINITY when it does not fit */
  bool layout;                 /* all was forced: the bound is over one mesh, with an axis per degree */
  bool mirrored;               /* the bound is over plans in which gradients follow the forward pass (D57) */
  bool steady;                 /* bound and gap are of the time from batch to batch */
  double lower_bound, gap;     /* seconds, over everything that was allowed, of schedules 1f1b unless one is given; gap:
                                  plan_gap */
  double no_gaps_bound;        /* seconds, over everything that was allowed, were there no gaps in pipelines */
  double search_seconds;
  double search_work;    /* sums formed for tables: the effort of the search, whatever the machine */
  bool cut_short;        /* the search ended at its limit of time or work */
  const char *one_batch; /* why its stages have one micro-batch, where that was not asked for; NULL: no such reason */
  const PlanTraded *traded; /* NULL: it is the fastest */
  SearchReport report;
  int nalternatives;
  PlanAlternative *alternatives; /* best first, without the plan itself; then the named ones */
  int nnear; /* faster plans that the search counts above the memory limit, and that may be within it, by time */
  Plan **near;
  int nspare; /* slower plans that the search counts within the limit, by time: where the Program of this one is not */
  Plan **spare;
};

/* The module has its own mesh again when these return: whoever goes on with a plan gives the module the plan's
 * (module_set_mesh). */

/* The fastest plan for the level-1 function (calls inlined) on the target.  NULL after diagnostics: no feasible plan,
 * contradictory options. */
Plan *plan_search(Module *m, const Func *f, const Target *t, const PlanOptions *o, Diags *d);

/* The least on one rank of the target; INFINITY when it does not fit.  `memory_limit` as in PlanOptions. */
double plan_one_device_seconds(Module *m, const Func *f, const Target *t, double memory_limit);

/* What all operations take at least on one rank of the target, were memory no limit: divided by the ranks of a part of
 * it, no plan on that part has less time from batch to batch. */
double plan_least_seconds(Module *m, const Func *f, const Target *t);

/* Bytes that a rank may have: what is asked for, or, where that is 0, what the target has. */
static inline double plan_memory_limit(const Target *t, double asked) { return asked > 0 ? asked : target_usable(t); }

/* What the search has minimised. */
static inline double plan_seconds(const Plan *p) { return p->steady ? p->price.time.period : p->price.time.total; }

/* A fraction of the plan's time; 0 when it is as fast as the bound. */
static inline double plan_gap(double seconds, double lower_bound) {
  return seconds > lower_bound * (1 + 1e-9) ? 1 - lower_bound / seconds : 0;
}

/* The schedule of a plan by name: "none" without stages and micro-batches; inference runs micro-batches one behind the
 * other, as the forward of gpipe. */
const char *plan_schedule_name(Arena *a, const Plan *p);
const char *plan_name_of_schedule(Arena *a, bool trains, int stages, int micro_batches, PipelineSchedule s, int chunks);

/* What the largest rank takes: of the Program where that was asked, else as the search counts. */
static inline const PlanMemory *plan_memory(const Plan *p) { return p->allocated ? p->allocated : &p->price.memory; }

/* A plan as what else there is beside another one, but for PlanAlternative.plan. */
PlanAlternative plan_as_alternative(Arena *a, const Plan *p);

/* Identity of a function for plans: its text without locations. */
uint64_t plan_graph_hash(const Module *m, const Func *f);

/* The text of a plan: globs only where they say the same. */
void plan_print(Module *m, const Func *f, const Plan *p, Text *out);

/* Reads a plan for the function and prices it on the target.  NULL after diagnostics with line and column. */
Plan *plan_parse(Module *m, const Func *f, const Target *t, const char *file, const char *text, Diags *d);

#endif
