/* passes/search/tables.h - the data of a planner graph while it is built, shared by graph.c (variables and factors) and
 * fans.c (the tables of a value and its users).
 */
#ifndef APC_PASSES_SEARCH_TABLES_H
#define APC_PASSES_SEARCH_TABLES_H

#include "passes/search/domain.h"
#include "passes/search/graph.h"
#include "solver/shares.h"

/* A table shared by equal fan-outs. */
typedef struct Shared {
  const Domain *producer;
  int result; /* result number of the producer */
  int nusers;
  const Domain *const *users;
  const int *masks;  /* of operands, by user */
  const Domain *own; /* what users with the producer's variable want; NULL if there are none */
  int own_mask;
  bool output;
  const Op *joined;   /* the only user if it joins the producer; it pays if the value is converted */
  SolveFactor factor; /* without vars */
} Shared;

/* The tables of a class of fan-outs: one over all variables, or one per user.  With many users a variable for the set
 * of layouts stands between them and the producer; if one table is too large, there are shares and a rest. */
typedef struct FanTables {
  bool made, split;
  int choosing; /* users that may want different layouts */
  int sets;     /* values of `middle` */
  SolveFactor whole;
  const Domain *middle; /* split: the variable between; NULL if none */
  SolveFactor first;    /* split: producer and middle, or the producer alone */
  SolveFactor *each;    /* split: by slot */
  int nslots;           /* variables of users, the producer's last; by slot a user that has it */
  const int *slots;
  bool own;          /* the last slot has the producer's variable */
  FanShares *shares; /* NULL if there are no shares */
  SolveFactor rest;  /* what the shares leave out */
} FanTables;

/* Values of a domain that no table distinguishes, numbered in the order of their first use. */
typedef struct Classes {
  const Domain *domain;
  int mask, result;  /* of operands; 0: of that result */
  const Domain *own; /* and of these operands; NULL if none */
  int own_mask;
  int n;
  int *map;   /* by value */
  int *first; /* by class: one of its values */
} Classes;

/* The variable between the producer of a value and its users. */
typedef struct Between {
  int variable;
  const FanOut *fan;
} Between;

/* Tables of two operations: with one layout, or one variable then; a sum of gradients and the maker of the value; the
 * maker of a value and a reader in the same kernel. */
typedef struct Tie {
  const Domain *domains[2];
  bool same;           /* one variable */
  int result, operand; /* for operations of one kernel; else -1 */
  SolveFactor factor;  /* without vars */
} Tie;

/* The operands of several users with one variable, as if of one user. */
typedef struct Union {
  int n;
  const Domain *const *users;
  const int *masks;
  Domain *all; /* its mask has all operands */
} Union;

struct Graph {
  GraphInput in;
  Arena *arena;
  double slack;     /* seconds by which the cheapest strategies together are faster than the known plan */
  int *variable;    /* by operation; -1 if none */
  Domain **domains; /* by class of operations */
  FanTables *fans;  /* by class of fan-outs */
  struct {
    Shared *items;
    size_t n, cap;
  } shared;
  struct {
    Classes *items;
    size_t n, cap;
  } classes;
  struct {
    Tie *items;
    size_t n, cap;
  } ties;
  struct {
    Union *items;
    size_t n, cap;
  } unions;
  struct {
    SolveFactor *items;
    size_t n, cap;
  } factors, rests;
  struct {
    int *items;
    size_t n, cap;
  } sizes;
  struct {
    const double **items;
    size_t n, cap;
  } times, memories;
  struct {
    Between *items;
    size_t n, cap;
  } between;
  SolveProblem problem;
};

/* Returns the domain of an operation's class. */
static inline Domain *graph_domain(const Graph *g, size_t op) { return g->domains[g->in.shape->class[op]]; }

/* Returns the tables of a value and its users, made once per class of fan-outs. */
const FanTables *graph_fan_tables(Graph *g, const FanOut *fan);
/* Returns a factor over one variable with n values, without vars. */
SolveFactor graph_row_factor(Graph *g, int n, const double *row);
/* Returns a factor over two variables, without vars. */
SolveFactor graph_pair_factor(Graph *g, const int *first_map, int first_classes, const int *second_map,
                              int second_classes, const double *table);
/* Returns a map in which every value is a class of its own. */
const int *graph_identity_map(Graph *g, int n);

#endif
