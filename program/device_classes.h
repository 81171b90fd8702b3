/* program/device_classes.h - which ranks of a stage have equal lists of device calls, without making the lists. */
#ifndef APC_PROGRAM_DEVICE_CLASSES_H
#define APC_PROGRAM_DEVICE_CLASSES_H

#include "program/device_calls.h"
#include "program/values.h"

/* keys[ranks_per_stage]: per rank a hash of all that its list of the body depends on, in the micro-batch that the
 * values are bound to: its own values of the body's expressions, and, where the parts of its group differ, those and
 * its place. Where a rank's part of a port begins counts only with `ports`.  An all_reduce says nothing of the other
 * members. */
void device_class_keys(const ProgramValues *v, uint32_t body, bool ports, uint64_t *keys);

#endif
