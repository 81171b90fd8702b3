/* base/standard.h - the standard streams of a program. */
#ifndef APC_BASE_STANDARD_H
#define APC_BASE_STANDARD_H

#include <stdbool.h>

/* Call it before anything is opened: a standard stream that the caller closed would otherwise get the number of the next file or
 * shared memory, and what is printed would end there.  Reading and writing such a stream fail, as if it were still closed. */
void standard_hold(void);

/* Whether all that was printed on standard output got there so far. */
bool standard_output_written(void);

#endif
