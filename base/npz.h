/* base/npz.h - NumPy .npz archives: zip files whose members are .npy files.
 *
 * Format: PKWARE's APPNOTE.TXT 6.3 (stored and deflated members, zip64, one disk, no encryption), as np.savez and
 * np.savez_compressed write it.  Members are found through the central directory; local headers must agree with it.
 * Members must not overlap, and CRCs are checked.  No member may claim more than deflate can expand its bytes to, so
 * memory is bounded by 1032 times the file.  If the archive is not mapped, only the directory and the requested
 * members are read.  A member whose own header requires another size than the directory states is refused before it
 * is expanded.  Written: stored members, data aligned to 64 bytes, fixed timestamps, so the same tensors give the
 * same bytes.
 */
#ifndef APC_BASE_NPZ_H
#define APC_BASE_NPZ_H

#include "base/diag.h"
#include "base/file.h"
#include "base/tensor.h"

typedef struct NpzMember {
  const char *name; /* without ".npy"; unique, well-formed UTF-8 */
  uint64_t header;  /* where the local header and the packed bytes begin in the file */
  uint64_t data;
  uint64_t packed, size; /* bytes in the file, bytes of the .npy */
  uint32_t crc;
  bool deflated;
} NpzMember;

typedef struct Npz {
  Diags *diags;
  const char *path;
  FileMap map;     /* bytes in memory, */
  bool mapped;     /* which npz_close must unmap */
  FileParts parts; /* or a file that is read in parts, if lost pages are not handled; then fd is not -1 */
  uint64_t size;
  NpzMember *items; /* in the order of the archive */
  size_t n, cap;
  NpzMember **by_name;
} Npz;

/* Opens an archive and checks its directory; members are decoded later, one by one.  NULL on failure.  The struct
 * lives in the diagnostics' arena; npz_close ends the mapping. */
Npz *npz_open(Diags *d, const char *path);
Npz *npz_open_memory(Diags *d, const char *name, const void *bytes, size_t n);
void npz_close(Npz *z);

/* The member of that name (without ".npy"); NULL if none. */
const NpzMember *npz_find(const Npz *z, const char *name);

/* Reads type and shape of a member and checks its size against them; decodes only its beginning.  *out has no data. */
bool npz_read_header(Npz *z, const NpzMember *member, Tensor *out);

/* Decodes a member after checking its header against its size.  The tensor may be a view of the mapping (then it has
 * no `release`): free it before npz_close. */
bool npz_read(Npz *z, const NpzMember *member, Tensor *out);

/* Writes an archive: open, add each, finish (sync and rename; if anything failed, returns false and leaves the old
 * file untouched).  Abandon drops it.  Names must be unique. */
typedef struct NpzWriter NpzWriter;
NpzWriter *npz_writer_open(Diags *d, const char *path);
bool npz_writer_add(NpzWriter *w, const char *name, const Tensor *t);
bool npz_writer_finish(NpzWriter *w);
void npz_writer_abandon(NpzWriter *w);

/* Uses zip64 records even if the sizes do not need them (to test readers). */
void npz_writer_force_zip64(NpzWriter *w);

#endif
