# Test programs, which are found by directory:
#
#   tests/<room>/test_*.c   one cmocka program each, against the static library; may include "room/..." from src/
#   tests/oracle/*.c        a slow, independent model of the notation, without the library
#   tests/prop/test_*.c     random tests that compare the library with the oracle
#   tests/fuzz/fuzz_*.c     libFuzzer programs (RESHARD_FUZZ=ON, clang); their corpora are replayed in every build
#   tests/cli/run.sh        golden tests of the command; $1 is the command
#   tests/install/install.sh    installs the library, then builds two programs that use it
#   examples/*.c, nn/*.c    must run and return 0
#   tests/big/big_*.c       programs of tools/bigtest.sh, built by the target `big`
#
# Other .c files of a directory are linked into each of its programs; tests/comm/mailboxes.c is linked into all programs.

# Tests that ctest reports as skipped if they exit with 77.
function(reshard_may_skip)
  set_tests_properties(${ARGN} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()

# If a requirement is missing, adds one skipped test instead of the tests that need it.  See tests/skip.sh.
function(reshard_skipped_test name label cause why)
  add_test(NAME "${name}" COMMAND sh ${tests}/skip.sh ${cause} ${why})
  set_tests_properties("${name}" PROPERTIES LABELS ${label} SKIP_RETURN_CODE 77)
endfunction()

set(tests ${PROJECT_SOURCE_DIR}/tests)
find_package(cmocka REQUIRED)
if(NOT TARGET cmocka::cmocka)
  add_library(cmocka::cmocka INTERFACE IMPORTED)
  target_include_directories(cmocka::cmocka INTERFACE ${CMOCKA_INCLUDE_DIR})
  target_link_libraries(cmocka::cmocka INTERFACE ${CMOCKA_LIBRARIES})
endif()

file(GLOB oracle_sources CONFIGURE_DEPENDS ${tests}/oracle/*.c)
list(FILTER oracle_sources EXCLUDE REGEX "/test_[^/]*$")

add_library(test-mailboxes STATIC ${tests}/comm/mailboxes.c)
target_include_directories(test-mailboxes PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(test-mailboxes PRIVATE reshard-flags Threads::Threads PUBLIC reshard-static)

# Builds a program from `source`, the files of its directory that are not programs, and ARGN.
function(reshard_test_program source)
  cmake_path(GET source STEM name)
  cmake_path(GET source PARENT_PATH folder)
  cmake_path(GET folder FILENAME room)
  file(GLOB support CONFIGURE_DEPENDS ${folder}/*.c)
  list(FILTER support EXCLUDE REGEX "/((test|fuzz)_[^/]*|mailboxes[.]c)$")
  add_executable(${name} ${source} ${support} ${ARGN})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/${room})
  target_include_directories(${name} PRIVATE ${tests})
  target_link_libraries(${name} PRIVATE reshard-flags PkgConfig::JANSSON Threads::Threads m)
  if(room MATCHES "^(prop|nn)$" OR name STREQUAL "test_doors_nn") # these use public headers only, and link the shared library
    target_link_libraries(${name} PRIVATE reshard ${CMAKE_DL_LIBS})
    if(NOT room STREQUAL "prop")
      target_link_libraries(${name} PRIVATE reshard-nn)
    endif()
  elseif(NOT room STREQUAL "oracle")
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${name} PRIVATE test-mailboxes reshard-static)
  endif()
endfunction()

file(GLOB test_sources CONFIGURE_DEPENDS ${tests}/*/test_*.c)
find_program(PYTHON python3)
if(NOT PYTHON)
  reshard_skipped_test("what needs python3" structure python3 "there is no python3: the tests of NULL and wrong enums, of checkpoints by the command, of pages")
  list(FILTER test_sources EXCLUDE REGEX "/test_doors[^/]*$")
endif()
if(NOT TARGET reshard-nn)
  reshard_skipped_test("nn: all" nn blas "there is no CBLAS, so libreshard-nn is not built")
  list(FILTER test_sources EXCLUDE REGEX "/(nn/[^/]*|test_doors_nn[.]c)$")
endif()
foreach(source IN LISTS test_sources)
  string(REGEX REPLACE "^.*/([^/]*)/test_([^/]*)\\.c$" "\\1" room ${source})
  string(REGEX REPLACE "^.*/([^/]*)/test_([^/]*)\\.c$" "\\2" name ${source})
  if(room MATCHES "^(prop|group)$")
    reshard_test_program(${source} ${oracle_sources})
  elseif(room STREQUAL "nn")
    reshard_test_program(${source} ${tests}/prop/engine.c)
  else()
    reshard_test_program(${source})
  endif()
  target_link_libraries(test_${name} PRIVATE cmocka::cmocka)
  add_test(NAME "${room}: ${name}" COMMAND test_${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties("${room}: ${name}" PROPERTIES LABELS ${room})
  file(STRINGS ${source} random REGEX "(seed_of_tests|seed_or|test_seed|make_seed|random_start|prop_run)\\(")
  if(random)
    set_tests_properties("${room}: ${name}" PROPERTIES LABELS "${room};random") # for tools/soak.py
  endif()
  file(STRINGS ${source} skipping REGEX "skip_test\\(")
  if(skipping)
    reshard_may_skip("${room}: ${name}")
  endif()
endforeach()

# Calls every public function with wrong arguments; the calls are generated from the headers.  library: core, mpi (with
# the core) or nn.
function(reshard_door_calls program library)
  set(folder ${PROJECT_BINARY_DIR}/tests/calls/${program})
  set(door_calls ${folder}/door_calls.inc)
  file(MAKE_DIRECTORY ${folder})
  file(GLOB_RECURSE public_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/*.h)
  add_custom_command(OUTPUT ${door_calls}
    COMMAND ${PYTHON} ${tests}/doors/door_calls.py ${PROJECT_SOURCE_DIR} ${library} ${door_calls}
    DEPENDS ${tests}/doors/door_calls.py ${tests}/doors/answers.txt ${PROJECT_SOURCE_DIR}/tools/c_text.py ${public_headers})
  target_sources(${program} PRIVATE ${door_calls})
  target_include_directories(${program} PRIVATE ${folder})
endfunction()
if(TARGET test_doors)
  reshard_door_calls(test_doors core)
endif()
if(TARGET test_doors_nn)
  reshard_door_calls(test_doors_nn nn)
endif()

# Results must not depend on the vector instructions.  Levels that the machine does not have run at its own level.
foreach(level generic avx2)
  foreach(test move lines weave convert reduce digest reshard_prop)
    set(simd_test "simd: ${test}, ${level}")
    add_test(NAME ${simd_test} COMMAND test_${test} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${simd_test} PROPERTIES LABELS "simd;random" ENVIRONMENT "RESHARD_SIMD=${level};RESHARD_CASES=400")
  endforeach()
endforeach()

if(TARGET reshard-nn)
  foreach(test nn_golden nn_gradients nn_kernels)
    add_test(NAME "simd: ${test}, generic" COMMAND test_${test} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties("simd: ${test}, generic" PROPERTIES LABELS "simd;nn" ENVIRONMENT "RESHARD_SIMD=generic")
  endforeach()
endif()

# Property tests that move elements also run on ranks of several nodes, with mailboxes between them.
file(GLOB prop_support CONFIGURE_DEPENDS ${tests}/prop/*.c)
list(FILTER prop_support EXCLUDE REGEX "/test_[^/]*$")
foreach(name reshard_prop messages_prop spread_prop)
  set(program nodes_${name})
  add_executable(${program} ${tests}/prop/test_${name}.c ${prop_support} ${oracle_sources})
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/prop)
  target_compile_definitions(${program} PRIVATE RESHARD_TEST_NODES)
  target_include_directories(${program} PRIVATE ${tests} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${program} PRIVATE reshard-flags test-mailboxes reshard-static cmocka::cmocka PkgConfig::JANSSON Threads::Threads
                        ${CMAKE_DL_LIBS} m)
  add_test(NAME "prop: ${name} on nodes" COMMAND ${program} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties("prop: ${name} on nodes" PROPERTIES LABELS "prop;random")
endforeach()

# Property tests that move elements also run as jobs of processes.  `where` is part of the test's name, `environment` is
# the environment of the job, ARGN is the launcher.
# Broadcasts are spread only over several nodes or many ranks, so they are not tested in small jobs on one node.
function(reshard_job_tests engine where environment)
  set(properties reshard_prop messages_prop digest_prop spread_prop)
  if(where MATCHES "[23] ranks(| together)$")
    list(REMOVE_ITEM properties spread_prop)
  endif()
  foreach(name IN LISTS properties)
    set(test "prop: ${name} on ${engine}, ${where}")
    add_test(NAME ${test} COMMAND ${ARGN} $<TARGET_FILE:test_${name}> WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${test} PROPERTIES LABELS "prop;${engine};random" PROCESSORS 2 ENVIRONMENT "RESHARD_TEST_ENGINE=${engine};${environment}")
  endforeach()
endfunction()

if(TARGET reshard-command)
  foreach(ranks 2 3 4)
    reshard_job_tests(shm "${ranks} ranks" "" $<TARGET_FILE:reshard-command> run -n ${ranks} --)
  endforeach()
endif()

if(RESHARD_FUZZ)
  file(GLOB fuzz_sources CONFIGURE_DEPENDS ${tests}/fuzz/fuzz_*.c)
  foreach(source IN LISTS fuzz_sources)
    reshard_test_program(${source})
    cmake_path(GET source STEM name)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  endforeach()
endif()

# Replays the corpora of the fuzz targets, each input once.
file(GLOB replayed_sources CONFIGURE_DEPENDS ${tests}/fuzz/fuzz_*.c)
foreach(source IN LISTS replayed_sources)
  cmake_path(GET source STEM name)
  string(REPLACE "fuzz_" "" name ${name})
  add_executable(replay_${name} ${source} ${tests}/fuzz/replay/replay.c)
  set_target_properties(replay_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/fuzz)
  target_include_directories(replay_${name} PRIVATE ${tests} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(replay_${name} PRIVATE reshard-flags reshard-static PkgConfig::JANSSON Threads::Threads m)
  add_test(NAME "fuzz: corpus of ${name}" COMMAND replay_${name} ${tests}/fuzz/corpus_${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties("fuzz: corpus of ${name}" PROPERTIES LABELS fuzz)
endforeach()

# Programs that need an MPI are not built without the engine mpi.
file(GLOB big_sources CONFIGURE_DEPENDS ${tests}/big/big_*.c)
add_custom_target(big)
foreach(source IN LISTS big_sources)
  cmake_path(GET source STEM name)
  set(needs_mpi OFF)
  if(name MATCHES "^big_(hosts|ceiling|stopped)$")
    set(needs_mpi ON)
  endif()
  if(needs_mpi AND NOT TARGET reshard-mpi)
    continue()
  endif()
  add_executable(${name} EXCLUDE_FROM_ALL ${source})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/big)
  target_link_libraries(${name} PRIVATE reshard-flags reshard m)
  if(TARGET reshard-mpi)
    target_compile_definitions(${name} PRIVATE BIG_MPI)
    target_link_libraries(${name} PRIVATE reshard-mpi reshard-mpi-flags)
  endif()
  add_dependencies(big ${name})
endforeach()
if(TARGET big_pairs)
  file(GLOB generators CONFIGURE_DEPENDS ${tests}/prop/gen_*.c)
  target_sources(big_pairs PRIVATE ${generators} ${oracle_sources})
  target_include_directories(big_pairs PRIVATE ${tests})
endif()
if(TARGET big_pairs AND TARGET reshard-command)
  set_target_properties(big_pairs PROPERTIES EXCLUDE_FROM_ALL OFF)
  add_test(NAME "apply gives the same bytes on every engine, for random pairs"
           COMMAND bash ${tests}/big/apply_engines.sh $<TARGET_FILE:reshard-command> $<TARGET_FILE:big_pairs> 40)
  set_tests_properties("apply gives the same bytes on every engine, for random pairs" PROPERTIES LABELS "cli;random" PROCESSORS 2 ENVIRONMENT NO_MPI=1)
endif()

if(TARGET reshard-command AND EXISTS ${tests}/cli/run.sh)
  add_test(NAME "the command answers as recorded"
           COMMAND bash ${tests}/cli/run.sh $<TARGET_FILE:reshard-command>)
  set_tests_properties("the command answers as recorded" PROPERTIES LABELS cli)
  reshard_may_skip("the command answers as recorded")
endif()

# Tests of the command: at a terminal, its man pages and completion, and its arrays.
file(GLOB cli_checks CONFIGURE_DEPENDS ${tests}/cli/check_*.py)
if(TARGET reshard-command AND PYTHON)
  foreach(check IN LISTS cli_checks)
    cmake_path(GET check STEM name)
    string(REGEX REPLACE "^check_" "" name ${name})
    add_test(NAME "cli: ${name}" COMMAND ${PYTHON} ${check} $<TARGET_FILE:reshard-command>)
    file(STRINGS ${check} random REGEX "seed_of_tests\\(")
    set_tests_properties("cli: ${name}" PROPERTIES LABELS "cli$<$<BOOL:${random}>:;random>")
    reshard_may_skip("cli: ${name}")
  endforeach()
endif()

# PyTorch reads files that libreshard-nn has saved.
if(TARGET test_gpt2_files AND PYTHON)
  add_test(NAME "nn: gpt2 in PyTorch" COMMAND ${PYTHON} ${tests}/nn/check_gpt2_torch.py $<TARGET_FILE:test_gpt2_files>)
  set_tests_properties("nn: gpt2 in PyTorch" PROPERTIES LABELS nn)
  reshard_may_skip("nn: gpt2 in PyTorch")
endif()

# Compares the command's work on checkpoints with readers, writers and models in Python.
file(GLOB ckpt_checks CONFIGURE_DEPENDS ${tests}/ckpt/check_*.py)
if(TARGET reshard-command AND PYTHON)
  foreach(check IN LISTS ckpt_checks)
    cmake_path(GET check STEM name)
    string(REGEX REPLACE "^check_" "" name ${name})
    add_test(NAME "ckpt: ${name}" COMMAND ${PYTHON} ${check} $<TARGET_FILE:reshard-command>)
    file(STRINGS ${check} random REGEX "seed_of_tests\\(")
    set_tests_properties("ckpt: ${name}" PROPERTIES LABELS "ckpt$<$<BOOL:${random}>:;random>")
    reshard_may_skip("ckpt: ${name}")
  endforeach()
endif()

# Tests pages in a real browser.
if(TARGET reshard-command AND PYTHON)
  set(page_library --library $<TARGET_FILE:reshard>)
  if(RESHARD_SANITIZE) # Python cannot load a sanitized library
    set(page_library)
  endif()
  add_test(NAME "draw: pages in Chromium"
           COMMAND ${PYTHON} ${tests}/draw/check_page.py $<TARGET_FILE:reshard-command> ${page_library})
  set_tests_properties("draw: pages in Chromium" PROPERTIES LABELS draw)
  reshard_may_skip("draw: pages in Chromium")
  add_test(NAME "draw: the gallery is current" COMMAND ${PYTHON} ${tests}/draw/check_gallery.py $<TARGET_FILE:reshard-command>)
  set_tests_properties("draw: the gallery is current" PROPERTIES LABELS draw)
endif()

if(PYTHON)
  add_test(NAME "bench: every row is kept and plotted" COMMAND ${PYTHON} ${tests}/bench/check_plot.py ${PROJECT_SOURCE_DIR}/bench)
  set_tests_properties("bench: every row is kept and plotted" PROPERTIES LABELS bench)
endif()

if(RESHARD_EXAMPLES)
  file(GLOB example_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.c ${PROJECT_SOURCE_DIR}/examples/nn/*.c)
  foreach(source IN LISTS example_sources)
    cmake_path(GET source STEM name)
    string(REGEX REPLACE ".*/examples(.*)/[^/]*" "examples\\1-${name}" target ${source})
    string(REPLACE "/" "-" target ${target})
    if(NOT TARGET ${target})
      continue() # the library is not built
    endif()
    add_test(NAME "example: ${name}" COMMAND ${target})
    set_tests_properties("example: ${name}" PROPERTIES LABELS examples)
  endforeach()
  if(TARGET examples-nn-train_gpt AND TARGET reshard-command)
    add_test(NAME "example: train_gpt on shm" COMMAND reshard-command run -n 2 -- $<TARGET_FILE:examples-nn-train_gpt> --join)
    set_tests_properties("example: train_gpt on shm" PROPERTIES LABELS examples PROCESSORS 2)
  endif()
endif()

# Programs that are started by a launcher.
if(TARGET examples-08_join AND TARGET reshard-command)
  add_test(NAME "example: 08_join on 3 processes" COMMAND reshard-command run -n 3 -- $<TARGET_FILE:examples-08_join>)
  set_tests_properties("example: 08_join on 3 processes" PROPERTIES LABELS examples PROCESSORS 2)
endif()

# Tests the examples in README.md and docs/: blocks of C, layouts, and commands with their output.
if(TARGET reshard-command AND PYTHON AND TARGET reshard-nn AND NOT RESHARD_SANITIZE)
  file(GLOB pages CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/docs/*.md)
  foreach(page IN LISTS pages)
    cmake_path(GET page STEM name)
    add_test(NAME "page: ${name}" COMMAND ${PYTHON} ${tests}/pages/page.py ${page} ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
    set_tests_properties("page: ${name}" PROPERTIES LABELS pages ENVIRONMENT "CC=${CMAKE_C_COMPILER}")
  endforeach()
endif()

# Programs without sanitizers cannot link a sanitized library, so these tests are only for ordinary builds.
if(NOT RESHARD_SANITIZE)
  add_test(NAME "page: the example in reshard.h"
           COMMAND sh ${tests}/pages/umbrella.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} ${CMAKE_C_COMPILER})
  set_tests_properties("page: the example in reshard.h" PROPERTIES LABELS pages)
  add_test(NAME "an installed reshard is found by pkg-config and by find_package"
           COMMAND bash ${tests}/install/install.sh ${PROJECT_BINARY_DIR} ${CMAKE_C_COMPILER})
  set_tests_properties("an installed reshard is found by pkg-config and by find_package" PROPERTIES LABELS install)
endif()

include(${PROJECT_SOURCE_DIR}/cmake/python_tests.cmake)
include(${PROJECT_SOURCE_DIR}/cmake/mpi_tests.cmake)
include(${PROJECT_SOURCE_DIR}/cmake/scalapack_tests.cmake)
include(${PROJECT_SOURCE_DIR}/cmake/fortran_tests.cmake)
