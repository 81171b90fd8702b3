/* ir/layout/convert.h - conversions between two layouts of one value (D1, D2, D10).
 *
 * A conversion is a shortest path over moves: local slice, all-gather and all-to-all act on the minor-most axis of a
 * dimension; sums go by all-reduce or reduce-scatter; a dimension whose axes are the same but cut differently (other
 * order, other unit) moves by one exchange.  The cost of a move comes from the caller, so that the planner and the
 * lowering take the same path.
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
  MOVE_EXCHANGE,       /* dim is cut anew over the same axes */
  MOVE_RELABEL,        /* a value one rank owns is also a sum: nothing happens */
  MOVE_KINDS
} MoveKind;
const char *move_name(MoveKind k);

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

/* The cost of one move of a value of this level-1 type; >= 0, in any unit.  Must be a pure function. */
typedef double (*MoveCost)(void *context, const Module *m, const Type *global, const Move *move);

/* Received bytes of the busiest rank plus a fixed latency in bytes; symbols count as their hint (or 128). */
double move_cost_bytes(void *context, const Module *m, const Type *global, const Move *move);

/* The cheapest path; false when there is none (the micro-batch axis can only be sliced). */
bool convert_find(Module *m, const Type *global, const Layout *from, const Layout *to, MoveCost cost, void *context,
                  Conversion *out);

/* The costs of many conversions of one value: moves that were priced once are remembered. */
typedef struct ConvertTable ConvertTable;
ConvertTable *convert_table_new(Module *m, const Type *global, MoveCost cost, void *context);
/* The same where the axes that cut a dimension are a set: layouts are those of layout_of_sets, and any axis may leave a
 * dimension or join it.  No dearer than with any order of the axes, if moves are not. */
ConvertTable *convert_table_of_sets(Module *m, const Type *global, MoveCost cost, void *context);
/* The layout with the axes of every dimension in ascending order. */
const Layout *layout_of_sets(Module *m, const Layout *l);
void convert_table_free(ConvertTable *t);
/* The costs of the cheapest paths from each of `nfrom` layouts to each of n: out[nfrom][n]; INFINITY where there is
 * none. */
void convert_table_costs(ConvertTable *t, int nfrom, const Layout *const *from, int n, const Layout *const *to,
                         double *out);

/* Emits the operations of a conversion at level 2; returns the converted value. */
Val convert_emit(Builder *b, Val v, const Type *global, const Conversion *c);

/* Bytes of an even shard; symbols count as their hint (batch 8, others 128 when none is given). */
double layout_bytes(const Module *m, const Type *global, const Layout *l);

#endif
