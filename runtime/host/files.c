/* runtime/host/files.c - inputs and outputs as tensor files, and inputs as texts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/npy.h"
#include "base/npz.h"
#include "base/text.h"
#include "runtime/exec/param_paths.h"
#include "runtime/host/host.h"

HostFiles host_files_begin(void) {
  Arena *a = arena_new();
  return (HostFiles){a, diags_new(a)};
}

ApcStatus host_files_end(ApcModel *m, HostFiles f, const char *path, ApcStatus status) {
  if (f.diags->errors) {
    const Diag *first = NULL;
    for (size_t i = f.diags->n; i-- > 0;)
      if (f.diags->items[i].severity == SEV_ERROR) first = &f.diags->items[i];
    bool lacking = first && first->code == DIAG_no_memory;
    status =
        host_error(m, lacking ? RT_FAILED : RT_BAD_INPUT, "%s: %s", path, first ? first->message : "it cannot be used");
  }
  arena_free(f.arena);
  return status;
}

static ApcStatus bind_npy(ApcModel *m, const char *name, const char *path) {
  if (text_ends_with(path, ".npz"))
    return host_error(
        m, RT_USAGE,
        "%s is an archive of tensors, but an input takes one (.npy); use --inputs %s to bind inputs by name", path,
        path);
  HostFiles f = host_files_begin();
  Tensor t;
  ApcStatus status = APC_OK;
  bool fits =
      npy_read_file_header(f.diags, path, &t) && !(status = host_accepts(m, name, &t)); /* before all of it is read */
  if (fits && npy_read(f.diags, path, &t)) status = host_bind_numbers(m, name, t);
  return host_files_end(m, f, path, status);
}

static ApcStatus bind_random(ApcModel *m, const char *name, const char *seed) {
  char *end = "";
  errno = 0;
  uint64_t value = seed ? strtoull(seed, &end, 10) : 0;
  if (seed && (*seed < '0' || *seed > '9' || *end || errno))
    return host_error(m, RT_USAGE, "input '%s': '%s' is not a seed", name, seed);
  return host_bind(m, name, (Bound){.kind = BOUND_RANDOM, .seed = value});
}

ApcStatus apc_bind_input_text(ApcModel *m, const char *name, const char *text) {
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  if (text[0] == '@') return bind_npy(m, name, text + 1);
  if (strcmp(text, "zeros") == 0) return host_bind(m, name, (Bound){.kind = BOUND_ZEROS});
  if (strcmp(text, "random") == 0) return bind_random(m, name, NULL);
  if (strncmp(text, "random:", 7) == 0) return bind_random(m, name, text + 7);
  if (text_ends_with(text, ".npy"))
    return host_error(m, RT_USAGE, "input '%s': write '@' before the name of a file: --input %s=@%s", name, name, text);
  return host_error(m, RT_USAGE, "input '%s': '%s' is neither @FILE.npy nor random[:SEED] nor zeros", name, text);
}

/* Copies the tensor out of its archive, so that it outlives it. */
static bool own(Tensor *t) {
  Tensor copy;
  if (!tensor_alloc(&copy, t->dtype, t->rank, t->dims)) return false;
  memcpy(copy.data, t->data, t->bytes);
  tensor_free(t);
  *t = copy;
  return true;
}

static ApcStatus bind_members(ApcModel *m, Npz *z) {
  ApcStatus status = APC_OK;
  for (size_t i = 0; !status && i < z->n; i++) {
    Tensor t;
    if (!npz_read_header(z, &z->items[i], &t)) break; /* reported */
    status = host_accepts(m, z->items[i].name, &t);   /* before it is expanded */
    if (status || !npz_read(z, &z->items[i], &t)) break;
    if (!t.release && !own(&t)) { /* a view of the archive */
      tensor_free(&t);
      return host_error(m, RT_FAILED, "out of memory");
    }
    status = host_bind_numbers(m, z->items[i].name, t);
  }
  return status;
}

ApcStatus apc_bind_inputs_file(ApcModel *m, const char *path) {
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  if (text_ends_with(path, ".npy"))
    return host_error(m, RT_USAGE, "%s is one tensor, not an archive (.npz); use --input NAME=@%s to bind one input",
                      path, path);
  HostFiles f = host_files_begin();
  Npz *z = npz_open(f.diags, path);
  ApcStatus status = APC_OK;
  if (z) {
    status = bind_members(m, z);
    npz_close(z);
  }
  if (status == APC_USAGE) { /* a file with an extra tensor is bad input, not bad use */
    char text[RT_ERROR_TEXT];
    snprintf(text, sizeof text, "%.*s", RT_ERROR_TEXT - 300, m->error.text);
    m->error = (RtError){0};
    status = host_error(m, RT_BAD_INPUT, "%s: %s", path, text);
  }
  return host_files_end(m, f, path, status);
}

static Tensor output_view(const ApcModel *m, int i) {
  const Program *p = &m->artifact.program;
  const ProgramPort *t = &p->ports[p->entries[m->ran_entry].inputs + (uint32_t)i];
  return tensor_view((DType)t->dtype, m->layout.shapes[i].rank, m->layout.shapes[i].dims, m->io + m->layout.offsets[i]);
}

/* Refuses files that are the program or the weights it runs with. */
static ApcStatus check_output(ApcModel *m, const char *path) {
  const Program *p = &m->artifact.program;
  bool ours = file_same(path, m->path) || (m->weights && file_same(path, m->weights));
  for (uint32_t i = 0; !ours && i < p->n_blobs; i++) {
    const char *blob = program_text(p, p->blobs[i].path);
    char *found = *blob && m->weights ? param_path_find(p, i, m->weights) : NULL;
    ours = *blob && (file_same(path, blob) || (found && file_same(path, found)));
    free(found);
  }
  return ours ? host_error(m, RT_USAGE, "%s is the program or holds its weights; write outputs to another file", path)
              : APC_OK;
}

ApcStatus apc_may_write(ApcModel *m, const char *path) {
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  return check_output(m, path);
}

ApcStatus apc_write_output(ApcModel *m, const char *name, const char *path) {
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  int i = host_output_here(m, name);
  if (i < 0) return host_status(m, m->error.status);
  ApcStatus status = check_output(m, path);
  if (status) return status;
  HostFiles f = host_files_begin();
  Tensor t = output_view(m, i);
  npy_write(f.diags, path, &t);
  return host_files_end(m, f, path, APC_OK);
}

ApcStatus apc_write_trace(ApcModel *m, const char *path, uint64_t *dropped) {
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  ApcStatus status = check_output(m, path);
  if (!status) status = host_status(m, host_record_fetch(m));
  if (status) return status;
  HostFiles f = host_files_begin();
  FileWriter *w = file_writer_open(f.diags, path, 0666);
  if (w && host_trace_write(m, w, dropped)) file_writer_finish(w);
  else if (w) file_writer_abandon(w);
  return host_files_end(m, f, path, APC_OK);
}

ApcStatus apc_write_outputs(ApcModel *m, const char *path) {
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  const Program *p = &m->artifact.program;
  const ProgramEntry *e = &p->entries[m->ran_entry];
  if (!m->layout.bytes) return host_error(m, RT_USAGE, "nothing has run yet");
  for (uint32_t i = e->outputs; i < e->outputs + e->n_outputs; i++)
    if (host_output_here(m, program_text(p, p->ports[i].name)) < 0) return host_status(m, m->error.status);
  ApcStatus status = check_output(m, path);
  if (status) return status;
  HostFiles f = host_files_begin();
  NpzWriter *w = npz_writer_open(f.diags, path);
  bool ok = w != NULL;
  for (uint32_t i = 0; ok && i < e->n_outputs; i++) {
    Tensor t = output_view(m, (int)(e->n_inputs + i));
    ok = npz_writer_add(w, program_text(p, p->ports[e->outputs + i].name), &t);
  }
  if (ok) npz_writer_finish(w);
  else if (w) npz_writer_abandon(w);
  return host_files_end(m, f, path, APC_OK);
}
