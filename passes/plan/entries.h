/* passes/plan/entries.h - one plan for several entries of a model (D24): prefill and decode share weights and state.
 *
 * The planned entry's choices are carried to another entry by name: an operation of the same name and kind gets the
 * same strategy, weights and state the same layout, everything the same stage, a loop the latest of its operations'.
 * What has no counterpart is replicated in the latest stage of its operands.
 */
#ifndef APC_PASSES_PLAN_ENTRIES_H
#define APC_PASSES_PLAN_ENTRIES_H

#include "ir/layout/rule.h"

/* strategies, stages: of `planned`, by operation.  out_strategies, out_stages: room for the operations of `other`.
 * Returns the number of operations that had no counterpart. */
int plan_carry(Module *m, const Func *planned, const Strategy *strategies, const int *stages, const Func *other,
               Strategy *out_strategies, int *out_stages);

#endif
