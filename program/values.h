/* program/values.h - the values of all expressions on all ranks, under bound symbols.
 *
 * Only few expressions depend on the rank: these are kept per rank, the others once.  So the table grows with (ranks) *
 * (expressions of coordinates), not with (ranks) * (all expressions).
 */
#ifndef APC_PROGRAM_VALUES_H
#define APC_PROGRAM_VALUES_H

#include "program/program.h"

typedef struct ProgramValues {
  const Program *p;
  uint32_t n_own;   /* expressions of coordinates */
  uint32_t *column; /* per expression: its index among these; PROGRAM_NONE if equal on all ranks */
  int64_t *common;  /* per expression; for those of coordinates the value on the last rank */
  int64_t *own;     /* [rank][column] */
} ProgramValues;

/* Allocates; program_values_close frees, also after an error. */
RtStatus program_values_open(const Program *p, ProgramValues *out, RtError *error);
void program_values_close(ProgramValues *v);

/* Evaluates everything for a micro-batch.  RT_BAD_INPUT if a size overflows or divides by 0 or less on any rank. */
RtStatus program_values_bind(ProgramValues *v, const int64_t *symbols, uint32_t micro_batch, RtError *error);

/* Copies all values of one rank: values[n_exprs]. */
void program_values_of_rank(const ProgramValues *v, uint32_t rank, int64_t *values);

/* Returns the value of an expression on a rank, in the micro-batch that was bound last. */
static inline int64_t program_value_of(const ProgramValues *v, uint32_t rank, uint32_t expr) {
  uint32_t column = v->column[expr];
  return column == PROGRAM_NONE ? v->common[expr] : v->own[(size_t)rank * v->n_own + column];
}

#endif
