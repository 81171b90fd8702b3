/* tools/size.h - `apc size`: what is asked, what was tried, and what came of it.
 *
 * A try is the planning of one line of options, that of `apc plan` with another target or another value.  Who searches
 * is cmd_size.c (numbers of devices) and size_vary.c (values); size_try.c tries, size_line.c writes the lines,
 * size_report.c shows all of it.
 */
#ifndef APC_TOOLS_SIZE_H
#define APC_TOOLS_SIZE_H

#include "tools/build.h"

typedef enum SizeVary { VARY_devices, VARY_batch, VARY_ctx, VARY_layers, VARY_d } SizeVary;

typedef struct SizeTry {
  int64_t number;     /* of devices, or the value */
  const char *target; /* that it was planned for */
  bool fits;          /* there is a plan within all limits */
  bool planned;       /* there is a plan within the memory: */
  bool whole;         /* the best was searched for, to the end; else a better one may be there */
  int micro_batches;
  double seconds, bytes, usd; /* of a step, of a device, of a step; NaN: not known */
  const char *why_not;        /* NULL where it fits */
  DiagCode code;              /* of why there is no plan */
  bool quick;                 /* any plan would have done */
  double resident, nearest;   /* where there is no plan, as in Build; */
  double taken;               /* of the smallest Program; 0: none was made */
  double limit;               /* bytes that a device may hold */
  int devices;
} SizeTry;

typedef struct Sizing {
  Tool *t;
  const char *path;
  const Target *target; /* what --target says */
  SizeVary vary;
  Budget budget;
  const char *memory;               /* the limit of memory as it is written; NULL: what the devices have */
  const char *dimension;            /* the name of the batch or the sequence; NULL */
  const char *parameter;            /* the parameter of an .apc model that is set; NULL */
  int64_t start, least, most, unit; /* of values: the first that is tried, and multiples of `unit` between two */
  bool most_of_model;               /* the model says how large it may be */
  int64_t params;                   /* of the model, as the first try has it */
  double
      helped; /* the try that came nearest to what is asked: how near, on how many devices, with a plan; cmd_size.c */
  int64_t helped_by;
  bool helped_planned;
  struct {
    SizeTry *items;
    size_t n, cap;
  } tries;
} Sizing;

/* The line of `apc plan` for a target and a value (not looked at where devices are searched). */
Options sizing_line(const Sizing *s, const char *target, int64_t value);
/* The same without what binds the dimensions: for who asks the model for them. */
Options sizing_line_open(const Sizing *s);
/* A line as a shell takes it: "apc plan model.apc --target cpux4". */
const char *sizing_line_text(const Sizing *s, const Options *line);
/* One `NAME=N,...` without a name; NULL: nothing is left.  *was gets its size; it stays where the name is not there. */
const char *sizing_without(const Sizing *s, const char *bindings, const char *name, int64_t *was);

/* Plans one line: any plan will do, unless time or money counts.  False where the model or the line is wrong, after
 * diagnostics: only of the first try, as others have what they change as the reason. */
bool sizing_try(Sizing *s, int64_t number, const char *target, SizeTry **out);
/* Searches the best plan of the same line: does it fit? */
bool sizing_confirm(Sizing *s, SizeTry *x);
/* No plan was found, and that search may find one. */
bool sizing_doubtful(const SizeTry *x);

/* What --vary is about: where its values begin and end.  False after diagnostics. */
bool sizing_vary_begin(Sizing *s);
/* Tries values.  The largest that fits; NULL: none does, or *ok is false, after diagnostics. */
SizeTry *sizing_vary_search(Sizing *s, bool *ok);

/* The table and the answer (NULL: there is none) on standard output, as JSON with --json. */
void sizing_report(Sizing *s, const SizeTry *answer);
const char *sizing_word(const Sizing *s, int64_t number); /* "devices", "device"; "batch" */
/* "34.0 ms a step, 23.0 GiB a device" */
const char *sizing_reached(const Sizing *s, const SizeTry *x);

#endif
