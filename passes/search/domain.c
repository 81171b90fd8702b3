/* passes/search/domain.c - see domain.h. */
#include "passes/search/domain.h"

#include <math.h>
#include <string.h>

#include "ir/states.h"
#include "passes/lower/walk.h"
#include "passes/cost/beside.h"
#include "passes/facts/zero.h"

int search_mesh_time_axis(const Mesh *mesh) { return mesh->naxes && mesh->axes[0].temporal ? 0 : -1; }

/* The operation for which a class's domain is made. */
typedef struct Making {
  const GraphInput *in;
  size_t index;
  const Op *op;
  const Rule *rule;
  const OpLabels *labels;
  int time_factor;              /* Shape.time_factor */
  bool storage, form, gradient; /* of a trained weight (passes/facts/zero.h) */
} Making;

static bool sequence_is_other(OpKind k) { return !op_is_contraction(k) && k != OP_gather && k != OP_param; }

/* Returns the strategy in a line of a file to be completed. */
static const SaidStrategy *line_of(const Making *k) { return k->in->said ? k->in->said->strategies[k->index] : NULL; }

static int factor_said(const Making *k, int axis) {
  return line_of(k) ? said_factor(k->in->said, k->index, &k->in->m->mesh, axis, k->in->uses[axis].degree) : SAID_OPEN;
}

/* Its strategy, or layouts of its operands and results, are given. */
static bool is_said(const Making *k) { return line_of(k) || said_has_layouts(k->in->said, k->index); }

static bool line_holds(const Making *k, const Strategy *s) {
  int degrees[MAX_AXES];
  if (!said_layouts_hold(k->in->said, k->index, &k->in->m->mesh, s)) return false;
  if (!line_of(k)) return true;
  for (int i = 0; i < MAX_AXES; i++) degrees[i] = k->in->uses[i].degree;
  return said_holds(k->in->said, k->index, &k->in->m->mesh, degrees, s);
}

static bool pick_allowed(const Making *k, Pick p) {
  int said = factor_said(k, p.axis);
  if (said != SAID_OPEN) return said == p.factor;
  said = said_layouts_pick(k->in->said, k->index, &k->in->m->mesh, p.axis, p.factor);
  if (said != SAID_OPEN) return said;
  const Factor *f = &k->rule->factors[p.factor];
  const AxisUse *use = &k->in->uses[p.axis];
  Label l = k->labels->factors[p.factor];
  if (k->in->m->mesh.axes[p.axis].temporal) return p.factor == k->time_factor;
  if (f->kind == FK_LINEAR) return shape_linear_is_useful(k->in->shape, k->op, f);
  /* The placement of a weight and its gradient does not depend on the meaning of their dimensions. */
  if (k->op->kind == OP_param || k->storage || k->form || k->gradient) return true;
  if (k->op->phase == PH_step && op_is_contraction(k->op->kind)) return true; /* nor do products of an update */
  if (use->labels >> l & 1u) return true;
  if (l == LABEL_BATCH && use->batch_too)
    return !(op_is_contraction(k->op->kind) && labels_include(k->labels, k->rule, LABEL_EXPERT));
  return l == LABEL_SEQUENCE && (use->labels >> LABEL_OTHER & 1u) && sequence_is_other(k->op->kind);
}

/* True if micro-batches need not split it.  A state must not be written in every one of them. */
static bool may_be_whole(const Making *k) {
  bool writes = k->op->kind == OP_write && phase_each(k->op->phase);
  return op_is_source(k->op->kind) || (k->time_factor == TIME_NONE && !writes);
}

/* ---- forced placement of the training state (PlanOptions.zero); 0: any stage */

/* Other forms of a weight are not sharded if the weight is not. */
static bool zero_forced(const Making *k) {
  return k->in->zero && (k->storage || k->gradient || (k->form && k->in->zero == 1));
}

static bool zero_cuts(const Making *k) { return k->in->zero - 1 >= (k->gradient ? 2 : 1); }

static uint32_t data_axes(const GraphInput *in) {
  uint32_t axes = 0;
  for (int i = 0; i < in->m->mesh.naxes; i++) axes |= (uint32_t)in->uses[i].data << i;
  return axes;
}

static bool zero_allowed(const Making *k, const Strategy *s) {
  return !zero_forced(k) || zero_cuts(k) || zero_parts(&k->in->m->mesh, k->rule, s, data_axes(k->in)) == 1;
}

/* The number to maximise: parts, or, for a gradient that is kept whole, ranks with partial sums of their own. */
static double zero_forced_parts(const Making *k, const Strategy *s) {
  uint32_t data = data_axes(k->in), partial = zero_partial_axes(k->rule, s) & data;
  double parts = 1;
  if (!zero_forced(k)) return 1;
  if (zero_cuts(k)) return zero_parts(&k->in->m->mesh, k->rule, s, data);
  for (int i = 0; i < k->in->m->mesh.naxes && k->gradient; i++)
    if (partial >> i & 1u) parts *= k->in->m->mesh.axes[i].size;
  return parts;
}

/* ---- forced layouts (pins.h) */

/* Returns the mesh axes that count for a pin. */
static uint32_t pin_axes(const GraphInput *in, const PlanPin *pin) {
  const Mesh *mesh = &in->m->mesh;
  uint32_t axes = 0;
  for (int i = 0; i < mesh->naxes; i++)
    if (!mesh->axes[i].temporal && (pin->degree == PIN_NO_DEGREE || in->uses[i].degree == pin->degree)) axes |= 1u << i;
  return axes;
}

static bool pins_hold(const Making *k, const Strategy *s) {
  uint64_t pins = k->in->pinned ? k->in->pinned[k->index] : 0;
  for (int i = 0; i < MOST_PINS && pins >> i; i++) {
    const PlanPin *pin = &k->in->pins[i];
    if ((pins >> i & 1) && !pin_holds(pin, strategy_result(k->in->m, k->rule, s, 0), pin_axes(k->in, pin)))
      return false;
  }
  return true;
}

/* True if a strategy of allowed picks is allowed. */
static bool strategy_allowed(const Making *k, const Strategy *s) {
  bool timed = false;
  if (k->in->shape->small[k->index] && s->n) return false;
  if (!zero_allowed(k, s) || !pins_hold(k, s) || !line_holds(k, s)) return false;
  for (int i = 0; i < s->n; i++) timed |= k->in->m->mesh.axes[s->picks[i].axis].temporal;
  if (search_mesh_time_axis(&k->in->m->mesh) >= 0 && !timed && !may_be_whole(k)) return false;
  return is_said(k) || cost_parts_filled(k->in->cost, k->rule, s, k->in->micro);
}

/* Scalars are summed rank by rank, and once over all ranks: sums of many of them, as the norm of all gradients, would
 * otherwise connect everything in the graph of a training step. */
static bool is_sum_of_scalars(const Making *k) {
  if (!k->in->shape->mirrors.any || k->op->kind != OP_add || type_of(k->in->f, k->op->out)->rank) return false;
  for (int i = 0; i < k->rule->nfactors; i++)
    if (k->rule->factors[i].kind == FK_LINEAR && shape_linear_is_useful(k->in->shape, k->op, &k->rule->factors[i]))
      return true;
  return false;
}

static bool passes_all_on(const Making *k, const Strategy *s) {
  int spatial = k->in->m->mesh.naxes - (search_mesh_time_axis(&k->in->m->mesh) >= 0), n = 0;
  for (int i = 0; i < s->n; i++) n += k->rule->factors[s->picks[i].factor].kind == FK_LINEAR;
  return n == spatial;
}

/* Returns how far the forced axes are used. */
static double forced_parts(const Making *k, const Strategy *s) {
  bool matrix = k->op->kind == OP_param && type_of(k->in->f, k->op->out)->rank >= 2;
  double parts = zero_forced_parts(k, s);
  for (int i = 0; i < s->n; i++) {
    const AxisUse *use = &k->in->uses[s->picks[i].axis];
    bool counts = use->forced && k->rule->factors[s->picks[i].factor].size;
    if (counts && (op_is_contraction(k->op->kind) || (matrix && use->weights)))
      parts *= k->in->m->mesh.axes[s->picks[i].axis].size;
  }
  return parts;
}

static bool same_effect(const Domain *d, int a, int b) {
  for (int i = 0; i < d->nout; i++)
    if (d->results[i][a] != d->results[i][b]) return false;
  for (int i = 0; i < d->nin; i++)
    if (d->operands[i][a] != d->operands[i][b]) return false;
  return true;
}

static double seconds_of(const Making *k, CostModel *c, const Strategy *s) {
  return cost_op_runs(c, k->in->shape->loops, k->in->f, k->index, k->rule, s).seconds;
}

static double outside_of(const Making *k, CostModel *c, const Strategy *s, int operand) {
  return cost_outside(c, k->in->f, k->op, k->rule, s, operand) * runs_of_op(k->in->shape->loops, k->index);
}

static const Layout *layout_form(const GraphInput *in, const Layout *l) {
  const Layout *form = cost_layout(in->cost, l);
  return in->symmetry ? symmetry_layout(in->symmetry, form) : form;
}

static void set_strategy(const Making *k, Domain *d, int at, const Strategy *s) {
  Module *m = k->in->m;
  int t = search_mesh_time_axis(&m->mesh);
  bool timed = s->n && s->picks[0].axis == t;
  d->strategies[at] = *s;
  for (int i = 0; i < d->nout; i++) d->results[i][at] = layout_form(k->in, strategy_result(m, k->rule, s, i));
  for (int i = 0; i < d->nin; i++) d->operands[i][at] = layout_form(k->in, strategy_operand(m, k->rule, s, i));
  /* Values that depend on more than constants are in a micro-batch's body anyway. */
  bool before = d->before;
  for (int i = 0; i < d->nout; i++) before &= walk_layout_once(m, d->results[i][at]);
  double weight = before ? k->in->before : k->in->repeat;
  d->time[at] = seconds_of(k, k->in->cost, s) * weight;
  if (timed && k->in->few) d->time[at] = fmax(d->time[at], seconds_of(k, k->in->few, s) * k->in->share);
  for (int i = 0; i < d->nin; i++)
    if (d->outside[i]) d->outside[i][at] = outside_of(k, k->in->cost, s, i) * weight;
  if (d->memory) d->memory[at] = cost_bytes(k->in->cost, type_of(k->in->f, k->op->out), d->results[0][at]);
  /* its share if all reads of the weight have one layout */
  if (d->memory) d->memory[at] /= k->in->shape->same.reads[k->index];
  /* a state is kept for all micro-batches */
  if (d->memory && timed) d->memory[at] *= fmin(m->mesh.axes[t].size, k->in->micro);
}

static Making making_of(const GraphInput *in, int class) {
  size_t index = in->shape->first[class];
  Making k = {
      .in = in, .index = index, .op = &in->f->ops.items[index], .rule = in->rules[index], .labels = &in->labels[index]};
  k.time_factor = in->shape->time_factor[index];
  k.storage = zero_is_storage(in->m, k.op);
  /* In stage 3 the weight itself is gathered: a program would begin to gather right after the cast, and the gathered
   * value would be live from there on. */
  k.form = in->shape->form[index] && in->zero - 1 != ZERO_AT_USE;
  k.gradient = zero_places(k.op);
  return k;
}

/* Allocates a domain with room for n strategies. */
static Domain *domain_with_room(const Making *k, Arena *a, int n) {
  Domain *d = ARENA_NEW(a, Domain);
  int nin = k->op->nin;
  bool at_use = k->storage && k->in->zero - 1 == ZERO_AT_USE;
  *d = (Domain){.nin = nin,
                .nout = k->op->nout,
                .conversions = runs_of_result(k->in->shape->loops, k->in->f, k->index) * cost_shown(k->in->cost, k->op),
                .before = k->in->shape->before[k->index],
                .read_behind = (k->in->shape->before[k->index] && !at_use) || k->op->kind == OP_accumulate,
                .strategies = ARENA_ARRAY(a, Strategy, n),
                .time = ARENA_ARRAY(a, double, n)};
  d->results = ARENA_ARRAY(a, const Layout **, d->nout + 1);
  for (int i = 0; i < d->nout; i++) d->results[i] = ARENA_ARRAY(a, const Layout *, n);
  d->operands = ARENA_ARRAY(a, const Layout **, nin + 1);
  d->memory = op_is_resident(k->op->kind) && !state_is_away(k->in->m, k->op) ? ARENA_ARRAY(a, double, n) : NULL;
  d->outside = ARENA_ARRAY(a, double *, nin + 1);
  const KernelPart *part = cost_part(k->in->cost, k->in->f, k->op);
  for (int i = 0; i < nin; i++) {
    d->operands[i] = ARENA_ARRAY(a, const Layout *, n);
    if (part->inside >> i & 1) d->outside[i] = ARENA_ARRAY(a, double, n);
  }
  return d;
}

/* Enumerates all strategies of allowed picks. */
static int enumerate(const Making *k, Arena *a, const Strategy **out) {
  uint32_t factors[MAX_AXES] = {0};
  for (int i = 0; i < k->in->m->mesh.naxes; i++)
    for (int f = 0; f < k->rule->nfactors; f++)
      factors[i] |= (uint32_t)pick_allowed(k, (Pick){(uint8_t)i, (uint8_t)f}) << f;
  bool orders = is_said(k) && k->in->said->has_mesh;
  return strategy_enumerate_among(a, k->in->m, k->rule, orders, factors, out);
}

Domain *domain_new(const GraphInput *in, Arena *a, int class) {
  Making k = making_of(in, class);
  Arena *scratch = arena_new();
  const Strategy *all;
  int n = enumerate(&k, scratch, &all), most_kept = 0;
  double most = 1;
  bool scalars = is_sum_of_scalars(&k) && !is_said(&k);
  bool *allowed = ARENA_ARRAY(scratch, bool, n);
  for (int i = 0; i < n; i++) {
    if (in->symmetry && !symmetry_stands(in->symmetry, &all[i])) continue;
    allowed[i] = strategy_allowed(&k, &all[i]) && (!scalars || passes_all_on(&k, &all[i]));
    if (allowed[i]) most = fmax(most, forced_parts(&k, &all[i]));
  }
  for (int i = 0; i < n; i++) {
    allowed[i] = allowed[i] && forced_parts(&k, &all[i]) >= most;
    most_kept += allowed[i];
  }
  Domain *d = domain_with_room(&k, a, most_kept);
  for (int i = 0; i < n; i++) {
    if (!allowed[i]) continue;
    set_strategy(&k, d, d->n, &all[i]);
    int same = 0;
    while (same < d->n && !same_effect(d, same, d->n)) same++;
    if (same == d->n) d->n++;
    else if (d->time[d->n] < d->time[same]) set_strategy(&k, d, same, &all[i]);
  }
  arena_free(scratch);
  return d;
}

/* ---- domains of followers */

static bool may_follow(const Making *k, const Strategy *s) {
  int t = search_mesh_time_axis(&k->in->m->mesh);
  bool timed = false;
  for (int i = 0; i < s->n; i++) {
    if (s->picks[i].axis != t) continue;
    if (s->picks[i].factor != k->time_factor) return false;
    timed = true;
  }
  return (t < 0 || timed || may_be_whole(k)) && pins_hold(k, s) && line_holds(k, s) &&
         cost_parts_filled(k->in->cost, k->rule, s, k->in->micro);
}

static void add_follower(Arena *a, Domain *head, Domain *d) {
  if (!head->total) {
    head->total = ARENA_ARRAY(a, double, head->n);
    memcpy(head->total, head->time, sizeof *head->total * (size_t)head->n);
    head->followers = NULL;
  }
  if (!head->total_memory && (head->memory || d->memory)) {
    head->total_memory = ARENA_ARRAY(a, double, head->n);
    if (head->memory) memcpy(head->total_memory, head->memory, sizeof *head->memory * (size_t)head->n);
  }
  for (int v = 0; v < head->n; v++) {
    head->total[v] += d->time[v];
    if (d->memory) head->total_memory[v] += d->memory[v];
  }
  Domain **followers = ARENA_ARRAY(a, Domain *, head->nfollowers + 1);
  for (int i = 0; i < head->nfollowers; i++) followers[i] = head->followers[i];
  followers[head->nfollowers++] = d;
  head->followers = followers;
}

Domain *domain_follow(const GraphInput *in, Arena *a, int class, Domain *head) {
  Making k = making_of(in, class);
  const int8_t *factors = in->shape->mirrors.factors[k.index];
  Domain *d = domain_with_room(&k, a, head->n);
  d->n = head->n;
  for (int v = 0; v < head->n; v++) {
    Strategy s = mirror_strategy(&in->m->mesh, k.rule, factors, &head->strategies[v]);
    set_strategy(&k, d, v, &s);
    if (!may_follow(&k, &s)) d->time[v] = INFINITY;
  }
  add_follower(a, head, d);
  return d;
}

bool domain_sum_fits(const GraphInput *in, int class, const Strategy *head, const Strategy *s) {
  size_t index = in->shape->first[class];
  Strategy others[MAX_EXCHANGES] = {*s};
  int n = in->symmetry ? symmetry_strategies(in->symmetry, s, others) : 1, i = 0;
  while (i < n && !mirror_sum_fits(&in->m->mesh, in->rules[index], in->shape->mirrors.factors[index], head, &others[i]))
    i++;
  return i < n;
}

static void keep_strategies(Domain *d, const bool *keep, int n) {
  int kept = 0;
  for (int v = 0; v < n; v++) {
    if (!keep[v]) continue;
    d->strategies[kept] = d->strategies[v];
    for (int k = 0; k < d->nout; k++) d->results[k][kept] = d->results[k][v];
    for (int k = 0; k < d->nin; k++) d->operands[k][kept] = d->operands[k][v];
    for (int k = 0; k < d->nin; k++)
      if (d->outside[k]) d->outside[k][kept] = d->outside[k][v];
    d->time[kept] = d->time[v];
    if (d->memory) d->memory[kept] = d->memory[v];
    if (d->total) d->total[kept] = d->total[v];
    if (d->total_memory) d->total_memory[kept] = d->total_memory[v];
    kept++;
  }
  d->n = kept;
  for (int i = 0; i < d->nfollowers; i++) keep_strategies(d->followers[i], keep, n);
}

Domain *domain_of_sum(const GraphInput *in, Arena *a, int class, const Domain *head) {
  Domain *d = domain_new(in, a, class);
  bool *keep = ARENA_ARRAY(a, bool, d->n + 1), any = false;
  for (int v = 0; v < d->n; v++) {
    for (int h = 0; h < head->n && !keep[v]; h++)
      keep[v] = domain_sum_fits(in, class, &head->strategies[h], &d->strategies[v]);
    any |= keep[v];
  }
  if (any) keep_strategies(d, keep, d->n);
  return d;
}

void domain_prune(Domain *d, double slack, Arena *a) {
  const double *time = domain_total(d);
  double least = INFINITY;
  bool *keep = ARENA_ARRAY(a, bool, d->n + 1);
  for (int v = 0; v < d->n; v++) least = fmin(least, time[v]);
  for (int v = 0; v < d->n; v++) keep[v] = time[v] < INFINITY && time[v] <= least + slack;
  keep_strategies(d, keep, d->n);
}

int domain_collect(const Domain *d, int mask, int value, const Layout **out, int n) {
  for (int i = 0; mask >> i; i++)
    if (mask >> i & 1) out[n++] = d->operands[i][value];
  return n;
}
