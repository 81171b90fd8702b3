/* ir/layout/convert_states.h - layouts and the moves between them, shared by what finds one cheapest path
 * (convert_path.c) and by what finds the costs of many (convert_costs.c); private to them.
 *
 * The moves that leave a layout are found and priced once, for every unit, kind of partial sum and cut that some goal
 * has; a run follows those that its goals allow.  Only axes that must move, and those minor to them on a dimension,
 * take part.
 */
#ifndef APC_IR_LAYOUT_CONVERT_STATES_H
#define APC_IR_LAYOUT_CONVERT_STATES_H

#include "ir/layout/convert.h"

enum { MAX_TARGETS = 256, TARGET_WORDS = MAX_TARGETS / 64 };

/* The part of an edge that a run reads first. */
typedef struct Hop {
  double cost;
  int to;           /* state */
  uint32_t moving;  /* axes that have to move */
  bool conditional; /* the edge says more about which runs may take it */
} Hop;

/* A move out of a layout, and which runs may take it. */
typedef struct Edge {
  Move move;
  bool exactly; /* these are all axes of the partial sums that move */
  int unit_dim; /* dimension that is cut for the first time, by `unit`; -1: none */
  const Expr *unit;
  int target;        /* exchange: which of the dimension's cuts; else -1 */
  Reduction partial; /* mask and relabel: the kind the goal must have */
} Edge;

/* Where each axis is in a layout. */
typedef struct Where {
  uint16_t place[MAX_AXES]; /* dimension and place on it, or the kind of partial sum; 0: nowhere */
  uint8_t minor[MAX_AXES];  /* bit set of the axes after it on its dimension */
  const Expr *unit[MAX_AXES];
} Where;

/* A layout. */
typedef struct Place {
  const Layout *layout;
  Where where;
  struct {
    Edge *items;
    size_t n, cap;
  } edges;
  struct {
    Hop *items;
    size_t n, cap;
  } hops; /* by edge */
  bool expanded;
  int goal;                  /* its number among the goals so far, from 1; 0: it has not been one */
  uint8_t targets[MAX_RANK]; /* of a goal: its place among the targets of each dimension */
  /* convert_costs.c: */
  double *costs; /* to goals: what is known; NAN: nothing */
  size_t ncosts;
  const Layout **rests; /* by bit set of axes: the layout without them; NULL: not asked for */
  int run, row;         /* the last problem that met it, and its row there */
} Place;

struct ConvertTable {
  Module *m;
  const Type *global;
  MoveCost price;
  void *context;
  Arena *arena;
  uint32_t axes; /* that may move at all */
  bool sets;     /* the axes of a dimension have no order */
  Place *states;
  int n;
  size_t cap;
  int *slots; /* states by layout: open addressing, index + 1 */
  size_t nslots;
  int runs, ngoals;
  /* Of all goals so far: */
  struct {
    const Expr *items[MAX_TARGETS];
    int n;
  } units[MAX_RANK]; /* that a first cut may have */
  struct {
    DimLayout items[MAX_TARGETS];
    int n;
  } targets[MAX_RANK]; /* cuts that an exchange may lead to */
  uint32_t kinds;      /* of partial sums: bit set of Reduction */
};

/* One search for paths, as far as all its goals agree. */
typedef struct ConvertRun {
  uint32_t moving;
  const Expr *units[MAX_RANK]; /* NULL: not cut by any goal */
  Reduction partial;
  uint32_t partial_axes;
  uint64_t targets[MAX_RANK][TARGET_WORDS]; /* bit set */
} ConvertRun;

/* Of these axes alone. */
ConvertTable *convert_table_with(Module *m, const Type *global, MoveCost cost, void *context, uint32_t axes);

/* With axes that have no order (`sets`) all places on a dimension are one. */
Where convert_where(const Layout *l, bool sets);
/* Those that are elsewhere, with those minor to them. */
uint32_t convert_moving(const Module *m, const Where *from, const Where *to);
/* -1: there are too many. */
int convert_state(ConvertTable *t, const Layout *l);
/* Finds the moves out of a state. */
void convert_expand(ConvertTable *t, int from);
/* Makes room for what a goal has; moves that were found before are found again when there is something new.  Returns
 * its state, or -1. */
int convert_goal(ConvertTable *t, const Layout *to);
/* Takes a goal, or -1, into the run: it agrees with the others on units and the kind of partial sum. */
void convert_join(const ConvertTable *t, ConvertRun *r, int goal);
/* May a run take a conditional edge? */
bool convert_allowed(const ConvertTable *t, const ConvertRun *r, const Layout *l, const Edge *e, uint32_t moving);

#endif
