/* tools/verify_borders.h - are kernels and collectives right beyond their first block?
 *
 * Kernels work in blocks: sums of 1,024 elements, tiles of products and attention, messages in pieces.  A model that is
 * verified at small sizes stays inside the first block of each, which hides a wrong position of the next one.
 * Therefore a small program runs as well: operations of the kinds that the model has, each a few blocks long and no
 * multiple of any, sharded over at most three ranks, against the reference interpreter.
 */
#ifndef APC_TOOLS_VERIFY_BORDERS_H
#define APC_TOOLS_VERIFY_BORDERS_H

#include "tools/execute.h"

typedef struct BorderCheck {
  int values;        /* number of results compared */
  const char *worst; /* the result with the largest difference from the reference, and that difference; NULL if none was
                        compared */
  Difference difference;
  bool ok;
} BorderCheck;

/* Checks the kinds of operations in the build's entries; writes its files into the folder.  Returns an exit code. */
int borders_check(Tool *t, const Build *like, const char *folder, BorderCheck *out);

#endif
