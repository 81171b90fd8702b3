/* passes/facts/same_weight.c - see same_weight.h. */
#include "passes/facts/same_weight.h"

#include <string.h>

#include "base/hash.h"

static bool is_same(const Op *a, const Op *b) {
  return a->kind == b->kind && strcmp(op_str(a, AT_name), op_str(b, AT_name)) == 0;
}

SameWeight weight_readers(Arena *a, const Func *f) {
  size_t *first = ARENA_ARRAY(a, size_t, f->ops.n + 1), slots = 16;
  int *reads = ARENA_ARRAY(a, int, f->ops.n + 1);
  while (slots < 2 * f->ops.n) slots *= 2;
  size_t *table = ARENA_ARRAY(a, size_t, slots); /* operation, plus 1, by name */
  for (size_t i = 0; i < f->ops.n; i++) {
    first[i] = i;
    const Op *op = &f->ops.items[i];
    if (op_is_resident(op->kind)) {
      const char *name = op_str(op, AT_name);
      size_t at = (size_t)hash64(name, strlen(name), (uint64_t)op->kind) & (slots - 1);
      while (table[at] && !is_same(&f->ops.items[table[at] - 1], op)) at = (at + 1) & (slots - 1);
      if (!table[at]) table[at] = i + 1;
      first[i] = table[at] - 1;
    }
    reads[first[i]]++;
  }
  for (size_t i = 0; i < f->ops.n; i++) reads[i] = reads[first[i]];
  return (SameWeight){first, reads};
}
