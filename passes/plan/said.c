/* passes/plan/said.c - see said.h. */
#include "passes/plan/said.h"

#include <string.h>

#include "base/hash.h"
#include "ir/shares.h"

int said_degree(const MeshAxis *axis) {
  for (int d = DEGREE_FIRST_AXIS; d < DEGREE_COUNT; d++) {
    size_t n = strlen(degree_names[d]);
    if (strncmp(axis->name, degree_names[d], n) == 0 && !axis->name[n + strspn(axis->name + n, "0123456789")]) return d;
  }
  return -1;
}

const PlanSaid *plan_said_mesh(Arena *a, const Func *f, const Mesh *mesh) {
  PlanSaid *x = ARENA_NEW(a, PlanSaid);
  *x = (PlanSaid){.has_mesh = true,
                  .nameless = true,
                  .mesh = *mesh,
                  .shares = mesh_has_shares(mesh),
                  .time = "mb",
                  .timed = mesh->naxes && mesh->axes[0].temporal,
                  .strategies = ARENA_ARRAY(a, const SaidStrategy *, f->ops.n + 1)};
  return x;
}

/* Returns the file's axis for an axis of a candidate.  A candidate has the axes of the file; if the file leaves
 * micro-batches open, their axis may come first. */
static int axis_said(const PlanSaid *x, const Mesh *mesh, int axis, int degree) {
  bool time_first = mesh->naxes && mesh->axes[0].temporal;
  if (x->has_mesh) return axis - (time_first && !x->timed);
  return mesh->axes[axis].temporal || degree < 0 ? -1 : degree - DEGREE_FIRST_AXIS;
}

int said_factor(const PlanSaid *x, size_t op, const Mesh *mesh, int axis, int degree) {
  const SaidStrategy *line = x->strategies[op];
  int said = axis_said(x, mesh, axis, degree);
  if (!line || (mesh->axes[axis].temporal && !x->timed)) return SAID_OPEN;
  for (int i = 0; i < line->s.n; i++)
    if (line->s.picks[i].axis == said) return line->s.picks[i].factor;
  return line->more ? SAID_OPEN : SAID_NONE;
}

static int factor_of(const Strategy *s, int axis) {
  for (int i = 0; i < s->n; i++)
    if (s->picks[i].axis == axis) return s->picks[i].factor;
  return SAID_NONE;
}

/* Without a mesh line: true if every degree named by the line has axes. */
static bool has_degrees(const SaidStrategy *line, const Mesh *mesh, const int *degrees) {
  uint32_t there = 0;
  for (int i = 0; i < mesh->naxes; i++)
    if (!mesh->axes[i].temporal && degrees[i] >= 0) there |= 1u << degrees[i];
  for (int i = 0; i < line->s.n; i++)
    if (!(there >> (line->s.picks[i].axis + DEGREE_FIRST_AXIS) & 1)) return false;
  return true;
}

/* With a mesh line: true if axes of one factor are in the given order, major to minor. */
static bool in_order(const PlanSaid *x, const SaidStrategy *line, const Mesh *mesh, const Strategy *s) {
  for (int i = 0; i < line->s.n; i++) {
    int at = 0, said = 0;
    while (axis_said(x, mesh, s->picks[at].axis, -1) != line->s.picks[i].axis) at++;
    for (int k = 0; k < i; k++) said += line->s.picks[k].factor == line->s.picks[i].factor;
    for (int k = 0; k < at; k++) {
      int axis = axis_said(x, mesh, s->picks[k].axis, -1);
      said -= s->picks[k].factor == s->picks[at].factor && factor_of(&line->s, axis) == s->picks[k].factor;
    }
    if (said) return false;
  }
  return true;
}

bool said_holds(const PlanSaid *x, size_t op, const Mesh *mesh, const int *degrees, const Strategy *s) {
  const SaidStrategy *line = x->strategies[op];
  if (!line) return true;
  for (int i = 0; i < mesh->naxes; i++) {
    int said = said_factor(x, op, mesh, i, degrees[i]), has = factor_of(s, i);
    if (said != SAID_OPEN && said != has) return false;
    if (mesh->axes[i].temporal && said == SAID_OPEN && has != SAID_NONE && s->picks[0].axis != i) return false;
  }
  return x->has_mesh ? in_order(x, line, mesh, s) : has_degrees(line, mesh, degrees);
}

/* ---- layouts */

/* Returns the dimension of the tensor that has the factor; -1 if none. */
static int dim_of_factor(const TensorFactors *t, int factor) {
  for (int d = 0; d < t->rank; d++)
    for (int i = 0; i < t->dims[d].n; i++)
      if (t->dims[d].f[i] == factor) return d;
  return -1;
}

/* True if the factor is a minor part of a dimension, which parts of the dimension do not split (driver/annotated.c). */
static bool is_minor(const TensorFactors *t, int factor) {
  for (int d = 0; d < t->rank; d++)
    for (int i = 1; i < t->dims[d].n; i++)
      if (t->dims[d].f[i] == factor) return true;
  return false;
}

/* Returns the dimension that the axis splits; -1 if none. */
static int dim_of_axis(const Layout *l, int axis) {
  for (int d = 0; d < l->rank; d++)
    for (int i = 0; i < l->dims[d].n; i++)
      if (l->dims[d].axes[i] == axis) return d;
  return -1;
}

int said_layouts_pick(const PlanSaid *x, size_t op, const Mesh *mesh, int axis, int factor) {
  int answer = SAID_OPEN;
  if (!said_has_layouts(x, op) || mesh->axes[axis].temporal) return answer;
  for (size_t i = 0; i < x->layouts[op].n; i++) {
    const SaidLayout *l = &x->layouts[op].items[i];
    const int needed = dim_of_axis(&l->layout, axis_said(x, mesh, axis, -1));
    if (needed != dim_of_factor(&l->factors, factor) || is_minor(&l->factors, factor)) return 0;
    if (needed >= 0) answer = 1;
  }
  return answer;
}

/* True if the places of the dimension are split over these axes, major to minor. */
static bool is_split_so(const PlanSaid *x, const Mesh *mesh, const DimFactors *factors, const DimLayout *said,
                        const Strategy *s) {
  int n = 0;
  for (int i = 0; i < factors->n; i++)
    for (int k = 0; k < s->n; k++) {
      if (s->picks[k].factor != factors->f[i] || mesh->axes[s->picks[k].axis].temporal) continue;
      if (n == said->n || said->axes[n] != axis_said(x, mesh, s->picks[k].axis, -1)) return false;
      n++;
    }
  return n == said->n;
}

bool said_layouts_hold(const PlanSaid *x, size_t op, const Mesh *mesh, const Strategy *s) {
  if (!said_has_layouts(x, op)) return true;
  for (size_t i = 0; i < x->layouts[op].n; i++) {
    const SaidLayout *l = &x->layouts[op].items[i];
    for (int d = 0; d < l->layout.rank; d++)
      if (!is_split_so(x, mesh, &l->factors.dims[d], &l->layout.dims[d], s)) return false;
  }
  return true;
}

uint64_t said_layouts_mark(const PlanSaid *x, size_t op) {
  uint64_t mark = 0;
  if (!said_has_layouts(x, op)) return mark;
  for (size_t i = 0; i < x->layouts[op].n; i++) {
    const SaidLayout *l = &x->layouts[op].items[i];
    mark = hash64(&l->tensor, sizeof l->tensor, mark + 1);
    for (int d = 0; d < l->layout.rank; d++)
      mark = hash64(l->layout.dims[d].axes, (size_t)l->layout.dims[d].n, mark + 1);
  }
  return mark;
}
