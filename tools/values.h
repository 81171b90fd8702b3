/* tools/values.h - values of inputs that may become part of the model when it is compiled. */
#ifndef APC_TOOLS_VALUES_H
#define APC_TOOLS_VALUES_H

#include "frontend/onnx/import.h"
#include "tools/tool.h"

typedef struct ToolValues {
  OnnxValue *items;
  size_t n, cap;
  bool said; /* the user knows which of them were bound */
} ToolValues;

/* Returns the values of --const and, for commands that run the model, those of --input and --inputs with at most
 * ONNX_VALUE_MOST elements.  They are read once.  NULL after diagnostics. */
ToolValues *tool_values(Tool *t);

/* Splits NAME=@FILE, or @FILE with the name "" for the only input or output; false if the text has another form. */
bool tool_split_binding(Tool *t, const char *text, const char **name, const char **file);

/* Says once which inputs the import bound by itself. */
void tool_values_say(Tool *t);

#endif
