/* passes/plan/file.h - a plan file as it is written, before anybody asks whether it fits a model (docs/plan.md). */
#ifndef APC_PASSES_PLAN_FILE_H
#define APC_PASSES_PLAN_FILE_H

#include "base/diag.h"
#include "ir/ir.h"
#include "passes/facts/zero.h"
#include "passes/plan/degrees.h"
#include "passes/plan/recompute.h"

/* stage N "name" */
typedef struct PlanFileStage {
  const char *op; /* NULL: the file has no line for this stage */
  Loc loc;        /* of the name */
} PlanFileStage;

/* The word that a line about operations of this role begins with. */
extern const char *const plan_line_names[ZERO_ROLES];

/* op "glob" {strategy} [again];  store "glob" {strategy} gather once|use;  grad "glob" {strategy};  update "glob"
 * {strategy} */
typedef struct PlanFileOp {
  ZeroRole kind;
  const char *glob, *strategy; /* the strategy with its braces */
  bool again;
  bool gather_at_use;
  Loc glob_loc, strategy_loc;
} PlanFileOp;

/* entries NAME=WEIGHT ...: of a joint function (ir/joint.h) */
typedef struct PlanFileEntry {
  const char *name;
  double weight;
} PlanFileEntry;

/* force NAME=VALUE, ...: what the options of these names force (PlanOptions); 0: nothing. */
typedef struct PlanFileForce {
  int degree[DEGREE_COUNT], micro_batches;
  int zero; /* 1 + the stage */
  Recompute recompute;
  Loc loc; /* line 0: there is no such line */
} PlanFileForce;

/* A file with a line `complete` may leave out anything: `func`, `target` and `stages` are NULL then, and so are
 * PlanFileStage.op. */
typedef struct PlanFile {
  const char *file;
  const char *func, *target;
  uint64_t graph;
  struct {
    PlanFileEntry *items;
    size_t n, cap;
  } entries; /* none: the plan is of one function */
  int ranks;
  bool complete;         /* what it does not say is searched for */
  bool scheduled;        /* it has a schedule line */
  PlanFileForce force;   /* of a file that is completed */
  Mesh mesh;             /* with stages; its axes have no symbols yet */
  PlanFileStage *stages; /* by stage; 0 is unused */
  struct {
    PlanFileOp *items;
    size_t n, cap;
  } ops;
  struct {
    const char **items;
    size_t n, cap;
  } comments; /* lines of their own, behind '#' and spaces */
  Loc complete_loc, func_loc, graph_loc, entries_loc, ranks_loc, mesh_loc, schedule_loc, end;
} PlanFile;

/* Reads the text; everything is in the arena.  NULL after a diagnostic with line and column. */
PlanFile *plan_file_read(Arena *a, const char *file, const char *text, Diags *d);

/* The next pick of a strategy "{factor:axis.axis, ...}": `*at` starts behind the brace and moves on; false at the end
 * or when it is none. */
bool plan_file_pick(Arena *a, const char **at, const char **factor, const char **axes);

#endif
