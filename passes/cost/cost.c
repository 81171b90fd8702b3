/* passes/cost/cost.c - the cost model of a mesh: sizes of shards and seconds of operations; see cost.h. */
#include "passes/cost/cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "codegen/rows/units.h"
#include "ir/joint.h"
#include "ir/layout/count.h"
#include "ir/schedule.h"
#include "ir/shares.h"
#include "ir/states.h"
#include "passes/cost/alike.h"
#include "passes/cost/cpu.h"
#include "passes/cost/model.h"
#include "passes/facts/same_weight.h"
#include "program/shares.h"

/* Ranks for lower bounds over all shares and orders of axes.  If all ranks share an operation, its split work takes as
 * long as on ranks of the mean rate, which the target gives, and its replicated work takes longer on slower ranks.  One
 * place of a pipeline could consist entirely of the kind that is fastest for the operation. */
static RankKinds ranks_of_bound(const CostModel *c) {
  const Target *t = c->target;
  if (c->mesh.stages == 1) return (RankKinds){0};
  RankKinds out = {.kinds = ARENA_ARRAY(c->arena, PlaceKind, t->nkinds + 1),
                   .n = t->nkinds,
                   .of_place = ARENA_ARRAY(c->arena, int, mesh_places(&c->mesh))};
  for (int i = 0; i < t->nkinds; i++) {
    out.kinds[i] = (PlaceKind){ARENA_NEW(c->arena, RankClass), 1};
    out.kinds[i].classes->kind = t->kinds[i];
  }
  return out;
}

static const Target *slowest_memory(const PlaceKind *place) {
  const Target *slowest = place->classes[0].kind;
  for (int i = 1; i < place->n; i++)
    if (kinds_bandwidth(place->classes[i].kind) < kinds_bandwidth(slowest)) slowest = place->classes[i].kind;
  return slowest;
}

/* Of the place that is priced; without one, of the place where memory is fastest. */
static const Target *mover_of(const CostModel *c) {
  const Target *best = NULL;
  for (int i = 0; i < c->ranks.n; i++) {
    const Target *x = slowest_memory(&c->ranks.kinds[i]);
    bool counts = c->place < 0 || c->place == i;
    if (counts && (!best || kinds_bandwidth(x) > kinds_bandwidth(best))) best = x;
  }
  return best ? best : c->target;
}

static void begin(CostModel *c) {
  Module *m = c->m;
  c->arena = arena_new();
  c->mesh = m->mesh;
  c->nsizes = m->symbols.n + MAX_AXES; /* meshes that are set later may have axes that have no symbol yet */
  c->sizes = ARENA_ARRAY(c->arena, int64_t, c->nsizes);
  for (size_t i = 0; i < m->symbols.n; i++) {
    const Symbol *s = &m->symbols.items[i];
    int last = s->axis >= 0 && s->axis < c->mesh.naxes ? c->mesh.axes[s->axis].size - 1 : 0;
    c->sizes[i] = s->axis >= 0 ? last : s->hint ? s->hint : strcmp(s->name, "batch") == 0 ? 8 : 128;
  }
  c->groups = ARENA_ARRAY(c->arena, GroupCosts *, (size_t)(c->target->nkinds + 1) << MAX_AXES);
  c->bytes = ARENA_ARRAY(c->arena, KnownBytes, 1u << KNOWN_BYTES_BITS);
  c->prices = ARENA_NEW(c->arena, Prices);
  c->prices->arena = c->arena;
  for (int a = 0; a < c->mesh.naxes && c->bounds; a++) c->mesh.axes[a].shares = NULL;
  c->ranks = kinds_on_mesh(c->arena, c->target, &c->mesh);
  if (c->bounds && c->ranks.n) c->ranks = ranks_of_bound(c);
  c->on = ARENA_ARRAY(c->arena, CostModel *, c->ranks.n + 1);
  c->mover = mover_of(c);
}

static void end(CostModel *c) {
  for (int i = 0; i < c->ranks.n && c->place < 0; i++)
    if (c->on[i]) cost_model_free(c->on[i]);
  for (size_t i = 0; i < c->tables.n; i++) convert_table_free(c->tables.items[i].table);
  arena_free(c->arena);
}

static CostModel *model_new(Module *m, const Target *t, OpenBodies *bodies, int loose) { /* ANY_SHARES: bounds */
  CostModel *c = must_have(malloc(sizeof *c), "for a cost model");
  *c = (CostModel){.m = m, .target = t, .bodies = bodies, .place = -1};
  c->loose = loose > 0 ? loose : 0, c->bounds = loose != 0;
  begin(c);
  return c;
}

CostModel *cost_model_new(Module *m, const Target *t) {
  Arena *a = arena_new();
  OpenBodies *bodies = ARENA_NEW(a, OpenBodies);
  bodies->arena = bodies->dots.arena = a;
  return model_new(m, t, bodies, 0);
}

CostModel *cost_model_beside(const CostModel *c, int loose) {
  CostModel *x = model_new(c->m, c->target, c->bodies, loose);
  x->beside = true;
  return x;
}

CostModel *cost_model_for(const CostModel *c, const Target *t) {
  CostModel *x = model_new(c->m, t, c->bodies, 0);
  x->beside = true;
  return x;
}

void cost_model_for_range(CostModel *c) { c->range = true; }

int cost_place_kinds(const CostModel *c) { return c->ranks.n && !c->bounds ? c->ranks.n : 1; }

int cost_kind_of_place(const CostModel *c, int place) { return cost_place_kinds(c) > 1 ? c->ranks.of_place[place] : 0; }

CostModel *cost_model_on(CostModel *c, int place) {
  if (c->ranks.n < 2 || c->place >= 0 || c->bounds) return c;
  int kind = c->ranks.of_place[place];
  if (!c->on[kind]) {
    const Mesh now = c->m->mesh;
    c->m->mesh = c->mesh;
    c->on[kind] = cost_model_beside(c, 0);
    c->m->mesh = now;
    c->on[kind]->place = kind;
    c->on[kind]->mover = mover_of(c->on[kind]);
  }
  return c->on[kind];
}

void cost_model_renew(CostModel *c) {
  end(c);
  *c = (CostModel){.m = c->m,
                   .target = c->target,
                   .bodies = c->bodies,
                   .beside = c->beside,
                   .bounds = c->bounds,
                   .loose = c->loose,
                   .place = -1};
  begin(c);
}

static void close_bodies(OpenBodies *b) {
  for (size_t i = 0; i < b->slots; i++)
    if (b->items[i].op) body_close(b->items[i].body);
  arena_free(b->arena);
}

/* The models of single places share the bodies, and are freed first. */
void cost_model_free(CostModel *c) {
  end(c);
  if (!c->beside) close_bodies(c->bodies);
  free(c);
}

const Layout *cost_layout(const CostModel *c, const Layout *l) { return c->loose && l ? layout_of_sets(c->m, l) : l; }

const Target *cost_target(const CostModel *c) { return c->target; }

/* ---- sizes */

int64_t cost_extent(const CostModel *c, const Expr *e) {
  int64_t v;
  if (e->kind == EX_CONST) return e->value < 0 ? 0 : e->value;
  if (c->m->symbols.n > c->nsizes) die("cost model: symbols were added after it was made");
  if (!ex_eval(e, c->sizes, &v)) return INT64_MAX;
  return v < 0 ? 0 : v;
}

static int64_t divide_up(int64_t n, int64_t parts) { return n / parts + (n % parts != 0); }

/* The largest place of all ranks, or that of the priced class. */
static SharePlace place_of(const CostModel *c, const DimLayout *l) {
  return c->alone ? layout_place(&c->mesh, l, c->alone->at) : layout_extreme(&c->mesh, l, true);
}

/* The largest of the parts of so many units; for bounds over any shares the mean, which need not be whole. */
static double largest_part(const CostModel *c, int64_t units, const DimLayout *l) {
  if (c->bounds && c->target->nkinds && !c->ranks.n) return (double)units / (double)layout_parts(&c->mesh, l);
  if (!mesh_has_shares(&c->mesh)) return (double)divide_up(units, layout_parts(&c->mesh, l));
  SharePlace x = place_of(c, l);
  if (c->alone && kinds_told_apart(&c->mesh, l))
    return (double)((x.before + x.own) * units / x.all - x.before * units / x.all);
  return (double)divide_up(units * x.own, x.all);
}

static double dim_elements(const CostModel *c, const Expr *extent, const DimLayout *l) {
  int64_t n = cost_extent(c, extent);
  if (!l->n) return (double)n;
  int64_t unit = cost_extent(c, l->unit);
  if (unit < 1) return 0;
  return largest_part(c, n / unit, l) * (double)unit;
}

double cost_elements(const CostModel *c, const Type *global, const Layout *l) {
  double n = 1;
  for (int d = 0; d < global->rank; d++) n *= dim_elements(c, global->dims[d], &l->dims[d]);
  return n;
}

double cost_bytes(const CostModel *c, const Type *global, const Layout *l) {
  return cost_elements(c, global, l) * (double)dtype_bytes(global->dtype);
}

int64_t cost_factor_parts(const CostModel *c, const Strategy *s, int factor) {
  int64_t n = 1;
  for (int i = 0; i < s->n; i++)
    if (s->picks[i].factor == factor) n *= c->mesh.axes[s->picks[i].axis].size;
  return n;
}

/* The axes that split a factor, as those of a dimension. */
static DimLayout axes_of_factor(const Strategy *s, int factor) {
  DimLayout l = {0};
  for (int i = 0; i < s->n; i++)
    if (s->picks[i].factor == factor) l.axes[l.n++] = s->picks[i].axis;
  return l;
}

static double factor_local(const CostModel *c, const Rule *r, const Strategy *s, int factor) {
  const DimLayout l = axes_of_factor(s, factor);
  return largest_part(c, cost_extent(c, r->factors[factor].size), &l);
}

/* True if even the smallest part of so many units is not empty. */
static bool shares_filled(const CostModel *c, const DimLayout *l, int64_t units) {
  if (!mesh_has_shares(&c->mesh)) return true;
  SharePlace least = layout_extreme(&c->mesh, l, false);
  return units * least.own >= least.all;
}

bool cost_parts_filled(const CostModel *c, const Rule *r, const Strategy *s, int micro) {
  for (int i = 0; i < s->n; i++) {
    int f = s->picks[i].factor;
    int64_t parts = cost_factor_parts(c, s, f);
    for (int j = 0; j < s->n && micro > 0; j++) {
      const MeshAxis *axis = &c->mesh.axes[s->picks[j].axis];
      if (s->picks[j].factor == f && axis->temporal) parts = parts / axis->size * micro;
    }
    if (r->factors[f].size && parts > cost_extent(c, r->factors[f].size)) return false;
    const DimLayout l = axes_of_factor(s, f);
    if (r->factors[f].size && !shares_filled(c, &l, cost_extent(c, r->factors[f].size))) return false;
  }
  return true;
}

/* ---- operations */

/* The rank's part of an operation, as numbers. */
static OpPart part_of(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s) {
  OpPart p = {.op = op, .rule = r, .share = 1};
  for (int i = 0; i < r->nfactors; i++)
    if (r->factors[i].size) p.size[i] = factor_local(c, r, s, i);
  if (op->out) {
    for (int i = 0; i < op->nout; i++) {
      const Type *t = type_of(f, op->out + (Val)i);
      double elements = cost_elements(c, t, strategy_result(c->m, r, s, i));
      if (i == 0) p.elements = elements;
      p.bytes += elements * (double)dtype_bytes(t->dtype);
    }
  }
  for (int i = 0; i < op->nin; i++) {
    const Type *t = type_of(f, op->in[i]);
    double elements = cost_elements(c, t, strategy_operand(c->m, r, s, i));
    if (i == 0) p.first = elements;
    p.in_bytes[i] = elements * (double)dtype_bytes(t->dtype);
  }
  if (op_is_grouped(op->kind)) {
    int v = rule_factor_find(r, "v");
    p.share = p.size[v] / fmax(1, (double)cost_extent(c, r->factors[v].size));
  }
  return p;
}

/* ---- decompositions */

static const Op *alike(const CostModel *c, const Func *f, const Op *op);

static OpenBody *find_body(const OpenBodies *b, const Op *op) {
  size_t i = (size_t)(((uint64_t)(uintptr_t)op >> 4) * 0x9E3779B97F4A7C15u >> 32) & (b->slots - 1);
  while (b->items[i].op && b->items[i].op != op) i = (i + 1) & (b->slots - 1);
  return &b->items[i];
}

static void grow_bodies(OpenBodies *b) {
  OpenBody *old = b->items;
  size_t n = b->slots;
  b->slots = n ? 2 * n : 64;
  b->items = ARENA_ARRAY(b->arena, OpenBody, b->slots);
  for (size_t i = 0; i < n; i++)
    if (old[i].op) *find_body(b, old[i].op) = old[i];
}

Body *cost_body(CostModel *c, const Func *f, const Op *op) {
  OpenBodies *all = c->bodies;
  op = alike(c, f, op);
  if (2 * all->n >= all->slots) grow_bodies(all);
  OpenBody *b = find_body(all, op);
  if (b->op) return b->body;
  *b = (OpenBody){op, body_open(c->m, f, op)};
  all->n++;
  return b->body;
}

/* The seconds of all window exchanges of the operation. */
static double window_cost(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s) {
  double seconds = 0;
  WalkWindow window;
  for (int i = 0; i < op->nin; i++)
    for (int at = 0; walk_window(r, s, i, &at, &window);) seconds += cost_window(c, f, op, r, s, i, &window);
  return seconds;
}

static DType computed_type(const Func *f, const Op *op) {
  return type_of(f, op->nin && op->kind != OP_dot ? op->in[0] : op->out)->dtype;
}

static MatrixKernel kernel_of(OpKind k) {
  if (op_is_grouped(k) || k == OP_packed_dot) return KERNEL_GROUPED;
  if (k == OP_attention) return KERNEL_ATTENTION;
  if (k == OP_attention_grad) return KERNEL_ATTENTION_GRAD;
  die("no rate for %s", op_name(k));
}

static double whole_size(const CostModel *c, const OpPart *p, const char *factor) {
  return (double)cost_extent(c, p->rule->factors[rule_factor_find(p->rule, factor)].size);
}

/* The share of all pairs of queries and keys that a kernel computes, on the rank with the most: it has the last queries
 * and the first keys.  Assumed kernels distribute early and late queries evenly. */
static double share_computed(const CostModel *c, const OpPart *p) {
  bool attention = p->op->kind == OP_attention || p->op->kind == OP_attention_grad;
  if (!attention || !op_int(p->op, AT_causal, 0)) return 1;
  double keys = whole_size(c, p, "t");
  if (c->target->assumes) return cost_causal_share(whole_size(c, p, "s"), keys, keys);
  return cost_causal_share(part_size(p, "s"), part_size(p, "t"), keys);
}

/* The seconds of contractions other than dots: our own kernels, and convolutions of a library. */
static double arithmetic_seconds(const CostModel *c, const Func *f, const OpPart *p, const Strategy *s, double flops) {
  DType type = computed_type(f, p->op);
  OpKind k = p->op->kind;
  if (!op_is_contraction(k)) return 0;
  flops *= share_computed(c, p);
  if (op_is_windowed(k)) return cost_conv_seconds(c->target, f, p, &c->mesh, s, flops);
  return cost_kernel_seconds(c->target, kernel_of(k), type, flops);
}

static bool is_free(OpKind k) { return op_is_source(k) || op_is_view(k) || op_is_loop_part(k); }

/* The seconds to read and write so many bytes, without a launch. */
static double stream_seconds(const CostModel *c, double bytes) {
  return cost_memory_seconds(c->target, bytes) - cost_memory_seconds(c->target, 0);
}

/* A sum over micro-batches: the kernel that makes a part reads the current sum and writes the new one instead of the
 * part. */
static double accumulate_seconds(const CostModel *c, const OpPart *p) {
  return mesh_micro_batches(&c->mesh) > 1 ? stream_seconds(c, p->bytes) : 0;
}

static const Joined *joined_in(const CostModel *c, const Func *f);

static double whole_bytes(const CostModel *c, const Type *t) {
  double n = (double)dtype_bytes(t->dtype);
  for (int d = 0; d < t->rank; d++) n *= (double)cost_extent(c, t->dims[d]);
  return n;
}

static double weights_of_products(const CostModel *c, const Func *f) {
  Arena *scratch = arena_new();
  const SameWeight same = weight_readers(scratch, f);
  bool *seen = ARENA_ARRAY(scratch, bool, f->ops.n + 1);
  double sum = 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    for (int k = 0; k < op->nin && op_is_contraction(op->kind); k++) {
      const Op *weight = op_of(f, op->in[k]);
      size_t first = weight->kind == OP_param ? same.first[func_op_index(f, weight)] : f->ops.n;
      if (first == f->ops.n || seen[first]) continue;
      seen[first] = true;
      sum += whole_bytes(c, type_of(f, op->in[k]));
    }
  }
  arena_free(scratch);
  return sum;
}

static bool is_cast_weight(const Func *f, Val v) {
  while (v && op_of(f, v)->kind == OP_cast) v = op_of(f, v)->in[0];
  return v && op_is_resident(op_of(f, v)->kind);
}

/* An operation inside a kernel of rows joins no product, even if it could. */
static const LegalJoin *joins_beside(const CostModel *c, const Func *f, const KernelPart *parts) {
  Arena *a = c->bodies->arena;
  LegalJoin *joins = ARENA_ARRAY(a, LegalJoin, f->ops.n + 1);
  memcpy(joins, legal_joins(a, c->m, c->target->device, f), sizeof *joins * f->ops.n);
  for (size_t i = 0; i < f->ops.n; i++)
    if (parts[i].kind == PART_ROWS) joins[i].kind = JOIN_NONE;
    else if (c->target->assumes && joins[i].kind == JOIN_BIAS) joins[i].of_weights |= is_cast_weight(f, joins[i].other);
  return joins;
}

/* Programs have one entry each, so kernels of a joint function are those of its entries. */
static Joined joined_of_entries(const CostModel *c, const Func *f) {
  Arena *a = c->bodies->arena;
  LegalJoin *joins = ARENA_ARRAY(a, LegalJoin, f->ops.n + 1);
  KernelPart *parts = ARENA_ARRAY(a, KernelPart, f->ops.n + 1);
  Together *together = ARENA_ARRAY(a, Together, f->ops.n + 1);
  bool any = false;
  int kernels = 0; /* of earlier entries */
  double weights = 0;
  for (int e = 0; e < f->joint->n; e++) {
    const JointEntry *entry = &f->joint->entries[e];
    const Joined own = *joined_in(c, entry->f);
    weights = fmax(weights, own.weights); /* the entries share them */
    int most = -1;
    for (size_t i = 0; i < entry->f->ops.n; i++) {
      size_t at = entry->at[i];
      LegalJoin *join = &joins[at];
      KernelPart *part = &parts[at];
      *join = own.joins[i], *part = own.parts[i];
      join->other = joint_value(f, e, join->other);
      if (join->next >= 0) join->next = (int)entry->at[join->next];
      if (own.together) together[at] = own.together[i], any = true;
      if (part->kernel < 0) continue;
      most = part->kernel > most ? part->kernel : most;
      part->kernel += kernels;
      part->first = entry->at[part->first], part->last = entry->at[part->last];
    }
    kernels += most + 1;
  }
  return (Joined){.f = f, .joins = joins, .parts = parts, .together = any ? together : NULL, .weights = weights};
}

static Joined joined_of(const CostModel *c, const Func *f) {
  Arena *a = c->bodies->arena;
  if (f->joint) return joined_of_entries(c, f);
  KernelPart *parts = cost_parts_of(a, c->m, c->target->device, f);
  if (c->target->small && f->level == 1) cost_parts_measured(f, parts);
  Joined known = {.f = f, .joins = joins_beside(c, f, parts), .parts = parts};
  if (c->target->small) known.weights = weights_of_products(c, f);
  if (c->target->assumes && f->level == 1) {
    cost_assume_parts(a, f, parts);
    known.together = cost_assume_together(a, c, f);
  }
  return known;
}

static const Joined *joined_in(const CostModel *c, const Func *f) {
  OpenBodies *b = c->bodies;
  for (size_t i = 0; i < b->joined.n; i++)
    if (b->joined.items[i].f == f) return &b->joined.items[i];
  Joined known = joined_of(c, f);
  known.alike = cost_alike_of(b->arena, f, known.joins, known.parts, known.together);
  ARENA_PUSH(b->arena, &b->joined, known);
  return &b->joined.items[b->joined.n - 1];
}

const Together *cost_together(const CostModel *c, const Func *f, const Op *op) {
  if (!c->target->assumes) return NULL;
  const Together *all = joined_in(c, f)->together;
  return all ? &all[op - f->ops.items] : NULL;
}

/* ---- on a measured CPU (cpu.h) */

/* Returns the bytes per second of the operation's traffic, by the footprint on the rank.  Weights count with all
 * weights of products together; other operands were written just before. */
static double rate_of(const CostModel *c, const Func *f, const Op *op) {
  const double between = 2; /* as much again is moved before it is read again */
  double bytes = 0;
  bool weights = false;
  for (int i = 0; i < op->nin; i++) {
    bytes += whole_bytes(c, type_of(f, op->in[i]));
    weights |= op_is_contraction(op->kind) && op_of(f, op->in[i])->kind == OP_param;
  }
  for (int i = 0; i < op->nout; i++) bytes += whole_bytes(c, type_of(f, op->out + (Val)i));
  const double rate = cost_cpu_rate(c->target, between * bytes / c->target->ranks);
  if (!weights) return rate;
  return fmin(rate, cost_cpu_weights_rate(c->target, joined_in(c, f)->weights / c->target->ranks));
}

/* Like stream_seconds, for an operation. */
static double move_seconds(const CostModel *c, const Func *f, const Op *op, double bytes) {
  return c->target->small ? bytes / rate_of(c, f, op) : stream_seconds(c, bytes);
}

static ConvWay conv_way_of(OpKind k) {
  return k == OP_conv ? CONV_forward : k == OP_conv_filter ? CONV_filter : CONV_transpose;
}

/* Channels of the result: its last dimension, because passes put channels last. */
static double columns_of(const CostModel *c, const Func *f, const OpPart *p) {
  const Type *y = type_of(f, p->op->out);
  return y->rank ? (double)cost_extent(c, y->dims[y->rank - 1]) : 1;
}

static double attention_on_cpu(const CostModel *c, const OpPart *p, double arithmetic, double memory) {
  double rows = part_size(p, "s"), keys = part_size(p, "t"), depth = part_size(p, "k"), heads = 1;
  for (int i = 0; i < p->rule->results[0].rank - 2; i++) heads *= p->size[p->rule->results[0].dims[i].f[0]];
  return cost_cpu_attention(c->target, heads, rows, keys, depth, share_computed(c, p), arithmetic, memory);
}

static OpCost kernel_on_cpu(const CostModel *c, const Func *f, const OpPart *p, const Strategy *s, OpCost out) {
  const Op *op = p->op;
  const Target *t = c->target;
  const DType type = computed_type(f, op);
  const double rate = rate_of(c, f, op), memory = op_bytes(p) / rate;
  out.seconds = t->launch;
  if (op->kind == OP_dot) {
    DotWork w = cost_dot_work(t, &c->bodies->dots, p, type, &c->mesh, s);
    DotCost dot = cost_dot_form(t, &w, type, NULL);
    bool panels = w.batch == 1 && cost_part(c, f, op)->panels;
    out.compute_bound = dot.arithmetic > dot.bytes / rate;
    out.seconds += dot.beside + cost_cpu_product(t, &w, dot.arithmetic, dot.bytes / rate, panels || !w.library);
    return out;
  }
  const double arithmetic = arithmetic_seconds(c, f, p, s, out.flops);
  out.compute_bound = arithmetic > memory;
  if (op->kind == OP_attention || op->kind == OP_attention_grad)
    out.seconds += attention_on_cpu(c, p, arithmetic, memory);
  else if (op_is_windowed(op->kind) && op_is_contraction(op->kind) && cost_conv_form_is_known(t, f, p, &c->mesh, s))
    out.seconds += cost_cpu_conv(t, type, conv_way_of(op->kind), out.flops, p->elements, columns_of(c, f, p), memory);
  else if (op_is_contraction(op->kind))
    out.seconds += cost_cpu_shared(t, fmax(arithmetic, memory), out.flops / 2 < SHARES_KERNEL);
  else out.seconds += cost_cpu_rows(t, op->kind, fmax(p->elements, p->first), 1, memory, 1);
  return out;
}

/* ---- targets with several kinds of ranks */

typedef OpCost PriceOf(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s);

/* The cost on the slowest ranks of a place. */
static OpCost on_place(const CostModel *c, const PlaceKind *place, PriceOf *price, const Func *f, const Op *op,
                       const Rule *r, const Strategy *s) {
  OpCost slowest = {0};
  for (int i = 0; i < place->n; i++) {
    CostModel one = *c;
    one.alone = &place->classes[i];
    one.target = one.mover = one.alone->kind;
    OpCost x = price(&one, f, op, r, s);
    if (i == 0 || x.seconds > slowest.seconds) slowest = x;
  }
  return slowest;
}

/* The cost on the priced place, or on the fastest if none is chosen. */
static OpCost on_ranks(const CostModel *c, PriceOf *price, const Func *f, const Op *op, const Rule *r,
                       const Strategy *s) {
  if (!c->ranks.n || c->alone) return price(c, f, op, r, s);
  if (c->place >= 0) return on_place(c, &c->ranks.kinds[c->place], price, f, op, r, s);
  OpCost fastest = {0};
  for (int i = 0; i < c->ranks.n; i++) {
    OpCost x = on_place(c, &c->ranks.kinds[i], price, f, op, r, s);
    if (i == 0 || x.seconds < fastest.seconds) fastest = x;
  }
  return fastest;
}

/* The seconds of a launch; 0 for an operation that the kernel of another one computes too. */
static double launch_of(const CostModel *c, const Func *f, const Op *op) {
  bool may_follow = op->kind == OP_dot || op->kind == OP_rope || op->kind == OP_update;
  return may_follow && c->target->device->few && cost_part(c, f, op)->follows ? 0 : c->target->launch;
}

/* True if the rank's part is a product that the kernel for few rows computes. */
static bool is_few(const CostModel *c, const Func *f, const Op *op, const DotWork *w) {
  if (!c->target->device->few || !w->library || w->batch != 1 || w->m > FEW_MOST_ROWS) return false;
  DType t = type_of(f, op->out)->dtype;
  bool narrow = (t == DT_bf16 || t == DT_f16) && w->dtype == t && type_of(f, op->in[0])->dtype == t;
  return narrow && cost_part(c, f, op)->weights >> !w->swapped & 1;
}

static OpCost kernel_price(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s) {
  OpCost out = {0};
  if (is_free(op->kind)) return out;
  OpPart part = part_of(c, f, op, r, s);
  out.flops = op_flops(&part);
  if (op->kind == OP_accumulate) return out.seconds = accumulate_seconds(c, &part), out;
  if (c->target->small) return kernel_on_cpu(c, f, &part, s, out);
  DType type = computed_type(f, op);
  DotCost dot = {.bytes = op_bytes(&part)};
  if (op->kind == OP_dot) {
    DotWork work = cost_dot_work(c->target, &c->bodies->dots, &part, type, &c->mesh, s);
    work.few = is_few(c, f, op, &work);
    dot = cost_dot_form(c->target, &work, type, cost_together(c, f, op));
  } else {
    dot.arithmetic = arithmetic_seconds(c, f, &part, s, out.flops);
  }
  double memory = cost_memory_seconds(c->target, dot.bytes);
  out.compute_bound = dot.arithmetic > memory;
  out.seconds = launch_of(c, f, op) + fmax(dot.arithmetic, memory) + dot.beside;
  return out;
}

OpCost cost_kernel(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s) {
  return on_ranks(c, kernel_price, f, op, r, s);
}

/* The first operation that costs the same. */
static const Op *alike(const CostModel *c, const Func *f, const Op *op) {
  return &f->ops.items[joined_in(c, f)->alike[op - f->ops.items]];
}

const LegalJoin *cost_join(const CostModel *c, const Func *f, const Op *op) {
  return &joined_in(c, f)->joins[op - f->ops.items];
}

const KernelPart *cost_part(const CostModel *c, const Func *f, const Op *op) {
  return &joined_in(c, f)->parts[op - f->ops.items];
}

/* ---- as part of a kernel */

static bool has(uint64_t set, int i) { return set >> i & 1; }

/* The bytes read for operand i, or for the stored value that it is computed from.  Repeated operands are small and
 * count whole: a split that only makes them smaller is no reason to choose a plan. */
static double read_bytes(const CostModel *c, const Func *f, const Op *op, const KernelPart *k, const Layout *l, int i) {
  const Type *t = type_of(f, op->in[i]);
  PartRead as = k->as ? k->as[i] : (PartRead){0};
  double n = 1;
  for (int d = 0; d < t->rank; d++) {
    if (!as.spread) n *= dim_elements(c, t->dims[d], &l->dims[d]);
    else if (!has(as.spread, d)) n *= (double)cost_extent(c, t->dims[d]);
  }
  return n * (double)(as.bytes ? (size_t)as.bytes : dtype_bytes(t->dtype));
}

/* A gather and similar operations read less than their operands. */
static double reads_of(const CostModel *c, const Func *f, const OpPart *p, const Strategy *s, const KernelPart *k) {
  double bytes = 0, most = op_bytes(p) - p->bytes;
  for (int i = 0; i < p->op->nin; i++)
    if (has(k->reads, i)) bytes += read_bytes(c, f, p->op, k, strategy_operand(c->m, p->rule, s, i), i);
  return fmin(bytes, fmax(most, 0));
}

static double stores_of(const CostModel *c, const Func *f, const OpPart *p, const Strategy *s, const KernelPart *k) {
  double bytes = 0;
  for (int i = 0; i < p->op->nout; i++)
    if (has(k->stores, i))
      bytes += cost_bytes(c, type_of(f, p->op->out + (Val)i), strategy_result(c->m, p->rule, s, i));
  return bytes;
}

static double rows_seconds(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s) {
  const KernelPart *k = cost_part(c, f, op);
  OpPart part = part_of(c, f, op, r, s);
  double bytes = reads_of(c, f, &part, s, k) + stores_of(c, f, &part, s, k);
  if (c->target->small)
    return k->launches * c->target->launch + cost_cpu_rows(c->target, op->kind, fmax(part.elements, part.first),
                                                           k->work, move_seconds(c, f, op, bytes), k->launches);
  return k->launches * cost_traffic(c, 0) + stream_seconds(c, bytes);
}

double cost_bytes_moved(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s, bool alone) {
  const OpPart part = part_of(c, f, op, r, s);
  if (alone) return op_bytes(&part);
  const KernelPart *k = cost_part(c, f, op);
  if (k->kind == PART_FREE) return 0;
  return k->kind == PART_ROWS ? reads_of(c, f, &part, s, k) + stores_of(c, f, &part, s, k) : op_bytes(&part);
}

double cost_outside(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s, int k) {
  const KernelPart *part = cost_part(c, f, op);
  if (part->kind != PART_ROWS || !has(part->inside, k) || strategy_needs_body(r, s)) return 0;
  double bytes = cost_bytes(c, type_of(f, op->in[k]), strategy_operand(c->m, r, s, k));
  return cost_traffic(c, has(part->alone, k) ? 2 * bytes : bytes);
}

/* True if every rank has one element of the added vector: level 2 then has a constant extent there. */
static bool is_cut_up(const CostModel *c, const Func *f, const Op *op, const LegalJoin *join, const Layout *result) {
  const Op *spread = op_of(f, op->in[1 - join->operand]);
  while (spread->kind == OP_copy) spread = op_of(f, spread->in[0]);
  if (spread->kind != OP_broadcast) return false; /* level 2 */
  const Type *x = type_of(f, spread->in[0]);
  for (int d = 0; d < x->rank; d++) {
    int64_t extent;
    const DimLayout *l = &result->dims[op_attr(spread, AT_dims)->u.ints[d]];
    if (!ex_get_const(x->dims[d], &extent) ||
        (extent > 1 && (layout_parts(&c->mesh, l) != extent || layout_has_shares(&c->mesh, l))))
      return false;
  }
  return true;
}

static bool is_joined(const CostModel *c, const Func *f, const Op *op, const LegalJoin *join, const Layout *result) {
  return join_is_counted(join) && !join->apart && !(join->kind == JOIN_BIAS && is_cut_up(c, f, op, join, result));
}

/* The seconds of joining so many bytes of the result. */
static double joined_seconds(const CostModel *c, JoinKind k, double bytes) {
  return k == JOIN_RESIDUAL ? stream_seconds(c, bytes) : 0;
}

static OpCost joined_price(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s) {
  PartKind kind = cost_part(c, f, op)->kind;
  OpCost out = cost_kernel(c, f, op, r, s);
  if (state_is_away(c->m, op)) {
    const bool reads = op->kind == OP_read;
    out.seconds += cost_away(c, f, op, reads ? strategy_result(c->m, r, s, 0) : strategy_operand(c->m, r, s, 0));
    return out;
  }
  if (kind != PART_OWN) {
    out.seconds = kind == PART_ROWS ? rows_seconds(c, f, op, r, s) : 0;
    out.rows = kind == PART_ROWS;
    return out;
  }
  if (cost_part(c, f, op)->follows) out.seconds -= launch_of(c, f, op);
  const LegalJoin *join = cost_join(c, f, op);
  const Layout *result = op->out ? strategy_result(c->m, r, s, 0) : NULL;
  if (is_joined(c, f, op, join, result))
    out.seconds = joined_seconds(c, join->kind, cost_bytes(c, type_of(f, op->out), result));
  return out;
}

OpCost cost_joined(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s) {
  bool known;
  OpCost *cost = cost_price_of(c->prices, alike(c, f, op), PRICED_JOINED, s, &known);
  if (!known) *cost = on_ranks(c, joined_price, f, op, r, s);
  return *cost;
}

double cost_apart(const CostModel *c, const Func *f, const Op *op, const Layout *layout) {
  double bytes = cost_bytes(c, type_of(f, op->out), layout);
  if (!is_joined(c, f, op, cost_join(c, f, op), layout)) return 0;
  return cost_traffic(c, (op->nin + 1) * bytes) - joined_seconds(c, cost_join(c, f, op)->kind, bytes);
}

double cost_away(const CostModel *c, const Func *f, const Op *op, const Layout *l) {
  if (!state_is_away(c->m, op)) return 0;
  return cost_bytes(c, type_of(f, op->kind == OP_write ? op->in[0] : op->out), l) / target_away(c->target);
}

double cost_write(const CostModel *c, const Func *f, const Op *op, const Layout *l) {
  return cost_traffic(c, cost_bytes(c, type_of(f, op->in[0]), l)) + cost_away(c, f, op, l);
}

/* ---- an operation with a split body factor: the parts that the walk makes of it */

typedef struct BodySum {
  Walk walk; /* first, so that a Walk pointer can be cast to BodySum */
  CostModel *c;
  OpCost sum;
} BodySum;

enum { SOME_VALUE = 1 };

static Val sum_source(Walk *w, const WalkScope *s, const Op *op, const Layout *layout, int stage, bool declares) {
  (void)w, (void)s, (void)op, (void)layout, (void)stage, (void)declares;
  return SOME_VALUE;
}

static Val sum_convert(Walk *w, const WalkScope *s, Val value, Val v, const Layout *from, const Layout *to, int stage) {
  BodySum *b = (BodySum *)w;
  (void)stage;
  b->sum.communication += cost_convert(b->c, type_of(s->f, value), from, to);
  return v;
}

static Val sum_exchange(Walk *w, const WalkScope *s, size_t index, int operand, const WalkWindow *window, Val v,
                        int stage) {
  BodySum *b = (BodySum *)w;
  (void)stage;
  b->sum.communication +=
      cost_window(b->c, s->f, &s->f->ops.items[index], s->rules[index], &s->strategies[index], operand, window);
  return v;
}

static Val sum_operation(Walk *w, const WalkScope *s, size_t index, const Val *in, int stage) {
  BodySum *b = (BodySum *)w;
  const Op *op = &s->f->ops.items[index];
  bool known;
  OpCost *one = cost_price_of(b->c->prices, op, PRICED_KERNEL, &s->strategies[index], &known);
  if (!known) *one = cost_kernel(b->c, s->f, op, s->rules[index], &s->strategies[index]);
  (void)in, (void)stage;
  b->sum.seconds += one->seconds;
  b->sum.flops += one->flops;
  return SOME_VALUE;
}

static Body *sum_open(Walk *w, const WalkScope *s, const Op *composite) {
  return cost_body(((BodySum *)w)->c, s->f, composite);
}

static void sum_enter(Walk *w, WalkScope *body, const Val *in) { (void)w, (void)body, (void)in; }

static void sum_leave(Walk *w, WalkScope *body, Body *known, Val *results) {
  (void)w, (void)body, (void)known, (void)results;
}

static const Layout *sum_form(const Walk *w, const Layout *l) { return cost_layout(((const BodySum *)w)->c, l); }

/* A decomposition has no stages, loops, states or outputs. */
static const WalkSink sum_sink = {.source = sum_source,
                                  .convert = sum_convert,
                                  .exchange = sum_exchange,
                                  .operation = sum_operation,
                                  .open = sum_open,
                                  .enter = sum_enter,
                                  .leave = sum_leave,
                                  .form = sum_form};

static OpCost body_cost(CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s) {
  Val in[MAX_OPERANDS], out[MAX_RESULTS];
  Arena *scratch = arena_new();
  BodySum b = {.walk = {.m = c->m, .arena = scratch, .sink = &sum_sink, .at = op}, .c = c};
  for (int i = 0; i < op->nin; i++) in[i] = SOME_VALUE;
  walk_body(&b.walk, &(WalkScope){.f = f, .loop = -1}, op, r, s, in, 0, out);
  b.sum.seconds += b.sum.communication;
  arena_free(scratch);
  return b.sum;
}

static OpCost whole_price(CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s) {
  if (strategy_needs_body(r, s)) return body_cost(c, f, op, r, s);
  OpCost out = cost_joined(c, f, op, r, s);
  out.communication = window_cost(c, f, op, r, s);
  out.seconds += out.communication;
  return out;
}

OpCost cost_op(CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s) {
  const Op *first = alike(c, f, op);
  bool known;
  OpCost *cost = cost_price_of(c->prices, first, PRICED_WHOLE, s, &known);
  if (known) return *cost;
  OpCost out = whole_price(c, f, first, r, s); /* may price other operations and so move the table */
  *cost_price_of(c->prices, first, PRICED_WHOLE, s, &known) = out;
  return out;
}

DotWork cost_dot(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s) {
  OpPart part = part_of(c, f, op, r, s);
  return cost_dot_work(c->target, &c->bodies->dots, &part, computed_type(f, op), &c->mesh, s);
}

bool cost_conv_is_known(const CostModel *c, const Func *f, const Op *op, const Rule *r, const Strategy *s) {
  OpPart part = part_of(c, f, op, r, s);
  return cost_conv_form_is_known(c->target, f, &part, &c->mesh, s);
}

static bool has_body(const Rule *r) {
  for (int i = 0; i < r->nfactors; i++)
    if (r->factors[i].kind == FK_BODY) return true;
  return false;
}

OpLeast cost_op_least(const CostModel *c, const Func *f, const Op *op, const Rule *r) {
  const Strategy whole = {0};
  const KernelPart *kernel = cost_part(c, f, op);
  if (is_free(op->kind) || op->kind == OP_accumulate || kernel->kind == PART_FREE) return (OpLeast){0};
  const int launches = kernel->follows ? 0 : kernel->kind == PART_ROWS ? kernel->launches : 1;
  OpLeast out = {.launch = launches * c->target->launch};
  if (has_body(r)) return out;
  OpPart part = part_of(c, f, op, r, &whole);
  if (kernel->kind == PART_ROWS) {
    out.memory = move_seconds(c, f, op, reads_of(c, f, &part, &whole, kernel) + stores_of(c, f, &part, &whole, kernel));
    return out;
  }
  const LegalJoin *join = cost_join(c, f, op);
  if (join_is_counted(join) && !join->apart) return (OpLeast){.memory = joined_seconds(c, join->kind, part.bytes)};
  if (op_is_grouped(op->kind))
    out.arithmetic = cost_kernel_seconds(c->target, KERNEL_GROUPED, computed_type(f, op), op_flops(&part));
  else if (op_is_contraction(op->kind))
    out.arithmetic = cost_least_seconds(c->target, computed_type(f, op), share_computed(c, &part) * op_flops(&part));
  out.memory = move_seconds(c, f, op, op_bytes(&part));
  return out;
}
