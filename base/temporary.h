/* base/temporary.h - a temporary folder that does not outlive this process, however it ends; nor do the processes
 * that work in it. */
#ifndef APC_BASE_TEMPORARY_H
#define APC_BASE_TEMPORARY_H

#include <sys/types.h>

#include "base/diag.h"

typedef struct TemporaryFolder {
  const char *path; /* NULL if not open */
  int life;         /* a socket that is closed when this process ends */
  pid_t keeper;     /* the process that then removes the folder; it leads a process group */
} TemporaryFolder;

/* Makes a new private folder in $TMPDIR or /tmp; false after a diagnostic. */
bool temporary_open(Diags *d, Arena *arena, TemporaryFolder *out);

/* Called in a child before it executes a program that works in the folder: the child then ends with the folder,
 * SIGTERM first.  Signals of the terminal no longer reach it.  False with errno. */
bool temporary_join(pid_t keeper);

/* Removes the folder with its contents; does nothing if it is not open. */
void temporary_close(TemporaryFolder *f);

#endif
