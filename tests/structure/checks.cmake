# What the tree promises about itself, as tests whose names are the promises.

find_program(PYTHON python3)
find_program(CXX_FOR_HEADERS NAMES c++ g++ clang++)
set(tools ${PROJECT_SOURCE_DIR}/tools)

function(reshard_check promise)
  add_test(NAME "${promise}" COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties("${promise}" PROPERTIES LABELS structure SKIP_RETURN_CODE 77)
endfunction()

if(PYTHON)
  reshard_check("rooms see only the rooms that src/LAYERS lists" ${PYTHON} ${tools}/check_layers.py)
  reshard_check("no file is too long" ${PYTHON} ${tools}/check_length.py)
  reshard_check("file names are unique" ${PYTHON} ${tools}/check_tree.py names)
  reshard_check("no two types have nearly one name" ${PYTHON} ${tools}/check_tree.py types)
  reshard_check("public functions are said to be pure, local or collective" ${PYTHON} ${tools}/check_tree.py tags)
  reshard_check("public structs of options say how large they are" ${PYTHON} ${tools}/check_tree.py options)
  reshard_check("nothing is left over in the tree" ${PYTHON} ${tools}/check_tree.py strays)
  reshard_check("the version is the same everywhere" ${PYTHON} ${tools}/check_tree.py version)
  reshard_check("the walk in ARCHITECTURE.md names functions where they are" ${PYTHON} ${tools}/check_tree.py walk)
  reshard_check("pages name files that are there" ${PYTHON} ${tools}/check_tree.py paths)
  reshard_check("every break of tools/mutants.txt applies" ${PYTHON} ${tools}/check_tree.py breaks)
  reshard_check("the Fortran interfaces are those of the headers" ${CMAKE_COMMAND} -E env CC=${CMAKE_C_COMPILER} ${PYTHON} ${tools}/fortran.py check)
  reshard_check("the checkers find what they look for" sh tests/structure/checkers.sh)
else()
  reshard_check("what the tree promises about itself" sh tests/skip.sh python3 "there is no python3")
endif()
if(CXX_FOR_HEADERS)
  reshard_check("public headers compile alone, as C and as C++"
                sh ${tools}/check_headers.sh . ${CMAKE_C_COMPILER} ${CXX_FOR_HEADERS} "${reshard-mpi-flags_FLAGS}")
else()
  reshard_check("public headers compile alone, as C and as C++" sh tests/skip.sh c++ "there is no C++ compiler")
endif()
reshard_check("tools/rename-0.1.0.sh brings an old program to the names of 0.1.0"
              sh tests/structure/rename.sh ${CMAKE_C_COMPILER})
reshard_check("make builds tests for `make test` alone, and a parent project keeps its own settings"
              sh tests/install/settings.sh ${CMAKE_C_COMPILER})
if(NOT RESHARD_SANITIZE) # which adds symbols of its own
  set(more_libraries)
  foreach(library reshard-mpi reshard-scalapack reshard-nn)
    if(TARGET ${library})
      list(APPEND more_libraries $<TARGET_LINKER_FILE:${library}>)
    endif()
  endforeach()
  reshard_check("the library exports what the headers declare and nothing else"
                sh ${tools}/check_symbols.sh $<TARGET_FILE:reshard> $<TARGET_FILE:reshard-static> . ${more_libraries})
endif()
