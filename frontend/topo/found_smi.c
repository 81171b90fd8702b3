/* frontend/topo/found_smi.c - reads the matrix of `nvidia-smi topo -m`, and names of GPUs of `nvidia-smi -L` or `-q` in
 * the same text.
 *
 * A header line begins with GPU0 and has the columns; every further line GPUn has their cells, then the processors near
 * the GPU.  Cells are X, NV and a number of links, or a path over PCIe.  If the links of a row are more than the GPU
 * has, the GPUs are joined by switches, to each of which all links of a GPU go.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/topo/found.h"

enum { WORDS = 256 };
typedef struct Words {
  int n;
  const char *at[WORDS];
} Words;

/* Returns the text without escape sequences of a terminal (ESC [ ... letter) and carriage returns. */
static char *plain_text(Arena *a, const char *text) {
  char *out = arena_strdup(a, text), *to = out;
  for (const char *s = text; *s;) {
    if (s[0] == 27 && s[1] == '[') {
      s += 2 + strspn(s + 2, "0123456789;");
      if (*s) s++;
    } else if (*s == '\r') s++;
    else *to++ = *s++;
  }
  *to = 0;
  return out;
}

static Words words_of(char *line) {
  Words w = {0};
  for (char *save, *p = strtok_r(line, " \t", &save); p && w.n < WORDS; p = strtok_r(NULL, " \t", &save))
    w.at[w.n++] = p;
  return w;
}

/* The number of a name GPU0, GPU1, ...; -1 if it is none. */
static int gpu_number(const char *word) {
  if (strncmp(word, "GPU", 3) != 0 || strspn(word + 3, "0123456789") != strlen(word + 3)) return -1;
  size_t digits = strlen(word + 3);
  return digits < 1 || digits > 4 ? -1 : atoi(word + 3);
}

static bool read_header(FoundMachine *m, const Words *w) {
  for (int i = 0; i < w->n && strcmp(w->at[i], "CPU") != 0; i++) {
    if (gpu_number(w->at[i]) < 0) {
      m->adapters++;
      continue;
    }
    if (gpu_number(w->at[i]) != m->ngpus || m->adapters)
      return topo_found_error(m, "the columns of GPUs are not in order at '%s'", text_shown(m->arena, w->at[i]));
    if (!topo_found_gpu(m)) return false;
  }
  return true;
}

/* Reads a cell into `links` or `path`; false if it is none. */
static bool read_cell(const char *cell, int *links, FoundPath *path) {
  *links = 0;
  if (strncmp(cell, "NV", 2) == 0 && cell[2] && strspn(cell + 2, "0123456789") == strlen(cell + 2) && strlen(cell) < 5)
    return (*links = atoi(cell + 2)) > 0;
  *path = topo_found_path(cell);
  return *path || strcmp(cell, "X") == 0;
}

static bool read_row(FoundMachine *m, int row, const Words *w) {
  FoundGpu *g = &m->gpus[row];
  if (w->n < 1 + m->ngpus) return topo_found_error(m, "the row of GPU%d ends early", row);
  for (int i = 0; i < m->ngpus; i++) {
    const char *cell = w->at[1 + i];
    if (!read_cell(cell, &g->direct[i], &g->path[i]) || (strcmp(cell, "X") == 0) != (i == row))
      return topo_found_error(m, "GPU%d to GPU%d: '%s' is not a connection", row, i, text_shown(m->arena, cell));
    g->joined[i] = g->direct[i] > 0;
  }
  return true;
}

/* Reads "GPU 0: NAME (UUID: ...)" of -L, or "Product Name : NAME" of -q, into the next GPU without a kind. */
static bool read_name(FoundMachine *m, char *line, int *next) {
  char *name = line + strspn(line, " \t"), *end;
  const bool mig = strncmp(name, "MIG ", 4) == 0; /* "MIG Mode" of -q is no device */
  if (mig && (strstr(name, "(UUID") || strncmp(name, "MIG Device", 10) == 0))
    return topo_found_error(m, "a GPU is divided by MIG; targets have whole GPUs");
  if (strncmp(name, "GPU ", 4) == 0 && (end = strstr(name, " (UUID"))) name = strchr(name, ':');
  else if (strncmp(name, "Product Name ", 13) == 0) name = strchr(name, ':'), end = line + strlen(line);
  else return true;
  if (!name || name >= end) return true;
  name += 1 + strspn(name + 1, " ");
  while (end > name && end[-1] == ' ') end--;
  *end = 0;
  if (*next >= FOUND_GPUS) return topo_found_error(m, "more than %d names of GPUs", FOUND_GPUS);
  const FoundKind *kind = m->given ? m->given : topo_found_kind_of_name(name);
  if (!kind) return topo_found_unknown(m, name);
  m->gpus[(*next)++].kind = kind;
  return true;
}

/* Decides from the number of links of a GPU whether switches join the GPUs. */
static bool find_switches(FoundMachine *m) {
  for (int i = 0; i < m->ngpus; i++) {
    FoundGpu *g = &m->gpus[i];
    int sum = 0, most = 0;
    for (int j = 0; j < m->ngpus; j++) {
      if (g->direct[j] != m->gpus[j].direct[i])
        return topo_found_error(m, "GPU%d and GPU%d disagree about their links", i, j);
      sum += g->direct[j];
      if (g->direct[j] > most) most = g->direct[j];
    }
    if (most > g->kind->links)
      return topo_found_error(m, "GPU%d has NV%d, but a %s has %d links", i, most, g->kind->part, g->kind->links);
    if (sum > g->kind->links) g->switched = most;
  }
  for (int i = 0; i < m->ngpus; i++)
    for (int j = 0; j < m->ngpus; j++)
      if (m->gpus[i].switched) m->gpus[i].direct[j] = 0;
  return true;
}

bool topo_found_smi(FoundMachine *m, const char *text) {
  FoundKind const *names[FOUND_GPUS] = {0};
  const char *near[FOUND_GPUS];
  int rows = 0, next = 0;
  bool header = false;
  FoundMachine *listed = ARENA_NEW(m->arena, FoundMachine); /* names may come before the matrix */
  *listed = *m;
  m->has_nvlink = true;
  char *save, *all = plain_text(m->arena, text);
  for (char *line = strtok_r(all, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    if (!read_name(listed, line, &next)) return false;
    Words w = words_of(line);
    int number = w.n ? gpu_number(w.at[0]) : -1;
    if (number < 0) continue;
    if (!header) {
      if (number != 0 || (w.n > 1 && strcmp(w.at[1], "X") == 0))
        return topo_found_error(m, "a row comes before the columns");
      if (!read_header(m, &w)) return false;
      header = true;
      continue;
    }
    if (number != rows || rows >= m->ngpus)
      return topo_found_error(m, "the rows of GPUs are not in order at GPU%d", number);
    if (!read_row(m, rows, &w)) return false;
    const char *processors = 1 + m->ngpus + m->adapters < w.n ? w.at[1 + m->ngpus + m->adapters] : "";
    bool seen = !*processors;
    for (int i = 0; i < m->nodes && !seen; i++) seen = strcmp(near[i], processors) == 0;
    if (!seen) near[m->nodes++] = processors;
    rows++;
  }
  if (!header) return topo_found_error(m, "there is no matrix of `nvidia-smi topo -m`");
  if (rows < m->ngpus) return topo_found_error(m, "the matrix has %d rows for %d GPUs", rows, m->ngpus);
  for (int i = 0; i < m->ngpus; i++) {
    names[i] = next == m->ngpus ? listed->gpus[i].kind : m->given;
    if (!names[i]) return topo_found_unknown(m, next ? "GPUs that are not all named" : "the GPUs");
    m->gpus[i].kind = names[i];
  }
  return find_switches(m);
}
