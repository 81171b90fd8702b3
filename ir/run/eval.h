/* ir/run/eval.h - between the interpreter and the evaluators of operations (ir/ops/); private to ir/.
 *
 * An evaluator computes one operation on one rank: operands and result types are known, `outs` have their extents and
 * uninitialised cells.  It must fill every cell, or fail with a diagnostic.  The record of an operation names its
 * evaluator.
 */
#ifndef APC_IR_RUN_EVAL_H
#define APC_IR_RUN_EVAL_H

#include "ir/run/interp.h"
#include "ir/loops.h"
#include "ir/record.h"

typedef struct Run {
  Module *m;
  const InterpOptions *options;
  Diags *diags;
  Arena *arena; /* results and scratch memory for the whole run */
  bool modp;
  int nranks;
  int naxes;
  int *stages; /* by rank */
  int (*coordinates)[MAX_AXES];
  int strides[MAX_AXES];    /* distance in ranks between neighbours on an axis */
  int64_t **symbols;        /* by rank: dimensions and this rank's coordinates */
  int64_t cells, max_cells; /* currently allocated; limit */
  struct {
    InterpNamed *items;
    size_t n, cap;
  } params; /* whole weights computed so far */
  bool preparing;
} Run;

typedef struct LoopRounds {
  int64_t most; /* limit of the loop's rounds */
  bool again;   /* set by the repeat: another round follows */
} LoopRounds;

typedef struct Frame {
  const Func *f;
  InterpTensor *values;      /* [value * nranks + rank]; cells NULL if freed, not computed, or not on that rank */
  const InterpTensor *given; /* [input * nranks + rank], in the order of the input operations */
  InterpTensor *written;     /* [write * nranks + rank], in order */
  int stage;                 /* >= 0: everything runs in this stage (for the callee of a call) */
  int depth;
  size_t *last_use; /* by value; ir/loops.h */
  Loops loops;
  LoopRounds *rounds; /* [loop * nranks + rank] */
} Frame;

typedef struct Eval {
  Run *run;
  const Frame *frame;
  const Op *op;
  int rank;
  const InterpTensor *in[MAX_OPERANDS];
  InterpTensor *out, *outs[MAX_RESULTS]; /* out is outs[0] */
} Eval;

/* Reports an error; always false. */
bool eval_fail(const Eval *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Fails unless operand `i` has the extents of the result. */
bool eval_same_shape(const Eval *e, int i);
/* Fails unless operand 0 and the result have the same rank and element type. */
bool eval_same_kind(const Eval *e);
/* Fails unless `a` and `b` have equal extents in all dimensions but `except` (-1: in all). */
bool eval_aligned(const Eval *e, const InterpTensor *a, const InterpTensor *b, int64_t except);
/* Evaluates an expression on a rank; fails if it overflows. */
bool eval_expr_on(const Eval *e, int rank, const Expr *x, int64_t *out);
/* The same on this rank. */
static inline bool eval_expr(const Eval *e, const Expr *x, int64_t *out) { return eval_expr_on(e, e->rank, x, out); }

/* The operand of another member of a collective; NULL if it has none. */
const InterpTensor *eval_operand_on(const Eval *e, int rank);
/* Extents of the first result. */
bool eval_result_dims_on(const Eval *e, int rank, int64_t *dims);
/* Members of this rank's group over the axes; *self: its index among them.  Returns their number. */
int eval_group(const Eval *e, int naxes, const int64_t *axes, int *members, int *self);

/* Memory of values, counted against the limit. eval_alloc fails above it. */
bool eval_alloc(Run *run, InterpTensor *t, const Op *op);
void eval_release(Run *run, InterpTensor *t);

/* Further entries of ir/run/interp.c. */
bool eval_body(const Eval *e); /* runs the operation's decomposition on this rank */
bool eval_const_params(Run *run, const Param *p, InterpTensor *out); /* fills a weight that needs no file */

/* ---- cells */

/* A cell of an integer, and of a float. */
static inline Cell cell_i(int64_t v) { return (Cell){.i = v}; }
static inline Cell cell_f(double v) { return (Cell){.f = v}; }

/* An integer wrapped to the width of its type. */
static inline int64_t wrap_int(DType t, int64_t v) {
  switch (t) {
    case DT_i8: return (int8_t)v;
    case DT_i16: return (int16_t)v;
    case DT_i32: return (int32_t)v;
    case DT_u8: return (uint8_t)v;
    case DT_u16: return (uint16_t)v;
    case DT_u32: return (uint32_t)v;
    case DT_bool: return v != 0;
    case DT_i4: return (v & 15) - 2 * (v & 8);
    case DT_i2: return (v & 3) - 2 * (v & 2);
    case DT_u4: return v & 15;
    case DT_u2: return v & 3;
    default: return v;
  }
}

/* A number, and the identity of a reduction, as an element of the type. */
Cell cell_of_double(bool modp, DType t, double v);
Cell cell_of_int(bool modp, DType t, int64_t v);
Cell cell_identity(bool modp, DType t, Reduction r);

/* Sets all cells; acc[i] = acc[i] op x[i] with strides (`one` is a bitwise or). */
void cells_fill(const InterpTensor *t, Cell v);
void cells_reduce(bool modp, DType t, Reduction r, int64_t n, Cell *acc, int64_t acc_stride, const Cell *x,
                  int64_t x_stride);

/* ---- arithmetic modulo p */

static inline uint64_t modp_fold(uint64_t v) { /* any 64-bit value to 0 .. p-1 */
  const uint64_t p = INTERP_P;
  v = (v & p) + (v >> 31);
  v = (v & p) + (v >> 31);
  return v >= p ? v - p : v;
}
/* Sum, negative and product modulo p, of numbers from 0 to p - 1. */
static inline uint64_t modp_add(uint64_t a, uint64_t b) { return a + b >= INTERP_P ? a + b - INTERP_P : a + b; }
static inline uint64_t modp_neg(uint64_t a) { return a ? INTERP_P - a : 0; }
static inline uint64_t modp_mul(uint64_t a, uint64_t b) { return modp_fold(a * b); }
uint64_t modp_inverse(uint64_t a);                         /* 0 for 0 */
uint64_t modp_hash(uint64_t kind, uint64_t x, uint64_t y); /* of an operation and its operands, 0 .. p-1 */
/* Returns the residue of a number, also of a negative one. */
static inline uint64_t modp_of_int(int64_t v) {
  int64_t r = v % INTERP_P;
  return (uint64_t)(r < 0 ? r + INTERP_P : r);
}

/* ---- loop nests: up to three tensors traversed together in row-major order of the nest
 *
 *   for (NestAt at = nest_begin(&n); at.more; nest_next(&n, &at))
 *     for (int64_t i = 0; i < n.inner; i++)  ... x[at.offset[0] + i * n.step[0]] ...
 */
enum { NEST_MAX = 20, NEST_TENSORS = 3 };

typedef struct Nest {
  int n; /* outer loops */
  int64_t extent[NEST_MAX], stride[NEST_TENSORS][NEST_MAX];
  int64_t inner, step[NEST_TENSORS]; /* the innermost loop */
} Nest;

typedef struct NestAt {
  bool more;
  int64_t index[NEST_MAX], offset[NEST_TENSORS];
} NestAt;

/* Distance of neighbours along a letter in a tensor with dimensions `letters`, in cells; 0 for a letter it lacks. */
int64_t letter_stride(const char *letters, int n, const int64_t *strides, char letter);
/* Adds a loop inside the others; strides in cells. */
void nest_add(Nest *n, int64_t extent, int64_t s0, int64_t s1, int64_t s2);
/* Drops loops of one round, joins contiguous neighbours, makes the last loop the inner one.  Call once after
 * nest_add. */
void nest_close(Nest *n);
/* Starts a traversal of the outer loops, and advances it. */
NestAt nest_begin(const Nest *n);
void nest_next(const Nest *n, NestAt *at);

/* Copies over the closed nest (tensor 0 is dst, 1 is src); dst and src start at their first cells. */
void nest_copy(const Nest *n, Cell *dst, const Cell *src);

/* Row-major strides of a shape; its number of cells. */
void eval_row_major(int rank, const int64_t *dims, int64_t *strides);
int64_t count_cells(int rank, const int64_t *dims);
/* Copies a box of extents `size` between two tensors, from `at` of src to `to` of dst. */
void eval_box_copy(int rank, const int64_t *size, Cell *dst, const int64_t *dst_dims, const int64_t *to,
                   const Cell *src, const int64_t *src_dims, const int64_t *at);

/* Lines along a dimension: element i of line l is at eval_line_start(l) + i * inner. */
typedef struct EvalLines {
  int64_t outer, n, inner;
} EvalLines;
/* The lines of a tensor along a dimension. */
EvalLines eval_lines(const InterpTensor *t, int axis);
static inline int64_t eval_line_start(const EvalLines *l, int64_t line) {
  return line / l->inner * l->n * l->inner + line % l->inner;
}

/* ---- evaluators that belong to the interpreter, or are shared by several operations */
EvalFn eval_source, eval_write;            /* ir/run/interp.c */
EvalFn eval_loop, eval_repeat, eval_leave; /* ir/run/interp_loop.c */
EvalFn eval_accumulate;                    /* ir/ops/comm.c */
EvalFn eval_copy;                          /* ir/ops/pointwise.c */

#endif
