/* base/amount.h - numbers formatted for people: "1.23 ms", "11.8 GiB", "27.3 M", "1,746".  The text is in the arena. */
#ifndef APC_BASE_AMOUNT_H
#define APC_BASE_AMOUNT_H

#include <stdint.h>

#include "base/arena.h"

/* A time, a size in bytes (KiB, MiB, ...), and a count with commas. */
const char *show_seconds(Arena *a, double seconds);
const char *show_bytes(Arena *a, double bytes);
const char *show_count(Arena *a, int64_t n);
const char *show_rounded(Arena *a, int64_t n); /* three digits: "11.7 M" */
/* A number with a prefix (k, M, G, T, P) and `unit`. */
const char *show_scaled(Arena *a, double n, const char *unit);

#endif
