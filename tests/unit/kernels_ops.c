/* Generated CPU kernels against the reference interpreter: every operation and random fused graphs (tests/kernel_cases.h).
 *
 * All cases are compiled in a few large files.  Every case runs twice: with results in memory of their own, and sharing
 * memory with operands wherever units.h allows it. */
#include "tests/kernel_cases.h"

static void all_cases(void) {
  Runner r = {.call = call_c, .library = compile_c()};
  CHECK(r.library != NULL);
  for (const Case *c = r.library ? cases : NULL; c; c = c->next) {
    run_case(c, &r, false);
    run_case(c, &r, true);
  }
}

int main(void) {
  make_cases();
  RUN(all_cases);
  printf("%d cases, %zu kernels\n", ncases, kernels.kernels.n);
  return test_summary();
}
