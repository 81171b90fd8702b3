/* passes/plan/entries.h - one plan for several entries of a model (D24): prefill and decode share weights and state.
 *
 * Entries that are planned together have strategies of their own.  Otherwise the planned entry's choices are carried to
 * another entry by name: an operation of the same name and kind gets the same strategy, weights and state the same
 * layout, everything the same stage, a loop the latest of its operations'. What has no counterpart is replicated in the
 * latest stage of its operands.
 */
#ifndef APC_PASSES_PLAN_ENTRIES_H
#define APC_PASSES_PLAN_ENTRIES_H

#include "passes/plan/plan.h"

/* What an entry takes of a plan for several that are planned together (ir/joint.h). */
typedef struct PlanEntry {
  const char *name;
  double calls;
  PlanPrice price;
  int degree[DEGREE_COUNT]; /* what the axes amount to in this entry */
} PlanEntry;

/* By entry, in the module's arena; the plan's mesh is the module's. */
const PlanEntry *plan_entries(Module *m, const Func *joint, const Target *t, const Plan *p);

/* Does a plan keep every state in one layout, on one stage, in all entries of a joint function?  Else *a and *b are
 * operations that do not agree.  True of a function that is not joint.  The mesh is the plan's. */
bool plan_states_agree(Module *m, const Func *joint, const Rule *const *rules, const Strategy *strategies,
                       const int *stages, size_t *a, size_t *b);
/* Of the state that operation `op` reads or writes. */
const Layout *plan_state_layout(Module *m, const Func *f, size_t op, const Rule *const *rules,
                                const Strategy *strategies);

/* The plan for all of them that begins with one entry's own: what that keeps and how it is divided, and the others by
 * name.  The rest is as in `like`, a plan for all of them; its price may be too much, or impossible. */
Plan *plan_from_entry(Module *m, const Func *joint, const Target *t, int entry, const Plan *alone, const Plan *like);

/* Seconds of another entry that takes over what was planned for one; INFINITY where it cannot. */
double plan_carried_seconds(Module *m, const Func *planned, const Target *t, const Plan *p, const Func *other);

/* strategies, stages: of `planned`, by operation.  out_strategies, out_stages: room for the operations of `other`.
 * Returns the number of operations that had no counterpart. */
int plan_carry(Module *m, const Func *planned, const Strategy *strategies, const int *stages, const Func *other,
               Strategy *out_strategies, int *out_stages);

#endif
