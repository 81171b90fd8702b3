/* tools/option_values.h - the form of option values; private to the option reader. */
#ifndef APC_TOOLS_OPTION_VALUES_H
#define APC_TOOLS_OPTION_VALUES_H

#include "tools/options.h"

/* Is the value of the kind the option takes?  False after a usage diagnostic. */
bool option_value_check(Diags *d, OptionId option, const char *value);

/* Are the words of a CHOICE or EMIT value built?  False after the diagnostics of those that are not. */
bool option_choices_built(Diags *d, OptionId option, const char *value);

bool tool_parse_real(const char *text, double *out); /* finite, from 0 */

#endif
