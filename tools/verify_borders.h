/* tools/verify_borders.h - are kernels and collectives right behind their first block?
 *
 * Kernels work in blocks: sums of 1,024 elements, tiles of products and attention, messages in pieces.  A model that is
 * verified at small sizes stays inside the first of each, where a wrong place of the next one is not seen.  So a small
 * program of its own is run as well: operations of the kinds that the model has, each a few blocks long and no multiple
 * of any, cut over at most three ranks, against the reference interpreter.
 */
#ifndef APC_TOOLS_VERIFY_BORDERS_H
#define APC_TOOLS_VERIFY_BORDERS_H

#include "tools/execute.h"

typedef struct BorderCheck {
  int values;        /* so many results were compared */
  const char *worst; /* the name of the one that is furthest from the reference, and how far; NULL: none was compared */
  Difference difference;
  bool ok;
} BorderCheck;

/* For what the build's entries do; its files go into the folder.  An exit code. */
int borders_check(Tool *t, const Build *like, const char *folder, BorderCheck *out);

#endif
