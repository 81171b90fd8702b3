/* codegen/rows/row_order.c - the order of a stage's groups, and the bundles that share a launch.
 *
 * A group comes after all groups it needs; of those that could be next, the one whose last operation is first.
 *
 * In functions with an update (work_update.c), and in those that read states and write none, independent kernels share
 * a launch on devices with bundles, if there are no loops:
 *   - elementwise kernels of the update of a training step: weights and moments of all tensors, numbers such as the
 *     learning rate, totals of gradients (work_total.c);
 *   - short sums along other dimensions than the last that only the update reads: the second halves of gradients of
 *     biases.  They wait for the last one, so their operands must be small;
 *   - casts and concatenations of states: the weights in 16 bits, and those of heads side by side.  Gradients read them
 *     as well, so that most of them live on anyway.
 * A bundle comes before the first of its readers, or last.  So each of its members comes after the groups it needs, as
 * long as no two bundles wait for each other. */
#include "codegen/rows/row_work.h"
#include "ir/states.h"

/* ---- order */

typedef struct Order {
  const Work *w;
  Arena *arena;
  int *by_key, *key;          /* groups by their last operation, and the position of each in that order */
  uint64_t *waiting, **needs; /* a bit per group that is not done; for each group, the groups it needs */
  size_t words;
  int *done; /* groups in order */
  size_t ndone;
} Order;

static bool has_bit(const uint64_t *bits, int i) { return bits[i / 64] >> (i % 64) & 1; }
static void set_bit(uint64_t *bits, int i) { bits[i / 64] |= (uint64_t)1 << (i % 64); }
static void clear_bit(uint64_t *bits, int i) { bits[i / 64] &= ~((uint64_t)1 << (i % 64)); }

/* Finds the groups that must come before this one: those it reads, and those that they need. */
static const uint64_t *find_needs(Order *o, int g) {
  const GroupLinks *reads = &o->w->groups.items[g].reads;
  if (o->needs[g]) return o->needs[g];
  uint64_t *needs = ARENA_ARRAY(o->arena, uint64_t, o->words);
  for (size_t i = 0; i < reads->n; i++) {
    const uint64_t *more = find_needs(o, reads->items[i]);
    for (size_t k = 0; k < o->words; k++) needs[k] |= more[k];
    set_bit(needs, reads->items[i]);
  }
  return o->needs[g] = needs;
}

/* Returns the first group in that order that the group needs and that is not done; -1 if none. */
static int first_needed(const Order *o, const uint64_t *needs) {
  int first = -1;
  for (size_t i = 0; i < o->words; i++)
    for (uint64_t bits = needs[i] & o->waiting[i]; bits; bits &= bits - 1) {
      int x = (int)(64 * i) + __builtin_ctzll(bits);
      if (first < 0 || o->key[x] < o->key[first]) first = x;
    }
  return first;
}

static void visit(Order *o, int g) {
  const uint64_t *needs = find_needs(o, g);
  clear_bit(o->waiting, g);
  for (int x; (x = first_needed(o, needs)) >= 0;) visit(o, x);
  o->done[o->ndone++] = g;
}

/* Sorts the groups by their last operation; returns the number left after merging. */
static size_t sort_groups(Arena *scratch, const Work *w, int *by_key) {
  int *at = ARENA_ARRAY(scratch, int, w->ops.n + 1); /* last operation -> group + 1 */
  size_t n = 0;
  for (size_t g = 0; g < w->groups.n; g++) {
    const WorkGroup *x = &w->groups.items[g];
    if (!x->dead) at[x->ops[x->n - 1]] = (int)g + 1;
  }
  for (size_t i = 0; i < w->ops.n; i++)
    if (at[i]) by_key[n++] = at[i] - 1;
  return n;
}

/* ---- bundles */

typedef enum BundleKind { BUNDLE_NONE, BUNDLE_UPDATE, BUNDLE_SUMS, BUNDLE_CASTS } BundleKind;

typedef struct Bundle {
  BundleKind kind;
  int segment; /* of groups */
  bool done;
  GroupLinks groups;
} Bundle;

typedef struct Bundles {
  Work *w;
  Arena *arena;
  struct {
    Bundle *items;
    size_t n, cap;
  } list;
  int *done; /* groups in order */
  size_t ndone;
} Bundles;

static bool reads_table(const Work *w, Val v) {
  int def = work_def(w, v);
  if (def < 0 || !w->ops.items[def].virtual_) return false;
  const Op *op = w->ops.items[def].op;
  bool any = op->kind == OP_const && !op_attr(op, AT_value);
  for (int k = 0; k < op->nin; k++) any |= reads_table(w, op->in[k]);
  return any;
}

/* True for a kernel that can join a bundle: not a view, and without tables of numbers in its text. */
static bool is_kernel(const Work *w, const WorkGroup *g) {
  const Expr *offset;
  if (!g->fusable || (g->n == 1 && work_is_view(w, w->ops.items[g->ops[0]].op, &offset))) return false;
  for (int i = 0; i < g->n; i++) {
    const Op *op = w->ops.items[g->ops[i]].op;
    if (op->kind == OP_const && !op_attr(op, AT_value)) return false;
    for (int k = 0; k < op->nin; k++)
      if (reads_table(w, op->in[k])) return false;
  }
  return true;
}

static bool is_of_update(const Work *w, const WorkGroup *g) { return work_in_update(w, &w->ops.items[g->ops[0]]); }

static bool is_short_sum(const Work *w, const WorkGroup *g) {
  enum { MOST_TERMS = 64 };
  const WorkSpace *s = &g->space;
  if (!s->rows || s->reduced < 0 || s->reduced == s->ndims - 1 || !g->users.n) return false;
  if (work_expected(w->m, s->dims[s->reduced]) > MOST_TERMS) return false;
  for (int i = 0; i < g->n; i++) {
    const WorkOp *o = &w->ops.items[g->ops[i]];
    if (o->class == WC_ROW && o->op->kind != OP_reduce) return false;
  }
  for (size_t i = 0; i < g->users.n; i++)
    if (!is_of_update(w, &w->groups.items[g->users.items[i]])) return false;
  return true;
}

/* True if the value is a state, a moved one, or computed by the group. */
static bool is_from_state(const Work *w, Val v, int group) {
  int def = work_def(w, v);
  if (def < 0) return false;
  const WorkOp *o = &w->ops.items[def];
  bool all = o->virtual_ && o->op->nin > 0;
  for (int k = 0; all && k < o->op->nin; k++) all = is_from_state(w, o->op->in[k], group);
  return all || o->op->kind == OP_read || (!o->virtual_ && o->group == group);
}

static bool is_cast_of_state(const Work *w, const WorkGroup *g) {
  bool all = true;
  for (int i = 0; i < g->n; i++) {
    const WorkOp *o = &w->ops.items[g->ops[i]];
    all &= o->op->kind == OP_cast || o->op->kind == OP_concat;
    for (int k = 0; k < o->op->nin; k++) all = all && is_from_state(w, o->op->in[k], o->group);
  }
  return all;
}

/* True if the group reads a state that is away: a bundle would bring the states of all its members at once. */
static bool reads_away(const Work *w, const WorkGroup *g) {
  for (int i = 0; i < g->n; i++) {
    const Op *op = w->ops.items[g->ops[i]].op;
    for (int k = 0; k < op->nin; k++) {
      int def = work_def(w, op->in[k]);
      if (def >= 0 && state_is_away(w->m, w->ops.items[def].op)) return true;
    }
  }
  return false;
}

static BundleKind kind_of(const Work *w, const WorkGroup *g) {
  if (!is_kernel(w, g) || reads_away(w, g)) return BUNDLE_NONE;
  if (is_of_update(w, g)) return g->space.rows ? BUNDLE_NONE : BUNDLE_UPDATE;
  return is_cast_of_state(w, g) ? BUNDLE_CASTS : is_short_sum(w, g) ? BUNDLE_SUMS : BUNDLE_NONE;
}

/* Returns the bundle of a group, if the bundle still waits; else -1. */
static int waits_in(const Bundles *b, int group) {
  int i = b->w->groups.items[group].bundle;
  return i >= 0 && !b->list.items[i].done ? i : -1;
}

static void close_bundle(Bundles *b, int i);

static void close_read(Bundles *b, int group, int but) {
  const GroupLinks *reads = &b->w->groups.items[group].reads;
  for (size_t k = 0; k < reads->n; k++) {
    int i = waits_in(b, reads->items[k]);
    if (i >= 0 && i != but) close_bundle(b, i);
  }
}

/* Closes a bundle, after the groups it reads. */
static void close_bundle(Bundles *b, int i) {
  Bundle *x = &b->list.items[i];
  for (size_t k = 0; k < x->groups.n; k++) close_read(b, x->groups.items[k], i);
  for (size_t k = 0; k < x->groups.n; k++) b->done[b->ndone++] = x->groups.items[k];
  x->done = true;
}

/* True if a waiting bundle needs another one, directly or through its operands. */
static bool needs_bundle(const Bundles *b, int i, int other) {
  const Bundle *x = &b->list.items[i];
  if (i == other) return true;
  for (size_t k = 0; k < x->groups.n; k++) {
    const GroupLinks *reads = &b->w->groups.items[x->groups.items[k]].reads;
    for (size_t r = 0; r < reads->n; r++) {
      int from = waits_in(b, reads->items[r]);
      if (from >= 0 && from != i && needs_bundle(b, from, other)) return true;
    }
  }
  return false;
}

static void add_to_bundle(Bundles *b, int group, BundleKind kind) {
  WorkGroup *g = &b->w->groups.items[group];
  int to = -1;
  for (int i = 0; i < (int)b->list.n; i++) {
    const Bundle *x = &b->list.items[i];
    if (!x->done && x->kind == kind && x->segment == g->segment) to = i;
  }
  for (size_t k = 0; k < g->reads.n && to >= 0; k++) {
    int from = waits_in(b, g->reads.items[k]);
    if (from < 0 || !needs_bundle(b, from, to)) continue;
    close_bundle(b, from);
    to = -1;
  }
  if (to < 0) {
    to = (int)b->list.n;
    ARENA_PUSH(b->arena, &b->list, ((Bundle){.kind = kind, .segment = g->segment}));
  }
  ARENA_PUSH(b->arena, &b->list.items[to].groups, group);
  g->bundle = to;
}

static void close_all(Bundles *b) {
  for (int i = 0; i < (int)b->list.n; i++)
    if (!b->list.items[i].done) close_bundle(b, i);
}

/* Returns a group's turn: states and their casts, which need nothing else, come first; writes of states, which execute
 * nothing, come last, so that no bundle is closed for them. */
static int turn_of(const Work *w, const WorkGroup *g) {
  enum { FIRST, BETWEEN, LAST };
  const Op *op = w->ops.items[g->ops[0]].op;
  if (op->kind == OP_write) return LAST;
  return op->kind == OP_read || kind_of(w, g) == BUNDLE_CASTS ? FIRST : BETWEEN;
}

static const int *bundled(Work *w, Arena *scratch, const int *order, size_t n) {
  enum { TURNS = 3 };
  Bundles b = {.w = w, .arena = scratch, .done = ARENA_ARRAY(w->arena, int, n + 1)};
  for (int turn = 0; turn < TURNS; turn++)
    for (size_t i = 0; i < n; i++) {
      const WorkGroup *g = &w->groups.items[order[i]];
      if (turn_of(w, g) != turn) continue;
      BundleKind kind = kind_of(w, g);
      if (kind == BUNDLE_NONE) close_read(&b, order[i], -1), b.done[b.ndone++] = order[i];
      else add_to_bundle(&b, order[i], kind);
    }
  close_all(&b);
  for (size_t i = 0; i < b.list.n; i++)
    if (b.list.items[i].groups.n == 1) w->groups.items[b.list.items[i].groups.items[0]].bundle = -1;
  return b.done;
}

const int *work_order(Work *w, size_t *n) {
  Arena *scratch = arena_new();
  Order o = {.w = w, .arena = scratch, .words = w->groups.n / 64 + 1};
  o.by_key = ARENA_ARRAY(scratch, int, w->groups.n + 1);
  o.key = ARENA_ARRAY(scratch, int, w->groups.n + 1);
  o.waiting = ARENA_ARRAY(scratch, uint64_t, o.words);
  o.needs = ARENA_ARRAY(scratch, uint64_t *, w->groups.n + 1);
  o.done = ARENA_ARRAY(w->arena, int, w->groups.n + 1);
  *n = sort_groups(scratch, w, o.by_key);
  for (size_t i = 0; i < *n; i++) o.key[o.by_key[i]] = (int)i, set_bit(o.waiting, o.by_key[i]);
  for (size_t i = 0; i < *n; i++)
    if (has_bit(o.waiting, o.by_key[i])) visit(&o, o.by_key[i]);
  const int *order = w->all->bundles ? bundled(w, scratch, o.done, *n) : o.done;
  arena_free(scratch);
  return order;
}
