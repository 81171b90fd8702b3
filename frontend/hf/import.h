/* frontend/hf/import.h - a Hugging Face folder as a model in the model language.
 *
 * In: config.json.  Out: the text of an .apc file whose weights have the names and shapes of the folder's tensors.
 * families.hf has a section for each architecture, which says which template to use and declares the fields it reads;
 * template.h describes the form of both.  A field that no line declares is an error, so that nothing that changes the
 * result is overlooked.  Not done: tokenizers, generation_config.json, quantised weights, adapters,
 * images and sound.
 */
#ifndef APC_FRONTEND_HF_IMPORT_H
#define APC_FRONTEND_HF_IMPORT_H

#include "base/diag.h"

typedef struct HfFolder {
  const char *path; /* of config.json, for messages */
  const char *config;
  size_t length; /* of config, in bytes */
  /* True if the folder has a tensor of that name. */
  bool (*has)(const void *context, const char *tensor);
  const void *context;
} HfFolder;

/* Returns the text of the model, in the arena of the diagnostics; NULL after diagnostics. */
const char *hf_import(const HfFolder *folder, Diags *diags);

#endif
