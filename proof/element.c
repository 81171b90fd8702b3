/* proof/element.c - matching the values of two forms of a function; see element.h. */
#include "proof/element.h"

#include <stdlib.h>
#include <string.h>

#include "proof/element_internal.h"
#include "ir/index_bound.h"
#include "ir/loops.h"

enum { MAX_ROUNDS = 24, MAX_ORDERS = 48 };
/* Limits of steps: for one comparison, and per operation for all comparisons.  Correct passes over the examples need at
 * most 2,000 for one. */
static const long most_steps = 30000, most_steps_each = 2000, most_together = 1500000;

typedef struct Matching {
  Elements e;
  Scope *x, *y; /* before and after the pass */
  Loops loops_x, loops_y;
  long left, given;        /* steps left for all comparisons, and the steps given to the last one */
  uint8_t *sides;          /* by value of x: the polynomial before (1) or after (2) uses it */
  uint32_t *stamps, stamp; /* by atom: stamp of its last visit */
  size_t nstamps;
  const char *why;
} Matching;

static bool fail(Matching *t, const char *format, const char *name) {
  t->why = arena_printf(t->e.arena, format, name);
  return false;
}

/* ---- one pair of values */

static void start(Matching *t) {
  Elements *e = &t->e;
  t->left -= t->given - e->a->steps;
  e->memo.n = 0;
  if (e->memo.cap)
    memset(e->memo.keys, 0, sizeof *e->memo.keys * e->memo.cap),
        memset(e->memo.polys, 0, sizeof *e->memo.polys * e->memo.cap);
  e->a->provisional = 0;
  e->a->failed = false;
  t->given = e->a->steps = t->left < most_steps ? t->left : most_steps;
  e->a->m->expr_fault = NULL;
}

static void free_indices(Elements *e, const Type *t, const Expr **index) {
  for (int d = 0; d < t->rank; d++)
    index[d] = element_index_named(e->a, arena_printf(e->arena, "i%d", d), element_expr(e, t->dims[d]));
}

typedef const Poly *Element(Elements *e, const Scope *s, Val v, const Expr *const *index);

/* Computes the polynomial of an element; NULL if it is too large. */
static const Poly *made(Matching *t, Element *element, const Scope *s, Val v, const Expr *const *index,
                        bool past_guards) {
  Elements *e = &t->e;
  e->past_guards = past_guards;
  start(t);
  const Poly *p = element(e, s, v, index);
  return e->a->failed || e->a->m->expr_fault ? NULL : p;
}

/* Marks the known values that the polynomial uses. */
static void note_values(Matching *t, const Poly *p, uint8_t side) {
  const Algebra *a = t->e.a;
  for (int i = 0; i < p->n; i++)
    for (int k = 0; k < p->items[i].n; k++) {
      Atom atom = p->items[i].powers[k].atom;
      const AtomInfo *info = &a->atoms.items[atom];
      if (t->stamps[atom] == t->stamp) continue;
      t->stamps[atom] = t->stamp;
      if (strncmp(info->kind, VALUE_ATOM, strlen(VALUE_ATOM)) == 0)
        t->sides[strtoul(info->kind + strlen(VALUE_ATOM), NULL, 10)] |= side;
      for (int x = 0; x < info->npolys; x++) note_values(t, info->polys[x], side);
    }
}

static void note_side(Matching *t, const Poly *p, uint8_t side) {
  if (t->e.a->atoms.n > t->nstamps) {
    t->nstamps = 2 * t->e.a->atoms.n;
    t->stamps = ARENA_ARRAY(t->e.arena, uint32_t, t->nstamps);
  }
  t->stamp++;
  note_values(t, p, side);
}

/* Returns the latest known value that only one of the two polynomials uses; 0 if none. */
static uint32_t latest_difference(Matching *t, const Poly *p, const Poly *q) {
  const Func *f = t->x->f;
  uint32_t latest = 0;
  memset(t->sides, 0, f->values.n);
  note_side(t, p, 1);
  note_side(t, q, 2);
  for (uint32_t v = 1; v < f->values.n; v++) {
    bool one = t->sides[v] == 1 || t->sides[v] == 2;
    if (one && !op_is_loop_part(op_of(f, v)->kind) && (!latest || f->values.items[v].op > f->values.items[latest].op))
      latest = v;
  }
  return latest;
}

/* True if element `other` of u equals element `index` of v.  Known values that only one side uses are expanded, the
 * latest first, until both sides use the same ones. */
static bool equal_elements(Matching *t, Element *element, Val u, const Expr *const *other, Val v,
                           const Expr *const *index, int rounds) {
  Elements *e = &t->e;
  uint32_t latest = 1;
  bool equal = false;
  memset(e->opened, 0, t->x->f->values.n);
  for (int round = 0; round < rounds && latest && !equal; round++) {
    e->guarded = false;
    const Poly *p = made(t, element, t->x, u, other, false), *q = p ? made(t, element, t->y, v, index, false) : NULL;
    equal = p && q && poly_equal(p, q);
    if (p && !equal && e->guarded) {
      q = made(t, element, t->y, v, index, true);
      const Poly *r = q && !poly_equal(p, q) ? made(t, element, t->x, u, other, true) : p;
      equal = q && r && poly_equal(r, q);
    }
    latest = p && q && !equal ? latest_difference(t, p, q) : 0;
    e->opened[latest] = true;
  }
  return equal;
}

/* True if element `index` of v equals element index[perm] of u, both expanded by their operations. */
static bool same_element(Matching *t, Val u, Val v, const Expr *const *index, const int *perm, int rounds) {
  const Expr *other[MAX_RANK];
  for (int d = 0; d < type_of(t->y->f, v)->rank; d++) other[d] = index[perm[d]];
  return equal_elements(t, element_by_op, u, other, v, index, rounds);
}

static bool fits(const Type *tu, const Type *tv, const int *perm) {
  for (int d = 0; d < tu->rank; d++)
    if (tu->dims[d] != tv->dims[perm[d]]) return false;
  return true;
}

/* Next permutation in lexicographic order. */
static bool next_perm(int n, int *perm) {
  int i = n - 2;
  while (i >= 0 && perm[i] > perm[i + 1]) i--;
  if (i < 0) return false;
  int k = n - 1;
  while (perm[k] < perm[i]) k--;
  int s = perm[i];
  perm[i] = perm[k], perm[k] = s;
  for (int x = i + 1, y = n - 1; x < y; x++, y--) s = perm[x], perm[x] = perm[y], perm[y] = s;
  return true;
}

/* Matches two values in every order of dimensions: dimension d of u is dimension perm[d] of v. */
static bool match_in_orders(Matching *t, Val u, Val v, int rounds) {
  const Type *tu = type_of(t->x->f, u), *tv = type_of(t->y->f, v);
  const Expr *index[MAX_RANK];
  int perm[MAX_RANK], tries = 0;
  free_indices(&t->e, tv, index);
  for (int d = 0; d < tu->rank; d++) perm[d] = d;
  do {
    if (!fits(tu, tv, perm) || !same_element(t, u, v, index, perm, rounds)) continue;
    t->x->known[u].number = t->y->known[v].number = u;
    for (int d = 0; d < tu->rank; d++) t->x->known[u].perm[d] = d, t->y->known[v].perm[d] = perm[d];
    return true;
  } while (++tries < MAX_ORDERS && next_perm(tu->rank, perm));
  return false;
}

/* Matches two values, first without expanding known values. */
static bool match_values(Matching *t, Val u, Val v) {
  const Type *tu = type_of(t->x->f, u), *tv = type_of(t->y->f, v);
  if (tu->dtype != tv->dtype || tu->rank != tv->rank) return false;
  return match_in_orders(t, u, v, 1) || match_in_orders(t, u, v, MAX_ROUNDS);
}

/* ---- loops */

static const Op *op_named(const Func *f, OpKind kind, const char *name) {
  Val v = func_find(f, name);
  return v && op_of(f, v)->kind == kind ? op_of(f, v) : NULL;
}

static void know(Matching *t, Val u, Val v) {
  t->x->known[u].number = t->y->known[v].number = u;
  for (int d = 0; d < MAX_RANK; d++) t->x->known[u].perm[d] = t->y->known[v].perm[d] = d;
}

/* True if the values are equal at equal indices, given the known values. */
static bool equal_values(Matching *t, Val u, Val v) {
  const Type *tu = type_of(t->x->f, u);
  const Expr *index[MAX_RANK];
  if (tu != type_of(t->y->f, v)) return false;
  free_indices(&t->e, tu, index);
  return equal_elements(t, element_of, u, index, v, index, MAX_ROUNDS);
}

/* Matches the start of a loop: the loop of the same name has the same number of rounds, and its carries have equal
 * initial values.  The carries are then assumed equal until the repeat. */
static bool enter_loop(Matching *t, size_t i) {
  const Op *begin = &t->y->f->ops.items[i], *other = op_named(t->x->f, OP_loop, begin->name);
  if (!other || op_expr(begin, AT_trips) != op_expr(other, AT_trips) || !equal_values(t, other->in[0], begin->in[0]))
    return fail(t, "loop %s", begin->name);
  know(t, other->out, begin->out);
  const Loop *l = &t->loops_y.items[t->loops_y.of[i]];
  for (int k = 0; k < l->ncarries; k++) {
    const Op *carry = begin + 1 + k, *was = op_named(t->x->f, OP_carry, carry->name);
    int loop = was ? t->loops_x.of[was - t->x->f->ops.items] : -1;
    if (!was || t->loops_x.items[loop].begin != (size_t)(other - t->x->f->ops.items) ||
        !equal_values(t, was->in[0], carry->in[0]))
      return fail(t, "the first value of carry %s", carry->name);
    know(t, was->out, carry->out);
  }
  return true;
}

/* Closes the induction: if the carries are equal at the start of a round, their next values must be equal too. */
static bool close_loop(Matching *t, size_t i) {
  const Op *ops = t->y->f->ops.items, *repeat = &ops[i];
  const Loop *l = &t->loops_y.items[t->loops_y.of[i]];
  const Op *other = op_named(t->x->f, OP_loop, ops[l->begin].name);
  const Loop *m = &t->loops_x.items[t->loops_x.of[other - t->x->f->ops.items]];
  const Op *again = &t->x->f->ops.items[m->repeat];
  if (again->nin != repeat->nin || (repeat->nin > 1 && !equal_values(t, again->in[1], repeat->in[1])))
    return fail(t, "the condition of loop %s", ops[l->begin].name);
  for (int k = 0; k < l->ncarries; k++) {
    const Op *carry = &ops[l->begin + 1 + (size_t)k], *leave = &ops[l->repeat + 1 + (size_t)k];
    size_t place = (size_t)(op_named(t->x->f, OP_carry, carry->name) - t->x->f->ops.items) - m->begin;
    const Op *was = &t->x->f->ops.items[m->repeat + place];
    if (!equal_values(t, was->in[1], leave->in[1])) return fail(t, "the next value of carry %s", carry->name);
    know(t, was->out, leave->out);
  }
  return true;
}

/* A computed size must be set to the same value. */
static bool same_bind(Matching *t, const Op *bind) {
  const Func *f = t->x->f;
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == OP_bind && op_expr(&f->ops.items[i], AT_expr) == op_expr(bind, AT_expr))
      return equal_values(t, f->ops.items[i].in[0], bind->in[0]) || fail(t, "the size %s", bind->name);
  return fail(t, "the size %s", bind->name);
}

/* ---- the function */

static bool *live_values(Arena *a, const Func *f) {
  bool *live = ARENA_ARRAY(a, bool, f->values.n);
  for (size_t i = 0; i < f->outputs.n; i++) live[f->outputs.items[i].value] = true;
  for (int round = 0; round < 2; round++) /* loop parts are always live, even if their users come earlier */
    for (size_t i = f->ops.n; i-- > 0;) {
      const Op *op = &f->ops.items[i];
      bool needed = !op->out || op_is_loop_part(op->kind) || op->kind == OP_bind;
      for (Val v = op->out; v < op_end(op); v++) needed |= live[v];
      if (!needed) continue;
      for (int k = 0; k < op->nin; k++) live[op->in[k]] = true;
    }
  return live;
}

static bool *ops_of_sizes(Arena *a, const Func *f) {
  bool *out = ARENA_ARRAY(a, bool, f->ops.n);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    DType t = op->out ? type_of(f, op->out)->dtype : DT_f32;
    out[i] = op_is_constant(op->kind) || (op->nin && !op_is_loop_part(op->kind) && !op_is_call(op->kind));
    out[i] = out[i] && (t == DT_i64 || t == DT_i32 || t == DT_bool);
    for (int k = 0; k < op->nin; k++) out[i] = out[i] && out[f->values.items[op->in[k]].op];
  }
  return out;
}

static bool match_op(Matching *t, size_t i, const bool *live) {
  const Op *op = &t->y->f->ops.items[i];
  if (op->kind == OP_loop) return enter_loop(t, i);
  if (op->kind == OP_repeat) return close_loop(t, i);
  if (op->kind == OP_bind && !same_bind(t, op)) return false;
  if (op_is_loop_part(op->kind)) return true;
  for (Val v = op->out; v < op_end(op); v++) {
    Val u = live[v] ? func_find(t->x->f, name_of(t->y->f, v)) : 0;
    if (u && !op_is_loop_part(op_of(t->x->f, u)->kind)) match_values(t, u, v);
  }
  return true;
}

static const Op *written(const Func *f, const char *state) {
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == OP_write && strcmp(op_str(&f->ops.items[i], AT_name), state) == 0)
      return &f->ops.items[i];
  return NULL;
}

static size_t count_of(const Func *f, OpKind kind) {
  size_t n = 0;
  for (size_t i = 0; i < f->ops.n; i++) n += f->ops.items[i].kind == kind;
  return n;
}

static bool same_results(Matching *t) {
  const Func *f = t->x->f, *g = t->y->f;
  if (f->outputs.n != g->outputs.n || count_of(f, OP_write) != count_of(g, OP_write) ||
      count_of(f, OP_input) != count_of(g, OP_input))
    return fail(t, "different inputs, outputs or states%s", "");
  for (size_t i = 0; i < f->outputs.n; i++) {
    const Output *x = &f->outputs.items[i], *y = &g->outputs.items[i];
    if (strcmp(x->name, y->name) != 0 || !equal_values(t, x->value, y->value)) return fail(t, "output %s", x->name);
  }
  for (size_t i = 0; i < g->ops.n; i++) {
    const Op *y = &g->ops.items[i], *x = y->kind == OP_write ? written(f, op_str(y, AT_name)) : NULL;
    if (y->kind == OP_write && (!x || !equal_values(t, x->in[0], y->in[0])))
      return fail(t, "state %s", op_str(y, AT_name));
  }
  return true;
}

static bool has_condition(Module *m, const Func *f, const SizeCondition *c) {
  SizeCondition own[2];
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    for (int d = 0; op->kind == OP_slice && d < type_of(f, op->out)->rank; d++)
      for (int k = slice_conditions(m, f, op, d, own); k-- > 0;)
        if (own[k].value == c->value && own[k].most == c->most) return true;
  }
  return false;
}

/* A slice that does not lie in its operand for all sizes fails even if unused, so the form before must fail as well.
 */
static bool same_conditions(Matching *t) {
  const Func *g = t->y->f;
  SizeCondition c[2];
  for (size_t i = 0; i < g->ops.n; i++) {
    const Op *op = &g->ops.items[i];
    for (int d = 0; op->kind == OP_slice && d < type_of(g, op->out)->rank; d++)
      for (int k = slice_conditions(t->e.m, g, op, d, c); k-- > 0;)
        if (!has_condition(t->e.m, t->x->f, &c[k])) return fail(t, "the bounds of slice %s", op->name);
  }
  return true;
}

bool element_equal(Module *m, const FuncList *before, const FuncList *after, const char *name, Arena *arena,
                   const char **why) {
  const Func *f = funcs_find(before, name), *g = funcs_find(after, name);
  Arena *scratch = arena_new();
  long n = most_steps_each * (long)g->ops.n;
  Matching t = {.left = most_steps + (n < most_together ? n : most_together),
                .given = most_steps,
                .e = {.m = m, .a = algebra_new(scratch, most_steps), .arena = scratch}};
  t.x = scope_new(&t.e, BEFORE, f, before), t.y = scope_new(&t.e, AFTER, g, after);
  t.x->known = ARENA_ARRAY(scratch, Known, f->values.n), t.y->known = ARENA_ARRAY(scratch, Known, g->values.n);
  t.x->of_sizes = ops_of_sizes(scratch, f), t.y->of_sizes = ops_of_sizes(scratch, g);
  t.e.opened = ARENA_ARRAY(scratch, bool, f->values.n), t.sides = ARENA_ARRAY(scratch, uint8_t, f->values.n);
  t.loops_x = loops_of(scratch, f), t.loops_y = loops_of(scratch, g);
  const bool *live = live_values(scratch, g);
  bool ok = true;
  for (size_t i = 0; i < g->ops.n && ok; i++) ok = match_op(&t, i, live);
  ok = ok && same_results(&t) && same_conditions(&t);
  if (!ok) *why = arena_strdup(arena, t.why);
  algebra_free(t.e.a);
  arena_free(scratch);
  return ok;
}
