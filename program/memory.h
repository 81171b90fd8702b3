/* program/memory.h - the address of every buffer of a rank: one pure function for compiler and runtime.
 *
 * Sizes.  A buffer's slot takes the largest value of its bytes expression over all ranks of its stage and all
 * micro-batches, rounded up to PROGRAM_ALIGN; so offsets are equal on all ranks of a class.
 *
 * Of computed sizes only the bounds count (program_eval_most), so that all requests of the same inputs have one plan.
 *
 * Packing.  Persistent buffers follow each other.  Buffers of an entry are packed per space (arena, window) by their
 * lifetimes: in descending order of size, each goes to the lowest offset where it overlaps no placed buffer that is
 * live at the same time ("greedy by size": Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
 * Inference", 2020).  Deterministic.  All entries share one arena and one window, as large as the largest entry's.
 *
 * Weights in place.  A weight takes no memory and is used in the mapped file if, on all ranks of its stage, its part is
 * contiguous in the file, has the weight's type there, and is aligned to its element.
 */
#ifndef APC_PROGRAM_MEMORY_H
#define APC_PROGRAM_MEMORY_H

#include "program/program.h"

#define MEMORY_IN_PLACE UINT64_MAX

typedef struct MemoryPlan {
  uint64_t *offsets;           /* per buffer: its offset in its space, or MEMORY_IN_PLACE; 0 for buffers of other stages
                                  and entries */
  uint64_t *slot_bytes;        /* per buffer: bytes from slot to slot */
  uint64_t bytes[SPACE_COUNT]; /* bytes that a rank of the stage allocates */
  uint64_t mapped_bytes;       /* weights used in place, not in `bytes` */
  uint64_t class_bytes[PC_COUNT];   /* sums for params and state; for the others the bytes of that class at the moment
                                       of peak memory of the space */
  uint64_t live_bytes[SPACE_COUNT]; /* peak memory: no packing can need less */
} MemoryPlan;

/* Plans one entry of one stage under bound symbols.  With entry PROGRAM_NONE it plans only the weights; symbols may
 * then be NULL.  Errors: a size that cannot be evaluated, is negative or is too large.  memory_plan_free frees the
 * plan, also after an error. */
RtStatus memory_plan(const Program *p, uint32_t entry, uint32_t stage, const int64_t *symbols, MemoryPlan *out,
                     RtError *error);
void memory_plan_free(MemoryPlan *plan);

/* Checks a plan without the planner's code.  It walks the schedule call by call and instruction by instruction and
 * verifies that no two live buffers overlap, that every use lies inside the declared lifetime, asynchronous
 * communication included, that nothing else touches the buffers of such communication, and that every buffer lies
 * inside its space.  Before that it calls flow_check: does every read find its value?  RT_INTERNAL names the two
 * buffers or the instruction. */
RtStatus memory_check(const Program *p, uint32_t entry, uint32_t stage, const MemoryPlan *plan, RtError *error);

/* Checks the plans of all entries and stages with the default size of every symbol, and that tensors lie inside their
 * buffers.  Checks nothing if the model cannot have these sizes (traffic_has_sizes). */
RtStatus memory_check_all(const Program *p, RtError *error);

#endif
