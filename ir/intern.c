/* ir/intern.c - see module.h. */
#include "base/arena.h"
#include "ir/module.h"

const void *intern_find(const InternSet *s, uint64_t hash, const void *key,
                        int (*equal)(const void *key, const void *item)) {
  if (!s->cap) return NULL;
  for (size_t i = hash & (s->cap - 1); s->slots[i]; i = (i + 1) & (s->cap - 1))
    if (s->hashes[i] == hash && equal(key, s->slots[i])) return s->slots[i];
  return NULL;
}

static void put(InternSet *s, uint64_t hash, const void *item) {
  size_t i = hash & (s->cap - 1);
  while (s->slots[i]) i = (i + 1) & (s->cap - 1);
  s->slots[i] = item;
  s->hashes[i] = hash;
}

void intern_add(Arena *a, InternSet *s, uint64_t hash, const void *item) {
  if (2 * (s->n + 1) > s->cap) {
    InternSet old = *s;
    s->cap = old.cap ? old.cap * 2 : 64;
    s->slots = ARENA_ARRAY(a, const void *, s->cap);
    s->hashes = ARENA_ARRAY(a, uint64_t, s->cap);
    for (size_t i = 0; i < old.cap; i++)
      if (old.slots[i]) put(s, old.hashes[i], old.slots[i]);
  }
  put(s, hash, item);
  s->n++;
}
