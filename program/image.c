/* program/image.c - see image.h. */
#include "program/image.h"

#include <stdio.h>
#include <string.h>

#include "program/cpu.h"

/* ---- NVIDIA's architectures: a prefix, the version without a point, maybe a letter */

typedef struct Version {
  int number;   /* 90: version 9.0, 120: 12.0 */
  char feature; /* 'a': code for this version alone; 'f': for its family; 0: neither */
} Version;

static bool version_of(const char *text, const char *prefix, Version *out) {
  size_t n = strlen(prefix);
  *out = (Version){0};
  if (strncmp(text, prefix, n) != 0) return false;
  const char *p = text + n;
  for (; *p >= '0' && *p <= '9' && p - text < 12 && out->number < 1000; p++) out->number = 10 * out->number + *p - '0';
  if (*p == 'a' || *p == 'f') out->feature = *p++;
  return *p == 0 && out->number >= 10 && out->number < 1000;
}

/* True if machine code for `needs` runs on `has`: same major version, no earlier minor version. */
static bool same_major(int needs, int has) { return needs / 10 == has / 10 && needs <= has; }

/* ---- how well an architecture runs code for another one: larger is nearer, negative is not at all; `missing` may name
 * what is lacking */

enum { MISSING = 64 };

static int instruction_sets(const char *needs, const char *has, char *missing) {
  int n = 0;
  if (!program_cpu_list_has(has, needs, missing, MISSING)) return -1;
  for (const char *p = needs; *p; p++) n += *p == ' ';
  return n;
}

static int machine_code(const char *needs, const char *has, char *missing) {
  Version x, y;
  (void)missing;
  if (!version_of(needs, "sm_", &x) || !version_of(has, "sm_", &y)) return -1;
  if (x.feature == 'a' ? x.number != y.number : !same_major(x.number, y.number)) return -1;
  return 2 * x.number + (x.feature == 'a');
}

/* Virtual code runs on every later version, since the driver compiles it. */
static int virtual_code(const char *needs, const char *has, char *missing) {
  Version x, y;
  (void)missing;
  if (!version_of(needs, "compute_", &x) || !version_of(has, "sm_", &y)) return -1;
  if (x.feature == 'a' && x.number != y.number) return -1;
  if (x.feature == 'f' ? !same_major(x.number, y.number) : x.number > y.number) return -1;
  return 2 * x.number + (x.feature == 'a');
}

/* ---- kinds */

typedef struct Kind {
  const char *name, *device, *prefix; /* prefix: of its architectures; NULL: any text */
  int (*suits)(const char *needs, const char *has, char *missing);
  uint32_t threads, shared;
} Kind;

static const Kind kinds[] = {
#define PROGRAM_IMAGE(kind, device, prefix, suits, threads, shared, doc) \
  {#kind, device, prefix, suits, threads, shared},
#include "program/program.def"
#undef PROGRAM_IMAGE
};

const char *program_image_kind(uint32_t kind) { return kind < PIMAGE_COUNT ? kinds[kind].name : "?"; }

bool program_image_arch_ok(uint32_t kind, const char *arch) {
  Version v;
  return !kinds[kind].prefix || version_of(arch, kinds[kind].prefix, &v);
}

bool program_image_has_grid(uint32_t kind) { return kinds[kind].threads > 0; }

bool program_image_fits(uint32_t kind, uint32_t threads, uint32_t shared) {
  return threads >= 1 && threads <= kinds[kind].threads && shared <= kinds[kind].shared;
}

bool program_image_has_blob(const Program *p, uint32_t blob) {
  for (uint32_t i = 0; i < p->n_images; i++)
    if (p->images[i].blob == blob) return true;
  for (uint32_t i = 0; i < p->n_operators; i++)
    if (p->operators[i].blob == blob) return true;
  return false;
}

void program_image_text(const Program *p, uint32_t image, Text *t) {
  const ProgramImage *m = &p->images[image];
  const char *arch = program_text(p, m->arch);
  bool named = kinds[m->kind].prefix != NULL;
  text_printf(t, "%s%s%s, %.1f KiB", program_image_kind(m->kind), named ? " " : "", named ? arch : "",
              (double)p->blobs[m->blob].bytes / 1024);
  if (!named && *arch) text_printf(t, "; needs %s", arch);
}

/* ---- choosing */

/* Writes "object, cubin sm_80", truncated if it does not fit.  Instruction sets are left out. */
static const char *all_images(const Program *p, char *text, size_t size) {
  size_t n = 0;
  *text = 0;
  for (uint32_t i = 0; i < p->n_images && n < size; i++) {
    const ProgramImage *m = &p->images[i];
    bool named = kinds[m->kind].prefix != NULL;
    n += (size_t)snprintf(text + n, size - n, "%s%s%s%s", i ? ", " : "", kinds[m->kind].name, named ? " " : "",
                          named ? program_text(p, m->arch) : "");
  }
  return text;
}

static RtStatus none(const Program *p, const char *device, const char *arch, bool any, const char *missing,
                     RtError *error) {
  char all[300];
  if (*missing)
    return rt_error(error, RT_UNSUPPORTED,
                    "this %s lacks %s, which the machine that compiled the program has; compile it again here", device,
                    missing);
  all_images(p, all, sizeof all);
  if (any)
    return rt_error(error, RT_UNSUPPORTED, "the program has machine code (%s) that a %s of %s does not run", all,
                    device, arch);
  return rt_error(error, RT_UNSUPPORTED, "the program has no machine code for a %s%s%s", device,
                  *all ? "; it has " : "", all);
}

RtStatus program_image_choose(const Program *p, const char *device, const char *arch, uint32_t *image, RtError *error) {
  char missing[MISSING] = "";
  bool any = false;
  *image = PROGRAM_NONE;
  for (uint32_t kind = 0; kind < PIMAGE_COUNT; kind++) {
    int best = -1;
    if (strcmp(kinds[kind].device, device) != 0) continue;
    for (uint32_t i = 0; i < p->n_images; i++) {
      if (p->images[i].kind != kind) continue;
      int how = kinds[kind].suits(program_text(p, p->images[i].arch), arch, missing);
      any = true;
      if (how > best) best = how, *image = i;
    }
    if (best >= 0) return RT_OK;
  }
  return none(p, device, arch, any, missing, error);
}
