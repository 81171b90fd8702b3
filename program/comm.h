/* program/comm.h - the kinds of communication and reduction in a Program, the blocks that it moves, and the bytes of an
 * all_reduce between CPU ranks: what the compiler predicts is what the engine (runtime/comm) sends, because both ask
 * here.
 */
#ifndef APC_PROGRAM_COMM_H
#define APC_PROGRAM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum CommKind {
#define COMM_KIND(name, ...) COMM_##name,
#include "program/comm.def"
#undef COMM_KIND
  COMM_KIND_COUNT
} CommKind;

typedef enum CommReduction {
#define REDUCTION(name, ...) COMM_RED_##name,
#include "base/reduction.def"
#undef REDUCTION
  COMM_REDUCTION_COUNT
} CommReduction;

/* What an instruction of that kind (ProgramInstrKind) is; COMM_KIND_COUNT: no communication. */
CommKind program_instr_comm(uint32_t kind);

const char *program_comm_kind_name(CommKind kind);
int program_comm_dims(CommKind kind);
bool program_comm_reduces(CommKind kind);
const char *program_comm_reduction_name(CommReduction reduction);

/* Part of a tensor: rows of bytes, from `offset` on.  An empty block has rows or row_bytes 0. */
typedef struct CommBlock {
  size_t offset, rows, row_bytes, stride;
} CommBlock;

static inline CommBlock comm_contiguous(size_t offset, size_t bytes) { return (CommBlock){offset, 1, bytes, bytes}; }
static inline size_t comm_block_bytes(CommBlock b) { return b.rows * b.row_bytes; }

/* Memory in which a rank keeps the pieces of others while it reduces. */
enum { COMM_STAGING_BYTES = 512 * 1024, COMM_PIECE_MOST = 64 * 1024, COMM_PIECE_LEAST = 8 * 1024 };

/* Reductions move in pieces of so many bytes. */
size_t program_comm_piece_bytes(int members);

/* Is an all_reduce of `bytes` so small that every member sends all of it to all others? */
bool program_comm_is_direct(size_t bytes, int members);

/* Otherwise each reduces a range, in elements of `unit` bytes, and sends the result: where member j's begins. */
size_t program_comm_range_of(size_t bytes, size_t unit, int j, int members);

/* The payload that member `place` of a group sends in an all_reduce of `bytes`, in elements of `unit` bytes. */
size_t program_comm_all_reduce_sent(size_t bytes, size_t unit, int members, int place);

#endif
