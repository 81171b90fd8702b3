/* tools/pass_name.c - see pass_name.h. */
#include "tools/pass_name.h"

#include <string.h>

#include "base/nearest.h"
#include "passes/pipeline.h"

bool tool_pass_name_check(Diags *d, const char *option, const char *name) {
  Nearest near = nearest_to(name);
  for (const char *const *pass = pipeline_names(); *pass; pass++) {
    if (strcmp(*pass, name) == 0) return true;
    nearest_try(&near, *pass);
  }
  diag_error(d, DIAG_pass_name, (Loc){0}, "%s: there is no pass '%s'", option, name);
  if (near.best) diag_help(d, "the nearest name is '%s'", near.best);
  return false;
}

bool tool_print_after_check(Diags *d, const char *name, const char *passes) {
  if (!name || strcmp(name, "all") == 0) return true;
  if (!tool_pass_name_check(d, "--print-after", name)) return false;
  if (passes || !pipeline_on_demand(name)) return true;
  diag_error(d, DIAG_pass_name, (Loc){0}, "--print-after: pass '%s' runs on demand only", name);
  diag_help(d, "--emit=ir:%s shows its result", name);
  return false;
}
