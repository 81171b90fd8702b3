/* base/json_text.c - see json_text.h. */
#include "base/json_text.h"

#include <math.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/text.h"

json_t *json_text(const char *text) {
  if (!text) return json_null();
  Arena *a = arena_new();
  json_t *s = json_string_nocheck(text_utf8(a, text));
  arena_free(a);
  return s;
}

json_t *json_number(double v) {
  const double exact = 9007199254740992; /* 2^53 */
  return v == floor(v) && fabs(v) <= exact ? json_integer((json_int_t)v) : json_real(v);
}

json_t *json_set_text(json_t *object, const char *key, json_t *value) {
  Arena *a = arena_new();
  int failed = json_object_set_new_nocheck(object, text_utf8(a, key), value);
  arena_free(a);
  if (!failed) return object;
  json_decref(object);
  return NULL;
}

static void *allocate(size_t n) { return must_have(malloc(n), "writing or reading JSON"); }

void json_must_have_memory(void) { json_set_alloc_funcs(allocate, free); }
