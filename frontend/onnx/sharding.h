/* frontend/onnx/sharding.h - the multi-device annotations of a model (IR version 11), by node of its graph.
 *
 * A model lists configurations of devices.  A node says, for a configuration, how its operands and results are spread
 * over the devices (sharding_spec.h), and its pipeline stage.
 */
#ifndef APC_FRONTEND_ONNX_SHARDING_H
#define APC_FRONTEND_ONNX_SHARDING_H

#include "ir/ir.h"
#include "onnx_overlay.pb-c.h"

typedef struct OnnxDevices {
  const char *name; /* of the configuration */
  int devices;
} OnnxDevices;

/* The sharding of an operand or a result. */
typedef struct OnnxTensorSharding {
  const char *tensor;
  bool result;
  bool malformed; /* the import has warned of it */
  const OnnxOverlay__ShardingSpecProto *spec;
  const Type *type;  /* NULL if not known */
  const char *maker; /* the operation that makes it; NULL: it has none, as its elements are known or unused */
  int number;        /* of the maker's result */
  int place;         /* among the node's operands, or its results */
  uint32_t summed;   /* of an operand of a product: the dimensions that it sums over, as a bit set */
} OnnxTensorSharding;

/* The annotations of a node for one configuration. */
typedef struct OnnxNodeSharding {
  const char *node;          /* Loc.node of its operations */
  const char *configuration; /* its name */
  bool staged;
  int stage;
  struct {
    OnnxTensorSharding *items;
    size_t n, cap;
  } tensors;
} OnnxNodeSharding;

typedef struct OnnxSharding {
  struct {
    OnnxDevices *items;
    size_t n, cap;
  } configurations;
  struct {
    OnnxNodeSharding *items;
    size_t n, cap;
  } nodes;                  /* of the model's own graph */
  size_t annotated, inside; /* nodes with annotations; those of them in functions and in graphs inside nodes */
} OnnxSharding;

#endif
