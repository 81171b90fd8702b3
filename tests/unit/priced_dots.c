/* tests/unit/priced_dots.c - the price of a dot or convolution is that of the emitted one: for random and hand-made
 * ones, in all types, under all strategies of a mesh, on CPUs and GPUs.
 *
 * usage: test_priced_dots [first seed [count]].  A failure prints its seed and text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "codegen/rows/row_work.h"
#include "codegen/target.h"
#include "frontend/topo/target.h"
#include "passes/cost/cost.h"
#include "passes/cost/kernel.h"
#include "passes/lower/lower.h"
#include "tests/test.h"

static Arena *arena; /* of targets */
static const Target *targets[2];
static int libraries, kernels, copies;

/* ---- one function, lowered and emitted */

typedef struct Case {
  Module *m;
  const Func *l1;
  const Op *op; /* in it: the dot or convolution */
  const Target *target;
  const char *text;
} Case;

/* The units of the operation. */
typedef struct Emitted {
  const GemmUnit *gemm;
  DType dtype;
  int kernels;
  bool conv;
} Emitted;

/* An extent in the cost model: symbols at their hints; the last part of a dimension is the largest. */
static double value_of(const Module *m, const Expr *e) {
  int64_t v = -1, *sizes = ARENA_ARRAY(m->arena, int64_t, m->symbols.n + 1);
  for (size_t i = 0; i < m->symbols.n; i++) {
    const Symbol *s = &m->symbols.items[i];
    sizes[i] = s->axis >= 0 ? m->mesh.axes[s->axis].size - 1 : s->hint;
  }
  CHECK(ex_eval(e, sizes, &v));
  return (double)v;
}

static Emitted emitted_of(const Case *c, const Func *l2) {
  Emitted e = {0};
  const UnitList *units = units_of(work_new(c->m, l2, 0, c->target->device, true));
  for (size_t i = 0; i < units->n; i++) {
    const Unit *u = &units->items[i];
    if (l2->ops.items[u->tells].kind != c->op->kind) continue;
    if (u->gemm) e.gemm = u->gemm, e.dtype = units_type(units, l2, u->out[0])->dtype;
    e.kernels += u->kind == UNIT_KERNEL;
    e.conv |= u->conv != NULL;
  }
  return e;
}

/* A letter that only one operand has. */
static bool has_own_letters(const Op *op) {
  DotForm f;
  op_dot_form(&f, DT_f32, op_str(op, AT_spec));
  for (int t = 0; t < 2; t++)
    for (const char *l = f.spec[t]; *l; l++)
      if (!strchr(f.spec[1 - t], *l) && !strchr(f.spec[2], *l)) return true;
  return false;
}

static void compare_dot(const Case *c, CostModel *cost, const Rule *r, const Strategy *s, const Emitted *e) {
  DotWork w = cost_dot(cost, c->l1, c->op, r, s);
  int passes = w.passes[0] + w.passes[1] + w.passes[2];
  CHECKF(w.library == (e->gemm != NULL), "priced as %s:\n%s", w.library ? "a product" : "a kernel", c->text);
  int most = passes + !w.library;
  /* Sums of letters of extent 1, or of letters that one operand has, may fuse with others. */
  bool exact = w.library ? !has_own_letters(c->op) : passes == 0;
  CHECKF(exact ? e->kernels == most : e->kernels <= most, "%d kernels emitted, %d priced:\n%s", e->kernels, most,
         c->text);
  libraries += w.library, kernels += !w.library, copies += passes > 0;
  if (!w.library || !e->gemm) return;
  double batch = 1, m = value_of(c->m, e->gemm->m), n = value_of(c->m, e->gemm->n), k = value_of(c->m, e->gemm->k);
  for (int i = 0; i < e->gemm->nbatch; i++) batch *= value_of(c->m, e->gemm->batch[i]);
  CHECKF(w.batch == batch && w.m == m && w.n == n && w.k == k && w.dtype == e->dtype,
         "priced %s %g x %g x %g x %g, emitted %s %g x %g x %g x %g:\n%s", dtype_name(w.dtype), w.batch, w.m, w.n, w.k,
         dtype_name(e->dtype), batch, m, n, k, c->text);
  double size = (double)dtype_bytes(e->dtype), bytes = size * (w.multiplied[0] + w.multiplied[1] + w.multiplied[2]),
         seconds = c->target->launch + fmax(cost_product_seconds(c->target, e->dtype, batch, m, n, k),
                                            cost_memory_seconds(c->target, bytes)),
         priced = cost_op(cost, c->l1, c->op, r, s).seconds;
  if (passes == 0) CHECKF(fabs(priced - seconds) < 1e-9 * seconds, "%g s, not %g:\n%s", priced, seconds, c->text);
  else CHECKF(priced >= seconds + passes * c->target->launch, "%g s for a product with copies:\n%s", priced, c->text);
}

/* An input or weight that is produced in the layout that the operation needs. */
static bool made_as(const Case *c, const Op *source, const Layout *want, Strategy *out) {
  const Rule *r = rule_of(c->m, c->l1, source);
  const Strategy *all;
  int n = strategy_enumerate(c->m->arena, c->m, r, true, &all);
  for (int i = 0; i < n; i++)
    if (strategy_result(c->m, r, &all[i], 0) == want) return *out = all[i], true;
  return false;
}

static void compare(const Case *c, CostModel *cost, const Strategy *s, int number, Diags *d) {
  const Rule *r = rule_of(c->m, c->l1, c->op);
  Strategy *all = ARENA_ARRAY(c->m->arena, Strategy, c->l1->ops.n);
  if (strategy_needs_body(r, s)) return;
  all[c->op - c->l1->ops.items] = *s;
  for (int k = 0; k < 2; k++) {
    const Op *source = op_of(c->l1, c->op->in[k]);
    if (!made_as(c, source, strategy_operand(c->m, r, s, k), &all[source - c->l1->ops.items])) return;
  }
  LowerPlan plan = {.strategies = all};
  Func *l2 = lower_spmd(c->m, c->l1, &plan, arena_printf(c->m->arena, "r%d", number), d);
  CHECKF(l2 != NULL, "is not lowered:\n%s", c->text);
  if (!l2) return;
  Emitted e = emitted_of(c, l2);
  if (c->op->kind == OP_dot) compare_dot(c, cost, r, s, &e);
  else
    CHECKF(e.conv == cost_conv_is_known(cost, c->l1, c->op, r, s), "%s by the library:\n%s", e.conv ? "is" : "is not",
           c->text);
}

/* Under every `step`-th strategy. */
static void check_text(const char *text, int step) {
  for (int t = 0; t < 2; t++) {
    Arena *a = arena_new();
    Diags *d = diags_new(a);
    Case c = {.m = ir_parse("test", text, d), .target = targets[t], .text = text};
    if (!c.m || !verify_module(c.m, d)) {
      diags_print(d, stderr, false);
      CHECKF(false, "is no module:\n%s", text);
      return;
    }
    c.l1 = module_func(c.m, "main");
    c.op = op_of(c.l1, func_find(c.l1, "y"));
    CostModel *cost = cost_model_new(c.m, c.target);
    const Strategy *s;
    int n = strategy_enumerate(c.m->arena, c.m, rule_of(c.m, c.l1, c.op), false, &s);
    for (int i = 0; i < n; i += i ? step : 1) compare(&c, cost, &s[i], i, d);
    cost_model_free(cost);
    module_free(c.m);
    arena_free(a);
  }
}

/* ---- dots */

static const char *dot_text(Arena *a, DType dtype, const char *spec, const char *(*extent)(char)) {
  Text t = {.arena = a};
  const char *at = spec;
  text_add(&t, "apc.ir 1\nsymbol s hint 6\nmesh [a=2, b=2]\nfunc @main level 1 {\n");
  for (int i = 0; i < 3; i++) {
    static const char *const begin[] = {
        "  %x = input {name=\"x\"} :", "  %w = input {name=\"w\"} :", "  %y = dot %x, %w {spec="};
    text_add(&t, begin[i]);
    if (i == 2) text_printf(&t, "\"%s\"} :", spec);
    text_printf(&t, " %s[", dtype_name(dtype));
    for (bool first = true; *at >= 'A' && *at <= 'z'; at++, first = false)
      text_printf(&t, "%s%s", first ? "" : ", ", extent(*at));
    text_add(&t, "]\n");
    at += i == 0 ? 1 : i == 1 ? 2 : 0;
  }
  text_add(&t, "  output \"y\" %y\n}\n");
  return text_str(&t);
}

static const char *even(char l) {
  static const char *const list[] = {"4", "2", "6", "s", "8", "4", "2", "12"};
  return list[l % 8];
}

static const char *thin(char l) {
  static const char *const list[] = {"1", "2", "1", "s", "4", "1", "2", "6"};
  return list[l % 8];
}

static bool multiplied(DType t) { return t != DT_bool && dtype_computes(t); }

static void hand_made(void) {
  static const char *const specs[] = {
      "mk,kn->mn",     "mk,nk->mn",       "km,kn->mn",       "mk,kn->nm",       "bsd,dhk->bhsk",
      "bhsk,hkd->bsd", "bhsk,bhtk->bhst", "bhst,bhtk->bhsk", "bsd,vd->bsv",     "ncupvq,ocpq->nouv",
      "amkb,kbn->amn", "bgrsk,grkd->bsd", "bsd,dgrk->bgsrk", "mkb,knb->mnb",    "besf,efd->besd",
      "m,n->mn",       "k,k->",           "mk,k->m",         "bk,bk->b",        "mkj,kn->mn",
      "mk,kjn->mn",    "MK,Kn->nM",       "mkij,kn->nm",     "abcd,dcba->abcd", "abk,bkc->cab"};
  Arena *a = arena_new();
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
    for (int t = 0; t < DT_COUNT; t++) {
      if (!multiplied((DType)t)) continue;
      check_text(dot_text(a, (DType)t, specs[i], even), t == DT_f32 ? 1 : 5);
      check_text(dot_text(a, (DType)t, specs[i], thin), t == DT_f32 ? 3 : 7);
    }
  arena_free(a);
}

typedef struct Random {
  uint64_t seed, drawn;
} Random;

static int below(Random *r, int n) { return (int)random_below(r->seed, 9, r->drawn++, (uint64_t)n); }

static void shuffle(Random *r, char *letters) {
  for (int i = (int)strlen(letters) - 1; i > 0; i--) {
    int j = below(r, i + 1);
    char c = letters[i];
    letters[i] = letters[j], letters[j] = c;
  }
}

static Random *drawing;
static const char *drawn_extent(char l) {
  static const char *const list[] = {"1", "2", "4", "6", "s", "8"};
  return list[random_below(drawing->seed, 3, (uint64_t)l, 6)];
}

static void random_dot(uint64_t seed) {
  Arena *a = arena_new();
  Random r = {.seed = seed};
  char part[3][8] = {"", "", ""};
  int n = 2 + below(&r, 5);
  for (int i = 0; i < n; i++) {
    static const int where[] = {7, 7, 5, 5, 6, 6, 3, 3, 3, 1, 2}; /* both and result, one and result, both, one */
    int in = where[below(&r, 11)];
    for (int t = 0; t < 3; t++)
      if (in >> t & 1) part[t][strlen(part[t])] = (char)('a' + i);
  }
  for (int t = 0; t < 3; t++) shuffle(&r, part[t]);
  drawing = &r;
  DType type = (DType)below(&r, DT_COUNT);
  if (below(&r, 2)) type = DT_f32;
  if (multiplied(type))
    check_text(dot_text(a, type, arena_printf(a, "%s,%s->%s", part[0], part[1], part[2]), drawn_extent),
               1 + below(&r, 9));
  arena_free(a);
}

/* For all cuts of a product into micro-batches, all of them together take no less than the whole. */
static const char *wide(char l) { return l == 'b' ? "4" : "256"; }

static void micro_batches(void) {
  static const char *const specs[] = {"mkb,knb->mnb", "bmk,bkn->bmn", "mbk,kn->nbm", "abk,bkc->cab", "kbm,kbn->bnm"};
  Arena *a = arena_new();
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
    for (int t = 0; t < 2; t++) {
      const char *text = dot_text(a, DT_f32, specs[i], wide), *mesh = strstr(text, "[a=2, b=2]");
      Diags *d = diags_new(a);
      Module *m = ir_parse("test", arena_printf(a, "%.*s[mb=4 time]%s", (int)(mesh - text), text, mesh + 10), d);
      CHECK(m && verify_module(m, d));
      if (!m) return;
      const Func *f = module_func(m, "main");
      const Op *op = op_of(f, func_find(f, "y"));
      const Rule *r = rule_of(m, f, op);
      CostModel *cost = cost_model_new(m, targets[t]);
      const Strategy *s;
      double whole = cost_op(cost, f, op, r, &(Strategy){0}).seconds;
      for (int k = 0, n = strategy_enumerate(m->arena, m, r, false, &s); k < n; k++) {
        double part = cost_op(cost, f, op, r, &s[k]).seconds;
        CHECKF(4 * part >= whole * (1 - 1e-9), "%s: 4 x %g s, the whole %g s", specs[i], part, whole);
      }
      cost_model_free(cost);
      module_free(m);
    }
  arena_free(a);
}

/* ---- our own kernels for products */

/* In f16: on a GPU with tensor cores the price is that of a kernel without, unless ours uses them. */
static void kernels_of_ours(void) {
  static const struct {
    MatrixKernel kernel;
    const char *by_units; /* in the prelude, if it uses them */
    const char *text;
  } list[] = {
      {KERNEL_GROUPED, "grouped_tensor_",
       "  %x = input {name=\"x\"} : f16[4096, 512]\n  %i = input {name=\"i\"} : i64[4096]\n"
       "  %w = input {name=\"w\"} : f16[4, 512, 512]\n  %y = grouped_dot %x, %i, %w {start=0} : f16[4096, 512]\n"},
      {KERNEL_ATTENTION, "attention_tensor_",
       "  %q = input {name=\"q\"} : f16[4, 8, 1, 1024, 64]\n  %k = input {name=\"k\"} : f16[4, 8, 1024, 64]\n"
       "  %v = input {name=\"v\"} : f16[4, 8, 1024, 64]\n  %p = input {name=\"p\"} : i64[1024]\n"
       "  %n = input {name=\"n\"} : i64[]\n"
       "  %y = attention %q, %k, %v, %p, %p, %n {scale=0.125, causal=0} : f16[4, 8, 1, 1024, 64]\n"},
  };
  Arena *a = arena_new();
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    for (int t = 0; t < 2; t++) {
      Diags *d = diags_new(a);
      const Target *target = targets[t];
      Module *m = ir_parse(
          "test", arena_printf(a, "apc.ir 1\nfunc @main level 1 {\n%s  output \"y\" %%y\n}\n", list[i].text), d);
      CHECK(m && verify_module(m, d));
      if (!m) return;
      const Func *f = module_func(m, "main");
      const Op *op = op_of(f, func_find(f, "y"));
      CostModel *cost = cost_model_new(m, target);
      OpCost priced = cost_op(cost, f, op, rule_of(m, f, op), &(Strategy){0});
      bool units = strstr(*kernel_target(target->device)->prelude, list[i].by_units);
      ComputeType c = units ? CT_f16 : CT_f32;
      double share = target->has_kernels ? target->kernels.sustained[c] : 1,
             seconds = target->launch + priced.flops / (target->flops[c] * share);
      CHECKF(units == ((target->device->kernels & list[i].kernel) != 0), "%s on %s has another rate now",
             op_name(op->kind), target->name);
      CHECKF(fabs(priced.seconds - seconds) < 1e-9 * seconds, "%s on %s: %g s, not %g", op_name(op->kind), target->name,
             priced.seconds, seconds);
      cost_model_free(cost);
      module_free(m);
    }
  arena_free(a);
}

/* ---- convolutions */

static void convolutions(void) {
  static const struct {
    const char *kind, *spec, *x, *w, *y;
  } list[] = {
      {"conv", "nHWc,HWco->nHWo", "4, 8, 8, 6", "3, 3, 6, 4", "4, 6, 6, 4"},
      {"conv", "nHWgc,HWgco->nHWgo", "2, 8, 8, 2, 6", "3, 3, 2, 6, 4", "2, 6, 6, 2, 4"},
      {"conv", "ncHW,ocHW->noHW", "4, 6, 8, 8", "4, 6, 3, 3", "4, 4, 6, 6"},
      {"conv", "ncHW,ocHW->noHW", "4, 1, 8, 8", "2, 1, 3, 3", "4, 2, 6, 6"},
      {"conv", "nHWcd,HWcdo->nHWo", "4, 8, 8, 2, 3", "3, 3, 2, 3, 4", "4, 6, 6, 4"},
      {"conv", "nHWcd,HWcdo->nHWo", "4, 8, 8, 2, 1", "3, 3, 2, 1, 4", "4, 6, 6, 4"},
      {"conv", "nHWc,HWco->noHW", "4, 8, 8, 6", "3, 3, 6, 2", "4, 2, 6, 6"},
      {"conv_transpose", "nHWc,HWco->nHWo", "4, 6, 6, 6", "3, 3, 6, 4", "4, 8, 8, 4"},
  };
  static const DType types[] = {DT_f32, DT_f16, DT_bf16, DT_f64};
  Arena *a = arena_new();
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    for (int t = 0; t < 4; t++)
      for (int given = 0; given < 2; given++) {
        const char *type = dtype_name(types[t]), *source = given ? "input {name=\"w\"}" : "param {name=\"w\"}";
        check_text(
            arena_printf(a,
                         "apc.ir 1\nmesh [a=2, b=2]\nparam \"w\" : %s[%s] = zeros\nfunc @main level 1 {\n"
                         "  %%x = input {name=\"x\"} : %s[%s]\n  %%w = %s : %s[%s]\n  %%y = %s %%x, %%w {starts=[0, "
                         "0], strides=[1, 1], dilations=[1, 1], spec=\"%s\"} : %s[%s]\n  output \"y\" %%y\n}\n",
                         type, list[i].w, type, list[i].x, source, type, list[i].w, list[i].kind, list[i].spec, type,
                         list[i].y),
            2);
      }
  arena_free(a);
}

int main(int argc, char **argv) {
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 0) : 300;
  arena = arena_new();
  Diags *d = diags_new(arena);
  targets[0] = topo_target_find(d, arena, "cpux4"), targets[1] = topo_target_find(d, arena, "dgx-a100x4");
  CHECK(targets[0] && targets[1]);
  RUN(hand_made);
  RUN(micro_batches);
  RUN(kernels_of_ours);
  RUN(convolutions);
  for (uint64_t seed = first; seed < first + count; seed++) random_dot(seed);
  printf("%d products of libraries, %d kernels, %d with copies\n", libraries, kernels, copies);
  CHECK(libraries > 1000 && kernels > 300 && copies > 300);
  arena_free(arena);
  return test_summary();
}
