/* ir/layout/convert.h - conversions between two layouts of one value (D1, D2, D10).
 *
 * A conversion is a shortest path over moves.  Local slice, all-gather and all-to-all act on the minor-most axis of a
 * dimension; sums are reduced by all-reduce or reduce-scatter; a dimension cut differently by the same axes (other
 * order, other unit) is converted by one exchange.  The caller supplies the cost of a move, so that the planner and
 * lowering choose the same path.
 */
#ifndef APC_IR_LAYOUT_CONVERT_H
#define APC_IR_LAYOUT_CONVERT_H

#include "ir/ir.h"

typedef enum MoveKind {
  MOVE_SLICE,          /* `axis` joins dim as its minor-most axis; local */
  MOVE_ALL_GATHER,     /* `axis` leaves dim */
  MOVE_ALL_TO_ALL,     /* `axis` leaves dim and joins dim2 */
  MOVE_ALL_REDUCE,     /* the axes in `axes` stop being partial */
  MOVE_REDUCE_SCATTER, /* `axis` stops being partial and joins dim */
  MOVE_MASK,           /* the axes in `axes` become partial; local */
  MOVE_EXCHANGE,       /* dim is cut differently by the same axes */
  MOVE_RELABEL,        /* a value that one rank owns becomes a sum; no operation */
  MOVE_KINDS
} MoveKind;
const char *move_name(MoveKind k); /* "slice", "all_gather" ... */

typedef struct Move {
  MoveKind kind;
  int axis, dim, dim2;
  uint32_t axes; /* bit set: mesh axes the communication spans */
  const Layout *before, *after;
} Move;

enum { MAX_MOVES = 16 };

typedef struct Conversion {
  int n;
  Move moves[MAX_MOVES];
  double cost; /* sum of the costs of the moves */
} Conversion;

/* Cost of one move of a value of this level-1 type; >= 0, in any unit.  Must be a pure function. */
typedef double (*MoveCost)(void *context, const Module *m, const Type *global, const Move *move);

/* Bytes received by the busiest rank, plus a fixed latency in bytes; symbols count as their hint (or 128). */
double move_cost_bytes(void *context, const Module *m, const Type *global, const Move *move);

/* Finds the cheapest path; false if there is none (the micro-batch axis can only be sliced). */
bool convert_find(Module *m, const Type *global, const Layout *from, const Layout *to, MoveCost cost, void *context,
                  Conversion *out);

/* Costs of many conversions of one value; each move is priced once. */
typedef struct ConvertTable ConvertTable;
ConvertTable *convert_table_new(Module *m, const Type *global, MoveCost cost, void *context);
/* The same with the axes that cut a dimension as a set: layouts are those of layout_of_sets, and any axis may leave or
 * join a dimension.  No more expensive than with any order of the axes, provided that moves are not. */
ConvertTable *convert_table_of_sets(Module *m, const Type *global, MoveCost cost, void *context);
/* The layout with the axes of every dimension in ascending order. */
const Layout *layout_of_sets(Module *m, const Layout *l);
void convert_table_free(ConvertTable *t);
/* Costs of the cheapest paths from each of `nfrom` layouts to each of n: out[nfrom][n]; INFINITY if there is none.
 * Paths at `limit` or above may count as none, which is faster. */
void convert_table_costs(ConvertTable *t, int nfrom, const Layout *const *from, int n, const Layout *const *to,
                         double limit, double *out);

/* Emits the operations of a conversion at level 2; returns the converted value. */
Val convert_emit(Builder *b, Val v, const Type *global, const Conversion *c);

/* Bytes of an even shard; symbols count as their hint (without one: batch 8, others 128). */
double layout_bytes(const Module *m, const Type *global, const Layout *l);

#endif
