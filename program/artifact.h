/* program/artifact.h - the executable: the prebuilt runtime, then a Program image, then a trailer.
 *
 *   stub | zeros to ARTIFACT_ALIGN | image (header.image_bytes) | ArtifactTrailer (the last bytes of the file)
 *
 * The image is mapped and used in place, or its tables alone are read (by a library, see base/lost_pages.h).  `strip`
 * would cut it off; the trailer's absence then gives a clear error.  The file stays open: what is read later, or
 * started, is the file that was opened.
 */
#ifndef APC_PROGRAM_ARTIFACT_H
#define APC_PROGRAM_ARTIFACT_H

#include <sys/stat.h>

#include "program/program.h"

#define ARTIFACT_MAGIC 0x3154434146545241ull /* "ARTFACT1" */

enum { ARTIFACT_ALIGN = 65536 };

typedef struct ArtifactTrailer {
  uint64_t offset; /* of the image in the file; a multiple of ARTIFACT_ALIGN */
  uint64_t bytes;  /* of the image */
  uint64_t hash;   /* ProgramHeader.table_hash */
  uint64_t magic;
} ArtifactTrailer;

/* By which a file that was written to is known. */
typedef struct FileStamp {
  int64_t size, seconds, nanoseconds; /* of the last modification */
} FileStamp;

static inline FileStamp file_stamp(const struct stat *st) {
  return (FileStamp){st->st_size, st->st_mtim.tv_sec, st->st_mtim.tv_nsec};
}

typedef struct Artifact {
  const unsigned char *image; /* read-only */
  uint64_t bytes;             /* of the whole image */
  bool tables_only;           /* `image` is a copy of the tables, without the embedded ranges */
  int fd;                     /* of the file, above the standard ones; else none */
  uint64_t offset;            /* of the image in it */
  FileStamp stamp;
  Program program;
} Artifact;

/* Opens an executable and its Program.  artifact_open maps the image; artifact_open_tables reads the tables, so that a
 * file which is cut short harms nobody.  RT_BAD_INPUT when the file cannot be read, has no image or a damaged one;
 * messages name it `name`. */
RtStatus artifact_open(const char *path, const char *name, Artifact *out, RtError *error);
RtStatus artifact_open_tables(const char *path, const char *name, Artifact *out, RtError *error);
void artifact_close(Artifact *a); /* a zeroed one is fine */

/* Hashes as ProgramBlob.hash has them.  Reads, never maps; false with errno set.  `beats` grows with what was read; may
 * be NULL. */
bool artifact_hash_file(int fd, uint64_t offset, uint64_t bytes, _Atomic uint64_t *beats, uint64_t *hash);
bool artifact_hash_blob(const Artifact *a, const ProgramBlob *b, _Atomic uint64_t *beats,
                        uint64_t *hash); /* an embedded one */

/* The bytes of an embedded range, to[b->bytes]; false with errno set. */
bool artifact_read_blob(const Artifact *a, const ProgramBlob *b, void *to);

#endif
