/* tools/target_report.h - targets of the command line, and targets as text and JSON. */
#ifndef APC_TOOLS_TARGET_REPORT_H
#define APC_TOOLS_TARGET_REPORT_H

#include "ir/target.h"
#include "tools/tool.h"

/* Returns the target of --target (default: APC_TARGET, else "cpu") for the type of --dtype; NULL after diagnostics. */
const Target *tool_target(Tool *t);
/* The same without APC_CALIBRATION and --dtype: its figures before any measurement. */
const Target *tool_target_fixed(Tool *t);
/* Returns a line on the source of the figures: fixed ones that are not of this machine, or measured ones and their
 * file.  NULL if neither. */
const char *tool_target_figures(Arena *a, const Target *target);
/* Returns the same as JSON. */
json_t *tool_target_figures_json(const Target *target);
/* Returns the type of --dtype; f32 without it. */
ComputeType tool_compute(const Tool *t);
/* Returns the target of a name or a file; NULL after diagnostics. */
const Target *tool_target_of(Tool *t, const char *name);
/* Returns its canonical text. */
const char *tool_target_text(Tool *t, const char *name);

/* Returns the origin of the price in use: "AWS on-demand us-east-1, 2026-07-20". */
const char *tool_price_text(Arena *a, const Target *target);
/* Returns "4 cpu ranks of 1 node; each 55 GFLOPS f32, 4.0 GB at 11 GB/s; shared-memory 3.2 GB/s". */
const char *tool_target_line(Arena *a, const Target *target);
/* Print the table of `apc targets`. */
void tool_target_table_head(void);
void tool_target_table_row(Arena *a, const char *name, const Target *target);
/* Returns the whole target as JSON. */
json_t *tool_target_json(const Target *target);

#endif
