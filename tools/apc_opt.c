/* tools/apc_opt.c - runs passes or the prover on IR text, for tests and debugging.
 *
 *   apc-opt [--passes=a,b] [--device=KIND] [--dtype=TYPE] [--print-after=PASS|all] FILE.ir      (FILE - is standard
 * input) apc-opt [--passes=a,b] ... --prove=main,rank FILE.ir
 *
 * Prints the module after the passes; --device skips the passes for other devices.  With --prove, prints the verdict in
 * place of the module (opt_prove.c).  Exit codes are apc's: 0, 1 for diagnostics, 2 for usage, 3 for unknown, 4 for
 * refuted, 70 for a broken invariant.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/secure.h"
#include "passes/pipeline.h"
#include "passes/train/train.h"
#include "tools/opt_prove.h"
#include "tools/pass_name.h"

typedef enum OptionId {
#define OPTION(name, flag, argument, help) OPT_##name,
#include "tools/opt_options.def"
#undef OPTION
  OPTIONS
} OptionId;

static const struct {
  const char *flag, *argument, *help;
} rows[OPTIONS] = {
#define OPTION(name, flag, argument, help) {flag, argument, help},
#include "tools/opt_options.def"
#undef OPTION
};

static int usage(FILE *out, int code) {
  fputs("usage: apc-opt [options] FILE.ir\n", out);
  for (int i = 0; i < OPTIONS; i++) fprintf(out, "  %s=%s: %s\n", rows[i].flag, rows[i].argument, rows[i].help);
  fputs("passes:", out);
  for (const char *const *p = pipeline_names(); *p; p++) fprintf(out, " %s", *p);
  fputs("\n", out);
  return code;
}

static char *read_stdin(Arena *a) {
  Text t = {.arena = a};
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, stdin)) > 0;) text_addn(&t, buffer, n);
  return t.n ? t.data : arena_strdup(a, "");
}

static int run(Arena *a, Diags *diags, const char *file, const char *passes, const char *pairs,
               const PassOptions *options) {
  if (!tool_print_after_check(diags, options->print_after, passes)) return 1;
  const char *text = strcmp(file, "-") == 0 ? read_stdin(a) : file_read_text(diags, a, file, NULL);
  if (!text) return 1;
  diag_source(diags, file, text);
  Module *m = ir_parse(file, text, diags);
  if (!m) return 1;
  int code = verify_module(m, diags) && pipeline_run(m, passes, options, diags) ? 0 : 1;
  if (code == 0 && pairs) {
    code = opt_prove(m, pairs, diags);
  } else if (code == 0) {
    Text t = {.arena = a};
    module_print(m, &t);
    fputs(text_str(&t), stdout);
  }
  if (fflush(stdout) || ferror(stdout)) {
    diag_error(diags, DIAG_file_write, (Loc){0}, "standard output cannot be written");
    code = 1;
  }
  module_free(m);
  return code;
}

/* Records an option like "--passes=a,b"; false if the word is none. */
static bool take_option(const char *word, const char **values) {
  for (int i = 0; i < OPTIONS; i++) {
    size_t n = strlen(rows[i].flag);
    if (strncmp(word, rows[i].flag, n) != 0 || word[n] != '=') continue;
    values[i] = word + n + 1;
    return true;
  }
  return false;
}

static bool narrow_type(const char *word, DType *out) {
  return dtype_find(word, out) && (*out == DT_f32 || *out == DT_f16 || *out == DT_bf16);
}

int main(int argc, char **argv) {
  const char *file = NULL, *values[OPTIONS] = {NULL};
  if (secure_execution()) {
    fputs(
        "error: apc-opt does not run with the rights of another user (a set-uid or set-gid copy, or file "
        "capabilities)\n",
        stderr);
    return 5;
  }
  file_limit_refuses();
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--help") == 0) return usage(stdout, 0);
    if (take_option(argv[i], values)) continue;
    if ((argv[i][0] == '-' && argv[i][1]) || file) return usage(stderr, 2);
    file = argv[i];
  }
  if (!file) return usage(stderr, 2);
  if (values[OPT_prove] && !opt_prove_is_list(values[OPT_prove])) {
    fprintf(stderr,
            "--prove takes the name of a function of level 1 and one of level 2, or several such pairs: "
            "--prove=main,rank; not '%s'\n",
            values[OPT_prove]);
    return usage(stderr, 2);
  }
  PassOptions how = {.verify = true, .dump = stdout, .print_after = values[OPT_print_after]};
  if (values[OPT_device] && !(how.device = target_device_traits_find(values[OPT_device]))) {
    fprintf(stderr, "--device takes a kind of device: %s; not '%s'\n", rows[OPT_device].argument, values[OPT_device]);
    return usage(stderr, 2);
  }
  if (values[OPT_dtype] && !narrow_type(values[OPT_dtype], &how.floats)) {
    fprintf(stderr, "--dtype takes f32, f16 or bf16; not '%s'\n", values[OPT_dtype]);
    return usage(stderr, 2);
  }
  Arena *a = arena_new();
  Diags *diags = diags_new(a);
  TrainOptions train = {.loss = values[OPT_train]};
  if (train.loss) how.train = &train;
  bool understood = !train.loss || optimizer_parse(a, values[OPT_optimizer], &train.optimizer, diags);
  int code =
      !understood ? 2 : run(a, diags, file, values[OPT_passes] ? values[OPT_passes] : "", values[OPT_prove], &how);
  diags_print(diags, stderr, false);
  arena_free(a);
  return code;
}
