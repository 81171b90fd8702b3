/* passes/facts/blocks.c - see blocks.h.
 *
 * In: a flat level-1 function.  Out: the block, instance and index of each operation.
 *
 * 1. Sources (weights, constants, reads), inputs and writes are set aside; the rest is a word whose letters are classes
 *    of operations with equal kind, attributes and types.
 * 2. All maximal runs of the word (repetitions with a period) are found with the runs theorem: every run has a longest
 *    Lyndon factor of its period's length for one of two orders of the letters (Bannai, I, Inenaga, Nakashima, Takeda,
 *    Tsuruta: "The runs theorem", SIAM J. Comput. 46, 2017).  Suffixes are compared with names of factors of length 2^h
 *    (Karp, Miller, Rosenberg 1972).
 * 3. Longest periods first, each run is cut into instances where the fewest values cross, then into the most instances,
 *    then where the numbers in names change.
 * 4. Neighbouring instances stay in one block while their operands come from the same places; sources and writes join
 *    them.
 *
 * Not supported: repetitions with other operations in between, and blocks inside blocks.
 */
#include "passes/facts/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { MIN_PERIOD = 2, MIN_LETTERS = 8 }; /* smaller repetitions are ignored */

typedef struct Run {
  size_t start, end, period;
} Run;

typedef struct Finder {
  Arena *a;
  const Func *f;
  size_t n;         /* letters */
  uint32_t *op;     /* by letter: its operation */
  uint32_t *at;     /* by operation: its letter; UINT32_MAX if none */
  uint32_t **names; /* by h and place: the name of the factor of length 2^h there */
  int levels;
  uint32_t *first,
      *last;   /* by value: letters of its first and last use; last is n for outputs, and for writes of sources */
  bool *taken; /* by letter */
  struct {
    Run *items;
    size_t n, cap;
  } runs;
  struct {
    Block *items;
    size_t n, cap;
  } blocks;
  struct WriteList {
    uint32_t *items;
    size_t n, cap;
  } * writes; /* by value */
} Finder;

bool blocks_is_source(OpKind k) { return op_is_source(k) && k != OP_input; }

static bool is_letter(const Op *op) { return op->out && !op_is_source(op->kind); }

/* ---- letters */

/* Names and numbers of sources do not distinguish blocks. */
static bool is_content(OpKind k, AttrKey key) {
  return blocks_is_source(k) &&
         (key == AT_name || key == AT_value || key == AT_ints || key == AT_floats || key == AT_seed);
}

static bool same_letter(const Func *f, const Op *x, const Op *y) {
  if (x->kind != y->kind || x->nin != y->nin || x->nattrs != y->nattrs || x->nout != y->nout) return false;
  if (!x->mirror.name != !y->mirror.name || x->mirror.operand != y->mirror.operand) return false;
  for (int i = 0; i < x->nout; i++)
    if (type_of(f, x->out + (Val)i) != type_of(f, y->out + (Val)i)) return false;
  for (int i = 0; i < x->nin; i++)
    if (type_of(f, x->in[i]) != type_of(f, y->in[i])) return false;
  for (int i = 0; i < x->nattrs; i++) {
    if (is_content(x->kind, x->attrs[i].key) ? x->attrs[i].key != y->attrs[i].key
                                             : !attr_equal(&x->attrs[i], &y->attrs[i]))
      return false;
  }
  return true;
}

static uint64_t letter_hash(const Func *f, const Op *op) {
  uint64_t h = hash64_mix((uint64_t)op->kind, (uint64_t)op->nin);
  const Type *t = type_of(f, op->out);
  h = hash64_mix(h, (uint64_t)t->dtype * 64 + (uint64_t)t->rank);
  for (int d = 0; d < t->rank; d++) h = hash64_mix(h, t->dims[d]->hash);
  for (int i = 0; i < op->nattrs; i++) h = hash64_mix(h, (uint64_t)op->attrs[i].key);
  return h;
}

/* Numbers letters in the order of their first use, so that their order depends on the function and not on hashes. */
static void name_letters(Finder *w) {
  size_t cap = 4;
  while (cap < 2 * (w->n + 1)) cap *= 2;
  uint32_t *slots = ARENA_ARRAY(w->a, uint32_t, cap), *names = w->names[0],
           used = 0; /* slots hold the position of a letter, plus 1 */
  for (size_t i = 0; i < w->n; i++) {
    const Op *op = &w->f->ops.items[w->op[i]];
    size_t s = letter_hash(w->f, op) & (cap - 1);
    while (slots[s] && !same_letter(w->f, &w->f->ops.items[w->op[slots[s] - 1]], op)) s = (s + 1) & (cap - 1);
    if (!slots[s]) {
      slots[s] = (uint32_t)i + 1;
      names[i] = used++;
    } else {
      names[i] = names[slots[s] - 1];
    }
  }
}

/* Names factors of twice the length by pairs of names. */
static void name_factors(Finder *w, int level) {
  size_t half = (size_t)1 << (level - 1), cap = 4;
  while (cap < 2 * (w->n + 1)) cap *= 2;
  const uint32_t *shorter = w->names[level - 1];
  uint32_t *slots = ARENA_ARRAY(w->a, uint32_t, cap), *names = w->names[level] = ARENA_ARRAY(w->a, uint32_t, w->n + 1),
           used = 0;
  for (size_t i = 0; i + 2 * half <= w->n; i++) {
    size_t s = hash64_mix(shorter[i], shorter[i + half]) & (cap - 1);
    while (slots[s] && (shorter[slots[s] - 1] != shorter[i] || shorter[slots[s] - 1 + half] != shorter[i + half]))
      s = (s + 1) & (cap - 1);
    if (!slots[s]) {
      slots[s] = (uint32_t)i + 1;
      names[i] = used++;
    } else {
      names[i] = names[slots[s] - 1];
    }
  }
}

static void make_word(Finder *w) {
  w->op = ARENA_ARRAY(w->a, uint32_t, w->f->ops.n + 1);
  w->at = ARENA_ARRAY(w->a, uint32_t, w->f->ops.n + 1);
  for (size_t i = 0; i < w->f->ops.n; i++) {
    bool letter = is_letter(&w->f->ops.items[i]);
    w->at[i] = letter ? (uint32_t)w->n : UINT32_MAX;
    if (letter) w->op[w->n++] = (uint32_t)i;
  }
  while ((size_t)1 << w->levels <= w->n) w->levels++;
  w->names = ARENA_ARRAY(w->a, uint32_t *, w->levels + 1);
  w->names[0] = ARENA_ARRAY(w->a, uint32_t, w->n + 1);
  name_letters(w);
  for (int h = 1; h < w->levels; h++) name_factors(w, h);
}

/* ---- runs */

/* Returns the length of the common prefix of the suffixes at i < j. */
static size_t common_forward(const Finder *w, size_t i, size_t j) {
  size_t k = 0;
  if (j >= w->n || w->names[0][i] != w->names[0][j]) return 0; /* the usual case */
  for (int h = w->levels; h-- > 0;)
    if (j + k + ((size_t)1 << h) <= w->n && w->names[h][i + k] == w->names[h][j + k]) k += (size_t)1 << h;
  return k;
}

/* Returns the length of the common suffix of the prefixes that end before i < j. */
static size_t common_backward(const Finder *w, size_t i, size_t j) {
  size_t k = 0;
  if (!i || w->names[0][i - 1] != w->names[0][j - 1]) return 0;
  for (int h = w->levels; h-- > 0;) {
    size_t step = (size_t)1 << h;
    if (i >= k + step && w->names[h][i - k - step] == w->names[h][j - k - step]) k += step;
  }
  return k;
}

/* True if the suffix at i is smaller than that at j > i.  A proper prefix is smaller in both orders. */
static bool smaller(const Finder *w, size_t i, size_t j, bool reversed) {
  size_t k = common_forward(w, i, j);
  return j + k < w->n && (w->names[0][i + k] < w->names[0][j + k]) != reversed;
}

static void add_run(Finder *w, size_t i, size_t period) {
  if (i + period >= w->n) return;
  Run r = {i - common_backward(w, i, i + period), i + period + common_forward(w, i, i + period), period};
  if (period >= MIN_PERIOD && r.end - r.start >= 2 * period) ARENA_PUSH(w->a, &w->runs, r);
}

/* The longest Lyndon factor at i ends where the next smaller suffix begins. */
static void find_runs(Finder *w, bool reversed) {
  size_t *next = ARENA_ARRAY(w->a, size_t, w->n + 1);
  for (size_t i = w->n; i-- > 0;) {
    size_t j = i + 1;
    while (j < w->n && smaller(w, i, j, reversed)) j = next[j];
    next[i] = j;
    add_run(w, i, j - i);
  }
}

static int by_period(const void *x, const void *y) {
  const Run *a = x, *b = y;
  if (a->period != b->period) return a->period > b->period ? -1 : 1;
  return a->start < b->start ? -1 : a->start > b->start;
}

/* ---- cutting runs */

static const char *letter_name(const Finder *w, size_t letter) { return w->f->ops.items[w->op[letter]].name; }

/* Returns the first run of digits in which two names differ, as in x; *n is 0 if they differ elsewhere or not at
 * all. */
static const char *number_that_differs(const char *x, const char *y, size_t *n) {
  size_t i = 0;
  while (x[i] && x[i] == y[i]) i++;
  while (i && x[i - 1] >= '0' && x[i - 1] <= '9') i--;
  *n = strspn(x + i, "0123456789");
  return x + i;
}

/* Returns, as prefix sums by letter of the run, how often the numbers in names change.  Letters without a counterpart
 * one period later do not count. */
static int *name_changes(const Finder *w, const Run *r) {
  int *sum = ARENA_ARRAY(w->a, int, r->end - r->start + 1);
  const char *before = NULL;
  size_t nbefore = 0;
  for (size_t i = r->start; i < r->end; i++) {
    size_t n = 0;
    const char *s =
        i + r->period < r->end ? number_that_differs(letter_name(w, i), letter_name(w, i + r->period), &n) : NULL;
    bool changes = n && before && (n != nbefore || memcmp(s, before, n) != 0);
    sum[i - r->start + 1] = sum[i - r->start] + changes;
    if (n) before = s, nbefore = n;
  }
  return sum;
}

static size_t last_of(const Finder *w, const Op *op) {
  size_t last = 0;
  for (Val v = op->out; v < op_end(op); v++) last = w->last[v] > last ? w->last[v] : last;
  return last;
}

/* Counts, by letter, the earlier operations of the period whose results are used at or after that letter. */
static int *crossings(const Finder *w, const Run *r) {
  int *change = ARENA_ARRAY(w->a, int, r->end - r->start + 2);
  for (size_t i = r->start; i < r->end; i++) {
    size_t last = last_of(w, &w->f->ops.items[w->op[i]]), limit = i + r->period < r->end ? i + r->period : r->end;
    if (last > limit) last = limit;
    if (last <= i) continue;
    change[i + 1 - r->start]++;
    change[last + 1 - r->start]--;
  }
  for (size_t i = r->start + 1; i <= r->end; i++) change[i - r->start] += change[i - r->start - 1];
  return change;
}

static size_t best_cut(const Finder *w, const Run *r) {
  const int *across = crossings(w, r), *changes = name_changes(w, r);
  size_t best = r->start, p = r->period;
  for (size_t c = r->start + 1; c < r->start + p && c + 2 * p <= r->end; c++) {
    int x = across[c + p - r->start] - across[best + p - r->start];
    size_t k = (r->end - c) / p, kbest = (r->end - best) / p;
    int y = changes[c + p - r->start] - changes[c + 1 - r->start],
        ybest = changes[best + p - r->start] - changes[best + 1 - r->start];
    if (x < 0 || (x == 0 && (k > kbest || (k == kbest && y < ybest)))) best = c;
  }
  return best;
}

/* ---- from instances to blocks */

/* The operations of an instance in the order of their index: letters, each after the sources that only this instance
 * uses, writes after the values they write.  `wiring` says where every operand comes from. */
typedef struct Instance {
  struct {
    uint32_t *items;
    size_t n, cap;
  } ops;
  struct {
    int64_t *items;
    size_t n, cap;
  } wiring;
} Instance;

enum { FROM_OUTSIDE = -1, A_WRITE = -2 };

/* True if only the letters [start, start + period) use the source. */
static bool is_private(const Finder *w, Val v, size_t start, size_t period) {
  return blocks_is_source(op_of(w->f, v)->kind) && w->first[v] >= start && w->last[v] < start + period;
}

static void add_operand(const Finder *w, Instance *x, int64_t *index, Val v, size_t start, size_t period) {
  uint32_t op = (uint32_t)w->f->values.items[v].op, letter = w->at[op];
  int64_t from = FROM_OUTSIDE;
  if (is_private(w, v, start, period)) {
    if (index[op] < 0) {
      index[op] = (int64_t)x->ops.n;
      ARENA_PUSH(w->a, &x->ops, op);
    }
    from = index[op] * MAX_RESULTS + value_index(w->f, v);
  } else if (letter != UINT32_MAX && letter >= start) {
    from = index[op] * MAX_RESULTS + value_index(w->f, v);
  }
  ARENA_PUSH(w->a, &x->wiring, from);
}

/* `index` is by operation: -1 before and after the call. */
static Instance instance_at(const Finder *w, int64_t *index, size_t start, size_t period) {
  Instance x = {{0}, {0}};
  for (size_t i = start; i < start + period; i++) {
    const Op *op = &w->f->ops.items[w->op[i]];
    for (int k = 0; k < op->nin; k++) add_operand(w, &x, index, op->in[k], start, period);
    index[w->op[i]] = (int64_t)x.ops.n;
    ARENA_PUSH(w->a, &x.ops, w->op[i]);
    for (Val v = op->out; v < op_end(op); v++)
      for (size_t k = 0; k < w->writes[v].n; k++) {
        int64_t mark = A_WRITE;
        ARENA_PUSH(w->a, &x.wiring, mark);
        ARENA_PUSH(w->a, &x.ops, w->writes[v].items[k]);
      }
  }
  for (size_t i = 0; i < x.ops.n; i++) index[x.ops.items[i]] = -1;
  return x;
}

static bool same_instance(const Func *f, const Instance *x, const Instance *y) {
  if (x->ops.n != y->ops.n || x->wiring.n != y->wiring.n) return false;
  if (x->wiring.n && memcmp(x->wiring.items, y->wiring.items, sizeof *x->wiring.items * x->wiring.n) != 0) return false;
  for (size_t i = 0; i < x->ops.n; i++) {
    const Op *a = &f->ops.items[x->ops.items[i]], *b = &f->ops.items[y->ops.items[i]];
    if (a->kind != b->kind || (a->out && !same_letter(f, a, b))) return false;
  }
  return true;
}

static void add_block(Finder *w, const Instance *instances, size_t n, size_t start, size_t period) {
  if (n < 2 || n * period < MIN_LETTERS) return;
  size_t size = instances->ops.n;
  uint32_t *ops = ARENA_ARRAY(w->a, uint32_t, n * size);
  for (size_t j = 0; j < n; j++) memcpy(ops + j * size, instances[j].ops.items, sizeof *ops * size);
  Block b = {(int)size, (int)n, ops};
  ARENA_PUSH(w->a, &w->blocks, b);
  for (size_t i = start; i < start + n * period; i++) w->taken[i] = true;
}

static void cut_run(Finder *w, const Run *r, int64_t *index) {
  size_t p = r->period, c = best_cut(w, r), k = (r->end - c) / p, from = 0;
  Instance *x = ARENA_ARRAY(w->a, Instance, k);
  for (size_t j = 0; j < k; j++) x[j] = instance_at(w, index, c + j * p, p);
  for (size_t j = 1; j <= k; j++) {
    if (j < k && same_instance(w->f, &x[from], &x[j])) continue;
    add_block(w, x + from, j - from, c + from * p, p);
    from = j;
  }
}

/* Cuts those parts of the run that no block has taken yet. */
static void take_run(Finder *w, const Run *r, int64_t *index) {
  for (size_t i = r->start; i < r->end;) {
    size_t end = i;
    while (end < r->end && !w->taken[end]) end++;
    if (end - i >= 2 * r->period) cut_run(w, &(Run){i, end, r->period}, index);
    i = end;
    while (i < r->end && w->taken[i]) i++;
  }
}

/* ---- the whole function */

static void find_uses(Finder *w) {
  const Func *f = w->f;
  w->first = ARENA_ARRAY(w->a, uint32_t, f->values.n);
  w->last = ARENA_ARRAY(w->a, uint32_t, f->values.n);
  w->writes = arena_alloc(w->a, sizeof *w->writes * f->values.n);
  for (size_t v = 0; v < f->values.n; v++) w->first[v] = UINT32_MAX;
  for (size_t i = 0; i < w->n; i++) {
    const Op *op = &f->ops.items[w->op[i]];
    for (int k = 0; k < op->nin; k++) {
      if (w->first[op->in[k]] == UINT32_MAX) w->first[op->in[k]] = (uint32_t)i;
      w->last[op->in[k]] = (uint32_t)i;
    }
  }
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (op->out) continue; /* a write belongs to the value it writes; a repeat counts after its loop */
    if (is_letter(op_of(f, op->in[0]))) ARENA_PUSH(w->a, &w->writes[op->in[0]], (uint32_t)i);
    else w->last[op->in[0]] = (uint32_t)w->n;
  }
  for (size_t i = 0; i < f->outputs.n; i++) w->last[f->outputs.items[i].value] = (uint32_t)w->n;
}

static int by_first_op(const void *x, const void *y) {
  const Block *a = x, *b = y;
  return a->ops[0] < b->ops[0] ? -1 : a->ops[0] > b->ops[0];
}

static Blocks result(Finder *w, Arena *out) {
  BlockPlace *places = ARENA_ARRAY(out, BlockPlace, w->f->ops.n);
  Block *items = ARENA_ARRAY(out, Block, w->blocks.n);
  for (size_t i = 0; i < w->f->ops.n; i++) places[i].block = -1;
  if (w->blocks.n) qsort(w->blocks.items, w->blocks.n, sizeof *w->blocks.items, by_first_op);
  for (size_t b = 0; b < w->blocks.n; b++) {
    const Block *from = &w->blocks.items[b];
    int n = from->size * from->instances;
    uint32_t *ops = ARENA_ARRAY(out, uint32_t, n);
    memcpy(ops, from->ops, sizeof *ops * (size_t)n);
    for (int i = 0; i < n; i++) places[ops[i]] = (BlockPlace){(int)b, i / from->size, i % from->size};
    items[b] = (Block){from->size, from->instances, ops};
  }
  return (Blocks){(int)w->blocks.n, items, places};
}

Blocks blocks_find(Arena *out, const Func *f) {
  Finder w = {.a = arena_new(), .f = f};
  make_word(&w);
  find_uses(&w);
  find_runs(&w, false);
  find_runs(&w, true);
  if (w.runs.n) qsort(w.runs.items, w.runs.n, sizeof *w.runs.items, by_period);
  w.taken = ARENA_ARRAY(w.a, bool, w.n + 1);
  int64_t *index = ARENA_ARRAY(w.a, int64_t, f->ops.n);
  for (size_t i = 0; i < f->ops.n; i++) index[i] = -1;
  for (size_t i = 0; i < w.runs.n; i++)
    if (i == 0 || by_period(&w.runs.items[i - 1], &w.runs.items[i]) != 0) take_run(&w, &w.runs.items[i], index);
  Blocks b = result(&w, out);
  arena_free(w.a);
  return b;
}
