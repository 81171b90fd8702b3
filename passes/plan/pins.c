/* passes/plan/pins.c - see pins.h. */
#include "passes/plan/pins.h"

#include "base/nearest.h"
#include "ir/joint.h"
#include "passes/plan/text.h"

static int dim_of(const PlanPin *pin, int rank) { return pin->dim < 0 ? pin->dim + rank : pin->dim; }

/* Returns the rank of the pinned value; -1 if the operation makes no value of that name, entry or degree. */
static int rank_of(const Func *f, size_t index, const PlanPin *pin) {
  const Op *op = &f->ops.items[index];
  bool named = op->name && *op->name && op->out && op->nout > 0;
  named = named && (plan_glob(pin->glob, op->name) || plan_glob(pin->glob, joint_own_name(f, index)));
  return named ? type_of(f, op->out)->rank : -1;
}

static bool no_match(const Func *f, const PlanPin *pin, Diags *d) {
  Nearest near = nearest_to(pin->glob);
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].name && *f->ops.items[i].name) nearest_try(&near, f->ops.items[i].name);
  diag_error(d, DIAG_usage_value, (Loc){0}, "--pin '%s': no operation of the model matches '%s'", pin->text, pin->glob);
  if (near.best) diag_help(d, "the nearest is '%s'", near.best);
  else diag_help(d, "a saved plan (--save-plan) and --emit=html list the names");
  return false;
}

/* True if two pins require different things of one dimension. */
static bool contradicts(const PlanPin *a, const PlanPin *b, int rank) {
  bool none = a->degree == PIN_NO_DEGREE, other = b->degree == PIN_NO_DEGREE;
  bool same_dim = dim_of(a, rank) == dim_of(b, rank), same_degree = a->degree == b->degree;
  return same_dim ? none != other : same_degree && !none;
}

/* Reports that no match has the dimension; `some`: a match. */
static bool no_dimension(const Func *f, const PlanPin *pin, const Op *some, Diags *d) {
  int rank = type_of(f, some->out)->rank;
  return diag_error(d, DIAG_usage_value, (Loc){0}, "--pin '%s': %s has %d dimension%s", pin->text, some->name, rank,
                    rank == 1 ? "" : "s");
}

/* Adds the pin to those matching operations that have the dimension. */
static bool add_pin(const Func *f, const PlanPin *pins, int k, uint64_t *marks, Diags *d) {
  const PlanPin *pin = &pins[k];
  const Op *some = NULL;
  bool any = false;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    int rank = rank_of(f, i, pin);
    if (rank < 0) continue;
    some = op;
    if (dim_of(pin, rank) < 0 || dim_of(pin, rank) >= rank) continue;
    any = true;
    for (int j = 0; j < k; j++)
      if ((marks[i] >> j & 1) && contradicts(&pins[j], pin, rank))
        return diag_error(d, DIAG_usage_value, (Loc){0}, "--pin '%s' and --pin '%s' contradict each other for %s",
                          pins[j].text, pin->text, op->name);
    marks[i] |= (uint64_t)1 << k;
  }
  return any || (some ? no_dimension(f, pin, some, d) : no_match(f, pin, d));
}

const uint64_t *pins_of(Arena *a, const Func *f, const PlanPin *pins, int n, Diags *d) {
  uint64_t *marks = ARENA_ARRAY(a, uint64_t, f->ops.n + 1);
  for (int k = 0; k < n; k++)
    if (!add_pin(f, pins, k, marks, d)) return NULL;
  return marks;
}

bool pin_holds(const PlanPin *pin, const Layout *l, uint32_t axes) {
  const DimLayout *dim = &l->dims[dim_of(pin, l->rank)];
  uint32_t cut = 0;
  for (int i = 0; i < dim->n; i++) cut |= 1u << dim->axes[i];
  return pin->degree == PIN_NO_DEGREE ? !(cut & axes) : axes && (cut & axes) == axes;
}
