/* tools/emit_html.h - --emit=html: a plan as one self-contained page. */
#ifndef APC_TOOLS_EMIT_HTML_H
#define APC_TOOLS_EMIT_HTML_H

#include "tools/build.h"

/* Prints choices, time, memory, and the graph with strategies, layouts and stages. */
void html_print(Tool *t, const Build *b, Text *out);

#endif
