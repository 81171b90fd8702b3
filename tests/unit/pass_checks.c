/* Every pass is checked against its input (passes/check.h): no right pass is blamed, and every single fault planted in
 * the result of a pass is found.
 *
 * Faults are planted in all operations of all functions of tests/text, one at a time: an operation left out, operands
 * exchanged, another weight, another number (eps, scale, value), another order of dimensions, other letters, a start
 * shifted by one, another kind.  Most are wrong; runs of both functions on other numbers and other sizes tell which are
 * not. */
#include <ctype.h>

#include "base/file.h"
#include "frontend/dsl/dsl.h"
#include "proof/element.h"
#include "passes/pipeline.h"
#include "tests/mutants.h"
#include "tests/interp_test.h"

static Module *load_text(Arena *a, const char *file) {
  Diags *diags = diags_new(a);
  const char *text = file_read_text(diags, a, file, NULL);
  Module *m = text ? ir_parse(file, text, diags) : NULL;
  bool ok = m && verify_module(m, diags);
  CHECKF(ok, "%s: %s", file, diags->n ? diags->items[0].message : "");
  return ok ? m : NULL;
}

static const PassCheck *found(const PassChecks *checks, const char *pass) {
  for (size_t i = 0; i < checks->list.n; i++)
    if (strcmp(checks->list.items[i].pass, pass) == 0) return &checks->list.items[i];
  return NULL;
}

/* ---- right passes */

static int seen[PASS_DIFFERS + 1];

/* Checks the changes of the pipeline to a module, pass by pass: nothing differs, and nothing is left to trust or to
   numbers. */
static void checked(Module *m, const char *what, const char *passes) {
  PassChecks checks = {.most_work = 1e9};
  Diags *diags = diags_new(m->arena);
  CHECKF(pipeline_run(m, passes,
                      &(PassOptions){.verify = true, .device = target_device_traits(DEVICE_cpu), .checks = &checks},
                      diags),
         "%s: %s", what, diags->n ? diags->items[0].message : "");
  for (size_t i = 0; i < checks.list.n; i++) {
    const PassCheck *c = &checks.list.items[i];
    seen[c->how]++;
    if (c->unproved) printf("%-20s %-14s not proved: %s\n", what, c->pass, c->unproved);
    CHECKF(c->how <= PASS_PROVED_REALS, "%s: %s %s: %s", what, c->pass, pipeline_how_name(c->how), c->note);
  }
}

static const char *const texts[] = {"channels_last",
                                    "dce",
                                    "fold",
                                    "group",
                                    "hoist",
                                    "inline",
                                    "order",
                                    "outline",
                                    "prepare",
                                    "recognise",
                                    "recognise_exported",
                                    "recognise_masks",
                                    "recognise_moved",
                                    "rows",
                                    "strided",
                                    "views",
                                    "widen",
                                    "loop_channels_last",
                                    "loop_dce",
                                    "loop_fold",
                                    "loop_inline",
                                    "loop_order",
                                    "loop_outline",
                                    "loop_prepare",
                                    "loop_recognise",
                                    "loop_rows",
                                    "loop_strided",
                                    "loop_views",
                                    "loop_widen"};
enum { TEXTS = (int)(sizeof texts / sizeof *texts) };

static void text_programs(void) {
  for (int i = 0; i < TEXTS; i++) {
    Arena *a = arena_new();
    Module *m = load_text(a, arena_printf(a, "tests/text/%s.ir", texts[i]));
    if (m) checked(m, texts[i], NULL);
    if (m) module_free(m);
    m = load_text(a, arena_printf(a, "tests/text/%s.ir", texts[i]));
    if (m) checked(m, texts[i], "inline,order,outline,inline");
    if (m) module_free(m);
    arena_free(a);
  }
}

static void example_models(void) {
  static const struct {
    const char *file;
    DslDefine defines[9];
  } models[] = {
      {"gpt", {{"layers", "2"}, {"d", "16"}, {"heads", "2"}, {"vocab", "11"}, {"ctx", "16"}}},
      {"llama", {{"layers", "2"}, {"d", "16"}, {"heads", "4"}, {"kv_heads", "2"}, {"ffn", "24"}, {"vocab", "11"}}},
      {"bert", {{"layers", "2"}, {"d", "16"}, {"heads", "2"}, {"ffn", "24"}, {"vocab", "11"}, {"ctx", "16"}}},
      {"t5", {{"layers", "1"}, {"d", "8"}, {"d_kv", "4"}, {"heads", "2"}, {"ffn", "24"}, {"vocab", "11"}}},
      {"moe",
       {{"layers", "1"},
        {"d", "16"},
        {"heads", "4"},
        {"kv_heads", "2"},
        {"ffn", "24"},
        {"experts", "4"},
        {"top_k", "2"},
        {"vocab", "11"}}},
      {"vit",
       {{"layers", "1"},
        {"d", "16"},
        {"heads", "2"},
        {"ffn", "24"},
        {"patch", "8"},
        {"image", "16"},
        {"classes", "5"}}},
      {"resnet", {{"depth", "18"}, {"width", "4"}, {"classes", "5"}, {"image", "32"}}},
      {"resnet", {{"depth", "50"}, {"width", "2"}, {"classes", "5"}, {"image", "32"}}},
      {"unet", {{"channels", "4"}, {"levels", "2"}, {"image", "8"}}},
      {"mlp", {{"layers", "2"}, {"d", "8"}, {"hidden", "12"}}},
  };
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    Arena *a = arena_new();
    Diags *diags = diags_new(a);
    DslOptions options = {.defines = models[i].defines};
    while (models[i].defines[options.ndefines].name) options.ndefines++;
    const char *path = arena_printf(a, "examples/%s.apc", models[i].file),
               *source = file_read_text(diags, a, path, NULL);
    Module *m = source ? dsl_load(path, source, &options, diags) : NULL;
    CHECKF(m, "%s: %s", path, diags->n ? diags->items[0].message : "");
    if (m) checked(m, path, NULL);
    if (m) module_free(m);
    arena_free(a);
  }
}

/* ---- faults */

enum { FAULTS = 9 };

static Attr *own_attr(Op *op, AttrKey key) { return (Attr *)(uintptr_t)op_attr(op, key); }

static OpKind other_kind(OpKind k) {
  switch (k) {
    case OP_add: return OP_sub;
    case OP_sub: return OP_add;
    case OP_mul: return OP_div;
    case OP_div: return OP_mul;
    case OP_max: return OP_min;
    case OP_relu: return OP_tanh;
    default: return OP_none;
  }
}

/* The letters of one part of a spec exchanged; `at` counts over all pairs of neighbours. */
static bool exchange_letters(Module *m, Op *op, int at) {
  Attr *a = own_attr(op, AT_spec);
  if (!a) return false;
  char *s = arena_strdup(m->arena, a->u.s);
  for (char *c = s; *c && c[1]; c++) {
    if (!isalpha((unsigned char)c[0]) || !isalpha((unsigned char)c[1]) || at-- > 0) continue;
    char t = c[0];
    c[0] = c[1], c[1] = t;
    *a = attr_s(m, AT_spec, s);
    return true;
  }
  return false;
}

static bool exchange_ints(Module *m, Op *op, AttrKey key, int at) {
  Attr *a = own_attr(op, key);
  int64_t list[MAX_RANK * 2];
  if (!a || a->n < 2 || at >= a->n - 1) return false;
  memcpy(list, a->u.ints, sizeof *list * (size_t)a->n);
  int64_t t = list[at];
  list[at] = list[at + 1], list[at + 1] = t;
  *a = attr_ints(m, key, a->n, list);
  return true;
}

static bool further(Module *m, Op *op, AttrKey key, int at) {
  Attr *a = own_attr(op, key);
  const Expr *list[MAX_RANK];
  if (!a || at >= a->n) return false;
  for (int i = 0; i < a->n; i++) list[i] = i == at ? ex_addi(m, a->u.exprs[i], 1) : a->u.exprs[i];
  *a = attr_exprs(m, key, a->n, list);
  return true;
}

static bool other_number(Op *op) {
  static const AttrKey keys[] = {AT_eps, AT_scale, AT_value};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    Attr *a = own_attr(op, keys[i]);
    if (!a) continue;
    a->u.f = a->u.f == 0 ? 1 : a->u.f * 1.5;
    return true;
  }
  return false;
}

static bool other_flag(Module *m, Op *op) {
  Attr *causal = own_attr(op, AT_causal), *axis = own_attr(op, AT_axis);
  if (causal) return causal->u.i = !causal->u.i, true;
  if (op->kind == OP_norm)
    return *own_attr(op, AT_kind) = attr_s(m, AT_kind, strcmp(op_str(op, AT_kind), "rms") == 0 ? "layer" : "rms"), true;
  if (axis) return axis->u.i = axis->u.i ? axis->u.i - 1 : 1, true;
  return false;
}

/* Another weight of the type, or the same one from another element on. */
static bool other_weight(Module *m, const Func *f, Op *op, int at) {
  if (op->kind != OP_param) return false;
  Param *p = module_param(m, op_str(op, AT_name));
  if (at == 0 && p->init == INIT_BLOB) {
    const char *name = arena_printf(m->arena, "%s.moved", p->name);
    Param *q = module_param(m, name);
    if (!q) {
      q = module_param_add(m, name, p->type);
      p = module_param(m, op_str(op, AT_name));
      const char *own = q->name;
      *q = *p;
      q->name = own;
      q->offset += dtype_bytes(p->type->dtype);
    }
    *own_attr(op, AT_name) = attr_s(m, AT_name, name);
    return true;
  }
  for (size_t i = 0; at == 1 && i < m->params.n; i++)
    if (&m->params.items[i] != p && m->params.items[i].type == type_of(f, op->out))
      return *own_attr(op, AT_name) = attr_s(m, AT_name, m->params.items[i].name), true;
  return false;
}

/* Fault number `which` of the operation, in a copy; NULL if there is no such fault. */
static Func *faulty(Module *m, const Func *f, size_t i, int which, int at) {
  Func *g = copy_func(m, f);
  Op *op = &g->ops.items[i];
  Val *in = (Val *)(uintptr_t)op->in;
  bool ok = false;
  switch (which) {
    case 0:
      ok = at == 0 && op->nin && op->out && type_of(g, op->in[0]) == type_of(g, op->out) && !op_attr(op, AT_trips);
      if (ok) replace_uses(g, op->out, op->in[0]);
      break;
    case 1:
      ok = at == 0 && op->nin == 2 && op->in[0] != op->in[1] && type_of(g, op->in[0]) == type_of(g, op->in[1]);
      if (ok) in[0] = f->ops.items[i].in[1], in[1] = f->ops.items[i].in[0];
      break;
    case 2: ok = at == 0 && other_number(op); break;
    case 3: ok = exchange_letters(m, op, at); break;
    case 4: ok = exchange_ints(m, op, op->kind == OP_broadcast ? AT_dims : AT_perm, at); break;
    case 5: ok = further(m, op, op->kind == OP_pad ? AT_low : AT_starts, at); break;
    case 6: ok = at == 0 && other_flag(m, op); break;
    case 7: ok = other_weight(m, g, op, at); break;
    default:
      ok = at == 0 && other_kind(op->kind) != OP_none;
      if (ok) op->kind = other_kind(op->kind);
  }
  return ok ? g : NULL;
}

static void replace_func(Module *m, const Func *old, Func *by) {
  for (size_t i = 0; i < m->funcs.n; i++)
    if (m->funcs.items[i] == old) m->funcs.items[i] = by;
}

/* True if the function computes something else: by other numbers and larger sizes than the check uses, and without a
   proof. */
static bool is_wrong(Module *m, const FuncList *before, const char *name) {
  Arena *a = arena_new();
  FuncList after = funcs_of(m, a);
  int64_t *symbols = interp_symbols(m, a);
  bool wrong = false;
  for (int seed = 1; seed <= 2; seed++) {
    for (size_t i = 0; i < m->symbols.n; i++)
      symbols[i] = m->symbols.items[i].axis < 0 ? (6 + (int64_t)i + seed) * m->symbols.items[i].multiple : 0;
    for (size_t i = 0; i < m->symbols.n; i++)
      if (m->symbols.items[i].max && symbols[i] > m->symbols.items[i].max) symbols[i] = m->symbols.items[i].max;
    for (int d = 0; d < 2; d++) {
      TrialOptions o = {.domain = (InterpDomain)d,
                        .symbols = symbols,
                        .seed = 900 + (uint64_t)seed,
                        .tolerance = 3e-2,
                        .most_work = 1e9};
      const char *why;
      wrong |= d == DOMAIN_FLOAT && trial(m, before, &after, name, &o, a, &why) == TRIAL_DIFFERS;
    }
  }
  arena_free(a);
  return wrong;
}

typedef struct Planted {
  int caught, harmless, proved, missed, proved_wrongly, invalid;
} Planted;

static void plant(Module *m, const PassWatch *w, const FuncList *before, const char *pass, PassKeeps keeps, Func *good,
                  Func *bad, const char *what, Planted *p) {
  Diags *diags = diags_new(m->arena);
  PassChecks checks = {.most_work = 1e9};
  replace_func(m, good, bad);
  if (!verify_func(m, bad, diags)) {
    p->invalid++;
  } else {
    pipeline_check(&checks, w, m, pass, keeps);
    const PassCheck *c = found(&checks, pass);
    FuncList after = funcs_of(m, m->arena);
    const char *why;
    bool equal = element_equal(m, before, &after, good->name, m->arena, &why);
    if (c && c->how == PASS_DIFFERS) {
      p->caught++;
      CHECKF(!equal || !is_wrong(m, before, good->name), "%s: a fault is equal over the real numbers", what);
    } else if (!is_wrong(m, before, good->name)) p->harmless++, p->proved += equal;
    else {
      (c && c->how <= PASS_PROVED_REALS ? p->proved_wrongly++ : p->missed++);
      CHECKF(false, "%s: a fault is %s", what, c ? pipeline_how_name(c->how) : "not seen");
    }
  }
  replace_func(m, bad, good);
}

/* A pass that is neither proved nor run is trusted, and the reason is reported. */
static void too_large(void) {
  Arena *a = arena_new();
  Module *m = load_text(a, "tests/text/recognise.ir");
  PassChecks checks = {.most_work = 100};
  const PassWatch *w = m ? pipeline_watch(m) : NULL;
  CHECK(w && pipeline_run(m, "recognise", &(PassOptions){0}, diags_new(a)));
  Func *f = m->funcs.items[0], *bad = NULL;
  for (size_t i = 0; i < f->ops.n && !bad; i++)
    bad = f->ops.items[i].kind == OP_attention ? faulty(m, f, i, 6, 0) : NULL;
  CHECK(bad);
  replace_func(m, f, bad);
  pipeline_check(&checks, w, m, "recognise", KEEPS_REALS);
  const PassCheck *c = found(&checks, "recognise");
  CHECK(c && c->how == PASS_TRUSTED && c->unproved && strstr(c->note, "too large to run"));
  module_free(m);
  arena_free(a);
}

static long planted;

/* Faults in the input of a pass: its result is then another function, and must not be proved equal. */
static void plant_before(const char *file, const char *pass, int least) {
  Arena *a = arena_new();
  Module *m = load_text(a, arena_printf(a, "tests/text/%s.ir", file));
  int wrong = 0, harmless = 0, proved = 0;
  FuncList before = funcs_of(m, a), changed = funcs_of(m, a);
  CHECK(pipeline_run(m, pass, &(PassOptions){.verify = true}, diags_new(a)));
  FuncList after = funcs_of(m, a);
  for (size_t k = 0; k < before.n; k++) {
    Func *f = before.items[k];
    for (size_t i = 0; i < f->ops.n; i++)
      for (int which = 0; which < FAULTS; which++)
        for (int at = 0; at < 12; at++) {
          const char *why;
          changed.items[k] = faulty(m, f, i, which, at);
          if (!changed.items[k] || !in_quarter(planted++) || !verify_func(m, changed.items[k], diags_new(a))) continue;
          bool equal = element_equal(m, &changed, &after, f->name, a, &why), differs = is_wrong(m, &changed, f->name);
          wrong += differs, harmless += !differs, proved += equal && !differs;
          CHECKF(!equal || !differs, "%s: %s with fault %d.%d at %s before it is proved", file, pass, which, at,
                 f->ops.items[i].name);
        }
    changed.items[k] = f;
  }
  printf("%-20s %-14s before it: %d wrong, none of them proved, %d harmless (%d proved so)\n", file, pass, wrong,
         harmless, proved);
  CHECK(wrong >= quarter_of(least));
  module_free(m);
  arena_free(a);
}

/* All single faults in the results of the pass for all functions; `first` runs before it. */
static Planted plant_all(const char *file, const char *first, const char *pass, PassKeeps keeps) {
  Planted p = {0};
  Arena *a = arena_new();
  Module *m = load_text(a, arena_printf(a, "tests/text/%s.ir", file));
  Diags *diags = diags_new(a);
  if (!m || !pipeline_run(m, first, &(PassOptions){0}, diags)) return p;
  FuncList before = funcs_of(m, a);
  const PassWatch *w = pipeline_watch(m);
  CHECK(pipeline_run(m, pass, &(PassOptions){.verify = true}, diags));
  for (size_t k = 0; k < m->funcs.n; k++) {
    Func *f = m->funcs.items[k];
    if (!funcs_find(&before, f->name)) continue;
    for (size_t i = 0; i < f->ops.n; i++)
      for (int which = 0; which < FAULTS; which++)
        for (int at = 0; at < 12; at++) {
          Func *g = faulty(m, f, i, which, at);
          if (!g || !in_quarter(planted++)) continue;
          plant(m, w, &before, pass, keeps, f, g,
                arena_printf(a, "%s: %s %%%s, fault %d.%d", file, pass, f->ops.items[i].name, which, at), &p);
        }
  }
  printf("%-20s %-14s %4d caught, %3d harmless (%d proved so), %3d invalid, %d missed, %d proved wrongly\n", file, pass,
         p.caught, p.harmless, p.proved, p.invalid, p.missed, p.proved_wrongly);
  module_free(m);
  arena_free(a);
  return p;
}

static void faults(void) {
  static const struct {
    const char *file, *first, *pass;
    PassKeeps keeps;
    int least;
  } cases[] = {
      {"fold", "", "fold", KEEPS_FIELD, 20},
      {"channels_last", "", "channels_last", KEEPS_FIELD, 30},
      {"views", "", "views", KEEPS_FIELD, 20},
      {"recognise", "", "recognise", KEEPS_REALS, 20},
      {"recognise_masks", "", "recognise", KEEPS_REALS, 10},
      {"recognise_exported", "", "recognise", KEEPS_REALS, 10},
      {"recognise_moved", "", "recognise", KEEPS_REALS, 4},
      {"rows", "", "rows", KEEPS_FIELD, 20},
      {"widen", "", "widen", KEEPS_REALS, 4},
      {"strided", "", "strided", KEEPS_FIELD, 3},
      {"prepare", "", "prepare", KEEPS_FIELD, 5},
      {"hoist", "", "hoist", KEEPS_FIELD, 20},
      {"dce", "", "dce", KEEPS_FIELD, 1},
      {"order", "", "order", KEEPS_FIELD, 1},
      {"inline", "", "inline", KEEPS_FIELD, 1},
      {"loop_fold", "", "fold", KEEPS_FIELD, 10},
      {"loop_recognise", "", "recognise", KEEPS_REALS, 20},
      {"loop_views", "", "views", KEEPS_FIELD, 8},
      {"loop_channels_last", "", "channels_last", KEEPS_FIELD, 20},
  };
  int caught = 0, least = 0; /* a quarter has few for some passes */
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Planted p = plant_all(cases[i].file, cases[i].first, cases[i].pass, cases[i].keeps);
    CHECKF(p.caught >= cases[i].least || getenv("APC_QUARTER"), "%s: %d faults caught", cases[i].file, p.caught);
    caught += p.caught, least += cases[i].least;
  }
  CHECKF(caught >= quarter_of(least), "%d faults caught", caught);
}

static void faults_before(void) {
  plant_before("recognise", "recognise", 60);
  plant_before("recognise_masks", "recognise", 50);
  plant_before("recognise_exported", "recognise", 50);
  plant_before("fold", "fold", 20);
  plant_before("views", "views", 15);
}

int main(void) {
  RUN(text_programs);
  RUN(example_models);
  printf("%d passes proved, %d over the real numbers, %d compared\n", seen[PASS_PROVED], seen[PASS_PROVED_REALS],
         seen[PASS_COMPARED]);
  RUN(too_large);
  RUN(faults);
  RUN(faults_before);
  return test_summary();
}
