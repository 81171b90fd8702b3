/* ir/schedule.h - when the stages of a pipeline do what of which micro-batch.
 *
 * A stage runs the forward of a micro-batch, its backward and, for schedules that tell it apart, what makes gradients
 * of weights: the calls.  A schedule is the order of a stage's calls.  Micro-batches ascend in every phase of a stage
 * (D44).  A table gives these orders a time: each call as soon as the one before it on the stage and what it needs of
 * other stages are over.  Whoever goes through the calls of all stages by their beginning meets everything behind what
 * it needs, whatever the real times are: so a table that exists can be run (D43).
 *
 * gpipe: Huang et al., 2019.  1f1b: Narayanan et al., "PipeDream", 2019.  zbh1: Qi et al., "Zero Bubble Pipeline
 * Parallelism", 2023.
 */
#ifndef APC_IR_SCHEDULE_H
#define APC_IR_SCHEDULE_H

#include "ir/ir.h"

const char *schedule_name(PipelineSchedule s);
/* SCHEDULE_COUNT: there is none of that name. */
PipelineSchedule schedule_find(const char *name, size_t n);
bool schedule_weights_apart(PipelineSchedule s);

/* Seconds of one micro-batch on a stage, above 0: a call ends behind its beginning.  wgt counts to bwd where weights
 * are not apart. */
typedef struct ScheduleWork {
  double fwd, bwd, wgt;
} ScheduleWork;

typedef struct ScheduleCall {
  Phase phase; /* PH_fwd, PH_bwd, PH_wgt */
  int stage, micro_batch;
  double start, end;
} ScheduleCall;

typedef struct ScheduleTable {
  ScheduleCall *calls; /* by stage, in the order in which it makes them; `per_stage` each */
  size_t per_stage;
  double seconds; /* from the first beginning to the last end */
  int *most_live; /* by stage: the most micro-batches whose forward is done and whose last phase is not */
} ScheduleTable;

/* `message`: seconds from the end of a call until another stage has what it made.  In the arena. */
ScheduleTable schedule_table(Arena *a, PipelineSchedule s, int stages, int micro_batches, const ScheduleWork *work,
                             double message);
/* What a stage does next: a call, or its end of a message that a call made. */
typedef struct ScheduleRow {
  double time; /* of a call its beginning, of a message the end of what makes it, on both its stages */
  bool computes;
  int order, micro_batch; /* of messages at one time */
  int part;               /* the caller's */
} ScheduleRow;

/* The list of a stage: by time, messages before what begins then.  The lists of all stages are parts of one, so that
 * both ends of every message are come to even if both wait for each other. */
void schedule_sort(ScheduleRow *rows, size_t n);

/* The same as the table's, without one. */
int schedule_most_live(PipelineSchedule s, int stages, int stage, int micro_batches);
const ScheduleCall *schedule_call(const ScheduleTable *t, int stage, Phase phase, int micro_batch);

#endif
