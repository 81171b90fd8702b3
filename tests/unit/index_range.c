/* ir/index_bound.h: the allowed values of inputs that index a table, and cases in which they are unknown. */
#include "ir/index_bound.h"

#include <stdlib.h>

#include "tests/test.h"

static Arena *arena;

/* The range of input %i of a function with this body; -1 if unknown.  *ignored: 0 without such a number. */
static int64_t below_but(const char *body, bool *negative, int64_t *ignored) {
  Diags *d = diags_new(arena);
  Module *m = ir_parse("t.ir",
                       arena_printf(arena,
                                    "apc.ir 1\nfunc @main level 1 {\n  %%i = input {name=\"i\"} : i64[4]\n  %%t = "
                                    "input {name=\"t\"} : f32[9, 2]\n"
                                    "  %%s = input {name=\"s\"} : f32[7]\n%s}\n",
                                    body),
                       d);
  if (!m || !verify_module(m, d)) {
    diags_print(d, stderr, false);
    exit(1);
  }
  Func *f = module_func(m, "main");
  IndexRange r = index_range(m, f, func_find(f, "i"));
  int64_t below = -1;
  if (r.below) ex_get_const(r.below, &below);
  *negative = r.negative;
  *ignored = 0;
  if (r.ignored) ex_get_const(r.ignored, ignored);
  module_free(m);
  return below;
}

/* The same if no number is ignored. */
static int64_t below_of(const char *body, bool *negative) {
  int64_t ignored, below = below_but(body, negative, &ignored);
  CHECK(ignored == 0);
  return below;
}

#define GATHER(x) "  %y = gather %t, " x " {axis=0, start=0} : f32[4, 2]\n  output \"y\" %y\n"
#define WRAP(extent) \
  "  %z = const {value=0} : i64[4]\n  %n = size {expr=" extent \
  "} : i64[4]\n  %c = lt %i, %z : bool[4]\n" \
  "  %p = add %i, %n : i64[4]\n  %w = select %c, %p, %i : i64[4]\n"

static void used_as_it_is(void) {
  bool negative;
  CHECK(below_of(GATHER("%i"), &negative) == 9 && !negative);
  CHECK(below_of("  %a = cast %i {to=i32} : i32[4]\n  %b = copy %a : i32[4]\n" GATHER("%b"), &negative) == 9 &&
        !negative);
  CHECK(below_of(
            "  %a = reshape %i : i64[2, 2]\n  %y = gather %t, %a {axis=1, start=0} : f32[9, 2, 2]\n  output \"y\" %y\n",
            &negative) == 2);
  CHECK(below_of("  %r = gather %s, %i {axis=0, start=0} : f32[4]\n  output \"r\" %r\n" GATHER("%i"), &negative) == 7);
}

static void counted_from_the_end(void) {
  bool negative;
  CHECK(below_of(WRAP("9") GATHER("%w"), &negative) == 9 && negative);
  CHECK(below_of(WRAP("9") "  %q = gather %t, %i {axis=0, start=0} : f32[4, 2]\n  output \"q\" %q\n" GATHER("%w"),
                 &negative) == 9 &&
        !negative);
  CHECK(below_of(WRAP("5") GATHER("%w"), &negative) == -1); /* another extent: not that idiom */
}

/* If a state is updated, all written elements have to fit. */
static void places_of_states(void) {
  const char *text =
      "apc.ir 1\nsymbol n min 1 max 16\nstate \"s\" : f32[9, 2] = 0\nfunc @main level 1 {\n  %i = input {name=\"i\"} : "
      "i64[]\n  %x = input {name=\"x\"} : f32[n, 2]\n"
      "  %r = read {name=\"s\"} : f32[9, 2]\n  %u = update %r, %x, %i {axis=0, start=0} : f32[9, 2]\n  write \"w\" %u "
      "{name=\"s\"}\n  output \"y\" %u\n}\n";
  Diags *d = diags_new(arena);
  Module *m = ir_parse("t.ir", text, d);
  CHECK(m && verify_module(m, d));
  if (!m) {
    diags_print(d, stderr, false);
    return;
  }
  Func *f = module_func(m, "main");
  IndexRange r = index_range(m, f, func_find(f, "i"));
  int64_t below = 0, sizes[] = {4};
  CHECK(r.below && !r.negative && ex_eval(r.below, sizes, &below) && below == 6);
  CHECK(index_bound(m, f, func_find(f, "i")) == r.below);
  module_free(m);
}

/* Gathers in other forms: elements of a tensor, of a result, of logits. */
#define LABEL(x) "  %l = input {name=\"l\"} : f32[4, 3]\n  %e = cross_entropy %l, " x " : f32[4]\n  output \"e\" %e\n"

static void other_operations(void) {
  bool negative;
  CHECK(below_of("  %y = take %s, %i {axis=0, start=0} : f32[4]\n  output \"y\" %y\n", &negative) == 7 && !negative);
  CHECK(below_of("  %u = input {name=\"u\"} : f32[4, 2]\n  %y = scatter %u, %i {op=sum, axis=0, start=0} : f32[6, 2]\n"
                 "  output \"y\" %y\n",
                 &negative) == 6);
  CHECK(below_of("  %u = input {name=\"u\"} : f32[4]\n  %y = put %u, %i {op=max, axis=0, start=0} : f32[5]\n"
                 "  output \"y\" %y\n",
                 &negative) == 5);
  CHECK(below_of(LABEL("%i"), &negative) == 3 && !negative);
  CHECK(below_of(WRAP("7") "  %y = take %s, %w {axis=0, start=0} : f32[4]\n  output \"y\" %y\n", &negative) == 7 &&
        negative);
}

#define IGNORE(test, x, y) \
  "  %g = const {value=-100} : i64[4]\n  %o = const {value=0} : i64[4]\n  %k = " test \
  " %i, %g : bool[4]\n  %m = select %k, " x ", " y " : i64[4]\n"

static void ignored_labels(void) {
  bool negative;
  int64_t ignored;
  CHECK(below_but(IGNORE("ne", "%i", "%o") LABEL("%m"), &negative, &ignored) == 3 && ignored == -100 && !negative);
  CHECK(below_but(IGNORE("eq", "%o", "%i") LABEL("%m"), &negative, &ignored) == 3 && ignored == -100);
  CHECK(below_but(IGNORE("eq", "%i", "%o") LABEL("%m"), &negative, &ignored) == -1); /* all others are replaced */
  CHECK(below_but(IGNORE("ge", "%i", "%o") LABEL("%m"), &negative, &ignored) == -1);
  CHECK(below_but(IGNORE("ne", "%i", "%o") LABEL("%m") GATHER("%i"), &negative, &ignored) == 3 && ignored == 0);
  CHECK(below_but(IGNORE("ne", "%i", "%o") GATHER("%i") LABEL("%m"), &negative, &ignored) == 3 && ignored == 0);
}

static void computed_on_the_way(void) {
  bool negative;
  CHECK(below_of("  %a = add %i, %i : i64[4]\n" GATHER("%a"), &negative) == -1);
  CHECK(below_of("  %a = slice %i {starts=[0], strides=[1]} : i64[2]\n  %y = gather %t, %a {axis=0, start=0} : f32[2, "
                 "2]\n  output \"y\" %y\n",
                 &negative) == -1);
  CHECK(below_of("  %f = cast %i {to=f32} : f32[4]\n  %a = cast %f {to=i64} : i64[4]\n" GATHER("%a"), &negative) == -1);
  CHECK(below_of("  output \"y\" %i\n", &negative) == -1);
  CHECK(
      below_of("  %w = input {name=\"w\"} : f32[5, 2, 3]\n  %x = slice %t {starts=[0, 0], strides=[1, 1]} : f32[4, 2]\n"
               "  %y = grouped_dot %x, %i, %w {start=0} : f32[4, 3]\n  output \"y\" %y\n",
               &negative) == -1); /* -1 may mean no group */
}

/* A body may not run, so there is no range; but the input indexes the table, in the round after the one that reads
 * it. */
static void in_a_loop(void) {
  const char *text =
      "apc.ir 1\nfunc @main level 1 {\n  %i = input {name=\"i\"} : i64[4]\n  %t = input {name=\"t\"} : f32[9, 2]\n  %z "
      "= const {value=0} : i64[4]\n"
      "  %n = const {value=2} : i64[]\n  %s = const {value=0} : f32[4, 2]\n  %r = loop %n : i64[]\n  %c = carry %z : "
      "i64[4]\n  %d = carry %s : f32[4, 2]\n"
      "  %y = gather %t, %c {axis=0, start=0} : f32[4, 2]\n  repeat \"again\" %r\n  %cl = leave %c, %i : i64[4]\n  %dl "
      "= leave %d, %y : f32[4, 2]\n  output \"y\" %dl\n}\n";
  Diags *d = diags_new(arena);
  Module *m = ir_parse("t.ir", text, d);
  CHECK(m && verify_module(m, d));
  if (!m) return;
  Func *f = module_func(m, "main");
  CHECK(!index_range(m, f, func_find(f, "i")).below);
  const Expr *bound = index_bound(m, f, func_find(f, "i"));
  CHECK(bound && ex_is_const(bound, 9));
  module_free(m);
  bool negative;
  CHECK(below_of("  %n = const {value=2} : i64[]\n  %o = const {value=0} : f32[4, 2]\n  %r = loop %n : i64[]\n  %d = "
                 "carry %o : f32[4, 2]\n"
                 "  %y = gather %t, %i {axis=0, start=0} : f32[4, 2]\n  repeat \"again\" %r\n  %dl = leave %d, %y : "
                 "f32[4, 2]\n  output \"y\" %dl\n",
                 &negative) == -1);
}

/* "first last below" of the only index that depends on the sizes; "none", or "several". */
static const char *span_of(const char *body) {
  Diags *d = diags_new(arena);
  Module *m = ir_parse(
      "t.ir",
      arena_printf(
          arena,
          "apc.ir 1\nsymbol s min 1\nsymbol p min 0\nfunc @main level 1 {\n  %%t = input {name=\"t\"} : f32[9, 2]\n"
          "  %%i = iota {axis=0, start=0} : i64[s]\n%s}\n",
          body),
      d);
  if (!m || !verify_module(m, d)) {
    diags_print(d, stderr, false);
    exit(1);
  }
  size_t n;
  const IndexSpan *spans = index_spans(m, module_func(m, "main"), &n);
  Text t = {.arena = arena};
  if (n == 1)
    ex_print(m, &t, spans->first), text_add(&t, " to "), ex_print(m, &t, spans->last), text_add(&t, " of "),
        ex_print(m, &t, spans->below);
  else text_add(&t, n ? "several" : "none");
  if (n == 1 && spans->any) text_add(&t, " times "), ex_print(m, &t, spans->any);
  module_free(m);
  return text_str(&t);
}

/* The possible places of the index of %y. */
static IndexPlace place_of(const char *body) {
  Diags *d = diags_new(arena);
  Module *m =
      ir_parse("t.ir",
               arena_printf(arena,
                            "apc.ir 1\nsymbol s min 3\nfunc @main level 1 {\n  %%i = input {name=\"i\"} : i64[4]\n"
                            "  %%j = input {name=\"j\"} : i64[4]\n  %%t = input {name=\"t\"} : f32[9, 2]\n"
                            "  %%u = input {name=\"u\"} : f32[s, 2]\n%s}\n",
                            body),
               d);
  if (!m || !verify_module(m, d)) {
    diags_print(d, stderr, false);
    exit(1);
  }
  const Func *f = module_func(m, "main");
  IndexPlace place = index_places(m, f)[f->values.items[func_find(f, "y")].op];
  module_free(m);
  return place;
}

#define FROM(t, n, x) "  %y = gather %" t ", " x " {axis=0, start=0} : f32[" n ", 2]\n  output \"y\" %y\n"
#define LIST(n, x) "  %l = const {ints=[" x "]} : i64[" n "]\n"

static void where_they_may_lie(void) {
  CHECK(place_of(FROM("t", "4", "%i")) == INDEX_CHECKED);
  CHECK(place_of(WRAP("9") FROM("t", "4", "%w")) == INDEX_CHECKED);
  CHECK(place_of(WRAP("8") FROM("t", "4", "%w")) == INDEX_ANYWHERE); /* counts from another end */
  CHECK(place_of("  %a = add %i, %j : i64[4]\n" FROM("t", "4", "%a")) == INDEX_ANYWHERE);
  CHECK(place_of("  %a = concat %i, %j {axis=0} : i64[8]\n" FROM("t", "8", "%a")) == INDEX_CHECKED);
  CHECK(place_of(WRAP("9") "  %a = concat %j, %w {axis=0} : i64[8]\n" FROM("t", "8", "%a")) == INDEX_ANYWHERE);
  CHECK(place_of("  %b = add %i, %j : i64[4]\n  %a = concat %i, %b {axis=0} : i64[8]\n" FROM("t", "8", "%a")) ==
        INDEX_ANYWHERE);
  CHECK(
      place_of("  %n = const {value=-1} : i64[4]\n  %c = ne %i, %n : bool[4]\n  %a = select %c, %i, %j : i64[4]\n" FROM(
          "t", "4", "%a")) == INDEX_ANYWHERE); /* the replacement of -1 is not examined */
  CHECK(place_of(LIST("2", "0, 8") FROM("t", "2", "%l")) == INDEX_INSIDE);
  CHECK(place_of(LIST("2", "0, 9") FROM("t", "2", "%l")) == INDEX_ANYWHERE);
  CHECK(place_of(LIST("2", "-1, 0") FROM("t", "2", "%l")) == INDEX_ANYWHERE);
  CHECK(place_of(LIST("2", "0, 2") FROM("u", "2", "%l")) == INDEX_INSIDE); /* s is at least 3 */
  CHECK(place_of(LIST("2", "0, 3") FROM("u", "2", "%l")) == INDEX_ANYWHERE);
  CHECK(place_of("  %a = iota {axis=0, start=0} : i64[9]\n" FROM("t", "9", "%a")) == INDEX_INSIDE);
  CHECK(place_of("  %a = iota {axis=0, start=0} : i64[s]\n" FROM("t", "s", "%a")) == INDEX_CHECKED);
}

#define PICK(x) "  %y = gather %t, " x " {axis=0, start=0} : f32[s, 2]\n  output \"y\" %y\n"

static void computed_from_sizes(void) {
  CHECK_STR(span_of(PICK("%i")), "0 to s - 1 of 9");
  CHECK_STR(span_of("  %n = size {expr=p} : i64[s]\n  %a = add %n, %i : i64[s]\n" PICK("%a")), "p to p + s - 1 of 9");
  CHECK_STR(
      span_of(
          "  %n = const {value=2} : i64[s]\n  %a = sub %i, %n : i64[s]\n  %b = cast %a {to=i32} : i32[s]\n" PICK("%b")),
      "-2 to s - 3 of 9");
  CHECK_STR(span_of("  %n = size {expr=p} : i64[s]\n  %z = const {value=0} : i64[s]\n  %c = lt %n, %z : bool[s]\n  %q "
                    "= add %n, %n : i64[s]\n"
                    "  %w = select %c, %q, %n : i64[s]\n" PICK("%w")),
            "p to p of 9");
  CHECK_STR(span_of("  %a = mul %i, %i : i64[s]\n" PICK("%a")), "none");
  CHECK_STR(span_of("  %a = add %i, %i : i64[s]\n" PICK("%a")), "none");
  CHECK_STR(span_of("  %e = iota {axis=0, start=0} : i64[p]\n  %y = gather %t, %e {axis=0, start=0} : f32[p, 2]\n  "
                    "output \"y\" %y\n"),
            "0 to p - 1 of 9 times min(1, p)"); /* p may be 0 */
}

/* "value of most, ..." of a slice of a dimension; "always" if it is inside for all sizes. */
static const char *slice_needs(const char *have, const char *start, const char *stride, const char *extent) {
  Diags *d = diags_new(arena);
  Module *m = ir_parse(
      "t.ir",
      arena_printf(
          arena,
          "apc.ir 1\nsymbol s min 1\nsymbol p min 0\nfunc @main level 1 {\n  %%x = input {name=\"x\"} : f32[%s]\n"
          "  %%y = slice %%x {starts=[%s], strides=[%s]} : f32[%s]\n}\n",
          have, start, stride, extent),
      d);
  if (!m || !verify_module(m, d)) {
    diags_print(d, stderr, false);
    exit(1);
  }
  const Func *f = module_func(m, "main");
  SizeCondition c[2];
  int n = slice_conditions(m, f, &f->ops.items[1], 0, c);
  Text t = {.arena = arena};
  for (int i = 0; i < n; i++)
    text_add(&t, i ? ", " : ""), ex_print(m, &t, c[i].value), text_add(&t, " of "), ex_print(m, &t, c[i].most);
  module_free(m);
  return n ? text_str(&t) : "always";
}

static void slices_that_depend_on_sizes(void) {
  CHECK_STR(slice_needs("9", "2", "1", "7"), "always");
  CHECK_STR(slice_needs("s + 4", "1", "1", "s"), "always");
  CHECK_STR(slice_needs("s", "0", "1", "1"), "always");
  CHECK_STR(slice_needs("s", "0", "1", "2"), "2 of s, 0 of s - 2");
  CHECK_STR(slice_needs("s", "s - 5", "1", "5"), "5 of s, s - 5 of s - 5");
  CHECK_STR(slice_needs("s", "0", "1", "p"), "p of s, 0 of -p + s");
  CHECK_STR(slice_needs("2*s", "1", "2", "s"), "always");
  CHECK_STR(slice_needs("2*s", "2", "2", "s"), "2 of 1");
}

int main(void) {
  arena = arena_new();
  RUN(used_as_it_is);
  RUN(counted_from_the_end);
  RUN(places_of_states);
  RUN(other_operations);
  RUN(ignored_labels);
  RUN(computed_on_the_way);
  RUN(where_they_may_lie);
  RUN(computed_from_sizes);
  RUN(slices_that_depend_on_sizes);
  RUN(in_a_loop);
  arena_free(arena);
  return test_summary();
}
