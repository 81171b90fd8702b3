/* ir/schedule.h - when the stages of a pipeline do what of which micro-batch.
 *
 * A place is the ranks that one stage has, or several: chunks.  A stage runs the forward of a micro-batch, its backward
 * and, for schedules that tell it apart, what makes gradients of weights: the calls.  A schedule is the order of a
 * place's calls.  Micro-batches ascend in every phase of a stage (D44).  A table gives these orders a time: each call
 * as soon as the one before it on the place and what it needs of other stages are over.  Whoever goes through the calls
 * of all places by their beginning meets everything behind what it needs, whatever the real times are: so a table that
 * exists can be run (D43).
 *
 * gpipe: Huang et al., 2019.  1f1b: Narayanan et al., "PipeDream", 2019.  interleaved: Narayanan et al., "Efficient
 * Large-Scale Language Model Training on GPU Clusters", 2021.  zbh1, zbv: Qi et al., "Zero Bubble Pipeline
 * Parallelism", 2023, and "Pipeline Parallelism with Controllable Memory", 2024.
 */
#ifndef APC_IR_SCHEDULE_H
#define APC_IR_SCHEDULE_H

#include "ir/ir.h"

/* "interleaved:2"; `chunks` as in Mesh. */
const char *schedule_text(Arena *a, PipelineSchedule s, int chunks);
/* What the n characters say; false: there is no such schedule. */
bool schedule_parse(const char *text, size_t n, PipelineSchedule *s, int *chunks);
bool schedule_weights_apart(PipelineSchedule s);
/* The micro-batches that a place could do while it waits, if all phases took equal time and there were enough of them;
 * of zbv at most. */
double schedule_idle(PipelineSchedule s, int places, int chunks);

/* Places, and which one a stage is on. */
int mesh_places(const Mesh *mesh);
int mesh_place_of(const Mesh *mesh, int stage);

/* Do the stages take turns in a function: train several micro-batches, so that forward and backward are bodies apart?
 */
bool schedule_in_turns(const Mesh *mesh, const Func *f);
/* The phase of the body that does what is of a phase. */
Phase schedule_body(const Mesh *mesh, bool in_turns, Phase p);

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
  ScheduleCall *calls; /* by place, in the order in which it makes them; `per_place` each */
  size_t per_place;
  int places, stages, micro_batches;
  size_t *at;     /* of a call (schedule_call): its place in `calls` */
  double seconds; /* from the first beginning to the last end */
} ScheduleTable;

/* Of all micro-batches of the mesh; `work` by stage, NULL: all phases take one second.  In the arena. */
ScheduleTable schedule_table(Arena *a, const Mesh *mesh, const ScheduleWork *work);
const ScheduleCall *schedule_call(const ScheduleTable *t, int stage, Phase phase, int micro_batch);
/* The most micro-batches at once of which a call of phase `from` has begun on a stage and the call of phase `to` is not
 * over: so many of what the one makes and the other reads are live.  By phase less PH_fwd; where gradients of weights
 * have no calls of their own, those of PH_wgt are never over. */
enum { SCHEDULE_PHASES = PH_wgt - PH_fwd + 1 };
typedef struct ScheduleLive {
  int of[SCHEDULE_PHASES][SCHEDULE_PHASES];
} ScheduleLive;
ScheduleLive schedule_most_live(const ScheduleTable *t, int stage);

/* What a place does next: a call, or its end of a message that a call made. */
typedef struct ScheduleRow {
  double time; /* of a call its beginning, of a message the end of what makes it, on both its places */
  bool computes;
  int order, micro_batch; /* of messages at one time */
  int part;               /* the caller's */
} ScheduleRow;

/* The list of a place: by time, messages before what begins then.  The lists of all places are parts of one, so that
 * both ends of every message are come to even if both wait for each other. */
void schedule_sort(ScheduleRow *rows, size_t n);

#endif
