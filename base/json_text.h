/* base/json_text.h - numbers, and text of the user's, in a JSON document: a file's name, or a name in a model, may be
 * any bytes, JSON is UTF-8. */
#ifndef APC_BASE_JSON_TEXT_H
#define APC_BASE_JSON_TEXT_H

#include <jansson.h>

/* A string with U+FFFD for each byte that is not UTF-8; null for NULL. */
json_t *json_text(const char *text);

/* An integer where it is one, as of bytes; a finite number. */
json_t *json_number(double v);

/* object[key] = value, for a key like that; takes both.  The object, NULL when either is NULL or there is no memory. */
json_t *json_set_text(json_t *object, const char *key, json_t *value);

/* For programs that end when there is no memory (die_out_of_memory): jansson never lacks any from here on.  (Where it
 * lacks some, its parser drops characters of a string and says nothing.) */
void json_must_have_memory(void);

#endif
