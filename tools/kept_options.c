/* tools/kept_options.c - see kept_options.h. */
#include "tools/kept_options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "driver/model.h"
#include "frontend/onnx/notes.h"
#include "frontend/topo/target.h"
#include "tools/command_line.h"

/* Options that the planned function or its prediction depends on. */
static const struct {
  OptionId option;
  bool dims; /* IR text has their effect in itself */
} kept[] = {
    {OPT_dtype, false},     {OPT_assume_kernels, false}, {OPT_train, false}, {OPT_optimizer, false},
    {OPT_trainable, false}, {OPT_freeze, false},         {OPT_lora, false},  {OPT_tie, false},
    {OPT_pad, false},       {OPT_layer_drop, false},     {OPT_untie, true},  {OPT_dim, true},
    {OPT_shape, true},      {OPT_dim_hint, true},        {OPT_batch, true},  {OPT_kv_cache, true},
};
enum { KEPT = (int)(sizeof kept / sizeof *kept) };

/* Options that determine a plan themselves. */
static const OptionId forcing[] = {
#define DEGREE(name, place, label, help) OPT_##name,
#include "passes/plan/degrees.def"
#undef DEGREE
    OPT_micro_batches, OPT_micro_batch,   OPT_schedule, OPT_zero,      OPT_recompute,
    OPT_pin,           OPT_configuration, OPT_memory,   OPT_objective, OPT_optimize};

/* Options of which a line has one per name: of a dimension, an input, a table of --pad. */
static bool is_named(OptionId id) { return id == OPT_dim || id == OPT_dim_hint || id == OPT_shape || id == OPT_pad; }

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

/* The uses with lists of bindings, as in --dim a=1,b=2, split into one use for each name. */
static Options one_by_one(Arena *a, const Options *o) {
  Options out = *o;
  memset(&out.uses, 0, sizeof out.uses);
  for (size_t i = 0; i < o->uses.n; i++) {
    const OptionUse *u = &o->uses.items[i];
    const char *p = u->value;
    if (option_rows[u->option].kind != OK_BINDING) ARENA_PUSH(a, &out.uses, *u);
    else
      for (size_t n; *p; p += n + (p[n] == ',')) {
        n = strcspn(p, ",");
        ARENA_PUSH(a, &out.uses, ((OptionUse){u->option, arena_strndup(a, p, n)}));
      }
  }
  return out;
}

static const char *named_by(Arena *a, const OptionUse *u) {
  const char *name, *size;
  split_size(a, u->value, strlen(u->value), &name, &size);
  return name;
}

/* True if the line has the option, or, of an option with names, the name. */
static bool replaces(Arena *a, const Options *line, const OptionUse *u) {
  size_t at = 0;
  for (const OptionUse *l; (l = option_next(line, u->option, &at));)
    if (!is_named(u->option) || strcmp(named_by(a, l), named_by(a, u)) == 0) return true;
  return false;
}

/* Adds those that the line does not have. */
static void add_words(Tool *t, const char *path, const Options *line, const Options *file) {
  Text added = {.arena = t->arena};
  for (size_t i = 0; i < file->uses.n; i++) {
    const OptionUse u = file->uses.items[i];
    const bool taken = option_rows[u.option].commands >> t->options.command & 1;
    if (!taken || replaces(t->arena, line, &u)) continue;
    ARENA_PUSH(t->arena, &t->options.uses, u);
    tool_add_word(&added, word_of(t->arena, &u));
  }
  if (added.n) tool_say(t, "Using", "options of %s:%s", path, text_str(&added));
}

static bool has_use(const Options *o, const OptionUse *u) {
  size_t at = 0;
  for (const OptionUse *x; (x = option_next(o, u->option, &at));)
    if (!x->value == !u->value && (!u->value || strcmp(x->value, u->value) == 0)) return true;
  return false;
}

/* Returns an option of the line that makes another function of the model than the one that the plan is for; NULL if
 * there is none.  An option that the line repeats as the file has it changes nothing. */
static const OptionUse *change(const Options *line, const Options *file) {
  for (size_t i = 0; i < line->uses.n; i++) {
    const OptionUse *u = &line->uses.items[i];
    if (is_kept(u->option) && !has_use(file, u)) return u;
  }
  for (size_t i = 0; i < file->uses.n; i++) {
    const OptionUse *u = &file->uses.items[i];
    size_t at = 0;
    if (!is_named(u->option) && option_given(line, u->option) && !has_use(line, u))
      return option_next(line, u->option, &at);
  }
  return NULL;
}

const char *tool_kept_machine(Tool *t, const char *target) {
  const char *text = topo_target_text(diags_new(t->arena), t->arena, target, NULL);
  return text ? arena_printf(t->arena, "%016" PRIx64, hash64(text, strlen(text), 0)) : "";
}

/* Why the plan of the file is not the plan of this line; NULL if it is. */
static const char *why_not(Tool *t, const Options *line, const Options *file, const OnnxNotes *notes) {
  const char *asked = option_text(&t->options, OPT_target), *target = notes->target ? notes->target : "";
  if (!asked) asked = getenv("APC_TARGET");
  for (size_t i = 0; i < sizeof forcing / sizeof *forcing; i++)
    if (option_given(&t->options, forcing[i]))
      return arena_printf(t->arena, "%s is given", option_rows[forcing[i]].flag);
  if (!asked || strcmp(asked, target) != 0) return arena_printf(t->arena, "it is for --target %s", target);
  const OptionUse *other = change(line, file);
  if (other) return arena_printf(t->arena, "%s changes what is planned", word_of(t->arena, other));
  if (notes->machine && strcmp(tool_kept_machine(t, target), notes->machine) != 0)
    return arena_printf(t->arena, "target %s has changed since", target);
  return NULL;
}

static void add_plan(Tool *t, const char *path, const char *why) {
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
  file = one_by_one(t->arena, &file);
  const Options line = one_by_one(t->arena, &t->options);
  const bool plans = option_rows[OPT_plan].commands >> line.command & 1 && !option_given(&line, OPT_plan);
  add_words(t, path, &line, &file);
  if (plans) add_plan(t, path, why_not(t, &line, &file, &notes));
  return true;
}
