/* passes/search_outer.h - the outer search over meshes, shared by its files: search.c (which candidates are tried, the answer), search_candidates.c
 * (what candidates there are), search_candidate.c (the best plan and the bound of one), search_unfit.c (why nothing fits).
 */
#ifndef APC_PASSES_SEARCH_OUTER_H
#define APC_PASSES_SEARCH_OUTER_H

#include "passes/degrees.h"
#include "passes/plan.h"
#include "passes/search_graph.h"

enum { MAX_SPATIAL = 3, MAX_CANDIDATES = 4096 };

typedef struct Candidate {
  double bound;         /* seconds it cannot be faster than, known without solving it */
  int stages, micro, naxes;
  int sizes[MAX_AXES];
  int degree[MAX_AXES]; /* which forced degree the axis is of; -1: free */
} Candidate;

typedef struct Outcome {
  Candidate c;
  bool feasible;
  PlanPrice price;
  Strategy *strategies;
  int *stages;
  int found[DEGREE_COUNT]; /* degrees the strategies amount to */
  double solved;        /* what the graph said it costs */
  const char *why_not;
} Outcome;

typedef struct Search {
  Module *m;
  const Func *f;
  const Target *t;
  Arena *arena;      /* the module's */
  const Rule *const *rules;
  const OpLabels *labels;
  const Shape *shape;
  CostModel *cost;   /* of the mesh that was set last */
  int forced[DEGREE_COUNT];
  double limit;
  struct { double launches, seconds; } products;
  Candidate *candidates;
  int ncandidates;
  Outcome *outcomes;
  int noutcomes;
  double resident; /* bytes of all weights and state, each kept once */
  const Outcome *best;
  const Outcome *alone; /* the best of one kind of parallelism, while it is the best of all */
  double lower_bound;
  /* Where the last candidate met the memory limit: */
  double memory_weight; /* seconds per byte */
  double activations;   /* bytes that weights and state could not have */
  double work;
  SearchWatch watch;
  SearchReport report;
  bool hasty;        /* the time was over before there was a plan: any plan will do */
} Search;

/* ---- search_candidates.c */

/* Seconds of the matrix products on one rank, whose mesh is set. */
void measure_products(Search *s);
/* Micro-batches help a pipeline, or memory: without stages they are tried only when asked for, or when nothing else fits. */
void make_candidates(Search *s, const PlanOptions *o, bool for_memory);
/* How often what depends on the micro-batch counts, if the stages were equal. */
double repeat_of(const Candidate *c);

/* ---- search_candidate.c */

/* Makes the candidate's mesh that of the module; the axes have these names, or numbers. */
void set_mesh(Search *s, const Candidate *c, const char *const *names);
/* The best plan on the candidate's mesh, as the next outcome; *bound gets a lower bound of all. */
Outcome *solve_mesh(Search *s, const Candidate *c, double prune_above, double *bound);

/* ---- search_unfit.c */

/* "16 GB", "8.58 KB": in powers of 1000, as memory limits are given. */
const char *bytes_text(Arena *a, double bytes);
/* Of all weights and state, each kept once, as the compute type keeps them. */
double resident_bytes(const CostModel *c, Module *m, const Func *f);
/* Why it does not fit: by how much a rank's memory is too small. */
const char *too_much(const Search *s, const PlanMemory *m);
/* Why no choice of strategies is possible: some conversion does not exist, or, where whole weights do not fit, the memory limit. */
const char *no_choice(const Search *s, const Candidate *c);
/* Say why there is no plan; NULL. */
Plan *refuse(const Search *s, Diags *d);
Plan *refuse_size(const Search *s, Diags *d);

#endif
