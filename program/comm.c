/* program/comm.c - see comm.h. */
#include "program/comm.h"

enum {
  DIRECT_BYTES = 8 * 1024,     /* all_reduce: most bytes sent directly, summed over peers... */
  DIRECT_BYTES_TWO = 16 * 1024 /* ...and between two ranks, where it saves a phase at no cost */
};

const char *program_comm_kind_name(CommKind kind) {
  static const char *const names[] = {
#define COMM_KIND(name, ...) #name,
#include "program/comm.def"
#undef COMM_KIND
  };
  return (unsigned)kind < COMM_KIND_COUNT ? names[kind] : "unknown operation";
}

int program_comm_dims(CommKind kind) {
  static const int dims_of[] = {
#define COMM_KIND(name, dims, reduces) dims,
#include "program/comm.def"
#undef COMM_KIND
  };
  return (unsigned)kind < COMM_KIND_COUNT ? dims_of[kind] : 0;
}

bool program_comm_reduces(CommKind kind) {
  static const bool reduces_of[] = {
#define COMM_KIND(name, dims, reduces) reduces,
#include "program/comm.def"
#undef COMM_KIND
  };
  return (unsigned)kind < COMM_KIND_COUNT && reduces_of[kind];
}

const char *program_comm_reduction_name(CommReduction reduction) {
  static const char *const names[] = {
#define REDUCTION(name, ...) #name,
#include "base/reduction.def"
#undef REDUCTION
  };
  return (unsigned)reduction < COMM_REDUCTION_COUNT ? names[reduction] : "unknown reduction";
}

size_t program_comm_piece_bytes(int members) {
  size_t piece = (size_t)COMM_STAGING_BYTES / (size_t)members;
  if (piece < COMM_PIECE_LEAST) piece = COMM_PIECE_LEAST;
  if (piece > COMM_PIECE_MOST) piece = COMM_PIECE_MOST;
  return piece / 64 * 64;
}

bool program_comm_is_direct(size_t bytes, int members) {
  return members == 1 || (bytes <= program_comm_piece_bytes(members) &&
                          bytes * (size_t)(members - 1) <= (size_t)(members == 2 ? DIRECT_BYTES_TWO : DIRECT_BYTES));
}

size_t program_comm_range_of(size_t bytes, size_t unit, int j, int members) {
  return bytes / unit * (size_t)j / (size_t)members * unit;
}

size_t program_comm_all_reduce_sent(size_t bytes, size_t unit, int members, int place) {
  size_t others = (size_t)(members - 1);
  if (program_comm_is_direct(bytes, members)) return bytes * others;
  size_t own =
      program_comm_range_of(bytes, unit, place + 1, members) - program_comm_range_of(bytes, unit, place, members);
  return bytes - own + own * others; /* the other members' parts, then this member's result */
}
