/* base/temporary.c - see temporary.h.
 *
 * A process cannot clean up after SIGKILL, so a child does it: the keeper.  It waits at a socket until the other end
 * is closed, which happens at the latest when this process ends.  The keeper makes the folder itself, so the folder
 * never exists without a keeper.  Its own process group protects it from signals to its parent's group, and it
 * ignores those of the terminal.  The compilers are in the keeper's group, so that the processes they start end as
 * well.
 */
#define _GNU_SOURCE
#include "base/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 100, NAP_MS = 100, HIGHEST_FD = 4096, DEEPEST = 16 };

/* ---- the keeper */

/* Closes all files of its parent, above all pipes that another process reads to the end. */
static void close_others(int kept) {
#ifdef SYS_close_range
  if ((kept == 0 || syscall(SYS_close_range, 0u, (unsigned)kept - 1, 0u) == 0) &&
      syscall(SYS_close_range, (unsigned)kept + 1, ~0u, 0u) == 0)
    return;
#endif
  for (int fd = 0; fd < HIGHEST_FD; fd++)
    if (fd != kept) close(fd);
}

/* Removes the contents of an open folder, and closes it; links are not followed. */
static void empty_folder(int fd, int depth) {
  DIR *dir = fdopendir(fd);
  if (!dir) close(fd);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || unlinkat(fd, e->d_name, 0) == 0) continue;
    int inner = depth < DEEPEST ? openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (inner >= 0) empty_folder(inner, depth + 1);
    unlinkat(fd, e->d_name, AT_REMOVEDIR);
  }
  if (dir) closedir(dir);
}

static bool remove_folder(const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd >= 0) empty_folder(fd, 0);
  return rmdir(path) == 0 || errno == ENOENT;
}

static bool send_all(int fd, const void *bytes, size_t n) { return send(fd, bytes, n, MSG_NOSIGNAL) == (ssize_t)n; }

/* Compilers that received SIGTERM may still be writing their last file.  The rest are then killed, and this process
 * with them. */
static _Noreturn void keep(char *path, int life) {
  static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, SIGUSR1, SIGUSR2};
  char byte;
  int number = setpgid(0, 0) == 0 ? 0 : errno;
  for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) signal(ignored[i], SIG_IGN);
  close_others(life);
  if (!number && !mkdtemp(path)) number = errno;
  bool told = send_all(life, &number, sizeof number) && send_all(life, path, strlen(path));
  while (told && !number && read(life, &byte, 1) < 0 && errno == EINTR) continue;
  if (number) _exit(1);
  for (int i = 0; i < TRIES; i++) {
    kill(0, SIGTERM);
    if (remove_folder(path)) break;
    nanosleep(&(struct timespec){0, NAP_MS * 1000000L}, NULL);
  }
  kill(0, SIGKILL);
  _exit(0);
}

/* ---- its parent */

static bool receive_all(int fd, void *bytes, size_t n) {
  for (size_t done = 0; done < n;) {
    ssize_t k = read(fd, (char *)bytes + done, n - done);
    if (k < 0 && errno == EINTR) continue;
    if (k == 0) errno = ECHILD; /* the keeper was killed */
    if (k <= 0) return false;
    done += (size_t)k;
  }
  return true;
}

static void release(TemporaryFolder *f) {
  int number = errno;
  close(f->life);
  while (waitpid(f->keeper, NULL, 0) < 0 && errno == EINTR) continue;
  *f = (TemporaryFolder){0};
  errno = number;
}

/* Starts the keeper.  `path` ends in XXXXXX and becomes the folder's. */
static bool start_keeper(char *path, TemporaryFolder *f) {
  int ends[2], number = 0;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
  f->keeper = fork();
  if (f->keeper == 0) {
    close(ends[1]);
    keep(path, ends[0]);
  }
  int why = errno;
  close(ends[0]);
  f->life = ends[1];
  if (f->keeper < 0) close(ends[1]);
  errno = why;
  if (f->keeper < 0) return false;
  bool told = receive_all(f->life, &number, sizeof number) && receive_all(f->life, path, strlen(path));
  if (told && !number) return true;
  if (told) errno = number;
  release(f);
  return false;
}

bool temporary_open(Diags *d, Arena *arena, TemporaryFolder *out) {
  const char *base = getenv("TMPDIR");
  char *path = arena_printf(arena, "%s/apc-XXXXXX", base && *base ? base : "/tmp");
  *out = (TemporaryFolder){0};
  if (!start_keeper(path, out)) {
    *out = (TemporaryFolder){0};
    return diag_error(d, DIAG_file_write, (Loc){.file = path}, "cannot create a temporary folder: %s", strerror(errno));
  }
  out->path = path;
  return true;
}

bool temporary_join(pid_t keeper) { return setpgid(0, keeper) == 0; }

void temporary_close(TemporaryFolder *f) {
  if (f->path) release(f);
}
