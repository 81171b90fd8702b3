/* tests/interp_test.h - shared by the tests that run IR text through the interpreter. */
#ifndef APC_TESTS_INTERP_TEST_H
#define APC_TESTS_INTERP_TEST_H

#include <stdlib.h>

#include "base/compare.h"
#include "ir/run/interp.h"
#include "tests/test.h"

typedef struct InterpProgram {
  Arena *arena;
  Diags *diags;
  Module *m;
  InterpOptions options;
  InterpNamed inputs[16];
  int ninputs;
  InterpResult result;
} InterpProgram;

/* Parses "apc.ir 1" + text and verifies it; exits if that fails (a broken test). */
static inline InterpProgram interp_program(const char *text) {
  InterpProgram p = {.arena = arena_new()};
  p.diags = diags_new(p.arena);
  p.m = ir_parse("test", arena_printf(p.arena, "apc.ir 1\n%s", text), p.diags);
  if (!p.m || !verify_module(p.m, p.diags)) {
    diags_print(p.diags, stderr, false);
    fprintf(stderr, "%s\n", text);
    exit(1);
  }
  return p;
}

static inline void program_free(InterpProgram *p) {
  module_free(p->m);
  arena_free(p->arena);
}

static inline InterpTensor *program_input(InterpProgram *p, const char *name, DType t, int rank, const int64_t *dims) {
  InterpNamed *item = &p->inputs[p->ninputs++];
  item->name = name;
  item->tensor = interp_tensor(p->arena, t, rank, dims);
  return &item->tensor;
}

/* Puts floats (or whole numbers) into an input, in any domain. */
static inline void program_numbers(InterpProgram *p, const char *name, DType t, int rank, const int64_t *dims,
                                   const double *v) {
  InterpTensor *x = program_input(p, name, t, rank, dims);
  for (int64_t i = 0; i < interp_elements(x); i++) {
    if (!dtype_is_float(t)) x->cells[i].i = (int64_t)v[i];
    else if (p->options.domain == DOMAIN_MODP) x->cells[i].i = (int64_t)interp_residue(v[i]);
    else x->cells[i].f = v[i];
  }
}

static inline bool tool_program_run(InterpProgram *p, const char *func) {
  const Func *f = module_func(p->m, func);
  bool ok = interp_run(p->m, f, &p->options, p->ninputs, p->inputs, p->arena, &p->result, p->diags);
  return ok;
}

/* The first diagnostic's message; "" if none. */
static inline const char *program_error(const InterpProgram *p) {
  return p->diags->n ? p->diags->items[0].message : "";
}

static inline const InterpTensor *program_output(const InterpProgram *p, const char *name) {
  const InterpTensor *t = interp_find(p->result.outputs, p->result.noutputs, name);
  return t ? t : interp_find(p->result.states, p->result.nstates, name);
}

/* Checks an output of floats or integers against numbers, to 1e-12. */
#define CHECK_OUTPUT(p, name, ...) \
  do { \
    const double want_[] = {__VA_ARGS__}; \
    check_output((p), (name), (int)(sizeof want_ / sizeof *want_), want_, __FILE__, __LINE__); \
  } while (0)

static inline void check_output(const InterpProgram *p, const char *name, int n, const double *want, const char *file,
                                int line) {
  const InterpTensor *t = program_output(p, name);
  if (!t || interp_elements(t) != n) {
    fprintf(stderr, "%s:%d: no output \"%s\" of %d elements: %s\n", file, line, name, n, program_error(p));
    test_failed_here++;
    return;
  }
  for (int i = 0; i < n; i++) {
    double v = dtype_is_float(t->dtype) && p->options.domain == DOMAIN_FLOAT ? t->cells[i].f : (double)t->cells[i].i;
    double w = dtype_is_float(t->dtype) && p->options.domain == DOMAIN_MODP ? (double)interp_residue(want[i]) : want[i];
    if (number_close(v, w, 1e-12)) continue;
    fprintf(stderr, "%s:%d: output \"%s\"[%d] is %.17g, not %.17g\n", file, line, name, i, v, w);
    test_failed_here++;
  }
}

#endif
