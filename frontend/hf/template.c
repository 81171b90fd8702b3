/* frontend/hf/template.c - see template.h. */
#include "frontend/hf/template.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"

enum { MAX_WORDS = 48, MAX_NESTED = 16 };

typedef struct Line {
  const char *file;
  int n;
  const char *words[MAX_WORDS];
} Line;

/* The templates are part of apc: a fault in one is a fault of apc. */
#define MUST(holds, line) \
  if (!(holds)) \
  die("template %s: instruction '%s %s' is not valid", (line)->file, (line)->words[0], \
      (line)->n > 1 ? (line)->words[1] : "")

static Arena *arena(const HfRun *r) { return r->config->diags->arena; }

/* Splits an instruction at spaces; quoted strings have none. */
static void split(const HfRun *r, const char *file, const char *text, size_t n, Line *line) {
  *line = (Line){.file = file};
  for (size_t i = 0; i < n;) {
    size_t length = 0;
    while (i < n && text[i] == ' ') i++;
    while (i + length < n && text[i + length] != ' ') length++;
    if (length && line->n < MAX_WORDS) line->words[line->n++] = arena_strndup(arena(r), text + i, length);
    i += length;
  }
}

/* ---- values */

/* Returns a new reference to the value of a word. */
static json_t *value_of(HfRun *r, const Line *line, const char *word) {
  if (word[0] == '$') return json_incref(hf_config_get(r->config, word + 1));
  json_t *value = json_loads(word, JSON_DECODE_ANY, NULL);
  MUST(value, line);
  return value;
}

static bool is_equal(const json_t *a, const json_t *b) {
  if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
  return json_equal(a, b) == 1;
}

static bool is_one_of(HfRun *r, const Line *line, int from, const json_t *value) {
  bool found = false;
  for (int i = from; i < line->n; i++) {
    json_t *known = value_of(r, line, line->words[i]);
    found = found || is_equal(known, value);
    json_decref(known);
  }
  return found;
}

/* The values of an instruction, as "silu" or "gelu". */
static const char *choices(HfRun *r, const Line *line, int from) {
  Text t = {.arena = arena(r)};
  for (int i = from; i < line->n; i++)
    text_printf(&t, "%s%s", i == from ? "" : i + 1 == line->n ? " or " : ", ", line->words[i]);
  return text_str(&t);
}

static bool is_true(const json_t *v) {
  if (json_is_string(v)) return json_string_length(v) > 0;
  if (json_is_number(v)) return json_number_value(v) != 0;
  return json_is_true(v) || json_array_size(v) > 0 || json_object_size(v) > 0;
}

/* ---- text */

static bool put_number(HfRun *r, const json_t *v, bool list) {
  if (json_is_integer(v)) text_int(r->out, json_integer_value(v));
  else if (json_is_real(v)) {
    size_t before = r->out->n;
    text_double(r->out, json_real_value(v));
    if (!strpbrk(r->out->data + before, ".e")) text_add(r->out, ".0");
  } else if (json_is_boolean(v)) text_add(r->out, json_is_true(v) ? "1" : "0");
  else if (list && json_is_string(v)) text_quoted(r->out, json_string_value(v));
  else return false;
  return true;
}

/* Strings are names in the text: only characters that cannot end a string of the model language. */
static bool put_name(HfRun *r, const char *s) {
  for (const char *p = s; *p; p++)
    if (!isalnum((unsigned char)*p) && !strchr("_.-", *p)) return false;
  text_add(r->out, s);
  return true;
}

static bool put_list(HfRun *r, const json_t *v) {
  bool ok = true;
  text_add(r->out, "[");
  for (size_t i = 0; ok && i < json_array_size(v); i++) {
    text_add(r->out, i == 0 ? "" : i % 8 ? ", " : ",\n  ");
    ok = put_number(r, json_array_get(v, i), true);
  }
  text_add(r->out, "]");
  return ok;
}

static bool put_value(HfRun *r, const char *name) {
  const json_t *v = hf_config_get(r->config, name);
  if (!v) return hf_config_fail(r->config, "field '%s' is missing", name);
  bool ok = json_is_string(v)  ? strncmp(name, "own.", 4) == 0 && put_name(r, json_string_value(v))
            : json_is_array(v) ? put_list(r, v)
                               : put_number(r, v, false);
  return ok || hf_config_fail(r->config, "field '%s' is %s, which is not a value that it can have", name,
                              hf_config_text(arena(r), v));
}

static bool put_line(HfRun *r, const char *p, const char *end) {
  static const char in_name[] = "abcdefghijklmnopqrstuvwxyz0123456789_.";
  bool ok = true;
  while (p < end) {
    if (*p != '$') {
      text_addn(r->out, p++, 1);
      continue;
    }
    const char *from = p + 1 + (p[1] == '{');
    size_t n = strspn(from, in_name);
    ok = put_value(r, arena_strndup(arena(r), from, n)) && ok;
    p = from + n + (p[1] == '{');
  }
  text_add(r->out, "\n");
  return ok;
}

/* ---- conditions */

/* One term from word *at on. */
static bool term(HfRun *r, const Line *line, int *at) {
  bool negated = strcmp(line->words[*at], "not") == 0, holds;
  *at += negated;
  MUST(*at < line->n, line);
  const char *name = line->words[(*at)++];
  if (strncmp(name, "tensor:", 7) == 0) return negated != r->folder->has(r->folder->context, name + 7);
  const json_t *value = hf_config_get(r->config, name);
  if (*at + 1 < line->n && strcmp(line->words[*at], "==") == 0) {
    json_t *other = value_of(r, line, line->words[*at + 1]);
    holds = value && is_equal(value, other);
    json_decref(other);
    *at += 2;
  } else {
    holds = is_true(value);
  }
  return negated != holds;
}

static bool condition(HfRun *r, const Line *line) {
  int at = 1;
  bool holds = term(r, line, &at);
  while (at < line->n) {
    bool both = strcmp(line->words[at], "and") == 0;
    MUST(both || strcmp(line->words[at], "or") == 0, line);
    at++;
    bool next = term(r, line, &at);
    holds = both ? holds && next : holds || next;
  }
  return holds;
}

/* ---- instructions */

static bool is_missing(HfRun *r, const char *name) { return hf_config_get(r->config, name) == NULL; }

static bool ratio(HfRun *r, const Line *line) {
  hf_config_declare(r->config, line->words[2]);
  hf_config_declare(r->config, line->words[3]);
  const json_t *a = hf_config_get(r->config, line->words[2]), *b = hf_config_get(r->config, line->words[3]);
  if (!is_missing(r, line->words[1])) return true;
  if (!json_is_number(a) || !json_is_number(b) || json_number_value(b) == 0)
    return hf_config_fail(r->config, "field '%s' is missing, and so is '%s' or '%s'", line->words[1], line->words[2],
                          line->words[3]);
  hf_config_set(r->config, line->words[1], json_real(json_number_value(a) / json_number_value(b)));
  return true;
}

static bool require(HfRun *r, const Line *line) {
  const json_t *v = hf_config_get(r->config, line->words[1]);
  if (!v || is_one_of(r, line, 2, v)) return true;
  return hf_config_fail(r->config, "field '%s' is %s; apc can import only %s here", line->words[1],
                        hf_config_text(arena(r), v), choices(r, line, 2));
}

static bool each(HfRun *r, const Line *line) {
  const json_t *v = hf_config_get(r->config, line->words[1]);
  for (size_t i = 0; i < json_array_size(v); i++)
    if (!is_one_of(r, line, 2, json_array_get(v, i)))
      return hf_config_fail(r->config, "field '%s' has the item %s; apc can import only %s here", line->words[1],
                            hf_config_text(arena(r), json_array_get(v, i)), choices(r, line, 2));
  return !v || json_is_array(v) ||
         hf_config_fail(r->config, "field '%s' is %s, not a list", line->words[1], hf_config_text(arena(r), v));
}

static void copy(HfRun *r, const Line *line) {
  hf_config_declare(r->config, line->words[2]);
  const json_t *v = hf_config_get(r->config, line->words[2]);
  hf_config_set(r->config, line->words[1], v ? json_deep_copy(v) : json_null());
}

/* Gives a field another name, which the file must not have. */
static bool move(HfRun *r, const Line *line) {
  const char *name = line->words[1];
  json_t *v = hf_config_take(r->config, line->words[2]), *there = hf_config_peek(r->config, name);
  if (there && (!json_is_object(there) || json_object_size(there))) {
    json_decref(v);
    return hf_config_fail(r->config, "field '%s' has %s beside '%s'", name, hf_config_text(arena(r), there),
                          line->words[2]);
  }
  hf_config_set(r->config, name, v ? v : json_null());
  return true;
}

/* ---- types */

static bool is_size(const json_t *v) { return json_is_integer(v) && json_integer_value(v) > 0; }
static bool is_count(const json_t *v) { return json_is_integer(v) && json_integer_value(v) >= 0; }
static bool is_positive(const json_t *v) { return json_is_number(v) && json_number_value(v) > 0; }
static bool is_boolean(const json_t *v) { return json_is_boolean(v); }

static bool is_list_of(const json_t *v, bool (*holds)(const json_t *)) {
  for (size_t i = 0; i < json_array_size(v); i++)
    if (!holds(json_array_get(v, i))) return false;
  return json_is_array(v);
}
static bool is_counts(const json_t *v) { return is_list_of(v, is_count); }
static bool is_positives(const json_t *v) { return is_list_of(v, is_positive); }

static const struct Type {
  const char *name, *brief;
  bool (*holds)(const json_t *);
} types[] = {
    {"size", "an integer above 0", is_size},
    {"count", "an integer of at least 0", is_count},
    {"positive", "a number above 0", is_positive},
    {"boolean", "true or false", is_boolean},
    {"counts", "a list of integers of at least 0", is_counts},
    {"positives", "a list of numbers above 0", is_positives},
};

/* Checks the fields of %type; false after diagnostics. */
static bool type(HfRun *r, const Line *line) {
  const struct Type *t = types, *end = types + sizeof types / sizeof *types;
  bool ok = true;
  while (t < end && strcmp(t->name, line->words[1]) != 0) t++;
  MUST(t < end, line);
  for (int i = 2; i < line->n; i++) {
    const json_t *v = hf_config_peek(r->config, line->words[i]);
    if (v && !t->holds(v))
      ok = hf_config_fail(r->config, "field '%s' is %s, not %s", line->words[i], hf_config_text(arena(r), v), t->brief);
  }
  return ok;
}

static void family(HfRun *r, const Line *line) {
  r->elsewhere = strcmp(line->words[1], r->architecture) != 0;
  if (!r->elsewhere) r->model = line->words[2];
  r->names = arena_printf(arena(r), "%s%s%s", r->names ? r->names : "", r->names ? ", " : "", line->words[1]);
}

static bool instruction(HfRun *r, const Line *line) {
  const char *word = line->words[0], *name = line->n > 1 ? line->words[1] : "";
#define IS(text, count) (strcmp(word, text) == 0 && line->n >= (count))
  if (IS("include", 2)) return hf_template_run(r, name);
  if (IS("type", 3)) return type(r, line);
  if (IS("move", 3)) return move(r, line);
  if (!IS("optional", 2) && !IS("ignore", 2)) hf_config_declare(r->config, name);
  if (IS("require", 3)) return require(r, line);
  if (IS("each", 3)) return each(r, line);
  if (IS("ratio", 4)) return ratio(r, line);
  if (IS("ignore", 2) || IS("optional", 2))
    for (int i = 1; i < line->n; i++) hf_config_declare(r->config, line->words[i]);
  else if (IS("set", 3)) hf_config_set(r->config, name, value_of(r, line, line->words[2]));
  else if (IS("copy", 3)) copy(r, line);
  else if (IS("absent", 3)) {
    if (!hf_config_has(r->config, name)) hf_config_set(r->config, name, value_of(r, line, line->words[2]));
  } else if (IS("default", 3)) {
    if (is_missing(r, name)) hf_config_set(r->config, name, value_of(r, line, line->words[2]));
  } else MUST(false, line);
#undef IS
  return true;
}

/* ---- lines */

typedef struct Nesting {
  bool taken[MAX_NESTED]; /* by depth: the lines are followed */
  int depth;
} Nesting;

/* True if the line opens, turns or closes a condition. */
static bool nest(HfRun *r, Nesting *s, const Line *line) {
  if (strcmp(line->words[0], "if") == 0) {
    MUST(s->depth + 1 < MAX_NESTED && line->n > 1, line);
    bool outer = s->taken[s->depth] && !r->elsewhere;
    s->taken[++s->depth] = outer && condition(r, line);
  } else if (strcmp(line->words[0], "else") == 0) {
    MUST(s->depth > 0, line);
    s->taken[s->depth] = s->taken[s->depth - 1] && !s->taken[s->depth];
  } else if (strcmp(line->words[0], "end") == 0) {
    MUST(s->depth > 0, line);
    s->depth--;
  } else {
    return false;
  }
  return true;
}

static bool follow(HfRun *r, Nesting *s, const char *file, const char *p, const char *end) {
  Line line;
  if (*p != '%') return !s->taken[s->depth] || r->architecture || put_line(r, p, end);
  if (p[1] == '#') return true;
  split(r, file, p + 1, (size_t)(end - p - 1), &line);
  MUST(line.n > 0, &line);
  if (strcmp(line.words[0], "family") == 0) return family(r, &line), true;
  if (nest(r, s, &line) || !s->taken[s->depth] || r->elsewhere) return true;
  return instruction(r, &line);
}

bool hf_template_run(HfRun *r, const char *name) {
  const HfTemplate *t = hf_templates;
  while (t->name && strcmp(t->name, name) != 0) t++;
  if (!t->name) die("there is no template '%s'", name);
  Nesting s = {.taken = {true}};
  bool ok = true;
  for (const char *p = t->text; *p;) {
    const char *end = p + strcspn(p, "\n");
    ok = follow(r, &s, t->name, p, end) && ok;
    p = end + (*end == '\n');
  }
  return ok;
}
