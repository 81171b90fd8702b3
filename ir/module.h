/* ir/module.h - interning tables of a module; private to ir/. */
#ifndef APC_IR_MODULE_H
#define APC_IR_MODULE_H

#include <stddef.h>
#include <stdint.h>

/* A set of pointers keyed by content hash; linear probing, grows in the arena. */
typedef struct InternSet {
  const void **slots;
  uint64_t *hashes;
  size_t n, cap;
} InternSet;

typedef struct Interned {
  InternSet strings, exprs, types, layouts, rules;
  InternSet opaque_rules;      /* OpaqueRule, by text */
  InternSet params, states;    /* NameSlot: weights and states by name */
  struct NameSet *spare_names; /* of a builder that ended, for the next one (build.c) */
} Interned;

struct Arena;

/* Returns the item equal to `key` (by `equal`); NULL if there is none. */
const void *intern_find(const InternSet *s, uint64_t hash, const void *key,
                        int (*equal)(const void *key, const void *item));
void intern_add(struct Arena *a, InternSet *s, uint64_t hash, const void *item); /* the item must not be there yet */

/* Returns the hash `h` of earlier values, continued with value v. */
static inline uint64_t hash_mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdu;
  return h ^ (h >> 32);
}

#endif
