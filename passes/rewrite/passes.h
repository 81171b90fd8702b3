/* passes/rewrite/passes.h - the rewriting passes that pipeline.c sequences; training is passes/train/train.h.  Each
 * returns false after diagnostics. */
#ifndef APC_PASSES_REWRITE_PASSES_H
#define APC_PASSES_REWRITE_PASSES_H

#include "ir/device.h"
#include "ir/ir.h"

bool pass_inline(Module *m, Diags *diags); /* inline.c: calls become the callee's operations */
bool pass_fold(Module *m, Diags *diags);   /* fold.c: batch norms become part of the weights before them */
bool pass_channels_last(
    Module *m, const DeviceTraits *device,
    Diags *diags); /* channels_last.c: images of convolutions with the channels in the last dimension */
bool pass_rows(Module *m, Diags *diags); /* rows.c: products of joined rows keep the dimensions that were joined */
bool pass_views(Module *m,
                Diags *diags); /* views.c: slices, splits and transposes of weights become views of the weights */
bool pass_recognise(
    Module *m, Diags *diags); /* recognise.c: norms and attention written as primitive operations become composites */
bool pass_heads(Module *m, const DeviceTraits *device,
                Diags *diags); /* heads.c: products with weights leave heads where one matrix product has them */
bool pass_dce(Module *m, Diags *diags);              /* dce.c: unused operations go */
bool pass_narrow(Module *m, DType to, Diags *diags); /* narrow.c: f32 is computed in a 16-bit type; f32: as it is */
bool pass_widen(Module *m, Diags *diags);            /* widen.c: products with 16-bit weights are done in f32 */
bool pass_strided(Module *m, const DeviceTraits *device,
                  Diags *diags); /* strided.c: products read transposed operands where they lie */
bool pass_joined(Module *m, const DeviceTraits *device,
                 Diags *diags); /* joined.c: products of one value with weights of heads are one product */
bool pass_within(Module *m,
                 Diags *diags); /* within.c: indices that the model computes are looked at before they are used */
bool pass_prepare(Module *m,
                  Diags *diags); /* prepare.c: work on weights alone moves to @prepare, which runs once at loading */
bool pass_hoist(Module *m, Diags *diags);   /* hoist.c: what no round of a loop remakes is computed before it */
bool pass_unshare(Module *m, Diags *diags); /* unshare.c: every user of a small weight reads it anew */
bool pass_order(Module *m, Diags *diags); /* order.c: sources stand before their first use, writes behind their value */
bool pass_group(Module *m, Diags *diags); /* group.c: corresponding operations of repeated blocks get one group */
bool pass_outline(Module *m,
                  Diags *diags); /* outline.c: repeated blocks become functions that are called; inverse of inline */

#endif
