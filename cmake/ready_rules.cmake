# Ready rules: converts rule files of examples/rules to constants in C.  cmake -DFOLDER=... -DOUT=file.c -P ready_rules.cmake

set(names hf-llama hf-qwen hf-mixtral-tp hf-gpt2 deepseek-fp8)
file(WRITE ${OUT} "/* Made by cmake/ready_rules.cmake from files in examples/rules. */\n#include \"ready_rules.h\"\n")
foreach(name IN LISTS names)
  file(READ ${FOLDER}/${name}.rules bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(MAKE_C_IDENTIFIER ${name} variable)
  file(APPEND ${OUT} "static const char ${variable}[] = {\n${bytes}0};\n")
  string(APPEND list "    {\"${name}\", ${variable}},\n")
endforeach()
file(APPEND ${OUT} "const ready_rules ready_rules_list[] = {\n${list}    {0, 0}};\n")
