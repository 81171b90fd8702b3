/* tools/help.c - `apc --help` (one screen) and `apc COMMAND --help`, from the tables. */
#include <stdio.h>
#include <string.h>

#include "tools/options.h"

void tool_help_print(void) {
  puts(
      "apc compiles a neural network into one program that runs on many devices.\n"
      "  apc MODEL [--target T] [-o OUT] [options]      MODEL is .onnx, .apc or .ir\n"
      "  apc COMMAND [options] ...                      options: apc COMMAND --help");
  for (int c = 1; c < CMD_COUNT; c++)
    if (!command_rows[c].later)
      printf("  %-9s %-22s %s\n", command_rows[c].name, command_rows[c].arguments, command_rows[c].brief);
  bool later = false;
  for (int c = 1; c < CMD_COUNT; c++) {
    if (!command_rows[c].later) continue;
    printf("%s %s", later ? "" : "  not built yet:", command_rows[c].name);
    later = true;
  }
  if (later) putchar('\n');
  puts(
      "Examples:\n"
      "  apc plan model.onnx --target cpux4             show the plan and its price\n"
      "  apc model.onnx --target cpux4 -o model         one program for four ranks\n"
      "  ./model --inputs in.npz --outputs out.npz      run it; it starts its own ranks\n"
      "  apc verify model.onnx --target cpux4           compare with one rank; prove it");
}

/* Prints "-o, --out OUT" and returns its width. */
static int print_left(const OptionRow *r) {
  char text[96];
  int n = r->letter ? snprintf(text, sizeof text, "-%c, ", r->letter) : 0;
  n += snprintf(text + n, sizeof text - (size_t)n, "%s%s%s", r->flag,
                r->argument[0] && r->argument[0] != '[' ? " " : "", r->argument);
  return printf("  %-32s", text);
}

/* Prints the words that are built, for an option most of whose words are not. */
static void print_built(OptionId id) {
  for (int i = 0; i < choice_count; i++)
    if (choice_rows[i].option == id && !choice_rows[i].later) printf(" (built: %s)", choice_rows[i].word);
}

static void print_option(OptionId id) {
  const OptionRow *r = &option_rows[id];
  if (print_left(r) > 34) printf("\n%34s", "");
  printf(" %s", r->help);
  if (option_is_later(id)) print_built(id);
  putchar('\n');
}

/* Prints the options of a group that the command takes, built ones or those that are not; group OG_COUNT stands for
 * all. */
static void print_group(Command c, int group, bool later, const char *title) {
  bool titled = false;
  for (int i = 0; i < OPT_COUNT; i++) {
    const OptionRow *r = &option_rows[i];
    if ((group != OG_COUNT && (int)r->group != group) || !(r->commands & (1u << c)) ||
        option_is_later((OptionId)i) != later)
      continue;
    if (!titled) printf("\n%s\n", title);
    titled = true;
    print_option((OptionId)i);
  }
}

void tool_help_command(Command c) {
  const CommandRow *row = &command_rows[c];
  printf("apc %s %s%s[options]\n  %s%s\n", row->name, row->arguments, row->arguments[0] ? " " : "", row->brief,
         row->later ? " (not yet)" : "");
  for (int g = 0; g < OG_COUNT; g++) print_group(c, g, false, option_group_names[g]);
  print_group(c, OG_COUNT, true, "Not built yet (exit 5)");
}
