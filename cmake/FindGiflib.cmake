# The header of giflib, which is opened at run time.
find_path(GIFLIB_INCLUDE_DIR gif_lib.h)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Giflib REQUIRED_VARS GIFLIB_INCLUDE_DIR)
mark_as_advanced(GIFLIB_INCLUDE_DIR)
