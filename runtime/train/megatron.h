/* runtime/train/megatron.h - the index of Megatron's token files: NAME.idx beside NAME.bin.
 *
 * Format (NVIDIA/Megatron-LM, megatron/core/datasets/indexed_dataset.py): "MMIDIDX" and two zeros, the version 1 (u64),
 * a code of the tokens' type (u8), the numbers of sequences and of document indices (u64 each); per sequence its tokens
 * (i32), per sequence its first byte in the .bin file (i64); the document indices (i64): the sequence where each
 * document begins, and usually the number of sequences at the end; perhaps a byte per sequence, which is not read.
 * Everything is little-endian.
 *
 * All of it is checked when it is opened: sequences must follow each other without gaps and fill the .bin file.
 */
#ifndef APC_RUNTIME_TRAIN_MEGATRON_H
#define APC_RUNTIME_TRAIN_MEGATRON_H

#include "base/file.h"

typedef struct MegatronIndex {
  FileMap map;
  int bits; /* of a token */
  bool is_signed;
  uint64_t sequences, documents;
  const uint8_t *lengths, *pointers, *starts;
} MegatronIndex;

/* Returns the name of the index of FILE.bin. */
const char *megatron_index_of(Arena *a, const char *bin);

/* Opens the index of a .bin file of that many bytes; false after a diagnostic.  The caller unmaps `map`, also then. */
bool megatron_open(Diags *diags, const char *path, uint64_t bin_bytes, MegatronIndex *out);

/* Sets starts[i] for each token first + i, i < n, that begins a document. */
void megatron_starts(const MegatronIndex *x, int64_t first, int64_t n, bool *starts);

#endif
