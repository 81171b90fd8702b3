/* passes/cost/parts.h - what operations of level 1 are of the kernels that a device gets.
 *
 * Kernels are those of codegen (codegen/rows/row_fuse.c), asked for the whole function as one device would run it:
 * which operations one kernel computes, what it reads from memory, and what it has to store.  A price counts each
 * kernel's launch once, each value that it reads once, and each value that somebody reads outside of it once; what
 * operations hand to each other inside costs nothing.
 *
 * A plan may take a kernel apart: where a value is converted or sent to another stage between two operations of one
 * kernel, the second is a kernel of its own that reads it after all, and the first stores it if nobody else has it
 * stored.  That counts for each operand that comes so.
 */
#ifndef APC_PASSES_COST_PARTS_H
#define APC_PASSES_COST_PARTS_H

#include "ir/device.h"
#include "ir/ir.h"

typedef enum PartKind {
  PART_OWN,  /* a kernel of its own, or part of one of a library, priced with all that it reads and writes */
  PART_ROWS, /* part of a kernel of rows */
  PART_FREE  /* no kernel computes it: memory seen differently, or who reads it computes it */
} PartKind;

/* What an operand is read as, where what it is made of is in memory instead. */
typedef struct PartRead {
  uint32_t spread; /* dimensions that are repeated: one element of each is read */
  int bytes;       /* of an element there; 0: of the operand's own type */
} PartRead;

typedef struct KernelPart {
  PartKind kind;
  int kernel;         /* of rows: which one computes it; -1: none does */
  size_t first, last; /* operations of that kernel */
  int launches;       /* kernels that begin with it */
  int work;           /* cost_parts_measured: of an element in that kernel, in additions */
  bool panels;        /* the same: a dot with a weight that only dots read (codegen/panels.h) */
  uint64_t reads;     /* operands that it is the first of its kernel to read from memory */
  uint64_t inside;    /* operands that its own kernel makes */
  uint64_t alone;     /* the part of `inside` that no other kernel reads; only its first reader has the bit */
  uint32_t stores;    /* results that are stored */
  const PartRead *as; /* by operand; NULL: all as they are */
} KernelPart;

/* How many times as large one extent of the product is that a dot is part of (assumed.h). */
typedef struct Together {
  int shared; /* the operand that all of them multiply; -1: their results are summed, so the depth is larger */
  double times;
} Together;

/* By operation; of level 2, where a function is that of several devices, all are PART_OWN. */
KernelPart *cost_parts_of(Arena *a, Module *m, const DeviceTraits *device, const Func *f);
/* What prices of a measured cpu ask for as well (passes/cost/cpu.h). */
void cost_parts_measured(const Func *f, KernelPart *parts);

#endif
