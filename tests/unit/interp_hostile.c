/* Programs with random faults: the interpreter runs or refuses whatever parses and passes the verifier; it never
 * crashes.  (Under the sanitizers this finds accesses out of bounds and overflow.) */
#include "base/random.h"
#include "tests/interp_test.h"

static const char *const seeds[] = {
    "mesh [a=2, b=3] stages 2\nsymbol n min 1 hint 5\nparam \"w\" : f32[4, 7] = normal 0.5 seed 1\nstate \"s\" : "
    "f32[2, 4] = 1\n"
    "func @main level 2 { %x = input {name=\"x\"} : f32[3] @{} %w = param {name=\"w\"} : f32[2, 7] @{0:a}\n"
    "%g = all_gather %w {mesh_axis=a, axis=0} : f32[4, 7] %t = all_to_all %w {mesh_axis=a, split=1, concat=0} : f32[4, "
    "3 + @a]\n"
    "%r = reduce_scatter %w {mesh_axis=a, axis=0, op=sum} : f32[1, 7] %m = mask_partial %r {mesh_axes=[a, b], op=max} "
    ": f32[1, 7]\n"
    "%e = exchange %w {mesh_axes=[a], axis=0, source=[2*@a, 2*@a + 2], target=[2*@a - 1, 2*@a + 3], value=7} : f32[4, "
    "7]\n"
    "%c = shard_slice %e {axis=0, start=2*@a} : f32[2, 7] %o = all_reduce %c {mesh_axes=[a, b], op=one} : f32[2, 7]\n"
    "%s = read {name=\"s\"} : f32[1, 4] @{0:a} write \"q\" %s {name=\"s\"} %v = transfer %m {to_stage=1} : f32[1, 7]\n"
    "output \"y\" %e @{} output \"z\" %g @{} output \"v\" %v @{0:a} }",
    "symbol n min 1 hint 5\nfunc @main level 1 { %x = input {name=\"x\"} : f32[3] %i = iota {axis=0, start=0} : "
    "i64[n]\n"
    "%g = gather %x, %i {axis=0, start=0} : f32[n] %b = broadcast %g {dims=[1]} : f32[4, n] %s = slice %b {starts=[1, "
    "2], strides=[1, 2]} : f32[3, 2]\n"
    "%p = pad %s {low=[0, 1], high=[n, 1], value=-1} : f32[n + 3, 4] %t = transpose %p {perm=[1, 0]} : f32[4, n + 3]\n"
    "%d = dot %t, %p {spec=\"ab,bc->ac\"} : f32[4, 4] %r = reshape %d : f32[2, 8] %k = concat %r, %r {axis=1} : f32[2, "
    "16]\n"
    "%u = const {ints=[7, 8]} : i64[2] %z = const {value=1} : i64[] %v = update %i, %u, %z {axis=0, start=0} : i64[n]\n"
    "%f = softmax %k {axis=1} : f32[2, 16] %o = norm %f {kind=\"layer\", eps=0.1} : f32[2, 16] %q = reduce %o {op=max, "
    "axes=[0]} : f32[16]\n"
    "%h = random {kind=\"normal\", seed=1, starts=[0, 0], extents=[n, 3]} : f32[n, 3] %l = cross_entropy %h, %v : "
    "f32[n] output \"q\" %q output \"l\" %l output \"h\" %h }",
    "mesh [a=2]\nsymbol n min 1 hint 5\nfunc @main level 2 { %x = input {name=\"x\"} : f32[3] @{} %k = const {value=3} "
    ": i64[] %o = const {value=0} : f32[4, 3]\n"
    "%t = loop %k {trips=n} : i64[] %h = carry %x : f32[3] %s = carry %o : f32[4, 3] %i = iota {axis=0, start=1} : "
    "i64[2] %p = gather %i, %t {axis=0, start=0} : i64[]\n"
    "%u = loop %p {trips=2} : i64[] %g = carry %h : f32[3] %g1 = add %g, %x : f32[3] %e = gather %x, %u {axis=0, "
    "start=0} : f32[] %z = const {value=1} : f32[]\n"
    "%c = lt %e, %z : bool[] repeat \"in\" %u, %c %gl = leave %g, %g1 : f32[3] %r = reshape %gl : f32[1, 3] %s1 = "
    "update %s, %r, %t {axis=0, start=0} : f32[4, 3]\n"
    "%m = mask_partial %gl {mesh_axes=[a], op=sum} : f32[3] %a = all_reduce %m {mesh_axes=[a], op=sum} : f32[3]\n"
    "repeat \"out\" %t %hl = leave %h, %a : f32[3] %sl = leave %s, %s1 : f32[4, 3] output \"h\" %hl @{} output \"s\" "
    "%sl @{} }"};

static const char *const words[] = {"0",       "1",
                                    "2",       "3",
                                    "7",       "9223372036854775807",
                                    "-1",      "4611686018427387904",
                                    "1000000", "@a",
                                    "n",       "f32",
                                    "i8",      "bool",
                                    "sum",     "max",
                                    "or",      "and",
                                    "one",     "product"};

static bool word_char(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '@'; }

/* Names stay: a program without a value that it uses does not even parse. */
static bool worth_changing(const char *s) {
  return (*s >= '0' && *s <= '9') || *s == '@' || strncmp(s, "sum", 3) == 0 || strncmp(s, "max", 3) == 0 ||
         strncmp(s, "one", 3) == 0;
}

/* The text with one or two words replaced. */
static const char *mutate(Arena *arena, const char *s, uint64_t seed) {
  uint64_t drawn = 0;
  for (uint64_t tries = 2 + random_below(seed, 0, drawn++, 8); tries; tries--) {
    size_t n = strlen(s), at = random_below(seed, 0, drawn++, n), end;
    while (at < n && !word_char(s[at])) at++;
    while (at > 0 && word_char(s[at - 1])) at--;
    if (!worth_changing(s + at) || (at && s[at - 1] == '%')) continue;
    for (end = at; word_char(s[end]);) end++;
    const char *word = words[random_below(seed, 0, drawn++, sizeof words / sizeof *words)];
    s = arena_printf(arena, "%.*s%s%s", (int)at, s, word, s + end);
  }
  return s;
}

static void mutants(void) {
  int parsed = 0, valid = 0, ran = 0;
  for (uint64_t seed = 0; seed < 18000; seed++) {
    Arena *arena = arena_new();
    Diags *diags = diags_new(arena);
    Module *m = ir_parse("mutant", arena_printf(arena, "apc.ir 1\n%s", mutate(arena, seeds[seed % 3], seed)), diags);
    const Func *f = m ? module_func(m, "main") : NULL;
    parsed += f != NULL;
    if (f && verify_module(m, diags)) {
      valid++;
      for (int d = 0; d < 2; d++) {
        InterpOptions o = {.domain = (InterpDomain)d, .max_cells = 1 << 18, .max_rounds = 100};
        InterpNamed x = {"x", interp_tensor(arena, DT_f32, 1, (int64_t[]){3})};
        InterpResult r;
        bool ok = interp_run(m, f, &o, 1, &x, arena, &r, diags);
        ran += ok;
        CHECK(ok || diags->errors > 0);
      }
    }
    if (m) module_free(m);
    arena_free(arena);
  }
  printf("%d parsed, %d valid, %d runs succeeded\n", parsed, valid, ran);
  CHECK(valid > 1000 && ran > 100 && ran < 2 * valid);
}

int main(void) {
  RUN(mutants);
  return test_summary();
}
