/* runtime/exec/away.h - the home of states outside the memory of the device (ProgramClass away): a file on CPU ranks.
 *
 * Each rank has a file of its own in the folder APC_OFFLOAD_DIR, or in /var/tmp.  The file has no name, so it is
 * gone when the rank ends, however that happens.  Its room on the disk is reserved when it is made.  Addresses of
 * tensors of the class are places in a range of addresses without memory: only these functions may use them.
 *
 * Not done here: other devices than CPUs; one file for several ranks.
 */
#ifndef APC_RUNTIME_EXEC_AWAY_H
#define APC_RUNTIME_EXEC_AWAY_H

#include <stdint.h>

#include "program/program.h"

struct Executor;

typedef struct Away {
  int file;           /* its descriptor + 1; 0: not open */
  char *at;           /* the first address of the range */
  uint64_t bytes;     /* of all states */
  uint64_t kept;      /* bytes of the copy after them (exec_away_keep) */
  const char *folder; /* of the file */
} Away;

/* Makes the home at least `bytes` large, all zeros, whatever it contained.  RT_FAILED names rank, folder and reason;
 * RT_UNSUPPORTED on devices without a home for states. */
RtStatus exec_away_open(struct Executor *e, uint64_t bytes, RtError *error);
void exec_away_close(struct Executor *e);

/* Copy between memory and the home. */
RtStatus exec_away_read(const struct Executor *e, void *to, const char *from, uint64_t bytes, RtError *error);
RtStatus exec_away_write(const struct Executor *e, char *to, const void *from, uint64_t bytes, RtError *error);
/* The disk may begin to read this part now, beside computation. */
void exec_away_expect(const struct Executor *e, const char *from, uint64_t bytes);

/* Copies all states to the end of the file, and back. */
RtStatus exec_away_keep(struct Executor *e, RtError *error);
RtStatus exec_away_back(struct Executor *e, RtError *error);

#endif
