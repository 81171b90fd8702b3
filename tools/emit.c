/* tools/emit.c - see emit.h. */
#include "tools/emit.h"

#include <string.h>

#include "base/file.h"
#include "base/standard.h"
#include "ir/opaque.h"
#include "passes/pipeline.h"
#include "tools/emit_dot.h"
#include "tools/emit_html.h"
#include "tools/emit_onnx.h"
#include "tools/emit_trace.h"
#include "tools/outputs.h"
#include "tools/pass_name.h"
#include "tools/weights_dtype.h"
#include "driver/ir_file.h"

/* The stage that a form needs. */
typedef enum Stage { LOADED, PLANNED, LOWERED } Stage;

static const struct {
  const char *word, *ending;
  Stage needs;
  bool code; /* needs the meaning of every operation */
} kinds[EMIT_KINDS] = {
    [EMIT_EXE] = {"exe", "", LOWERED, true},
    [EMIT_PLAN] = {"plan", ".plan", PLANNED, false},
    [EMIT_IR] = {"ir", ".ir", LOADED, false},
    [EMIT_IR_PASS] = {"ir:", ".ir", LOADED, false},
    [EMIT_SPMD] = {"spmd", ".spmd.ir", LOWERED, false},
    [EMIT_LEGAL] = {"legal", ".legal.ir", LOWERED, true},
    [EMIT_SCHEDULE] = {"schedule", ".schedule", LOWERED, true},
    [EMIT_C] = {"c", ".c", LOWERED, true},
    [EMIT_CUDA] = {"cuda", ".cu", LOWERED, true},
    [EMIT_PTX] = {"ptx", ".ptx", LOWERED, true},
    [EMIT_CUBIN] = {"cubin", ".cubin", LOWERED, true},
    [EMIT_ONNX] = {"onnx", ".planned.onnx", PLANNED, false},
    [EMIT_DOT] = {"dot", ".dot", PLANNED, false},
    [EMIT_HTML] = {"html", ".html", PLANNED, false},
    [EMIT_TRACE] = {"trace", ".trace.json", PLANNED, false},
};

/* ---- the list */

/* Parses one KIND[=FILE]; the option reader has checked the kind. */
static Emit parse_one(Tool *t, const char *text, size_t n) {
  const char *equals = memchr(text, '=', n);
  size_t word = equals ? (size_t)(equals - text) : n;
  Emit e = {.file = equals ? arena_strndup(t->arena, equals + 1, n - word - 1) : NULL};
  if (word > 3 && strncmp(text, "ir:", 3) == 0) {
    e.kind = EMIT_IR_PASS;
    e.pass = arena_strndup(t->arena, text + 3, word - 3);
    return e;
  }
  for (int k = 0; k < EMIT_KINDS; k++)
    if (strlen(kinds[k].word) == word && strncmp(kinds[k].word, text, word) == 0) e.kind = (EmitKind)k;
  return e;
}

static const char *default_name(Tool *t, const char *model, const Emit *e) {
  if (e->kind == EMIT_IR_PASS) return arena_printf(t->arena, "%s.%s.ir", model, e->pass);
  return arena_printf(t->arena, "%s%s", model, kinds[e->kind].ending);
}

static bool name_files(Tool *t, const char *model, EmitList *l) {
  const char *out = option_text(&t->options, OPT_out);
  size_t unnamed = 0;
  for (size_t i = 0; i < l->n; i++) unnamed += l->items[i].file == NULL;
  bool has_exe = tool_emit_wants(l, EMIT_EXE);
  for (size_t i = 0; i < l->n; i++) {
    Emit *e = &l->items[i];
    if (e->file) continue;
    bool takes_out = out && (e->kind == EMIT_EXE || (!has_exe && unnamed == 1));
    e->file = takes_out ? out : default_name(t, model, e);
    if (takes_out) out = NULL;
  }
  if (!out) return true;
  if (unnamed == 0)
    return diag_error(t->diags, DIAG_usage_value, (Loc){0},
                      "-o %s has no effect: every form of --emit names its own file", out);
  return diag_error(t->diags, DIAG_usage_value, (Loc){0},
                    "-o names one file, but --emit has several forms without one: write KIND=FILE");
}

/* Standard output holds one document; a command's own report then goes to standard error. */
static bool check_stdout(Tool *t, const EmitList *l) {
  int n = option_given(&t->options, OPT_json);
  for (size_t i = 0; i < l->n; i++) {
    bool standard = strcmp(l->items[i].file, "-") == 0;
    if (standard && l->items[i].kind == EMIT_EXE)
      return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "a program cannot be written to standard output");
    if (standard) t->results = stderr;
    n += standard;
  }
  return n <= 1 ||
         diag_error(t->diags, DIAG_usage_value, (Loc){0}, "only one document can be written to standard output");
}

static bool check_passes(Tool *t, const EmitList *l) {
  for (size_t i = 0; i < l->n; i++)
    if (l->items[i].kind == EMIT_IR_PASS && !tool_pass_name_check(t->diags, "--emit=ir", l->items[i].pass))
      return false;
  return true;
}

static bool check_files(Tool *t, const EmitList *l) {
  const char *out = option_text(&t->options, OPT_out);
  FileUse *files = ARENA_ARRAY(t->arena, FileUse, l->n + 1);
  for (size_t i = 0; i < l->n; i++) {
    const Emit *e = &l->items[i];
    files[i] = (FileUse){
        e->file == out ? "-o" : arena_printf(t->arena, "--emit=%s%s", kinds[e->kind].word, e->pass ? e->pass : ""),
        e->file};
  }
  return outputs_check(t, files, l->n);
}

bool tool_emit_list(Tool *t, const char *model_name, const EmitKind *otherwise, EmitList *out) {
  *out = (EmitList){0};
  size_t at = 0;
  for (const OptionUse *u; (u = option_next(&t->options, OPT_emit, &at));)
    for (const char *p = u->value; *p;) {
      size_t n = strcspn(p, ",");
      ARENA_PUSH(t->arena, out, parse_one(t, p, n));
      p += n + (p[n] == ',');
    }
  if (option_given(&t->options, OPT_asm)) {
    ARENA_PUSH(t->arena, out, ((Emit){.kind = EMIT_CUDA}));
    ARENA_PUSH(t->arena, out, ((Emit){.kind = EMIT_SCHEDULE}));
  }
  if (out->n == 0 && otherwise) ARENA_PUSH(t->arena, out, ((Emit){.kind = *otherwise}));
  if (tool_prints_plan(t)) ARENA_PUSH(t->arena, out, ((Emit){.kind = EMIT_PLAN, .file = "-"}));
  return check_passes(t, out) && name_files(t, model_name, out) && check_stdout(t, out) && check_files(t, out);
}

bool tool_emit_wants(const EmitList *l, EmitKind kind) {
  for (size_t i = 0; i < l->n; i++)
    if (l->items[i].kind == kind) return true;
  return false;
}

static bool needs(const EmitList *l, Stage stage) {
  for (size_t i = 0; i < l->n; i++)
    if (kinds[l->items[i].kind].needs >= stage) return true;
  return false;
}

bool tool_emit_needs_plan(const EmitList *l) { return needs(l, PLANNED); }

bool tool_emit_needs_lowering(const EmitList *l) { return needs(l, LOWERED); }

/* Planning itself works for any target. */
bool tool_emit_check_target(Tool *t, const Target *target, const EmitList *l) {
  if (!tool_weights_dtype_emits(t, tool_emit_wants(l, EMIT_ONNX),
                                tool_emit_wants(l, EMIT_IR) || tool_emit_wants(l, EMIT_IR_PASS)))
    return false;
  if (tool_emit_wants(l, EMIT_ONNX) && option_given(&t->options, OPT_kv_cache))
    return diag_error(
        t->diags, DIAG_kv_cache, (Loc){0},
        "--emit=onnx writes the graph of the file, whose caches --kv-cache makes states: take one option");
  if (strcmp(kernel_target(target->device)->language, "CUDA") != 0 &&
      (tool_emit_wants(l, EMIT_CUDA) || tool_emit_wants(l, EMIT_PTX) || tool_emit_wants(l, EMIT_CUBIN))) {
    diag_error(t->diags, DIAG_usage_value, (Loc){0}, "target %s has no GPU to write CUDA code for", target->name);
    diag_help(t->diags, "name a machine with --target; `apc targets` lists them");
    return false;
  }
  return true;
}

/* ---- writing */

static bool write_text(Tool *t, const char *file, const char *text) {
  if (strcmp(file, "-") != 0) return file_write(t->diags, file, 0666, text, strlen(text));
  tool_stages_end(t);
  fputs(text, stdout);
  return true;
}

/* Writes the module after one pass: reads the model again and runs the passes up to that one. */
static bool write_after_pass(Tool *t, Build *b, const Emit *e) {
  Model model;
  bool ok = tool_model(t, b->model.path, &model) &&
            model_passes_until(&b->options.model, &model, b->options.target->device, e->pass);
  const char *text = ok ? driver_ir_file_text(t->arena, model.m, e->file) : "";
  model_free(&model);
  return ok && write_text(t, e->file, text);
}

/* Returns a copy of the module with the functions up to a level. */
static Module only_level(Tool *t, const Build *b, int level) {
  Module m = *b->model.m;
  m.funcs.items = ARENA_ARRAY(t->arena, Func *, m.funcs.n);
  m.funcs.cap = m.funcs.n, m.funcs.n = 0;
  for (size_t i = 0; i < b->model.m->funcs.n; i++)
    if (b->model.m->funcs.items[i]->level <= level) m.funcs.items[m.funcs.n++] = b->model.m->funcs.items[i];
  return m;
}

/* Writes the module's text up to a level.  Level 2 comes with the level 1 that it was lowered from, so that apc-opt
 * --prove can prove it. */
static bool write_module(Tool *t, const Build *b, const Emit *e, int level) {
  Module m = only_level(t, b, level);
  if (level == 1) m.mesh = (Mesh){.stages = 1};
  return write_text(t, e->file, driver_ir_file_text(t->arena, &m, e->file));
}

/* Writes level 2 as legalised for the target's devices, with the level 1 for a proof. */
static bool write_legal(Tool *t, Build *b, const Emit *e) {
  driver_make_for(b, b->options.target->device);
  if (!driver_run(b, DRIVER_legalise)) return false;
  Text remarks = {.arena = t->arena};
  Module m = only_level(t, b, 1);
  codegen_legal_add_funcs(b->legal, &m, &remarks, t->diags);
  return write_text(t, e->file,
                    arena_printf(t->arena, "%s%s", driver_ir_file_text(t->arena, &m, e->file), text_str(&remarks)));
}

/* Writes one C file that compiles: the common prelude of all texts appears once. */
static bool write_c(Tool *t, Build *b, const Emit *e) {
  const DeviceTraits *cpu = target_device_traits(DEVICE_cpu);
  driver_make_for(b, cpu);
  if (!driver_run(b, DRIVER_program)) return false;
  const KernelTarget *target = kernel_target(cpu);
  const char *prelude = *target->prelude;
  size_t n;
  const char **texts = target->texts(&b->legal->kernels, &n);
  Text text = {.arena = t->arena};
  text_add(&text, prelude);
  for (size_t i = 0; i < n; i++)
    text_printf(&text, "\n/* ---- translation unit %zu of %zu */\n%s", i + 1, n, texts[i] + strlen(prelude));
  return write_text(t, e->file, text_str(&text));
}

/* Opens the Program with the kernels of the target's devices; close it with codegen_program_close. */
static bool open_program(Tool *t, Build *b, ArtifactProgram *out) {
  const DeviceTraits *device = b->options.target->device;
  driver_make_for(b, device);
  if (b->plan->ranks > PROGRAM_MAX_RANKS)
    return diag_error(t->diags, DIAG_later_ranks, (Loc){0},
                      "apc generates code and schedules for up to %d ranks; this plan has %d", PROGRAM_MAX_RANKS,
                      b->plan->ranks);
  if (!driver_run(b, DRIVER_kernels)) return false;
  ArtifactSpec spec = driver_artifact_spec(b);
  return codegen_program_open(&spec, true, out, t->diags);
}

/* ---- for GPUs */

static const char *cuda_source(Tool *t, const Build *b, const ArtifactProgram *a) {
  Text text = {.arena = t->arena};
  text_printf(&text, "/* %s for %s: %zu kernels, made by apc.  Compile with NVRTC or nvcc, --fmad=false. */\n\n%s\n",
              b->model.name, b->options.target->name, a->result.kernels.n, *kernel_target(b->device)->prelude);
  for (size_t i = 0; i < a->result.kernels.n; i++)
    text_printf(&text, "/* %s */\n%s", a->result.kernels.items[i].how, a->result.kernels.items[i].text);
  return text_str(&text);
}

static bool write_image(Tool *t, const Build *b, const Emit *e, const char *source) {
  KernelImages images;
  if (!b->options.target->arch)
    return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "target %s does not say its architecture",
                      b->options.target->name);
  KernelCompile how = {.arena = t->arena, .diags = t->diags, .arch = b->options.target->arch};
  if (!kernel_target(b->device)->compile(&how, &source, 1, &images)) return false;
  const KernelImage *image = kernel_image_of(&images, e->kind == EMIT_PTX ? PIMAGE_ptx : PIMAGE_cubin);
  bool standard = strcmp(e->file, "-") == 0, ok = true;
  if (standard) tool_stages_end(t), standard_write(image->data, image->bytes);
  else ok = file_write(t->diags, e->file, 0666, image->data, image->bytes);
  kernel_images_free(&images);
  return ok;
}

static bool write_cuda(Tool *t, Build *b, const Emit *e) {
  ArtifactProgram a;
  if (!open_program(t, b, &a)) return false;
  const char *source = cuda_source(t, b, &a);
  codegen_program_close(&a);
  return e->kind == EMIT_CUDA ? write_text(t, e->file, source) : write_image(t, b, e, source);
}

static bool write_schedule(Tool *t, Build *b, const Emit *e) {
  ArtifactProgram a;
  Text text = {.arena = t->arena};
  if (!open_program(t, b, &a)) return false;
  kernel_target(b->device)->schedule(t->arena, &a, &text);
  codegen_program_close(&a);
  return write_text(t, e->file, text_str(&text));
}

static bool write_plan(Tool *t, Build *b, const Emit *e) {
  Text text = {.arena = t->arena};
  plan_print(b->model.m, b->l1, b->plan, &text);
  return write_text(t, e->file, text_str(&text));
}

/* Code and schedules need the meaning of every operation. */
static bool check_known(Tool *t, const Build *b, EmitKind kind) {
  if (!kinds[kind].code || !opaque_any(b->model.m)) return true;
  opaque_report(b->model.m, true, t->diags);
  return !opaque_missing(b->model.m) && driver_can_compile(b, b->options.target->device);
}

static bool write_dot(Tool *t, Build *b, const Emit *e) {
  Text text = {.arena = t->arena};
  const Plan *p = b->plan;
  tool_dot_print(b->model.m, b->l1, p,
                 arena_printf(t->arena, "%s on %s: %s, %s", b->model.path, b->options.target->name,
                              tool_degrees_text(t->arena, p->degree, p->micro_batches),
                              show_seconds(t->arena, p->price.time.total)),
                 &text);
  return write_text(t, e->file, text_str(&text));
}

static bool write_html(Tool *t, Build *b, const Emit *e) {
  Text text = {.arena = t->arena};
  html_print(t, b, &text);
  return write_text(t, e->file, text_str(&text));
}

static bool write_trace(Tool *t, const Build *b, const Emit *e) {
  Text text = {.arena = t->arena};
  return trace_print(t, b, &text) && write_text(t, e->file, text_str(&text));
}

static bool write_onnx(Tool *t, const Build *b, const Emit *e) {
  size_t n;
  const uint8_t *bytes = tool_onnx(t, b, e->file, &n);
  if (!bytes) return false;
  if (strcmp(e->file, "-") != 0) return file_write(t->diags, e->file, 0666, bytes, n);
  tool_stages_end(t);
  standard_write(bytes, n);
  return true;
}

static bool write_form(Tool *t, Build *b, const Emit *e) {
  if (!check_known(t, b, e->kind)) return false;
  switch (e->kind) {
    case EMIT_EXE: return driver_write(b, b->options.target->device, e->file);
    case EMIT_PLAN: return write_plan(t, b, e);
    case EMIT_IR: return write_module(t, b, e, 1);
    case EMIT_IR_PASS: return write_after_pass(t, b, e);
    case EMIT_SPMD: return write_module(t, b, e, 2);
    case EMIT_LEGAL: return write_legal(t, b, e);
    case EMIT_SCHEDULE: return write_schedule(t, b, e);
    case EMIT_HTML: return write_html(t, b, e);
    case EMIT_TRACE: return write_trace(t, b, e);
    case EMIT_DOT: return write_dot(t, b, e);
    case EMIT_ONNX: return write_onnx(t, b, e);
    case EMIT_C: return write_c(t, b, e);
    case EMIT_CUDA:
    case EMIT_PTX:
    case EMIT_CUBIN: return write_cuda(t, b, e);
    case EMIT_KINDS: break;
  }
  return false;
}

bool tool_emit_write(Tool *t, Build *b, const EmitList *l) {
  for (size_t i = 0; i < l->n; i++)
    if (!write_form(t, b, &l->items[i])) return false;
  return true;
}
