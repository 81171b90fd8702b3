/* codegen/rows/unit_bundle.c - see unit_bundle.h. */
#include "codegen/rows/unit_bundle.h"

#include <string.h>

#include "codegen/rows/row.h"
#include "program/program.h"

/* Counts the expressions that a kernel may take as scalars for an index. */
static size_t scalars_of(const RowProgram *p, const Affine *a) {
  size_t n = !ex_is_const(a->offset, 0);
  int64_t v;
  for (int d = 0; d < p->ndims; d++)
    n += a->coef[d] && !ex_is_const(a->coef[d], 1) && (p->ndims == 1 || !ex_get_const(a->coef[d], &v));
  return n;
}

/* Counts the most words that a unit may take: its values, the ends of its blocks, extents, indices. */
static size_t words_of(const Unit *u) {
  const RowProgram *p = u->row;
  size_t n = (size_t)(u->nin + u->nout + 1 + p->ndims) + (p->blocks ? 1 : 0);
  for (size_t i = 0; i < p->nodes.n; i++) {
    const RowNode *x = &p->nodes.items[i];
    n += x->kind == RN_LOAD || x->kind == RN_INDEX ? scalars_of(p, &x->at) : x->kind == RN_SCALAR;
  }
  for (size_t i = 0; i < p->stores.n; i++) n += scalars_of(p, &p->stores.items[i].at);
  return n;
}

static int place_of(const Val *list, int n, Val v) {
  int i = 0;
  while (i < n && list[i] != v) i++;
  return i;
}

/* Counts the members that read a value.  Members run concurrently: only the sole reader of a value may overwrite it. */
static int readers_of(const Unit *members, int n, Val v) {
  int readers = 0;
  for (int i = 0; i < n; i++) readers += place_of(members[i].in, members[i].nin, v) < members[i].nin;
  return readers;
}

static void join(Module *m, Unit *to, const Unit *members, int n) {
  int most_in = 0, most_out = 0;
  for (int i = 0; i < n; i++) most_in += members[i].nin, most_out += members[i].nout;
  Val *in = ARENA_ARRAY(m->arena, Val, most_in + 1), *out = ARENA_ARRAY(m->arena, Val, most_out + 1);
  int *alias = ARENA_ARRAY(m->arena, int, most_out + 1);
  *to = members[n - 1];
  to->row = NULL, to->members = members, to->nmembers = n;
  to->nin = to->nout = 0, to->in = in, to->out = out, to->alias = alias;
  for (int i = 0; i < n; i++) {
    const Unit *u = &members[i];
    for (int k = 0; k < u->nin; k++)
      if (place_of(in, to->nin, u->in[k]) == to->nin) in[to->nin++] = u->in[k];
    for (int k = 0; k < u->nout; k++) {
      bool alone = u->alias[k] >= 0 && readers_of(members, n, u->in[u->alias[k]]) == 1;
      alias[to->nout] = alone ? place_of(in, to->nin, u->in[u->alias[k]]) : -1;
      out[to->nout++] = u->out[k];
    }
  }
}

size_t units_bundle(Module *m, Unit *units, size_t n) {
  Unit *all = ARENA_ARRAY(m->arena, Unit, n + 1);
  size_t made = 0;
  if (n) memcpy(all, units, n * sizeof *all);
  for (size_t i = 0, end; i < n; i = end) {
    size_t words = 0;
    for (end = i; end < n && (end == i || words + words_of(&all[end]) <= PROGRAM_MAX_WORDS); end++)
      words += words_of(&all[end]);
    if (end - i == 1) units[made++] = all[i];
    else join(m, &units[made++], all + i, (int)(end - i));
  }
  return made;
}
