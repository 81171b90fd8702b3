/* program/status.h - how runtime functions report failure.
 *
 * The runtime is also a library inside other programs, so nothing in it prints or exits: a function that can fail
 * returns an RtStatus and writes the explanation into the caller's RtError.  The first error written stays; later ones
 * are consequences.
 */
#ifndef APC_PROGRAM_STATUS_H
#define APC_PROGRAM_STATUS_H

typedef enum RtStatus {
#define STATUS(name, exit_code, brief) RT_##name,
#include "program/status.def"
#undef STATUS
  RT_STATUS_COUNT
} RtStatus;

enum { RT_ERROR_TEXT = 1024 };

/* Starts as {0}: no error. */
typedef struct RtError {
  RtStatus status;
  char text[RT_ERROR_TEXT]; /* one line without a final newline, truncated if longer */
} RtError;

/* Records the error unless `error` is NULL or already holds one; returns `status`, so that callers can write `return
 * rt_error(...)`. */
RtStatus rt_error(RtError *error, RtStatus status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same with ": strerror(errno)" at the end.  Records and returns RT_FAILED for RT_BAD_INPUT if errno says that the
 * machine ran out of memory or descriptors: the input may well be right. */
RtStatus rt_error_errno(RtError *error, RtStatus status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Return the columns of status.def: the exit code, and a brief text.  Outside the table 70 and "unknown status". */
int rt_exit_code(RtStatus status);
const char *rt_brief(RtStatus status);

#endif
