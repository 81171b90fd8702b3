/* program/comm.h - kinds of communication and reductions of a Program, the blocks that it moves, and the bytes of an
 * all_reduce between CPU ranks.  The compiler predicts exactly what the engine (runtime/comm) sends, because both call
 * these functions.
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

/* Returns the kind of communication of an instruction (ProgramInstrKind); COMM_KIND_COUNT if it does not
 * communicate. */
CommKind program_instr_comm(uint32_t kind);

/* Return the columns of comm.def: "all_reduce"; the number of dimensions it splits or joins; true if it reduces.
 * Outside the table "unknown operation", 0, false. */
const char *program_comm_kind_name(CommKind kind);
int program_comm_dims(CommKind kind);
bool program_comm_reduces(CommKind kind);
/* Returns "sum"; "unknown reduction" outside the table. */
const char *program_comm_reduction_name(CommReduction reduction);

/* Part of a tensor: rows of bytes, from `offset` on.  An empty block has rows or row_bytes 0. */
typedef struct CommBlock {
  size_t offset, rows, row_bytes, stride;
} CommBlock;

/* A block of contiguous bytes; the bytes of a block. */
static inline CommBlock comm_contiguous(size_t offset, size_t bytes) { return (CommBlock){offset, 1, bytes, bytes}; }
static inline size_t comm_block_bytes(CommBlock b) { return b.rows * b.row_bytes; }

/* Memory in which a rank keeps pieces of other ranks while it reduces. */
enum { COMM_STAGING_BYTES = 512 * 1024, COMM_PIECE_MOST = 64 * 1024, COMM_PIECE_LEAST = 8 * 1024 };

/* Returns the bytes of the pieces in which a reduction moves data. */
size_t program_comm_piece_bytes(int members);

/* True if an all_reduce of `bytes` is so small that every member sends all of it to all others. */
bool program_comm_is_direct(size_t bytes, int members);

/* Otherwise each member reduces a range and sends the result.  Returns the byte offset of member j's range; ranges are
 * multiples of `unit` bytes, an element. */
size_t program_comm_range_of(size_t bytes, size_t unit, int j, int members);

/* Returns the payload bytes that member `place` of a group sends in an all_reduce of `bytes`, in elements of `unit`
 * bytes. */
size_t program_comm_all_reduce_sent(size_t bytes, size_t unit, int members, int place);

#endif
