/* The guard of conversions (D37): every conversion between two layouts keeps the value, and with its adjoint <Cx, y> =
 * <x, C'y>.
 *
 * The dual of a layout exchanges "replicated" and "partial sum" on every axis that cuts no dimension: the gradient of a
 * replicated value is a partial sum, and the other way round.  For x in layout F and y in the dual of layout T, the
 * products of the parts on each rank, summed over all ranks, must be <X, Y> of the whole tensors both after C: F -> T
 * and after C': dual(T) -> dual(F).  Partial inputs are split at random, so that no rank holds the value itself. */
#include <math.h>

#include "ir/layout/convert.h"
#include "tests/interp_test.h"

typedef struct Layouts {
  const Layout **items;
  int n;
} Layouts;

typedef struct Case {
  const char *mesh;
  DType dtype;
  int rank;
  const char *dims[3]; /* extents as IR text */
  int64_t unit;        /* second unit of dimension 0 to try; 0 for none */
  Reduction partial;
} Case;

typedef struct Guard {
  const Case *c;
  InterpProgram p;
  const Type *global;
  Layouts layouts;
} Guard;

static long converted[MOVE_KINDS], checked, reports;

/* ---- all layouts of the type over the mesh: every axis unused, partial, or at any place of any dimension */

static void add_layouts(Guard *g, int axis, const Layout *l) {
  Module *m = g->p.m;
  if (axis == m->mesh.naxes) {
    if (g->layouts.n > 1000) exit(1);
    g->layouts.items[g->layouts.n++] = layout_get(m, l);
    if (l->partial_axes && g->c->dtype == DT_f32 && l->partial != RED_SUM) { /* between kinds of partial values, too */
      Layout sum = *l;
      sum.partial = RED_SUM;
      g->layouts.items[g->layouts.n++] = layout_get(m, &sum);
    }
    if (g->c->unit && l->dims[0].n) {
      Layout coarse = *l;
      coarse.dims[0].unit = ex_const(m, g->c->unit);
      g->layouts.items[g->layouts.n++] = layout_get(m, &coarse);
    }
    return;
  }
  add_layouts(g, axis + 1, l);
  Layout partial = *l;
  partial.partial = g->c->partial;
  partial.partial_axes |= 1u << axis;
  add_layouts(g, axis + 1, &partial);
  for (int d = 0; d < l->rank; d++)
    for (int place = 0; place <= l->dims[d].n; place++) {
      Layout cut = *l;
      DimLayout *k = &cut.dims[d];
      memmove(&k->axes[place + 1], &k->axes[place], (size_t)(k->n - place));
      k->axes[place] = (uint8_t)axis;
      k->n++;
      add_layouts(g, axis + 1, &cut);
    }
}

static const Layout *dual(Module *m, const Layout *l) {
  Layout r = *l;
  uint32_t used = l->partial_axes;
  for (int d = 0; d < l->rank; d++)
    for (int i = 0; i < l->dims[d].n; i++) used |= 1u << l->dims[d].axes[i];
  r.partial = RED_SUM;
  r.partial_axes = ((1u << m->mesh.naxes) - 1u) & ~used;
  return layout_get(m, &r);
}

/* ---- one pair */

static Val input(Guard *g, Builder *b, const char *name, const Layout *l) {
  Attr a = attr_s(g->p.m, AT_name, name);
  return build_op(b, &(OpSpec){.kind = OP_input,
                               .name = name,
                               .nattrs = 1,
                               .attrs = &a,
                               .type = layout_local_type(g->p.m, g->global, l),
                               .layout = l});
}

static Val convert(Guard *g, Builder *b, Val v, const Layout *from, const Layout *to) {
  Conversion c;
  if (!convert_find(g->p.m, g->global, from, to, move_cost_bytes, NULL, &c)) return 0;
  for (int i = 0; i < c.n; i++) converted[c.moves[i].kind]++;
  return convert_emit(b, v, g->global, &c);
}

/* The sum over all ranks and elements of x * y. */
static Val inner_product(Guard *g, Builder *b, Val x, Val y) {
  int all[MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
  int64_t axes[MAX_AXES] = {0, 1, 2, 3, 4, 5, 6, 7};
  Val sum = build_reduce(b, RED_SUM, build_binary(b, OP_mul, x, y), g->global->rank, all);
  Attr attrs[] = {attr_ints(g->p.m, AT_mesh_axes, g->p.m->mesh.naxes, axes), attr_red(AT_op, RED_SUM)};
  return build_op(b, &(OpSpec){.kind = OP_all_reduce, .nin = 1, .in = &sum, .nattrs = 2, .attrs = attrs});
}

static void report(Guard *g, const Func *f, const Layout *from, const Layout *to, const char *why) {
  test_failed_here++;
  if (reports++ >= 20) return;
  Arena *scratch = arena_new();
  Text t = {.arena = scratch};
  text_printf(&t, "GUARD: mesh %s, ", g->c->mesh);
  type_print(g->p.m, &t, g->global);
  text_add(&t, " from ");
  layout_print(g->p.m, &t, from);
  text_add(&t, " to ");
  layout_print(g->p.m, &t, to);
  text_printf(&t, ": %s\n", why);
  if (reports <= 4) func_print(g->p.m, &t, f);
  fprintf(stderr, "%s", text_str(&t));
  arena_free(scratch);
}

typedef struct Whole {
  InterpNamed xy[2];
  Cell product;
} Whole;

static Whole whole_of(Guard *g, InterpDomain domain) {
  Whole w = {.xy = {{"x", {0}}, {"y", {0}}}};
  int64_t dims[MAX_RANK];
  interp_dims(g->global, interp_symbols(g->p.m, g->p.arena), dims);
  for (int i = 0; i < 2; i++) {
    w.xy[i].tensor = interp_tensor(g->p.arena, g->global->dtype, g->global->rank, dims);
    interp_fill(&w.xy[i].tensor, domain, 3 + (uint64_t)i, dtype_is_float(g->global->dtype) ? -1 : -50,
                dtype_is_float(g->global->dtype) ? 1 : 50);
  }
  double sum = 0;
  uint64_t residue = 0;
  for (int64_t i = 0; i < interp_elements(&w.xy[0].tensor); i++) {
    Cell x = w.xy[0].tensor.cells[i], y = w.xy[1].tensor.cells[i];
    if (domain == DOMAIN_FLOAT) sum += x.f * y.f;
    else residue = (residue + (uint64_t)x.i * (uint64_t)y.i) % INTERP_P;
  }
  w.product = domain == DOMAIN_FLOAT ? (Cell){.f = sum} : (Cell){.i = (int64_t)residue};
  return w;
}

static const char *run(Guard *g, const Func *f, InterpDomain domain, const Whole *w, bool adjoint, Arena *scratch) {
  InterpOptions o = {.domain = domain, .partial_seed = 5, .tolerance = domain == DOMAIN_FLOAT ? 1e-12 : 0};
  InterpResult r;
  const char *why;
  Diags *diags = diags_new(scratch);
  if (!interp_run(g->p.m, f, &o, adjoint ? 2 : 1, w->xy, scratch, &r, diags))
    return arena_printf(scratch, "does not run: %s", diags->items[0].message);
  if (!interp_equal(&w->xy[0].tensor, &r.outputs[0].tensor, domain, o.tolerance, scratch, &why))
    return arena_printf(scratch, "value lost: %s", why);
  if (!adjoint) return NULL;
  if (!interp_equal(&w->xy[1].tensor, &r.outputs[1].tensor, domain, o.tolerance, scratch, &why))
    return arena_printf(scratch, "adjoint loses the value: %s", why);
  for (int i = 2; i < 4; i++) {
    InterpTensor product = {.dtype = g->global->dtype, .cells = (Cell *)&w->product};
    if (!interp_equal(&product, &r.outputs[i].tensor, domain, domain == DOMAIN_FLOAT ? 1e-12 : 0, scratch, &why))
      return arena_printf(scratch, "%s: %s", i == 2 ? "<Cx, y>" : "<x, C'y>", why);
  }
  return NULL;
}

static void check_pair(Guard *g, const Whole *whole, const Layout *from, const Layout *to) {
  Module *m = g->p.m;
  Arena *scratch = arena_new();
  Func *f = module_func_add(m, "pair", 2);
  Diags *diags = diags_new(scratch);
  Builder b = builder_new(m, f, diags);
  bool adjoint = g->c->partial == RED_SUM && g->c->dtype == DT_f32;
  Val x = input(g, &b, "x", from), cx = convert(g, &b, x, from, to);
  build_output(&b, "cx", cx, to);
  if (adjoint) {
    Val y = input(g, &b, "y", dual(m, to)), cy = convert(g, &b, y, dual(m, to), dual(m, from));
    if (cy) {
      build_output(&b, "cy", cy, dual(m, from));
      build_output(&b, "left", inner_product(g, &b, cx, y), layout_replicated(m, 0));
      build_output(&b, "right", inner_product(g, &b, x, cy), layout_replicated(m, 0));
    } else cx = 0;
  }
  const char *why = cx ? NULL : diags->n ? diags->items[0].message : "no conversion";
  for (int d = 0; d < 2 && !why; d++) why = run(g, f, (InterpDomain)d, &whole[d], adjoint, scratch);
  if (why) report(g, f, from, to, why);
  checked++;
  arena_free(scratch);
}

/* A table with a limit gives the same costs below it and none at it or above, also after the limit has risen. */
static void check_limits(Guard *g, int n, const Layout *const *all, const double *whole) {
  Module *m = g->p.m;
  Arena *scratch = arena_new();
  double *some = ARENA_ARRAY(scratch, double, n *n), limits[] = {0, 0, INFINITY};
  ConvertTable *t = convert_table_new(m, g->global, move_cost_bytes, NULL);
  for (int i = 0; i < n * n; i++) limits[1] += whole[i] < INFINITY ? whole[i] / (n * n) : 0; /* about the mean */
  for (int k = 0; k < 3; k++) {
    convert_table_costs(t, n, all, n, all, limits[k], some);
    for (int i = 0; i < n * n; i++) {
      double expect = whole[i] < limits[k] || i / n == i % n ? whole[i] : INFINITY;
      if (some[i] == expect) continue;
      report(g, module_func(m, "shape"), all[i / n], all[i % n],
             arena_printf(scratch, "costs %.17g, below %.17g %.17g", whole[i], limits[k], some[i]));
    }
  }
  convert_table_free(t);
  arena_free(scratch);
}

/* A table of costs of conversions to one layout equals a search for each.  For several goals no cost is higher, as an
 * exchange may lead to the cut of another goal, nor with unordered axes. */
static void check_costs(Guard *g) {
  Module *m = g->p.m;
  const int n = g->layouts.n;
  Arena *scratch = arena_new();
  const Layout **all = g->layouts.items, **sets = ARENA_ARRAY(scratch, const Layout *, n);
  double *of_all = ARENA_ARRAY(scratch, double, n *n), *of_sets = ARENA_ARRAY(scratch, double, n *n),
         *of_one = ARENA_ARRAY(scratch, double, n);
  ConvertTable *joint = convert_table_new(m, g->global, move_cost_bytes, NULL),
               *loose = convert_table_of_sets(m, g->global, move_cost_bytes, NULL);
  for (int i = 0; i < n; i++) sets[i] = layout_of_sets(m, all[i]);
  convert_table_costs(joint, n, all, n, all, INFINITY, of_all);
  convert_table_costs(joint, 1, all, n, all, INFINITY, of_all); /* known already */
  convert_table_costs(loose, n, sets, n, sets, INFINITY, of_sets);
  for (int k = 0; k < n; k++) {
    ConvertTable *one = convert_table_new(m, g->global, move_cost_bytes, NULL);
    convert_table_costs(one, n, all, 1, &all[k], INFINITY, of_one);
    convert_table_free(one);
    for (int i = 0; i < n; i++) {
      Conversion c;
      double cost = convert_find(m, g->global, all[i], all[k], move_cost_bytes, NULL, &c) ? c.cost : INFINITY,
             joined = of_all[i * n + k], unordered = of_sets[i * n + k];
      if (of_one[i] == cost && joined <= cost && unordered <= cost) continue;
      report(g, module_func(m, "shape"), all[i], all[k],
             arena_printf(scratch, "costs %.17g, in tables %.17g, %.17g, %.17g", cost, of_one[i], joined, unordered));
    }
  }
  check_limits(g, n, all, of_all);
  convert_table_free(joint);
  convert_table_free(loose);
  arena_free(scratch);
}

static void run_case(const Case *c) {
  Arena *arena = arena_new();
  Guard g = {.c = c};
  Text t = {.arena = arena};
  text_printf(&t, "symbol n hint 7\nmesh %s\nfunc @shape level 1 { %%x = input {name=\"x\"} : %s[", c->mesh,
              dtype_name(c->dtype));
  for (int d = 0; d < c->rank; d++) text_printf(&t, "%s%s", d ? ", " : "", c->dims[d]);
  text_add(&t, "] }\n");
  g.p = interp_program(text_str(&t));
  g.global = type_of(module_func(g.p.m, "shape"), 1);
  g.layouts.items = ARENA_ARRAY(arena, const Layout *, 1024);
  add_layouts(&g, 0, &(Layout){.rank = c->rank});
  const Whole whole[2] = {whole_of(&g, DOMAIN_FLOAT), whole_of(&g, DOMAIN_MODP)};
  for (int i = 0; i < g.layouts.n; i++)
    for (int k = 0; k < g.layouts.n; k++) check_pair(&g, whole, g.layouts.items[i], g.layouts.items[k]);
  check_costs(&g);
  program_free(&g.p);
  arena_free(arena);
}

static void sums(void) {
  static const Case cases[] = {
      {"[a=2]", DT_f32, 2, {"4", "6"}, 2, RED_SUM},          {"[a=2]", DT_f32, 3, {"5", "1", "3"}, 0, RED_SUM},
      {"[a=3]", DT_f32, 2, {"5", "7"}, 0, RED_SUM},          {"[a=3]", DT_f32, 2, {"6", "n"}, 2, RED_SUM},
      {"[a=2, b=2]", DT_f32, 2, {"4", "8"}, 0, RED_SUM},     {"[a=2, b=2]", DT_f32, 2, {"5", "7"}, 0, RED_SUM},
      {"[a=2, b=2]", DT_f32, 2, {"6", "3"}, 2, RED_SUM},     {"[a=2, b=3]", DT_f32, 2, {"6", "12"}, 0, RED_SUM},
      {"[a=2, b=3]", DT_f32, 2, {"7", "5"}, 0, RED_SUM},     {"[a=2, b=3]", DT_f32, 2, {"n", "2"}, 0, RED_SUM},
      {"[a=2, b=3]", DT_f32, 1, {"10"}, 5, RED_SUM},         {"[a=2, b=2, c=2]", DT_f32, 1, {"11"}, 0, RED_SUM},
      {"[a=2, b=2, c=2]", DT_f32, 2, {"5", "9"}, 0, RED_SUM}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) run_case(&cases[i]);
}

static void other_reductions(void) {
  static const Case cases[] = {
      {"[a=2, b=3]", DT_f32, 2, {"5", "4"}, 0, RED_MAX}, {"[a=2, b=2]", DT_i32, 2, {"5", "4"}, 0, RED_MIN},
      {"[a=2, b=2]", DT_f32, 2, {"5", "4"}, 0, RED_ONE}, {"[a=3]", DT_f32, 2, {"5", "4"}, 0, RED_PRODUCT},
      {"[a=2, b=2]", DT_bool, 2, {"5", "4"}, 0, RED_OR}, {"[a=2, b=3]", DT_bool, 1, {"7"}, 0, RED_AND},
      {"[a=2, b=3]", DT_i8, 2, {"5", "4"}, 0, RED_SUM},  {"[a=3]", DT_u64, 1, {"4"}, 0, RED_SUM}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) run_case(&cases[i]);
}

static void coverage(void) {
  printf("%ld conversions:", checked);
  for (int k = 0; k < MOVE_KINDS; k++) {
    printf(" %s %ld", move_name((MoveKind)k), converted[k]);
    CHECKF(converted[k], "no conversion used %s", move_name((MoveKind)k));
  }
  printf("\n");
}

int main(void) {
  RUN(sums);
  RUN(other_reductions);
  RUN(coverage);
  return test_summary();
}
