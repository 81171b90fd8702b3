/* ir/ops/source.c - operations without operands: inputs, weights, states, constants, random numbers; and random_keyed,
 * which has a key. */
#include <string.h>

#include "base/random.h"
#include "ir/ops/record.h"

/* ---- result types: written */

/* Checks that the listed elements are those of a tensor of the written type. */
static const Type *infer_listed(const Infer *c, const Attr *ints, const Attr *floats) {
  int64_t n;
  if (!ex_get_const(type_elements(c->m, c->spec->type), &n) || n != (ints ? ints->n : floats->n))
    return infer_fail(c, "lists %d elements for %s", ints ? ints->n : floats->n, infer_text(c, c->spec->type));
  if ((floats != NULL) != dtype_is_float(c->spec->type->dtype))
    return infer_fail(c, "floats for float types, ints for the others");
  return c->spec->type;
}

static const Type *infer_const(const Infer *c) {
  const Attr *value = infer_attr(c, AT_value), *ints = infer_attr(c, AT_ints), *floats = infer_attr(c, AT_floats);
  if ((value != NULL) + (ints != NULL) + (floats != NULL) != 1)
    return infer_fail(c, "needs one of value, ints, floats");
  return value ? c->spec->type : infer_listed(c, ints, floats);
}

/* At level 2 the type is that of a part, the listed elements those of the whole. */
static const Type *infer_input(const Infer *c) {
  const Attr *ints = infer_attr(c, AT_ints), *floats = infer_attr(c, AT_floats);
  if (ints && floats) return infer_fail(c, "needs one of ints, floats");
  return (ints || floats) && !c->spec->layout ? infer_listed(c, ints, floats) : c->spec->type;
}

static const Type *infer_iota(const Infer *c) {
  return infer_axis(c, AT_axis, c->spec->type->rank) < 0 ? NULL : c->spec->type;
}

static const Type *infer_random(const Infer *c) {
  const Type *y = c->spec->type;
  if (infer_attr(c, AT_starts)->n != y->rank || infer_attr(c, AT_extents)->n != y->rank)
    return infer_fail(c, "starts and extents need one entry per dimension");
  return dtype_is_float(y->dtype) ? y : infer_fail(c, "not defined for %s", dtype_name(y->dtype));
}

static const Type *infer_random_keyed(const Infer *c) {
  const Type *key = c->in[0];
  if (key->rank != 0 || (key->dtype != DT_i64 && key->dtype != DT_u32))
    return infer_fail(c, "the key must be a scalar of i64 or u32");
  return infer_random(c);
}

/* ---- sharding */

/* A splat may be cut anywhere; listed elements stay whole. */
static void rule_const(const RuleMaking *k) {
  FactorKind kind = op_attr(k->op, AT_value) ? FK_PARALLEL : FK_FROZEN;
  for (int d = 0; d < k->r->results[0].rank; d++)
    rule_set_dim(&k->r->results[0], d, rule_numbered(k, "x", d, rule_out(k)->dims[d], kind));
}

/* ---- meaning */

static bool eval_const(Eval *e) {
  const Attr *value = op_attr(e->op, AT_value), *ints = op_attr(e->op, AT_ints), *floats = op_attr(e->op, AT_floats);
  bool modp = e->run->modp;
  if (value) {
    cells_fill(e->out, cell_of_double(modp, e->out->dtype, value->u.f));
    return true;
  }
  int64_t n = interp_elements(e->out);
  if (n != (ints ? ints->n : floats->n))
    return eval_fail(e, "lists %d elements for %lld", ints ? ints->n : floats->n, (long long)n);
  for (int64_t i = 0; i < n; i++)
    e->out->cells[i] = ints ? cell_of_int(modp, e->out->dtype, ints->u.ints[i])
                            : cell_of_double(modp, e->out->dtype, floats->u.floats[i]);
  return true;
}

static bool eval_size(Eval *e) {
  int64_t v; /* an element, not an index: may be any 64-bit number */
  if (!ex_eval(op_expr(e->op, AT_expr), e->run->symbols[e->rank], &v))
    return eval_fail(e, "the expression has no value here (overflow or division by zero)");
  cells_fill(e->out, cell_of_int(e->run->modp, e->out->dtype, v));
  return true;
}

static bool eval_iota(Eval *e) {
  int64_t start, axis = op_int(e->op, AT_axis, 0), *dims = e->out->dims;
  if (!eval_expr(e, op_expr(e->op, AT_start), &start)) return false;
  int64_t outer = count_cells((int)axis, dims), inner = count_cells(e->out->rank - (int)axis - 1, dims + axis + 1);
  Cell *y = e->out->cells;
  for (int64_t i = 0; i < outer; i++)
    for (int64_t j = 0; j < dims[axis]; j++)
      for (int64_t k = 0; k < inner; k++) *y++ = cell_of_int(e->run->modp, e->out->dtype, start + j);
  return true;
}

/* The place of a part in the whole tensor, whose elements are numbered row-major. */
typedef struct Placed {
  int64_t start[MAX_RANK], stride[MAX_RANK];
} Placed;

static bool place_part(const Eval *e, Placed *p) {
  const Attr *starts = op_attr(e->op, AT_starts), *extents = op_attr(e->op, AT_extents);
  int64_t extent[MAX_RANK], total = 1;
  int rank = e->out->rank;
  for (int d = 0; d < rank; d++) {
    if (!eval_expr(e, starts->u.exprs[d], &p->start[d]) || !eval_expr(e, extents->u.exprs[d], &extent[d])) return false;
    if (p->start[d] < 0 || p->start[d] + e->out->dims[d] > extent[d])
      return eval_fail(e, "[%lld, %lld) leaves dimension %d of extent %lld", (long long)p->start[d],
                       (long long)(p->start[d] + e->out->dims[d]), d, (long long)extent[d]);
  }
  for (int d = 0; d < rank; d++)
    if (__builtin_mul_overflow(total, extent[d] > 1 ? extent[d] : 1, &total))
      return eval_fail(e, "the whole tensor is too large");
  eval_row_major(rank, extent, p->stride);
  return true;
}

/* Random numbers of base/random.h by the row-major index in the whole tensor: of stream 0, or with operand 0 as key. */
static double number_at(const Eval *e, bool normal, uint64_t element) {
  uint64_t seed = (uint64_t)op_int(e->op, AT_seed, 0), stream = (uint64_t)op_int(e->op, AT_stream, 0);
  if (!e->op->nin) return normal ? random_normal(seed, 0, element) : (double)random_uniform(seed, 0, element);
  uint64_t key = (uint64_t)e->in[0]->cells[0].i;
  return normal ? random_keyed_normal(seed, stream, key, element)
                : (double)random_keyed_uniform(seed, stream, key, element);
}

static bool eval_random(Eval *e) {
  const char *kind = op_str(e->op, AT_kind);
  bool normal = strcmp(kind, "normal") == 0;
  if (!normal && strcmp(kind, "uniform") != 0) return eval_fail(e, "unknown kind \"%s\"", kind);
  int64_t index[MAX_RANK] = {0}, n = interp_elements(e->out);
  int rank = e->out->rank;
  Placed p;
  if (!place_part(e, &p)) return false;
  for (int64_t i = 0; i < n; i++) {
    int64_t element = 0;
    for (int d = 0; d < rank; d++) element += (p.start[d] + index[d]) * p.stride[d];
    e->out->cells[i] = cell_of_double(e->run->modp, e->out->dtype, number_at(e, normal, (uint64_t)element));
    for (int d = rank - 1; d >= 0 && ++index[d] == e->out->dims[d]; d--) index[d] = 0;
  }
  return true;
}

/* ---- records */

const OpRecord record_input = {.infer = infer_input, .space = "-> x..", .eval = eval_source};
const OpRecord record_param = {.infer = infer_weight, .space = "-> x..", .eval = eval_source};
const OpRecord record_const = {.infer = infer_const, .rule = rule_const, .eval = eval_const};
const OpRecord record_size = {.infer = infer_given, .space = "-> x..", .eval = eval_size};
const OpRecord record_iota = {
    .infer = infer_iota, .space = "-> x..", .local = local_start_of_result, .eval = eval_iota};
const OpRecord record_random = {
    .infer = infer_random, .space = "-> x..", .local = local_starts_of_result, .eval = eval_random};
const OpRecord record_random_keyed = {
    .infer = infer_random_keyed, .space = "-> x..", .local = local_starts_of_result, .eval = eval_random};
