/* ir/joint.c - see joint.h.
 *
 * Entries are merged by units: an operation, or an outermost loop with its whole body.  A unit of a later entry is
 * placed after the first entry's operation of the same name, or after the preceding unit of its own entry.
 */
#include "ir/joint.h"

#include <string.h>

#include "ir/loops.h"
#include "ir/named.h"

typedef struct Joining {
  Module *m;
  Func *out;
  JointEntry *entries;
  size_t **at;
  int *of;
  size_t *number;
} Joining;

static const char *name_in(const Joining *j, int entry, const char *name) {
  const char *text = arena_printf(j->m->arena, "%s/%s", j->entries[entry].f->name, name);
  return module_string(j->m, text);
}

Val joint_value(const Func *joint, int entry, Val v) {
  const JointEntry *e = &joint->joint->entries[entry];
  return v ? joint->ops.items[e->at[e->f->values.items[v].op]].out + (Val)value_index(e->f, v) : 0;
}

static void add_values(Joining *j, const Func *from, const Op *op) {
  for (Val v = op->out; v < op_end(op); v++) {
    Value value = {.type = type_of(from, v), .op = (int)j->out->ops.n};
    ARENA_PUSH(j->m->arena, &j->out->values, value);
  }
}

static void add_op(Joining *j, int entry, size_t index) {
  const Func *from = j->entries[entry].f;
  Op op = from->ops.items[index];
  Arena *a = j->m->arena;
  const char *group = op.group == op.name ? NULL : op.group;
  Val *in = ARENA_ARRAY(a, Val, op.nin + 1);
  for (int k = 0; k < op.nin; k++) in[k] = joint_value(j->out, entry, op.in[k]);
  op.in = in;
  op.name = name_in(j, entry, op.name);
  op.group = group ? name_in(j, entry, group) : op.name;
  if (op.nout > 1) {
    const char **names = ARENA_ARRAY(a, const char *, op.nout);
    for (int k = 0; k + 1 < op.nout; k++) names[k] = name_in(j, entry, op.names[k]);
    op.names = names;
  }
  Val out = op.out ? (Val)j->out->values.n : 0;
  if (op.out) add_values(j, from, &op);
  op.out = out;
  j->at[entry][index] = j->out->ops.n;
  j->of[j->out->ops.n] = entry, j->number[j->out->ops.n] = index;
  ARENA_PUSH(a, &j->out->ops, op);
}

/* By operation: the end of its unit. */
static size_t *unit_ends(Arena *a, const Func *f) {
  const Loops loops = loops_of(a, f);
  size_t *ends = ARENA_ARRAY(a, size_t, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++) ends[i] = i + 1;
  for (int l = 0; l < loops.n; l++)
    for (size_t i = loops.items[l].begin; loops.items[l].parent < 0 && i < loops.items[l].end; i++)
      ends[i] = loops.items[l].end;
  return ends;
}

/* By operation of an entry: the first entry's operation after which its unit is placed. */
static size_t *places_in(Arena *a, const NamedOps *first, const Func *f, const size_t *ends) {
  size_t *places = ARENA_ARRAY(a, size_t, f->ops.n + 1), now = 0;
  for (size_t i = 0; i < f->ops.n; i = ends[i]) {
    size_t twin = named_op(first, f->ops.items[i].name);
    if (twin != SIZE_MAX && first->f->ops.items[twin].kind == f->ops.items[i].kind && twin > now) now = twin;
    for (size_t k = i; k < ends[i]; k++) places[k] = now;
  }
  return places;
}

static void merge(Joining *j, int n) {
  Arena *scratch = arena_new();
  const Func *first = j->entries[0].f;
  const NamedOps names = named_ops(scratch, first);
  const size_t *ends = unit_ends(scratch, first);
  size_t **places = ARENA_ARRAY(scratch, size_t *, n), *next = ARENA_ARRAY(scratch, size_t, n);
  for (int e = 1; e < n; e++) {
    const Func *f = j->entries[e].f;
    places[e] = places_in(scratch, &names, f, unit_ends(scratch, f));
  }
  for (size_t i = 0; i < first->ops.n; i = ends[i]) {
    for (size_t k = i; k < ends[i]; k++) add_op(j, 0, k);
    for (int e = 1; e < n; e++)
      while (next[e] < j->entries[e].f->ops.n && places[e][next[e]] < ends[i]) add_op(j, e, next[e]++);
  }
  arena_free(scratch);
}

static void add_outputs(Joining *j, int n) {
  for (int e = 0; e < n; e++) {
    const Func *f = j->entries[e].f;
    for (size_t i = 0; i < f->outputs.n; i++) {
      const Output *o = &f->outputs.items[i];
      Output out = {.name = name_in(j, e, o->name), .value = joint_value(j->out, e, o->value)};
      ARENA_PUSH(j->m->arena, &j->out->outputs, out);
    }
  }
}

Func *joint_func(Module *m, int n, Func *const *entries, const double *calls) {
  const double hardly = 1e-6;
  Arena *a = m->arena;
  size_t ops = 0;
  double most = 0;
  Text name = {.arena = a};
  Joint *joint = ARENA_NEW(a, Joint);
  Joining j = {.m = m, .out = ARENA_NEW(a, Func)};
  j.entries = ARENA_ARRAY(a, JointEntry, n);
  j.at = ARENA_ARRAY(a, size_t *, n);
  for (int e = 0; e < n; e++) most = calls[e] > most ? calls[e] : most;
  for (int e = 0; e < n; e++) {
    j.at[e] = ARENA_ARRAY(a, size_t, entries[e]->ops.n + 1);
    j.entries[e] = (JointEntry){entries[e], calls[e], calls[e] > 0 ? calls[e] : hardly * most, j.at[e]};
    ops += entries[e]->ops.n;
    text_printf(&name, "%s%s", e ? "+" : "", entries[e]->name);
  }
  j.of = ARENA_ARRAY(a, int, ops + 1);
  j.number = ARENA_ARRAY(a, size_t, ops + 1);
  *joint = (Joint){n, j.entries, j.of, j.number};
  *j.out = (Func){.name = module_string(m, text_str(&name)), .level = 1, .joint = joint};
  ARENA_PUSH(a, &j.out->values, (Value){0});
  merge(&j, n);
  add_outputs(&j, n);
  return j.out;
}
