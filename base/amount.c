/* base/amount.c - see amount.h. */
#include "base/amount.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

const char *show_seconds(Arena *a, double s) {
  if (!isfinite(s)) return "unknown";
  if (s == 0) return "0";
  if (s < 1e-3) return arena_printf(a, "%.*f us", s < 1e-5 ? 2 : 1, s * 1e6);
  if (s < 1) return arena_printf(a, "%.*f ms", s < 1e-2 ? 2 : 1, s * 1e3);
  return arena_printf(a, "%.*f s", s < 10 ? 2 : 1, s);
}

const char *show_bytes(Arena *a, double bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int i = 0;
  for (; bytes >= 1024 && i < 5; i++) bytes /= 1024;
  return arena_printf(a, "%.*f %s", i == 0 ? 0 : 1, bytes, units[i]);
}

const char *show_scaled(Arena *a, double n, const char *unit) {
  static const char *const prefix[] = {"", "k", "M", "G", "T", "P"};
  int i = 0;
  for (; n >= 1000 && i < 5; i++) n /= 1000;
  return arena_printf(a, "%.*f %s%s", n < 10 && i ? 1 : 0, n, prefix[i], unit);
}

const char *show_rounded(Arena *a, int64_t n) {
  static const char *const prefix[] = {"", " k", " M", " G", " T", " P"};
  double x = (double)n;
  int i = 0;
  for (; x >= 999.5 && i < 5; i++) x /= 1000;
  return arena_printf(a, "%.*f%s", i == 0 || x >= 99.95 ? 0 : 1, x, prefix[i]);
}

const char *show_count(Arena *a, int64_t n) {
  char digits[32], out[48];
  int length = snprintf(digits, sizeof digits, "%" PRId64, n), k = 0;
  for (int i = 0; i < length; i++) {
    if (i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-') out[k++] = ',';
    out[k++] = digits[i];
  }
  return arena_strndup(a, out, (size_t)k);
}
