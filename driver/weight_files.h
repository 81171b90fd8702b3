/* driver/weight_files.h - the tensors of --weights: a .safetensors file, the index of a sharded checkpoint, or the
 * folder of either.
 *
 * An index (model.safetensors.index.json of Hugging Face) has an object `weight_map` from the name of each tensor to
 * the file beside the index that holds it.  In a folder model.safetensors is read if there is one, else the index, as
 * transformers does, else checkpoint.safetensors of a training program.
 */
#ifndef APC_DRIVER_WEIGHT_FILES_H
#define APC_DRIVER_WEIGHT_FILES_H

#include "base/safetensors.h"

typedef struct StoredFile {
  const char *name; /* as in the index; NULL for a file that was named alone */
  Safetensors *file;
  int blob; /* of the module that reads it; -1 before */
} StoredFile;

typedef struct StoredTensor {
  const char *name;
  size_t file;
  const SafetensorsEntry *entry;
} StoredTensor;

typedef struct StoredFiles {
  const char *path; /* for messages: the file or the index */
  struct {
    StoredFile *items;
    size_t n, cap;
  } files;
  StoredTensor *items; /* sorted by name */
  size_t n;
} StoredFiles;

/* True if the path has the form of a source of weights: FILE.safetensors, an index, or a folder that exists. */
bool driver_files_is_path(const char *path);
/* Returns the index or the file that a folder has; NULL if it has neither. */
const char *driver_files_in(Arena *a, const char *folder);

/* Returns the file or the index of a path: that of a folder which has one, else the path. */
const char *driver_files_first(Arena *a, const char *path);

/* Opens all files and checks that they have the tensors of the index; NULL after a diagnostic.  The struct lives in the
 * diagnostics' arena; driver_files_close ends the mappings. */
StoredFiles *driver_files_open(Diags *diags, const char *path);
void driver_files_close(StoredFiles *w);

/* Finds the tensor of that name; NULL if none. */
const StoredTensor *driver_files_find(const StoredFiles *w, const char *name);

/* Returns the value of a key in the metadata of the only file; NULL if there is none, or several files. */
const char *driver_files_meta(const StoredFiles *w, const char *key);

#endif
