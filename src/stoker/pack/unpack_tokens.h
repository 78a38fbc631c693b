// A token stream from its windows: the inverse of formats/tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "stoker/formats/dataset.h"

namespace stoker {

// Writes tokens.bin (uint16), or tokens.u32.bin if a token is above 65535, into the folder, and returns the file's
// size. Reads all samples twice. `progress` takes samples and bytes. Throws InvalidArgument unless the samples are
// tokens of one length and nothing else, DataError for a window that does not begin with the last token of the one
// before, for tokens above 2^32 - 1 and for damaged samples, IoError.
std::int64_t unpack_tokens(const Dataset& dataset, const std::filesystem::path& directory,
                           const std::function<void(std::int64_t done, std::int64_t bytes)>& progress);

}  // namespace stoker
