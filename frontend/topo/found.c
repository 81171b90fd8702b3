/* frontend/topo/found.c - see found.h: names, kinds of GPU, and which reader reads a file. */
#include "frontend/topo/found.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

static const FoundKind kinds[] = {
#define FOUND_GPU(...) {__VA_ARGS__},
#include "frontend/topo/found.def"
#undef FOUND_GPU
};
enum { KINDS = sizeof kinds / sizeof *kinds };
static const char smi[] = "nvidia-smi:";

bool topo_found_error(FoundMachine *m, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *message = arena_vprintf(m->arena, format, args);
  va_end(args);
  return diag_error(m->diags, DIAG_target_found, (Loc){.file = m->file}, "%s", message);
}

void topo_found_note(FoundMachine *m, const char *format, ...) {
  va_list args;
  va_start(args, format);
  text_printf(&m->notes, "  note \"%s\";\n", arena_vprintf(m->arena, format, args));
  va_end(args);
}

/* True if the word is one of a list that "|" separates. */
static bool listed(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *at = list; *at; at += strcspn(at, "|"), at += *at == '|')
    if (strcspn(at, "|") == n && strncmp(at, word, n) == 0) return n > 0;
  return false;
}

const FoundKind *topo_found_kind(const char *part) {
  for (int i = 0; i < KINDS; i++)
    if (strcmp(kinds[i].part, part) == 0) return &kinds[i];
  return NULL;
}

const FoundKind *topo_found_kind_of_id(const char *id) {
  for (int i = 0; i < KINDS; i++)
    if (listed(kinds[i].ids, id)) return &kinds[i];
  return NULL;
}

const FoundKind *topo_found_kind_of_name(const char *name) {
  static const char *const makers[] = {"NVIDIA ", "Tesla "};
  for (int i = 0; i < 2; i++)
    if (strncmp(name, makers[i], strlen(makers[i])) == 0) name += strlen(makers[i]);
  for (int i = 0; i < KINDS; i++)
    if (listed(kinds[i].names, name)) return &kinds[i];
  return NULL;
}

FoundGpu *topo_found_gpu(FoundMachine *m) {
  if (m->ngpus == FOUND_GPUS) {
    topo_found_error(m, "more than %d GPUs", FOUND_GPUS);
    return NULL;
  }
  FoundGpu *g = &m->gpus[m->ngpus];
  *g = (FoundGpu){.kind = m->given, .number = m->ngpus};
  m->ngpus++;
  return g;
}

bool topo_found_connect(FoundMachine *m, const FoundLink *links, int n) {
  for (int i = 0; i < n; i++) {
    const FoundLink *l = &links[i];
    int to = 0;
    while (to < m->ngpus && !(m->gpus[to].bus && strcmp(m->gpus[to].bus, l->target) == 0)) to++;
    if (to < m->ngpus) m->gpus[l->gpu].direct[to] += l->count, m->gpus[l->gpu].joined[to] = true;
    else if (!l->to_gpu) m->gpus[l->gpu].switched += l->count;
    else topo_found_note(m, "left out: NVLink to a GPU that is not in the file");
  }
  for (int i = 0; i < m->ngpus; i++)
    for (int j = 0; j < m->ngpus; j++) {
      if (m->gpus[i].direct[j] != m->gpus[j].direct[i] || m->gpus[i].direct[i])
        return topo_found_error(m, "the GPUs %d and %d disagree about their links", m->gpus[i].number,
                                m->gpus[j].number);
      if (i != j && m->gpus[i].switched && m->gpus[j].switched) m->gpus[i].joined[j] = true;
    }
  return true;
}

double topo_found_lanes(double speed, int width) {
  if (!(speed >= 2) || !(speed <= 256) || width < 1 || width > 32) return 0;
  return speed * width / 8 * (speed > 6 ? 128.0 / 130 : 0.8); /* 8 of 10 bits are data up to 5 GT/s, 128 of 130 above */
}

bool topo_found_unknown(FoundMachine *m, const char *gpu) {
  Text list = {.arena = m->arena};
  for (int i = 0; i < KINDS; i++) text_printf(&list, "%s%s", i ? ", " : "", kinds[i].part);
  topo_found_error(m, "the kind of %s is not known", text_shown(m->arena, gpu));
  diag_help(m->diags, "?gpu=KIND after the name of the file gives it; kinds: %s", text_str(&list));
  return false;
}

bool topo_found_names(const char *name) {
  size_t n = strcspn(name, "?");
  return strncmp(name, smi, sizeof smi - 1) == 0 || (n == 5 && strncmp(name, "local", n) == 0) ||
         (n > 4 && strncmp(name + n - 4, ".xml", 4) == 0);
}

bool topo_found_whole(const char *name) {
  return strncmp(name, smi, sizeof smi - 1) == 0 && access(name + sizeof smi - 1, F_OK) == 0;
}

static bool read_file(FoundMachine *m, const char *path, bool is_xml) {
  size_t n;
  const char *text = file_read_text(m->diags, m->arena, path, &n);
  if (!text) return false;
  if (n > FOUND_BYTES) return topo_found_error(m, "the file has %zu bytes; the limit is %d", n, FOUND_BYTES);
  return is_xml ? topo_found_xml(m, text, n) : topo_found_smi(m, text);
}

/* Reads the end of a name, "?gpu=KIND". */
static bool read_kind(FoundMachine *m, const char *end) {
  static const char gpu[] = "?gpu=";
  if (!*end) return true;
  if (strncmp(end, gpu, sizeof gpu - 1) != 0)
    return topo_found_error(m, "a name of a file may end in ?gpu=KIND, not in '%s'", end);
  m->given = topo_found_kind(end + sizeof gpu - 1);
  return m->given || topo_found_unknown(m, end + sizeof gpu - 1);
}

const char *topo_found_text(Diags *d, Arena *a, const char *name) {
  bool is_smi = strncmp(name, smi, sizeof smi - 1) == 0,
       is_local = strncmp(name, "local", 5) == 0 && !strstr(name, ".xml");
  const char *path = is_smi ? name + sizeof smi - 1 : name;
  size_t n = strcspn(path, "?");
  FoundMachine *m = ARENA_NEW(a, FoundMachine);
  *m = (FoundMachine){.arena = a, .diags = d, .file = arena_strndup(a, path, n), .notes = {.arena = a}};
  if (!read_kind(m, path + n)) return NULL;
  if (is_local ? !topo_found_local(m) : !read_file(m, m->file, !is_smi)) return NULL;
  return topo_found_print(m, is_local ? "local" : "found");
}
