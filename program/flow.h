/* program/flow.h - checks that every read of a buffer finds the right value.
 *
 * In: an opened Program.  The right value follows from the bodies alone: it is the value that the read finds when
 * bodies run in the order in which they stand (program.h), one micro-batch after another.  flow_check first walks that
 * order for two micro-batches, which stand for any number of them; then the schedule, with the actual contents of each
 * slot.  A read is right if the same instruction wrote last, for the same micro-batch (its own, the previous one, or,
 * for reads after all micro-batches, the last one), and equally many writes of that micro-batch preceded it.
 * Everything else is an error: a value not written yet or already overwritten, of another micro-batch, or a sum in
 * another order or with missing summands.
 *
 * Reads are all tensors that program_instr_writes does not name, and the sum that a gemm continues.  Inside a body,
 * reading a buffer that no earlier instruction wrote is an error as well; loops are walked twice (program_next).
 * Values that persist over requests are not followed, parts of a buffer are not distinguished, and instructions that a
 * guard skips count as executed.
 */
#ifndef APC_PROGRAM_FLOW_H
#define APC_PROGRAM_FLOW_H

#include "program/program.h"

/* Checks one entry of one stage.  RT_INTERNAL names body, micro-batch, instruction, buffer and the value found
 * there. */
RtStatus flow_check(const Program *p, uint32_t entry, uint32_t stage, RtError *error);

/* Checks all entries and stages. */
RtStatus flow_check_all(const Program *p, RtError *error);

#endif
