/* tools/cmd_explain.c - apc explain CODE: the long text of a diagnostic; --list: all codes. */
#include <ctype.h>
#include <string.h>

#include "base/nearest.h"
#include "tools/tool.h"

/* Returns "APC0217" for "APC0217", "apc0217" and "217". */
static const char *code_name(Arena *a, const char *word) {
  if (strncmp(word, "APC", 3) == 0 || strncmp(word, "apc", 3) == 0) word += 3;
  static const char zeros[] = "0000";
  size_t n = strlen(word), digits = sizeof zeros - 1;
  return arena_printf(a, "APC%s%s", zeros + (n < digits ? n : digits), word);
}

/* Prints the text in lines of at most 80 columns. */
static void print_wrapped(const char *text) {
  int column = 0;
  while (*text) {
    int n = (int)strcspn(text, " ");
    if (column && column + 1 + n > 80) {
      putchar('\n');
      column = 0;
    }
    printf("%s%.*s", column ? " " : "", n, text);
    column += n + (column ? 1 : 0);
    text += n;
    while (*text == ' ') text++;
  }
  putchar('\n');
}

static int list_codes(Tool *t) {
  if (!tool_args(t, 0, 0)) return EXIT_USAGE;
  json_t *codes = json_array();
  for (int c = 1; c < DIAG_COUNT; c++) {
    const char *code = diag_code_name((DiagCode)c), *brief = diag_brief((DiagCode)c);
    if (t->json) json_array_append_new(codes, json_pack("{s:s, s:s}", "code", code, "brief", brief));
    else printf("%s  %s\n", code, brief);
  }
  if (t->json) tool_json(t, json_pack("{s:s, s:O}", "schema", "apc.codes/1", "codes", codes));
  json_decref(codes);
  return EXIT_OK;
}

int cmd_explain(Tool *t) {
  if (option_given(&t->options, OPT_list)) return list_codes(t);
  if (!tool_args(t, 1, 1)) return EXIT_USAGE;
  const char *name = code_name(t->arena, t->options.args.items[0]);
  DiagCode code = diag_code_find(name);
  if (code == DIAG_NONE) {
    diag_error(t->diags, DIAG_usage_value, (Loc){0}, "there is no diagnostic '%s'", t->options.args.items[0]);
    if (name[3 + strspn(name + 3, "0123456789")]) { /* not a number, so no code is near */
      diag_help(t->diags, "codes are APC and four digits, as in error[APC0217]");
      return EXIT_USAGE;
    }
    Nearest near = nearest_to(name);
    for (int c = 1; c < DIAG_COUNT; c++) nearest_try(&near, diag_code_name((DiagCode)c));
    if (near.best) diag_help(t->diags, "the nearest code is %s: %s", near.best, diag_brief(diag_code_find(near.best)));
    return EXIT_USAGE;
  }
  if (option_given(&t->options, OPT_json)) {
    tool_json(t, json_pack("{s:s, s:s, s:s, s:s}", "schema", "apc.explain/1", "code", name, "brief", diag_brief(code),
                           "text", diag_text(code)));
    return EXIT_OK;
  }
  printf("%s: %s\n\n", name, diag_brief(code));
  print_wrapped(diag_text(code));
  return EXIT_OK;
}
