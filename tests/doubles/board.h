/* tests/doubles/board.h - the memory that the ranks of a communicator share: who is there, what each asks for, and the
 * bytes that it gives.
 *
 * A file under a name made of the communicator's id, which every rank opens; when all have, it has no name any more. */
#ifndef APC_TESTS_DOUBLES_BOARD_H
#define APC_TESTS_DOUBLES_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { BOARD_RANKS = 32, BOARD_SPLITS = 64 };

/* What a rank asks for in a collective: equal on all ranks. */
typedef struct BoardCall {
  uint64_t count;
  int kind, type, op, root;
  int captured, unused; /* no padding: calls are compared as bytes */
} BoardCall;

typedef struct BoardMember {
  _Atomic int joined;
  int device;
  uint64_t host;
  _Atomic uint64_t posted, left; /* collectives that it has asked for, and is done with */
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
  _Atomic int ranks; /* every one of them says it */
  BoardMember members[BOARD_RANKS];
  BoardChannel channels[BOARD_RANKS][BOARD_RANKS]; /* [from][to] */
} Board;

/* NULL when the file cannot be made. */
Board *board_open(uint64_t id, int ranks);
void board_unname(uint64_t id); /* all are there */
void board_close(Board *b);

/* Where a rank puts what it gives to all, or to one other. */
char *board_given(Board *b, int rank);
char *board_message(Board *b, int from, int to);

/* The first bytes there are not needed any more. */
void board_forget(Board *b, char *at, uint64_t bytes);

#endif
