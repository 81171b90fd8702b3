/* tools/inspect_program.c - apc inspect of a compiled model: prints facts from its Program. */
#include <string.h>

#include "base/json_text.h"
#include "program/artifact.h"
#include "program/image.h"
#include "program/program.h"
#include "tools/inspect.h"

static json_t *port_json(const Program *p, uint32_t port) {
  const ProgramPort *r = &p->ports[port];
  return json_pack("{s:o, s:s, s:i}", "name", json_text(program_text(p, r->name)), "dtype", dtype_name((DType)r->dtype),
                   "rank", (int)r->dims.n);
}

static json_t *images_json(const Program *p) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < p->n_images; i++) {
    const ProgramImage *m = &p->images[i];
    json_array_append_new(list,
                          json_pack("{s:s, s:o, s:I}", "kind", program_image_kind(m->kind), "arch",
                                    json_text(program_text(p, m->arch)), "bytes", (json_int_t)p->blobs[m->blob].bytes));
  }
  return list;
}

static json_t *worlds_json(const Artifact *a) {
  json_t *list = json_array();
  for (int i = 0; i < a->n_worlds; i++) json_array_append_new(list, json_integer(a->worlds[i]));
  return list;
}

static json_t *program_json(const Artifact *a, const char *path) {
  const Program *p = &a->program;
  json_t *entries = json_array(), *mesh = json_array();
  for (uint32_t i = 0; i < p->n_axes; i++)
    json_array_append_new(mesh, json_pack("{s:o, s:i, s:b}", "axis", json_text(program_text(p, p->axes[i].name)),
                                          "size", (int)p->axes[i].size, "temporal", p->axes[i].temporal != 0));
  for (uint32_t i = 0; i < p->n_entries; i++) {
    const ProgramEntry *e = &p->entries[i];
    if (e->prepare) continue;
    json_t *inputs = json_array(), *outputs = json_array();
    for (uint32_t k = 0; k < e->n_inputs; k++) json_array_append_new(inputs, port_json(p, e->inputs + k));
    for (uint32_t k = 0; k < e->n_outputs; k++) json_array_append_new(outputs, port_json(p, e->outputs + k));
    json_array_append_new(entries, json_pack("{s:o, s:o, s:o}", "name", json_text(program_text(p, e->name)), "inputs",
                                             inputs, "outputs", outputs));
  }
  return json_pack("{s:s, s:o, s:s, s:o, s:o, s:o, s:i, s:o, s:i, s:o, s:o, s:o, s:I}", "schema", "apc.inspect/1",
                   "file", json_text(path), "kind", "program", "model", json_text(program_text(p, p->header->name)),
                   "target", json_text(program_text(p, p->header->target)), "producer",
                   json_text(program_text(p, p->header->producer)), "ranks", (int)p->ranks, "worlds", worlds_json(a),
                   "stages", (int)p->stages, "mesh", mesh, "images", images_json(p), "entries", entries, "image_bytes",
                   (json_int_t)p->header->image_bytes);
}

static void print_ports(const Program *p, const char *what, uint32_t first, uint32_t n) {
  for (uint32_t k = first; k < first + n; k++) {
    const ProgramPort *r = &p->ports[k];
    char dim[200];
    printf("    %-7s %-24s %s[", what, program_text(p, r->name), dtype_name((DType)r->dtype));
    for (uint32_t d = 0; d < r->dims.n; d++)
      printf("%s%s", d ? ", " : "", program_expr_text(p, program_list(p, r->dims)[d], dim, sizeof dim));
    puts("]");
  }
}

/* Counts the weights of the model, not those computed from them. */
static uint32_t model_weights(const Program *p) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n_params; i++) n += p->params[i].init != PINIT_prepared;
  return n;
}

/* Prints a line for each further number of ranks. */
static void print_worlds(const Artifact *a) {
  if (a->n_worlds < 2) return;
  printf("  plans    for ");
  for (int i = 0; i < a->n_worlds; i++) printf("%s%u", i ? ", " : "", a->worlds[i]);
  puts(" ranks; below is the first");
}

static void print_program(Tool *t, const Artifact *a, const char *path) {
  const Program *p = &a->program;
  const ProgramHeader *h = p->header;
  printf("%s: program of %s for %s by %s\n", path, program_text(p, h->name), program_text(p, h->target),
         program_text(p, h->producer));
  printf("  ranks    %u in %u stage%s", p->ranks, p->stages, p->stages == 1 ? "" : "s");
  for (uint32_t i = 0; i < p->n_axes; i++)
    printf("%s%s=%u", i ? " x " : "; mesh ", program_text(p, p->axes[i].name), p->axes[i].size);
  printf("\n  image    %s, %u kernels, %u weights", show_bytes(t->arena, (double)h->image_bytes), p->n_kernels,
         model_weights(p));
  putchar('\n');
  print_worlds(a);
  for (uint32_t i = 0; i < p->n_images; i++) {
    Text text = {.arena = t->arena};
    program_image_text(p, i, &text);
    printf("  code     %s\n", text_str(&text));
  }
  for (uint32_t i = 0; i < p->n_entries; i++) {
    if (p->entries[i].prepare) continue;
    printf("  entry %s\n", program_text(p, p->entries[i].name));
    print_ports(p, "input", p->entries[i].inputs, p->entries[i].n_inputs);
    print_ports(p, "output", p->entries[i].outputs, p->entries[i].n_outputs);
  }
  if (!t->verbose) return;
  Text text = {.arena = t->arena};
  program_print(p, &text);
  fputs(text_str(&text), stdout);
}

/* An error of the Program is reported only for executable files; others are no programs. */
static bool executable(const char *path) {
  char magic[4] = "";
  FILE *f = fopen(path, "re");
  bool elf = f && fread(magic, 1, sizeof magic, f) == sizeof magic && memcmp(magic, "\177ELF", sizeof magic) == 0;
  if (f) fclose(f);
  return elf;
}

int inspect_program(Tool *t, const char *path) {
  Artifact artifact;
  RtError error = {0};
  if (artifact_open(path, path, &artifact, &error) != RT_OK) {
    const char *lack = executable(path) ? arena_printf(t->arena, ": %s", error.text) : "";
    diag_error(t->diags, DIAG_model_kind, (Loc){.file = path},
               "apc cannot read this file as a model, program or tensor file%s", lack);
    diag_help(
        t->diags,
        "files are recognised by their extension: .onnx, .apc, .ir, .npz, .npy, .safetensors, .plan, .json (traces); "
        "programs by their last bytes");
    return EXIT_BAD_INPUT;
  }
  if (option_given(&t->options, OPT_json)) tool_json(t, program_json(&artifact, path));
  else print_program(t, &artifact, path);
  artifact_close(&artifact);
  return EXIT_OK;
}
