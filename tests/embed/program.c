/* tests/embed/program.c - writes a compiled program for tests/embed/run.sh to the given path: y = x, 2 ranks.  Its
 * entry pair has an input w, which it does not use, before x. */
#include "tests/programs.h"

static void add_entry(Make *m, const char *name, uint32_t n, uint32_t k) {
  uint32_t zero = make_number(m, 0), before = k != PROGRAM_NONE;
  if (before) make_port(m, "w", DT_f32, MAKE_LIST(m, k));
  make_port(m, "x", DT_f32, MAKE_LIST(m, n));
  make_port(m, "y", DT_f32, MAKE_LIST(m, n));
  make_entry(m, name, before + 1, 1);
  make_begin(m, 0);
  uint32_t x = make_tensor(m, PC_input, DT_f32, 1, MAKE_LIST(m, n));
  make_io(m, PI_feed, before, x, 0, MAKE_LIST(m, zero));
  make_io(m, PI_fetch, 0, x, 1, MAKE_LIST(m, zero));
  make_call(m, 0, make_end(m, "body"), 0);
  make_schedules(m);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  Make m = make_new(1);
  make_axis(&m, "tp", 2, false);
  uint32_t n = make_symbol(&m, "n", 0, 12), k = make_symbol(&m, "k", 0, 3);
  add_entry(&m, "main", n, PROGRAM_NONE);
  add_entry(&m, "pair", n, k);
  const char *made = make_artifact(&m, "program");
  return rename(made, argv[1]) == 0 ? test_summary() : 1;
}
