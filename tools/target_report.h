/* tools/target_report.h - targets for people and programs. */
#ifndef APC_TOOLS_TARGET_REPORT_H
#define APC_TOOLS_TARGET_REPORT_H

#include "ir/target.h"
#include "tools/tool.h"

/* What --target says (default: APC_TARGET, else "cpu"), computing as --dtype says; NULL after diagnostics. */
const Target *tool_target(Tool *t);
/* The same without APC_CALIBRATION and --dtype: as it is known before anything is measured. */
const Target *tool_target_fixed(Tool *t);
/* Where the figures come from, where that is worth a line: they are fixed, and not those of this machine; or measured,
 * and in which file.  NULL: it is not. */
const char *tool_target_figures(Arena *a, const Target *target);
json_t *tool_target_figures_json(const Target *target);
/* What --dtype says; f32 without it. */
ComputeType tool_compute(const Tool *t);
/* The target of a name, a .topo file or a refused kind of file; NULL after diagnostics. */
const Target *tool_target_of(Tool *t, const char *name);
/* Its canonical text. */
const char *tool_target_text(Tool *t, const char *name);

/* "AWS on-demand us-east-1, 2026-07-20": what the price that counts is from. */
const char *tool_price_text(Arena *a, const Target *target);
/* "4 cpu ranks of 1 node; each 55 GFLOPS f32, 4.0 GB at 11 GB/s; shared-memory 3.2 GB/s" */
const char *tool_target_line(Arena *a, const Target *target);
/* The table of `apc targets`. */
void tool_target_table_head(void);
void tool_target_table_row(Arena *a, const char *name, const Target *target);
json_t *tool_target_json(const Target *target);

#endif
