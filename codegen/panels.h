/* codegen/panels.h - which weights lie in panels: PROGRAM_PANEL columns of a matrix, row by row (program/epilogue.h).
 *
 * In: the legalised bodies of all entries.  Out: a list of weights, and products that say so (GemmUnit.b_panel).  A
 * weight is on it when all that reads it, in every entry, are products that see it whole as the same matrix of f32, of
 * numbers known now, at least a panel wide.  Others lie as their tensors do.  @prepare writes the panels
 * (codegen/program_panels.c).
 */
#ifndef APC_CODEGEN_PANELS_H
#define APC_CODEGEN_PANELS_H

#include "ir/ir.h"

struct Legal;

typedef struct PanelWeight {
  const char *name;
  int stage;
  const Layout *layout;
  int64_t k, n;     /* rows and columns of the matrix */
  bool transposed;  /* the tensor holds it column by column */
  const Type *type; /* of the panels; NULL: no product reads it */
  bool others;      /* something else reads it as well: it stays as it is */
} PanelWeight;

typedef struct PanelWeights {
  PanelWeight *items;
  size_t n, cap;
} PanelWeights;

PanelWeights panels_choose(const struct Legal *l);

/* NULL: it lies as its tensor does. */
const PanelWeight *panels_find(const PanelWeights *w, const char *name, int stage, const Layout *layout);

#endif
