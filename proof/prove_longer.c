/* proof/prove_longer.c - products with operands longer than level 1's.
 *
 * Devices lengthen rows by zeros (codegen/rows/work_dot.c): a dot reads pads, and slices cut its result back.  Input: a
 * level-2 function.  Output: the same function with the original dot in place of the slices, or the function itself if
 * there are none.  The numbers stay the same: along a summed letter both operands have equally many more zeros, whose
 * products are 0, and along a letter of the result all readers cut the extra elements off.  Removed operations are not
 * checked again, so they must be valid where they are: in the stage of the operations that stay, and outside loops,
 * where nothing is changed.
 */
#include <math.h>
#include <string.h>

#include "ir/legal_dot.h"
#include "proof/prove_relation.h"

/* A dot, its operands without the zeros, and the number of extra elements per dimension. */
typedef struct Longer {
  const Op *op;
  Val in[2];
  int64_t by[2][MAX_RANK], cut[MAX_RANK];
  bool cuts;
} Longer;

/* True if the operation pads only zeros, only at the end.  Checks its extents, which at level 2 are as written and not
 * visible after the pad is removed. */
static bool is_zeros_behind(Module *m, const Func *f, const Op *op, int64_t *by) {
  double value = op->kind == OP_pad ? op_float(op, AT_value, 1) : 1;
  if (value != 0 || signbit(value)) return false;
  const Type *x = type_of(f, op->in[0]), *longer = type_of(f, op->out);
  for (int d = 0; d < x->rank; d++) {
    const Expr *high = op_attr(op, AT_high)->u.exprs[d];
    if (!ex_is_const(op_attr(op, AT_low)->u.exprs[d], 0) || !ex_get_const(high, &by[d]) || by[d] < 0 ||
        longer->dims[d] != ex_add(m, x->dims[d], high))
      return false;
  }
  return true;
}

/* Returns the value without the zeros that its reader's stage has appended; by[d] gets their number. */
static Val without_zeros(Module *m, const Func *f, const Op *reader, Val v, int64_t *by) {
  int64_t more[MAX_RANK];
  int rank = type_of(f, v)->rank;
  for (; op_of(f, v)->stage == reader->stage && is_zeros_behind(m, f, op_of(f, v), more); v = op_of(f, v)->in[0])
    for (int d = 0; d < rank; d++) by[d] += more[d];
  return v;
}

static int64_t length_of(const Longer *x, const DotForm *form, int t, char letter) {
  const char *at = strchr(form->spec[t], letter);
  return at ? x->by[t][at - form->spec[t]] : 0;
}

/* True if operands and result are longer by equal amounts along each letter. */
static bool is_longer(Module *m, const Func *f, const Op *op, Longer *x) {
  DotForm form;
  bool any = false;
  *x = (Longer){.op = op};
  for (int t = 0; t < 2; t++) x->in[t] = without_zeros(m, f, op, op->in[t], x->by[t]);
  op_dot_form(&form, type_of(f, op->out)->dtype, op_str(op, AT_spec));
  for (int t = 0; t < 2; t++)
    for (const char *l = form.spec[t]; *l; l++) {
      const char *shared = strchr(form.spec[1 - t], *l), *made = strchr(form.spec[2], *l);
      int64_t by = length_of(x, &form, t, *l);
      if (by != length_of(x, &form, 1 - t, *l) && (shared || !made)) return false;
      if (made) x->cut[made - form.spec[2]] = by;
      any |= by != 0, x->cuts |= by && made;
    }
  return any;
}

/* True if the operation takes the beginning of the dot's result, with level 1's extents. */
static bool is_cut(Module *m, const Func *f, const Longer *x, const Op *op) {
  const Type *all = type_of(f, x->op->out), *part = op->out ? type_of(f, op->out) : NULL;
  if (op->kind != OP_slice || op->stage != x->op->stage) return false;
  for (int d = 0; d < all->rank; d++)
    if (!ex_is_const(op_attr(op, AT_starts)->u.exprs[d], 0) || op_attr(op, AT_strides)->u.ints[d] != 1 ||
        part->dims[d] != ex_sub(m, all->dims[d], ex_const(m, x->cut[d])))
      return false;
  return true;
}

static bool reads(const Op *op, Val v) {
  for (int k = 0; k < op->nin; k++)
    if (op->in[k] == v) return true;
  return false;
}

static bool all_cut(Module *m, const Func *f, const Longer *x) {
  for (size_t i = 0; i < f->outputs.n; i++)
    if (f->outputs.items[i].value == x->op->out) return false;
  for (size_t i = 0; i < f->ops.n; i++)
    if (reads(&f->ops.items[i], x->op->out) && !is_cut(m, f, x, &f->ops.items[i])) return false;
  return true;
}

/* In `out`, which has the operations of `f`, puts the shorter dot in place of the longer one or of its slices. may_go:
 * by operation, whether it only serves the longer dot. */
static void shorten(Module *m, const Func *f, const Longer *x, Func *out, bool *may_go) {
  may_go[x->op - f->ops.items] = x->cuts;
  for (int t = 0; t < 2; t++)
    for (Val v = x->op->in[t]; v != x->in[t]; v = op_of(f, v)->in[0]) may_go[op_of(f, v) - f->ops.items] = true;
  for (size_t i = 0; i < f->ops.n; i++) {
    Op *op = &out->ops.items[i];
    bool here = x->cuts ? reads(&f->ops.items[i], x->op->out) : &f->ops.items[i] == x->op;
    if (!here) continue;
    Val *in = ARENA_ARRAY(m->arena, Val, 2);
    memcpy(in, x->in, sizeof x->in);
    op->kind = OP_dot, op->nin = 2, op->in = in;
    op->nattrs = x->op->nattrs, op->attrs = x->op->attrs;
  }
}

/* Removes the operations in may_go that no operation reads. */
static void drop_unread(Module *m, Func *out, const bool *may_go) {
  bool *read = ARENA_ARRAY(m->arena, bool, out->values.n), *gone = ARENA_ARRAY(m->arena, bool, out->ops.n);
  for (size_t i = 0; i < out->outputs.n; i++) read[out->outputs.items[i].value] = true;
  for (size_t i = out->ops.n; i-- > 0;) {
    const Op *op = &out->ops.items[i];
    gone[i] = may_go[i] && !read[op->out];
    for (int k = 0; k < op->nin && !gone[i]; k++) read[op->in[k]] = true;
  }
  size_t n = 0;
  for (size_t i = 0; i < out->ops.n; i++) {
    if (gone[i]) continue;
    Op *op = &out->ops.items[n];
    *op = out->ops.items[i];
    for (Val v = op->out; v && v < op_end(op); v++) out->values.items[v].op = (int)n;
    n++;
  }
  out->ops.n = n;
}

static Func *copy_of(Module *m, const Func *f) {
  Func *out = ARENA_NEW(m->arena, Func);
  *out = *f;
  out->ops.items = ARENA_ARRAY(m->arena, Op, f->ops.n);
  out->values.items = ARENA_ARRAY(m->arena, Value, f->values.n);
  memcpy(out->ops.items, f->ops.items, f->ops.n * sizeof *f->ops.items);
  memcpy(out->values.items, f->values.items, f->values.n * sizeof *f->values.items);
  return out;
}

const Func *prove_shortened(Module *m, const Func *f) {
  Func *out = NULL;
  bool *may_go = ARENA_ARRAY(m->arena, bool, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    Longer x;
    if (op->kind == OP_loop) return f;
    if (op->kind != OP_dot || !is_longer(m, f, op, &x) || (x.cuts && !all_cut(m, f, &x))) continue;
    if (!out) out = copy_of(m, f);
    shorten(m, f, &x, out, may_go);
  }
  if (out) drop_unread(m, out, may_go);
  return out ? out : f;
}
