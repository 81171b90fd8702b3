/* ir/prove.c - the prover; see prove.h.
 *
 * Every local value gets a term and a relation: the box of the term's global index space it holds, as expressions of the rank's
 * coordinates, and the axes over which it is a partial result.  An operation is accepted when some level-1 operation with the same
 * argument terms, restricted to the boxes of the operands, is what the local operation computes.  Communication has axioms of its own
 * (prove_comm.c).  One pass over the operations; the first that fits nothing is named.
 *
 * Dimensions along which a value does not vary (splats, broadcasts) have a "free" span: only its extent is known, and it takes
 * the place its first companion has.  Equality of expressions is by canonical form; over coordinates alone it is also
 * decided by trying all of them, and where dimension symbols leave it open the answer is unknown, not refuted.
 */
#include "ir/prove.h"

#include <stdarg.h>
#include <string.h>

#include "ir/body.h"
#include "ir/prove_relation.h"

static const char *const verdict_names[] = {"proved", "refuted", "unknown"};
const char *verdict_name(Verdict v) { return verdict_names[v]; }

bool prove_fail(Prover *p, const char *format, ...) {
  va_list args;
  va_start(args, format);
  p->reason = arena_vprintf(p->m->arena, format, args);
  va_end(args);
  return false;
}

/* ---- expressions */

uint32_t expr_axes(const Module *m, const Expr *e) {
  uint32_t axes = 0;
  if (e->kind == EX_SYM) {
    int a = m->symbols.items[e->value].axis;
    return a >= 0 ? 1u << a : 0;
  }
  for (int i = 0; i < e->n; i++) axes |= expr_axes(m, e->args[i]);
  return axes;
}

static bool has_dimension(const Module *m, const Expr *e) {
  if (e->kind == EX_SYM) return m->symbols.items[e->value].axis < 0;
  for (int i = 0; i < e->n; i++)
    if (has_dimension(m, e->args[i])) return true;
  return false;
}

/* Steps the coordinates of the axes in the set; false after the last combination. */
bool next_coordinates(const Module *m, uint32_t axes, int64_t *values) {
  for (int a = m->mesh.naxes - 1; a >= 0; a--) {
    if (!((axes >> a) & 1u)) continue;
    int64_t *v = &values[m->mesh.axes[a].symbol];
    if (++*v < m->mesh.axes[a].size) return true;
    *v = 0;
  }
  return false;
}

/* Is the expression 0 at all coordinates, with the dimensions as in p->values? */
static bool zero_everywhere(Prover *p, const Expr *e, uint32_t axes) {
  for (int a = 0; a < p->m->mesh.naxes; a++) p->values[p->m->mesh.axes[a].symbol] = 0;
  do {
    int64_t v;
    if (!ex_eval(e, p->values, &v) || v != 0) return false;
  } while (next_coordinates(p->m, axes, p->values));
  return true;
}

bool expr_equal(Prover *p, const Expr *a, const Expr *b) {
  if (a == b) return true;
  const Expr *difference = ex_sub(p->m, a, b);
  uint32_t axes = expr_axes(p->m, difference);
  if (!has_dimension(p->m, difference)) return zero_everywhere(p, difference, axes);
  /* One size at which they differ refutes equality; agreeing at some sizes proves nothing. */
  static const int64_t sizes[] = {1, 2, 3, 5, 7, 12, 31};
  for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
    for (size_t s = 0; s < p->m->symbols.n; s++) p->values[s] = sizes[k] + (int64_t)s;
    if (!zero_everywhere(p, difference, axes)) return false;
  }
  p->uncertain = true;
  return false;
}

/* ---- spans */

Span span_at(const Expr *lo, const Expr *hi) { return (Span){lo, hi, false}; }

const Expr *span_extent(Prover *p, const Span *s) { return s->free ? s->hi : ex_sub(p->m, s->hi, s->lo); }

uint32_t span_axes(const Module *m, const Span *s) { return expr_axes(m, s->hi) | (s->free ? 0 : expr_axes(m, s->lo)); }

static uint32_t relation_axes(const Module *m, const Relation *r) {
  uint32_t axes = 0;
  for (int d = 0; d < r->rank; d++) axes |= span_axes(m, &r->dims[d]);
  return axes;
}

bool span_unify(Prover *p, const Span *a, const Span *b, Span *out) {
  if (!a->free && !b->free) {
    *out = *a;
    return expr_equal(p, a->lo, b->lo) && expr_equal(p, a->hi, b->hi);
  }
  *out = a->free ? *b : *a;
  return expr_equal(p, span_extent(p, a), span_extent(p, b));
}

bool span_is_whole(Prover *p, const Span *s, const Expr *extent) {
  if (s->free) return expr_equal(p, s->hi, extent);
  return expr_equal(p, s->lo, ex_const(p->m, 0)) && expr_equal(p, s->hi, extent);
}

/* Inside [0, extent) at all coordinates; with symbolic extents, at several sizes (it tells witnesses apart, nothing rests on it
 * alone: outputs are compared with their declared shards). */
static bool span_inside(Prover *p, const Span *s, const Expr *extent) {
  static const int64_t sizes[] = {1, 2, 3, 5, 7, 12, 31};
  uint32_t axes = span_axes(p->m, s);
  bool symbolic = has_dimension(p->m, s->lo) || has_dimension(p->m, s->hi) || has_dimension(p->m, extent);
  for (size_t k = 0; k < (symbolic ? sizeof sizes / sizeof sizes[0] : 1); k++) {
    for (size_t i = 0; i < p->m->symbols.n; i++) p->values[i] = p->m->symbols.items[i].axis >= 0 ? 0 : sizes[k] + (int64_t)i;
    do {
      int64_t lo, hi, end;
      if (!ex_eval(s->lo, p->values, &lo) || !ex_eval(s->hi, p->values, &hi) || !ex_eval(extent, p->values, &end)) return false;
      if (hi > lo && (lo < 0 || hi > end)) return false;
    } while (next_coordinates(p->m, axes, p->values));
  }
  return true;
}

/* Tries the ordered subsets of the axes as a canonical cut of the extent. */
static bool try_cut(Prover *p, const Expr *extent, DimLayout *d, uint32_t axes, bool (*fits)(Prover *, const Span *, const void *), const void *context, Span *out) {
  const Expr *lo, *hi;
  layout_interval(p->m, d, extent, &lo, &hi);
  *out = span_at(lo, hi);
  if (fits(p, out, context)) return true;
  for (int a = 0; a < p->m->mesh.naxes; a++) {
    if (!((axes >> a) & 1u)) continue;
    d->axes[d->n++] = (uint8_t)a;
    if (try_cut(p, extent, d, axes & ~(1u << a), fits, context, out)) return true;
    d->n--;
  }
  return false;
}

bool span_search(Prover *p, const Expr *extent, uint32_t axes, bool (*fits)(Prover *, const Span *, const void *), const void *context, Span *out) {
  int64_t size;
  bool constant = ex_get_const(extent, &size);
  bool before = p->uncertain;
  for (int64_t unit = 1; unit <= (constant && size < 4096 ? size : 1); unit++) {
    if (unit > 1 && size % unit != 0) continue;
    DimLayout d = {.unit = ex_const(p->m, unit)};
    if (try_cut(p, extent, &d, axes, fits, context, out)) {
      p->uncertain = before;
      return true;
    }
  }
  if (!constant) p->uncertain = true; /* another unit might have fitted */
  return false;
}

static bool fits_extent(Prover *p, const Span *s, const void *context) {
  return expr_equal(p, ex_sub(p->m, s->hi, s->lo), context);
}

/* A free span has to be somewhere: the first canonical cut of that extent. */
static bool settle(Prover *p, Span *s, const Expr *extent) {
  if (!s->free) return true;
  const Expr *have = s->hi;
  if (expr_equal(p, have, extent)) return *s = span_at(ex_const(p->m, 0), extent), true;
  p->guessed = true;
  return span_search(p, extent, ~0u, fits_extent, have, s);
}

bool span_tiles(Prover *p, const Span *s, const Expr *extent, uint32_t axes) {
  /* In some order of the axes the intervals follow each other from 0 to the extent. */
  int order[MAX_AXES], n = 0;
  for (int a = 0; a < p->m->mesh.naxes; a++)
    if ((axes >> a) & 1u) order[n++] = a;
  int64_t total = 1;
  for (int i = 0; i < n; i++) total *= p->m->mesh.axes[order[i]].size;
  for (int tries = 0; tries < 720; tries++) {
    const Expr *at = ex_const(p->m, 0);
    bool ok = true;
    for (int64_t r = 0; r < total && ok; r++) {
      const Expr *lo = s->lo, *hi = s->hi;
      int64_t rest = r;
      for (int i = n - 1; i >= 0; i--) {
        const MeshAxis *axis = &p->m->mesh.axes[order[i]];
        const Expr *c = ex_const(p->m, rest % axis->size);
        rest /= axis->size;
        lo = ex_subst(p->m, lo, axis->symbol, c);
        hi = ex_subst(p->m, hi, axis->symbol, c);
      }
      ok = expr_equal(p, lo, at);
      at = hi;
    }
    if (ok && expr_equal(p, at, extent)) return true;
    int i = n - 2; /* the next permutation of the axes */
    while (i >= 0 && order[i] > order[i + 1]) i--;
    if (i < 0) return false;
    int j = n - 1;
    while (order[j] < order[i]) j--;
    int t = order[i];
    order[i] = order[j], order[j] = t;
    for (int a = i + 1, b = n - 1; a < b; a++, b--) t = order[a], order[a] = order[b], order[b] = t;
  }
  return false;
}

/* ---- partial results */

static Reduction as_sum(Reduction r) { return r == RED_ONE ? RED_SUM : r; }

/* Which groups of operands an operation lets partial results pass through, and of which kind. */
static bool passes_partial(const Op *op, const Func *f, uint32_t operands, Reduction r) {
  const Attr *fill = op_attr(op, AT_value);
  switch (op->kind) {
    case OP_neg: case OP_broadcast: case OP_reshape: case OP_transpose: case OP_slice: case OP_copy: return operands == 1 && r == RED_SUM;
    case OP_add: case OP_sub: return operands == 3 && r == RED_SUM;
    case OP_mul: case OP_dot: return (operands == 1 || operands == 2) && r == RED_SUM;
    case OP_div: return operands == 1 && r == RED_SUM && dtype_is_float(type_of(f, op->out)->dtype);
    case OP_select: return operands == 6 && r == RED_SUM;
    case OP_gather: return operands == 1 && r == RED_SUM;
    case OP_update: return operands == 3 && r == RED_SUM;
    case OP_concat: return operands == (1u << op->nin) - 1u && r == RED_SUM;
    case OP_pad: return operands == 1 && r == RED_SUM && fill && fill->u.f == 0;
    case OP_reduce: return operands == 1 && as_sum(op_attr(op, AT_op)->u.reduction) == r && r != RED_PRODUCT;
    case OP_cast: {
      DType from = type_of(f, op->in[0])->dtype, to = type_of(f, op->out)->dtype;
      return operands == 1 && r == RED_SUM && dtype_is_float(from) && dtype_is_float(to) && dtype_bytes(to) >= dtype_bytes(from);
    }
    default: return false;
  }
}

/* The partial axes of the operands pass to the result; every other operand is whole over them. */
static bool pass_partials(Prover *p, const Op *op, const Func *f, const Relation *in, Relation *out) {
  uint32_t all = 0;
  for (int i = 0; i < op->nin; i++) all |= in[i].axes;
  for (int a = 0; a < p->m->mesh.naxes; a++) {
    if (!((all >> a) & 1u)) continue;
    uint32_t operands = 0;
    Reduction r = RED_NONE;
    for (int i = 0; i < op->nin; i++) {
      if ((in[i].axes >> a) & 1u) {
        if (r != RED_NONE && r != as_sum(in[i].partial)) return prove_fail(p, "operands are partial in different ways over %s", p->m->mesh.axes[a].name);
        r = as_sum(in[i].partial);
        operands |= 1u << i;
      } else if ((relation_axes(p->m, &in[i]) >> a) & 1u) {
        return prove_fail(p, "one operand is partial over %s, another is cut by it", p->m->mesh.axes[a].name);
      }
    }
    if (!passes_partial(op, f, operands, r))
      return prove_fail(p, "operand %d is a partial %s over %s here", __builtin_ctz(operands), reduction_name(r), p->m->mesh.axes[a].name);
    if (out->axes && as_sum(out->partial) != r) return prove_fail(p, "two kinds of partial results");
    out->partial = r;
    out->axes |= 1u << a;
  }
  return true;
}

/* A reduced dimension that is cut makes the result partial over the axes that cut it. */
static bool reduce_span(Prover *p, Span s, const Expr *extent, Reduction r, Relation *out) {
  if (!settle(p, &s, extent)) return prove_fail(p, "a reduced dimension lies nowhere");
  if (span_is_whole(p, &s, extent)) return true;
  uint32_t axes = span_axes(p->m, &s);
  if (!span_tiles(p, &s, extent, axes)) return prove_fail(p, "the parts of a reduced dimension do not cover it once");
  if (axes & out->axes) return prove_fail(p, "a mesh axis cuts two reduced dimensions");
  if (out->axes && as_sum(out->partial) != as_sum(r)) return prove_fail(p, "two kinds of partial results");
  out->partial = out->axes ? RED_SUM : r;
  if (r != RED_ONE && r != RED_SUM) out->partial = r;
  out->axes |= axes;
  return true;
}

/* ---- the operations: `g` is a level-1 witness, `op` the local operation; fills the result's spans and adds partial axes */

typedef struct Case {
  Prover *p;
  const Func *gf;
  const Op *g;       /* level-1 operation */
  const Func *f;
  const Op *op;      /* local operation */
  const Relation *in;
  Relation *out;
} Case;

static const Type *global_in(const Case *c, int i) { return type_of(c->gf, c->g->in[i]); }
static const Type *global_out(const Case *c) { return type_of(c->gf, c->g->out); }
static const Type *local_out(const Case *c) { return type_of(c->f, c->op->out); }

/* Attributes other than the places of local parts must be equal. */
static bool same_attrs(const Case *c) {
  if (c->g->nattrs != c->op->nattrs) return prove_fail(c->p, "attributes differ from level 1");
  for (int i = 0; i < c->g->nattrs; i++) {
    const Attr *a = &c->g->attrs[i], *b = &c->op->attrs[i];
    bool place = a->key == AT_start || a->key == AT_starts || a->key == AT_low || a->key == AT_high;
    Text x = {.arena = c->p->m->arena}, y = {.arena = c->p->m->arena};
    if (a->key != b->key) return prove_fail(c->p, "attributes differ from level 1");
    if (place) continue;
    attr_print(c->p->m, &x, a);
    attr_print(c->p->m, &y, b);
    if (strcmp(text_str(&x), text_str(&y)) != 0) return prove_fail(c->p, "%s, level 1 has %s", text_str(&y), text_str(&x));
  }
  return true;
}

static bool case_elementwise(const Case *c) {
  for (int d = 0; d < c->out->rank; d++) {
    c->out->dims[d] = c->in[0].dims[d];
    for (int i = 1; i < c->op->nin; i++)
      if (!span_unify(c->p, &c->out->dims[d], &c->in[i].dims[d], &c->out->dims[d]))
        return prove_fail(c->p, "operands hold different parts of dimension %d", d);
  }
  return true;
}

static bool case_broadcast(const Case *c) {
  const Attr *dims = op_attr(c->g, AT_dims);
  for (int d = 0; d < c->out->rank; d++) c->out->dims[d] = (Span){NULL, local_out(c)->dims[d], true};
  for (int i = 0; i < c->in[0].rank; i++) {
    int64_t d = dims->u.ints[i];
    if (global_in(c, 0)->dims[i] == global_out(c)->dims[d]) c->out->dims[d] = c->in[0].dims[i];
    else if (!span_is_whole(c->p, &c->in[0].dims[i], global_in(c, 0)->dims[i])) return prove_fail(c->p, "a stretched dimension is cut");
  }
  return true;
}

static bool case_transpose(const Case *c) {
  for (int d = 0; d < c->out->rank; d++) c->out->dims[d] = c->in[0].dims[op_attr(c->g, AT_perm)->u.ints[d]];
  return true;
}

static bool case_reduce(const Case *c) {
  const Attr *axes = op_attr(c->g, AT_axes);
  int next = 0, n = 0;
  for (int d = 0; d < c->in[0].rank; d++) {
    if (next < axes->n && axes->u.ints[next] == d) {
      next++;
      if (!reduce_span(c->p, c->in[0].dims[d], global_in(c, 0)->dims[d], op_attr(c->g, AT_op)->u.reduction, c->out)) return false;
    } else {
      c->out->dims[n++] = c->in[0].dims[d];
    }
  }
  return true;
}

static bool case_dot(const Case *c) {
  const char *s = op_str(c->g, AT_spec), *result = strstr(s, "->") + 2;
  Span spans[128];
  const Expr *extents[128] = {NULL};
  for (int i = 0; i < 2; i++, s++)
    for (int d = 0; *s != ',' && *s != '-'; s++, d++) {
      int l = *s;
      if (!extents[l]) spans[l] = c->in[i].dims[d];
      else if (!span_unify(c->p, &spans[l], &c->in[i].dims[d], &spans[l])) return prove_fail(c->p, "operands hold different parts of '%c'", l);
      extents[l] = global_in(c, i)->dims[d];
    }
  for (int d = 0; result[d]; d++) c->out->dims[d] = spans[(int)result[d]];
  for (int l = 0; l < 128; l++)
    if (extents[l] && !strchr(result, l) && !reduce_span(c->p, spans[l], extents[l], RED_SUM, c->out)) return false;
  return true;
}

/* The local start must be where the held part of the indexed dimension begins. */
static bool place_is(const Case *c, Span s, const Expr *extent) {
  if (!settle(c->p, &s, extent)) return prove_fail(c->p, "the indexed dimension lies nowhere");
  return expr_equal(c->p, op_expr(c->op, AT_start), s.lo) || prove_fail(c->p, "start is not where this rank's part begins");
}

static bool case_gather(const Case *c) {
  int axis = (int)op_int(c->g, AT_axis, 0), n = 0;
  const Expr *extent = global_in(c, 0)->dims[axis];
  if (!place_is(c, c->in[0].dims[axis], extent) || !reduce_span(c->p, c->in[0].dims[axis], extent, RED_ONE, c->out)) return false;
  for (int d = 0; d < axis; d++) c->out->dims[n++] = c->in[0].dims[d];
  for (int d = 0; d < c->in[1].rank; d++) c->out->dims[n++] = c->in[1].dims[d];
  for (int d = axis + 1; d < c->in[0].rank; d++) c->out->dims[n++] = c->in[0].dims[d];
  return true;
}

static bool case_update(const Case *c) {
  int axis = (int)op_int(c->g, AT_axis, 0);
  for (int d = 0; d < c->out->rank; d++) {
    c->out->dims[d] = c->in[0].dims[d];
    if (d == axis) continue;
    if (!span_unify(c->p, &c->in[0].dims[d], &c->in[1].dims[d], &c->out->dims[d])) return prove_fail(c->p, "operands hold different parts of dimension %d", d);
  }
  if (!span_is_whole(c->p, &c->in[1].dims[axis], global_in(c, 1)->dims[axis])) return prove_fail(c->p, "the update is cut along its own dimension");
  return place_is(c, c->in[0].dims[axis], global_in(c, 0)->dims[axis]);
}

static bool case_slice(const Case *c) {
  const Attr *starts = op_attr(c->g, AT_starts), *local = op_attr(c->op, AT_starts), *strides = op_attr(c->g, AT_strides);
  Module *m = c->p->m;
  for (int d = 0; d < c->out->rank; d++) {
    Span s = c->in[0].dims[d];
    const Expr *extent = local_out(c)->dims[d], *step = ex_const(m, strides->u.ints[d]);
    if (s.free) {
      c->out->dims[d] = (Span){NULL, extent, true};
      continue;
    }
    const Expr *first = ex_sub(m, ex_add(m, s.lo, local->u.exprs[d]), starts->u.exprs[d]);
    const Expr *lo = ex_exact_div(m, first, step);
    if (!lo) return prove_fail(c->p, "dimension %d begins between two steps", d);
    c->out->dims[d] = span_at(lo, ex_add(m, lo, extent));
    if (!span_inside(c->p, &c->out->dims[d], global_out(c)->dims[d])) return prove_fail(c->p, "dimension %d leaves the slice of level 1", d);
  }
  return true;
}

/* Where padding or joining puts the result is found by trying the canonical cuts against all coordinates. */
typedef struct Joint {
  const Case *c;
  int dim;
} Joint;

static bool fits_joint(Prover *p, const Span *s, const void *context) {
  const Case *c = ((const Joint *)context)->c;
  int dim = ((const Joint *)context)->dim;
  Module *m = p->m;
  if (!expr_equal(p, ex_sub(m, s->hi, s->lo), local_out(c)->dims[dim])) return false;
  const Expr *low = c->op->kind == OP_pad ? op_attr(c->op, AT_low)->u.exprs[dim] : ex_const(m, 0);
  const Expr *high = c->op->kind == OP_pad ? op_attr(c->op, AT_high)->u.exprs[dim] : ex_const(m, 0);
  const Expr *shift = c->g->kind == OP_pad ? op_attr(c->g, AT_low)->u.exprs[dim] : ex_const(m, 0);
  uint32_t axes = span_axes(m, s) | expr_axes(m, low) | expr_axes(m, high);
  for (int i = 0; i < c->op->nin; i++) axes |= span_axes(m, &c->in[i].dims[dim]);
  memset(p->values, 0, sizeof *p->values * m->symbols.n);
  do { /* at[]: the global result index that follows what was laid so far */
    int64_t at, end, l, h, offset, whole;
    if (!ex_eval(s->lo, p->values, &at) || !ex_eval(s->hi, p->values, &end) || !ex_eval(low, p->values, &l) || !ex_eval(high, p->values, &h) ||
        !ex_eval(shift, p->values, &offset))
      return false;
    if (l < 0 || h < 0 || (l > 0 && at + l > offset)) return false; /* padding before the data only where level 1 pads */
    at += l;
    for (int i = 0; i < c->op->nin; i++) {
      int64_t a, b;
      const Span *x = &c->in[i].dims[dim];
      if (!ex_eval(global_in(c, i)->dims[dim], p->values, &whole) || !ex_eval(x->hi, p->values, &b)) return false;
      a = 0;
      if (!x->free && !ex_eval(x->lo, p->values, &a)) return false;
      if (b > a && x->free && (at < offset || at + b > offset + whole)) return false; /* any part of it, but of it */
      if (b > a && !x->free && at != offset + a) return false;
      at += b - a;
      offset += whole;
    }
    if (h > 0 && at < offset && end > at) return false;
    if (at + h != end) return false;
  } while (next_coordinates(m, axes, p->values));
  return true;
}

/* The theorem for symbolic extents: result interval [lo, hi), operand i whose elements stand at offset o_i of the result, holding
 * [clip(lo - o_i), clip(hi - o_i)) of its extent, padded below by max(0, min(o - lo, hi - lo)), is right for all sizes. */
static bool fits_windows(Prover *p, const Span *s, const void *context) {
  const Case *c = ((const Joint *)context)->c;
  int dim = ((const Joint *)context)->dim;
  Module *m = p->m;
  const Expr *zero = ex_const(m, 0), *extent = ex_sub(m, s->hi, s->lo);
  if (extent != local_out(c)->dims[dim]) return false;
  const Expr *offset = c->g->kind == OP_pad ? op_attr(c->g, AT_low)->u.exprs[dim] : zero;
  if (c->op->kind == OP_pad) {
    const Expr *low = op_attr(c->op, AT_low)->u.exprs[dim], *high = op_attr(c->op, AT_high)->u.exprs[dim];
    const Expr *held = span_extent(p, &c->in[0].dims[dim]);
    if (low != ex_max(m, zero, ex_min(m, ex_sub(m, offset, s->lo), extent))) return false;
    if (ex_add(m, ex_add(m, low, held), high) != extent) return false;
  }
  for (int i = 0; i < c->op->nin; i++) {
    const Expr *whole = global_in(c, i)->dims[dim];
    const Expr *lo = ex_min(m, ex_max(m, ex_sub(m, s->lo, offset), zero), whole), *hi = ex_min(m, ex_max(m, ex_sub(m, s->hi, offset), zero), whole);
    const Span *x = &c->in[i].dims[dim];
    if (x->free ? x->hi != ex_sub(m, hi, lo) : x->lo != lo || x->hi != hi) return false;
    offset = ex_add(m, offset, whole);
  }
  return true;
}

static bool case_joint(const Case *c, int dim) {
  Module *m = c->p->m;
  bool symbolic = has_dimension(m, local_out(c)->dims[dim]), whole = true;
  uint32_t axes = expr_axes(m, local_out(c)->dims[dim]);
  for (int i = 0; i < c->op->nin; i++) {
    const Span *x = &c->in[i].dims[dim];
    symbolic |= (!x->free && has_dimension(m, x->lo)) || has_dimension(m, x->hi);
    whole &= span_is_whole(c->p, &c->in[i].dims[dim], global_in(c, i)->dims[dim]);
    axes |= span_axes(m, &c->in[i].dims[dim]);
  }
  if (c->op->kind == OP_pad) {
    axes |= expr_axes(m, op_attr(c->op, AT_low)->u.exprs[dim]) | expr_axes(m, op_attr(c->op, AT_high)->u.exprs[dim]);
    whole &= expr_equal(c->p, op_attr(c->op, AT_low)->u.exprs[dim], op_attr(c->g, AT_low)->u.exprs[dim]) &&
             expr_equal(c->p, op_attr(c->op, AT_high)->u.exprs[dim], op_attr(c->g, AT_high)->u.exprs[dim]);
  }
  if (whole) return c->out->dims[dim] = span_at(ex_const(m, 0), global_out(c)->dims[dim]), true;
  Joint joint = {c, dim};
  /* Parts that hold only padding fit in many places; the windows of the theorem say which was meant. */
  if (span_search(c->p, global_out(c)->dims[dim], axes, fits_windows, &joint, &c->out->dims[dim])) return true;
  return (!symbolic && span_search(c->p, global_out(c)->dims[dim], axes, fits_joint, &joint, &c->out->dims[dim])) ||
         prove_fail(c->p, "the parts do not lie where level 1 puts them");
}

static bool case_pad(const Case *c) {
  Module *m = c->p->m;
  for (int d = 0; d < c->out->rank; d++) {
    bool padded = !ex_is_const(op_attr(c->g, AT_low)->u.exprs[d], 0) || !ex_is_const(op_attr(c->g, AT_high)->u.exprs[d], 0);
    bool local = !expr_equal(c->p, op_attr(c->op, AT_low)->u.exprs[d], ex_const(m, 0)) || !expr_equal(c->p, op_attr(c->op, AT_high)->u.exprs[d], ex_const(m, 0));
    if (!padded && local) return prove_fail(c->p, "dimension %d is not padded at level 1", d);
    if (!padded) c->out->dims[d] = c->in[0].dims[d];
    else if (!case_joint(c, d)) return false;
  }
  return true;
}

static bool case_concat(const Case *c) {
  int axis = (int)op_int(c->g, AT_axis, 0);
  for (int d = 0; d < c->out->rank; d++) {
    if (d == axis) {
      if (!case_joint(c, d)) return false;
      continue;
    }
    c->out->dims[d] = c->in[0].dims[d];
    for (int i = 1; i < c->op->nin; i++)
      if (!span_unify(c->p, &c->out->dims[d], &c->in[i].dims[d], &c->out->dims[d])) return prove_fail(c->p, "operands hold different parts of dimension %d", d);
  }
  return true;
}

/* Reshape: the shapes fall into groups of equal products; in a group only the first extent above 1 may be cut, on
 * multiples that are whole on both sides. */
static bool case_reshape(const Case *c) {
  Module *m = c->p->m;
  const Type *x = global_in(c, 0), *y = global_out(c);
  int i = 0, j = 0;
  while (i < x->rank || j < y->rank) {
    int i0 = i, j0 = j;
    const Expr *a = ex_const(m, 1), *b = ex_const(m, 1);
    do { /* one group: grow the smaller side until the products agree */
      bool left = j == y->rank || (i < x->rank && (a == b ? i == i0 : ex_exact_div(m, b, a) != NULL));
      if (left && i == x->rank) left = false;
      if (left) a = ex_mul(m, a, x->dims[i++]);
      else b = ex_mul(m, b, y->dims[j++]);
    } while (a != b && (i < x->rank || j < y->rank));
    bool free = i > i0;
    for (int d = i0; d < i; d++) free &= c->in[0].dims[d].free || ex_is_const(x->dims[d], 1);
    if (free) { /* the value does not vary along the whole group */
      for (int d = j0; d < j; d++) c->out->dims[d] = (Span){NULL, local_out(c)->dims[d], true};
      continue;
    }
    int cut = -1;
    for (int d = i0; d < i; d++) {
      Span *s = (Span *)&c->in[0].dims[d];
      if (!settle(c->p, s, x->dims[d])) return prove_fail(c->p, "dimension %d lies nowhere", d);
      if (span_is_whole(c->p, s, x->dims[d])) continue;
      if (cut >= 0) return prove_fail(c->p, "two cut dimensions are merged");
      cut = d;
    }
    const Expr *behind_x = ex_const(m, 1), *behind_y = ex_const(m, 1);
    for (int d = i0; d < i; d++) {
      if (cut > d && !ex_is_const(x->dims[d], 1)) return prove_fail(c->p, "dimension %d is cut behind another of its group", cut);
      if (d > cut) behind_x = ex_mul(m, behind_x, x->dims[d]);
    }
    int first = j0;
    while (first + 1 < j && ex_is_const(y->dims[first], 1)) first++;
    for (int d = j0; d < j; d++) {
      c->out->dims[d] = span_at(ex_const(m, 0), y->dims[d]);
      if (d > first) behind_y = ex_mul(m, behind_y, y->dims[d]);
    }
    if (cut < 0) continue;
    const Expr *lo = ex_exact_div(m, ex_mul(m, c->in[0].dims[cut].lo, behind_x), behind_y);
    const Expr *hi = ex_exact_div(m, ex_mul(m, c->in[0].dims[cut].hi, behind_x), behind_y);
    if (!lo || !hi) return prove_fail(c->p, "the cut of dimension %d falls inside an element of the result", cut);
    c->out->dims[first] = span_at(lo, hi);
  }
  return true;
}

/* Sources without operands. */
static bool case_iota(const Case *c) {
  int64_t axis = op_int(c->op, AT_axis, 0);
  const Expr *start = op_expr(c->op, AT_start);
  for (int d = 0; d < c->out->rank; d++) c->out->dims[d] = (Span){NULL, local_out(c)->dims[d], true};
  c->out->dims[axis] = span_at(start, ex_add(c->p->m, start, local_out(c)->dims[axis]));
  return true;
}

static bool case_constant(const Case *c) {
  bool splat = c->op->kind == OP_size || op_attr(c->op, AT_value);
  for (int d = 0; d < c->out->rank; d++) {
    c->out->dims[d] = (Span){NULL, local_out(c)->dims[d], true};
    if (!splat && !expr_equal(c->p, local_out(c)->dims[d], global_out(c)->dims[d])) return prove_fail(c->p, "listed elements are cut");
    if (!splat) c->out->dims[d] = span_at(ex_const(c->p->m, 0), global_out(c)->dims[d]);
  }
  return true;
}

static bool case_random(const Case *c) {
  const Attr *starts = op_attr(c->op, AT_starts);
  for (int d = 0; d < c->out->rank; d++) c->out->dims[d] = span_at(starts->u.exprs[d], ex_add(c->p->m, starts->u.exprs[d], local_out(c)->dims[d]));
  return true;
}

static bool check_case(const Case *c) {
  if (!same_attrs(c)) return false;
  if (global_out(c)->dtype != local_out(c)->dtype || global_out(c)->rank != local_out(c)->rank) return prove_fail(c->p, "the result type differs from level 1");
  if (op_class(c->op->kind) != OC_OTHER) return case_elementwise(c);
  switch (c->op->kind) {
    case OP_select: case OP_cast: return case_elementwise(c);
    case OP_broadcast: return case_broadcast(c);
    case OP_transpose: return case_transpose(c);
    case OP_reshape: return case_reshape(c);
    case OP_slice: return case_slice(c);
    case OP_pad: return case_pad(c);
    case OP_concat: return case_concat(c);
    case OP_reduce: return case_reduce(c);
    case OP_dot: return case_dot(c);
    case OP_gather: return case_gather(c);
    case OP_update: return case_update(c);
    case OP_iota: return case_iota(c);
    case OP_const: case OP_size: return case_constant(c);
    case OP_random: return case_random(c);
    default: return c->p->uncertain = true, prove_fail(c->p, "the prover does not know this operation");
  }
}

/* ---- walking a level-2 function */

static bool prove_ops(Prover *p, const Func *f, const Fact2 *inputs, Fact2 *known);

/* The local extents are those of the box. */
static bool check_extents(Prover *p, const Type *t, Relation *r) {
  for (int d = 0; d < r->rank; d++)
    if (!expr_equal(p, span_extent(p, &r->dims[d]), t->dims[d])) return prove_fail(p, "dimension %d has not the extent of its part", d);
  uint32_t both = relation_axes(p->m, r) & r->axes;
  if (both) return prove_fail(p, "a mesh axis both cuts the result and makes it partial");
  return true;
}

static bool prove_compute(Prover *p, const Func *f, const Op *op, const Fact2 *in, Fact2 *out) {
  Term args[MAX_OPERANDS];
  Relation rel[MAX_OPERANDS];
  for (int i = 0; i < op->nin; i++) args[i] = in[i].term;
  const Fact *facts = terms_facts(p->terms, op->kind, op->nin, args);
  if (!facts) return prove_fail(p, "level 1 has no such operation on these values");
  const char *best = NULL;
  for (const Fact *g = facts; g; g = g->next) {
    for (int i = 0; i < op->nin; i++) rel[i] = in[i].relation;
    Relation r = {.rank = type_of(f, op->out)->rank};
    Case c = {p, g->f, g->op, f, op, rel, &r};
    if (pass_partials(p, op, f, rel, &r) && check_case(&c) && check_extents(p, type_of(f, op->out), &r)) {
      *out = (Fact2){g->term, r};
      return true;
    }
    if (!best) best = p->reason;
  }
  p->reason = best;
  return false;
}

static bool prove_body(Prover *p, const Func *f, const Op *op, const Fact2 *in, Fact2 *out) {
  const Func *body = body_of(p->m, f, op);
  Fact2 *known = ARENA_ARRAY(p->m->arena, Fact2, body->values.n);
  if (!prove_ops(p, body, in, known)) return false;
  *out = known[body->outputs.items[0].value];
  return true;
}

static bool declared(Prover *p, const Type *global, const Layout *l, const Type *local, Relation *r) {
  if (!global || !l || global->rank != l->rank || global->dtype != local->dtype) return prove_fail(p, "level 1 has no value of that name and type");
  *r = (Relation){.rank = global->rank, .partial = l->partial, .axes = l->partial_axes};
  for (int d = 0; d < l->rank; d++) {
    r->dims[d].free = false;
    layout_interval(p->m, &l->dims[d], global->dims[d], &r->dims[d].lo, &r->dims[d].hi);
  }
  if (l->partial_axes) return prove_fail(p, "a source is declared partial");
  return check_extents(p, local, r);
}

static const Op *source_named(const Func *f, OpKind kind, const char *name) {
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == kind && strcmp(op_str(&f->ops.items[i], AT_name), name) == 0) return &f->ops.items[i];
  return NULL;
}

static const Relation *state_relation(Prover *p, const char *name, const Relation *fresh) {
  for (int i = 0; i < p->nstates; i++)
    if (strcmp(p->states[i].name, name) == 0) return &p->states[i].relation;
  if (p->nstates == MAX_STATES) return fresh;
  p->states[p->nstates].name = name;
  p->states[p->nstates].relation = *fresh;
  return &p->states[p->nstates++].relation;
}

static bool same_relation(Prover *p, const Relation *a, const Relation *b) {
  Span ignored;
  if (a->rank != b->rank || a->axes || b->axes) return false;
  for (int d = 0; d < a->rank; d++)
    if (!span_unify(p, &a->dims[d], &b->dims[d], &ignored)) return false;
  return true;
}

static bool prove_source(Prover *p, const Func *f, const Op *op, Fact2 *out) {
  const char *name = op_str(op, AT_name);
  const Op *g = source_named(p->l1, op->kind, name);
  const Type *global = g ? type_of(p->l1, g->out) : NULL;
  if (!g && op->kind == OP_read && module_state(p->m, name)) global = module_state(p->m, name)->type; /* declares a layout only */
  if (!declared(p, global, f->values.items[op->out].layout, type_of(f, op->out), &out->relation)) return false;
  out->term = g ? p->l1_terms[g->out] : UINT32_MAX;
  if (op->kind != OP_read) return true;
  const Relation *first = state_relation(p, name, &out->relation);
  return same_relation(p, first, &out->relation) || prove_fail(p, "two layouts of one state");
}

static bool prove_write(Prover *p, const Op *op, const Fact2 *in) {
  const char *name = op_str(op, AT_name);
  for (size_t i = 0; i < p->terms->writes.n; i++) {
    const Written *w = &p->terms->writes.items[i];
    if (strcmp(w->name, name) != 0) continue;
    if (w->term != in->term) return prove_fail(p, "not the value level 1 writes");
    const Relation *layout = state_relation(p, name, &in->relation);
    if (!same_relation(p, layout, &in->relation)) return prove_fail(p, "not in the layout of the state");
    p->written++;
    return true;
  }
  return prove_fail(p, "level 1 does not write this state");
}

static bool prove_op(Prover *p, const Func *f, const Op *op, const Fact2 *known, Fact2 *out) {
  Fact2 in[MAX_OPERANDS];
  for (int i = 0; i < op->nin; i++) {
    in[i] = known[op->in[i]];
    const Op *from = op_of(f, op->in[i]);
    int stage = from->kind == OP_transfer ? (int)op_int(from, AT_to_stage, 0) : from->stage;
    if (f->level == 2 && stage != op->stage) return prove_fail(p, "operand %d is in another stage", i);
  }
  if (op->kind == OP_input || op->kind == OP_param || op->kind == OP_read) return prove_source(p, f, op, out);
  if (op->kind == OP_write) return prove_write(p, op, &in[0]);
  if (op->kind == OP_copy) return *out = in[0], true;
  if (op_level2_only(op->kind)) {
    out->term = in[0].term;
    return prove_comm(p, f, op, &in[0].relation, &out->relation) && check_extents(p, type_of(f, op->out), &out->relation);
  }
  if (op_is_composite(op->kind)) return prove_body(p, f, op, in, out);
  return prove_compute(p, f, op, in, out);
}

static bool prove_ops(Prover *p, const Func *f, const Fact2 *inputs, Fact2 *known) {
  int next = 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    Fact2 none, *out = op->out ? &known[op->out] : &none;
    if (inputs && op->kind == OP_input) {
      *out = inputs[next++];
      continue;
    }
    if (!inputs) p->op = op->name; /* inside a body the composite is named */
    if (!prove_op(p, f, op, known, out)) return false;
  }
  return true;
}

static bool prove_outputs(Prover *p, const Func *l2, const Fact2 *known) {
  if (l2->outputs.n != p->l1->outputs.n) return prove_fail(p, "%zu outputs, level 1 has %zu", l2->outputs.n, p->l1->outputs.n);
  for (size_t i = 0; i < l2->outputs.n; i++) {
    const Output *o = &l2->outputs.items[i], *g = NULL;
    Relation want;
    p->op = o->name;
    for (size_t j = 0; j < p->l1->outputs.n; j++)
      if (strcmp(p->l1->outputs.items[j].name, o->name) == 0) g = &p->l1->outputs.items[j];
    if (!g || p->l1_terms[g->value] != known[o->value].term) return prove_fail(p, "not the value level 1 gives");
    if (!declared(p, type_of(p->l1, g->value), o->layout, type_of(l2, o->value), &want)) return false;
    if (known[o->value].relation.axes) return prove_fail(p, "the output is a partial result");
    if (!same_relation(p, &want, &known[o->value].relation)) return prove_fail(p, "the output is not the declared shard");
  }
  return p->written == p->terms->writes.n || prove_fail(p, "a state of level 1 is not written");
}

Proof prove(Module *m, const Func *l1, const Func *l2) {
  Prover p = {.m = m, .l1 = l1, .terms = terms_new(m), .values = ARENA_ARRAY(m->arena, int64_t, m->symbols.n)};
  p.l1_terms = terms_of_func(p.terms, l1, NULL);
  Fact2 *known = ARENA_ARRAY(m->arena, Fact2, l2->values.n);
  if (prove_ops(&p, l2, NULL, known) && prove_outputs(&p, l2, known)) return (Proof){PROVED, NULL, NULL};
  return (Proof){p.uncertain || p.guessed ? UNKNOWN : REFUTED, p.op, p.reason};
}
