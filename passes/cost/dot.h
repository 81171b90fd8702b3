/* passes/cost/dot.h - what a rank's part of a dot or convolution becomes on a target's devices (ir/legal_dot.h), in
 * numbers, and what that takes.  Code generation emits the same. */
#ifndef APC_PASSES_COST_DOT_H
#define APC_PASSES_COST_DOT_H

#include "ir/layout/count.h"
#include "ir/legal_dot.h"
#include "ir/target.h"
#include "passes/cost/parts.h"

typedef struct DotWork {
  bool library; /* one product of the library; else a kernel that multiplies and adds */
  DType dtype;  /* in which it is computed */
  double batch, m, n, k;
  bool swapped;         /* m is the second operand's */
  bool turned;          /* what is multiplied second lies column by column */
  int passes[3];        /* kernels that make operands 0 and 1 what the library takes, and the result of what it gives */
  double elements[3];   /* of operands and result as they were asked for */
  double multiplied[3]; /* as they are multiplied: without the letters that are summed before */
} DotWork;

/* What dots of one spec and type become, by which letters have extent 1: remembered, since it is asked for under every
 * strategy.  Begins as {.arena = ...}; for one target. */
typedef struct DotMemo {
  Arena *arena;
  struct DotKnown *items; /* open addressing; `slots` is a power of two */
  size_t slots, n;
} DotMemo;

/* `type`: of the operands.  `mesh`: that of the strategy. */
DotWork cost_dot_work(const Target *t, DotMemo *memo, const OpPart *p, DType type, const Mesh *mesh, const Strategy *s);

typedef struct DotCost {
  double arithmetic; /* seconds */
  double bytes;      /* that the product or kernel itself reads and writes */
  double beside;     /* seconds of the passes, launches included */
} DotCost;
/* `together`: the product that it is part of; NULL: one of its own. */
DotCost cost_dot_form(const Target *t, const DotWork *w, DType type, const Together *together);

/* Does the library of the target's devices have this convolution? */
bool cost_conv_form_is_known(const Target *t, const Func *f, const OpPart *p, const Mesh *mesh, const Strategy *s);
double cost_conv_seconds(const Target *t, const Func *f, const OpPart *p, const Mesh *mesh, const Strategy *s,
                         double flops);

#endif
