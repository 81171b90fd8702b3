/* passes/cost/alike.c - see alike.h. */
#include "passes/cost/alike.h"

#include <string.h>

#include "base/hash.h"

typedef struct Alike {
  const Func *f;
  const LegalJoin *joins;
  const KernelPart *parts;
  const Together *together; /* NULL: no dot is part of a larger product */
} Alike;

/* ---- operations */

static bool same_part(const KernelPart *a, const KernelPart *b, int nin) {
  KernelPart x = *a, y = *b;
  x.as = y.as = NULL;
  x.kernel = y.kernel = 0; /* kernels differ in number and place */
  x.first = y.first = x.last = y.last = 0;
  bool same = memcmp(&x, &y, sizeof x) == 0 && !a->as == !b->as;
  for (int i = 0; i < nin && same && a->as; i++)
    same = a->as[i].spread == b->as[i].spread && a->as[i].bytes == b->as[i].bytes;
  return same;
}

/* Returns the operation that makes the added vector (is_cut_up in cost.c). */
static const Op *spread_of(const Alike *x, size_t i) {
  const Op *op = op_of(x->f, x->f->ops.items[i].in[1 - x->joins[i].operand]);
  while (op->kind == OP_copy) op = op_of(x->f, op->in[0]);
  return op;
}

static bool same_join(const Alike *x, size_t a, size_t b) {
  const LegalJoin *j = &x->joins[a], *k = &x->joins[b];
  if (j->kind != k->kind || j->operand != k->operand || j->apart != k->apart || j->of_weights != k->of_weights)
    return false;
  if (j->kind != JOIN_BIAS) return true;
  const Op *one = spread_of(x, a), *other = spread_of(x, b);
  if (one->kind != OP_broadcast || other->kind != OP_broadcast) return one->kind == other->kind;
  return type_of(x->f, one->in[0]) == type_of(x->f, other->in[0]) &&
         attr_equal(op_attr(one, AT_dims), op_attr(other, AT_dims));
}

static bool same_types(const Func *f, const Op *a, const Op *b) {
  for (int i = 0; i < a->nin; i++)
    if (type_of(f, a->in[i]) != type_of(f, b->in[i])) return false;
  for (int i = 0; i < a->nout; i++)
    if (type_of(f, a->out + (Val)i) != type_of(f, b->out + (Val)i)) return false;
  return true;
}

static bool same_product(const Alike *x, size_t i, size_t k) {
  const Together *a = &x->together[i], *b = &x->together[k];
  return a->shared == b->shared && a->times == b->times;
}

static bool same_price(const Alike *x, size_t i, size_t k) {
  const Op *a = &x->f->ops.items[i], *b = &x->f->ops.items[k];
  if (a->kind != b->kind || a->nin != b->nin || a->nout != b->nout || a->nattrs != b->nattrs) return false;
  if (!same_types(x->f, a, b) || !same_part(&x->parts[i], &x->parts[k], a->nin) || !same_join(x, i, k)) return false;
  if (x->together && !same_product(x, i, k)) return false;
  for (int j = 0; j < a->nattrs; j++)
    if (!attr_equal(&a->attrs[j], &b->attrs[j])) return false;
  return true;
}

/* Hashes attributes that are a single number; lists are only compared. */
static uint64_t attr_hash(const Attr *a) {
  uint64_t bits = (uint64_t)a->n;
  AttrKind kind = attr_kind(a->key);
  if (kind == AK_INT || kind == AK_AXIS) bits = (uint64_t)a->u.i;
  if (kind == AK_STR) bits = (uint64_t)(uintptr_t)a->u.s;
  if (kind == AK_FLOAT) memcpy(&bits, &a->u.f, sizeof bits);
  return hash64_mix((uint64_t)a->key, bits);
}

static uint64_t hash_of(const Alike *x, size_t i) {
  const Op *op = &x->f->ops.items[i];
  uint64_t h = hash64_mix((uint64_t)op->kind, x->parts[i].reads);
  for (int k = 0; k < op->nin; k++) h = hash64_mix(h, (uint64_t)(uintptr_t)type_of(x->f, op->in[k]));
  for (int k = 0; k < op->nout; k++) h = hash64_mix(h, (uint64_t)(uintptr_t)type_of(x->f, op->out + (Val)k));
  for (int k = 0; k < op->nattrs; k++) h = hash64_mix(h, attr_hash(&op->attrs[k]));
  return h;
}

const size_t *cost_alike_of(Arena *a, const Func *f, const LegalJoin *joins, const KernelPart *parts,
                            const Together *together) {
  const Alike x = {f, joins, parts, together};
  size_t *first = ARENA_ARRAY(a, size_t, f->ops.n + 1), slots = 16;
  Arena *scratch = arena_new();
  while (slots < 2 * f->ops.n) slots *= 2;
  size_t *known = ARENA_ARRAY(scratch, size_t, slots); /* operation + 1 */
  for (size_t i = 0; i < f->ops.n; i++) {
    size_t at = (size_t)hash_of(&x, i) & (slots - 1);
    while (known[at] && !same_price(&x, known[at] - 1, i)) at = (at + 1) & (slots - 1);
    if (!known[at]) known[at] = i + 1;
    first[i] = known[at] - 1;
  }
  arena_free(scratch);
  return first;
}

/* ---- prices */

typedef struct Priced {
  const Op *op; /* NULL: a free slot */
  PricedAs as;
  int n;
  Pick picks[MAX_AXES];
  OpCost cost;
} Priced;

static Priced *place_of(const Prices *p, const Op *op, PricedAs as, int n, const Pick *picks) {
  uint64_t h = hash64_mix((uint64_t)(uintptr_t)op, (uint64_t)as);
  for (int i = 0; i < n; i++) h = hash64_mix(h, (uint64_t)picks[i].axis << 8 | picks[i].factor);
  size_t i = (size_t)(h >> 16) & (p->slots - 1);
  for (; p->items[i].op; i = (i + 1) & (p->slots - 1)) {
    const Priced *x = &p->items[i];
    if (x->op == op && x->as == as && x->n == n && memcmp(x->picks, picks, sizeof *picks * (size_t)n) == 0) break;
  }
  return &p->items[i];
}

static void grow(Prices *p) {
  Priced *old = p->items;
  size_t n = p->slots;
  p->slots = n ? 2 * n : 256;
  p->items = ARENA_ARRAY(p->arena, Priced, p->slots);
  for (size_t i = 0; i < n; i++)
    if (old[i].op) *place_of(p, old[i].op, old[i].as, old[i].n, old[i].picks) = old[i];
}

OpCost *cost_price_of(Prices *p, const Op *op, PricedAs as, const Strategy *s, bool *known) {
  if (2 * p->n >= p->slots) grow(p);
  Priced *x = place_of(p, op, as, s->n, s->picks);
  *known = x->op != NULL;
  if (*known) return &x->cost;
  x->op = op, x->as = as, x->n = s->n, p->n++;
  memcpy(x->picks, s->picks, sizeof *s->picks * (size_t)s->n);
  return &x->cost;
}
