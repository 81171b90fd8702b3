/* tools/kept_options.c - see kept_options.h. */
#include "tools/kept_options.h"

#include <stdlib.h>
#include <string.h>

#include "driver/model.h"
#include "frontend/onnx/notes.h"
#include "tools/command_line.h"

/* Options that the planned function or its prediction depends on. */
static const struct {
  OptionId option;
  bool dims; /* IR text has their effect in itself */
} kept[] = {
    {OPT_dtype, false},     {OPT_assume_kernels, false},
    {OPT_train, false},     {OPT_optimizer, false},
    {OPT_trainable, false}, {OPT_freeze, false},
    {OPT_tie, false},       {OPT_pad, false},
    {OPT_untie, true},      {OPT_dim, true},
    {OPT_shape, true},      {OPT_dim_hint, true},
    {OPT_batch, true},
};
enum { KEPT = (int)(sizeof kept / sizeof *kept) };

/* Options that determine a plan themselves. */
static const OptionId forcing[] = {
#define DEGREE(name, place, label, help) OPT_##name,
#include "passes/plan/degrees.def"
#undef DEGREE
    OPT_micro_batches, OPT_micro_batch,   OPT_schedule, OPT_zero,      OPT_recompute,
    OPT_pin,           OPT_configuration, OPT_memory,   OPT_objective, OPT_optimize};

static bool is_kept(OptionId id) {
  bool is = false;
  for (int i = 0; i < KEPT; i++) is |= kept[i].option == id;
  return is;
}

static const char *word_of(Arena *a, const OptionUse *u) {
  return arena_printf(a, "%s%s%s", option_rows[u->option].flag, u->value ? "=" : "", u->value ? u->value : "");
}

const char *tool_kept_words(Tool *t, bool dims) {
  Text text = {.arena = t->arena};
  for (int i = 0; i < KEPT; i++) {
    size_t at = 0;
    if (kept[i].dims && !dims) continue;
    for (const OptionUse *u; (u = option_next(&t->options, kept[i].option, &at));)
      text_printf(&text, "%s\n", word_of(t->arena, u));
  }
  return text_str(&text);
}

/* The words of the file as a command line. */
static bool read_words(Tool *t, const char *path, const char *list, Options *out) {
  struct {
    char **items;
    size_t n, cap;
  } words = {0};
  ARENA_PUSH(t->arena, &words, arena_strdup(t->arena, "apc"));
  ARENA_PUSH(t->arena, &words, arena_strdup(t->arena, command_rows[CMD_plan].name));
  for (const char *p = list; *p;) {
    size_t n = strcspn(p, "\n");
    ARENA_PUSH(t->arena, &words, arena_strndup(t->arena, p, n));
    p += n + (p[n] == '\n');
  }
  bool ok = options_read(out, (int)words.n, words.items, diags_new(t->arena));
  for (size_t i = 0; ok && i < out->uses.n; i++) ok = is_kept(out->uses.items[i].option);
  return (ok && !out->args.n) ||
         diag_error(t->diags, DIAG_onnx_noted, (Loc){.file = path}, "apc.options has a word that is no option to keep");
}

/* Adds those that the line does not have. */
static void add_words(Tool *t, const char *path, const Options *file) {
  const Options line = t->options;
  Text added = {.arena = t->arena};
  for (size_t i = 0; i < file->uses.n; i++) {
    const OptionUse u = file->uses.items[i];
    const bool taken = option_rows[u.option].commands >> t->options.command & 1;
    if (!taken || option_given(&line, u.option)) continue;
    ARENA_PUSH(t->arena, &t->options.uses, u);
    tool_add_word(&added, word_of(t->arena, &u));
  }
  if (added.n) tool_say(t, "Using", "options of %s:%s", path, text_str(&added));
}

/* Why the plan of the file is not the plan of this line; NULL if it is. */
static const char *why_not(Tool *t, const char *target) {
  const char *asked = option_text(&t->options, OPT_target);
  if (!asked) asked = getenv("APC_TARGET");
  for (size_t i = 0; i < sizeof forcing / sizeof *forcing; i++)
    if (option_given(&t->options, forcing[i]))
      return arena_printf(t->arena, "%s is given", option_rows[forcing[i]].flag);
  if (!asked || strcmp(asked, target) != 0) return arena_printf(t->arena, "it is for --target %s", target);
  return NULL;
}

static void add_plan(Tool *t, const char *path, const char *target) {
  if (!(option_rows[OPT_plan].commands >> t->options.command & 1) || option_given(&t->options, OPT_plan)) return;
  const char *why = why_not(t, target);
  if (why) tool_say(t, "Note", "the plan in %s is not used: %s", path, why);
  else {
    ARENA_PUSH(t->arena, &t->options.uses, ((OptionUse){OPT_plan, path}));
    tool_say(t, "Using", "the plan in %s", path);
  }
}

bool tool_kept_options(Tool *t) {
  const char *path = t->options.args.n ? t->options.args.items[0] : "";
  OnnxNotes notes = {0};
  Options file;
  if (!(option_rows[OPT_target].commands >> t->options.command & 1) || model_kind(path) != MODEL_ONNX) return true;
  OnnxFile *f = onnx_file_open(diags_new(t->arena), path); /* the command reports a bad file */
  if (!f) return true;
  const OnnxNoted noted = onnx_notes_read(f, &notes, t->diags);
  onnx_file_close(f);
  if (noted != ONNX_NOTED) return true;
  if (!read_words(t, path, notes.options ? notes.options : "", &file)) return false;
  add_words(t, path, &file);
  add_plan(t, path, notes.target ? notes.target : "");
  return true;
}
