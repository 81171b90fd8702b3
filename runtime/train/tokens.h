/* runtime/train/tokens.h - windows of token files.
 *
 * A token file holds only tokens, little-endian and unsigned, of 16 or 32 bits, perhaps after the header of llm.c: 256
 * numbers of 32 bits, of which the first are a magic number, a version that determines the width of tokens, and their
 * number (karpathy/llm.c, dev/data/data_common.py, write_datafile).  If NAME.idx lies beside NAME.bin, it is the index
 * of Megatron's files (megatron.h), which says the type of tokens and where documents begin.  A folder stands for all
 * its files that end in .bin, by name.  Row k of a file is the window of `length` + 1 tokens from k * length on: the
 * input and, shifted by one, the next tokens.  No window crosses the border of two files, and a rest that does not fill
 * a window is dropped.  Files are mapped: a step only touches its windows.
 */
#ifndef APC_RUNTIME_TRAIN_TOKENS_H
#define APC_RUNTIME_TRAIN_TOKENS_H

#include <stdint.h>

#include "base/diag.h"
#include "runtime/train/data_identity.h"

typedef struct Tokens Tokens;

typedef struct TokenFormat {
  int bits;       /* of a token: 16 or 32; 0: 32 only if `below` requires it; a header must agree */
  int64_t length; /* of a window */
  int64_t below;  /* every token is below it: the size of the vocabulary */
  int64_t end;    /* documents end with this token; -1: by the index alone */
} TokenFormat;

/* True if the path is a token file or its index, by its name, a folder, or the name of both without an ending. */
bool tokens_named(const char *path);

/* Opens token files; NULL after a diagnostic. */
Tokens *tokens_open(Diags *diags, const char *path, const TokenFormat *format);
/* Unmaps the files; NULL is allowed. */
void tokens_close(Tokens *t);

/* Returns the number of rows of all files. */
int64_t tokens_rows(const Tokens *t);

/* True if all files have an index, so that it is known where documents begin. */
bool tokens_indexed(const Tokens *t);

/* Adds all files to the identity; false with errno. */
bool tokens_identity(const Tokens *t, DataIdentity *out);

/* Reads the length + 1 tokens of a row.  starts not NULL: which of them begin a document, by the index, or after the
 * token that ends one.  False: `error` names an invalid token and its place.  Several threads may read. */
bool tokens_read(const Tokens *t, int64_t row, int64_t *out, bool *starts, char *error, size_t size);

#endif
