/* base/temporary.c - see temporary.h.
 *
 * A process cannot clean up after SIGKILL, so a child does it: the keeper, which waits at a pipe that nobody writes to.  It ends
 * when the last writing end is gone, that is, when this process has closed it or has ended.  A session of its own keeps signals of
 * the terminal and of process groups away from it.
 */
#define _GNU_SOURCE
#include "base/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 100, NAP_MS = 100, HIGHEST_FD = 4096 };

/* ---- the keeper */

/* It holds no file of its parent, above all no pipe that somebody reads to its end. */
static void close_others(int kept) {
#ifdef SYS_close_range
  if ((kept == 0 || syscall(SYS_close_range, 0u, (unsigned)kept - 1, 0u) == 0) && syscall(SYS_close_range, (unsigned)kept + 1, ~0u, 0u) == 0) return;
#endif
  for (int fd = 0; fd < HIGHEST_FD; fd++)
    if (fd != kept) close(fd);
}

static bool remove_folder(const char *path) {
  DIR *dir = opendir(path);
  for (struct dirent *e; dir && (e = readdir(dir));) unlinkat(dirfd(dir), e->d_name, 0);
  if (dir) closedir(dir);
  return rmdir(path) == 0 || errno == ENOENT;
}

/* Compilers that were killed with us may still be writing their last file. */
static _Noreturn void keep(const char *path, int life) {
  char byte;
  setsid();
  close_others(life);
  while (read(life, &byte, 1) < 0 && errno == EINTR) continue;
  for (int i = 0; i < TRIES && !remove_folder(path); i++) nanosleep(&(struct timespec){0, NAP_MS * 1000000L}, NULL);
  _exit(0);
}

/* ---- its parent */

static bool start_keeper(TemporaryFolder *f) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  f->keeper = fork();
  if (f->keeper == 0) {
    close(ends[1]);
    keep(f->path, ends[0]);
  }
  int why = errno;
  close(ends[0]);
  if (f->keeper < 0) close(ends[1]);
  f->life = ends[1];
  errno = why;
  return f->keeper > 0;
}

bool temporary_open(Diags *d, Arena *arena, TemporaryFolder *out) {
  const char *base = getenv("TMPDIR");
  char *path = arena_printf(arena, "%s/apc-XXXXXX", base && *base ? base : "/tmp");
  *out = (TemporaryFolder){0};
  bool made = mkdtemp(path) != NULL;
  out->path = path;
  if (made && start_keeper(out)) return true;
  diag_error(d, DIAG_file_write, (Loc){.file = path}, "no temporary folder: %s", strerror(errno));
  if (made) rmdir(path);
  *out = (TemporaryFolder){0};
  return false;
}

void temporary_close(TemporaryFolder *f) {
  if (!f->path) return;
  close(f->life);
  while (waitpid(f->keeper, NULL, 0) < 0 && errno == EINTR) continue;
  *f = (TemporaryFolder){0};
}
