/* program/values.c - see values.h. */
#include "program/values.h"

#include <stdlib.h>

RtStatus program_values_open(const Program *p, ProgramValues *v, RtError *error) {
  *v = (ProgramValues){.p = p};
  v->column = malloc(sizeof *v->column * (p->n_exprs + 1u));
  v->common = calloc(p->n_exprs + 1u, sizeof *v->common);
  for (uint32_t e = 0; v->column && e < p->n_exprs; e++)
    v->column[e] = p->expr_uses[e] & PROGRAM_USES_PLACE ? v->n_own++ : PROGRAM_NONE;
  v->own = calloc((size_t)p->ranks * v->n_own + 1, sizeof *v->own);
  if (v->column && v->common && v->own) return RT_OK;
  return rt_error(error, RT_FAILED, "out of memory");
}

void program_values_close(ProgramValues *v) {
  free(v->column);
  free(v->common);
  free(v->own);
  *v = (ProgramValues){0};
}

RtStatus program_values_bind(ProgramValues *v, const int64_t *symbols, uint32_t micro_batch, RtError *error) {
  const Program *p = v->p;
  RtStatus status = RT_OK;
  int64_t at[PROGRAM_MAX_AXES];
  for (uint32_t r = 0; r < (v->n_own ? p->ranks : 1) && !status; r++) {
    int64_t *own = v->own + (size_t)r * v->n_own;
    program_coordinates(p, r, at);
    if (p->mb_axis != PROGRAM_NONE) at[p->mb_axis] = micro_batch;
    status = r ? program_eval_again(p, PROGRAM_USES_PLACE, symbols, at, v->common, error)
               : program_eval(p, symbols, at, v->common, error);
    for (uint32_t e = 0; e < p->n_exprs; e++)
      if (v->column[e] != PROGRAM_NONE) own[v->column[e]] = v->common[e];
  }
  return status;
}

void program_values_of_rank(const ProgramValues *v, uint32_t rank, int64_t *values) {
  for (uint32_t e = 0; e < v->p->n_exprs; e++) values[e] = program_value_of(v, rank, e);
}
