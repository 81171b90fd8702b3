/* tests/dialect/sass.h - counts instructions in the machine code of kernels, read from nvdisasm, the disassembler of
 * the CUDA toolkit (on PyPI: nvidia-cuda-nvcc, or inside triton).
 *
 * NVDISASM names the program; else it is searched for in PATH and below CUDA_HOME.  An instruction in the text counts
 * once, however often it runs. */
#ifndef APC_TESTS_DIALECT_SASS_H
#define APC_TESTS_DIALECT_SASS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

typedef struct Sass {
  const char *symbol;
  int instructions, wide_loads, wide_stores, tensor, copies; /* copies: asynchronous, into shared memory */
  int local;                                                 /* accesses of local memory */
} Sass;

typedef struct SassList {
  Sass *items;
  size_t n, cap;
} SassList;

/* NULL if there is none. */
static const char *sass_disassembler(Arena *a) {
  const char *named = getenv("NVDISASM"), *home = getenv("CUDA_HOME");
  const char *const tries[] = {named ? named : "nvdisasm", home ? arena_printf(a, "%s/bin/nvdisasm", home) : "false"};
  for (size_t i = 0; i < sizeof tries / sizeof *tries; i++)
    if (system(arena_printf(a, "'%s' --version >/dev/null 2>&1", tries[i])) == 0) return tries[i];
  return NULL;
}

/* Does the line say `name` as its instruction, or as the beginning of it?  "    /\*0010*\/   @!P0 LDG.E.128 R4, ..." */
static const char *sass_instruction(const char *line) {
  const char *at = strstr(line, "/*");
  int digits = 0;
  if (!at || sscanf(at, "/*%*x*/%n", &digits) < 0 || !digits) return NULL;
  at += digits;
  at += strspn(at, " \t{");
  if (*at == '@') {
    at += strcspn(at, " \t");
    at += strspn(at, " \t");
  }
  return *at >= 'A' && *at <= 'Z' ? at : NULL;
}

static int sass_begins(const char *s, const char *name) { return strncmp(s, name, strlen(name)) == 0; }

static void sass_count(Sass *s, const char *instruction) {
  char name[64] = "";
  sscanf(instruction, "%63[A-Z0-9a-z_.]", name);
  int wide = strstr(name, ".128") || strstr(name, ".256");
  s->instructions++;
  s->wide_loads += wide && sass_begins(name, "LDG");
  s->wide_stores += wide && sass_begins(name, "STG");
  s->copies += sass_begins(name, "LDGSTS");
  s->tensor += sass_begins(name, "HMMA") || sass_begins(name, "HGMMA");
  s->local += sass_begins(name, "LDL") || sass_begins(name, "STL");
}

/* The kernels of machine code in a file. */
static SassList sass_read(Arena *a, const char *disassembler, const char *cubin) {
  SassList list = {0};
  char line[4096];
  FILE *f = popen(arena_printf(a, "'%s' -c '%s'", disassembler, cubin), "r");
  while (f && fgets(line, sizeof line, f)) {
    char symbol[512];
    const char *instruction = sass_instruction(line);
    if (sscanf(line, ".text.%511[A-Za-z0-9_]:", symbol) == 1)
      ARENA_PUSH(a, &list, ((Sass){.symbol = arena_strdup(a, symbol)}));
    else if (list.n && instruction) sass_count(&list.items[list.n - 1], instruction);
  }
  if (f && pclose(f) != 0) list.n = 0;
  return list;
}

static const Sass *sass_of(const SassList *list, const char *symbol) {
  for (size_t i = 0; i < list->n; i++)
    if (strcmp(list->items[i].symbol, symbol) == 0) return &list->items[i];
  return NULL;
}

#endif
