/* The pipeline keeps the results of functions with loops: the programs of tests/text/loop_*.ir, before and after all
 * passes. */
#include "base/file.h"
#include "passes/pipeline.h"
#include "tests/interp_test.h"

static bool weights(void *context, const Module *m, const Param *p, InterpTensor *out, Diags *diags) {
  (void)context, (void)diags;
  int64_t n[MAX_RANK], index[MAX_RANK] = {0}, stride = (int64_t)dtype_bytes(p->type->dtype);
  if (!type_constant_dims(p->type, n)) return false;
  *out = interp_tensor(m->arena, p->type->dtype, p->type->rank, n);
  for (int64_t i = 0; i < interp_elements(out);
       i++) { /* by the offset in the file, so that views of a weight agree with it */
    int64_t at = (int64_t)p->offset / stride;
    for (int d = 0; d < p->type->rank; d++) at += index[d] * p->strides[d];
    out->cells[i].f = (double)((at * 37 + 11) % 64) / 128 - 0.2;
    for (int d = p->type->rank - 1; d >= 0 && ++index[d] == n[d]; d--) index[d] = 0;
  }
  return true;
}

static void run_all(InterpProgram *p, const Module *inputs_of, InterpResult *results) {
  for (size_t k = 0, r = 0; k < inputs_of->funcs.n; k++) {
    const Func *f = module_func(p->m, inputs_of->funcs.items[k]->name);
    int n;
    InterpOptions o = {.symbols = interp_symbols(p->m, p->arena), .blob = weights};
    InterpNamed *inputs = interp_random_inputs(p->m, f, DOMAIN_FLOAT, o.symbols, 5, p->arena, &n, p->diags);
    CHECKF(inputs && interp_run(p->m, f, &o, n, inputs, p->arena, &results[r++], p->diags), "@%s: %s", f->name,
           program_error(p));
  }
}

static void same_results(const char *name, const InterpResult *want, const InterpResult *got, double tolerance,
                         Arena *arena) {
  CHECK(want->noutputs == got->noutputs && want->nstates == got->nstates);
  for (int i = 0; i < want->noutputs + want->nstates; i++) {
    bool state = i >= want->noutputs;
    const InterpNamed *x = state ? &want->states[i - want->noutputs] : &want->outputs[i];
    const InterpTensor *y =
        state ? interp_find(got->states, got->nstates, x->name) : interp_find(got->outputs, got->noutputs, x->name);
    const char *why = "missing";
    CHECKF(y && interp_equal(&x->tensor, y, DOMAIN_FLOAT, tolerance, arena, &why), "%s: %s: %s", name, x->name, why);
  }
}

static void keeps_numbers(const char *name, double tolerance) {
  Arena *scratch = arena_new();
  Diags *diags = diags_new(scratch);
  char *text = file_read_text(diags, scratch, arena_printf(scratch, "tests/text/loop_%s.ir", name), NULL);
  CHECKF(text, "no tests/text/loop_%s.ir", name);
  if (!text) return;
  char *start = strstr(text, "apc.ir 1\n");
  InterpProgram before = interp_program(start + strlen("apc.ir 1\n")),
                after = interp_program(start + strlen("apc.ir 1\n"));
  InterpResult want[4], got[4];
  bool ok = pipeline_run(after.m, NULL, &(PassOptions){.verify = true, .device = target_device_traits(DEVICE_cpu)},
                         after.diags);
  CHECKF(ok, "%s: %s", name, program_error(&after));
  run_all(&before, before.m, want);
  run_all(&after, before.m, got);
  for (size_t k = 0; k < before.m->funcs.n; k++) same_results(name, &want[k], &got[k], tolerance, before.arena);
  program_free(&before);
  program_free(&after);
  arena_free(scratch);
}

static void programs(void) {
  keeps_numbers("inline", 1e-9);
  keeps_numbers("dce", 1e-9);
  keeps_numbers("order", 1e-9);
  keeps_numbers("fold", 1e-9);
  keeps_numbers("views", 1e-9);
  keeps_numbers("widen", 2e-3); /* fewer roundings to f16 */
  keeps_numbers("strided", 1e-9);
  keeps_numbers("channels_last", 1e-9);
  keeps_numbers("prepare", 1e-9);
  keeps_numbers("recognise", 1e-9);
  keeps_numbers("rows", 1e-9);
  keeps_numbers("outline", 1e-9);
}

int main(void) {
  RUN(programs);
  return test_summary();
}
