/* passes/cost/moves.c - costs of changing layouts: collectives between ranks, with the additional kernels of a device
 * of contiguous collectives; conversions made of them; window exchanges; and sends to the next stage.  See cost.h.
 *
 * A collective is priced by the tiers of links that its axes span (comm.h); if axes have no order, by the cheapest of
 * all orders.  Each set of axes and each type is computed once.
 */
#include <math.h>
#include <string.h>

#include "ir/legal_comm.h"
#include "ir/shares.h"
#include "ir/window.h"
#include "passes/cost/model.h"
#include "passes/facts/agreed.h"

/* ---- collectives */

/* Returns how many members of an axis lie in one aligned block of consecutive ranks, in every group; groups that
 * straddle blocks count with fewer than in the best case.  `stride`: ranks between neighbours on the axis. */
static int part_inside(int size, int stride, int block) {
  return block % stride ? 1 : (int)ex_common_divisor(size, block / stride);
}

/* Ranks are numbered stage by stage; inside a stage the last spatial axis is fastest.  `order`: the axes by place. */
static CommGroup group_in_order(const CostModel *c, const Target *t, uint32_t axes, int n, const int *order) {
  CommGroup g = {{0}};
  for (int i = 0; i < t->ntiers; i++) {
    int stride = 1, block = i + 1 < t->ntiers ? t->tiers[i].group : t->ranks;
    g.inside[i] = 1;
    for (int k = n - 1; k >= 0; k--) {
      int size = c->mesh.axes[order[k]].size;
      if ((axes >> order[k]) & 1u) g.inside[i] *= part_inside(size, stride, block);
      stride *= size;
    }
  }
  return g;
}

bool cost_axes_exchange(const Target *t, int stride, int outer, int inner) {
  for (int i = 0; i + 1 < t->ntiers; i++) {
    int block = t->tiers[i].group;
    if (part_inside(outer, stride * inner, block) != part_inside(outer, stride, block) ||
        part_inside(inner, stride, block) != part_inside(inner, stride * outer, block))
      return false;
  }
  return true;
}

static void add_group(const Target *t, GroupCosts *out, const CommGroup *g, CommGroup *known) {
  for (int i = 0; i < out->n; i++)
    if (memcmp(&known[i], g, sizeof *g) == 0) return;
  known[out->n] = *g;
  out->items[out->n++] = cost_comms(t, g);
}

/* Adds the group in every order of the loose axes after the first `done`. */
static void add_orders(const CostModel *c, const Target *t, uint32_t axes, int n, int *order, int done, GroupCosts *out,
                       CommGroup *known) {
  if (done >= c->loose - 1) {
    CommGroup g = group_in_order(c, t, axes, n, order);
    add_group(t, out, &g, known);
    return;
  }
  for (int i = done; i < c->loose; i++) {
    int first = order[done];
    order[done] = order[i], order[i] = first;
    add_orders(c, t, axes, n, order, done + 1, out, known);
    order[i] = order[done], order[done] = first;
  }
}

static GroupCosts *group_costs(const CostModel *c, const Target *t, uint32_t axes) {
  int n = 0, orders = 1, order[MAX_AXES];
  for (int a = 0; a < c->mesh.naxes; a++)
    if (!c->mesh.axes[a].temporal) order[n++] = a;
  for (int i = 2; i <= c->loose; i++) orders *= i;
  GroupCosts *g = ARENA_NEW(c->arena, GroupCosts);
  g->items = ARENA_ARRAY(c->arena, CommCosts, orders);
  add_orders(c, t, axes, n, order, 0, g, ARENA_ARRAY(c->arena, CommGroup, orders));
  return g;
}

/* Returns the seconds over the links of ranks of that kind. */
static double comm_of_kind(const CostModel *c, const Target *kind, const CommSize *x) {
  int k = 0;
  while (k < c->target->nkinds && c->target->kinds[k] != kind) k++;
  GroupCosts **known = &c->groups[(size_t)k << MAX_AXES | x->axes];
  if (!*known) *known = group_costs(c, kind, x->axes);
  double least = INFINITY;
  for (int i = 0; i < (*known)->n; i++) least = fmin(least, cost_comm_seconds(&(*known)->items[i], x->kind, x->bytes));
  return least;
}

/* Returns the seconds for ranks of a place, over their slowest links (cost.h). */
static double comm_on_place(const CostModel *c, const PlaceKind *place, const CommSize *x) {
  double slowest = 0;
  for (int i = 0; i < place->n; i++) slowest = fmax(slowest, comm_of_kind(c, place->classes[i].kind, x));
  return slowest;
}

double cost_comm(const CostModel *c, const CommSize *x) {
  double seconds = INFINITY;
  for (int i = 0; i < c->ranks.n; i++)
    if (c->place < 0 || c->place == i) seconds = fmin(seconds, comm_on_place(c, &c->ranks.kinds[i], x));
  if (!c->ranks.n && !c->target->nkinds) seconds = comm_of_kind(c, c->target, x);
  for (int i = 0; i < c->target->nkinds && !c->ranks.n; i++) /* a bound: it is unknown whose links these are */
    seconds = fmin(seconds, comm_of_kind(c, c->target->kinds[i], x));
  return seconds * (1 - c->target->hidden);
}

/* ---- bytes */

/* The same as cost_bytes for an interned layout, cached: moves ask for the same layouts again and again. */
static double bytes_of(const CostModel *c, const Type *global, const Layout *l) {
  uint64_t key = ((uint64_t)(uintptr_t)l >> 4) * 0x9E3779B97F4A7C15u + ((uint64_t)(uintptr_t)global >> 4);
  KnownBytes *known = &c->bytes[(key * 0x9E3779B97F4A7C15u) >> (64 - KNOWN_BYTES_BITS)];
  if (known->type != global || known->layout != l) *known = (KnownBytes){global, l, cost_bytes(c, global, l)};
  return known->bytes;
}

/* ---- additional kernels of contiguous collectives (ir/legal_comm.h) */

static bool stages(const CostModel *c) { return c->target->device->contiguous_collectives; }

/* True if the extent of a rank's part is the constant 1. */
static bool part_is_one(const CostModel *c, const Expr *extent, const DimLayout *l) {
  if (!l->n) return ex_is_const(extent, 1);
  for (int i = 0; i < l->n && c->range; i++)
    if (c->mesh.axes[l->axes[i]].temporal) return true;
  if (layout_has_shares(&c->mesh, l)) return false;
  return extent->kind == EX_CONST && ex_is_const(l->unit, 1) && extent->value == layout_parts(&c->mesh, l);
}

/* True if the members along a mesh axis of `l` have parts of one size that depends on no coordinate. */
static bool cut_evenly(const CostModel *c, const Expr *extent, const DimLayout *l) {
  if (layout_has_shares(&c->mesh, l)) return false;
  if (c->range) return true;
  bool constant = extent->kind == EX_CONST && l->unit->kind == EX_CONST && l->unit->value > 0;
  if (constant && extent->value % l->unit->value == 0)
    return extent->value / l->unit->value % layout_parts(&c->mesh, l) == 0;
  return ex_exact_div(c->m, ex_div(c->m, extent, l->unit), ex_const(c->m, layout_parts(&c->mesh, l))) != NULL;
}

static bool comes_first(const CostModel *c, const Type *global, const Layout *l, int dim) {
  for (int d = 0; d < dim; d++)
    if (!part_is_one(c, global->dims[d], &l->dims[d])) return false;
  return true;
}

/* Returns the seconds of a transpose of so many bytes that moves a dimension to the front or back. */
static double moved_dim(const CostModel *c, const Type *global, const Layout *l, double bytes, int dim) {
  bool stays = comes_first(c, global, l, dim) || part_is_one(c, global->dims[dim], &l->dims[dim]);
  return stays ? 0 : cost_traffic(c, 2 * bytes);
}

/* Returns the seconds of a transpose into the given order of n dimensions, or back; flagged dimensions have extent
 * 1. */
static double reordered(const CostModel *c, double bytes, int n, const bool *one, const int *order) {
  int last = -1;
  for (int i = 0; i < n; i++) {
    if (one[order[i]]) continue;
    if (order[i] < last) return cost_traffic(c, 2 * bytes);
    last = order[i];
  }
  return 0;
}

static void to_front(int n, int a, int b, int *order) {
  int k = 0;
  order[k++] = a;
  if (b != a) order[k++] = b;
  for (int d = 0; d < n; d++)
    if (d != a && d != b) order[k++] = d;
}

static LegalAllToAll all_to_all_form(const CostModel *c, const Type *global, const Move *move) {
  int cut = move->dim2, joined = move->dim;
  AllToAllForm f = {.rank = global->rank,
                    .split_first = comes_first(c, global, move->before, cut),
                    .join_first = comes_first(c, global, move->after, joined),
                    .split_evenly = cut_evenly(c, global->dims[cut], &move->after->dims[cut]),
                    .join_evenly = cut_evenly(c, global->dims[joined], &move->before->dims[joined])};
  return stages(c) ? legal_all_to_all(&f) : ALL_TO_ALL_AS_IT_IS;
}

/* The layout that an all-to-all gathers before it cuts. */
static Layout gathered_first(const Move *move) {
  Layout l = *move->before;
  l.dims[move->dim] = move->after->dims[move->dim];
  return l;
}

static double all_to_all_beside(const CostModel *c, const Type *global, const Move *move) {
  int cut = move->dim2, joined = move->dim, n = global->rank, order[MAX_RANK + 1];
  double before = bytes_of(c, global, move->before), after = bytes_of(c, global, move->after);
  bool sent[MAX_RANK + 1], had[MAX_RANK + 1], got[MAX_RANK], one = c->mesh.axes[move->axis].size == 1;
  LegalAllToAll form = all_to_all_form(c, global, move);
  Layout middle = gathered_first(move);
  for (int d = 0; d < n; d++) {
    had[d] = part_is_one(c, global->dims[d], &move->before->dims[d]);
    got[d] = part_is_one(c, global->dims[d], &move->after->dims[d]);
  }
  switch (form) {
    case ALL_TO_ALL_AS_IT_IS: return 0;
    case ALL_TO_ALL_SPLIT_EVENLY: /* the number of parts stands before the cut dimension */
      for (int d = 0; d <= n; d++) sent[d] = d < cut ? had[d] : d == cut ? one : d == cut + 1 ? got[cut] : had[d - 1];
      to_front(n + 1, cut, joined + (joined > cut), order);
      before = reordered(c, before, n + 1, sent, order);
      to_front(n, joined, joined, order);
      return before + reordered(c, after, n, got, order);
    case ALL_TO_ALL_JOIN_EVENLY: /* ... and before the joined dimension */
      for (int d = 0; d <= n; d++)
        sent[d] = d < joined ? got[d] : d == joined ? one : d == joined + 1 ? had[joined] : got[d - 1];
      to_front(n, cut, joined, order);
      before = reordered(c, before, n, had, order);
      order[0] = joined, order[1] = cut + (cut > joined), order[2] = joined + 1;
      for (int d = 0, k = 3; d <= n; d++)
        if (d != order[0] && d != order[1] && d != order[2]) order[k++] = d;
      return before + reordered(c, after, n + 1, sent, order);
    default:
      return moved_dim(c, global, move->before, before, joined) +
             moved_dim(c, global, &middle, cost_bytes(c, global, &middle), joined) + cost_traffic(c, 2 * after);
  }
}

/* True if a kernel reduces the members' values because the library lacks the reduction. */
static bool reduced_here(const CostModel *c, const Type *global, const Move *move) {
  bool reduces = move->kind == MOVE_ALL_REDUCE || move->kind == MOVE_REDUCE_SCATTER;
  return reduces && stages(c) && !legal_reduces(move->before->partial, global->dtype);
}

static double members_of(const CostModel *c, uint32_t axes) {
  double n = 1;
  for (int a = 0; a < c->mesh.naxes; a++) n *= axes >> a & 1u ? c->mesh.axes[a].size : 1;
  return n;
}

/* The seconds of that kernel, and of the slice of a reduce-scatter. */
static double reducing(const CostModel *c, const Type *global, const Move *move) {
  double one = bytes_of(c, global, move->before), seconds = cost_traffic(c, (members_of(c, move->axes) + 1) * one);
  if (move->kind == MOVE_ALL_REDUCE) return seconds;
  return seconds + cost_traffic(c, 2 * bytes_of(c, global, move->after));
}

static double beside_move(const CostModel *c, const Type *global, const Move *move) {
  if (!stages(c)) return 0;
  if (reduced_here(c, global, move)) return reducing(c, global, move);
  switch (move->kind) {
    case MOVE_ALL_GATHER:
    case MOVE_REDUCE_SCATTER:
    case MOVE_EXCHANGE:
      return moved_dim(c, global, move->before, bytes_of(c, global, move->before), move->dim) +
             moved_dim(c, global, move->after, bytes_of(c, global, move->after), move->dim);
    case MOVE_ALL_TO_ALL: return all_to_all_beside(c, global, move);
    default: return 0;
  }
}

bool cost_comm_of_move(const CostModel *c, const Type *global, const Move *move, CommSize *out) {
  double before = bytes_of(c, global, move->before), after = bytes_of(c, global, move->after);
  *out = (CommSize){.axes = move->axes, .bytes = before};
  if (reduced_here(c, global, move)) {
    bool one_axis = (move->axes & (move->axes - 1)) == 0;
    out->kind = one_axis ? COMM_all_gather : COMM_exchange, out->bytes = before * members_of(c, move->axes);
    return true;
  }
  switch (move->kind) {
    case MOVE_ALL_GATHER: out->kind = COMM_all_gather, out->bytes = after; return true;
    case MOVE_REDUCE_SCATTER: out->kind = COMM_reduce_scatter; return true;
    case MOVE_ALL_TO_ALL:
      out->kind = COMM_all_to_all;
      if (all_to_all_form(c, global, move) != ALL_TO_ALL_GATHERED) return true;
      Layout middle = gathered_first(move);
      out->kind = COMM_all_gather, out->bytes = cost_bytes(c, global, &middle);
      return true;
    case MOVE_ALL_REDUCE: out->kind = COMM_all_reduce; return true;
    case MOVE_EXCHANGE: out->kind = COMM_exchange, out->bytes = fmax(before, after); return true;
    default: return false;
  }
}

double cost_move(void *context, const Module *m, const Type *global, const Move *move) {
  const CostModel *c = context;
  CommSize x;
  (void)m;
  if (cost_comm_of_move(c, global, move, &x))
    return c->loose && x.kind == COMM_exchange ? 0 : cost_comm(c, &x) + beside_move(c, global, move);
  if (move->kind == MOVE_SLICE) return cost_traffic(c, 2 * bytes_of(c, global, move->after));
  return move->kind == MOVE_MASK ? cost_traffic(c, 2 * bytes_of(c, global, move->before)) : 0;
}

/* Sends from one place to the next, over the slowest links of the receiving ranks. */
double cost_transfer(const CostModel *c, double bytes) {
  int inner = mesh_ranks(&c->mesh) / c->mesh.stages, ranks = c->target->ranks,
      span = 2 * inner < ranks ? 2 * inner : ranks;
  double seconds = 0;
  for (int k = 0; c->place >= 0 && k < c->ranks.kinds[c->place].n; k++)
    seconds = fmax(seconds, cost_send_seconds(c->ranks.kinds[c->place].classes[k].kind, span, bytes));
  if (c->place < 0) seconds = cost_send_least(c->target, span, bytes);
  return seconds * (1 - c->target->hidden);
}

/* ---- conversions */

static ConvertTable *table_for(CostModel *c, const Type *type) {
  for (size_t i = 0; i < c->tables.n; i++)
    if (c->tables.items[i].type == type) return c->tables.items[i].table;
  ConvertTable *t = (c->loose ? convert_table_of_sets : convert_table_new)(c->m, type, cost_move, c);
  ARENA_PUSH(c->arena, &c->tables, ((TypeTable){type, t}));
  return t;
}

void cost_convert_all(CostModel *c, const Type *global, int nfrom, const Layout *const *from, int n,
                      const Layout *const *to, double limit, double *seconds) {
  convert_table_costs(table_for(c, global), nfrom, from, n, to, c->range ? INFINITY : limit, seconds);
  for (size_t i = 0; c->range && i < (size_t)nfrom * (size_t)n; i++)
    if (seconds[i] == INFINITY) seconds[i] = 0;
}

double cost_convert(CostModel *c, const Type *global, const Layout *from, const Layout *to) {
  double seconds = 0;
  if (from != to) cost_convert_all(c, global, 1, &from, 1, &to, INFINITY, &seconds);
  return seconds;
}

bool cost_convert_path(CostModel *c, const Type *global, const Layout *from, const Layout *to, Conversion *out) {
  return convert_find(c->m, global, from, to, cost_move, c, out);
}

bool cost_agreement_path(CostModel *c, const Type *scalar, Conversion *out) {
  return agreement_find(c->m, scalar, cost_move, c, out);
}

double cost_agreement(CostModel *c, const Type *scalar) {
  Conversion x;
  return cost_agreement_path(c, scalar, &x) ? x.cost : 0;
}

/* ---- windows */

/* The part of a shard that a split windowed dimension exchanges: the overlap of windows beyond their own steps, at both
 * ends. */
static double window_part(const CostModel *c, const Func *f, const Op *op, const Strategy *s, const WalkWindow *x) {
  if (!op_is_windowed(op->kind)) return 1;
  Window w = window_of(f, op);
  int i = 0;
  while (w.dim[op->kind == OP_conv_transpose ? WINDOW_OUTPUT : WINDOW_IMAGE][i] != x->dim) i++;
  double beyond = (double)(cost_extent(c, window_reach(c->m, &w, i)) - w.stride[i]);
  double held = (double)cost_extent(c, w.extent[WINDOW_IMAGE][i]) / (double)cost_factor_parts(c, s, x->factor);
  return fmin(fmax(beyond, 0) / fmax(held, 1), 1);
}

CommSize cost_comm_of_window(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s,
                             int operand, const WalkWindow *window) {
  double shard = cost_bytes(c, type_of(f, op->in[operand]), strategy_operand(c->m, r, s, operand));
  return (CommSize){COMM_exchange, window->axes, window_part(c, f, op, s, window) * shard};
}

double cost_window(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s, int operand,
                   const WalkWindow *window) {
  CommSize x = cost_comm_of_window(c, f, op, r, s, operand, window);
  const Layout *l = strategy_operand(c->m, r, s, operand);
  const Type *t = type_of(f, op->in[operand]);
  return cost_comm(c, &x) + (stages(c) ? 2 * moved_dim(c, t, l, cost_bytes(c, t, l), window->dim) : 0);
}
