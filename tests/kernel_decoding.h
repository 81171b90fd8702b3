/* tests/kernel_decoding.h - cases for kernels of decoding on GPUs: products of few rows with what joins them, and
 * rotations and updates of caches (codegen/rows/work_few.c, work_cache.c). */
#ifndef APC_TESTS_KERNEL_DECODING_H
#define APC_TESTS_KERNEL_DECODING_H

#include "tests/kernel_case.h"

/* Products of `rows` by `depth`, of the value or its norm; columns of each product. */
typedef struct FewCase {
  const char *type, *rows, *depth, *norm; /* norm: NULL for none */
  bool gain, shift, turned, bias, residual;
  const char *after; /* "gate": silu of the first times the second; a function of the only product; NULL: nothing */
  int n;
  const char *columns[3];
} FewCase;

static void few_value(Text *t, const FewCase *c, const char *x) {
  text_printf(t, "  %%x = input {name=\"x\"} : %s @{}\n", x);
  if (!c->norm) return;
  text_printf(t, "  %%n = norm %%x {kind=\"%s\", eps=1e-5} : %s\n", c->norm, x);
  for (int i = 0; i < 2; i++) {
    if (i ? !c->shift : !c->gain) continue;
    const char *name = i ? "s" : "g", *before = i && c->gain ? "ng" : "n";
    text_printf(t, "  %%%s = param {name=\"%s\"} : %s[%s] @{}\n  %%%sb = broadcast %%%s {dims=[1]} : %s\n", name, name,
                c->type, c->depth, name, name, x);
    text_printf(t, "  %%n%s = %s %%%s, %%%sb : %s\n", name, i ? "add" : "mul", before, name, x);
  }
}

static const char *few_product(Text *t, const FewCase *c, int i, const char *value) {
  const char *y = arena_printf(t->arena, "%s[%s,%s]", c->type, c->rows, c->columns[i]),
             *now = arena_printf(t->arena, "p%d", i);
  text_printf(t, "  %%p%d = dot %%%s, %%w%d {spec=\"%s\"} : %s\n", i, value, i, c->turned ? "mk,nk->mn" : "mk,kn->mn",
              y);
  if (c->bias) {
    text_printf(t, "  %%vb%d = broadcast %%v%d {dims=[1]} : %s\n  %%b%d = add %%%s, %%vb%d : %s\n", i, i, y, i, now, i,
                y);
    now = arena_printf(t->arena, "b%d", i);
  }
  if (c->residual) {
    text_printf(t, "  %%r%d = add %%z, %%%s : %s\n", i, now, y);
    now = arena_printf(t->arena, "r%d", i);
  }
  return now;
}

static void few_case(const FewCase *c, size_t number) {
  Arena *a = arena_new();
  Text t = {.arena = a};
  const char *x = arena_printf(a, "%s[%s,%s]", c->type, c->rows, c->depth), *now[3] = {NULL},
             *y = arena_printf(a, "%s[%s,%s]", c->type, c->rows, c->columns[0]),
             *value = !c->norm   ? "x"
                      : c->shift ? "ns"
                      : c->gain  ? "ng"
                                 : "n";
  text_add(&t, "symbol b hint 3\nmesh [tp=1] stages 1\n");
  for (int i = 0; i < c->n; i++) {
    text_printf(&t, "param \"w%d\" : %s[%s,%s] = zeros\n", i, c->type, c->turned ? c->columns[i] : c->depth,
                c->turned ? c->depth : c->columns[i]);
    text_printf(&t, "param \"v%d\" : %s[%s] = zeros\n", i, c->type, c->columns[i]);
  }
  text_printf(&t, "param \"g\" : %s[%s] = zeros\nparam \"s\" : %s[%s] = zeros\nfunc @r level 2 {\n", c->type, c->depth,
              c->type, c->depth);
  few_value(&t, c, x);
  if (c->residual) text_printf(&t, "  %%z = input {name=\"z\"} : %s @{}\n", y);
  for (int i = 0; i < c->n; i++) {
    text_printf(&t, "  %%w%d = param {name=\"w%d\"} : %s[%s,%s] @{}\n", i, i, c->type,
                c->turned ? c->columns[i] : c->depth, c->turned ? c->depth : c->columns[i]);
    if (c->bias) text_printf(&t, "  %%v%d = param {name=\"v%d\"} : %s[%s] @{}\n", i, i, c->type, c->columns[i]);
    now[i] = few_product(&t, c, i, value);
  }
  bool gate = c->after && strcmp(c->after, "gate") == 0;
  if (gate)
    text_printf(&t, "  %%h = sigmoid %%%s : %s\n  %%k = mul %%%s, %%h : %s\n  %%y0 = mul %%k, %%%s : %s\n", now[0], y,
                now[0], y, now[1], y);
  else if (c->after) text_printf(&t, "  %%y0 = %s %%%s : %s\n", c->after, now[0], y);
  for (int i = 0; i < (gate ? 1 : c->n); i++)
    text_printf(&t, "  output \"y%d\" %%%s @{}\n", i, c->after ? "y0" : now[i]);
  text_add(&t, "}\n");
  add_case(arena_printf(a, "few rows %zu", number), interp_program(text_str(&t)), (uint64_t)ncases);
  arena_free(a);
}

static void few_products(void) {
  static const FewCase list[] = {
      {"bf16", "1", "64", NULL, .n = 1, .columns = {"96"}},
      {"f16", "b", "5000", NULL, .n = 1, .residual = true, .columns = {"40"}}, /* terms in parts */
      {"bf16", "13", "1100", NULL, .n = 1, .bias = true, .residual = true,
       .columns = {"37"}}, /* two tiles, unaligned */
      {"bf16", "2", "264", "rms", .gain = true, .n = 3, .columns = {"64", "32", "32"}},
      {"f16", "8", "100", "layer", .gain = true, .shift = true, .n = 3, .bias = true, .columns = {"64", "33", "7"}},
      {"bf16", "1", "4200", "rms", .gain = true, .n = 2, .after = "gate", .columns = {"72", "72"}},
      {"bf16", "b", "330", "layer", .n = 2, .turned = true, .bias = true, .after = "gate", .columns = {"40", "40"}},
      {"bf16", "16", "1030", NULL, .turned = true, .n = 1, .residual = true, .columns = {"50"}},
      {"f16", "1", "5003", "rms", .shift = true, .turned = true, .n = 3, .columns = {"3", "64", "1"}},
      {"bf16", "4", "72", NULL, .n = 1, .bias = true, .after = "tanh", .columns = {"32"}},
      {"f16", "5", "96", NULL, .n = 1, .bias = true, .after = "relu", .columns = {"64"}}};
  case_device = DEVICE_cuda;
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) few_case(&list[i], i);
  case_device = DEVICE_cpu;
}

/* One token or several, with heads of queries that share keys; `rope` or values as they are. */
static void cached_case(const char *type, const char *s, const char *heads, bool rotated, bool interleaved) {
  Arena *a = arena_new();
  Text t = {.arena = a};
  text_printf(&t,
              "symbol b hint 2\nsymbol s hint 3\nmesh [tp=1] stages 1\n"
              "state \"keys\" : %s[b,2,40,16] = 0\nstate \"values\" : %s[b,2,40,12] = 0\n"
              "func @r level 2 {\n  %%at = input {name=\"at\"} : i64[] @{}\n"
              "  %%o = iota {axis=0, start=0} : i64[%s]\n  %%ab = broadcast %%at {dims=[]} : i64[%s]\n"
              "  %%i = add %%o, %%ab : i64[%s]\n",
              type, type, s, s, s);
  text_printf(&t,
              "  %%q0 = input {name=\"q0\"} : %s[b,2,%s,%s,16] @{}\n  %%k0 = input {name=\"k0\"} : %s[b,%s,2,16] @{}\n"
              "  %%v0 = input {name=\"v0\"} : %s[b,%s,2,12] @{}\n",
              type, s, heads, type, s, type, s);
  for (int i = 0; i < 2 && rotated; i++)
    text_printf(&t, "  %%%s1 = rope %%%s0, %%i {base=100, interleaved=%d} : %s[b,%s16]\n", i ? "k" : "q", i ? "k" : "q",
                interleaved, type, i ? arena_printf(a, "%s,2,", s) : arena_printf(a, "2,%s,%s,", s, heads));
  const char *n = rotated ? "1" : "0";
  text_printf(&t,
              "  %%q = transpose %%q%s {perm=[0, 1, 3, 2, 4]} : %s[b,2,%s,%s,16]\n"
              "  %%k = transpose %%k%s {perm=[0, 2, 1, 3]} : %s[b,2,%s,16]\n"
              "  %%v = transpose %%v0 {perm=[0, 2, 1, 3]} : %s[b,2,%s,12]\n",
              n, type, heads, s, n, type, s, type, s);
  for (int i = 0; i < 2; i++) {
    const char *name = i ? "values" : "keys", *wide = i ? "12" : "16", *v = i ? "v" : "k";
    text_printf(&t,
                "  %%%s = read {name=\"%s\"} : %s[b,2,40,%s] @{}\n"
                "  %%%s.1 = update %%%s, %%%s, %%at {axis=2, start=0} : %s[b,2,40,%s]\n"
                "  write \"%s.write\" %%%s.1 {name=\"%s\"}\n",
                name, name, type, wide, name, name, v, type, wide, name, name, name);
  }
  text_printf(
      &t,
      "  %%p = iota {axis=0, start=0} : i64[40]\n  %%n = size {expr=%s} : i64[]\n  %%l = add %%at, %%n : i64[]\n"
      "  %%y = attention %%q, %%keys.1, %%values.1, %%i, %%p, %%l {scale=0.5, causal=1} : %s[b,2,%s,%s,12]\n"
      "  output \"y\" %%y @{}\n  output \"k\" %%keys.1 @{}\n  output \"v\" %%values.1 @{}\n}\n",
      s, type, heads, s);
  add_case(arena_printf(a, "caches %s, %s of %s heads%s", type, s, heads, interleaved ? ", interleaved" : ""),
           interp_program(text_str(&t)), (uint64_t)ncases);
  arena_free(a);
}

static void cached_attentions(void) {
  case_device = DEVICE_cuda;
  cached_case("bf16", "1", "4", true, false);
  cached_case("f16", "s", "1", true, true);
  cached_case("f32", "s", "8", true, false);
  cached_case("f64", "1", "2", false, false);
  case_device = DEVICE_cpu;
}

#endif
