/* passes/search/tables.h - what a planner graph keeps while it is made, shared by graph.c (variables and factors) and
 * fans.c (the tables of a value and its users).
 */
#ifndef APC_PASSES_SEARCH_TABLES_H
#define APC_PASSES_SEARCH_TABLES_H

#include "passes/search/domain.h"
#include "passes/search/graph.h"
#include "solver/shares.h"

/* A table that equal surroundings share. */
typedef struct Shared {
  const Domain *producer;
  int result; /* of the producer */
  int nusers;
  const Domain *const *users;
  const int *masks;  /* of operands, by user */
  const Domain *own; /* what users ask for that have the producer's variable; NULL: none has */
  int own_mask;
  bool output;
  const Op *joined;   /* the only user, when it joins the producer: it pays when it does not get the value as it is */
  SolveFactor factor; /* without vars */
} Shared;

/* The tables of a class of fan-outs: one over all variables, or one per user: when there are many, with a variable for
 * the set of layouts between them and the producer; when one table is too large, with shares and a rest. */
typedef struct FanTables {
  bool made, split;
  int choosing; /* users that may ask for different layouts */
  int sets;     /* values of `middle` */
  SolveFactor whole;
  const Domain *middle; /* split: the variable between; NULL: none */
  SolveFactor first;    /* split: producer and middle, or the producer alone */
  SolveFactor *each;    /* split: by slot */
  int nslots;           /* variables of users, the producer's last; by slot a user that has it */
  const int *slots;
  bool own;          /* the last slot has the producer's */
  FanShares *shares; /* NULL: nobody pays a share */
  SolveFactor rest;  /* what the shares leave out */
} FanTables;

/* Values of a domain that no table tells apart: numbered by first appearance. */
typedef struct Classes {
  const Domain *domain;
  int mask, result;  /* of operands; 0: of that result */
  const Domain *own; /* and of these operands; NULL: none */
  int own_mask;
  int n;
  int *map;   /* by value */
  int *first; /* by class: a value that has it */
} Classes;

/* The variable between the producer of a value and its users. */
typedef struct Between {
  int variable;
  const FanOut *fan;
} Between;

/* Tables of two operations: what has one layout, or one variable then; a sum of gradients and what makes the value;
 * what makes a value and a reader in the same kernel. */
typedef struct Tie {
  const Domain *domains[2];
  bool same;           /* variable */
  int result, operand; /* of those in one kernel; -1 */
  SolveFactor factor;  /* without vars */
} Tie;

/* The operands of several users with one variable, as if of one. */
typedef struct Union {
  int n;
  const Domain *const *users;
  const int *masks;
  Domain *all; /* its mask is all operands */
} Union;

struct Graph {
  GraphInput in;
  Arena *arena;
  int *variable;    /* by operation; -1: none */
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

/* Of a class of operations, by one of them. */
static inline Domain *graph_domain(const Graph *g, size_t op) { return g->domains[g->in.shape->class[op]]; }

/* The tables of a value and its users, made once per class of fan-outs. */
const FanTables *graph_fan_tables(Graph *g, const FanOut *fan);
/* A table of two places. */
SolveFactor graph_pair_factor(Graph *g, const int *first_map, int first_classes, const int *second_map,
                              int second_classes, const double *table);
/* Every value is a class of its own. */
const int *graph_identity_map(Graph *g, int n);

#endif
