/* codegen/program_checks.c - what the sizes have to be for an entry's indices and slices to stay inside what they read.
 *
 * In: the level-1 function, whose sizes are those of whole tensors; parts of ranks lie inside when the whole does.
 * Out: PI_check instructions.  The host looks at those outside of loops before any rank begins (runtime/host/check.c).
 */
#include <string.h>

#include "codegen/program_body.h"
#include "ir/index_bound.h"

static void check(EmitBody *b, const char *name, const char *text, const Expr *value, const Expr *most) {
  const Expr *const list[] = {value, ex_const(b->e->m, 0), most};
  emit_instr(b, PI_check, name, emit_text(b->e, text), 0, NULL, emit_exprs(b->e, 3, list));
}

/* Known without the sizes. */
static bool in_table(const Expr *at, const Expr *last) {
  int64_t a, b;
  return ex_is_const(at, 0) || (ex_get_const(at, &a) && ex_get_const(last, &b) && a >= 0 && a <= b);
}

/* 0 where there are no indices, which passes. */
static const Expr *where_any(EmitBody *b, const IndexSpan *s, const Expr *e) {
  return s->any ? ex_mul(b->e->m, s->any, e) : e;
}

/* Indices that the sizes alone put outside their table would read zeros and write nothing. */
static void check_indices(EmitBody *b) {
  const Func *l1 = b->spec->l1;
  size_t n;
  const IndexSpan *spans = index_spans(b->e->m, l1, &n);
  for (size_t i = 0; i < n; i++) {
    const char *name = l1->ops.items[spans[i].op].name;
    const Expr *const ends[] = {spans[i].first, spans[i].last}, *last = ex_addi(b->e->m, spans[i].below, -1);
    for (int k = 0; k < (ends[0] == ends[1] ? 1 : 2); k++)
      if (!in_table(ends[k], last))
        check(b, name,
              arena_printf(b->e->m->arena, "the %s index of '%s' leaves its table", k == 0 ? "first" : "last", name),
              where_any(b, &spans[i], ends[k]), where_any(b, &spans[i], last));
  }
}

static void check_topk(EmitBody *b, const Op *op) {
  SizeCondition c;
  if (topk_conditions(b->e->m, b->spec->l1, op, &c))
    check(b, op->name, arena_printf(b->e->m->arena, "'%s' takes more than there are", op->name), c.value, c.most);
}

/* Slices, and how many are taken. */
static void check_slices(EmitBody *b, int loop) {
  const Func *l1 = b->spec->l1;
  for (size_t i = 0; i < l1->ops.n; i++) {
    const Op *op = &l1->ops.items[i];
    if (b->e->facts.level1.of[i] == loop && op->kind == OP_topk) check_topk(b, op);
    if (op->kind != OP_slice || b->e->facts.level1.of[i] != loop) continue;
    for (int d = 0; d < type_of(l1, op->out)->rank; d++) {
      SizeCondition c[2];
      int n = slice_conditions(b->e->m, l1, op, d, c);
      for (int k = 0; k < n; k++)
        check(b, op->name, arena_printf(b->e->m->arena, "'%s' leaves dimension %d of what it slices", op->name, d),
              c[k].value, c[k].most);
    }
  }
}

void emit_size_checks(EmitBody *b) {
  check_indices(b);
  check_slices(b, -1);
}

void emit_size_checks_of_loop(EmitBody *b, const char *name) {
  const Loops *loops = &b->e->facts.level1;
  for (int k = 0; k < loops->n; k++)
    if (strcmp(b->spec->l1->ops.items[loops->items[k].begin].name, name) == 0) check_slices(b, k);
}
