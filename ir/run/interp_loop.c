/* ir/run/interp_loop.c - loops in the interpreter (docs/ir.md, "Loops").
 *
 * A loop runs flat: its carries are followed by the body and the repeat, which continues with the body or the leaves.
 * All ranks run it together, so they must make the same rounds; disagreement is an error of the program.
 */
#include <string.h>

#include "ir/run/interp_internal.h"

static const Loop *loop_around(const Frame *frame, size_t i) { return &frame->loops.items[frame->loops.of[i]]; }

static LoopRounds *rounds_of(const Run *run, const Frame *frame, const Loop *l, int rank) {
  return &frame->rounds[(l - frame->loops.items) * run->nranks + rank];
}

static const Loop *loop_of_op(const Eval *e) { return loop_around(e->frame, (size_t)(e->op - e->frame->f->ops.items)); }

/* ---- on one rank */

bool eval_loop(Eval *e) {
  const Expr *trips = op_expr(e->op, AT_trips);
  int64_t most = e->in[0]->cells[0].i, limit;
  if (trips && !eval_expr(e, trips, &limit)) return false;
  if (trips && most > limit) most = limit;
  rounds_of(e->run, e->frame, loop_of_op(e), e->rank)->most = most;
  e->out->cells[0].i = 0;
  return true;
}

bool eval_repeat(Eval *e) {
  LoopRounds *rounds = rounds_of(e->run, e->frame, loop_of_op(e), e->rank);
  int64_t made = e->in[0]->cells[0].i + 1, allowed = e->run->options->max_rounds;
  rounds->again = made < rounds->most && (!e->in[1] || e->in[1]->cells[0].i);
  return !rounds->again || !allowed || made < allowed || eval_fail(e, "more than %lld rounds", (long long)allowed);
}

static const Loop *loop_left(const Eval *e) {
  return loop_around(e->frame, (size_t)e->frame->f->values.items[e->op->in[0]].op);
}

bool loop_made_no_round(const Eval *e) {
  return e->op->kind == OP_leave && rounds_of(e->run, e->frame, loop_left(e), e->rank)->most <= 0;
}

bool eval_leave(Eval *e) {
  const InterpTensor *last = e->in[loop_made_no_round(e) ? 0 : 1];
  memcpy(e->out->cells, last->cells, sizeof(Cell) * (size_t)interp_elements(e->out));
  return true;
}

/* ---- on all ranks */

static bool takes_part(const Run *run, const Frame *frame, const Op *op, int only, int rank) {
  return run->stages[rank] == frame_stage(frame, op) && (only < 0 || rank == only);
}

static int first_rank(const Run *run, const Frame *frame, const Op *op, int only) {
  int r = 0;
  while (r < run->nranks && !takes_part(run, frame, op, only, r)) r++;
  return r;
}

bool loop_ranks_agree(Run *run, const Frame *frame, const Op *op, int only) {
  if (op->kind != OP_loop && op->kind != OP_repeat) return true;
  const Loop *l = loop_around(frame, (size_t)(op - frame->f->ops.items));
  int first = first_rank(run, frame, op, only);
  for (int r = first + 1; r < run->nranks; r++) {
    const LoopRounds *x = rounds_of(run, frame, l, first), *y = rounds_of(run, frame, l, r);
    Eval e = {.run = run, .frame = frame, .op = op, .rank = r};
    if (!takes_part(run, frame, op, only, r)) continue;
    if (x->most != y->most)
      return eval_fail(&e, "%lld rounds here, %lld on other ranks", (long long)y->most, (long long)x->most);
    if (op->kind == OP_repeat && x->again != y->again)
      return eval_fail(&e, "the ranks disagree on whether there is another round");
  }
  return true;
}

/* Reads all next values before changing a carry, because carries may be swapped. */
static bool next_carries(Run *run, const Frame *frame, const Loop *l, int rank) {
  const Op *ops = frame->f->ops.items;
  Arena *scratch = arena_new();
  InterpTensor *next = ARENA_ARRAY(scratch, InterpTensor, l->ncarries);
  bool ok = true;
  for (int k = 0; k < l->ncarries && ok; k++) {
    const Op *leave = &ops[l->repeat + 1 + (size_t)k];
    const InterpTensor *from = run_value(run, frame, leave->in[1], rank);
    Eval e = {.run = run, .frame = frame, .op = leave, .rank = rank};
    next[k] = *from;
    next[k].cells = NULL;
    ok = from->cells ? eval_alloc(run, &next[k], leave) : eval_fail(&e, "operand 1 is not on this rank");
    if (ok) memcpy(next[k].cells, from->cells, sizeof(Cell) * (size_t)interp_elements(from));
  }
  for (int k = 0; k < l->ncarries; k++) {
    InterpTensor *carry = run_value(run, frame, ops[l->begin + 1 + (size_t)k].out, rank);
    if (ok) {
      eval_release(run, carry);
      *carry = next[k];
    } else {
      eval_release(run, &next[k]);
    }
  }
  arena_free(scratch);
  return ok;
}

static void release_range(Run *run, const Frame *frame, size_t from, size_t to) {
  for (size_t i = from; i < to; i++)
    for (Val v = frame->f->ops.items[i].out; v < op_end(&frame->f->ops.items[i]); v++)
      for (int r = 0; r < run->nranks; r++) eval_release(run, run_value(run, frame, v, r));
}

static bool next_round(Run *run, const Frame *frame, const Loop *l, int only) {
  const Op *loop = &frame->f->ops.items[l->begin];
  for (int r = 0; r < run->nranks; r++) {
    if (!takes_part(run, frame, loop, only, r)) continue;
    if (!next_carries(run, frame, l, r)) return false;
    run_value(run, frame, loop->out, r)->cells[0].i++;
  }
  release_range(run, frame, l->body, l->repeat);
  return true;
}

/* Frees the values from outside that only the loop reads, after its last leave. */
static void release_entered(Run *run, const Frame *frame, const Loop *l) {
  for (size_t i = l->begin; i < l->end; i++) {
    const Op *op = &frame->f->ops.items[i];
    for (int k = 0; k < op->nin; k++)
      for (int r = 0; r < run->nranks && frame->last_use[op->in[k]] + 1 == l->end; r++)
        eval_release(run, run_value(run, frame, op->in[k], r));
  }
}

bool loop_step(Run *run, const Frame *frame, size_t i, int only, size_t *next) {
  const Op *op = &frame->f->ops.items[i];
  *next = i + 1;
  if (op->kind == OP_carry && loop_around(frame, i)->body == i + 1) {
    const Loop *l = loop_around(frame, i);
    if (rounds_of(run, frame, l, first_rank(run, frame, op, only))->most <= 0) *next = l->repeat + 1;
  }
  if (op->kind == OP_repeat && rounds_of(run, frame, loop_around(frame, i), first_rank(run, frame, op, only))->again) {
    *next = loop_around(frame, i)->body;
    return next_round(run, frame, loop_around(frame, i), only);
  }
  if (op->kind == OP_leave) {
    const Loop *l = loop_around(frame, (size_t)frame->f->values.items[op->in[0]].op);
    if (l->end == i + 1) {
      release_range(run, frame, l->begin, l->repeat);
      release_entered(run, frame, l);
    }
  }
  return true;
}
