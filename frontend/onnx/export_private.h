/* frontend/onnx/export_private.h - shared by the writers of single operations. */
#ifndef APC_FRONTEND_ONNX_EXPORT_PRIVATE_H
#define APC_FRONTEND_ONNX_EXPORT_PRIVATE_H

#include "frontend/onnx/export.h"
#include "frontend/onnx/names.h"
#include "frontend/onnx/write.h"
#include "ir/index_bound.h"
#include "ir/loops.h"

typedef struct Sized {
  const Expr *e;
  const char *name;
} Sized;

typedef struct Export {
  OnnxWriter *w;
  Module *m;
  Diags *diags;
  const OnnxExporting *how;
  const Func *main;
  const char **inputs;    /* by operation of main: the name of an input */
  NameMap params;         /* name of a weight -> name of its initializer */
  const IndexSpan *spans; /* of main: indices that follow from sizes */
  size_t nspans;
  struct {
    Sized *items;
    size_t n, cap;
  } sizes; /* expressions already in the graph, as i64[1] */
  uint64_t refused[OP_COUNT / 64 + 1];
} Export;

/* The function being written: main, or the decomposition of a composite. */
typedef struct ExportScope {
  const Func *f;
  const char **names; /* by value */
  Loops loops;
  bool *skip; /* by operation: written as part of another */
} ExportScope;

/* An operation being written; `wanted` is the name for its first result.  A writer itself sets the names of further
 * results in the scope. */
typedef struct Writing {
  Export *x;
  const ExportScope *s;
  const Op *op;
  const Type *type; /* of the first result; NULL if there is none */
  const char *wanted;
} Writing;

/* Reports that the operation has no ONNX form; returns NULL. */
const char *export_no_form(const Writing *n, const char *why);

/* The ONNX name and the type of operand i. */
const char *operand(const Writing *n, int i);
const Type *operand_type(const Writing *n, int i);

/* Add a node named after the operation, and return its result's name. */
const char *node1(const Writing *n, const char *type, const char *x);
const char *node2(const Writing *n, const char *type, const char *x, const char *y);
const char *node3(const Writing *n, const char *type, const char *x, const char *y, const char *z);
const char *node1_int(const Writing *n, const char *type, const char *x, const char *attr, int64_t v);
const char *node1_ints(const Writing *n, const char *type, const char *x, const char *attr, int count,
                       const int64_t *v);
const char *import_number(const Writing *n, DType t, double v); /* adds a scalar */
const char *cast_to(const Writing *n, const char *x, DType t);

/* Add the nodes that compute an expression as i64[1], and extents as i64[rank]; reshape or transpose x.  NULL after
 * a diagnostic. */
const char *import_extent_of(const Writing *n, const Expr *e);
const char *extents_of(const Writing *n, int rank, const Expr *const *dims);
const char *reshaped(const Writing *n, const char *x, int rank, const Expr *const *dims);
const char *transposed(const Writing *n, const char *x, int rank,
                       const int64_t *perm); /* x itself if no dimension moves */

/* Writes the operations [from, to) of a scope, with names that begin with `prefix`; false after a diagnostic. */
bool write_range(Export *x, ExportScope *s, size_t from, size_t to, const char *prefix);

/* frontend/onnx/export_loop.c */
ExportScope export_scope_of(Export *x, const Func *f); /* no value has a name yet */
bool write_loop(const Writing *n, ExportScope *s, const Loop *l, const char *prefix);
bool is_round_below(const Writing *n, Val index,
                    const Expr *extent); /* the number of a round, counted from either end, inside the extent */
const char *write_update(const Writing *n);

/* frontend/onnx/export_opaque.c */
const char *write_opaque(const Writing *n);

/* frontend/onnx/export_window.c */
const char *write_conv(const Writing *n);
const char *write_pool(const Writing *n);

#endif
