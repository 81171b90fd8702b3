/* tools/options.c - see options.h. */
#include "tools/options.h"

#include <string.h>

#include "base/nearest.h"
#include "tools/option_values.h"

#define B(command) (1u << CMD_##command)
#define MAKE (B(compile) | B(plan) | B(run) | B(verify) | B(bench) | B(size))
#define RUN (B(run) | B(verify) | B(bench))
#define ALL (~0u)
#define DIAG_none DIAG_NONE

const char *const option_group_names[OG_COUNT] = {"Common", "Model", "Training", "Plan", "Data", "Output", "Messages"};

const CommandRow command_rows[CMD_COUNT] = {
#define COMMAND(name, word, arguments, later, brief) [CMD_##name] = {word, arguments, DIAG_##later, brief},
#include "tools/options.def"
#undef COMMAND
};

const OptionRow option_rows[OPT_COUNT] = {
#define OPTION(name, flag, letter, kind, argument, commands, group, later, help) \
  [OPT_##name] = {#name, flag, letter, OK_##kind, argument, commands, OG_##group, DIAG_##later, help},
#include "tools/options.def"
#undef OPTION
};

const ChoiceRow choice_rows[] = {
#define CHOICE(option, word, later) {OPT_##option, word, DIAG_##later},
#include "tools/options.def"
#undef CHOICE
};
const int choice_count = (int)(sizeof choice_rows / sizeof *choice_rows);

bool option_is_later(OptionId id) {
  int built = 0, later = 0;
  for (int i = 0; i < choice_count; i++)
    if (choice_rows[i].option == id) choice_rows[i].later ? later++ : built++;
  return option_rows[id].later != DIAG_NONE || (later > 0 && built <= 1);
}

typedef struct Reader {
  Options *o;
  Diags *d;
  char **argv;
  int argc, i;
} Reader;

Command command_find(const char *word) {
  for (int c = 1; c < CMD_COUNT; c++)
    if (strcmp(command_rows[c].name, word) == 0) return (Command)c;
  return CMD_none;
}

void command_suggest(Diags *d, const char *word) {
  Nearest near = nearest_to(word);
  for (int c = 1; c < CMD_COUNT; c++) nearest_try(&near, command_rows[c].name);
  if (near.best) diag_help(d, "the nearest command is '%s'", near.best);
  else diag_help(d, "`apc --help` lists the commands");
}

/* ---- finding an option */

static bool takes_value(OptionKind k) { return k != OK_FLAG; }
static bool value_only_with_equals(OptionKind k) { return k == OK_TEXT_MAYBE || k == OK_CHOICE_MAYBE; }

/* Returns the option that a word names, and sets *value to the value in the word; NULL if it has none. */
static const OptionRow *find_option(const char *word, const char **value) {
  *value = NULL;
  size_t n = strcspn(word, "=");
  for (int i = 0; i < OPT_COUNT; i++) {
    const OptionRow *r = &option_rows[i];
    if (strlen(r->flag) == n && strncmp(r->flag, word, n) == 0) {
      if (word[n]) *value = word + n + 1;
      return r;
    }
  }
  for (int i = 0; word[1] != '-' && i < OPT_COUNT; i++) { /* -oFILE, -DNAME=VALUE, -v */
    const OptionRow *r = &option_rows[i];
    char letter = r->letter ? r->letter : r->flag[1];
    if (letter != word[1] || (word[2] && !takes_value(r->kind))) continue;
    if (word[2]) *value = word + 2;
    return r;
  }
  return NULL;
}

/* True if a word in the place of a value is more likely the next option.  A value that begins like an option can be
 * written after "=". */
static bool is_option(const char *word) {
  const char *value;
  const OptionRow *r = strncmp(word, "--", 2) == 0 ? find_option(word, &value) : NULL;
  return r != NULL;
}

static bool unknown_option(Reader *r, const char *word) {
  size_t n = strcspn(word, "=");
  char *flag = arena_strndup(r->d->arena, word, n);
  diag_error(r->d, DIAG_usage_option, (Loc){0}, "unknown option '%s'", flag);
  Nearest near = nearest_to(flag);
  for (int i = 0; i < OPT_COUNT && flag[1] == '-'; i++) /* single letters are all near each other */
    if (!r->o->command || option_rows[i].commands & (1u << r->o->command)) nearest_try(&near, option_rows[i].flag);
  if (near.best) diag_help(r->d, "the nearest option is '%s'", near.best);
  else
    diag_help(r->d, "`apc %s--help` lists the options",
              r->o->command ? arena_printf(r->d->arena, "%s ", command_rows[r->o->command].name) : "");
  return false;
}

static bool read_option(Reader *r) {
  const char *word = r->argv[r->i], *value;
  const OptionRow *row = find_option(word, &value);
  if (!row) return unknown_option(r, word);
  if (!takes_value(row->kind) && value)
    return diag_error(r->d, DIAG_usage_value, (Loc){0}, "option '%s' takes no value", row->flag);
  if (takes_value(row->kind) && !value_only_with_equals(row->kind) && !value) {
    if (r->i + 1 >= r->argc)
      return diag_error(r->d, DIAG_usage_value, (Loc){0}, "option '%s' needs a value: %s", row->flag, row->argument);
    value = r->argv[++r->i];
    if (is_option(value)) {
      diag_error(r->d, DIAG_usage_value, (Loc){0}, "option '%s' needs a value: %s; '%s' is an option", row->flag,
                 row->argument, value);
      r->i--; /* read it as the option */
      return false;
    }
  }
  OptionUse use = {(OptionId)(row - option_rows), value};
  ARENA_PUSH(r->d->arena, &r->o->uses, use);
  return !value || option_value_check(r->d, use.option, value);
}

/* ---- the whole line */

/* The first word that is no option is the command if the table has it; otherwise it is a model. */
static void take_argument(Reader *r, const char *word) {
  if (!r->o->command) {
    r->o->command = command_find(word);
    r->o->named = r->o->command != CMD_none;
    if (r->o->named) return;
    r->o->command = CMD_compile;
  }
  ARENA_PUSH(r->d->arena, &r->o->args, word);
}

/* Options may come before the command, but the nearest names depend on the command, so it is found first. */
static bool read_words(Reader *r) {
  bool ok = true;
  for (r->i = 1; r->i < r->argc; r->i++) {
    const char *word = r->argv[r->i];
    if (strcmp(word, "--") == 0) {
      while (++r->i < r->argc) take_argument(r, r->argv[r->i]);
      break;
    }
    if (word[0] == '-' && word[1]) ok = read_option(r) && ok;
    else take_argument(r, word);
  }
  return ok;
}

static bool check_accepted(const Options *o, Diags *d) {
  bool ok = true;
  if (command_rows[o->command].later) return true; /* its own diagnostic suffices */
  for (size_t i = 0; i < o->uses.n; i++) {
    const OptionRow *row = &option_rows[o->uses.items[i].option];
    if (!(row->commands & (1u << o->command)))
      ok = diag_error(d, DIAG_usage_option, (Loc){0}, "`apc %s` takes no option '%s'", command_rows[o->command].name,
                      row->flag);
  }
  return ok;
}

/* Refuses parts of the contract that are not built.  Usage errors come first: a misspelt line is not "not built
 * yet". */
static bool check_built(const Options *o, Diags *d) {
  bool ok = true;
  const CommandRow *c = &command_rows[o->command];
  if (c->later) ok = diag_error(d, c->later, (Loc){0}, "`apc %s` is not built yet", c->name);
  for (size_t i = 0; i < o->uses.n; i++) {
    const OptionUse *u = &o->uses.items[i];
    const OptionRow *row = &option_rows[u->option];
    if (row->later) ok = diag_error(d, row->later, (Loc){0}, "option '%s' is not built yet", row->flag);
    else if (u->value) ok = option_choices_built(d, u->option, u->value) && ok;
  }
  return ok;
}

/* A first word that is neither a command nor looks like a file was probably meant as a command. */
static bool check_command_typo(const Options *o, Diags *d) {
  if (o->command != CMD_compile || o->args.n == 0) return true;
  const char *word = o->args.items[0];
  if (strpbrk(word, "./")) return true;
  diag_error(d, DIAG_usage_command, (Loc){0}, "'%s' is neither a command nor a model (.onnx, .apc, .ir)", word);
  command_suggest(d, word);
  return false;
}

bool options_read(Options *o, int argc, char **argv, Diags *d) {
  Reader r = {.o = o, .d = d, .argv = argv, .argc = argc};
  *o = (Options){0};
  bool ok = read_words(&r);
  if (option_given(o, OPT_help)) return true; /* --help wins over errors of the line */
  if (!o->command) {
    if (ok) diag_error(d, DIAG_usage_argument, (Loc){0}, "no model and no command given");
    if (ok) diag_help(d, "usage: apc MODEL [options], or apc COMMAND ...; `apc --help` lists the commands");
    return false;
  }
  ok = ok && check_command_typo(o, d);
  ok = check_accepted(o, d) && ok;
  return ok && check_built(o, d);
}

/* ---- reading the result */

Options options_with(Arena *a, const Options *given, OptionId id, const char *value) {
  Options o = *given;
  o.uses.items = ARENA_ARRAY(a, OptionUse, given->uses.n + 1);
  o.uses.n = 0, o.uses.cap = given->uses.n + 1;
  for (size_t i = 0; i < given->uses.n; i++)
    if (given->uses.items[i].option != id) o.uses.items[o.uses.n++] = given->uses.items[i];
  o.uses.items[o.uses.n++] = (OptionUse){id, value};
  return o;
}

const OptionUse *option_next(const Options *o, OptionId id, size_t *at) {
  while (*at < o->uses.n) {
    const OptionUse *u = &o->uses.items[(*at)++];
    if (u->option == id) return u;
  }
  return NULL;
}

static const OptionUse *last_use(const Options *o, OptionId id) {
  const OptionUse *last = NULL;
  size_t at = 0;
  for (const OptionUse *u; (u = option_next(o, id, &at));) last = u;
  return last;
}

bool option_given(const Options *o, OptionId id) { return last_use(o, id) != NULL; }

const char *option_text(const Options *o, OptionId id) {
  const OptionUse *u = last_use(o, id);
  return u ? u->value : NULL;
}

int64_t option_int(const Options *o, OptionId id, int64_t otherwise) {
  const char *text = option_text(o, id);
  int64_t v;
  return text && tool_parse_whole(text, &v) ? v : otherwise;
}

double option_real(const Options *o, OptionId id, double otherwise) {
  const char *text = option_text(o, id);
  double v;
  if (!text) return otherwise;
  if (option_rows[id].kind == OK_SIZE) return tool_parse_size(text, &v) ? v : otherwise;
  return tool_parse_real(text, &v) ? v : otherwise;
}
