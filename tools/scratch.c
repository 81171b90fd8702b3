/* tools/scratch.c - a temporary folder that does not outlive apc; see execute.h. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "tools/execute.h"

/* What the signal handler removes: fixed room, because a handler may not allocate. */
enum { MAX_FILES = 16, MAX_PATH = 512 };
static char files[MAX_FILES][MAX_PATH];
static volatile sig_atomic_t nfiles;
static char directory[MAX_PATH];

static void remove_all(void) {
  for (int i = 0; i < nfiles; i++) unlink(files[i]);
  if (directory[0]) rmdir(directory);
}

static void on_signal(int number) {
  remove_all();
  signal(number, SIG_DFL);
  raise(number);
}

bool scratch_open(Tool *t, Scratch *s) {
  const char *dir = file_temporary_folder(t->diags, t->arena);
  *s = (Scratch){0};
  if (!dir) return false;
  if (strlen(dir) + 64 > MAX_PATH) {
    rmdir(dir);
    return diag_error(t->diags, DIAG_file_write, (Loc){.file = dir}, "the path of the temporary folder is too long");
  }
  s->dir = dir;
  strcpy(directory, dir);
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
  for (int i = 0; i < 3; i++) signal(signals[i], on_signal);
  return true;
}

const char *scratch_file(Tool *t, Scratch *s, const char *name) {
  const char *path = arena_printf(t->arena, "%s/%s", s->dir, name);
  if (nfiles < MAX_FILES) {
    strcpy(files[nfiles], path);
    nfiles = nfiles + 1;
  }
  return path;
}

void scratch_close(Scratch *s) {
  if (!s->dir) return;
  remove_all();
  nfiles = 0;
  directory[0] = 0;
  s->dir = NULL;
}
