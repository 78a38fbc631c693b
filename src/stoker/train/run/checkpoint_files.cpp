#include "stoker/train/run/checkpoint_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "stoker/base/file.h"
#include "stoker/base/hash.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/self_hash.h"

namespace stoker {

using Json = nlohmann::ordered_json;

namespace {

using Range = std::pair<std::uint64_t, std::uint64_t>;

// Without gaps or overlaps.
bool cover(std::vector<Range> ranges, std::uint64_t size) {
    std::ranges::sort(ranges);
    std::uint64_t end = 0;
    for (const auto& [from, to] : ranges) {
        if (from != end || to < from) {
            return false;
        }
        end = to;
    }
    return end == size;
}

}  // namespace

std::string to_hex(std::uint64_t hash) {
    return fmt::format("{:016x}", hash);
}

Json to_json(const WrittenRanges& written) {
    return {{"hash", to_hex(written.hash)}, {"bytes", written.ranges}};
}

bool is_as_written(std::span<const std::byte> bytes, const Json& record) {
    if (record.is_string()) {
        return to_hex(hash_bytes(bytes)) == record.get<std::string>();
    }
    std::vector<Range> all;
    for (const Json& rank : record) {
        const auto ranges = rank.at("bytes").get<std::vector<Range>>();
        all.insert(all.end(), ranges.begin(), ranges.end());
    }
    if (!cover(all, bytes.size())) {
        return false;
    }
    return std::ranges::all_of(record, [&](const Json& rank) {
        StreamHash hash;
        for (const auto& [from, to] : rank.at("bytes").get<std::vector<Range>>()) {
            hash.update(bytes.subspan(from, to - from));
        }
        return to_hex(hash.value()) == rank.at("hash").get<std::string>();
    });
}

void write_state(const std::filesystem::path& folder, const std::string& state, const Json& files) {
    Json json = parse_own_json<Json>(state);
    json[kFiles] = files;
    json[kSelfHash] = kNoSelfHash;
    write_file(folder / kStateFile, with_self_hash(json_text(json, 2) + "\n"));
}

}  // namespace stoker
