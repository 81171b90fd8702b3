/* passes/plan/stage.h - cuts a function into pipeline stages, given the strategies of its operations. */
#ifndef APC_PASSES_PLAN_STAGE_H
#define APC_PASSES_PLAN_STAGE_H

#include "passes/cost/cost.h"

/* Seconds, as used for choosing cuts: of a micro-batch through all stages; of a micro-batch on the slowest place; of
 * work done once a step, on the place with the most of it; and of all work of the busiest place in a step. */
typedef struct StagesTime {
  double sum, slowest, once, busiest;
} StagesTime;

typedef enum StagesCut {
  STAGES_CUT,
  STAGES_TOO_MANY, /* there are not enough positions */
  STAGES_TOO_LARGE /* no cut satisfies the limit */
} StagesCut;

/* Data shared by cuts for one choice of strategies, whatever the schedule: the work and needs of stages, and the cuts.
 * Free it before the cost model. */
typedef struct StagesKnown StagesKnown;
StagesKnown *stages_known_new(void);
void stages_known_free(StagesKnown *known);

/* Fills stages[op] with 0 .. mesh.stages-1 so that the sum of the stages plus (micro-batches - 1) times the slowest is
 * minimal, over cuts at positions outside loops where few values are alive, with the weights of every stage within
 * `memory_limit`; then borders move until places are about equally busy (solver/balance.h).  `steady` above 0, for
 * pipelines that are kept full: the slowest stage counts `steady` times, whatever the micro-batches, and borders do not
 * move.  Fills nothing unless it returns STAGES_CUT; `time` is that of the cut.  `known`: data shared with other cuts;
 * NULL if none. */
StagesCut stages_cut(StagesKnown *known, CostModel *c, Module *m, const Func *f, const Rule *const *rules,
                     const Strategy *strategies, double memory_limit, double steady, int *stages, StagesTime *time);

/* Fills the seconds per micro-batch of the stages that begin at operations cuts[s] (cuts[0] is 0), as used for choosing
 * cuts: like cost_plan, except that a stage itself pays for conversions before a value is sent to it.  INFINITY if
 * empty.
 */
void stages_seconds(CostModel *c, Module *m, const Func *f, const Rule *const *rules, const Strategy *strategies,
                    int stages, const size_t *cuts, double *seconds);

/* True if the operation belongs to the stage of its position; false for sources and derived values, which are where
 * they are used, and for writes, which are where the state is. */
bool stages_is_placed(const Func *f, const bool *derived, size_t op);

/* Fills the stages of all operations if stage s begins at operation cuts[s] (cuts[0] is 0).  Sources and values derived
 * from constants are in the first stage that uses them, a write where its state is read. */
void stages_place(const Func *f, int stages, const size_t *cuts, int *out);

#endif
