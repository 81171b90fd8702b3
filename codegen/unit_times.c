/* codegen/unit_times.c - see unit_times.h.
 *
 * In: the time of each operation of level 2, as its price counts it.  Out: the same seconds, divided among the units
 * that do the work; their sum stays the same, except for operations that no unit performs.
 *
 * An operation that the library, the engine or a template performs counts for those of its units, by the bytes that
 * they touch, since an operation may be several (a split attention).  Row kernels that prepare temporaries for it, as
 * transposes and casts do, count with their launch and their bytes.  Any other operation counts for the unit that makes
 * its result.  If none does, since the result is never stored, it counts for the first unit that uses the result: the
 * kernel that contains it, or the product that it joined.
 */
#include "codegen/unit_times.h"

#include "codegen/rows/row_work.h"

typedef struct Times {
  Module *m;
  const Func *l2;
  UnitList *units;
  int *first, *next;   /* by operation its first unit, by unit the next one of the same operation; -1: none */
  int *made_by;        /* by value: the unit that stores it; -1 if none */
  int *used_by;        /* by value: the unit of its first user; -1 if none */
  double launch, byte; /* seconds */
} Times;

static double bytes_of(const Times *x, Val v) {
  const Type *t = units_type(x->units, x->l2, v);
  double n = (double)dtype_bytes(t->dtype);
  for (int d = 0; d < t->rank; d++) n *= (double)work_expected(x->m, t->dims[d]);
  return n;
}

static double unit_bytes(const Times *x, const Unit *u) {
  double n = 0;
  for (int i = 0; i < u->nin; i++) n += bytes_of(x, u->in[i]);
  for (int i = 0; i < u->nout; i++) n += bytes_of(x, u->out[i]);
  return n;
}

/* True for a unit that performs its operation by more than a row program. */
static bool is_whole(const Unit *u) {
  return u->kind == UNIT_GEMM || u->kind == UNIT_COMM || u->kind == UNIT_WRITE || (u->kind == UNIT_KERNEL && !u->row);
}

/* True for a row kernel that makes only temporaries. */
static bool prepares(const Times *x, const Unit *u) {
  if (u->kind != UNIT_KERNEL || !u->row) return false;
  for (int i = 0; i < u->nout; i++)
    if (u->out[i] < x->l2->values.n) return false;
  return true;
}

static void find_units(Times *x) {
  const size_t nops = x->l2->ops.n, nvalues = x->l2->values.n;
  x->first = ARENA_ARRAY(x->m->arena, int, nops + 1), x->next = ARENA_ARRAY(x->m->arena, int, x->units->n + 1);
  x->made_by = ARENA_ARRAY(x->m->arena, int, nvalues + 1), x->used_by = ARENA_ARRAY(x->m->arena, int, nvalues + 1);
  for (size_t i = 0; i < nops; i++) x->first[i] = -1;
  for (size_t v = 0; v <= nvalues; v++) x->made_by[v] = x->used_by[v] = -1;
  for (int i = (int)x->units->n - 1; i >= 0; i--) {
    const Unit *u = &x->units->items[i];
    x->next[i] = x->first[u->op], x->first[u->op] = i;
    for (int k = 0; k < u->nout && u->kind != UNIT_SOURCE && u->kind != UNIT_VIEW && u->kind != UNIT_BIND; k++)
      if (u->out[k] < nvalues) x->made_by[u->out[k]] = i;
  }
}

/* Divides the seconds of an operation among its units; false if no unit is for it as a whole. */
static bool divide(const Times *x, size_t op, double seconds) {
  double beside = 0, bytes = 0;
  int n = 0;
  for (int i = x->first[op]; i >= 0; i = x->next[i]) {
    const Unit *u = &x->units->items[i];
    if (prepares(x, u)) beside += x->launch + x->byte * unit_bytes(x, u);
    else if (is_whole(u)) bytes += unit_bytes(x, u), n++;
  }
  if (!n) return false;
  const double scale = beside > seconds ? seconds / beside : 1, rest = seconds - scale * beside;
  for (int i = x->first[op]; i >= 0; i = x->next[i]) {
    Unit *u = &x->units->items[i];
    if (prepares(x, u)) u->seconds += scale * (x->launch + x->byte * unit_bytes(x, u));
    else if (is_whole(u)) u->seconds += bytes > 0 ? rest * unit_bytes(x, u) / bytes : rest / n;
  }
  return true;
}

/* Returns the unit that contains an operation; -1 if none. */
static int unit_of(const Times *x, size_t op) {
  const Op *o = &x->l2->ops.items[op];
  for (int i = x->first[op]; i >= 0; i = x->next[i])
    if (is_whole(&x->units->items[i])) return i;
  for (int i = 0; i < o->nout; i++)
    if (x->made_by[o->out + (Val)i] >= 0) return x->made_by[o->out + (Val)i];
  for (int i = 0; i < o->nout; i++)
    if (x->used_by[o->out + (Val)i] >= 0) return x->used_by[o->out + (Val)i];
  return -1;
}

/* The price of a transfer is that of its receiver. */
static int stage_of(const Op *o) { return o->kind == OP_transfer ? (int)op_int(o, AT_to_stage, 0) : o->stage; }

void emit_unit_times(Module *m, const LegalBody *body, const ProgramTimes *times) {
  const Func *l2 = body->entry->l2;
  Times x = {.m = m, .l2 = l2, .units = body->units, .launch = times->launch};
  x.byte = times->bandwidth > 0 ? 1 / times->bandwidth : 0;
  find_units(&x);
  for (size_t i = l2->ops.n; i-- > 0;) {
    const Op *o = &l2->ops.items[i];
    if (o->stage != body->stage && stage_of(o) != body->stage) continue;
    const int unit = unit_of(&x, i);
    const double seconds = stage_of(o) == body->stage ? times->ops[i] : 0;
    for (int k = 0; k < o->nin && unit >= 0; k++) x.used_by[o->in[k]] = unit;
    if (seconds > 0 && !divide(&x, i, seconds) && unit >= 0) body->units->items[unit].seconds += seconds;
  }
}
