/* passes/cost/assumed.c - see assumed.h. */
#include "passes/cost/assumed.h"

#include <string.h>

/* ---- dots that share an operand */

/* The dimensions of one operand of a dot, by their role. */
typedef struct DotSide {
  uint32_t summed, kept; /* a bit per dimension; all others are in both operands and the result */
} DotSide;

static DotSide side_of(const Op *op, int operand) {
  const char *spec = op_str(op, AT_spec), *comma = strchr(spec, ','), *arrow = strchr(spec, '-');
  const char *own = operand ? comma + 1 : spec, *other = operand ? spec : comma + 1, *result = arrow + 2;
  size_t n = (size_t)((operand ? arrow : comma) - own), m = (size_t)((operand ? comma : arrow) - other);
  DotSide side = {0};
  for (size_t d = 0; d < n; d++) {
    if (!strchr(result, own[d])) side.summed |= 1u << d;
    else if (!memchr(other, own[d], m)) side.kept |= 1u << d;
  }
  return side;
}

static double elements_of(const CostModel *c, const Func *f, Val v) {
  const Type *t = type_of(f, v);
  double n = 1;
  for (int d = 0; d < t->rank; d++) n *= (double)cost_extent(c, t->dims[d]);
  return n;
}

typedef struct DotReaders {
  size_t *items;
  size_t n, cap;
} DotReaders;

typedef struct Gathering {
  const CostModel *c;
  const Func *f;
  Arena *scratch;
  DotReaders *readers; /* by value */
  Together *out;       /* by operation */
  double *weight;      /* by value: if it is the other operand of such a product, how many times larger it becomes; 0 if
                        * it is not */
  uint32_t *columns;   /* ... and those of its dimensions that the result has */
} Gathering;

static bool is_dot(const Op *op) { return op->kind == OP_dot && op->in[0] != op->in[1]; }

static bool multiply_alike(const Op *x, const Op *y, Val v) {
  int i = x->in[0] != v, j = y->in[0] != v;
  DotSide a = side_of(x, i), b = side_of(y, j);
  return x->phase == y->phase && a.summed == b.summed && a.kept == b.kept;
}

/* Sums the results of all dots that multiply the operand as this one does, relative to its own result. */
static double times_of(const Gathering *g, const Op *op, int operand) {
  const DotReaders *all = &g->readers[op->in[operand]];
  double sum = 0;
  for (size_t i = 0; i < all->n; i++) {
    const Op *x = &g->f->ops.items[all->items[i]];
    if (multiply_alike(op, x, op->in[operand])) sum += elements_of(g->c, g->f, x->out);
  }
  return sum / elements_of(g->c, g->f, op->out);
}

static void gather_columns(Gathering *g, size_t i) {
  const Op *op = &g->f->ops.items[i];
  Together *best = &g->out[i];
  for (int k = 0; k < 2; k++) {
    double times = times_of(g, op, k);
    if (times > best->times * (1 + 1e-9)) *best = (Together){k, times};
  }
  if (best->times <= 1) return;
  Val other = op->in[1 - best->shared];
  g->weight[other] = best->times, g->columns[other] = side_of(op, 1 - best->shared).kept;
}

/* Gradients of the shared operand: products with the same weights, summed over their former columns. */
static void gather_depth(Gathering *g, size_t i) {
  const Op *op = &g->f->ops.items[i];
  for (int k = 0; k < 2 && g->out[i].times <= 1; k++) {
    DotSide side = side_of(op, k);
    if (g->weight[op->in[k]] > 1 && side.summed == g->columns[op->in[k]])
      g->out[i] = (Together){-1, g->weight[op->in[k]]};
  }
}

const Together *cost_assume_together(Arena *a, const CostModel *c, const Func *f) {
  Gathering g = {.c = c, .f = f, .scratch = arena_new(), .out = ARENA_ARRAY(a, Together, f->ops.n + 1)};
  g.readers = ARENA_ARRAY(g.scratch, DotReaders, f->values.n + 1);
  g.weight = ARENA_ARRAY(g.scratch, double, f->values.n + 1);
  g.columns = ARENA_ARRAY(g.scratch, uint32_t, f->values.n + 1);
  for (size_t i = 0; i < f->ops.n; i++) g.out[i] = (Together){-1, 1};
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (!is_dot(op)) continue;
    for (int k = 0; k < 2; k++) ARENA_PUSH(g.scratch, &g.readers[op->in[k]], i);
  }
  for (size_t i = 0; i < f->ops.n; i++)
    if (is_dot(&f->ops.items[i])) gather_columns(&g, i);
  for (size_t i = 0; i < f->ops.n; i++)
    if (is_dot(&f->ops.items[i])) gather_depth(&g, i);
  arena_free(g.scratch);
  return g.out;
}

/* ---- elementwise chains that gradients recompute */

enum { MOST_ROOTS = 3 };

/* The stored values from which a value can be computed elementwise. */
typedef struct Roots {
  int n; /* above MOST_ROOTS: it cannot */
  Val items[MOST_ROOTS];
} Roots;

typedef struct User {
  size_t op;
  int operand;
} User;

typedef struct UserList {
  User *items;
  size_t n, cap;
} UserList;

typedef struct ReadList {
  Val *items;
  size_t n, cap;
} ReadList;

typedef struct Again {
  const Func *f;
  KernelPart *parts;
  Arena *arena, *kept;
  UserList *users; /* by value */
  bool *again;     /* by value: readers recompute it, or it is never stored ... */
  Roots *roots;    /* ... but computed from these */
  ReadList *reads; /* by kernel */
} Again;

static size_t maker_of(const Again *x, Val v) { return (size_t)x->f->values.items[v].op; }

/* Follows views and values that their readers compute, up to a value in memory. */
static Val seen_through(const Again *x, Val v) {
  for (;;) {
    const Op *op = &x->f->ops.items[maker_of(x, v)];
    if (x->parts[maker_of(x, v)].kind != PART_FREE || op->nin != 1) return v;
    v = op->in[0];
  }
}

static bool is_stored(const Again *x, Val v) {
  const KernelPart *p = &x->parts[maker_of(x, v)];
  return p->kind != PART_ROWS || (p->stores >> (v - x->f->ops.items[maker_of(x, v)].out) & 1);
}

static void add_root(Roots *r, Val v) {
  for (int i = 0; i < r->n && i < MOST_ROOTS; i++)
    if (r->items[i] == v) return;
  if (r->n < MOST_ROOTS) r->items[r->n] = v;
  r->n += r->n <= MOST_ROOTS;
}

static bool chains(const Op *op) {
  return (op_is_elementwise(op->kind) && op->kind != OP_copy) || op->kind == OP_norm || op->kind == OP_broadcast;
}

/* True if little or nothing of the value is in memory. */
static bool is_picture(const Again *x, Val v) {
  const Op *op = &x->f->ops.items[maker_of(x, v)];
  return op->kind == OP_broadcast || op_is_constant(op->kind);
}

static Roots roots_of(const Again *x, const Op *op) {
  Roots r = {0};
  for (int k = 0; k < op->nin && op->kind != OP_broadcast; k++) {
    Val v = seen_through(x, op->in[k]);
    if (is_picture(x, v)) continue;
    const Roots *of = &x->roots[v];
    if (!x->again[v] && !is_stored(x, v)) return (Roots){.n = MOST_ROOTS + 1};
    if (!x->again[v]) add_root(&r, v);
    for (int i = 0; i < of->n && i < MOST_ROOTS; i++) add_root(&r, of->items[i]);
    if (of->n > MOST_ROOTS) r.n = MOST_ROOTS + 1;
  }
  return r;
}

static bool is_read(const ReadList *l, Val v) {
  for (size_t i = 0; i < l->n; i++)
    if (l->items[i] == v) return true;
  return false;
}

static int new_roots(const Again *x, const Roots *r, int kernel) {
  int n = 0;
  for (int i = 0; i < r->n; i++) n += !is_read(&x->reads[kernel], r->items[i]);
  return n;
}

/* True if the user may recompute the value: it then reads no more than the value itself. */
static bool computes_again(const Again *x, const Roots *r, User u) {
  const KernelPart *p = &x->parts[u.op];
  if (p->kind != PART_ROWS || r->n > MOST_ROOTS) return false;
  if (r->n == 0) return true;
  return phase_backward(x->f->ops.items[u.op].phase) && new_roots(x, r, p->kernel) <= 1;
}

/* The user reads the root, in the root's own type. */
static void read_as_root(Again *x, User u, Val root) {
  const Op *op = &x->f->ops.items[u.op];
  KernelPart *p = &x->parts[u.op];
  PartRead *as = ARENA_ARRAY(x->kept, PartRead, op->nin);
  if (p->as) memcpy(as, p->as, sizeof *as * (size_t)op->nin);
  as[u.operand].bytes = (int)dtype_bytes(type_of(x->f, root)->dtype);
  p->as = as;
}

static void compute_again(Again *x, const Roots *r, User u) {
  KernelPart *p = &x->parts[u.op];
  ReadList *reads = &x->reads[p->kernel];
  if (!new_roots(x, r, p->kernel)) p->reads &= ~((uint64_t)1 << u.operand);
  for (int i = 0; i < r->n; i++)
    if (!is_read(reads, r->items[i])) {
      ARENA_PUSH(x->arena, reads, r->items[i]);
      if (p->reads >> u.operand & 1) read_as_root(x, u, r->items[i]);
    }
}

/* A value that only gradients read outside its kernel is not stored if all of them can recompute it.  If other
 * operations read it too, only the gradients that already read all its roots recompute it. */
static void find_again(Again *x, size_t i) {
  const Op *op = &x->f->ops.items[i];
  KernelPart *own = &x->parts[i];
  if (own->kind != PART_ROWS || !chains(op) || op->nout != 1) return;
  Roots r = roots_of(x, op);
  const UserList *users = &x->users[op->out];
  if (!own->stores) {
    x->roots[op->out] = r, x->again[op->out] = true;
    return;
  }
  bool all = users->n > 0;
  for (size_t k = 0; k < users->n; k++) {
    User u = users->items[k];
    bool inside = x->parts[u.op].kind == PART_ROWS && x->parts[u.op].kernel == own->kernel;
    all &= inside || computes_again(x, &r, u);
  }
  for (size_t k = 0; k < users->n; k++) {
    User u = users->items[k];
    if (x->parts[u.op].kind == PART_ROWS && x->parts[u.op].kernel == own->kernel) continue;
    bool may = computes_again(x, &r, u);
    if (may && (all || !new_roots(x, &r, x->parts[u.op].kernel))) compute_again(x, &r, u);
  }
  if (all) own->stores = 0, x->roots[op->out] = r, x->again[op->out] = true;
}

static void find_users(Again *x) {
  for (size_t i = 0; i < x->f->ops.n; i++) {
    const Op *op = &x->f->ops.items[i];
    const KernelPart *p = &x->parts[i];
    if (p->kind == PART_FREE) continue;
    for (int k = 0; k < op->nin; k++) {
      Val v = seen_through(x, op->in[k]);
      ARENA_PUSH(x->arena, &x->users[v], ((User){i, k}));
      if (p->kind == PART_ROWS && p->reads >> k & 1) ARENA_PUSH(x->arena, &x->reads[p->kernel], v);
    }
  }
  for (size_t i = 0; i < x->f->outputs.n; i++) {
    Val v = seen_through(x, x->f->outputs.items[i].value);
    ARENA_PUSH(x->arena, &x->users[v], ((User){x->f->ops.n, 0}));
  }
}

/* ---- gradients that a product gives in f32, and elements that are looked up */

static void find_small(Again *x) {
  for (size_t i = 0; i < x->f->ops.n; i++) {
    const Op *op = &x->f->ops.items[i];
    if (op->kind == OP_take && x->parts[i].kind == PART_ROWS) x->parts[i].reads &= ~UINT64_C(1);
    if (op->kind != OP_accumulate) continue;
    size_t at = maker_of(x, op->in[0]);
    const Op *cast = &x->f->ops.items[at];
    bool widens = cast->kind == OP_cast && op_of(x->f, cast->in[0])->kind == OP_dot;
    if (widens && x->users[cast->out].n <= 1) x->parts[at] = (KernelPart){.kind = PART_FREE, .kernel = -1};
  }
}

void cost_assume_parts(Arena *a, const Func *f, KernelPart *parts) {
  Arena *scratch = arena_new();
  int kernels = 0;
  parts[f->ops.n] = (KernelPart){.kernel = -1}; /* outputs of the function count as reads */
  for (size_t i = 0; i < f->ops.n; i++) kernels = parts[i].kernel >= kernels ? parts[i].kernel + 1 : kernels;
  Again x = {.f = f,
             .parts = parts,
             .arena = scratch,
             .kept = a,
             .users = ARENA_ARRAY(scratch, UserList, f->values.n + 1),
             .again = ARENA_ARRAY(scratch, bool, f->values.n + 1),
             .roots = ARENA_ARRAY(scratch, Roots, f->values.n + 1),
             .reads = ARENA_ARRAY(scratch, ReadList, kernels + 1)};
  find_users(&x);
  for (size_t i = 0; i < f->ops.n; i++) find_again(&x, i);
  find_small(&x);
  arena_free(scratch);
}
