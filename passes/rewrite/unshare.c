/* passes/rewrite/unshare.c - gives each user of a small weight its own read (D52).
 *
 * In: flat level-1 functions.  Out: the same; every user of a weight of at most MAX_ELEMENTS has a read of its own,
 * "WEIGHT.for.USER".  Exporters join equal constants: one row of zeros is then the bias of every layer, and would tie
 * the layouts of all layers to each other and hide the blocks from passes/facts/blocks.c.  Each read may have its own
 * layout.  Reads with equal layouts share one copy in memory (passes/facts/same_weight.h), so every plan of the shared
 * weight remains possible; others cost at most MAX_ELEMENTS more for each layout, which prices count.  Not supported:
 * @prepare, which has no choice of layouts; large weights; and computed values: each user would compute them again
 * (D53).
 */
#include <string.h>

#include "passes/rewrite/passes.h"
#include "passes/rewrite/rewrite.h"

enum { MAX_ELEMENTS = 64 * 1024 };

typedef struct UserList {
  size_t *items; /* ascending */
  size_t n, cap;
} UserList;

typedef struct Unshare {
  Rewrite r;
  const Func *f;
  const UserList *users; /* by value */
  Val **own;             /* by value and user: the read; NULL: not unshared */
} Unshare;

static bool is_small_weight(const Func *f, const Op *op) {
  int64_t dims[MAX_RANK], n = 1;
  if (op->kind != OP_param || !type_constant_dims(type_of(f, op->out), dims)) return false;
  for (int d = 0; d < type_of(f, op->out)->rank && n <= MAX_ELEMENTS; d++) n *= dims[d];
  return n <= MAX_ELEMENTS;
}

/* Returns the users of small weights; NULL if no small weight has several. */
static const UserList *users_of_shared(Arena *a, const Func *f) {
  UserList *users = ARENA_ARRAY(a, UserList, f->values.n);
  bool shared = false;
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; k < f->ops.items[i].nin; k++) {
      Val v = f->ops.items[i].in[k];
      UserList *u = &users[v];
      if (is_small_weight(f, op_of(f, v)) && (!u->n || u->items[u->n - 1] != i)) ARENA_PUSH(a, u, i);
      shared |= u->n > 1;
    }
  return shared ? users : NULL;
}

/* Places all reads where the shared one was.  An output of the function reads the first. */
static bool read_anew(Unshare *w, const Op *op) {
  const UserList *users = &w->users[op->out];
  w->own[op->out] = ARENA_ARRAY(w->r.m->arena, Val, users->n);
  for (size_t k = 0; k < users->n; k++) {
    OpSpec spec = op_spec_of(w->f, op);
    spec.name = arena_printf(w->r.m->arena, "%s.for.%s", op->name, w->f->ops.items[users->items[k]].name);
    spec.group = op->group == op->name ? NULL : op->group;
    if (!(w->own[op->out][k] = build_op(&w->r.b, &spec))) return false;
  }
  w->r.map[op->out] = w->own[op->out][0];
  return true;
}

static Val read_by(const Unshare *w, Val v, size_t user) {
  size_t k = 0;
  while (w->users[v].items[k] != user) k++;
  return w->own[v][k];
}

static bool copy_user(Unshare *w, size_t i) {
  const Op *op = &w->f->ops.items[i];
  for (int k = 0; k < op->nin; k++)
    if (w->own[op->in[k]]) w->r.map[op->in[k]] = read_by(w, op->in[k], i);
  return rewrite_copy(&w->r, op) || !op->out;
}

static bool unshare_in(Arena *scratch, Module *m, const Func *f, const UserList *users, Diags *diags) {
  Unshare w = {
      .r = rewrite_start(m, f, diags), .f = f, .users = users, .own = ARENA_ARRAY(scratch, Val *, f->values.n)};
  bool ok = true;
  for (size_t i = 0; i < f->ops.n && ok; i++) {
    const Op *op = &f->ops.items[i];
    ok = is_small_weight(f, op) && w.users[op->out].n > 1 ? read_anew(&w, op) : copy_user(&w, i);
  }
  if (ok) rewrite_finish(&w.r);
  return ok;
}

static bool unshare(Module *m, const Func *f, Diags *diags) {
  Arena *scratch = arena_new();
  const UserList *users = users_of_shared(scratch, f);
  bool ok = !users || unshare_in(scratch, m, f, users, diags);
  arena_free(scratch);
  return ok;
}

bool pass_unshare(Module *m, Diags *diags) {
  for (size_t k = 0; k < m->funcs.n; k++)
    if (m->funcs.items[k]->level == 1 && strcmp(m->funcs.items[k]->name, "prepare") != 0 &&
        !unshare(m, m->funcs.items[k], diags))
      return false;
  return true;
}
