/* What the prover takes to be at most something else is so at every size it is tried at, and the bounds that windows
 * need are found. */
#include "base/random.h"
#include "ir/prove_relation.h"
#include "tests/test.h"

static const char *const text = "apc.ir 1\nsymbol n min 1\nsymbol k max 9\nmesh [a=3, b=2]\n";

typedef struct Setting {
  Module *m;
  Prover p;
  const Expr *n, *k, *a, *b;
  uint64_t drawn;
} Setting;

static Setting setting(Arena *arena) {
  Setting s = {.m = ir_parse("symbols", text, diags_new(arena))};
  s.p = (Prover){.m = s.m};
  sizes_open(&s.p);
  s.n = ex_sym(s.m, module_symbol_find(s.m, "n")), s.k = ex_sym(s.m, module_symbol_find(s.m, "k"));
  s.a = mesh_coordinate(s.m, 0), s.b = mesh_coordinate(s.m, 1);
  return s;
}

static int below(Setting *s, int n) { return (int)random_below(5, 1, s->drawn++, (uint64_t)n); }

static const Expr *any(Setting *s, int depth) {
  Module *m = s->m;
  if (depth == 0) {
    const Expr *leaves[] = {s->n, s->n, s->k, s->a, s->b, ex_const(m, below(s, 9) - 4)};
    return leaves[below(s, 6)];
  }
  const Expr *x = any(s, depth - 1), *y = any(s, below(s, depth));
  switch (below(s, 7)) {
    case 0: return ex_min(m, x, y);
    case 1: return ex_max(m, x, y);
    case 2: return ex_div(m, x, ex_const(m, 2 + below(s, 3)));
    case 3: return ex_sub(m, x, y);
    case 4: return ex_muli(m, x, below(s, 7) - 3);
    case 5: return below(s, 3) ? ex_add(m, x, y) : ex_mul(m, x, y);
    default: return ex_add(m, x, y);
  }
}

static bool at_most_everywhere(Setting *s, const Expr *x, const Expr *y) {
  int64_t v[2], *values = s->p.values;
  for (int n = 1; n <= 14; n++)
    for (int k = 0; k <= 9; k++)
      for (int r = 0; r < 6; r++) {
        values[s->n->value] = n, values[s->k->value] = k, values[s->a->value] = r / 2, values[s->b->value] = r % 2;
        if (!ex_eval(x, values, &v[0]) || !ex_eval(y, values, &v[1]) || v[0] > v[1]) return false;
      }
  return true;
}

static void proofs_hold(void) {
  Arena *arena = arena_new();
  Setting s = setting(arena);
  int found = 0, missed = 0;
  for (int i = 0; i < 3000; i++) {
    const Expr *x = any(&s, 1 + below(&s, 4)), *y = any(&s, 1 + below(&s, 4));
    bool shown = expr_at_most(&s.p, x, y), so = at_most_everywhere(&s, x, y);
    Text t = {.arena = arena};
    ex_print(s.m, &t, x);
    text_add(&t, " <= ");
    ex_print(s.m, &t, y);
    CHECKF(!shown || so, "%s", text_str(&t));
    found += shown, missed += so && !shown;
  }
  printf("  %d bounds proved, %d of those that hold at all sizes tried are not\n", found, missed);
  CHECK(found > 4 * missed);
  module_free(s.m);
  arena_free(arena);
}

/* min(max(first, 0), image) <= max(first, 0), the parts of n over six ranks, steps of two. */
static void windows_are_bounded(void) {
  Arena *arena = arena_new();
  Setting s = setting(arena);
  Module *m = s.m;
  const Expr *zero = ex_const(m, 0), *rank = ex_add(m, ex_muli(m, s.a, 2), s.b);
  const Expr *lo = ex_div(m, ex_mul(m, rank, s.n), ex_const(m, 6)),
             *hi = ex_div(m, ex_mul(m, ex_addi(m, rank, 1), s.n), ex_const(m, 6));
  const Expr *first = ex_addi(m, ex_muli(m, lo, 2), -1), *image = ex_addi(m, ex_muli(m, s.n, 2), 1),
             *before = ex_max(m, first, zero);
  CHECK(expr_at_most(&s.p, zero, lo) && expr_at_most(&s.p, lo, hi) && expr_at_most(&s.p, hi, s.n));
  CHECK(!expr_at_most(&s.p, hi, lo) && !expr_at_most(&s.p, s.n, hi));
  CHECK(expr_at_most(&s.p, ex_min(m, before, image), before));
  CHECK(expr_at_most(&s.p, ex_div(m, ex_max(m, first, zero), ex_const(m, 2)),
                     ex_max(m, ex_div(m, first, ex_const(m, 2)), zero)));
  CHECK(!expr_at_most(&s.p, before, ex_min(m, before, s.n)));
  const Expr *least = ex_min(m, s.n, ex_addi(m, s.k, 3)),
             *part = ex_div(m, ex_muli(m, least, 2), ex_const(m, 3)); /* in several places */
  CHECK(expr_at_most(&s.p, ex_add(m, ex_muli(m, least, 3), part), ex_muli(m, least, 4)) &&
        !expr_at_most(&s.p, least, part));
  CHECK(expr_at_most(&s.p, ex_const(m, 1), s.n) && !expr_at_most(&s.p, ex_const(m, 1), s.k));
  module_free(m);
  arena_free(arena);
}

int main(void) {
  RUN(proofs_hold);
  RUN(windows_are_bounded);
  return test_summary();
}
