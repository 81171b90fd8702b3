/* frontend/onnx/tree_ids.h - the nodes of decision trees by the numbers of their tree and in it.
 *
 * In: two lists of numbers.  Out: a list sorted by both, for binary search; the nodes of a tree are neighbours in it.
 */
#ifndef APC_FRONTEND_ONNX_TREE_IDS_H
#define APC_FRONTEND_ONNX_TREE_IDS_H

#include <stdint.h>

#include "base/arena.h"

typedef struct TreeId {
  int64_t tree, id;
  int at; /* in the lists */
} TreeId;

/* Sorts n numbers. */
const TreeId *tree_ids_sort(Arena *a, const int64_t *trees, const int64_t *ids, int n);
/* The place of a node in the lists; -1 if there is none. */
int tree_ids_find(const TreeId *sorted, int n, int64_t tree, int64_t id);
/* Two nodes with the same numbers: the first of the two; NULL if there are none. */
const TreeId *tree_ids_twice(const TreeId *sorted, int n);

#endif
