/* program/memory.h - where every buffer of a rank lies: one pure function for compiler and runtime.
 *
 * Sizes.  A buffer's slot takes the largest value of its bytes expression over all ranks of its stage and all
 * micro-batches, rounded up to PROGRAM_ALIGN; so offsets are equal on all ranks of a class.
 *
 * Packing.  Persistent buffers lie one behind the other.  Buffers of an entry are packed per space (arena, window) by
 * their lifetimes: in descending order of size, each goes to the lowest offset where it overlaps no buffer placed
 * before that is live at the same time ("greedy by size": Pisarchyk and Lee, "Efficient Memory Management for Deep
 * Neural Net Inference", 2020).  Deterministic.  All entries share one arena and one window, as large as the largest
 * entry's.
 *
 * Weights in place.  A weight whose parts are contiguous and of its own type in the file on all ranks of its
 * stage, at an address aligned to its element, is used where the file is mapped and takes no memory.
 */
#ifndef APC_PROGRAM_MEMORY_H
#define APC_PROGRAM_MEMORY_H

#include "program/program.h"

#define MEMORY_IN_PLACE UINT64_MAX

typedef struct MemoryPlan {
  uint64_t *offsets;           /* per buffer of the Program: in its space, or MEMORY_IN_PLACE; buffers of other stages
                                  and entries: 0 */
  uint64_t *slot_bytes;        /* per buffer: bytes from slot to slot */
  uint64_t bytes[SPACE_COUNT]; /* what a rank of the stage allocates */
  uint64_t mapped_bytes;       /* weights used in place, not in `bytes` */
  uint64_t class_bytes[PC_COUNT];   /* sums for params and state; for the others the bytes of that class live at the
                                       moment when most bytes of the space are live */
  uint64_t live_bytes[SPACE_COUNT]; /* most bytes live at once: no packing can need less */
} MemoryPlan;

/* Plans one entry of one stage under bound symbols.  entry PROGRAM_NONE: only the weights; symbols may be NULL then.
 * Errors: a size that cannot be evaluated, is negative or is too large. */
RtStatus memory_plan(const Program *p, uint32_t entry, uint32_t stage, const int64_t *symbols, MemoryPlan *out,
                     RtError *error);
void memory_plan_free(MemoryPlan *plan);

/* Checks a plan without the planner's code: walks the schedule call by call and instruction by instruction and
 * verifies that no two buffers in use overlap, that every use lies inside the declared lifetime (also of
 * what asynchronous communication still reads or writes), that nothing else touches that meanwhile, and that every
 * buffer lies inside its space.  Before that, flow_check: does every read find what was written for it?
 * RT_INTERNAL names the two buffers or the instruction. */
RtStatus memory_check(const Program *p, uint32_t entry, uint32_t stage, const MemoryPlan *plan, RtError *error);

/* The same of the plans of all entries and stages, with the default size of every symbol, and whether tensors lie
 * inside their buffers; nothing where the model cannot have these sizes (traffic_has_sizes). */
RtStatus memory_check_all(const Program *p, RtError *error);

#endif
