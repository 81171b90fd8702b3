/* tests/doubles/board.h - the memory that the ranks of a communicator share: which ranks are there, what each asks for,
 * and the bytes that it gives.
 *
 * It is a file named after the communicator's id, which every rank opens; once all have, the name is removed. */
#ifndef APC_TESTS_DOUBLES_BOARD_H
#define APC_TESTS_DOUBLES_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { BOARD_RANKS = 32, BOARD_SPLITS = 64 };

/* A rank's request for a collective; equal on all ranks. */
typedef struct BoardCall {
  uint64_t count;
  int kind, type, op, root;
  int captured, unused; /* no padding: calls are compared as bytes */
} BoardCall;

typedef struct BoardMember {
  _Atomic int joined;
  int device;
  uint64_t host;
  _Atomic uint64_t posted, left; /* collectives that it has requested, and has finished */
  BoardCall call;
  _Atomic uint64_t splits;
  struct {
    int color, key;
  } split[BOARD_SPLITS];
} BoardMember;

/* Messages from one rank to another, one at a time. */
typedef struct BoardChannel {
  _Atomic uint64_t sent, received;
  uint64_t bytes;
  int captured;
} BoardChannel;

typedef struct Board {
  _Atomic int ranks; /* set by each of them */
  BoardMember members[BOARD_RANKS];
  BoardChannel channels[BOARD_RANKS][BOARD_RANKS]; /* [from][to] */
} Board;

/* NULL if the file cannot be created. */
Board *board_open(uint64_t id, int ranks);
void board_unname(uint64_t id); /* after all ranks have joined */
void board_close(Board *b);

/* The memory where a rank puts the bytes for all others, or for one. */
char *board_given(Board *b, int rank);
char *board_message(Board *b, int from, int to);

/* The first bytes there are no longer needed. */
void board_forget(Board *b, char *at, uint64_t bytes);

#endif
