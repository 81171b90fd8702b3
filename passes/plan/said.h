/* passes/plan/said.h - what a plan file with a few lines says (docs/plan.md, Files that are completed): the search
 * keeps it, and chooses the rest.
 *
 * In: a file with a line `complete`, a level-1 function, a target.  Out: by operation the strategy that a line gives
 * it.  Its axes are those of the file's mesh, or, without a mesh line, degrees: all axes that count for one.
 */
#ifndef APC_PASSES_PLAN_SAID_H
#define APC_PASSES_PLAN_SAID_H

#include "ir/target.h"
#include "passes/plan/file.h"

/* The strategy of an operation, all of it, or with more axes. */
typedef struct SaidStrategy {
  Strategy s;
  bool more; /* axes that it does not name are left open */
  Loc loc;
} SaidStrategy;

typedef struct PlanSaid {
  const PlanFile *file; /* NULL: it is not of a file */
  bool has_mesh;
  Mesh mesh;        /* of the file, a time axis first, without axes of one rank; else an axis for each degree of axes */
  bool nameless;    /* names of its axes say nothing */
  bool shares;      /* some of its axes have shares of their own (ir.h) */
  const char *time; /* the name of the axis of micro-batches, */
  bool timed;       /* which is the first of `mesh`; false: they are open, or there is one */
  uint32_t degrees; /* that lines name where there is no mesh line, as a bit set */
  const SaidStrategy *const *strategies; /* by operation; NULL: no line */
  const size_t *cuts;                    /* by stage, where it begins; NULL: that is open */
  int n;                                 /* operations with a line; 0: names of axes say what they split */
} PlanSaid;

/* The degree that an axis of the file's mesh is called after ("tp", "dp2"); -1: none. */
int said_degree(const MeshAxis *axis);

enum { SAID_OPEN = -2, SAID_NONE = -1 };

/* What an operation with a line is cut into by an axis of `mesh`, that of a candidate: a factor, none or anything.
 * `degree`: the one the axis counts for; -1: free. */
int said_factor(const PlanSaid *x, size_t op, const Mesh *mesh, int axis, int degree);
/* Has the operation what its line says?  True without a line.  `degrees`: by axis. */
bool said_holds(const PlanSaid *x, size_t op, const Mesh *mesh, const int *degrees, const Strategy *s);

/* Is it said to be made again for gradients? */
static inline bool said_again(const PlanSaid *x, size_t op) {
  return x && x->strategies[op] && x->strategies[op]->s.again;
}
/* The only mesh there may be but for micro-batches. */
static inline bool said_mesh(const PlanSaid *x) { return x && x->has_mesh; }

/* Keeps the mesh of a plan, and nothing else of it: its axes may split anything, and get names for what they split. */
const PlanSaid *plan_said_mesh(Arena *a, const Func *f, const Mesh *mesh);

/* Reads the lines for the function.  NULL after diagnostics with line and column (parse.c). */
PlanSaid *plan_said(Module *m, const Func *f, const Target *t, const PlanFile *file, Diags *d);

#endif
