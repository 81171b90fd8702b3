/* ir/schedule.h - pipeline schedules: when each stage computes which part of which micro-batch.
 *
 * A place is the ranks of one stage, or of several (chunks).  A stage runs three kinds of calls per micro-batch:
 * forward, backward and, in schedules that separate them, gradients of weights.  A schedule is the order of a place's
 * calls.  Micro-batches ascend in every phase of a stage (D44).  A table assigns times: each call begins once the
 * previous call of its place and its inputs from other stages are finished.  Traversing the calls of all places by
 * their start time meets every call after its inputs, whatever the real times are, so a table that exists can be
 * executed (D43).
 *
 * gpipe: Huang et al., 2019. 1f1b: Narayanan et al., "PipeDream", 2019. interleaved: Narayanan et al., "Efficient
 * Large-Scale Language Model Training on GPU Clusters", 2021. zbh1, zbv: Qi et al., "Zero Bubble Pipeline Parallelism",
 * 2023, and "Pipeline Parallelism with Controllable Memory", 2024.
 */
#ifndef APC_IR_SCHEDULE_H
#define APC_IR_SCHEDULE_H

#include "ir/ir.h"

/* Text such as "interleaved:2"; `chunks` as in Mesh. */
const char *schedule_text(Arena *a, PipelineSchedule s, int chunks);
/* Parses n characters; false if they name no schedule. */
bool schedule_parse(const char *text, size_t n, PipelineSchedule *s, int *chunks);
bool schedule_weights_apart(PipelineSchedule s); /* gradients of weights are calls of their own */
/* Micro-batches that a place could compute while it waits, if all phases took equal time and there were enough of them;
 * for zbv an upper bound. */
double schedule_idle(PipelineSchedule s, int places, int chunks);

/* Number of places, and the place of a stage. */
int mesh_places(const Mesh *mesh);
int mesh_place_of(const Mesh *mesh, int stage);

/* True if stages alternate forward and backward: they train several micro-batches, so that these are separate bodies.
 */
bool schedule_in_turns(const Mesh *mesh, const Func *f);
/* The phase of the body that computes the operations of a phase. */
Phase schedule_body(const Mesh *mesh, bool in_turns, Phase p);

/* Seconds of one micro-batch on a stage, above 0, so that a call ends after it starts. wgt is part of bwd if weights
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
  ScheduleCall *calls; /* by place, in order of execution; `per_place` each */
  size_t per_place;
  int places, stages, micro_batches;
  size_t *at;     /* index in `calls` of a call (schedule_call) */
  double seconds; /* from the first start to the last end */
} ScheduleTable;

/* The table for all micro-batches of the mesh, in the arena. work: by stage; NULL if all phases take one second. */
ScheduleTable schedule_table(Arena *a, const Mesh *mesh, const ScheduleWork *work);
/* The call of a stage, phase and micro-batch. */
const ScheduleCall *schedule_call(const ScheduleTable *t, int stage, Phase phase, int micro_batch);
/* The largest number of micro-batches at once for which the call of phase `from` has begun on a stage and the call of
 * phase `to` has not ended: values that one makes and the other reads are live for so many.  Indexed by phase minus
 * PH_fwd; if gradients of weights have no calls of their own, those of PH_wgt never end. */
enum { SCHEDULE_PHASES = PH_wgt - PH_fwd + 1 };
typedef struct ScheduleLive {
  int of[SCHEDULE_PHASES][SCHEDULE_PHASES];
} ScheduleLive;
ScheduleLive schedule_most_live(const ScheduleTable *t, int stage);

/* One step of a place: a call, or its end of a message made by a call. */
typedef struct ScheduleRow {
  double time; /* of a call its start; of a message the end of the call that makes it, on both places */
  bool computes;
  int order, micro_batch; /* of messages with equal times */
  int part;               /* for the caller's use */
} ScheduleRow;

/* Sorts the list of a place by time, messages before calls that start then.  The lists of all places are parts of one
 * order, so both ends of every message are reached even if they wait for each other. */
void schedule_sort(ScheduleRow *rows, size_t n);

#endif
