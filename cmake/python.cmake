# The Python package: one extension module that uses the limited API, and Python files.
#
# `make python` builds build/python/reshard; set PYTHONPATH=build/python to use it.  The install component
# `python` is the content of a wheel: the package, including the library and the command.
#
# RESHARD_PYTHON_EXECUTABLE is the Python whose headers are used; the module works with every Python from 3.11 on.

set(RESHARD_PYTHON AUTO CACHE STRING "Build the Python package: ON, OFF, or AUTO: where there are headers of Python 3.11")
set_property(CACHE RESHARD_PYTHON PROPERTY STRINGS AUTO ON OFF)
find_program(RESHARD_PYTHON_EXECUTABLE NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH DOC "The Python to build for and to test with")
find_program(RESHARD_PYTHON_EXECUTABLE NAMES python3)

set(python_wanted OFF)
if(RESHARD_PYTHON AND PROJECT_IS_TOP_LEVEL AND RESHARD_PYTHON_EXECUTABLE)
  execute_process(COMMAND ${RESHARD_PYTHON_EXECUTABLE} -c "import sys, sysconfig; print(sysconfig.get_path('include')); sys.exit(sys.version_info < (3, 11))"
    OUTPUT_VARIABLE python_include OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE python_failed ERROR_QUIET)
  if(NOT python_failed AND EXISTS ${python_include}/Python.h)
    set(python_wanted ON)
  endif()
endif()
if(NOT python_wanted)
  if(RESHARD_PYTHON AND NOT RESHARD_PYTHON STREQUAL "AUTO")
    message(FATAL_ERROR "RESHARD_PYTHON is ON, but there are no headers of Python 3.11 or later: set RESHARD_PYTHON_EXECUTABLE")
  endif()
  if(PROJECT_IS_TOP_LEVEL) # so that `make python` says what it lacks
    set(found "no python3")
    if(RESHARD_PYTHON_EXECUTABLE)
      execute_process(COMMAND ${RESHARD_PYTHON_EXECUTABLE} -c "import platform; print(platform.python_version())"
        OUTPUT_VARIABLE python_version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      set(found "Python ${python_version} at ${RESHARD_PYTHON_EXECUTABLE}, headers expected in ${python_include}")
    endif()
    add_custom_target(python
      COMMAND ${CMAKE_COMMAND} -E echo "the Python package needs the headers of Python 3.11 or later (Debian: python3-dev); found ${found}; set RESHARD_PYTHON_EXECUTABLE"
      COMMAND ${CMAKE_COMMAND} -E false VERBATIM)
  endif()
  return()
endif()

set(python_folder ${PROJECT_BINARY_DIR}/python/reshard)
file(GLOB python_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/extension/*.c)
add_library(reshard-python MODULE ${python_sources})
set_target_properties(reshard-python PROPERTIES PREFIX "" OUTPUT_NAME _reshard SUFFIX .abi3.so
  LIBRARY_OUTPUT_DIRECTORY ${python_folder} INSTALL_RPATH "$ORIGIN/lib")
target_include_directories(reshard-python SYSTEM PRIVATE ${python_include})
target_compile_definitions(reshard-python PRIVATE Py_LIMITED_API=0x030B0000 _GNU_SOURCE)
target_compile_options(reshard-python PRIVATE -Wall -Wextra) # no -Wpedantic, because type slots store functions as void *
target_link_libraries(reshard-python PRIVATE reshard ${CMAKE_DL_LIBS})

# Python files are copied when they change.
file(GLOB python_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/reshard/*.py ${PROJECT_SOURCE_DIR}/python/reshard/*.pyi
  ${PROJECT_SOURCE_DIR}/python/reshard/py.typed)
set(python_stamp ${PROJECT_BINARY_DIR}/python/copied)
add_custom_command(OUTPUT ${python_stamp}
  COMMAND ${CMAKE_COMMAND} -E copy ${python_files} ${python_folder}
  COMMAND ${CMAKE_COMMAND} -E touch ${python_stamp}
  DEPENDS ${python_files} VERBATIM)
add_custom_target(reshard-python-files ALL DEPENDS ${python_stamp})
add_custom_target(python DEPENDS reshard-python reshard-python-files)

# In the build directory the library and the command are links; a wheel contains the files.
file(MAKE_DIRECTORY ${python_folder}/bin)
file(CREATE_LINK ${PROJECT_BINARY_DIR}/reshard ${python_folder}/bin/reshard SYMBOLIC)
if(TARGET reshard-command)
  add_dependencies(python reshard-command)
endif()

# A wheel has all files in one directory, so its libraries search their own directory.
option(RESHARD_WHEEL "Build for a Python wheel: libraries find each other in their own folder" OFF)
set(wheel_libraries reshard)
if(TARGET reshard-mpi)
  list(APPEND wheel_libraries reshard-mpi)
  add_dependencies(python reshard-mpi)
endif()
if(RESHARD_WHEEL)
  set_target_properties(${wheel_libraries} PROPERTIES INSTALL_RPATH "$ORIGIN")
endif()
install(TARGETS reshard-python LIBRARY DESTINATION reshard COMPONENT python EXCLUDE_FROM_ALL)
install(TARGETS ${wheel_libraries} LIBRARY DESTINATION reshard/lib COMPONENT python EXCLUDE_FROM_ALL NAMELINK_SKIP)
if(TARGET reshard-command)
  install(TARGETS reshard-command RUNTIME DESTINATION reshard/bin COMPONENT python EXCLUDE_FROM_ALL)
endif()
