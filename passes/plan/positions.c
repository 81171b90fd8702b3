/* passes/plan/positions.c - see positions.h.
 *
 * The number of positions is bounded.  Positions crossed by one value are taken first, then those crossed by two, and
 * so on.
 */
#include "passes/plan/positions.h"

#include <stdlib.h>

#include "ir/joint.h"
#include "passes/facts/derived.h"
#include "passes/facts/home.h"

enum { MAX_POSITIONS = 600 };

static const size_t *find_first_users(Arena *a, const Func *f) {
  size_t *first = ARENA_ARRAY(a, size_t, f->values.n);
  for (size_t v = 0; v < f->values.n; v++) first[v] = f->ops.n;
  for (size_t i = f->ops.n; i-- > 0;)
    for (int j = 0; j < f->ops.items[i].nin; j++) first[f->ops.items[i].in[j]] = i;
  return first;
}

CutFacts cut_facts(Arena *a, const Func *f) {
  CutFacts k = {.f = f, .derived = derived_ops(a, f), .once = once_ops(a, f), .states = state_ops(a, f)};
  k.first_user = find_first_users(a, f);
  k.training = homes_of(a, f, k.derived);
  return k;
}

const Op *cut_read_of(const CutFacts *k, size_t write) {
  const Op *items = k->f->ops.items;
  size_t read = items[write].kind == OP_write ? state_first_read(&k->states, k->f, write) : SIZE_MAX;
  return read == SIZE_MAX ? NULL : &items[read];
}

/* Returns the first operation that uses the value read from a state, in any entry of a joint function. */
static size_t first_use(const CutFacts *k, size_t read) {
  size_t first = k->first_user[k->f->ops.items[read].out];
  for (size_t i = k->states.next[read]; k->f->joint && i != SIZE_MAX; i = k->states.next[i]) {
    const Op *op = &k->f->ops.items[i];
    if (op->kind == OP_read && k->first_user[op->out] < first) first = k->first_user[op->out];
  }
  return first;
}

static void forbid(bool *forbidden, size_t from, size_t to) {
  for (size_t i = from + 1; i <= to; i++) forbidden[i] = true;
}

/* Entries of a joint function use a state in one stage, including those that only read it. */
static void forbid_between_entries(const CutFacts *k, bool *forbidden) {
  for (size_t i = 0; k->f->joint && i < k->f->ops.n; i++) {
    if (k->f->ops.items[i].kind != OP_read) continue;
    size_t used = k->first_user[k->f->ops.items[i].out];
    if (used < k->f->ops.n) forbid(forbidden, first_use(k, state_first_read(&k->states, k->f, i)), used);
  }
}

/* Marks forbidden positions: between the first use of a state and the operation that makes its new value, because both
 * run in the stage that keeps the state (updates of weights are there anyway), and inside loops. */
static bool *find_forbidden(Arena *a, const CutFacts *k, const Loops *loops) {
  bool *forbidden = ARENA_ARRAY(a, bool, k->f->ops.n + 1);
  for (int l = 0; l < loops->n; l++) forbid(forbidden, loops->items[l].begin, loops->items[l].end - 1);
  for (size_t w = 0; w < k->f->ops.n; w++) {
    const Op *write = &k->f->ops.items[w], *read = cut_read_of(k, w);
    if (!read || write->mirror.name) continue;
    size_t made = (size_t)k->f->values.items[write->in[0]].op;
    if (op_is_source(k->f->ops.items[made].kind) || k->derived[made]) continue;
    forbid(forbidden, first_use(k, func_op_index(k->f, read)), made);
  }
  forbid_between_entries(k, forbidden);
  return forbidden;
}

/* True if a stage may begin here: stages of a training step cut its forward pass. */
static bool can_cut_at(const CutFacts *k, size_t i) { return !k->training || k->training[i] == i; }

/* True if a stage may begin here; a cut after a source equals the one before it. */
static bool may_begin(const CutFacts *k, const bool *forbidden, int i) {
  const Joint *joint = k->f->joint;
  if (joint && joint->of[i] != 0) return false; /* operations at one place of several entries are in one stage */
  return !op_is_source(k->f->ops.items[i - 1].kind) && !forbidden[i] && can_cut_at(k, (size_t)i);
}

/* If there are more positions than room, evenly spread ones are taken, so that no long run remains at the end. */
static bool is_spread(int i, int all, int room) {
  return all <= room || (int64_t)(i + 1) * room / all > (int64_t)i * room / all;
}

static int by_number(const void *x, const void *y) { return *(const int *)x - *(const int *)y; }

/* By value: the last operation that reads it and where a stage may begin; its maker if it crosses no position. */
static int *find_last_readers(Arena *a, const CutFacts *k) {
  const Func *f = k->f;
  int *last = ARENA_ARRAY(a, int, f->values.n);
  for (size_t i = 0; i < f->ops.n; i++)
    for (int j = 0; j < f->ops.items[i].nin && can_cut_at(k, i); j++) last[f->ops.items[i].in[j]] = (int)i;
  for (Val v = 1; v < f->values.n; v++) {
    int made = f->values.items[v].op;
    bool none = op_is_source(f->ops.items[made].kind) || k->derived[made] || !can_cut_at(k, (size_t)made);
    if (none || last[v] < made) last[v] = made;
  }
  return last;
}

CutPositions cut_positions(Arena *a, const CutFacts *k, const Loops *loops, int stages) {
  const Func *f = k->f;
  int n = (int)f->ops.n, *crossing = ARENA_ARRAY(a, int, n + 2), most = 0;
  const int *last = find_last_readers(a, k);
  for (Val v = 1; v < f->values.n; v++) crossing[f->values.items[v].op + 1]++, crossing[last[v] + 1]--;
  for (int i = 1; i < n; i++) crossing[i] += crossing[i - 1];
  for (int i = 1; i < n; i++) most = crossing[i] > most ? crossing[i] : most;
  const bool *forbidden = find_forbidden(a, k, loops);
  CutPositions p = {.at = ARENA_ARRAY(a, int, n + 2)};
  p.at[p.n++] = 0;
  int wanted = 4 * stages > 32 ? 4 * stages : 32;
  for (int limit = 1; limit <= most && p.n < wanted; limit++) {
    int all = 0, room = MAX_POSITIONS - p.n, seen = 0;
    for (int i = 1; i < n; i++) all += crossing[i] == limit && may_begin(k, forbidden, i);
    for (int i = 1; i < n; i++)
      if (crossing[i] == limit && may_begin(k, forbidden, i) && is_spread(seen++, all, room)) p.at[p.n++] = i;
  }
  p.at[p.n++] = n;
  qsort(p.at, (size_t)p.n, sizeof(int), by_number);
  return p;
}

/* Returns the first position at or after the operation. */
static int position_from(const CutPositions *p, int op) {
  int low = 0, high = p->n - 1;
  while (low < high) {
    int middle = (low + high) / 2;
    if (p->at[middle] < op) low = middle + 1;
    else high = middle;
  }
  return low;
}

CutCrossing cut_crossing(Arena *a, const CutFacts *k, const CutPositions *p) {
  const Func *f = k->f;
  const int *last = find_last_readers(a, k);
  CutCrossing out = {.starts = ARENA_ARRAY(a, size_t, p->n + 2)};
  for (Val v = 1; v < f->values.n; v++)
    for (int i = position_from(p, f->values.items[v].op + 1); p->at[i] <= last[v]; i++) out.starts[i + 2]++;
  for (int i = 0; i < p->n; i++) out.starts[i + 2] += out.starts[i + 1];
  out.makers = ARENA_ARRAY(a, size_t, out.starts[p->n + 1] + 1);
  for (Val v = 1; v < f->values.n; v++)
    for (int i = position_from(p, f->values.items[v].op + 1); p->at[i] <= last[v]; i++)
      out.makers[out.starts[i + 1]++] = (size_t)f->values.items[v].op;
  return out;
}
