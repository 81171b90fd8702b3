/* tools/command_line.h - the command line as text for a shell. */
#ifndef APC_TOOLS_COMMAND_LINE_H
#define APC_TOOLS_COMMAND_LINE_H

#include "tools/tool.h"

/* Returns "apc plan MODEL ...": the line without the options that write files, and without -q. */
const char *tool_command_line(const Tool *t);

/* Adds a space and a word, quoted if it has other characters than those of names and options. */
void tool_add_word(Text *out, const char *word);

#endif
