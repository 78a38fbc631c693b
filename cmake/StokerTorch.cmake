# LibTorch from a Python wheel, as the imported target stoker::torch. Torch's own package file needs
# the CUDA toolkit and an architecture list even for CPU work; two libraries and two include folders
# are all that Stoker links. Used by the build and by the installed package alike. Sets STOKER_TORCH_VERSION
# (2.11.0+cu130), STOKER_TORCH_RELEASE (2.11.0), STOKER_TORCH_ABI (of std::string), or STOKER_TORCH_ERROR.
set(STOKER_TORCH_ERROR "")
if(NOT STOKER_TORCH AND DEFINED ENV{STOKER_TORCH})
  set(STOKER_TORCH $ENV{STOKER_TORCH})
endif()
if(NOT STOKER_TORCH AND DEFINED STOKER_TORCH_DEFAULT)
  set(STOKER_TORCH ${STOKER_TORCH_DEFAULT})
endif()
if(NOT STOKER_TORCH AND SKBUILD)  # pip: the torch of the environment that it installs into
  execute_process(COMMAND ${Python_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_path('platlib'))"
    OUTPUT_VARIABLE platlib OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(STOKER_TORCH ${platlib}/torch)
endif()
if(NOT STOKER_TORCH)
  file(GLOB STOKER_TORCH_FOUND ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
  if(STOKER_TORCH_FOUND)
    list(GET STOKER_TORCH_FOUND 0 STOKER_TORCH)
  endif()
endif()
if(NOT EXISTS ${STOKER_TORCH}/lib/libtorch_cpu.so)
  set(STOKER_TORCH_ERROR "LibTorch: expected lib/libtorch_cpu.so in \"${STOKER_TORCH}\", found none; \
run ./dev build, or set STOKER_TORCH to the torch folder of a Python environment")
  return()
endif()
if(EXISTS ${STOKER_TORCH}/version.py)
  file(STRINGS ${STOKER_TORCH}/version.py STOKER_TORCH_VERSION REGEX "^__version__ = " LIMIT_COUNT 1)
elseif(EXISTS ${STOKER_TORCH}/build-version)  # of a LibTorch without Python
  file(STRINGS ${STOKER_TORCH}/build-version STOKER_TORCH_VERSION LIMIT_COUNT 1)
endif()
string(REGEX MATCH "[0-9][^']*" STOKER_TORCH_VERSION "${STOKER_TORCH_VERSION}")
string(REGEX REPLACE "\\+.*" "" STOKER_TORCH_RELEASE "${STOKER_TORCH_VERSION}")
file(STRINGS ${STOKER_TORCH}/lib/libc10.so texts_with_new_abi REGEX "torchCheckFail.*__cxx11" LIMIT_COUNT 1)
set(STOKER_TORCH_ABI "old ABI (_GLIBCXX_USE_CXX11_ABI=0)")
if(texts_with_new_abi)
  set(STOKER_TORCH_ABI "CXX11 ABI")
endif()

if(NOT TARGET stoker::torch)
  add_library(stoker::torch INTERFACE IMPORTED)
  # The wheel carries headers of other libraries (fmt among them) in versions that do not fit the
  # system's: -idirafter lets the system's headers win.
  target_compile_options(stoker::torch INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-idirafter ${STOKER_TORCH}/include>"
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-idirafter ${STOKER_TORCH}/include/torch/csrc/api/include>")
  # libtorch_cpu.so names CUDA libraries that only its own run path finds, and that no CPU run needs.
  target_link_libraries(stoker::torch INTERFACE
    ${STOKER_TORCH}/lib/libtorch_cpu.so ${STOKER_TORCH}/lib/libc10.so)
  target_link_options(stoker::torch INTERFACE -Wl,--allow-shlib-undefined)
  if(NOT STOKER_PORTABLE)
    target_link_options(stoker::torch INTERFACE -Wl,-rpath,${STOKER_TORCH}/lib)
  endif()
endif()

# LibTorch's CUDA side with the runtime's headers, which the wheel contains next to it or the toolkit brings: enough to
# compile and link against it without nvcc. Absent in a wheel for CPUs.
if(NOT TARGET stoker::torch_cuda)
  file(GLOB candidates ${STOKER_TORCH}/../nvidia/cu*/include ${STOKER_TORCH}/../nvidia/cuda_runtime/include)
  find_path(STOKER_CUDA_INCLUDE cuda_runtime_api.h HINTS ${candidates} ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
  if(STOKER_CUDA_INCLUDE AND EXISTS ${STOKER_TORCH}/lib/libtorch_cuda.so)
    add_library(stoker::torch_cuda INTERFACE IMPORTED)
    target_compile_options(stoker::torch_cuda INTERFACE "SHELL:-idirafter ${STOKER_CUDA_INCLUDE}")
    target_link_libraries(stoker::torch_cuda INTERFACE stoker::torch
      ${STOKER_TORCH}/lib/libtorch_cuda.so ${STOKER_TORCH}/lib/libc10_cuda.so)
  endif()
endif()

# NCCL's process group, whose header is next to LibTorch's in the wheel. The library itself is a part of libtorch_cuda's
# dependencies.
if(NOT TARGET stoker::nccl AND TARGET stoker::torch_cuda)
  find_path(STOKER_NCCL_INCLUDE nccl.h HINTS ${STOKER_TORCH}/../nvidia/nccl/include NO_DEFAULT_PATH)
  if(STOKER_NCCL_INCLUDE)
    add_library(stoker::nccl INTERFACE IMPORTED)
    target_compile_options(stoker::nccl INTERFACE "SHELL:-idirafter ${STOKER_NCCL_INCLUDE}")
    target_compile_definitions(stoker::nccl INTERFACE USE_DISTRIBUTED USE_C10D_NCCL)
    target_link_libraries(stoker::nccl INTERFACE stoker::torch_cuda)
  endif()
endif()
