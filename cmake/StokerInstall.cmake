# `cmake --install`: headers, one static library per folder, and a package that find_package(stoker)
# finds; stoker::stoker is everything that was built. The program is installed by cli/.
include(CMakePackageConfigHelpers)

get_property(stoker_targets GLOBAL PROPERTY STOKER_TARGETS)
add_library(stoker_all INTERFACE)
add_library(stoker::stoker ALIAS stoker_all)
set_target_properties(stoker_all PROPERTIES EXPORT_NAME stoker)
target_link_libraries(stoker_all INTERFACE ${stoker_targets})

install(TARGETS ${stoker_targets} stoker_all EXPORT stoker_targets)
install(DIRECTORY src/stoker DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
  PATTERN gloo_shim EXCLUDE)
set(stoker_package ${CMAKE_INSTALL_LIBDIR}/cmake/stoker)
install(EXPORT stoker_targets NAMESPACE stoker:: DESTINATION ${stoker_package})
configure_package_config_file(cmake/stokerConfig.cmake.in ${CMAKE_BINARY_DIR}/stokerConfig.cmake
  INSTALL_DESTINATION ${stoker_package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/stokerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/stokerConfig.cmake ${CMAKE_BINARY_DIR}/stokerConfigVersion.cmake
  cmake/FindHDF5C.cmake cmake/FindLMDB.cmake cmake/FindSPNG.cmake cmake/FindWebP.cmake cmake/FindxxHash.cmake cmake/FindZSTD.cmake cmake/StokerTorch.cmake DESTINATION ${stoker_package})
