/* tools/emit_trace.h - --emit=trace: the predicted time of a plan in the Trace Event Format. */
#ifndef APC_TOOLS_EMIT_TRACE_H
#define APC_TOOLS_EMIT_TRACE_H

#include "tools/build.h"

/* Prints the timeline; false after a diagnostic, for a plan of several entries. */
bool trace_print(Tool *t, const Build *b, Text *out);

#endif
