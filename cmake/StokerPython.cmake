# Python and nanobind, for the extension module of the Python package. Sets STOKER_HAS_PYTHON. Without
# STOKER_PYTHON=ON the module is built only if .venv has nanobind, and never with sanitizers or for fuzzing.
set(STOKER_HAS_PYTHON OFF)
if(STOKER_PYTHON STREQUAL "OFF" OR (STOKER_PYTHON STREQUAL "AUTO" AND (STOKER_SANITIZE OR STOKER_FUZZ)))
  return()
endif()
if(NOT Python_EXECUTABLE AND EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  set(Python_EXECUTABLE ${PROJECT_SOURCE_DIR}/.venv/bin/python)
endif()
find_package(Python 3.10 COMPONENTS Interpreter Development.Module QUIET)
if(Python_Interpreter_FOUND AND NOT nanobind_DIR)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
    OUTPUT_VARIABLE nanobind_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(Python_Development.Module_FOUND AND nanobind_DIR)
  find_package(nanobind CONFIG REQUIRED)
  set(STOKER_HAS_PYTHON ON)
elseif(STOKER_PYTHON STREQUAL "ON")
  message(FATAL_ERROR "STOKER_PYTHON=ON: expected nanobind and the headers of Python (python3-dev), found nanobind in \
\"${nanobind_DIR}\" and headers in \"${Python_INCLUDE_DIRS}\"; `pip install .` installs nanobind")
endif()
message(STATUS "Stoker: Python package ${STOKER_HAS_PYTHON}")
