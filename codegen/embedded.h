/* codegen/embedded.h - what of a file with weights becomes part of the program, and where it goes.
 *
 * Models align their tensors to nothing, so a file that is embedded as it is would have to be copied when it is loaded.
 * Here each weight is a part, its first byte on a border of PROGRAM_ALIGN bytes, and ranks use it where the program's
 * file is mapped; weights that have bytes in common (views of one another) are one part, which keeps its inside.  Parts
 * stand in the order of the file.  What no weight reads is left out.
 */
#ifndef APC_CODEGEN_EMBEDDED_H
#define APC_CODEGEN_EMBEDDED_H

#include "base/file.h"
#include "ir/ir.h"

/* A range of the file. */
typedef struct EmbeddedPart {
  uint64_t from, bytes;
  uint64_t to; /* where in the embedded range */
} EmbeddedPart;

typedef struct Embedded {
  uint32_t blob; /* index in the Program */
  const char *path;
  uint64_t file_bytes;
  uint64_t bytes; /* of the embedded range; zeros between the parts */
  const EmbeddedPart *parts;
  size_t n;
} Embedded;

/* Of a blob of the module, `blob` left open.  In the module's arena. */
Embedded embedded_of(const Module *m, int blob);

/* Where a byte of the file is in the embedded range; one that is in no part, the range's end. */
uint64_t embedded_place(const Embedded *e, uint64_t offset);

/* program_blob_hash of the embedded range. */
uint64_t embedded_hash(const Embedded *e, const uint8_t *file);

#endif
