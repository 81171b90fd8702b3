/* ir/layout/convert_states.h - layouts and the moves between them, shared by the search for one cheapest path
 * (convert_path.c) and the costs of many (convert_costs.c); private to them.
 *
 * The moves out of a layout are found and priced once, for every unit, kind of partial sum and cut that some goal has;
 * a run follows those that its goals allow.  Only axes that must move, and those minor to them on a dimension, take
 * part.
 */
#ifndef APC_IR_LAYOUT_CONVERT_STATES_H
#define APC_IR_LAYOUT_CONVERT_STATES_H

#include "ir/layout/convert.h"

enum { MAX_TARGETS = 256, TARGET_WORDS = MAX_TARGETS / 64 };

/* The part of an edge that a run reads first. */
typedef struct Hop {
  double cost;
  int to;           /* state */
  uint32_t moving;  /* axes that must move */
  bool conditional; /* the edge limits the runs that may take it */
} Hop;

/* A move out of a layout, and the condition for taking it. */
typedef struct Edge {
  Move move;
  bool exactly; /* moves all axes of the partial sum */
  int unit_dim; /* dimension that is cut for the first time, by `unit`; -1 if none */
  const Expr *unit;
  int target;        /* exchange: index of the dimension's cut; else -1 */
  Reduction partial; /* mask and relabel: the goal's kind */
} Edge;

/* The position of each axis in a layout. */
typedef struct Where {
  uint16_t place[MAX_AXES]; /* dimension and place on it, or the kind of partial sum; 0 if unused */
  uint8_t minor[MAX_AXES];  /* bit set of the axes after it on its dimension */
  const Expr *unit[MAX_AXES];
} Where;

/* A layout as a state of the search. */
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
  int goal;                  /* its number among the goals so far, from 1; 0 if it is no goal */
  uint8_t targets[MAX_RANK]; /* of a goal: its index among the targets of each dimension */
  /* For convert_costs.c: */
  double *costs; /* to goals; NAN if unknown */
  size_t ncosts;
  const Layout **rests; /* by bit set of axes: the layout without them; NULL if not computed */
  int run, row;         /* the last problem that visited it, and its row there */
} Place;

struct ConvertTable {
  Module *m;
  const Type *global;
  MoveCost price;
  void *context;
  Arena *arena;
  uint32_t axes; /* that may move */
  bool sets;     /* the axes of a dimension are unordered */
  Place *states;
  int n;
  size_t cap;
  int *slots; /* states by layout: open addressing, index + 1 */
  size_t nslots;
  int runs, ngoals;
  double limit; /* a cost of INFINITY means: this or more, or no path */
  /* About all goals so far: */
  struct {
    const Expr *items[MAX_TARGETS];
    int n;
  } units[MAX_RANK]; /* units of first cuts */
  struct {
    DimLayout items[MAX_TARGETS];
    int n;
  } targets[MAX_RANK]; /* cuts that an exchange may lead to */
  uint32_t kinds;      /* kinds of partial sums: bit set of Reduction */
};

/* A search for paths to goals that agree on these. */
typedef struct ConvertRun {
  uint32_t moving;
  const Expr *units[MAX_RANK]; /* NULL if no goal cuts the dimension */
  Reduction partial;
  uint32_t partial_axes;
  uint64_t targets[MAX_RANK][TARGET_WORDS]; /* bit set */
} ConvertRun;

/* A table in which only these axes may move. */
ConvertTable *convert_table_with(Module *m, const Type *global, MoveCost cost, void *context, uint32_t axes);

/* Positions of the axes; with unordered axes (`sets`) all places on a dimension are the same. */
Where convert_where(const Layout *l, bool sets);
/* Axes at different positions, with those minor to them. */
uint32_t convert_moving(const Module *m, const Where *from, const Where *to);
/* Finds or adds a state; -1 if there are too many. */
int convert_state(ConvertTable *t, const Layout *l);
/* Finds the moves out of a state. */
void convert_expand(ConvertTable *t, int from);
/* Registers a goal, and its units and cuts; if they are new, moves are found again.  Returns its state, or -1. */
int convert_goal(ConvertTable *t, const Layout *to);
/* Adds a goal (or -1) to the run; it must agree with the others on units and the kind of partial sum. */
void convert_join(const ConvertTable *t, ConvertRun *r, int goal);
/* True if a run may take a conditional edge. */
bool convert_allowed(const ConvertTable *t, const ConvertRun *r, const Layout *l, const Edge *e, uint32_t moving);

#endif
