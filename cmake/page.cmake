# Page: converts the files of src/draw/page to constants in C.  cmake -DFOLDER=... -DOUT=file.c -P page.cmake
#
# The scripts are concatenated in the order of their names, inside one function, so that they define only one name: reshard.

function(put_constant name text)
  file(WRITE ${OUT}.text "${text}")
  file(READ ${OUT}.text bytes HEX)
  file(REMOVE ${OUT}.text)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  file(APPEND ${OUT} "const char ${name}[] = {\n${bytes}0};\n")
endfunction()

file(GLOB scripts ${FOLDER}/*.js)
list(SORT scripts)
set(script "const reshard = (() => {\n'use strict';\n")
foreach(file IN LISTS scripts)
  file(READ ${file} text)
  string(APPEND script "${text}\n")
endforeach()
string(APPEND script "return {draw};\n})();\n")
file(READ ${FOLDER}/page.css style)

file(WRITE ${OUT} "/* Made by cmake/page.cmake from the files in src/draw/page. */\n#include \"draw/impl.h\"\n")
put_constant(rshi_page_script "${script}")
put_constant(rshi_page_style "${style}")
