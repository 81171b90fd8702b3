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
  bool *live; /* by node: an output of the graph needs it */
} ImportGraph;

/* import_kind.c: what the file says of its initializers. */
typedef struct OnnxKinds OnnxKinds;
typedef enum OnnxKind { ONNX_UNKNOWN, ONNX_PARAMETER, ONNX_OTHER } OnnxKind;

/* NULL: nothing at all; then kinds are unknown. */
OnnxKinds *import_kinds(Arena *a, const Onnx__GraphProto *g);
OnnxKind import_kind(Arena *a, const OnnxKinds *k, const char *initializer);

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
};

static inline const char *onnx_text(const char *s) { return s ? s : ""; }
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
/* import_trained.c: is the initializer of that name a weight even if it has one element?  Is it none, however many it
 * has? */
bool import_is_trained(const Import *im, const char *name);
bool import_is_fixed(const Import *im, const char *name);
/* Warns of weights that the exporter may have made one of several. */
void import_warn_of_ties(const Import *im);
/* Marks what the graph's outputs need, less those that are not `wanted` (by output; NULL: all are). */
bool import_graph_mark_live(Import *im, const bool *wanted);

/* Names that a graph reads from those around it, each once. */
OnnxReads import_graph_captures(Arena *a, const Onnx__GraphProto *g);

#endif
