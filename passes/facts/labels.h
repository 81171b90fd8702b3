/* passes/facts/labels.h - what each factor of each operation stands for: batch, sequence, expert or something else.
 *
 * Forced degrees (--dp --cp --ep --tp) say what a mesh axis may split; labels say what a factor is.
 */
#ifndef APC_PASSES_FACTS_LABELS_H
#define APC_PASSES_FACTS_LABELS_H

#include "ir/layout/rule.h"

typedef enum Label { LABEL_NONE, LABEL_OTHER, LABEL_EXPERT, LABEL_SEQUENCE, LABEL_BATCH, LABEL_COUNT } Label;
const char *label_name(Label l);

typedef struct OpLabels {
  uint8_t factors[MAX_FACTORS]; /* Label; linear pseudo-factors: LABEL_NONE; all others are labelled */
} OpLabels;

/* Whether some factor of the operation has the label. */
bool labels_include(const OpLabels *labels, const Rule *r, Label l);

/* The rules of all operations of a level-1 function, by operation: equal ones are one, whose layouts are found once.
 * Rules do not depend on the mesh. */
const Rule **rules_of(Module *m, const Func *f);

/* Labels by operation, in the module's arena. */
const OpLabels *labels_of(Module *m, const Func *f, const Rule *const *rules);

#endif
