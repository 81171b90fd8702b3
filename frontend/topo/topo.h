/* frontend/topo/topo.h - the syntax tree of the target language (docs/guide/targets.md), its parser, checker and
 * printer.
 *
 * The grammar knows only blocks of statements.  The table topo.def defines the statements and their values, and
 * topo_check checks a tree against it.  Statements keep their values as written, so that printing reproduces the
 * text.
 */
#ifndef APC_FRONTEND_TOPO_TOPO_H
#define APC_FRONTEND_TOPO_TOPO_H

#include "base/arena.h"
#include "base/diag.h"
#include "base/text.h"

typedef enum TopoKind {
#define BLOCK(kind, brief) TOPO_##kind,
#include "frontend/topo/topo.def"
#undef BLOCK
  TOPO_KINDS
} TopoKind;

typedef enum TopoValueKind { TV_NUMBER, TV_WORD, TV_STRING, TV_DATE, TV_TILE } TopoValueKind;

typedef struct TopoValue {
  TopoValueKind kind;
  const char *text; /* NUMBER, WORD, DATE, TILE: as written; STRING: without its quotes */
  const char *unit; /* of a NUMBER; NULL if none */
  double number;    /* NUMBER: in SI units or bytes; TILE: rows */
  double columns;   /* TILE */
  Loc loc;
} TopoValue;

enum { TOPO_SLOTS = 6, TOPO_VALUES = 16 };

typedef struct TopoStatement {
  const char *name;
  Loc loc;
  int nvalues;
  TopoValue values[TOPO_VALUES];
  int field;                          /* row of topo.def; set by topo_check */
  const TopoValue *slots[TOPO_SLOTS]; /* the values of the pattern's slots in order; NULL if omitted */
  struct TopoStatement *next;
} TopoStatement;

typedef struct TopoBlock {
  TopoKind kind;
  const char *name;
  Loc loc;
  TopoStatement *first, *last;
  struct TopoBlock *next;
} TopoBlock;

typedef struct TopoFile {
  TopoBlock *first, *last;
} TopoFile;

/* Parses the blocks of a text; false after diagnostics (several: parsing continues after a faulty statement). */
bool topo_parse(Diags *d, Arena *a, const char *file, const char *text, TopoFile *out);

/* Checks the blocks against the table and fills slots.  False after diagnostics. */
bool topo_check(Diags *d, const TopoFile *file);

/* Prints canonical text: statements in the order of the table, one per line. */
void topo_print_block(Text *out, const TopoBlock *b);

/* The statement of that name, or the next one after `after`; NULL if there is none. */
const TopoStatement *topo_find(const TopoBlock *b, const char *name, const TopoStatement *after);

/* The word of a kind of block ("gpu"), and the kind of a word; false if there is none. */
const char *topo_kind_name(TopoKind k);
bool topo_kind_find(const char *word, TopoKind *out);
/* The factor of a unit to SI units or bytes; false if the word is not a unit. */
bool topo_unit(const char *word, double *factor);

/* ---- between scanner and parser */

typedef struct TopoPlace {
  int first_line, first_column, last_line, last_column;
} TopoPlace;

typedef struct TopoParse {
  Arena *arena;
  Diags *diags;
  const char *file;
  TopoFile result;
  bool after_number; /* the next word may be a unit */
  size_t errors;
} TopoParse;

/* Reports a syntax error. */
void topo_error(TopoParse *p, TopoPlace at, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
