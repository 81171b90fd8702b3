/* tools/size_line.c - see size.h: the options of a try, which are those of the line with one change. */
#include <inttypes.h>
#include <string.h>

#include "frontend/onnx/import.h"
#include "tools/command_line.h"
#include "tools/size.h"

static void add(Arena *a, Options *line, OptionId id, const char *value) {
  OptionUse use = {id, value};
  ARENA_PUSH(a, &line->uses, use);
}

/* True for options of `apc plan` that affect more than output. */
static bool is_of_plan(OptionId id) {
  const OptionRow *r = &option_rows[id];
  return r->commands & (1u << CMD_plan) && r->group != OG_TALK && id != OPT_json && id != OPT_time_report;
}

static bool is_name(const Sizing *s, const char *written, const char *name) {
  if (model_kind(s->path) == MODEL_ONNX) written = onnx_dim_name(s->t->arena, written);
  return strcmp(written, name) == 0;
}

const char *sizing_without(const Sizing *s, const char *bindings, const char *name, int64_t *was) {
  Arena *a = s->t->arena;
  Text rest = {.arena = a};
  for (const char *p = bindings; *p;) {
    size_t n = strcspn(p, ",");
    const char *written, *number;
    split_size(a, p, n, &written, &number);
    if (is_name(s, written, name)) tool_parse_whole(number, was);
    else text_printf(&rest, "%s%.*s", rest.n ? "," : "", (int)n, p);
    p += n + (p[n] == ',');
  }
  return rest.n ? text_str(&rest) : NULL;
}

static bool defines_it(const Sizing *s, const char *value) {
  size_t n = s->parameter ? strlen(s->parameter) : 0;
  return n && strncmp(value, s->parameter, n) == 0 && value[n] == '=';
}

/* Returns the value of an option in a try; NULL if the try replaces it, or `apc plan` does not take it. */
static const char *kept(const Sizing *s, const OptionUse *u) {
  int64_t was;
  const char *value = u->value ? u->value : "";
  if (!is_of_plan(u->option) || u->option == OPT_target) return NULL;
  if (u->option == OPT_memory && s->memory) return NULL;
  if (u->option == OPT_define && defines_it(s, value)) return NULL;
  if (!s->dimension) return value;
  if (u->option == OPT_dim || u->option == OPT_dim_hint) return sizing_without(s, value, s->dimension, &was);
  bool set_anew = u->option == OPT_batch && s->vary == VARY_batch && option_given(&s->t->options, OPT_train);
  return set_anew ? NULL : value;
}

static Options kept_line(const Sizing *s) {
  const Options *own = &s->t->options;
  Options line = {.command = CMD_plan, .named = true, .args = own->args};
  for (size_t i = 0; i < own->uses.n; i++) {
    const OptionUse *u = &own->uses.items[i];
    const char *value = kept(s, u);
    if (value) add(s->t->arena, &line, u->option, u->value ? value : NULL);
  }
  return line;
}

Options sizing_line(const Sizing *s, const char *target, int64_t value) {
  Arena *a = s->t->arena;
  Options line = kept_line(s);
  const char *number = arena_printf(a, "%" PRId64, value);
  if (s->parameter) add(a, &line, OPT_define, arena_printf(a, "%s=%s", s->parameter, number));
  if (s->dimension && s->vary == VARY_batch && option_given(&line, OPT_train)) add(a, &line, OPT_batch, number);
  else if (s->dimension) add(a, &line, OPT_dim, arena_printf(a, "%s=%s", s->dimension, number));
  if (s->memory) add(a, &line, OPT_memory, s->memory);
  if (target) add(a, &line, OPT_target, target);
  return line;
}

Options sizing_line_open(const Sizing *s) {
  const Options all = kept_line(s);
  Options open = {.command = CMD_plan, .named = true, .args = all.args};
  bool trains = option_given(&all, OPT_train);
  for (size_t i = 0; i < all.uses.n; i++) {
    const OptionUse *u = &all.uses.items[i];
    if (u->option != OPT_dim && (u->option != OPT_batch || !trains)) add(s->t->arena, &open, u->option, u->value);
  }
  return open;
}

/* ---- as text */

const char *sizing_line_text(const Sizing *s, const Options *line) {
  Text t = {.arena = s->t->arena};
  text_add(&t, "apc plan");
  tool_add_word(&t, s->path);
  for (size_t i = 0; i < line->uses.n; i++) {
    const OptionUse *u = &line->uses.items[i];
    text_printf(&t, " %s", option_rows[u->option].flag);
    if (u->value) tool_add_word(&t, u->value);
  }
  return text_str(&t);
}
