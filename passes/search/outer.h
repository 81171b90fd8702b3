/* passes/search/outer.h - the outer search over meshes, shared by its files: search.c (runs, the answer), tries.c (the
 * order in which candidates are tried), named.c and estimate.c (conventional plans), candidates.c (the list of
 * candidates), candidate.c (the best plan and the bound of one candidate), again.c (as much recomputation as needed to
 * fit), kept.c (the recomputation that memory forces), near.c (plans over the limit that may fit), uneven.c (finer
 * shares for ranks of several kinds), unfit.c (why nothing fits).
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

/* The order in which stages train their micro-batches, and the stages per place (Mesh.chunks). */
typedef struct ScheduleKind {
  PipelineSchedule order;
  int chunks;
} ScheduleKind;

typedef struct Candidate {
  double bound; /* lower bound in seconds, as far as known, without recomputation for gradients */
  double again; /* lower bound of that recomputation; 0 without stages and micro-batches, where seconds_again has it */
  double layer_seconds; /* with stages: lower bound of the part of a layer in `bound`; 0 if unknown */
  int stages, naxes;
  int least, micro; /* the range of numbers of micro-batches; one number if they are equal */
  int sizes[MAX_AXES];
  int degree[MAX_AXES];       /* the only degree the axis counts for; -1 if free */
  ShareBy shares;             /* how members of its axes share work (passes/cost/ranks.h); ANYHOW: it only bounds
                               * others */
  const int *given[MAX_AXES]; /* by axis, for SHARE_AS_GIVEN */
  bool loose;                 /* axes with a degree need not split everything they can */
  int bounded;                /* number of first axes over whose orders a graph has bounded it; above naxes: none yet */
  bool weighed;               /* its bound includes the cheapest strategies */
  bool no_gaps;               /* its schedule may have no bubbles, so its bound counts none */
  ScheduleKind schedule;
} Candidate;

typedef struct Outcome {
  Candidate c;
  bool feasible;
  bool slower;      /* than the best plan, once cut into stages: it was not priced */
  bool indivisible; /* too few positions for the stages */
  bool joined;      /* some operation needs all micro-batches at once */
  PlanPrice price;
  double seconds; /* of the price: the minimised time (search_seconds) */
  Strategy *strategies;
  int *stages;
  int found[DEGREE_COUNT]; /* degrees of the strategies */
  uint32_t data_axes;      /* axes of the mesh that count for data parallelism, as a bit set */
  int zero;                /* the ZeRO stage of the strategies */
  double solved;           /* cost of the graph's solution */
  double wanted;           /* seconds it would take with enough memory; 0 if it has enough */
  const char *why_not;
} Outcome;

/* A candidate that may be faster than the plan: it was solved, and this is its bound, without recomputation for
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

/* Results of a search without forced degrees: its outcomes, and candidates left open below `seconds`.  If it finished,
 * nothing else on a mesh of at most MAX_SPATIAL axes is faster than `seconds`. */
struct PlanKnown {
  Outcome *const *items;
  size_t n;
  BoundedList open;
  double seconds; /* 0 if it did not finish */
  /* A large search only covers plans that may have these degrees; 0: all. */
  int degrees[DEGREE_COUNT], micro;
  Recompute recompute;   /* as requested */
  ScheduleKind schedule; /* of pipelines; `any_schedule`: or others, all of which were tried if `all_schedules` */
  bool any_schedule, all_schedules;
};

/* Equal operations. */
typedef struct LeastWork {
  OpLeast each;
  double runs;      /* total over all of them */
  unsigned degrees; /* degrees whose labels they have, as a bit set */
  bool before;      /* Shape.before */
} LeastWork;

typedef struct LeastList {
  LeastWork *items; /* by class of operations */
  size_t n, cap;
} LeastList;

/* A choice of operations to recompute for gradients. */
typedef struct Policy {
  const bool *again;   /* by operation */
  double *each, *once; /* by operation: bytes live there, of the whole batch and once a step; of all ranks */
  /* By operation: the last read of its results; SIZE_MAX: no memory of its own.  `apart`: if the forward and backward
   * pass have no kernels in common. */
  const size_t *last, *last_apart;
  LeastList least;   /* the recomputed operations */
  const bool *saved; /* by operation of the forward pass: its result is kept for gradients */
} Policy;

/* Operations that one more layer recomputes; the first layer includes operations outside layers. */
typedef struct LeastLayer {
  LeastList least;
} LeastLayer;

/* Lower bounds of bytes kept for gradients, of all ranks: of values of the whole batch, and of values made once a
 * step. */
typedef struct LeastKept {
  double each, once;
} LeastKept;

/* A cost model of a mesh. */
typedef struct MeshModel {
  Mesh mesh;
  int loose;
  bool range; /* for bounds of several numbers of micro-batches */
  CostModel *cost;
} MeshModel;

enum { MOST_MODELS = 8 };

/* Outcomes above the limit by the search's count that are faster than those within it, and may fit by their Program
 * (driver/memory.c): none is both slower than another and counted higher. */
enum { MOST_NEAR = 8 };
typedef struct NearList {
  bool wanted;
  int n;
  Outcome *items[MOST_NEAR + 1]; /* the fastest first; after them slots whose memory is reused */
} NearList;

/* Restrictions and results of one run of a search.  A search has several runs: one without forced degrees, to know what
 * is possible, and one forced to the degrees of each alternative. */
typedef struct SearchRun {
  int forced[DEGREE_COUNT];
  int within[DEGREE_COUNT]; /* only free axes that can have these degrees are tried; 0: any */
  int zero;                 /* PlanOptions.zero; then only axes forced to dp split the batch */
  const PlanKnown *known;   /* outcomes of the run without forced degrees, also used here; NULL if none */
  struct {
    Candidate *items;
    size_t n, cap;
  } candidates;
  struct {
    Outcome **items;
    size_t n, cap;
  } outcomes;
  BoundedList bounded; /* solved candidates with one number of micro-batches */
  const Outcome *best;
  const Outcome *alone; /* the best of one kind of parallelism, while it is the best of all */
  NearList near;
  double lower_bound;
  double left_alone;    /* least bound of the candidates skipped because they are hardly faster than the plan */
  double no_gaps_bound; /* with any_schedule: of candidates whose schedules may have no bubbles */
  /* Where the last candidate reached the memory limit: */
  double memory_weight; /* seconds per byte */
  double activations;   /* bytes not available for weights and state */
  bool limited;         /* memory affected the last solved candidate */
  bool limited_flat;    /* ... some candidate of a training step without stages */
  bool limited_some;    /* ... some candidate */
  int early;            /* candidates solved before others had a bound (tries.c) */
  bool hasty;           /* the time was over before there was a plan: any plan will do */
  bool gave_up;         /* no plan was found, and not all candidates were tried */
} SearchRun;

typedef struct Search {
  Module *m;
  Mesh mesh_before; /* the module's own mesh, restored at the end */
  const Func *f;
  const Target *t;
  Arena *arena; /* the module's */
  const Rule *const *rules;
  const OpLabels *labels;
  const PlanPin *pins;        /* PlanOptions.pins */
  const uint64_t *pinned;     /* by operation (pins.h); NULL if none */
  const PlanSaid *said;       /* PlanOptions.said */
  const Shape *shape, *alike; /* alike: shape_alike; NULL if there are no such layers */
  bool layers_alike;          /* graphs use `alike` */
  int guess;          /* guess of the recomputation with which a candidate fits (search_made_again); -1 if unknown */
  double guess_freed; /* and bytes that each further unit of it frees */
  bool layout;        /* everything is forced: only the mesh with one axis per degree is tried */
  CostModel *cost;    /* of the current mesh: one of `models` */
  CostModel *base;    /* owns the data that all models share */
  MeshModel models[MOST_MODELS]; /* of one division of the ranks, with several numbers of micro-batches */
  int nmodels;
  CostModel *few;                   /* GraphInput.few while a range of micro-batches is bounded; not dropped */
  struct StagesKnown *known_stages; /* of a choice that is cut for several schedules; NULL if none */
  ScheduleKind schedule;            /* of training pipelines */
  bool no_gaps;                     /* the schedule may have no bubbles */
  bool any_schedule;                /* other schedules are candidates of their own (Candidate.no_gaps) */
  double limit;
  uint64_t graph; /* plan_graph_hash */
  LeastList least;
  int npolicies; /* the fastest first: the first that fits is taken */
  Policy policies[MOST_POLICIES];
  Recompute recompute;                    /* PlanOptions.recompute */
  const RecomputeChoices *again;          /* of a training step */
  bool steady;                            /* minimises the time from batch to batch (PlanTime.period) */
  double most_seconds;                    /* time limit of one batch; INFINITY if none */
  bool all_each;                          /* nothing is done once for all micro-batches */
  double below;                           /* PlanOptions.below; INFINITY if none */
  int nlayers;                            /* number of repeated layers if apc chooses the policy; else 0 */
  LeastLayer *some_layers, *whole_layers; /* by layer: from none to selective, from there to full */
  LeastKept *kept[2][MOST_POLICIES];      /* with layers: by Policy.last or last_apart, policy and layer */
  LeastKept kept_outside[2];              /* of operations outside layers, under any policy */
  LeastKept kept_between[2];              /* the most that passes from one layer to others */
  double accumulated;                     /* bytes of the sums of gradients, of all ranks */
  const int *layer_of;                    /* by operation: its layer, or that of its stage's operation; -1 if none */
  int parts;                              /* parts of the model between which no value passes */
  int most_stages;                        /* the largest number of stages that all have work */
  bool has_degree[DEGREE_COUNT];          /* some factor of the function has its label */
  int most_micro;
  bool *useful; /* by number of micro-batches: others are no better than fewer (except see search_is_useful) */
  PlanLack *lack;
  double fastest;  /* lower bound of the time on the fastest ranks, relative to ranks of mean rate */
  double resident; /* bytes of all weights and state, each stored once */
  SearchRun run;
  double work;
  double spent; /* by earlier runs, as the watch counts it */
  SolveWatch watch;
  PlanProgress progress; /* the progress shown */
  PlanProgressFunc show; /* NULL if not needed */
  void *show_context;
  SearchReport report;
  bool at_use; /* pipelines may gather weights at use */
  bool large;  /* hundreds of candidates, or slow ones */
  bool named;  /* begins with conventional plans, and spends work where the bound is least */
  bool brief;  /* looks for a plan, not a proof */
  bool close;  /* bounds graphs as closely as it solves them */
} Search;

/* ---- search.c */

/* Prepares a search for the function and the target; false after diagnostics, and then search_close must not be
 * called. */
bool search_open(Search *s, Module *m, const Func *f, const Target *t, const PlanOptions *o, Diags *d);
void search_close(Search *s);

/* True if axes of the degree must be distinguished from free ones even if the degree is not forced: the training state
 * is sharded over them, or lines of a file name them. */
static inline bool search_told_apart(const Search *s, int degree) {
  return (s->run.zero && degree == DEGREE_dp) || (s->said && s->said->degrees >> degree & 1);
}

/* ---- tries.c */

/* Returns the minimised time of a price. */
static inline double search_seconds(const Search *s, const PlanPrice *p) {
  return s->steady ? p->time.period : p->time.total;
}
/* Returns the time of the best plan so far; without one, the limit below which plans are wanted. */
static inline double search_best_time(const Search *s) { return s->run.best ? s->run.best->seconds : s->below; }
/* Records the outcome of a candidate, which may become the best; `best`: seconds of the best before. */
void search_add_if_known(Search *s, Outcome *o, double best);
/* Tries the candidates of the run.  With a free choice it first tries each kind of parallelism alone, or, in a large
 * search, conventional plans. */
void search_try_all(Search *s, const PlanOptions *o, bool free_choice);
/* Call if the time is over before there is a plan: takes the first plan found, first with little work on each
 * candidate, then with as much as needed; a search with a limit of work gives up after some more.  Bounds are those
 * known without solving. */
void search_try_hastily(Search *s);

/* ---- named.c */

/* Tries conventional plans within the forced degrees. */
void search_try_named(Search *s, const PlanOptions *o);

/* ---- candidates.c */

/* Measures lower bounds of operations, and the recomputation and memory of each policy; uses a mesh of one rank. */
void measure_least(Search *s);
/* Returns the bytes of all results of an operation, unsplit. */
double search_bytes_made(const Search *s, const Op *op);
/* Returns a lower bound of the operations' time on a candidate. */
double least_seconds(const Candidate *c, const LeastList *least);
/* Returns the maximum number of stages of a pipeline. */
int most_stages(const Search *s);
/* True if an entry looks up rows of a state that it has updated, such as the slot of one sequence in a cache: then all
 * of them must be there at once, whereas micro-batches would each have some (V17).  Not so weights that are trained. */
bool search_looks_up_rows(const Module *m);
/* Returns the maximum number of micro-batches into which any operation can be split. */
int most_micro_batches(Search *s);
/* Fills s->useful and the numbers from which useful_from and useful_up_to choose. */
void find_useful_micro_batches(Search *s);
/* True if a pipeline of that many stages can be faster with that many micro-batches than with fewer. */
bool search_is_useful(const Search *s, int stages, int micro);
/* Returns the largest number that divides all useful numbers of micro-batches of the candidate. */
int search_divisor(const Search *s, const Candidate *c);
/* Return the next useful number of micro-batches at or above, or at or below, `micro`. */
int useful_from(const Search *s, int stages, int micro);
int useful_up_to(const Search *s, int stages, int micro);
/* Returns a lower bound of a candidate's time, without solving it. */
double ideal_seconds(const Search *s, const Candidate *c);
/* Returns a bound of the minimised time; INFINITY if it shows that a batch takes too long.  For a pipeline that is kept
 * full, `bound` is the mean of the stages, and a batch passes through all of them. */
double search_bound_in_time(const Search *s, const Candidate *c, double bound);
/* Returns the largest value of such a bound. */
double search_most_in_time(const Search *s, const Candidate *c);
/* True for candidates that stand for pipelines with schedules that fill bubbles, chosen by apc. */
static inline bool search_fills(const Search *s, const Candidate *c) { return s->any_schedule && c->no_gaps; }
/* Returns a candidate without axes, with that range of micro-batches. */
Candidate candidate_of(const Search *s, int stages, int least, int micro);
/* Makes all candidates within the forced degrees, with their bounds, best first.  Micro-batches help a pipeline, or
 * memory (search.c). */
void make_candidates(Search *s, const PlanOptions *o);
/* Sorts those from number `first` on again after bounds have changed. */
void sort_candidates(Search *s, size_t first);
bool search_same_candidate(const Candidate *a, const Candidate *b);
/* Returns how many of the first axes may be exchanged because links make no difference; 0 if none. */
int search_axes_in_any_order(const Search *s, const Candidate *c);
/* True if they differ only in the order of their axes, or of the first `loose` ones; such candidates are neighbours in
 * the list unless their bounds differ. */
bool search_same_but_for_order(const Candidate *a, const Candidate *b, int loose);
/* Return the least number of times that work of a micro-batch counts with equal stages, and that number relative to the
 * whole batch. */
double repeat_of(const Candidate *c);
double search_share_of_micro_batch(const Candidate *c);

/* ---- again.c */

extern const char search_slower_than_plan[];
/* Returns the recomputation for an amount: from none (0) by layer to selective (nlayers), then to full (2 nlayers). */
Recompute search_made_again(const Search *s, int much);
/* Cuts the choice into stages and prices it, with the given recomputation; false if it does not fit. */
bool search_cut_and_price_with(Search *s, const bool *again, Outcome *o);
/* The same with as little recomputation as needed to fit. */
bool search_cut_and_price(Search *s, Outcome *o);
/* True for a pipeline that gathers weights in every micro-batch because it would not fit otherwise. */
bool search_gathers_at_use(const Outcome *o);

/* Returns a lower bound of a candidate's time with recomputation, as far as known. */
static inline double search_total(const Candidate *c) { return c->bound + c->again; }
/* True if meshes without stages are candidates for ranges of micro-batches, which need less memory; otherwise numbers
 * of micro-batches are tried after one batch (tries.c). */
static inline bool search_ranges_without_stages(const Search *s) {
  return s->named && s->nlayers && func_has_gradients(s->f);
}

/* ---- kept.c */

/* Measures what is kept for gradients; only with repeated layers. */
void search_measure_kept(Search *s);
/* Returns a lower bound of the recomputation time under every policy, because values kept for gradients would not fit
 * otherwise, however they are split; 0 if unknown.  INFINITY: there is a plan, and this candidate fits under no policy.
 * *limited: this bound is above 0, without stages. */
double seconds_again(const Search *s, const Candidate *c, bool *limited);

/* ---- candidate.c */

/* Makes the candidate's mesh that of the module; `names` of the axes, NULL: numbers. */
void search_set_mesh(Search *s, const Candidate *c, const char *const *names);
/* Returns the graph's input for a candidate whose mesh is set. */
GraphInput search_graph_input(Search *s, const Candidate *c);
/* Returns the best plan on the mesh of a candidate with one number of micro-batches; *bound gets a lower bound of
 * all. */
Outcome *search_solve_mesh(Search *s, const Candidate *c, double prune_above, double *bound);
/* Returns the outcome of a pipeline with schedules that fill its bubbles, and the same recomputation. */
Outcome *search_fill_gaps(Search *s, const Outcome *of);
/* Returns a lower bound for a candidate with one or several numbers of micro-batches, over all orders of its first
 * `loose` axes; INFINITY or any larger number if it is above `prune_above`. */
double bound_mesh(Search *s, const Candidate *c, int loose, double prune_above);
/* Returns a weaker bound faster: the cheapest strategies, without conversions.  *of_layer: the least part of a layer in
 * it; 0 if unknown; not if NULL. */
double search_least_of_operations(Search *s, const Candidate *c, int loose, double *of_layer);
void free_models(Search *s);
/* Returns the number of elements of the largest factor with that label; 0 if there is none. */
int64_t largest_factor(const Search *s, Label label);

/* ---- uneven.c */

/* For ranks of several kinds: replaces the best plan by one with finer shares if that is faster. */
void search_improve_shares(Search *s);

/* ---- near.c */

/* Keeps a copy of an outcome that was priced and is above the limit by count, if it may be wanted. */
void search_keep_near(Search *s, const Outcome *o);

/* ---- unfit.c */

/* Returns the bytes of all weights and state, each stored once in the compute type. */
double resident_bytes(const CostModel *c, Module *m, const Func *f);
/* Returns why it does not fit: by how many bytes a rank's memory is too small. */
const char *too_much(const Search *s, const PlanMemory *m);
/* Sets why no choice of strategies is possible: some conversion does not exist, or, if whole weights do not fit, the
 * memory limit. */
void search_no_choice(const Search *s, Outcome *o);
/* Returns why micro-batches are impossible; NULL if they are possible.  Sets the mesh. */
const char *search_one_batch(Search *s);
/* Returns the infeasible outcome that needs the least memory; NULL if nothing was tried. */
const Outcome *search_nearest_outcome(const SearchRun *run);
/* Report why there is no plan; return NULL. */
Plan *refuse(const Search *s, Diags *d);
Plan *refuse_size(const Search *s, Diags *d);

#endif
