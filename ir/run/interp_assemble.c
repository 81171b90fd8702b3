/* ir/run/interp_assemble.c - assembles whole outputs and states of the interpreter from the ranks' parts.
 *
 * Parts must have the extents that their layout gives them, and copies must be equal; partial values are reduced.
 */
#include <string.h>

#include "ir/run/interp_internal.h"

typedef struct Assembly {
  Run *run;
  const char *what, *name;   /* "output" or "state" */
  const InterpTensor *parts; /* by rank */
  int stage;
  const Layout *layout;
  InterpTensor *whole;
} Assembly;

/* Bits of the axes a layout uses for dimensions. */
static uint32_t cut_axes(const Layout *l) {
  uint32_t axes = 0;
  for (int d = 0; d < l->rank; d++)
    for (int i = 0; i < l->dims[d].n; i++) axes |= 1u << l->dims[d].axes[i];
  return axes;
}

/* True if every coordinate outside `axes` is 0. */
static bool at_origin(const Run *run, int rank, uint32_t axes) {
  for (int a = 0; a < run->naxes; a++)
    if (!(axes & (1u << a)) && run->coordinates[rank][a]) return false;
  return true;
}

/* Computes whole extents: a cut dimension is the sum of the parts along its axes. */
static void whole_extents(const Assembly *a) {
  const Run *run = a->run;
  for (int d = 0; d < a->whole->rank; d++) {
    uint32_t axes = 0;
    for (int i = 0; i < a->layout->dims[d].n; i++) axes |= 1u << a->layout->dims[d].axes[i];
    for (int r = 0; r < run->nranks; r++)
      if (run->stages[r] == a->stage && at_origin(run, r, axes)) a->whole->dims[d] += a->parts[r].dims[d];
  }
}

static bool check_part(const Assembly *a, int rank, int64_t *lo) {
  const InterpTensor *part = &a->parts[rank];
  for (int d = 0; d < part->rank; d++) {
    int64_t hi;
    if (!run_interval(a->run, rank, &a->layout->dims[d], a->whole->dims[d], &lo[d], &hi))
      return run_fail(a->run, a->name, "%s \"%s\": the layout has no interval", a->what, a->name);
    if (hi - lo[d] != part->dims[d])
      return run_fail(a->run, a->name, "%s \"%s\"%s: holds %lld of dimension %d, its layout gives it [%lld, %lld)",
                      a->what, a->name, run_rank_text(a->run, rank), (long long)part->dims[d], d, (long long)lo[d],
                      (long long)hi);
  }
  return true;
}

/* The value of a part, reduced over the axes over which it is declared partial. */
static InterpTensor resolved(const Assembly *a, int rank, Arena *scratch) {
  const Run *run = a->run;
  InterpTensor t = run_copy(scratch, &a->parts[rank]);
  for (int r = 0; r < run->nranks; r++) {
    bool member = run->stages[r] == a->stage && r != rank;
    for (int x = 0; x < run->naxes && member; x++)
      member = (a->layout->partial_axes & (1u << x)) || run->coordinates[r][x] == run->coordinates[rank][x];
    if (member)
      cells_reduce(run->modp, t.dtype, a->layout->partial, interp_elements(&t), t.cells, 1, a->parts[r].cells, 1);
  }
  return t;
}

static bool check_copy(const Assembly *a, int rank, const InterpTensor *part, const int64_t *lo, Arena *scratch) {
  int64_t to[MAX_RANK] = {0};
  const char *why;
  InterpTensor first = interp_tensor(scratch, part->dtype, part->rank, part->dims);
  eval_box_copy(part->rank, part->dims, first.cells, part->dims, to, a->whole->cells, a->whole->dims, lo);
  if (interp_equal(part, &first, a->run->options->domain, a->run->options->tolerance, scratch, &why)) return true;
  return run_fail(a->run, a->name, "%s \"%s\": the copy%s differs from the first one: %s", a->what, a->name,
                  run_rank_text(a->run, rank), why);
}

static bool assemble(const Assembly *a) {
  const Run *run = a->run;
  Arena *scratch = arena_new();
  bool ok = true;
  uint32_t axes = cut_axes(a->layout);
  if (a->layout->partial_axes && !reduction_defined(a->layout->partial, a->whole->dtype))
    ok = run_fail(run, a->name, "partial of a kind its type has not");
  whole_extents(a);
  int64_t lo[MAX_RANK], from[MAX_RANK] = {0};
  for (int r = 0; r < run->nranks && ok; r++) ok = run->stages[r] != a->stage || check_part(a, r, lo);
  if (ok) *a->whole = interp_tensor(run->arena, a->whole->dtype, a->whole->rank, a->whole->dims);
  for (int r = 0; r < run->nranks && ok; r++) {
    if (run->stages[r] != a->stage || !at_origin(run, r, ~a->layout->partial_axes)) continue;
    check_part(a, r, lo);
    InterpTensor part = a->layout->partial_axes ? resolved(a, r, scratch) : a->parts[r];
    /* Ranks come in the order of coordinates, so the first copy has the other axes at 0. */
    if (at_origin(run, r, axes))
      eval_box_copy(part.rank, part.dims, a->whole->cells, a->whole->dims, lo, part.cells, part.dims, from);
    else ok = check_copy(a, r, &part, lo, scratch);
  }
  arena_free(scratch);
  return ok;
}

bool run_collect_outputs(Run *run, const Frame *frame, InterpResult *result) {
  const Func *f = frame->f;
  result->outputs = ARENA_ARRAY(run->arena, InterpNamed, f->outputs.n);
  for (size_t i = 0; i < f->outputs.n; i++) {
    const Output *o = &f->outputs.items[i];
    const Op *op = op_of(f, o->value);
    const Type *t = type_of(f, o->value);
    InterpNamed *item = &result->outputs[result->noutputs++];
    *item = (InterpNamed){o->name, {.dtype = t->dtype, .rank = t->rank}};
    const Layout *l = o->layout ? o->layout : layout_replicated(run->m, t->rank);
    Assembly a = {
        run, "output",     o->name, &frame->values[(size_t)o->value * (size_t)run->nranks], frame_stage(frame, op),
        l,   &item->tensor};
    if (!assemble(&a)) return false;
  }
  return true;
}

/* Returns the layout of a state, declared by its reads. */
static const Layout *state_layout(const Func *f, const Op *write) {
  const Layout *found = NULL;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (op->kind != OP_read || strcmp(op_str(op, AT_name), op_str(write, AT_name)) != 0) continue;
    const Layout *l = f->values.items[op->out].layout;
    if (op->stage == write->stage) return l;
    if (!found) found = l;
  }
  return found;
}

bool run_collect_states(Run *run, const Frame *frame, InterpResult *result) {
  const Func *f = frame->f;
  size_t writes = 0;
  for (size_t i = 0; i < f->ops.n; i++) writes += f->ops.items[i].kind == OP_write;
  result->states = ARENA_ARRAY(run->arena, InterpNamed, writes);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (op->kind != OP_write) continue;
    const Type *t = type_of(f, op->in[0]);
    const Layout *l = f->level == 2 ? state_layout(f, op) : NULL;
    InterpNamed *item = &result->states[result->nstates];
    *item = (InterpNamed){op_str(op, AT_name), {.dtype = t->dtype, .rank = t->rank}};
    if (!l) l = layout_replicated(run->m, t->rank);
    Assembly a = {
        run, "state",      item->name, &frame->written[result->nstates++ * run->nranks], frame_stage(frame, op),
        l,   &item->tensor};
    if (!assemble(&a)) return false;
  }
  return true;
}
