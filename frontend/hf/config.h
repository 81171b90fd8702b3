/* frontend/hf/config.h - the fields of config.json by path, and which of them the architecture reads.
 *
 * A path is one or more names with dots between them (rope_parameters.factor).  A path that begins with `own.` is a
 * name of the templates; the file cannot set it.  A field of the file can be read only after it was declared.  Forms of
 * older files are rewritten when the file is read: rope_theta, rope_scaling and partial_rotary_factor become fields of
 * rope_parameters.
 */
#ifndef APC_FRONTEND_HF_CONFIG_H
#define APC_FRONTEND_HF_CONFIG_H

#include <jansson.h>

#include "base/diag.h"
#include "base/text.h"

typedef struct HfConfig {
  Diags *diags;
  const char *path;
  json_t *fields, *own;
  json_t *declared; /* an object with the paths that can be read */
} HfConfig;

/* Reads the text of config.json; false after a diagnostic.  hf_config_free frees the fields in either case. */
bool hf_config_read(HfConfig *c, const char *path, const char *text, size_t n, Diags *diags);
void hf_config_free(HfConfig *c);

/* Declares that the architecture reads a field, or that the field changes nothing that is computed. */
void hf_config_declare(HfConfig *c, const char *path);
/* Returns a declared field or an own name; NULL if it is missing or null. */
json_t *hf_config_get(const HfConfig *c, const char *path);
/* The same for any field. */
json_t *hf_config_peek(const HfConfig *c, const char *path);
/* Sets a field to a value, whose reference it takes. */
void hf_config_set(HfConfig *c, const char *path, json_t *value);
/* True if the file or a line of a template sets the field, perhaps to null. */
bool hf_config_has(const HfConfig *c, const char *path);
/* Takes a field out of the file; NULL if it is missing.  The caller owns the result. */
json_t *hf_config_take(HfConfig *c, const char *path);

/* Reports every field that has a value and was not declared; false if there is one. */
bool hf_config_all_declared(HfConfig *c);

/* Returns a value as JSON, for messages. */
const char *hf_config_text(Arena *a, const json_t *value);

/* Reports a fault of a field or of the file. */
bool hf_config_fail(HfConfig *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
