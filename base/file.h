/* base/file.h - whole files: map or read one, read text, write one atomically.
 *
 * Problems are reported through diag_error (file_read, file_write) with the file's name.  lost_pages.h handles mapped
 * files that another process truncates while they are in use.
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
  bool copied; /* allocated with malloc, not mapped */
} FileMap;

/* Maps a regular file; a directory, pipe, device or missing file is an error. */
bool file_map(Diags *d, const char *path, FileMap *out);
/* Reads a file into memory of its own, so that later changes of the file do not matter.  A change while it is read
 * is an error. */
bool file_read(Diags *d, const char *path, FileMap *out);
/* A file that is read in parts.  It must not change while it is open, unless `written` is set: then other processes
 * may be writing to it. */
typedef struct FileParts {
  int fd;
  bool written;
  uint64_t size;
  struct timespec modified;
} FileParts;
bool file_parts_open(Diags *d, const char *path, FileParts *out);
/* Reads all n bytes at `offset`, which must lie inside the file; false after a diagnostic. */
bool file_parts_read(Diags *d, const char *path, const FileParts *f, uint64_t offset, void *to, size_t n);
void file_parts_close(FileParts *f);
/* Maps the file if lost pages are handled, else reads it.  For whole files that the user names. */
bool file_take(Diags *d, const char *path, FileMap *out);
/* Unmaps or frees the bytes. */
void file_unmap(FileMap *map);

/* Returns a file of at most 256 MiB as NUL-terminated text in the arena, its length in *n (may be NULL); NULL on
 * failure.  A NUL byte inside is an error, so that nothing is silently cut off. */
char *file_read_text(Diags *d, Arena *arena, const char *path, size_t *n);

/* Reports that memory for `bytes` bytes of or about the file is missing; returns false. */
bool file_no_memory(Diags *d, const char *path, size_t bytes);

/* The location of a diagnostic about that file; the path is copied. */
Loc file_loc(Diags *d, const char *path);

/* True if both names mean the same regular file, or the same name in a folder where no file has it yet.  The file
 * system decides, so links and ./ are seen through.  Devices, pipes and "-" (standard output) equal nothing. */
bool file_same(const char *a, const char *b);

/* Writes a file in pieces: into a file without a name (or with a temporary name beside the final one, if the file
 * system has no nameless files), then fsync and rename.  Readers see the old file or the whole new one, and a killed
 * process leaves nothing.  A symbolic link is followed; anything that is not a regular file (/dev/null, a pipe) is
 * written directly.  `mode` is 0666 or 0777, less the umask.  The first failure is reported; after it every call
 * returns false. */
typedef struct FileWriter FileWriter;
FileWriter *file_writer_open(Diags *d, const char *path, unsigned mode); /* NULL on failure */
bool file_writer_add(FileWriter *w, const void *bytes, size_t n);
bool file_writer_pad(FileWriter *w, char fill, size_t n);
uint64_t file_writer_offset(const FileWriter *w); /* bytes added so far */
/* Both free the writer.  Abandon, and a finish that fails, leave the old file as it was. */
bool file_writer_finish(FileWriter *w);
void file_writer_abandon(FileWriter *w);

/* The same for a file whose parts several processes write.  Until it is finished it has a name beside the final one
 * that all of them know, and `bytes` of disk space are allocated.  A killed process leaves that file, and the next
 * one takes it over.  An error while another process writes it, and if `path` exists but is not a regular file. */
FileWriter *file_writer_open_shared(Diags *d, const char *path, unsigned mode, uint64_t bytes);
const char *file_writer_shared(const FileWriter *w); /* that name, as an absolute path */
bool file_writer_flush(FileWriter *w);               /* makes the added bytes visible to others */
/* Overwrites bytes that were added; allowed only as the last step before finish. */
bool file_writer_put(FileWriter *w, uint64_t offset, const void *bytes, size_t n);

/* Writes a whole file atomically: open, add, finish. */
bool file_write(Diags *d, const char *path, unsigned mode, const void *bytes, size_t n);

/* Call it at the start of a program: a write beyond the limit of a file's size (ulimit -f) then fails with EFBIG,
 * like one to a full disk, where the system would end the process.  Child processes inherit this. */
void file_limit_refuses(void);

/* True if the file could be written now; nothing is changed.  False after the diagnostic that writing would give. */
bool file_write_check(Diags *d, const char *path);

#endif
