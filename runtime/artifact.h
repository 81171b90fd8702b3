/* runtime/artifact.h - the executable: the prebuilt runtime, then a Program image, then a trailer.
 *
 *   stub | zeros to ARTIFACT_ALIGN | image (header.image_bytes) | ArtifactTrailer (the last bytes of the file)
 *
 * The image is mapped and used in place.  `strip` would cut it off; the trailer's absence then gives a clear error.
 */
#ifndef APC_RUNTIME_ARTIFACT_H
#define APC_RUNTIME_ARTIFACT_H

#include "runtime/program.h"

#define ARTIFACT_MAGIC 0x3154434146545241ull /* "ARTFACT1" */

enum { ARTIFACT_ALIGN = 65536 };

typedef struct ArtifactTrailer {
  uint64_t offset; /* of the image in the file; a multiple of ARTIFACT_ALIGN */
  uint64_t bytes;  /* of the image */
  uint64_t hash;   /* ProgramHeader.table_hash */
  uint64_t magic;
} ArtifactTrailer;

typedef struct Artifact {
  const unsigned char *image; /* mapped read-only, shared */
  uint64_t bytes;
  Program program;
} Artifact;

/* Maps the image of an executable and opens its Program.  RT_BAD_INPUT when the file cannot be read, has no image or a
 * damaged one; messages name the file as `name`. */
RtStatus artifact_open(const char *path, const char *name, Artifact *out, RtError *error);
void artifact_close(Artifact *a); /* a zeroed one is fine */

#endif
