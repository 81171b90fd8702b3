/* ir/ops/packed.c - products with a weight of 4 or 8 bits: packed_dot.
 *
 * The weight is stored as kernels read it: panels of 16 columns side by side; in a panel, groups of the summed index,
 * each with a scale per column; in a group, blocks of 64 bytes, four per column.  Of 8 bits, the four bytes of a column
 * are four terms.  Of 4 bits they are eight: the first four are the low halves of the bytes.  A number is less 128 or
 * 8, so there are no zero points.  The dimensions of operand 0 after its rows, [groups, blocks, terms of a block], name
 * the same terms, so groups can be cut over ranks: a group is never divided.
 */
#include <string.h>

#include "ir/ops/record.h"

enum { COLUMNS = 16, BYTES = 4 };

/* ---- result type */

static const Type *infer_packed_dot(const Infer *c) {
  const Type *x = c->in[0], *w = c->in[1], *scale = c->in[2];
  int64_t bits = infer_attr(c, AT_bits)->u.i;
  if (bits != 4 && bits != 8) return infer_fail(c, "bits is %lld, not 4 or 8", (long long)bits);
  if (x->dtype != DT_f32 || x->rank < 3) return infer_fail(c, "operand 0 must be f32[rows.., groups, blocks, terms]");
  const Expr *const *tail = x->dims + x->rank - 3;
  if (!ex_is_const(tail[2], 32 / bits)) return infer_fail(c, "a block has %lld terms", (long long)(32 / bits));
  if (w->dtype != DT_u8 || w->rank != 5 || !ex_is_const(w->dims[3], COLUMNS) || !ex_is_const(w->dims[4], BYTES))
    return infer_fail(c, "operand 1 must be u8[panels, groups, blocks, 16, 4]");
  if (scale->dtype != DT_bf16 || scale->rank != 3 || !ex_is_const(scale->dims[2], COLUMNS))
    return infer_fail(c, "operand 2 must be bf16[panels, groups, 16]");
  if (w->dims[1] != tail[0] || w->dims[2] != tail[1] || scale->dims[0] != w->dims[0] || scale->dims[1] != w->dims[1])
    return infer_fail(c, "extents do not fit");
  const Expr *dims[MAX_RANK];
  int rows = x->rank - 3;
  for (int d = 0; d < rows; d++) dims[d] = x->dims[d];
  dims[rows] = w->dims[0], dims[rows + 1] = w->dims[3];
  return type_get(c->m, DT_f32, rows + 2, dims);
}

/* ---- sharding */

static void rule_packed_dot(const RuleMaking *k) {
  const Type *x = rule_in(k, 0), *w = rule_in(k, 1);
  int rows = x->rank - 3;
  TensorFactors *in = k->r->operands, *y = &k->r->results[0];
  for (int d = 0; d < rows; d++) {
    uint8_t f = rule_numbered(k, "r", d, x->dims[d], FK_PARALLEL);
    rule_set_dim(&in[0], d, f);
    rule_set_dim(y, d, f);
  }
  uint8_t p = rule_factor(k, "p", w->dims[0], FK_PARALLEL, RED_NONE),
          c = rule_factor(k, "c", w->dims[1], FK_REDUCE, RED_SUM),
          b = rule_factor(k, "b", w->dims[2], FK_FROZEN, RED_NONE),
          t = rule_factor(k, "t", x->dims[rows + 2], FK_FROZEN, RED_NONE),
          l = rule_factor(k, "l", w->dims[3], FK_FROZEN, RED_NONE),
          i = rule_factor(k, "i", w->dims[4], FK_FROZEN, RED_NONE);
  const uint8_t of_x[] = {c, b, t}, of_w[] = {p, c, b, l, i}, of_scale[] = {p, c, l};
  for (int d = 0; d < 3; d++) rule_set_dim(&in[0], rows + d, of_x[d]);
  for (int d = 0; d < 5; d++) rule_set_dim(&in[1], d, of_w[d]);
  for (int d = 0; d < 3; d++) rule_set_dim(&in[2], d, of_scale[d]);
  rule_set_dim(y, rows, p);
  rule_set_dim(y, rows + 1, l);
  rule_linear(k, 1, RED_SUM);
}

static int products_packed_dot(const Op *op, const Rule *r, ProductFactors out[MAX_PRODUCTS]) {
  (void)op;
  *out = (ProductFactors){.n = part_factors(r, "pl"), .k = part_factors(r, "cbt")};
  for (int i = 0; i < r->nfactors; i++)
    if (r->factors[i].size && r->factors[i].name[0] == 'r') out->m |= 1u << i;
  return 1;
}

/* ---- decomposition */

static const char packed_dot_body[] =
    "?bits=4 %x = input {name=\"0\"} : f32[$D, c, b, 8]\n"
    "?bits=8 %x = input {name=\"0\"} : f32[$D, c, b, 4]\n"
    "%q = input {name=\"1\"} : u8[p, c, b, 16, 4]\n"
    "%s = input {name=\"2\"} : bf16[p, c, 16]\n"
    "?bits=4 %spread = broadcast %q {dims=[0, 1, 2, 3, 5]} : u8[p, c, b, 16, 2, 4]\n"
    "?bits=4 %half = iota {axis=4, start=0} : u8[p, c, b, 16, 2, 4]\n"
    "?bits=4 %four = const {value=4} : u8[p, c, b, 16, 2, 4]\n"
    "?bits=4 %by = mul %half, %four : u8[p, c, b, 16, 2, 4]\n"
    "?bits=4 %moved = shr %spread, %by : u8[p, c, b, 16, 2, 4]\n"
    "?bits=4 %mask = const {value=15} : u8[p, c, b, 16, 2, 4]\n"
    "?bits=4 %low = and %moved, %mask : u8[p, c, b, 16, 2, 4]\n"
    "?bits=4 %number = reshape %low : u8[p, c, b, 16, 8]\n"
    "?bits=4 %whole = cast %number {to=f32} : f32[p, c, b, 16, 8]\n"
    "?bits=4 %middle = const {value=8} : f32[p, c, b, 16, 8]\n"
    "?bits=4 %centred = sub %whole, %middle : f32[p, c, b, 16, 8]\n"
    "?bits=8 %whole = cast %q {to=f32} : f32[p, c, b, 16, 4]\n"
    "?bits=8 %middle = const {value=128} : f32[p, c, b, 16, 4]\n"
    "?bits=8 %centred = sub %whole, %middle : f32[p, c, b, 16, 4]\n"
    "%scale = cast %s {to=f32} : f32[p, c, 16]\n"
    "?bits=4 %scales = broadcast %scale {dims=[0, 1, 3]} : f32[p, c, b, 16, 8]\n"
    "?bits=4 %w = mul %centred, %scales : f32[p, c, b, 16, 8]\n"
    "?bits=8 %scales = broadcast %scale {dims=[0, 1, 3]} : f32[p, c, b, 16, 4]\n"
    "?bits=8 %w = mul %centred, %scales : f32[p, c, b, 16, 4]\n"
    "%y = dot %x, %w {spec=\"$Lcbt,pcblt->$Lpl\"} : f32[$D, p, 16]\n"
    "output \"y\" %y\n";

/* ---- meaning */

/* The number of term t of the four bytes of a column. */
static double number_of(int64_t bits, const Cell *bytes, int64_t t) {
  if (bits == 8) return (double)bytes[t].i - 128;
  return (double)(bytes[t % BYTES].i >> t / BYTES * 4 & 15) - 8;
}

static bool eval_packed_dot(Eval *e) {
  if (e->run->modp) return eval_body(e);
  const InterpTensor *x = e->in[0], *w = e->in[1], *scale = e->in[2];
  int64_t bits = op_int(e->op, AT_bits, 0), terms = 32 / bits, groups = w->dims[1], blocks = w->dims[2];
  int64_t depth = groups * blocks * terms, columns = w->dims[0] * COLUMNS;
  int64_t rows = count_cells(x->rank - 3, x->dims);
  if (interp_elements(x) != rows * depth || interp_elements(scale) != groups * columns ||
      interp_elements(e->out) != rows * columns)
    return eval_fail(e, "rows and weights do not fit");
  for (int64_t r = 0; r < rows; r++)
    for (int64_t n = 0; n < columns; n++) {
      double sum = 0;
      for (int64_t k = 0; k < depth; k++) {
        int64_t block = n / COLUMNS * groups * blocks + k / terms, group = n / COLUMNS * groups + k / terms / blocks;
        const Cell *bytes = w->cells + (block * COLUMNS + n % COLUMNS) * BYTES;
        sum += x->cells[r * depth + k].f * number_of(bits, bytes, k % terms) *
               scale->cells[group * COLUMNS + n % COLUMNS].f;
      }
      e->out->cells[r * columns + n].f = sum;
    }
  return true;
}

const OpRecord record_packed_dot = {.infer = infer_packed_dot,
                                    .rule = rule_packed_dot,
                                    .eval = eval_packed_dot,
                                    .products = products_packed_dot,
                                    .symbols = "r.. c b p",
                                    .body = packed_dot_body};
