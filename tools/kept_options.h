/* tools/kept_options.h - the options and the plan that --emit=onnx keeps in a file, when the file is used as a model.
 *
 * A plan belongs to a function, which depends on options such as --dtype, --train and --dim.  The file has them as
 * words (apc.options); they count as if they were on the command line, unless the line has the same option, for --dim,
 * --dim-hint and --shape of the same name.  Then the file's plan counts as --plan, unless an option of the line
 * determines the plan in another way or changes the function, or the target is another one, or has been changed since.
 * A line on standard error says what is used, and why a plan is not.
 */
#ifndef APC_TOOLS_KEPT_OPTIONS_H
#define APC_TOOLS_KEPT_OPTIONS_H

#include "tools/tool.h"

/* Returns the words for apc.options, one per line; "" if there are none.  `dims`: also those that bind dimensions,
 * which IR text has in itself. */
const char *tool_kept_words(Tool *t, bool dims);

/* Returns a hash of the target's text, without calibrations, as text; "" after a failure to read it. */
const char *tool_kept_machine(Tool *t, const char *target);

/* Adds the options of the model's file to those of the line, for commands that plan.  False after a diagnostic: a word
 * of the file is no option. */
bool tool_kept_options(Tool *t);

#endif
