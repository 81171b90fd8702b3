/* driver/annotated.h - the sharding annotations of an ONNX model as a part of a plan: the search keeps them and chooses
 * the rest. */
#ifndef APC_DRIVER_ANNOTATED_H
#define APC_DRIVER_ANNOTATED_H

#include "driver/driver.h"

/* Restricts later searches of the build to what the model's file says for one configuration of devices: the one that
 * is asked for (DriverOptions.configuration), else the only one that has as many devices as the target.  Warns if
 * annotations are not followed; if the configuration is asked for, that is an error.  False after an error. */
bool driver_annotate(Build *b);

/* Ends the program if the plan, found by such a search, does not have the layouts that the annotations give. */
void driver_check_annotations(const Build *b, const Plan *p);

/* Adds to `why`, why no plan was found, that annotations restricted the search. */
void driver_blame_annotations(const Build *b, Diags *why);

#endif
