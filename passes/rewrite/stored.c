/* passes/rewrite/stored.c - see stored.h.
 *
 * In: level-1 functions as a front end made them.  Out: the same, in which each read of a weight whose stored type
 * differs is a read of that type and a cast.  passes/rewrite/prepare.c moves the casts to loading.
 */
#include "passes/rewrite/stored.h"

#include "passes/rewrite/rewrite.h"

/* Returns the weight's number, or -1 if the operation reads no weight whose type changes. */
static long changed(const Module *m, const Op *op, const DType *stored) {
  if (op->kind != OP_param) return -1;
  const Param *p = module_param((Module *)(uintptr_t)m, op_str(op, AT_name));
  long number = (long)(p - m->params.items);
  return stored[number] == p->type->dtype ? -1 : number;
}

static bool read_and_cast(Rewrite *r, const Op *op, DType type) {
  const Type *t = type_of(r->old, op->out);
  OpSpec read = op_spec_of(r->old, op);
  read.type = type_get(r->m, type, t->rank, t->dims);
  read.name = arena_printf(r->m->arena, "%s.stored", op->name);
  read.group = NULL;
  Val v = build_op(&r->b, &read);
  if (v) v = rewrite_cast(r, op, NULL, v, t->dtype);
  if (v) rewrite_map(r, op, v);
  return v != 0;
}

static bool rewrite_reads(Module *m, const Func *f, const DType *stored, Diags *diags) {
  Rewrite r = rewrite_start(m, f, diags);
  bool ok = true;
  for (size_t i = 0; ok && i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    long number = changed(m, op, stored);
    ok = number < 0 ? rewrite_copy(&r, op) || !op->out : read_and_cast(&r, op, stored[number]);
  }
  if (ok) rewrite_finish(&r);
  return ok;
}

bool rewrite_stored(Module *m, const DType *stored, Diags *diags) {
  bool ok = true;
  for (size_t k = 0; ok && k < m->funcs.n; k++)
    if (m->funcs.items[k]->level == 1) ok = rewrite_reads(m, m->funcs.items[k], stored, diags);
  for (size_t i = 0; i < m->params.n; i++) {
    Param *p = &m->params.items[i];
    p->type = type_get(m, stored[i], p->type->rank, p->type->dims);
  }
  return ok;
}
