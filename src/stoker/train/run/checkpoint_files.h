// The names of a checkpoint's files, and what state.json says of their bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace stoker {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kEmaFile = "ema.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kStateFile = "state.json";
inline constexpr const char* kFiles = "files";  // key in state.json: the hashes of the other files

// The hash of a whole file in state.json.
std::string to_hex(std::uint64_t hash);

// Byte ranges [begin, end) of a file that one rank wrote, in ascending order, and the hash of all of them in a row.
struct WrittenRanges {
    std::uint64_t hash = 0;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges = {};
};
nlohmann::ordered_json to_json(const WrittenRanges& written);

// Whether these are the bytes of a file that state.json describes: by its hash, or by a list of the ranges of each
// rank, which must cover it. Throws an exception of the JSON library for a record that is neither.
bool is_as_written(std::span<const std::byte> bytes, const nlohmann::ordered_json& record);

// Writes state.json, with what it says of the other files and the hash of itself. `state` is JSON.
void write_state(const std::filesystem::path& folder, const std::string& state, const nlohmann::ordered_json& files);

}  // namespace stoker
