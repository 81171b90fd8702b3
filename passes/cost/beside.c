/* passes/cost/beside.c - see beside.h. */
#include "passes/cost/beside.h"

#include <math.h>
#include <stdlib.h>

#include "passes/cost/model.h"

double cost_shown(const CostModel *c, const Op *maker) {
  if (maker->kind != OP_accumulate || !(c->target->beside > 0)) return 1;
  return c->range || mesh_micro_batches(&c->mesh) == 1 ? 1 - c->target->beside : 1;
}

/* Bytes that a rank sends, which are as many as it receives. */
static double wire_bytes(const CostModel *c, const CommSize *x) {
  double n = 1;
  for (int i = 0; i < c->mesh.naxes; i++)
    if (x->axes >> i & 1) n *= (double)c->mesh.axes[i].size;
  return x->bytes * (n - 1) / n * (x->kind == COMM_all_reduce ? 2 : 1);
}

double beside_shown(CostModel *c, const Type *type, const Layout *from, const Layout *to, double least) {
  Conversion path;
  double all = 0, shown = 0;
  if (least == 1 || !cost_convert_path(c, type, from, to, &path)) return 1;
  for (int i = 0; i < path.n; i++) {
    CommSize x;
    const double seconds = cost_move(c, c->m, type, &path.moves[i]);
    const bool comm = cost_comm_of_move(c, type, &path.moves[i], &x);
    const double work = comm ? wire_bytes(c, &x) * c->target->beside_work : seconds;
    all += seconds, shown += fmin(seconds, fmax(work, seconds * least));
  }
  return all > 0 ? shown / all : 1;
}

static int by_time(const void *a, const void *b) {
  const BesideSum *x = a, *y = b;
  return (x->ready > y->ready) - (x->ready < y->ready);
}

double beside_wait(BesideSums *l, int stage) {
  double end = 0, work = 0, last = 0;
  if (l->n) qsort(l->items, l->n, sizeof *l->items, by_time);
  for (size_t i = 0; i < l->n; i++) {
    const BesideSum *x = &l->items[i];
    if (x->stage != stage) continue;
    end = fmax(end, x->ready + work) + x->seconds;
    work += x->work, last = x->ready;
  }
  return fmax(0, end - last - work);
}
