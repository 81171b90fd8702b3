/* codegen/rows/work_total.c - sums of whole tensors, and the sum of these: the norm of all gradients.
 *
 * In: additions of f32 numbers, some of which are the sum of all elements of a tensor, in the update of a training
 * step.  Out, on devices with bundles: such a sum takes two kernels, however many dimensions the tensor has.
 *   total    `reduce` of class MAP: an elementwise kernel that stores no element; its block i adds up its part of
 *            them as element i of a temporary.  So it joins the kernel that computes the elements, or reads them
 *            anyway.
 *   sum      `reduce` by rows, over that temporary.
 * If additions follow, they and the sums become one `reduce` with several operands, of class TEMPLATE: it adds up all
 * elements of all of them, those of operand 0 first.
 *
 * The order of the sums follows from the sizes alone, and differs from that of CPU ranks (units.h): each block adds
 * 4096 elements or more.  A mask that makes the sum of one rank count (mask_partial) moves onto the elements. */
#include <string.h>

#include "codegen/rows/row_work.h"
#include "program/program.h"

enum { PIECE = 4096, MOST_PIECES = 1024, MOST_TERMS = PROGRAM_MAX_WORDS / 2 - 1 /* an address and a length each */ };

bool work_in_update(const Work *w, const WorkOp *o) { return w->all->update && w->all->update[o->origin]; }
bool work_is_total(const WorkOp *o) { return o->op->kind == OP_reduce && o->class == WC_MAP; }

bool work_sums_whole(const Work *w, int origin) { return w->all->totals && w->all->totals[origin]; }

Val work_add_total(Work *w, const Op *op, int origin) {
  Module *m = w->m;
  const Type *x = work_type(w, op->in[0]);
  const Expr *pieces = ex_ceil_div(m, type_elements(m, x), ex_const(m, PIECE)), *n;
  n = ex_min(m, pieces, ex_const(m, MOST_PIECES));
  return work_step(w, op, origin, &(Op){.kind = OP_reduce, .nin = 1, .in = op->in}, type_get(m, DT_f32, 1, &n), WC_MAP);
}

/* ---- additions of sums */

typedef struct Fold {
  Work *w;
  Arena *scratch;
  const int *uses; /* by value */
  bool *gone;      /* by operation */
  struct {
    Val *items;
    size_t n, cap;
  } terms;
  struct {
    int *items;
    size_t n, cap;
  } inside; /* operations that are removed: additions, sums, masks */
  int totals;
} Fold;

static bool is_number(const Work *w, Val v) {
  const Type *t = work_type(w, v);
  return t->dtype == DT_f32 && dense_dims(t, NULL, NULL) == 0;
}

static bool is_addition(const Work *w, const WorkOp *o) {
  return o->op->kind == OP_add && o->class == WC_MAP && work_in_update(w, o) && is_number(w, o->op->out);
}

/* Returns the operation of that kind that makes a value with one reader; -1 if none. */
static int made_alone(const Fold *f, Val v, OpKind kind) {
  int def = work_def(f->w, v);
  return def >= 0 && f->uses[v] == 1 && f->w->ops.items[def].op->kind == kind ? def : -1;
}

/* Returns the total whose sum such a value is, directly before the sum. */
static int total_of(const Fold *f, Val v) {
  int sum = made_alone(f, v, OP_reduce);
  if (sum < 1 || f->w->ops.items[sum].class != WC_ROW) return -1;
  int total = work_def(f->w, f->w->ops.items[sum].op->in[0]);
  return total == sum - 1 && work_is_total(&f->w->ops.items[total]) ? total : -1;
}

static void add_inside(Fold *f, int i) { ARENA_PUSH(f->scratch, &f->inside, i); }

static void find_terms(Fold *f, Val v) {
  const Work *w = f->w;
  int add = made_alone(f, v, OP_add), mask = made_alone(f, v, OP_mask_partial);
  int masked = mask < 0 ? -1 : total_of(f, w->ops.items[mask].op->in[0]), total = masked < 0 ? total_of(f, v) : masked;
  if (add >= 0 && is_addition(w, &w->ops.items[add])) {
    add_inside(f, add);
    find_terms(f, w->ops.items[add].op->in[0]), find_terms(f, w->ops.items[add].op->in[1]);
    return;
  }
  f->totals += total >= 0;
  if (masked >= 0) add_inside(f, mask);
  if (total >= 0) add_inside(f, total + 1);
  ARENA_PUSH(f->scratch, &f->terms, total >= 0 ? w->ops.items[total].op->out : v);
}

static Op *copy_with(Work *w, const Op *op, size_t n, const Val *in) {
  Op *copy = ARENA_NEW(w->arena, Op);
  Val *list = ARENA_ARRAY(w->arena, Val, n);
  *copy = *op;
  memcpy(list, in, n * sizeof *in);
  copy->in = list, copy->nin = (int)n;
  return copy;
}

/* Moves a mask onto the elements: in the list it takes the total's place, and the total the sum's. */
static void move_mask(Fold *f, int mask) {
  Work *w = f->w;
  WorkOp *items = w->ops.items;
  int sum = work_def(w, items[mask].op->in[0]), total = sum - 1;
  Op *elements = copy_with(w, items[mask].op, 1, items[total].op->in);
  elements->out = work_temp(w, work_type(w, elements->in[0]));
  const Op *masked = copy_with(w, items[total].op, 1, &elements->out);
  WorkOp old = items[total];
  items[total] = items[mask], items[total].op = elements;
  items[sum] = old, items[sum].op = masked;
  f->gone[mask] = true, f->gone[sum] = false;
}

static void fold_at(Fold *f, int root) {
  Work *w = f->w;
  const Op *op = w->ops.items[root].op;
  f->terms.n = f->inside.n = 0, f->totals = 0;
  find_terms(f, op->in[0]), find_terms(f, op->in[1]);
  if (f->totals < 2 || f->terms.n > MOST_TERMS) return;
  for (size_t i = 0; i < f->inside.n; i++) {
    f->gone[f->inside.items[i]] = true;
    w->folded[w->ops.items[f->inside.items[i]].origin] |= w->ops.items[f->inside.items[i]].op->kind != OP_reduce;
  }
  for (size_t i = 0; i < f->inside.n; i++)
    if (w->ops.items[f->inside.items[i]].op->kind == OP_mask_partial) move_mask(f, f->inside.items[i]);
  Op *all = copy_with(w, op, f->terms.n, f->terms.items);
  all->kind = OP_reduce, all->nattrs = 0;
  w->ops.items[root].op = all, w->ops.items[root].class = WC_TEMPLATE;
}

static const int *count_uses(Arena *scratch, const Work *w) {
  int *uses = ARENA_ARRAY(scratch, int, w->f->values.n + w->temps.n + 1);
  for (size_t i = 0; i < w->f->outputs.n; i++) uses[w->f->outputs.items[i].value]++;
  for (size_t i = 0; i < w->ops.n; i++)
    for (int k = 0; k < w->ops.items[i].op->nin; k++) uses[w->ops.items[i].op->in[k]]++;
  return uses;
}

/* Works backwards from the last addition: those inside its sum are removed before they are reached. */
void work_fold_totals(Work *w) {
  Arena *scratch = arena_new();
  Fold f = {.w = w, .scratch = scratch, .uses = count_uses(scratch, w)};
  size_t n = w->ops.n;
  f.gone = ARENA_ARRAY(scratch, bool, n + 1);
  w->folded = ARENA_ARRAY(w->arena, bool, w->f->ops.n + 1);
  for (size_t i = n; i-- > 0;)
    if (!f.gone[i] && is_addition(w, &w->ops.items[i])) fold_at(&f, (int)i);
  work_remove(w, f.gone);
  arena_free(scratch);
}
