/* ir/expr.h - sizes and offsets as symbolic integer expressions.
 *
 * An Expr is interned in its Module and kept in one canonical form, so equal polynomials are the same
 * pointer: sums of products with integer coefficients over atoms, an atom being a symbol, a floor
 * division that does not simplify, or a minimum or maximum.  Division rounds towards minus infinity and
 * its divisor must be positive.  Text: `2*batch*seq + 1`, `(3*@tp + 3) div 4`, `min(seq, 8)`.
 *
 * Symbols are the model's dimensions (`batch`) and the coordinates of a rank on a mesh axis (`@tp`):
 * uneven shards and late-bound dimensions are the same expressions (evaluated when both are known).
 *
 * Sizes come from users' files.  An expression that cannot be made (a number beyond 64 bits, a division by a number
 * that is not positive, one nested too deeply or with too many parts) is 0, and Module.expr_fault says why; the
 * verifier reports it (rule V3).
 */
#ifndef APC_IR_EXPR_H
#define APC_IR_EXPR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/text.h"

struct Module;

/* Of one expression, written out as a tree: all that walks it may recurse, and ends quickly. */
enum { MAX_EXPR_DEPTH = LIMIT_EXPR_DEPTH, MAX_EXPR_SIZE = LIMIT_EXPR_SIZE };

typedef enum ExprKind { EX_CONST, EX_SYM, EX_MUL, EX_ADD, EX_DIV, EX_MIN, EX_MAX } ExprKind;

typedef struct Expr {
  ExprKind kind;
  int32_t n;     /* number of args */
  int64_t value; /* CONST: the number; SYM: index into Module.symbols; MUL: coefficient; ADD: constant term */
  uint64_t hash;
  uint32_t size;                  /* nodes of the tree, shared ones as often as they occur */
  uint32_t depth;                 /* 1 for constants and symbols */
  const struct Expr *const *args; /* canonical order; DIV: numerator, divisor */
} Expr;

const Expr *ex_const(struct Module *m, int64_t v);
const Expr *ex_sym(struct Module *m, int symbol);
const Expr *ex_add(struct Module *m, const Expr *a, const Expr *b);
const Expr *ex_sub(struct Module *m, const Expr *a, const Expr *b);
const Expr *ex_mul(struct Module *m, const Expr *a, const Expr *b);
const Expr *ex_div(struct Module *m, const Expr *a, const Expr *b); /* floor(a / b); a constant b is positive */
/* The same number; nested divisions by constants become one, so that two ways to one size are one expression.  Front
 * ends use it.  The bounds of ranks' parts do not: what follows each other there is seen by what the divisions have in
 * common. */
const Expr *ex_div_joined(struct Module *m, const Expr *a, const Expr *b);
const Expr *ex_ceil_div(struct Module *m, const Expr *a, const Expr *b); /* floor((a + b - 1) / b) */
const Expr *ex_ceil_div_joined(struct Module *m, const Expr *a, const Expr *b);
const Expr *ex_mod(struct Module *m, const Expr *a, const Expr *b); /* a - b * floor(a / b) */
const Expr *ex_mod_joined(struct Module *m, const Expr *a, const Expr *b);
const Expr *ex_min(struct Module *m, const Expr *a, const Expr *b);
const Expr *ex_max(struct Module *m, const Expr *a, const Expr *b);
const Expr *ex_addi(struct Module *m, const Expr *a, int64_t b);
const Expr *ex_muli(struct Module *m, const Expr *a, int64_t b);

/* The exact quotient a / b when b divides a as a polynomial, else NULL.  Trying leaves no fault. */
const Expr *ex_exact_div(struct Module *m, const Expr *a, const Expr *b);

static inline bool ex_is_const(const Expr *e, int64_t v) { return e->kind == EX_CONST && e->value == v; }
/* True and the value when e is a constant. */
bool ex_get_const(const Expr *e, int64_t *v);

/* How an expression is made anew: what comes in the place of each operand, and how two are divided (NULL: ex_div). */
typedef struct ExprRebuild {
  const Expr *(*operand)(const void *context, const Expr *operand);
  const Expr *(*divide)(const void *context, const Expr *a, const Expr *b);
  const void *context;
} ExprRebuild;

/* The expression over its new operands, in canonical form, in module m; e may be of another module.  Constants and
 * symbols have no operands and are not for this. */
const Expr *ex_rebuild(struct Module *m, const Expr *e, const ExprRebuild *how);

/* Replaces the symbol by an expression. */
const Expr *ex_subst(struct Module *m, const Expr *e, int symbol, const Expr *by);
bool ex_uses(const Expr *e, int symbol);
/* True when any symbol of the expression is a mesh coordinate. */
bool ex_uses_coordinate(const struct Module *m, const Expr *e);

/* The value under symbol values indexed as Module.symbols.  False on overflow or a divisor <= 0. */
bool ex_eval(const Expr *e, const int64_t *symbol_values, int64_t *out);

/* Structural order, independent of creation order: <0, 0, >0.  0 only for the same pointer. */
int ex_compare(const struct Module *m, const Expr *a, const Expr *b);

void ex_print(const struct Module *m, Text *t, const Expr *e);

/* The fault of a number beyond 64 bits, for sizes that are computed without expressions; 0. */
int64_t ex_overflow(struct Module *m);

#endif
