/* tests/unit/prove_prepare.c - the prover on level 2 of @prepare: right programs are proved, faults planted in the text
 * are refuted. */
#include <string.h>

#include "base/text.h"
#include "proof/prove.h"
#include "tests/test.h"

/* A dequantised weight cut by columns in stage 0 and, tied, by rows in stage 1; a joined one whose cut is a slice. */
static const char program[] =
    "apc.ir 1\n"
    "mesh [tp=2] stages 2\n"
    "param \"q\" : i8[8, 6] = constant 3\n"
    "param \"scale\" : f32[6] = normal 1 seed 1\n"
    "param \"a\" : f32[8, 3] = normal 1 seed 2\n"
    "param \"b\" : f32[8, 3] = normal 1 seed 3\n"
    "param \"w\" : f32[8, 6] = prepared\n"
    "param \"both\" : f32[8, 6] = prepared\n"
    "func @main.spmd level 2 {\n"
    "  %w = param {name=\"w\"} : f32[8, 3] @{1:tp}\n"
    "  %both = param {name=\"both\"} : f32[8, 3] @{1:tp}\n"
    "  %w.1 = param {name=\"w\"} : f32[4, 6] @{0:tp} stage 1\n"
    "  output \"x\" %w @{1:tp}\n"
    "  output \"y\" %both @{1:tp}\n"
    "  output \"z\" %w.1 @{0:tp}\n"
    "}\n"
    "func @prepare level 1 {\n"
    "  %q = param {name=\"q\"} : i8[8, 6]\n"
    "  %f = cast %q {to=f32} : f32[8, 6]\n"
    "  %scale = param {name=\"scale\"} : f32[6]\n"
    "  %scales = broadcast %scale {dims=[1]} : f32[8, 6]\n"
    "  %w = mul %f, %scales : f32[8, 6]\n"
    "  %a = param {name=\"a\"} : f32[8, 3]\n"
    "  %b = param {name=\"b\"} : f32[8, 3]\n"
    "  %both = concat %a, %b {axis=1} : f32[8, 6]\n"
    "  output \"w\" %w\n"
    "  output \"both\" %both\n"
    "}\n"
    "func @prepare.spmd level 2 {\n"
    "  %q = param {name=\"q\"} : i8[8, 3] @{1:tp}\n"
    "  %f = cast %q {to=f32} : f32[8, 3]\n"
    "  %scale = param {name=\"scale\"} : f32[3] @{0:tp}\n"
    "  %scales = broadcast %scale {dims=[1]} : f32[8, 3]\n"
    "  %w = mul %f, %scales : f32[8, 3]\n"
    "  %a = param {name=\"a\"} : f32[8, 3] @{}\n"
    "  %b = param {name=\"b\"} : f32[8, 3] @{}\n"
    "  %both = concat %a, %b {axis=1} : f32[8, 6]\n"
    "  %part = shard_slice %both {axis=1, start=3*@tp} : f32[8, 3]\n"
    "  %q.1 = param {name=\"q\"} : i8[4, 6] @{0:tp} stage 1\n"
    "  %f.1 = cast %q.1 {to=f32} : f32[4, 6] stage 1\n"
    "  %scale.1 = param {name=\"scale\"} : f32[6] @{} stage 1\n"
    "  %scales.1 = broadcast %scale.1 {dims=[1]} : f32[4, 6] stage 1\n"
    "  %w.1 = mul %f.1, %scales.1 : f32[4, 6] stage 1\n"
    "  output \"w\" %w @{1:tp}\n"
    "  output \"both\" %part @{1:tp}\n"
    "  output \"w\" %w.1 @{0:tp}\n"
    "}\n";

/* The last occurrence of `from` becomes `to`; the program still keeps the rules of the verifier. */
typedef struct Fault {
  const char *what, *from, *to, *reason;
} Fault;

static const Fault faults[] = {
    {"wrong slice start", "start=3*@tp", "start=0", "declared shard"},
    {"slice start past the part", "start=3*@tp", "start=2*@tp", "declared shard"},
    {"missing scale", "output \"w\" %w @", "output \"w\" %f @", "not the value"},
    {"missing scale in a later stage", "output \"w\" %w.1 @", "output \"w\" %f.1 @", "not the value"},
    {"another operation", "%w = mul", "%w = add", "no such operation"},
    {"scale taken twice", "mul %f, %scales :", "mul %scales, %scales :", "no such operation"},
    {"parts joined the other way round", "concat %a, %b", "concat %b, %a", "no such operation"},
    {"another weight", "%b = param {name=\"b\"}", "%b = param {name=\"a\"}", "no such operation"},
    {"part of the wrong weight", "output \"both\" %part @", "output \"both\" %w @", "not the value"},
    {"stage without its part", "  output \"w\" %w.1 @{0:tp}\n", "", "@prepare does not make this part"},
    {"communication", "  output \"both\" %part @{1:tp}\n",
     "  %all = all_gather %part {mesh_axis=tp, axis=1} : f32[8, 6]\n"
     "  %again = shard_slice %all {axis=1, start=3*@tp} : f32[8, 3]\n  output \"both\" %again @{1:tp}\n",
     "communication"},
    {"weight that is not needed", "output \"both\" %part @", "output \"none\" %part @", "no such weight"},
};

static const char *last_place(const char *text, const char *what) {
  const char *at = NULL;
  for (const char *p = text; (p = strstr(p, what)); p++) at = p;
  return at;
}

static Proof prove_text(Arena *a, const char *text, Module **m) {
  Diags *d = diags_new(a);
  *m = ir_parse("program", text, d);
  bool ok = *m && verify_module(*m, d);
  if (!ok) diags_print(d, stderr, false);
  CHECK(ok);
  if (!ok) return (Proof){.verdict = UNKNOWN, .reason = "the text is no program"};
  Func *user = module_func(*m, "main.spmd");
  return prove_prepare(*m, module_func(*m, "prepare"), module_func(*m, "prepare.spmd"), 1, &user);
}

static void right_program_is_proved(void) {
  Arena *a = arena_new();
  Module *m;
  Proof p = prove_text(a, program, &m);
  CHECKF(p.verdict == PROVED, "%s at %s: %s", verdict_name(p.verdict), p.op, p.reason);
  Func *user = module_func(m, "main.spmd");
  CHECK(prove_prepare(m, NULL, NULL, 1, &user).verdict == REFUTED); /* no function computes its weights */
  CHECK(prove_prepare(m, NULL, NULL, 0, NULL).verdict == PROVED);
  module_free(m);
  arena_free(a);
}

static void faults_are_refuted(void) {
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    Arena *a = arena_new();
    Module *m;
    const char *at = last_place(program, faults[i].from);
    CHECKF(at != NULL, "%s", faults[i].what);
    if (at) {
      const char *text =
          arena_printf(a, "%.*s%s%s", (int)(at - program), program, faults[i].to, at + strlen(faults[i].from));
      Proof p = prove_text(a, text, &m);
      CHECKF(p.verdict == REFUTED, "%s: %s", faults[i].what, verdict_name(p.verdict));
      CHECKF(p.reason && strstr(p.reason, faults[i].reason), "%s: %s", faults[i].what, p.reason);
      if (m) module_free(m);
    }
    arena_free(a);
  }
}

/* At level 2 an output may occur in several layouts, but none may replace another. */
static void outputs_are_all_there(void) {
  static const char *const parts[] = {"output \"b\" %x @{0:tp}", "output \"a\" %whole @{}"};
  for (int i = 0; i < 2; i++) {
    Arena *a = arena_new();
    Diags *d = diags_new(a);
    Module *m = ir_parse("program",
                         arena_printf(a,
                                      "apc.ir 1\nmesh [tp=2] stages 1\nfunc @main level 1 { %%x = input {name=\"x\"} : "
                                      "f32[4] output \"a\" %%x output \"b\" %%x }\n"
                                      "func @rank level 2 { %%x = input {name=\"x\"} : f32[2] @{0:tp} %%whole = "
                                      "all_gather %%x {mesh_axis=tp, axis=0} : f32[4]\n"
                                      "  output \"a\" %%x @{0:tp} %s }",
                                      parts[i]),
                         d);
    bool ok = m && verify_module(m, d);
    if (!ok) diags_print(d, stderr, false);
    CHECK(ok);
    Proof p = ok ? prove(m, module_func(m, "main"), module_func(m, "rank"))
                 : (Proof){.verdict = UNKNOWN, .op = "the text", .reason = "is no program"};
    CHECKF(p.verdict == (i ? REFUTED : PROVED), "%s with %s", verdict_name(p.verdict), parts[i]);
    if (m) module_free(m);
    arena_free(a);
  }
}

int main(void) {
  RUN(right_program_is_proved);
  RUN(faults_are_refuted);
  RUN(outputs_are_all_there);
  return test_summary();
}
