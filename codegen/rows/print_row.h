/* codegen/rows/print_row.h - what the printers of row programs share: the text of expressions, and which nodes a scope
 * needs.
 *
 * The text is C that CUDA C++ accepts too.  Names in it: i0, i1 ... loop indices; v0 ... nodes; a0 ... finished
 * reductions; p0 ... buffers; x[0] ... scalar arguments; k0 ... values kept from one stage to a later one.  A printer
 * adds the loops.
 */
#ifndef APC_CODEGEN_ROWS_PRINT_ROW_H
#define APC_CODEGEN_ROWS_PRINT_ROW_H

#include "codegen/rows/row.h"

/* The expressions a kernel takes as x[0], x[1] ..., without doubles. */
typedef struct Scalars {
  const Expr **items;
  size_t n, cap;
} Scalars;

/* C for the value of an expression: a literal, or x[i]. */
const char *rp_scalar_text(Module *m, Scalars *s, const Expr *e);

/* "float", "uint16_t" ...: the C type a tensor element is stored in. */
const char *rp_stored_type(DType t);

/* Elements: rows are cut anywhere.  Tiles: the same, in squares over two dimensions, because some operand is contiguous
 * in another dimension than the inner one.  Rows: one row is reduced at a time.  Columns: the reduced dimension is not
 * the last one, and one pass is enough. */
typedef enum RowSchedule { ELEMENTS, TILES, ROWS, COLUMNS } RowSchedule;

typedef struct RowPrinter {
  Module *m;
  const RowProgram *p;
  Scalars *scalars;
  Text *t;
  const char *kept_index;   /* k0[kept_index] is the current element */
  bool columns_in_arrays;   /* COLUMNS: a0 is an array over the columns, indexed by w */
  const char **instead;     /* node -> text that gives its value without its arguments; NULL for none */
  const signed char *known; /* node -> 0 or 1 where that is the value of a condition in this scope, else -1; or NULL */
  int indent;
  bool arguments; /* scalars that are constants are arguments too */
  /* Set by rp_start. */
  RowSchedule schedule;
  int across; /* TILES: the other dimension; COLUMNS: the one columns are counted in; else -1 */
  const char *acc_index;
  bool *wanted;   /* node is needed by some store */
  int *kept;      /* node -> slot of row storage, -1 */
  bool *in_scope; /* printed in an enclosing scope */
} RowPrinter;

/* Chooses the schedule and what is wanted; the fields above are set by the caller. */
void rp_start(RowPrinter *c);

/* Gives a slot to every value of at least cost `from` that a later stage than its own needs, `max` of them at most; the
 * number. */
int rp_choose_kept(RowPrinter *c, int from, int max);

/* ---- text */

void rp_line(const RowPrinter *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rp_open(RowPrinter *c, const char *text); /* "text {" and a deeper indent */
void rp_close(RowPrinter *c);

const char *rp_value_type(DType t); /* the C type a value is computed in */
const char *rp_suffix(DType t);     /* and its name in function names */
const char *rp_scalar(const RowPrinter *c, const Expr *e);
const char *rp_extent(const RowPrinter *c, int d);
const char *rp_affine_text(const RowPrinter *c, const Affine *a);
const char *rp_row_count(const RowPrinter *c);               /* product of the extents other than inner and across */
void rp_outer_indices(const RowPrinter *c, const char *row); /* their indices, from the row number */
const char *rp_identity(const RowAcc *a);
const char *rp_combine_name(Reduction r);
bool rp_is_float_sum(const RowAcc *a);

/* ---- scopes */

bool *rp_no_nodes(const RowPrinter *c);
/* The operand that a select is in this scope; -1: it asks, or the node is none. */
int rp_selected(const RowPrinter *c, const RowNode *n);
/* Marks the nodes behind `i`, not looking behind those in scope or kept by an earlier stage. */
void rp_need(const RowPrinter *c, bool *needed, int i, int stage);
void rp_needed(const RowPrinter *c, const bool *needed, int stage); /* defines them */
/* What the stores, kept values and accumulations of a stage take of one element; and their definitions. */
bool *rp_element_needs(const RowPrinter *c, int stage);
void rp_element(const RowPrinter *c, int stage);
void rp_store(const RowPrinter *c, const RowStore *s);
bool rp_has_accs(const RowPrinter *c, int stage);
bool rp_has_elements(const RowPrinter *c, int stage); /* accumulations or stores of elements */

#endif
