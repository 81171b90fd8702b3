/* passes/search/kept.c - the time of recomputation for gradients that memory forces, however a candidate splits its
 * work; see outer.h.
 *
 * In: the last reads of values under each policy of recomputation (candidates.c).  Out: bounds.  When the backward pass
 * of a micro-batch begins, a rank holds the values of its forward pass that gradients read.  Their sum over all ranks
 * is a lower bound for each policy, because values are at best split evenly.  Weights, state and, with micro-batches,
 * sums of gradients lie beside them.  The part above the memory of all ranks must be recomputed, layer by layer, in the
 * order of the policies.
 *
 * In a pipeline with 1f1b, the stage with k stages from there to the end holds k micro-batches.  A stage has at most as
 * many layers as fit in the time of the best plan, so a layer with d layers after it has at least d / that many stages
 * after it.
 *
 * Not counted: gathered weights, values that are not kept for gradients, and the uneven need of the stages, whose
 * memory is added up.
 */
#include <math.h>
#include <string.h>

#include "passes/facts/derived.h"
#include "passes/facts/home.h"
#include "passes/search/outer.h"

/* The operation at which the first gradients are made; the number of operations if there are none. */
static size_t first_gradient(const Func *f) {
  size_t i = 0;
  while (i < f->ops.n && !phase_backward(f->ops.items[i].phase)) i++;
  return i;
}

/* By operation: an operation of another layer reads its results. */
static const bool *find_leaving(Arena *a, const Func *f, const int *layer) {
  bool *leaves = ARENA_ARRAY(a, bool, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; k < f->ops.items[i].nin; k++) {
      size_t made = (size_t)f->values.items[f->ops.items[i].in[k]].op;
      leaves[made] |= layer[made] != layer[i] && !phase_backward(f->ops.items[i].phase);
    }
  return leaves;
}

/* True if its results are held when the first gradients are made, under a policy. */
static bool is_kept(const Search *s, const Policy *p, int apart, size_t i, size_t first) {
  const Op *op = &s->f->ops.items[i];
  const size_t last = apart ? p->last_apart[i] : p->last[i];
  return last != SIZE_MAX && !p->again[i] && i < first && last >= first && !cost_part(s->cost, s->f, op)->copied;
}

static void add_kept(LeastKept *to, bool once, double bytes) { *(once ? &to->once : &to->each) += bytes; }

/* Adds what each policy keeps of a layer.  `left`: what other layers read of this one.  Values outside layers count as
 * under the policy that keeps the least. */
static void add_operation(Search *s, int apart, size_t i, size_t first, LeastKept *left) {
  const Op *op = &s->f->ops.items[i];
  const int layer = s->layer_of[i];
  const bool once = !phase_each(op->phase);
  bool always = true, ever = false;
  const double bytes = search_bytes_made(s, op);
  for (int k = 0; k < s->npolicies; k++) {
    bool kept = is_kept(s, &s->policies[k], apart, i, first);
    always &= kept, ever |= kept;
    if (kept && layer >= 0) add_kept(&s->kept[apart][k][layer], once, bytes);
  }
  if (layer >= 0 && left && ever) add_kept(&left[layer], once, bytes);
  if (layer < 0 && always) add_kept(&s->kept_outside[apart], once, bytes);
}

static void measure_kept(Search *s, int apart, const bool *leaves) {
  const size_t first = first_gradient(s->f);
  Arena *scratch = arena_new();
  LeastKept *left = ARENA_ARRAY(scratch, LeastKept, s->nlayers + 1), *most = &s->kept_between[apart];
  for (int k = 0; k < s->npolicies; k++) s->kept[apart][k] = ARENA_ARRAY(s->arena, LeastKept, s->nlayers + 1);
  for (size_t i = 0; i < first; i++) add_operation(s, apart, i, first, leaves[i] ? left : NULL);
  for (int k = 0; k < s->nlayers; k++)
    most->each = fmax(most->each, left[k].each), most->once = fmax(most->once, left[k].once);
  arena_free(scratch);
}

void search_measure_kept(Search *s) {
  const size_t n = s->f->ops.n;
  Arena *scratch = arena_new();
  const size_t *home = homes_of(scratch, s->f, derived_ops(scratch, s->f));
  int *layer = ARENA_ARRAY(s->arena, int, n + 1);
  for (size_t i = 0; i < n; i++) layer[i] = recompute_layer_of(s->again, home ? home[i] : i);
  s->layer_of = layer;
  const bool *leaves = find_leaving(scratch, s->f, layer);
  for (int apart = 0; apart < 2; apart++) measure_kept(s, apart, leaves);
  for (size_t i = 0; i < n; i++) {
    const Op *op = &s->f->ops.items[i];
    if (op->kind == OP_accumulate && op->phase == PH_wgt) s->accumulated += search_bytes_made(s, op);
  }
  arena_free(scratch);
}

/* The least number of micro-batches whose values a layer keeps at once. */
static double times_kept(const Search *s, const Candidate *c, int layer) {
  const bool begins_early = c->schedule.order == SCHEDULE_1f1b || c->schedule.order == SCHEDULE_gpipe;
  if (c->stages == 1 || c->least == 1 || c->no_gaps || !begins_early || c->layer_seconds <= 0) return 1;
  double stage = search_best_time(s) * repeat_of(c) / c->least, most = stage / c->layer_seconds;
  double stages = most > 0 ? ceil((s->nlayers - 1 - layer) / most) : 1;
  return fmin(fmax(stages, 1), fmin(c->least, c->stages));
}

static int is_apart(const Candidate *c) { return c->stages > 1 && c->least > 1; }

/* Bytes on the average rank when gradients begin; `k`: under that policy in all layers.  If the first layers follow
 * another policy than the others, what passes between these may count too often. */
static double bytes_kept(const Search *s, const Candidate *c, int k) {
  const int apart = is_apart(c);
  const LeastKept *outside = &s->kept_outside[apart], *between = &s->kept_between[apart];
  double once = s->resident + outside->once - between->once, each = outside->each - times_kept(s, c, 0) * between->each;
  if (c->least > 1) once += s->accumulated;
  for (int i = 0; i < s->nlayers; i++) {
    const LeastKept *kept = &s->kept[apart][k][i];
    once += kept->once, each += times_kept(s, c, i) * kept->each;
  }
  return (once + each / c->micro) / s->t->ranks;
}

/* Returns the time of recomputing as many layers as free that many bytes, from policy k - 1 to k; if all are not
 * enough, of all; at least of one. */
static double seconds_of_layers(const Search *s, const Candidate *c, int k, double bytes) {
  const LeastLayer *layers = k == 1 ? s->some_layers : s->whole_layers;
  double freed = 0, seconds = 0;
  for (int i = 0; i < s->nlayers && (freed < bytes || i == 0); i++) {
    const LeastKept *before = &s->kept[is_apart(c)][k - 1][i], *after = &s->kept[is_apart(c)][k][i];
    double each = times_kept(s, c, i) * fmax(0, before->each - after->each) / c->micro;
    freed += (each + fmax(0, before->once - after->once)) / s->t->ranks;
    seconds += least_seconds(c, &layers[i].least);
  }
  return seconds;
}

/* Lower bound of the bytes on a rank, without stages. */
static double most_bytes(const Search *s, const Policy *p, int micro) {
  double most = 0;
  for (size_t i = 0; i < s->f->ops.n; i++) most = fmax(most, p->each[i] / micro + p->once[i]);
  return (s->resident + most) / s->t->ranks;
}

/* How far a candidate exceeds the limit under a policy. */
static double bytes_over(const Search *s, const Candidate *c, int k) {
  double most = c->stages == 1 ? most_bytes(s, &s->policies[k], c->micro) : 0;
  return fmax(most, s->nlayers ? bytes_kept(s, c, k) : 0) - s->limit;
}

double seconds_again(const Search *s, const Candidate *c, bool *limited) {
  *limited = false;
  if (!func_has_gradients(s->f) || (c->stages > 1 && !s->nlayers)) return 0;
  if (s->npolicies == 1) return c->stages == 1 ? least_seconds(c, &s->policies[0].least) : 0;
  double over = bytes_over(s, c, 0);
  if (over <= 0) return 0;
  *limited = c->stages == 1;
  if (s->run.best && s->nlayers && bytes_kept(s, c, s->npolicies - 1) > s->limit) return INFINITY;
  if (!s->nlayers) return least_seconds(c, &s->policies[1].least);
  double more = bytes_over(s, c, 1);
  if (more <= 0) return seconds_of_layers(s, c, 1, bytes_kept(s, c, 0) - s->limit);
  return least_seconds(c, &s->policies[1].least) + seconds_of_layers(s, c, 2, bytes_kept(s, c, 1) - s->limit);
}
