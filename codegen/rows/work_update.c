/* codegen/rows/work_update.c - finds the operations that are the update of a training step, by the purpose of their
 * results: phases give it only if there are several micro-batches.
 *
 * Totals are sums of all elements of a tensor in f32, several of which are added up: the norm of all gradients.  A
 * function with totals and states has an update:
 *   - totals, and operations that compute elementwise, or only move, for them and for new values of states, and for
 *     nothing else.  It begins after products, reductions and communication, which compute gradients;
 *   - numbers that are outputs as well, or only outputs, if they depend on totals, inputs and constants alone: the
 *     norm, the learning rate. */
#include "codegen/rows/row_work.h"

typedef struct Finding {
  const Func *f;
  bool once;             /* there are no micro-batches */
  bool *totals, *update; /* by operation */
  bool *numbers;         /* by operation: a number that depends on totals, inputs and constants alone */
  bool *output;          /* by value: it is an output */
  int *users;            /* by value: its number of readers */
  const Op **user;       /* by value: its last reader */
} Finding;

static bool is_number(const Func *f, Val v) { return v && dense_dims(type_of(f, v), NULL, NULL) == 0; }

static bool is_whole_sum(const Func *f, const Op *op) {
  return op->kind == OP_reduce && op_attr(op, AT_op)->u.reduction == RED_SUM && is_number(f, op->out) &&
         !is_number(f, op->in[0]) && type_of(f, op->in[0])->dtype == DT_f32;
}

/* True if it is added to other numbers, by one rank or several. */
static bool is_added(const Finding *x, Val v) {
  while (x->users[v] == 1 && !x->output[v]) {
    const Op *op = x->user[v];
    if (op->kind == OP_add) return true;
    if (op->kind != OP_mask_partial && op->kind != OP_transfer && !op_is_comm(op->kind)) return false;
    v = op->out;
  }
  return false;
}

static void find_users(Finding *x) {
  for (size_t i = 0; i < x->f->outputs.n; i++) x->output[x->f->outputs.items[i].value] = true;
  for (size_t i = 0; i < x->f->ops.n; i++)
    for (int k = 0; k < x->f->ops.items[i].nin; k++) {
      Val v = x->f->ops.items[i].in[k];
      x->users[v]++, x->user[v] = &x->f->ops.items[i];
    }
}

/* Finds totals.  False if there is no update. */
static bool find_totals(Finding *x) {
  int n = 0;
  bool writes = false;
  for (size_t i = 0; i < x->f->ops.n; i++) {
    const Op *op = &x->f->ops.items[i];
    if (op->kind == OP_loop) return false;
    writes |= op->kind == OP_write;
    x->totals[i] = is_whole_sum(x->f, op) && is_added(x, op->out);
    n += x->totals[i];
  }
  return n > 1 && writes;
}

/* True if one kernel computes it element by element, or it is a number that ranks communicate. */
static bool may_be_update(const Finding *x, size_t i) {
  const Op *op = &x->f->ops.items[i];
  if (op_is_comm(op->kind)) return is_number(x->f, op->out);
  switch (op->kind) {
    case OP_cast:
    case OP_broadcast:
    case OP_reshape:
    case OP_transpose:
    case OP_slice:
    case OP_shard_slice:
    case OP_mask_partial: return true;
    case OP_copy:
    case OP_accumulate: return x->once; /* the same memory under another name */
    default: return x->totals[i] || op_is_elementwise(op->kind) || op_is_constant(op->kind);
  }
}

static void find_numbers(Finding *x) {
  for (size_t i = 0; i < x->f->ops.n; i++) {
    const Op *op = &x->f->ops.items[i];
    if (!is_number(x->f, op->out)) continue;
    x->numbers[i] = x->totals[i] || op_is_source(op->kind);
    if (x->numbers[i] || !may_be_update(x, i)) continue;
    x->numbers[i] = true;
    for (int k = 0; k < op->nin; k++) x->numbers[i] &= x->numbers[x->f->values.items[op->in[k]].op];
  }
}

/* Finds the update, from the last operation to the first, since readers come later. */
static void find_update(Finding *x, bool *elsewhere) {
  for (size_t i = x->f->ops.n; i-- > 0;) {
    const Op *op = &x->f->ops.items[i];
    bool asked = false, only = may_be_update(x, i);
    for (Val v = op->out; v < op_end(op); v++) {
      asked |= x->users[v] || x->output[v];
      only &= !elsewhere[v] && (!x->output[v] || x->numbers[i]);
    }
    x->update[i] = op->kind != OP_write && (!op_is_source(op->kind) || op_is_constant(op->kind)) && only && asked;
    for (int k = 0; k < op->nin && !x->update[i] && op->kind != OP_write; k++) elsewhere[op->in[k]] = true;
  }
}

void work_find_update(WorkFunction *w) {
  const Func *f = w->f;
  Arena *scratch = arena_new();
  Finding x = {.f = f,
               .once = f->level == 1 || mesh_micro_batches(&w->m->mesh) == 1,
               .totals = ARENA_ARRAY(w->arena, bool, f->ops.n + 1),
               .update = ARENA_ARRAY(w->arena, bool, f->ops.n + 1),
               .numbers = ARENA_ARRAY(scratch, bool, f->ops.n + 1),
               .output = ARENA_ARRAY(scratch, bool, f->values.n + 1),
               .users = ARENA_ARRAY(scratch, int, f->values.n + 1),
               .user = ARENA_ARRAY(scratch, const Op *, f->values.n + 1)};
  find_users(&x);
  if (find_totals(&x)) {
    find_numbers(&x);
    find_update(&x, ARENA_ARRAY(scratch, bool, f->values.n + 1));
    w->totals = x.totals, w->update = x.update;
  }
  arena_free(scratch);
}
