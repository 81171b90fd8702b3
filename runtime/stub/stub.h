/* runtime/stub/stub.h - what the files of a compiled program's command line share. */
#ifndef APC_RUNTIME_STUB_STUB_H
#define APC_RUNTIME_STUB_STUB_H

#include <signal.h>
#include <stdbool.h>

#include "runtime/train/train.h"

/* Prints an error and returns the exit code. */
int stub_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
int stub_fail_model(const ApcModel *m, ApcStatus status);

/* steps.c.  From here on SIGINT, SIGTERM and SIGUSR1 end a training run after the step that is being made, as does a
 * standard output that nobody reads.  Before, while ranks meet and weights are loaded, they end the process. */
void stub_listen(void);
/* What these signals set, for the ranks of a launcher. */
const volatile sig_atomic_t *stub_asked(void);

/* Makes the steps, prints them, as JSON objects or as text; the exit code. */
int stub_train(ApcModel *m, Training *t, bool json);

#endif
