# The header of libheif, which is opened at run time.
find_path(HEIF_INCLUDE_DIR libheif/heif.h)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Heif REQUIRED_VARS HEIF_INCLUDE_DIR)
mark_as_advanced(HEIF_INCLUDE_DIR)
