/* ir/loops.h - the loops of a function (docs/ir.md, "Loops").
 *
 * A loop is a region of the list of operations: the loop, its carries, the body, the repeat, a leave per carry.
 *
 *     begin         %t = loop %n
 *     begin + 1     %h = carry %h0             ncarries of them
 *     body          ...
 *     repeat        repeat "again" %t
 *     repeat + 1    %last = leave %h, %h1      ncarries of them, in the same order
 *     end           (operations after the loop)
 *
 * Values of [begin, repeat) are visible inside only; leaves read inside, and their results are values outside.
 */
#ifndef APC_IR_LOOPS_H
#define APC_IR_LOOPS_H

#include "ir/ir.h"

typedef struct Loop {
  int parent; /* the enclosing loop; -1 if none */
  int depth;  /* number of enclosing loops */
  int ncarries;
  size_t begin, body, repeat, end; /* indices into Func.ops, as above */
} Loop;

typedef struct Loops {
  int n;
  Loop *items; /* in the order of their loop operations, so parents come first */
  int *of; /* by operation: the innermost loop whose body its result belongs to; -1 if none (a leave belongs outside) */
} Loops;

/* The loops of a function that obeys rule V20, in `arena`. */
Loops loops_of(Arena *arena, const Func *f);

/* The loop in which operation `op` reads its operands: outside for loop and carry, inside for leave. */
int loops_reads_in(const Loops *l, const Func *f, size_t op);
/* How often the body of a loop runs in one run of what is around it, as plans count: its bound `trips`; without a bound
 * and without a condition its count, if that is a constant or a size; NULL if this is not known. */
const Expr *loops_rounds(Module *m, const Func *f, const Loop *l);

/* True if loop `inner` is `outer` or inside it; -1 is the function itself. */
bool loops_within(const Loops *l, int inner, int outer);
/* The outermost loop around operations of loop `inner` that does not contain those of loop `outer`; -1 if `inner` is
 * `outer` or not inside it.  If `outer` defines a value and `inner` reads it, the result is the loop that the value
 * enters. */
int loops_entered(const Loops *l, int inner, int outer);

/* The operation itself if it is outside of loops; for one that is part of a loop, leaves included, the last leave of
 * the outermost loop. */
size_t loops_behind(const Loops *l, const Func *f, size_t op);

/* By value: index of the operation after which no round of any loop reads it again, i.e. its last use, or the end (the
 * last leave) of the loop that it enters to be read.  The value's own operation if it is never read; SIZE_MAX for
 * outputs. */
size_t *loops_last_uses(Arena *arena, const Func *f, const Loops *l);

#endif
