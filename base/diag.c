/* base/diag.c - see diag.h. */
#include "base/diag.h"

#include <stdarg.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"

typedef struct DiagSource {
  struct DiagSource *next;
  const char *file, *text;
} DiagSource;

static const struct {
  const char *code, *brief, *text;
} diag_rows[DIAG_COUNT] = {
    [DIAG_NONE] = {"APC0000", "", ""},
#define DIAG(name, code, brief, text) [DIAG_##name] = {code, brief, text},
#include "base/diag.def"
#undef DIAG
};

Diags *diags_new(Arena *arena) {
  Diags *d = ARENA_NEW(arena, Diags);
  d->arena = arena;
  return d;
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

static bool same(const Diag *a, const Diag *b) {
  return a->severity == b->severity && a->code == b->code && a->loc.line == b->loc.line && a->loc.col == b->loc.col &&
         same_text(a->message, b->message) && same_text(a->loc.file, b->loc.file) &&
         same_text(a->loc.node, b->loc.node);
}

/* True if the same diagnostic was reported before: `apc verify` reads a model twice and would warn twice.  Compares
 * with the most recent diagnostics only. */
static bool is_repeated(const Diags *d, const Diag *diag) {
  enum { LOOK_BACK = 1000 };
  for (size_t i = d->n; i > 0 && d->n - i < LOOK_BACK; i--)
    if (same(&d->items[i - 1], diag)) return true;
  return false;
}

static void add(Diags *d, Severity severity, DiagCode code, Loc loc, const char *format, va_list args) {
  if (loc.file) loc.file = arena_strdup(d->arena, loc.file); /* diagnostics outlive the text they point to */
  if (loc.node) loc.node = arena_strdup(d->arena, loc.node);
  Diag diag = {.severity = severity, .code = code, .loc = loc, .message = arena_vprintf(d->arena, format, args)};
  bool belongs = severity == SEV_NOTE || severity == SEV_HELP;
  if (!belongs) d->repeats = is_repeated(d, &diag);
  if (!d->repeats) ARENA_PUSH(d->arena, d, diag);
}

bool diag_error(Diags *d, DiagCode code, Loc loc, const char *format, ...) {
  va_list args;
  va_start(args, format);
  add(d, SEV_ERROR, code, loc, format, args);
  va_end(args);
  d->errors++;
  return false;
}

void diag_warning(Diags *d, DiagCode code, Loc loc, const char *format, ...) {
  va_list args;
  va_start(args, format);
  add(d, SEV_WARNING, code, loc, format, args);
  va_end(args);
  d->warnings++;
}

void diag_note(Diags *d, Loc loc, const char *format, ...) {
  va_list args;
  va_start(args, format);
  add(d, SEV_NOTE, DIAG_NONE, loc, format, args);
  va_end(args);
}

void diag_help(Diags *d, const char *format, ...) {
  va_list args;
  va_start(args, format);
  add(d, SEV_HELP, DIAG_NONE, (Loc){0}, format, args);
  va_end(args);
}

const Diag *diags_first_error(const Diags *d) {
  for (size_t i = 0; i < d->n; i++)
    if (d->items[i].severity == SEV_ERROR) return &d->items[i];
  return NULL;
}

void diags_append(Diags *d, const Diags *more) {
  for (size_t i = 0; i < more->n; i++) {
    const Diag *x = &more->items[i];
    bool belongs = x->severity == SEV_NOTE || x->severity == SEV_HELP;
    if (!belongs) d->repeats = is_repeated(d, x);
    if (!d->repeats) ARENA_PUSH(d->arena, d, *x);
    d->errors += x->severity == SEV_ERROR;
    d->warnings += x->severity == SEV_WARNING;
  }
}

void diag_operator(Diags *d, const char *name, size_t nodes) {
  if (d->repeats || !d->n) return;
  d->items[d->n - 1].operator_name = arena_strdup(d->arena, name);
  d->items[d->n - 1].nodes = nodes;
}

void diag_source(Diags *d, const char *file, const char *text) {
  DiagSource *s = ARENA_NEW(d->arena, DiagSource);
  *s = (DiagSource){d->sources, file, text};
  d->sources = s;
}

static const char *source_of(const Diags *d, const char *file) {
  for (const DiagSource *s = d->sources; s; s = s->next)
    if (strcmp(s->file, file) == 0) return s->text;
  return NULL;
}

/* Prints one column for each byte that is not plain. */
static void print_line(const char *line, size_t n, FILE *out) {
  for (size_t part; n; line += part, n -= part) {
    bool plain;
    part = text_character((const unsigned char *)line, n, &plain);
    if (!part) part = 1;
    for (size_t i = 0; i < part; i++) fputc(plain || line[i] == '\t' ? line[i] : '?', out);
  }
}

/* Prints the source line with a caret under the column; tabs are kept so that the caret lines up. */
static void print_caret(const Diags *d, const Loc *loc, FILE *out) {
  const char *line = source_of(d, loc->file);
  if (!line) return;
  for (int i = 1; i < loc->line; i++) {
    line = strchr(line, '\n');
    if (!line) return;
    line++;
  }
  int length = (int)strcspn(line, "\n");
  fprintf(out, "%5d | ", loc->line);
  print_line(line, (size_t)length, out);
  fputs("\n      | ", out);
  for (int i = 1; i < loc->col && i <= length; i++) fputc(line[i - 1] == '\t' ? '\t' : ' ', out);
  fputs("^\n", out);
}

static void print_place(const Diags *d, const Loc *loc, FILE *out) {
  if (!loc->file && !loc->node) return;
  fputs("  --> ", out);
  if (loc->file) fputs(text_shown(d->arena, loc->file), out);
  if (loc->line > 0) fprintf(out, ":%d:%d", loc->line, loc->col);
  if (loc->node) fprintf(out, "%snode \"%s\"", loc->file ? ": " : "", text_shown(d->arena, loc->node));
  fputc('\n', out);
  if (loc->file && loc->line > 0) print_caret(d, loc, out);
}

/* Messages of compilers keep their line breaks. */
static void print_message(const Diags *d, const Diag *g, FILE *out) {
  const char *at = g->message;
  while (g->code == DIAG_tool_failed && strchr(at, '\n')) {
    size_t n = strcspn(at, "\n");
    fprintf(out, "%s\n", text_shown(d->arena, arena_strndup(d->arena, at, n)));
    at += n + 1;
  }
  fprintf(out, "%s\n", text_shown(d->arena, at));
}

void diags_print(const Diags *d, FILE *out, bool color) {
  static const char *const word[] = {"error", "warning", "note", "help"};
  static const char *const paint[] = {"\033[1;31m", "\033[1;33m", "\033[1;36m", "\033[1;32m"};
  for (size_t i = 0; i < d->n; i++) {
    const Diag *g = &d->items[i];
    if (g->severity == SEV_NOTE || g->severity == SEV_HELP) fputs("  = ", out);
    if (color) fputs(paint[g->severity], out);
    fputs(word[g->severity], out);
    if (g->code != DIAG_NONE) fprintf(out, "[%s]", diag_code_name(g->code));
    if (color) fputs("\033[0m", out);
    fprintf(out, ": ");
    print_message(d, g, out);
    print_place(d, &g->loc, out);
  }
}

const char *diag_code_name(DiagCode code) { return diag_rows[code].code; }
const char *diag_brief(DiagCode code) { return diag_rows[code].brief; }
const char *diag_text(DiagCode code) { return diag_rows[code].text; }

DiagCode diag_code_find(const char *name) {
  for (int i = 1; i < DIAG_COUNT; i++)
    if (strcmp(diag_rows[i].code, name) == 0) return (DiagCode)i;
  return DIAG_NONE;
}
