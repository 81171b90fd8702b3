/* ir/ops/opaque.c - operators that apc does not know.
 *
 * With a rule (ir/opaque_rule.h) the operator has the factors that the rule names, and the function of a library
 * computes it.  Without one it has no factors: every dimension is whole on all ranks, and nothing computes it.
 *
 * Modulo p the operator is a hash that has the properties which the rule claims and no others: an element depends on
 * all elements of the operands that its cut dimensions select, on its place along the others, and sums (or their like)
 * run over the reduced ones.  So a wrongly lowered operator gives other numbers, whatever its function computes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "ir/opaque.h"
#include "ir/opaque_rule.h"
#include "ir/ops/record.h"

/* ---- result types */

static bool has_without_rule(const Infer *c) {
  if (infer_attr(c, AT_attributes)) return infer_fail(c, "attributes without a rule") != NULL;
  if (!infer_attr(c, AT_name)) return infer_fail(c, "needs attribute %s", attr_name(AT_name)) != NULL;
  return infer_attr(c, AT_result) || infer_fail(c, "needs attribute %s", attr_name(AT_result)) != NULL;
}

/* Partial results need a reduction that exists for their types. */
static bool reduces(const Infer *c, const OpaqueRule *r, const OpaqueBound *b) {
  for (int i = 0; i < r->nresults && r->reduction != RED_NONE; i++)
    if (!reduction_defined(r->reduction, b->results[i]->dtype))
      return infer_fail(c, "operator %s: result %d is %s, which has no %s", infer_attr(c, AT_kind)->u.s, i,
                        dtype_name(b->results[i]->dtype), reduction_name(r->reduction)) != NULL;
  return true;
}

static const Type *infer_opaque(const Infer *c) {
  const Attr *rule = infer_attr(c, AT_rule), *attributes = infer_attr(c, AT_attributes);
  OpaqueFault fault;
  OpaqueBound b;
  const char *why;
  if (!rule) return has_without_rule(c) ? c->spec->type : NULL;
  if (infer_attr(c, AT_name) || infer_attr(c, AT_result) || infer_attr(c, AT_assumed))
    return infer_fail(c, "name, result and assumed are for operators without a rule");
  const OpaqueRule *r = opaque_rule_of(c->m, rule->u.s);
  if (!r && !opaque_rule_parse(c->m->arena, rule->u.s, &fault))
    return infer_fail(c, "rule, character %zu: %s", fault.at + 1, fault.why);
  const char *given = attributes ? attributes->u.s : NULL;
  if (!opaque_bind(c->m, r, c->spec->nin, c->in, given, c->f->level == 2, &b, &why))
    return infer_fail(c, "operator %s: %s", infer_attr(c, AT_kind)->u.s, why);
  if (!reduces(c, r, &b)) return NULL;
  for (int i = 1; i < r->nresults; i++) infer_further(c, b.results[i]);
  return b.results[0];
}

/* ---- factors */

typedef struct Bound {
  const OpaqueRule *r;
  OpaqueBound b;
  int first[OPAQUE_NAMES]; /* of a name: its first factor; the dimensions of a group follow each other */
} Bound;

/* The rule of an operation on its types; false without a rule. */
static bool bound_of(Module *m, const Func *f, const Op *op, Bound *out) {
  const Type *in[MAX_OPERANDS];
  const char *why;
  out->r = opaque_rule_of(m, op_str(op, AT_rule));
  for (int i = 0; i < op->nin; i++) in[i] = type_of(f, op->in[i]);
  if (!out->r || !opaque_bind(m, out->r, op->nin, in, op_str(op, AT_attributes), f->level == 2, &out->b, &why))
    return false;
  for (int i = 0, n = 0; i < out->r->nnames; n += out->b.n[i++]) out->first[i] = n;
  return true;
}

static FactorKind kind_of(const OpaqueName *name) {
  return name->frozen ? FK_FROZEN : name->reduction != RED_NONE ? FK_REDUCE : FK_PARALLEL;
}

static void add_factors(const RuleMaking *k, const Bound *b, int i) {
  const OpaqueName *name = &b->r->names[i];
  for (int d = 0; d < b->b.n[i]; d++) {
    const char *text = name->group ? arena_printf(k->m->arena, "%s%d", name->name, d) : name->name;
    rule_factor(k, text, b->b.size[i][d], kind_of(name), name->reduction);
  }
}

/* A number is a factor that is never cut. */
static void set_dims(const RuleMaking *k, const Bound *b, const OpaqueTensor *t, TensorFactors *out) {
  for (int d = 0, at = 0; d < t->n; d++) {
    const OpaqueDim *x = &t->dims[d];
    int n = x->n ? b->b.n[x->names[0]] : 1;
    if (!x->n) {
      const char *name = arena_printf(k->m->arena, "%lld", (long long)x->number);
      int f = rule_letter(k, name);
      if (f < 0) f = rule_factor(k, name, ex_const(k->m, x->number), FK_FROZEN, RED_NONE);
      rule_set_dim(out, at, (uint8_t)f);
    }
    for (int i = 0; i < n && x->n; i++) rule_set_dim(out, at + i, (uint8_t)(b->first[x->names[0]] + i));
    for (int i = 1; i < x->n; i++) rule_push_dim(out, at, (uint8_t)b->first[x->names[i]]);
    at += n;
  }
}

static void rule_opaque(const RuleMaking *k) {
  Bound b;
  if (!bound_of(k->m, k->f, k->op, &b)) return;
  for (int i = 0; i < b.r->nnames; i++) add_factors(k, &b, i);
  for (int i = 0; i < k->op->nin; i++) set_dims(k, &b, &b.r->operands[i], &k->r->operands[i]);
  for (int i = 0; i < k->op->nout; i++) set_dims(k, &b, &b.r->results[i], &k->r->results[i]);
}

/* ---- work */

/* Without a rule, or if that says nothing, the operator is priced by its bytes only.  The first factors of the rule are
 * those of the names, in their order. */
static double flops_opaque(const OpPart *p) {
  double extent[OPAQUE_NAMES];
  OpaqueFault fault;
  Arena *a = arena_new();
  const char *text = op_str(p->op, AT_rule);
  const OpaqueRule *r = text ? opaque_rule_parse(a, text, &fault) : NULL;
  for (int i = 0; r && i < r->nnames; i++) {
    extent[i] = 1;
    for (int f = 0; f < p->rule->nfactors; f++) {
      size_t n = strlen(r->names[i].name);
      const char *name = p->rule->factors[f].name, *rest = name + n;
      bool same = strncmp(name, r->names[i].name, n) == 0 &&
                  (r->names[i].group ? *rest && strspn(rest, "0123456789") == strlen(rest) : !*rest);
      if (same) extent[i] *= p->size[f];
    }
  }
  double work = r && r->work ? size_text_number(r->work, extent, op_str(p->op, AT_attributes)) : 0;
  arena_free(a);
  return work > 0 ? work : 0;
}

/* ---- meaning in floats: the function of a library */

static void *stored(Arena *a, const InterpTensor *x, bool values) {
  size_t step = dtype_bytes(x->dtype);
  int64_t n = interp_elements(x);
  char *data = arena_alloc(a, step * (size_t)(n + 1));
  for (int64_t i = 0; i < n && values; i++) {
    if (dtype_is_float(x->dtype)) dtype_store_f(x->dtype, data + (size_t)i * step, x->cells[i].f);
    else dtype_store_i(x->dtype, data + (size_t)i * step, x->cells[i].i);
  }
  return data;
}

static void take(const OpaqueArray *from, InterpTensor *to) {
  size_t step = dtype_bytes(to->dtype);
  for (int64_t i = 0; i < interp_elements(to); i++) {
    const char *element = (const char *)from->data + (size_t)i * step;
    if (dtype_is_float(to->dtype)) to->cells[i].f = dtype_load_f(to->dtype, element);
    else to->cells[i].i = dtype_load_i(to->dtype, element);
  }
}

static OpaqueArray array_of(Arena *a, const InterpTensor *x, bool values) {
  return (OpaqueArray){x->dtype, x->rank, x->dims, stored(a, x, values)};
}

static bool call_function(Eval *e, const OpaqueKernel *kernel, const Bound *b, Arena *a) {
  const char *attributes = op_str(e->op, AT_attributes);
  OpaqueArray in[MAX_OPERANDS], out[MAX_RESULTS];
  int64_t scratch = 0;
  char why[256] = "";
  const Expr *bytes = b->r->scratch ? size_text_expr(e->run->m, b->r->scratch, &b->b, attributes) : NULL;
  if (bytes && !eval_expr(e, bytes, &scratch)) return eval_fail(e, "the scratch has no size");
  for (int i = 0; i < e->op->nin; i++) in[i] = array_of(a, e->in[i], true);
  for (int i = 0; i < e->op->nout; i++) out[i] = array_of(a, e->outs[i], false);
  const OpaqueCall call = {e->op->nin, e->op->nout, in, out, attributes ? attributes : "{}", scratch};
  if (!kernel->run(kernel, &call, why, sizeof why))
    return eval_fail(e, "operator %s failed: %s", op_str(e->op, AT_kind), why);
  for (int i = 0; i < e->op->nout; i++) take(&out[i], e->outs[i]);
  return true;
}

/* ---- meaning modulo p: a hash */

typedef struct Axis {
  int64_t n;
  FactorKind kind;
} Axis;

/* The tensor's distance in cells between neighbours along each axis; 0 if it lacks the axis. */
typedef struct Steps {
  int64_t of[MAX_FACTORS];
  bool has[MAX_FACTORS];
} Steps;

typedef struct Hashing {
  Eval *e;
  const Bound *b;
  int naxes;
  Axis axes[MAX_FACTORS];
  Steps in[MAX_OPERANDS], out[MAX_RESULTS];
  uint64_t kind;
} Hashing;

static void find_steps(const Hashing *h, const OpaqueTensor *t, const InterpTensor *x, Steps *s) {
  int64_t strides[MAX_RANK];
  *s = (Steps){0};
  eval_row_major(x->rank, x->dims, strides);
  for (int d = 0, at = 0; d < t->n; d++) {
    const OpaqueDim *dim = &t->dims[d];
    int n = dim->n ? h->b->b.n[dim->names[0]] : 1;
    for (int i = 0; i < n && dim->n == 1; i++) {
      int axis = h->b->first[dim->names[0]] + i;
      s->of[axis] += strides[at + i]; /* twice in a tensor: its diagonal, which stands for the whole */
      s->has[axis] = true;
    }
    int64_t step = strides[at];
    for (int i = dim->n - 1; i >= 0 && dim->n > 1; i--) {
      int axis = h->b->first[dim->names[i]];
      s->of[axis] += step, s->has[axis] = true;
      step *= h->axes[axis].n;
    }
    at += n;
  }
}

static bool open_hashing(Hashing *h) {
  const OpaqueRule *r = h->b->r;
  const char *name = op_str(h->e->op, AT_kind);
  h->kind = hash64(name, strlen(name), 0);
  for (int i = 0; i < r->nnames; i++)
    for (int d = 0; d < h->b->b.n[i]; d++) {
      Axis *axis = &h->axes[h->naxes++];
      axis->kind = kind_of(&r->names[i]);
      if (!eval_expr(h->e, h->b->b.size[i][d], &axis->n)) return eval_fail(h->e, "an extent has no value");
    }
  for (int i = 0; i < r->noperands; i++) find_steps(h, &r->operands[i], h->e->in[i], &h->in[i]);
  for (int i = 0; i < r->nresults; i++) find_steps(h, &r->results[i], h->e->outs[i], &h->out[i]);
  return true;
}

/* Steps through the axes of the set, the last one fastest; false after the last index. */
static bool next_index(const Hashing *h, uint32_t set, int64_t *index) {
  for (int a = h->naxes - 1; a >= 0; a--) {
    if (!(set >> a & 1u)) continue;
    if (++index[a] < h->axes[a].n) return true;
    index[a] = 0;
  }
  return false;
}

static int64_t cell_at(const Hashing *h, const Steps *s, const int64_t *index) {
  int64_t at = 0;
  for (int a = 0; a < h->naxes; a++) at += index[a] * s->of[a];
  return at;
}

static uint32_t axes_where(const Hashing *h, const Steps *s, bool frozen) {
  uint32_t set = 0;
  for (int a = 0; a < h->naxes; a++)
    if ((!s || s->has[a]) && (h->axes[a].kind == FK_FROZEN) == frozen) set |= 1u << a;
  return set;
}

/* The hash of all elements that the operands have at the index along the axes that may be cut. */
static uint64_t hash_operands(const Hashing *h, const int64_t *at) {
  uint64_t x = h->kind;
  for (int i = 0; i < h->e->op->nin; i++) {
    int64_t index[MAX_FACTORS];
    uint32_t set = axes_where(h, &h->in[i], true);
    memcpy(index, at, sizeof index);
    if (!interp_elements(h->e->in[i])) continue;
    do x = modp_hash(x + 1, (uint64_t)h->e->in[i]->cells[cell_at(h, &h->in[i], index)].i, (uint64_t)i);
    while (next_index(h, set, index));
  }
  return x;
}

static Cell cell_of_hash(DType t, uint64_t x) {
  return cell_i((int64_t)(dtype_is_float(t) ? x % INTERP_P : t == DT_bool ? x & 1 : x & 3));
}

/* Adds to, or sets, the elements of the results at the index. */
static void store_hash(const Hashing *h, const int64_t *at, uint64_t operands) {
  Reduction r = h->b->r->reduction;
  for (int i = 0; i < h->e->op->nout; i++) {
    InterpTensor *y = h->e->outs[i];
    int64_t index[MAX_FACTORS];
    uint32_t set = axes_where(h, &h->out[i], true);
    memcpy(index, at, sizeof index);
    if (!interp_elements(y)) continue;
    do {
      uint64_t place = (uint64_t)i;
      for (int a = 0; a < h->naxes; a++)
        if (set >> a & 1u) place = modp_hash(place, (uint64_t)index[a], (uint64_t)a);
      Cell *to = &y->cells[cell_at(h, &h->out[i], index)],
           x = cell_of_hash(y->dtype, modp_hash(h->kind, operands, place));
      if (r == RED_NONE) *to = x;
      else cells_reduce(true, y->dtype, r, 1, to, 1, &x, 1);
    } while (next_index(h, set, index));
  }
}

static bool hash_all(Eval *e, const Bound *b) {
  Hashing h = {.e = e, .b = b};
  int64_t index[MAX_FACTORS] = {0};
  if (!open_hashing(&h)) return false;
  for (int i = 0; i < e->op->nout; i++)
    cells_fill(e->outs[i],
               b->r->reduction == RED_NONE ? cell_i(0) : cell_identity(true, e->outs[i]->dtype, b->r->reduction));
  uint32_t cut = axes_where(&h, NULL, false);
  for (int a = 0; a < h.naxes; a++)
    if ((cut >> a & 1u) && !h.axes[a].n) return true;
  do store_hash(&h, index, hash_operands(&h, index));
  while (next_index(&h, cut, index));
  return true;
}

static bool eval_opaque(Eval *e) {
  const char *kind = op_str(e->op, AT_kind);
  Bound b;
  if (!op_attr(e->op, AT_rule)) return eval_fail(e, "operator %s is unknown and cannot be computed", kind);
  if (!bound_of(e->run->m, e->frame->f, e->op, &b)) return eval_fail(e, "the rule does not fit the operands");
  if (e->run->modp) return hash_all(e, &b);
  const OpaqueKernel *kernel = opaque_kernel(e->run->m, kind);
  if (!kernel) return eval_fail(e, "operator %s has no kernel and cannot be computed", kind);
  Arena *a = arena_new();
  bool ok = call_function(e, kernel, &b, a);
  arena_free(a);
  return ok;
}

const OpRecord record_opaque = {
    .infer = infer_opaque, .written_at_level2 = true, .rule = rule_opaque, .eval = eval_opaque, .flops = flops_opaque};
