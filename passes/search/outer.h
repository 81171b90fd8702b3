/* passes/search/outer.h - the outer search over meshes, shared by its files: search.c (runs, the answer), tries.c
 * (which candidates are tried), named.c and estimate.c (plans as people name them), candidates.c (what candidates there
 * are), candidate.c (the best plan and the bound of one), again.c (with as much made again as it needs to fit), near.c
 * (what may fit all the same), uneven.c (finer shares for ranks that are not alike), unfit.c (why nothing fits).
 */
#ifndef APC_PASSES_SEARCH_OUTER_H
#define APC_PASSES_SEARCH_OUTER_H

#include <math.h>

#include "passes/cost/ranks.h"
#include "passes/plan/degrees.h"
#include "passes/plan/plan.h"
#include "passes/plan/recompute.h"
#include "passes/search/graph.h"

enum { MAX_SPATIAL = 3, MOST_POLICIES = 3 };

/* The order in which stages train their micro-batches, and the stages on each place (Mesh.chunks). */
typedef struct ScheduleKind {
  PipelineSchedule order;
  int chunks;
} ScheduleKind;

typedef struct Candidate {
  double bound; /* seconds it cannot be faster than, as far as is known */
  int stages, naxes;
  int least, micro; /* all these numbers of micro-batches; one when they are equal */
  int sizes[MAX_AXES];
  int degree[MAX_AXES];       /* the only degree the axis counts for; -1: free */
  ShareBy shares;             /* how members of its axes that are not alike share (passes/cost/ranks.h); ANYHOW: it only
                                 bounds the others */
  const int *given[MAX_AXES]; /* by axis, where they are given */
  bool loose;                 /* axes with a degree need not cut all they can */
  int bounded;  /* a graph has said what the orders of so many of its first axes take; more than it has: none */
  bool weighed; /* its bound counts what the cheapest strategies take */
  bool no_gaps; /* its schedule may leave a stage no gaps, so that its bound counts none */
  ScheduleKind schedule;
} Candidate;

typedef struct Outcome {
  Candidate c;
  bool feasible;
  bool slower;      /* than the best plan, once it is cut into stages: it was not priced */
  bool indivisible; /* it has too few places to cut it at */
  bool joined;      /* something needs all micro-batches at once */
  PlanPrice price;
  double seconds; /* of the price, those that are minimised (search_seconds) */
  Strategy *strategies;
  int *stages;
  int found[DEGREE_COUNT]; /* degrees the strategies amount to */
  uint32_t data_axes;      /* axes of the mesh that count for data parallelism, as a bit set */
  int zero;                /* the stage of ZeRO that they amount to */
  double solved;           /* what the graph said it costs */
  double wanted;           /* seconds it would take if there were memory enough; 0: there is */
  const char *why_not;
} Outcome;

/* A candidate that may be faster than the plan: it was solved, and this is its bound, without what is made again for
 * gradients (seconds_again).  `limited`: SearchRun.limited. */
typedef struct Bounded {
  Candidate c;
  double bound;
  bool limited;
} Bounded;

typedef struct BoundedList {
  Bounded *items;
  size_t n, cap;
} BoundedList;

/* What a search without forced degrees has found: its outcomes; what was left open below `seconds`, where it came to
 * its end: nothing else on a mesh of at most MAX_SPATIAL axes is faster than that. */
struct PlanKnown {
  Outcome *const *items;
  size_t n;
  BoundedList open;
  double seconds; /* 0: it did not come to its end */
  /* In a large search only what may amount to these was looked at; 0: anything. */
  int degrees[DEGREE_COUNT], micro;
  Recompute recompute;   /* that was asked for */
  ScheduleKind schedule; /* that pipelines had; `any_schedule`: or others, of which all were tried if `all_schedules` */
  bool any_schedule, all_schedules;
};

/* Equal operations. */
typedef struct LeastWork {
  OpLeast each;
  double runs;      /* of all of them */
  unsigned degrees; /* whose labels they have, as a bit set */
  bool before;      /* Shape.before */
} LeastWork;

typedef struct LeastList {
  LeastWork *items; /* by class of operations */
  size_t n, cap;
} LeastList;

/* What may be made again for gradients. */
typedef struct Policy {
  const bool *again;   /* by operation */
  double *each, *once; /* by operation: bytes that are live there, of the whole batch and once a step; all ranks
                          together, each value once */
  const size_t *last;  /* by operation: where what it makes is read last; SIZE_MAX: it takes no memory of its own */
  LeastList least;     /* what is made again */
  const bool *saved;   /* by operation of the forward pass: what it makes is kept for gradients */
} Policy;

/* What one more layer makes again, the first with what is outside of layers. */
typedef struct LeastLayer {
  double saved; /* bytes that are not kept then, of the whole batch, at most */
  LeastList least;
} LeastLayer;

/* The prices on a mesh. */
typedef struct MeshModel {
  Mesh mesh;
  int loose;
  CostModel *cost;
} MeshModel;

enum { MOST_MODELS = 8 };

/* What is counted above the limit, is faster than what is within, and may be within by its Program (driver/memory.c):
 * none is both slower than another one and counted more. */
enum { MOST_NEAR = 8 };
typedef struct NearList {
  bool wanted;
  int n;
  Outcome *items[MOST_NEAR + 1]; /* the fastest first; behind them some whose room is used again */
} NearList;

/* What one run of a search is forced to, and what it has found so far.  A search runs several times: without what is
 * forced, to know what there is, and forced to the degrees of each alternative. */
typedef struct SearchRun {
  int forced[DEGREE_COUNT];
  int within[DEGREE_COUNT]; /* free axes are looked at that can amount to these degrees; 0: to any */
  int zero; /* PlanOptions.zero; then what no degree is forced for splits no batch, as ranks that do have to be known */
  const PlanKnown *known; /* outcomes of the run without forced degrees, which count where they amount to them; NULL:
                             none */
  struct {
    Candidate *items;
    size_t n, cap;
  } candidates;
  struct {
    Outcome **items;
    size_t n, cap;
  } outcomes;
  BoundedList bounded; /* candidates with one number of micro-batches that were solved */
  const Outcome *best;
  const Outcome *alone; /* the best of one kind of parallelism, while it is the best of all */
  NearList near;
  double lower_bound;
  double left_alone;    /* the least bound of what is hardly faster than the best plan and was not looked at */
  double no_gaps_bound; /* with any_schedule, of candidates whose schedules may leave no gaps */
  /* Where the last candidate met the memory limit: */
  double memory_weight; /* seconds per byte */
  double activations;   /* bytes that weights and state could not have */
  bool limited;         /* memory decided something about the last candidate that was solved */
  bool limited_flat;    /* and about one of a training step without stages, */
  bool limited_some;    /* and about any */
  int early;            /* candidates that were solved before others had a bound (tries.c) */
  bool hasty;           /* the time was over before there was a plan: any plan will do */
  bool gave_up;         /* there was none, and not all was tried */
} SearchRun;

typedef struct Search {
  Module *m;
  Mesh mesh_before; /* that the module had, and gets again */
  const Func *f;
  const Target *t;
  Arena *arena; /* the module's */
  const Rule *const *rules;
  const OpLabels *labels;
  const PlanPin *pins;        /* PlanOptions.pins, */
  const uint64_t *pinned;     /* by operation (pins.h); NULL: there are none */
  const PlanSaid *said;       /* PlanOptions.said */
  const Shape *shape, *alike; /* alike: shape_alike; NULL: it has no such layers */
  bool layers_alike;          /* graphs are made of `alike` */
  int guess;          /* how much has to be made again so that a candidate fits (search_made_again); -1: no idea, */
  double guess_freed; /* and bytes that each more of it frees */
  bool layout;        /* all is forced: only the mesh with one axis per degree is looked at */
  CostModel *cost;    /* of the mesh that was set last: one of `models` */
  CostModel *base;    /* has what all others share */
  MeshModel models[MOST_MODELS]; /* of one way to divide the ranks, with several numbers of micro-batches */
  int nmodels;
  CostModel *whole;                 /* of one micro-batch, while a range of them is bounded: it is not dropped */
  struct StagesKnown *known_stages; /* of what is cut for several schedules; NULL: nothing is */
  ScheduleKind schedule;            /* of pipelines of a training step */
  bool no_gaps;                     /* it may leave a stage none */
  bool any_schedule;                /* others are candidates of their own (Candidate.no_gaps) */
  double limit;
  uint64_t graph; /* plan_graph_hash */
  LeastList least;
  int npolicies; /* the fastest first: the first that fits is taken */
  Policy policies[MOST_POLICIES];
  Recompute recompute;                    /* PlanOptions.recompute */
  const RecomputeChoices *again;          /* of a training step */
  bool steady;                            /* minimised is the time from batch to batch (PlanTime.period) */
  double most_seconds;                    /* of one batch; INFINITY: any */
  bool all_each;                          /* nothing is done once for all micro-batches */
  double below;                           /* PlanOptions.below; INFINITY: any plan will do */
  int nlayers;                            /* where apc chooses the policy: the layers that repeat; else 0 */
  LeastLayer *some_layers, *whole_layers; /* by layer: from none to selective, from there to full */
  int parts;                              /* of the model between which no value passes */
  int most_stages;                        /* that have something to do */
  bool has_degree[DEGREE_COUNT];          /* some factor of the function has its label */
  int most_micro;
  bool *useful; /* by number of micro-batches: all others are no better than fewer (but see search_is_useful) */
  PlanLack *lack;
  double fastest; /* what work takes on the fastest ranks, as a part of what it takes on those of mean rate, at least */
  double resident; /* bytes of all weights and state, each kept once */
  SearchRun run;
  double work;
  double spent; /* by runs before this one, as the watch counts it */
  SolveWatch watch;
  PlanProgress progress; /* what is shown, */
  PlanProgressFunc show; /* to whom; NULL: nobody looks */
  void *show_context;
  SearchReport report;
  bool at_use; /* pipelines may gather weights at use */
  bool large;  /* hundreds of candidates, or long ones */
  bool named;  /* it begins with plans as people name them, and spends work where the bound is least */
  bool brief;  /* a plan is looked for, not a proof */
} Search;

/* ---- search.c */

/* What a search needs to know of the function and the target; false after diagnostics, and then there is nothing to
 * close. */
bool search_open(Search *s, Module *m, const Func *f, const Target *t, const PlanOptions *o, Diags *d);
void search_close(Search *s);

/* Axes of the degree are told apart from free ones, also where it is not forced: the training state is cut over them,
 * or lines of a file name them. */
static inline bool search_told_apart(const Search *s, int degree) {
  return (s->run.zero && degree == DEGREE_dp) || (s->said && s->said->degrees >> degree & 1);
}

/* ---- tries.c */

/* What is minimised of a price. */
static inline double search_seconds(const Search *s, const PlanPrice *p) {
  return s->steady ? p->time.period : p->time.total;
}
/* Of the best plan so far; while there is none, what plans are wanted below. */
static inline double search_best_time(const Search *s) { return s->run.best ? s->run.best->seconds : s->below; }
/* Takes what came of a candidate, which may be the best; `best`: seconds of the one before. */
void search_add_if_known(Search *s, Outcome *o, double best);
/* Tries the candidates of the run; with a free choice at first each kind of parallelism alone, in a large search plans
 * as people name them. */
void search_try_all(Search *s, const PlanOptions *o, bool free_choice);
/* The time was over before there was a plan: takes the first that is found, at first by little work on each candidate,
 * then by as much as it takes; a search that was limited in work gives up after some more.  Nothing else is known of
 * them than what was known without solving. */
void search_try_hastily(Search *s);

/* ---- named.c */

/* Tries plans as people name them, within what is forced. */
void search_try_named(Search *s, const PlanOptions *o);

/* ---- candidates.c */

/* What operations take at least, and what each policy keeps and makes again; one rank is the mesh. */
void measure_least(Search *s);
/* Without stages: what is made again for gradients takes at least so long, whichever policy says it, as what is live
 * would not fit otherwise, however it is cut; *limited: that decides.  0: nothing is known. */
double seconds_again(const Search *s, const Candidate *c, bool *limited);
/* What operations take at least on a candidate. */
double least_seconds(const Candidate *c, const LeastList *least);
/* How many stages a pipeline may have at most. */
int most_stages(const Search *s);
/* The most micro-batches that any operation can be cut into. */
int most_micro_batches(Search *s);
void find_useful_micro_batches(Search *s);
/* Can a pipeline of so many stages be faster with so many micro-batches than with fewer? */
bool search_is_useful(const Search *s, int stages, int micro);
/* The next useful number of micro-batches from here up, or down. */
int useful_from(const Search *s, int stages, int micro);
int useful_up_to(const Search *s, int stages, int micro);
/* What a candidate takes at least, without solving it. */
double ideal_seconds(const Search *s, const Candidate *c);
/* A bound of what is minimised; INFINITY where it says that a batch takes longer than is allowed.  Of a pipeline that
 * is kept full it is the mean of the stages, each of which a batch goes through. */
double search_bound_in_time(const Search *s, const Candidate *c, double bound);
/* What such a bound may be at most. */
double search_most_in_time(const Search *s, const Candidate *c);
/* It stands for pipelines whose schedule is left to apc, of those that fill gaps. */
static inline bool search_fills(const Search *s, const Candidate *c) { return s->any_schedule && c->no_gaps; }
/* On no axes as yet, of these numbers of micro-batches. */
Candidate candidate_of(const Search *s, int stages, int least, int micro);
/* All candidates within what is forced, with their bounds, best first.  Micro-batches help a pipeline, or memory
 * (search.c). */
void make_candidates(Search *s, const PlanOptions *o);
/* Those from number `first` on again, when bounds have changed. */
void sort_candidates(Search *s, size_t first);
bool search_same_candidate(const Candidate *a, const Candidate *b);
/* So many of the first axes may change places, as links make no difference between them; 0: none. */
int search_axes_in_any_order(const Search *s, const Candidate *c);
/* They differ in the order of their axes alone, or of the first `loose` ones; such candidates are neighbours in the
 * list unless their bounds differ. */
bool search_same_but_for_order(const Candidate *a, const Candidate *b, int loose);
/* How often what depends on the micro-batch counts at least, if the stages were equal; and as a part of the whole
 * batch. */
double repeat_of(const Candidate *c);
double search_share_of_micro_batch(const Candidate *c);

/* ---- again.c */

extern const char search_slower_than_plan[];
/* What is made again, by how much it is: from nothing (0) by layer to selective (nlayers), from there to full (twice
 * that). */
Recompute search_made_again(const Search *s, int much);
/* Cuts the choice into stages and prices it, with what is made again; false: it does not fit. */
bool search_cut_and_price_with(Search *s, const bool *again, Outcome *o);
/* With as much of it as it needs to fit. */
bool search_cut_and_price(Search *s, Outcome *o);
/* It is a pipeline that gathers weights in every micro-batch, as it would not fit otherwise. */
bool search_gathers_at_use(const Outcome *o);

/* ---- candidate.c */

/* Makes the candidate's mesh that of the module; the axes have these names, or numbers. */
void search_set_mesh(Search *s, const Candidate *c, const char *const *names);
/* The graph of a candidate, whose mesh is set. */
GraphInput search_graph_input(Search *s, const Candidate *c);
/* The best plan on the mesh of a candidate with one number of micro-batches; *bound gets a lower bound of all. */
Outcome *search_solve_mesh(Search *s, const Candidate *c, double prune_above, double *bound);
/* What was found for a pipeline, with schedules that fill its gaps, and the same made again for gradients. */
Outcome *search_fill_gaps(Search *s, const Outcome *of);
/* A lower bound for a candidate with one or several, and for all that have its first `loose` axes in another order;
 * INFINITY or some number above `prune_above` when it is above that. */
double bound_mesh(Search *s, const Candidate *c, int loose, double prune_above);
/* A weaker one, sooner: what the cheapest strategies take, without conversions. */
double search_least_of_operations(Search *s, const Candidate *c, int loose);
void free_models(Search *s);
/* The most elements of a factor of that label; 0 when there is none. */
int64_t largest_factor(const Search *s, Label label);

/* ---- uneven.c */

/* Of ranks that are not alike: the best plan with finer shares, if that makes it faster. */
void search_improve_shares(Search *s);

/* ---- near.c */

/* Keeps a copy of what was priced and counted above the limit, where it may be wanted. */
void search_keep_near(Search *s, const Outcome *o);

/* ---- unfit.c */

/* Of all weights and state, each kept once, as the compute type keeps them. */
double resident_bytes(const CostModel *c, Module *m, const Func *f);
/* Why it does not fit: by how much a rank's memory is too small. */
const char *too_much(const Search *s, const PlanMemory *m);
/* Says why no choice of strategies is possible: some conversion does not exist, or, where whole weights do not fit, the
 * memory limit. */
void search_no_choice(const Search *s, Outcome *o);
/* Why there can be no micro-batches; NULL: there can.  Sets the mesh. */
const char *search_one_batch(Search *s);
/* Of those that are no plan the one that needs the least memory; NULL when nothing was tried. */
const Outcome *search_nearest_outcome(const SearchRun *run);
/* Say why there is no plan; NULL. */
Plan *refuse(const Search *s, Diags *d);
Plan *refuse_size(const Search *s, Diags *d);

#endif
