// The decision about one graph of a .pt2 file, from its JSON.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

namespace stoker {

// Throws DataError for a file that may hold native code; `found` says what it has.
[[noreturn]] void refuse_native(const std::string& found);

// The beginning of a text from the file, for messages.
std::string in_quotes(std::string_view text);

// Parses the JSON of the member `name`. Throws DataError for an object with the same key twice, because another reader
// may take the other one, and for more than kMaxJsonDepth levels; MemoryError for a text that is too long to be parsed
// in memory.
nlohmann::json parse_unambiguous_json(std::span<const std::byte> text, const std::string& name);

// The stored sizes in bytes of the tensors that belong to a graph, by name.
using StoredTensors = std::map<std::string, std::uint64_t, std::less<>>;

// The bytes that nativert reads from the memory of a tensor that `meta` describes (dtype, sizes, strides,
// storage_offset). Throws DataError if these are more than `stored`, or for a type that is not known.
void require_stored(const nlohmann::json& meta, const std::string& name, std::uint64_t stored);

// Checks that a graph calls only plain operators (pt2_operators.h) on tensors, numbers and texts, without subgraphs,
// objects or delegates, and that each tensor that it owns is stored in full. nativert does not check the latter. Throws
// DataError, and nlohmann's exceptions for a graph that lacks what torch.export writes.
void require_plain_graph(const nlohmann::json& program, const std::string& name, const StoredTensors& tensors);

}  // namespace stoker
