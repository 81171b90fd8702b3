/* codegen/panels.h - chooses the weights that are stored in panels: PROGRAM_PANEL columns of a matrix, row by row
 * (program/epilogue.h).  Panels have the weight's own type: f32, or 16 bits that the products widen.
 *
 * In: the legalised bodies of all entries.  Out: a list of weights, and GemmUnit.b_panel of the products that read
 * them.  A weight is listed if all its readers, in every entry, are products that read all of it as the same matrix, of
 * extents known now, at least a panel wide.  A weight of 16 bits is listed even if it has other readers: then its
 * tensor exists beside the panels, as widening it for every request takes longer.  Other weights are stored as their
 * tensors.  @prepare writes the panels (codegen/program_panels.c).
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
  const Type *type; /* of the panels; NULL if no product reads it */
  bool others;      /* its tensor is read as well: by another operation, or by a product as another matrix */
} PanelWeight;

typedef struct PanelWeights {
  PanelWeight *items;
  size_t n, cap;
} PanelWeights;

/* Lists the weights and updates their products; empty if the device does not use panels. */
PanelWeights panels_choose(const struct Legal *l);

/* True if the tensor of a listed weight exists beside its panels. */
bool panels_beside(const PanelWeight *p);

/* Returns the listed weight; NULL if it is stored as its tensor. */
const PanelWeight *panels_find(const PanelWeights *w, const char *name, int stage, const Layout *layout);

#endif
