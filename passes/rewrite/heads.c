/* passes/rewrite/heads.c - gives projections to and from heads the order of one matrix product.
 *
 * Front ends project into [b, h, s, k], for which a library needs a product per head and sample of [b, s, d], and copy
 * the result of attention back from that order first.  On a device whose attention reads and writes heads in place
 * (DeviceTraits.places) the products become plain:
 *
 *   dot(x, w) "bsd,dhk->bhsk"   becomes   transpose(dot(x, w) "bsd,dhk->bshk")
 *   dot(a, w) "bhsk,hkd->bsd"   becomes   dot(transpose(a), w) "bshk,hkd->bsd"
 *
 * A transpose moves after elementwise operations: a bias then has the order of the product, so that the library adds
 * it.  The transposes meet attention and vanish there (codegen/rows/work_place.c).
 *
 * In: level-1 functions with attention, before train, so that gradients are plain products too.  The pass rewrites
 * products of a weight with another value, without batch letters, that need several library calls or a copy, if the new
 * order needs neither.  Weights keep their order.  If a value of the model is read in its own order, that order keeps
 * the value's name.  Operations are visited once, in order.  Not supported: functions with loops.
 */
#include <string.h>

#include "ir/legal_dot.h"
#include "passes/facts/fixed.h"
#include "passes/rewrite/passes.h"
#include "passes/rewrite/rewrite.h"

/* An old value is the transpose of a new one. */
typedef struct Turned {
  Val of; /* 0: it is not */
  int64_t perm[MAX_RANK];
} Turned;

typedef struct Heads {
  Rewrite r;
  const DeviceTraits *device;
  const Fixed *fixed;
  Turned *turned; /* by old value; r.map is 0 until a reader needs the value in its own order */
  bool *asked;    /* by old value: some reader needs its own order, which then keeps the name */
  bool final;     /* the function that is being built is the result */
} Heads;

static const Type *old_type(const Heads *h, Val v) { return type_of(h->r.old, v); }

/* The new value in the order of the old one. */
static Val in_order(Heads *h, Val v) {
  const Turned *t = &h->turned[v];
  const Op *op = op_of(h->r.old, v);
  if (!h->r.map[v] && t->of) h->r.map[v] = rewrite_transpose(&h->r, op, op->name, t->of, old_type(h, v)->rank, t->perm);
  h->asked[v] = true;
  return h->r.map[v];
}

/* The name of an operation's result in another order. */
static const char *turned_name(const Heads *h, const Op *op) {
  return h->asked[op->out] ? arena_printf(h->r.m->arena, "%s.heads", op->name) : op->name;
}

static void note_order(Heads *h, const Op *op, Val v, const int64_t *perm) {
  const int rank = old_type(h, op->out)->rank;
  int at[MAX_RANK];
  for (int d = 0; d < rank; d++) at[d] = (int)perm[d];
  if (h->final) rewrite_note_order(&h->r, op, v, rank, at);
}

/* ---- products */

static bool is_in(char letter, const char *letters) { return strchr(letters, letter) != NULL; }

static void append(char *to, const char *from, const char *with, bool in) {
  size_t n = strlen(to);
  for (; *from; from++)
    if (is_in(*from, with) == in) to[n++] = *from;
  to[n] = 0;
}

/* True if the product is one library call without copies. */
static bool is_plain(const Heads *h, const DotForm *f) {
  LegalDot p;
  legal_dot(h->device, f, &p);
  return p.library && !p.nbatch && !legal_dot_passes(f, &p, 0) && !legal_dot_passes(f, &p, 1) &&
         !legal_dot_passes(f, &p, 2);
}

/* Finds the form that is one product: the activation as [rows, summed], the result as [rows, columns].  False if there
 * is none, or the product already has it. */
static bool plain_form(const Heads *h, const Op *op, int weight, DotForm *f) {
  op_dot_form(f, old_type(h, op->in[0])->dtype, op_str(op, AT_spec));
  for (int t = 0; t < 2; t++)
    for (int d = 0; f->spec[t][d]; d++) f->one[(int)f->spec[t][d]] = ex_is_const(old_type(h, op->in[t])->dims[d], 1);
  char *x = f->spec[1 - weight], *w = f->spec[weight], given[2][MAX_RANK + 1];
  for (const char *l = f->spec[2]; *l; l++)
    if (is_in(*l, x) && is_in(*l, w)) return false;
  if (is_plain(h, f)) return false;
  memcpy(given[0], x, sizeof given[0]), memcpy(given[1], f->spec[2], sizeof given[1]);
  *x = *f->spec[2] = 0;
  append(x, given[0], w, false);
  memcpy(f->spec[2], x, sizeof given[0]);
  append(x, w, given[1], false);
  append(f->spec[2], w, given[1], true);
  return strlen(x) == strlen(given[0]) && strlen(f->spec[2]) == strlen(given[1]) && is_plain(h, f);
}

/* Dimension d of a tensor with letters `to` is dimension perm[d] of one with letters `from`. */
static void order_of(const char *from, const char *to, int64_t *perm) {
  for (int d = 0; to[d]; d++) perm[d] = strchr(from, to[d]) - from;
}

static bool same_order(int rank, const int64_t *a, const int64_t *b) {
  return memcmp(a, b, sizeof *a * (size_t)rank) == 0;
}

/* Returns the old value with the order of letters `from` changed to `to`. */
static Val ordered(Heads *h, const Op *op, Val v, const char *from, const char *to) {
  int64_t there[MAX_RANK], back[MAX_RANK];
  int rank = (int)strlen(to);
  order_of(from, to, there), order_of(to, from, back);
  if (h->turned[v].of && same_order(rank, h->turned[v].perm, back)) return h->turned[v].of;
  return rewrite_transpose(&h->r, op, NULL, in_order(h, v), rank, there);
}

static bool try_dot(Heads *h, const Op *op) {
  bool fixed[2] = {fixed_by_weights(h->fixed[op->in[0]]), fixed_by_weights(h->fixed[op->in[1]])};
  DotForm old, f;
  if (fixed[0] == fixed[1] || !plain_form(h, op, fixed[0] ? 0 : 1, &f)) return false;
  op_dot_form(&old, f.dtype, op_str(op, AT_spec));
  Val in[2];
  for (int t = 0; t < 2; t++) in[t] = ordered(h, op, op->in[t], old.spec[t], f.spec[t]);
  Attr spec = attr_s(h->r.m, AT_spec, arena_printf(h->r.m->arena, "%s,%s->%s", f.spec[0], f.spec[1], f.spec[2]));
  OpSpec new = op_spec_of(h->r.old, op);
  new.in = in, new.attrs = &spec, new.nattrs = 1, new.type = NULL;
  bool turned = strcmp(f.spec[2], old.spec[2]) != 0;
  if (turned) new.name = turned_name(h, op), new.group = NULL;
  Val v = build_op(&h->r.b, &new);
  if (!turned) {
    rewrite_map(&h->r, op, v);
  } else {
    h->turned[op->out].of = v;
    order_of(f.spec[2], old.spec[2], h->turned[op->out].perm);
    note_order(h, op, v, h->turned[op->out].perm);
  }
  return true;
}

/* ---- elementwise operations */

static const Type *turned_type(const Heads *h, const Type *t, const int64_t *perm) {
  const Expr *dims[MAX_RANK];
  for (int d = 0; d < t->rank; d++) dims[perm[d]] = t->dims[d];
  return type_get(h->r.m, t->dtype, t->rank, dims);
}

static Val turned_broadcast(Heads *h, const Op *op, const int64_t *perm) {
  const Attr *dims = op_attr(op, AT_dims);
  int64_t to[MAX_RANK];
  for (int d = 0; d < dims->n; d++) to[d] = perm[dims->u.ints[d]];
  return rewrite_broadcast(&h->r, op, in_order(h, op->in[0]), to, "reshape",
                           turned_type(h, old_type(h, op->out), perm));
}

/* True for operands that can be made in another order for free. */
static bool turns_freely(const Heads *h, Val v) {
  const Op *op = op_of(h->r.old, v);
  return op->kind == OP_broadcast || op_is_splat(op);
}

static Val turned_operand(Heads *h, Val v, const int64_t *perm) {
  const Op *op = op_of(h->r.old, v);
  if (h->turned[v].of) return h->turned[v].of;
  if (op->kind == OP_broadcast) return turned_broadcast(h, op, perm);
  OpSpec spec = op_spec_of(h->r.old, op);
  spec.group = NULL, spec.type = turned_type(h, old_type(h, v), perm);
  return build_op(&h->r.b, &spec);
}

static bool try_elements(Heads *h, const Op *op) {
  const Turned *t = NULL;
  Val in[MAX_OPERANDS];
  if (!op_is_elementwise(op->kind) || op->nout != 1) return false;
  int rank = old_type(h, op->out)->rank;
  for (int i = 0; i < op->nin; i++)
    if (h->turned[op->in[i]].of) t = &h->turned[op->in[i]];
  for (int i = 0; i < op->nin && t; i++) {
    const Turned *x = &h->turned[op->in[i]];
    if (x->of ? !same_order(rank, x->perm, t->perm) : !turns_freely(h, op->in[i])) return false;
  }
  if (!t) return false;
  const Turned all = *t;
  for (int i = 0; i < op->nin; i++) in[i] = turned_operand(h, op->in[i], all.perm);
  OpSpec spec = op_spec_of(h->r.old, op);
  spec.in = in, spec.name = turned_name(h, op), spec.group = NULL,
  spec.type = turned_type(h, old_type(h, op->out), all.perm);
  h->turned[op->out] = all;
  h->turned[op->out].of = build_op(&h->r.b, &spec);
  note_order(h, op, h->turned[op->out].of, all.perm);
  return true;
}

/* ---- the function */

/* Builds the whole function; the first time only to find the values that are needed in their own order. */
static void build_all(Heads *h) {
  const Func *f = h->r.old;
  for (size_t i = 0; i < f->ops.n && !h->r.b.diags->errors; i++) {
    const Op *op = &f->ops.items[i];
    if (op->kind == OP_dot ? try_dot(h, op) : try_elements(h, op)) continue;
    for (int k = 0; k < op->nin; k++) in_order(h, op->in[k]);
    rewrite_copy(&h->r, op);
  }
  for (size_t i = 0; i < f->outputs.n; i++) in_order(h, f->outputs.items[i].value);
}

static bool leave_heads(Module *m, const Func *f, const DeviceTraits *device, Diags *diags) {
  Arena *a = m->arena;
  Heads h = {.device = device, .fixed = fixed_values(a, f), .asked = ARENA_ARRAY(a, bool, f->values.n)};
  for (int round = 0; round < 2 && !diags->errors; round++) {
    h.r = rewrite_start(m, f, diags), h.turned = ARENA_ARRAY(a, Turned, f->values.n), h.final = round == 1;
    build_all(&h);
    if (round == 0) builder_end(&h.r.b);
  }
  if (!diags->errors) rewrite_finish(&h.r);
  return diags->errors == 0;
}

bool pass_heads(Module *m, const DeviceTraits *device, Diags *diags) {
  for (size_t k = 0; k < m->funcs.n && device->places; k++)
    if (m->funcs.items[k]->level == 1 && rewrite_has_heads(m->funcs.items[k]) &&
        !leave_heads(m, m->funcs.items[k], device, diags))
      return false;
  return true;
}
