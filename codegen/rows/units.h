/* codegen/rows/units.h - a level-2 function as an ordered list of work units, and its kernels.
 *
 * In: a level-2 function (local types) and one pipeline stage of it.  Out: units in an order that respects every data
 * dependence and keeps the order of communication operations; their kernels are added to a set (codegen/kernel_set.h).
 * Every live operation of the stage is inside exactly one unit or fused into the kernels that use it; operations
 * whose results reach neither an output, a write nor another stage have no unit.
 *
 * The units of a loop's body stand between its UNIT_LOOP and UNIT_REPEAT; no kernel computes on both sides of these.
 *
 * Every tensor is dense row-major of its local extents, elements as in base/dtype.h.  Extents may be 0.
 * Exprs are over dimensions and mesh coordinates; the Program evaluates them.
 *
 * Float sums are canonical (D33): 32 lanes by index mod 32 in blocks of 1024, lane butterfly, pairwise over blocks, one
 * dimension at a time, innermost first.  Indices are those of the whole dimension: a part begins where `starts` of the
 * reduction says.
 */
#ifndef APC_CODEGEN_ROWS_UNITS_H
#define APC_CODEGEN_ROWS_UNITS_H

#include "codegen/kernel_set.h"
#include "ir/ir.h"
#include "program/activation.h"

typedef enum UnitKind {
  UNIT_SOURCE, /* input, param, read, or the arriving end of a transfer's value is UNIT_COMM; nothing to run */
  UNIT_KERNEL, /* call kernel `kernel` of the set */
  UNIT_GEMM,   /* batched f32 matrix product, overwriting its result */
  UNIT_VIEW,   /* out[0] is in[0]'s memory from byte `view_offset` on */
  UNIT_COMM,   /* one communication operation; a transfer has an operand in the sending, a result in the receiving stage
                */
  UNIT_WRITE,  /* in[0] becomes the new value of the state */
  UNIT_LOOP,   /* begins a loop of in[0] rounds: out[0] is the number of the round, carry out[k] begins as in[k] */
  UNIT_REPEAT  /* ends it: carry k becomes in[k - 1] or, at the end, out[k - 1]; one operand more says whether there is
                  another round */
} UnitKind;

enum { GEMM_MAX_BATCH = 4 };

/* For all batch indices: C[i,j] = sum over p of A[i,p] B[p,j], f32.  Strides are in elements.  One of a_m, a_k and one
 * of b_k, b_n is the constant 1 and the other at least the extent it steps over (a leading dimension), unless an extent
 * concerned is 1; c_n is always 1.  A is in[0], B is in[1], C is out[0].  k may be 0: C is then all zeros. */
typedef struct GemmUnit {
  int nbatch;
  const Expr *batch[GEMM_MAX_BATCH]; /* extents, major first */
  const Expr *a_batch[GEMM_MAX_BATCH], *b_batch[GEMM_MAX_BATCH], *c_batch[GEMM_MAX_BATCH];
  const Expr *m, *n, *k;
  const Expr *a_m, *a_k, *b_k, *b_n, *c_m, *c_n;
} GemmUnit;

/* A convolution that the CPU's library knows, and what joined it: in[0] image, in[1] weights, then the bias and the
 * residual if any. */
typedef struct ConvUnit {
  const struct Op *op;                       /* without what joined it */
  const Expr *numbers[PROGRAM_CONV_NUMBERS]; /* instruction `conv` (program/program.def) */
  bool bias, residual;
  Activation activation;
} ConvUnit;

typedef struct Unit {
  UnitKind kind;
  int op;     /* index in Func.ops of the operation it is named after */
  int kernel; /* KERNEL: its number in the set; void symbol(void *const *ptr, const int64_t *x) */
  int nin;
  const Val *in; /* ptr[0 .. nin) */
  int nout;
  const Val *out;   /* ptr[nin .. nin + nout) */
  const int *alias; /* KERNEL, per output: the input (index into `in`) whose memory it may share, -1 for none;
                     * for an `update` sharing makes the kernel write only what changes */
  int nscalars;
  const Expr *const *scalars;   /* KERNEL: x[i] is the value of scalars[i] */
  const struct RowProgram *row; /* KERNEL: the program it was printed from; NULL for a template */
  const GemmUnit *gemm;
  const ConvUnit *
      conv; /* KERNEL: for the library; the kernel takes image, weights and result and computes the convolution alone */
  const Expr *view_offset; /* VIEW: bytes */
  const Expr *flops;       /* multiply-add counts 2; special functions count 1 */
  const Expr *bytes;       /* read from and written to memory, each tensor once */
} Unit;

/* Values that units pass to each other but the function does not have: Val Func.values.n + i is temps[i]. */
typedef struct UnitList {
  Unit *items;
  size_t n;
  const Type **temps;
  size_t ntemps;
} UnitList;

/* How the texts of kernels are to be compiled; they need -lm and OpenMP at run time.  Never -ffast-math.
 * What C only warns of and is never meant ends the compilation. */
#define UNITS_CFLAGS \
  "-std=gnu11 -O3 -march=native -fopenmp -fno-math-errno -fno-trapping-math -ffp-contract=off " \
  "-mprefer-vector-width=512 -shared -fPIC -Werror=implicit-function-declaration -Werror=implicit-int " \
  "-Werror=int-conversion " \
  "-Werror=incompatible-pointer-types -Werror=return-type"

/* The units of one stage.  With `library`, products may become convolutions of the CPU's library with what joined them.
 * Everything, texts of kernels too, lives in the module's arena.  Dies on IR that verify_func would refuse. */
UnitList *units_of(Module *m, const Func *l2, int stage, bool library, KernelSet *kernels);

/* The type of a function value or a temporary. */
const Type *units_type(const UnitList *units, const Func *l2, Val v);

/* One line per unit, for --emit and tests. */
void units_print(const Module *m, Text *t, const Func *l2, const UnitList *units);

#endif
