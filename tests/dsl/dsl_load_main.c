/* dsl_load_main FILE [-D NAME=VALUE]... [--count] : loads a model and prints its IR, or its parameter count.
 *
 * The text tests of the model language run this.  Diagnostics go to stderr; exit 1 if there are errors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "frontend/dsl/dsl.h"

static Module *load(const char *path, const char *text, const DslOptions *options, Diags *diags) {
  const char *base = strrchr(path, '/');
  Module *m = dsl_load(base ? base + 1 : path, text, options, diags);
  diags_print(diags, stderr, false);
  return m;
}

int main(int argc, char **argv) {
  DslDefine *defines = calloc((size_t)argc, sizeof *defines);
  DslOptions options = {.defines = defines};
  bool count = false;
  const char *path = NULL;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--count") == 0) count = true;
    else if (strcmp(argv[i], "-D") == 0 && i + 1 < argc) {
      char *equals = strchr(argv[++i], '=');
      if (!equals) return 2;
      *equals = 0;
      defines[options.ndefines++] = (DslDefine){argv[i], equals + 1};
    } else path = argv[i];
  }
  if (!path) {
    fprintf(stderr, "usage: dsl_load_main FILE [-D NAME=VALUE]... [--count]\n");
    return 2;
  }
  Arena *arena = arena_new();
  Diags *diags = diags_new(arena);
  char *text = file_read_text(diags, arena, path, NULL);
  Module *m = text ? load(path, text, &options, diags) : NULL;
  if (m && count) printf("%lld\n", (long long)dsl_parameter_count(m));
  if (m && !count) {
    Text out = {.arena = arena};
    module_print(m, &out);
    fputs(text_str(&out), stdout);
  }
  int status = m ? 0 : 1;
  module_free(m);
  arena_free(arena);
  free(defines);
  return status;
}
