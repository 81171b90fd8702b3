/* tools/option_values.c - see option_values.h. */
#include "tools/option_values.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/text.h"

/* ---- numbers */

bool tool_parse_whole(const char *text, int64_t *out) {
  if (!isdigit((unsigned char)text[0])) return false;
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  *out = v;
  return errno == 0 && !*end;
}

bool tool_parse_real(const char *text, double *out) {
  if (!isdigit((unsigned char)text[0]) && text[0] != '.') return false;
  char *end;
  *out = strtod(text, &end);
  return !*end && isfinite(*out);
}

/* A percentage is returned as a negative number: "90%" is -0.9. */
bool tool_parse_size(const char *text, double *bytes) {
  static const struct {
    const char *unit;
    double factor;
  } units[] = {{"", 1},      {"B", 1},        {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
               {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  if (!isdigit((unsigned char)text[0]) && text[0] != '.') return false;
  char *end;
  double v = strtod(text, &end);
  while (*end == ' ') end++;
  if (strcmp(end, "%") == 0) {
    *bytes = -v / 100;
    return v > 0 && v <= 100;
  }
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (strcmp(end, units[i].unit) == 0) {
      *bytes = v * units[i].factor;
      return isfinite(*bytes) && *bytes > 0;
    }
  return false;
}

bool tool_parse_time(const char *text, int *ms) {
  if (!isdigit((unsigned char)text[0]) && text[0] != '.') return false;
  char *end;
  double v = strtod(text, &end), unit = strcmp(end, "ms") == 0           ? 1
                                        : strcmp(end, "s") == 0 || !*end ? 1000
                                        : strcmp(end, "m") == 0          ? 60000
                                                                         : 0;
  if (!(v * unit >= 1 && v * unit < 1e9)) return false;
  *ms = (int)(v * unit);
  return true;
}

/* The number needs a unit: a bare one is ambiguous. */
bool tool_parse_budget(const char *text, Budget *out) {
  static const struct {
    const char *unit;
    double seconds, usd;
  } units[] = {{"us", 1e-6, 0}, {"ms", 1e-3, 0}, {"s", 1, 0}, {"usd", 0, 1}};
  *out = (Budget){0};
  if (!isdigit((unsigned char)text[0]) && text[0] != '.') return false;
  char *end;
  double v = strtod(text, &end);
  if (!*end || !(v > 0) || !isfinite(v)) return false;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (strcmp(end, units[i].unit) == 0) {
      out->seconds = v * units[i].seconds, out->usd = v * units[i].usd;
      return true;
    }
  return tool_parse_size(text, &out->bytes);
}

/* ---- NAME=VALUE */

static bool split_at(Arena *a, const char *text, size_t n, const char *equals, const char **name, const char **value) {
  if (!equals || equals == text || equals + 1 == text + n) return false;
  *name = arena_strndup(a, text, (size_t)(equals - text));
  *value = arena_strndup(a, equals + 1, n - (size_t)(equals + 1 - text));
  return true;
}

bool split_binding(Arena *a, const char *text, size_t n, const char **name, const char **value) {
  return split_at(a, text, n, memchr(text, '=', n), name, value);
}

bool split_size(Arena *a, const char *text, size_t n, const char **name, const char **value) {
  size_t at = n;
  while (at > 0 && text[at - 1] != '=') at--;
  return split_at(a, text, n, at ? text + at - 1 : NULL, name, value);
}

static bool is_binding_list(Arena *a, const char *text) {
  for (;;) {
    size_t n = strcspn(text, ",");
    const char *name, *value;
    int64_t v;
    if (!split_size(a, text, n, &name, &value) || !tool_parse_whole(value, &v)) return false;
    if (!text[n]) return true;
    text += n + 1;
  }
}

static bool is_shape(Arena *a, const char *text) {
  const char *name, *dims;
  if (!split_size(a, text, strlen(text), &name, &dims)) return false;
  for (;;) {
    size_t n = strcspn(dims, ",x");
    int64_t v;
    if (!tool_parse_whole(arena_strndup(a, dims, n), &v)) return false;
    if (!dims[n]) return true;
    dims += n + 1;
  }
}

/* ---- words */

static bool is_positive(const char *text, size_t n) {
  int64_t v;
  char digits[24];
  if (n >= sizeof digits) return false;
  memcpy(digits, text, n);
  digits[n] = 0;
  return tool_parse_whole(digits, &v) && v > 0;
}

/* A word of the table may end in an upper-case placeholder: "ir:PASS", "interleaved:V" and "full:K" (counts), or be
 * one: "K" (a count). */
static bool word_matches(const char *word, const char *value, size_t n) {
  const char *colon = strchr(word, ':');
  if (strcmp(word, "K") == 0) return is_positive(value, n);
  if (!colon) return strlen(word) == n && strncmp(word, value, n) == 0;
  size_t head = (size_t)(colon - word) + 1;
  if (n <= head || strncmp(word, value, head) != 0) return false;
  bool counts = strcmp(word + head, "V") == 0 || strcmp(word + head, "K") == 0;
  return !counts || is_positive(value + head, n - head);
}

static const ChoiceRow *find_choice(OptionId option, const char *value, size_t n) {
  for (int i = 0; i < choice_count; i++)
    if (choice_rows[i].option == option && word_matches(choice_rows[i].word, value, n)) return &choice_rows[i];
  return NULL;
}

static bool check_word(Diags *d, OptionId option, const char *value, size_t n) {
  if (find_choice(option, value, n)) return true;
  char *word = arena_strndup(d->arena, value, n);
  diag_error(d, DIAG_usage_value, (Loc){0}, "option '%s' does not take '%s'", option_rows[option].flag, word);
  Nearest near = nearest_to(word);
  Text all = {.arena = d->arena};
  for (int i = 0; i < choice_count; i++)
    if (choice_rows[i].option == option) {
      if (strcmp(choice_rows[i].word, "K") != 0) nearest_try(&near, choice_rows[i].word);
      text_printf(&all, "%s%s", all.n ? ", " : "", choice_rows[i].word);
    }
  if (near.best) diag_help(d, "the nearest is '%s'", near.best);
  else diag_help(d, "it takes %s", text_str(&all));
  return false;
}

/* KIND or KIND=FILE */
static bool check_kind(Diags *d, OptionId option, const char *value, size_t n) {
  if (!check_word(d, option, value, n)) return false;
  return value[n] != '=' || (value[n + 1] && value[n + 1] != ',') ||
         diag_error(d, DIAG_usage_value, (Loc){0}, "option '%s': '%.*s=' needs a file name", option_rows[option].flag,
                    (int)n, value);
}

static bool refuse_word(Diags *d, OptionId option, const char *value, size_t n) {
  const ChoiceRow *c = find_choice(option, value, n);
  if (!c || !c->later) return true;
  return diag_error(d, c->later, (Loc){0}, "'%s=%.*s' is not built yet", option_rows[option].flag, (int)n, value);
}

/* Applies `each` to the words of a comma-separated list KIND[=FILE],... */
static bool each_kind(Diags *d, OptionId option, const char *value,
                      bool (*each)(Diags *, OptionId, const char *, size_t)) {
  bool ok = true;
  for (;;) {
    size_t n = strcspn(value, ",");
    ok = each(d, option, value, strcspn(value, ",=")) && ok;
    if (!value[n]) return ok;
    value += n + 1;
  }
}

bool option_choices_built(Diags *d, OptionId option, const char *value) {
  switch (option_rows[option].kind) {
    case OK_CHOICE:
    case OK_CHOICE_MAYBE: return refuse_word(d, option, value, strlen(value));
    case OK_EMIT: return each_kind(d, option, value, refuse_word);
    default: return true;
  }
}

/* ---- any value */

static bool form_holds(Arena *a, OptionKind kind, const char *value) {
  int64_t whole;
  double real;
  int ms;
  Budget budget;
  const char *name, *text;
  switch (kind) {
    case OK_WHOLE: return tool_parse_whole(value, &whole);
    case OK_COUNT: return tool_parse_whole(value, &whole) && whole > 0;
    case OK_COUNT_AUTO: return strcmp(value, "auto") == 0 || (tool_parse_whole(value, &whole) && whole > 0);
    case OK_REAL: return tool_parse_real(value, &real);
    case OK_SIZE: return tool_parse_size(value, &real);
    case OK_TIME: return tool_parse_time(value, &ms);
    case OK_BUDGET: return tool_parse_budget(value, &budget);
    case OK_BINDING: return is_binding_list(a, value);
    case OK_SHAPE: return is_shape(a, value);
    case OK_FILE: return value[0] && strcmp(value, "-") != 0;
    case OK_DEFINE: return split_binding(a, value, strlen(value), &name, &text);
    default: return value[0] != 0;
  }
}

/* Explains the placeholder in the table. */
static const char *form_text(OptionKind kind) {
  switch (kind) {
    case OK_WHOLE: return ", a whole number from 0";
    case OK_COUNT: return ", a whole number from 1";
    case OK_COUNT_AUTO: return ", a whole number from 1 or the word auto";
    case OK_REAL: return ", a number from 0";
    case OK_SIZE: return ", as in 72GiB, 16GB, 512MiB or 90%";
    case OK_BUDGET: return ": memory, a time or money";
    case OK_TIME: return "a time like 60s, 500ms or 2m";
    default: return "";
  }
}

bool option_value_check(Diags *d, OptionId option, const char *value) {
  const OptionRow *row = &option_rows[option];
  if (!form_holds(d->arena, row->kind, value))
    return diag_error(d, DIAG_usage_value, (Loc){0}, "option '%s' takes %s%s, not '%s'", row->flag,
                      row->kind == OK_TIME ? "" : row->argument, form_text(row->kind), value);
  if (row->kind == OK_CHOICE || row->kind == OK_CHOICE_MAYBE) return check_word(d, option, value, strlen(value));
  if (row->kind == OK_EMIT) return each_kind(d, option, value, check_kind);
  return true;
}
