/* passes/rewrite/strided.c - lets products read operands of transposes in place.
 *
 * The library of a device multiplies matrices with any leading dimension, in either order, and batches of them with any
 * strides; so a transpose that only a product reads can be dropped if its operand has suitable strides too
 * (ir/legal_dot.h).  Rewriting it here lets prices and plans see it: the letters of the product follow its new operand,
 * and the transpose is removed.
 *
 *   dot(x, transpose(k)) "bhsd,bhdt->bhst"   becomes   dot(x, k) "bhsd,bthd->bhst"
 *
 * The pass tries both operands if they only fit together; else the second, else the first.  Letters that become 1 on
 * every rank under a plan might allow more; these transposes stay.
 */
#include <string.h>

#include "ir/legal_dot.h"
#include "passes/rewrite/passes.h"
#include "passes/rewrite/rewrite.h"

typedef struct Strided {
  Rewrite r;
  const DeviceTraits *device;
  const int *uses; /* by value: uses as operands and outputs */
  /* By operation: the operands of a product that are read through transposes; removed transposes. */
  uint8_t *through;
  bool *gone;
} Strided;

/* Returns the transpose that makes operand t only for this product; NULL if none. */
static const Op *transpose_for(const Strided *s, const Op *dot, int t) {
  const Op *op = op_of(s->r.old, dot->in[t]);
  return op->kind == OP_transpose && s->uses[dot->in[t]] == 1 ? op : NULL;
}

/* Returns the product with the operands of the set read through their transposes. */
static DotForm form_through(const Strided *s, const Op *dot, int set) {
  DotForm f;
  op_dot_form(&f, type_of(s->r.old, dot->out)->dtype, op_str(dot, AT_spec));
  for (int t = 0; t < 2; t++) {
    const Type *type = type_of(s->r.old, dot->in[t]);
    char letters[MAX_RANK + 1];
    memcpy(letters, f.spec[t], sizeof letters);
    for (int d = 0; d < type->rank; d++) f.one[(int)letters[d]] = ex_is_const(type->dims[d], 1);
    if (!(set >> t & 1)) continue;
    const Attr *perm = op_attr(op_of(s->r.old, dot->in[t]), AT_perm);
    for (int d = 0; d < perm->n; d++) f.spec[t][perm->u.ints[d]] = letters[d];
  }
  return f;
}

static int operands_through(const Strided *s, const Op *op) {
  int some = 0;
  for (int t = 0; t < 2; t++) some |= (transpose_for(s, op, t) != NULL) << t;
  for (int set = 3; set > 0; set--) {
    if ((set & some) != set) continue;
    DotForm f = form_through(s, op, set);
    if (legal_dot_fits(s->device, &f)) return set;
  }
  return 0;
}

static Val strided_dot(Strided *s, const Op *op, int set) {
  Module *m = s->r.m;
  DotForm f = form_through(s, op, set);
  Attr spec = attr_s(m, AT_spec, arena_printf(m->arena, "%s,%s->%s", f.spec[0], f.spec[1], f.spec[2]));
  Val in[2];
  for (int t = 0; t < 2; t++) in[t] = s->r.map[set >> t & 1 ? op_of(s->r.old, op->in[t])->in[0] : op->in[t]];
  OpSpec new = op_spec_of(s->r.old, op);
  new.in = in, new.nattrs = 1, new.attrs = &spec;
  return build_op(&s->r.b, &new);
}

static bool read_where_they_lie(Module *m, const DeviceTraits *d, const Func *f, Diags *diags) {
  Strided s = {.r = rewrite_start(m, f, diags),
               .device = d,
               .uses = rewrite_uses(m->arena, f),
               .through = ARENA_ARRAY(m->arena, uint8_t, f->ops.n),
               .gone = ARENA_ARRAY(m->arena, bool, f->ops.n)};
  bool any = false;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (op->kind != OP_dot) continue;
    s.through[i] = (uint8_t)operands_through(&s, op);
    for (int t = 0; t < 2; t++)
      if (s.through[i] >> t & 1) s.gone[f->values.items[op->in[t]].op] = any = true;
  }
  for (size_t i = 0; i < f->ops.n && any; i++) {
    const Op *op = &f->ops.items[i];
    if (s.gone[i]) continue;
    if (s.through[i]) s.r.map[op->out] = strided_dot(&s, op, s.through[i]);
    else rewrite_copy(&s.r, op);
    if (diags->errors) return false;
  }
  if (any) rewrite_finish(&s.r);
  return true;
}

bool pass_strided(Module *m, const DeviceTraits *d, Diags *diags) {
  for (size_t k = 0; k < m->funcs.n; k++)
    if (m->funcs.items[k]->level == 1 && !read_where_they_lie(m, d, m->funcs.items[k], diags)) return false;
  return true;
}
