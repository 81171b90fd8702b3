/* ir/shares.c - see shares.h. */
#include "ir/shares.h"

#include <stdlib.h>

static int share_of(const MeshAxis *axis, int member) { return axis->shares ? axis->shares[member] : 1; }

static int64_t sum_of(const MeshAxis *axis, int members) {
  int64_t sum = 0;
  for (int i = 0; i < members; i++) sum += share_of(axis, i);
  return sum;
}

SharePlace layout_place(const Mesh *mesh, const DimLayout *d, const int *coordinates) {
  SharePlace p = {0, 1, 1};
  for (int i = 0; i < d->n; i++) {
    const MeshAxis *axis = &mesh->axes[d->axes[i]];
    int at = coordinates[d->axes[i]];
    int64_t all = sum_of(axis, axis->size);
    p.before = p.before * all + p.own * sum_of(axis, at);
    p.own *= share_of(axis, at);
    p.all *= all;
  }
  return p;
}

SharePlace layout_extreme(const Mesh *mesh, const DimLayout *d, bool largest) {
  SharePlace p = {0, 1, 1};
  for (int i = 0; i < d->n; i++) {
    const MeshAxis *axis = &mesh->axes[d->axes[i]];
    int extreme = share_of(axis, 0);
    for (int at = 1; axis->shares && at < axis->size; at++) {
      int share = share_of(axis, at);
      if (largest ? share > extreme : share < extreme) extreme = share;
    }
    p.own *= extreme;
    p.all *= sum_of(axis, axis->size);
  }
  return p;
}

/* 1 from that coordinate on, 0 before it. */
static const Expr *is_from(Module *m, const Expr *coordinate, int member) {
  const Expr *beyond = ex_max(m, ex_addi(m, coordinate, 1 - member), ex_const(m, 0));
  return ex_min(m, beyond, ex_const(m, 1));
}

/* The share of a member, and the sum of those before it, as piecewise linear functions. */
static void axis_place(Module *m, int a, const Expr **before, const Expr **own) {
  const MeshAxis *axis = &m->mesh.axes[a];
  const Expr *r = mesh_coordinate(m, a);
  *before = ex_muli(m, r, share_of(axis, 0));
  *own = ex_const(m, share_of(axis, 0));
  for (int i = 1; i < axis->size; i++) {
    int more = share_of(axis, i) - share_of(axis, i - 1);
    if (!more) continue;
    const Expr *beyond = ex_max(m, ex_addi(m, r, -i), ex_const(m, 0));
    *before = ex_add(m, *before, ex_muli(m, beyond, more));
    *own = ex_add(m, *own, ex_muli(m, is_from(m, r, i), more));
  }
}

void layout_place_expr(Module *m, const DimLayout *d, const Expr **before, const Expr **own, const Expr **all) {
  int64_t sum = 1;
  *before = ex_const(m, 0), *own = ex_const(m, 1);
  for (int i = 0; i < d->n; i++) {
    const MeshAxis *axis = &m->mesh.axes[d->axes[i]];
    int64_t here = sum_of(axis, axis->size);
    const Expr *first, *part;
    axis_place(m, d->axes[i], &first, &part);
    *before = ex_add(m, ex_muli(m, *before, here), ex_mul(m, *own, first));
    *own = ex_mul(m, *own, part);
    sum *= here;
  }
  *all = ex_const(m, sum);
}

const int *mesh_shares_read(Arena *a, const char **at, int size) {
  int *shares = ARENA_ARRAY(a, int, size);
  const char *s = *at;
  for (int i = 0; i < size; i++) {
    char *end;
    if (*s < '1' || *s > '9') return NULL;
    long n = strtol(s, &end, 10);
    if (n > MAX_SHARE || (i + 1 < size && *end != ':')) return NULL;
    shares[i] = (int)n;
    s = i + 1 < size ? end + 1 : end;
  }
  *at = s;
  return *s == ':' ? NULL : shares;
}

void mesh_shares_print(Text *t, const MeshAxis *axis) {
  for (int i = 0; axis->shares && i < axis->size; i++) text_printf(t, "%s%d", i ? ":" : " shares ", axis->shares[i]);
}

bool mesh_shares_equal(const int *shares, int size) {
  for (int i = 1; i < size; i++)
    if (shares[i] != shares[0]) return false;
  return true;
}

bool mesh_has_shares(const Mesh *mesh) {
  for (int a = 0; a < mesh->naxes; a++)
    if (mesh->axes[a].shares) return true;
  return false;
}

bool layout_has_shares(const Mesh *mesh, const DimLayout *d) {
  for (int i = 0; i < d->n; i++)
    if (mesh->axes[d->axes[i]].shares) return true;
  return false;
}

bool mesh_shares_fit(const Mesh *mesh) {
  double parts = 1;
  for (int a = 0; a < mesh->naxes; a++)
    parts *= mesh->axes[a].shares ? (double)sum_of(&mesh->axes[a], mesh->axes[a].size) : 1;
  return parts <= MAX_SHARE_PARTS;
}
