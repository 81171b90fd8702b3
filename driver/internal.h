/* driver/internal.h - what driver.c has elsewhere. */
#ifndef APC_DRIVER_INTERNAL_H
#define APC_DRIVER_INTERNAL_H

#include "driver/driver.h"

/* plan.c */
bool stage_plan(Build *b);
bool save_texts(const Build *b); /* the texts of --save-temps: the IR as far as it has come, and the plan */

#endif
