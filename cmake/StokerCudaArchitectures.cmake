# The GPUs that CUDA sources are compiled for: a given CMAKE_CUDA_ARCHITECTURES, else the environment's CUDAARCHS, else
# PyTorch's TORCH_CUDA_ARCH_LIST ("8.0;9.0+PTX"), else Stoker's own choice, in which code for x.0 also runs on x.1 to
# x.9.
set(STOKER_CUDA_ARCHITECTURES 75 80 90 100 120)  # T4; A100; H100; B200; RTX 50

# Of Stoker's list what the compiler knows (`nvcc --list-gpu-code`), as machine code, and the newest also as PTX, which
# the driver compiles on later GPUs.
function(stoker_known_architectures compiler result)
  execute_process(COMMAND ${compiler} --list-gpu-code OUTPUT_VARIABLE known OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${compiler} --list-gpu-code: expected a list such as sm_80, got exit status ${status}; \
set CMAKE_CUDA_ARCHITECTURES")
  endif()
  string(REGEX MATCHALL "[0-9]+" known "${known}")
  set(list)
  foreach(architecture IN LISTS STOKER_CUDA_ARCHITECTURES)
    if(architecture IN_LIST known)
      list(APPEND list ${architecture}-real)
      set(newest ${architecture})
    endif()
  endforeach()
  if(NOT list)
    message(FATAL_ERROR "${compiler}: expected code for one of ${STOKER_CUDA_ARCHITECTURES}, got ${known}; \
set CMAKE_CUDA_ARCHITECTURES")
  endif()
  set(${result} ${list} ${newest}-virtual PARENT_SCOPE)
endfunction()

# "8.0 9.0a+PTX", separated by blanks, commas or semicolons, as CMake writes it: 80-real;90a-real;90a-virtual.
function(stoker_torch_architectures given result)
  string(REGEX REPLACE "[ ,;]+" ";" parts "${given}")
  set(list)
  foreach(part IN LISTS parts)
    if(part MATCHES "^([0-9]+)\\.([0-9][af]?)(\\+PTX)?$")
      list(APPEND list ${CMAKE_MATCH_1}${CMAKE_MATCH_2}-real)
      if(CMAKE_MATCH_3)
        list(APPEND list ${CMAKE_MATCH_1}${CMAKE_MATCH_2}-virtual)
      endif()
    elseif(NOT part STREQUAL "")
      message(FATAL_ERROR "TORCH_CUDA_ARCH_LIST: expected numbers such as 8.0 or 9.0+PTX, got ${part}")
    endif()
  endforeach()
  set(${result} ${list} PARENT_SCOPE)
endfunction()

# Sets `result`. Call it before CUDA is enabled, which would set CMAKE_CUDA_ARCHITECTURES to the compiler's default.
function(stoker_cuda_architectures compiler result)
  if(DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(list ${CMAKE_CUDA_ARCHITECTURES})
  elseif(NOT "$ENV{CUDAARCHS}" STREQUAL "")
    set(list $ENV{CUDAARCHS})
  elseif(NOT "$ENV{TORCH_CUDA_ARCH_LIST}" STREQUAL "")
    stoker_torch_architectures("$ENV{TORCH_CUDA_ARCH_LIST}" list)
  else()
    stoker_known_architectures(${compiler} list)
  endif()
  set(${result} ${list} PARENT_SCOPE)
endfunction()
