/* passes/plan/said.h - the contents of a plan file to be completed (docs/guide/plan.md, Files that are completed): the
 * search keeps them, and chooses the rest.
 *
 * In: a file with a line `complete`, a level-1 function, a target.  Out: by operation the strategy that a line gives
 * it.  Its axes are those of the file's mesh, or, without a mesh line, degrees: each stands for all axes that count for
 * it.
 */
#ifndef APC_PASSES_PLAN_SAID_H
#define APC_PASSES_PLAN_SAID_H

#include "ir/target.h"
#include "passes/plan/file.h"

/* The strategy of an operation, complete, or with further axes allowed. */
typedef struct SaidStrategy {
  Strategy s;
  bool more; /* axes that it does not name are open */
  Loc loc;
} SaidStrategy;

typedef struct PlanSaid {
  const PlanFile *file; /* NULL if it does not come from a file */
  bool has_mesh;
  Mesh mesh;        /* of the file, a time axis first, without axes of one rank; else an axis per degree with axes */
  bool nameless;    /* the names of its axes have no meaning */
  bool shares;      /* some of its axes have shares of their own (ir.h) */
  const char *time; /* the name of the axis of micro-batches */
  bool timed;       /* that axis is the first of `mesh`; false: micro-batches are open, or there is one */
  uint32_t degrees; /* named by lines if there is no mesh line, as a bit set */
  const SaidStrategy *const *strategies; /* by operation; NULL if it has no line */
  const size_t *cuts;                    /* by stage: its first operation; NULL: open */
  int n;                                 /* number of operations with a line; 0: names of axes say what they split */
} PlanSaid;

/* Returns the degree after which an axis of the file's mesh is named ("tp", "dp2"); -1 if none. */
int said_degree(const MeshAxis *axis);

enum { SAID_OPEN = -2, SAID_NONE = -1 };

/* Returns the factor by which an axis of a candidate's `mesh` splits an operation with a line; SAID_NONE or SAID_OPEN.
 * `degree`: the degree that the axis counts for; -1 if free. */
int said_factor(const PlanSaid *x, size_t op, const Mesh *mesh, int axis, int degree);
/* True if the operation has the strategy of its line, or has no line.  `degrees`: by axis. */
bool said_holds(const PlanSaid *x, size_t op, const Mesh *mesh, const int *degrees, const Strategy *s);

/* True if its line says that it is recomputed for gradients. */
static inline bool said_again(const PlanSaid *x, size_t op) {
  return x && x->strategies[op] && x->strategies[op]->s.again;
}
/* True if the file fixes the mesh, except for micro-batches. */
static inline bool said_mesh(const PlanSaid *x) { return x && x->has_mesh; }

/* Keeps only the mesh of a plan: its axes may split anything, and are renamed after what they split. */
const PlanSaid *plan_said_mesh(Arena *a, const Func *f, const Mesh *mesh);

/* Reads the lines for the function.  NULL after diagnostics with line and column (parse.c). */
PlanSaid *plan_said(Module *m, const Func *f, const Target *t, const PlanFile *file, Diags *d);

#endif
