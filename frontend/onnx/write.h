/* frontend/onnx/write.h - builds the protobuf message of an ONNX model, node by node.
 *
 * It has operator set 17 and IR version 8, which most tools read.  Everything lives in the arena of the diagnostics.
 */
#ifndef APC_FRONTEND_ONNX_WRITE_H
#define APC_FRONTEND_ONNX_WRITE_H

#include "base/limits.h"
#include "ir/ir.h"
#include "onnx.pb-c.h"

enum { ONNX_WRITE_OPSET = LIMIT_OPSET_WRITTEN, ONNX_WRITE_IR_VERSION = 8 };

typedef struct OnnxNodeList {
  Onnx__NodeProto **items;
  size_t n, cap;
} OnnxNodeList;

typedef struct OnnxInfoList {
  Onnx__ValueInfoProto **items;
  size_t n, cap;
} OnnxInfoList;

typedef struct OnnxWriter {
  Arena *arena;
  Module *m;
  Builder names; /* of values: unique in the graph */
  OnnxNodeList nodes;
  struct {
    Onnx__TensorProto **items;
    size_t n, cap;
  } tensors;
  OnnxInfoList inputs, outputs;
  struct {
    int *items;
    size_t n, cap;
  } writers; /* by node: `writer` when it was added */
  struct {
    const char **items;
    size_t n, cap;
  } domains;  /* of nodes, besides ONNX's own */
  int writer; /* the operation that is being written (export.h) */
} OnnxWriter;

/* Makes an empty model. */
OnnxWriter *onnx_writer_new(Module *m, Diags *d);

/* The number of an element type in TensorProto.DataType. */
int32_t onnx_type_of(DType t);

/* Adds a node with one result and returns its name: `wanted`, or that with a number if it is taken. */
const char *onnx_write_node(OnnxWriter *w, const char *type, const char *wanted, int nin, const char *const *in,
                            int nattrs, Onnx__AttributeProto *const *attrs);
/* The same with a result whose name is reserved already. */
void onnx_write_result(OnnxWriter *w, const char *type, const char *result, int nin, const char *const *in, int nattrs,
                       Onnx__AttributeProto *const *attrs);

/* The same with several results whose names are reserved already. */
void onnx_write_results(OnnxWriter *w, const char *type, int nout, const char *const *results, int nin,
                        const char *const *in, int nattrs, Onnx__AttributeProto *const *attrs);

/* Puts the node that was added last into another domain, which the model then imports. */
void onnx_write_domain(OnnxWriter *w, const char *domain);

/* A graph inside a node: nodes, inputs and outputs that are added between begin and end belong to it.  Initializers
 * stay in the model's graph. */
typedef struct OnnxAround {
  OnnxNodeList nodes;
  OnnxInfoList inputs, outputs;
  size_t nwriters;
  int writer;
} OnnxAround;
OnnxAround onnx_write_begin(OnnxWriter *w);
Onnx__AttributeProto *onnx_write_end(OnnxWriter *w, OnnxAround around, const char *attr, const char *graph);

/* Make an attribute with an integer, a list of integers, or a string. */
Onnx__AttributeProto *onnx_write_int(OnnxWriter *w, const char *name, int64_t v);
Onnx__AttributeProto *onnx_write_ints(OnnxWriter *w, const char *name, int n, const int64_t *v);
Onnx__AttributeProto *onnx_write_string(OnnxWriter *w, const char *name, const char *v);

/* Adds an initializer and returns its name; `data` (row-major) is kept by reference. */
const char *onnx_write_tensor(OnnxWriter *w, const char *wanted, DType t, int rank, const int64_t *dims,
                              const void *data, size_t bytes);
const char *onnx_write_vector(OnnxWriter *w, int n, const int64_t *v);                        /* i64[n] */
const char *onnx_write_scalar(OnnxWriter *w, DType t, double f, int64_t i, bool one_element); /* t[], or t[1] */

/* Declares an input or output whose name is reserved already. */
void onnx_write_input(OnnxWriter *w, const char *name, const Type *t);
void onnx_write_output(OnnxWriter *w, const char *name, const Type *t);

/* Returns the model, whose parts stay those of the writer. */
Onnx__ModelProto *onnx_writer_model(OnnxWriter *w, const char *graph, const char *producer, const char *version);

/* Returns the bytes of a model, in the arena of the diagnostics; NULL after a diagnostic at `loc`: it has more than the
 * 2 GiB of one protobuf message. */
uint8_t *onnx_pack(const Onnx__ModelProto *model, Loc loc, size_t *bytes, Diags *d);

#endif
