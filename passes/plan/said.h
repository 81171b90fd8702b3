/* passes/plan/said.h - a part of a plan that the search keeps while it chooses the rest: the contents of a plan file to
 * be completed (docs/guide/plan.md, Files that are completed), or the sharding annotations of a model
 * (driver/annotated.h).
 *
 * In: a file with a line `complete`, a level-1 function, a target.  Out: by operation the strategy that a line gives
 * it.  Its axes are those of the file's mesh, or, without a mesh line, degrees: each stands for all axes that count for
 * it.  Annotations give an operation layouts of its operands and results instead.
 */
#ifndef APC_PASSES_PLAN_SAID_H
#define APC_PASSES_PLAN_SAID_H

#include "ir/layout/rule.h"
#include "ir/target.h"
#include "passes/plan/file.h"

/* The strategy of an operation, complete, or with further axes allowed. */
typedef struct SaidStrategy {
  Strategy s;
  bool more; /* axes that it does not name are open */
  Loc loc;
} SaidStrategy;

/* The layout in which an operation takes an operand or makes a result, except for partial sums and micro-batches.  Axes
 * are those of PlanSaid.mesh; units do not count. */
typedef struct SaidLayout {
  int tensor;            /* an operand's number, or ~ of a result's */
  TensorFactors factors; /* of the dimensions of the layout, which the operand or result may have in parts */
  Layout layout;
} SaidLayout;

typedef struct SaidLayouts {
  SaidLayout *items;
  size_t n, cap;
} SaidLayouts;

typedef struct PlanSaid {
  const PlanFile *file; /* NULL if it does not come from a plan file */
  const char *source;   /* for messages: the plan file, or the configuration of the model; NULL if there is none */
  bool has_mesh;
  Mesh mesh;        /* of the file, a time axis first, without axes of one rank; else an axis per degree with axes */
  bool nameless;    /* the names of its axes have no meaning */
  bool shares;      /* some of its axes have shares of their own (ir.h) */
  const char *time; /* the name of the axis of micro-batches */
  bool timed;       /* that axis is the first of `mesh`; false: micro-batches are open, or there is one */
  uint32_t degrees; /* named by lines if there is no mesh line, as a bit set */
  const SaidStrategy *const *strategies; /* by operation; NULL if it has no line */
  const SaidLayouts *layouts;            /* by operation; NULL without annotations */
  const size_t *cuts;                    /* by stage: its first operation; NULL: open */
  int n; /* number of operations with a line or layouts; 0: names of axes say what they split */
} PlanSaid;

/* Returns the degree after which an axis of the file's mesh is named ("tp", "dp2"); -1 if none. */
int said_degree(const MeshAxis *axis);

enum { SAID_OPEN = -2, SAID_NONE = -1 };

/* Returns the factor by which an axis of a candidate's `mesh` splits an operation with a line; SAID_NONE or SAID_OPEN.
 * `degree`: the degree that the axis counts for; -1 if free. */
int said_factor(const PlanSaid *x, size_t op, const Mesh *mesh, int axis, int degree);
/* True if the operation has the strategy of its line, or has no line.  `degrees`: by axis. */
bool said_holds(const PlanSaid *x, size_t op, const Mesh *mesh, const int *degrees, const Strategy *s);

/* True if the operation has layouts from annotations. */
static inline bool said_has_layouts(const PlanSaid *x, size_t op) { return x && x->layouts && x->layouts[op].n; }
/* Returns 1 if its layouts need an axis of a candidate's `mesh` to split one of their dimensions and the factor does
 * so, 0 if the factor contradicts them, and SAID_OPEN otherwise. */
int said_layouts_pick(const PlanSaid *x, size_t op, const Mesh *mesh, int axis, int factor);
/* True if the strategy gives the operation its layouts. */
bool said_layouts_hold(const PlanSaid *x, size_t op, const Mesh *mesh, const Strategy *s);
/* Returns a number that operations with equal layouts share; 0 without layouts. */
uint64_t said_layouts_mark(const PlanSaid *x, size_t op);

/* True if its line says that it is recomputed for gradients. */
static inline bool said_again(const PlanSaid *x, size_t op) {
  return x && x->strategies[op] && x->strategies[op]->s.again;
}
/* True if the file fixes the mesh, except for micro-batches. */
static inline bool said_mesh(const PlanSaid *x) { return x && x->has_mesh; }

/* Keeps only the mesh of a plan: its axes may split anything, and are renamed after what they split. */
const PlanSaid *plan_said_mesh(Arena *a, const Func *f, const Mesh *mesh);

/* Returns why no stage may begin at the operation, as a text that continues its name; NULL if one may. */
const char *plan_cut_refused(Module *m, const Func *f, size_t op);

/* Reads the lines for the function.  NULL after diagnostics with line and column (parse.c). */
PlanSaid *plan_said(Module *m, const Func *f, const Target *t, const PlanFile *file, Diags *d);

#endif
