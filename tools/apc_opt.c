/* tools/apc_opt.c - runs passes on IR text, for tests and for looking.
 *
 *   apc-opt [--passes=a,b] [--device=KIND] [--print-after=PASS|all] FILE.ir      (FILE - is standard input)
 *
 * Prints the module after the passes; those for another device are left out when one is given.  Exit codes are apc's: 0, 1 for diagnostics, 2 for usage, 70 for a broken invariant.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "passes/pipeline.h"

static int usage(void) {
  fputs("usage: apc-opt [--passes=a,b] [--device=KIND] [--print-after=PASS|all] FILE.ir\npasses:", stderr);
  for (const char *const *p = pass_names(); *p; p++) fprintf(stderr, " %s", *p);
  fputs("\n", stderr);
  return 2;
}

static char *read_stdin(Arena *a) {
  Text t = {.arena = a};
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, stdin)) > 0;) text_addn(&t, buffer, n);
  return t.n ? t.data : arena_strdup(a, "");
}

static int run(Arena *a, Diags *diags, const char *file, const char *passes, const PassOptions *options) {
  const char *text = strcmp(file, "-") == 0 ? read_stdin(a) : file_read_text(diags, a, file, NULL);
  if (!text) return 1;
  diag_source(diags, file, text);
  Module *m = ir_parse(file, text, diags);
  if (!m) return 1;
  bool ok = verify_module(m, diags) && pipeline_run(m, passes, options, diags);
  if (ok) {
    Text t = {.arena = a};
    module_print(m, &t);
    fputs(text_str(&t), stdout);
  }
  module_free(m);
  return ok ? 0 : 1;
}

int main(int argc, char **argv) {
  const char *file = NULL, *passes = "";
  PassOptions options = {.verify = true, .dump = stdout};
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "--passes=", 9) == 0) passes = argv[i] + 9;
    else if (strncmp(argv[i], "--device=", 9) == 0) options.device = argv[i] + 9;
    else if (strncmp(argv[i], "--print-after=", 14) == 0) options.print_after = argv[i] + 14;
    else if (argv[i][0] == '-' && argv[i][1]) return usage();
    else if (file) return usage();
    else file = argv[i];
  }
  if (!file) return usage();
  Arena *a = arena_new();
  Diags *diags = diags_new(a);
  int code = run(a, diags, file, passes, &options);
  diags_print(diags, stderr, false);
  arena_free(a);
  return code;
}
