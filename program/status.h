/* program/status.h - how runtime functions report failure.
 *
 * The runtime is also a library inside other people's programs, so nothing in it prints or exits: a
 * function that can fail returns an RtStatus and writes the explanation into an RtError given by the
 * caller.  The first error written stays; later ones are consequences.
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
  char text[RT_ERROR_TEXT]; /* one line without a final newline, cut when longer */
} RtError;

/* Records the error unless `error` is NULL or holds one already; returns `status`, so that
 * `return rt_error(...)` reads well. */
RtStatus rt_error(RtError *error, RtStatus status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same with ": strerror(errno)" at the end.  RT_BAD_INPUT is recorded and returned as RT_FAILED where errno says
 * that the machine ran out of memory or descriptors: what was given may well be right. */
RtStatus rt_error_errno(RtError *error, RtStatus status, const char *format, ...) __attribute__((format(printf, 3, 4)));

int rt_exit_code(RtStatus status);
const char *rt_brief(RtStatus status);

#endif
