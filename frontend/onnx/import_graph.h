/* frontend/onnx/import_graph.h - the graph around the nodes, shared by import.c, order.c and subgraph.c.
 *
 * A model has one graph; the bodies of Loop, Scan and If are graphs of their own that see the names of the graphs
 * around them.
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
  struct ImportGraph *outer; /* NULL: the model's own */
  const Onnx__GraphProto *proto;
  OnnxNodes nodes;    /* calls of functions expanded */
  NameMap items;      /* name -> Item, of this graph alone */
  NameMap infos;      /* value name -> ValueInfoProto */
  const char **names; /* unique name of every node */
  OnnxReads *reads;   /* names a node needs: its inputs, and what graphs in it read from outside */
  int *order;         /* node indices, definitions before uses */
  size_t norder;
  bool *live;   /* by node: an output of the graph needs it */
  NameMap uses; /* name -> ImportUses, once import_uses has been called */
  NameMap data; /* names of what depends on the graph's inputs, by the same */
} ImportGraph;

/* A node that reads a value, as its operand of that number. */
typedef struct ImportUse {
  size_t node, operand;
} ImportUse;

typedef struct ImportUses {
  ImportUse *items;
  size_t n, cap;
} ImportUses;

/* import_kind.c: what the file says of its initializers. */
typedef struct OnnxKinds OnnxKinds;
typedef enum OnnxKind {
  ONNX_UNKNOWN,
  ONNX_PARAMETER,
  ONNX_OTHER,   /* a buffer, or a constant of the program */
  ONNX_CONSTANT /* computed from constants alone */
} OnnxKind;

/* A parameter, as the program calls it (p_a_b_weight) and as its module does (a.b.weight). */
typedef struct OnnxQuotedName {
  const char *called, *name;
} OnnxQuotedName;

typedef struct OnnxQuoted {
  OnnxQuotedName *items;
  size_t n, cap;
  bool lacks_bias; /* the exporter has taken a bias of zeros off the node, and did nothing else with it */
} OnnxQuoted;

/* NULL: nothing at all; then kinds are unknown. */
OnnxKinds *import_kinds(Arena *a, const Onnx__GraphProto *g);
OnnxKind import_kind(Arena *a, const OnnxKinds *k, const char *initializer);
/* The names of what the exporter computed it from; none: it did not.  `k` may be NULL. */
OnnxReads import_kind_sources(Arena *a, const OnnxKinds *k, const char *initializer);
const char *import_kind_called(Arena *a, const OnnxKinds *k, const char *initializer);
/* The parameters that the node quotes, in their order there; all that any node quotes, by what the program calls
 * them. */
OnnxQuoted import_kind_quoted(Arena *a, const Onnx__NodeProto *node);
const OnnxReads *import_kind_parameters(const OnnxKinds *k);

struct Import {
  Module *m;
  OnnxFile *file;
  Diags *d;
  ImportGraph *g; /* where names are looked up */
  OnnxDims dims;
  OnnxAssumptions *assumptions;
  int64_t opset;
  Builder b;
  Evaluation evaluation; /* of what is built */
  Loc loc;               /* the file */
  NameMap taken;         /* names of nodes; see unique_node_name */
  bool unknown_as_opaque;
  const OnnxKinds *kinds; /* for training; NULL: the file does not say */
  TrainingFacts *facts;   /* of the weights; never NULL */
  const char *
      *biases; /* by node of the model's graph: a weight that its exporter left out; NULL: none (import_ties.c) */
};

static inline Loc onnx_node_loc(const Import *im, size_t i) {
  return (Loc){.file = im->loc.file, .node = im->g->names[i]};
}

/* ---- import.c */
ImportItem *import_find(const Import *im, const char *name); /* in this graph or one around it; NULL */
ImportItem *import_define(Import *im, const char *name,
                          Loc loc); /* a new item; NULL after an error when the name is taken */
void import_value_infos(Import *im);
bool import_initializers(Import *im);
void import_name_nodes(Import *im, const char *prefix); /* prefix: of the node the graph belongs to; NULL */
bool import_node_outputs(Import *im);
bool import_live_nodes(Import *im); /* false after an error; operators that are missing are reported all at once */

/* ---- order.c */

/* Fills reads and order; false after an error: a name that is defined nowhere, a node that depends on itself. */
bool import_graph_order(Import *im);
/* import_uses.c: fills uses and data; the graph's order is known. */
void import_uses(Import *im);
ImportUses import_uses_of(const Import *im, const char *name);
bool import_is_data(const Import *im, const char *name);

/* import_trained.c: which initializers training changes.  The graph's order is known, no node is imported yet. */
void import_trained(Import *im);
/* Is what the node reads there a weight, by what it does with it?  `single`: it has one element. */
bool import_use_trains(const Import *im, ImportUse use, bool single);
/* Is the file of PyTorch's older exporter? */
bool import_is_traced(const Import *im);
/* "a", "b" and 3 more, in quotes. */
const char *import_names_text(const Import *im, const OnnxReads *names);

/* import_ties.c: weights that the file has once, and are several, and the other way round. */
bool import_ties(Import *im); /* false after an error */
/* Adds the bias that the exporter left out, if it did, to what the node gives. */
bool import_left_out(ImportNode *n, size_t node);
/* What node `node` of this graph reads as its operand, of an item that is several. */
ImportItem *import_item_at(const Import *im, ImportItem *item, size_t node, size_t operand);
/* Marks what the graph's outputs need, less those that are not `wanted` (by output; NULL: all are). */
bool import_graph_mark_live(Import *im, const bool *wanted);

/* Names that a graph reads from those around it, each once. */
OnnxReads import_graph_captures(Arena *a, const Onnx__GraphProto *g);

#endif
