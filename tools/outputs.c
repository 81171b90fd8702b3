/* tools/outputs.c - see outputs.h. */
#include "tools/outputs.h"

#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "tools/build.h"

typedef struct FileUses {
  FileUse *items;
  size_t n, cap;
} FileUses;

/* ---- files on the command line */

typedef enum Way { READS, WRITES } Way;

static const struct {
  OptionId option;
  Way way;
  bool named;   /* its values are NAME=@FILE */
  bool repeats; /* all uses count; otherwise only the last */
} options[] = {
    {OPT_target, READS, false, false},     {OPT_plan, READS, false, false},  {OPT_weights, READS, false, false},
    {OPT_inputs, READS, false, true},      {OPT_input, READS, true, true},   {OPT_const, READS, true, true},
    {OPT_expect, READS, false, false},     {OPT_output, WRITES, true, true}, {OPT_outputs, WRITES, false, false},
    {OPT_save_plan, WRITES, false, false},
};

/* Returns the file that a value names; NULL if none. */
static const char *file_of(Arena *a, OptionId option, bool named, const char *value) {
  const char *topo = strstr(value, ".topo");
  if (option == OPT_target)
    return topo ? arena_strndup(a, value, (size_t)(topo - value) + strlen(".topo"))
                : NULL; /* FILE.topo or FILE.topoxN */
  if (option == OPT_weights) return strcmp(value, "ref") != 0 && strcmp(value, "embed") != 0 ? value : NULL;
  if (!named) return value;
  const char *at = value[0] == '@' ? value : strstr(value, "=@");
  return at ? strchr(at, '@') + 1 : NULL;
}

static void add_value(Tool *t, FileUses *list, OptionId option, bool named, const char *value) {
  const char *file = file_of(t->arena, option, named, value);
  if (file) ARENA_PUSH(t->arena, list, ((FileUse){option_rows[option].flag, file}));
}

static void add_options(Tool *t, FileUses *list, Way way) {
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    const char *last = option_text(&t->options, options[i].option);
    if (options[i].way != way || !last) continue;
    size_t at = 0;
    if (!options[i].repeats) add_value(t, list, options[i].option, options[i].named, last);
    else
      for (const OptionUse *u; (u = option_next(&t->options, options[i].option, &at));)
        add_value(t, list, options[i].option, options[i].named, u->value);
  }
}

static void add_temps(Tool *t, FileUses *list) {
  const char *name = model_name(t->arena, t->options.args.items[0]), *dir = tool_temps(t, name);
  if (!dir) return;
  ARENA_PUSH(t->arena, list, ((FileUse){"--save-temps", arena_printf(t->arena, "%s/%s.ir", dir, name)}));
  ARENA_PUSH(t->arena, list, ((FileUse){"--save-temps", arena_printf(t->arena, "%s/%s.plan", dir, name)}));
}

/* Returns the first use in the list of the same file; NULL if none. */
static const FileUse *find_same(const FileUse *list, size_t n, const char *path) {
  for (size_t i = 0; i < n; i++)
    if (file_same(list[i].path, path)) return &list[i];
  return NULL;
}

/* ---- */

static bool refuse(Tool *t, const FileUse *output, const char *why, const FileUse *other) {
  diag_error(t->diags, DIAG_usage_value, (Loc){0}, "%s would write '%s', %s %s", output->what, output->path, why,
             other->what);
  diag_help(t->diags, "name another file");
  return false;
}

/* Reports files that cannot be written before hours of planning.  The folder of --save-temps is made later. */
static bool check_writable(Tool *t, const FileUses *writes) {
  struct stat st;
  bool ok = true;
  for (size_t i = 0; i < writes->n; i++) {
    const FileUse *f = &writes->items[i];
    const char *slash = strrchr(f->path, '/'),
               *folder = slash ? arena_strndup(t->arena, f->path, (size_t)(slash - f->path)) : "";
    bool made = strcmp(f->what, "--save-temps") == 0 && *folder && stat(folder, &st) != 0;
    if (strcmp(f->path, "-") != 0) ok = file_write_check(t->diags, made ? folder : f->path) && ok;
  }
  return ok;
}

bool outputs_check(Tool *t, const FileUse *files, size_t n) {
  FileUses reads = {0}, writes = {0};
  ARENA_PUSH(t->arena, &reads,
             ((FileUse){t->options.command == CMD_convert ? "IN" : "MODEL", t->options.args.items[0]}));
  add_options(t, &reads, READS);
  for (size_t i = 0; i < n; i++) ARENA_PUSH(t->arena, &writes, files[i]);
  add_options(t, &writes, WRITES);
  add_temps(t, &writes);
  for (size_t i = 0; i < writes.n; i++) {
    const FileUse *output = &writes.items[i], *read = find_same(reads.items, reads.n, output->path);
    if (read) return refuse(t, output, "which is read as", read);
    const FileUse *written = find_same(writes.items, i, output->path);
    if (written) return refuse(t, output, "which is written by", written);
  }
  t->outputs = writes.items;
  t->noutputs = writes.n;
  return check_writable(t, &writes);
}

bool outputs_check_weights(Tool *t, const Module *m) {
  for (size_t i = 0; i < m->blobs.n; i++) {
    const FileUse *output = find_same(t->outputs, t->noutputs, m->blobs.items[i].path);
    if (output) return refuse(t, output, "which is read as", &(FileUse){"weights of MODEL", m->blobs.items[i].path});
  }
  return true;
}
