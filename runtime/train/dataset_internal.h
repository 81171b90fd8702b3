/* runtime/train/dataset_internal.h - shared by dataset.c, which opens a data set, and batch.c, which gives its rows. */
#ifndef APC_RUNTIME_TRAIN_DATASET_INTERNAL_H
#define APC_RUNTIME_TRAIN_DATASET_INTERNAL_H

#include "runtime/train/dataset.h"
#include "runtime/train/documents.h"
#include "runtime/train/readers.h"
#include "runtime/train/source.h"

/* Where the rows of an input come from: its files, the next tokens (labels), or documents. */
typedef enum FilledFrom { FROM_FILE, FROM_NEXT, FROM_DOCUMENTS } FilledFrom;

typedef struct FilledInput {
  const char *name;
  FilledFrom from;
  DocumentKind kind; /* FROM_DOCUMENTS */
  DType type;
  int rank;
  int64_t dims[TENSOR_MAX_RANK]; /* of a batch */
  size_t row_bytes;
  bool can_ignore; /* labels, of which `ignored` counts nothing */
  int64_t ignored;
  char *batch[2];
} FilledInput;

typedef struct Batch {
  RowPlace *rows;
  Order before, after; /* the places before and after it */
  int64_t step;
  int64_t failed; /* the first row with an error; -1: none */
  char error[400];
} Batch;

struct Dataset {
  Arena *arena;
  Diags *diags;
  const DataFiles *files;
  FilledInput *inputs; /* those of files first */
  int n, n_files;
  Source *sources;    /* per source of the order, per input of files */
  Order begin, order; /* at the begin; after the rows that were asked for last */
  int64_t tokens;
  int64_t length;         /* of a window; 0: there are none */
  int windows;            /* the input that is windows */
  DataSource *identities; /* NULL: not computed yet */
  int n_identities;

  /* batch.c */
  Readers *readers;
  int64_t *window; /* per thread, length + 1 tokens */
  bool *starts;    /* per thread; NULL: nothing follows from documents */
  Batch batches[2];
  int64_t next;  /* the step after the one that was asked for last */
  int64_t ahead; /* the step that is put together; -1: none */
  int filling;   /* in this batch */
  int bound;     /* the batch that is bound; -1: none */
};

/* batch.c: allocates the batches and starts the threads, when all inputs are known; ends and frees them. */
ApcStatus batches_open(ApcModel *m, Dataset *d);
void batches_close(Dataset *d);

#endif
