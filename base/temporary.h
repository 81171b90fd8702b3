/* base/temporary.h - a temporary folder that does not outlive this process, however it ends, nor do the processes that
 * work in it. */
#ifndef APC_BASE_TEMPORARY_H
#define APC_BASE_TEMPORARY_H

#include <sys/types.h>

#include "base/diag.h"

typedef struct TemporaryFolder {
  const char *path; /* NULL: not open */
  int life;         /* a socket that is closed when this process ends */
  pid_t keeper;     /* the process that then removes the folder; the leader of a process group */
} TemporaryFolder;

/* A new folder of our own in $TMPDIR or /tmp; false after a diagnostic. */
bool temporary_open(Diags *d, Arena *arena, TemporaryFolder *out);

/* For a child, before it executes a program that works in the folder: makes it one of the processes that end with the
 * folder, SIGTERM first; false with errno.  The terminal's signals are then not for it. */
bool temporary_join(pid_t keeper);

/* Removes it with all that is in it.  What is not open is allowed. */
void temporary_close(TemporaryFolder *f);

#endif
