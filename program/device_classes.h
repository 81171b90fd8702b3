/* program/device_classes.h - finds ranks of a stage with equal lists of device calls, without making the lists. */
#ifndef APC_PROGRAM_DEVICE_CLASSES_H
#define APC_PROGRAM_DEVICE_CLASSES_H

#include "program/device_calls.h"
#include "program/values.h"

/* Fills keys[ranks_per_stage]: for each rank a hash of everything that its list of the body depends on, in the
 * micro-batch that the values are bound to: its own values of the body's expressions and, where the parts of its group
 * differ, those parts and its place in the group.  The starts of a rank's parts of ports count only with `ports`.  An
 * all_reduce does not depend on the other members. */
void device_class_keys(const ProgramValues *v, uint32_t body, bool ports, uint64_t *keys);

#endif
