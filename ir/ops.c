/* ir/ops.c - facts read from the op and attribute tables. */
#include <string.h>

#include "base/die.h"
#include "ir/ir.h"

typedef struct OpRow {
  const char *name;
  OpClass class;
  int min, max, results;
  unsigned traits; /* of OpTrait */
  int cost;
  const char *attrs, *doc;
} OpRow;

static const OpRow rows[OP_COUNT] = {
    [OP_none] = {"none", OC_OTHER, 0, 0, 0, 0, 0, "", ""},
#define UNARY(name, classes, linear, cost, f, i, doc) \
  [OP_##name] = {#name, OC_UNARY, 1, 1, 1, OT_ELEMENTWISE, cost, "", doc},
#define BINARY(name, classes, linear, cost, f, i, doc) \
  [OP_##name] = {#name, OC_BINARY, 2, 2, 1, OT_ELEMENTWISE, cost, "", doc},
#define COMPARE(name, expr, doc) [OP_##name] = {#name, OC_COMPARE, 2, 2, 1, OT_ELEMENTWISE, 1, "", doc},
#define OP(name, min, max, results, traits, attrs, doc) \
  [OP_##name] = {#name, OC_OTHER, min, max, results, traits, 1, attrs, doc},
#include "ir/ops.def"
};

static const struct {
  const char *name;
  AttrKind kind;
} attr_rows[AT_COUNT] = {
#define ATTR(name, kind, doc) [AT_##name] = {#name, AK_##kind},
#include "ir/attrs.def"
#undef ATTR
};

static const struct {
  const char *name;
  bool each;
} phase_rows[] = {
#define PHASE(name, each, doc) {#name, each},
#include "base/phase.def"
#undef PHASE
};

const char *phase_name(Phase p) { return phase_rows[p - PH_FIRST - 1].name; }
bool phase_backward(Phase p) { return p == PH_bwd || p == PH_wgt; }
bool phase_each(Phase p) { return phase_rows[p - PH_FIRST - 1].each; }

const char *op_name(OpKind k) { return rows[k].name; }
OpClass op_class(OpKind k) { return rows[k].class; }
const char *op_doc(OpKind k) { return rows[k].doc; }
int op_min_operands(OpKind k) { return rows[k].min; }
int op_max_operands(OpKind k) { return rows[k].max; }
int op_results(OpKind k) { return rows[k].results; }
int op_element_cost(OpKind k) { return rows[k].cost; }

bool op_find(const char *name, OpKind *out) {
  for (int k = 1; k < OP_COUNT; k++)
    if (strcmp(rows[k].name, name) == 0) {
      *out = (OpKind)k;
      return true;
    }
  return false;
}

static bool has(OpKind k, OpTrait trait) { return rows[k].traits & trait; }

bool op_type_is_given(OpKind k) { return has(k, OT_TYPED); }
bool op_is_source(OpKind k) { return has(k, OT_SOURCE); }
bool op_is_declared(OpKind k) { return has(k, OT_DECLARED); }
bool op_is_at_entry(OpKind k) { return has(k, OT_AT_ENTRY); }
bool op_is_resident(OpKind k) { return has(k, OT_RESIDENT); }
bool op_is_constant(OpKind k) { return has(k, OT_CONSTANT); }
bool op_is_state(OpKind k) { return has(k, OT_STATE); }
bool op_acts(OpKind k) { return has(k, OT_ACTS); }
bool op_is_elementwise(OpKind k) { return has(k, OT_ELEMENTWISE); }
bool op_arranges(OpKind k) { return has(k, OT_ARRANGES); }
bool op_is_view(OpKind k) { return has(k, OT_VIEW); }
bool op_is_windowed(OpKind k) { return has(k, OT_WINDOWED); }
bool op_is_grouped(OpKind k) { return has(k, OT_GROUPED); }
bool op_is_contraction(OpKind k) { return has(k, OT_CONTRACTION); }
bool op_has_library_sums(OpKind k) { return has(k, OT_LIBRARY_SUMS); }
bool op_is_along(OpKind k) { return has(k, OT_ALONG); }
bool op_takes_stored(OpKind k) { return has(k, OT_STORED); }
bool op_is_composite(OpKind k) { return has(k, OT_COMPOSITE); }
bool op_is_call(OpKind k) { return has(k, OT_CALL); }
bool op_is_loop_part(OpKind k) { return has(k, OT_LOOP); }
bool op_level2_only(OpKind k) { return has(k, OT_LEVEL2); }
bool op_is_comm(OpKind k) { return has(k, OT_COMM); }

/* The attribute list of a row, by key, parsed on first use: 1 if required, 0 if optional (inside []), -1 if not in the
 * list. */
typedef struct AttrRules {
  bool known;
  signed char rule[AT_COUNT];
  AttrKey required[AT_COUNT + 1]; /* by key: the first required one from there on */
} AttrRules;

static void read_attrs(OpKind k, AttrRules *r) {
  int required = 1;
  memset(r->rule, -1, sizeof r->rule);
  for (const char *s = rows[k].attrs; *s;) {
    if (*s == '[') required = 0;
    if (*s == ']') required = 1;
    size_t length = strcspn(s, " []");
    for (int key = 0; length && key < AT_COUNT; key++)
      if (strlen(attr_rows[key].name) == length && strncmp(s, attr_rows[key].name, length) == 0)
        r->rule[key] = (signed char)required;
    s += length ? length : 1;
  }
  r->required[AT_COUNT] = AT_COUNT;
  for (int key = AT_COUNT; key-- > 0;) r->required[key] = r->rule[key] == 1 ? (AttrKey)key : r->required[key + 1];
  r->known = true;
}

static const AttrRules *attr_rules(OpKind k) {
  static AttrRules rules[OP_COUNT];
  if (!rules[k].known) read_attrs(k, &rules[k]);
  return &rules[k];
}

int op_attr_rule(OpKind k, AttrKey key) { return attr_rules(k)->rule[key]; }
AttrKey op_attr_required(OpKind k, AttrKey from) { return attr_rules(k)->required[from]; }

const char *attr_name(AttrKey key) { return attr_rows[key].name; }
AttrKind attr_kind(AttrKey key) { return attr_rows[key].kind; }

bool attr_find(const char *name, AttrKey *out) {
  for (int k = 0; k < AT_COUNT; k++)
    if (strcmp(attr_rows[k].name, name) == 0) {
      *out = (AttrKey)k;
      return true;
    }
  return false;
}

/* ---- reading an operation */

bool attr_equal(const Attr *x, const Attr *y) {
  if (x->key != y->key || x->n != y->n) return false;
  switch (attr_kind(x->key)) {
    case AK_INT:
    case AK_AXIS: return x->u.i == y->u.i;
    case AK_FLOAT: return memcmp(&x->u.f, &y->u.f, sizeof x->u.f) == 0;
    case AK_STR: return x->u.s == y->u.s; /* interned */
    case AK_EXPR: return x->u.e == y->u.e;
    case AK_DTYPE: return x->u.dtype == y->u.dtype;
    case AK_REDUCTION: return x->u.reduction == y->u.reduction;
    case AK_INTS:
    case AK_AXES: return !x->n || memcmp(x->u.ints, y->u.ints, sizeof *x->u.ints * (size_t)x->n) == 0;
    case AK_FLOATS: return !x->n || memcmp(x->u.floats, y->u.floats, sizeof *x->u.floats * (size_t)x->n) == 0;
    case AK_STRS: return !x->n || memcmp(x->u.strs, y->u.strs, sizeof *x->u.strs * (size_t)x->n) == 0;
    case AK_EXPRS: return !x->n || memcmp(x->u.exprs, y->u.exprs, sizeof *x->u.exprs * (size_t)x->n) == 0;
  }
  return false;
}

const Attr *op_attr(const Op *op, AttrKey key) {
  for (int i = 0; i < op->nattrs; i++)
    if (op->attrs[i].key == key) return &op->attrs[i];
  return NULL;
}

bool op_is_splat(const Op *op) { return op->kind == OP_size || (op->kind == OP_const && op_attr(op, AT_value)); }

bool op_is_zeros(const Op *op) {
  return op->kind == OP_const && op_attr(op, AT_value) && op_float(op, AT_value, 0) == 0;
}

bool op_is_anywhere(const Op *op) { return has(op->kind, OT_ANYWHERE) && (op->kind != OP_const || op_is_splat(op)); }

int64_t op_int(const Op *op, AttrKey key, int64_t otherwise) {
  const Attr *a = op_attr(op, key);
  return a ? a->u.i : otherwise;
}

double op_float(const Op *op, AttrKey key, double otherwise) {
  const Attr *a = op_attr(op, key);
  return a ? a->u.f : otherwise;
}

bool op_store_listed(const Op *op, DType type, void *out) {
  const Attr *ints = op_attr(op, AT_ints), *floats = op_attr(op, AT_floats);
  char *to = out;
  for (int i = 0; ints && i < ints->n; i++, to += dtype_bytes(type)) dtype_store_i(type, to, ints->u.ints[i]);
  for (int i = 0; floats && i < floats->n; i++, to += dtype_bytes(type)) dtype_store_f(type, to, floats->u.floats[i]);
  return ints || floats;
}

const char *op_str(const Op *op, AttrKey key) {
  const Attr *a = op_attr(op, key);
  return a ? a->u.s : NULL;
}

const Expr *op_expr(const Op *op, AttrKey key) {
  const Attr *a = op_attr(op, key);
  return a ? a->u.e : NULL;
}

Val func_find(const Func *f, const char *name) {
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (strcmp(op->name, name) == 0) return op->out;
    for (int k = 1; k < op->nout; k++)
      if (strcmp(op->names[k - 1], name) == 0) return op->out + (Val)k;
  }
  return 0;
}

const char *name_of(const Func *f, Val v) {
  const Op *op = op_of(f, v);
  return v == op->out ? op->name : op->names[value_index(f, v) - 1];
}

OpSpec op_spec_of(const Func *f, const Op *op) {
  return (OpSpec){.kind = op->kind,
                  .name = op->name,
                  .group = op->group,
                  .mirror = op->mirror,
                  .again = op->again,
                  .loc = op->loc,
                  .stage = op->stage,
                  .phase = op->phase,
                  .nin = op->nin,
                  .in = op->in,
                  .nattrs = op->nattrs,
                  .attrs = op->attrs,
                  .type = op->out ? type_of(f, op->out) : NULL,
                  .layout = op->out ? f->values.items[op->out].layout : NULL,
                  .names = op->names};
}

bool op_spreads_rows(const Op *op, const Type *of, const Type *to) {
  const Attr *dims = op_attr(op, AT_dims);
  int next = 0;
  for (int d = 0; d < of->rank; d++) {
    if (ex_is_const(of->dims[d], 1)) continue;
    while (next < to->rank && ex_is_const(to->dims[next], 1)) next++;
    if (dims->u.ints[d] != next++) return false;
  }
  return true;
}

bool type_same_but_for_ones(const Type *x, const Type *y) {
  int i = 0, k = 0;
  for (;; i++, k++) {
    while (i < x->rank && ex_is_const(x->dims[i], 1)) i++;
    while (k < y->rank && ex_is_const(y->dims[k], 1)) k++;
    if (i == x->rank || k == y->rank) return i == x->rank && k == y->rank;
    if (x->dims[i] != y->dims[k]) return false;
  }
}

bool op_makes_gradients(const Op *op) { return phase_backward(op->phase) && op->nin && op->kind != OP_accumulate; }

bool op_is_of_weight(Module *m, const Op *op) {
  const State *s = op_is_state(op->kind) ? module_state(m, op_str(op, AT_name)) : NULL;
  return s && s->param;
}

bool func_has_gradients(const Func *f) {
  for (size_t i = 0; i < f->ops.n; i++)
    if (phase_backward(f->ops.items[i].phase)) return true;
  return false;
}
