/* tools/help.c - `apc --help` (one screen) and `apc COMMAND --help`, from the tables. */
#include <stdio.h>
#include <string.h>

#include "tools/options.h"

void help_print(void) {
  puts("apc compiles a neural network into one program that runs on many devices.\n\n"
       "  apc MODEL [--target T] [-o OUT] [options]      MODEL is .onnx, .apc or .ir\n"
       "  apc COMMAND [options] ...                      options: apc COMMAND --help\n");
  for (int c = 1; c < CMD_COUNT; c++)
    printf("  %-8s %-22s %s%s\n", command_rows[c].name, command_rows[c].arguments, command_rows[c].brief,
           command_rows[c].later ? " (not yet)" : "");
  puts("\nExamples:\n"
       "  apc plan model.onnx --target cpux4             see the plan and its price\n"
       "  apc model.onnx --target cpux4 -o model         one program for four ranks\n"
       "  ./model --inputs in.npz --outputs out.npz      it starts its own ranks\n"
       "  apc verify model.onnx --target cpux4           is it right?\n");
}

/* "-o, --out OUT" */
static int print_left(const OptionRow *r) {
  char text[96];
  int n = r->letter ? snprintf(text, sizeof text, "-%c, ", r->letter) : 0;
  n += snprintf(text + n, sizeof text - (size_t)n, "%s%s%s", r->flag, r->argument[0] && r->argument[0] != '[' ? " " : "", r->argument);
  return printf("  %-32s", text);
}

static void print_option(const OptionRow *r) {
  if (print_left(r) > 34) printf("\n%34s", "");
  printf(" %s%s\n", r->help, r->later ? " (not yet)" : "");
}

void help_command(Command c) {
  const CommandRow *row = &command_rows[c];
  printf("apc %s %s%s[options]\n  %s%s\n", row->name, row->arguments, row->arguments[0] ? " " : "", row->brief, row->later ? " (not yet)" : "");
  for (int g = 0; g < OG_COUNT; g++) {
    bool titled = false;
    for (int i = 0; i < OPT_COUNT; i++) {
      if (option_rows[i].group != (OptionGroup)g || !(option_rows[i].commands & (1u << c))) continue;
      if (!titled) printf("\n%s\n", option_group_names[g]);
      titled = true;
      print_option(&option_rows[i]);
    }
  }
}
