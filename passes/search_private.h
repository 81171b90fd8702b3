/* passes/search_private.h - tables and buckets shared by the scalar and the frontier elimination. */
#ifndef APC_PASSES_SEARCH_PRIVATE_H
#define APC_PASSES_SEARCH_PRIVATE_H

#include <stdint.h>

#include "passes/search_solve.h"

typedef struct FrontierPoint {
  double memory, time;
} FrontierPoint;

/* A factor during elimination: costs, or a frontier per entry. */
typedef struct Table {
  int n;
  const int *vars;
  const int *const *maps;
  const int *classes;
  size_t entries;
  const double *table;         /* scalar */
  const FrontierPoint *points; /* frontier: those of entry e are points[starts[e] .. starts[e+1]) */
  const size_t *starts;
  int bucket;                  /* frontier: the bucket this is the result of */
} Table;

/* A variable about to be eliminated, with the tables it is in.  Place n stands for the variable itself. */
typedef struct Bucket {
  int var, domain;
  const double *own;          /* weighted cost of each value */
  const double *time, *memory;
  int nfactors;
  const Table **factors;
  int n;
  int *scope;                 /* the other variables */
  int *classes;               /* by place: number of classes of values that no factor tells apart */
  int **maps;                 /* by place: class of each value */
  size_t ***offsets;          /* by place, factor, class: share of the index into the factor's table */
  Table *result;
  uint64_t hash;
  FrontierPoint chosen;       /* frontier, while values are assigned: the point of the result that was taken */
} Bucket;

typedef struct Solver {
  const SolveProblem *p;
  Arena *arena;
  const int *order;
  double lambda;
  bool frontier, split;
  struct { Table **items; size_t n, cap; } tables;
  bool *alive;
  struct IntList { int *items; size_t n, cap; } *of_var;
  Bucket *buckets;
  int nbuckets;
  int *known;
  size_t nknown;
  int *first_bucket, *last_bucket;
  double constant;          /* of the variables whose bucket had an empty scope */
  struct IntList constants; /* frontier: those buckets */
  const double *zeros;
  double time_limit;        /* frontier: points above it lead nowhere */
  size_t npoints, work;
} Solver;

Table *bucket_result(Arena *a, const Bucket *b);
size_t table_entry(const Table *t, const int *values);
double solve_evaluate(const SolveProblem *p, const int *values, double *memory);

/* search_frontier.c: fills out->points; false when the cap is passed. */
bool frontier_tables(Solver *s, const Bucket *b, Table *out);
/* Finds the true optimum within the limit, given an incumbent in *r; false when the cap is passed (then *r is unchanged). */
bool frontier_solve(const SolveProblem *p, const int *order, SolveResult *r, Arena *arena);
/* search_solve.c */
void solver_start(Solver *s, const SolveProblem *p, Arena *a, const int *order);
bool solver_eliminate(Solver *s, int var);

#endif
