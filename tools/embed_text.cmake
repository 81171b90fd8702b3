# Writes OUT, a C file with the text of FILE as the string NAME:
#   cmake -DOUT=... -DNAME=... -DFILE=... -P embed_text.cmake
file(READ ${FILE} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" text "${hex}")
file(WRITE ${OUT} "extern const char ${NAME}[];\nconst char ${NAME}[] = \"${text}\";\n")
