/* tools/size.h - `apc size`: budgets, tries and the result.
 *
 * A try plans one line of options: that of `apc plan` with another target or another value.  cmd_size.c searches device
 * counts and size_vary.c values; size_try.c tries, size_line.c writes the lines, size_report.c shows the result.
 */
#ifndef APC_TOOLS_SIZE_H
#define APC_TOOLS_SIZE_H

#include "tools/build.h"

typedef enum SizeVary { VARY_devices, VARY_batch, VARY_ctx, VARY_layers, VARY_d } SizeVary;

typedef struct SizeTry {
  int64_t number;     /* of devices, or the varied value */
  const char *target; /* the target of the try */
  bool fits;          /* a plan meets all budgets */
  bool planned;       /* a plan meets the memory limit */
  bool whole;         /* the search for the best plan ended; otherwise a better one may exist */
  int micro_batches;
  double seconds, bytes, usd; /* of a step, of a device, of a step; NaN if unknown */
  const char *why_not;        /* NULL if it fits */
  DiagCode code;              /* of the reason why there is no plan */
  bool quick;                 /* the search accepted any plan */
  double resident, nearest;   /* as in Build, if there is no plan */
  double taken;               /* bytes of the smallest Program; 0 if none was made */
  double limit;               /* memory limit of a device, in bytes */
  int devices;
} SizeTry;

typedef struct Sizing {
  Tool *t;
  const char *path;
  const Target *target; /* --target */
  SizeVary vary;
  Budget budget;
  const char *memory;               /* the memory limit as written; NULL for the devices' own */
  const char *dimension;            /* name of the batch or sequence dimension; NULL if none */
  const char *parameter;            /* name of the parameter of an .apc model to set; NULL if none */
  int64_t start, least, most, unit; /* values: the first to try; multiples of `unit` between `least` and `most` */
  bool most_of_model;               /* the model limits the value */
  int64_t params;                   /* of the model in the first try */
  double helped; /* the try nearest to the budgets: its distance, its device count, whether it has a plan; cmd_size.c */
  int64_t helped_by;
  bool helped_planned;
  struct {
    SizeTry *items;
    size_t n, cap;
  } tries;
} Sizing;

/* Returns the options of `apc plan` for a target and a value (ignored if devices are searched). */
Options sizing_line(const Sizing *s, const char *target, int64_t value);
/* The same without bindings of dimensions, to find out which dimensions the model has. */
Options sizing_line_open(const Sizing *s);
/* Returns a line as a shell takes it: "apc plan model.apc --target cpux4". */
const char *sizing_line_text(const Sizing *s, const Options *line);
/* Removes a name from `NAME=N,...`; NULL if nothing is left.  *was gets its size, and is unchanged if the name is not
 * there. */
const char *sizing_without(const Sizing *s, const char *bindings, const char *name, int64_t *was);

/* Plans one line: any plan suffices, unless a time or cost budget is given.  False after diagnostics if the model or
 * the line is wrong.  Only the first try reports that; for later ones, errors are the reason that the try does not
 * fit. */
bool sizing_try(Sizing *s, int64_t number, const char *target, SizeTry **out);
/* Searches the best plan of the same line; true if it fits. */
bool sizing_confirm(Sizing *s, SizeTry *x);
/* True if no plan was found, but a full search may find one. */
bool sizing_doubtful(const SizeTry *x);

/* Determines the dimension or parameter of --vary and the range of its values.  False after diagnostics. */
bool sizing_vary_begin(Sizing *s);
/* Tries values.  Returns the largest that fits; NULL if none does, or, with *ok false, after diagnostics. */
SizeTry *sizing_vary_search(Sizing *s, bool *ok);

/* Prints the table and the answer (NULL if there is none) on standard output, as JSON with --json. */
void sizing_report(Sizing *s, const SizeTry *answer);
const char *sizing_word(const Sizing *s, int64_t number); /* "devices", "device"; "batch" */
/* Returns "34.0 ms a step, 23.0 GiB a device". */
const char *sizing_reached(const Sizing *s, const SizeTry *x);

#endif
