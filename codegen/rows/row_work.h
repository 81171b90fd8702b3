/* codegen/rows/row_work.h - the operations of one pipeline stage, legalised and grouped into kernels.
 *
 * Legalised: copies are looked through, a reduction has one dimension of extent other than 1, a float dot is one
 * batched matrix product whose operands may be temporaries made by transposes and casts, a collective moves parts that
 * its engine can address.  Grouped: each group of pointwise and row operations becomes one row program (row_fuse.c).
 */
#ifndef APC_CODEGEN_ROWS_ROW_WORK_H
#define APC_CODEGEN_ROWS_ROW_WORK_H

#include "codegen/rows/units.h"
#include "ir/device.h"
#include "ir/legal_join.h"
#include "ir/loops.h"

typedef enum WorkClass {
  WC_SOURCE,
  WC_WRITE,
  WC_LOOP,   /* loop, carry: one group, which begins a loop */
  WC_REPEAT, /* repeat, leave: one group, which ends it */
  WC_BIND,   /* sets a computed size; like the border of a loop, no kernel spans it */
  WC_COMM,
  WC_VIEW, /* reshape: never computed */
  WC_GEMM,
  WC_TEMPLATE, /* a kernel written by hand: attention, rope, update, dots of other types */
  WC_ROW,      /* reduces over one dimension: reduce, softmax, norm, cross_entropy */
  WC_MAP       /* one element from elements at computable positions */
} WorkClass;

typedef struct WorkOp {
  const Op *op;
  int origin; /* index in Func.ops */
  WorkClass class;
  bool live;              /* some result of the stage needs it */
  bool virtual_;          /* MAP: computed where it is used, never stored */
  Phase phase;            /* of its body: PH_fwd for all work of a micro-batch, unless `in_turns` */
  bool back;              /* recomputed for gradients (Op.again), or computed from recomputed values */
  int group;              /* -1 for virtual and dead ones */
  const GemmUnit *gemm;   /* with the operations that joined it, as below */
  const ConvUnit *conv;   /* a convolution that the device knows; op is then `conv->op` with the operations that joined
                             it */
  const FewUnit *few;     /* products of few rows in one kernel */
  const GrowUnit *grow;   /* an attention that extends a cache; op is then `grow->op` with the operands of the joins */
  const CacheUnit *cache; /* rotations and updates of caches in one kernel */
  const SplitUnit *split; /* an attention in pieces of the keys */
  const PlaceUnit *place; /* an attention or rotation that reads and writes in the layout of its neighbours; op as
                             above */
  Val scratch;            /* of an operator with a rule; 0 if it needs none */
  const GradsUnit *grads; /* several attention_grads; op is then the first, with the operands of all */
} WorkOp;

/* An iteration space: the extents other than the constant 1, and the index of the reduced one. */
typedef struct WorkSpace {
  int ndims;
  const Expr *dims[MAX_RANK];
  int reduced;       /* -1 if none */
  const Expr *start; /* the global index of the reduced dimension's first element; NULL if no sum depends on it */
  bool rows;         /* has row operations (their dimension may be a constant 1: reduced is then -1) */
} WorkSpace;

/* Numbers of groups. */
typedef struct GroupLinks {
  int *items;
  size_t n, cap;
} GroupLinks;

typedef struct WorkGroup {
  int n, cap;
  int *ops; /* ascending */
  WorkSpace space;
  bool fusable;            /* MAP and ROW */
  int segment;             /* groups between the same loop boundaries, of one phase: only these merge */
  bool again;              /* some operations are recomputed for gradients */
  bool back;               /* all are, or use recomputed values */
  bool dead;               /* merged into another, or without stored values */
  int bundle;              /* work_order: its bundle; -1 if none */
  GroupLinks reads, users; /* groups whose results it reads, and groups that read its own */
  int late;                /* the last operation of this group and of all that it needs */
  int seen;                /* Work.round in which it was last visited */
} WorkGroup;

/* A sum over micro-batches: `sum` is `start` plus the value of each micro-batch, in the memory of `start`. */
typedef struct WorkSum {
  Val start, sum;
} WorkSum;

/* Facts about a function that all its stages use (work_function.c). */
typedef struct WorkFunction {
  Arena *arena; /* of this struct and of the work of stages */
  Module *m;
  const Func *f;
  const DeviceTraits *device;
  bool in_turns; /* stages interleave forward and backward of several micro-batches, so that these have their own
                    phases, and gradients of weights if the schedule separates them */
  Loops loops;
  const bool *needed;          /* by operation: an output or write of some stage needs it */
  const size_t *order;         /* the one list that all stages read */
  size_t *place;               /* by operation: its position in that list */
  const bool *early;           /* if stages interleave: the gradient of a weight that is in the backward phase all the
                                  same; else NULL */
  const bool *totals, *update; /* by operation, of the update of a training step (work_update.c); NULL if there is none,
                                  or the device does not need it */
  bool bundles;                /* kernels share launches (row_order.c): it has an update, or reads states only */
  const LegalJoin *joins;      /* by operation; NULL if nothing joins */
  int nstages;
  size_t *in_stage, *begin; /* the operations of a stage in their order begin at begin[stage] */
} WorkFunction;

typedef struct Work {
  Module *m;
  Arena *arena;
  const Func *f;
  const WorkFunction *all;
  int stage;
  bool in_turns; /* as in WorkFunction */
  const DeviceTraits *device;
  struct {
    WorkOp *items;
    size_t n, cap;
  } ops;
  struct {
    const Type **items;
    size_t n, cap;
  } temps;
  struct {
    WorkSum *items;
    size_t n, cap;
  } sums;
  bool *passed; /* by operation of the function: not executed, as kernels read or write through it (work_place.c) or an
                   equal operation exists; NULL if none */
  bool *within; /* by operation of the function: the kernel of an earlier one computes it (work_grads.c); or NULL */
  bool *copied; /* by operation of the function: other kernels compute its result, which is not stored
                   (row_copies.c); or NULL */
  Val *whole;   /* by operation, if copied: the tensor of equal size that they compute it from; 0 if none */
  Val *same;    /* by value of the function: the first of equal numbers or lines, which is computed for all of them, or
                   itself; 0 if not determined by constants and integer inputs alone, or not a line; NULL: each is
                   computed where it stands */
  bool *folded; /* by operation of the function: it is part of a sum of totals, and no kernel computes its result; or
                   NULL */
  int *def;     /* Val -> index in ops, -1 */
  size_t ndef;
  bool *stored;     /* Val -> must be in memory */
  GroupLinks lines; /* the operations in ops that `same` refers to */
  int round;
  GroupLinks todo; /* groups to be visited */
  struct {
    WorkGroup *items;
    size_t n, cap;
  } groups;
} Work;

/* Legalises the operations of one stage for a device.  With `join`, convolutions and products of its library absorb the
 * operations after them, attentions the joins of their operands, and sums of an update become one: level-2 text cannot
 * express this.  Of a function of level 1 it legalises all operations for one device and the whole batch, for prices
 * (passes/cost/parts.h).  Dies on IR that verify_func would refuse. */
Work *work_new(Module *m, const Func *f, int stage, const DeviceTraits *device, bool join);
/* The same for every stage of a function: work_function finds the facts that stages share, work_of_stage legalises one,
 * work_in_stage lists the n operations of one. */
const WorkFunction *work_function(Arena *a, Module *m, const Func *f, const DeviceTraits *device, bool join);
Work *work_of_stage(const WorkFunction *all, int stage);
/* Finds live operations: legalising may leave some without readers. */
void work_find_live(Work *w);
const size_t *work_in_stage(const WorkFunction *all, int stage, size_t *n);
void work_fuse(Work *w); /* finds groups and `stored` */
/* row_copies.c: lets kernels compute cheap values of other kernels again; `stored` is then out of date. */
void work_copy_values(Work *w);
/* Adds to the links of an operation's group the groups whose results the operation reads. */
void work_link(Work *w, const WorkOp *o);
/* Marks groups of rows without stored values as dead. */
void work_drop_empty(Work *w);

/* Returns the type of a value or temporary. */
const Type *work_type(const Work *w, Val v);
/* Returns the value that copies copy, so that they never separate operations that fuse. */
Val work_resolve(const Work *w, Val v);
/* Adds a temporary of the type. */
Val work_temp(Work *w, const Type *type);
static inline int work_def(const Work *w, Val v) { return v < w->ndef ? w->def[v] : -1; }
/* True if both run in the same phase, or are both recomputed for gradients. */
static inline bool work_same_time(const WorkOp *a, const WorkOp *b) {
  return a->phase == b->phase && a->op->again == b->op->again;
}
/* Returns the length of a table by value; `def` alone may be shorter, as a stage makes some values only. */
static inline size_t work_values(const Work *w) {
  size_t n = w->f->values.n + w->temps.n;
  return n > w->ndef ? n : w->ndef;
}
/* Appends an operation; its result is `out`. */
int work_add(Work *w, const Op *op, int origin, WorkClass class);
/* Removes operations from the list. */
void work_remove(Work *w, const bool *gone);
/* Fills `def` for the operations of the list, which another file has changed. */
void work_find_defs(Work *w);
/* Appends a copy of `step` on behalf of `op`, whose name, group and place it gets; returns its result: step->out, or a
 * new temporary of the type if that is 0. */
Val work_step(Work *w, const Op *op, int origin, const Op *step, const Type *type, WorkClass class);

/* Lists the extents other than the constant 1, in order, and returns their number; where[i] is their dimension. */
int dense_dims(const Type *t, const Expr **dims, int *where);
/* Returns the initial value of a sum over micro-batches; 0 if `sum` is none. */
Val work_sum_start(const Work *w, Val sum);
/* Returns the one dimension that a row operation reduces, as an index among the dense dims of its operand 0; -1 for
 * extent 1. */
int row_reduced_dim(const Work *w, const Op *op);
/* Returns the global index of that dimension's first element; NULL if the result does not depend on it. */
const Expr *row_start(const Work *w, const Op *op);
/* True if the result is the operand's memory from an offset (in elements) on. */
bool work_is_view(const Work *w, const Op *op, const Expr **offset);
const Expr *row_type_stride(Module *m, const Type *t, int dim); /* elements */

/* work_join.c: describes convolutions that the device knows, and joins the additions and activations after them and
 * after products (ir/legal_join.h). */
void work_join(Work *w);

/* work_few.c: makes products of few rows, with the operations around them, kernels of the device. */
void work_few(Work *w);

/* work_grow.c: lets attentions perform the joins of their keys and values. */
void work_grow(Work *w);

/* work_grads.c: makes one operation of the gradients of an attention. */
void work_grads(Work *w);

/* work_place.c: lets attentions and rotations read their operands, and write their result, in the layout of the
 * neighbouring operations. */
void work_place(Work *w);
/* Returns the value that holds the elements of `v`, and their place there: `v` itself, or the operand of transposes,
 * reshapes and slices that are then only views. */
Val work_read_in_place(Work *w, Val v, TensorPlace *place);
/* Returns the place of a dense tensor. */
TensorPlace work_dense_place(Module *m, const Type *t);

/* work_cache.c: makes the rotations and updates of caches before an attention one kernel. */
void work_cache(Work *w);

/* work_update.c: sets `totals` and `update`. */
void work_find_update(WorkFunction *w);

/* work_total.c: true if the operation of the function is the sum of all elements of a tensor that is computed in
 * pieces. */
bool work_sums_whole(const Work *w, int origin);
Val work_add_total(Work *w, const Op *op, int origin); /* adds the kernel that computes the pieces; returns them */
void work_fold_totals(Work *w);                        /* merges additions of such sums into one operation */
/* True if the operation makes pieces of a total; true if it belongs to the update. */
bool work_is_total(const WorkOp *o);
bool work_in_update(const Work *w, const WorkOp *o);

/* row_order.c: returns the groups left after merging, each after the groups it needs; the groups of a bundle are
 * adjacent, and have its number. */
const int *work_order(Work *w, size_t *n);

/* Legalises a dot: adds transposes and casts, then the dot itself. */
void work_add_dot(Work *w, const Op *op, int origin);
/* Legalises a collective: with transposes around it, if the device's engine needs contiguous parts. */
void work_add_comm(Work *w, const Op *op, int origin);
/* work_split.c: divides the keys of attentions of few rows among blocks. */
void work_split(Work *w);
/* Query rows of a block of an attention of few rows. */
int work_few_rows(const Work *w, const Op *op);
/* True if the plan expects few rows that share keys, with heads of at most 256 numbers each. */
bool work_has_few_rows(const Work *w, const Op *op);
/* Returns the value of an extent to plan for. */
int64_t work_expected(const Module *m, const Expr *e);
/* Legalises a grouped_mlp: three grouped_dots and the operations between them. */
void work_add_grouped_mlp(Work *w, const Op *op, int origin);

#endif
