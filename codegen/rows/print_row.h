/* codegen/rows/print_row.h - shared by the printers of row programs: the text of expressions, and the nodes that a
 * scope needs.
 *
 * The text is C that CUDA C++ accepts too.  Names in it: i0, i1 ... loop indices; v0 ... nodes; a0 ... finished
 * reductions; p0 ... buffers; x[0] ... scalar arguments; k0 ... values kept from one stage to a later one.  A printer
 * adds the loops.
 */
#ifndef APC_CODEGEN_ROWS_PRINT_ROW_H
#define APC_CODEGEN_ROWS_PRINT_ROW_H

#include "codegen/rows/row.h"

/* The expressions that a kernel takes as x[0], x[1] ..., each once. */
typedef struct Scalars {
  const Expr **items;
  size_t n, cap;
} Scalars;

/* Returns C for the value of an expression: a literal, or x[i]. */
const char *rp_scalar_text(Module *m, Scalars *s, const Expr *e);

/* Returns the C type in which a tensor element is stored: "float", "uint16_t" ... */
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
  const char **instead;     /* node -> text of its value that needs none of its arguments; NULL if none */
  const signed char *known; /* node -> 0 or 1 if a condition has that value in this scope, else -1; or NULL */
  int indent;
  bool arguments; /* constant scalars are arguments too */
  /* Set by rp_start. */
  RowSchedule schedule;
  int across; /* TILES: the other dimension; COLUMNS: the dimension along which columns are counted; else -1 */
  const char *acc_index;
  bool *wanted;   /* a store needs the node */
  int *kept;      /* node -> slot of row storage; -1 if none */
  bool *in_scope; /* printed in an enclosing scope */
} RowPrinter;

/* Chooses the schedule and the wanted nodes; the caller sets the fields above. */
void rp_start(RowPrinter *c);

/* Assigns slots to values of at least cost `from` that a stage later than their own needs, at most `max`; returns their
 * number. */
int rp_choose_kept(RowPrinter *c, int from, int max);

/* ---- text */

/* Adds a line of text, indented. */
void rp_line(const RowPrinter *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rp_open(RowPrinter *c, const char *text); /* adds "text {" and indents further */
void rp_close(RowPrinter *c);

const char *rp_value_type(DType t); /* the C type a value is computed in */
const char *rp_suffix(DType t);     /* the suffix of function names for that type */
/* Return texts: of an expression, of the extent of dimension d, of an affine index. */
const char *rp_scalar(const RowPrinter *c, const Expr *e);
const char *rp_extent(const RowPrinter *c, int d);
const char *rp_affine_text(const RowPrinter *c, const Affine *a);
const char *rp_row_count(const RowPrinter *c);               /* product of the extents other than inner and across */
void rp_outer_indices(const RowPrinter *c, const char *row); /* prints the outer indices, from the row number */
/* Return texts of a reduction: its identity, the name of its combining function. */
const char *rp_identity(const RowAcc *a);
const char *rp_combine_name(Reduction r);
/* True if it is a canonical sum of floats. */
bool rp_is_float_sum(const RowAcc *a);

/* ---- scopes */

/* An empty set of nodes. */
bool *rp_no_nodes(const RowPrinter *c);
/* Returns the operand that a select equals in this scope; -1 if it depends on its condition, or the node is no
 * select. */
int rp_selected(const RowPrinter *c, const RowNode *n);
/* Marks node `i` and, recursively, its arguments; stops at nodes in scope or kept by an earlier stage. */
void rp_need(const RowPrinter *c, bool *needed, int i, int stage);
void rp_needed(const RowPrinter *c, const bool *needed, int stage); /* defines them */
/* Finds the nodes that the stores, kept values and accumulations of a stage need for one element; rp_element defines
 * them. */
bool *rp_element_needs(const RowPrinter *c, int stage);
void rp_element(const RowPrinter *c, int stage);
/* Prints a store. */
void rp_store(const RowPrinter *c, const RowStore *s);
/* True if the stage accumulates anything; true if it accumulates or stores elements. */
bool rp_has_accs(const RowPrinter *c, int stage);
bool rp_has_elements(const RowPrinter *c, int stage);

#endif
