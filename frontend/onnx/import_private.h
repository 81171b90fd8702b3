/* frontend/onnx/import_private.h - what the importers of single operators work with.
 *
 * An importer is `static bool import_X(Node *n)`, named in ops.def.  It reads inputs and attributes
 * through the functions below and sets every output that is used.  It returns false after reporting an
 * error; a Val of 0 means that an error was reported.
 */
#ifndef APC_FRONTEND_ONNX_IMPORT_PRIVATE_H
#define APC_FRONTEND_ONNX_IMPORT_PRIVATE_H

#include "frontend/onnx/import.h"
#include "frontend/onnx/assume.h"
#include "frontend/onnx/evaluate.h"

/* An ONNX value while importing.  It is built (val) only when an operation needs it: until then it may be
 * known elements, or a tensor of the file. */
typedef struct Item {
  const char *name;
  const Type *type; /* NULL until defined */
  Val val;
  Known known;
  const Onnx__TensorProto *tensor; /* initializer or Constant */
  OnnxData data;
  const Fact *fact; /* of the tensor, once somebody asked */
  bool is_weight;   /* an initializer, as opposed to a Constant */
  int producer;     /* index of the node that defines it; -1: none */
  bool used;
} Item;

typedef struct Import Import;

typedef struct Node {
  Import *im;
  Module *m;
  Builder *b;
  const Onnx__NodeProto *proto;
  const struct OnnxOp *op;
  const char *name; /* unique; the location's node path */
  int64_t opset;
  Item **in;   /* proto->n_input; NULL: absent */
  Item **out;  /* proto->n_output; NULL: nobody uses it */
  bool failed; /* an attribute was malformed; reported */
} Node;

typedef struct OnnxOp {
  const char *type;
  int since, until;   /* operator set versions, until 0: open */
  int min_in, max_in; /* max -1: any number */
  int max_out;
  const char *attrs; /* names separated by spaces */
  bool (*import)(Node *n);
  int arg; /* an OpKind or Reduction for importers of several operators */
} OnnxOp;

/* Every importer of the table. */
#define ONNX_OP(type, since, until, min_in, max_in, max_out, attrs, import, arg) bool import_##import(Node *n);
#include "frontend/onnx/ops.def"

bool import_opaque(Node *n); /* of an operator that is not in the table */

__attribute__((format(printf, 2, 3))) bool node_error(Node *n, const char *format, ...);
OnnxFile *import_file(const Import *im);
Evaluation *import_evaluation(Import *im);
const Onnx__ValueInfoProto *import_value_info(const Import *im,
                                              const char *value); /* what the graph declares of it; NULL */
const Expr *import_dim(Import *im, const char *value, size_t k,
                       const Onnx__TensorShapeProto__Dimension *d); /* dims.h */
void import_rename(Import *im, const char *name, Item *to);         /* the name means that item from now on */

/* ---- inputs */
bool has_input(const Node *n, size_t i);
const Type *input_type(const Node *n, size_t i); /* the input must be present */
Val input(Node *n, size_t i);                    /* built; 0 after an error, or when absent */
Known input_known(Node *n, size_t i);            /* items NULL: absent or not known */
const Fact *input_fact(Node *n, size_t i);       /* NULL: absent */
/* A shape-like input: known, of rank 1 (or a scalar).  False after an error that names it by `what`. */
bool input_exprs(Node *n, size_t i, const char *what, Known *out);

/* The extents of a result, from an input: at most MAX_RANK of them, all as known_extents wants them. */
bool input_shape(Node *n, size_t i, const char *what, Known *out);
bool input_ints(Node *n, size_t i, const char *what, int64_t *out, int *count); /* constants; KNOWN_MAX fit */
/* Constant floats, at most `max`. */
bool input_doubles(Node *n, size_t i, const char *what, int max, double *out, int *count);
/* Reports that an input is no constant, or no expression of sizes: what it is, and the nodes that it comes through. */
bool input_refused(Node *n, size_t i, const char *what);
void say_origin(Node *n, size_t i);                /* the note of it alone, behind an error */
bool node_extent(Node *n, double x, int64_t *out); /* an extent that was computed, rounded down; false after an error */
bool input_number(Node *n, size_t i, double *out); /* a constant of one element; false without a report */

/* ---- outputs */
bool wants(const Node *n, size_t i);
bool set_output(Node *n, size_t i, Val v); /* false when v is 0 */
bool set_known(Node *n, size_t i, Known k);
void set_alias(Node *n, size_t i, Item *from);        /* the same value: further uses go to `from` */
void set_tensor(Node *n, size_t i, const Item *from); /* a tensor of the file, from item_of_tensor */

/* ---- attributes; a wrong type of attribute is reported and makes the node fail */
bool has_attr(const Node *n, const char *name);
int64_t node_int(Node *n, const char *name, int64_t otherwise);
double node_float(Node *n, const char *name, double otherwise);
const char *node_string(Node *n, const char *name, const char *otherwise);
/* The list, or count -1 when absent. */
const int64_t *node_ints(Node *n, const char *name, int *count);
/* Fills out when the list is given; false after an error when it has another length, or an entry below `least` or above
 * INT32_MAX. */
bool node_ints_into(Node *n, const char *name, int expected, int64_t least, int64_t *out);
const float *node_floats(Node *n, const char *name, size_t *count); /* NULL, 0 when absent */
const char *const *node_strings(Node *n, const char *name, size_t *count);
bool node_dtype(Node *n, const char *name, DType *out); /* an element type; false after an error, also when absent */
const Onnx__TensorProto *node_tensor(Node *n, const char *name);
const Onnx__GraphProto *node_graph(Node *n, const char *name); /* NULL after an error */

/* ---- graphs inside the node (subgraph.c) */

/* Imports the nodes of the graph here and now; its input i is in[i].  out[i] is what its output i is, of those `wanted`
 * (NULL: all). */
bool import_subgraph(Node *n, const Onnx__GraphProto *proto, Item *const *in, const bool *wanted, Item **out);
/* Builds what the graph reads from outside, so that nothing of it is first built inside a loop. */
bool import_captured(Node *n, const Onnx__GraphProto *proto);
Item *new_item(Node *n, const char *name, Val v);
bool item_number(Node *n, Item *item, double *out); /* as input_number */

/* ---- helpers */

/* Whether the two are one expression.  If not, the import may begin again with an assumption that makes them so. */
bool equal_extents(Node *n, const Expr *p, const Expr *q);
/* e / by, which is whole; NULL when it may not be, and then the import may begin again with an assumption that makes it
 * so. */
const Expr *exact_extent(Node *n, const Expr *e, const Expr *by);
/* As equal_extents, where either may be 1. */
bool extents_broadcast(Node *n, const Expr *p, const Expr *q);
/* NumPy broadcasting of extents; false when two extents differ. */
bool broadcast_extents(Node *n, const Type *x, const Type *y, int *rank, const Expr **dims);
/* Negative axes count from `rank`; false after an error. */
bool node_axis(Node *n, int64_t axis, int rank, int *out);
/* Axes from an attribute (before `since_input`) or from input 1, as a bit set; *given false when absent. */
bool node_axes(Node *n, int64_t since_input, int rank, unsigned *out, bool *given);

Val splat_like(Node *n, Val like, double value);       /* a constant of the type of `like` */
Val binary(Node *n, OpKind k, Val x, Val y);           /* NumPy broadcasting */
Val binary_number(Node *n, OpKind k, Val x, double y); /* y splat over x's type */
Val broadcast(Node *n, Val x, int rank, const Expr *const *dims);
Val select3(Node *n, Val condition, Val x, Val y);      /* NumPy broadcasting of all three */
Val insert_dims(Node *n, Val x, unsigned at, int rank); /* reshape to `rank` with extents 1 at these places */
Val drop_dims(Node *n, Val x, unsigned at);             /* reshape without these dimensions (of extent 1) */
Val reduce_axes(Node *n, Reduction r, Val x, unsigned axes, bool keepdims);
Val mean_axes(Node *n, Val x, unsigned axes, bool keepdims);
Val gather_wrapped(Node *n, Val table, Val index, int axis); /* negative indices count from the end */
Val wrap_index(Node *n, Val index, const Expr *extent);      /* negative indices count from `extent`; keeps the type */
Val take(Node *n, Val x, Val index, int axis);
Val scan(Node *n, Reduction r, Val x, int axis, bool exclusive, bool reverse);
bool slice_moves(Node *n, int i, int axis,
                 Val *x); /* Slice: number i of starts and ends moves with a loop (import_moving.c) */
Val log_softmax(Node *n, Val x, int axis);
Val matmul(Node *n, Val x, Val y);            /* as MatMul */
Val convolution(Node *n, Val x, Val weights); /* as Conv, by the node's attributes, without bias */
Val to_bool(Node *n, Val x);
Val scalar_i64(Node *n, const Expr *value); /* i64[] */
Val iota_i64(Node *n, int rank, const Expr *const *dims, int axis);
Val known_value(Node *n, const Known *k);
const char *type_string(Module *m, const Type *t);
Val item_value(Node *n, Item *item);
Item item_of_tensor(Node *n, const Onnx__TensorProto *tensor, const char *name, bool *ok);

#endif
