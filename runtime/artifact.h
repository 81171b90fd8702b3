/* runtime/artifact.h - how a compiled model lies in its file: the stub's own bytes, zeros up to a multiple of
 * ARTIFACT_ALIGN, the Program's image (runtime/program.h), and this trailer as the last bytes of the file. */
#ifndef APC_RUNTIME_ARTIFACT_H
#define APC_RUNTIME_ARTIFACT_H

#include <stdint.h>

#define ARTIFACT_MAGIC 0x314c444d43504131ull /* "1APCMDL1" */

enum { ARTIFACT_ALIGN = 64 * 1024 };

typedef struct ArtifactTrailer {
  uint64_t offset;      /* of the image in the file, a multiple of ARTIFACT_ALIGN */
  uint64_t image_bytes; /* equals ProgramHeader.image_bytes */
  uint64_t table_hash;  /* equals ProgramHeader.table_hash */
  uint64_t magic;
} ArtifactTrailer;

#endif
