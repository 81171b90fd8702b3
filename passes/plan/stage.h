/* passes/plan/stage.h - cuts a function into pipeline stages, given the strategies of its operations. */
#ifndef APC_PASSES_PLAN_STAGE_H
#define APC_PASSES_PLAN_STAGE_H

#include "passes/cost/cost.h"

/* Seconds of a micro-batch on all stages one after the other, and on the slowest place, and of what is done once a step
 * on the place that has the most of it, as cuts are chosen by; of all that the busiest place does in a step. */
typedef struct StagesTime {
  double sum, slowest, once, busiest;
} StagesTime;

typedef enum StagesCut {
  STAGES_CUT,
  STAGES_TOO_MANY, /* there are not enough positions to cut at */
  STAGES_TOO_LARGE /* no cut keeps the limit */
} StagesCut;

/* What cuts of one choice of strategies have in common, whatever the schedule: how much stages have to do and want of
 * each other, and the cuts themselves.  It must not outlive the cost model. */
typedef struct StagesKnown StagesKnown;
StagesKnown *stages_known_new(void);
void stages_known_free(StagesKnown *known);

/* Fills stages[op] with 0 .. mesh.stages-1 so that the sum of the stages plus (micro-batches - 1) times the slowest is
 * least, over cuts at positions outside of loops where few values are alive and with the weights of every stage within
 * `memory_limit`; then borders move until places are about equally busy (solver/balance.h).  With `steady` above 0 the
 * slowest stage counts so often, whatever the micro-batches, and borders stay: of pipelines that are kept full.  Fills
 * nothing unless it returns STAGES_CUT; `time` is that of the cut.  `known`: what others have in common with it; NULL:
 * there are none. */
StagesCut stages_cut(StagesKnown *known, CostModel *c, Module *m, const Func *f, const Rule *const *rules,
                     const Strategy *strategies, double memory_limit, double steady, int *stages, StagesTime *time);

/* What the stages that begin at operations cuts[s] (cuts[0] is 0) take per micro-batch, as cuts are chosen by: as
 * cost_plan says, but that a stage pays itself for what is converted before it is sent to it.  INFINITY: it is empty.
 */
void stages_seconds(CostModel *c, Module *m, const Func *f, const Rule *const *rules, const Strategy *strategies,
                    int stages, const size_t *cuts, double *seconds);

/* Whether the operation belongs to the stage it stands in: sources and derived values are where they are used, writes
 * where the state is. */
bool stages_is_placed(const Func *f, const bool *derived, size_t op);

/* The stages of all operations, when stage s begins at operation cuts[s] (cuts[0] is 0).  Sources and what is derived
 * from constants live in the first stage that uses them, a write where its state is read. */
void stages_place(const Func *f, int stages, const size_t *cuts, int *out);

#endif
