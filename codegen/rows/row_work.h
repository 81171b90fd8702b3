/* codegen/rows/row_work.h - the operations of one pipeline stage, legalised and grouped into kernels.
 *
 * Legalised: copies are looked through, a reduction has one dimension of extent other than 1, a float dot is one
 * batched matrix product whose operands may be temporaries made by transposes and casts, a collective moves parts that
 * its engine can address.  Grouped: each group of
 * pointwise and row operations becomes one row program (row_fuse.c).
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
  WC_COMM,
  WC_VIEW, /* reshape: never computed */
  WC_GEMM,
  WC_TEMPLATE, /* a kernel written by hand: attention, rope, update, dots of other types */
  WC_ROW,      /* reduces over one dimension: reduce, softmax, norm, cross_entropy */
  WC_MAP       /* one element from elements at computable places */
} WorkClass;

typedef struct WorkOp {
  const Op *op;
  int origin; /* index in Func.ops */
  WorkClass class;
  bool live;              /* some result of the stage needs it */
  bool virtual_;          /* MAP: computed where it is used, never stored */
  Phase phase;            /* of the body that does it: all that is done in each micro-batch is PH_fwd, but `in_turns` */
  bool back;              /* made again for gradients (Op.again), or of what is */
  int group;              /* -1 for virtual and dead ones */
  const GemmUnit *gemm;   /* with what joined it, as below */
  const ConvUnit *conv;   /* a convolution that the device knows; op is then `conv->op` with what joined it */
  const GrowUnit *grow;   /* an attention that makes a cache longer; op is then `grow->op` with what that reads */
  const PlaceUnit *place; /* an attention or rotation that reads and writes where others have it; op as above */
} WorkOp;

/* An iteration space: the extents other than the constant 1, and which of them is reduced. */
typedef struct WorkSpace {
  int ndims;
  const Expr *dims[MAX_RANK];
  int reduced;       /* -1: none */
  const Expr *start; /* the global index of the reduced dimension's first element; NULL when no sum depends on it */
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
  int segment;             /* groups between the same beginnings and ends of loops, of one phase: only these merge */
  bool again;              /* some are made again for gradients */
  bool back;               /* all are, or are made of what is */
  bool dead;               /* merged into another */
  int bundle;              /* work_order: of which bundle it is; -1: of none */
  GroupLinks reads, users; /* groups whose results it reads, and those that read its own */
  int late;                /* the last operation of it and of all that it needs */
  int seen;                /* Work.round in which it was looked at */
} WorkGroup;

/* A sum over micro-batches: `sum` is `start` plus what each of them has, and lies where that lies. */
typedef struct WorkSum {
  Val start, sum;
} WorkSum;

/* Facts about a function that all its stages use (work_function.c). */
typedef struct WorkFunction {
  Arena *arena; /* of this and of the work of stages */
  Module *m;
  const Func *f;
  const DeviceTraits *device;
  bool in_turns; /* stages take turns in forward and backward of several micro-batches, so that these are told apart,
                    and gradients of weights where the schedule does */
  Loops loops;
  const bool *needed;          /* by operation: for outputs and writes of some stage */
  const size_t *order;         /* the one list that all stages read */
  size_t *place;               /* by operation: where it stands in it */
  const bool *early;           /* where they take turns: done with gradients of values all the same; else NULL */
  const bool *totals, *update; /* by operation, of the update of a training step (work_update.c); NULL: there is none,
                                  or the device does not ask */
  const LegalJoin *joins;      /* by operation; NULL: nothing joins */
  int nstages;
  size_t *in_stage, *begin; /* the operations of a stage in their order: from begin[stage] on */
} WorkFunction;

typedef struct Work {
  Module *m;
  Arena *arena;
  const Func *f;
  const WorkFunction *all;
  int stage;
  bool in_turns; /* as it */
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
  bool *passed; /* by operation of the function: nobody makes it, as kernels read or write through it (work_place.c) or
                   an equal one is there; NULL: none */
  Val *same;    /* by value of the function: the equal number or line that is made once for both, itself; 0 where others
                   than constants determine it, or it is no line; NULL: each is made where it stands */
  bool *folded; /* by operation of the function: it is part of a sum of totals, and no kernel makes its result; or NULL
                 */
  int *def;     /* Val -> index in ops, -1 */
  size_t ndef;
  bool *stored;     /* Val -> must be in memory */
  GroupLinks lines; /* operations that `same` is about, in ops */
  int round;
  GroupLinks todo; /* groups that are yet to be looked at, by whoever looks */
  struct {
    WorkGroup *items;
    size_t n, cap;
  } groups;
} Work;

/* The operations of one stage, legalised for a device; with `join`, convolutions and products of its library take in
 * what follows them, attentions the joins of what they read, and sums of an update are one: what no text of level 2
 * says.  A function of level 1 is what one device does of the
 * whole batch, which prices ask for (passes/cost/parts.h).  Dies on IR that verify_func would refuse. */
Work *work_new(Module *m, const Func *f, int stage, const DeviceTraits *device, bool join);
/* The same of every stage of a function. */
const WorkFunction *work_function(Arena *a, Module *m, const Func *f, const DeviceTraits *device, bool join);
Work *work_of_stage(const WorkFunction *all, int stage);
const size_t *work_in_stage(const WorkFunction *all, int stage, size_t *n);
void work_fuse(Work *w); /* groups and `stored` */

const Type *work_type(const Work *w, Val v);
/* Looks through copies, so that they never stand between operations that fuse. */
Val work_resolve(const Work *w, Val v);
Val work_temp(Work *w, const Type *type);
static inline int work_def(const Work *w, Val v) { return v < w->ndef ? w->def[v] : -1; }
/* Appends an operation; its result is `out`. */
int work_add(Work *w, const Op *op, int origin, WorkClass class);
/* Takes operations out of the list. */
void work_remove(Work *w, const bool *gone);
/* Appends a copy of `step` on behalf of `op`, whose name, group and place it gets; its result is step->out, or a new
 * temporary of the type when that is 0. */
Val work_step(Work *w, const Op *op, int origin, const Op *step, const Type *type, WorkClass class);

/* Extents other than the constant 1, in order; where[i] is their dimension. */
int dense_dims(const Type *t, const Expr **dims, int *where);
/* The value that a sum over micro-batches begins as; 0: it is none. */
Val work_sum_start(const Work *w, Val sum);
/* The one dimension a row operation reduces, as an index among the dense dims of its operand 0; -1 for extent 1. */
int row_reduced_dim(const Work *w, const Op *op);
/* The global index of that dimension's first element; NULL when the result does not depend on it. */
const Expr *row_start(const Work *w, const Op *op);
/* True when the result is the operand's memory from an offset (in elements) on. */
bool work_is_view(const Work *w, const Op *op, const Expr **offset);
const Expr *row_type_stride(Module *m, const Type *t, int dim); /* elements */

/* work_join.c: convolutions that the device knows are described for it, and the additions and activations
 * that follow them and products join them (ir/legal_join.h). */
void work_join(Work *w);

/* work_grow.c: attentions of what is joined along the keys join it themselves. */
void work_grow(Work *w);

/* work_place.c: attentions and rotations read their operands, and write their result, where others have and want
 * them. */
void work_place(Work *w);
TensorPlace work_dense_place(Module *m, const Type *t);

/* work_update.c: sets `totals` and `update`. */
void work_find_update(WorkFunction *w);

/* work_total.c: is the operation of the function the sum of all elements of a tensor that is made in pieces? */
bool work_sums_whole(const Work *w, int origin);
Val work_add_total(Work *w, const Op *op, int origin); /* adds the kernel of these; the pieces */
void work_fold_totals(Work *w);                        /* additions of such sums become one operation */
bool work_is_total(const WorkOp *o);
bool work_in_update(const Work *w, const WorkOp *o);

/* row_order.c: the groups that are left after merging, in an order in which each stands behind what it needs; those of
 * a bundle stand together, and have its number. */
const int *work_order(Work *w, size_t *n);

/* Legalises a dot: adds transposes and casts, then the dot itself. */
void work_add_dot(Work *w, const Op *op, int origin);
/* Legalises a collective: with transposes around it, where the device's engine wants contiguous parts. */
void work_add_comm(Work *w, const Op *op, int origin);
/* work_split.c: an attention of few rows becomes two operations, the second of which joins what the first finds in
 * pieces of the keys. */
void work_split(Work *w);
/* Are few rows planned for that share keys, heads of at most 256 numbers each? */
bool work_has_few_rows(const Work *w, const Op *op);
/* The value of an extent to plan for. */
int64_t work_expected(const Module *m, const Expr *e);
/* A grouped_mlp is three grouped_dots and what stands between them. */
void work_add_grouped_mlp(Work *w, const Op *op, int origin);

#endif
