/* Generated CPU kernels against the reference interpreter: every operation and random fused graphs (tests/kernel_cases.h).
 *
 * All cases are compiled in a few large files.  Every case runs twice: with results in memory of their own, and sharing
 * memory with operands wherever units.h allows it. */
#include "tests/kernel_cases.h"

static Runner runner = {.call = call_c};

static void all_cases(void) {
  runner.library = compile_c();
  CHECK(runner.library != NULL);
  for (const Case *c = runner.library ? cases : NULL; c; c = c->next) {
    run_case(c, &runner, false);
    run_case(c, &runner, true);
  }
}

/* The same kernels for sizes of 0: no row, no element, nothing to reduce. */
static void empty_cases(void) {
  int n = 0;
  for (Case *c = runner.library ? cases : NULL; c; c = c->next)
    for (int s = 0; s < 2; s++) n += run_case_empty(c, &runner, s);
  CHECKF(n >= 300, "%d cases", n);
}

int main(void) {
  make_cases();
  RUN(all_cases);
  RUN(empty_cases);
  printf("%d cases, %zu kernels\n", ncases, kernels.kernels.n);
  return test_summary();
}
