/* base/json_text.h - numbers and the user's texts in a JSON document.  Names of files and in models may be any
 * bytes; JSON is UTF-8. */
#ifndef APC_BASE_JSON_TEXT_H
#define APC_BASE_JSON_TEXT_H

#include <jansson.h>

/* A string with U+FFFD for each byte that is not UTF-8; null if `text` is NULL. */
json_t *json_text(const char *text);

/* A JSON integer if v is one (bytes, say), else a real; v must be finite. */
json_t *json_number(double v);

/* Sets object[key] = value, for a key that may be any bytes; takes both references.  Returns the object; NULL if
 * either is NULL or there is no memory. */
json_t *json_set_text(json_t *object, const char *key, json_t *value);

/* Makes every allocation of jansson end the process if there is no memory (die_out_of_memory).  Otherwise its parser
 * silently drops characters of a string. */
void json_must_have_memory(void);

#endif
