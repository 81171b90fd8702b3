/* ir/layout/strategy.c - strategies over a rule: legality, enumeration, the layouts they imply, text. */
#include <string.h>

#include "base/die.h"
#include "ir/layout/rule.h"

int rule_factor_find(const Rule *r, const char *name) {
  for (int i = 0; i < r->nfactors; i++)
    if (strcmp(r->factors[i].name, name) == 0) return i;
  return -1;
}

static bool is_one(const Factor *f) { return f->size && ex_is_const(f->size, 1); }

/* True if no real factor is more major than this one in any dimension it occurs in. */
static bool is_major(const Rule *r, int factor, const TensorFactors *t) {
  for (int d = 0; d < t->rank; d++) {
    const DimFactors *k = &t->dims[d];
    for (int i = 0; i < k->n; i++) {
      if (k->f[i] == factor) break;
      if (!is_one(&r->factors[k->f[i]])) {
        for (int j = i + 1; j < k->n; j++)
          if (k->f[j] == factor) return false;
        break;
      }
    }
  }
  return true;
}

static bool factor_cuttable(const Rule *r, int factor, const char **why) {
  const Factor *f = &r->factors[factor];
  *why = NULL;
  if (f->kind == FK_FROZEN) *why = "the factor is frozen";
  if (f->kind == FK_LINEAR || f->kind == FK_ACCUMULATE) return true;
  for (int i = 0; i < r->noperands && !*why; i++)
    if (!is_major(r, factor, &r->operands[i])) *why = "the factor is not the major one of a dimension";
  for (int i = 0; i < r->nresults && !*why; i++)
    if (!is_major(r, factor, &r->results[i])) *why = "the factor is not the major one of a dimension";
  return !*why;
}

static bool partial_kind(const Factor *f) { return f->kind == FK_REDUCE || f->kind == FK_LINEAR; }

/* `one` is also a sum; any other pair of different kinds does not combine. */
static bool kinds_combine(Reduction a, Reduction b) {
  if (a == RED_ONE) a = RED_SUM;
  if (b == RED_ONE) b = RED_SUM;
  return a == b;
}

/* True if micro-batches may cut the factor: they run one after the other, so only their sums can be completed. */
static bool cut_by_time(const Factor *f) {
  return f->kind == FK_PARALLEL || f->kind == FK_ACCUMULATE || (partial_kind(f) && f->reduction == RED_SUM);
}

static bool cut_by_axis(const Mesh *mesh, int axis, const Factor *f) {
  return mesh->axes[axis].temporal ? cut_by_time(f) : f->kind != FK_ACCUMULATE;
}

bool strategy_cut_by_time(const Rule *r, int factor) {
  const char *why;
  return factor_cuttable(r, factor, &why) && cut_by_time(&r->factors[factor]);
}

/* True if partial values of the factor combine with those of the first n picks. */
static bool stands_beside(const Rule *r, const Pick *picks, int n, int factor) {
  bool stands = true;
  for (int i = 0; i < n && partial_kind(&r->factors[factor]); i++) {
    const Factor *f = &r->factors[picks[i].factor];
    stands &= !partial_kind(f) || kinds_combine(f->reduction, r->factors[factor].reduction);
  }
  return stands;
}

bool strategy_legal(const Mesh *mesh, const Rule *r, const Strategy *s, const char **why) {
  const char *ignored;
  uint32_t used = 0;
  if (!why) why = &ignored;
  for (int i = 0; i < s->n; i++) {
    Pick p = s->picks[i];
    if (p.axis >= mesh->naxes) return *why = "no such mesh axis", false;
    if (p.factor >= r->nfactors) return *why = "no such factor", false;
    if (used & (1u << p.axis)) return *why = "a mesh axis is used twice", false;
    used |= 1u << p.axis;
    if (!factor_cuttable(r, p.factor, why)) return false;
    const Factor *f = &r->factors[p.factor];
    if (!cut_by_axis(mesh, p.axis, f))
      return *why = "micro-batches cut only parallel factors and sums, and only they are accumulated", false;
    if (!stands_beside(r, s->picks, i, p.factor)) return *why = "two kinds of partial values", false;
  }
  return true;
}

/* ---- layouts */

/* The axes of a dimension: those of its factors, in factor order.  The unit is the product of the factors after the cut
 * one.  False if the result may differ on another mesh. */
static bool dim_layout(Module *m, const Rule *r, const Strategy *s, const DimFactors *k, DimLayout *out) {
  const Expr *unit = NULL, *one = ex_const(m, 1);
  for (int i = 0; i < k->n; i++) {
    if (out->n) unit = unit ? ex_mul(m, unit, r->factors[k->f[i]].size) : r->factors[k->f[i]].size;
    for (int j = 0; j < s->n; j++)
      if (s->picks[j].factor == k->f[i]) out->axes[out->n++] = s->picks[j].axis;
  }
  if (!out->n) return true;
  out->unit = !unit || ex_is_const(unit, 0) ? one : unit; /* with an extent of 0, every part is empty */
  if (ex_is_const(out->unit, 1)) return true;
  /* Use unit 1 if it gives the same intervals: equal layouts must be equal pointers. */
  const Expr *extent = one, *lo[2], *hi[2];
  for (int i = 0; i < k->n; i++) extent = ex_mul(m, extent, r->factors[k->f[i]].size);
  DimLayout fine = *out;
  fine.unit = one;
  layout_interval(m, out, extent, &lo[0], &hi[0]);
  layout_interval(m, &fine, extent, &lo[1], &hi[1]);
  if (lo[0] == lo[1] && hi[0] == hi[1]) *out = fine;
  return false;
}

static bool tensor_layout(Module *m, const Rule *r, const Strategy *s, const TensorFactors *t, Layout *l) {
  bool always = true;
  l->rank = t->rank;
  for (int d = 0; d < t->rank; d++)
    if (t->dims[d].n) always &= dim_layout(m, r, s, &t->dims[d], &l->dims[d]);
  return always;
}

static void partial_operand(const Rule *r, const Strategy *s, int operand, Layout *l) {
  for (int i = 0; i < s->n; i++) {
    const Factor *f = &r->factors[s->picks[i].factor];
    if ((f->kind != FK_LINEAR && f->kind != FK_ACCUMULATE) || !(f->operands & (1u << operand))) continue;
    l->partial_axes |= 1u << s->picks[i].axis;
    l->partial = f->reduction;
  }
}

static void partial_result(const Rule *r, const Strategy *s, int result, Layout *l) {
  for (int i = 0; i < s->n; i++) {
    const Factor *f = &r->factors[s->picks[i].factor];
    if (!partial_kind(f) || !(f->results >> result & 1u)) continue;
    l->partial = l->partial_axes && l->partial != f->reduction ? RED_SUM : f->reduction;
    l->partial_axes |= 1u << s->picks[i].axis;
  }
}

/* Cached layouts of a strategy: operands, then results; NULL if not computed, or dependent on the mesh. */
typedef struct StrategyLayouts {
  int n;
  Pick picks[MAX_AXES];
  const Layout **items; /* NULL in a free slot */
} StrategyLayouts;

/* By strategy: open addressing. */
struct RuleLayouts {
  Module *m;
  StrategyLayouts *items;
  size_t n, slots;
};

struct RuleLayouts *rule_layouts_new(Module *m) {
  struct RuleLayouts *k = ARENA_NEW(m->arena, struct RuleLayouts);
  k->m = m;
  return k;
}

static StrategyLayouts *place_of(const struct RuleLayouts *k, int n, const Pick *picks) {
  uint64_t h = (uint64_t)n;
  for (int i = 0; i < n; i++) h = (h << 13 | h >> 51) ^ ((uint64_t)picks[i].axis << 8 | picks[i].factor);
  size_t i = (size_t)(h * 0x9E3779B97F4A7C15u >> 32) & (k->slots - 1);
  for (; k->items[i].items; i = (i + 1) & (k->slots - 1))
    if (k->items[i].n == n && memcmp(k->items[i].picks, picks, sizeof *picks * (size_t)n) == 0) break;
  return &k->items[i];
}

static void grow_layouts(struct RuleLayouts *k) {
  StrategyLayouts *old = k->items;
  size_t n = k->slots;
  k->slots = n ? 2 * n : 16;
  k->items = ARENA_ARRAY(k->m->arena, StrategyLayouts, k->slots);
  for (size_t i = 0; i < n; i++)
    if (old[i].items) *place_of(k, old[i].n, old[i].picks) = old[i];
}

/* Cache slot of operand or result number `tensor`; NULL if there is no cache. */
static const Layout **known_layout(const Module *m, const Rule *r, const Strategy *s, int tensor) {
  struct RuleLayouts *k = r->layouts;
  if (!k || k->m != m) return NULL;
  if (2 * k->n >= k->slots) grow_layouts(k);
  StrategyLayouts *x = place_of(k, s->n, s->picks);
  if (!x->items) {
    x->items = ARENA_ARRAY(k->m->arena, const Layout *, r->noperands + MAX_RESULTS);
    x->n = s->n, k->n++;
    memcpy(x->picks, s->picks, sizeof *s->picks * (size_t)s->n);
  }
  return &x->items[tensor];
}

const Layout *strategy_operand(Module *m, const Rule *r, const Strategy *s, int operand) {
  const Layout **known = known_layout(m, r, s, operand);
  if (known && *known) return *known;
  Layout l = {0};
  bool always = tensor_layout(m, r, s, &r->operands[operand], &l);
  partial_operand(r, s, operand, &l);
  const Layout *out = layout_get(m, &l);
  return always && known ? (*known = out) : out;
}

const Layout *strategy_result(Module *m, const Rule *r, const Strategy *s, int result) {
  const Layout **known = known_layout(m, r, s, r->noperands + result);
  if (known && *known) return *known;
  Layout l = {0};
  bool always = tensor_layout(m, r, s, &r->results[result], &l);
  partial_result(r, s, result, &l);
  const Layout *out = layout_get(m, &l);
  return always && known ? (*known = out) : out;
}

bool strategy_needs_body(const Rule *r, const Strategy *s) {
  for (int i = 0; i < s->n; i++)
    if (r->factors[s->picks[i].factor].kind == FK_BODY) return true;
  return false;
}

/* ---- enumeration: axis by axis in mesh order, each to nothing or to every factor that it may cut; an axis is added to
 * the axes already on the factor as the most minor one, or, with `orders`, at every place among them */

typedef struct Enumeration {
  Arena *arena;
  const Rule *r;
  int naxes;
  bool orders;
  uint32_t factors[MAX_AXES]; /* by axis: bit set of the factors that it may cut */
  struct {
    Strategy *items;
    size_t n, cap;
  } found;
} Enumeration;

static void enumerate_axis(Enumeration *e, int axis, const Strategy *s) {
  if (axis == e->naxes) {
    ARENA_PUSH(e->arena, &e->found, *s);
    return;
  }
  enumerate_axis(e, axis + 1, s);
  for (int f = 0; f < e->r->nfactors; f++) {
    if (!(e->factors[axis] >> f & 1u) || !stands_beside(e->r, s->picks, s->n, f)) continue;
    int shared = 0;
    for (int i = 0; i < s->n; i++) shared += s->picks[i].factor == f;
    bool linear_factor = e->r->factors[f].kind == FK_LINEAR || e->r->factors[f].kind == FK_REDUCE;
    int places = e->orders && shared && (!linear_factor || e->r->factors[f].size) ? shared + 1 : 1;
    for (int place = 0; place < places; place++) {
      /* The new pick goes before `place` of the picks on the same factor, counted from the most minor. */
      Strategy t = *s;
      int at = s->n, skip = place;
      while (skip && at > 0) skip -= s->picks[--at].factor == f;
      memmove(&t.picks[at + 1], &t.picks[at], sizeof(Pick) * (size_t)(s->n - at));
      t.picks[at] = (Pick){(uint8_t)axis, (uint8_t)f};
      t.n++;
      enumerate_axis(e, axis + 1, &t);
    }
  }
}

int strategy_enumerate_among(Arena *a, Module *m, const Rule *r, bool orders, const uint32_t *factors,
                             const Strategy **out) {
  const char *why;
  Enumeration e = {.arena = a, .r = r, .naxes = m->mesh.naxes, .orders = orders};
  for (int f = 0; f < r->nfactors; f++) {
    bool cuttable = factor_cuttable(r, f, &why);
    for (int i = 0; i < e.naxes && cuttable; i++)
      if (cut_by_axis(&m->mesh, i, &r->factors[f])) e.factors[i] |= 1u << f;
  }
  for (int i = 0; i < e.naxes && factors; i++) e.factors[i] &= factors[i];
  enumerate_axis(&e, 0, &(Strategy){0});
  *out = e.found.items;
  return (int)e.found.n;
}

int strategy_enumerate(Arena *a, Module *m, const Rule *r, bool orders, const Strategy **out) {
  return strategy_enumerate_among(a, m, r, orders, NULL, out);
}

/* ---- text */

void strategy_print(const Mesh *mesh, Text *t, const Rule *r, const Strategy *s) {
  const char *separator = "";
  text_add(t, "{");
  for (int f = 0; f < r->nfactors; f++) {
    const char *before = NULL;
    for (int i = 0; i < s->n; i++) {
      if (s->picks[i].factor != f) continue;
      if (!before) text_printf(t, "%s%s:", separator, r->factors[f].name);
      text_printf(t, "%s%s", before ? "." : "", mesh->axes[s->picks[i].axis].name);
      before = separator = ", ";
    }
  }
  text_add(t, "}");
}

static const char *spaces(const char *s) {
  while (*s == ' ') s++;
  return s;
}

bool strategy_parse(Arena *arena, const Mesh *mesh, const Rule *r, const char *text, Strategy *out, const char **why) {
  const char *s = spaces(text);
  *out = (Strategy){0};
  if (*s++ != '{') return *why = "expected {", false;
  s = spaces(s);
  while (*s != '}') {
    size_t n = strcspn(s, ":}, ");
    int f = rule_factor_find(r, arena_strndup(arena, s, n));
    if (f < 0) return *why = arena_printf(arena, "unknown factor '%.*s'", (int)n, s), false;
    s = spaces(s + n);
    if (*s++ != ':') return *why = "expected : after a factor", false;
    do {
      s = spaces(s);
      n = strcspn(s, ".,} ");
      int a = mesh_axis_find(mesh, arena_strndup(arena, s, n));
      if (a < 0) return *why = arena_printf(arena, "unknown mesh axis '%.*s'", (int)n, s), false;
      if (out->n == MAX_AXES) return *why = "too many axes", false;
      out->picks[out->n++] = (Pick){(uint8_t)a, (uint8_t)f};
      s = spaces(s + n);
    } while (*s == '.' && s++);
    if (*s == ',') s = spaces(s + 1);
    else if (*s != '}') return *why = "expected , or }", false;
  }
  return strategy_legal(mesh, r, out, why);
}

static void print_tensor(Text *t, const Rule *r, const TensorFactors *k) {
  for (int d = 0; d < k->rank; d++) {
    if (d) text_add(t, " ");
    if (k->dims[d].n != 1) text_add(t, "(");
    for (int i = 0; i < k->dims[d].n; i++) text_printf(t, "%s%s", i ? " " : "", r->factors[k->dims[d].f[i]].name);
    if (k->dims[d].n != 1) text_add(t, ")");
  }
}

void rule_print(const Module *m, Text *t, const Rule *r) {
  for (int i = 0; i < r->noperands; i++) {
    if (i) text_add(t, ", ");
    print_tensor(t, r, &r->operands[i]);
  }
  text_add(t, " -> ");
  for (int i = 0; i < r->nresults; i++) {
    if (i) text_add(t, ", ");
    print_tensor(t, r, &r->results[i]);
  }
  for (int f = 0; f < r->nfactors; f++) {
    const Factor *k = &r->factors[f];
    if (k->kind == FK_PARALLEL) continue;
    text_printf(t, "  %s=%s", k->name, factor_kind_name(k->kind));
    if (k->reduction != RED_NONE) text_printf(t, "(%s)", reduction_name(k->reduction));
  }
  (void)m;
}
