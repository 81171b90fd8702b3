/* runtime/train/tokens.h - windows of token files.
 *
 * A token file is nothing but tokens, little-endian and unsigned, of 16 or 32 bits, or has the header of llm.c before
 * them: 256 numbers of 32 bits, of which the first are a magic number, a version that says how wide tokens are, and how
 * many follow (karpathy/llm.c, dev/data/data_common.py, write_datafile).  A folder is all its files that end
 * in .bin, by name.  Row k of a file is the window of `length` + 1 tokens from k * length on: what is read, and, one
 * further, what comes next.  No window crosses the border of two files, and a rest that fills none is left out.
 * Files are mapped: a step touches the windows that it takes.
 */
#ifndef APC_RUNTIME_TRAIN_TOKENS_H
#define APC_RUNTIME_TRAIN_TOKENS_H

#include <stdint.h>

#include "base/diag.h"
#include "runtime/train/data_identity.h"

typedef struct Tokens Tokens;

typedef struct TokenFormat {
  int bits;       /* of a token: 16 or 32; 0: 32 only where `below` needs it; a header must say the same */
  int64_t length; /* of a window */
  int64_t below;  /* every token must be: the vocabulary */
} TokenFormat;

/* Is the path one of token files, by its name or as a folder? */
bool tokens_named(const char *path);

/* NULL after a diagnostic. */
Tokens *tokens_open(Diags *diags, const char *path, const TokenFormat *format);
void tokens_close(Tokens *t);

int64_t tokens_rows(const Tokens *t);

/* Adds all files; false with errno. */
bool tokens_identity(const Tokens *t, DataIdentity *out);

/* Reads the length + 1 tokens of a row; false after a diagnostic that names the place of a token that is none. */
bool tokens_read(Tokens *t, int64_t row, int64_t *out);

#endif
