/* passes/rewrite/within.c - checks computed indices before they are used.
 *
 * In: level-1 functions in which the model's own gathers and takes are marked (`checked`).  Out: the same without
 * marks; an index that may lie outside its table passes a `within`, whose kernel reports the first such index.  No
 * check is needed if inputs and sizes are checked before a program runs, or no index can lie outside (index_places,
 * ir/index_bound.h).  Operations that only move indices (broadcasts, reshapes, the idiom for negative indices) come
 * after the `within`, so that few indices are checked and the moves fuse with the user; but the check does not move out
 * of a loop, whose body may not run.
 */
#include "ir/index_bound.h"
#include "ir/loops.h"
#include "passes/rewrite/passes.h"
#include "passes/rewrite/rewrite.h"

typedef struct Look { /* the check of a value */
  const Expr *below;  /* NULL: no check is needed */
  bool negative;
  const Op *user; /* the gather that needs it */
} Look;

typedef struct Looks {
  Rewrite r;
  const Func *f;
  Loops loops;
  Look *behind; /* by value: checked right after it is made; all users get the checked value */
  Look *before; /* by operation: checked right before it; only this user gets the checked value */
} Looks;

static bool is_marked(const Op *op) { return op_int(op, AT_checked, 0) != 0; }

/* True if value and operation are in the same loop body, and a check may come after the value. */
static bool is_made_beside(const Looks *l, Val v, size_t i) {
  size_t at = (size_t)l->f->values.items[v].op;
  return l->loops.of[at] == l->loops.of[i] && !op_is_loop_part(l->f->ops.items[at].kind);
}

/* True for moved indices; a cast that may change an index is not a move: its result is checked. */
static bool is_moved(const Looks *l, const Op *op) {
  if (!index_is_moved(l->f, op)) return false;
  DType from = type_of(l->f, op->in[0])->dtype;
  return op->kind != OP_cast ||
         (dtype_class(from) == DTC_I && dtype_bytes(from) <= dtype_bytes(type_of(l->f, op->out)->dtype));
}

/* Returns the source of the operation's indices; *negative is set if some may count from the end. */
static Val index_source(const Looks *l, size_t i, const Expr *below, bool *negative) {
  Val v = l->f->ops.items[i].in[1], last = v;
  while (v && is_made_beside(l, v, i)) {
    const Op *op = op_of(l->f, v);
    last = v;
    Val raw = *negative ? 0 : index_unwrapped(l->r.m, l->f, op, below);
    *negative = *negative || raw;
    v = raw ? raw : is_moved(l, op) ? op->in[0] : 0;
  }
  return last;
}

static void plan_look(Looks *l, size_t i) {
  const Op *op = &l->f->ops.items[i];
  const Expr *below = type_of(l->f, op->in[0])->dims[op_int(op, AT_axis, 0)];
  bool negative = false;
  Val v = index_source(l, i, below, &negative);
  Look *look = &l->behind[v];
  bool there = look->below == below && look->negative == negative;
  if (is_made_beside(l, v, i) && (!look->below || there)) *look = there ? *look : (Look){below, negative, op};
  else l->before[i] = (Look){below, false, op};
}

static Val build_look(Looks *l, const Look *look, Val v) {
  Builder *b = &l->r.b;
  const char *prefix = b->prefix;
  Loc loc = b->loc;
  b->prefix = arena_printf(l->r.m->arena, "%s.", look->user->name), b->loc = look->user->loc;
  Val checked = build_within(b, v, look->below, look->negative);
  b->prefix = prefix, b->loc = loc;
  return checked;
}

/* Copies the gather without its mark. */
static bool copy_marked(Looks *l, size_t i) {
  const Op *op = &l->f->ops.items[i];
  OpSpec spec = op_spec_of(l->f, op);
  Attr attrs[AT_COUNT];
  Val in[2] = {l->r.map[op->in[0]], l->r.map[op->in[1]]};
  spec.nattrs = 0, spec.attrs = attrs, spec.in = in;
  for (int k = 0; k < op->nattrs; k++)
    if (op->attrs[k].key != AT_checked) attrs[spec.nattrs++] = op->attrs[k];
  if (l->before[i].below && !(in[1] = build_look(l, &l->before[i], in[1]))) return false;
  return rewrite_build(&l->r, op, &spec) != 0;
}

static bool copy_op(Looks *l, size_t i, bool goes) {
  const Op *op = &l->f->ops.items[i];
  if (goes) l->r.map[op->out] = l->r.map[op->in[0]];
  else if (is_marked(op) ? !copy_marked(l, i) : !rewrite_copy(&l->r, op) && op->out) return false;
  for (Val v = op->out; v && v < op_end(op); v++)
    if (l->behind[v].below && !(l->r.map[v] = build_look(l, &l->behind[v], l->r.map[v]))) return false;
  return true;
}

static bool look_at_indices(Module *m, const Func *f, Diags *diags) {
  Arena *scratch = arena_new();
  const IndexPlace *places = index_places(m, f);
  Looks l = {.r = rewrite_start(m, f, diags),
             .f = f,
             .loops = loops_of(scratch, f),
             .behind = ARENA_ARRAY(scratch, Look, f->values.n),
             .before = ARENA_ARRAY(scratch, Look, f->ops.n + 1)};
  bool any = false, ok = true;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    any = any || is_marked(op) || op->kind == OP_within;
    if (is_marked(op) && places[i] == INDEX_ANYWHERE) plan_look(&l, i);
  }
  for (size_t i = 0; i < f->ops.n && any && ok; i++) {
    bool looks = f->ops.items[i].kind == OP_within;
    ok = copy_op(&l, i, looks && places[i] == INDEX_INSIDE);
  }
  if (any && ok) rewrite_finish(&l.r);
  arena_free(scratch);
  return ok;
}

bool pass_within(Module *m, Diags *diags) {
  for (size_t k = 0; k < m->funcs.n; k++)
    if (m->funcs.items[k]->level == 1 && !look_at_indices(m, m->funcs.items[k], diags)) return false;
  return true;
}
