/* tests/doubles/text.h - the source text of a cubin, compiled to a library for this machine. */
#ifndef APC_TESTS_DOUBLES_TEXT_H
#define APC_TESTS_DOUBLES_TEXT_H

#include <stddef.h>

/* A handle for dlsym, kept until the process ends; NULL after a violation. */
void *text_load(const void *cubin, size_t bytes);

#endif
