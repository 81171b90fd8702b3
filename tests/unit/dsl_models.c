/* The models of examples/: exact parameter counts, many settings, and that their IR parses back to itself. */
#include <ctype.h>

#include "base/file.h"
#include "frontend/dsl/dsl.h"
#include "tests/test.h"

enum { MAX_DEFINES = 12 };

/* Loads examples/NAME with settings like "layers=2 d=8"; NULL after printing unexpected diagnostics. */
static Module *load(Arena *arena, const char *name, const char *settings, bool quiet) {
  static const char *const separators = " ";
  DslDefine defines[MAX_DEFINES];
  DslOptions options = {.defines = defines};
  const char *path = arena_printf(arena, "examples/%s", name);
  char *text = arena_strdup(arena, settings);
  Diags *diags = diags_new(arena);
  for (char *save, *s = strtok_r(text, separators, &save); s; s = strtok_r(NULL, separators, &save)) {
    char *equals = strchr(s, '=');
    *equals = 0;
    defines[options.ndefines++] = (DslDefine){s, equals + 1};
  }
  const char *source = file_read_text(diags, arena, path, NULL);
  CHECKF(source != NULL, "%s", path);
  if (!source) return NULL;
  Module *m = dsl_load(path, source, &options, diags);
  if (!quiet) diags_print(diags, stderr, false);
  CHECK((m == NULL) == (diags->errors > 0));
  return m;
}

static int64_t count(const char *name, const char *settings) {
  Arena *arena = arena_new();
  Module *m = load(arena, name, settings, false);
  int64_t n = m ? dsl_parameter_count(m) : -1;
  module_free(m);
  arena_free(arena);
  return n;
}

#define COUNT(name, settings, want) \
  do { \
    int64_t got_ = count(name, settings); \
    CHECKF(got_ == (want), "%s %s: %lld", name, settings, (long long)got_); \
  } while (0)

static void parameter_counts(void) {
  COUNT("gpt.apc", "", 124439808);
  COUNT("gpt.apc", "tied=0", 124439808 + 50257LL * 768);
  COUNT("gpt.apc", "layers=24 d=1024 heads=16", 354823168);
  COUNT("gpt.apc", "layers=36 d=1280 heads=20", 774030080);
  COUNT("gpt.apc", "layers=48 d=1600 heads=25", 1557611200);
  COUNT("llama.apc", "", 6738415616);
  COUNT("llama.apc", "cache=1", 6738415616);
  COUNT("llama.apc", "layers=40 d=5120 heads=40 ffn=13824", 13015864320);
  COUNT("llama.apc", "layers=80 d=8192 heads=64 ffn=22016", 65285660672);
  COUNT("llama.apc", "layers=80 d=8192 heads=64 kv_heads=8 ffn=28672", 68976648192);
  COUNT("llama.apc", "layers=32 kv_heads=8 ffn=14336 vocab=128256", 8030261248);
  COUNT("bert.apc", "", 109482240);
  COUNT("bert.apc", "layers=24 d=1024 heads=16", 335141888);
  COUNT("resnet.apc", "", 25557032);
  COUNT("resnet.apc", "depth=18", 11689512);
  COUNT("resnet.apc", "depth=34", 21797672);
  COUNT("resnet.apc", "depth=101", 44549160);
  COUNT("resnet.apc", "depth=152", 60192808);
  COUNT("vit.apc", "", 86567656);
  COUNT("vit.apc", "layers=24 d=1024 heads=16", 304326632);
  COUNT("t5.apc", "", 222903552);
  COUNT("t5.apc", "layers=6 d=512 heads=8 ffn=2048", 60506624);
  COUNT("t5.apc", "layers=24 d=1024 heads=16 ffn=4096", 737668096);
  COUNT("moe.apc", "", 46702792704);
  COUNT("moe.apc", "routing=capacity groups=4", 46702792704);
  COUNT("moe.apc", "routing=dropless", 46702792704);
  COUNT("moe.apc", "layers=56 d=6144 heads=48 ffn=16384 vocab=32768", 140630071296);
  COUNT("unet.apc", "", 31031745);
  COUNT("chars.apc", "", 1040768);
  COUNT("chars.apc", "sample=64", 1040768);
  COUNT("lstm.apc", "", 19775200);
  COUNT("lstm.apc", "d=1500", 66022000);
  COUNT("lstm.apc", "layers=1 d=3 hidden=5 vocab=7", 7 * 3 + 4 * (3 * 5 + 5 * 5 + 5) + 5 * 7 + 7);
  COUNT("mlp.apc", "layers=3 d=10 hidden=7", 3 * (10 * 7 + 7 + 7 * 10 + 10));
}

/* printing, parsing and printing again gives the same text */
static void check_round_trip(Arena *arena, Module *m) {
  Text first = {.arena = arena}, second = {.arena = arena};
  Diags *diags = diags_new(arena);
  module_print(m, &first);
  Module *again = ir_parse("model.ir", text_str(&first), diags);
  diags_print(diags, stderr, false);
  CHECK(again != NULL);
  if (!again) return;
  module_print(again, &second);
  CHECK(strcmp(text_str(&first), text_str(&second)) == 0);
  module_free(again);
}

static void many_settings(void) {
  static const char *const settings[][2] = {
      {"mlp.apc", "layers=1 d=1 hidden=1"},
      {"mlp.apc", "layers=9 d=3 hidden=5"},
      {"gpt.apc", "layers=1 d=1 heads=1 ffn=1 vocab=1 ctx=1"},
      {"gpt.apc", "layers=3 d=12 heads=3 vocab=17 ctx=9 tied=0"},
      {"gpt.apc", "layers=96 d=12288 heads=96 vocab=51200 ctx=2048"},
      {"bert.apc", "layers=2 d=12 heads=3 ffn=5 vocab=17 ctx=9"},
      {"resnet.apc", "depth=18 width=2 classes=3 image=9"},
      {"resnet.apc", "depth=152 width=1 classes=1 image=1"},
      {"vit.apc", "layers=1 d=12 heads=3 patch=4 image=8 classes=2"},
      {"t5.apc", "layers=1 d=6 d_kv=5 heads=3 ffn=4 vocab=9"},
      {"moe.apc", "layers=1 d=16 heads=4 kv_heads=2 ffn=5 experts=3 top_k=3 vocab=7"},
      {"moe.apc",
       "layers=1 d=16 heads=4 kv_heads=2 ffn=5 experts=3 top_k=3 vocab=7 routing=capacity capacity_factor=0.1"},
      {"moe.apc", "layers=1 d=16 heads=4 kv_heads=2 ffn=5 experts=3 top_k=1 vocab=7 routing=capacity groups=7"},
      {"moe.apc", "layers=1 d=16 heads=4 kv_heads=2 ffn=5 experts=3 top_k=2 vocab=7 routing=dropless"},
      {"unet.apc", "channels=1 levels=3 image=8"},
      {"lstm.apc", "layers=3 d=4 hidden=6 vocab=5"},
      {"chars.apc", "layers=2 d=8 heads=2 ctx=8 vocab=11 sample=5"},
      {"llama.apc", "layers=1 d=2 heads=1 ffn=1 vocab=1"},
      {"llama.apc", "layers=2 d=24 heads=6 kv_heads=2 ffn=10 vocab=19"},
      {"llama.apc", "layers=2 d=24 heads=6 kv_heads=1 ffn=10 vocab=19 cache=1 ctx=16"},
      {"llama.apc", "layers=2 d=24 heads=6 kv_heads=6 ffn=10 vocab=19 cache=true ctx=16 eps=1e-5 rope_base=5e5"},
  };
  for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
    Arena *arena = arena_new();
    Module *m = load(arena, settings[i][0], settings[i][1], false);
    CHECKF(m != NULL, "%s %s", settings[i][0], settings[i][1]);
    if (m) check_round_trip(arena, m);
    module_free(m);
    arena_free(arena);
  }
}

static void refused_settings(void) {
  static const char *const settings[][2] = {
      {"mlp.apc", "layers=0"},
      {"mlp.apc", "d=-4"},
      {"mlp.apc", "hidden=0"},
      {"gpt.apc", "heads=5"},
      {"gpt.apc", "heads=0"},
      {"gpt.apc", "d=x"},
      {"gpt.apc", "ctx=0"},
      {"gpt.apc", "tide=1"},
      {"resnet.apc", "depth=20"},
      {"vit.apc", "patch=15"},
      {"moe.apc", "top_k=9"},
      {"moe.apc", "routing=random"},
      {"moe.apc", "routing=capacity capacity_factor=0.0"},
      {"moe.apc", "groups=0"},
      {"lstm.apc", "layers=0"},
      {"unet.apc", "image=100 levels=3"},
      {"llama.apc", "kv_heads=5"},
      {"llama.apc", "d=96 heads=32"},
      {"llama.apc", "vocab=0"},
      {"llama.apc", "kv_heads=0"},
      {"gpt.apc", "vocab=9223372036854775807"},
      {"gpt.apc", "layers=100000000"},
      {"llama.apc", "cache=1 ctx=-1"},
  };
  for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
    Arena *arena = arena_new();
    Module *m = load(arena, settings[i][0], settings[i][1], true);
    CHECKF(m == NULL, "%s %s", settings[i][0], settings[i][1]);
    module_free(m);
    arena_free(arena);
  }
}

/* A tied weight is one parameter with two uses; queries, keys and values are never one fused product. */
static void structure(void) {
  Arena *arena = arena_new();
  Module *m = load(arena, "gpt.apc", "layers=2 d=8 heads=2 vocab=11 ctx=4", false);
  const Func *f = m ? module_func(m, "main") : NULL;
  CHECK(f != NULL);
  if (f) {
    Val table = func_find(f, "wte");
    int uses = 0;
    for (size_t i = 0; i < f->ops.n; i++)
      for (int k = 0; k < f->ops.items[i].nin; k++) uses += f->ops.items[i].in[k] == table;
    CHECKF(uses == 2, "%d", uses);
    CHECK(func_find(f, "layers.1.attn.q") && func_find(f, "layers.1.attn.q.w") && func_find(f, "layers.0"));
    CHECK(f->outputs.n == 1 && strcmp(f->outputs.items[0].name, "logits") == 0);
  }
  module_free(m);
  m = load(arena, "llama.apc", "layers=1 d=8 heads=4 kv_heads=2 ffn=6 vocab=11 cache=1 ctx=4", false);
  CHECK(m && m->funcs.n == 2 && module_func(m, "prefill") && module_func(m, "decode") && m->states.n == 2);
  CHECK(m && module_state(m, "layers.0.attn.keys") && module_param(m, "layers.0.attn.wq")->type->rank == 4);
  module_free(m);
  arena_free(arena);
}

/* docs/guide/dsl.md names every built-in function. */
static void documentation(void) {
  static const char *const names[] = {
#define BUILTIN(name, parameters, function, doc) #name,
#include "frontend/dsl/builtin.def"
#undef BUILTIN
#define UNARY(name, classes, linear, cost, f, i, doc) #name,
#include "ir/ops.def"
  };
  Arena *arena = arena_new();
  const char *text = file_read_text(diags_new(arena), arena, "docs/guide/dsl.md", NULL);
  CHECK(text != NULL);
  for (size_t i = 0; text && i < sizeof names / sizeof names[0]; i++) {
    size_t n = strlen(names[i]);
    const char *at = strstr(text, names[i]);
    while (at && (isalnum((unsigned char)at[-1]) || at[-1] == '_' || isalnum((unsigned char)at[n]) || at[n] == '_'))
      at = strstr(at + 1, names[i]);
    CHECKF(at != NULL, "%s", names[i]);
  }
  arena_free(arena);
}

int main(void) {
  RUN(parameter_counts);
  RUN(many_settings);
  RUN(refused_settings);
  RUN(structure);
  RUN(documentation);
  return test_summary();
}
