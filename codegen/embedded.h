/* codegen/embedded.h - the parts of a weights file that become part of the program, and their places.
 *
 * Models do not align their tensors, so a file embedded unchanged would have to be copied when it is loaded.  Here each
 * weight is a part whose first byte is aligned to PROGRAM_ALIGN bytes, and ranks use it in the mapped file of the
 * program; weights that share bytes (views of one another) are one part, which keeps its inner layout.  Parts are in
 * the order of the file.  Bytes that no weight reads are left out.
 */
#ifndef APC_CODEGEN_EMBEDDED_H
#define APC_CODEGEN_EMBEDDED_H

#include "base/file.h"
#include "ir/ir.h"

/* A range of the file. */
typedef struct EmbeddedPart {
  uint64_t from, bytes;
  uint64_t to; /* offset in the embedded range */
} EmbeddedPart;

typedef struct Embedded {
  uint32_t blob; /* index in the Program */
  const char *path;
  uint64_t file_bytes;
  uint64_t bytes; /* of the embedded range; zeros between the parts */
  const EmbeddedPart *parts;
  size_t n;
} Embedded;

/* Returns the parts of a blob of the module; the caller sets `blob`.  In the module's arena. */
Embedded embedded_of(const Module *m, int blob);

/* Returns the offset in the embedded range of a byte of the file; the range's end if the byte is in no part. */
uint64_t embedded_place(const Embedded *e, uint64_t offset);

/* Returns program_blob_hash of the embedded range. */
uint64_t embedded_hash(const Embedded *e, const uint8_t *file);

#endif
