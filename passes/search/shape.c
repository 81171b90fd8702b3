/* passes/search/shape.c - see shape.h. */
#include "passes/search/shape.h"

#include <string.h>

#include "base/hash.h"
#include "ir/joint.h"
#include "ir/states.h"
#include "passes/facts/agreed.h"
#include "passes/facts/blocks.h"
#include "passes/facts/zero.h"
#include "passes/facts/derived.h"
#include "passes/search/graph.h"

typedef struct Shaping {
  Module *m;
  const CostModel *cost;
  Arena *arena;
  const uint64_t *marks; /* by operation; NULL if none */
  Shape *out;
} Shaping;

bool shape_linear_is_useful(const Shape *s, const Op *op, const Factor *k) {
  for (int j = 0; j < op->nin; j++)
    if ((k->operands >> j & 1u) && s->mirrors.may_be_partial[op->in[j]]) return true;
  return false;
}

/* ---- classes of equal bytes: a table of keys, numbered by first appearance */

typedef struct Keys {
  Arena *arena;
  struct {
    const void *bytes;
    size_t n;
    uint64_t hash;
  } * items;
  int n;
  size_t slots;
  int *table; /* number, plus 1 */
} Keys;

static Keys keys_new(Arena *a, size_t most) {
  Keys k = {.arena = a, .slots = 16};
  while (k.slots < 2 * most) k.slots *= 2;
  k.items = arena_alloc(a, sizeof *k.items * (most + 1));
  k.table = ARENA_ARRAY(a, int, k.slots);
  return k;
}

static int key_number(Keys *k, const void *bytes, size_t n) {
  uint64_t h = hash64(bytes, n, 0);
  size_t i = (size_t)h & (k->slots - 1);
  for (; k->table[i]; i = (i + 1) & (k->slots - 1)) {
    int known = k->table[i] - 1;
    if (k->items[known].hash == h && k->items[known].n == n && memcmp(k->items[known].bytes, bytes, n) == 0)
      return known;
  }
  char *copy = ARENA_ARRAY(k->arena, char, n);
  memcpy(copy, bytes, n);
  k->items[k->n].bytes = copy;
  k->items[k->n].n = n;
  k->items[k->n].hash = h;
  k->table[i] = k->n + 1;
  return k->n++;
}

/* Finds work that runs once, outside loops (passes/lower/walk.h). */
static void find_before(Shaping *w) {
  const Func *f = w->out->f;
  const bool *once = once_ops(w->arena, f);
  bool *before = ARENA_ARRAY(w->arena, bool, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    bool outside = !op->out || cost_loop_of_value(&w->out->loops->loops, f, op->out) < 0;
    before[i] = (once[i] || op->phase == PH_step) && outside;
  }
  w->out->before = before;
}

/* Finds values derived from constants, as tables of sines, that many operations read and that are computed whole in
 * the time of one launch.  Sharding them would save less, and their layout would tie all users together. */
static void find_small(Shaping *w) {
  const Func *f = w->out->f;
  Arena *scratch = arena_new();
  const bool *derived = derived_ops(scratch, f);
  int *users = ARENA_ARRAY(scratch, int, f->values.n + 1);
  bool *small = ARENA_ARRAY(w->arena, bool, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; k < f->ops.items[i].nin; k++) users[f->ops.items[i].in[k]]++;
  for (size_t i = 0; i < f->outputs.n; i++) users[f->outputs.items[i].value] = 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (!derived[i] || op->nout != 1 || users[op->out] < SEARCH_MANY_USERS || (w->marks && w->marks[i])) continue;
    bool alone = w->out->mirrors.head[i] == i && !w->out->mirrors.nfollowers[i] && w->out->loops->loops.of[i] < 0;
    const OpLeast least = cost_op_least(w->cost, f, op, w->out->rules[i]);
    small[i] = alone && least.arithmetic + least.memory <= cost_target(w->cost)->launch;
  }
  w->out->small = small;
  arena_free(scratch);
}

static void find_forms(Shaping *w) {
  const Func *f = w->out->f;
  const bool *all = zero_forms(w->arena, w->m, f);
  bool *form = ARENA_ARRAY(w->arena, bool, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++) form[i] = all[i] && w->out->before[i] && !op_is_source(f->ops.items[i].kind);
  w->out->form = form;
}

/* ---- splits by micro-batches */

static bool trains(const Func *f) {
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == OP_accumulate) return true;
  return false;
}

/* Returns the factor for operands (as a bit set) that are partial sums over micro-batches. */
static int factor_of_partial(const Op *op, const Rule *r, uint32_t partial) {
  FactorKind kind = op->kind == OP_accumulate ? FK_ACCUMULATE : FK_LINEAR;
  for (int k = 0; k < r->nfactors; k++)
    if (r->factors[k].kind == kind && r->factors[k].operands == partial && strategy_cut_by_time(r, k)) return k;
  return TIME_IMPOSSIBLE;
}

/* Returns the first batch factor; without training no operation would add up sums over it. */
static int factor_of_batch(const Rule *r, const OpLabels *labels, bool sums) {
  for (int k = 0; k < r->nfactors; k++)
    if (labels->factors[k] == LABEL_BATCH && strategy_cut_by_time(r, k) && (sums || r->factors[k].kind == FK_PARALLEL))
      return k;
  return TIME_NONE;
}

static int time_factor_of(const Shaping *w, size_t index, uint32_t partial, bool sums) {
  const Op *op = &w->out->f->ops.items[index];
  const Rule *r = w->out->rules[index];
  if (!phase_each(op->phase)) return TIME_NONE;
  if (op->kind == OP_accumulate) return factor_of_partial(op, r, 1);
  int batch = factor_of_batch(r, &w->out->labels[index], sums);
  if (!partial) return batch;
  return batch >= 0 ? TIME_IMPOSSIBLE : factor_of_partial(op, r, partial);
}

/* Every operation has one factor that micro-batches split, so the planner has no choice: the batch; after a sum over
 * the batch, of which each micro-batch has a part, the factor that passes sums on, up to their accumulation. */
static void find_time_factors(Shaping *w) {
  const Func *f = w->out->f;
  bool sums = trains(f), *partial = ARENA_ARRAY(w->arena, bool, f->values.n);
  int *factors = ARENA_ARRAY(w->arena, int, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    uint32_t in = 0;
    for (int k = 0; k < op->nin && k < 32; k++) in |= (uint32_t)partial[op->in[k]] << k;
    factors[i] = time_factor_of(w, i, in, sums);
    if (factors[i] < 0) continue;
    const Factor *x = &w->out->rules[i]->factors[factors[i]];
    bool gives = x->kind == FK_REDUCE || x->kind == FK_LINEAR;
    for (int k = 0; k < op->nout && gives; k++) partial[op->out + (Val)k] = x->results >> k & 1u;
  }
  w->out->time_factor = factors;
}

/* ---- keys that distinguish operations, as numbers */

typedef struct Key {
  Arena *arena;
  uint64_t *items;
  size_t n, cap;
} Key;

static void add(Key *k, uint64_t number) { ARENA_PUSH(k->arena, k, number); }
static void add_pointer(Key *k, const void *p) { add(k, (uint64_t)(uintptr_t)p); }
static void add_int(Key *k, int number) { add(k, (uint64_t)(int64_t)number); }

static void add_double(Key *k, double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  add(k, bits);
}

static void add_part(const Shaping *w, Key *key, const Op *op) {
  const KernelPart *p = cost_part(w->cost, w->out->f, op);
  bool own = p->kind == PART_OWN;
  add_int(key, (int)p->kind), add(key, p->follows);
  if (own) return;
  add_int(key, p->launches), add(key, p->reads), add(key, p->inside), add(key, p->alone), add(key, p->stores);
  add(key, p->as != NULL);
  for (int k = 0; k < op->nin && p->as; k++) add(key, p->as[k].spread), add_int(key, p->as[k].bytes);
}

static void add_products(const Shaping *w, Key *key, const Op *op) {
  const Together *together = cost_together(w->cost, w->out->f, op);
  bool several = together && together->times > 1;
  add(key, several);
  if (several) add_int(key, together->shared), add_double(key, together->times);
  const LegalJoin *join = cost_join(w->cost, w->out->f, op);
  bool counted = join_is_counted(join);
  add(key, counted);
  if (counted) add_int(key, (int)join->kind), add_int(key, join->operand);
}

/* The module interns types and rules; a rule says how many factors there are. */
static void add_op(const Shaping *w, Key *key, size_t index) {
  const Op *op = &w->out->f->ops.items[index];
  const Rule *r = w->out->rules[index];
  add_int(key, (int)op->kind), add_int(key, op->nin), add_int(key, op->nout);
  add(key, w->marks ? w->marks[index] : 0);
  add_double(key, runs_of_op(w->out->loops, index));
  add_double(key, runs_of_result(w->out->loops, w->out->f, index));
  add_int(key, op_is_resident(op->kind) ? w->out->same.reads[index] : 0);
  add(key, state_is_away(w->m, op));
  add(key, zero_is_storage(w->m, op)), add(key, zero_places(op));
  add(key, w->out->form[index]), add(key, w->out->small[index]);
  add(key, w->out->before[index]), add_int(key, w->out->time_factor[index]);
  add_int(key, agreed_loop_control(op) ? w->out->loops->agreed[agreed_loop_control(op)] : 0);
  add_products(w, key, op);
  add_part(w, key, op);
  for (int i = 0; i < op->nin; i++) add_pointer(key, type_of(w->out->f, op->in[i]));
  for (Val v = op->out; v < op_end(op); v++) add_pointer(key, type_of(w->out->f, v));
  add_pointer(key, r);
  for (int k = 0; k < r->nfactors; k++) {
    add_int(key, (int)w->out->labels[index].factors[k]);
    if (r->factors[k].kind == FK_LINEAR) add(key, shape_linear_is_useful(w->out, op, &r->factors[k]));
  }
}

static void add_factors(const Shaping *w, Key *key, size_t i) {
  for (int k = 0; k < w->out->rules[i]->nfactors; k++) add_int(key, w->out->mirrors.factors[i][k]);
}

static void add_sum(const Shaping *w, Key *key, size_t i) {
  size_t of = w->out->mirrors.sum_of[i];
  add(key, of != SIZE_MAX);
  if (of != SIZE_MAX) add_int(key, w->out->class[of]), add_factors(w, key, i);
}

/* A head with all its followers. */
static void group_key(const Shaping *w, size_t head, Key *key) {
  const Mirrors *m = &w->out->mirrors;
  add_op(w, key, head);
  add_sum(w, key, head);
  for (int i = 0; i < m->nfollowers[head]; i++) {
    add_op(w, key, m->followers[head][i]);
    add_factors(w, key, m->followers[head][i]);
  }
}

/* Makes the keys of operations that share variables or are tied to others: by group and place in it, or by the class of
 * the tied operation, which is known.  `group`, `place` are by operation. */
static void mirror_key(const Shaping *w, size_t i, const int *group, const int *place, Key *key) {
  const Mirrors *m = &w->out->mirrors;
  bool in_group = m->head[i] != i || m->nfollowers[i];
  add(key, in_group);
  if (in_group) {
    add_int(key, group[m->head[i]]), add_int(key, place[i]);
  } else {
    add_op(w, key, i);
    add_sum(w, key, i);
  }
}

/* Called for the first operation of a group; the operation that a sum follows has its class by then. */
static void number_group(const Shaping *w, Keys *groups, size_t head, int *group, int *place, Key *key) {
  const Mirrors *m = &w->out->mirrors;
  key->n = 0;
  group_key(w, head, key);
  group[head] = key_number(groups, key->items, sizeof *key->items * key->n);
  for (int k = 0; k < m->nfollowers[head]; k++) place[m->followers[head][k]] = k + 1;
}

static void find_classes(Shaping *w) {
  const Func *f = w->out->f;
  Arena *scratch = arena_new();
  Keys keys = keys_new(scratch, f->ops.n), groups = keys_new(scratch, f->ops.n);
  int *group = ARENA_ARRAY(scratch, int, f->ops.n + 1), *place = ARENA_ARRAY(scratch, int, f->ops.n + 1);
  bool *numbered = ARENA_ARRAY(scratch, bool, f->ops.n + 1);
  int *class = ARENA_ARRAY(w->arena, int, f->ops.n + 1);
  size_t *first = ARENA_ARRAY(w->arena, size_t, f->ops.n + 1);
  Key key = {.arena = scratch};
  w->out->class = class;
  for (size_t i = 0; i < f->ops.n; i++) {
    int before = keys.n;
    class[i] = -1;
    if (op_is_anywhere(&f->ops.items[i])) continue;
    size_t head = w->out->mirrors.head[i]; /* it may come after its followers */
    if (w->out->mirrors.nfollowers[head] && !numbered[head]) {
      number_group(w, &groups, head, group, place, &key);
      numbered[head] = true;
    }
    key.n = 0;
    mirror_key(w, i, group, place, &key);
    class[i] = key_number(&keys, key.items, sizeof *key.items * key.n);
    if (keys.n > before) first[before] = i;
  }
  w->out->first = first;
  w->out->nclasses = keys.n;
  arena_free(scratch);
}

/* ---- fan-outs */

typedef struct Use {
  size_t op;
  int operand;
} Use;

typedef struct Uses {
  Use *items;
  size_t n, cap;
} Uses;

static void gather_users(Shaping *w, const Uses *uses, FanOut *fan) {
  size_t *users = ARENA_ARRAY(w->arena, size_t, uses->n + 1);
  int *masks = ARENA_ARRAY(w->arena, int, uses->n + 1);
  for (size_t i = 0; i < uses->n; i++) {
    int k = 0;
    while (k < fan->nusers && users[k] != uses->items[i].op) k++;
    if (k == fan->nusers) users[fan->nusers++] = uses->items[i].op;
    masks[k] |= 1 << uses->items[i].operand;
  }
  fan->users = users;
  fan->masks = masks;
}

static int fan_class(const Shaping *w, Keys *keys, const FanOut *fan, Arena *scratch) {
  const size_t *owner = w->out->owner;
  int n = 0, *key = ARENA_ARRAY(scratch, int, 3 * fan->nusers + 3);
  key[n++] = w->out->class[fan->producer];
  key[n++] = fan->result;
  key[n++] = fan->output;
  for (int i = 0; i < fan->nusers; i++) {
    key[n++] = w->out->class[fan->users[i]];
    key[n++] = fan->masks[i];
    int same = owner[fan->users[i]] == owner[fan->producer] ? -1 : 0; /* the variable it shares */
    while (same >= 0 && owner[fan->users[same]] != owner[fan->users[i]]) same++;
    key[n++] = same;
  }
  return key_number(keys, key, sizeof *key * (size_t)n);
}

/* Returns the number of a fan-out among those between other variables. */
static int fan_number(const Shaping *w, Keys *keys, const FanOut *fan, Arena *scratch) {
  size_t n = 0, *key = ARENA_ARRAY(scratch, size_t, fan->nusers + 2);
  key[n++] = (size_t)fan->class;
  key[n++] = w->out->owner[fan->producer];
  for (int i = 0; i < fan->nusers; i++) key[n++] = w->out->owner[fan->users[i]];
  return key_number(keys, key, sizeof *key * n);
}

/* Values made where they are needed have no conversions. */
static void find_fans(Shaping *w) {
  const Func *f = w->out->f;
  Arena *scratch = arena_new();
  Uses *uses = ARENA_ARRAY(scratch, Uses, f->values.n);
  bool *output = ARENA_ARRAY(scratch, bool, f->values.n);
  FanOut *fans = ARENA_ARRAY(w->arena, FanOut, f->values.n);
  Keys keys = keys_new(scratch, f->values.n), numbers = keys_new(scratch, f->values.n);
  w->out->nfans = 0;
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; k < f->ops.items[i].nin; k++) ARENA_PUSH(scratch, &uses[f->ops.items[i].in[k]], ((Use){i, k}));
  for (size_t i = 0; i < f->outputs.n; i++) output[f->outputs.items[i].value] = true;
  for (Val v = 1; v < f->values.n; v++) {
    if (op_is_anywhere(op_of(f, v)) || (!uses[v].n && !output[v])) continue;
    FanOut fan = {.producer = (size_t)f->values.items[v].op, .result = value_index(f, v), .output = output[v]};
    gather_users(w, &uses[v], &fan);
    fan.class = fan_class(w, &keys, &fan, scratch);
    /* a rest counts once (graph.c), so only equal layers are joined */
    bool alike = w->out->owner != w->out->mirrors.head;
    size_t number = alike ? (size_t)fan_number(w, &numbers, &fan, scratch) : w->out->nfans;
    if (number == w->out->nfans) fans[w->out->nfans++] = fan;
    fans[number].times++;
  }
  w->out->fans = fans;
  w->out->nfan_classes = keys.n;
  arena_free(scratch);
}

/* Ties two operations unless their variables are already tied. */
typedef struct PairList {
  LayoutPair *items;
  size_t n, cap;
} PairList;

static void add_tied(const Shaping *w, Keys *known, PairList *list, size_t first, size_t second) {
  const size_t key[] = {w->out->owner[first], w->out->owner[second]};
  if ((size_t)key_number(known, key, sizeof key) == list->n) ARENA_PUSH(w->arena, list, ((LayoutPair){first, second}));
}

/* The entries of a joint function keep a weight in the same layouts: the first read of it in each entry is tied to the
 * first in those before, the second to the second, and so on. */
static void tie_entries(const Shaping *w, Keys *known, PairList *list) {
  const Func *f = w->out->f;
  const Joint *joint = f->joint;
  if (!joint) return;
  Arena *scratch = arena_new();
  Keys turns = keys_new(scratch, f->ops.n + 1);
  int *reads = ARENA_ARRAY(scratch, int, f->ops.n + 1); /* by the first operation that reads a weight: its reads in this
                                                         * entry */
  size_t *tied = ARENA_ARRAY(scratch, size_t, f->ops.n + 1);
  for (int e = 0; e < joint->n; e++) {
    memset(reads, 0, sizeof *reads * f->ops.n);
    for (size_t k = 0; k < joint->entries[e].f->ops.n; k++) {
      size_t i = joint->entries[e].at[k], first = w->out->same.first[i];
      if (f->ops.items[i].kind != OP_param) continue;
      const size_t key[] = {first, (size_t)reads[first]++};
      int before = turns.n, turn = key_number(&turns, key, sizeof key);
      if (turns.n > before) tied[turn] = i;
      else add_tied(w, known, list, tied[turn], i);
    }
  }
  arena_free(scratch);
}

/* Ties each read or write of a state to the next one of the same state, each leave to its carry, a sum of gradients to
 * the maker of the value, and weights of several entries to each other. */
static void find_ties(Shaping *w) {
  const Func *f = w->out->f;
  Arena *scratch = arena_new();
  Keys keys = keys_new(scratch, 3 * f->ops.n), sum_keys = keys_new(scratch, f->ops.n);
  PairList pairs = {0}, sums = {0};
  const StateOps states = state_ops(scratch, f);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *a = &f->ops.items[i];
    size_t sum_of = w->out->mirrors.sum_of[i];
    if (a->kind == OP_leave) add_tied(w, &keys, &pairs, (size_t)f->values.items[a->in[0]].op, i);
    if (states.next[i] != SIZE_MAX) add_tied(w, &keys, &pairs, i, states.next[i]);
    if (sum_of != SIZE_MAX) add_tied(w, &sum_keys, &sums, sum_of, i);
  }
  tie_entries(w, &keys, &pairs);
  w->out->pairs = pairs.items, w->out->npairs = pairs.n;
  w->out->sums = sums.items, w->out->nsums = sums.n;
  arena_free(scratch);
}

static void find_insides(Shaping *w) {
  const Func *f = w->out->f;
  const size_t *owner = w->out->owner;
  const int *class = w->out->class;
  Arena *scratch = arena_new();
  size_t operands = 0;
  for (size_t i = 0; i < f->ops.n; i++) operands += (size_t)f->ops.items[i].nin;
  Keys keys = keys_new(scratch, operands);
  struct {
    InsideUse *items;
    size_t n, cap;
  } all = {0};
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    const KernelPart *part = cost_part(w->cost, f, op);
    for (int k = 0; k < op->nin && class[i] >= 0; k++) {
      size_t maker = (size_t)f->values.items[op->in[k]].op;
      if (!(part->inside >> k & 1) || class[maker] < 0) continue;
      const size_t key[] = {owner[maker], (size_t) class[maker], (size_t)value_index(f, op->in[k]),
                            owner[i],     (size_t) class[i],     (size_t)k};
      size_t number = (size_t)key_number(&keys, key, sizeof key);
      if (number == all.n) ARENA_PUSH(w->arena, &all, ((InsideUse){i, k, 0}));
      all.items[number].times++;
    }
  }
  w->out->insides = all.items, w->out->ninsides = all.n;
  arena_free(scratch);
}

/* Counts operations with the same variable, and finds the tables between variables. */
static void find_rest(Shaping *w) {
  const Func *f = w->out->f;
  double *times = ARENA_ARRAY(w->arena, double, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++) times[w->out->owner[i]] += w->out->mirrors.head[i] == i;
  w->out->times = times;
  find_fans(w);
  find_ties(w);
  find_insides(w);
}

/* By operation: the kernel of rows that computes it; -1 if none. */
static const int *kernels_of(const Shaping *w) {
  const Func *f = w->out->f;
  int *kernel = ARENA_ARRAY(w->arena, int, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++) {
    const KernelPart *part = cost_part(w->cost, f, &f->ops.items[i]);
    kernel[i] = part->kind == PART_ROWS ? part->kernel : -1;
  }
  return kernel;
}

const Shape *shape_of(Module *m, const CostModel *c, const Func *f, const Rule *const *rules, const OpLabels *labels,
                      const LoopCosts *loops) {
  return shape_of_marked(m, c, f, rules, labels, loops, NULL);
}

const Shape *shape_of_marked(Module *m, const CostModel *c, const Func *f, const Rule *const *rules,
                             const OpLabels *labels, const LoopCosts *loops, const uint64_t *marks) {
  Shape *s = ARENA_NEW(m->arena, Shape);
  *s = (Shape){.f = f, .rules = rules, .labels = labels, .loops = loops, .same = weight_readers(m->arena, f)};
  Shaping w = {.m = m, .cost = c, .arena = m->arena, .marks = marks, .out = s};
  find_before(&w);
  find_forms(&w);
  find_time_factors(&w);
  s->mirrors = mirrors_of(m->arena, f, rules, &loops->loops, kernels_of(&w), marks);
  s->owner = s->mirrors.head;
  find_small(&w);
  find_classes(&w);
  find_rest(&w);
  return s;
}

/* ---- equal layers */

/* The place of an operation in any instance of a block except the first and the last.  An operation outside, as a
 * weight that the forward pass and gradients read, is placed with the first operation of a block that reads it. */
typedef struct Place {
  int block, index, operand; /* block: -1 if none; operand: by which it is read, -1 if it is in the block itself */
} Place;

static Place *find_places(Arena *a, const Func *f) {
  Blocks blocks = blocks_find(a, f);
  Place *places = ARENA_ARRAY(a, Place, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++) {
    BlockPlace p = blocks.places[i];
    bool middle = p.block >= 0 && p.instance > 0 && p.instance + 1 < blocks.items[p.block].instances;
    places[i] = middle ? (Place){p.block, p.index, -1} : (Place){-1, -1, -1};
  }
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; k < f->ops.items[i].nin && places[i].operand < 0 && places[i].block >= 0; k++) {
      size_t made = (size_t)f->values.items[f->ops.items[i].in[k]].op;
      if (blocks.places[made].block >= 0 || places[made].block >= 0) continue;
      places[made] = places[i];
      places[made].operand = k;
    }
  return places;
}

const Shape *shape_alike(Module *m, const CostModel *c, const Shape *s) {
  Shape *out = ARENA_NEW(m->arena, Shape);
  Shaping w = {.m = m, .cost = c, .arena = m->arena, .out = out};
  Arena *scratch = arena_new();
  Keys keys = keys_new(scratch, s->f->ops.n);
  const Place *places = find_places(scratch, s->f);
  size_t *owner = ARENA_ARRAY(m->arena, size_t, s->f->ops.n + 1),
         *first = ARENA_ARRAY(scratch, size_t, s->f->ops.n + 1);
  bool any = false;
  for (size_t i = 0; i < s->f->ops.n; i++) {
    const Place *p = &places[i];
    owner[i] = i;
    if (s->mirrors.head[i] != i || p->block < 0 || s->class[i] < 0) continue;
    const int key[] = {p->block, p->index, p->operand, s->class[i]};
    int before = keys.n, number = key_number(&keys, key, sizeof key);
    if (keys.n > before) first[number] = i;
    owner[i] = first[number];
    any |= owner[i] < i;
  }
  for (size_t i = 0; i < s->f->ops.n; i++) owner[i] = owner[s->mirrors.head[i]];
  arena_free(scratch);
  if (!any) return NULL;
  *out = *s;
  out->owner = owner;
  find_rest(&w);
  return out;
}
