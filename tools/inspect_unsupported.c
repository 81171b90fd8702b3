/* tools/inspect_unsupported.c - apc inspect --unsupported: can the model be compiled, and if not, why?
 *
 * Compiles without the C compiler: reading, passes, a plan, lowering, the Program; for one rank of this machine without
 * a memory limit, so that no target affects the answer.  Standard output has one line per problem: "NAME NODES" for an
 * operator that apc does not have, else the code and the message; nothing if there is none.  The exit code is that of
 * compile.
 */
#include "base/json_text.h"
#include "tools/build.h"
#include "tools/inspect.h"

static bool compiles(Tool *t, const char *path) {
  Build b;
  bool ok = tool_plan_one_rank(t, path, &b) && driver_run(&b, DRIVER_program);
  driver_free(&b);
  tool_stages_end(t);
  return ok;
}

static void print_lines(const Diags *d) {
  for (size_t i = 0; i < d->n; i++) {
    const Diag *g = &d->items[i];
    if (g->severity != SEV_ERROR) continue;
    if (g->operator_name) printf("%s %zu\n", g->operator_name, g->nodes);
    else
      printf("%s %s%s%s%s\n", diag_code_name(g->code), g->message, g->loc.node ? " (node " : "",
             g->loc.node ? g->loc.node : "", g->loc.node ? ")" : "");
  }
}

static void print_json(Tool *t, const char *path, bool ok) {
  json_t *operators = json_object();
  for (size_t i = 0; i < t->diags->n; i++)
    if (t->diags->items[i].severity == SEV_ERROR && t->diags->items[i].operator_name)
      json_set_text(operators, t->diags->items[i].operator_name, json_integer((json_int_t)t->diags->items[i].nodes));
  tool_json(t, json_pack("{s:s, s:o, s:s, s:b, s:o}", "schema", "apc.inspect/1", "file", json_text(path), "kind",
                         "model", "ok", ok, "unsupported", operators));
}

int inspect_unsupported(Tool *t, const char *path) {
  bool ok = compiles(t, path);
  if (option_given(&t->options, OPT_json)) print_json(t, path, ok);
  else print_lines(t->diags);
  if (ok) tool_say(t, "Finished", "%s can be compiled", path);
  return ok ? EXIT_OK : tool_failed(t->diags);
}
