/* frontend/hf/config.c - see config.h. */
#include "frontend/hf/config.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

bool hf_config_fail(HfConfig *c, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = arena_vprintf(c->diags->arena, format, args);
  va_end(args);
  return diag_error(c->diags, DIAG_hf_config, file_loc(c->diags, c->path), "%s", text);
}

const char *hf_config_text(Arena *a, const json_t *value) {
  char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
  const char *copy = text ? text_shown(a, arena_strdup(a, text)) : "nothing";
  free(text);
  return copy;
}

/* ---- fields by path */

static bool is_own(const char *path) { return strncmp(path, "own.", 4) == 0; }

/* Returns the object of a path and sets *name to the last name; NULL if the object is missing and not `make`. */
static json_t *holder(const HfConfig *c, const char *path, const char **name, bool make) {
  json_t *in = is_own(path) ? c->own : c->fields;
  *name = is_own(path) ? path + 4 : path;
  for (const char *dot; in && (dot = strchr(*name, '.')) != NULL; *name = dot + 1) {
    const char *first = arena_strndup(c->diags->arena, *name, (size_t)(dot - *name));
    if (make && !json_is_object(json_object_get(in, first))) json_object_set_new(in, first, json_object());
    in = json_object_get(in, first);
  }
  return json_is_object(in) ? in : NULL;
}

void hf_config_declare(HfConfig *c, const char *path) {
  if (!is_own(path)) json_object_set_new(c->declared, path, json_true());
}

json_t *hf_config_get(const HfConfig *c, const char *path) {
  if (!is_own(path) && !json_object_get(c->declared, path)) return NULL;
  return hf_config_peek(c, path);
}

json_t *hf_config_peek(const HfConfig *c, const char *path) {
  const char *name;
  json_t *in = holder(c, path, &name, false), *value = json_object_get(in, name);
  return json_is_null(value) ? NULL : value;
}

void hf_config_set(HfConfig *c, const char *path, json_t *value) {
  const char *name;
  json_t *in = holder(c, path, &name, true);
  json_object_set_new(in, name, value);
}

bool hf_config_has(const HfConfig *c, const char *path) {
  const char *name;
  json_t *in = holder(c, path, &name, false);
  return json_object_get(in, name) != NULL;
}

json_t *hf_config_take(HfConfig *c, const char *path) {
  const char *name;
  json_t *in = holder(c, path, &name, false), *value = json_object_get(in, name);
  if (!value) return NULL;
  json_incref(value);
  json_object_del(in, name);
  return value;
}

/* ---- reading */

/* Moves a field into rope_parameters, unless that has it. */
static void move_into_rope(HfConfig *c, const char *field, const char *path) {
  json_t *value = hf_config_take(c, field);
  if (value && !json_is_null(value) && !hf_config_has(c, path)) hf_config_set(c, path, json_incref(value));
  json_decref(value);
}

/* Gives rope_type the names of today: in old files it is `type`, and longrope is `su`. */
static void rename_rope(HfConfig *c) {
  move_into_rope(c, "rope_parameters.type", "rope_parameters.rope_type");
  json_t *type = json_object_get(json_object_get(c->fields, "rope_parameters"), "rope_type");
  if (type && json_is_string(type) && strcmp(json_string_value(type), "su") == 0)
    hf_config_set(c, "rope_parameters.rope_type", json_string("longrope"));
}

static bool is_object(HfConfig *c, const char *name, const json_t *value) {
  return !value || json_is_null(value) || json_is_object(value) ||
         hf_config_fail(c, "field '%s' is %s, not an object", name, hf_config_text(c->diags->arena, value));
}

static bool modernise(HfConfig *c) {
  const char *key;
  json_t *value, *scaling = hf_config_take(c, "rope_scaling");
  bool ok = is_object(c, "rope_scaling", scaling) &&
            is_object(c, "rope_parameters", json_object_get(c->fields, "rope_parameters"));
  if (ok && json_object_size(scaling) && json_object_size(json_object_get(c->fields, "rope_parameters")))
    ok = hf_config_fail(c, "the file has both 'rope_scaling' and 'rope_parameters'");
  if (ok && json_is_object(scaling)) {
    json_object_foreach(scaling, key, value) {
      const char *path = arena_printf(c->diags->arena, "rope_parameters.%s", key);
      if (!hf_config_has(c, path)) hf_config_set(c, path, json_incref(value));
    }
  }
  json_decref(scaling);
  if (!ok) return false;
  move_into_rope(c, "rope_theta", "rope_parameters.rope_theta");
  move_into_rope(c, "partial_rotary_factor", "rope_parameters.partial_rotary_factor");
  rename_rope(c);
  return true;
}

bool hf_config_read(HfConfig *c, const char *path, const char *text, size_t n, Diags *diags) {
  json_error_t error;
  *c = (HfConfig){.diags = diags, .path = path, .own = json_object(), .declared = json_object()};
  c->fields = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
  Loc loc = file_loc(diags, path);
  if (!c->fields)
    return diag_error(diags, DIAG_model_kind, loc, "line %d is not JSON: %s", error.line,
                      text_shown(diags->arena, error.text));
  if (!json_is_object(c->fields)) return diag_error(diags, DIAG_model_kind, loc, "the file is not a JSON object");
  return modernise(c);
}

void hf_config_free(HfConfig *c) {
  json_decref(c->fields);
  json_decref(c->own);
  json_decref(c->declared);
}

/* ---- fields that nothing reads */

static bool report_unused(HfConfig *c, const char *path, const json_t *value) {
  return hf_config_fail(c, "field '%s' is %s: this architecture has no use for it here, and its meaning is not known",
                        text_shown(c->diags->arena, path), hf_config_text(c->diags->arena, value));
}

static bool all_declared(HfConfig *c, const char *prefix, json_t *in) {
  const char *key;
  json_t *value;
  bool ok = true;
  json_object_foreach(in, key, value) {
    const char *path = arena_printf(c->diags->arena, "%s%s", prefix, key);
    if (json_is_null(value) || json_object_get(c->declared, path)) continue;
    ok = (json_is_object(value) ? all_declared(c, arena_printf(c->diags->arena, "%s.", path), value)
                                : report_unused(c, path, value)) &&
         ok;
  }
  return ok;
}

bool hf_config_all_declared(HfConfig *c) { return all_declared(c, "", c->fields); }
