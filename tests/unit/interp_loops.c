/* Loops in the reference interpreter: their meaning at level 1, and that ranks of level 2 make the same rounds. */
#include "tests/interp_test.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define LIST(...) ((const double[]){__VA_ARGS__})

/* Runs the body as @main in both domains with x = f32[3] and the i64 scalars n, m given, and compares output "y". */
static void check_loop(const char *head, const char *body, double n, double m, int count, const double *want,
                       const char *file, int line) {
  for (int d = 0; d < 2; d++) {
    Arena *scratch = arena_new();
    InterpProgram p = interp_program(
        arena_printf(scratch,
                     "%s\nfunc @main level 1 { %%x = input {name=\"x\"} : f32[3] %%n = input {name=\"n\"} : i64[] "
                     "%%m = input {name=\"m\"} : i64[] %s output \"y\" %%y }",
                     head, body));
    p.options.domain = (InterpDomain)d;
    program_numbers(&p, "x", DT_f32, 1, DIMS(3), LIST(1, 2, 3));
    program_numbers(&p, "n", DT_i64, 0, NULL, &n);
    program_numbers(&p, "m", DT_i64, 0, NULL, &m);
    if (!tool_program_run(&p, "main")) {
      diags_print(p.diags, stderr, false);
      test_failed_here++;
    } else {
      check_output(&p, "y", count, want, file, line);
    }
    program_free(&p);
    arena_free(scratch);
  }
}

#define LOOP(head, body, n, m, ...) \
  do { \
    const double want_[] = {__VA_ARGS__}; \
    check_loop(head, body, n, m, (int)(sizeof want_ / sizeof *want_), want_, __FILE__, __LINE__); \
  } while (0)

static const char *const doubling =
    "%t = loop %n : i64[] %h = carry %x : f32[3] %d = add %h, %h : f32[3] repeat \"rep\" %t %y = leave %h, %d : f32[3]";

static void rounds(void) {
  LOOP("", doubling, 0, 0, 1, 2, 3);
  LOOP("", doubling, -5, 0, 1, 2, 3);
  LOOP("", doubling, 1, 0, 2, 4, 6);
  LOOP("", doubling, 4, 0, 16, 32, 48);
  LOOP("",
       "%t = loop %n {trips=2} : i64[] %h = carry %x : f32[3] %d = add %h, %h : f32[3] repeat \"rep\" %t %y = leave "
       "%h, %d : f32[3]",
       9, 0, 4, 8, 12);
  LOOP("symbol k hint 3",
       "%t = loop %n {trips=k} : i64[] %h = carry %x : f32[3] %d = add %h, %h : f32[3] repeat \"rep\" %t %y = leave "
       "%h, %d : f32[3]",
       9, 0, 8, 16, 24);
}

/* The round's number; a body that reads only values from outside; a leave of such a value. */
static void numbers(void) {
  LOOP("",
       "%z = const {value=0} : i64[] %t = loop %n : i64[] %h = carry %z : i64[] %s = add %h, %t : i64[] repeat \"rep\" "
       "%t %y = leave %h, %s : i64[]",
       5, 0, 10);
  LOOP("", "%t = loop %n : i64[] %h = carry %n : i64[] repeat \"rep\" %t %y = leave %h, %m : i64[]", 2, 7, 7);
  LOOP("", "%t = loop %n : i64[] %h = carry %n : i64[] repeat \"rep\" %t %y = leave %h, %t : i64[]", 6, 7, 5);
  LOOP("", "%t = loop %n : i64[] %h = carry %n : i64[] repeat \"rep\" %t %y = leave %h, %m : i64[]", 0, 7, 0);
}

/* All carries take their next values at once. */
static void swapped(void) {
  const char *body =
      "%z = neg %x : f32[3] %t = loop %n : i64[] %a = carry %x : f32[3] %b = carry %z : f32[3] repeat \"rep\" %t "
      "%y = leave %a, %b : f32[3] %w = leave %b, %a : f32[3]";
  LOOP("", body, 1, 0, -1, -2, -3);
  LOOP("", body, 2, 0, 1, 2, 3);
  LOOP("", body, 3, 0, -1, -2, -3);
}

/* Scanned inputs and stacked results: y[i] = x[i] + x[i-1] + ... */
static void scan(void) {
  LOOP("",
       "%z = const {value=0} : f32[] %o = const {value=0} : f32[3] %t = loop %n {trips=3} : i64[] %h = carry %z : "
       "f32[] %s = carry %o : f32[3] "
       "%e = gather %x, %t {axis=0, start=0} : f32[] %a = add %h, %e : f32[] %r = reshape %a : f32[1] %u = update %s, "
       "%r, %t {axis=0, start=0} : f32[3] "
       "repeat \"rep\" %t %v = leave %h, %a : f32[] %y = leave %s, %u : f32[3]",
       3, 0, 1, 3, 6);
}

/* A nested loop, read only by the next round; the inner loop reads a value from outside both in every round. */
static void nested(void) {
  LOOP("",
       "%t = loop %n : i64[] %h = carry %x : f32[3] %u = loop %m : i64[] %g = carry %h : f32[3] %s = add %g, %x : "
       "f32[3] "
       "repeat \"ri\" %u %w = leave %g, %s : f32[3] repeat \"ro\" %t %y = leave %h, %w : f32[3]",
       2, 3, 7, 14, 21);
  LOOP("",
       "%t = loop %n : i64[] %h = carry %x : f32[3] %u = loop %t : i64[] %g = carry %h : f32[3] %s = add %g, %x : "
       "f32[3] "
       "repeat \"ri\" %u %w = leave %g, %s : f32[3] repeat \"ro\" %t %y = leave %h, %w : f32[3]",
       4, 0, 7, 14, 21);
}

/* The last round is the one whose condition is false. */
static void conditions(void) {
  LOOP("",
       "%one = const {value=1} : i64[] %t = loop %n : i64[] %h = carry %one : i64[] %d = add %h, %h : i64[] %c = lt "
       "%d, %m : bool[] "
       "repeat \"rep\" %t, %c %y = leave %h, %d : i64[]",
       100, 20, 32);
  LOOP("",
       "%one = const {value=1} : i64[] %t = loop %n : i64[] %h = carry %one : i64[] %d = add %h, %h : i64[] %c = lt "
       "%d, %m : bool[] "
       "repeat \"rep\" %t, %c %y = leave %h, %d : i64[]",
       3, 20, 8);
}

/* A function with a loop is called from a loop. */
static void called(void) {
  LOOP(
      "func @inner level 1 { %a = input {name=\"a\"} : f32[3] %two = const {value=2} : i64[] %t = loop %two : i64[] %h "
      "= carry %a : f32[3] "
      "%d = add %h, %h : f32[3] repeat \"rep\" %t %b = leave %h, %d : f32[3] output \"b\" %b }",
      "%t = loop %n : i64[] %h = carry %x : f32[3] %c = call %h {name=\"inner\"} : f32[3] repeat \"rep\" %t %y = leave "
      "%h, %c : f32[3]",
      2, 0, 16, 32, 48);
}

static void too_many(void) {
  Arena *scratch = arena_new();
  InterpProgram p = interp_program(arena_printf(
      scratch,
      "func @main level 1 { %%n = const {value=9} : i64[] %%x = const {value=1} : f32[3] %s output \"y\" %%y }",
      doubling));
  p.options.max_rounds = 9;
  CHECK(tool_program_run(&p, "main"));
  p.options.max_rounds = 8;
  CHECK(!tool_program_run(&p, "main"));
  CHECKF(strstr(program_error(&p), "more than 8 rounds"), "%s", program_error(&p));
  program_free(&p);
  arena_free(scratch);
}

/* ---- level 2 */

static bool run_ranks(InterpProgram *p, const char *count, const char *again) {
  Arena *scratch = arena_new();
  *p = interp_program(arena_printf(
      scratch,
      "mesh [a=2]\nfunc @main level 2 { %%x = input {name=\"x\"} : f32[2] @{0:a} %%n = input {name=\"n\"} : i64[2] @{} "
      "%%i = iota {axis=0, start=@a} : i64[1] %%here = reshape %%i : i64[] %%two = const {value=2} : i64[] %%one = "
      "const {value=1} : i64[] "
      "%%t = loop %%%s : i64[] %%h = carry %%x : f32[2] %%d = add %%h, %%h : f32[2] %%eq = eq %%here, %%one : bool[] "
      "%%lt = lt %%t, %%one : bool[] "
      "repeat \"rep\" %%t, %%%s %%y = leave %%h, %%d : f32[2] output \"y\" %%y @{0:a} }",
      count, again));
  program_numbers(p, "x", DT_f32, 1, DIMS(4), LIST(1, 2, 3, 4));
  program_numbers(p, "n", DT_i64, 1, DIMS(2), LIST(3, 4));
  bool ok = tool_program_run(p, "main");
  arena_free(scratch);
  return ok;
}

static void ranks(void) {
  InterpProgram p;
  CHECK(run_ranks(&p, "two", "lt"));
  CHECK_OUTPUT(&p, "y", 4, 8, 12, 16);
  program_free(&p);
  CHECK(!run_ranks(&p, "here", "lt"));
  CHECKF(strstr(program_error(&p), "1 rounds here, 0 on other ranks"), "%s", program_error(&p));
  program_free(&p);
  CHECK(!run_ranks(&p, "two", "eq"));
  CHECKF(strstr(program_error(&p), "the ranks disagree on whether there is another round"), "%s", program_error(&p));
  program_free(&p);
}

int main(void) {
  RUN(rounds);
  RUN(numbers);
  RUN(swapped);
  RUN(scan);
  RUN(nested);
  RUN(conditions);
  RUN(called);
  RUN(too_many);
  RUN(ranks);
  return test_summary();
}
