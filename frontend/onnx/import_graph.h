/* frontend/onnx/import_graph.h - the graph around the nodes, shared by import.c, order.c and subgraph.c.
 *
 * A model has one graph.  The bodies of Loop, Scan and If are separate graphs that can read the names of outer
 * graphs.
 */
#ifndef APC_FRONTEND_ONNX_IMPORT_GRAPH_H
#define APC_FRONTEND_ONNX_IMPORT_GRAPH_H

#include "frontend/onnx/dims.h"
#include "frontend/onnx/functions.h"
#include "frontend/onnx/import_private.h"
#include "frontend/onnx/names.h"

typedef struct OnnxReads {
  const char **items;
  size_t n, cap;
} OnnxReads;

typedef struct ImportGraph {
  struct ImportGraph *outer; /* NULL for the model's own graph */
  const Onnx__GraphProto *proto;
  OnnxNodes nodes;    /* with calls of functions expanded */
  NameMap items;      /* name -> ImportItem, of this graph only */
  NameMap infos;      /* value name -> ValueInfoProto */
  const char **names; /* unique name of every node */
  OnnxReads *reads;   /* names that a node needs: its inputs, and names that its inner graphs read from outside */
  int *order;         /* node indices, definitions before uses */
  size_t norder;
  bool *live;   /* by node: an output of the graph needs it */
  NameMap uses; /* name -> ImportUses, once import_uses has been called */
  NameMap data; /* names of values that depend on the graph's inputs, filled by import_uses */
} ImportGraph;

/* A node that reads a value as the operand of that number. */
typedef struct ImportUse {
  size_t node, operand;
} ImportUse;

typedef struct ImportUses {
  ImportUse *items;
  size_t n, cap;
} ImportUses;

/* import_kind.c: what the file says about its initializers. */
typedef struct OnnxKinds OnnxKinds;
typedef enum OnnxKind {
  ONNX_UNKNOWN,
  ONNX_PARAMETER,
  ONNX_OTHER,   /* a buffer, or a constant of the program */
  ONNX_CONSTANT /* computed from constants alone */
} OnnxKind;

/* A parameter: its name in the program (p_a_b_weight) and in its module (a.b.weight). */
typedef struct OnnxQuotedName {
  const char *called, *name;
} OnnxQuotedName;

typedef struct OnnxQuoted {
  OnnxQuotedName *items;
  size_t n, cap;
  bool lacks_bias; /* the exporter removed a bias of zeros from the node and changed nothing else */
} OnnxQuoted;

/* Reads the notes of the file; NULL if it has none, in which case kinds are unknown. */
OnnxKinds *import_kinds(Arena *a, const Onnx__GraphProto *g);
OnnxKind import_kind(Arena *a, const OnnxKinds *k, const char *initializer);
/* The names of the initializers that the exporter computed it from; empty if it did not.  `k` may be NULL. */
OnnxReads import_kind_sources(Arena *a, const OnnxKinds *k, const char *initializer);
const char *import_kind_called(Arena *a, const OnnxKinds *k, const char *initializer);
/* The parameters that the node quotes, in their order there.  import_kind_parameters returns all that any node
 * quotes, by their name in the program. */
OnnxQuoted import_kind_quoted(Arena *a, const Onnx__NodeProto *node);
const OnnxReads *import_kind_parameters(const OnnxKinds *k);
/* Number i of the buffers that the node quotes; false if there are not so many. */
bool import_kind_buffer(Arena *a, const Onnx__NodeProto *node, int i, OnnxQuotedName *out);

/* A running statistic: a param of the module, and its value after the nodes so far, of the param's type. */
typedef struct ImportStatistic {
  const char *param;
  Val value;
} ImportStatistic;

/* Nodes that compute otherwise in training (import_mode.c). */
typedef struct ImportModes {
  bool evaluates;                          /* the function is @eval of a model that is trained */
  OnnxReads measures, frozen, drops, idle; /* names of batch norms and dropouts, by what was decided */
  OnnxReads draws, noise;                  /* nodes that draw random numbers; those that evaluation leaves out */
  bool *met;                               /* by glob of --train-mode: it fits a node */
  struct {
    ImportStatistic *items;
    size_t n, cap;
  } statistics;
} ImportModes;

struct Import {
  Module *m;
  OnnxFile *file;
  Diags *d;
  ImportGraph *g; /* the graph in which names are looked up */
  OnnxDims dims;
  OnnxAssumptions *assumptions;
  int64_t opset;
  Builder b;
  Evaluation evaluation; /* of values built so far */
  Loc loc;               /* the file */
  NameMap taken;         /* names of nodes; see unique_node_name */
  bool unknown_as_opaque;
  const struct OnnxRules *rules; /* of operators; NULL if none */
  const OnnxKinds *kinds;        /* for training; NULL if the file has no notes */
  TrainingFacts *facts;          /* of the weights; never NULL */
  ImportModes modes;
  const char *
      *biases; /* by node of the model's graph: a weight that its exporter left out; NULL if none (import_ties.c) */
};

/* Returns the location of node i of the current graph, for diagnostics. */
static inline Loc onnx_node_loc(const Import *im, size_t i) {
  return (Loc){.file = im->loc.file, .node = im->g->names[i]};
}

/* ---- import.c */
ImportItem *import_find(const Import *im, const char *name); /* in this graph or an outer one; NULL if none */
ImportItem *import_define(Import *im, const char *name,
                          Loc loc); /* a new item; NULL after an error if the name is taken */
/* Registers the declared types of values. */
void import_value_infos(Import *im);
/* Defines the items of initializers.  False after an error. */
bool import_initializers(Import *im);
void import_name_nodes(Import *im, const char *prefix); /* prefix: name of the outer node, or NULL */
/* Defines the items of node outputs.  False after an error: a name is taken. */
bool import_node_outputs(Import *im);
bool import_live_nodes(Import *im); /* false after an error; missing operators are reported all at once */

/* ---- import_value.c: values of inputs that are known at import */

/* The value that makes the input part of the function; NULL if it has none, or is an input like any other. */
OnnxValue *import_bound_value(const Import *im, const char *input);
/* Builds the input with its elements listed and known; 0 after an error, or if the import has to start again with
 * dimensions that take the value's extents. */
Val import_fixed_input(Import *im, const char *input, const Type *type, const OnnxValue *value);
/* False after an error: a value that is asked for has no input. */
bool import_check_values(const Import *im);
/* After an operator refused operand i, which is computed from data: the import starts again with the input that it
 * comes from bound, if its value is given.  The second does so for one small operand of a node that failed. */
void import_bind_origin(ImportNode *n, size_t i);
void import_bind_operands(ImportNode *n);
/* The input of the graph that operand i depends on (origin.c); NULL if it is another thing. */
const char *import_origin(ImportNode *n, size_t i);

/* ---- order.c */

/* Fills reads and order; false after an error: a name that is not defined, or a node that depends on itself. */
bool import_graph_order(Import *im);
/* import_uses.c: fills uses and data; the graph's order must be known. */
void import_uses(Import *im);
ImportUses import_uses_of(const Import *im, const char *name);
bool import_is_data(const Import *im, const char *name);

/* import_trained.c: decides which initializers training changes.  The graph's order is known, no node is imported
 * yet. */
void import_trained(Import *im);
/* The tensor of that weight in the file of weights; NULL if there is no file, or it has none. */
const struct SafetensorsEntry *import_stored(const Import *im, const char *weight);
/* True if the operand is a weight, judging by how the node uses it.  `single`: it has one element. */
bool import_use_trains(const Import *im, ImportUse use, bool single);
/* True if PyTorch's older exporter wrote the file. */
bool import_is_traced(const Import *im);
/* Formats "a", "b" and 3 more, in quotes. */
const char *import_names_text(const Import *im, const OnnxReads *names);

/* import_ties.c: weights that are stored once but are several, and the reverse. */
bool import_ties(Import *im); /* false after an error */
/* import_left_out.c: adds the bias that the exporter left out, if any, to the node's result. */
bool import_left_out(ImportNode *n, size_t node);
/* The item that operand `operand` of node `node` reads, where `item` is several weights. */
ImportItem *import_item_at(const Import *im, ImportItem *item, size_t node, size_t operand);
/* Marks the nodes that the graph's outputs need, except outputs that are not `wanted` (by output; NULL: all are). */
bool import_graph_mark_live(Import *im, const bool *wanted);

/* import_mode.c.  True if that batch norm takes its statistics from the batch. */
bool import_measures(const Import *im, const Onnx__NodeProto *node, const char *name);
/* True if it has set the result: in evaluation a random mask divided by its probability is 1. */
bool import_keeps_all(ImportNode *n);
/* After the nodes: false after an error, for a glob that fits no node. */
bool import_check_modes(const Import *im);
/* Writes the running statistics, and says what was decided. */
void import_end_modes(Import *im);
/* True if the trained model computes otherwise in evaluation. */
bool import_has_modes(const Import *im);
/* Makes all functions read the running statistics as states. */
void import_read_statistics(Module *m);

/* import_sharding.c: returns the multi-device annotations, and warns of faults in them.  The graph is imported. */
const OnnxSharding *import_sharding(const Import *im);

/* The names that a graph reads from outer graphs, each once. */
OnnxReads import_graph_captures(Arena *a, const Onnx__GraphProto *g);

#endif
