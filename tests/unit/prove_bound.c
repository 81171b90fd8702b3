/* The prover's upper bounds hold at every size that is tried, and the bounds that windows need are found. */
#include "base/random.h"
#include "proof/prove_relation.h"
#include "tests/test.h"

static const char *const text = "apc.ir 1\nsymbol n min 1\nsymbol k max 9\nsymbol d min 1\nmesh [a=3, b=2]\n";

typedef struct Setting {
  Module *m;
  Prover p;
  const Expr *n, *k, *d, *a, *b;
  bool divided; /* by symbols, too */
  uint64_t seed, drawn;
} Setting;

static Setting setting(Arena *arena) {
  Setting s = {.m = ir_parse("symbols", text, diags_new(arena))};
  s.p = (Prover){.m = s.m};
  sizes_open(&s.p);
  s.n = ex_sym(s.m, module_symbol_find(s.m, "n")), s.k = ex_sym(s.m, module_symbol_find(s.m, "k"));
  s.d = ex_sym(s.m, module_symbol_find(s.m, "d")), s.seed = 5;
  s.a = mesh_coordinate(s.m, 0), s.b = mesh_coordinate(s.m, 1);
  return s;
}

static int below(Setting *s, int n) { return (int)random_below(s->seed, 1, s->drawn++, (uint64_t)n); }

static const Expr *any(Setting *s, int depth) {
  Module *m = s->m;
  if (depth == 0) {
    const Expr *leaves[] = {s->n, s->d, s->k, s->a, s->b, ex_const(m, below(s, 9) - 4)};
    return leaves[below(s, 6)];
  }
  const Expr *x = any(s, depth - 1), *y = any(s, below(s, depth));
  switch (below(s, 8)) {
    case 0: return ex_min(m, x, y);
    case 1: return ex_max(m, x, y);
    case 2: return ex_div(m, x, ex_const(m, 2 + below(s, 3)));
    case 3: return ex_sub(m, x, y);
    case 4: return ex_muli(m, x, below(s, 7) - 3);
    case 5: return below(s, 3) ? ex_add(m, x, y) : ex_mul(m, x, y);
    case 6: return s->divided ? ex_div(m, x, below(s, 2) ? s->d : s->n) : ex_add(m, x, y);
    default: return ex_add(m, x, y);
  }
}

static bool at_most_everywhere(Setting *s, const Expr *x, const Expr *y) {
  int64_t v[2], *values = s->p.values;
  for (int n = 1; n <= 14; n++)
    for (int d = 1; d <= 7; d += d)
      for (int k = 0; k <= 9; k++)
        for (int r = 0; r < 6; r++) {
          values[s->n->value] = n, values[s->d->value] = d, values[s->k->value] = k;
          values[s->a->value] = r / 2, values[s->b->value] = r % 2;
          if (!ex_eval(x, values, &v[0]) || !ex_eval(y, values, &v[1]) || v[0] > v[1]) return false;
        }
  return true;
}

static void check_bound(Setting *s, const Expr *x, const Expr *y) {
  Text t = {.arena = s->m->arena};
  ex_print(s->m, &t, x);
  text_add(&t, " <= ");
  ex_print(s->m, &t, y);
  CHECKF(at_most_everywhere(s, x, y), "%s", text_str(&t));
}

static void proofs_hold(void) {
  Arena *arena = arena_new();
  Setting s = setting(arena);
  int found = 0, missed = 0;
  for (int i = 0; i < 1500; i++) {
    const Expr *x = any(&s, 1 + below(&s, 4)), *y = any(&s, 1 + below(&s, 4));
    if (expr_at_most(&s.p, x, y)) check_bound(&s, x, y), found++;
    else missed += at_most_everywhere(&s, x, y);
  }
  printf("  %d bounds proved, %d of those that hold at all sizes tried are not\n", found, missed);
  CHECK(found > 4 * missed);
  module_free(s.m);
  arena_free(arena);
}

/* A minimum that occurs twice has one value, while its symbol, which is hidden by a 0 in its place, has another. */
static const Expr *with_extremum(Setting *s) {
  Module *m = s->m;
  const Expr *x = any(s, below(s, 2)), *y = any(s, below(s, 2));
  const Expr *extremum = below(s, 2) ? ex_min(m, x, y) : ex_max(m, x, y), *divided = extremum;
  if (below(s, 2)) divided = ex_muli(m, extremum, 1 + below(s, 3));
  const Expr *by[] = {s->n, s->d, ex_addi(m, s->k, 1), ex_const(m, 2 + below(s, 3))};
  const Expr *sum = ex_muli(m, ex_div(m, divided, by[below(s, 4)]), below(s, 5) - 2);
  return ex_add(m, ex_muli(m, extremum, below(s, 5) - 1), below(s, 3) ? sum : ex_mul(m, sum, extremum));
}

static void no_bound_is_false(void) {
  enum { PAIRS = 100000, TOGETHER = 1000 };
  int found = 0;
  for (int part = 0; part < PAIRS / TOGETHER; part++) {
    if (!in_quarter(part)) continue;
    Arena *arena = arena_new();
    Setting s = setting(arena);
    s.divided = true, s.seed = 100 + (uint64_t)part;
    for (int i = 0; i < TOGETHER; i++) {
      bool twice = i % 2;
      const Expr *x = twice ? ex_const(s.m, below(&s, 3) - 1) : any(&s, 1 + below(&s, 3));
      const Expr *y = twice ? with_extremum(&s) : any(&s, 1 + below(&s, 3));
      if (expr_at_most(&s.p, x, y)) check_bound(&s, x, y), found++;
    }
    module_free(s.m);
    arena_free(arena);
  }
  printf("  %d bounds of random pairs proved\n", found);
  CHECK(found > quarter_of(PAIRS / 10));
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
  RUN(no_bound_is_false);
  RUN(windows_are_bounded);
  return test_summary();
}
