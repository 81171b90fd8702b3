/* base/temporary.h - a temporary folder that does not outlive this process, however it ends. */
#ifndef APC_BASE_TEMPORARY_H
#define APC_BASE_TEMPORARY_H

#include <sys/types.h>

#include "base/diag.h"

typedef struct TemporaryFolder {
  const char *path; /* NULL: not open */
  int life;         /* a pipe's end that is closed when this process ends */
  pid_t keeper;     /* the process that then removes the folder */
} TemporaryFolder;

/* A new folder of our own in $TMPDIR or /tmp, for plain files; false after a diagnostic. */
bool temporary_open(Diags *d, Arena *arena, TemporaryFolder *out);

/* Removes it with all files in it.  What is not open is allowed. */
void temporary_close(TemporaryFolder *f);

#endif
