/* codegen/rows/units.h - a level-2 function as an ordered list of work units.
 *
 * In: the legalised operations (row_work.h) of one pipeline stage of a level-2 function (local types).  Out: units in
 * an order that respects every data dependence and keeps the order of communication operations.  A kernel is a row
 * program or an operation with a template; its text and launch are the device's (codegen/target.h).  Every live
 * operation of the stage is inside exactly one unit or fused into the kernels that use it; operations whose results
 * reach neither an output, a write nor another stage have no unit.
 *
 * The units of a loop's body are between its UNIT_LOOP and UNIT_REPEAT; no kernel computes on both sides of these.
 *
 * Every tensor is dense row-major of its local extents, elements as in base/dtype.h.  Extents may be 0.  Exprs are over
 * dimensions and mesh coordinates; the Program evaluates them.
 *
 * Float sums are canonical (D33): 32 lanes by index mod 32 in blocks of 1024, lane butterfly, pairwise over blocks, one
 * dimension at a time, innermost first.  Indices are those of the whole dimension: a part begins at the index in
 * `starts` of the reduction.
 */
#ifndef APC_CODEGEN_ROWS_UNITS_H
#define APC_CODEGEN_ROWS_UNITS_H

#include "base/text.h"
#include "ir/legal_dot.h"
#include "program/epilogue.h"

typedef enum UnitKind {
  UNIT_SOURCE, /* input, param, read: nothing to run */
  UNIT_KERNEL, /* call a kernel */
  UNIT_GEMM,   /* batched matrix product by the device's library, overwriting its result */
  UNIT_VIEW,   /* out[0] is in[0]'s memory from byte `view_offset` on */
  UNIT_COMM,   /* one communication operation; of a transfer the sending stage has the operand, the receiving stage the
                  result */
  UNIT_WRITE,  /* in[0] becomes the new value of the state */
  UNIT_BIND,   /* sets a computed size to in[0], of which out[0] is a view; no kernel computes on both sides */
  UNIT_LOOP,   /* begins a loop of in[0] rounds: out[0] is the number of the round, carry out[k] begins as in[k] */
  UNIT_REPEAT  /* ends a loop: carry k becomes in[k - 1] or, at the end, out[k - 1]; an additional operand decides
                  whether another round follows */
} UnitKind;

enum { GEMM_MAX_BATCH = DOT_MAX_BATCH, PLACED_OPERANDS = 11 /* of an attention_grad with a bias */ };

/* For all batch indices: C[i,j] = sum over p of A[i,p] B[p,j], then the epilogue.  A is in[0], B is in[1], of one type;
 * C is out[0]; after A and B come the bias (n elements) and the residual (laid out as C, which may take its memory), if
 * any, of C's type.  GEMM_TYPES in program/program.def lists the combinations of types.  Strides are in elements.  One
 * of a_m, a_k and one of b_k, b_n is the constant 1 and the other at least the extent it steps over (a leading
 * dimension), unless an extent concerned is 1; c_n is always 1.  k may be 0: the sums are then 0. */
typedef struct GemmUnit {
  int origin; /* index in Func.ops of the product without what joined it */
  int nbatch;
  const Expr *batch[GEMM_MAX_BATCH]; /* extents, major first */
  const Expr *a_batch[GEMM_MAX_BATCH], *b_batch[GEMM_MAX_BATCH], *c_batch[GEMM_MAX_BATCH];
  const Expr *m, *n, *k;
  const Expr *a_m, *a_k, *b_k, *b_n, *c_m, *c_n;
  const Expr *b_panel; /* B is a weight in panels (codegen/panels.h); NULL: as b_k and b_n say */
  bool narrow;         /* B is in panels of bf16, and A is bf16 that was widened */
  DType sums;
  Epilogue epilogue;
} GemmUnit;

/* A convolution that the device performs together with its epilogue: in[0] image, in[1] weights, then the bias and the
 * residual if any; or a gradient of it (program/epilogue.h), with the gradient's operands. */
typedef struct ConvUnit {
  const struct Op *op; /* without the operations that joined it */
  ProgramConvResult result;
  bool of_weights;                           /* the weights are the model's, which no instruction writes */
  const Expr *numbers[PROGRAM_CONV_NUMBERS]; /* instruction `conv` (program/program.def) */
  Epilogue epilogue;
} ConvUnit;

enum { FEW_PRODUCTS = 3, FEW_MOST_ROWS = 16 };
typedef enum FewNorm { FEW_PLAIN, FEW_RMS, FEW_LAYER } FewNorm;

/* Products of few rows of one value in[0], or of its norm, by one kernel (work_few.c).  After in[0] come the gain and
 * the shift of the norm, then of each product its weight and its epilogue's operands. */
typedef struct FewUnit {
  int n;
  const GemmUnit *product[FEW_PRODUCTS];
  FewNorm norm;
  double eps;
  bool gain, shift;
  bool gated;      /* the result is function(first) * second */
  bool silu;       /* the function is x * sigmoid(x) ... */
  OpKind function; /* ... or an elementwise operation; OP_none: neither */
  int nout;
  Val out[FEW_PRODUCTS];
} FewUnit;

/* An attention that extends its keys, its values or both while it reads them: in[operand[i]] is the old part,
 * in[op->nin + i] the part appended along the dimension of keys, and out[op->nout + i] both together.  Or an attention
 * that reads the first keys or values of longer ones in place. */
typedef struct GrowUnit {
  const struct Op *op; /* the attention before: it reads the joined tensor */
  int n, operand[2];   /* 1: keys, 2: values */
  Val whole[2];
  const Expr *room[2]; /* the length of the keys, and of the values, that hold those read; NULL: only these are there */
} GrowUnit;

enum { CACHE_SETS = 3, CACHE_DIMS = 5 };

/* Rows [.., s, heads, k] that are moved from one place to another, and rotated if `rotated`. */
typedef struct CacheSet {
  bool rotated;
  const Expr *extent[CACHE_DIMS], *from_offset, *to_offset, *from[CACHE_DIMS], *to[CACHE_DIMS]; /* strides */
} CacheSet;

/* Rotations and updates of two caches by one kernel (work_cache.c).  Operands: positions, index of the updates, one for
 * each of n sets, the two caches; results: one for each set.  The last two sets are keys and values. */
typedef struct CacheUnit {
  int n;
  CacheSet set[CACHE_SETS];
  const Expr *start; /* of the updates */
  double base;       /* of rotations */
  bool interleaved;
  Val out[CACHE_SETS];
  int nfollow, follow[3]; /* indices in Func.ops of the operations but the first update */
} CacheUnit;

/* An attention of few rows whose keys several blocks share: each stores what it found for its piece in out[op->nout],
 * and the last one of them joins the pieces (work_split.c). */
typedef struct SplitUnit {
  int pieces;
  Val found;
} SplitUnit;

/* The place of a tensor in the memory of a value: element [i, j, ...] is number offset + i * stride[0] + j * stride[1]
 * ... of it. */
typedef struct TensorPlace {
  const struct Type *type; /* of the tensor; NULL: it is the value itself, dense */
  const Expr *offset, *stride[MAX_RANK];
} TensorPlace;

/* An attention or rotation whose operands and first result are in the layout of neighbouring operations
 * (work_place.c). */
typedef struct PlaceUnit {
  const struct Op *op; /* before that change */
  TensorPlace in[PLACED_OPERANDS], out;
  Val result; /* the value whose memory holds the first result, and which replaces it in out[]; 0: the result itself */
} PlaceUnit;

/* Gradients of one attention by several of its operands, which one kernel computes (work_grads.c).  Their operands are
 * equal, and the results may be parts of one value. */
enum { GRADS_MOST = 3 };
typedef struct GradsPart {
  const struct Op *op; /* an attention_grad */
  TensorPlace out;     /* no type: the value itself, dense */
  Val result;          /* the value whose memory holds its result */
} GradsPart;
typedef struct GradsUnit {
  int n;
  GradsPart part[GRADS_MOST]; /* in the order q, k, v */
} GradsUnit;

typedef struct Unit {
  UnitKind kind;
  int op;          /* index in Func.ops of the operation it is named after */
  int tells;       /* the same for messages and profiles: the computing operation before a last reshape or transpose */
  OpKind computes; /* of a row program: that operation as legalised, such as the cast of an operand of `tells` */
  Phase phase;     /* WorkOp.phase; it needs only units of this phase or of earlier ones */
  int nin;
  const Val *in; /* ptr[0 .. nin) */
  int nout;
  const Val *out;   /* ptr[nin .. nin + nout) */
  const int *alias; /* KERNEL, per output: the input (index into `in`) whose memory it may share, -1 if none; with
                       sharing, the kernel of an `update` writes only the elements that change */
  const struct RowProgram *row; /* KERNEL: the program it is printed from; NULL for a template */
  const Op *legal;              /* KERNEL: its last operation, legalised; a template is printed from it; COMM: the
                                   operation */
  const GemmUnit *gemm;
  const ConvUnit *conv; /* KERNEL: on CPUs for the library, and the kernel takes image, weights and result and computes
                           only the convolution; on GPUs the kernel takes in[] and the result and computes everything */
  const FewUnit *few;   /* KERNEL of products */
  const GrowUnit *grow; /* KERNEL of an attention */
  const CacheUnit *cache; /* KERNEL of rotations and updates */
  const SplitUnit *split; /* KERNEL of an attention */
  const PlaceUnit *place;
  const GradsUnit *grads;     /* KERNEL: it computes these; out[] has each value of their results once */
  const struct Unit *members; /* KERNEL: the members of a bundle, which are independent of each other; their `in` and
                                 `out` are among those of the bundle, each value once */
  int nmembers;               /* 0 if not a bundle */
  const Expr *view_offset;    /* VIEW: bytes */
  double seconds;             /* predicted, of one execution; 0 if unknown or free (codegen/unit_times.h) */
  /* KERNEL, once it is printed (codegen/target.h). */
  int kernel; /* its number in the set */
  int nscalars;
  const Expr *const *scalars; /* its arguments other than tensors */
  const Expr *blocks;         /* of its grid; NULL on devices without grids */
  int threads, shared;        /* of a block, and bytes of its shared memory; 0 without grids */
  bool looks;                 /* it checks indices (program/index_fault.h) */
  const char *how;            /* its schedule, for people; NULL if none */
} Unit;

/* True if the unit sends to another stage, or receives from one. */
bool unit_is_transfer(const Unit *u);

/* Units, and the temporaries that they pass to each other but the function does not have: Val Func.values.n + i is
 * temps[i]. */
typedef struct UnitList {
  const struct Work *work; /* the operations they come from */
  Unit *items;
  size_t n;
  const Type **temps;
  size_t ntemps;
} UnitList;

/* Makes the units of legalised operations.  Everything lives in the module's arena. */
UnitList *units_of(struct Work *w);

/* Returns the type of a function value or a temporary. */
const Type *units_type(const UnitList *units, const Func *l2, Val v);

/* Prints one line per unit, for --emit and tests. */
void units_print(const Module *m, Text *t, const Func *l2, const UnitList *units);

#endif
