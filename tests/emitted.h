/* tests/emitted.h - what the communication of a lowered function costs, counted from its operations: to compare with
 * what was predicted.
 *
 * Sizes are those of the rank with the largest parts, the last one; symbols count as their hint, targets have one tier.
 */
#ifndef APC_TESTS_EMITTED_H
#define APC_TESTS_EMITTED_H

#include <math.h>

#include "passes/cost/comm.h"
#include "passes/cost/kernel.h"
#include "passes/cost/loops.h"
#include "tests/test.h"

static inline double emitted_bytes(Module *m, const Type *t) {
  int64_t *sizes = ARENA_ARRAY(m->arena, int64_t, m->symbols.n), n, all = 1;
  for (size_t i = 0; i < m->symbols.n; i++) {
    const Symbol *s = &m->symbols.items[i];
    sizes[i] = s->axis >= 0 ? m->mesh.axes[s->axis].size - 1 : s->hint;
  }
  for (int d = 0; d < t->rank; d++) {
    CHECK(ex_eval(t->dims[d], sizes, &n));
    all *= n;
  }
  return (double)all * (double)dtype_bytes(t->dtype);
}

static inline int emitted_group(const Mesh *mesh, const Op *op) {
  const Attr *axes = op_attr(op, AT_mesh_axes);
  int n = 1;
  if (!axes) return mesh->axes[op_int(op, AT_mesh_axis, 0)].size;
  for (int i = 0; i < axes->n; i++) n *= mesh->axes[axes->u.ints[i]].size;
  return n;
}

/* On a target of one tier it does not matter where the group lies. */
static inline double emitted_op_seconds(Module *m, const Target *t, const Func *l2, const Op *op) {
  if (!op_is_comm(op->kind) && op->kind != OP_shard_slice && op->kind != OP_mask_partial) return 0;
  CommGroup group = comm_group_block(t, emitted_group(&m->mesh, op));
  CommCosts costs = comm_costs(t, &group);
  double in = emitted_bytes(m, type_of(l2, op->in[0])), out = emitted_bytes(m, type_of(l2, op->out));
  switch (op->kind) {
    case OP_all_reduce: return comm_seconds(&costs, COMM_all_reduce, in);
    case OP_all_gather: return comm_seconds(&costs, COMM_all_gather, out);
    case OP_reduce_scatter: return comm_seconds(&costs, COMM_reduce_scatter, in);
    case OP_all_to_all: return comm_seconds(&costs, COMM_all_to_all, in);
    case OP_exchange: return comm_seconds(&costs, COMM_exchange, fmax(in, out));
    case OP_shard_slice: return t->launch + kernel_memory_seconds(t, 2 * out);
    case OP_mask_partial: return t->launch + kernel_memory_seconds(t, 2 * in);
    default: return 0;
  }
}

/* That of a body as often as it has rounds. */
static inline double emitted_seconds(Module *m, const Target *t, const Func *l2) {
  Arena *scratch = arena_new();
  CostModel *cost = cost_model_new(m, t);
  const LoopCosts *loops = loop_costs(scratch, cost, l2);
  double sum = 0;
  for (size_t i = 0; i < l2->ops.n; i++) sum += runs_of_op(loops, i) * emitted_op_seconds(m, t, l2, &l2->ops.items[i]);
  cost_model_free(cost);
  arena_free(scratch);
  return sum;
}

#endif
