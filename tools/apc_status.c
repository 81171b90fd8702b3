/* tools/apc_status.c - writes docs/status.md to standard output: what exists, from the tables that implement it.
 *
 *   build/apc-status > docs/status.md
 *
 * A test compares the committed file with the output.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/topo/target.h"
#include "ir/ir.h"
#include "tools/options.h"

/* Prints a table cell, with '|' escaped. */
static void cell(const char *text) {
  for (; *text; text++) {
    if (*text == '|') putchar('\\');
    putchar(*text);
  }
}

static void state(DiagCode later) {
  if (later) printf("not yet (%s)", diag_code_name(later));
  else fputs("built", stdout);
}

static void commands(void) {
  puts("## Commands\n\n| command | does | state |\n| --- | --- | --- |");
  for (int c = 1; c < CMD_COUNT; c++) {
    printf("| `apc %s", command_rows[c].name);
    if (*command_rows[c].arguments) putchar(' ');
    cell(command_rows[c].arguments);
    printf("` | %s | ", command_rows[c].brief);
    state(command_rows[c].later);
    puts(" |");
  }
}

/* Prints "--schedule gpipe": the words that are built, or those that are not. */
static void choices(OptionId option, bool built) {
  bool any = false;
  for (int i = 0; i < choice_count; i++) {
    const ChoiceRow *c = &choice_rows[i];
    if (c->option != option || (c->later == DIAG_NONE) != built) continue;
    printf("%s`%s`", any ? ", " : built ? "" : "not yet: ", c->word);
    any = true;
  }
}

static bool has_choices(OptionId option, bool built) {
  for (int i = 0; i < choice_count; i++)
    if (choice_rows[i].option == option && (choice_rows[i].later == DIAG_NONE) == built) return true;
  return false;
}

static void options(void) {
  puts("\n## Options\n\n| option | meaning | state |\n| --- | --- | --- |");
  for (int i = 0; i < OPT_COUNT; i++) {
    const OptionRow *r = &option_rows[i];
    printf("| `%s%s", r->flag, *r->argument && *r->argument != '[' ? " " : "");
    cell(r->argument);
    fputs("` | ", stdout);
    cell(r->help);
    fputs(" | ", stdout);
    if (has_choices((OptionId)i, true)) choices((OptionId)i, true);
    else state(r->later);
    if (has_choices((OptionId)i, false)) {
      fputs("; ", stdout);
      choices((OptionId)i, false);
    }
    puts(" |");
  }
}

static void targets(void) {
  Arena *a = arena_new();
  const char *const *names = topo_target_names(a);
  puts(
      "\n## Targets\n\napc compiles programs for all of these.  GPU programs have run on one H200 "
      "(bench/results/gpu.md), "
      "with");
  puts("several ranks on it, and on stand-ins for NVIDIA's libraries (tests/doubles), but not yet on several GPUs.\n");
  for (const char *const *n = names; *n; n++) printf("%s`%s`", n == names ? "" : ", ", *n);
  putchar('\n');
  arena_free(a);
}

static void operations(void) {
  puts("\n## Operations of the IR\n\n| operation | meaning |\n| --- | --- |");
  for (int k = 1; k < OP_COUNT; k++) {
    printf("| `%s`%s | ", op_name((OpKind)k),
           op_level2_only((OpKind)k)    ? " (level 2)"
           : op_is_composite((OpKind)k) ? " (composite)"
                                        : "");
    cell(op_doc((OpKind)k));
    puts(" |");
  }
}

typedef struct Operator {
  const char *name;
  int since, until;
} Operator;

static const Operator operators[] = {
#define ONNX_OP(type, since, until, min_in, max_in, max_out, attrs, import, arg) {type, since, until},
#include "frontend/onnx/ops.def"
};

/* Operators of ONNX Runtime and of other domains of ONNX. */
static const struct {
  const char *domain, *name;
} domain_operators[] = {
#define RUNTIME_OP(type, min_in, max_in, max_out, attrs, import, arg) {"com.microsoft", type},
#define DOMAIN_OP(domain, type, min_in, max_in, max_out, attrs, import, arg) {domain, type},
#include "frontend/onnx/ops.def"
#define BODY(domain, type, ...) {domain, #type},
#include "frontend/onnx/bodies.def"
};

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Prints the operators of ONNX's own domains (`of_onnx`), with their domain, or the others. */
static void onnx_domains(bool of_onnx) {
  enum { COUNT = sizeof domain_operators / sizeof *domain_operators, MOST = 80 };
  char text[COUNT][MOST];
  const char *sorted[COUNT];
  size_t n = 0;
  for (size_t i = 0; i < COUNT; i++) {
    const char *domain = domain_operators[i].domain;
    if ((strncmp(domain, "ai.onnx.", 8) == 0) != of_onnx) continue;
    snprintf(text[n], MOST, "%s%s%s", of_onnx ? domain : "", of_onnx ? "." : "", domain_operators[i].name);
    sorted[n] = text[n], n++;
  }
  qsort(sorted, n, sizeof *sorted, by_name);
  for (size_t i = 0, shown = 0; i < n; i++)
    if (!i || strcmp(sorted[i], sorted[i - 1]) != 0) printf("%s%s", shown++ ? ", " : "", sorted[i]);
}

static void onnx(void) {
  size_t n = sizeof operators / sizeof *operators;
  puts("\n## ONNX operators\n\nWith the operator set from which each is read.\n");
  for (size_t i = 0; i < n; i++) {
    if (i && strcmp(operators[i].name, operators[i - 1].name) == 0) continue;
    printf("%s%s (%d)", i ? ", " : "", operators[i].name, operators[i].since);
  }
  puts("\n\nOf other domains of ONNX:\n");
  onnx_domains(true);
  puts("\n\nOf ONNX Runtime (domain `com.microsoft`, SimplifiedLayerNormalization also in ONNX's own):\n");
  onnx_domains(false);
  putchar('\n');
}

static void diagnostics(void) {
  puts("\n## Diagnostics\n\n`apc explain CODE` has the long text.\n\n| code | meaning |\n| --- | --- |");
  for (int c = 1; c < DIAG_COUNT; c++) {
    printf("| %s | ", diag_code_name((DiagCode)c));
    cell(diag_brief((DiagCode)c));
    puts(" |");
  }
}

int main(void) {
  puts(
      "# Status\n\nGenerated from the tables in the source by `build/apc-status > docs/status.md`; a test keeps it up "
      "to date.\n");
  commands();
  options();
  targets();
  operations();
  onnx();
  diagnostics();
  return 0;
}
