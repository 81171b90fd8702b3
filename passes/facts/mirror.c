/* passes/facts/mirror.c - see mirror.h. */
#include "passes/facts/mirror.h"

#include <string.h>

#include "ir/named.h"
#include "passes/facts/derived.h"

typedef struct Uses {
  size_t *items; /* operations, one for each operand */
  size_t n, cap;
} Uses;

typedef struct Finding {
  Arena *arena;
  const Func *f;
  const Rule *const *rules;
  const bool *fixed;
  const Loops *loops;
  const int *kernel;     /* by operation; NULL if kernels do not matter */
  const uint64_t *marks; /* by operation; NULL if the user gives none a layout */
  size_t *first_of;      /* by kernel: the operation that the others may follow, plus 1; 0 if none so far */
  bool *in_kernel;       /* by operation: it follows the first operation of its kernel */
  size_t *head, *sum_of, *first_sum;
  size_t *derived_from; /* by operation: the followed operation that it is the derivative of; SIZE_MAX if none */
  bool *partial;        /* by value */
  Uses *uses;           /* by value */
  bool *made_whole;     /* by operation: its kernel needs its result without partial sums */
  bool *adds_up;        /* by operation: it may combine several partial sums */
  int8_t **factors;
  int *nfollowers;
  size_t **followers;
  int8_t (*known)[MAX_RANK]; /* by value and dimension: the head's factor; -1 if unknown */
  Val *touched;              /* values with known factors */
  size_t ntouched;
} Finding;

/* ---- followers */

/* Only the major one of several factors of a dimension can be split. */
static int major_factor(const TensorFactors *t, int d) { return t->dims[d].n ? t->dims[d].f[0] : -1; }

static int8_t *unknown_factors(Finding *w, size_t i) {
  int n = w->rules[i]->nfactors;
  int8_t *factors = ARENA_ARRAY(w->arena, int8_t, n + 1);
  memset(factors, -1, (size_t)n);
  return factors;
}

/* Returns the operands that are that value, as a bit set. */
static uint32_t operands_of(const Op *op, Val v) {
  uint32_t mask = 0;
  for (int k = 0; k < op->nin && k < 32; k++) mask |= (uint32_t)(op->in[k] == v) << k;
  return mask;
}

/* True if the operation may read the value as a partial sum. */
static bool takes_sums(const Finding *w, size_t i, Val v) {
  const Rule *r = w->rules[i];
  uint32_t mask = operands_of(&w->f->ops.items[i], v);
  bool any = false;
  for (int k = 0; k < r->nfactors; k++) any |= r->factors[k].kind == FK_LINEAR && !(mask & ~r->factors[k].operands);
  return any && mask;
}

/* True if another operation of the same kernel needs the value without partial sums, so that this one reads it so,
 * too. */
static bool is_whole_in_kernel(const Finding *w, size_t i, Val v) {
  if (!w->kernel || w->kernel[i] < 0) return false;
  for (size_t k = 0; k < w->uses[v].n; k++) {
    size_t user = w->uses[v].items[k];
    if (w->kernel[user] != w->kernel[i]) continue;
    if (!takes_sums(w, user, v) || (w->made_whole[user] && !w->adds_up[user])) return true;
  }
  return false;
}

/* Finds operations whose kernel combines several values that may be partial sums; their result is then reduced, in
 * place of each of these values. */
static void find_adds_up(Finding *w) {
  Val *from = ARENA_ARRAY(w->arena, Val, w->f->values.n); /* 0 if none */
  w->adds_up = ARENA_ARRAY(w->arena, bool, w->f->ops.n + 1);
  for (size_t i = 0; i < w->f->ops.n; i++) {
    const Op *op = &w->f->ops.items[i];
    Val one = 0;
    for (int k = 0; k < op->nin && w->kernel[i] >= 0; k++) {
      Val v = op->in[k];
      size_t made = (size_t)w->f->values.items[v].op;
      bool inside = w->kernel[made] == w->kernel[i], never = w->fixed[made] || op_of(w->f, v)->kind == OP_broadcast;
      Val is = inside ? from[v] : never || op_is_source(op_of(w->f, v)->kind) ? 0 : v;
      w->adds_up[i] |= (inside && w->adds_up[made]) || (one && is && one != is);
      one = is ? is : one;
    }
    for (Val v = op->out; v && v < op_end(op); v++) from[v] = one;
  }
}

/* Finds the operations that make such values. */
static void find_made_whole(Finding *w) {
  w->made_whole = ARENA_ARRAY(w->arena, bool, w->f->ops.n + 1);
  for (size_t i = w->f->ops.n; i-- > 0;)
    for (Val v = w->f->ops.items[i].out; v && v < op_end(&w->f->ops.items[i]); v++)
      w->made_whole[i] |= is_whole_in_kernel(w, i, v);
}

static bool reads_sum(const Finding *w, size_t i, int operand) {
  Val v = w->f->ops.items[i].in[operand];
  return w->partial[v] && !is_whole_in_kernel(w, i, v);
}

/* True if the operation may pass a partial sum on; it then has a variable of its own. */
static bool passes_sums(const Finding *w, size_t i) {
  const Op *op = &w->f->ops.items[i];
  const Rule *r = w->rules[i];
  bool any = false;
  for (int k = 0; k < r->nfactors; k++)
    for (int j = 0; j < op->nin && j < 32 && r->factors[k].kind == FK_LINEAR; j++)
      any |= (r->factors[k].operands >> j & 1u) && reads_sum(w, i, j);
  return any;
}

/* True if only dimensions of results can be split. */
static bool is_parallel(const Rule *r) {
  bool all = true;
  for (int k = 0; k < r->nfactors; k++) {
    FactorKind kind = r->factors[k].kind;
    all &= kind == FK_PARALLEL || kind == FK_FROZEN || kind == FK_LINEAR;
  }
  return all;
}

static bool in_kernel_of(const Finding *w, size_t i, size_t first) {
  return i == first || (w->in_kernel[i] && w->head[i] == first);
}

/* Returns the factor of a kernel's first operation that a dimension belongs to, for values that the kernel makes or its
 * first operation reads; -1 for others. */
static int factor_in_kernel(const Finding *w, size_t first, Val v, int d) {
  size_t made = (size_t)w->f->values.items[v].op;
  const Op *head = &w->f->ops.items[first];
  if (in_kernel_of(w, made, first)) {
    int k = major_factor(&w->rules[made]->results[value_index(w->f, v)], d);
    return k >= 0 && made != first ? w->factors[made][k] : k;
  }
  for (int i = 0; i < head->nin; i++)
    if (head->in[i] == v) return major_factor(&w->rules[first]->operands[i], d);
  return -1;
}

/* True if every factor that can be split has a factor of the head, and different factors have different ones. */
static bool are_apart(const Rule *r, const int8_t *factors) {
  bool all = true;
  for (int k = 0; k < r->nfactors; k++) {
    if (r->factors[k].kind != FK_PARALLEL || ex_is_const(r->factors[k].size, 1)) continue;
    all &= factors[k] >= 0;
    for (int j = 0; j < k; j++) all &= factors[j] < 0 || factors[j] != factors[k];
  }
  return all;
}

/* False if some factor has no known factor of the head. */
static bool find_factors_in_kernel(Finding *w, size_t first, size_t i) {
  const Op *op = &w->f->ops.items[i];
  const Rule *r = w->rules[i];
  int8_t *factors = w->factors[i] = unknown_factors(w, i);
  for (int k = 0; k < op->nin; k++)
    for (int d = 0; d < r->operands[k].rank; d++) {
      int at = major_factor(&r->operands[k], d);
      if (at >= 0 && factors[at] < 0) factors[at] = (int8_t)factor_in_kernel(w, first, op->in[k], d);
    }
  return are_apart(r, factors);
}

/* Derivatives, fixed operations, operations in loops, and those whose layout the user gives neither follow nor are
 * followed within their kernel. */
static bool may_share(const Finding *w, size_t i) {
  const bool given = w->marks && w->marks[i];
  return w->kernel && !given && !w->f->ops.items[i].mirror.name && !w->fixed[i] && w->loops->of[i] < 0;
}

/* Operations of one kernel, computed dimension by dimension, share the strategy of its first operation, which is
 * returned; SIZE_MAX if it is this one, or if this one has a variable of its own. */
static size_t first_of_kernel(Finding *w, size_t i) {
  const Op *op = &w->f->ops.items[i];
  if (!may_share(w, i) || w->kernel[i] < 0) return SIZE_MAX;
  if (op->kind == OP_accumulate || !is_parallel(w->rules[i]) || passes_sums(w, i)) return SIZE_MAX;
  size_t *first = &w->first_of[w->kernel[i]];
  if (*first && w->f->ops.items[*first - 1].phase == op->phase && find_factors_in_kernel(w, *first - 1, i))
    return *first - 1;
  w->factors[i] = NULL;
  if (!*first) *first = i + 1;
  return SIZE_MAX;
}

/* The factors of a slice, from those of the operation that makes its operand.  A partial sum is reduced
 * before the slice. */
static void find_factors_of_slice(Finding *w, size_t i, size_t made) {
  const TensorFactors *from = &w->rules[made]->results[value_index(w->f, w->f->ops.items[i].in[0])];
  const Rule *r = w->rules[i];
  const int8_t *map = w->head[made] == made ? NULL : w->factors[made];
  int8_t *factors = w->factors[i] = unknown_factors(w, i);
  for (int d = 0; d < from->rank; d++) {
    int at = major_factor(&r->operands[0], d), to = major_factor(from, d);
    if (at >= 0 && to >= 0) factors[at] = (int8_t)(map ? map[to] : to);
  }
}

/* Returns the maker of a value whose readers, three or more, all slice it into equal types, as queries, keys and values
 * of one product; SIZE_MAX if there is none.  A conversion costs about as much after all slices as before them, and
 * strategies of their own would need one table over four operations. */
static size_t sliced_from(Finding *w, size_t i) {
  const Op *op = &w->f->ops.items[i];
  if (op->kind != OP_slice || !may_share(w, i)) return SIZE_MAX;
  const Uses *uses = &w->uses[op->in[0]];
  size_t made = (size_t)w->f->values.items[op->in[0]].op;
  const Op *maker = &w->f->ops.items[made];
  if (uses->n < 3 || !may_share(w, made) || op_is_source(maker->kind) || maker->phase != op->phase) return SIZE_MAX;
  for (size_t k = 0; k < uses->n; k++) {
    const Op *reader = &w->f->ops.items[uses->items[k]];
    if (reader->kind != OP_slice || type_of(w->f, reader->out) != type_of(w->f, op->out)) return SIZE_MAX;
  }
  find_factors_of_slice(w, i, made);
  return made;
}

/* Returns the operation that this one may follow; SIZE_MAX if none. */
static size_t followed(const Finding *w, const NamedOps *names, size_t i) {
  const Op *op = &w->f->ops.items[i];
  if (!op->mirror.name || op->mirror.operand == MIRROR_APART || w->fixed[i] || w->loops->of[i] >= 0) return SIZE_MAX;
  size_t h = named_op(names, op->mirror.name);
  bool may = h < i && !w->fixed[h] && w->loops->of[h] < 0 && (w->head[h] == h || w->in_kernel[h]);
  return may ? h : SIZE_MAX;
}

static bool reads_partial(const Finding *w, size_t i) {
  const Op *op = &w->f->ops.items[i];
  for (int k = 0; k < op->nin; k++)
    if (w->partial[op->in[k]]) return true;
  return false;
}

/* Sums keep partial sums partial, and so do operations that follow none. */
static void find_partial(Finding *w, size_t i, bool passes_on) {
  const Op *op = &w->f->ops.items[i];
  const Rule *r = w->rules[i];
  for (int k = 0; k < r->nfactors; k++) {
    bool from_operand = false;
    for (int j = 0; j < op->nin && j < 32; j++)
      from_operand |= (r->factors[k].operands >> j & 1u) && reads_sum(w, i, j);
    bool makes = r->factors[k].kind == FK_REDUCE || (passes_on && r->factors[k].kind == FK_LINEAR && from_operand);
    for (int j = 0; j < op->nout && makes; j++) w->partial[op->out + (Val)j] |= r->factors[k].results >> j & 1u;
  }
}

static void find_heads(Finding *w) {
  const NamedOps names = named_ops(w->arena, w->f);
  for (size_t i = 0; i < w->f->ops.n; i++) {
    const Op *op = &w->f->ops.items[i];
    w->head[i] = i;
    w->sum_of[i] = w->first_sum[i] = SIZE_MAX;
    size_t first = first_of_kernel(w, i), h = followed(w, &names, i);
    if (first == SIZE_MAX) first = sliced_from(w, i);
    if (first != SIZE_MAX) w->head[i] = w->head[first], w->in_kernel[i] = true;
    bool sums = h != SIZE_MAX && op->mirror.operand == MIRROR_SUM && reads_partial(w, i);
    if (sums && w->first_sum[h] == SIZE_MAX) w->sum_of[i] = h, w->first_sum[h] = i;
    else if (h != SIZE_MAX) w->head[i] = sums ? w->first_sum[h] : w->head[h];
    w->derived_from[i] = h;
    if (w->head[i] != i) w->nfollowers[w->head[i]]++;
    find_partial(w, i, h == SIZE_MAX || sums);
  }
}

/* The broadcast of a value with one reader follows this reader: then its smaller operand is converted. */
static size_t only_reader(const Finding *w, size_t i) {
  const Op *op = &w->f->ops.items[i];
  if (!may_share(w, i) || op->kind != OP_broadcast) return SIZE_MAX;
  const Uses *uses = &w->uses[op->out];
  if (w->nfollowers[i] || passes_sums(w, i) || uses->n != 1) return SIZE_MAX;
  size_t user = uses->items[0], head = w->head[user];
  if (w->head[i] != i || !operands_of(&w->f->ops.items[user], op->out)) return SIZE_MAX; /* a result of the function */
  bool may = may_share(w, user) && w->sum_of[user] == SIZE_MAX && w->sum_of[head] == SIZE_MAX;
  return may && w->f->ops.items[user].phase == op->phase ? user : SIZE_MAX;
}

/* Returns the reader's factor that accepts partial sums of the operand; -1 if none. */
static int linear_factor(const Rule *r, int operand) {
  int k = 0;
  while (k < r->nfactors && !(r->factors[k].kind == FK_LINEAR && r->factors[k].operands >> operand & 1u)) k++;
  return k < r->nfactors ? k : -1;
}

static bool find_factors_of_reader(Finding *w, size_t i, size_t user) {
  const Op *op = &w->f->ops.items[i];
  const Rule *r = w->rules[i], *by = w->rules[user];
  const int8_t *map = w->head[user] == user ? NULL : w->factors[user];
  int8_t *factors = w->factors[i] = unknown_factors(w, i);
  int operand = __builtin_ctz(operands_of(&w->f->ops.items[user], op->out)), sum = linear_factor(by, operand);
  for (int d = 0; d < r->results[0].rank; d++) {
    int at = major_factor(&r->results[0], d), to = major_factor(&by->operands[operand], d);
    if (at >= 0 && to >= 0) factors[at] = (int8_t)(map ? map[to] : to);
  }
  int at = linear_factor(r, 0);
  if (at >= 0 && sum >= 0) factors[at] = (int8_t)(map ? map[sum] : sum);
  return are_apart(r, factors);
}

static void follow_readers(Finding *w) {
  for (size_t i = 0; i < w->f->ops.n; i++) {
    size_t user = only_reader(w, i);
    if (user == SIZE_MAX || !find_factors_of_reader(w, i, user)) continue;
    w->head[i] = w->head[user], w->in_kernel[i] = true;
    w->nfollowers[w->head[i]]++;
  }
}

static void list_followers(Finding *w) {
  for (size_t i = 0; i < w->f->ops.n; i++) {
    if (w->nfollowers[i]) w->followers[i] = ARENA_ARRAY(w->arena, size_t, w->nfollowers[i]);
    w->nfollowers[i] = 0;
  }
  for (size_t i = 0; i < w->f->ops.n; i++) {
    size_t h = w->head[i];
    if (h != i) w->followers[h][w->nfollowers[h]++] = i;
  }
}

/* ---- corresponding factors */

static bool learn(Finding *w, Val v, int d, int factor) {
  if (factor < 0 || w->known[v][d] >= 0) return false;
  bool first = true;
  for (int i = 0; i < type_of(w->f, v)->rank; i++) first &= w->known[v][i] < 0;
  if (first) w->touched[w->ntouched++] = v;
  w->known[v][d] = (int8_t)factor;
  return true;
}

/* `map`: the head's factors for those of the tensor's operation; NULL if that is the head. */
static void learn_all(Finding *w, Val v, const TensorFactors *t, const int8_t *map) {
  for (int d = 0; d < t->rank && d < type_of(w->f, v)->rank; d++) {
    int k = major_factor(t, d);
    learn(w, v, d, k >= 0 && map ? map[k] : k);
  }
}

static void forget(Finding *w) {
  while (w->ntouched) memset(w->known[w->touched[--w->ntouched]], -1, sizeof *w->known);
}

static bool same_dims(const Type *x, const Type *y) {
  return x->rank == y->rank && (!x->rank || memcmp(x->dims, y->dims, sizeof *x->dims * (size_t)x->rank) == 0);
}

/* Records the factors of the head's own values. */
static void learn_head(Finding *w, size_t h) {
  const Op *op = &w->f->ops.items[h];
  const Rule *r = w->rules[h];
  for (int i = 0; i < op->nin; i++) learn_all(w, op->in[i], &r->operands[i], NULL);
  for (int i = 0; i < op->nout; i++) learn_all(w, op->out + (Val)i, &r->results[i], NULL);
}

/* The result of a derivative may be the gradient of an operand.  A value from outside with the type of the operation's
 * result is the gradient of that result. */
static void learn_gradients(Finding *w, size_t of, size_t i) {
  const Op *made = &w->f->ops.items[of], *op = &w->f->ops.items[i];
  const int8_t *map = w->in_kernel[of] && w->sum_of[i] == SIZE_MAX ? w->factors[of] : NULL;
  int operand = op->mirror.operand;
  if (operand == MIRROR_SUM || op->kind == OP_read) learn_all(w, op->out, &w->rules[of]->results[0], map);
  if (operand >= 0 && operand < made->nin && same_dims(type_of(w->f, op->out), type_of(w->f, made->in[operand])))
    learn_all(w, op->out, &w->rules[of]->operands[operand], map);
  for (int k = 0; k < op->nin && operand != MIRROR_SUM; k++) {
    size_t from = (size_t)w->f->values.items[op->in[k]].op;
    if (w->head[from] != w->head[i] && made->out && same_dims(type_of(w->f, op->in[k]), type_of(w->f, made->out)))
      learn_all(w, op->in[k], &w->rules[of]->results[0], map);
  }
}

/* Exchanges factors between a tensor's dimensions and a follower, both ways. */
static bool spread_tensor(Finding *w, int8_t *factors, Val v, const TensorFactors *t) {
  bool more = false;
  for (int d = 0; d < t->rank; d++) {
    int k = major_factor(t, d);
    if (k < 0) continue;
    bool fresh = factors[k] < 0 && w->known[v][d] >= 0;
    if (fresh) factors[k] = w->known[v][d];
    more |= fresh | learn(w, v, d, factors[k]);
  }
  return more;
}

static bool spread(Finding *w, size_t i) {
  const Op *op = &w->f->ops.items[i];
  const Rule *r = w->rules[i];
  bool more = false;
  for (int k = 0; k < op->nin; k++) more |= spread_tensor(w, w->factors[i], op->in[k], &r->operands[k]);
  for (int k = 0; k < op->nout; k++) more |= spread_tensor(w, w->factors[i], op->out + (Val)k, &r->results[k]);
  return more;
}

static void spread_all(Finding *w, size_t h, bool derivatives) {
  for (bool more = true; more;) {
    more = false;
    for (int i = 0; i < w->nfollowers[h]; i++)
      if (derivatives || w->in_kernel[w->followers[h][i]]) more |= spread(w, w->followers[h][i]);
  }
}

/* Followers of the head's kernel come first, because their derivatives follow as well. */
static void find_factors(Finding *w, size_t h) {
  learn_head(w, h);
  for (int i = 0; i < w->nfollowers[h]; i++)
    if (!w->in_kernel[w->followers[h][i]]) w->factors[w->followers[h][i]] = unknown_factors(w, w->followers[h][i]);
  spread_all(w, h, false);
  for (int i = 0; i < w->nfollowers[h]; i++) {
    size_t of = w->derived_from[w->followers[h][i]];
    if (of != SIZE_MAX) learn_gradients(w, of, w->followers[h][i]);
  }
  spread_all(w, h, true);
  forget(w);
}

/* Sums of one value have equal rules: they correspond factor by factor, and partial axes too. */
static void find_factors_of_sums(Finding *w, size_t first) {
  for (int i = 0; i < w->nfollowers[first]; i++) {
    int8_t *factors = w->factors[w->followers[first][i]] = unknown_factors(w, w->followers[first][i]);
    for (int k = 0; k < w->rules[w->followers[first][i]]->nfactors; k++) factors[k] = (int8_t)k;
  }
}

static void find_factors_of_sum(Finding *w, size_t i) {
  w->factors[i] = unknown_factors(w, i);
  learn_gradients(w, w->sum_of[i], i);
  spread(w, i);
  forget(w);
}

static const bool *fixed_ops(Arena *a, const Func *f) {
  const bool *derived = derived_ops(a, f);
  bool *fixed = ARENA_ARRAY(a, bool, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++) fixed[i] = op_is_anywhere(&f->ops.items[i]) || derived[i];
  return fixed;
}

/* A result of the function counts as one more use. */
static void find_uses(Finding *w) {
  w->uses = ARENA_ARRAY(w->arena, Uses, w->f->values.n);
  for (size_t i = 0; i < w->f->ops.n; i++)
    for (int k = 0; k < w->f->ops.items[i].nin; k++) ARENA_PUSH(w->arena, &w->uses[w->f->ops.items[i].in[k]], i);
  for (size_t i = 0; i < w->f->outputs.n; i++) {
    Val v = w->f->outputs.items[i].value;
    ARENA_PUSH(w->arena, &w->uses[v], (size_t)w->f->values.items[v].op);
  }
}

static int most_of(const int *list, size_t n) {
  int most = -1;
  for (size_t i = 0; list && i < n; i++) most = list[i] > most ? list[i] : most;
  return most;
}

Mirrors mirrors_of(Arena *a, const Func *f, const Rule *const *rules, const Loops *loops, const int *kernel,
                   const uint64_t *marks) {
  size_t n = f->ops.n;
  Finding w = {.arena = a,
               .kernel = kernel,
               .marks = marks,
               .first_of = ARENA_ARRAY(a, size_t, most_of(kernel, n) + 2),
               .in_kernel = ARENA_ARRAY(a, bool, n + 1),
               .derived_from = ARENA_ARRAY(a, size_t, n + 1),
               .f = f,
               .rules = rules,
               .fixed = fixed_ops(a, f),
               .loops = loops,
               .first_sum = ARENA_ARRAY(a, size_t, n + 1),
               .partial = ARENA_ARRAY(a, bool, f->values.n + 1),
               .head = ARENA_ARRAY(a, size_t, n + 1),
               .sum_of = ARENA_ARRAY(a, size_t, n + 1),
               .factors = ARENA_ARRAY(a, int8_t *, n + 1),
               .nfollowers = ARENA_ARRAY(a, int, n + 1),
               .followers = ARENA_ARRAY(a, size_t *, n + 1)};
  bool any = false;
  for (size_t i = 0; i < n; i++) any |= f->ops.items[i].mirror.name != NULL;
  if (kernel) find_uses(&w), find_adds_up(&w), find_made_whole(&w);
  find_heads(&w);
  follow_readers(&w);
  list_followers(&w);
  bool follow = false;
  for (size_t i = 0; i < n; i++) follow |= w.head[i] != i || w.sum_of[i] != SIZE_MAX;
  if (follow) {
    w.known = arena_alloc(a, sizeof *w.known * f->values.n);
    w.touched = ARENA_ARRAY(a, Val, f->values.n);
    memset(w.known, -1, sizeof *w.known * f->values.n);
  }
  for (size_t i = 0; follow && i < n; i++) {
    if (w.sum_of[i] != SIZE_MAX) find_factors_of_sum(&w, i), find_factors_of_sums(&w, i);
    else if (w.nfollowers[i]) find_factors(&w, i);
  }
  return (Mirrors){.any = any,
                   .head = w.head,
                   .sum_of = w.sum_of,
                   .may_be_partial = w.partial,
                   .factors = (const int8_t *const *)w.factors,
                   .nfollowers = w.nfollowers,
                   .followers = (const size_t *const *)w.followers};
}

/* ---- strategies */

Strategy mirror_strategy(const Mesh *mesh, const Rule *r, const int8_t *factors, const Strategy *head) {
  Strategy s = {0};
  for (int i = 0; i < head->n; i++)
    for (int k = 0; k < r->nfactors; k++) {
      if (factors[k] != head->picks[i].factor) continue;
      Strategy more = s;
      more.picks[more.n++] = (Pick){head->picks[i].axis, (uint8_t)k};
      if (!strategy_legal(mesh, r, &more, NULL)) continue;
      s = more;
      break;
    }
  return s;
}

bool mirror_sum_fits(const Mesh *mesh, const Rule *r, const int8_t *factors, const Strategy *head, const Strategy *s) {
  Strategy follows = mirror_strategy(mesh, r, factors, head);
  uint32_t partial = 0;
  int at = 0;
  for (int i = 0; i < s->n; i++)
    if (r->factors[s->picks[i].factor].kind == FK_LINEAR) partial |= 1u << s->picks[i].axis;
  for (int i = 0; i < follows.n; i++) {
    if (partial >> follows.picks[i].axis & 1u) continue;
    while (at < s->n && (partial >> s->picks[at].axis & 1u)) at++;
    if (at == s->n || s->picks[at].axis != follows.picks[i].axis || s->picks[at].factor != follows.picks[i].factor)
      return false;
    at++;
  }
  while (at < s->n && (partial >> s->picks[at].axis & 1u)) at++;
  return at == s->n;
}
