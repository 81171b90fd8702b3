/* passes/cost/parts.h - operations of level 1 as parts of the kernels of a device.
 *
 * The kernels are those of codegen (codegen/rows/row_fuse.c), computed for the whole function as on one device: which
 * operations one kernel computes, which values it reads from memory, and which it stores.  A price counts each kernel's
 * launch once, each value that it reads once, and each value that other kernels read once; values inside a kernel are
 * free.
 *
 * A plan may split a kernel: if a value is converted or sent to another stage between two operations of a kernel, the
 * second becomes a kernel of its own that reads the value, and the first stores it unless it is stored anyway.  This
 * counts for every such operand.
 */
#ifndef APC_PASSES_COST_PARTS_H
#define APC_PASSES_COST_PARTS_H

#include "ir/device.h"
#include "ir/ir.h"

typedef enum PartKind {
  PART_OWN,  /* a kernel of its own, or part of a library call, priced with all that it reads and writes */
  PART_ROWS, /* part of a kernel of rows */
  PART_FREE  /* no kernel computes it: a view of memory, or computed by its readers */
} PartKind;

/* How an operand is read if the value that it is computed from is in memory instead. */
typedef struct PartRead {
  uint32_t spread; /* repeated dimensions: one element of each is read */
  int bytes;       /* of an element there; 0: as the operand's type */
} PartRead;

typedef struct KernelPart {
  PartKind kind;
  int kernel;         /* of rows: the kernel that computes it; -1 if none */
  size_t first, last; /* operations of that kernel */
  int launches;       /* kernels that begin with it */
  bool follows;       /* the kernel of another operation computes it too: no launch of its own (codegen/rows/work_few.c,
                         work_cache.c, work_grads.c) */
  uint32_t weights;   /* of a dot outside of loops: operands that are weights */
  int work;           /* set by cost_parts_measured: additions per element of that kernel */
  bool panels;        /* set by cost_parts_measured: a dot with a weight that only dots read (codegen/panels.h) */
  bool copied;        /* kernels that read it compute it, and it is not stored */
  int from;           /* if copied: the operand that depends on a tensor of its size; -1 if none */
  uint64_t reads;     /* operands that it is the first of its kernel to read from memory */
  uint64_t inside;    /* operands that its own kernel makes */
  uint64_t alone;     /* operands of `inside` that no other kernel reads; only the first reader has the bit */
  uint32_t stores;    /* results that are stored */
  const PartRead *as; /* by operand; NULL: all as they are */
} KernelPart;

/* The factor by which one extent of a dot grows as part of a larger product (assumed.h). */
typedef struct Together {
  int shared; /* the operand that all of them share; -1: their results are summed, so the depth grows */
  double times;
} Together;

/* Returns the parts by operation, in the arena.  At level 2, where a function is for several devices, all are
 * PART_OWN. */
KernelPart *cost_parts_of(Arena *a, Module *m, const DeviceTraits *device, const Func *f);
/* Adds the figures for a measured CPU (passes/cost/cpu.h): `work` and `panels`. */
void cost_parts_measured(const Func *f, KernelPart *parts);

#endif
