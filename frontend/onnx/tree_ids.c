/* frontend/onnx/tree_ids.c - see tree_ids.h. */
#include "frontend/onnx/tree_ids.h"

#include <stdlib.h>

static int by_numbers(const void *a, const void *b) {
  const TreeId *x = a, *y = b;
  if (x->tree != y->tree) return x->tree < y->tree ? -1 : 1;
  return x->id == y->id ? 0 : x->id < y->id ? -1 : 1;
}

/* Nodes with the same numbers keep their order. */
static int by_numbers_and_place(const void *a, const void *b) {
  const TreeId *x = a, *y = b;
  int order = by_numbers(a, b);
  return order ? order : (x->at > y->at) - (x->at < y->at);
}

const TreeId *tree_ids_sort(Arena *a, const int64_t *trees, const int64_t *ids, int n) {
  TreeId *sorted = ARENA_ARRAY(a, TreeId, n + 1);
  for (int i = 0; i < n; i++) sorted[i] = (TreeId){trees[i], ids[i], i};
  qsort(sorted, (size_t)n, sizeof *sorted, by_numbers_and_place);
  return sorted;
}

int tree_ids_find(const TreeId *sorted, int n, int64_t tree, int64_t id) {
  const TreeId key = {tree, id, 0}, *found = bsearch(&key, sorted, (size_t)n, sizeof key, by_numbers);
  return found ? found->at : -1;
}

const TreeId *tree_ids_twice(const TreeId *sorted, int n) {
  for (int i = 1; i < n; i++)
    if (by_numbers(&sorted[i - 1], &sorted[i]) == 0) return &sorted[i - 1];
  return NULL;
}
