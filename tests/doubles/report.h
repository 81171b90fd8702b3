/* tests/doubles/report.h - inside the double of the driver: faults on demand, the end of the process. */
#ifndef APC_TESTS_DOUBLES_REPORT_H
#define APC_TESTS_DOUBLES_REPORT_H

#include "tests/doubles/double.h"

/* Initialises the driver: from here on the process must not fork. */
void report_begin(void);

/* This process uses that device (DOUBLES_ON). */
void report_uses(int device);
bool report_is_meant(void); /* true if DOUBLES_ON selects this process */

/* True if the N-th piece of work fails, or never begins. */
bool report_fails_late(void);
bool report_stalls(void);

/* Appends a line to the file that this environment variable names, if it is set. */
void report_add(const char *setting, const char *line);

/* Releases the lock for so long. */
void report_sleep(int64_t nanoseconds);
void report_lock(void);
void report_unlock(void);
int64_t report_last_call(void); /* when the last call of an API ended, in nanoseconds */
int64_t report_now(void);

#endif
