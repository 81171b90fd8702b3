/* passes/train/muon.c - Muon (Jordan et al., 2024), as torch.optim.Muon: the momentum of a matrix, made orthogonal.
 *
 *   m = momentum m + (1 - momentum) g;  u = g + momentum (m - g), or m without nesterov
 *   X = u / max(|u|, 1e-7);  ns_steps times:  A = X X^T,  X = 3.4445 X + (-4.775 A + 2.0315 A A) X
 *   w -= lr (ratio X + decay w)
 *
 * (for matrices with more rows than columns with X^T).  The ratio is sqrt(max(1, rows / columns)), or with
 * adjust=match_rms_adamw 0.2 sqrt(max(rows, columns)), of the matrix as it is stored.  Weights that are no matrices,
 * and those that `adamw` names, are updated by adamw with the rate adamw_lr.
 *
 * PyTorch computes the products in bf16; here they are f32.  Not done: filters of convolutions as matrices.
 */
#include <math.h>
#include <string.h>

#include "passes/train/update.h"

static Val dot(const Update *u, const char *spec, Val x, Val y) {
  Attr a = attr_s(u->b->m, AT_spec, spec);
  return build_op(u->b, &(OpSpec){.kind = OP_dot, .nin = 2, .in = (Val[]){x, y}, .nattrs = 1, .attrs = &a});
}

/* a X + (b A + c A A) X with A = X X^T; for a tall X with X^T in place of X. */
static Val iterate(const Update *u, Val x, bool tall) {
  static const double a = 3.4445, b = -4.7750, c = 2.0315;
  Val gram = dot(u, tall ? "ki,kj->ij" : "ik,jk->ij", x, x), square = dot(u, "ik,kj->ij", gram, gram);
  Val mixed = update_binary(u, OP_add, update_scaled(u, gram, b), update_scaled(u, square, c));
  Val moved = tall ? dot(u, "ik,kj->ij", x, mixed) : dot(u, "ik,kj->ij", mixed, x);
  return update_binary(u, OP_add, update_scaled(u, x, a), moved);
}

static Val orthogonal(const Update *u, const Trained *w, Val x, bool tall) {
  const double least = 1e-7;
  const Type *t = type_of(u->b->f, x);
  Val square = update_binary(u, OP_mul, x, x);
  Val norm = build_unary(u->b, OP_sqrt, update_sum(u, square));
  norm = update_binary(u, OP_max, norm, update_number(u, least));
  x = update_binary(u, OP_div, x, update_spread(u, norm, t));
  size_t first = u->b->f->ops.n;
  for (int i = 0; i < (int)u->o->ns_steps; i++) x = iterate(u, x, tall);
  update_apart(u, w, first);
  return x;
}

static double ratio_of(const Update *u, double rows, double columns) {
  if (strcmp(u->o->adjust, "match_rms_adamw") == 0) return 0.2 * sqrt(fmax(rows, columns));
  return sqrt(fmax(1, rows / columns));
}

void update_muon(Update *u, const Trained *w, Val g) {
  const Optimizer *o = u->o;
  const Type *t = type_of(u->b->f, w->read);
  int64_t dims[MAX_RANK];
  if (t->rank != 2 || !type_constant_dims(t, dims) || (o->adamw && training_glob(o->adamw, w->name))) {
    const Val lr = u->lr;
    u->lr = update_times(u, lr, o->adamw_lr / o->lr);
    update_adamw(u, w, g);
    u->lr = lr;
    return;
  }
  Val old = update_read(u, w, "m", t), m = update_mixed(u, o->momentum, old, g), x = m;
  if (strcmp(o->nesterov, "yes") == 0) x = update_mixed(u, o->momentum, m, g);
  update_agrees(u, w, old, update_correction(u, update_binary(u, OP_sub, u->t, update_number(u, 1)), o->momentum));
  Val turned = orthogonal(u, w, x, dims[0] > dims[1]);
  update_write(u, w, "m", m, old);
  double ratio = ratio_of(u, (double)dims[0], (double)dims[1]);
  update_step(u, w, update_with_decay(u, w, update_scaled(u, turned, ratio)));
}
