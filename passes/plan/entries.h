/* passes/plan/entries.h - one plan for several entries of a model (D24): prefill and decode share weights and state.
 *
 * Entries that are planned together have strategies of their own.  Otherwise the choices for the planned entry are
 * carried to another entry by name: an operation of the same name and kind gets the same strategy, weights and state
 * the same layout, everything the same stage, and a loop the latest stage of its operations.  Operations without a
 * counterpart are replicated in the latest stage of their operands; in the evaluation of training they are split like
 * their operands.
 */
#ifndef APC_PASSES_PLAN_ENTRIES_H
#define APC_PASSES_PLAN_ENTRIES_H

#include "passes/plan/plan.h"

/* An entry's share of a joint plan (ir/joint.h). */
typedef struct PlanEntry {
  const char *name;
  double calls;
  PlanPrice price;
  int degree[DEGREE_COUNT]; /* the degrees of the plan's axes in this entry */
} PlanEntry;

/* Returns the shares by entry, in the module's arena.  The module's mesh must be the plan's. */
const PlanEntry *plan_entries(Module *m, const Func *joint, const Target *t, const Plan *p);

/* True if the plan keeps every state in one layout and stage in all entries of a joint function; else *a and *b are
 * operations that differ.  True for functions that are not joint.  The module's mesh must be the plan's. */
bool plan_states_agree(Module *m, const Func *joint, const Rule *const *rules, const Strategy *strategies,
                       const int *stages, size_t *a, size_t *b);
/* Returns the layout of the state that operation `op` reads or writes. */
const Layout *plan_state_layout(Module *m, const Func *f, size_t op, const Rule *const *rules,
                                const Strategy *strategies);

/* Returns the joint plan made from one entry's own plan: its weights, states and mesh, carried to the other entries by
 * name.  Other fields are as in `like`, a joint plan.  The result may be impossible or exceed limits. */
Plan *plan_from_entry(Module *m, const Func *joint, const Target *t, int entry, const Plan *alone, const Plan *like);

/* Returns the seconds of another entry under the plan of the planned entry; INFINITY if that is impossible. */
double plan_carried_seconds(Module *m, const Func *planned, const Target *t, const Plan *p, const Func *other);

/* Carries strategies and stages, by operation of `planned`, to the operations of `other` in out_strategies and
 * out_stages.  Returns the number of operations without a counterpart. */
int plan_carry(Module *m, const Func *planned, const Strategy *strategies, const int *stages, const Func *other,
               Strategy *out_strategies, int *out_stages);

#endif
