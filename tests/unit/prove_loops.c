/* Loops in the prover, on hand-written level-2 programs: right ones are proved and give level 1's numbers, each fault
 * planted in their text is refuted.  tests/unit/guard_loops.c does the same with lowered programs. */
#include "proof/prove.h"
#include "tests/interp_test.h"

typedef struct Model {
  const char *name, *head, *level1, *level2; /* the bodies of the functions */
} Model;

/* y = (3 or n rounds of) h = tanh(x[t] W + h R), and all its values; h is cut in its last dimension, R in its
 * columns. */
static const Model recurrent = {
    "recurrent",
    "mesh [a=2]\nparam \"w\" : f32[2, 4] = normal 0.5 seed 1\nparam \"r\" : f32[4, 4] = normal 0.5 seed 2\n",
    "%x = input {name=\"x\"} : f32[3, 2, 2] %f = input {name=\"f\"} : f32[] %five = const {value=5} : f32[] %f5 = mul "
    "%f, %five : f32[] %n = cast %f5 {to=i64} : i64[] %w = param {name=\"w\"} : f32[2, 4] %r = param {name=\"r\"} : "
    "f32[4, 4]\n"
    "%z = const {value=0} : f32[2, 4] %o = const {value=0} : f32[3, 2, 4]\n"
    "%t = loop %n {trips=3} : i64[]\n%h = carry %z : f32[2, 4]\n%s = carry %o : f32[3, 2, 4]\n"
    "%xt = gather %x, %t {axis=0, start=0} : f32[2, 2] %xw = dot %xt, %w {spec=\"bk,kd->bd\"} : f32[2, 4] %hr = dot "
    "%h, %r {spec=\"bk,kd->bd\"} : f32[2, 4]\n"
    "%sum = add %xw, %hr : f32[2, 4] %h1 = tanh %sum : f32[2, 4] %row = reshape %h1 : f32[1, 2, 4] %s1 = update %s, "
    "%row, %t {axis=0, start=0} : f32[3, 2, 4]\n"
    "repeat \"again\" %t\n%hl = leave %h, %h1 : f32[2, 4]\n%sl = leave %s, %s1 : f32[3, 2, 4]\noutput \"h\" "
    "%hl\noutput \"s\" %sl",

    "%x = input {name=\"x\"} : f32[3, 2, 2] @{} %f = input {name=\"f\"} : f32[] @{} %five = const {value=5} : f32[] "
    "%f5 = mul %f, %five : f32[] %ni = cast %f5 {to=i64} : i64[] %w = param {name=\"w\"} : f32[2, 2] @{1:a} %r = param "
    "{name=\"r\"} : f32[4, 2] @{1:a}\n"
    "%nm = mask_partial %ni {mesh_axes=[a], op=sum} : i64[] %n = all_reduce %nm {mesh_axes=[a], op=sum} : i64[]\n"
    "%z = const {value=0} : f32[2, 2] %o = const {value=0} : f32[3, 2, 2]\n"
    "%t = loop %n {trips=3} : i64[]\n%h = carry %z : f32[2, 2]\n%s = carry %o : f32[3, 2, 2]\n"
    "%xt = gather %x, %t {axis=0, start=0} : f32[2, 2] %xw = dot %xt, %w {spec=\"bk,kd->bd\"} : f32[2, 2]\n"
    "%whole = all_gather %h {mesh_axis=a, axis=1} : f32[2, 4] %hr = dot %whole, %r {spec=\"bk,kd->bd\"} : f32[2, 2]\n"
    "%sum = add %xw, %hr : f32[2, 2] %h1 = tanh %sum : f32[2, 2] %row = reshape %h1 : f32[1, 2, 2] %s1 = update %s, "
    "%row, %t {axis=0, start=0} : f32[3, 2, 2]\n"
    "repeat \"again\" %t\n%hl = leave %h, %h1 : f32[2, 2]\n%sl = leave %s, %s1 : f32[3, 2, 2]\noutput \"h\" %hl "
    "@{1:a}\noutput \"s\" %sl @{2:a}"};

/* Two carries that are swapped, a nested loop, a condition on the data; the state is cut in rows, the condition needs
 * all of them. */
static const Model nested = {"nested", "mesh [a=2]\n",
                             "%x = input {name=\"x\"} : f32[4, 2] %y = input {name=\"y\"} : f32[4, 2] %k = const "
                             "{value=3} : i64[] %two = const {value=2} : i64[] %big = const {value=4} : f32[]\n"
                             "%t = loop %k {trips=3} : i64[]\n%p = carry %x : f32[4, 2]\n%q = carry %y : f32[4, 2]\n"
                             "%u = loop %two {trips=2} : i64[]\n%g = carry %q : f32[4, 2]\n%g1 = add %g, %p : f32[4, "
                             "2]\nrepeat \"inner\" %u\n%gl = leave %g, %g1 : f32[4, 2]\n"
                             "%most = reduce %gl {axes=[0, 1], op=max} : f32[] %more = lt %most, %big : bool[]\n"
                             "repeat \"outer\" %t, %more\n%pl = leave %p, %gl : f32[4, 2]\n%ql = leave %q, %p : f32[4, "
                             "2]\noutput \"p\" %pl\noutput \"q\" %ql",

                             "%x = input {name=\"x\"} : f32[2, 2] @{0:a} %y = input {name=\"y\"} : f32[2, 2] @{0:a} %k "
                             "= const {value=3} : i64[] %two = const {value=2} : i64[] %big = const {value=4} : f32[]\n"
                             "%t = loop %k {trips=3} : i64[]\n%p = carry %x : f32[2, 2]\n%q = carry %y : f32[2, 2]\n"
                             "%u = loop %two {trips=2} : i64[]\n%g = carry %q : f32[2, 2]\n%g1 = add %g, %p : f32[2, "
                             "2]\nrepeat \"inner\" %u\n%gl = leave %g, %g1 : f32[2, 2]\n"
                             "%part = reduce %gl {axes=[0, 1], op=max} : f32[] %most = all_reduce %part "
                             "{mesh_axes=[a], op=max} : f32[] %own = lt %most, %big : bool[]\n"
                             "%mask = mask_partial %own {mesh_axes=[a], op=or} : bool[] %more = all_reduce %mask "
                             "{mesh_axes=[a], op=or} : bool[]\n"
                             "repeat \"outer\" %t, %more\n%pl = leave %p, %gl : f32[2, 2]\n%ql = leave %q, %p : f32[2, "
                             "2]\noutput \"p\" %pl @{0:a}\noutput \"q\" %ql @{0:a}"};

/* Two loops of the same rounds from splats of different extents, whose terms do not distinguish them; the first does
 * not vary over its rows. */
static const Model twins = {"twins", "mesh [a=2]\n",
                            "%x = input {name=\"x\"} : f32[6] %k = const {value=3} : i64[] %z = const {value=1} : "
                            "f32[4] %v = const {value=1} : f32[6]\n"
                            "%t = loop %k : i64[]\n%h = carry %z : f32[4]\n%h1 = add %h, %h : f32[4]\nrepeat \"first\" "
                            "%t\n%hl = leave %h, %h1 : f32[4]\n"
                            "%u = loop %k : i64[]\n%g = carry %v : f32[6]\n%g1 = add %g, %x : f32[6]\nrepeat "
                            "\"second\" %u\n%gl = leave %g, %g1 : f32[6]\n"
                            "output \"h\" %hl\noutput \"g\" %gl",

                            "%x = input {name=\"x\"} : f32[3] @{0:a} %k = const {value=3} : i64[] %z = const {value=1} "
                            ": f32[2] %v = const {value=1} : f32[3]\n"
                            "%t = loop %k : i64[]\n%h = carry %z : f32[2]\n%h1 = add %h, %h : f32[2]\nrepeat \"first\" "
                            "%t\n%hl = leave %h, %h1 : f32[2]\n"
                            "%u = loop %k : i64[]\n%g = carry %v : f32[3]\n%g1 = add %g, %x : f32[3]\nrepeat "
                            "\"second\" %u\n%gl = leave %g, %g1 : f32[3]\n"
                            "output \"h\" %hl @{0:a}\noutput \"g\" %gl @{0:a}"};

/* `level2` with the first `from` replaced by `to`. */
static const char *replaced(Arena *arena, const char *level2, const char *from, const char *to) {
  const char *at = strstr(level2, from);
  if (!at) {
    fprintf(stderr, "no \"%s\" in\n%s\n", from, level2);
    exit(1);
  }
  return arena_printf(arena, "%.*s%s%s", (int)(at - level2), level2, to, at + strlen(from));
}

static InterpProgram program(const Model *k, const char *level2) {
  Arena *scratch = arena_new();
  InterpProgram p = interp_program(arena_printf(scratch, "%sfunc @main level 1 {\n%s\n}\nfunc @rank level 2 {\n%s\n}\n",
                                                k->head, k->level1, level2));
  arena_free(scratch);
  return p;
}

static void same_numbers(InterpProgram *p, const char *name) {
  for (int d = 0; d < 2; d++) {
    InterpOptions o = {.domain = (InterpDomain)d, .tolerance = d ? 0 : 1e-9};
    InterpResult want, got;
    int n;
    InterpNamed *inputs = interp_random_inputs(p->m, module_func(p->m, "main"), o.domain,
                                               interp_symbols(p->m, p->arena), 3, p->arena, &n, p->diags);
    bool ran = interp_run(p->m, module_func(p->m, "main"), &o, n, inputs, p->arena, &want, p->diags) &&
               interp_run(p->m, module_func(p->m, "rank"), &o, n, inputs, p->arena, &got, p->diags);
    CHECKF(ran, "%s: %s", name, program_error(p));
    CHECKF(!ran || d || want.outputs[0].tensor.cells[0].f != 0, "%s: nothing was computed", name);
    for (int i = 0; ran && i < want.noutputs; i++) {
      const char *why = "";
      CHECKF(interp_equal(&want.outputs[i].tensor, &got.outputs[i].tensor, o.domain, o.tolerance, p->arena, &why),
             "%s: %s: %s", name, want.outputs[i].name, why);
    }
  }
}

static void proved(const Model *k) {
  InterpProgram p = program(k, k->level2);
  Proof proof = prove(p.m, module_func(p.m, "main"), module_func(p.m, "rank"));
  CHECKF(proof.verdict == PROVED, "%s: %s at %s: %s", k->name, verdict_name(proof.verdict), proof.op, proof.reason);
  same_numbers(&p, k->name);
  program_free(&p);
}

/* The fault is refuted at that operation. */
static void refuted(const Model *k, const char *from, const char *to, const char *op, const char *reason) {
  Arena *scratch = arena_new();
  InterpProgram p = program(k, replaced(scratch, k->level2, from, to));
  Proof proof = prove(p.m, module_func(p.m, "main"), module_func(p.m, "rank"));
  CHECKF(proof.verdict == REFUTED && strcmp(proof.op, op) == 0 && strstr(proof.reason, reason),
         "%s with %s: %s at %s: %s", k->name, to, verdict_name(proof.verdict), proof.op ? proof.op : "nothing",
         proof.reason ? proof.reason : "nothing");
  program_free(&p);
  arena_free(scratch);
}

static void right(void) {
  proved(&recurrent);
  proved(&nested);
  proved(&twins);
}

static void wrong_control(void) {
  refuted(&recurrent, "loop %n ", "loop %ni ", "t", "the number of rounds is computed by every rank for itself");
  refuted(&recurrent, "loop %n ", "loop %nm ", "t", "the number of rounds is a partial result");
  refuted(&recurrent, "{trips=3}", "{trips=2}", "t", "level 1 has no loop with these rounds and initial values");
  refuted(&nested, "loop %two", "loop %k", "u", "level 1 has no loop with these rounds and initial values");
  refuted(&nested, "%t, %more", "%t, %own", "outer", "the condition is computed by every rank for itself");
  refuted(&nested, "%t, %more", "%t", "outer", "level 1 has no loop whose carries have these next values");
  refuted(&nested, "lt %most, %big", "lt %part, %big", "own", "operand 0 is a partial max over a");
}

static void wrong_carries(void) {
  refuted(&recurrent, "leave %h, %h1", "leave %h, %sum", "again",
          "level 1 has no loop whose carries have these next values");
  refuted(&recurrent, "%h1 = tanh %sum : f32[2, 2]",
          "%th = tanh %sum : f32[2, 2] %all = all_gather %th {mesh_axis=a, axis=1} : f32[2, 4] %h1 = shard_slice %all "
          "{axis=1, start=0} : f32[2, 2]",
          "whole", "the parts of the members do not follow each other");
  refuted(&nested, "leave %p, %gl : f32[2, 2]\n%ql = leave %q, %p", "leave %p, %p : f32[2, 2]\n%ql = leave %q, %gl",
          "outer", "level 1 has no loop whose carries have these next values");
  refuted(&nested, "%ql = leave %q, %p", "%ql = leave %q, %x", "outer",
          "level 1 has no loop whose carries have these next values");
  refuted(&nested, "carry %x : f32[2, 2]\n%q = carry %y", "carry %y : f32[2, 2]\n%q = carry %x", "t",
          "level 1 has no loop with these rounds and initial values");
  refuted(&nested, "repeat \"outer\" %t, %more\n%pl = leave %p, %gl",
          "%all = all_gather %gl {mesh_axis=a, axis=0} : f32[4, 2] %other = shard_slice %all {axis=0, start=2 - 2*@a} "
          ": f32[2, 2]\n"
          "repeat \"outer\" %t, %more\n%pl = leave %p, %other",
          "pl", "the next value of a carry holds another part of dimension 0");
  refuted(&twins, "carry %v", "carry %x", "u", "level 1 has no loop with these rounds and initial values");
}

/* A collective of the body is left out. */
static void wrong_bodies(void) {
  refuted(&recurrent, "dot %whole, %r {spec=\"bk,kd->bd\"}", "dot %h, %w {spec=\"bk,kd->bd\"}", "hr", "");
  refuted(&recurrent, "gather %x, %t", "gather %x, %n", "xt", "level 1 has no such operation on these values");
}

int main(void) {
  RUN(right);
  RUN(wrong_control);
  RUN(wrong_carries);
  RUN(wrong_bodies);
  return test_summary();
}
