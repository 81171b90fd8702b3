/* frontend/loop_build.h - building run-time loops (docs/ir.md, "Loops") with a Builder.
 *
 *     LoopBuild l = frontend_loop_open(b, rounds, trips);      the body sees earlier values, which do not change
 *     frontend_loop_carry(&l, initial) ...                     carries that the body reads
 *     ... build the body; l.round is the number of the round ...
 *     frontend_loop_collect(&l, type) ...                      carries whose type the body gives; they start as zeros
 *     l.carries[i].next = ...
 *     frontend_loop_close(&l, again);                          l.carries[i].last is the value after the loop
 *
 * Between opening and closing, operations may only be added at the end of the function, or by these functions.
 */
#ifndef APC_FRONTEND_LOOP_BUILD_H
#define APC_FRONTEND_LOOP_BUILD_H

#include "ir/ir.h"

typedef struct LoopCarry {
  Val value; /* in the body */
  Val next;  /* its value in the next round */
  Val last;  /* its value after the loop */
} LoopCarry;

typedef struct LoopBuild {
  Builder *b;
  Val round;
  size_t at; /* index of the loop among the operations */
  struct {
    LoopCarry *items;
    size_t n, cap;
  } carries;
} LoopBuild;

enum { LOOP_ENDLESS = 1 << 30 }; /* this number of rounds or more means "as long as the condition holds" */

/* Opens a loop.  `rounds` is an i64 scalar, `trips` the maximum number of rounds; if NULL, it is derived from the
 * operations that compute `rounds`.  On error, `round` is 0. */
LoopBuild frontend_loop_open(Builder *b, Val rounds, const Expr *trips);

/* Adds a carry before the body is built, and returns its value in the body; 0 after an error. */
Val frontend_loop_carry(LoopBuild *l, Val initial);

/* Adds a carry while the body is being built; it starts as zeros of `type`.  Returns its value in the body. */
Val frontend_loop_collect(LoopBuild *l, const Type *type);

/* Ends the body.  `again` is the condition for a further round; 0 to run all `rounds`.  False after an error. */
bool frontend_loop_close(LoopBuild *l, Val again);

/* Writes `row` (which lacks dimension `axis`) into `x` at index `at` (an i64 scalar) of dimension `axis`. */
Val frontend_loop_write_row(Builder *b, Val x, Val row, Val at, int axis);

#endif
