/* frontend/onnx/notes.h - what apc writes about a plan into the metadata of an ONNX file, and reads again.
 *
 * Sharding annotations (annotate.h) say how tensors are split, and in which stage a node is.  ONNX has no field for the
 * rest: micro-batches, the schedule, ZeRO, recomputation, precision.  The entries of ModelProto.metadata_props whose
 * keys begin with "apc." have it:
 *
 *   apc.configuration  the name of the device configuration of the annotations
 *   apc.target         the target, as --target names it
 *   apc.machine        a hash of the text of that target
 *   apc.plan           the plan file (docs/guide/plan.md)
 *   apc.options        the options of the command line that the plan's function depends on, one per line
 *   apc.model          IR text of the model, if it does not come from ONNX: reading the decomposed graph would give
 *                      another function.  A weight with a blob has the elements of the initializer of its name
 *   apc.weights        the names of those initializers, one per line
 *   apc.graph          a hash of the graph that the other entries belong to
 *
 * The graph stays the model: if its hash is another one, because a tool changed nodes, annotations or constants, the
 * entries are not used.  The hash covers nodes with their annotations, inputs and outputs; with apc.model also this
 * text and the elements of initializers, except those of apc.weights.  So tools may replace the weights of a model that
 * comes from ONNX, as `apc convert --weights` does, and users may change the plan.
 */
#ifndef APC_FRONTEND_ONNX_NOTES_H
#define APC_FRONTEND_ONNX_NOTES_H

#include "frontend/onnx/file.h"
#include "ir/ir.h"

typedef struct OnnxNotes {
  const char *configuration, *target, *machine, *plan, *options, *model, *weights; /* NULL without such an entry */
} OnnxNotes;

typedef enum OnnxNoted {
  ONNX_NOTED_NOTHING,
  ONNX_NOTED,
  ONNX_NOTED_ANOTHER /* the graph is not the one that apc wrote */
} OnnxNoted;

/* Reads the entries, in the arena of the diagnostics. */
OnnxNoted onnx_notes_read(OnnxFile *f, OnnxNotes *out, Diags *d);

/* Replaces the entries of a model, without apc.graph. */
void onnx_notes_put(Arena *a, Onnx__ModelProto *model, const OnnxNotes *notes);

/* Adds apc.graph to a packed model that has entries; `name` is for messages.  Returns the new bytes in the arena of the
 * diagnostics, NULL after a diagnostic. */
uint8_t *onnx_notes_seal(const char *name, const uint8_t *packed, size_t *bytes, Diags *d);

/* Sets `model` and `weights` to the text of a module and its weights with blobs.  False after a diagnostic: the name of
 * a weight cannot be listed. */
bool onnx_notes_model(const Module *m, OnnxNotes *out, Diags *d);

/* Gives the weights of a module read from apc.model the bytes of the initializers of this file.  False after a
 * diagnostic. */
bool onnx_notes_attach(OnnxFile *f, Module *m, Diags *d);

#endif
