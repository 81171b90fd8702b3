/* Keys and values in a cache: a prompt through `prefill` and single tokens through `decode` give the same logits as the
 * model without a cache for the whole sequence. */
#include <math.h>
#include <string.h>

#include "base/compare.h"
#include "base/file.h"
#include "base/hash.h"
#include "frontend/dsl/dsl.h"
#include "ir/run/interp.h"
#include "tests/test.h"

enum { BATCH = 2, LENGTH = 7, VOCAB = 9 };

typedef struct Model {
  Module *m;
  int64_t *symbols;
  InterpNamed *params;
} Model;

static Model load(Arena *arena, Diags *diags, const char *cache) {
  const DslDefine defines[] = {{"layers", "2"}, {"d", "16"},    {"heads", "4"}, {"kv_heads", "2"},
                               {"ffn", "12"},   {"vocab", "9"}, {"ctx", "10"},  {"cache", cache}};
  const DslOptions options = {.ndefines = sizeof defines / sizeof defines[0], .defines = defines};
  const char *text = file_read_text(diags, arena, "examples/llama.apc", NULL);
  Model model = {.m = text ? dsl_load("llama.apc", text, &options, diags) : NULL};
  if (!model.m) return model;
  model.symbols = interp_symbols(model.m, arena);
  model.symbols[module_symbol_find(model.m, "batch")] = BATCH;
  model.params = ARENA_ARRAY(arena, InterpNamed, model.m->params.n);
  for (size_t i = 0; i < model.m->params.n; i++) {
    const Param *p = &model.m->params.items[i];
    int64_t dims[MAX_RANK];
    type_constant_dims(p->type, dims);
    model.params[i] = (InterpNamed){p->name, interp_tensor(arena, p->type->dtype, p->type->rank, dims)};
    interp_fill(&model.params[i].tensor, DOMAIN_FLOAT, hash64(p->name, strlen(p->name), 0), -0.7, 0.7);
  }
  return model;
}

/* Runs an entry on the tokens [first, first + count); `states` are those at the start, and then those at its end. */
static const InterpTensor *run(Arena *arena, Diags *diags, Model *model, const char *entry, const InterpTensor *tokens,
                               int64_t first, int64_t count, InterpResult *states) {
  InterpNamed inputs[2] = {{"tokens", interp_tensor(arena, DT_i64, 2, (int64_t[]){BATCH, count})},
                           {"at", interp_tensor(arena, DT_i64, 0, NULL)}};
  for (int64_t b = 0; b < BATCH; b++)
    for (int64_t s = 0; s < count; s++) inputs[0].tensor.cells[b * count + s] = tokens->cells[b * LENGTH + first + s];
  inputs[1].tensor.cells[0].i = first;
  model->symbols[module_symbol_find(model->m, "seq")] = count;
  InterpOptions options = {.symbols = model->symbols,
                           .params = model->params,
                           .nparams = (int)model->m->params.n,
                           .states = states->states,
                           .nstates = states->nstates};
  InterpResult *result = ARENA_NEW(arena, InterpResult);
  int ninputs = strcmp(entry, "main") == 0 ? 1 : 2;
  bool ok = interp_run(model->m, module_func(model->m, entry), &options, ninputs, inputs, arena, result, diags);
  CHECKF(ok, "%s at %lld", entry, (long long)first);
  if (!ok) return NULL;
  *states = *result;
  return &result->outputs[0].tensor;
}

/* The largest difference between logits of `part` and those of the whole sequence from position `first` on. */
static double difference(const InterpTensor *whole, const InterpTensor *part, int64_t first) {
  double worst = 0;
  int64_t count = part->dims[1];
  for (int64_t b = 0; b < BATCH; b++)
    for (int64_t s = 0; s < count; s++)
      for (int64_t v = 0; v < VOCAB; v++) {
        double x = whole->cells[(b * LENGTH + first + s) * VOCAB + v].f, y = part->cells[(b * count + s) * VOCAB + v].f;
        worst = fmax(worst, number_gap(y, x));
      }
  return worst;
}

/* The sequence cut into pieces of these lengths, ending with 0; a piece of one token goes through decode. */
static void check_pieces(const int *pieces) {
  Arena *arena = arena_new();
  Diags *diags = diags_new(arena);
  Model plain = load(arena, diags, "0"), cached = load(arena, diags, "1");
  CHECK(plain.m && cached.m);
  if (plain.m && cached.m) {
    InterpTensor tokens = interp_tensor(arena, DT_i64, 2, (int64_t[]){BATCH, LENGTH});
    InterpResult none = {0}, states = {0};
    interp_fill(&tokens, DOMAIN_FLOAT, 3, 0, VOCAB);
    const InterpTensor *whole = run(arena, diags, &plain, "main", &tokens, 0, LENGTH, &none);
    int64_t first = 0;
    for (int i = 0; whole && pieces[i]; first += pieces[i++]) {
      const char *entry = pieces[i] == 1 && first > 0 ? "decode" : "prefill";
      const InterpTensor *part = run(arena, diags, &cached, entry, &tokens, first, pieces[i], &states);
      CHECK(states.nstates == 4);
      CHECKF(part && difference(whole, part, first) < 1e-12, "%s at %lld", entry, (long long)first);
    }
    CHECK(first == LENGTH);
  }
  diags_print(diags, stderr, false);
  module_free(plain.m);
  module_free(cached.m);
  arena_free(arena);
}

static void prompt_then_tokens(void) { check_pieces((const int[]){4, 1, 1, 1, 0}); }
static void token_by_token(void) { check_pieces((const int[]){1, 1, 1, 1, 1, 1, 1, 0}); }
static void prompt_in_pieces(void) { check_pieces((const int[]){3, 2, 2, 0}); }

int main(void) {
  RUN(prompt_then_tokens);
  RUN(token_by_token);
  RUN(prompt_in_pieces);
  return test_summary();
}
