/* driver/complete.h - a plan file with a few lines (--plan, a file with a line `complete`): what it says is kept, the
 * rest is searched for. */
#ifndef APC_DRIVER_COMPLETE_H
#define APC_DRIVER_COMPLETE_H

#include "driver/driver.h"

/* From now on the build's plan is searched for within what the file says (PlanOptions.said, degrees and other options
 * that it forces).  False after diagnostics: the file contradicts the model, the target, itself or the options. */
bool driver_complete(Build *b, const PlanFile *file);

/* No plan keeps what the file says, and `why` is why: that, or which lines cannot hold beside the others. */
Diags *driver_blame_lines(const Build *b, Diags *why);

#endif
