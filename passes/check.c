/* passes/check.c - see check.h. */
#include "passes/check.h"

#include <string.h>

#include "proof/element.h"
#include "proof/prove_same.h"

enum { RUNS = 3 };

struct PassWatch {
  Same *same;
  FuncList before;
  const Meaning **meanings; /* by function; NULL for functions of level 2 */
};

const char *pipeline_how_name(PassHow h) {
  static const char *const names[] = {"proved", "proved_reals", "compared", "trusted", "differs"};
  return names[h];
}

/* ---- differences: everything but names, groups and places in the source */

static bool same_op(const Func *f, const Op *x, const Func *g, const Op *y) {
  if (x->kind != y->kind || x->nin != y->nin || x->nattrs != y->nattrs || x->out != y->out) return false;
  for (int i = 0; i < x->nin; i++)
    if (x->in[i] != y->in[i]) return false;
  for (int i = 0; i < x->nattrs; i++)
    if (!attr_equal(&x->attrs[i], &y->attrs[i])) return false;
  return !x->out || type_of(f, x->out) == type_of(g, y->out);
}

static bool same_func(const Func *f, const Func *g) {
  if (f == g) return true;
  if (f->ops.n != g->ops.n || f->outputs.n != g->outputs.n) return false;
  for (size_t i = 0; i < f->ops.n; i++)
    if (!same_op(f, &f->ops.items[i], g, &g->ops.items[i])) return false;
  for (size_t i = 0; i < f->outputs.n; i++)
    if (f->outputs.items[i].value != g->outputs.items[i].value ||
        strcmp(f->outputs.items[i].name, g->outputs.items[i].name) != 0)
      return false;
  return true;
}

/* @prepare is not a function of its own: its values are part of the functions that read its weights. */
static bool is_checked(const Func *f) { return f->level == 1 && strcmp(f->name, "prepare") != 0; }

/* ---- by numbers */

typedef struct Tries {
  Module *m;
  Arena *arena;
  PassChecks *checks;
  const FuncList *before, *after;
  PassKeeps keeps;
  const char *why;      /* why nothing was compared, or what differs */
  const char *unproved; /* where the proof over the real numbers stopped; NULL if it did not */
  int runs;             /* runs that compared something */
  bool field, floats;   /* domains of these runs */
} Tries;

/* The interpreter rounds only in casts; allows a few last places of the narrowest float type. */
static double tolerance(const FuncList *list) {
  double most = 1e-6;
  for (size_t k = 0; k < list->n; k++)
    for (size_t v = 1; v < list->items[k]->values.n; v++) {
      const Type *type = list->items[k]->values.items[v].type;
      double t = !type ? 0 : type->dtype == DT_f16 ? 4 * 0x1p-11 : type->dtype == DT_bf16 ? 4 * 0x1p-8 : 0;
      if (t > most) most = t;
    }
  return most;
}

/* Compares one domain at one size; false if the results differ. */
static bool try_domain(Tries *t, const char *name, InterpDomain domain, const int64_t *symbols, int run, bool *ran) {
  TrialOptions o = {.domain = domain,
                    .symbols = symbols,
                    .seed = 41 + (uint64_t)run,
                    .tolerance = tolerance(t->after),
                    .most_work = t->checks->most_work / 2,
                    .blob = t->checks->blob,
                    .context = t->checks->context};
  Arena *scratch = arena_new();
  const char *why = NULL;
  TrialVerdict v = trial(t->m, t->before, t->after, name, &o, scratch, &why);
  if (v != TRIAL_EQUAL) t->why = arena_strdup(t->arena, why);
  else {
    t->checks->most_work -= 2 * trial_work(t->m, funcs_find(t->after, name), symbols);
    *(domain == DOMAIN_MODP ? &t->field : &t->floats) = *ran = true;
  }
  arena_free(scratch);
  return v != TRIAL_DIFFERS;
}

static bool try_sizes(Tries *t, const char *name) {
  int64_t *symbols = ARENA_ARRAY(t->arena, int64_t, t->m->symbols.n + 1);
  for (int k = 0; k < RUNS; k++) {
    bool ran = false;
    trial_sizes(t->m, k, symbols);
    if (t->keeps != KEEPS_REALS && !try_domain(t, name, DOMAIN_MODP, symbols, k, &ran)) return false;
    if (!try_domain(t, name, DOMAIN_FLOAT, symbols, k, &ran)) return false;
    t->runs += ran;
  }
  return true;
}

static PassCheck by_numbers(Tries *t, const char *pass, size_t n, const char *const *names) {
  int least = 0;
  for (size_t i = 0; i < n; i++) {
    t->runs = 0;
    if (!try_sizes(t, names[i]))
      return (PassCheck){pass, PASS_DIFFERS, arena_printf(t->arena, "@%s: %s", names[i], t->why), NULL};
    if (!t->runs) return (PassCheck){pass, PASS_TRUSTED, t->why, NULL};
    if (!i || t->runs < least) least = t->runs;
  }
  const char *how = t->field && t->floats ? "in floats and modulo p" : t->field ? "modulo p" : "in floats";
  return (PassCheck){pass, PASS_COMPARED,
                     arena_printf(t->arena, "%d run%s at small sizes, %s", least, least == 1 ? "" : "s", how), NULL};
}

/* ---- before and after a pass */

PassWatch *pipeline_watch(Module *m) {
  PassWatch *w = ARENA_NEW(m->arena, PassWatch);
  *w = (PassWatch){same_new(m), funcs_of(m, m->arena), ARENA_ARRAY(m->arena, const Meaning *, m->funcs.n)};
  for (size_t i = 0; i < w->before.n; i++)
    if (is_checked(w->before.items[i])) w->meanings[i] = same_meaning(w->same, w->before.items[i]);
  return w;
}

/* Compares numbers as well, because a proof over the real numbers says nothing about rounding. */
static PassCheck by_reals(Tries *t, const char *pass, size_t n, const char *const *names) {
  for (size_t i = 0; i < n && !t->unproved; i++) {
    const char *why = "";
    if (!element_equal(t->m, t->before, t->after, names[i], t->arena, &why))
      t->unproved = arena_printf(t->arena, "@%s: %s", names[i], why);
  }
  PassCheck c = by_numbers(t, pass, n, names);
  c.unproved = t->unproved;
  if (c.how == PASS_DIFFERS || t->unproved) return c;
  return (PassCheck){
      pass, PASS_PROVED_REALS,
      c.how == PASS_COMPARED ? arena_printf(t->arena, "over the real numbers; %s", c.note) : "over the real numbers",
      NULL};
}

void pipeline_check(PassChecks *checks, const PassWatch *w, Module *m, const char *pass, PassKeeps keeps) {
  FuncList after = funcs_of(m, m->arena);
  const char **names = ARENA_ARRAY(m->arena, const char *, w->before.n);
  size_t n = 0;
  bool changed = false;
  if (checks->most_work == 0) checks->most_work = 2e8;
  for (size_t i = 0; i < w->before.n; i++) {
    const Func *f = w->before.items[i], *g = funcs_find(&after, f->name);
    const char *why;
    if (!is_checked(f) || !g) continue; /* an inlined block: its callers show whether its meaning was kept */
    bool same = same_func(f, g);
    changed |= !same;
    if (!same && !same_as(w->same, w->meanings[i], same_meaning(w->same, g), &why)) names[n++] = f->name;
  }
  if (!changed) return;
  if (keeps == KEEPS_NOTHING) {
    PassCheck made = {pass, PASS_TRUSTED, "it makes another function", NULL};
    ARENA_PUSH(m->arena, &checks->list, made);
    return;
  }
  Tries t = {.m = m, .arena = m->arena, .checks = checks, .before = &w->before, .after = &after, .keeps = keeps};
  PassCheck c =
      n ? by_reals(&t, pass, n, names) : (PassCheck){pass, PASS_PROVED, "the same terms before and after", NULL};
  ARENA_PUSH(m->arena, &checks->list, c);
}
