/* program/flow.h - does every read of a buffer find the value it should?
 *
 * In: an opened Program.  What a read should find follows from the bodies alone: it is what it finds when bodies run in
 * the order in which they stand (program.h), one micro-batch after the other.  That order is walked first, for two
 * micro-batches, which show what any number of them does; then the schedule, with what each slot really holds.  A read
 * is right when the same instruction wrote last, for the same micro-batch (its own, the one before, or of what runs
 * behind all: the last one), and when equally many writes of that micro-batch came before.  So a value that is not
 * written yet or not any more, of another micro-batch, or a sum in another order or with parts missing is an error.
 *
 * Counted as a read: what program_instr_writes does not name, and the sum that a gemm continues.  Inside a body a read
 * of what no instruction before it wrote is an error as well; loops are walked a second time (program_next).  Values
 * that persist over requests are not followed, nor parts of a buffer apart from each other, and what a guard skips
 * counts as done.
 */
#ifndef APC_PROGRAM_FLOW_H
#define APC_PROGRAM_FLOW_H

#include "program/program.h"

/* One entry of one stage.  RT_INTERNAL names body, micro-batch, instruction, buffer and what is found there. */
RtStatus flow_check(const Program *p, uint32_t entry, uint32_t stage, RtError *error);

/* All entries and stages. */
RtStatus flow_check_all(const Program *p, RtError *error);

#endif
