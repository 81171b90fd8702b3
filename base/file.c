/* base/file.c - see file.h. */
#define _GNU_SOURCE /* O_TMPFILE */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/lost_pages.h"
#include "base/read_at.h"

Loc file_loc(Diags *d, const char *path) { return (Loc){.file = arena_strdup(d->arena, path)}; }

static bool read_failed(Diags *d, const char *path, const char *why) {
  return diag_error(d, DIAG_file_read, file_loc(d, path), "cannot read the file: %s", why);
}

bool file_no_memory(Diags *d, const char *path, size_t bytes) {
  return diag_error(d, DIAG_no_memory, file_loc(d, path), "out of memory asking for %zu bytes", bytes);
}

static void *must(void *p) { return must_have(p, "for the name of a file"); }

static const uint8_t no_bytes[1];

/* Opens without waiting, as opening a pipe would. */
static int open_regular(Diags *d, const char *path, struct stat *st) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return read_failed(d, path, strerror(errno)), -1;
  const char *why = fstat(fd, st) != 0     ? strerror(errno)
                    : S_ISDIR(st->st_mode) ? "it is a directory"
                    : S_ISREG(st->st_mode) ? NULL
                                           : "it is not a regular file";
  if (!why) return fd;
  read_failed(d, path, why);
  close(fd);
  return -1;
}

bool file_map(Diags *d, const char *path, FileMap *out) {
  struct stat st;
  *out = (FileMap){0};
  int fd = open_regular(d, path, &st);
  if (fd < 0) return false;
  void *p = st.st_size ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
  int why = errno;
  close(fd);
  if (p == MAP_FAILED && why == ENOMEM) return file_no_memory(d, path, (size_t)st.st_size);
  if (p == MAP_FAILED) return read_failed(d, path, strerror(why));
  *out = p ? (FileMap){.data = p, .size = (size_t)st.st_size} : (FileMap){.data = no_bytes};
  if (p) lost_pages_watch(p, out->size, path);
  return true;
}

static bool same_content(const struct stat *a, const struct stat *b) {
  return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Reads a range; returns NULL, or why it failed. */
static const char *read_bytes(int fd, const struct stat *before, uint64_t offset, void *to, size_t size) {
  struct stat after;
  if (!read_at(fd, offset, to, size)) return errno == ENODATA ? "it was cut short while it was read" : strerror(errno);
  if (fstat(fd, &after) != 0) return strerror(errno);
  return same_content(before, &after) ? NULL : "it was changed while it was read";
}

bool file_read(Diags *d, const char *path, FileMap *out) {
  struct stat st;
  *out = (FileMap){0};
  int fd = open_regular(d, path, &st);
  if (fd < 0) return false;
  uint8_t *bytes = NULL; /* numbers are used in place: aligned as a mapping is */
  bool room = posix_memalign((void **)&bytes, 4096, st.st_size ? (size_t)st.st_size : 1) == 0;
  const char *why = room ? read_bytes(fd, &st, 0, bytes, (size_t)st.st_size) : NULL;
  close(fd);
  if (!room) return file_no_memory(d, path, (size_t)st.st_size);
  if (why) {
    free(bytes);
    return read_failed(d, path, why);
  }
  *out = (FileMap){.data = bytes, .size = (size_t)st.st_size, .copied = true};
  return true;
}

bool file_parts_open(Diags *d, const char *path, FileParts *out) {
  struct stat st;
  *out = (FileParts){.fd = open_regular(d, path, &st)};
  if (out->fd < 0) return false;
  out->size = (uint64_t)st.st_size;
  out->modified = st.st_mtim;
  return true;
}

bool file_parts_read(Diags *d, const char *path, const FileParts *f, uint64_t offset, void *to, size_t n) {
  const struct stat before = {.st_size = (off_t)f->size, .st_mtim = f->modified};
  const char *why;
  if (!f->written) why = read_bytes(f->fd, &before, offset, to, n);
  else why = read_at(f->fd, offset, to, n) ? NULL : errno == ENODATA ? "it is cut short" : strerror(errno);
  return !why || read_failed(d, path, why);
}

void file_parts_close(FileParts *f) {
  if (f->fd >= 0) close(f->fd);
  *f = (FileParts){.fd = -1};
}

bool file_take(Diags *d, const char *path, FileMap *out) {
  return lost_pages_handled() ? file_map(d, path, out) : file_read(d, path, out);
}

void file_unmap(FileMap *map) {
  if (map->copied) {
    free((void *)(uintptr_t)map->data);
  } else if (map->size) {
    lost_pages_forget(map->data);
    munmap((void *)(uintptr_t)map->data, map->size);
  }
  *map = (FileMap){0};
}

#define TEXT_MOST ((size_t)256 << 20)

char *file_read_text(Diags *d, Arena *arena, const char *path, size_t *n) {
  FileMap map;
  if (!file_map(d, path, &map)) return NULL;
  bool large = map.size > TEXT_MOST;
  const uint8_t *nul = large ? NULL : memchr(map.data, 0, map.size);
  char *text = NULL;
  if (large)
    diag_error(d, DIAG_file_read, file_loc(d, path), "%zu bytes are too many for a text file; at most %zu are read",
               map.size, TEXT_MOST);
  else if (nul)
    diag_error(d, DIAG_file_read, file_loc(d, path), "this is not a text file: byte %zu is NUL",
               (size_t)(nul - map.data));
  else text = arena_strndup(arena, (const char *)map.data, map.size);
  if (n) *n = map.size;
  file_unmap(&map);
  return text;
}

/* A regular file, or a name in a folder where no file has it yet. */
typedef struct Place {
  bool there;
  dev_t device;
  ino_t number;     /* of the file, or of the folder */
  const char *name; /* in the folder */
} Place;

static bool place_of(const char *path, Place *out) {
  struct stat st;
  if (strcmp(path, "-") == 0) return false;
  if (stat(path, &st) == 0) {
    *out = (Place){true, st.st_dev, st.st_ino, NULL};
    return S_ISREG(st.st_mode);
  }
  char folder[PATH_MAX] = ".";
  const char *slash = strrchr(path, '/');
  size_t n = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
  if (n >= sizeof folder) return false;
  if (slash) snprintf(folder, sizeof folder, "%.*s", (int)n, path);
  if (stat(folder, &st) != 0) return false;
  *out = (Place){false, st.st_dev, st.st_ino, slash ? slash + 1 : path};
  return true;
}

bool file_same(const char *a, const char *b) {
  Place x, y;
  return place_of(a, &x) && place_of(b, &y) && x.there == y.there && x.device == y.device && x.number == y.number &&
         (x.there || strcmp(x.name, y.name) == 0);
}

#define WRITE_BUFFER ((size_t)64 * 1024)

struct FileWriter {
  Diags *diags;
  char *path; /* the final name, links resolved */
  char *temp; /* NULL if path itself is open (a device or a pipe), or if the file has no name */
  int fd;
  int lock;      /* locked file that other processes write as well, held open until it has its final name; -1 if none */
  bool nameless; /* a file in the final folder without a name: it vanishes if this process is killed */
  bool failed;
  uint64_t offset;
  size_t buffered;
  uint8_t buffer[WRITE_BUFFER];
};

static bool write_failed(FileWriter *w, const char *why) {
  if (!w->failed) diag_error(w->diags, DIAG_file_write, file_loc(w->diags, w->path), "cannot write the file: %s", why);
  w->failed = true;
  return false;
}

static char *folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash) return must(strdup("."));
  return must(strndup(path, slash == path ? 1 : (size_t)(slash - path)));
}

/* If the folder of a new file is missing, reports that: "No such file" would not help. */
static bool no_folder(FileWriter *w) {
  char *dir = folder_of(w->path);
  bool ok =
      write_failed(w, *w->path ? arena_printf(w->diags->arena, "there is no folder '%s'", dir) : strerror(ENOENT));
  free(dir);
  return ok;
}

/* Opens a new file beside the final one.  O_EXCL: a name that is taken is skipped, never reused. */
static bool open_beside(FileWriter *w, unsigned mode) {
  size_t room = strlen(w->path) + 48;
  w->temp = must(malloc(room));
  for (int i = 0; i < 1000; i++) {
    snprintf(w->temp, room, "%s.tmp-%ld-%d", w->path, (long)getpid(), i);
    w->fd = open(w->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)mode);
    if (w->fd >= 0) return true;
    if (errno != EEXIST) break;
  }
  int why = errno;
  free(w->temp);
  w->temp = NULL;
  return why == ENOENT ? no_folder(w) : write_failed(w, strerror(why));
}

static bool open_nameless(FileWriter *w, unsigned mode) {
  if (!*w->path) return false;
  char *dir = folder_of(w->path);
  w->fd = open(dir, O_WRONLY | O_TMPFILE | O_CLOEXEC, (mode_t)mode);
  free(dir);
  w->nameless = w->fd >= 0;
  return w->nameless;
}

/* Names a nameless file: by its final name if that is free, else by a temporary name beside it, to be renamed, as a
 * link cannot replace a file. */
static bool name_it(FileWriter *w) {
  size_t room = strlen(w->path) + 48;
  char from[32];
  snprintf(from, sizeof from, "/proc/self/fd/%d", w->fd);
  if (linkat(AT_FDCWD, from, AT_FDCWD, w->path, AT_SYMLINK_FOLLOW) == 0) return true;
  w->temp = must(malloc(room));
  for (int i = 0; i < 1000; i++) {
    snprintf(w->temp, room, "%s.tmp-%ld-%d", w->path, (long)getpid(), i);
    if (linkat(AT_FDCWD, from, AT_FDCWD, w->temp, AT_SYMLINK_FOLLOW) == 0) return true;
    if (errno != EEXIST) break;
  }
  int why = errno;
  free(w->temp);
  w->temp = NULL;
  return write_failed(w, strerror(why));
}

static bool open_target(FileWriter *w, unsigned mode) {
  struct stat st;
  if (stat(w->path, &st) != 0 || S_ISREG(st.st_mode)) return open_nameless(w, mode) || open_beside(w, mode);
  if (S_ISDIR(st.st_mode)) return write_failed(w, "it is a directory");
  w->fd = open(w->path, O_WRONLY | O_CLOEXEC);
  return w->fd >= 0 || write_failed(w, strerror(errno));
}

static void writer_free(FileWriter *w) {
  if (w->temp) unlink(w->temp);
  if (w->fd >= 0) close(w->fd);
  if (w->lock >= 0) close(w->lock);
  free(w->temp);
  free(w->path);
  free(w);
}

static FileWriter *writer_new(Diags *d, const char *path) {
  FileWriter *w = must(calloc(1, sizeof *w));
  w->diags = d;
  w->fd = w->lock = -1;
  w->path = realpath(path, NULL);
  if (!w->path) w->path = must(strdup(path)); /* the file does not exist yet */
  return w;
}

FileWriter *file_writer_open(Diags *d, const char *path, unsigned mode) {
  FileWriter *w = writer_new(d, path);
  if (open_target(w, mode)) return w;
  writer_free(w);
  return NULL;
}

/* Reports a failure before any part is ours. */
static bool part_failed(FileWriter *w, const char *why) {
  int number = errno;
  free(w->temp);
  w->temp = NULL;
  return number == ENOENT ? no_folder(w) : write_failed(w, why);
}

/* True if the open file still has that name: its former owner may have renamed it meanwhile. */
static bool still_there(const FileWriter *w) {
  struct stat mine, there;
  return fstat(w->fd, &mine) == 0 && stat(w->temp, &there) == 0 && mine.st_dev == there.st_dev &&
         mine.st_ino == there.st_ino;
}

/* PATH.part as an absolute path; NULL if its folder does not exist. */
static char *part_name(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  char *given = folder_of(path), *folder = realpath(given, NULL), *part = NULL;
  if (!folder && errno == ENOMEM) must(NULL);
  if (folder && asprintf(&part, "%s/%s.part", folder, name) < 0) must(NULL);
  free(given);
  free(folder);
  return part;
}

/* Opens PATH.part and locks it, if the file system supports locks. */
static bool open_part(FileWriter *w, unsigned mode) {
  struct stat st;
  w->temp = part_name(w->path);
  while (w->temp) {
    w->fd = open(w->temp, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, (mode_t)mode);
    if (w->fd < 0) return part_failed(w, strerror(errno));
    errno = 0;
    if (fstat(w->fd, &st) == 0 && !S_ISREG(st.st_mode))
      return part_failed(w, "its temporary name is not a regular file");
    if (flock(w->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      return part_failed(w, "another run is writing it");
    if (still_there(w)) return true;
    close(w->fd);
  }
  return part_failed(w, strerror(errno));
}

/* Allocates the disk space.  The lock belongs to the open file, which stays open until the file has its name. */
static bool allocate_part(FileWriter *w, uint64_t bytes) {
  int why = ftruncate(w->fd, 0) != 0 ? errno : 0;
  if (!why && bytes) why = posix_fallocate(w->fd, 0, (off_t)bytes);
  if (why == EINVAL || why == EOPNOTSUPP)
    why = ftruncate(w->fd, (off_t)bytes) != 0 ? errno : 0; /* this file system cannot allocate */
  if (why) return write_failed(w, strerror(why));
  w->lock = fcntl(w->fd, F_DUPFD_CLOEXEC, 0);
  return w->lock >= 0 || write_failed(w, strerror(errno));
}

FileWriter *file_writer_open_shared(Diags *d, const char *path, unsigned mode, uint64_t bytes) {
  FileWriter *w = writer_new(d, path);
  struct stat st;
  bool there = stat(w->path, &st) == 0;
  bool ok = there && S_ISDIR(st.st_mode)    ? write_failed(w, "it is a directory")
            : there && !S_ISREG(st.st_mode) ? write_failed(w, "it is not a file that several processes can write")
                                            : open_part(w, mode) && allocate_part(w, bytes);
  if (ok) return w;
  writer_free(w);
  return NULL;
}

const char *file_writer_shared(const FileWriter *w) { return w->temp; }

static bool write_out(FileWriter *w, const uint8_t *p, size_t n) {
  while (n) {
    ssize_t done = write(w->fd, p, n < SSIZE_MAX ? n : SSIZE_MAX);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return write_failed(w, strerror(errno));
    p += done;
    n -= (size_t)done;
  }
  return true;
}

static bool flush(FileWriter *w) {
  size_t n = w->buffered;
  w->buffered = 0;
  return write_out(w, w->buffer, n);
}

bool file_writer_flush(FileWriter *w) { return !w->failed && flush(w); }

bool file_writer_put(FileWriter *w, uint64_t offset, const void *bytes, size_t n) {
  if (!file_writer_flush(w)) return false;
  return write_at(w->fd, offset, bytes, n) || write_failed(w, strerror(errno));
}

bool file_writer_add(FileWriter *w, const void *bytes, size_t n) {
  if (w->failed) return false;
  w->offset += n;
  if (w->buffered + n > WRITE_BUFFER && !flush(w)) return false;
  if (n > WRITE_BUFFER) return write_out(w, bytes, n);
  if (n) memcpy(w->buffer + w->buffered, bytes, n);
  w->buffered += n;
  return true;
}

bool file_writer_pad(FileWriter *w, char fill, size_t n) {
  for (; n; n--)
    if (!file_writer_add(w, &fill, 1)) return false;
  return true;
}

uint64_t file_writer_offset(const FileWriter *w) { return w->offset; }

/* Makes the rename itself durable.  Some file systems cannot sync a directory; then only durability across a power
 * failure is lost. */
static void sync_directory_of(const char *path) {
  char *dir = folder_of(path);
  int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    (void)fsync(fd);
    close(fd);
  }
  free(dir);
}

static bool put_in_place(FileWriter *w) {
  if (w->failed || !flush(w)) return false;
  if ((w->temp || w->nameless) && fsync(w->fd) != 0) return write_failed(w, strerror(errno));
  if (w->nameless && !name_it(w)) return false;
  int fd = w->fd;
  w->fd = -1;
  if (close(fd) != 0) return write_failed(w, strerror(errno));
  if (!w->temp && w->nameless) sync_directory_of(w->path);
  if (!w->temp) return true;
  if (rename(w->temp, w->path) != 0) return write_failed(w, strerror(errno));
  free(w->temp);
  w->temp = NULL;
  sync_directory_of(w->path);
  return true;
}

bool file_writer_finish(FileWriter *w) {
  bool ok = put_in_place(w);
  writer_free(w);
  return ok;
}

void file_writer_abandon(FileWriter *w) { writer_free(w); }

bool file_write(Diags *d, const char *path, unsigned mode, const void *bytes, size_t n) {
  FileWriter *w = file_writer_open(d, path, mode);
  if (!w) return false;
  file_writer_add(w, bytes, n);
  return file_writer_finish(w);
}

void file_limit_refuses(void) { signal(SIGXFSZ, SIG_IGN); }

bool file_write_check(Diags *d, const char *path) {
  struct stat st;
  bool special = stat(path, &st) == 0 && !S_ISREG(st.st_mode) &&
                 !S_ISDIR(st.st_mode); /* opening a pipe would wait for its reader */
  if (special)
    return access(path, W_OK) == 0 ||
           diag_error(d, DIAG_file_write, file_loc(d, path), "cannot write the file: %s", strerror(errno));
  FileWriter *w = file_writer_open(d, path, 0666);
  if (w) file_writer_abandon(w);
  return w != NULL;
}
