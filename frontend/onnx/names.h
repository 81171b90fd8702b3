/* frontend/onnx/names.h - a map from names to pointers, in an arena. */
#ifndef APC_FRONTEND_ONNX_NAMES_H
#define APC_FRONTEND_ONNX_NAMES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"

typedef struct NameEntry {
  const char *name; /* NULL if free */
  void *value;
} NameEntry;

typedef struct NameMap {
  NameEntry *slots;
  size_t n, cap;
} NameMap;

/* Returns the slot of a name, or the free one where it belongs; the map must not be empty. */
static inline NameEntry *name_slot(const NameMap *map, const char *name) {
  uint64_t h = 14695981039346656037u; /* FNV-1a */
  for (const char *p = name; *p; p++) h = (h ^ (uint8_t)*p) * 1099511628211u;
  size_t i = (size_t)(h ^ h >> 32) & (map->cap - 1);
  while (map->slots[i].name && strcmp(map->slots[i].name, name) != 0) i = (i + 1) & (map->cap - 1);
  return &map->slots[i];
}

/* Returns the value; NULL if there is none. */
static inline void *name_find(const NameMap *map, const char *name) {
  return map->cap ? name_slot(map, name)->value : NULL;
}

/* Adds or replaces an entry; `name` is kept by reference. */
static inline void name_put(Arena *a, NameMap *map, const char *name, void *value) {
  if (2 * (map->n + 1) > map->cap) {
    NameMap old = *map;
    map->cap = old.cap ? 2 * old.cap : 64;
    map->slots = ARENA_ARRAY(a, NameEntry, map->cap);
    for (size_t i = 0; i < old.cap; i++)
      if (old.slots[i].name) *name_slot(map, old.slots[i].name) = old.slots[i];
  }
  NameEntry *slot = name_slot(map, name);
  if (!slot->name) map->n++;
  *slot = (NameEntry){name, value};
}

#endif
