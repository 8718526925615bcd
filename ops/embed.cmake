# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
# cmake -DOUTPUT=<cpp> -DROOT=<repository> -DFILES="ops/a/a.py|ops/b/b.py" -P embed.cmake
# Writes the files' bytes as arrays of a C++ source (ops/kernels.h).
string(REPLACE "|" ";" files "${FILES}")
set(arrays "")
set(table "")
set(index 0)
foreach(file IN LISTS files)
  file(READ "${ROOT}/${file}" bytes HEX)
  string(LENGTH "${bytes}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
  string(REGEX REPLACE "(.............................................................................)"
         "\\1\n" bytes "${bytes}")
  string(APPEND arrays "static const char file${index}[] = {\n${bytes}'\\0'};\n")
  string(APPEND table "    {\"${file}\", {file${index}, ${size}}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE "${OUTPUT}.new" "// Made by ops/embed.cmake.\n#include \"ops/kernels.h\"\n\n"
     "namespace tilery::ops {\n${arrays}"
     "const SourceFile kernelFiles[] = {\n${table}};\n"
     "const int kernelFileCount = ${index};\n} // namespace tilery::ops\n")
file(COPY_FILE "${OUTPUT}.new" "${OUTPUT}" ONLY_IF_DIFFERENT)
file(REMOVE "${OUTPUT}.new")
file(TOUCH_NOCREATE "${OUTPUT}")
