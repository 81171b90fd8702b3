/* ir/named.c - see named.h. */
#include "ir/named.h"

#include <string.h>

#include "base/hash.h"

static size_t slot_of(const NamedOps *n, const char *name) {
  size_t i = (size_t)hash64(name, strlen(name), 0) & (n->cap - 1);
  while (n->slots[i] && strcmp(n->f->ops.items[n->slots[i] - 1].name, name) != 0) i = (i + 1) & (n->cap - 1);
  return i;
}

NamedOps named_ops(Arena *a, const Func *f) {
  NamedOps n = {.f = f, .cap = 16};
  while (n.cap < 2 * (f->ops.n + 1)) n.cap *= 2;
  n.slots = ARENA_ARRAY(a, size_t, n.cap);
  for (size_t i = 0; i < f->ops.n; i++) n.slots[slot_of(&n, f->ops.items[i].name)] = i + 1;
  return n;
}

size_t named_op(const NamedOps *n, const char *name) {
  size_t slot = n->slots[slot_of(n, name)];
  return slot ? slot - 1 : SIZE_MAX;
}
