/* tests/unit/program_loops.c - loops of level-2 functions, compiled and run, compared with the reference interpreter on
 * level 1: their results, copies and memory; many random ones, since carries, initial and next values share memory. */
#include <stdlib.h>
#include <unistd.h>

#include "codegen/artifact.h"
#include "ir/run/interp.h"
#include "runtime/apc_runtime.h"
#include "program/memory.h"
#include "program/order.h"
#include "tests/temp.h"
#include "tests/test.h"

#define OK(call) CHECKF((call) == APC_OK, "%s", apc_error(model))

static const char *stub(Arena *a) {
  static char path[4096];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  if (n < 0) exit(1);
  path[n] = 0;
  for (int i = 0; i < 2; i++) *strrchr(path, '/') = 0;
  return arena_printf(a, "%s/apcrt-stub", path);
}

/* ---- entries of i64 x[3], n, m, compiled together */

enum { MOST_ENTRIES = 64, SIZE = 3 };

typedef struct Suite {
  Arena *arena;
  Diags *diags;
  Module *m;
  int n;
  const char *bodies[MOST_ENTRIES]; /* level 2: layouts " @{}" after inputs and outputs */
  const char *l1[MOST_ENTRIES];     /* NULL for the same without layouts */
  ProgramEntrySpec entries[MOST_ENTRIES];
  ApcModel *model;
} Suite;

static const char *without_layouts(Arena *a, const char *text) {
  Text t = {.arena = a};
  for (const char *at; (at = strstr(text, " @{")); text = strchr(at, '}') + 1)
    text_printf(&t, "%.*s", (int)(at - text), text);
  text_add(&t, text);
  return text_str(&t);
}

static Suite suite_new(void) {
  Suite s = {.arena = arena_new()};
  s.diags = diags_new(s.arena);
  return s;
}

static void failed(const Suite *s, const char *text) {
  diags_print(s->diags, stderr, false);
  fprintf(stderr, "%s\n", text);
  exit(1);
}

static void suite_parse(Suite *s, const char *head) {
  Text t = {.arena = s->arena};
  text_printf(&t, "apc.ir 1\n%s\n", head);
  for (int i = 0; i < s->n; i++) {
    const char *l1 = s->l1[i] ? s->l1[i] : without_layouts(s->arena, s->bodies[i]);
    text_printf(&t, "func @a%d level 1 {\n%s}\nfunc @b%d level 2 {\n%s}\n", i, l1, i, s->bodies[i]);
  }
  s->m = ir_parse("test", text_str(&t), s->diags);
  if (!s->m || !verify_module(s->m, s->diags)) failed(s, text_str(&t));
  for (int i = 0; i < s->n; i++) {
    const char *name = arena_printf(s->arena, "e%d", i);
    s->entries[i] = (ProgramEntrySpec){name, module_func(s->m, arena_printf(s->arena, "a%d", i)),
                                       module_func(s->m, arena_printf(s->arena, "b%d", i))};
  }
}

static ArtifactSpec suite_spec(Suite *s) {
  Legal *legal = legalise(
      &(ProgramSource){.m = s->m, .nentries = s->n, .entries = s->entries, .device = target_device_traits(DEVICE_cpu)});
  kernels_print(legal);
  return (ArtifactSpec){.legal = legal,
                        .name = "loops",
                        .target = "cpu",
                        .producer = "test",
                        .stub = stub(s->arena),
                        .out = temp_path("loops")};
}

static void suite_compile(Suite *s, const char *head) {
  ArtifactReport report;
  suite_parse(s, head);
  ArtifactSpec spec = suite_spec(s);
  ProgramResult program;
  if (!codegen_program_of(spec.legal, &program, s->diags) || !codegen_write(&spec, &program, &report, s->diags))
    failed(s, "");
  program_builder_free(program.b);
  CHECKF(apc_load(spec.out, NULL, &s->model) == APC_OK, "%s", apc_error(s->model));
}

static void suite_free(Suite *s) {
  apc_close(s->model);
  module_free(s->m);
  arena_free(s->arena);
}

/* ---- one request */

typedef struct Numbers {
  int64_t x[SIZE], n, m;
} Numbers;

static InterpNamed named(Suite *s, const char *name, int rank, const int64_t *values) {
  InterpNamed item = {name, interp_tensor(s->arena, DT_i64, rank, (int64_t[]){SIZE})};
  for (int64_t i = 0; i < interp_elements(&item.tensor); i++) item.tensor.cells[i].i = values[i];
  return item;
}

static void check_entry(Suite *s, int i, const Numbers *v) {
  ApcModel *model = s->model;
  InterpNamed inputs[3] = {named(s, "x", 1, v->x), named(s, "n", 0, &v->n), named(s, "m", 0, &v->m)};
  InterpOptions options = {.domain = DOMAIN_FLOAT};
  InterpResult want;
  if (!interp_run(s->m, s->entries[i].l1, &options, 3, inputs, s->arena, &want, s->diags)) failed(s, s->bodies[i]);
  OK(apc_select(model, s->entries[i].name));
  OK(apc_bind_input(model, "x", APC_I64, 1, (int64_t[]){SIZE}, v->x));
  OK(apc_bind_input(model, "n", APC_I64, 0, NULL, &v->n));
  OK(apc_bind_input(model, "m", APC_I64, 0, NULL, &v->m));
  OK(apc_run(model, NULL));
  for (int k = 0; k < want.noutputs; k++) {
    int64_t got[64] = {0};
    const InterpTensor *t = &want.outputs[k].tensor;
    OK(apc_read_output(model, want.outputs[k].name, got, sizeof *got * (size_t)interp_elements(t)));
    for (int64_t e = 0; e < interp_elements(t); e++)
      CHECKF(got[e] == t->cells[e].i, "%s, n %lld, m %lld: %s[%lld] is %lld, not %lld in\n%s", s->entries[i].name,
             (long long)v->n, (long long)v->m, want.outputs[k].name, (long long)e, (long long)got[e],
             (long long)t->cells[e].i, s->bodies[i]);
  }
}

static void check_all(Suite *s) {
  static const int64_t rounds[] = {0, 1, 2, 3, 5, -4};
  for (int i = 0; i < s->n; i++)
    for (size_t r = 0; r < sizeof rounds / sizeof *rounds; r++)
      check_entry(s, i, &(Numbers){{5, 11, 60}, rounds[r], (int64_t)(r + (size_t)i) % 4});
}

/* ---- by hand */

#define INPUTS \
  "%x = input {name=\"x\"} : i64[3] @{}\n%n = input {name=\"n\"} : i64[] @{}\n%m = input {name=\"m\"} : i64[] @{}\n"

static const char *const by_hand[] = {
    /* doubling in place */
    INPUTS
    "%t = loop %n : i64[]\n%h = carry %x : i64[3]\n%d = add %h, %h : i64[3]\nrepeat \"r\" %t\n%y = leave %h, %d : "
    "i64[3]\noutput \"y\" %y @{}\n",
    /* the initial value is read after the loop, the carry at its end */
    INPUTS
    "%t = loop %n : i64[]\n%h = carry %x : i64[3]\n%d = add %h, %h : i64[3]\n%e = add %d, %h : i64[3]\nrepeat \"r\" "
    "%t\n%y = leave %h, %d : i64[3]\n"
    "%z = add %y, %x : i64[3]\noutput \"y\" %z @{}\n",
    /* swapped; three in a circle, one of them twice */
    INPUTS
    "%z = neg %x : i64[3]\n%t = loop %n : i64[]\n%a = carry %x : i64[3]\n%b = carry %z : i64[3]\nrepeat \"r\" %t\n%y = "
    "leave %a, %b : i64[3]\n"
    "%w = leave %b, %a : i64[3]\noutput \"y\" %y @{}\noutput \"w\" %w @{}\n",
    INPUTS
    "%z = neg %x : i64[3]\n%u = add %x, %x : i64[3]\n%t = loop %n : i64[]\n%a = carry %x : i64[3]\n%b = carry %z : "
    "i64[3]\n%c = carry %u : i64[3]\n%d = carry %x : i64[3]\n"
    "repeat \"r\" %t\n%y = leave %a, %b : i64[3]\n%w = leave %b, %c : i64[3]\n%v = leave %c, %a : i64[3]\n%q = leave "
    "%d, %a : i64[3]\n"
    "output \"y\" %y @{}\noutput \"w\" %w @{}\noutput \"v\" %v @{}\noutput \"q\" %q @{}\n",
    /* fibonacci: one carry is the next value of the other */
    INPUTS
    "%z = neg %x : i64[3]\n%t = loop %n : i64[]\n%a = carry %x : i64[3]\n%b = carry %z : i64[3]\n%c = add %a, %b : "
    "i64[3]\nrepeat \"r\" %t\n"
    "%y = leave %a, %b : i64[3]\n%w = leave %b, %c : i64[3]\noutput \"y\" %y @{}\noutput \"w\" %w @{}\n",
    /* carries with the same initial value, or with the number of rounds; an unused one; values of outside and the
     * round's number */
    INPUTS
    "%t = loop %n : i64[]\n%a = carry %x : i64[3]\n%b = carry %x : i64[3]\n%k = carry %n : i64[]\n%unused = carry %x : "
    "i64[3]\n%c = add %a, %b : i64[3]\n"
    "%l = add %k, %t : i64[]\nrepeat \"r\" %t\n%y = leave %a, %c : i64[3]\n%w = leave %b, %x : i64[3]\n%v = leave %k, "
    "%l : i64[]\n%q = leave %unused, %c : i64[3]\n"
    "output \"y\" %y @{}\noutput \"w\" %w @{}\noutput \"v\" %v @{}\n",
    INPUTS
    "%t = loop %n : i64[]\n%a = carry %m : i64[]\nrepeat \"r\" %t\n%y = leave %a, %t : i64[]\noutput \"y\" %y @{}\n",
    /* the condition is a carry: it is read after its change */
    INPUTS
    "%yes = const {value=1} : bool[]\n%t = loop %n : i64[]\n%h = carry %x : i64[3]\n%g = carry %yes : bool[]\n%d = add "
    "%h, %h : i64[3]\n%c = lt %t, %m : bool[]\n"
    "repeat \"r\" %t, %g\n%y = leave %h, %d : i64[3]\n%w = leave %g, %c : bool[]\noutput \"y\" %y @{}\n",
    INPUTS
    "%t = loop %n : i64[]\n%h = carry %x : i64[3]\n%d = add %h, %h : i64[3]\n%c = lt %t, %m : bool[]\nrepeat \"r\" %t, "
    "%c\n%y = leave %h, %d : i64[3]\noutput \"y\" %y @{}\n",
    /* if n > 0 then x + x else -x */
    INPUTS
    "%zero = const {value=0} : i64[]\n%c = gt %n, %zero : bool[]\n%no = not %c : bool[]\n%ci = cast %c {to=i64} : "
    "i64[]\n%ni = cast %no {to=i64} : i64[]\n"
    "%r0 = const {value=0} : i64[3]\n%t = loop %ci {trips=1} : i64[]\n%a = carry %r0 : i64[3]\n%d = add %x, %x : "
    "i64[3]\nrepeat \"r\" %t\n%r1 = leave %a, %d : i64[3]\n"
    "%u = loop %ni {trips=1} : i64[]\n%b = carry %r1 : i64[3]\n%e = neg %x : i64[3]\nrepeat \"s\" %u\n%y = leave %b, "
    "%e : i64[3]\noutput \"y\" %y @{}\n",
    /* prefix sums: scanned and stacked */
    INPUTS
    "%z = const {value=0} : i64[]\n%o = const {value=0} : i64[3]\n%t = loop %n {trips=3} : i64[]\n%h = carry %z : "
    "i64[]\n%s = carry %o : i64[3]\n"
    "%e = gather %x, %t {axis=0, start=0} : i64[]\n%a = add %h, %e : i64[]\n%w = reshape %a : i64[1]\n%u = update %s, "
    "%w, %t {axis=0, start=0} : i64[3]\n"
    "repeat \"r\" %t\n%v = leave %h, %a : i64[]\n%y = leave %s, %u : i64[3]\noutput \"y\" %y @{}\noutput \"v\" %v "
    "@{}\n",
    /* nested: rows of a stack in the inner loop, the outer one's carry is the inner one's */
    INPUTS
    "%o = const {value=0} : i64[4, 3]\n%t = loop %n {trips=4} : i64[]\n%s = carry %o : i64[4, 3]\n%h = carry %x : "
    "i64[3]\n%j = loop %m : i64[]\n%p = carry %s : i64[4, 3]\n"
    "%g = carry %h : i64[3]\n%d = add %g, %x : i64[3]\n%w = reshape %d : i64[1, 3]\n%u = update %p, %w, %j {axis=0, "
    "start=0} : i64[4, 3]\nrepeat \"i\" %j\n"
    "%ps = leave %p, %u : i64[4, 3]\n%gh = leave %g, %d : i64[3]\nrepeat \"r\" %t\n%y = leave %s, %ps : i64[4, 3]\n%v "
    "= leave %h, %gh : i64[3]\noutput \"y\" %y @{}\n"
    "output \"v\" %v @{}\n",
    /* the inner loop begins as the other carry of the outer one */
    INPUTS
    "%z = neg %x : i64[3]\n%t = loop %n : i64[]\n%a = carry %x : i64[3]\n%b = carry %z : i64[3]\n%j = loop %m : "
    "i64[]\n%p = carry %b : i64[3]\n%q = carry %a : i64[3]\n"
    "%d = add %p, %x : i64[3]\nrepeat \"i\" %j\n%ps = leave %p, %d : i64[3]\n%qs = leave %q, %p : i64[3]\nrepeat \"r\" "
    "%t\n%y = leave %a, %ps : i64[3]\n"
    "%w = leave %b, %qs : i64[3]\noutput \"y\" %y @{}\noutput \"w\" %w @{}\n",
    /* an input inside a loop */
    "%n = input {name=\"n\"} : i64[] @{}\n%m = input {name=\"m\"} : i64[] @{}\n%o = const {value=1} : i64[3]\n%t = "
    "loop %n : i64[]\n%h = carry %o : i64[3]\n"
    "%x = input {name=\"x\"} : i64[3] @{}\n%d = add %h, %x : i64[3]\nrepeat \"r\" %t\n%y = leave %h, %d : "
    "i64[3]\noutput \"y\" %y @{}\n",
    /* shapes that differ only in ones */
    INPUTS
    "%t = loop %n : i64[]\n%h = carry %x : i64[3]\n%w = reshape %h : i64[1, 3]\n%d = add %w, %w : i64[1, 3]\n%v = "
    "reshape %d : i64[3]\nrepeat \"r\" %t\n"
    "%y = leave %h, %v : i64[3]\noutput \"y\" %y @{}\n",
};
enum { BY_HAND = (int)(sizeof by_hand / sizeof by_hand[0]) };

static void written_by_hand(void) {
  Suite s = suite_new();
  for (; s.n < BY_HAND; s.n++) s.bodies[s.n] = by_hand[s.n];
  suite_compile(&s, "mesh [a=1] stages 1");
  check_all(&s);
  suite_free(&s);
}

/* ---- at random */

enum { MOST_VISIBLE = 200 };

typedef struct Draw {
  Arena *arena;
  Text text;
  uint64_t seed;
  int next;                            /* number of the next name */
  int vectors[MOST_VISIBLE], nvectors; /* names of the i64[3] visible */
  int scalars[MOST_VISIBLE], nscalars;
} Draw;

static int draw(Draw *d, int n) {
  d->seed = d->seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((d->seed >> 33) % (uint64_t)n);
}

static int vector(Draw *d) { return d->vectors[draw(d, 3) ? draw(d, d->nvectors) : d->nvectors - 1]; }
static int scalar(Draw *d) { return d->scalars[draw(d, d->nscalars)]; }

static void operation(Draw *d) {
  static const char *const binary[] = {"add", "sub", "min", "max"};
  int v = d->next++, x = vector(d), y = vector(d);
  switch (draw(d, 8)) {
    case 0: text_printf(&d->text, "%%v%d = neg %%v%d : i64[3]\n", v, x); break;
    case 1: /* a view, and back */
      text_printf(&d->text, "%%w%d = reshape %%v%d : i64[1, 3]\n%%v%d = reshape %%w%d : i64[3]\n", v, x, v, v);
      break;
    case 2: /* a row of one element */
      text_printf(&d->text,
                  "%%s%d = slice %%v%d {starts=[%d], strides=[1]} : i64[1]\n%%v%d = update %%v%d, %%s%d, %%n%d "
                  "{axis=0, start=0} : i64[3]\n",
                  v, x, draw(d, 3), v, y, v, scalar(d));
      break;
    case 3: /* elements change places */
      text_printf(&d->text,
                  "%%p%d = slice %%v%d {starts=[1], strides=[1]} : i64[2]\n%%q%d = slice %%v%d {starts=[0], "
                  "strides=[1]} : i64[1]\n"
                  "%%v%d = concat %%p%d, %%q%d {axis=0} : i64[3]\n",
                  v, x, v, draw(d, 2) ? x : y, v, v, v);
      break;
    case 4:
      text_printf(&d->text,
                  "%%n%d = gather %%v%d, %%n%d {axis=0, start=0} : i64[]\n%%v%d = broadcast %%n%d {dims=[]} : i64[3]\n",
                  v, x, scalar(d), v, v);
      d->scalars[d->nscalars++] = v;
      break;
    default:
      text_printf(&d->text, "%%u%d = %s %%v%d, %%v%d : i64[3]\n%%v%d = mod %%u%d, %%modulus : i64[3]\n", v,
                  binary[draw(d, 4)], x, y, v, v);
  }
  d->vectors[d->nvectors++] = v;
}

static void block(Draw *d, int depth);

static void loop(Draw *d, int depth) {
  int t = d->next++, ncarries = 1 + draw(d, 3), carries[3], nvectors, nscalars = d->nscalars;
  text_printf(&d->text, "%%n%d = loop %%n%d%s : i64[]\n", t, scalar(d), depth || draw(d, 2) ? " {trips=3}" : "");
  int inits[3];
  for (int k = 0; k < ncarries; k++) inits[k] = vector(d);
  for (int k = 0; k < ncarries; k++) {
    carries[k] = d->next++;
    text_printf(&d->text, "%%v%d = carry %%v%d : i64[3]\n", carries[k], inits[k]);
  }
  nvectors = d->nvectors;
  for (int k = 0; k < ncarries; k++) d->vectors[d->nvectors++] = carries[k];
  d->scalars[d->nscalars++] = t;
  block(d, depth + 1);
  int next[3], condition = draw(d, 3);
  if (condition == 0) text_printf(&d->text, "%%c%d = lt %%n%d, %%n%d : bool[]\n", t, scalar(d), scalar(d));
  text_printf(&d->text, "repeat \"r%d\" %%n%d%s", t, t, condition == 0 ? arena_printf(d->arena, ", %%c%d\n", t) : "\n");
  for (int k = 0; k < ncarries; k++) next[k] = draw(d, 3) ? vector(d) : carries[draw(d, ncarries)];
  d->nvectors = nvectors;
  d->nscalars = nscalars;
  for (int k = 0; k < ncarries; k++) {
    text_printf(&d->text, "%%v%d = leave %%v%d, %%v%d : i64[3]\n", d->next, carries[k], next[k]);
    d->vectors[d->nvectors++] = d->next++;
  }
}

static void block(Draw *d, int depth) {
  for (int i = 1 + draw(d, 4); i > 0; i--) {
    if (depth < 3 && draw(d, 3) == 0) loop(d, depth);
    else operation(d);
  }
}

static const char *random_body(Arena *a, uint64_t seed) {
  Draw d = {.arena = a,
            .text = {.arena = a},
            .seed = seed,
            .next = 4,
            .vectors = {0},
            .nvectors = 1,
            .scalars = {1, 2},
            .nscalars = 2};
  /* n1 and n2: the host would check a direct index. */
  text_add(
      &d.text,
      "%v0 = input {name=\"x\"} : i64[3] @{}\n%n = input {name=\"n\"} : i64[] @{}\n%m = input {name=\"m\"} : i64[] "
      "@{}\n%modulus = const {value=97} : i64[3]\n"
      "%three = const {value=3} : i64[]\n%n1 = add %n, %m : i64[]\n%n2 = sub %three, %m : i64[]\n");
  block(&d, 0);
  loop(&d, 0);
  block(&d, 0);
  for (int k = 0; k < 3; k++) text_printf(&d.text, "output \"y%d\" %%v%d @{}\n", k, vector(&d));
  return text_str(&d.text);
}

static void at_random(void) {
  for (uint64_t suite = 0; suite < 2; suite++) {
    Suite s = suite_new();
    for (; s.n < MOST_ENTRIES; s.n++) s.bodies[s.n] = random_body(s.arena, 1000 * suite + (uint64_t)s.n);
    suite_compile(&s, "mesh [a=1] stages 1");
    check_all(&s);
    suite_free(&s);
  }
}

int main(void) {
  setenv("APC_CHECK", "1", 1); /* the ranks check lifetimes in memory */
  RUN(written_by_hand);
  RUN(at_random);
  return test_summary();
}
