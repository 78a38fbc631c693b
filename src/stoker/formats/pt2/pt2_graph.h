// The decision about one graph of a .pt2 file, from its JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "stoker/io/zip.h"

namespace stoker {

// The beginning of a text from the file, for messages.
std::string in_quotes(std::string_view text);

// The only key of an object: the kind of an argument, result or input. Throws DataError for another value.
const std::string& kind_of(const nlohmann::json& value);

// The JSON of a member below the file's folder: "models/train.json". Throws DataError if it is missing, damaged, or has
// more than kMaxJsonDepth levels; Unsupported if it is compressed; MemoryError if it is too long to be parsed in
// memory.
nlohmann::json read_pt2_json(const ZipFile& zip, const std::string& member);

// Checks that a graph calls only plain operators (pt2_operators.h), and gradients of max pooling with the unchanged
// indices of the same pooling. Throws DataError, also for a graph without the members that torch.export writes, and for
// one that could be read in two ways.
void require_plain_graph(const nlohmann::json& program, const std::string& name);

}  // namespace stoker
