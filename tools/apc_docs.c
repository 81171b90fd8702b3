/* tools/apc_docs.c - writes one manual page or completion script to standard output: apc-docs NAME.  Runs during the
 * build. */
#include <stdio.h>
#include <string.h>

#include "tools/docs.h"

static const struct {
  const char *name;
  void (*write)(void);
} documents[] = {
    {"apc.1", docs_apc_1},
    {"apc-opt.1", docs_apc_opt_1},
    {"apc-model.1", docs_apc_model_1},
    {"apc-targets.5", docs_apc_targets_5},
    {"apc-plan.5", docs_apc_plan_5},
    {"apc.bash", docs_bash},
    {"_apc", docs_zsh},
    {"apc.fish", docs_fish},
};

int main(int argc, char **argv) {
  for (size_t i = 0; argc == 2 && i < sizeof documents / sizeof *documents; i++) {
    if (strcmp(argv[1], documents[i].name) != 0) continue;
    documents[i].write();
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
  }
  fputs("usage: apc-docs NAME\nnames:", stderr);
  for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) fprintf(stderr, " %s", documents[i].name);
  fputc('\n', stderr);
  return 2;
}
