/* frontend/dsl/eval.h - running a model at compile time; private to frontend/dsl*.c.
 *
 * The evaluator walks the tree of one entry.  It computes numbers and shapes, and passes tensor operations to the
 * Builder.  Three names follow the program: the scope of weights ("layers.3.attn"), the scope of operations (the
 * same, plus the variable that a helper's result is bound to) and the hint (the variable being assigned).
 */
#ifndef APC_FRONTEND_DSL_EVAL_H
#define APC_FRONTEND_DSL_EVAL_H

#include "base/nearest.h"
#include "frontend/dsl/ast.h"
#include "frontend/dsl/value.h"

typedef struct Variable {
  const char *name;
  DslValue value;
  const char *state; /* the state, or in training the buffer, that it was read from; NULL if none */
} Variable;

typedef struct Variables {
  Variable *items;
  size_t n, cap;
} Variables;

/* One source file: the model, or a library. */
typedef struct DslUnit {
  const char *name, *file;
  bool library;
  DslNode *items;
  Variables globals;
  struct {
    struct DslUnit **items;
    size_t n, cap;
  } imports;
  struct DslUnit *next;
} DslUnit;

/* The body of a `loop` being built: it may assign a variable from before the loop only if the loop carries it. */
typedef struct LoopScope {
  const struct LoopScope *outer;
  size_t nvariables;
  const DslNode *carried;
} LoopScope;

/* One call in progress. */
typedef struct DslFrame {
  DslUnit *unit;
  struct DslFrame *caller;
  const DslNode *call; /* in the caller's unit; NULL for an entry */
  const char *function;
  Variables variables;
  const char *weights; /* scope of weights and states, "" at the top */
  const char *ops;     /* scope of operations */
  const char *hint;    /* variable being assigned; NULL if none */
  bool named;          /* called with `as`: the returned operation gets the scope's name */
  bool is_entry, returned;
  DslValue result;
  const LoopScope *loop; /* the innermost loop of this function; NULL if none */
} DslFrame;

/* The name that an operation will get, and its place in the user's file. */
typedef struct OpLabel {
  const char *name, *further[MAX_RESULTS - 1]; /* of the first result, and of the others (NULL if none) */
  Loc loc;
  bool fixed;
} OpLabel;

/* Where the current entry declares a weight or state; parallel to Module.params or Module.states. */
typedef struct Declared {
  const DslNode *node; /* NULL if not in this entry */
  const char *file;
  bool written;
} Declared;

typedef struct DeclaredList {
  Declared *items;
  size_t n, cap;
} DeclaredList;

typedef struct DslEval {
  Arena *arena; /* lives as long as the load */
  Module *m;
  Diags *diags;
  Builder b;
  DslUnit *units;
  DslFrame *frame;
  struct {
    OpLabel *items;
    size_t n, cap;
  } labels; /* one per operation of the current function */
  DeclaredList weights, states;
  int depth;
  int loops; /* bodies of `loop` being built, including those of callers */
  int64_t steps, max_steps;
  bool training, asked; /* the value of `training` in this entry; true if an entry has read it */
  int64_t drawn;        /* random tensors of this entry without a seed */
  struct {
    const Func *f; /* NULL: none yet */
    Val at, count, checked;
    const Expr *extent;
  } within;     /* the last check of a position and a count: the updates of all layers have the same */
  bool stopped; /* a limit was reached */
} DslEval;

/* ---- errors (eval.c) */

/* The location of a node in its file. */
Loc dsl_loc(const DslEval *ev, const DslNode *n);

/* Reports an error at a node, once, with notes on the calls that led there.  Returns the error value. */
DslValue dsl_fail(DslEval *ev, DslNode *n, DiagCode code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Describe a value, a type and a size for messages: "an integer", "a tensor f32[batch,4]". */
const char *dsl_value_describe(DslEval *ev, DslValue v);
const char *dsl_type_text(DslEval *ev, const Type *t);
const char *dsl_expr_text(DslEval *ev, const Expr *e);

void dsl_nearest_help(DslEval *ev, const Nearest *n); /* reports "did you mean ...?" if there is a near name */

/* ---- building operations (eval.c): every group of build_* calls is enclosed by dsl_begin and dsl_built. */
void dsl_begin(DslEval *ev, const DslNode *n);
DslValue dsl_built(DslEval *ev, DslNode *n, Val v); /* 0 becomes the error value */

/* Names the operation that computes `v`, if its index is at least `mark`.  A `fixed` name is not changed later. */
void dsl_label(DslEval *ev, DslValue v, size_t mark, const char *name, bool fixed);
const char *dsl_scope_join(DslEval *ev, const char *scope, const char *name);

/* Gives every operation of the finished function its label, and makes names unique. */
void dsl_apply_labels(DslEval *ev);

/* ---- evaluation */

/* Evaluates an expression; V_ERROR after reporting, or if an error of the node was reported before. */
DslValue dsl_expression(DslEval *ev, DslNode *n);
void dsl_statements(DslEval *ev, DslNode *list);        /* statement.c */
void dsl_loop(DslEval *ev, DslNode *n);                 /* loop.c */
bool dsl_condition(DslEval *ev, DslNode *n, bool *out); /* a compile-time condition */
/* Set a variable, or find it by name; NULL if there is none. */
void dsl_variable_set(DslEval *ev, Variables *vs, const char *name, DslValue value, const char *state);
Variable *dsl_variable_find(const Variables *vs, const char *name);
/* Binds the arguments and runs the function. */
DslValue dsl_call(DslEval *ev, DslNode *call, DslUnit *unit, const DslNode *function);
const DslNode *dsl_unit_function(const DslUnit *u, const char *name);

/* Evaluates a name given by `as` or `scope`; NULL after reporting. */
const char *dsl_scope_name(DslEval *ev, DslNode *n);
/* The line of the user's file that an operation comes from: for libraries, the line that calls them. */
Loc dsl_user_loc(const DslEval *ev, const DslNode *n);
/* Counts a step of evaluation; false after reporting that a limit was reached. */
bool dsl_step(DslEval *ev, DslNode *n);
/* Counts steps for building a text of n bytes; the next dsl_step checks the limit. */
static inline void dsl_spend_text(DslEval *ev, size_t n) { ev->steps += (int64_t)(n / 16); }

/* ---- operators (operators.c) */

/* Evaluate an operator on evaluated operands: numbers are folded, tensors become operations.  V_ERROR after
 * reporting. */
DslValue dsl_unary(DslEval *ev, DslNode *n, NodeOp op, DslValue a);
DslValue dsl_binary(DslEval *ev, DslNode *n, NodeOp op, DslValue a, DslValue b);
/* Returns the tensor for a value: tensors are unchanged, numbers become constants of the type `like`. */
Val dsl_operand(DslEval *ev, DslNode *n, DslValue v, const Type *like);
Val dsl_whole_number(DslEval *ev, DslNode *n, const Expr *e,
                     const Type *type); /* a constant of an integer type; 0 after reporting that it does not fit */
/* Builds a binary operation of the IR over tensors and numbers, at least one of them a tensor. */
DslValue dsl_tensor_binary(DslEval *ev, DslNode *n, OpKind k, DslValue a, DslValue b);
bool dsl_value_number(DslValue v, double *out); /* INT constant or FLOAT */
bool dsl_value_const(DslValue v, int64_t *out); /* INT constant */

/* ---- indexing (index.c) */

/* Evaluate x[...] and x.shape, x.rank or x.dtype.  V_ERROR after reporting. */
DslValue dsl_index(DslEval *ev, DslNode *n);
DslValue dsl_field(DslEval *ev, DslNode *n);

/* ---- built-in functions (builtin.c) */

/* True if there is a function of that name; tries all names as corrections of a typo; evaluates a call. */
bool dsl_builtin_exists(const char *name);
void dsl_builtin_nearest(Nearest *n);
DslValue dsl_builtin(DslEval *ev, DslNode *call);
DslValue dsl_builtin_constant(DslEval *ev, const char *name); /* f32, zeros, true ...; V_NONE if there is none */

/* ---- libraries (generated): name and text of every library; a row without a name ends them */
typedef struct DslLibrary {
  const char *name, *text;
} DslLibrary;
extern const DslLibrary dsl_libraries[];

#endif
