/* runtime/train/source.h - the rows of one input: an array, or windows of token files (tokens.h). */
#ifndef APC_RUNTIME_TRAIN_SOURCE_H
#define APC_RUNTIME_TRAIN_SOURCE_H

#include "base/tensor.h"
#include "runtime/host/host.h"
#include "runtime/train/tokens.h"
#include "runtime/train/train.h"

typedef struct Source {
  const char *file;
  DType type;     /* of the input */
  Tensor rows;    /* the whole array; for windows only type and shape */
  Tokens *tokens; /* windows of tokens; NULL: rows of an array */
} Source;

/* Opens a file for an input and checks that it fits.  Free *out with source_close, even after an error. */
ApcStatus source_open(ApcModel *m, const DataFiles *files, const ApcTensorInfo *info, const char *file, Diags *diags,
                      Source *out);
void source_close(Source *s);

/* Returns the number of elements of a row. */
int64_t source_elements(const Source *s);

/* Copies a row of an array; its numbers have been checked. */
void source_copy(const Source *s, int64_t row, char *to);

/* Writes ", element [3, 0]," of a row; "" if a row is one number. */
void source_place(const Source *s, int64_t element, char *text, size_t size);

/* Adds its files to the identity; false with errno. */
bool source_identity(const Source *s, DataIdentity *out);

#endif
