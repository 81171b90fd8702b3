/* tools/main.c - apc: reads the command line, runs the command, prints diagnostics. */
#include <limits.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/die.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/lost_pages.h"
#include "base/secure.h"
#include "base/standard.h"
#include "tools/kept_options.h"
#include "tools/tool.h"
#include "tools/world.h"

#define COMMAND_none(name) cmd_##name

static int (*const commands[CMD_COUNT])(Tool *) = {
#define COMMAND(name, word, arguments, later, brief) [CMD_##name] = COMMAND_##later(name),
#include "tools/options.def"
#undef COMMAND
};

int cmd_version(Tool *t) {
  if (!tool_args(t, 0, 0)) return EXIT_USAGE;
  if (t->json) tool_json(t, json_pack("{s:s, s:s}", "schema", "apc.version/1", "version", APC_VERSION));
  else puts("apc " APC_VERSION);
  return EXIT_OK;
}

int cmd_help(Tool *t) {
  if (!tool_args(t, 0, 1)) return EXIT_USAGE;
  const char *word = t->options.args.n ? t->options.args.items[0] : NULL;
  Command c = word ? command_find(word) : CMD_none;
  if (c) return tool_help_command(c), EXIT_OK;
  if (!word) return tool_help_print(), EXIT_OK;
  diag_error(t->diags, DIAG_usage_command, (Loc){0}, "there is no command '%s'", word);
  command_suggest(t->diags, word);
  return EXIT_USAGE;
}

static int version(Tool *t, int argc, char **argv) {
  if (argc == 2) return puts("apc " APC_VERSION), EXIT_OK;
  diag_error(t->diags, DIAG_usage_argument, (Loc){0}, "--version takes no arguments; unexpected '%s'", argv[2]);
  return EXIT_USAGE;
}

static int run(Tool *t, int argc, char **argv) {
  bool ok = options_read(&t->options, argc, argv, t->diags);
  tool_start(t, argv);
  if (ok && option_given(&t->options, OPT_help)) {
    if (t->options.named) tool_help_command(t->options.command);
    else tool_help_print();
    t->diags = diags_new(t->arena); /* --help wins over errors of the line */
    return EXIT_OK;
  }
  if (!ok || !tool_kept_options(t)) return tool_failed(t->diags);
  int (*command)(Tool *) = commands[t->options.command];
  int code = option_given(&t->options, OPT_world) ? tool_world(t, command) : command(t);
  return code == EXIT_OK && t->diags->errors ? tool_failed(t->diags) : code;
}

/* Prints the diagnostics; returns the exit code. */
static int end(Tool *t, int code) {
  tool_stages_end(t);
  if (t->json && code != EXIT_OK) tool_json_failure(t, code);
  if (!standard_output_written()) {
    diag_error(t->diags, DIAG_file_write, (Loc){0}, "standard output cannot be written");
    if (code == EXIT_OK) code = EXIT_BAD_INPUT;
  }
  diags_print(t->diags, stderr, t->color);
  return code;
}

/* Planning one candidate frees memory that the next one requests again: returning it to the system in between took a
 * quarter of the time of planning GPT-3 on 1,024 GPUs. */
static void keep_freed_memory(void) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20); /* the largest allowed value */
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
}

/* A mapped file was truncated.  The faulting instruction was ours and holds no lock. */
static void end_lost(const char *path, void *context) {
  Tool *t = context;
  diag_error(t->diags, DIAG_file_read, file_loc(t->diags, path),
             "cannot read the file: it was truncated while apc read it");
  _exit(end(t, EXIT_BAD_INPUT));
}

int main(int argc, char **argv) {
  standard_hold();
  standard_show();
  file_limit_refuses();
  if (secure_execution()) {
    fputs("error: apc does not run with the rights of another user (a set-uid or set-gid copy, or file capabilities)\n",
          stderr);
    return EXIT_MISSING;
  }
  json_must_have_memory();
  keep_freed_memory();
  Tool t = {.arena = arena_new()};
  t.diags = diags_new(t.arena);
  t.json = tool_json_wanted(argc, argv);
  if (t.json) die_set_listener(tool_json_died, &t);
  lost_pages_handle(end_lost, &t);
  int code = argc > 1 && strcmp(argv[1], "--version") == 0 ? version(&t, argc, argv) : run(&t, argc, argv);
  if (argc == 1) tool_help_print();
  code = end(&t, code);
  arena_free(t.arena);
  return code;
}
