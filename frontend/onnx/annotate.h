/* frontend/onnx/annotate.h - adds a device configuration and the annotations of nodes to a model (IR version 11).
 *
 * An installed onnx.proto may lack these fields, so they are packed with onnx_overlay.proto and added as unknown
 * fields. Annotations of other configurations stay.
 */
#ifndef APC_FRONTEND_ONNX_ANNOTATE_H
#define APC_FRONTEND_ONNX_ANNOTATE_H

#include "frontend/onnx/file.h"

typedef struct OnnxConfiguration {
  const char *name;
  int ndevices;
  const char *const *devices; /* their names */
} OnnxConfiguration;

/* The annotation of a node for one configuration. */
typedef struct OnnxAnnotation {
  int stage; /* of the pipeline; -1 if not known, or if there is one stage only */
  struct {
    OnnxOverlay__ShardingSpecProto **items;
    size_t n, cap;
  } specs;
} OnnxAnnotation;

/* Adds the configuration, and by node of the model's graph its annotation; nodes with neither stage nor specs get none.
 * Replaces a configuration of the same name, and raises the IR version to 11. */
void onnx_annotate(Arena *a, Onnx__ModelProto *model, const OnnxConfiguration *c, const OnnxAnnotation *by_node);

#endif
