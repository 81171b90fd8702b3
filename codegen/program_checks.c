/* codegen/program_checks.c - checks of the sizes with which an entry's indices and slices stay inside their tables and
 * operands.  Those of a computed size come after the bind of the last such size in them.
 *
 * In: the level-1 function, whose sizes are those of whole tensors; parts of ranks are inside if the whole is.  Out:
 * PI_check instructions.  The host evaluates those outside of loops before any rank begins (runtime/host/check.c).
 */
#include <string.h>

#include "codegen/program_body.h"
#include "ir/index_bound.h"

/* The computed size that is bound last, of those that the expressions use; -1 if none. */
static int last_bound(const EmitBody *b, const Expr *x, const Expr *y) {
  const Func *l1 = b->spec->l1;
  for (size_t i = l1->ops.n; i-- > 0;) {
    if (l1->ops.items[i].kind != OP_bind) continue;
    int symbol = (int)op_expr(&l1->ops.items[i], AT_expr)->value;
    if (ex_uses(x, symbol) || ex_uses(y, symbol)) return symbol;
  }
  return -1;
}

static void check(EmitBody *b, const char *name, const char *text, const Expr *value, const Expr *most) {
  if (!b->checks_in_loop && last_bound(b, value, most) != b->checks_bind) return;
  const Expr *const list[] = {value, ex_const(b->e->m, 0), most};
  emit_instr(b, PI_check, name, emit_text(b->e, text), 0, NULL, emit_exprs(b->e, 3, list));
}

/* True if the index is in its table whatever the sizes are. */
static bool in_table(const Expr *at, const Expr *last) {
  int64_t a, b;
  return ex_is_const(at, 0) || (ex_get_const(at, &a) && ex_get_const(last, &b) && a >= 0 && a <= b);
}

/* Returns e, or 0 if there are no indices, which passes the check. */
static const Expr *where_any(EmitBody *b, const IndexSpan *s, const Expr *e) {
  return s->any ? ex_mul(b->e->m, s->any, e) : e;
}

/* Adds checks of indices: one that the sizes alone put outside its table would read zeros and write nothing. */
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
              arena_printf(b->e->m->arena, "the %s index of '%s' is out of range", k == 0 ? "first" : "last", name),
              where_any(b, &spans[i], ends[k]), where_any(b, &spans[i], last));
  }
}

static void check_topk(EmitBody *b, const Op *op) {
  SizeCondition c;
  if (topk_conditions(b->e->m, b->spec->l1, op, &c))
    check(b, op->name, arena_printf(b->e->m->arena, "'%s' takes more elements than there are", op->name), c.value,
          c.most);
}

/* Adds checks of slices and of the number of elements taken. */
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
        check(b, op->name, arena_printf(b->e->m->arena, "'%s' slices outside dimension %d of its operand", op->name, d),
              c[k].value, c[k].most);
    }
  }
}

void emit_size_checks(EmitBody *b) {
  b->checks_bind = -1;
  check_indices(b);
  check_slices(b, -1);
}

void emit_size_checks_of_bind(EmitBody *b, int symbol) {
  b->checks_bind = symbol;
  check_indices(b);
  check_slices(b, -1);
}

void emit_size_checks_of_loop(EmitBody *b, const char *name) {
  const Loops *loops = &b->e->facts.level1;
  b->checks_in_loop = true;
  for (int k = 0; k < loops->n; k++)
    if (strcmp(b->spec->l1->ops.items[loops->items[k].begin].name, name) == 0) check_slices(b, k);
  b->checks_in_loop = false;
}
