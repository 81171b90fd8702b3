/* passes/search/candidates.c - the ways to divide the ranks into stages, micro-batches and axes; see outer.h.
 *
 * Free axes cover everything that degrees can force, because they may split anything; the exception is four degrees at
 * once, whose axes may split only what their degrees say.  The numbers of micro-batches of a pipeline form one
 * candidate, which is divided if its bound does not settle it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/schedule.h"
#include "passes/facts/derived.h"
#include "passes/search/domain.h"
#include "passes/facts/home.h"
#include "passes/search/outer.h"
#include "passes/plan/stage.h"
#include "program/program.h"

/* ---- bounds without solving a graph */

/* Returns the degrees whose labels some factor of the operation has, as a bit set. */
static unsigned degrees_in(const Search *s, size_t op) {
  unsigned found = 0;
  for (int d = DEGREE_FIRST_AXIS; d < DEGREE_COUNT; d++)
    if (labels_include(&s->labels[op], s->rules[op], degree_labels[d])) found |= 1u << d;
  return found;
}

static size_t part_of(size_t *part, size_t i) {
  while (part[i] != i) i = part[i] = part[part[i]];
  return i;
}

/* Counts the parts of the model between which no value passes, among operations with one stage (stages_is_placed). */
static int count_parts(const Search *s) {
  Arena *scratch = arena_new();
  const Func *f = s->f;
  const bool *derived = derived_ops(scratch, f);
  size_t *part = ARENA_ARRAY(scratch, size_t, f->ops.n);
  int n = 0;
  for (size_t i = 0; i < f->ops.n; i++) part[i] = i;
  for (size_t i = 0; i < f->ops.n; i++) {
    if (!stages_is_placed(f, derived, i)) continue;
    n++;
    for (int k = 0; k < f->ops.items[i].nin; k++) {
      size_t made = (size_t)f->values.items[f->ops.items[i].in[k]].op;
      if (!stages_is_placed(f, derived, made) || part_of(part, made) == part_of(part, i)) continue;
      part[part_of(part, made)] = part_of(part, i);
      n--;
    }
  }
  arena_free(scratch);
  return n;
}

/* Returns the least costs of an operation of each class; `runs` is 0. */
static const LeastWork *least_by_class(const Search *s, Arena *a) {
  const Shape *shape = s->shape;
  LeastWork *by_class = ARENA_ARRAY(a, LeastWork, shape->nclasses);
  for (int k = 0; k < shape->nclasses; k++) {
    size_t i = shape->first[k];
    by_class[k] = (LeastWork){.each = cost_op_least(s->cost, s->f, &s->f->ops.items[i], s->rules[i]),
                              .degrees = degrees_in(s, i),
                              .before = shape->before[i]};
  }
  return by_class;
}

/* The least work of the chosen operations; NULL: of all.  Forms of weights are not chosen: they may be kept instead of
 * being gathered again. */
static LeastList least_work(const Search *s, const LeastWork *by_class, const bool *chosen) {
  const Shape *shape = s->shape;
  LeastList list = {0};
  Arena *scratch = arena_new();
  double *runs = ARENA_ARRAY(scratch, double, shape->nclasses + 1);
  for (size_t i = 0; i < s->f->ops.n; i++)
    if (shape->class[i] >= 0 && (!chosen || (chosen[i] && !shape->form[i])))
      runs[shape->class[i]] += runs_of_op(shape->loops, i);
  for (int k = 0; k < shape->nclasses; k++) {
    LeastWork w = by_class[k];
    w.runs = runs[k];
    if (w.runs > 0 && (w.each.launch > 0 || w.each.memory > 0 || w.each.arithmetic > 0)) ARENA_PUSH(s->arena, &list, w);
  }
  arena_free(scratch);
  return list;
}

double search_bytes_made(const Search *s, const Op *op) {
  double sum = 0;
  for (int k = 0; k < op->nout && op->out; k++) {
    const Type *t = type_of(s->f, op->out + (Val)k);
    sum += cost_bytes(s->cost, t, layout_replicated(s->m, t->rank));
  }
  return sum;
}

static bool is_in_rows(const Search *s, const Op *op) {
  return cost_in_kernel(op->kind) || cost_part(s->cost, s->f, op)->kind == PART_ROWS;
}

/* True if one kernel makes the operand and reads it. */
static bool in_its_kernel(const Search *s, const Op *op, int operand) {
  const KernelPart *part = cost_part(s->cost, s->f, op);
  return part->kind == PART_ROWS && part->inside >> operand & 1;
}

/* By operation: the last read of its results, as far as is certain: operations of a kernel may run early.  A recomputed
 * operation is last read by the first gradient, and its operands are read again there, from memory if they are not
 * recomputed.  The kernels that read a copied operation compute it, and read what it is computed from.  `apart`: no
 * kernel of the forward pass computes gradients, because a pipeline runs other micro-batches between them. */
static size_t *last_reads(const Search *s, Arena *a, const bool *derived, const bool *again, bool apart) {
  const Func *f = s->f;
  Arena *scratch = arena_new();
  size_t *last = ARENA_ARRAY(a, size_t, f->ops.n + 1), *first = ARENA_ARRAY(scratch, size_t, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++) last[i] = i, first[i] = SIZE_MAX;
  for (size_t i = f->ops.n; i-- > 0;) {
    const Op *op = &f->ops.items[i];
    const KernelPart *part = cost_part(s->cost, f, op);
    size_t at = phase_backward(op->phase) ? i : again[i] ? first[i] : SIZE_MAX;
    for (int k = 0; k < op->nin && !derived[i]; k++) {
      size_t made = (size_t)f->values.items[op->in[k]].op, read = again[made] || at == SIZE_MAX ? i : at;
      bool inside = in_its_kernel(s, op, k) || (cost_in_kernel(op->kind) && cost_in_kernel(f->ops.items[made].kind)),
           copied = part->copied && part->from == k && last[i] > i;
      if (again[i] && !again[made]) inside = false;
      if (apart && phase_backward(op->phase) && !phase_backward(f->ops.items[made].phase)) inside = false;
      if (copied) inside = false, read = last[i] > read ? last[i] : read;
      if (read > last[made] && !inside && (!again[made] || op->phase == PH_fwd)) last[made] = read;
      if (at < first[made]) first[made] = at;
    }
  }
  arena_free(scratch);
  return last;
}

/* By operation: it depends on inputs, not on weights alone. */
static const bool *find_data(Arena *a, const Func *f) {
  bool *data = ARENA_ARRAY(a, bool, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    data[i] = op->kind == OP_input;
    for (int k = 0; k < op->nin; k++) data[i] |= data[f->values.items[op->in[k]].op];
  }
  return data;
}

/* By operation of the forward pass: gradients, or operations recomputed for them, read its result, perhaps as a view.
 */
static const bool *find_saved(const Search *s, Arena *scratch, const bool *derived, const bool *again) {
  const Func *f = s->f;
  const bool *data = find_data(scratch, f);
  bool *needed = ARENA_ARRAY(s->arena, bool, f->ops.n + 1);
  for (size_t i = f->ops.n; i-- > 0;) {
    const Op *op = &f->ops.items[i];
    bool passes = phase_backward(op->phase) || (needed[i] && (again[i] || op_is_view(op->kind)));
    for (int k = 0; k < op->nin && passes; k++) needed[f->values.items[op->in[k]].op] = true;
    needed[i] &= op->phase == PH_fwd && !again[i] && !derived[i] && data[i];
    needed[i] &= !op_is_view(op->kind) && !op_is_source(op->kind);
  }
  return needed;
}

/* By operation: its result is a new state, which may overwrite the old one. */
static const bool *find_written(const Search *s, Arena *scratch) {
  const Func *f = s->f;
  bool *written = ARENA_ARRAY(scratch, bool, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == OP_write) written[f->values.items[f->ops.items[i].in[0]].op] = true;
  return written;
}

/* Lower bound of live bytes, as in a price (passes/cost/held.h): accumulated values may share memory with their parts;
 * views and repeated values may take no memory of their own. */
static void measure_live(const Search *s, Policy *p) {
  const Func *f = s->f;
  Arena *scratch = arena_new();
  const bool *derived = derived_ops(scratch, f);
  size_t *last = last_reads(s, s->arena, derived, p->again, false);
  size_t *apart = last_reads(s, s->arena, derived, p->again, true);
  p->last = last, p->last_apart = apart;
  p->saved = find_saved(s, scratch, derived, p->again);
  const bool *written = find_written(s, scratch);
  p->each = ARENA_ARRAY(s->arena, double, f->ops.n + 2), p->once = ARENA_ARRAY(s->arena, double, f->ops.n + 2);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    bool none = op_is_source(op->kind) || op_is_view(op->kind) || derived[i] || op->kind == OP_accumulate || written[i];
    if (none || (is_in_rows(s, op) && apart[i] == i)) apart[i] = SIZE_MAX;
    if (none || (is_in_rows(s, op) && last[i] == i)) {
      last[i] = SIZE_MAX;
      continue;
    }
    double *live = phase_each(op->phase) ? p->each : p->once, bytes = search_bytes_made(s, op);
    live[i] += bytes, live[last[i] + 1] -= bytes;
  }
  for (size_t i = 1; i < f->ops.n; i++) p->each[i] += p->each[i - 1], p->once[i] += p->once[i - 1];
  arena_free(scratch);
}

/* By layer: the operations recomputed with that many layers, and not with one less.  With no layers these are
 * `before`. */
static LeastLayer *measure_layers(Search *s, const LeastWork *by_class, RecomputeKind kind, const bool *before) {
  const Func *f = s->f;
  Arena *scratch = arena_new();
  bool *more = ARENA_ARRAY(scratch, bool, f->ops.n + 1);
  LeastLayer *layers = ARENA_ARRAY(s->arena, LeastLayer, s->nlayers + 1);
  for (int k = 0; k < s->nlayers; k++) {
    const bool *again = recompute_ops(scratch, s->again, (Recompute){kind, k + 1});
    for (size_t i = 0; i < f->ops.n; i++) more[i] = again[i] && !before[i];
    layers[k].least = least_work(s, by_class, more);
    before = again;
  }
  arena_free(scratch);
  return layers;
}

void measure_least(Search *s) {
  s->all_each = true;
  for (size_t i = 0; i < s->f->ops.n; i++) s->all_each &= !s->shape->before[i] || s->shape->class[i] < 0;
  Arena *scratch = arena_new();
  const LeastWork *by_class = least_by_class(s, scratch);
  s->parts = count_parts(s);
  s->least = least_work(s, by_class, NULL);
  for (int i = 0; i < s->npolicies; i++) {
    Policy *p = &s->policies[i];
    measure_live(s, p);
    p->least = least_work(s, by_class, p->again);
  }
  if (s->nlayers) {
    s->some_layers = measure_layers(s, by_class, RECOMPUTE_layers, s->policies[0].again);
    s->whole_layers = measure_layers(s, by_class, RECOMPUTE_full_layers, s->policies[1].again);
    search_measure_kept(s);
  }
  arena_free(scratch);
}

/* Marks the numbers of parts for which the largest part of n is smaller than with one part less. */
static void mark_useful(bool *useful, int most, int64_t n) {
  for (int64_t m = 2; m <= most; m++)
    if ((n + m - 1) / m < (n + m - 2) / (m - 1)) useful[m] = true;
}

/* True if there is always a number that splits everything evenly, up to twice the one before. */
static bool are_dense(const bool *even, int most) {
  for (int m = 2, last = 1; m <= most; m++) {
    if (even[m]) last = m;
    if (m >= 2 * last && m > last) return false;
  }
  return true;
}

/* The largest part of a micro-batch determines its time, and a rank's share of it is the largest of micro-batches times
 * ranks parts, which falls only if that part does.  More micro-batches of the same largest size are neither faster nor
 * need less memory.  A large search only tries numbers that split every batch evenly, if there are enough. */
void find_useful_micro_batches(Search *s) {
  bool *even = ARENA_ARRAY(s->arena, bool, s->most_micro + 2);
  s->useful = ARENA_ARRAY(s->arena, bool, s->most_micro + 2);
  for (int m = 0; m < 2; m++) s->useful[m] = true;
  for (int m = 1; m <= s->most_micro; m++) even[m] = true;
  for (size_t i = 0; i < s->f->ops.n; i++) {
    int k = s->shape->time_factor[i];
    if (k < 0 || !s->rules[i]->factors[k].size || op_is_source(s->f->ops.items[i].kind)) continue;
    if (s->shape->class[i] >= 0 && s->shape->first[s->shape->class[i]] != i) continue;
    const int64_t n = cost_extent(s->cost, s->rules[i]->factors[k].size);
    mark_useful(s->useful, s->most_micro, n);
    for (int m = 2; m <= s->most_micro; m++) even[m] &= n % m == 0;
  }
  if (!s->large || !are_dense(even, s->most_micro)) return;
  for (int m = 2; m <= s->most_micro; m++) s->useful[m] &= even[m];
}

/* Interleaved schedules need a multiple of the number of stages. */
bool search_is_useful(const Search *s, int stages, int micro) {
  return s->useful[micro] || (s->schedule.chunks > 1 && micro % stages == 0);
}

int search_divisor(const Search *s, const Candidate *c) {
  int d = c->least;
  for (int m = c->least; m <= c->micro && d > 1; m++)
    if (m == c->micro || search_is_useful(s, c->stages, m)) d = (int)ex_common_divisor(d, m);
  return d;
}

int useful_from(const Search *s, int stages, int micro) {
  while (micro < s->most_micro && !search_is_useful(s, stages, micro)) micro++;
  return micro;
}

int useful_up_to(const Search *s, int stages, int micro) {
  while (micro > 1 && !search_is_useful(s, stages, micro)) micro--;
  return micro;
}

int most_stages(const Search *s) {
  if (func_binds(s->f)) return 1;
  Arena *scratch = arena_new();
  const bool *derived = derived_ops(scratch, s->f);
  const size_t *home = homes_of(scratch, s->f, derived);
  int n = 0;
  for (size_t i = 0; i < s->f->ops.n; i++) n += stages_is_placed(s->f, derived, i) && (!home || home[i] == i);
  arena_free(scratch);
  return n > 1 ? n : 1;
}

bool search_looks_up_rows(const Module *m) {
  for (size_t i = 0; i < m->funcs.n; i++) {
    const Func *f = m->funcs.items[i];
    for (size_t k = 0; k < f->ops.n; k++) {
      const Op *op = &f->ops.items[k];
      if (op->kind != OP_gather || op_int(op, AT_axis, 0) != 0) continue;
      const Op *from = op_of(f, op->in[0]);
      bool updated = from->kind == OP_update;
      while (from->kind == OP_update) from = op_of(f, from->in[0]);
      if (updated && from->kind == OP_read) return true;
    }
  }
  return false;
}

int most_micro_batches(Search *s) {
  if (func_binds(s->f) || search_looks_up_rows(s->m)) return 1;
  int64_t most = PROGRAM_MAX_MICRO_BATCHES;
  bool some = false;
  search_set_mesh(s, &(Candidate){.stages = 1, .micro = 2, .least = 2}, NULL);
  for (size_t i = 0; i < s->f->ops.n; i++) {
    int k = s->shape->time_factor[i];
    if (k == TIME_IMPOSSIBLE) most = 1;
    if (k < 0 || !s->rules[i]->factors[k].size || op_is_source(s->f->ops.items[i].kind)) continue;
    int64_t n = cost_extent(s->cost, s->rules[i]->factors[k].size);
    if (n < most) most = n;
    some = true;
  }
  search_set_mesh(s, &(Candidate){.stages = 1, .micro = 1, .least = 1}, NULL);
  return some && most > 1 ? (int)most : 1;
}

/* If a schedule may fill the bubbles of a pipeline, the bound only counts that every stage does its part. */
double repeat_of(const Candidate *c) {
  if (c->no_gaps) return (double)c->least / c->stages;
  return c->stages == 1 ? c->least : 1 + (double)(c->least - 1) / c->stages;
}

double search_share_of_micro_batch(const Candidate *c) {
  return 1. / c->stages + (c->no_gaps ? 0 : (1 - 1. / c->stages) / c->micro);
}

static bool may_split(const Candidate *c, int axis, unsigned degrees) {
  int d = c->degree[axis];
  return d < 0 || degrees >> d & 1u || (d == DEGREE_ep && degrees >> DEGREE_dp & 1u);
}

/* The largest weight of an entry of a joint function, or 1; the entry has no more parts than all together. */
static double most_weight(const Func *f) {
  double most = f->joint ? 0 : 1;
  for (int e = 0; f->joint && e < f->joint->n; e++) most = fmax(most, f->joint->entries[e].weight);
  return most;
}

/* The least seconds of messages: that many stages of a connected model receive something. */
static double ideal_transfers(const Search *s, const Candidate *c, double inner) {
  double span = fmin(2 * inner, s->t->ranks);
  if (c->stages <= s->parts) return 0;
  return most_weight(s->f) * (c->stages - s->parts) * cost_send_least(s->t, (int)span, 0) * (1 - s->t->hidden);
}

/* Every operation is split among all ranks of a stage, its arithmetic among those that may split it.  With m
 * micro-batches on S stages everything counts 1 + (m - 1) / S times: launches as often; the rest, of which a
 * micro-batch has at least 1 / m, as in bound_mesh; but work that may run before all micro-batches at least 1 / S
 * times. */
double least_seconds(const Candidate *c, const LeastList *least) {
  double sum = 0, ranks = 1, parts[1u << DEGREE_COUNT], share = c->stages == 1 ? 1 : search_share_of_micro_batch(c),
         repeat = repeat_of(c);
  for (int i = 0; i < c->naxes; i++) ranks *= c->sizes[i];
  for (unsigned k = 0; k < 1u << DEGREE_COUNT; k++) {
    parts[k] = 1;
    for (int i = 0; i < c->naxes; i++) parts[k] *= may_split(c, i, k) ? c->sizes[i] : 1;
  }
  for (size_t i = 0; i < least->n; i++) {
    const LeastWork *w = &least->items[i];
    double work = fmax(w->each.arithmetic / parts[w->degrees], w->each.memory / ranks);
    bool before = w->before && c->micro > 1;
    sum += w->runs * (before ? (w->each.launch + work) / c->stages : w->each.launch * repeat + work * share);
  }
  return sum;
}

/* With m micro-batches on S stages that take T together for each, m T / S is the bound, and a batch takes at least (S +
 * m - 1) T / S: the first micro-batch goes through all stages, the others follow it through the slowest. */
double search_most_in_time(const Search *s, const Candidate *c) {
  double micro = c->micro, longer = s->steady && s->all_each ? (c->stages + micro - 1) / micro : 1;
  return s->most_seconds / longer;
}

double search_bound_in_time(const Search *s, const Candidate *c, double bound) {
  return bound > search_most_in_time(s, c) * (1 + 1e-9) ? INFINITY : bound;
}

/* The least time of one batch, from its beginning to its end. */
static double ideal_latency(const Search *s, const Candidate *c) {
  Candidate alone = *c;
  alone.no_gaps &= !s->steady;
  return least_seconds(&alone, &s->least) + ideal_transfers(s, c, s->t->ranks / c->stages);
}

/* The only communication is a message to every connected stage; in a pipeline that is kept full the stages receive
 * theirs at the same time, one per micro-batch.  INFINITY: a batch takes too long. */
double ideal_seconds(const Search *s, const Candidate *c) {
  double ranks = s->t->ranks / c->stages, part = c->stages > 1 ? s->fastest : 1,
         times = s->steady && c->no_gaps ? repeat_of(c) : 1;
  if (isfinite(s->most_seconds) && ideal_latency(s, c) > s->most_seconds) return INFINITY;
  return part * least_seconds(c, &s->least) + times * ideal_transfers(s, c, ranks);
}

static bool same_mesh(const Candidate *a, const Candidate *b) {
  return a->stages == b->stages && a->naxes == b->naxes && a->shares == b->shares &&
         memcmp(a->sizes, b->sizes, sizeof *a->sizes * (size_t)a->naxes) == 0;
}

/* The bound from the search without forced degrees, which has tried only useful numbers of micro-batches.  Without
 * stages other numbers are not faster. */
static double known_bound(const Search *s, const Candidate *c) {
  if (!s->run.known || c->naxes > MAX_SPATIAL || (search_fills(s, c) && !s->run.known->all_schedules)) return 0;
  double bound = s->run.known->seconds;
  for (size_t i = 0; i < s->run.known->open.n; i++) {
    const Bounded *x = &s->run.known->open.items[i];
    bool among = c->stages == 1 || (useful_up_to(s, c->stages, c->least) <= x->c.micro && x->c.micro <= c->micro);
    if (among && same_mesh(&x->c, c) && x->c.no_gaps == c->no_gaps) bound = fmin(bound, x->bound);
  }
  return bound;
}

/* ---- enumeration */

Candidate candidate_of(const Search *s, int stages, int least, int micro) {
  return (Candidate){.stages = stages,
                     .least = least,
                     .micro = micro,
                     .bounded = MAX_AXES + 1,
                     .no_gaps = stages > 1 && (s->steady || (s->no_gaps && least > 1)),
                     .schedule = s->schedule};
}

static bool one_tier(const Search *s) { return s->t->ntiers == 1 && !s->t->nkinds; }

/* True if links allow axis i and the next one to be exchanged. */
static bool axes_exchange(const Search *s, const Candidate *c, int i) {
  int stride = 1;
  for (int k = i + 2; k < c->naxes; k++) stride *= c->sizes[k];
  return !s->t->nkinds && cost_axes_exchange(s->t, stride, c->sizes[i], c->sizes[i + 1]);
}

int search_axes_in_any_order(const Search *s, const Candidate *c) {
  int n = c->naxes > 0;
  while (n < c->naxes && axes_exchange(s, c, n - 1)) n++;
  return n > 1 ? n : 0;
}

static void swap_axes(Candidate *c, int i, int j) {
  int size = c->sizes[j], degree = c->degree[j];
  c->sizes[j] = c->sizes[i], c->degree[j] = c->degree[i];
  c->sizes[i] = size, c->degree[i] = degree;
}

static int compare_axes(const Candidate *c, int i, int j) {
  return c->sizes[i] != c->sizes[j] ? c->sizes[i] - c->sizes[j] : c->degree[i] - c->degree[j];
}

/* Puts larger axes first if links make no difference; equal ones keep their order. */
static void sort_axes(const Search *s, Candidate *c) {
  for (int i = 1; i < c->naxes; i++)
    for (int j = i; j > 0 && c->sizes[j - 1] < c->sizes[j] && axes_exchange(s, c, j - 1); j--) swap_axes(c, j - 1, j);
}

/* True if the axes from number `axis` on, with those before, can reach the wanted degrees.  Remaining axes may be of
 * any kind. */
static bool may_amount_to(const Search *s, const Candidate *c, int axis, const int found[DEGREE_COUNT]) {
  bool all = true, free = false;
  for (int d = DEGREE_FIRST_AXIS; d < DEGREE_COUNT; d++) {
    all &= !s->run.within[d] || s->run.within[d] == found[d];
    free |= !s->run.within[d];
  }
  if (axis == c->naxes) return all;
  for (int d = DEGREE_FIRST_AXIS; d < DEGREE_COUNT; d++) {
    int more[DEGREE_COUNT];
    memcpy(more, found, sizeof more);
    more[d] *= c->sizes[axis];
    if (s->run.within[d] && s->run.within[d] % more[d] == 0 && may_amount_to(s, c, axis + 1, more)) return true;
  }
  return free && may_amount_to(s, c, axis + 1, found);
}

/* Shares of the candidate's axes, by axis; NULL: equal shares. */
static void shares_of_axes(const Search *s, const Candidate *c, ShareBy by, const int **shares) {
  Mesh mesh = {.stages = c->stages, .naxes = c->naxes};
  for (int i = 0; i < c->naxes; i++) mesh.axes[i].size = c->sizes[i];
  for (int i = 0; i < c->naxes; i++) shares[i] = kinds_shares(s->arena, s->t, &mesh, i, by);
}

/* True if sharing this way gives other parts than the ways before. */
static bool shares_differ(const Search *s, const Candidate *c, ShareBy by) {
  const int *own[MAX_AXES], *others[MAX_AXES];
  if (by == SHARE_EQUALLY) return true;
  if (!s->t->nkinds) return false;
  shares_of_axes(s, c, by, own);
  for (int before = SHARE_EQUALLY; before < (int)by; before++) {
    bool same = true;
    shares_of_axes(s, c, (ShareBy)before, others);
    for (int i = 0; i < c->naxes && same; i++)
      same = own[i] && others[i] ? memcmp(own[i], others[i], sizeof *own[i] * (size_t)c->sizes[i]) == 0
                                 : own[i] == others[i];
    if (same) return false;
  }
  return true;
}

static void add_in_shares(Search *s, Candidate next, ShareBy by) {
  next.shares = by;
  for (int fills = 0; fills < 1 + (s->any_schedule && next.stages > 1 && next.least > 1); fills++) {
    next.no_gaps |= fills > 0;
    next.bound = fmax(ideal_seconds(s, &next), known_bound(s, &next));
    if (isinf(next.bound) && isfinite(s->most_seconds)) continue;
    ARENA_PUSH(s->arena, &s->run.candidates, next);
  }
}

/* On one tier, or on the same side of a node's links, the order of axes does not decide which links they use.  It does
 * decide which parts of a dimension split by several axes can be gathered, so forced axes get the order of free
 * ones. */
static void add_candidate(Search *s, const Candidate *c) {
  Candidate next = *c;
  if (!may_amount_to(s, c, 0, (const int[DEGREE_COUNT]){1, 1, 1, 1, 1})) return;
  if (said_mesh(s->said) && s->said->shares) {
    for (int i = 0; i < next.naxes; i++) next.given[i] = s->said->mesh.axes[i + s->said->timed].shares;
    add_in_shares(s, next, SHARE_AS_GIVEN);
    return;
  }
  if (!said_mesh(s->said)) sort_axes(s, &next);
  if (s->t->nkinds) add_in_shares(s, next, SHARE_ANYHOW);
  for (int by = SHARE_EQUALLY; by < SHARE_WAYS; by++)
    if (shares_differ(s, &next, (ShareBy)by)) add_in_shares(s, next, (ShareBy)by);
}

static int forced_behind(const Search *s, int degree) {
  int n = 0;
  for (int d = degree + 1; d < DEGREE_COUNT; d++) n += s->run.forced[d] > 1;
  return n;
}

/* Appends the forced axes, each whole or as two sub-axes if the total is within the limit for free axes. */
static void add_forced(Search *s, const Candidate *c, int degree) {
  while (degree < DEGREE_COUNT && s->run.forced[degree] <= 1) degree++;
  if (degree == DEGREE_COUNT) {
    add_candidate(s, c);
    return;
  }
  int n = s->run.forced[degree];
  for (int major = n; major >= 2; major--) {
    Candidate next = *c;
    if (n % major || (s->layout && major < n)) continue;
    if (major < n && (c->naxes + 2 + forced_behind(s, degree) > MAX_SPATIAL || (one_tier(s) && major * major < n)))
      continue;
    next.degree[next.naxes] = degree;
    next.sizes[next.naxes++] = major;
    if (major < n) next.degree[next.naxes] = degree, next.sizes[next.naxes++] = n / major;
    add_forced(s, &next, degree + 1);
  }
}

/* Appends free axes whose sizes multiply to n, then the forced ones.  On one tier the order does not decide which links
 * they use, so only falling sizes are tried. */
static void add_free(Search *s, const Candidate *c, int n, int largest, int room) {
  if (n == 1) {
    add_forced(s, c, DEGREE_FIRST_AXIS);
    return;
  }
  if (room == 0) return;
  for (int size = n; size >= 2; size--) {
    Candidate next = *c;
    if (n % size || (one_tier(s) && size > largest)) continue;
    next.degree[next.naxes] = -1;
    next.sizes[next.naxes++] = size;
    add_free(s, &next, n / size, size, room - 1);
  }
}

/* Adds four degrees at once, in the orders in which they can be forced: as numbered, or with the one left to apc
 * first. */
static void add_four(Search *s, const Candidate *c, int n) {
  for (int d = DEGREE_FIRST_AXIS; d < DEGREE_COUNT; d++)
    if (!s->has_degree[d]) return;
  for (int first = DEGREE_FIRST_AXIS; first < (one_tier(s) ? DEGREE_FIRST_AXIS + 1 : DEGREE_COUNT); first++)
    for (int a = 2; a <= n / 8; a++)
      for (int b = 2; n % a == 0 && b <= n / a / 4; b++)
        for (int k = 2; n / a % b == 0 && k <= n / a / b / 2; k++) {
          if (n / a / b % k) continue;
          Candidate four = *c;
          const int sizes[AXIS_DEGREES] = {a, b, k, n / a / b / k};
          four.loose = true;
          four.naxes = AXIS_DEGREES;
          four.degree[0] = first;
          for (int d = DEGREE_FIRST_AXIS, at = 1; d < DEGREE_COUNT; d++)
            if (d != first) four.degree[at++] = d;
          memcpy(four.sizes, sizes, sizeof sizes);
          add_candidate(s, &four);
        }
}

/* Appends the axes of a file's mesh from number c->naxes on.  An axis has the degree it is named after if no line says
 * more; otherwise it is free, or has a forced degree, of which `rest` is left. */
static void add_said(Search *s, const Candidate *c, const int rest[DEGREE_COUNT]) {
  const Mesh *mesh = &s->said->mesh;
  int at = c->naxes + s->said->timed;
  bool done = true;
  for (int d = DEGREE_FIRST_AXIS; d < DEGREE_COUNT; d++) done &= rest[d] <= 1;
  if (at == mesh->naxes) {
    if (done) add_candidate(s, c);
    return;
  }
  Candidate next = *c;
  const int named = s->said->nameless ? -1 : said_degree(&mesh->axes[at]);
  next.sizes[next.naxes] = mesh->axes[at].size, next.degree[next.naxes++] = s->said->n ? -1 : named;
  if (s->said->n || named < 0 || !s->run.forced[named]) add_said(s, &next, rest);
  for (int d = DEGREE_FIRST_AXIS; d < DEGREE_COUNT; d++) {
    int less[DEGREE_COUNT];
    memcpy(less, rest, sizeof less);
    if (rest[d] <= 1 || rest[d] % mesh->axes[at].size || (named >= 0 && named != d)) continue;
    less[d] /= mesh->axes[at].size, next.degree[next.naxes - 1] = d;
    add_said(s, &next, less);
  }
}

static void add_meshes_of(Search *s, int stages, int least, int micro) {
  int spatial = s->t->ranks / stages, used = 1, nforced = 0;
  bool any = false, left = false;
  for (int d = DEGREE_FIRST_AXIS; d < DEGREE_COUNT; d++) {
    used *= s->run.forced[d] > 0 ? s->run.forced[d] : 1;
    nforced += s->run.forced[d] > 1;
    any |= s->run.forced[d] > 0;
    left |= !s->run.forced[d] && s->has_degree[d];
  }
  if (spatial % used || (any && !left && spatial != used)) return; /* ranks would be idle */
  Candidate c = candidate_of(s, stages, least, micro);
  if (said_mesh(s->said)) {
    add_said(s, &c, s->run.forced);
    return;
  }
  int room = MAX_SPATIAL - nforced;
  add_free(s, &c, spatial / used, spatial, room > 1 ? room : 1);
  if (!any) add_four(s, &c, spatial);
}

/* Degrees from number `degree` on that search_told_apart distinguishes are tried as if forced, with each possible
 * number. */
static void add_meshes_from(Search *s, int degree, int stages, int least, int micro) {
  int spatial = s->t->ranks / stages;
  while (degree < DEGREE_COUNT && (!search_told_apart(s, degree) || s->run.forced[degree])) degree++;
  if (degree == DEGREE_COUNT) {
    add_meshes_of(s, stages, least, micro);
    return;
  }
  bool several = degree != DEGREE_dp || s->run.zero != 1;
  for (int n = several ? 2 : 1; n <= spatial; n++) {
    if (spatial % n) continue;
    s->run.forced[degree] = n;
    add_meshes_from(s, degree + 1, stages, least, micro);
  }
  s->run.forced[degree] = 0;
}

/* If sharding of the training state over data-parallel ranks is forced or forbidden, the candidate says which axes
 * these are; the same holds for degrees named by lines of a file. */
static void add_meshes(Search *s, int stages, int least, int micro) {
  add_meshes_from(s, DEGREE_FIRST_AXIS, stages, least, micro);
}

/* Returns the axes from the largest to the smallest. */
static void sorted_axes(const Candidate *c, Candidate *out) {
  *out = *c;
  for (int i = 1; i < c->naxes; i++)
    for (int j = i; j > 0 && compare_axes(out, j - 1, j) < 0; j--) swap_axes(out, j - 1, j);
}

static int by_axes(const Candidate *a, const Candidate *b) {
  Candidate x, y;
  sorted_axes(a, &x);
  sorted_axes(b, &y);
  int order = memcmp(x.sizes, y.sizes, sizeof x.sizes);
  return order ? order : memcmp(x.degree, y.degree, sizeof x.degree);
}

bool search_same_candidate(const Candidate *a, const Candidate *b) {
  return same_mesh(a, b) && a->no_gaps == b->no_gaps && a->least == b->least && a->micro == b->micro &&
         a->loose == b->loose && memcmp(a->degree, b->degree, sizeof *a->degree * (size_t)a->naxes) == 0;
}

bool search_same_but_for_order(const Candidate *a, const Candidate *b, int loose) {
  bool same = a->stages == b->stages && a->least == b->least && a->micro == b->micro && a->naxes == b->naxes &&
              a->loose == b->loose && a->no_gaps == b->no_gaps && a->shares == b->shares && by_axes(a, b) == 0;
  for (int i = loose; i < a->naxes && same; i++) same &= a->sizes[i] == b->sizes[i] && a->degree[i] == b->degree[i];
  return same;
}

/* Compares the innermost axes first, which matter most for the links used. */
static int by_order(const Candidate *a, const Candidate *b) {
  for (int i = a->naxes - 1; i >= 0; i--) {
    if (a->sizes[i] != b->sizes[i]) return a->sizes[i] - b->sizes[i];
    if (a->degree[i] != b->degree[i]) return a->degree[i] - b->degree[i];
  }
  return 0;
}

/* The most promising first; among equals those with fewer axes, which are solved faster. */
static int by_bound(const void *x, const void *y) {
  const Candidate *a = x, *b = y;
  if (search_total(a) != search_total(b)) return search_total(a) < search_total(b) ? -1 : 1;
  if (a->naxes != b->naxes) return a->naxes - b->naxes;
  if (a->stages != b->stages) return a->stages - b->stages;
  if (a->micro != b->micro) return a->micro - b->micro;
  if (a->no_gaps != b->no_gaps) return a->no_gaps - b->no_gaps;
  int order = by_axes(a, b);
  if (!order) order = by_order(a, b);
  return order ? order : (int)a->shares - (int)b->shares;
}

void sort_candidates(Search *s, size_t first) {
  size_t n = s->run.candidates.n;
  if (first < n) qsort(s->run.candidates.items + first, n - first, sizeof *s->run.candidates.items, by_bound);
}

/* Axes in another order may have become equal. */
static void drop_equal_candidates(Search *s) {
  Candidate *items = s->run.candidates.items;
  size_t n = 0;
  for (size_t i = 0; i < s->run.candidates.n; i++)
    if (n == 0 || !search_same_candidate(&items[n - 1], &items[i])) items[n++] = items[i];
  s->run.candidates.n = n;
}

void make_candidates(Search *s, const PlanOptions *o) {
  s->run.candidates.n = 0;
  for (int stages = 1; stages <= s->t->ranks; stages++) {
    int forced_stages = s->run.forced[DEGREE_pp];
    if (said_mesh(s->said) && stages != mesh_places(&s->said->mesh)) continue;
    if (s->t->ranks % stages || (forced_stages ? stages != forced_stages : stages > s->most_stages)) continue;
    int forced = o->micro_batches;
    add_meshes(s, stages, forced > 0 ? forced : 1, forced > 0 ? forced : 1);
    bool several = stages > 1 || search_ranges_without_stages(s);
    if (several && forced == 0 && s->most_micro > 1)
      add_meshes(s, stages, useful_from(s, stages, 2), useful_up_to(s, stages, s->most_micro));
  }
  sort_candidates(s, 0);
  drop_equal_candidates(s);
}
