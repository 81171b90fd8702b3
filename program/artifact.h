/* program/artifact.h - the executable: the prebuilt runtime, then a Program image, then a trailer.
 *
 *   stub | zeros to ARTIFACT_ALIGN | image (header.image_bytes) | ArtifactTrailer (the last bytes of the file)
 *
 * An artifact for several numbers of ranks (--world) has a Program for each, in the order of the command line.  Each
 * image has its own tables and kernels and reaches to the end of the last one, which has what they share, above all the
 * weights.  So every image is complete in itself, and header.next leads to the next one.
 *
 * The image is mapped and used in place, or only its tables are read (by a library, see base/lost_pages.h).  `strip`
 * would remove the trailer; opening then reports an error.  The file stays open, so that later reads, and ranks started
 * later, use the file that was opened.
 */
#ifndef APC_PROGRAM_ARTIFACT_H
#define APC_PROGRAM_ARTIFACT_H

#include <sys/stat.h>

#include "program/program.h"

#define ARTIFACT_MAGIC 0x3154434146545241ull /* "ARTFACT1" */

enum { ARTIFACT_ALIGN = 65536, ARTIFACT_MOST_WORLDS = 64 };

typedef struct ArtifactTrailer {
  uint64_t offset; /* of the first image in the file; a multiple of ARTIFACT_ALIGN */
  uint64_t bytes;  /* of the image */
  uint64_t hash;   /* ProgramHeader.table_hash */
  uint64_t magic;
} ArtifactTrailer;

/* Identifies a version of a file: it changes when the file is written. */
typedef struct FileStamp {
  int64_t size, seconds, nanoseconds; /* of the last modification */
} FileStamp;

/* Returns the stamp of a file. */
static inline FileStamp file_stamp(const struct stat *st) {
  return (FileStamp){st->st_size, st->st_mtim.tv_sec, st->st_mtim.tv_nsec};
}

typedef struct Artifact {
  const unsigned char *image; /* read-only */
  uint64_t bytes;             /* of the whole image */
  bool tables_only;           /* `image` is a copy of the tables, without the embedded ranges */
  int fd;                     /* of the file, above the standard ones; negative if none */
  uint64_t offset;            /* of the image in it */
  uint64_t first;             /* offset of the first image; equal to `offset` for the first Program */
  FileStamp stamp;
  Program program;
  int n_worlds;
  uint32_t worlds[ARTIFACT_MOST_WORLDS]; /* numbers of ranks of all Programs of the file, in their order */
  uint64_t at[ARTIFACT_MOST_WORLDS];     /* their offsets in the file */
} Artifact;

/* Opens an executable and its Program.  artifact_open maps the image; artifact_open_tables reads only the tables, so
 * that a file truncated later does no harm.  RT_BAD_INPUT if the file cannot be read, has no image or a damaged one;
 * messages call the file `name`. */
RtStatus artifact_open(const char *path, const char *name, Artifact *out, RtError *error);
RtStatus artifact_open_tables(const char *path, const char *name, Artifact *out, RtError *error);
/* The same for the Program for that number of ranks; RT_USAGE if there is none, with the numbers that there are. */
RtStatus artifact_open_for(const char *path, const char *name, int ranks, bool tables_only, Artifact *out,
                           RtError *error);
void artifact_close(Artifact *a); /* a zeroed one is allowed */

/* Computes the hash of ProgramBlob.hash, of a file or of an embedded blob.  Reads, never maps.  False with errno set.
 * `beats` (NULL is allowed) grows with the bytes read. */
bool artifact_hash_file(int fd, uint64_t offset, uint64_t bytes, _Atomic uint64_t *beats, uint64_t *hash);
bool artifact_hash_blob(const Artifact *a, const ProgramBlob *b, _Atomic uint64_t *beats, uint64_t *hash);

/* Reads the bytes of an embedded range into to[b->bytes]; false with errno set. */
bool artifact_read_blob(const Artifact *a, const ProgramBlob *b, void *to);

#endif
