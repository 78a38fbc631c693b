# The header of libjxl, which is opened at run time.
find_path(JXL_INCLUDE_DIR jxl/decode.h)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Jxl REQUIRED_VARS JXL_INCLUDE_DIR)
mark_as_advanced(JXL_INCLUDE_DIR)
