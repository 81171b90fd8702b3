/* tools/command_line.c - see command_line.h. */
#include "tools/command_line.h"

#include <string.h>

void tool_add_word(Text *out, const char *word) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:@%+";
  text_add(out, " ");
  if (*word && strspn(word, plain) == strlen(word)) {
    text_add(out, word);
    return;
  }
  text_add(out, "'");
  for (; *word; word++) {
    if (*word == '\'') text_add(out, "'\\''");
    else text_addn(out, word, 1);
  }
  text_add(out, "'");
}

/* True if the word is an option that names a form or a file to write; *with_next: its value is the next word. */
static bool writes(const char *word, bool *with_next) {
  static const char *const options[] = {"--emit", "--save-plan", "--out", "-o"};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    const size_t n = strlen(options[i]);
    if (strncmp(word, options[i], n) != 0) continue;
    if (word[n] == '=' || !word[n]) return *with_next = !word[n], true;
  }
  return false;
}

const char *tool_command_line(const Tool *t) {
  Text out = {.arena = t->arena};
  bool with_next = false;
  text_add(&out, "apc");
  for (int i = 1; t->line[i]; i++) {
    const char *word = t->line[i];
    if (writes(word, &with_next)) i += with_next && t->line[i + 1];
    else if (strcmp(word, "-q") != 0) tool_add_word(&out, word);
  }
  return text_str(&out);
}
