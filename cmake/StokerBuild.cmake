# How every target of ours is compiled: standard, warnings, sanitizers, ccache, mold, CUDA, and
# the function that turns a folder into a target.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_BUILD_RPATH $ORIGIN)  # libraries opened at run time are in the programs' folder

# A file with LibTorch's headers needs up to 1.5 GB to compile: one such file at a time for each 4 GB of memory.
cmake_host_system_information(RESULT memory QUERY TOTAL_PHYSICAL_MEMORY)  # MiB
math(EXPR heavy_jobs "${memory} / 4096")
if(heavy_jobs LESS 1)
  set(heavy_jobs 1)
endif()
set_property(GLOBAL APPEND PROPERTY JOB_POOLS heavy=${heavy_jobs})

find_program(STOKER_CCACHE ccache)
if(STOKER_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/cached_compiler.sh)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
find_program(STOKER_MOLD mold)
if(STOKER_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

if(STOKER_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(STOKER_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(STOKER_SANITIZE)
  message(FATAL_ERROR "STOKER_SANITIZE: expected empty, address or thread, got ${STOKER_SANITIZE}")
endif()

if(STOKER_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "STOKER_FUZZ=ON: expected clang, which has libFuzzer, got ${CMAKE_CXX_COMPILER_ID}")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)  # the coverage that leads the fuzzer
endif()

# Precompiled headers halve the time of a build. Targets with the same options share them. Sanitizers' builds have none,
# which finds a missing #include. Sources with their own options, such as an instruction set, cannot use them.
# stoker_precompile(TARGET HEADER...): HEADERs are those that most files of the target include besides the standard ones.
# <nlohmann/json.hpp> must not be one: it instantiates its parser in each file, which takes 0.9 s.
set(STOKER_STANDARD_HEADERS <algorithm> <array> <chrono> <filesystem> <functional> <map> <memory> <mutex> <optional>
  <span> <string> <string_view> <vector> <fmt/format.h>)
set(STOKER_TORCH_HEADERS <ATen/Context.h> <ATen/Parallel.h> <ATen/core/Tensor.h> <ATen/ops/empty.h>
  <ATen/ops/zeros.h> <c10/core/GradMode.h>)
function(stoker_precompile target)
  target_link_libraries(${target} PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
  if(NOT STOKER_SANITIZE)  # at the end of the folder, when all options are known
    cmake_language(EVAL CODE
      "cmake_language(DEFER CALL stoker_precompile_now ${target} \"${ARGN}\" \"${CMAKE_CXX_FLAGS_RELEASE}\")")
  endif()
endfunction()
function(stoker_precompile_now target headers flags)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(options)
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
  get_target_property(options ${target} COMPILE_OPTIONS)
  get_target_property(definitions ${target} COMPILE_DEFINITIONS)
  get_target_property(type ${target} TYPE)
  string(MD5 key "${headers} ${flags} ${options} ${definitions} ${type}")
  get_property(owner GLOBAL PROPERTY STOKER_PRECOMPILED_${key})
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  else()
    target_precompile_headers(${target} PRIVATE ${STOKER_STANDARD_HEADERS} ${headers})
    set_property(GLOBAL PROPERTY STOKER_PRECOMPILED_${key} ${target})
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # In inlined code of precompiled headers GCC sees overflows that cannot happen.
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>)
  endif()
endfunction()

add_library(stoker_warnings INTERFACE)
if(NOT SKBUILD)  # pip builds with any compiler, whose new warnings are not its user's business
  target_compile_options(stoker_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;-Werror>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC bugs 105651 and 80635: "text" + std::string warns about memory that never overlaps, and the inside of an empty
  # std::optional counts as uninitialised.
  target_compile_options(stoker_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-maybe-uninitialized>)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # -Wconversion as GCC understands it.
  target_compile_options(stoker_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-sign-conversion>)
endif()

set(STOKER_HAS_CUDA OFF)
if(NOT STOKER_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    include(StokerCudaArchitectures)
    stoker_cuda_architectures(${CMAKE_CUDA_COMPILER} CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_STANDARD 20)
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # nvcc 12 and later have it; CMake 3.25 does not know
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    endif()
    # fmt 9 with nvcc: constexpr all through, format strings checked at run time. 554 remarks on a template's
    # conversion to itself.
    add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-DFMT_USE_CONSTEXPR=1;-DFMT_CONSTEVAL=;--diag-suppress=554>")
    if(NOT SKBUILD)  # says which registers spill into memory
      add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=--warn-on-spills>")
    endif()
    find_package(CUDAToolkit REQUIRED)
    set(STOKER_HAS_CUDA ON)
    # The installed package has the runtime with it (StokerInstall.cmake).
    set(STOKER_CUDART_TARGET $<BUILD_INTERFACE:CUDA::cudart_static> $<INSTALL_INTERFACE:stoker::cudart_static>)
  elseif(STOKER_CUDA STREQUAL "ON")
    message(FATAL_ERROR "STOKER_CUDA=ON: expected nvcc on PATH or in CUDACXX, found none")
  endif()
endif()
message(STATUS "Stoker: CUDA sources ${STOKER_HAS_CUDA} ${CMAKE_CUDA_ARCHITECTURES}")

# stoker_folder(NAME DEPENDS folder... LIBRARIES target... PRIVATE target... EXCLUDE file...)
# The target stoker::NAME from every .cpp of this folder and its sub-folders, and every .cu if CUDA is built.
# Files named no_X.cpp replace X.cpp if X cannot be built; EXCLUDE leaves one of them out.
function(stoker_folder name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LIBRARIES;PRIVATE;EXCLUDE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(STOKER_HAS_CUDA)
    file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cu)
    list(APPEND sources ${cuda_sources})
  endif()
  foreach(file IN LISTS ARG_EXCLUDE)
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
  add_library(stoker_${name} STATIC ${sources})
  add_library(stoker::${name} ALIAS stoker_${name})
  set_target_properties(stoker_${name} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(stoker_${name} PUBLIC cxx_std_20)
  target_include_directories(stoker_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:include>)
  foreach(folder IN LISTS ARG_DEPENDS)
    target_link_libraries(stoker_${name} PUBLIC stoker_${folder})
  endforeach()
  target_link_libraries(stoker_${name} PUBLIC ${ARG_LIBRARIES}
    PRIVATE ${ARG_PRIVATE} $<BUILD_INTERFACE:stoker_warnings>)
  if(stoker_component STREQUAL "ENGINE")
    stoker_precompile(stoker_${name} ${STOKER_TORCH_HEADERS})
    set_target_properties(stoker_${name} PROPERTIES JOB_POOL_COMPILE heavy)
  else()
    stoker_precompile(stoker_${name})
  endif()
  set_property(GLOBAL APPEND PROPERTY STOKER_${stoker_component}_TARGETS stoker_${name})
endfunction()

# A library that the engine opens by name if the machine has a GPU: stoker_opened_library(NAME SOURCE LIBRARIES...).
function(stoker_opened_library name source)
  add_library(${name} MODULE ${source})
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}
    CXX_VISIBILITY_PRESET hidden JOB_POOL_COMPILE heavy)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE ${ARGN} stoker_warnings)
  install(TARGETS ${name} DESTINATION ${STOKER_ENGINE_FOLDER} COMPONENT engine)
endfunction()
