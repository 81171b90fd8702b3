/* tools/option_values.h - checks the form of option values; private to the option reader. */
#ifndef APC_TOOLS_OPTION_VALUES_H
#define APC_TOOLS_OPTION_VALUES_H

#include "tools/options.h"

/* True if the value has the form that the option takes; false after a usage diagnostic. */
bool option_value_check(Diags *d, OptionId option, const char *value);

/* True if the words of a CHOICE or EMIT value are built; false after diagnostics of those that are not. */
bool option_choices_built(Diags *d, OptionId option, const char *value);

bool tool_parse_real(const char *text, double *out); /* finite, from 0 */

#endif
