/* passes/cost/ranks.c - see ranks.h. */
#include "passes/cost/ranks.h"

#include <math.h>
#include <string.h>

#include "ir/schedule.h"
#include "ir/shares.h"

static int ranks_of_place(const Mesh *mesh) {
  int n = 1;
  for (int a = 0; a < mesh->naxes; a++) n *= mesh->axes[a].temporal ? 1 : mesh->axes[a].size;
  return n;
}

/* The coordinates of rank number `rank` of a place; the last axis is fastest. */
static void coordinates_of(const Mesh *mesh, int rank, int *at) {
  for (int a = mesh->naxes - 1; a >= 0; a--) {
    at[a] = mesh->axes[a].temporal ? 0 : rank % mesh->axes[a].size;
    rank /= mesh->axes[a].temporal ? 1 : mesh->axes[a].size;
  }
}

/* On short axes with shares each member is a class: parts of equal shares may differ by a unit. */
static bool is_told_apart(const MeshAxis *axis) {
  enum { SHORT = 16 };
  return axis->shares && axis->size <= SHORT;
}

bool kinds_told_apart(const Mesh *mesh, const DimLayout *l) {
  for (int i = 0; i < l->n; i++)
    if (!is_told_apart(&mesh->axes[l->axes[i]])) return false;
  return true;
}

static bool same_class(const Mesh *mesh, const RankClass *x, const RankClass *y) {
  bool same = x->kind == y->kind;
  for (int a = 0; a < mesh->naxes && same; a++) {
    const MeshAxis *axis = &mesh->axes[a];
    if (is_told_apart(axis)) same = x->at[a] == y->at[a];
    else same = !axis->shares || axis->shares[x->at[a]] == axis->shares[y->at[a]];
  }
  return same;
}

static PlaceKind classes_of(Arena *a, const Target *t, const Mesh *mesh, int place) {
  const int inner = ranks_of_place(mesh);
  struct {
    RankClass *items;
    size_t n, cap;
  } found = {0};
  for (int r = 0; r < inner; r++) {
    RankClass x = {.kind = target_of_rank(t, place * inner + r)};
    coordinates_of(mesh, r, x.at);
    bool known = false;
    for (size_t i = 0; i < found.n; i++) known |= same_class(mesh, &found.items[i], &x);
    if (!known) ARENA_PUSH(a, &found, x);
  }
  return (PlaceKind){found.items, (int)found.n};
}

static bool same_place(const Mesh *mesh, const PlaceKind *x, const PlaceKind *y) {
  bool same = x->n == y->n;
  for (int i = 0; i < x->n && same; i++) same = same_class(mesh, &x->classes[i], &y->classes[i]);
  return same;
}

RankKinds kinds_on_mesh(Arena *a, const Target *t, const Mesh *mesh) {
  const int places = mesh_places(mesh);
  if (!t->nkinds && !mesh_has_shares(mesh)) return (RankKinds){0};
  int *of_place = ARENA_ARRAY(a, int, places);
  RankKinds out = {.kinds = ARENA_ARRAY(a, PlaceKind, places), .of_place = of_place};
  for (int p = 0; p < places; p++) {
    PlaceKind x = classes_of(a, t, mesh, p);
    int k = 0;
    while (k < out.n && !same_place(mesh, &out.kinds[k], &x)) k++;
    if (k == out.n) out.kinds[out.n++] = x;
    of_place[p] = k;
  }
  return out;
}

double kinds_memory_scale_of(const Target *t, int first, int n) {
  double least = target_usable(t);
  for (int r = first; r < first + n && t->nkinds; r++) least = fmin(least, target_usable(target_of_rank(t, r)));
  return target_usable(t) / least;
}

double kinds_memory_scale(const Target *t, const Mesh *mesh, int place) {
  const int inner = ranks_of_place(mesh);
  return kinds_memory_scale_of(t, place * inner, inner);
}

/* ---- shares */

static double sustained(const Target *t, ComputeType type) {
  double share = t->has_kernels ? t->kernels.sustained[type] : 1, best = 1;
  for (int i = 0; t->has_kernels && i < t->kernels.ntiles; i++) best = fmax(best, t->kernels.tiles[i].share);
  return t->flops[type] * best * (isnan(share) ? 1 : share);
}

double kinds_bandwidth(const Target *t) { return t->memory_bandwidth * (t->has_kernels ? t->kernels.bandwidth : 1); }

static double speed_of(const Target *t, ShareBy by) {
  if (by == SHARE_BY_PRODUCTS) return sustained(t, target_compute(t, compute_storage(t->compute)));
  return kinds_bandwidth(t);
}

/* By member: the speed of its slowest rank. */
static void slowest_of_members(const Target *t, const Mesh *mesh, int axis, ShareBy by, double *speed) {
  const int ranks = ranks_of_place(mesh) * mesh_places(mesh);
  for (int i = 0; i < mesh->axes[axis].size; i++) speed[i] = INFINITY;
  for (int r = 0; r < ranks; r++) {
    int at[MAX_AXES];
    coordinates_of(mesh, r % ranks_of_place(mesh), at);
    speed[at[axis]] = fmin(speed[at[axis]], speed_of(target_of_rank(t, r), by));
  }
}

/* Returns the time of the slowest member with shares of that unit, relative to the ideal time. */
static double worse_by(const double *speed, int n, double unit, int *shares) {
  double all = 0, sum = 0, worst = 0;
  for (int i = 0; i < n; i++) {
    shares[i] = (int)fmin(fmax(1, round(speed[i] / unit)), MAX_SHARE);
    all += shares[i], sum += speed[i];
  }
  for (int i = 0; i < n; i++) worst = fmax(worst, shares[i] / all * sum / speed[i]);
  return worst;
}

/* Returns the smallest whole numbers that are close to the ratio of the speeds: large shares split a dimension of few
 * units no better. */
const int *kinds_shares(Arena *a, const Target *t, const Mesh *mesh, int axis, ShareBy by) {
  enum { MOST_PARTS = 16 };
  const double close = 1.02;
  const int n = mesh->axes[axis].size;
  bool known = by == SHARE_BY_PRODUCTS || by == SHARE_BY_BANDWIDTH;
  if (!known || !t->nkinds || mesh->axes[axis].temporal || n > MAX_SHARED) return NULL;
  int *shares = ARENA_ARRAY(a, int, n), *trial = ARENA_ARRAY(a, int, n);
  double *speed = ARENA_ARRAY(a, double, n), least = INFINITY, best = INFINITY;
  slowest_of_members(t, mesh, axis, by, speed);
  for (int i = 0; i < n; i++) least = fmin(least, speed[i]);
  for (int parts = 1; parts <= MOST_PARTS && best > close; parts++) {
    double worse = worse_by(speed, n, least / parts, trial);
    if (worse < best) best = worse, memcpy(shares, trial, sizeof *shares * (size_t)n);
  }
  return mesh_shares_equal(shares, n) ? NULL : shares;
}

double kinds_fastest(const Target *t) {
  double part = 1;
  for (int i = 0; i < t->nkinds; i++) {
    for (int type = 0; type < CT_COUNT; type++)
      if (t->flops[type] > 0)
        part = fmin(part, sustained(t, (ComputeType)type) / sustained(t->kinds[i], (ComputeType)type));
    part = fmin(part, kinds_bandwidth(t) / kinds_bandwidth(t->kinds[i]));
  }
  return part;
}

void kinds_groups(const Target *t, const Mesh *mesh, int axis, int *group) {
  const int n = mesh->axes[axis].size;
  Arena *a = arena_new();
  double *products = ARENA_ARRAY(a, double, n), *bandwidth = ARENA_ARRAY(a, double, n);
  slowest_of_members(t, mesh, axis, SHARE_BY_PRODUCTS, products);
  slowest_of_members(t, mesh, axis, SHARE_BY_BANDWIDTH, bandwidth);
  for (int k = 0; k < n; k++) {
    group[k] = 0;
    while (products[group[k]] != products[k] || bandwidth[group[k]] != bandwidth[k]) group[k]++;
  }
  arena_free(a);
}
