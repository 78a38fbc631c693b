# The serial C library of HDF5 alone: HDF5C::hdf5. CMake's own module asks the compiler wrapper h5cc, and differs
# from release to release in its targets.
find_package(PkgConfig QUIET)
pkg_check_modules(PC_HDF5 QUIET hdf5 hdf5-serial)
find_path(HDF5C_INCLUDE_DIR hdf5.h HINTS ${PC_HDF5_INCLUDE_DIRS} PATH_SUFFIXES hdf5/serial)
find_library(HDF5C_LIBRARY NAMES hdf5 hdf5_serial HINTS ${PC_HDF5_LIBRARY_DIRS} PATH_SUFFIXES hdf5/serial)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(HDF5C REQUIRED_VARS HDF5C_LIBRARY HDF5C_INCLUDE_DIR)
if(HDF5C_FOUND AND NOT TARGET HDF5C::hdf5)
  add_library(HDF5C::hdf5 UNKNOWN IMPORTED)
  set_target_properties(HDF5C::hdf5 PROPERTIES
    IMPORTED_LOCATION ${HDF5C_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${HDF5C_INCLUDE_DIR})
endif()
mark_as_advanced(HDF5C_INCLUDE_DIR HDF5C_LIBRARY)
