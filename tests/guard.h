/* tests/guard.h - shared by the guard tests: lower a level-1 function with given strategies, run both, compare.
 *
 * The unsharded interpreter is the oracle; the lowered program must give the same numbers in doubles (up to the order
 * of sums) and exactly the same residues modulo p. */
#ifndef APC_TESTS_GUARD_H
#define APC_TESTS_GUARD_H

#include "proof/prove.h"
#include "passes/lower/lower.h"
#include "tests/interp_test.h"

typedef struct Reference {
  const Func *f;
  int64_t *symbols;
  struct {
    int n;
    InterpNamed *inputs;
    InterpResult result;
  } by[2]; /* InterpDomain */
  double tolerance;
} Reference;

static int guard_reports;

/* Runs the level-1 function on random inputs in [low, high) in both domains. */
static inline bool reference_run(Module *m, const Func *f, double low, double high, Arena *arena, Diags *diags,
                                 Reference *ref) {
  *ref = (Reference){.f = f, .symbols = interp_symbols(m, arena), .tolerance = 1e-9};
  for (int d = 0; d < 2; d++) {
    InterpOptions o = {.domain = (InterpDomain)d, .symbols = ref->symbols};
    ref->by[d].inputs = interp_random_inputs(m, f, o.domain, ref->symbols, 11, arena, &ref->by[d].n, diags);
    if (!ref->by[d].inputs) return false;
    for (int i = 0; i < ref->by[d].n; i++) {
      InterpTensor *x = &ref->by[d].inputs[i].tensor;
      if (dtype_is_float(x->dtype)) interp_fill(x, o.domain, 77 + (uint64_t)i, low, high);
    }
    if (!interp_run(m, f, &o, ref->by[d].n, ref->by[d].inputs, arena, &ref->by[d].result, diags)) return false;
  }
  return true;
}

static inline bool guard_same(const InterpNamed *want, int nwant, const InterpNamed *got, int ngot,
                              const Reference *ref, InterpDomain domain, Arena *arena, const char **why) {
  *why = "other outputs";
  if (nwant != ngot) return false;
  for (int i = 0; i < nwant; i++) {
    const InterpTensor *g = interp_find(got, ngot, want[i].name);
    const char *what = "missing";
    if (!g || !interp_equal(&want[i].tensor, g, domain, domain == DOMAIN_FLOAT ? ref->tolerance : 0, arena, &what)) {
      *why = arena_printf(arena, "%s (domain %d): %s", want[i].name, (int)domain, what);
      return false;
    }
  }
  return true;
}

/* Runs a lowered function on all ranks in both domains and compares. */
static inline const char *guard_run(Module *m, const Reference *ref, const Func *f, Arena *arena, Diags *diags) {
  const char *why;
  for (int d = 0; d < 2; d++) {
    InterpResult r;
    InterpOptions o = {.domain = (InterpDomain)d, .symbols = ref->symbols, .tolerance = d ? 0 : ref->tolerance};
    if (!interp_run(m, f, &o, ref->by[d].n, ref->by[d].inputs, arena, &r, diags))
      return arena_printf(arena, "does not run (domain %d): %s", d,
                          diags->n ? diags->items[0].message : "no reason given");
    if (!guard_same(ref->by[d].result.outputs, ref->by[d].result.noutputs, r.outputs, r.noutputs, ref, o.domain, arena,
                    &why))
      return why;
    if (!guard_same(ref->by[d].result.states, ref->by[d].result.nstates, r.states, r.nstates, ref, o.domain, arena,
                    &why))
      return why;
  }
  return NULL;
}

/* Lowers with the plan, runs on all ranks in both domains, compares.  NULL if the numbers are right, else a description
 * of the first difference. */
static inline const char *guard_check(Module *m, const Reference *ref, const LowerPlan *plan, Arena *arena,
                                      Func **lowered) {
  Diags *diags = diags_new(arena);
  Func *f = *lowered = lower_spmd(m, ref->f, plan, "rank", diags);
  if (!f) return arena_printf(arena, "not lowered: %s", diags->n ? diags->items[0].message : "no reason given");
  if (!verify_func(m, f, diags))
    return arena_printf(arena, "not valid: %s", diags->n ? diags->items[0].message : "no reason given");
  return guard_run(m, ref, f, arena, diags);
}

/* NULL if the prover agrees (it must never need the numbers). */
static inline const char *guard_prove(Module *m, const Reference *ref, const Func *lowered, Arena *arena) {
  Proof proof = prove(m, ref->f, lowered);
  return proof.verdict == PROVED
             ? NULL
             : arena_printf(arena, "right, but %s at %s: %s", verdict_name(proof.verdict), proof.op, proof.reason);
}

/* Prints a failure, with both programs for the first few, and counts it. */
static inline void guard_report(const Module *m, const Func *l1, const Func *l2, const char *what, const char *why) {
  test_failed_here++;
  if (guard_reports++ >= 30) return;
  fprintf(stderr, "GUARD: %s: %s\n", what, why);
  if (guard_reports > 3) return;
  Arena *a = arena_new();
  Text t = {.arena = a};
  func_print(m, &t, l1);
  if (l2) func_print(m, &t, l2);
  fprintf(stderr, "%s\n", text_str(&t));
  arena_free(a);
}

#endif
