/* tests/doubles/ptx.c - see ptx.h.
 *
 * Read line by line, as NVRTC writes it: ".target sm_80", ".visible .entry NAME(", then the one parameter
 * ".param .align 8 .b8 NAME_param_0[24]", ".maxntid 64", and shared arrays ".shared .align 4 .b8 s[256];". */
#include "tests/doubles/ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number in the last brackets of a line; 0 if none. */
static int in_brackets(const char *line, size_t n) {
  int value = 0;
  for (size_t i = 0; i + 1 < n; i++)
    if (line[i] == '[') value = atoi(line + i + 1);
  return value;
}

static bool begins(const char *line, const char *with, const char **rest) {
  while (*line == ' ' || *line == '\t') line++;
  size_t n = strlen(with);
  if (strncmp(line, with, n) != 0) return false;
  *rest = line + n;
  return true;
}

static void add_kernel(Cubin *out, const char *name) {
  CubinKernel k = {.threads = 1024};
  snprintf(k.name, sizeof k.name, "%.*s", (int)strcspn(name, "( \n"), name);
  out->kernels = realloc(out->kernels, sizeof k * (size_t)(out->n + 1));
  out->kernels[out->n++] = k;
}

static void read_line(Cubin *out, const char *line, size_t n) {
  const char *rest;
  if (begins(line, ".target sm_", &rest)) out->arch = atoi(rest);
  if (begins(line, ".visible .entry ", &rest)) add_kernel(out, rest);
  if (!out->n) return;
  CubinKernel *k = &out->kernels[out->n - 1];
  if (begins(line, ".param ", &rest)) k->parameter_bytes += in_brackets(line, n);
  if (begins(line, ".maxntid ", &rest)) k->threads = atoi(rest);
  if (begins(line, ".shared ", &rest)) k->shared += in_brackets(line, n);
}

const char *ptx_read(const char *text, Cubin *out) {
  *out = (Cubin){.bytes = strlen(text)};
  for (const char *line = text; *line;) {
    size_t n = strcspn(line, "\n");
    read_line(out, line, n);
    line += n + (line[n] == '\n');
  }
  return out->arch ? NULL : "it has no .target";
}
