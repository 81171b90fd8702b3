/* base/file.h - whole files: map or read one, read text, write one atomically.
 *
 * Problems are reported through diag_error (file_read, file_write) with the file's name.  For a mapped file that
 * another process cuts short while it is in use see lost_pages.h.
 */
#ifndef APC_BASE_FILE_H
#define APC_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>
#include <stdint.h>

#include "base/diag.h"

/* A file's bytes, read-only.  `data` is never NULL after success, also for an empty file. */
typedef struct FileMap {
  const uint8_t *data;
  size_t size;
  bool copied; /* the bytes are ours, from malloc */
} FileMap;

/* Only regular files; a directory, pipe, device or missing file is an error. */
bool file_map(Diags *d, const char *path, FileMap *out);
/* The same in memory of our own: nobody changes it any more.  A file that changes while it is read is an error. */
bool file_read(Diags *d, const char *path, FileMap *out);
/* A file that is read in parts, into memory of ours.  It must not change while it is open, but for what others write to
 * it where `written` is set then. */
typedef struct FileParts {
  int fd;
  bool written;
  uint64_t size;
  struct timespec modified;
} FileParts;
bool file_parts_open(Diags *d, const char *path, FileParts *out);
/* All of the n bytes at `offset`, which lie inside the file; false after a diagnostic. */
bool file_parts_read(Diags *d, const char *path, const FileParts *f, uint64_t offset, void *to, size_t n);
void file_parts_close(FileParts *f);
/* For files that others choose, and that are needed whole: maps it where lost pages are handled, reads it elsewhere. */
bool file_take(Diags *d, const char *path, FileMap *out);
void file_unmap(FileMap *map);

/* The file, of at most 256 MiB, as NUL-terminated text in the arena, its length in *n (may be NULL); NULL on failure.
 * A NUL byte inside is an error, so that nothing is silently cut off. */
char *file_read_text(Diags *d, Arena *arena, const char *path, size_t *n);

/* Says that there is no memory for so many bytes of the file, or about it; false. */
bool file_no_memory(Diags *d, const char *path, size_t bytes);

/* The place of a diagnostic about that file; the path is copied. */
Loc file_loc(Diags *d, const char *path);

/* Do both names mean one regular file, or one place in a folder where there is none yet?  The file system says, so
 * links and ./ do not hide it.  Devices, pipes and "-", standard output, are never the same as anything. */
bool file_same(const char *a, const char *b);

/* Writes a file in pieces: into a file without a name (where the file system has none: a temporary name beside it),
 * then fsync and rename, so that readers see the old file or the whole new one, and a process that is killed leaves
 * nothing.  A symbolic link is followed; what is there but no regular file (/dev/null, a pipe) is written directly.
 * `mode` is 0666 or 0777, less the umask.  The first failure is reported once; after it everything returns false. */
typedef struct FileWriter FileWriter;
FileWriter *file_writer_open(Diags *d, const char *path, unsigned mode); /* NULL on failure */
bool file_writer_add(FileWriter *w, const void *bytes, size_t n);
bool file_writer_pad(FileWriter *w, char fill, size_t n);
uint64_t file_writer_offset(const FileWriter *w); /* bytes added so far */
/* Both free the writer; abandon (and a failed finish) leaves the old file as it was. */
bool file_writer_finish(FileWriter *w);
void file_writer_abandon(FileWriter *w);

/* The same for a file whose parts several processes write.  Until it is finished it lies beside the final one under a
 * name that all of them know, and `bytes` of the disk are there for it; a process that is killed leaves that name
 * behind, which the next one takes over.  An error while another one has it, and where `path` is no regular file. */
FileWriter *file_writer_open_shared(Diags *d, const char *path, unsigned mode, uint64_t bytes);
const char *file_writer_shared(const FileWriter *w); /* that name, from the root on */
bool file_writer_flush(FileWriter *w);               /* others see what was added */
/* Over what was added; the last thing before it is finished. */
bool file_writer_put(FileWriter *w, uint64_t offset, const void *bytes, size_t n);

bool file_write(Diags *d, const char *path, unsigned mode, const void *bytes, size_t n);

/* For the beginning of a program: what passes the limit of a file's size (ulimit -f) is refused with EFBIG, as a full
 * disk refuses, where the system would end the process.  Programs that it starts inherit that. */
void file_limit_refuses(void);

/* Could it be written now?  Nothing is changed; false after the diagnostic that writing would give. */
bool file_write_check(Diags *d, const char *path);

#endif
