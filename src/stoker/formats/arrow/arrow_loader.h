// Opens Apache Arrow's libraries, those of the Python package pyarrow, and the module that was built for their release.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "stoker/formats/arrow/arrow_api.h"

namespace stoker {

// Opened at the first call. Throws IoError unless there is a release of pyarrow with a module. pyarrow is sought in
// $STOKER_PYARROW, next to this package, in the active virtual or conda environment, in the one that this program was
// built with, and among the system's libraries.
const ArrowApi& arrow_api();

// The releases that have a module in these folders: "2600", newest first.
std::vector<std::string> arrow_releases(const std::vector<std::filesystem::path>& folders);

}  // namespace stoker
