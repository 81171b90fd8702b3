/* driver/complete.h - partial plan files (--plan with a file that has the line `complete`): the search keeps the lines
 * of the file and chooses everything else. */
#ifndef APC_DRIVER_COMPLETE_H
#define APC_DRIVER_COMPLETE_H

#include "driver/driver.h"

/* Restricts later searches of the build to what the file says: PlanOptions.said, degrees and other options.  False
 * after diagnostics if the file contradicts the model, the target, itself or the options. */
bool driver_complete(Build *b, const PlanFile *file);

/* Explains why no plan satisfies the file: returns `why`, or the lines that contradict the others. */
Diags *driver_blame_lines(const Build *b, Diags *why);

#endif
