/* tests/fuzz/fuzz_prove.c - libFuzzer target: any bytes as IR text with functions of both levels.  If the verifier
 * accepts it, the prover compares each level-2 function with each level-1 function; a proved one is run at small sizes
 * modulo p and has to compute the same.  Its seeds are the hand-written programs of tests/prove and tests/proofs. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/die.h"
#include "ir/run/interp.h"
#include "proof/prove.h"

enum { MAX_PAIRS = 6, MAX_CELLS = 4000, MAX_EXTRA = 3, MAX_RANKS = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static bool is_prepared(const Func *f) { return strcmp(f->name, "prepare") == 0; }

/* The smallest legal sizes and a few larger ones; false if the whole values are large. */
static bool sizes_of(const Module *m, const Func *f, int64_t more, int64_t *values) {
  int64_t dims[MAX_RANK], all = 0;
  for (size_t i = 0; i < m->symbols.n; i++) {
    const Symbol *s = &m->symbols.items[i];
    int64_t step = s->multiple > 1 ? s->multiple : 1;
    if (s->axis >= 0) continue;
    if (s->min > MAX_CELLS || step > MAX_CELLS) return false;
    values[i] = (s->min + step - 1) / step * step + more * step;
    if (s->max && values[i] > s->max) return false;
  }
  for (size_t v = 1; v < f->values.n; v++) {
    int64_t cells = 1;
    if (!interp_dims(type_of(f, (Val)v), values, dims)) return false;
    for (int d = 0; d < type_of(f, (Val)v)->rank; d++)
      if (dims[d] > MAX_CELLS || (cells *= dims[d]) > MAX_CELLS) return false;
    if ((all += cells) > MAX_CELLS) return false;
  }
  return true;
}

static bool same(const InterpNamed *want, int nwant, const InterpNamed *got, int ngot, Arena *arena) {
  if (nwant != ngot) return false;
  for (int i = 0; i < nwant; i++) {
    const InterpTensor *t = interp_find(got, ngot, want[i].name);
    if (!t || !interp_equal(&want[i].tensor, t, DOMAIN_MODP, 0, arena, NULL)) return false;
  }
  return true;
}

static void run_both(Module *m, const Func *l1, const Func *l2, Arena *arena) {
  int64_t *values = ARENA_ARRAY(arena, int64_t, m->symbols.n);
  for (int more = 0; more < MAX_EXTRA && sizes_of(m, l1, more, values); more++) {
    Diags *diags = diags_new(arena);
    InterpOptions o = {.domain = DOMAIN_MODP, .symbols = values, .max_cells = 64 * MAX_CELLS, .max_rounds = 20};
    InterpResult want, got;
    int n = 0;
    InterpNamed *inputs = interp_random_inputs(m, l1, o.domain, values, 7, arena, &n, diags);
    if (!inputs || !interp_run(m, l1, &o, n, inputs, arena, &want, diags)) continue;
    if (!interp_run(m, l2, &o, n, inputs, arena, &got, diags))
      die("a proved program does not run: %s", diags->n ? diags->items[0].message : "");
    if (!same(want.outputs, want.noutputs, got.outputs, got.noutputs, arena)) die("a proved program has other outputs");
    if (!same(want.states, want.nstates, got.states, got.nstates, arena)) die("a proved program leaves other states");
  }
}

/* A proof is about whole numbers; sizes beyond 64 bits end a run with an error. */
static bool may_overflow(const uint8_t *text, size_t n) {
  const int safe_digits = 15;
  int digits = 0;
  for (size_t i = 0; i < n; i++) {
    digits = text[i] >= '0' && text[i] <= '9' ? digits + 1 : 0;
    if (digits > safe_digits) return true;
  }
  return false;
}

static void prove_all(Module *m, bool run, Arena *arena) {
  int pairs = 0;
  for (size_t i = 0; i < m->funcs.n; i++)
    for (size_t k = 0; k < m->funcs.n && pairs < MAX_PAIRS; k++) {
      Func *l1 = m->funcs.items[i], *l2 = m->funcs.items[k];
      if (l1->level != 1 || l2->level != 2) continue;
      pairs++;
      Proof p = is_prepared(l1) ? prove_prepare(m, l1, l2, 1, &l2) : prove(m, l1, l2);
      if (p.verdict != PROVED && !p.reason) die("no reason is given");
      if (run && p.verdict == PROVED && !is_prepared(l1) && mesh_ranks(&m->mesh) <= MAX_RANKS)
        run_both(m, l1, l2, arena);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  Arena *arena = arena_new();
  Diags *diags = diags_new(arena);
  Module *m = ir_parse("fuzz.ir", arena_strndup(arena, (const char *)bytes, n), diags);
  if (m && verify_module(m, diags)) prove_all(m, !may_overflow(bytes, n), arena);
  module_free(m);
  arena_free(arena);
  return 0;
}
