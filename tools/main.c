/* tools/main.c - apc: reads the command line, runs the command, prints what went wrong. */
#include <string.h>

#include "base/die.h"
#include "base/standard.h"
#include "tools/tool.h"

/* A command that is not built is refused with its options (tools/options.c). */
#define COMMAND_none(name) cmd_##name
#define COMMAND_later_size(name) NULL
#define COMMAND_later_calibrate(name) NULL

static int (*const commands[CMD_COUNT])(Tool *) = {
#define COMMAND(name, arguments, later, brief) [CMD_##name] = COMMAND_##later(name),
#include "tools/options.def"
#undef COMMAND
};

static int version(Tool *t, int argc, char **argv) {
  if (argc == 2) return puts("apc " APC_VERSION), EXIT_OK;
  diag_error(t->diags, DIAG_usage_argument, (Loc){0}, "--version stands alone, without '%s'", argv[2]);
  return EXIT_USAGE;
}

static int run(Tool *t, int argc, char **argv) {
  bool ok = options_read(&t->options, argc, argv, t->diags);
  tool_start(t, argv);
  if (ok && option_given(&t->options, OPT_help)) {
    if (t->options.named) help_command(t->options.command);
    else help_print();
    t->diags = diags_new(t->arena); /* whatever else the line says */
    return EXIT_OK;
  }
  if (!ok) return tool_failed(t->diags);
  int code = commands[t->options.command](t);
  return code == EXIT_OK && t->diags->errors ? tool_failed(t->diags) : code;
}

int main(int argc, char **argv) {
  standard_hold();
  Tool t = {.arena = arena_new()};
  t.diags = diags_new(t.arena);
  bool json = tool_json_wanted(argc, argv);
  if (json) die_set_listener(tool_json_died, &t);
  int code = argc > 1 && strcmp(argv[1], "--version") == 0 ? version(&t, argc, argv) : run(&t, argc, argv);
  if (argc == 1) help_print();
  tool_stages_end(&t);
  if (json && code != EXIT_OK) tool_json_failure(&t, code);
  if (!standard_output_written()) {
    diag_error(t.diags, DIAG_file_write, (Loc){0}, "standard output cannot be written");
    if (code == EXIT_OK) code = EXIT_BAD_INPUT;
  }
  diags_print(t.diags, stderr, t.color);
  arena_free(t.arena);
  return code;
}
