/* base/empty.c - keeps a room that has no source yet a legal library. */
typedef int apc_empty_translation_unit;
