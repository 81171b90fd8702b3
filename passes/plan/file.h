/* passes/plan/file.h - the contents of a plan file, before they are checked against a model (docs/guide/plan.md). */
#ifndef APC_PASSES_PLAN_FILE_H
#define APC_PASSES_PLAN_FILE_H

#include "base/diag.h"
#include "ir/ir.h"
#include "ir/states.h"
#include "passes/facts/zero.h"
#include "passes/plan/degrees.h"
#include "passes/plan/recompute.h"

/* stage N "name" */
typedef struct PlanFileStage {
  const char *op; /* NULL if the file has no line for this stage */
  Loc loc;        /* of the name */
} PlanFileStage;

/* The first word of lines about operations of each role. */
extern const char *const plan_line_names[ZERO_ROLES];

/* op "glob" {strategy} [again];  store "glob" {strategy} gather once|use;  grad "glob" {strategy};  update "glob"
 * {strategy} */
typedef struct PlanFileOp {
  ZeroRole kind;
  const char *glob, *strategy; /* the strategy, with its braces */
  bool again;
  bool gather_at_use;
  Loc glob_loc, strategy_loc;
} PlanFileOp;

/* entries NAME=WEIGHT ...: of a joint function (ir/joint.h) */
typedef struct PlanFileEntry {
  const char *name;
  double weight;
} PlanFileEntry;

/* force NAME=VALUE, ...: values forced as by the options of these names (PlanOptions); 0 if not forced. */
typedef struct PlanFileForce {
  int degree[DEGREE_COUNT], micro_batches;
  int zero; /* 1 + the stage */
  Recompute recompute;
  Loc loc; /* line 0 if the file has no such line */
} PlanFileForce;

/* A file with a line `complete` may omit everything else: `func`, `target` and `stages` are then NULL, and so are
 * PlanFileStage.op. */
typedef struct PlanFile {
  const char *file;
  const char *func, *target;
  uint64_t graph;
  struct {
    PlanFileEntry *items;
    size_t n, cap;
  } entries; /* empty if the plan is for one function */
  int ranks;
  bool complete;         /* the search chooses everything that the file omits */
  bool scheduled;        /* it has a schedule line */
  Offload offload;       /* of the offload line; none without one */
  PlanFileForce force;   /* of a file to be completed */
  Mesh mesh;             /* with stages; its axes have no symbols yet */
  PlanFileStage *stages; /* by stage; 0 is unused */
  struct {
    PlanFileOp *items;
    size_t n, cap;
  } ops;
  struct {
    const char **items;
    size_t n, cap;
  } comments; /* whole-line comments, without '#' and leading spaces */
  Loc complete_loc, func_loc, graph_loc, entries_loc, ranks_loc, mesh_loc, schedule_loc, offload_loc, end;
} PlanFile;

/* Reads the text; the result is in the arena.  NULL after a diagnostic with line and column. */
PlanFile *plan_file_read(Arena *a, const char *file, const char *text, Diags *d);

/* Reads the next pick of a strategy "{factor:axis.axis, ...}"; `*at` starts after the brace and advances.  False at the
 * end or at a malformed pick. */
bool plan_file_pick(Arena *a, const char **at, const char **factor, const char **axes);

#endif
