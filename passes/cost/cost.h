/* passes/cost/cost.h - costs of operations, conversions and transfers on a target: the primitives that the planner adds
 * up.
 *
 * If ranks differ (ranks.h), an operation takes as long as on the slowest rank of its place; if the places of a
 * pipeline differ, as long as on the fastest place, unless its place is known (cost_model_on).
 *
 * Time is in seconds, of the rank with the largest part; memory is in bytes.  An operation costs the larger of its
 * arithmetic (kernel.h) and its memory traffic, plus the launch; comm.h prices communication on the tiers of links that
 * its axes span.  Operations of one kernel share its launch and its memory traffic (parts.h).  Every constant comes
 * from the target.  Unbound symbols count with their hint.  The walk decides what is made where and how often
 * (passes/lower/walk.h).  Not modelled: caches, and overlap of communication and arithmetic except for the share that a
 * target assumes (Target.hidden).
 */
#ifndef APC_PASSES_COST_COST_H
#define APC_PASSES_COST_COST_H

#include "ir/layout/body.h"
#include "ir/layout/convert.h"
#include "ir/legal_join.h"
#include "ir/layout/rule.h"
#include "ir/target.h"
#include "passes/cost/comm.h"
#include "passes/cost/dot.h"
#include "passes/cost/parts.h"
#include "passes/lower/walk.h"

/* The cost model of one module, target and mesh.  It uses the module's mesh at the time of cost_model_new or
 * cost_model_renew.  Later meshes must have the same axes; sizes may differ. */
typedef struct CostModel CostModel;
CostModel *cost_model_new(Module *m, const Target *t);
/* Returns a second model for the module's current mesh.  It shares everything that does not depend on a mesh with `c`,
 * and must be freed before `c`.  If `loose` > 0 it gives lower bounds over all orders of the mesh's first `loose`
 * spatial axes: groups lie on the tiers as in the best order, layouts are those of cost_layout, any axis of a dimension
 * may leave it, and splitting a dimension again is free. */
enum { ANY_SHARES = -1 }; /* in place of `loose`: a lower bound over all shares of the axes */
CostModel *cost_model_beside(const CostModel *c, int loose);
/* Returns a model for a target whose figures differ, but not its kind of device.  It shares the kernels of functions
 * with `c`, and must be freed before `c`. */
CostModel *cost_model_for(const CostModel *c, const Target *t);
/* Makes prices bounds for a range of micro-batches, where other numbers than the mesh's may split evenly, have parts of
 * one sample and convert where that number cannot: splits count as even, such parts as 1 where that avoids a transpose,
 * and impossible conversions take no time.  Call before the model prices anything. */
void cost_model_for_range(CostModel *c);
/* Returns the representative of a layout: the layout itself, or one with unordered axes. */
const Layout *cost_layout(const CostModel *c, const Layout *l);
void cost_model_free(CostModel *c);
/* Call after the module's mesh changed: keeps only results that do not depend on the mesh. */
void cost_model_renew(CostModel *c);
const Target *cost_target(const CostModel *c);
/* Returns the model for a place of the pipeline: another model if places differ.  It is freed with `c`. */
CostModel *cost_model_on(CostModel *c, int place);
/* The number of kinds of places, and the kind of a place. */
int cost_place_kinds(const CostModel *c);
int cost_kind_of_place(const CostModel *c, int place);

/* Returns an extent with symbols at their hint (default: batch 8, others 128), and with the coordinates of the last
 * rank, which has the largest part. */
int64_t cost_extent(const CostModel *c, const Expr *e);
/* Elements and bytes of the largest shard. */
double cost_elements(const CostModel *c, const Type *global, const Layout *l);
double cost_bytes(const CostModel *c, const Type *global, const Layout *l);

/* True if no rank's part of any split factor is empty with `micro` micro-batches (0: the number in the mesh). */
bool cost_parts_filled(const CostModel *c, const Rule *r, const Strategy *s, int micro);

typedef struct OpCost {
  double seconds;       /* total */
  double communication; /* the part of it that is communication inside the operation (bodies, windows) */
  double flops;         /* arithmetic of this rank; a multiply-add is two */
  bool compute_bound;
  bool rows; /* part of a kernel of rows */
} OpCost;

/* Returns the cost of one execution of the operation alone on its shards, without windows and without its
 * decomposition. Sources, reshapes, broadcasts and carries of loops are free: they are views, or are read or written in
 * place. */
OpCost cost_kernel(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s);

/* The same as part of a kernel (parts.h), or joined to the product or convolution before it (ir/legal_join.h): then
 * only a residual is read. */
OpCost cost_joined(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s);
/* Return how the operation joins a product, and its part of a kernel.  The function must not change any more. */
const LegalJoin *cost_join(const CostModel *c, const Func *f, const Op *op);
const KernelPart *cost_part(const CostModel *c, const Func *f, const Op *op);
/* Returns the product that a dot is part of; NULL if the dot is a product of its own. */
const Together *cost_together(const CostModel *c, const Func *f, const Op *op);
/* Returns the additional seconds if operand k, which the operation's own kernel makes (KernelPart.inside), is converted
 * or comes from another stage; 0 for other operands. */
double cost_outside(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s, int k);
/* Returns the additional seconds of a joined operation if its value is converted or comes from another stage. */
double cost_apart(const CostModel *c, const Func *f, const Op *op, const Layout *layout);

/* Returns the bytes that the operation reads and writes in memory: alone, or as part of its kernel. */
double cost_bytes_moved(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s, bool alone);

/* Returns the seconds to bring a state that is away for this read, or to stow it for this write; 0 for others.  l: of
 * the state. */
double cost_away(const CostModel *c, const Func *f, const Op *op, const Layout *l);
/* Returns the seconds to write a state in its layout, with those to stow it. */
double cost_write(const CostModel *c, const Func *f, const Op *op, const Layout *l);

/* Returns the cost of an operation, joined if possible, with its window exchanges; if a body factor is split, the cost
 * of its decomposition as lowered. */
OpCost cost_op(CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s);

/* Returns the decomposition; the model owns it. */
Body *cost_body(CostModel *c, const Func *f, const Op *op);

/* How a dot is priced, and whether a convolution is priced as one of the library (passes/cost/dot.h). */
DotWork cost_dot(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s);
bool cost_conv_is_known(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s);

/* Lower bounds of an operation in seconds, for every distribution over the ranks: `launch` on each rank, plus the
 * larger of the other two divided by the number of ranks.  Operations with a decomposition have only the launch. */
typedef struct OpLeast {
  double launch, arithmetic, memory;
} OpLeast;
OpLeast cost_op_least(const CostModel *c, const Func *f, const Op *op, const Rule *r);

/* One collective or exchange, as ranks call it at the same time. */
typedef struct CommSize {
  CommKind kind;
  uint32_t axes;
  double bytes; /* as comm.h counts them */
} CommSize;
/* Returns the seconds of the communication that do not overlap with arithmetic. */
double cost_comm(const CostModel *c, const CommSize *x);

/* True if two neighbouring axes may be exchanged: no collective over them, alone or with other axes, then uses other
 * links.  `stride`: ranks between neighbours on the inner axis. */
bool cost_axes_exchange(const Target *t, int stride, int outer, int inner);

/* Finds the communication of a move; false if the move is local. */
bool cost_comm_of_move(const CostModel *c, const Type *global, const Move *move, CommSize *out);
/* The communication of a window exchange: at most the operand's whole shard moves. */
CommSize cost_comm_of_window(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s,
                             int operand, const WalkWindow *window);
/* Its seconds, with the transposes of whole shards that a device of contiguous collectives needs (ir/legal_comm.h). */
double cost_window(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s, int operand,
                   const WalkWindow *window);
/* Find the moves that give all ranks one scalar (agreed.h), or those of the cheapest conversion; false if none. */
bool cost_agreement_path(CostModel *c, const Type *scalar, Conversion *out);
bool cost_convert_path(CostModel *c, const Type *global, const Layout *from, const Layout *to, Conversion *out);

/* A MoveCost; the context is the CostModel. */
double cost_move(void *context, const Module *m, const Type *global, const Move *move);

/* Returns the seconds of the cheapest conversion, cached; INFINITY if there is none. */
double cost_convert(CostModel *c, const Type *global, const Layout *from, const Layout *to);

/* Fills seconds[nfrom][n]: from each of `nfrom` layouts to each of `n`.  Conversions that take `limit` or longer may
 * count as impossible (INFINITY), which is faster. */
void cost_convert_all(CostModel *c, const Type *global, int nfrom, const Layout *const *from, int n,
                      const Layout *const *to, double limit, double *seconds);

/* Returns the seconds to give all ranks the scalar of coordinate 0 (agreed.h). */
double cost_agreement(CostModel *c, const Type *scalar);

/* Returns the seconds to send a value's shard to the next pipeline stage. */
double cost_transfer(const CostModel *c, double bytes);

#endif
