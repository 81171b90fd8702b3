/* frontend/loop_build.h - building run-time loops (docs/ir.md, "Loops") with a Builder.
 *
 *     LoopBuild l = frontend_loop_open(b, rounds, trips);      the values before it are visible in the body, and stay
 * so frontend_loop_carry(&l, initial) ...                     carries that the body reads
 *     ... build the body; l.round is the number of the round ...
 *     frontend_loop_collect(&l, type) ...                      carries whose type the body told: they start as zeros
 *     l.carries[i].next = ...
 *     frontend_loop_close(&l, again);                          l.carries[i].last is the value behind the loop
 *
 * Between opening and closing, operations are only added at the end of the function, or by these functions.
 */
#ifndef APC_FRONTEND_LOOP_BUILD_H
#define APC_FRONTEND_LOOP_BUILD_H

#include "ir/ir.h"

typedef struct LoopCarry {
  Val value; /* in the body */
  Val next;  /* what it becomes */
  Val last;  /* behind the loop */
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

enum { LOOP_ENDLESS = 1 << 30 }; /* a number of rounds from which on it means "as long as the condition holds" */

/* `rounds` is an i64 scalar, `trips` the most rounds there can be; NULL: what the operations behind `rounds` show.
 * round is 0 after an error. */
LoopBuild frontend_loop_open(Builder *b, Val rounds, const Expr *trips);

/* The carry in the body, before anything of the body is built; 0 after an error. */
Val frontend_loop_carry(LoopBuild *l, Val initial);

/* A carry made while the body is being built; it starts as `type` with zeros. */
Val frontend_loop_collect(LoopBuild *l, const Type *type);

/* Ends the body; `again` 0: always as many rounds as were asked for.  False after an error. */
bool frontend_loop_close(LoopBuild *l, Val again);

/* `x` with `row` (without dimension `axis`) written at place `at` (an i64 scalar) of dimension `axis`. */
Val frontend_loop_write_row(Builder *b, Val x, Val row, Val at, int axis);

#endif
