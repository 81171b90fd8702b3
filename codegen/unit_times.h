/* codegen/unit_times.h - the predicted time of each unit. */
#ifndef APC_CODEGEN_UNIT_TIMES_H
#define APC_CODEGEN_UNIT_TIMES_H

#include "codegen/legal.h"

/* Sets Unit.seconds of a stage's units from the times of its operations. */
void emit_unit_times(Module *m, const LegalBody *body, const ProgramTimes *times);

#endif
