/* passes/cost/cost.h - what operations, conversions and transfers cost on a target: the primitives the planner adds up.
 *
 * Where ranks are not alike (ranks.h) an operation takes as long as on the slowest of its place; of a pipeline whose
 * places are not alike as on the fastest place, unless it is known where it is (cost_model_on).
 *
 * Time is in seconds, of the rank with the largest part; memory in bytes.  An operation costs the larger of its
 * arithmetic (kernel.h) and its memory traffic, plus the launch; communication is priced by comm.h on the
 * tiers of links that its axes span.  Operations that one kernel computes share its launch and its memory traffic
 * (parts.h).  Every constant comes from the target.  Sizes that are still symbols count as their hint.  What is made,
 * and so paid, where and how often, is the walk's to say (passes/lower/walk.h).  Not modelled yet: caches, and
 * overlap of communication and arithmetic but for the share that a target assumes (Target.hidden).
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

/* For one module, target and mesh: the module's when the model is made or renewed.  Later meshes must have the same
 * axes, of any size. */
typedef struct CostModel CostModel;
CostModel *cost_model_new(Module *m, const Target *t);
/* Another one for the mesh that the module has now, which shares what depends on no mesh and is freed first.  With
 * `loose` axes it is for lower bounds: of all orders in which the mesh may have its first so many spatial axes.  A
 * group then lies on the tiers as well as in the best of them, layouts are those of cost_layout, whichever axis of a
 * dimension may leave it, and cutting a dimension anew costs nothing. */
enum { ANY_SHARES = -1 }; /* instead of loose axes: a bound of all shares that these may have */
CostModel *cost_model_beside(const CostModel *c, int loose);
/* The layout that stands for it: itself, or with axes that have no order. */
const Layout *cost_layout(const CostModel *c, const Layout *l);
void cost_model_free(CostModel *c);
/* The module's mesh is another one now: only what depends on no mesh stays known. */
void cost_model_renew(CostModel *c);
const Target *cost_target(const CostModel *c);
/* The model for what runs on the place of a pipeline: another one where places are not alike.  It ends with this. */
CostModel *cost_model_on(CostModel *c, int place);
/* How many kinds of places there are, and which a place is. */
int cost_place_kinds(const CostModel *c);
int cost_kind_of_place(const CostModel *c, int place);

/* An extent with symbols at their hint (batch 8, others 128 when none was given), and coordinates of the last rank,
 * whose parts are the largest. */
int64_t cost_extent(const CostModel *c, const Expr *e);
/* Elements and bytes of the largest shard. */
double cost_elements(const CostModel *c, const Type *global, const Layout *l);
double cost_bytes(const CostModel *c, const Type *global, const Layout *l);

/* True when no rank's part of any cut factor is empty, were there so many micro-batches (0: as many as the mesh
 * says). */
bool cost_parts_filled(const CostModel *c, const Rule *r, const Strategy *s, int micro);

typedef struct OpCost {
  double seconds;       /* all of it */
  double communication; /* the part of it that is communication inside the operation (bodies, windows) */
  double flops;         /* arithmetic of this rank; a multiply-add is two */
  bool compute_bound;
  bool rows; /* as part of a kernel of rows */
} OpCost;

/* One execution of the operation alone on its shards: without windows, and not of its decomposition.  Sources,
 * reshapes, broadcasts and what loops carry are free: they are views, or read or written in place. */
OpCost cost_kernel(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s);

/* The same as part of a kernel (parts.h), or where it joins the product or convolution before it (ir/legal_join.h): a
 * residual is read, and that is all. */
OpCost cost_joined(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s);
/* What it joins, and what it is of a kernel; asked of functions that do not change any more. */
const LegalJoin *cost_join(const CostModel *c, const Func *f, const Op *op);
const KernelPart *cost_part(const CostModel *c, const Func *f, const Op *op);
/* The product that a dot is part of; NULL: it is one of its own. */
const Together *cost_together(const CostModel *c, const Func *f, const Op *op);
/* How much more an operation takes where operand k, which its own kernel makes (KernelPart.inside), comes converted or
 * from another stage; 0 for other operands. */
double cost_outside(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s, int k);
/* How much more an operation that joins takes where its value comes converted, or from another stage, in a layout. */
double cost_apart(const CostModel *c, const Func *f, const Op *op, const Layout *layout);

/* A write of a state, in the layout that the state has. */
double cost_write(const CostModel *c, const Type *global, const Layout *l);

/* Joined, if it joins anything; with the windows that are exchanged for it, or, when a body factor is cut, its
 * decomposition as it will be made. */
OpCost cost_op(CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s);

/* The decomposition, which the model keeps. */
Body *cost_body(CostModel *c, const Func *f, const Op *op);

/* What a dot is priced as, and whether a convolution is as one of the library (passes/cost/dot.h). */
DotWork cost_dot(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s);
bool cost_conv_is_known(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s);

/* What it takes at least however ranks share it, in seconds: `launch` on each, and the larger of the other two divided
 * by the ranks.  What may be computed as its decomposition has only the launch. */
typedef struct OpLeast {
  double launch, arithmetic, memory;
} OpLeast;
OpLeast cost_op_least(const CostModel *c, const Func *f, const Op *op, const Rule *r);

/* What ranks send at once: a collective, or an exchange. */
typedef struct CommSize {
  CommKind kind;
  uint32_t axes;
  double bytes; /* as comm.h counts them */
} CommSize;
double cost_comm(const CostModel *c, const CommSize *x);

/* Two axes that follow each other, `stride` ranks between neighbours on the inner one: no collective over either of
 * them, or over others as well, spans other links when they change places. */
bool cost_axes_exchange(const Target *t, int stride, int outer, int inner);

/* The communication of a move; false when it is local. */
bool cost_comm_of_move(const CostModel *c, const Type *global, const Move *move, CommSize *out);
/* Of an exchange of windows: at most the operand's whole shard moves. */
CommSize cost_comm_of_window(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s,
                             int operand, const WalkWindow *window);
/* Its seconds, with the transposes that a device of contiguous collectives needs (ir/legal_comm.h): of whole shards. */
double cost_window(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s, int operand,
                   const WalkWindow *window);
/* The moves of a scalar's agreement (agreed.h), or of the cheapest conversion; false when there is none. */
bool cost_agreement_path(CostModel *c, const Type *scalar, Conversion *out);
bool cost_convert_path(CostModel *c, const Type *global, const Layout *from, const Layout *to, Conversion *out);

/* A MoveCost; the context is the CostModel. */
double cost_move(void *context, const Module *m, const Type *global, const Move *move);

/* The cheapest conversion, remembered; INFINITY when there is none. */
double cost_convert(CostModel *c, const Type *global, const Layout *from, const Layout *to);

/* From each of `nfrom` layouts to each of n: seconds[nfrom][n]. */
void cost_convert_all(CostModel *c, const Type *global, int nfrom, const Layout *const *from, int n,
                      const Layout *const *to, double *seconds);

/* What ranks pay to make a scalar that of coordinate 0 (agreed.h). */
double cost_agreement(CostModel *c, const Type *scalar);

/* Sending a value's shard to the next pipeline stage. */
double cost_transfer(const CostModel *c, double bytes);

#endif
