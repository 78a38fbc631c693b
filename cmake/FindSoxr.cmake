# The header of libsoxr, which is opened at run time.
find_path(SOXR_INCLUDE_DIR soxr.h)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Soxr REQUIRED_VARS SOXR_INCLUDE_DIR)
mark_as_advanced(SOXR_INCLUDE_DIR)
