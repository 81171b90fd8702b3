/* driver/internal.h - what driver.c has elsewhere. */
#ifndef APC_DRIVER_INTERNAL_H
#define APC_DRIVER_INTERNAL_H

#include "driver/driver.h"

/* From now on that stage and those after it count as not run. */
void driver_go_back(Build *b, DriverStage to);

/* plan.c */
bool stage_plan(Build *b);
/* A plan within `limit` bytes as the search counts them, in the place of the one there is; false: there is none, and
 * the old one stays.  Says nothing. */
bool driver_plan_within(Build *b, double limit);
bool driver_save_plan(const Build *b); /* --save-plan */
bool save_texts(const Build *b);       /* the texts of --save-temps: the IR as far as it has come, and the plan */

#endif
