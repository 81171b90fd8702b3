/* tools/opt_prove.c - see opt_prove.h.
 *
 * The list has pairs of functions, level 1 before level 2: one pair per entry.  The preparation of weights is a pair of
 * its own (`prepare,prepare.spmd`): in the proof of an entry a prepared weight is like any other.  All pairs must be
 * proved; the answer is that of the first one that is not.  A refutation outranks an unknown, wherever the pair stands.
 *
 * The functions may be written by hand: this file checks what the prover assumes (levels, names, calls), the verifier
 * the rest.
 */
#include "tools/opt_prove.h"

#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "proof/trial.h"

typedef struct Pair {
  Func *l1, *l2;
} Pair;

static int words_of(const char *list) {
  int n = 1;
  for (; *list; list++) n += *list == ',';
  return n;
}

bool opt_prove_is_list(const char *list) {
  size_t n = strlen(list);
  return words_of(list) % 2 == 0 && list[0] != ',' && list[n - 1] != ',' && !strstr(list, ",,");
}

/* ---- the pairs of functions */

static Func *missing_function(const Module *m, const char *name, Diags *diags) {
  Nearest near = nearest_to(name);
  Text have = {.arena = diags->arena};
  for (size_t i = 0; i < m->funcs.n; i++) {
    nearest_try(&near, m->funcs.items[i]->name);
    text_printf(&have, "%s@%s of level %d", i ? ", " : "", m->funcs.items[i]->name, m->funcs.items[i]->level);
  }
  diag_error(diags, DIAG_prove, (Loc){0}, "--prove: there is no function @%s", name);
  if (near.best) diag_help(diags, "the nearest name is '%s'", near.best);
  diag_note(diags, (Loc){0}, m->funcs.n ? "the module has %s" : "the module has no function%s", text_str(&have));
  return NULL;
}

static Func *function_of_level(const Module *m, const char *name, int level, Diags *diags) {
  Func *f = module_func(m, name);
  if (!f) return missing_function(m, name, diags);
  if (f->level == level) return f;
  diag_error(diags, DIAG_prove, (Loc){0},
             "--prove: @%s is a function of level %d; the %s name of a pair must have level %d", name, f->level,
             level == 1 ? "first" : "second", level);
  return NULL;
}

/* Returns the next entry of the list, up to its end or a comma, and advances beyond it. */
static const char *next_word(Arena *a, const char **list) {
  size_t n = strcspn(*list, ",");
  const char *word = arena_printf(a, "%.*s", (int)n, *list);
  *list += n + ((*list)[n] == ',');
  return word;
}

static bool pairs_read(const Module *m, const char *list, int n, Pair *pairs, Diags *diags) {
  for (int i = 0; i < n; i++) {
    pairs[i].l1 = function_of_level(m, next_word(m->arena, &list), 1, diags);
    if (!pairs[i].l1) return false;
    pairs[i].l2 = function_of_level(m, next_word(m->arena, &list), 2, diags);
    if (!pairs[i].l2) return false;
    for (int k = 0; k < i; k++)
      if (pairs[k].l1 == pairs[i].l1)
        return diag_error(diags, DIAG_prove, (Loc){0}, "--prove: @%s is named twice", pairs[i].l1->name);
  }
  return true;
}

/* ---- the proofs */

static bool prepares(const Pair *p) { return strcmp(p->l1->name, "prepare") == 0; }

/* The readers of prepared weights are the other pairs; without any, all other functions of level 2. */
static Proof prove_weights(Module *m, const Pair *p, int n, const Pair *pairs) {
  Func **users = ARENA_ARRAY(m->arena, Func *, m->funcs.n);
  int nusers = 0;
  for (size_t i = 0; i < m->funcs.n; i++) {
    Func *f = m->funcs.items[i];
    bool user = n == 1 && f->level == 2 && f != p->l2;
    for (int k = 0; k < n; k++) user |= pairs[k].l2 == f && !prepares(&pairs[k]);
    if (user) users[nusers++] = f;
  }
  return prove_prepare(m, p->l1, p->l2, nusers, users);
}

/* The proof of an entry assumes its prepared weights. */
static void warn_of_prepared(Module *m, int n, const Pair *pairs, Diags *diags) {
  for (int i = 0; i < n; i++)
    if (prepares(&pairs[i])) return;
  for (int i = 0; i < n; i++)
    for (size_t k = 0; k < pairs[i].l2->ops.n; k++) {
      const Op *op = &pairs[i].l2->ops.items[k];
      const Param *w = op->kind == OP_param ? module_param(m, op_str(op, AT_name)) : NULL;
      if (!w || w->init != INIT_PREPARED) continue;
      diag_warning(diags, DIAG_prove, op->loc,
                   "@%s reads \"%s\", which is prepared; only a proof of the pair of @prepare covers its value",
                   pairs[i].l2->name, w->name);
      return;
    }
}

/* A program that the prover cannot follow may still be right: it is called wrong only with a counterexample. */
static Proof with_counterexample(Module *m, const Pair *pair, Proof p) {
  const double most_work = 3e8;
  const char *why;
  if (p.verdict != REFUTED) return p;
  const char *at = p.op ? arena_printf(m->arena, ", at \"%s\"", p.op) : "";
  if (trial_counterexample(m, pair->l1, pair->l2, most_work, m->arena, &why))
    p.reason = arena_printf(m->arena, "%s%s; %s", p.reason, at, why);
  else p.verdict = UNKNOWN, p.reason = arena_printf(m->arena, "%s%s; all numbers that were tried agree", p.reason, at);
  p.op = NULL;
  return p;
}

static Proof prove_pair(Module *m, const Pair *p, int n, const Pair *pairs) {
  for (size_t i = 0; i < p->l2->ops.n; i++)
    if (p->l2->ops.items[i].kind == OP_call)
      return (Proof){.verdict = UNKNOWN,
                     .op = p->l2->ops.items[i].name,
                     .reason = "a call at level 2: the prover follows calls only at level 1"};
  return prepares(p) ? prove_weights(m, p, n, pairs) : with_counterexample(m, p, prove(m, p->l1, p->l2));
}

static Proof prove_shared_states(Module *m, int n, const Pair *pairs) {
  const Func **entries = ARENA_ARRAY(m->arena, const Func *, n);
  int found = 0;
  for (int i = 0; i < n; i++)
    if (!prepares(&pairs[i])) entries[found++] = pairs[i].l2;
  return prove_states(m, found, entries);
}

static Proof prove_pairs(Module *m, int n, const Pair *pairs) {
  Proof all = {.verdict = PROVED};
  for (int i = 0; i < n && all.verdict != REFUTED; i++) {
    Proof one = prove_pair(m, &pairs[i], n, pairs);
    if (n > 1 && one.reason) one.reason = arena_printf(m->arena, "@%s: %s", pairs[i].l2->name, one.reason);
    all = proof_join(m, all, one);
  }
  return proof_join(m, all, prove_shared_states(m, n, pairs));
}

int opt_prove(Module *m, const char *list, Diags *diags) {
  int n = words_of(list) / 2;
  Pair *pairs = ARENA_ARRAY(m->arena, Pair, n);
  if (!pairs_read(m, list, n, pairs, diags)) return EXIT_NOTHING_TO_PROVE;
  warn_of_prepared(m, n, pairs, diags);
  Proof p = prove_pairs(m, n, pairs);
  puts(proof_line(m->arena, &p));
  return p.verdict == PROVED ? EXIT_PROVED : p.verdict == REFUTED ? EXIT_REFUTED : EXIT_UNKNOWN;
}
