/* codegen/program_tables.h - tables shared by all bodies of a Program: expressions, symbols, files, weights, states;
 * and the state of the emission.  program.c writes the bodies. */
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
  const Type *local;         /* for a weight: the type of the part */
  uint32_t next;             /* the same weight in another stage or layout: its place in the list + 1 */
  const PanelWeight *panels; /* its panels; NULL if it is stored as its tensor */
} EmitKnown;

typedef struct EmitInput {
  const char *name;
  const Type *type; /* of level 1 */
} EmitInput;

/* Facts of the entry whose bodies are being written (program_facts.c). */
typedef struct EmitFacts {
  Loops level1;    /* of the level-1 function */
  StateOps states; /* of level 2 */
  EmitInput *inputs;
  size_t ninputs;
  bool trains;                 /* it is a training step */
  const ProgramClass *classes; /* as in EmitBody, if they are equal in all bodies; else NULL */
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
  uint32_t *known_params, *known_states; /* by weight and state of the module: its first item in these lists, + 1 */
  uint32_t *blobs;                       /* module blob -> Program blob */
  uint32_t entry_base;                   /* first communication key of the entry */
  const struct ScheduleTable *turns;     /* of stages that interleave forward and backward; NULL before its first use */
  EmitFacts facts;
} Emitting;

/* Returns the Program's stage (the place, ir/schedule.h) of a stage of level 2. */
uint32_t emit_place(const Emitting *e, int stage);
void emit_symbols(Emitting *e); /* and the mesh */
/* Return the Program's index of a text or expression, and the list of expressions. */
uint32_t emit_text(Emitting *e, const char *s);
uint32_t emit_expr(Emitting *e, const Expr *x);
ProgramList emit_exprs(Emitting *e, int n, const Expr *const *list);
/* Returns the list of [lo, hi) per dimension of a shard; without `ends` only of the beginnings. */
ProgramList emit_intervals(Emitting *e, const Type *global, const Layout *l, bool ends);
/* emit_bytes returns the index of the expression for the bytes of a tensor; emit_tensor adds a tensor in a buffer. */
uint32_t emit_bytes(Emitting *e, const Type *t);
uint32_t emit_tensor(Emitting *e, uint32_t buffer, uint32_t offset, const Type *t);

/* For a stage with products or convolutions: reserves the scratch of their libraries once, as large as the largest
 * request; `bytes` is an expression. */
void emit_workspace(Emitting *e, int stage, uint32_t bytes);

/* Finds or adds the tensor of a weight in the layout and stage; all entries, and all stages of a place, share it.
 * False after a diagnostic. */
bool emit_param(Emitting *e, const char *name, int stage, const Layout *layout, const Type *local, uint32_t *tensor);
/* Returns the weight if it has been added; else NULL. */
const EmitKnown *emit_known_param(const Emitting *e, const char *name, int stage, const Layout *layout);
/* The same for the panels of a weight whose tensor exists as well. */
const EmitKnown *emit_known_beside(const Emitting *e, const char *name, int stage, const Layout *layout);
/* Finds or adds the panels of such a weight; `local`: the type of its tensor. */
uint32_t emit_panels_tensor(Emitting *e, const PanelWeight *panels, const Type *local);
/* Makes the record of a weight in the layout, without a buffer.  False after a diagnostic. */
bool emit_param_record(Emitting *e, const char *name, int stage, const Layout *layout, ProgramParam *r);
/* Adds the libraries of operators, and their functions.  False after a diagnostic. */
bool emit_operators(Emitting *e);
/* Finds or adds the tensor of a state, which all entries share.  False after a diagnostic. */
bool emit_state(Emitting *e, const Op *op, const Layout *layout, const Type *local, uint32_t *tensor);

#endif
