/* ir/holes.h - names with holes, in blocks that are called several times (docs/ir.md).
 *
 * In "/h.{0}/attn/MatMul_{2}", {N} is replaced by label N of the call; "{{" is a brace.
 */
#ifndef APC_IR_HOLES_H
#define APC_IR_HOLES_H

#include "base/text.h"

/* Fills the holes of a name; NULL if a hole has no label or a brace is alone. */
const char *holes_fill(Arena *a, const char *name, int nlabels, const char *const *labels);

/* Appends n bytes of plain text, braces doubled. */
void holes_add_text(Text *t, const char *plain, size_t n);
void holes_add(Text *t, int label); /* appends {label} */

#endif
