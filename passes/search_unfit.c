/* passes/search_unfit.c - why there is no plan; see search_outer.h. */
#include "passes/same_weight.h"
#include "passes/search_outer.h"

const char *bytes_text(Arena *a, double bytes) {
  static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
  int u = 0;
  while (u < 4 && bytes >= 999.5) bytes /= 1000, u++;
  return arena_printf(a, "%.3g %s", bytes, units[u]);
}

double resident_bytes(const CostModel *c, Module *m, const Func *f) {
  double sum = 0;
  Arena *scratch = arena_new();
  SameWeight same = same_weight(scratch, f);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if ((op->kind == OP_param && same.first[i] == i) || op->kind == OP_read) sum += cost_bytes(c, type_of(f, op->out), layout_replicated(m, type_of(f, op->out)->rank));
  }
  arena_free(scratch);
  return sum;
}

static const char *too_large(const Search *s) {
  const char *among = s->t->ranks > 1 ? arena_printf(s->arena, ", and need more than that even cut among %d ranks", s->t->ranks) : "";
  return arena_printf(s->arena, "%s are allowed on a rank; weights and state are %s%s", bytes_text(s->arena, s->limit),
                      bytes_text(s->arena, s->resident), among);
}

/* Why no choice of strategies is possible: some conversion does not exist, or, where whole weights do not fit, the memory limit. */
const char *no_choice(const Search *s, const Candidate *c) {
  if (s->resident > s->limit) return too_large(s);
  return arena_printf(s->arena, "what %d micro-batches compute would have to be joined again", c->micro);
}

Plan *refuse(const Search *s, Diags *d) {
  const Outcome *nearest = NULL;
  for (int i = 0; i < s->noutcomes; i++) {
    const Outcome *o = &s->outcomes[i];
    if (!nearest || (o->price.memory.total > 0 && (nearest->price.memory.total == 0 || o->price.memory.total < nearest->price.memory.total))) nearest = o;
  }
  diag_error(d, DIAG_plan_infeasible, (Loc){0}, "no feasible plan for %s: %s", s->t->name, nearest && nearest->why_not ? nearest->why_not : "the forced degrees do not fit its ranks");
  return NULL;
}

Plan *refuse_size(const Search *s, Diags *d) {
  diag_error(d, DIAG_plan_infeasible, (Loc){0}, "no feasible plan for %s: %s", s->t->name, too_large(s));
  return NULL;
}
