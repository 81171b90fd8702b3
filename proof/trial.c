/* proof/trial.c - see trial.h. */
#include "proof/trial.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "ir/loops.h"
#include "ir/layout/rule.h"

/* ---- the functions of a module */

FuncList funcs_of(const Module *m, Arena *arena) {
  FuncList list = {ARENA_ARRAY(arena, Func *, m->funcs.n), m->funcs.n};
  for (size_t i = 0; i < list.n; i++) list.items[i] = m->funcs.items[i];
  return list;
}

void funcs_set(Module *m, const FuncList *list) {
  m->funcs.n = 0;
  for (size_t i = 0; i < list->n; i++) ARENA_PUSH(m->arena, &m->funcs, list->items[i]);
}

Func *funcs_find(const FuncList *list, const char *name) {
  for (size_t i = 0; i < list->n; i++)
    if (strcmp(list->items[i]->name, name) == 0) return list->items[i];
  return NULL;
}

/* ---- sizes and work */

void trial_sizes(const Module *m, int number, int64_t *symbols) {
  static const int64_t primes[] = {3, 5, 2, 7, 4, 11};
  enum { PRIMES = sizeof primes / sizeof *primes };
  int dimension = 0;
  for (size_t i = 0; i < m->symbols.n; i++) {
    const Symbol *s = &m->symbols.items[i];
    symbols[i] = 0;
    if (s->axis >= 0) continue;
    int64_t v = module_symbol_from(s, s->min > 1 ? s->min : 1), larger;
    bool more =
        number > 0 && !__builtin_mul_overflow(s->multiple, primes[(dimension + number - 1) % PRIMES] - 1, &larger);
    if (more && !__builtin_add_overflow(v, larger, &larger)) v = larger;
    if (s->max && v > s->max) v = s->max / s->multiple * s->multiple;
    symbols[i] = v;
    dimension++;
  }
  module_bound_computed(m, symbols);
}

static double elements(const Type *t, const int64_t *symbols) {
  int64_t dims[MAX_RANK];
  double n = 1;
  if (!interp_dims(t, symbols, dims)) return INFINITY;
  for (int d = 0; d < t->rank; d++) n *= (double)dims[d];
  return n;
}

static double contraction_work(Module *m, const Func *f, const Op *op, const int64_t *symbols) {
  const Rule *r = rule_of(m, f, op);
  double n = 1;
  for (int i = 0; i < r->nfactors; i++) {
    int64_t size;
    if (r->factors[i].size) n *= ex_eval(r->factors[i].size, symbols, &size) ? (double)size : INFINITY;
  }
  return n;
}

static double op_work(Module *m, const Func *f, const Op *op, const int64_t *symbols) {
  OpKind k = op->kind;
  double n = 0;
  for (Val v = op->out; v < op_end(op); v++) n += elements(type_of(f, v), symbols);
  if (k == OP_call) {
    const Func *callee = module_func(m, op_str(op, AT_name));
    return callee ? trial_work(m, callee, symbols) : INFINITY;
  }
  if (op_is_contraction(k) || op_is_windowed(k)) return n + contraction_work(m, f, op, symbols);
  for (int i = 0; i < op->nin; i++) n += elements(type_of(f, op->in[i]), symbols);
  return n;
}

double trial_work(Module *m, const Func *f, const int64_t *symbols) {
  Arena *scratch = arena_new();
  Loops loops = loops_of(scratch, f);
  double sum = 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    double n = op_work(m, f, &f->ops.items[i], symbols);
    for (int l = loops.of[i]; l >= 0; l = loops.items[l].parent) {
      const Expr *trips = op_expr(&f->ops.items[loops.items[l].begin], AT_trips);
      int64_t rounds;
      if (trips && ex_eval(trips, symbols, &rounds) && rounds > 1) n *= (double)rounds;
    }
    sum += n;
  }
  arena_free(scratch);
  return sum;
}

/* ---- numbers */

typedef struct Weights {
  const TrialOptions *o;
} Weights;

static double uniform(uint64_t seed, uint64_t a, uint64_t b, double low, double high) {
  uint64_t key[2] = {a, b};
  return low + (high - low) * (double)(hash64(key, sizeof key, seed) >> 44) * 0x1p-20;
}

static void set_random(InterpTensor *x, int64_t i, double number) {
  unsigned char bytes[8];
  if (!dtype_is_float(x->dtype)) {
    x->cells[i].i = x->dtype == DT_bool ? number > 0 : (int64_t)floor(2 * number + 2); /* 0 to 3 */
    return;
  }
  dtype_store_f(x->dtype, bytes, number);
  x->cells[i].f = dtype_load_f(x->dtype, bytes);
}

/* Random weights by their place in the file, so that views agree; floats in [-1, 1). */
static void random_blob(const Param *p, uint64_t seed, InterpTensor *out) {
  int64_t index[MAX_RANK] = {0}, n = interp_elements(out);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = 0;
    for (int d = 0; d < out->rank; d++) at += index[d] * p->strides[d];
    set_random(out, i, uniform(seed, (uint64_t)p->blob, p->offset + (uint64_t)at * dtype_bytes(out->dtype), -1, 1));
    for (int d = out->rank - 1; d >= 0 && ++index[d] == out->dims[d]; d--) index[d] = 0;
  }
}

static bool read_blob(void *context, const Module *m, const Param *p, InterpTensor *out, Diags *diags) {
  const Weights *w = context;
  bool own = w->o->blob && (w->o->domain == DOMAIN_FLOAT || !dtype_is_float(p->type->dtype));
  if (own) return w->o->blob(w->o->context, m, p, out, diags);
  random_blob(p, w->o->seed, out);
  return true;
}

static void fill(InterpTensor *x, const TrialOptions *o, const char *name, double low, double high) {
  uint64_t stream = hash64(name, strlen(name), o->seed);
  for (int64_t i = 0; i < interp_elements(x); i++) set_random(x, i, uniform(o->seed, stream, (uint64_t)i, low, high));
  if (o->domain == DOMAIN_MODP) interp_to_modp(x);
}

/* Random values for weights that an initialiser would make constant; normal and uniform ones are used as they are in
 * floats. */
static InterpNamed *made_weights(const Module *m, const TrialOptions *o, Arena *arena, int *n) {
  InterpNamed *list = ARENA_ARRAY(arena, InterpNamed, m->params.n);
  *n = 0;
  for (size_t i = 0; i < m->params.n; i++) {
    const Param *p = &m->params.items[i];
    int64_t dims[MAX_RANK];
    bool own = p->init == INIT_BLOB || p->init == INIT_PREPARED || !dtype_is_float(p->type->dtype);
    if (own || (o->domain == DOMAIN_FLOAT && (p->init == INIT_NORMAL || p->init == INIT_UNIFORM)) ||
        !type_constant_dims(p->type, dims))
      continue;
    InterpNamed *item = &list[(*n)++];
    *item = (InterpNamed){p->name, interp_tensor(arena, p->type->dtype, p->type->rank, dims)};
    fill(&item->tensor, o, p->name, o->domain == DOMAIN_FLOAT ? 0.25 : -1, 1);
  }
  return list;
}

/* True for a moment of an optimizer.  Second moments are averages of squares: of a negative one the update is NaN. */
static bool is_moment(const Module *m, const State *s) {
  bool trains = false;
  for (size_t i = 0; i < m->states.n; i++) trains |= m->states.items[i].param != NULL;
  return trains && !s->param;
}

static InterpNamed *made_states(const Module *m, const TrialOptions *o, Arena *arena, int *n) {
  InterpNamed *list = ARENA_ARRAY(arena, InterpNamed, m->states.n);
  *n = 0;
  for (size_t i = 0; i < m->states.n; i++) {
    const State *s = &m->states.items[i];
    int64_t dims[MAX_RANK];
    if (!dtype_is_float(s->type->dtype) || !interp_dims(s->type, o->symbols, dims)) continue;
    list[*n] = (InterpNamed){s->name, interp_tensor(arena, s->type->dtype, s->type->rank, dims)};
    fill(&list[(*n)++].tensor, o, s->name, o->domain == DOMAIN_FLOAT && is_moment(m, s) ? 0.25 : -1, 1);
  }
  return list;
}

/* ---- comparing */

static bool any_finite(const InterpTensor *x, InterpDomain domain) {
  int64_t n = interp_elements(x);
  if (domain == DOMAIN_MODP || !dtype_is_float(x->dtype) || n == 0) return true;
  for (int64_t i = 0; i < n; i++)
    if (isfinite(x->cells[i].f)) return true;
  return false;
}

static bool compares_floats(const Func *f, Val v) {
  const Op *op = op_of(f, v);
  switch (op->kind) {
    case OP_lt:
    case OP_le:
    case OP_gt:
    case OP_ge:
    case OP_eq:
    case OP_ne: return dtype_is_float(type_of(f, op->in[0])->dtype);
    case OP_and:
    case OP_or: return compares_floats(f, op->in[0]) || compares_floats(f, op->in[1]);
    default: return false;
  }
}

/* True if the output counts comparisons of floats, or is a share of such a count, as an accuracy is. */
static bool counts_comparisons(const Func *f, const char *output) {
  Val v = 0;
  for (size_t i = 0; i < f->outputs.n; i++)
    if (strcmp(f->outputs.items[i].name, output) == 0) v = f->outputs.items[i].value;
  while (v && type_of(f, v)->dtype != DT_bool) {
    const Op *op = op_of(f, v);
    const bool through = op->kind == OP_div || op->kind == OP_mul || op->kind == OP_accumulate ||
                         op->kind == OP_reduce || op->kind == OP_cast;
    v = through ? op->in[0] : 0;
  }
  return v && compares_floats(f, v);
}

/* True if the values are not judged: rounding to 16 bits decides comparisons of numbers that almost tie. */
static bool may_jump(const Func *f, const char *output, const TrialOptions *o) {
  return o->domain == DOMAIN_FLOAT && o->tolerance > 1e-4 && f && counts_comparisons(f, output);
}

static TrialVerdict compare(const Func *f, const char *what, const InterpNamed *want, int nwant, const InterpNamed *got,
                            int ngot, const TrialOptions *o, Arena *arena, const char **why) {
  if (nwant != ngot) return *why = arena_printf(arena, "%d %ss, not %d", ngot, what, nwant), TRIAL_DIFFERS;
  for (int i = 0; i < nwant; i++) {
    const InterpTensor *x = &want[i].tensor, *y = interp_find(got, ngot, want[i].name);
    const char *where = "it is missing";
    bool same =
        y && (o->domain == DOMAIN_MODP ? interp_equal(x, y, o->domain, 0, arena, &where)
                                       : interp_distance(y, x) <= (dtype_is_float(x->dtype) ? o->tolerance : 0));
    same = same || (y && may_jump(f, want[i].name, o) && interp_elements(x) == interp_elements(y));
    if (!same && y && o->domain == DOMAIN_FLOAT) where = arena_printf(arena, "relative L2 %.3g", interp_distance(y, x));
    if (!same) return *why = arena_printf(arena, "%s %s: %s", what, want[i].name, where), TRIAL_DIFFERS;
    if (!any_finite(x, o->domain))
      return *why = arena_printf(arena, "%s %s has no finite number", what, want[i].name), TRIAL_NOT_RUN;
  }
  return TRIAL_EQUAL;
}

static const char *first_error(const Diags *diags) { return diags->n ? diags->items[0].message : "no reason given"; }

/* Two functions, each to be run while the module has the functions of its list. */
typedef struct Versions {
  const Func *f, *g;
  const FuncList *before, *after;
} Versions;

static TrialVerdict try_both(Module *m, const Versions *b, const TrialOptions *o, Arena *arena, const char **why) {
  Diags *diags = diags_new(arena);
  Weights weights = {o};
  InterpOptions run = {
      .domain = o->domain, .symbols = o->symbols, .blob = read_blob, .context = &weights, .max_rounds = 1000};
  InterpResult x, y;
  int n;
  funcs_set(m, b->before);
  double work = trial_work(m, b->f, o->symbols);
  bool ok = work <= o->most_work;
  if (!ok) *why = arena_printf(arena, "too large to run: %.2g operations", work);
  InterpNamed *inputs = ok ? interp_random_inputs(m, b->f, o->domain, o->symbols, o->seed, arena, &n, diags) : NULL;
  run.params = made_weights(m, o, arena, &run.nparams);
  run.states = made_states(m, o, arena, &run.nstates);
  if (ok) ok = inputs && interp_run(m, b->f, &run, n, inputs, arena, &x, diags);
  funcs_set(m, b->after);
  if (work <= o->most_work && !ok) *why = arena_printf(arena, "it does not run: %s", first_error(diags));
  if (!ok) return TRIAL_NOT_RUN;
  if (!interp_run(m, b->g, &run, n, inputs, arena, &y, diags))
    return *why = arena_printf(arena, "it no longer runs: %s", first_error(diags)), TRIAL_DIFFERS;
  TrialVerdict v = compare(b->f, "output", x.outputs, x.noutputs, y.outputs, y.noutputs, o, arena, why);
  return v != TRIAL_EQUAL ? v : compare(NULL, "state", x.states, x.nstates, y.states, y.nstates, o, arena, why);
}

TrialVerdict trial(Module *m, const FuncList *before, const FuncList *after, const char *name, const TrialOptions *o,
                   Arena *arena, const char **why) {
  const Func *f = funcs_find(before, name), *g = funcs_find(after, name);
  if (!f || !g) return *why = "the function is missing", TRIAL_DIFFERS;
  return try_both(m, &(Versions){f, g, before, after}, o, arena, why);
}

TrialVerdict trial_pair(Module *m, const Func *f, const Func *g, const TrialOptions *o, Arena *arena,
                        const char **why) {
  FuncList now = funcs_of(m, arena);
  return try_both(m, &(Versions){f, g, &now, &now}, o, arena, why);
}

/* ---- counterexamples */

typedef struct Search {
  Module *m;
  Func *pair[2];
  double work; /* work left */
  Arena *arena;
  const char **why;
} Search;

static const char *sizes_text(const Search *s, const int64_t *symbols) {
  Text text = {.arena = s->arena};
  for (size_t i = 0; i < s->m->symbols.n; i++)
    if (s->m->symbols.items[i].axis < 0)
      text_printf(&text, "%s%s=%lld", text.n ? ", " : "with ", s->m->symbols.items[i].name, (long long)symbols[i]);
  return text.n ? arena_printf(s->arena, "%s ", text_str(&text)) : "";
}

/* Tries a few random inputs at these sizes. */
static bool differ_at(Search *s, const int64_t *symbols) {
  enum { DRAWS = 3 };
  const Mesh *mesh = &s->m->mesh;
  double ranks = mesh->stages, work = trial_work(s->m, s->pair[0], symbols);
  for (int i = 0; i < mesh->naxes; i++) ranks *= mesh->axes[i].size;
  bool differs = false;
  for (uint64_t seed = 1; seed <= DRAWS && !differs && work * (1 + ranks) <= s->work; seed++) {
    Arena *scratch = arena_new();
    const char *what = "";
    TrialOptions o = {.domain = DOMAIN_FLOAT, .symbols = symbols, .seed = seed, .tolerance = 1e-9, .most_work = work};
    differs = trial_pair(s->m, s->pair[0], s->pair[1], &o, scratch, &what) == TRIAL_DIFFERS;
    if (differs) *s->why = arena_printf(s->arena, "%s%s", sizes_text(s, symbols), what);
    arena_free(scratch);
    s->work -= work * (1 + ranks);
  }
  return differs;
}

/* Sets the least sizes, which may be 0, or the largest ones; a size without a maximum keeps its value. */
static void limits(const Module *m, bool largest, int64_t *symbols) {
  for (size_t i = 0; i < m->symbols.n; i++) {
    const Symbol *s = &m->symbols.items[i];
    if (s->axis < 0 && !largest) symbols[i] = module_symbol_from(s, s->min);
    if (s->axis < 0 && largest && s->max) symbols[i] = s->max / s->multiple * s->multiple;
  }
  module_bound_computed(m, symbols);
}

/* Tries all sizes of one dimension if they are few, with the others small. */
static bool differ_along(Search *s, size_t symbol, int64_t *symbols) {
  enum { FEW = 64 };
  const Symbol *x = &s->m->symbols.items[symbol];
  int64_t step = x->multiple, first = (x->min + step - 1) / step * step;
  if (x->axis >= 0 || x->most || (x->max && (x->max - first) / step > FEW)) return false;
  trial_sizes(s->m, 0, symbols);
  for (int64_t k = 0; k <= FEW && (!x->max || first + k * step <= x->max); k++) {
    symbols[symbol] = first + k * step;
    module_bound_computed(s->m, symbols);
    if (differ_at(s, symbols)) return true;
  }
  return false;
}

bool trial_counterexample(Module *m, Func *f, Func *g, double most_work, Arena *arena, const char **why) {
  enum { SMALL = 6 };
  Search s = {m, {f, g}, most_work, arena, why};
  int64_t *symbols = ARENA_ARRAY(arena, int64_t, m->symbols.n + 1);
  for (int k = 0; k < SMALL; k++) {
    trial_sizes(m, k, symbols);
    if (differ_at(&s, symbols)) return true;
  }
  for (int largest = 0; largest < 2; largest++) {
    limits(m, largest, symbols);
    if (differ_at(&s, symbols)) return true;
  }
  for (size_t i = 0; i < m->symbols.n; i++)
    if (differ_along(&s, i, symbols)) return true;
  return false;
}
