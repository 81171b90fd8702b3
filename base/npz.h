/* base/npz.h - NumPy .npz archives: zip files whose members are .npy files.
 *
 * Format: PKWARE's APPNOTE.TXT 6.3 (stored and deflated members, zip64, one disk, no encryption) as np.savez and
 * np.savez_compressed write it.  Members are found through the central directory; local headers must agree with it,
 * members must not overlap, CRCs are checked, and no member may claim more than deflate can expand its bytes to, so
 * that memory is bounded by 1032 times the file; of an archive that is not mapped only the directory and the members
 * that are asked for are read; a member whose own header asks for another size than the directory says is refused
 * before it is expanded.  Written: stored members, data aligned to 64 bytes, fixed timestamps: the same tensors give
 * the same bytes.
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
  FileMap map;     /* in memory; */
  bool mapped;     /* ours to unmap */
  FileParts parts; /* or in a file that is read in parts, where nobody handles lost pages: fd is not -1 then */
  uint64_t size;
  NpzMember *items; /* in the order of the archive */
  size_t n, cap;
  NpzMember **by_name;
} Npz;

/* Opens an archive and checks its directory; members are decoded one by one later.  NULL on failure.
 * The struct lives in the diagnostics' arena; npz_close ends the mapping. */
Npz *npz_open(Diags *d, const char *path);
Npz *npz_open_memory(Diags *d, const char *name, const void *bytes, size_t n);
void npz_close(Npz *z);

/* The member of that name (without ".npy"), or NULL. */
const NpzMember *npz_find(const Npz *z, const char *name);

/* Type and shape of a member, which has as many bytes as they ask for; nothing but its beginning is decoded.  *out has
 * no data. */
bool npz_read_header(Npz *z, const NpzMember *member, Tensor *out);

/* Decodes a member, once its header fits its size.  The tensor may be a view of the mapping (it has no `release` then):
 * free it before npz_close. */
bool npz_read(Npz *z, const NpzMember *member, Tensor *out);

/* Writes an archive: open, add each, finish (sync and rename; false when anything failed, the old file
 * then untouched).  Abandon drops it.  Names must be unique. */
typedef struct NpzWriter NpzWriter;
NpzWriter *npz_writer_open(Diags *d, const char *path);
bool npz_writer_add(NpzWriter *w, const char *name, const Tensor *t);
bool npz_writer_finish(NpzWriter *w);
void npz_writer_abandon(NpzWriter *w);

/* Uses zip64 records also where the sizes do not need them (to test readers). */
void npz_writer_force_zip64(NpzWriter *w);

#endif
