/* frontend/hf/template.h - templates of models: text with values and conditions.
 *
 * A line that begins with % is an instruction, any other line is text.  In a line of text $NAME or ${NAME} is replaced
 * by the value of a field of config.json (config.h has the form of names), as a number, a list or the characters of a
 * string.  VALUE is written as in JSON; in `default` it may also be $NAME.
 *
 *   %# ...                   a comment
 *   %include TEMPLATE        the lines of another template
 *   %if C ... %else ... %end the lines only if C holds; C is one or more of NAME (is not missing, null, false, 0 or
 *                            empty), NAME == VALUE, tensor:NAME (the folder has it), each perhaps after `not`, all
 *                            joined by `and`, or all by `or`
 *   %default NAME VALUE      the value of a field that is missing or null
 *   %absent NAME VALUE       the value of a field that is missing; null stays
 *   %optional NAME...        the fields are read if they are there
 *   %set NAME VALUE          a name of the template's own: own.NAME
 *   %copy NAME OTHER         the same, with the value of another field
 *   %move NAME OTHER         the value under another name, which the file must not have, instead of its own
 *   %ratio NAME A B          the value of a field that is missing or null: A / B
 *   %require NAME VALUE...   the field must be missing, null or one of these
 *   %each NAME VALUE...      each item of the list, if there is one, must be one of these
 *   %ignore NAME...          the fields do not change what is computed
 *   %type TYPE NAME...       the fields must be missing, null or of the type (template.c has a table of them)
 *   %family NAME TEMPLATE    the lines until the next `family` are for this architecture, whose model is TEMPLATE
 *
 * An instruction declares the fields that it names (all but %if, %move and %type): a field that the family does not
 * declare is as good as missing for all templates, and an error at the end.
 */
#ifndef APC_FRONTEND_HF_TEMPLATE_H
#define APC_FRONTEND_HF_TEMPLATE_H

#include "frontend/hf/config.h"
#include "frontend/hf/import.h"

/* The files frontend/hf/NAME.hf; the last has no name. */
typedef struct HfTemplate {
  const char *name, *text;
} HfTemplate;
extern const HfTemplate hf_templates[];

typedef struct HfRun {
  HfConfig *config;
  const HfFolder *folder;
  Text *out;
  const char *architecture; /* in families.hf: the section that is read; NULL elsewhere */
  bool elsewhere;           /* inside the section of another architecture */
  const char *model;        /* the template that the section names */
  const char *names;        /* of all families, for messages */
} HfRun;

/* Follows the lines of a template; false after diagnostics. */
bool hf_template_run(HfRun *run, const char *name);

#endif
