/* proof/prove_same.c - do two forms of a level-1 function have the same terms?  See prove_same.h.
 *
 * Terms (prove_term.h) are expressions over primitives: composites are expanded, and terms do not depend on the order
 * and names of operations, or on the place of loop-invariant values.  A prepared weight has the term that @prepare
 * computes.  Equal terms over equal types are equal values, bit by bit, for all inputs, weights and sizes.
 */
#include "proof/prove_same.h"

#include <string.h>

#include "proof/prove_term.h"

struct Same {
  Module *m;
  Terms *terms;
};

typedef struct Named {
  const char *name;
  Term term;
  const Type *type;
} Named;

struct Meaning {
  struct {
    Named *items;
    size_t n, cap;
  } inputs, outputs, writes;
};

Same *same_new(Module *m) {
  Same *s = ARENA_NEW(m->arena, Same);
  *s = (Same){m, terms_new(m)};
  return s;
}

/* Defines prepared weights by the terms of @prepare. */
static void define_prepared(Same *s) {
  const Func *f = module_func(s->m, "prepare");
  s->terms->defined.n = 0;
  if (!f || f->level != 1) return;
  const Term *terms = terms_of_func(s->terms, f, NULL);
  for (size_t i = 0; i < f->outputs.n; i++)
    ARENA_PUSH(s->m->arena, &s->terms->defined,
               ((Written){f->outputs.items[i].name, terms[f->outputs.items[i].value]}));
}

const Meaning *same_meaning(Same *s, const Func *f) {
  Meaning *meaning = ARENA_NEW(s->m->arena, Meaning);
  Arena *a = s->m->arena;
  define_prepared(s);
  s->terms->writes.n = 0;
  const Term *terms = terms_of_func(s->terms, f, NULL);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (op->kind == OP_input)
      ARENA_PUSH(a, &meaning->inputs, ((Named){op_str(op, AT_name), terms[op->out], type_of(f, op->out)}));
  }
  for (size_t i = 0; i < f->outputs.n; i++) {
    const Output *o = &f->outputs.items[i];
    ARENA_PUSH(a, &meaning->outputs, ((Named){o->name, terms[o->value], type_of(f, o->value)}));
  }
  for (size_t i = 0; i < s->terms->writes.n; i++) {
    const Written *w = &s->terms->writes.items[i];
    ARENA_PUSH(a, &meaning->writes, ((Named){w->name, w->term, module_state(s->m, w->name)->type}));
  }
  return meaning;
}

static bool same_list(const char *what, size_t n, const Named *x, size_t m, const Named *y, bool ordered, Arena *a,
                      const char **why) {
  if (n != m) return *why = arena_printf(a, "%zu %ss, not %zu", m, what, n), false;
  for (size_t i = 0; i < n; i++) {
    size_t k = i;
    for (size_t j = 0; !ordered && j < m; j++)
      if (strcmp(y[j].name, x[i].name) == 0) k = j;
    bool same = strcmp(x[i].name, y[k].name) == 0 && x[i].type == y[k].type && x[i].term == y[k].term;
    if (!same) return *why = arena_printf(a, "%s %s has another term", what, x[i].name), false;
  }
  return true;
}

bool same_as(const Same *s, const Meaning *x, const Meaning *y, const char **why) {
  Arena *a = s->m->arena;
  return same_list("input", x->inputs.n, x->inputs.items, y->inputs.n, y->inputs.items, false, a, why) &&
         same_list("output", x->outputs.n, x->outputs.items, y->outputs.n, y->outputs.items, true, a, why) &&
         same_list("state", x->writes.n, x->writes.items, y->writes.n, y->writes.items, false, a, why);
}
