/* passes/facts/mirror.c - see mirror.h. */
#include "passes/facts/mirror.h"

#include <string.h>

#include "ir/named.h"
#include "passes/facts/derived.h"

typedef struct Finding {
  Arena *arena;
  const Func *f;
  const Rule *const *rules;
  const bool *fixed;
  const Loops *loops;
  size_t *head, *sum_of, *first_sum;
  bool *partial; /* by value */
  int8_t **factors;
  int *nfollowers;
  size_t **followers;
  int8_t (*known)[MAX_RANK]; /* by value, dimension: the head's factor; -1: none so far */
  Val *touched;              /* values of which something is known */
  size_t ntouched;
} Finding;

/* ---- who follows whom */

/* The operation that one may follow; SIZE_MAX: there is none. */
static size_t followed(const Finding *w, const NamedOps *names, size_t i) {
  const Op *op = &w->f->ops.items[i];
  if (!op->mirror.name || op->mirror.operand == MIRROR_APART || w->fixed[i] || w->loops->of[i] >= 0) return SIZE_MAX;
  size_t h = named_op(names, op->mirror.name);
  bool may = h < i && !w->fixed[h] && w->loops->of[h] < 0 && w->head[h] == h;
  return may ? h : SIZE_MAX;
}

static bool reads_partial(const Finding *w, size_t i) {
  const Op *op = &w->f->ops.items[i];
  for (int k = 0; k < op->nin; k++)
    if (w->partial[op->in[k]]) return true;
  return false;
}

/* Sums pass on what is partial, and so do operations that follow nobody. */
static void find_partial(Finding *w, size_t i, bool passes_on) {
  const Op *op = &w->f->ops.items[i];
  const Rule *r = w->rules[i];
  for (int k = 0; k < r->nfactors; k++) {
    bool from_operand = false;
    for (int j = 0; j < op->nin; j++) from_operand |= (r->factors[k].operands >> j & 1u) && w->partial[op->in[j]];
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
    size_t h = followed(w, &names, i);
    bool sums = h != SIZE_MAX && op->mirror.operand == MIRROR_SUM && reads_partial(w, i);
    if (sums && w->first_sum[h] == SIZE_MAX) w->sum_of[i] = h, w->first_sum[h] = i;
    else if (h != SIZE_MAX) w->head[i] = sums ? w->first_sum[h] : h;
    if (w->head[i] != i) w->nfollowers[w->head[i]]++;
    find_partial(w, i, h == SIZE_MAX || sums);
  }
}

static void list_followers(Finding *w) {
  for (size_t i = 0; i < w->f->ops.n; i++) {
    if (w->nfollowers[i]) w->followers[i] = ARENA_ARRAY(w->arena, size_t, w->nfollowers[i]);
    w->nfollowers[i] = 0;
    size_t h = w->head[i];
    if (h != i) w->followers[h][w->nfollowers[h]++] = i;
  }
}

/* ---- which factors are the same */

/* Of a dimension of several factors only the major one can be cut. */
static int major_factor(const TensorFactors *t, int d) { return t->dims[d].n ? t->dims[d].f[0] : -1; }

static bool learn(Finding *w, Val v, int d, int factor) {
  if (factor < 0 || w->known[v][d] >= 0) return false;
  bool first = true;
  for (int i = 0; i < type_of(w->f, v)->rank; i++) first &= w->known[v][i] < 0;
  if (first) w->touched[w->ntouched++] = v;
  w->known[v][d] = (int8_t)factor;
  return true;
}

static void learn_all(Finding *w, Val v, const TensorFactors *t) {
  for (int d = 0; d < t->rank && d < type_of(w->f, v)->rank; d++) learn(w, v, d, major_factor(t, d));
}

static void forget(Finding *w) {
  while (w->ntouched) memset(w->known[w->touched[--w->ntouched]], -1, sizeof *w->known);
}

static bool same_dims(const Type *x, const Type *y) {
  return x->rank == y->rank && (!x->rank || memcmp(x->dims, y->dims, sizeof *x->dims * (size_t)x->rank) == 0);
}

/* What is known of the head's own values. */
static void learn_head(Finding *w, size_t h) {
  const Op *op = &w->f->ops.items[h];
  const Rule *r = w->rules[h];
  for (int i = 0; i < op->nin; i++) learn_all(w, op->in[i], &r->operands[i]);
  for (int i = 0; i < op->nout; i++) learn_all(w, op->out + (Val)i, &r->results[i]);
}

/* A follower's result may be the gradient of an operand.  What it reads from elsewhere and has the type of the head's
 * result is the gradient of that. */
static void learn_gradients(Finding *w, size_t h, size_t i) {
  const Op *head = &w->f->ops.items[h], *op = &w->f->ops.items[i];
  int operand = op->mirror.operand;
  if (operand == MIRROR_SUM || op->kind == OP_read) learn_all(w, op->out, &w->rules[h]->results[0]);
  if (operand >= 0 && operand < head->nin && same_dims(type_of(w->f, op->out), type_of(w->f, head->in[operand])))
    learn_all(w, op->out, &w->rules[h]->operands[operand]);
  for (int k = 0; k < op->nin && operand != MIRROR_SUM; k++) {
    size_t made = (size_t)w->f->values.items[op->in[k]].op;
    if (w->head[made] != h && head->out && same_dims(type_of(w->f, op->in[k]), type_of(w->f, head->out)))
      learn_all(w, op->in[k], &w->rules[h]->results[0]);
  }
}

/* Between a tensor's dimensions and the follower's factors, both ways. */
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

static int8_t *unknown_factors(Finding *w, size_t i) {
  int n = w->rules[i]->nfactors;
  int8_t *factors = ARENA_ARRAY(w->arena, int8_t, n + 1);
  memset(factors, -1, (size_t)n);
  return factors;
}

static void find_factors(Finding *w, size_t h) {
  learn_head(w, h);
  for (int i = 0; i < w->nfollowers[h]; i++) {
    w->factors[w->followers[h][i]] = unknown_factors(w, w->followers[h][i]);
    learn_gradients(w, h, w->followers[h][i]);
  }
  for (bool more = true; more;) {
    more = false;
    for (int i = 0; i < w->nfollowers[h]; i++) more |= spread(w, w->followers[h][i]);
  }
  forget(w);
}

/* Sums of one value, of equal rules: factor by factor, and what is partial. */
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

Mirrors mirrors_of(Arena *a, const Func *f, const Rule *const *rules, const Loops *loops) {
  size_t n = f->ops.n;
  Finding w = {.arena = a,
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
  find_heads(&w);
  list_followers(&w);
  if (any) {
    w.known = arena_alloc(a, sizeof *w.known * f->values.n);
    w.touched = ARENA_ARRAY(a, Val, f->values.n);
    memset(w.known, -1, sizeof *w.known * f->values.n);
  }
  for (size_t i = 0; any && i < n; i++) {
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
