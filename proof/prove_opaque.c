/* proof/prove_opaque.c - an operator that apc does not know, under the rule that the user states (ir/opaque_rule.h).
 *
 * The rule is an axiom: what it says about whole operands and results holds for the parts of a rank.  From the boxes of
 * the operands follows one span per dimension of the rule, which all operands must agree on; frozen dimensions must be
 * whole, reduced ones make the result partial, the others pass their span on.  The factor rule that the planner made of
 * the same text is not read.
 */
#include "ir/opaque_rule.h"
#include "proof/prove_relation.h"

typedef struct Ruled {
  Prover *p;
  const OpaqueCase *c;
  const OpaqueRule *r;
  OpaqueBound b;
  Span span[OPAQUE_NAMES][MAX_RANK];
  bool known[OPAQUE_NAMES][MAX_RANK];
} Ruled;

static Span whole(const Ruled *k, const Expr *extent) { return span_at(ex_const(k->p->m, 0), extent); }

static bool meet(Ruled *k, int name, int d, Span s) {
  if (!k->known[name][d]) {
    k->span[name][d] = s;
    return k->known[name][d] = true;
  }
  return span_unify(k->p, &k->span[name][d], &s, &k->span[name][d]) ||
         prove_fail(k->p, "operands hold different parts of '%s'", k->r->names[name].name);
}

/* A joined dimension is cut along its first name, in units of the others, or not at all. */
static bool meet_joined(Ruled *k, const OpaqueDim *x, Span s, const Expr *extent) {
  Module *m = k->p->m;
  const Expr *unit = ex_const(m, 1);
  if (!span_settle(k->p, &s, extent)) return prove_fail(k->p, "the place of a joined dimension is unknown");
  bool all = span_is_whole(k->p, &s, extent);
  int first = 0;
  while (first < x->n - 1 && ex_is_const(k->b.size[x->names[first]][0], 1)) first++;
  for (int i = 0; i < x->n; i++) {
    if (i > first) unit = ex_mul(m, unit, k->b.size[x->names[i]][0]);
    if ((all || i != first) && !meet(k, x->names[i], 0, whole(k, k->b.size[x->names[i]][0]))) return false;
  }
  if (all) return true;
  const Expr *lo = expr_quotient(k->p, s.lo, unit), *hi = expr_quotient(k->p, s.hi, unit);
  if (!lo || !hi) return prove_fail(k->p, "a joined dimension is cut inside '%s'", k->r->names[x->names[first]].name);
  return meet(k, x->names[first], 0, span_at(lo, hi));
}

static bool meet_number(const Ruled *k, Span s, const Expr *extent) {
  return span_is_whole(k->p, &s, extent) || prove_fail(k->p, "a dimension of a given extent is cut");
}

static bool meet_operand(Ruled *k, int i) {
  const OpaqueTensor *t = &k->r->operands[i];
  const Type *type = type_of(k->c->gf, k->c->g->in[i]);
  const Span *dims = k->c->in[i].dims;
  bool ok = true;
  for (int d = 0, at = 0; ok && d < t->n; d++) {
    const OpaqueDim *x = &t->dims[d];
    int n = x->n ? k->b.n[x->names[0]] : 1;
    if (x->n > 1) ok = meet_joined(k, x, dims[at], type->dims[at]);
    if (!x->n) ok = meet_number(k, dims[at], type->dims[at]);
    for (int j = 0; ok && x->n == 1 && j < n; j++) ok = meet(k, x->names[0], j, dims[at + j]);
    at += n;
  }
  return ok;
}

/* Frozen dimensions are whole, reduced ones make parts. */
static bool settle(Ruled *k, int i) {
  const OpaqueName *name = &k->r->names[i];
  for (int d = 0; d < k->b.n[i]; d++) {
    const Expr *extent = k->b.size[i][d];
    if (!k->known[i][d]) k->span[i][d] = whole(k, extent);
    if (name->frozen && !span_is_whole(k->p, &k->span[i][d], extent))
      return prove_fail(k->p, "'%s' is cut, which the rule of the operator does not allow", name->name);
    if (!name->frozen && name->reduction != RED_NONE &&
        !reduce_span(k->p, k->span[i][d], extent, name->reduction, k->c->out))
      return false;
  }
  return true;
}

/* The span of a joined dimension of a result: only its first name may be cut. */
static Span joined(const Ruled *k, const OpaqueDim *x) {
  Module *m = k->p->m;
  Span s = k->span[x->names[0]][0];
  const Expr *unit = ex_const(m, 1);
  int first = 0;
  while (first < x->n - 1 && ex_is_const(k->b.size[x->names[first]][0], 1)) first++;
  s = k->span[x->names[first]][0];
  for (int i = first + 1; i < x->n; i++) unit = ex_mul(m, unit, k->b.size[x->names[i]][0]);
  return s.free ? (Span){NULL, ex_mul(m, s.hi, unit), true} : span_at(ex_mul(m, s.lo, unit), ex_mul(m, s.hi, unit));
}

static bool inner_is_whole(const Ruled *k, const OpaqueDim *x) {
  int first = 0;
  while (first < x->n - 1 && ex_is_const(k->b.size[x->names[first]][0], 1)) first++;
  for (int i = first + 1; i < x->n; i++)
    if (!span_is_whole(k->p, &k->span[x->names[i]][0], k->b.size[x->names[i]][0]))
      return prove_fail(k->p, "'%s' is cut inside a joined dimension", k->r->names[x->names[i]].name);
  return true;
}

static bool pass_on(const Ruled *k) {
  const OpaqueTensor *t = &k->r->results[k->c->result];
  Relation *out = k->c->out;
  for (int d = 0, at = 0; d < t->n; d++) {
    const OpaqueDim *x = &t->dims[d];
    int n = x->n ? k->b.n[x->names[0]] : 1;
    if (x->n > 1 && !inner_is_whole(k, x)) return false;
    if (x->n > 1) out->dims[at] = joined(k, x);
    if (!x->n) out->dims[at] = whole(k, ex_const(k->p->m, x->number));
    for (int j = 0; x->n == 1 && j < n; j++) out->dims[at + j] = k->span[x->names[0]][j];
    at += n;
  }
  return true;
}

bool prove_opaque(Prover *p, const OpaqueCase *c) {
  const Type *in[MAX_OPERANDS];
  const char *why;
  Ruled *k = ARENA_NEW(p->m->arena, Ruled);
  *k = (Ruled){.p = p, .c = c, .r = opaque_rule_of(p->m, op_str(c->g, AT_rule))};
  for (int i = 0; i < c->g->nin; i++) in[i] = type_of(c->gf, c->g->in[i]);
  if (!k->r || !opaque_bind(p->m, k->r, c->g->nin, in, op_str(c->g, AT_attributes), false, &k->b, &why))
    return prove_fail(p, "the rule of the operator does not fit level 1");
  for (int i = 0; i < c->g->nin; i++)
    if (!meet_operand(k, i)) return false;
  for (int i = 0; i < k->r->nnames; i++)
    if (!settle(k, i)) return false;
  return pass_on(k);
}
