/* solver/private.h - bucket elimination, compiled: shared by the scalar and the frontier solution.
 *
 * Eliminating a variable joins the tables it is in, over the variables of its neighbours, and minimises it away.  Joins
 * of equal tables in equal places are one Step; a variable's elimination is an instance of it.  Repeated blocks of a
 * model have the same steps, so the numbers are computed once per step, and again for every weight of memory.
 */
#ifndef APC_SOLVER_PRIVATE_H
#define APC_SOLVER_PRIVATE_H

#include <stdint.h>

#include "solver/solve.h"

typedef struct FrontierPoint {
  double memory, time;
} FrontierPoint;

/* A table that is joined. */
typedef struct Operand {
  int step;   /* whose result it is; -1: an input */
  int number; /* of an input: the first factor with its table */
  const double *input;
  int n;
  const int *const *maps;
  const int *classes;
  const int *places;       /* by place in the table: place in the join */
  const SolveFactor *rest; /* an input without a table; NULL: it has one */
} Operand;

/* A join; place n stands for the variable that is minimised away. */
typedef struct Step {
  int domain;
  const double *time, *memory; /* own cost of each value; memory may be NULL */
  int noperands;
  Operand *operands;
  int n;
  int *classes;      /* by place: number of classes of values that no operand tells apart */
  int **maps;        /* by place: class of each value */
  size_t ***offsets; /* by place, operand, class: share of the index into the operand's table */
  size_t entries;    /* of the result */
  double work;       /* sums formed */
  uint64_t hash;
  const struct Split *split; /* it is a part of; NULL: a whole join */
  /* For one weight of memory: */
  double *least; /* by class of the variable: its cheapest value */
  double floor;  /* what all entries are at least */
  double *table; /* by entry */
  int *choice;   /* by entry: best value; -1: not asked for yet */
  /* Of the last run that computed it: */
  double lambda, reach; /* the weight, and up to what entries are right */
  bool weighs;          /* it depends on the weight */
  bool changed;         /* the run that is on has computed it */
  /* Frontiers: those of entry e are points[starts[e] .. starts[e+1]) */
  const FrontierPoint *points;
  const size_t *starts;
} Step;

/* What a value of its variable costs by itself, for one weight of memory. */
static inline double step_own_cost(const Step *s, double lambda, int value) {
  return s->time[value] + (s->memory ? lambda * s->memory[value] : 0);
}

/* Where a variable, or a place, is in a list; -1: nowhere. */
static inline int step_place_in(const int *list, int n, int v) {
  for (int i = 0; i < n; i++)
    if (list[i] == v) return i;
  return -1;
}

/* The parts of a join that was too large, of one variable.  What each costs at least, by value of the variable, is
 * shared out among them before they are minimised: each is at its cheapest near values that are cheap for all. */
typedef struct Split {
  uint64_t hash;
  int n;
  Step **parts;
  int *numbers; /* of the steps, from 1; 0: not in the program yet */
} Split;

typedef struct Elimination {
  int var, step;
  const int *scope;     /* the other variables, by place */
  const int *makers;    /* by operand: the elimination that made it, or -1 - the number of the input */
  FrontierPoint chosen; /* frontier, while values are assigned: the point of the result that was taken */
} Elimination;

typedef struct StepProgram {
  const SolveProblem *p;
  Arena *arena;
  Step **steps;
  int nsteps;
  Elimination *eliminations; /* in order */
  int n;
  const int *order;  /* of the variables */
  int *first, *last; /* by variable: its eliminations; several when its join was split */
  bool split;        /* some join was split: results are lower bounds */
  double work;       /* sums formed by one run */
  int *inputs;       /* the first factor with each table */
  int ninputs;
  /* Tables that are moved between runs (SolveProblem.share), by the first factor with them: */
  double **seen; /* what was in it in the run before; NULL: there was none, or nothing is moved */
  bool *moved;   /* it is different now */
} StepProgram;

/* order.c: the order in which variables are eliminated. */
int *elimination_order(const SolveProblem *p, Arena *a);

/* program.c: what equal tables, or rests, have in common; what a factor costs. */
const void *solve_factor_identity(const SolveFactor *f);
double solve_factor_cost(const SolveFactor *f, const int *values);
/* NULL when a join is above the cap and may not be split. */
StepProgram *elimination_compile(const SolveProblem *p, const int *order, bool may_split, Arena *a);
size_t step_entry(const StepProgram *p, const Elimination *e, const int *values);
double solve_evaluate(const SolveProblem *p, const int *values, double *memory);

/* step.c: computes all tables for time + lambda * memory; returns the sum of the results without variables,
 * which may be INFINITY when it is above `most`.  NAN when the time was over first. */
double elimination_run(StepProgram *p, double lambda, double most);
/* The own costs of a step's variable, by class, for that weight. */
void step_begin(Step *s, double lambda, Arena *a);
/* A cheapest value, when those of the variables that are eliminated later are known. */
int elimination_best_value(const StepProgram *p, int var, const int *values, double lambda);
/* A cheapest choice, after a run. */
void elimination_assign(StepProgram *p, double lambda, int *values);

/* best_first.c: with nothing left out, after a run of `bounds` for that weight.  `whole` is compiled from the same
 * order, with the rests, and splits no join.  A lower bound of what is at most `most`; *values gets a choice that costs
 * so much, when one was found to, else NULL.  `near`: what difference does not matter on the way.  Ends after so many
 * sums. */
double best_first(StepProgram *whole, StepProgram *bounds, double lambda, double most, double near, double *work,
                  int **values);

/* frontier.c: finds the true optimum within the limit, given an incumbent in *r; false when the cap is passed
 * (then *r is unchanged). */
bool frontier_solve(const SolveProblem *p, const int *order, SolveResult *r, Arena *arena);

#endif
