/* passes/search/unfit.c - why there is no plan; see outer.h. */
#include "base/amount.h"
#include "ir/states.h"
#include "passes/facts/same_weight.h"
#include "passes/search/outer.h"

double resident_bytes(const CostModel *c, Module *m, const Func *f) {
  double sum = 0;
  Arena *scratch = arena_new();
  SameWeight same = weight_readers(scratch, f);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (op_is_resident(op->kind) && same.first[i] == i && !state_is_away(m, op))
      sum += cost_bytes(c, type_of(f, op->out), layout_replicated(m, type_of(f, op->out)->rank));
  }
  arena_free(scratch);
  return sum;
}

/* "78.8 GB are allowed on a rank (80 GB less 1.2 GB reserved)" */
static const char *allowed_text(const Search *s) {
  const Target *t = s->t;
  const char *why = s->limit == target_usable(t) && t->reserve_bytes > 0
                        ? arena_printf(s->arena, " (%s less %s reserved)", show_bytes(s->arena, t->memory_bytes),
                                       show_bytes(s->arena, t->reserve_bytes))
                        : "";
  return arena_printf(s->arena, "%s are allowed on a rank%s", show_bytes(s->arena, s->limit), why);
}

/* Whole weights and state do not fit, however they are split. */
static const char *too_large(const Search *s) {
  double all = s->limit * s->t->ranks;
  const char *among =
      s->t->ranks == 1 || s->resident <= all
          ? ""
          : arena_printf(s->arena, "; even split over %d ranks they are %s too much in all, %s per rank", s->t->ranks,
                         show_bytes(s->arena, s->resident - all),
                         show_bytes(s->arena, (s->resident - all) / s->t->ranks));
  const char *alone =
      s->t->ranks > 1 ? "" : arena_printf(s->arena, ": %s too much", show_bytes(s->arena, s->resident - s->limit));
  return arena_printf(s->arena, "%s; weights and state are %s%s%s", allowed_text(s), show_bytes(s->arena, s->resident),
                      alone, among);
}

const char *too_much(const Search *s, const PlanMemory *m) {
  double scale = m->total > 0 ? m->needs / m->total : 1; /* a rank may have less than others (passes/cost/ranks.h) */
  if (scale > 1)
    return arena_printf(s->arena, "needs %s on a rank with less memory than others, %s too much; %s are allowed there",
                        show_bytes(s->arena, m->total), show_bytes(s->arena, m->total - s->limit / scale),
                        show_bytes(s->arena, s->limit / scale));
  return arena_printf(s->arena, "needs %s on a rank, %s too much; %s", show_bytes(s->arena, m->total),
                      show_bytes(s->arena, m->needs - s->limit), allowed_text(s));
}

/* ---- micro-batches */

static const char *op_text(const Search *s, const Op *op) {
  return arena_printf(s->arena, "%s \"%s\"", op_name(op->kind), op->name);
}

/* Lists the operations that need a whole value at once: the first ones, in the forward pass if there are some. */
static const char *gaps_text(const Search *s, const PlanPrice *p) {
  Text t = {.arena = s->arena};
  for (int i = 0; i < p->ngaps; i++) {
    const Op *user = p->gaps[i].user < s->f->ops.n ? &s->f->ops.items[p->gaps[i].user] : NULL;
    if (i > 0 && (p->gaps[i].user == p->gaps[i - 1].user || !user || op_makes_gradients(user))) continue;
    text_printf(&t, "%s%s needs all of %s at once", i ? ", " : "", user ? op_text(s, user) : "an output",
                op_text(s, op_of(s->f, p->gaps[i].value)));
  }
  return text_str(&t);
}

/* Returns which operations need all micro-batches at once, if every operation is split by time where possible and by
 * nothing else; NULL if none.  Of several it names the first; gradients come later.  The mesh has an axis of time. */
static const char *needs_whole(const Search *s) {
  Strategy *timed = ARENA_ARRAY(s->arena, Strategy, s->f->ops.n + 1);
  int *stages = ARENA_ARRAY(s->arena, int, s->f->ops.n + 1);
  size_t n = s->f->ops.n, adds = n;
  for (size_t i = 0; i < n; i++) {
    const Op *op = &s->f->ops.items[i];
    int factor = s->shape->time_factor[i];
    if (factor == TIME_IMPOSSIBLE && adds == n) adds = i;
    if (factor >= 0 && !op_is_source(op->kind)) timed[i] = (Strategy){.n = 1, .picks = {{0, (uint8_t)factor}}};
  }
  PlanPrice p = cost_plan(s->cost, s->m, s->f, s->rules, timed, stages);
  if (adds < n && !(p.ngaps && p.gaps[0].user < adds))
    return arena_printf(s->arena, "%s adds up rows of different micro-batches", op_text(s, &s->f->ops.items[adds]));
  return p.ngaps ? gaps_text(s, &p) : NULL;
}

const char *search_one_batch(Search *s) {
  search_set_mesh(s, &(Candidate){.stages = 1, .micro = 2, .least = 2}, NULL);
  return needs_whole(s);
}

void search_no_choice(const Search *s, Outcome *o) {
  const char *what = o->c.micro > 1 ? needs_whole(s) : NULL;
  bool fits = s->resident <= s->limit;
  o->joined = fits && o->c.micro > 1;
  o->why_not = !fits       ? too_large(s)
               : o->joined ? arena_printf(s->arena, "the results of %d micro-batches would have to be joined%s%s",
                                          o->c.micro, what ? ": " : "", what ? what : "")
                           : "no choice of layouts satisfies all that is forced";
}

/* ---- the message */

typedef struct Large {
  Val value;
  double bytes;
} Large;

enum { LARGEST = 4 };

/* Finds the largest tensors, unsplit; equal ones of repeated layers count once. */
static int find_largest(const Search *s, Large out[LARGEST]) {
  int n = 0;
  for (Val v = 1; v < s->f->values.n; v++) {
    const Type *type = type_of(s->f, v);
    OpKind kind = op_of(s->f, v)->kind;
    Large x = {v, cost_bytes(s->cost, type, layout_replicated(s->m, type->rank))};
    bool known = op_is_view(kind) || op_is_anywhere(op_of(s->f, v));
    for (int i = 0; i < n; i++)
      known |=
          type_of(s->f, out[i].value) == type && (op_of(s->f, out[i].value)->kind == OP_param) == (kind == OP_param);
    int at = n;
    while (at > 0 && out[at - 1].bytes < x.bytes) at--;
    if (known || at == LARGEST) continue;
    if (n < LARGEST) n++;
    for (int i = n - 1; i > at; i--) out[i] = out[i - 1];
    out[at] = x;
  }
  return n;
}

static void note_largest(const Search *s, Diags *d) {
  Large largest[LARGEST];
  int n = find_largest(s, largest);
  Text t = {.arena = s->arena};
  for (int i = 0; i < n; i++) {
    const Op *op = op_of(s->f, largest[i].value);
    const char *kind = op->kind == OP_param ? "weight" : op->kind == OP_read ? "state" : op_name(op->kind);
    text_printf(&t, "%s%s \"%s\" ", i ? ", " : "", kind, op->name);
    type_print(s->m, &t, type_of(s->f, largest[i].value));
    text_printf(&t, " %s", show_bytes(s->arena, largest[i].bytes));
  }
  if (n) diag_note(d, (Loc){0}, "the largest tensors: %s", text_str(&t));
}

static void note_parts(const Search *s, const PlanMemory *m, Diags *d) {
  MemoryShare shares[MEMORY_SHARES];
  Text t = {.arena = s->arena};
  int n = cost_memory_shares(m, shares);
  for (int i = 0; i < n; i++)
    text_printf(&t, "%s%s %s", i ? ", " : "", shares[i].name, show_bytes(s->arena, shares[i].bytes));
  diag_note(d, (Loc){0}, "on that rank: %s", text_str(&t));
}

const Outcome *search_nearest_outcome(const SearchRun *run) {
  const Outcome *nearest = NULL;
  for (size_t i = 0; i < run->outcomes.n; i++) {
    const Outcome *o = run->outcomes.items[i];
    bool less = !nearest || (o->price.memory.needs > 0 &&
                             (nearest->price.memory.needs == 0 || o->price.memory.needs < nearest->price.memory.needs));
    if (less && !o->c.loose) nearest = o;
  }
  return nearest;
}

Plan *refuse(const Search *s, Diags *d) {
  const Outcome *nearest = search_nearest_outcome(&s->run);
  const char *why = nearest && nearest->why_not ? nearest->why_not
                    : s->said && s->said->file  ? "no mesh satisfies the plan file"
                    : s->said                   ? "no mesh satisfies what is given"
                                                : "the forced degrees do not fit its ranks";
  bool large = nearest && nearest->price.memory.needs > s->limit, weights = s->resident > s->limit;
  diag_error(d, DIAG_plan_infeasible, (Loc){0},
             s->run.gave_up ? "no plan was found for %s: %s" : "no feasible plan for %s: %s", s->t->name, why);
  if (s->run.gave_up) diag_help(d, "not all candidates were tried; --effort SECONDS searches until it finds a plan");
  if (nearest && nearest->joined)
    diag_help(d,
              "--micro-batches 1 avoids the join; bound sizes (--dim, --shape) may show that rows of "
              "several inputs belong together");
  if (nearest && nearest->joined && func_has_gradients(s->f))
    diag_help(d,
              "a loss that compares rows of a batch has other values in micro-batches; --recompute, "
              "--zero and more ranks save memory without them");
  if (large) note_parts(s, &nearest->price.memory, d);
  if (large || weights) note_largest(s, d);
  if ((large || weights) && s->lack) *s->lack = (PlanLack){s->resident, large ? nearest->price.memory.needs : 0, 0};
  return NULL;
}

Plan *refuse_size(const Search *s, Diags *d) {
  diag_error(d, DIAG_plan_infeasible, (Loc){0}, "no feasible plan for %s: %s", s->t->name, too_large(s));
  note_largest(s, d);
  if (s->lack) *s->lack = (PlanLack){s->resident, 0, INFINITY};
  return NULL;
}
