/* Generated CPU kernels against the reference interpreter: every operation and random fused graphs (tests/kernel_cases.h).
 *
 * All cases are compiled in a few large files.  Every case runs twice: with results in memory of their own, and sharing
 * memory with operands wherever units.h allows it. */
#include "tests/kernel_cases.h"

/* Strides, dilations, padding on both sides, groups, channels last, one to three dimensions. */
static void windows(void) {
  static const char *const types[] = {"f32", "f64", "f16", "bf16"};
  static const char *const rows[][5] = {
      {"conv", "b,3,s", "4,3,5", "spec=\"ncH,ocH->noH\", starts=[-2], strides=[1], dilations=[1]", "b,4,s"},
      {"conv", "b,3,9,s", "4,3,3,2", "spec=\"ncHW,ocHW->noHW\", starts=[-1, -3], strides=[2, 1], dilations=[1, 2]", "b,4,5,s + 4"},
      {"conv", "2,7,s,6", "3,3,6,5", "spec=\"nHWc,HWco->nHWo\", starts=[0, -1], strides=[3, 2], dilations=[2, 1]", "2,1,(s + 1) div 2,5"},
      {"conv", "b,2,3,5,4,s", "2,3,3,2,2,3", "spec=\"ngcDHW,gocDHW->ngoDHW\", starts=[-1, 0, -1], strides=[2, 1, 1], dilations=[1, 1, 1]", "b,2,3,2,3,s"},
      /* channels last: tiles with all their tails */
      {"conv", "b,7,s,5", "3,3,5,53", "spec=\"nHWc,HWco->nHWo\", starts=[-1, -1], strides=[1, 1], dilations=[1, 1]", "b,7,s,53"},
      {"conv", "b,s,9,3,2", "2,3,3,2,17", "spec=\"nHWgc,HWgco->nHWgo\", starts=[0, -2], strides=[2, 1], dilations=[1, 2]", "b,s div 2,9,3,17"},
      {"conv", "b,6,s,21,1", "3,3,21,1,1", "spec=\"nHWgc,HWgco->nHWgo\", starts=[-1, -1], strides=[1, 2], dilations=[1, 1]", "b,6,(s + 1) div 2,21,1"},
      {"conv", "b,s,4", "3,4,1", "spec=\"nHc,Hco->nHo\", starts=[-2], strides=[1], dilations=[2]", "b,s,1"},
      {"conv", "b,5,s,4", "3,3,2,4,32", "spec=\"nHWc,pHWcq->nHWpq\", starts=[-1, -1], strides=[1, 1], dilations=[1, 1]", "b,5,s + 1,3,32"},
      {"conv", "b,s,3", "2,1,3,16", "spec=\"nHc,pHcq->nHpq\", starts=[0], strides=[2], dilations=[1]", "b,(s + 1) div 2,2,16"},
      {"conv_transpose", "b,5,s,6", "3,2,6,19", "spec=\"nHWo,HWoc->nHWc\", starts=[-1, 0], strides=[2, 2], dilations=[1, 1]", "b,9,2*s,19"},
      {"conv_transpose", "b,4,s,18,1", "3,2,18,1,1", "spec=\"nHWgo,HWgoc->nHWgc\", starts=[-1, 0], strides=[1, 3], dilations=[2, 1]", "b,6,3*s,18,1"},
      {"conv_transpose", "b,3,s", "3,4,5", "spec=\"noH,ocH->ncH\", starts=[-2], strides=[2], dilations=[1]", "b,4,2*s"},
      {"conv_transpose", "b,4,5,s", "4,3,3,2", "spec=\"noHW,ocHW->ncHW\", starts=[-1, 0], strides=[1, 3], dilations=[2, 1]", "b,3,6,3*s"},
      {"conv_filter", "b,3,s", "b,2,s", "spec=\"ncH,noH->ocH\", starts=[-1], strides=[1], dilations=[2]", "2,3,2"},
      {"conv_filter", "b,3,9,s", "b,2,4,s", "spec=\"ncHW,noHW->ocHW\", starts=[-1, -1], strides=[2, 1], dilations=[1, 1]", "2,3,3,3"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int k = 0; k < (i % 2 ? 1 : 4); k++) {
      Arena *a = arena_new();
      const char *t = types[k], *const *r = rows[i];
      text_case(arena_printf(a, "%s %zu %s", r[0], i, t),
                arena_printf(a, "  %%x = input {name=\"x\"} : %s[%s] @{}\n  %%w = input {name=\"w\"} : %s[%s] @{}\n  %%y = %s %%x, %%w {%s} : %s[%s]\n" OUTF("y"),
                             t, r[1], t, r[2], r[0], r[3], t, r[4]));
      arena_free(a);
    }
  text_case("pool max", IN("x", "f32[b,3,7,s]") "  %y = pool %x {op=max, axes=[2, 3], window=[3, 2], starts=[-1, 0], strides=[2, 1], dilations=[1, 2]} : f32[b,3,4,s - 2]\n" OUT("y"));
  text_case("pool sum last", IN("x", "f32[b,s,6,5]") "  %y = pool %x {op=sum, axes=[1, 2], window=[2, 3], starts=[0, -2], strides=[1, 3], dilations=[1, 1]} : f32[b,s,3,5]\n" OUT("y"));
  text_case("pool apart", IN("x", "i16[6,b,s,2]") "  %y = pool %x {op=min, axes=[0, 2], window=[3, 3], starts=[-1, -1], strides=[1, 2], dilations=[1, 1]} : i16[6,b,(s + 1) div 2,2]\n" OUT("y"));
  text_case("pool beyond", IN("x", "bf16[b,s]") "  %y = pool %x {op=max, axes=[1], window=[2], starts=[-4], strides=[1], dilations=[1]} : bf16[b,s + 8]\n" OUT("y"));
  text_case("pool product", IN("x", "u8[s]") "  %y = pool %x {op=product, axes=[0], window=[2], starts=[0], strides=[2], dilations=[1]} : u8[s div 2]\n" OUT("y"));
}

static void indexing(void) {
  static const char *const types[] = {"f32", "f64", "bf16", "i8", "u64"};
  for (int i = 0; i < 5; i++) {
    Arena *a = arena_new();
    const char *t = types[i];
    text_case(arena_printf(a, "order %s", t),
              arena_printf(a, "  %%x = input {name=\"x\"} : %s[b,s,3] @{}\n  %%p = argsort %%x {axis=1, descending=0} : i64[b,s,3]\n  %%q = argsort %%x {axis=2, descending=1} : i64[b,s,3]\n"
                           "  %%y = take %%x, %%p {axis=1, start=0} : %s[b,s,3]\n  %%c = scan %%x {op=sum, axis=1, exclusive=0, reverse=0} : %s[b,s,3]\n"
                           "  %%m = scan %%x {op=max, axis=0, exclusive=1, reverse=1} : %s[b,s,3]\n" OUTF("p") OUTF("q") OUTF("y") OUTF("c") OUTF("m"), t, t, t, t));
    text_case(arena_printf(a, "scatter %s", t),
              arena_printf(a, "  %%x = input {name=\"x\"} : %s[b,s,70] @{}\n  %%i = iota {axis=0, start=0} : i64[s]\n  %%three = const {value=3} : i64[s]\n  %%m = mod %%i, %%three : i64[s]\n"
                           "  %%y = scatter %%x, %%m {op=sum, axis=1, start=1} : %s[b,4,70]\n  %%j = broadcast %%m {dims=[1]} : i64[b,s,70]\n"
                           "  %%z = put %%x, %%j {op=max, axis=1, start=0} : %s[b,2,70]\n" OUTF("y") OUTF("z"), t, t, t));
    arena_free(a);
  }
  text_case("take", IN("x", "f32[b,5,s]") IN("i", "i32[b,9,s]") "  %k = const {value=7} : i32[b,9,s]\n  %m = mod %i, %k : i32[b,9,s]\n  %y = take %x, %m {axis=1, start=1} : f32[b,9,s]\n  %e = exp %y : f32[b,9,s]\n" OUT("y") OUT("e"));
}

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
  RUN(windows);
  RUN(indexing);
  RUN(all_cases);
  printf("%d cases, %zu kernels\n", ncases, kernels.kernels.n);
  return test_summary();
}
