/* passes/cost/parts.c - see parts.h. */
#include "passes/cost/parts.h"

#include "base/die.h"
#include "codegen/rows/row_work.h"
#include "passes/facts/same_weight.h"

/* The result of code generation for one operation. */
typedef struct Made {
  int n;      /* work operations */
  bool rows;  /* kernels of rows do all of them */
  int first;  /* the group that reads its operands; -1 if none */
  int groups; /* groups that begin with it */
} Made;

typedef struct Parts {
  Work *w;
  const Func *f;
  Arena *arena, *scratch;
  Made *made;          /* by operation */
  bool *launches;      /* by group: it is launched by itself, or is the first of a bundle */
  GroupLinks *readers; /* by value: the groups that read it so far */
  bool *alone;         /* by value: some operation reads it inside the kernel that makes it */
  KernelPart *out;     /* by operation */
} Parts;

/* Returns the work operation that makes a value of level 1, looking through copies and sums over one micro-batch. */
static const WorkOp *maker(const Parts *p, Val *v) {
  int def = work_def(p->w, *v = work_resolve(p->w, *v));
  return def < 0 ? NULL : &p->w->ops.items[def];
}

/* True for views of memory. */
static bool is_view(const Parts *p, const WorkOp *o) {
  const Expr *offset;
  if (o->class == WC_VIEW) return true;
  return o->class == WC_MAP && !o->virtual_ && o->group >= 0 && p->w->groups.items[o->group].n == 1 &&
         work_is_view(p->w, o->op, &offset);
}

static bool in_rows(const Parts *p, const WorkOp *o) {
  return (o->class == WC_MAP || o->class == WC_ROW) && !o->virtual_ && !is_view(p, o);
}

static void find_made(Parts *p) {
  for (size_t i = 0; i < p->f->ops.n; i++) p->made[i] = (Made){.rows = true, .first = -1};
  for (size_t i = 0; i < p->w->ops.n; i++) {
    const WorkOp *o = &p->w->ops.items[i];
    Made *made = &p->made[o->origin];
    bool free = o->virtual_ || is_view(p, o) || (o->group >= 0 && p->w->groups.items[o->group].dead);
    if (!o->live) continue;
    made->n++;
    made->rows &= free || in_rows(p, o);
    if (free || o->group < 0) continue;
    if (made->first < 0) made->first = o->group;
    made->groups += p->launches[o->group] && p->w->groups.items[o->group].ops[0] == (int)i;
  }
}

/* True if dimension d of a broadcast's result is one of its operand's. */
static bool keeps_dim(const Parts *p, const Op *broadcast, int d) {
  const Attr *dims = op_attr(broadcast, AT_dims);
  const Type *from = work_type(p->w, broadcast->in[0]), *to = work_type(p->w, broadcast->out);
  for (int k = 0; k < dims->n; k++)
    if (dims->u.ints[k] == d) return from->dims[k] == to->dims[d];
  return false;
}

static bool is_copied(const Parts *p, const WorkOp *o) {
  return o && p->w->copied && p->w->copied[o->origin] && p->f->ops.items[o->origin].out == o->op->out;
}

/* Returns how an operand is read if its reader computes it: from the stored value at the beginning of the chain, as
 * long as its dimensions are those of the operand. */
static PartRead read_as(const Parts *p, Val v) {
  PartRead read = {0};
  const int rank = type_of(p->f, v)->rank;
  for (const WorkOp *o; (o = maker(p, &v)) && o->virtual_ && o->op->nin == 1; v = o->op->in[0]) {
    read.bytes = (int)dtype_bytes(work_type(p->w, o->op->in[0])->dtype);
    for (int d = 0; d < rank && o->op->kind == OP_broadcast; d++)
      if (!keeps_dim(p, o->op, d)) read.spread |= 1u << d;
    bool same = o->op->kind == OP_cast || o->op->kind == OP_slice || o->op->kind == OP_broadcast;
    if (!same || work_type(p->w, o->op->in[0])->rank != rank) break;
  }
  return read;
}

/* True if nothing of the value is in memory: a constant. */
static bool is_computed(const Parts *p, Val v) {
  const WorkOp *o = maker(p, &v);
  while (o && o->virtual_ && o->op->nin == 1) v = o->op->in[0], o = maker(p, &v);
  if (!o) return v < p->f->values.n && op_is_constant(op_of(p->f, v)->kind);
  return o->virtual_ && !o->op->nin;
}

/* True if the group reads the value for the first time. */
static bool is_first(Parts *p, Val v, int group) {
  GroupLinks *seen = &p->readers[v];
  for (size_t i = 0; i < seen->n; i++)
    if (seen->items[i] == group) return false;
  ARENA_PUSH(p->scratch, seen, group);
  return true;
}

static void add_read(Parts *p, size_t i, int k) {
  const Op *op = &p->f->ops.items[i];
  KernelPart *part = &p->out[i];
  Val v = op->in[k];
  const WorkOp *from = maker(p, &v);
  int group = p->made[i].first;
  uint64_t bit = (uint64_t)1 << k;
  if (from && from->group == group && in_rows(p, from) && !op_is_source(from->op->kind)) {
    part->inside |= bit;
    if (!p->w->stored[v] && !p->alone[v]) part->alone |= bit;
    p->alone[v] = true;
    return;
  }
  const bool copied = is_copied(p, from) && from->group != group;
  if (copied) v = p->w->whole[from->origin];
  if ((from && from->group == group) || !v || is_computed(p, v) || !is_first(p, v, group)) return;
  part->reads |= bit;
  PartRead as = read_as(p, op->in[k]);
  if (copied) as = (PartRead){.bytes = (int)dtype_bytes(work_type(p->w, v)->dtype)};
  if (!as.bytes) return;
  PartRead *all = part->as ? (PartRead *)(uintptr_t)part->as : ARENA_ARRAY(p->arena, PartRead, op->nin);
  all[k] = as, part->as = all;
}

/* Returns the value in memory that virtual operations read for `v`. */
static Val base_of(const Parts *p, Val v) {
  for (const WorkOp *o; (o = maker(p, &v)) && o->virtual_ && o->op->nin == 1;) v = o->op->in[0];
  return v;
}

/* Finds the operand from which kernels compute the result again. */
static void find_copied(Parts *p, size_t i) {
  const Op *op = &p->f->ops.items[i];
  KernelPart *part = &p->out[i];
  part->copied = p->w->copied && p->w->copied[i];
  part->from = -1;
  for (int k = op->nin; k-- > 0 && part->copied && p->w->whole[i];) {
    Val v = base_of(p, op->in[k]);
    const WorkOp *from = maker(p, &v);
    bool same = v == p->w->whole[i] || (is_copied(p, from) && p->w->whole[from->origin] == p->w->whole[i]);
    if (same) part->from = k;
  }
}

static void find_part(Parts *p, size_t i) {
  const Op *op = &p->f->ops.items[i];
  const Made *made = &p->made[i];
  KernelPart *part = &p->out[i];
  part->kernel = -1;
  if (!made->n && p->w->passed && p->w->passed[i]) part->kind = PART_FREE; /* kernels read or write through it */
  find_copied(p, i);
  part->follows = !made->n && p->w->within && p->w->within[i];
  if (p->w->folded && p->w->folded[i]) part->kind = PART_FREE; /* the kernel that adds up totals does it */
  if (!made->n || !made->rows || op_is_source(op->kind) || op_is_contraction(op->kind)) return;
  part->kind = made->first < 0 ? PART_FREE : PART_ROWS;
  part->kernel = made->first;
  part->launches = made->groups;
  for (int k = 0; k < op->nin && part->kind == PART_ROWS; k++) add_read(p, i, k);
  for (int k = 0; k < op->nout && part->kind == PART_ROWS; k++)
    if (p->w->stored[op->out + (Val)k]) part->stores |= 1u << k;
}

/* Finds the first and the last operation of each kernel. */
static void find_ends(Parts *p) {
  size_t *first = ARENA_ARRAY(p->scratch, size_t, p->w->groups.n + 1),
         *last = ARENA_ARRAY(p->scratch, size_t, p->w->groups.n + 1);
  for (size_t i = p->f->ops.n; i-- > 0;) {
    int kernel = p->out[i].kernel;
    if (kernel < 0) continue;
    first[kernel] = i;
    if (!last[kernel]) last[kernel] = i;
  }
  for (size_t i = 0; i < p->f->ops.n; i++)
    if (p->out[i].kernel >= 0) p->out[i].first = first[p->out[i].kernel], p->out[i].last = last[p->out[i].kernel];
}

/* Of several products, or of rotations and updates, that one kernel computes, one pays for the launch. */
static void find_followers(Parts *p) {
  for (size_t i = 0; i < p->w->ops.n; i++) {
    const FewUnit *few = p->w->ops.items[i].few;
    const CacheUnit *cache = p->w->ops.items[i].cache;
    for (int k = 1; few && k < few->n; k++) p->out[few->product[k]->origin].follows = true;
    for (int k = 0; cache && k < cache->nfollow; k++) p->out[cache->follow[k]].follows = true;
  }
}

static void find_weights(Parts *p) {
  for (size_t i = 0; i < p->f->ops.n; i++) {
    const Op *op = &p->f->ops.items[i];
    if (op->kind != OP_dot || p->w->all->loops.of[i] >= 0) continue;
    for (int k = 0; k < 2; k++)
      if (op_of(p->f, op->in[k])->kind == OP_param) p->out[i].weights |= 1u << k;
  }
}

/* A bundle counts at its first group. */
static void find_launches(Parts *p) {
  size_t n = 0;
  const int *order = p->w->all->bundles ? work_order(p->w, &n) : NULL;
  p->launches = ARENA_ARRAY(p->scratch, bool, p->w->groups.n + 1);
  for (size_t i = 0; i < p->w->groups.n && !order; i++) p->launches[i] = true;
  for (size_t i = 0; i < n; i++) {
    int bundle = p->w->groups.items[order[i]].bundle;
    p->launches[order[i]] = bundle < 0 || i == 0 || p->w->groups.items[order[i - 1]].bundle != bundle;
  }
}

KernelPart *cost_parts_of(Arena *a, Module *m, const DeviceTraits *device, const Func *f) {
  Parts p = {.f = f, .arena = a, .out = ARENA_ARRAY(a, KernelPart, f->ops.n + 1)};
  if (f->level != 1) return p.out;
  p.scratch = arena_new();
  p.w = work_of_stage(work_function(p.scratch, m, f, device, true), 0);
  work_fuse(p.w);
  p.made = ARENA_ARRAY(p.scratch, Made, f->ops.n + 1);
  p.readers = ARENA_ARRAY(p.scratch, GroupLinks, f->values.n + p.w->temps.n + 1);
  p.alone = ARENA_ARRAY(p.scratch, bool, f->values.n + p.w->temps.n + 1);
  find_launches(&p);
  find_weights(&p);
  find_made(&p);
  for (size_t i = 0; i < f->ops.n; i++) find_part(&p, i);
  find_ends(&p);
  find_followers(&p);
  arena_free(p.scratch);
  return p.out;
}

/* The cost of an element and of storing it, as element_work of codegen/cpu/print_c.c. */
static void find_work(Arena *scratch, const Func *f, KernelPart *parts) {
  int *work = ARENA_ARRAY(scratch, int, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++) {
    OpKind k = f->ops.items[i].kind;
    int own = op_is_elementwise(k) ? op_element_cost(k) : 1;
    if (parts[i].kernel >= 0) work[parts[i].first] += own + (parts[i].stores ? 1 : 0);
  }
  for (size_t i = 0; i < f->ops.n; i++)
    if (parts[i].kernel >= 0) parts[i].work = work[parts[i].first];
}

/* Returns the read of a weight; NULL if the value is not a weight. */
static const Op *weight_of(const Func *f, Val v) {
  const Op *op = op_of(f, v);
  return op->kind == OP_param ? op : NULL;
}

void cost_parts_measured(const Func *f, KernelPart *parts) {
  Arena *scratch = arena_new();
  const SameWeight same = weight_readers(scratch, f);
  bool *others = ARENA_ARRAY(scratch, bool, f->ops.n + 1);
  find_work(scratch, f, parts);
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; k < f->ops.items[i].nin; k++) {
      const Op *weight = weight_of(f, f->ops.items[i].in[k]);
      if (weight && f->ops.items[i].kind != OP_dot) others[same.first[func_op_index(f, weight)]] = true;
    }
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    for (int k = 0; k < 2 && op->kind == OP_dot; k++) {
      const Op *weight = weight_of(f, op->in[k]);
      if (!weight) continue;
      const bool narrow = type_of(f, op->in[k])->dtype != type_of(f, op->out)->dtype; /* in panels beside its tensor */
      if (narrow || (type_of(f, op->in[k])->dtype == DT_f32 && !others[same.first[func_op_index(f, weight)]]))
        parts[i].panels = true;
    }
  }
  arena_free(scratch);
}
