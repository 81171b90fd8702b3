/* runtime/train/documents.h - inputs that follow from where documents begin in a window of tokens.
 *
 * Windows pack documents one after the other; a window may begin inside one.  Attention that must not cross documents
 * needs an input of the model: positions that begin anew, numbers of the documents, or a mask.
 */
#ifndef APC_RUNTIME_TRAIN_DOCUMENTS_H
#define APC_RUNTIME_TRAIN_DOCUMENTS_H

#include "base/dtype.h"
#include "runtime/train/train.h"

typedef enum DocumentKind {
#define KIND(name, ...) DOCUMENT_##name,
#include "runtime/train/documents.def"
  DOCUMENT_KINDS
} DocumentKind;

/* Finds the kind of that name; DOCUMENT_KINDS if there is none. */
DocumentKind document_kind(const char *name);
/* All names, for messages: "positions, segments". */
void document_names(char *text, size_t size);

/* Checks that the input can take it for windows of `length` tokens; NULL, or what is wrong. */
const char *document_fits(DocumentKind kind, const ApcTensorInfo *info, int64_t length);

/* The source of a row: length + 1 tokens, which of them begin documents, and the label that is ignored. */
typedef struct DocumentRow {
  const int64_t *tokens;
  const bool *starts;
  int64_t length, ignored;
} DocumentRow;

/* Writes one row of the input. */
void document_write(DocumentKind kind, DType type, const DocumentRow *row, char *to);

#endif
