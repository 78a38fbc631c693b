# `cmake --install`: headers, one static library per folder, and a package that find_package(stoker)
# finds, with the components `pipeline` (all that needs no LibTorch) and `engine`; stoker::stoker is everything that was
# built. The program is installed by cli/.
include(CMakePackageConfigHelpers)

get_property(stoker_pipeline_targets GLOBAL PROPERTY STOKER_PIPELINE_TARGETS)
get_property(stoker_engine_targets GLOBAL PROPERTY STOKER_ENGINE_TARGETS)
add_library(stoker_all INTERFACE)
add_library(stoker::stoker ALIAS stoker_all)
set_target_properties(stoker_all PROPERTIES EXPORT_NAME stoker)
target_link_libraries(stoker_all INTERFACE ${stoker_pipeline_targets} ${stoker_engine_targets})

set(stoker_package ${CMAKE_INSTALL_LIBDIR}/cmake/stoker)
install(TARGETS ${stoker_pipeline_targets} EXPORT stoker_pipeline)
install(TARGETS ${stoker_engine_targets} stoker_all EXPORT stoker_engine)
install(EXPORT stoker_pipeline NAMESPACE stoker:: DESTINATION ${stoker_package})
install(EXPORT stoker_engine NAMESPACE stoker:: DESTINATION ${stoker_package})
install(DIRECTORY src/stoker DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
  PATTERN gloo_shim EXCLUDE)

# The CUDA runtime that our libraries call is part of the package, so that users of it need no CUDA toolkit.
set(STOKER_CUDART "")
if(STOKER_HAS_CUDA)
  file(REAL_PATH ${CUDA_cudart_static_LIBRARY} cudart)
  set(STOKER_CUDART ${CMAKE_INSTALL_LIBDIR}/stoker/libcudart_static.a)
  install(FILES ${cudart} DESTINATION ${CMAKE_INSTALL_LIBDIR}/stoker RENAME libcudart_static.a)
endif()

configure_package_config_file(cmake/stokerConfig.cmake.in ${CMAKE_BINARY_DIR}/stokerConfig.cmake
  INSTALL_DESTINATION ${stoker_package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/stokerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/stokerConfig.cmake ${CMAKE_BINARY_DIR}/stokerConfigVersion.cmake
  cmake/FindDeflate.cmake cmake/FindHDF5C.cmake cmake/FindLMDB.cmake cmake/FindSPNG.cmake cmake/FindWebP.cmake cmake/FindxxHash.cmake cmake/FindZSTD.cmake cmake/StokerTorch.cmake DESTINATION ${stoker_package})
