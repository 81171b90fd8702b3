/* tests/unit/ir_malformed.c - malformed IR text: the position and the message of the only error; hostile sizes end
 * quickly. */
#include <stdlib.h>

#include "ir/ir.h"
#include "tests/test.h"

#define TOPK(results) FUNC "  %x = input {name=\"x\"} : f32[4]\n  " results " = topk %x {axis=0, descending=1, k=2}"

typedef struct Bad {
  const char *text;
  int line, col;
  const char *message;
} Bad;

#define HEAD "apc.ir 1\n"
#define FUNC HEAD "symbol n\nfunc @f level 1 {\n"

static const Bad bad[] = {
    {"", 1, 1, "the first line must be 'apc.ir 1'"},
    {"apc.ir 2\n", 1, 8, "IR version 2"},
    {HEAD "nonsense\n", 2, 1, "expected symbol, mesh, blob, param, state or func"},
    {HEAD "symbol n\nsymbol n\n", 3, 8, "duplicate symbol n"},
    {HEAD "symbol 1n\n", 2, 8, "a symbol must not start with a digit"},
    {HEAD "symbol b min 5 max 2\n", 2, 8, "symbol b: min 5 is above max 2"},
    {HEAD "symbol b min 5 max 7 multiple 4\n", 2, 8, "symbol b: no multiple of 4 lies between 5 and 7"},
    {HEAD "mesh [x=0]\n", 2, 7, "axis size 0"},
    {HEAD "mesh [x=2]\nmesh []\n", 3, 6, "duplicate mesh"},
    {HEAD "mesh [x=2, x=2]\n", 2, 12, "bad or repeated axis name x"},
    {HEAD "mesh [a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1]\n", 2, 39, "more than 8 mesh axes"},
    {FUNC "  %x = input {name=\"x\"} : f33[4]\n}\n", 4, 27, "unknown element type 'f33'"},
    {FUNC "  %x = input {name=\"x\"} : f32[-4]\n}\n", 4, 31, "negative extent"},
    {FUNC "  %x = input {name=\"x\"} : f32[99999999999999999999]\n}\n", 4, 31, "is not a 64-bit integer"},
    {FUNC "  %x = input {name=\"x\"} : f32[n div 0]\n}\n", 4, 37, "divisor must be positive"},
    {FUNC "  %x = input {name=\"x\"} : f32[4, n div (3 - 3)]\n}\n", 4, 40, "divisor must be positive"},
    {FUNC "  %x = input {name=\"x\"} : f32[4, n*4611686018427387904*2]\n}\n", 4, 34, "a size does not fit 64 bits"},
    {FUNC "  %x = input {name=\"x\"} : f32[n - 9223372036854775808 div 3]\n}\n", 4, 59,
     "the dividend is not a 64-bit integer"},
    {FUNC "  %x = input {name=\"x\"} : f32[k]\n}\n", 4, 31, "unknown symbol 'k'"},
    {FUNC "  %x = input {name=\"x\"} : f32[1,1,1,1,1,1,1,1,1]\n}\n", 4, 47, "more than 8 dimensions"},
    {FUNC "  %x = input {name=\"x\n", 4, 20, "unterminated string"},
    {FUNC "  %x = frobnicate : f32[4]\n}\n", 4, 8, "frobnicate"},
    {TOPK("%v") " : f32[2]\n}\n", 5, 3, "topk has 2 results here, not 1"},
    {TOPK("%v, %i, %j") " : f32[2], i64[2], i64[2]\n}\n", 5, 3, "topk has 2 results here, not 3"},
    {TOPK("%a, %b, %c, %d, %e") " : f32[2]\n}\n", 5, 20, "more than 4 results"},
    {TOPK("%v, %i") " : f32[2]\n}\n", 6, 1, "expected ','"},
    {TOPK("%v, %i") " : f32[2], f32[2]\n}\n", 5, 3, "the result i is i64[2], unlike the written type"},
    {TOPK("%v, %v") " : f32[2], i64[2]\n}\n", 5, 3, "the name v is used twice"},
    {TOPK("%v, %x") " : f32[2], i64[2]\n}\n", 5, 3, "the name x is used twice"},
    {TOPK("%v, i") " : f32[2], i64[2]\n}\n", 5, 7, "expected '%'"},
    {FUNC "  %x = neg %y : f32[4]\n}\n", 4, 12, "no value %y above this line"},
    {FUNC "  output \"y\" %y\n}\n", 4, 14, "no value %y above this line"},
    {FUNC "  %x = const {value=1} : i64[]\n  %t = loop %x : i64[]\n  repeat \"r\" %t\n  %y = neg %r : i64[]\n}\n", 7,
     12, "\"r\" above this line has no result"},
    {FUNC "  %x = input {name=\"x\"} : f32[4]\n", 5, 1, "function @f has no closing '}'"},
    {HEAD "func @f level 3 {\n}\n", 2, 15, "level 3 is not 1 or 2"},
};

static void each_is_located(void) {
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    Arena *a = arena_new();
    Diags *d = diags_new(a);
    Module *m = ir_parse("bad.ir", bad[i].text, d);
    CHECKF(!m && d->n == 1, "case %zu: %zu diagnostics", i, d->n);
    if (d->n) {
      const Diag *x = &d->items[0];
      CHECKF(x->loc.line == bad[i].line && x->loc.col == bad[i].col && strstr(x->message, bad[i].message),
             "case %zu: %d:%d: %s", i, x->loc.line, x->loc.col, x->message);
    }
    module_free(m);
    arena_free(a);
  }
}

/* `begin`, n times `before`, a number from 2 on, `after`, and `end`: refused with the message. */
static void refused(const char *begin, const char *before, const char *after, int n, const char *end,
                    const char *message) {
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Text t = {.arena = a};
  text_add(&t, begin);
  for (int i = 0; i < n; i++) text_add(&t, arena_printf(a, "%s%d%s", before, i + 2, after));
  text_add(&t, end);
  Module *m = ir_parse("bad.ir", text_str(&t), d);
  CHECK(!m && d->n == 1);
  if (d->n) CHECKF(strstr(d->items[0].message, message), "%s", d->items[0].message);
  module_free(m);
  arena_free(a);
}

static void hostile_sizes_end(void) {
  refused(FUNC "%x = input {name=\"x\"} : f32[n", " + n div ", "", 5000, "]\n}\n", "a size has too many terms");
  refused(FUNC "%x = input {name=\"x\"} : f32[min(n", ", n div ", "", 5000, ")]\n}\n", "a size has too many terms");
  refused(FUNC "%x = input {name=\"x\"} : f32[0", " + ", " - n + n", 5000, "]\n}\n", "more than 4000 terms");
  refused(FUNC "%x = input {name=\"x\"} : f32[", "(", " + ", 100000, "n]\n}\n", "nested too deeply");
  refused(HEAD, "symbol s", "\n", 20000, "", "more than 4096 symbols");
}

int main(void) {
  RUN(each_is_located);
  RUN(hostile_sizes_end);
  return test_summary();
}
