/* codegen/program_tables.h - what all bodies of a Program share: expressions, symbols, files, weights, states; and the
 * emission under way.  program.c writes the bodies. */
#ifndef APC_CODEGEN_PROGRAM_TABLES_H
#define APC_CODEGEN_PROGRAM_TABLES_H

#include "codegen/program.h"
#include "codegen/rows/units.h"
#include "ir/loops.h"
#include "ir/states.h"

typedef struct EmitKnown {
  const char *name;
  int stage;
  const Layout *layout;
  uint32_t record, buffer, tensor;
  const Type *local;         /* a weight: the type of the part */
  uint32_t next;             /* the same weight elsewhere: its place in the list + 1 */
  const PanelWeight *panels; /* it lies in panels; NULL: as its tensor does */
} EmitKnown;

typedef struct EmitInput {
  const char *name;
  const Type *type; /* of level 1 */
} EmitInput;

/* Of the entry whose bodies are written (program_facts.c). */
typedef struct EmitFacts {
  Loops level1;    /* of the level-1 function */
  StateOps states; /* of level 2 */
  EmitInput *inputs;
  size_t ninputs;
  bool trains;                 /* it is a training step */
  const ProgramClass *classes; /* as EmitBody has them, where they are the same in all bodies; else NULL */
  size_t first_gradient;
} EmitFacts;

typedef struct Emitting {
  Module *m;
  Diags *diags;
  const Legal *legal;
  ProgramResult *out;
  ProgramBuilder *b;
  uint32_t *symbols; /* module symbol -> Program symbol */
  struct {
    const Expr **keys;
    uint32_t *values;
    size_t n, cap;
  } exprs;
  struct {
    EmitKnown *items;
    size_t n, cap;
  } params, states;
  uint32_t *known_params, *known_states; /* by weight and state of the module: the first in these lists, + 1 */
  uint32_t *blobs;                       /* module blob -> Program blob */
  uint32_t entry_base;                   /* first communication key of the entry */
  const struct ScheduleTable *turns;     /* of stages that take turns; NULL before they are asked for */
  EmitFacts facts;
} Emitting;

/* The Program's stage: the place of one of level 2 (ir/schedule.h). */
uint32_t emit_place(const Emitting *e, int stage);
void emit_symbols(Emitting *e); /* and the mesh */
uint32_t emit_text(Emitting *e, const char *s);
uint32_t emit_expr(Emitting *e, const Expr *x);
ProgramList emit_exprs(Emitting *e, int n, const Expr *const *list);
/* [lo, hi) per dimension of a shard, as a list; or only the beginnings. */
ProgramList emit_intervals(Emitting *e, const Type *global, const Layout *l, bool ends);
uint32_t emit_bytes(Emitting *e, const Type *t);
uint32_t emit_tensor(Emitting *e, uint32_t buffer, uint32_t offset, const Type *t);

/* The stage has products, or convolutions: their libraries get what they work in, once, and the most that one wants. */
void emit_workspace(Emitting *e, int stage, uint32_t bytes); /* an expression */

/* The tensor of a weight in the layout and stage; the same one for every entry that uses it so, and for all stages of a
 * place.  False after a
 * diagnostic. */
bool emit_param(Emitting *e, const char *name, int stage, const Layout *layout, const Type *local, uint32_t *tensor);
const EmitKnown *emit_known_param(const Emitting *e, const char *name, int stage, const Layout *layout);
/* The record of a weight in the layout, without a place for it. */
bool emit_param_record(Emitting *e, const char *name, int stage, const Layout *layout, ProgramParam *r);
/* The tensor of a state: one for all entries.  False after a diagnostic. */
bool emit_state(Emitting *e, const Op *op, const Layout *layout, const Type *local, uint32_t *tensor);

#endif
