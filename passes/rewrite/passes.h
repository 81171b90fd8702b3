/* passes/rewrite/passes.h - the rewriting passes, which pipeline.c orders; training is passes/train/train.h.  Each
 * returns false after diagnostics. */
#ifndef APC_PASSES_REWRITE_PASSES_H
#define APC_PASSES_REWRITE_PASSES_H

#include "ir/device.h"
#include "ir/ir.h"

/* inline.c: replaces calls by the callee's operations. */
bool pass_inline(Module *m, Diags *diags);
/* fold.c: folds batch norms into the weights before them. */
bool pass_fold(Module *m, Diags *diags);
/* channels_last.c: moves the channels of convolutions' images into the last dimension.  trained: weights change. */
bool pass_channels_last(Module *m, const DeviceTraits *device, bool trained, Diags *diags);
/* rows.c: lets products of joined rows keep the dimensions that were joined. */
bool pass_rows(Module *m, Diags *diags);
/* views.c: turns slices, splits and transposes of weights into views of the weights. */
bool pass_views(Module *m, Diags *diags);
/* recognise.c: turns norms and attention written as primitive operations into composites.  `trained`: by weight,
 * whether a step needs its gradient; NULL: none. */
bool pass_recognise(Module *m, const bool *trained, Diags *diags);
/* heads.c: gives projections to and from heads the order of one matrix product. */
bool pass_heads(Module *m, const DeviceTraits *device, Diags *diags);
/* dce.c: drops unused operations. */
bool pass_dce(Module *m, Diags *diags);
/* narrow.c: computes f32 values in the 16-bit type `to`; f32: changes nothing. */
bool pass_narrow(Module *m, DType to, Diags *diags);
/* widen.c: computes products with 16-bit weights in f32. */
bool pass_widen(Module *m, const DeviceTraits *device, Diags *diags);
/* strided.c: lets products read operands of transposes in place. */
bool pass_strided(Module *m, const DeviceTraits *device, Diags *diags);
/* joined.c: joins products of one value with weights of heads into one product. */
bool pass_joined(Module *m, const DeviceTraits *device, Diags *diags);
/* within.c: checks computed indices before they are used. */
bool pass_within(Module *m, Diags *diags);
/* prepare.c: moves work on weights alone to @prepare, which runs once at loading. */
bool pass_prepare(Module *m, Diags *diags);
/* hoist.c: computes loop-invariant values before the loop. */
bool pass_hoist(Module *m, Diags *diags);
/* unshare.c: gives every user of a small weight its own read. */
bool pass_unshare(Module *m, Diags *diags);
/* order.c: places sources before their first use, and writes after their value. */
bool pass_order(Module *m, Diags *diags);
/* group.c: gives corresponding operations of repeated blocks one group. */
bool pass_group(Module *m, Diags *diags);
/* outline.c: turns repeated blocks into called functions; the inverse of inline. */
bool pass_outline(Module *m, Diags *diags);

#endif
