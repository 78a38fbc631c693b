# The header of OpenJPEG, which is opened at run time. Its folder's name has the version.
file(GLOB folders /usr/include/openjpeg-2.* /usr/local/include/openjpeg-2.* ${CMAKE_SYSROOT}/usr/include/openjpeg-2.*)
find_path(OPENJPEG_INCLUDE_DIR openjpeg.h HINTS ${folders})
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenJPEGHeader REQUIRED_VARS OPENJPEG_INCLUDE_DIR)
mark_as_advanced(OPENJPEG_INCLUDE_DIR)
