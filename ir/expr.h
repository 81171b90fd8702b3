/* ir/expr.h - sizes and offsets as symbolic integer expressions.
 *
 * An Expr is interned in its Module in one canonical form, so equal polynomials are the same pointer: sums of products
 * with integer coefficients over atoms.  An atom is a symbol, a floor division that does not simplify, or a minimum or
 * maximum.  Division rounds towards minus infinity and its divisor must be positive.  Text: `2*batch*seq + 1`, `(3*@tp
 * + 3) div 4`, `min(seq, 8)`.
 *
 * Symbols are the model's dimensions (`batch`) and the coordinates of a rank on a mesh axis (`@tp`).  Uneven shards and
 * late-bound dimensions are the same expressions, evaluated once both are known.
 *
 * Sizes come from users' files.  An expression that cannot be built (a number beyond 64 bits, a division by a number
 * that is not positive, too deep nesting or too many parts) is 0, and Module.expr_fault says why; the verifier reports
 * it (rule V3).
 */
#ifndef APC_IR_EXPR_H
#define APC_IR_EXPR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/text.h"

struct Module;

/* Limits of one expression as a tree, so that recursive walks are safe and short. */
enum { MAX_EXPR_DEPTH = LIMIT_EXPR_DEPTH, MAX_EXPR_SIZE = LIMIT_EXPR_SIZE };

typedef enum ExprKind { EX_CONST, EX_SYM, EX_MUL, EX_ADD, EX_DIV, EX_MIN, EX_MAX } ExprKind;

typedef struct Expr {
  ExprKind kind;
  int32_t n;     /* number of args */
  int64_t value; /* CONST: the number; SYM: index into Module.symbols; MUL: coefficient; ADD: constant term */
  uint64_t hash;
  uint32_t size;                  /* nodes of the tree; a shared node counts at each occurrence */
  uint32_t depth;                 /* 1 for constants and symbols */
  const struct Expr *const *args; /* canonical order; DIV: numerator, divisor */
} Expr;

/* Arithmetic; the result is 0 with a fault in the module if it cannot be built. */
const Expr *ex_const(struct Module *m, int64_t v);
const Expr *ex_sym(struct Module *m, int symbol);
const Expr *ex_add(struct Module *m, const Expr *a, const Expr *b);
const Expr *ex_sub(struct Module *m, const Expr *a, const Expr *b);
const Expr *ex_mul(struct Module *m, const Expr *a, const Expr *b);
const Expr *ex_div(struct Module *m, const Expr *a, const Expr *b); /* floor(a / b); a constant b must be positive */
/* The same value, but nested divisions by constants become one, so that equal sizes are equal expressions.  For front
 * ends.  Bounds of ranks' parts must not use it: their divisions have to keep a common form, from which passes see that
 * parts follow each other. */
const Expr *ex_div_joined(struct Module *m, const Expr *a, const Expr *b);
const Expr *ex_ceil_div(struct Module *m, const Expr *a, const Expr *b); /* floor((a + b - 1) / b) */
const Expr *ex_ceil_div_joined(struct Module *m, const Expr *a, const Expr *b);
const Expr *ex_mod(struct Module *m, const Expr *a, const Expr *b); /* a - b * floor(a / b) */
const Expr *ex_mod_joined(struct Module *m, const Expr *a, const Expr *b);
const Expr *ex_min(struct Module *m, const Expr *a, const Expr *b);
const Expr *ex_max(struct Module *m, const Expr *a, const Expr *b);
const Expr *ex_addi(struct Module *m, const Expr *a, int64_t b);
const Expr *ex_muli(struct Module *m, const Expr *a, int64_t b);

/* The exact quotient a / b if b divides a as a polynomial, else NULL. Leaves no fault. */
const Expr *ex_exact_div(struct Module *m, const Expr *a, const Expr *b);

/* True if e is the constant v. */
static inline bool ex_is_const(const Expr *e, int64_t v) { return e->kind == EX_CONST && e->value == v; }
/* True if e is a constant; *v gets its value. */
bool ex_get_const(const Expr *e, int64_t *v);
/* The greatest common divisor of two numbers, for a > 0 and any b. */
int64_t ex_common_divisor(int64_t a, int64_t b);

/* How to rebuild an expression: the replacement of each operand, and the division of two (NULL: ex_div). */
typedef struct ExprRebuild {
  const Expr *(*operand)(const void *context, const Expr *operand);
  const Expr *(*divide)(const void *context, const Expr *a, const Expr *b);
  const void *context;
} ExprRebuild;

/* Rebuilds the expression from its new operands, in canonical form, in module m; e may be from another module.  Not for
 * constants and symbols, which have no operands. */
const Expr *ex_rebuild(struct Module *m, const Expr *e, const ExprRebuild *how);

/* Replaces a symbol by an expression. ex_uses: true if the symbol occurs in e. */
const Expr *ex_subst(struct Module *m, const Expr *e, int symbol, const Expr *by);
bool ex_uses(const Expr *e, int symbol);
/* True if any symbol of the expression is a mesh coordinate. */
bool ex_uses_coordinate(const struct Module *m, const Expr *e);

/* Evaluates under symbol values, indexed as Module.symbols.  False on overflow or a divisor <= 0. */
bool ex_eval(const Expr *e, const int64_t *symbol_values, int64_t *out);

/* Structural order, independent of the order of creation: <0, 0, >0; 0 only for the same pointer. */
int ex_compare(const struct Module *m, const Expr *a, const Expr *b);

void ex_print(const struct Module *m, Text *t, const Expr *e); /* appends the text */

/* Sets the fault of a number beyond 64 bits, for sizes computed without expressions; returns 0. */
int64_t ex_overflow(struct Module *m);

#endif
