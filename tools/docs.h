/* tools/docs.h - the documents that apc-docs prints from the tables: manual pages and shell completion. */
#ifndef APC_TOOLS_DOCS_H
#define APC_TOOLS_DOCS_H

#include "tools/options.h"

/* tools/docs_man.c: pages in man(7) macros, on standard output. */
void docs_apc_1(void);
void docs_apc_opt_1(void);
void docs_apc_model_1(void);
void docs_apc_targets_5(void);
void docs_apc_plan_5(void);

/* tools/docs_completion.c: scripts, on standard output. */
void docs_bash(void);
void docs_zsh(void);
void docs_fish(void);

#endif
