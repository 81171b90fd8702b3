/* solver/private.h - bucket elimination, compiled: shared by the scalar and the frontier solver.
 *
 * Eliminating a variable joins its tables, over the variables of its neighbours, and takes the minimum over the
 * variable.  Joins of equal tables in equal places are one Step; an Elimination is an instance of a Step for one
 * variable.  Repeated blocks of a model have the same steps, so numbers are computed once per step, and again for every
 * weight of memory.
 */
#ifndef APC_SOLVER_PRIVATE_H
#define APC_SOLVER_PRIVATE_H

#include <stdint.h>

#include "solver/solve.h"

typedef struct FrontierPoint {
  double memory, time;
} FrontierPoint;

/* A table that takes part in a join. */
typedef struct Operand {
  int step;   /* the step whose result it is; -1 if it is an input */
  int number; /* if an input: the first factor with its table */
  const double *input;
  int n;
  const int *const *maps;
  const int *classes;
  const int *places;       /* by place in the table: place in the join */
  const SolveFactor *rest; /* the factor of an input without a table; else NULL */
} Operand;

/* A join; place n is the variable to be minimised over. */
typedef struct Step {
  int domain;
  const double *time, *memory; /* own cost of each value; memory may be NULL */
  int noperands;
  Operand *operands;
  int n;
  int *classes;      /* by place: number of classes of values that no operand distinguishes */
  int **maps;        /* by place: class of each value */
  size_t ***offsets; /* by place, operand, class: share of the index into the operand's table */
  size_t entries;    /* of the result */
  double work;       /* sums formed */
  uint64_t hash;
  const struct Split *split; /* the split that it is a part of; NULL if the join is whole */
  /* For the current weight of memory: */
  double *least; /* by class of the variable: its cheapest value */
  double floor;  /* lower bound of all entries */
  double *table; /* by entry */
  int *choice;   /* by entry: best value; -1 if not computed */
  /* About the last run that computed it: */
  double lambda, reach; /* the weight; entries up to `reach` are exact */
  bool weighs;          /* the numbers depend on the weight */
  bool changed;         /* computed by the current run */
  /* Frontiers: the points of entry e are points[starts[e] .. starts[e+1]) */
  const FrontierPoint *points;
  const size_t *starts;
} Step;

/* Own cost of a value of the step's variable, for a weight of memory. */
static inline double step_own_cost(const Step *s, double lambda, int value) {
  return s->time[value] + (s->memory ? lambda * s->memory[value] : 0);
}

/* Index of a variable, or a place, in a list; -1 if absent. */
static inline int step_place_in(const int *list, int n, int v) {
  for (int i = 0; i < n; i++)
    if (list[i] == v) return i;
  return -1;
}

/* The parts of a join of one variable that was too large.  The parts' least costs, by value of the variable, are shared
 * equally among them before they are minimised, so that every part favours values that are cheap for all. */
typedef struct Split {
  uint64_t hash;
  int n;
  Step **parts;
  int *numbers; /* of the steps, from 1; 0 if not in the program yet */
} Split;

typedef struct Elimination {
  int var, step;
  const int *scope;     /* the other variables, by place */
  const int *makers;    /* by operand: the elimination that made it, or -1 - index of the input */
  FrontierPoint chosen; /* frontier, while values are assigned: the chosen point of the result */
} Elimination;

typedef struct StepProgram {
  const SolveProblem *p;
  Arena *arena;
  Step **steps;
  int nsteps;
  Elimination *eliminations; /* in order */
  int n;
  const int *order;  /* of the variables */
  int *first, *last; /* by variable: range of its eliminations; several if its join was split */
  bool split;        /* some join was split: results are lower bounds */
  double work;       /* sums formed by one run */
  int *inputs;       /* the first factor with each table */
  int ninputs;
  /* Tables that change between runs (SolveProblem.share), by the first factor with them: */
  double **seen; /* contents in the previous run; NULL if there was none, or nothing changes */
  bool *moved;   /* contents have changed since */
} StepProgram;

/* order.c: the order in which variables are eliminated. */
int *elimination_order(const SolveProblem *p, Arena *a);

/* program.c: identity of a factor's table or rest, equal for equal ones; cost of a factor. */
const void *solve_factor_identity(const SolveFactor *f);
double solve_factor_cost(const SolveFactor *f, const int *values);
/* Returns NULL if a join exceeds the cap and may_split is false. */
StepProgram *elimination_compile(const SolveProblem *p, const int *order, bool may_split, Arena *a);
/* Index of the table entry that an elimination reads. */
size_t step_entry(const StepProgram *p, const Elimination *e, const int *values);
/* Cost of all variables and factors, in seconds; *memory gets their bytes. */
double solve_evaluate(const SolveProblem *p, const int *values, double *memory);

/* step.c: computes all tables for time + lambda * memory.  Returns the sum of the results without variables, which may
 * be INFINITY if it is above `most`; NAN if time ran out first. */
double elimination_run(StepProgram *p, double lambda, double most);
/* Computes the own costs of a step's variable, by class, for that weight. */
void step_begin(Step *s, double lambda, Arena *a);
/* Returns a cheapest value of the variable, given those of the variables that are eliminated later. */
int elimination_best_value(const StepProgram *p, int var, const int *values, double lambda);
/* Assigns a cheapest choice, after a run. */
void elimination_assign(StepProgram *p, double lambda, int *values);

/* best_first.c: the solution with nothing left out, after a run of `bounds` for that weight.  `whole` is compiled from
 * the same order, with the rests, and splits no join.  Returns a lower bound of solutions up to `most`; *values is a
 * choice at that cost, or NULL if none was found.  `near`: differences in cost below it do not matter in between. *work
 * limits the sums formed and returns their number. */
double best_first(StepProgram *whole, StepProgram *bounds, double lambda, double most, double near, double *work,
                  int **values);

/* frontier.c: finds the optimum within the limit, given an incumbent in *r; false if the cap is exceeded (then *r is
 * unchanged). */
bool frontier_solve(const SolveProblem *p, const int *order, SolveResult *r, Arena *arena);

#endif
