/* passes/cost/dot.h - the form that a rank's part of a dot or convolution takes on a target's devices (ir/legal_dot.h),
 * in numbers, and its time.  Code generation emits the same form. */
#ifndef APC_PASSES_COST_DOT_H
#define APC_PASSES_COST_DOT_H

#include "ir/layout/count.h"
#include "ir/legal_dot.h"
#include "ir/target.h"
#include "passes/cost/parts.h"

typedef struct DotWork {
  bool library; /* one product of the library; else a kernel that multiplies and adds */
  DType dtype;  /* type of the computation */
  double batch, m, n, k;
  bool few;             /* by our kernel for few rows; set by the caller */
  bool swapped;         /* m belongs to the second operand */
  bool turned;          /* the second factor of the product is stored column by column */
  int passes[3];        /* kernels that convert operands 0 and 1 for the library, and the result back */
  double elements[3];   /* of operands and result as given */
  double multiplied[3]; /* as multiplied: without the letters that are summed before */
  double size[3];       /* bytes of an element as multiplied */
} DotWork;

/* The forms of dots by spec, type and letters of extent 1, cached because every strategy needs them.  Begins as {.arena
 * = ...}; for one target. */
typedef struct DotMemo {
  Arena *arena;
  struct DotKnown *items; /* open addressing; `slots` is a power of two */
  size_t slots, n;
} DotMemo;

/* Returns the work of a dot; `type`: of the operands; `mesh`: of the strategy. */
DotWork cost_dot_work(const Target *t, DotMemo *memo, const OpPart *p, DType type, const Mesh *mesh, const Strategy *s);

typedef struct DotCost {
  double arithmetic; /* seconds */
  double bytes;      /* read and written by the product or kernel itself */
  double beside;     /* seconds of conversion passes, launches included */
} DotCost;
/* Returns the cost; `together`: the product that the dot is part of; NULL if it is its own. */
DotCost cost_dot_form(const Target *t, const DotWork *w, DType type, const Together *together);

/* True if the library of the target's devices has this convolution; the seconds of a convolution of `flops`
 * operations. */
bool cost_conv_form_is_known(const Target *t, const Func *f, const OpPart *p, const Mesh *mesh, const Strategy *s);
double cost_conv_seconds(const Target *t, const Func *f, const OpPart *p, const Mesh *mesh, const Strategy *s,
                         double flops);

#endif
