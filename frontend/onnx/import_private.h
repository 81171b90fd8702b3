/* frontend/onnx/import_private.h - the interface for importers of single operators.
 *
 * An importer is `bool import_X(ImportNode *n)`, named in ops.def.  It reads inputs and attributes through the
 * functions below and sets every output that is used.  It returns false after reporting an error; a Val of 0 means
 * that an error was reported.
 */
#ifndef APC_FRONTEND_ONNX_IMPORT_PRIVATE_H
#define APC_FRONTEND_ONNX_IMPORT_PRIVATE_H

#include "frontend/onnx/import.h"
#include "frontend/onnx/assume.h"
#include "frontend/onnx/evaluate.h"

/* A sequence of tensors (import_sequence.c). */
typedef struct ImportSequence {
  int n;
  struct ImportItem **items;
} ImportSequence;

/* An ONNX value during the import.  It is built (val) only when an operation needs it: until then it may be known
 * elements, or a tensor of the file. */
typedef struct ImportItem {
  const char *name;
  const Type *type; /* NULL until defined */
  Val val;
  ImportKnown known;
  const Onnx__TensorProto *tensor; /* initializer or Constant */
  OnnxData data;
  const ImportFact *fact;         /* of the tensor, once evaluated */
  bool is_weight;                 /* an initializer, as opposed to a Constant */
  bool is_trained;                /* also if it has one element (import_trained.c) */
  bool is_fixed;                  /* training does not change it (import_trained.c) */
  struct ImportApart *apart;      /* nodes that read another weight in its place (import_ties.c); NULL if none */
  struct ImportItem *tied;        /* a file of weights has only this one, perhaps transposed; NULL if none */
  bool tied_transposed;           /* it is `tied`, transposed */
  unsigned repeats;               /* bit d: the file of weights has one of equal slices along dimension d */
  const ImportSequence *sequence; /* NULL for a tensor */
  int producer;                   /* index of the node that defines it; -1 if none */
  bool used;
} ImportItem;

typedef struct Import Import;

typedef struct ImportNode {
  Import *im;
  Module *m;
  Builder *b;
  const Onnx__NodeProto *proto;
  const struct OnnxOp *op;
  const char *name; /* unique; the location's node path */
  int64_t opset;
  ImportItem **in;  /* proto->n_input entries; NULL if absent */
  ImportItem **out; /* proto->n_output entries; NULL if unused */
  bool failed;      /* an attribute was malformed, which was reported */
} ImportNode;

typedef struct OnnxOp {
  const char *domain, *type; /* domain "" is ONNX's own */
  int since, until;          /* operator set versions; until 0 is open */
  int min_in, max_in;        /* max -1: any number */
  int max_out;
  const char *attrs; /* names separated by spaces */
  bool (*import)(ImportNode *n);
  int arg; /* an OpKind or Reduction for importers of several operators */
} OnnxOp;

/* Every importer of the table. */
#define ONNX_OP(type, since, until, min_in, max_in, max_out, attrs, import, arg) bool import_##import(ImportNode *n);
#define RUNTIME_OP(type, min_in, max_in, max_out, attrs, import, arg) bool import_##import(ImportNode *n);
#define DOMAIN_OP(domain, type, min_in, max_in, max_out, attrs, import, arg) bool import_##import(ImportNode *n);
#include "frontend/onnx/ops.def"

bool import_opaque(ImportNode *n); /* imports an operator that is not in the table */
bool import_ruled(ImportNode *n);  /* imports one for which the user gives a rule */

/* Reports an error of the node; returns false. */
__attribute__((format(printf, 2, 3))) bool node_error(ImportNode *n, const char *format, ...);
/* True if the node is in the body of a loop, or in a branch, which is a loop of at most one round. */
bool import_in_loop(const ImportNode *n);
OnnxFile *import_file(const Import *im);
bool import_trains(const Import *im);    /* true if gradients are needed */
bool import_evaluates(const Import *im); /* true while @eval is imported beside @main */
Evaluation *import_evaluation(Import *im);
/* The declaration of a value in the graph; NULL if none. */
const Onnx__ValueInfoProto *import_value_info(const Import *im, const char *value);
const Expr *import_dim(Import *im, const char *value, size_t k,
                       const Onnx__TensorShapeProto__Dimension *d); /* dims.h */
void import_rename(Import *im, const char *name, ImportItem *to);   /* the name refers to that item from now on */

/* ---- nodes that compute otherwise in training (import_mode.c) */

/* True if a batch norm or dropout computes as in training, in a function that is trained: because the file says so, or
 * because a glob of --train-mode fits its name or that of its module.  Notes what was decided. */
bool import_in_training(ImportNode *n, bool says);
/* Notes a batch norm whose mean and variance are computed by the file itself, in training and evaluation: PyTorch's
 * track_running_stats=False.  It has no mode. */
void import_measures_itself(ImportNode *n);
/* Notes a batch norm that computes as in training although the model is not trained. */
void import_measures_untrained(ImportNode *n);
/* True if the file says so of a batch norm: by its attribute or its outputs, or by the exporter's notes. */
bool import_says_training(const Onnx__NodeProto *node, int64_t opset);
/* True if running variances move towards the unbiased variance of the batch, as PyTorch's do; ONNX says the biased. */
bool import_is_unbiased(const Import *im);
/* The value of a running statistic after the nodes so far, where `v` is the value that the node reads. */
Val import_statistic(ImportNode *n, Val v);
/* Sets it; the value reaches the state when the graph ends.  False after an error: `v` is no tensor of the file. */
bool import_set_statistic(ImportNode *n, Val v, Val next);
/* Notes a node that draws random numbers. */
void import_draws(ImportNode *n);
/* True if the file's notes say that PyTorch exported this batch norm in training mode, although the node does not. */
bool import_kind_measures(const Onnx__NodeProto *node);

/* ---- inputs */

/* True if input i is present. */
bool has_input(const ImportNode *n, size_t i);
const Type *input_type(const ImportNode *n, size_t i); /* the input must be present */
Val input(ImportNode *n, size_t i);                    /* builds it; 0 after an error, or if absent */
ImportKnown input_known(ImportNode *n, size_t i);      /* items NULL if absent or unknown */
const ImportFact *input_fact(ImportNode *n, size_t i); /* NULL if absent */
/* Reads a shape-like input: known, of rank 1 (or a scalar).  False after an error that calls it `what`. */
bool input_exprs(ImportNode *n, size_t i, const char *what, ImportKnown *out);

/* Reads the extents of a result from an input: at most MAX_RANK, all accepted by known_extents. */
bool input_shape(ImportNode *n, size_t i, const char *what, ImportKnown *out);
bool input_ints(ImportNode *n, size_t i, const char *what, int64_t *out, int *count); /* constants; at most KNOWN_MAX */
/* Reads constant floats, at most `max`. */
bool input_doubles(ImportNode *n, size_t i, const char *what, int max, double *out, int *count);
/* Reports that an input is not a constant, or not an expression of sizes: what it is, and the nodes that compute it. */
bool input_refused(ImportNode *n, size_t i, const char *what);
void say_origin(ImportNode *n, size_t i);                /* adds only the note about those nodes, after an error */
bool node_extent(ImportNode *n, double x, int64_t *out); /* rounds a computed extent down; false after an error */
bool input_number(ImportNode *n, size_t i, double *out); /* reads a constant of one element; false without a report */

/* ---- outputs */

/* True if output i is used. */
bool wants(const ImportNode *n, size_t i);
bool import_set_output(ImportNode *n, size_t i, Val v); /* false if v is 0 */
/* Makes output i a list of known integers.  Always true. */
bool import_set_known(ImportNode *n, size_t i, ImportKnown k);
void import_set_alias(ImportNode *n, size_t i, ImportItem *from);        /* uses of the output read `from` */
void import_set_tensor(ImportNode *n, size_t i, const ImportItem *from); /* a tensor of the file, by item_of_tensor */

/* ---- attributes; a wrong type is reported and makes the node fail */

/* True if the attribute is present; its value, or `otherwise` if absent. */
bool has_attr(const ImportNode *n, const char *name);
int64_t node_int(ImportNode *n, const char *name, int64_t otherwise);
double node_float(ImportNode *n, const char *name, double otherwise);
const char *node_string(ImportNode *n, const char *name, const char *otherwise);
/* The list; count is -1 if absent. */
const int64_t *node_ints(ImportNode *n, const char *name, int *count);
/* Fills `out` if the list is given; false after an error if it has another length, or an entry below `least` or
 * above INT32_MAX. */
bool node_ints_into(ImportNode *n, const char *name, int expected, int64_t least, int64_t *out);
const float *node_floats(ImportNode *n, const char *name, size_t *count); /* NULL and 0 if absent */
const char *const *node_strings(ImportNode *n, const char *name, size_t *count);
bool node_dtype(ImportNode *n, const char *name,
                DType *out); /* an element type; false after an error, also if absent */
const Onnx__TensorProto *node_tensor(ImportNode *n, const char *name);
const Onnx__GraphProto *node_graph(ImportNode *n, const char *name); /* NULL after an error */

/* ---- graphs inside the node (subgraph.c) */

/* Imports the nodes of the graph at this point; its input i is in[i].  Sets out[i] to its output i if `wanted`
 * (NULL: all). */
bool import_subgraph(ImportNode *n, const Onnx__GraphProto *proto, ImportItem *const *in, const bool *wanted,
                     ImportItem **out);
/* Builds the values that the graph reads from outside, so that none of them is first built inside a loop. */
bool import_captured(ImportNode *n, const Onnx__GraphProto *proto);
/* Reports that the node needs a tensor of that name, not a sequence; returns false. */
bool node_sequence_error(ImportNode *n, const char *name);
ImportItem *new_item(ImportNode *n, const char *name, Val v);
bool item_number(ImportNode *n, ImportItem *item, double *out); /* as input_number */

/* ---- helpers */

/* True if the two are the same expression.  If not, the import may start again with an assumption that makes them
 * equal. */
bool equal_extents(ImportNode *n, const Expr *p, const Expr *q);
/* As equal_extents, for two extents that are broadcast. */
bool equal_or_one(ImportNode *n, const Expr *p, const Expr *q);
/* Returns e / by if that is exact, else NULL; then the import may start again with an assumption that makes it
 * exact. */
const Expr *exact_extent(ImportNode *n, const Expr *e, const Expr *by);
/* As equal_extents; either extent may be 1. */
bool extents_broadcast(ImportNode *n, const Expr *p, const Expr *q);
/* Computes NumPy broadcasting of extents; false if two extents differ. */
bool broadcast_extents(ImportNode *n, const Type *x, const Type *y, int *rank, const Expr **dims);
/* Negative axes count from `rank`; false after an error. */
bool node_axis(ImportNode *n, int64_t axis, int rank, int *out);
/* Reads axes from an attribute (before `since_input`) or from input 1, as a bit set; *given is false if absent. */
bool node_axes(ImportNode *n, int64_t since_input, int rank, unsigned *out, bool *given);

Val splat_like(ImportNode *n, Val like, double value);       /* a constant of the type of `like` */
Val binary(ImportNode *n, OpKind k, Val x, Val y);           /* NumPy broadcasting */
Val binary_number(ImportNode *n, OpKind k, Val x, double y); /* y as a splat of x's type */
/* Broadcasts x to these extents. */
Val broadcast(ImportNode *n, Val x, int rank, const Expr *const *dims);
/* Converts to a type as Cast does with its attributes saturate and round_mode, which it reads from the node. */
Val import_cast_value(ImportNode *n, Val x, DType to);
Val clamp(ImportNode *n, Val x, Val low, Val high); /* as Clip; 0 for low or high: no bound */
/* Clamps to constants. */
Val clamp_numbers(ImportNode *n, Val x, double low, double high);
Val select3(ImportNode *n, Val condition, Val x, Val y);      /* NumPy broadcasting of all three */
Val insert_dims(ImportNode *n, Val x, unsigned at, int rank); /* reshapes to `rank` with extents 1 at these positions */
Val drop_dims(ImportNode *n, Val x, unsigned at);             /* reshapes without these dimensions of extent 1 */
/* Reduces over a bit set of axes; mean_axes also divides. */
Val import_reduce_axes(ImportNode *n, Reduction r, Val x, unsigned axes, bool keepdims);
Val mean_axes(ImportNode *n, Val x, unsigned axes, bool keepdims);
Val wrap_checked_index(ImportNode *n, Val index, const Expr *extent); /* as wrap_index; an index outside is an error */
/* Checks the constant elements of input i: element e must be inside extents[e % k], possibly counted from its end.
 * False after a diagnostic.  Elements that are unknown are checked when the program runs. */
bool indices_are_inside(ImportNode *n, size_t i, int k, const Expr *const *extents);
Val gather_wrapped(ImportNode *n, Val table, Val index, int axis); /* negative indices count from the end */
Val wrap_index(ImportNode *n, Val index, const Expr *extent); /* negative indices count from `extent`; keeps the type */
Val take(ImportNode *n, Val x, Val index, int axis);
Val scan(ImportNode *n, Reduction r, Val x, int axis, bool exclusive, bool reverse);
bool import_slice_moves(ImportNode *n, int i, int axis,
                        Val *x); /* for bounds i of a Slice that move with a loop (import_moving.c) */
Val log_softmax(ImportNode *n, Val x, int axis);
Val matmul(ImportNode *n, Val x, Val y);            /* as MatMul */
Val convolution(ImportNode *n, Val x, Val weights); /* as Conv, with the node's attributes, without bias */
Val to_bool(ImportNode *n, Val x);
/* Of norms: c [channels] reshaped to align with dimension 1 of a tensor of that rank; x * scale + bias, where 0 stands
 * for none; the smallest type that holds the numbers of both; false after an error if an input from the second on is
 * not one number per channel of the first. */
Val per_channel(ImportNode *n, Val c, int rank);
Val scale_and_shift(ImportNode *n, Val x, Val scale, Val bias);
DType wider(DType a, DType b);
bool channels_fit(ImportNode *n);
/* Uniform numbers in [0, 1) of that type, or standard normal ones, which follow from the node's name and `seed`. */
Val import_random_values(ImportNode *n, const char *kind, const Type *type, int64_t seed);
Val import_scalar_i64(ImportNode *n, const Expr *value); /* i64[] */
Val iota_i64(ImportNode *n, int rank, const Expr *const *dims, int axis);
Val import_known_value(ImportNode *n, const ImportKnown *k);
const char *import_type_string(Module *m, const Type *t);
Val item_value(ImportNode *n, ImportItem *item);
ImportItem item_of_tensor(ImportNode *n, const Onnx__TensorProto *tensor, const char *name, bool *ok);

#endif
