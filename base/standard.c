/* base/standard.c - see standard.h. */
#include "base/standard.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

void standard_hold(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* takes the lowest free number: fd */
}

bool standard_output_written(void) { return fflush(stdout) == 0 && !ferror(stdout); }
