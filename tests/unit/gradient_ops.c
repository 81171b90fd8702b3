/* Operations that gradients need, compared with central differences, in doubles; and their results where there is no
 * derivative.
 *
 * A program has inputs, an output "loss" (a scalar), and for some inputs NAME an output "d_NAME". */
#include <math.h>
#include <string.h>

#include "tests/interp_test.h"

static const InterpTensor *output_of(const InterpResult *r, const char *name) {
  return interp_find(r->outputs, r->noutputs, name);
}

static InterpResult run(InterpProgram *p, const Func *f, int n, const InterpNamed *in) {
  InterpResult r = {0};
  if (interp_run(p->m, f, &p->options, n, in, p->arena, &r, p->diags)) return r;
  diags_print(p->diags, stderr, false);
  exit(1);
}

static double loss_at(InterpProgram *p, const Func *f, int n, const InterpNamed *in, double *x, double value) {
  double before = *x;
  *x = value;
  InterpResult r = run(p, f, n, in);
  *x = before;
  return output_of(&r, "loss")->cells[0].f;
}

/* Compares every element of every gradient; returns their number. */
static int compare(const char *text, double tolerance) {
  static const double h = 1e-5;
  InterpProgram p = interp_program(text);
  const Func *f = module_func(p.m, "main");
  int n, compared = 0;
  InterpNamed *in = interp_random_inputs(p.m, f, DOMAIN_FLOAT, NULL, 7, p.arena, &n, p.diags);
  InterpResult r = run(&p, f, n, in);
  for (int i = 0; i < n; i++) {
    const InterpTensor *d = output_of(&r, arena_printf(p.arena, "d_%s", in[i].name));
    InterpTensor *x = &in[i].tensor;
    for (int64_t k = 0; d && k < interp_elements(x); k++, compared++) {
      double *at = &x->cells[k].f, up = loss_at(&p, f, n, in, at, *at + h), down = loss_at(&p, f, n, in, at, *at - h);
      double want = (up - down) / (2 * h), got = d->cells[k].f;
      CHECKF(fabs(got - want) <= tolerance * (1 + fabs(want)), "d_%s[%lld] is %g, not %g, in\n%s", in[i].name,
             (long long)k, got, want, text);
    }
  }
  program_free(&p);
  return compared;
}

/* ---- pools */

#define POOL(x, dy, axes, all, attrs) \
  "func @main level 1 {\n" \
  "  %x = input {name=\"x\"} : " x "\n  %dy = input {name=\"dy\"} : " dy \
  "\n" \
  "  %y = pool %x {op=max, axes=" axes ", " attrs "} : " dy \
  "\n" \
  "  %p = mul %y, %dy : " dy "\n  %loss = reduce %p {op=sum, axes=" all \
  "} : f64[]\n" \
  "  %dx = pool_grad %x, %dy {axes=" axes ", " attrs "} : " x \
  "\n" \
  "  output \"loss\" %loss\n  output \"d_x\" %dx\n}\n"

static void pools(void) {
  int n = compare(POOL("f64[2, 3, 7, 6]", "f64[2, 3, 4, 4]", "[2, 3]", "[0, 1, 2, 3]",
                       "window=[3, 3], starts=[-1, -1], strides=[2, 2], dilations=[1, 1]"),
                  1e-6);
  n += compare(
      POOL("f64[2, 9, 3]", "f64[2, 4, 3]", "[1]", "[0, 1, 2]", "window=[2], starts=[0], strides=[2], dilations=[3]"),
      1e-6);
  n += compare(POOL("f64[5, 2, 4, 3]", "f64[6, 2, 4, 2]", "[0, 2, 3]", "[0, 1, 2, 3]",
                    "window=[2, 3, 2], starts=[-1, -1, 0], strides=[1, 1, 1], dilations=[1, 1, 1]"),
               1e-6);
  CHECK(n == 252 + 54 + 120);
}

/* Equal elements: the first gets the whole gradient; infinities and NaN are elements like others. */
static void first_of_equal_elements(void) {
  InterpProgram p = interp_program(
      "func @main level 1 {\n  %x = input {name=\"x\"} : f64[2, 5]\n  %dy = input {name=\"dy\"} : f64[2, 6]\n"
      "  %dx = pool_grad %x, %dy {axes=[1], window=[2], starts=[-1], strides=[1], dilations=[1]} : f64[2, 5]\n"
      "  output \"dx\" %dx\n}\n");
  program_numbers(&p, "x", DT_f64, 2, (const int64_t[]){2, 5},
                  (const double[]){1, 1, 0, 0, 1, -INFINITY, -INFINITY, NAN, NAN, INFINITY});
  program_numbers(&p, "dy", DT_f64, 2, (const int64_t[]){2, 6},
                  (const double[]){1, 2, 4, 8, 16, 32, 1, 2, 4, 8, 16, 32});
  CHECK(tool_program_run(&p, "main"));
  CHECK_OUTPUT(&p, "dx", 3, 4, 8, 0, 48, 3, 0, 12, 16, 32);
  program_free(&p);
}

/* ---- attention */

typedef struct Attention {
  const char *shape, *keys, *values; /* of q, k, v */
  const char *result, *sums;
  const char *bias, *bias_shape; /* NULL if nothing is added */
  int first, causal, length;     /* position of the first query; number of valid keys */
} Attention;

static int attention(const Attention *a) {
  static const char of[] = "qkv";
  const char *const types[] = {a->shape, a->keys, a->values};
  Arena *arena = arena_new();
  Text t = {.arena = arena};
  const char *bias = a->bias ? arena_printf(arena, ", bias=\"%s\"", a->bias) : "",
             *attrs = arena_printf(arena, "scale=0.7, causal=%d%s", a->causal, bias), *all = "%q, %k, %v, %s, %j, %n";
  const char *last = strrchr(a->sums, ',') + 1, *keys = strchr(strchr(a->keys, ',') + 1, ',') + 1; /* extents s and t */
  text_add(&t, "func @main level 1 {\n");
  for (int i = 0; i < 3; i++) text_printf(&t, "  %%%c = input {name=\"%c\"} : f64[%s]\n", of[i], of[i], types[i]);
  text_printf(&t, "  %%i = iota {axis=0, start=0} : i64[%s]\n", last);
  text_printf(&t, "  %%f = const {value=%d} : i64[%s]\n  %%s = add %%i, %%f : i64[%s]\n", a->first, last, last);
  text_printf(&t, "  %%j = iota {axis=0, start=0} : i64[%.*s]\n  %%n = const {value=%d} : i64[]\n",
              (int)strcspn(keys, ","), keys, a->length);
  if (a->bias) {
    text_printf(&t, "  %%x = input {name=\"x\"} : f64[%s]\n", a->bias_shape);
    all = "%q, %k, %v, %s, %j, %n, %x";
  }
  text_printf(&t, "  %%d = input {name=\"d\"} : f64[%s]\n", a->result);
  text_printf(&t, "  %%o, %%m, %%l = attention %s {%s, sums=1} : f64[%s], f64[%s], f64[%s]\n", all, attrs, a->result,
              a->sums, a->sums);
  text_printf(&t, "  %%p = mul %%o, %%d : f64[%s]\n  %%loss = reduce %%p {op=sum, axes=[0, 1, 2, 3, 4]} : f64[]\n",
              a->result);
  text_add(&t, "  output \"loss\" %loss\n");
  for (int i = 0; i < 3; i++) {
    text_printf(&t, "  %%d%c = attention_grad %s, %%o, %%m, %%l, %%d {of=\"%c\", %s} : f64[%s]\n", of[i], all, of[i],
                attrs, types[i]);
    text_printf(&t, "  output \"d_%c\" %%d%c\n", of[i], of[i]);
  }
  text_add(&t, "}\n");
  int n = compare(text_str(&t), 1e-6);
  arena_free(arena);
  return n;
}

static void attentions(void) {
  static const Attention cases[] = {
      {"2,2,3,4,5", "2,2,6,5", "2,2,6,3", "2,2,3,4,3", "2,2,3,4", NULL, NULL, 0, 0, 6},
      {"2,1,2,4,3", "2,1,6,3", "2,1,6,4", "2,1,2,4,4", "2,1,2,4", NULL, NULL, -1, 1, 6}, /* query 0 sees no key */
      {"1,2,2,3,2", "1,2,5,2", "1,2,5,2", "1,2,2,3,2", "1,2,2,3", NULL, NULL, 1, 1, 3},  /* hidden keys */
      {"2,2,2,3,2", "2,2,4,2", "2,2,4,3", "2,2,2,3,3", "2,2,2,3", "bst", "2,3,4", 0, 1, 4},
      {"1,2,2,3,2", "1,2,4,2", "1,2,4,3", "1,2,2,3,3", "1,2,2,3", "bgrst", "1,2,2,3,4", 0, 0, 3},
  };
  int n = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) n += attention(&cases[i]);
  CHECK(n == 432 + 132 + 64 + 128 + 64);
}

int main(void) {
  RUN(pools);
  RUN(attentions);
  RUN(first_of_equal_elements);
  return test_summary();
}
