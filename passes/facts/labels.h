/* passes/facts/labels.h - the meaning of each factor of each operation: batch, sequence, expert or other.
 *
 * Forced degrees (--dp --cp --ep --tp) say what a mesh axis may split; labels say what a factor is.
 */
#ifndef APC_PASSES_FACTS_LABELS_H
#define APC_PASSES_FACTS_LABELS_H

#include "ir/layout/rule.h"

typedef enum Label { LABEL_NONE, LABEL_OTHER, LABEL_EXPERT, LABEL_SEQUENCE, LABEL_BATCH, LABEL_COUNT } Label;
/* Returns "none", "other", "expert", "sequence" or "batch". */
const char *label_name(Label l);

typedef struct OpLabels {
  uint8_t factors[MAX_FACTORS]; /* a Label each; LABEL_NONE only for linear pseudo-factors */
} OpLabels;

/* True if some factor of the operation has the label. */
bool labels_include(const OpLabels *labels, const Rule *r, Label l);

/* Returns the rules of a level-1 function by operation.  Equal rules are shared, so that their layouts are found once.
 * Rules do not depend on the mesh. */
const Rule **rules_of(Module *m, const Func *f);

/* Returns the labels by operation, in the module's arena. */
const OpLabels *labels_of(Module *m, const Func *f, const Rule *const *rules);

#endif
