# cmake -DOUT=FILE.c -DDIR=DIR -P embed.cmake: writes the text of every target file in DIR as C strings.
file(GLOB files ${DIR}/*.topo)
list(SORT files)
set(names "")
set(texts "")
foreach(file ${files})
  get_filename_component(name ${file} NAME)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" text "${hex}")
  string(APPEND names "  \"${name}\",\n")
  string(APPEND texts "  \"${text}\",\n")
endforeach()
file(WRITE ${OUT} "extern const char *const target_builtin_files[];\nextern const char *const target_builtin_texts[];\n"
  "const char *const target_builtin_files[] = {\n${names}  0};\nconst char *const target_builtin_texts[] = {\n${texts}  0};\n")
