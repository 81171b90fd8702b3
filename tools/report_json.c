/* tools/report_json.c - the output of --json: one document per command, in any case; see tool.h.
 *
 * The document of a result has warnings as "diagnostics".  If a command fails without a result, its document is
 * apc.error/1: the exit code and the diagnostics, which standard error has as text.
 */
#include <math.h>
#include <string.h>

#include "base/die.h"
#include "base/json_text.h"
#include "base/standard.h"
#include "tools/tool.h"

static const char *severity_name(Severity s) {
  static const char *const names[] = {"error", "warning", "note", "help"};
  return names[s];
}

static json_t *number_or_null(int n) { return n > 0 ? json_integer(n) : json_null(); }

static json_t *loc_json(const Loc *l) {
  if (!l->file && !l->node) return json_null();
  return json_pack("{s:o, s:o, s:o, s:o}", "file", json_text(l->file), "line", number_or_null(l->line), "column",
                   number_or_null(l->line > 0 ? l->col : 0), "node", json_text(l->node));
}

static json_t *diag_json(const Diag *g, bool first) {
  json_t *o = json_pack("{s:s}", "severity", severity_name(g->severity));
  if (first) json_object_set_new(o, "code", g->code == DIAG_NONE ? json_null() : json_string(diag_code_name(g->code)));
  json_object_set_new(o, "message", json_text(g->message));
  json_object_set_new(o, "location", loc_json(&g->loc));
  if (g->operator_name) json_object_set_new(o, "operator", json_text(g->operator_name));
  if (g->operator_name) json_object_set_new(o, "nodes", json_integer((json_int_t)g->nodes));
  if (first) json_object_set_new(o, "notes", json_array());
  return o;
}

/* Notes and helps are nested in the diagnostic that they belong to. */
static json_t *diags_json(const Diags *d) {
  json_t *list = json_array(), *last = NULL;
  for (size_t i = 0; i < d->n; i++) {
    bool belongs = last && (d->items[i].severity == SEV_NOTE || d->items[i].severity == SEV_HELP);
    json_t *o = diag_json(&d->items[i], !belongs);
    json_array_append_new(belongs ? json_object_get(last, "notes") : list, o);
    if (!belongs) last = o;
  }
  return list;
}

static void print(json_t *document) {
  if (!document) die("a JSON document that cannot be"); /* text that is not UTF-8: see base/json_text.h */
  standard_json(true);
  json_dumpf(document, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
  fputc('\n', stdout);
  standard_json(false);
  json_decref(document);
}

void tool_json(Tool *t, json_t *document) {
  t->document = true;
  if (document) json_object_set_new(document, "diagnostics", diags_json(t->diags));
  if (t->collected && document) json_array_append_new(t->collected, document);
  else print(document);
}

static const char *exit_meaning(int code) {
  switch (code) {
#define EXIT(name, number, meaning) \
  case number: \
    return meaning;
#include "tools/exits.def"
#undef EXIT
    default: return "";
  }
}

static json_t *error_json(const Tool *t, int code) {
  return json_pack("{s:s, s:o, s:i, s:s, s:o}", "schema", "apc.error/1", "command",
                   t->options.command ? json_string(command_rows[t->options.command].name) : json_null(), "exit_code",
                   code, "exit_meaning", exit_meaning(code), "diagnostics", diags_json(t->diags));
}

void tool_json_failure(Tool *t, int code) {
  if (t->document) return;
  t->document = true;
  print(error_json(t, code));
}

void tool_json_died(const char *message, int code, void *tool) {
  Tool *t = tool;
  if (t->document) return;
  json_t *document = error_json(t, code);
  json_array_append_new(json_object_get(document, "diagnostics"),
                        json_pack("{s:s, s:n, s:o, s:n, s:[]}", "severity", "error", "code", "message",
                                  json_text(message), "location", "notes"));
  t->document = true;
  print(document);
}

bool tool_json_wanted(int argc, char **argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
    if (strcmp(argv[i], "--json") == 0) return true;
  return false;
}

json_t *tool_json_real(double v) { return isfinite(v) ? json_real(v) : json_null(); }
