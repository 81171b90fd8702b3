/* ir/run/interp_internal.h - between running a function and assembling its results; private to ir/run/interp*.c. */
#ifndef APC_IR_RUN_INTERP_INTERNAL_H
#define APC_IR_RUN_INTERP_INTERNAL_H

#include "ir/run/eval.h"

/* Reports an error of the run rather than of an operation; always false. */
bool run_fail(const Run *run, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* " on rank (tp=1)"; empty if there is only one rank. */
const char *run_rank_text(const Run *run, int rank);
/* The interval of a dimension on a rank, by the one partition function; false if it cannot be computed. */
bool run_interval(const Run *run, int rank, const DimLayout *d, int64_t extent, int64_t *lo, int64_t *hi);
/* A copy that lives as long as the arena. */
InterpTensor run_copy(Arena *arena, const InterpTensor *t);
/* The stage in which an operation runs: its own, or that of its frame. */
int frame_stage(const Frame *frame, const Op *op);

/* The slot of a value on a rank. */
InterpTensor *run_value(const Run *run, const Frame *frame, Val v, int rank);

/* interp_loop.c */
bool loop_ranks_agree(Run *run, const Frame *frame, const Op *op,
                      int only);        /* after a loop or repeat: true if ranks agree on the rounds */
bool loop_made_no_round(const Eval *e); /* true for a leave that keeps the carry's initial value */
/* *next: the operation to run after the i-th.  When a body starts again, gives the carries their next values. */
bool loop_step(Run *run, const Frame *frame, size_t i, int only, size_t *next);

/* interp_assemble.c: false after a diagnostic */
bool run_collect_outputs(Run *run, const Frame *frame, InterpResult *result);
bool run_collect_states(Run *run, const Frame *frame, InterpResult *result);

#endif
