/* dsl_run_main FILE OUT.npz [-D NAME=VALUE]... [--dim NAME=N]... : runs the entry `main` of a model in the reference
 * interpreter on random weights and inputs, and writes all of them and the outputs: "param:NAME", "input:NAME",
 * "output:NAME".  An independent implementation (examples_agree.py) then computes the outputs again.
 */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/npz.h"
#include "frontend/dsl/dsl.h"
#include "ir/run/interp.h"

enum { MAX_SETTINGS = 32 };

typedef struct Settings {
  const char *file, *out;
  DslDefine defines[MAX_SETTINGS], dims[MAX_SETTINGS];
  int ndefines, ndims;
} Settings;

static bool parse_arguments(int argc, char **argv, Settings *s) {
  for (int i = 1; i < argc; i++) {
    bool define = strcmp(argv[i], "-D") == 0, dim = strcmp(argv[i], "--dim") == 0;
    if ((define || dim) && i + 1 < argc && s->ndefines < MAX_SETTINGS && s->ndims < MAX_SETTINGS) {
      char *equals = strchr(argv[++i], '=');
      if (!equals) return false;
      *equals = 0;
      *(define ? &s->defines[s->ndefines++] : &s->dims[s->ndims++]) = (DslDefine){argv[i], equals + 1};
    } else if (!s->file) s->file = argv[i];
    else if (!s->out) s->out = argv[i];
    else return false;
  }
  return s->out != NULL;
}

static bool write_tensor(Arena *arena, NpzWriter *w, const char *kind, const InterpNamed *n) {
  const InterpTensor *t = &n->tensor;
  Tensor view = tensor_view(dtype_is_float(t->dtype) ? DT_f64 : DT_i64, t->rank, t->dims, t->cells);
  return npz_writer_add(w, arena_printf(arena, "%s:%s", kind, n->name), &view);
}

static InterpNamed *random_params(Module *m, Arena *arena) {
  InterpNamed *items = ARENA_ARRAY(arena, InterpNamed, m->params.n);
  for (size_t i = 0; i < m->params.n; i++) {
    const Param *p = &m->params.items[i];
    int64_t dims[MAX_RANK];
    type_constant_dims(p->type, dims);
    items[i] = (InterpNamed){p->name, interp_tensor(arena, p->type->dtype, p->type->rank, dims)};
    interp_fill(&items[i].tensor, DOMAIN_FLOAT, hash64(p->name, strlen(p->name), 0), -0.7, 0.7);
  }
  return items;
}

static bool run(const Settings *s, Arena *arena, Module *m, Diags *diags) {
  InterpOptions options = {.domain = DOMAIN_FLOAT};
  InterpResult result;
  int ninputs;
  int64_t *symbols = interp_symbols(m, arena);
  for (int i = 0; i < s->ndims; i++) {
    int symbol = module_symbol_find(m, s->dims[i].name);
    if (symbol < 0) return false;
    symbols[symbol] = strtoll(s->dims[i].value, NULL, 10);
  }
  const Func *f = module_func(m, "main");
  options.symbols = symbols;
  options.params = random_params(m, arena);
  options.nparams = (int)m->params.n;
  InterpNamed *inputs = interp_random_inputs(m, f, DOMAIN_FLOAT, symbols, 1, arena, &ninputs, diags);
  if (!inputs || !interp_run(m, f, &options, ninputs, inputs, arena, &result, diags)) return false;
  NpzWriter *w = npz_writer_open(diags, s->out);
  bool ok = w != NULL;
  for (int i = 0; ok && i < options.nparams; i++) ok = write_tensor(arena, w, "param", &options.params[i]);
  for (int i = 0; ok && i < ninputs; i++) ok = write_tensor(arena, w, "input", &inputs[i]);
  for (int i = 0; ok && i < result.noutputs; i++) ok = write_tensor(arena, w, "output", &result.outputs[i]);
  return ok && npz_writer_finish(w);
}

int main(int argc, char **argv) {
  Settings s = {0};
  if (!parse_arguments(argc, argv, &s)) {
    fprintf(stderr, "usage: dsl_run_main FILE OUT.npz [-D NAME=VALUE]... [--dim NAME=N]...\n");
    return 2;
  }
  Arena *arena = arena_new();
  Diags *diags = diags_new(arena);
  bool ok = false;
  char *text = file_read_text(diags, arena, s.file, NULL);
  if (text) {
    DslOptions options = {.ndefines = s.ndefines, .defines = s.defines};
    Module *m = dsl_load(s.file, text, &options, diags);
    ok = m && run(&s, arena, m, diags);
    module_free(m);
  }
  diags_print(diags, stderr, false);
  arena_free(arena);
  return ok ? 0 : 1;
}
