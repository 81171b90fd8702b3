/* runtime/stub/help.c - what a compiled program says of itself: --help, --version and --completion.
 *
 * The options come from options.def, inputs and outputs from the tables of the program; weights are not read.  A
 * completion script completes options, and the values that are words; everything else completes to files.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "program/artifact.h"
#include "runtime/host/host.h"
#include "runtime/stub/stub.h"

typedef enum Mode { NO, NEEDS, MAY } Mode;

typedef struct HelpRow {
  const char *name, *argument;
  Mode mode;
  const char *help; /* NULL: a row that begins a group, called `name` */
} HelpRow;

static const HelpRow rows[] = {
#define GROUP(title) {title, "", NO, NULL},
#define OPTION(name, argument, mode, help) {#name, argument, mode, help},
#include "runtime/stub/options.def"
#undef OPTION
};

enum { ROWS = sizeof rows / sizeof *rows };

/* Writes the flag without its dashes: "thread-count". */
static const char *flag_of(const HelpRow *r, char flag[32]) {
  snprintf(flag, 32, "%s", r->name);
  for (char *c = flag; *c; c++)
    if (*c == '_') *c = '-';
  return flag;
}

static int open_tables(const char *program, Artifact *a) {
  RtError error = {0};
  if (!artifact_open_tables("/proc/self/exe", program, a, &error)) return 0;
  return stub_fail(rt_exit_code(error.status), "%s", error.text);
}

int stub_help(const char *program) {
  char flag[32];
  printf("usage: %s [options]\n", program);
  for (const HelpRow *r = rows; r < rows + ROWS; r++) {
    if (!r->help) {
      printf("\n%s\n", r->name);
      continue;
    }
    const char *open = r->mode == MAY ? "[=" : *r->argument ? " " : "";
    int n = printf("  --%s%s%s%s", flag_of(r, flag), open, r->argument, r->mode == MAY ? "]" : "");
    printf("%*s %s\n", n < 32 ? 32 - n : 0, "", r->help);
  }
  Artifact a;
  int code = open_tables(program, &a);
  if (code) return code;
  Arena *arena = arena_new();
  Text t = {.arena = arena};
  host_ports_text(&a.program, &t);
  printf("\nThis program\n%s", text_str(&t));
  arena_free(arena);
  artifact_close(&a);
  return 0;
}

int stub_version(const char *program) {
  Artifact a;
  int code = open_tables(program, &a);
  if (code) return code;
  const Program *p = &a.program;
  printf("%s for %s, by %s\n", program_text(p, p->header->name), program_text(p, p->header->target),
         program_text(p, p->header->producer));
  printf("program version %" PRIu32 ", hash %016" PRIx64 "\n", p->header->version, p->header->table_hash);
  artifact_close(&a);
  return 0;
}

/* ---- completion */

/* True if the values of an option are the words of its argument: "tcp|mpi". */
static bool has_words(const HelpRow *r) { return *r->argument && !strpbrk(r->argument, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"); }

static bool is_option(const HelpRow *r) { return r->help != NULL; }

/* Prints the words of an argument, separated by blanks. */
static void print_words(const HelpRow *r) {
  for (const char *c = r->argument; *c; c++) putchar(*c == '|' ? ' ' : *c);
}

/* Prints text inside '...'; zsh also reads brackets, colons and backslashes. */
static void print_quoted(const char *text, bool zsh) {
  for (; *text; text++) {
    if (*text == '\'') fputs("'\\''", stdout);
    else if (zsh && strchr("[]:\\", *text)) printf("\\%c", *text);
    else putchar(*text);
  }
}

static void print_bash(const char *command) {
  char flag[32];
  puts(
      "_apc_model() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words='' word\n"
      "  # '=' is a word of its own here\n"
      "  if [[ $cur == '=' ]]; then cur=''\n"
      "  elif [[ $prev == '=' && $COMP_CWORD -gt 1 ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}\n"
      "  fi\n"
      "  COMPREPLY=()\n"
      "  case $prev in");
  for (const HelpRow *r = rows; r < rows + ROWS; r++) {
    if (!is_option(r) || !has_words(r)) continue;
    printf("    --%s) words='", flag_of(r, flag));
    print_words(r);
    puts("' ;;");
  }
  fputs("  esac\n  [[ -z $words && $cur == -* ]] && words='", stdout);
  for (const HelpRow *r = rows; r < rows + ROWS; r++)
    if (is_option(r)) printf("--%s ", flag_of(r, flag));
  puts(
      "'\n"
      "  while IFS='' read -r word; do COMPREPLY+=(\"$word\"); done < <(compgen -W \"$words\" -- \"$cur\")\n"
      "}");
  printf("complete -o default -F _apc_model %s\n", command);
}

static void print_zsh(const char *command) {
  char flag[32];
  puts("_apc_model() {\n  _arguments \\");
  for (const HelpRow *r = rows; r < rows + ROWS; r++) {
    if (!is_option(r)) continue;
    printf("    '%s--%s%s[", *r->argument ? "*" : "", flag_of(r, flag),
           r->mode == MAY ? "=-"
           : *r->argument ? "="
                          : "");
    print_quoted(r->help, true);
    putchar(']');
    if (*r->argument) {
      printf("%s", r->mode == MAY ? "::" : ":");
      print_quoted(r->argument, true);
      putchar(':');
      if (has_words(r)) putchar('('), print_words(r), putchar(')');
      else fputs("_files", stdout);
    }
    puts("' \\");
  }
  printf("    '*:file:_files'\n}\ncompdef _apc_model %s\n", command);
}

static void print_fish(const char *command) {
  char flag[32];
  for (const HelpRow *r = rows; r < rows + ROWS; r++) {
    if (!is_option(r)) continue;
    printf("complete -c %s -l %s", command, flag_of(r, flag));
    if (has_words(r)) printf("%s -a '", r->mode == MAY ? "" : " -x"), print_words(r), putchar('\'');
    else if (r->mode == NEEDS) fputs(" -r", stdout);
    fputs(" -d '", stdout);
    for (const char *c = r->help; *c; c++) printf(*c == '\'' || *c == '\\' ? "\\%c" : "%c", *c);
    puts("'");
  }
}

int stub_completion(const char *program, const char *shell) {
  const char *slash = strrchr(program, '/'), *command = slash ? slash + 1 : program;
  const char *safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-";
  void (*print)(const char *) = strcmp(shell, "bash") == 0   ? print_bash
                                : strcmp(shell, "zsh") == 0  ? print_zsh
                                : strcmp(shell, "fish") == 0 ? print_fish
                                                             : NULL;
  if (!print) return stub_fail(APC_USAGE, "--completion %s: expected bash, zsh or fish", shell);
  if (!*command || *command == '-' || command[strspn(command, safe)])
    return stub_fail(APC_USAGE, "the name of this program is not a plain word; rename it to use completion");
  printf("# Completion of %s for %s. Generated by %s --completion %s.\n", command, shell, command, shell);
  print(command);
  return 0;
}
