// The seed is a JSON string, because many readers round numbers above 2^53.
#include "stoker/pipeline/loader_state.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"
#include "stoker/base/hash.h"

namespace stoker {
namespace {

std::uint64_t parse_number(const std::string& text, int base) {
    std::uint64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, status] = std::from_chars(text.data(), end, number, base);
    if (status != std::errc{} || stop != end) {
        throw InvalidArgument(
            {.where = "loader state", .expected = "a loader's state: a number in [0, 2^64)", .got = '"' + text + '"'});
    }
    return number;
}

}  // namespace

std::uint64_t keys_hash(const Dataset& dataset) {
    constexpr std::int64_t kSampledKeys = 64;
    const std::int64_t size = dataset.size();
    const std::int64_t stride = std::max<std::int64_t>(1, size / kSampledKeys);
    std::uint64_t hash = hash_text(fmt::to_string(size));
    for (std::int64_t index = 0; index < size; index += stride) {
        try {
            hash = hash_text(dataset.key(index), hash);
        } catch (const DataError&) {  // the key is part of a damaged record
            hash = hash_text("", hash);
        }
    }
    return std::max<std::uint64_t>(hash, 1);
}

std::string to_json(const LoaderState& state) {
    const nlohmann::ordered_json json = {
        {"version", LoaderState::kVersion},
        {"epoch", state.epoch},
        {"batch", state.batch},
        {"bad_samples", state.bad_samples},
        {"size", state.size},
        {"keys", fmt::format("{:016x}", state.keys)},
        {"batch_size", state.batch_size},
        {"seed", std::to_string(state.seed)},
        {"order", state.order},
        {"drop_last", state.drop_last},
    };
    return json.dump();
}

void require_same_sampler(const LoaderState& own, const LoaderState& state) {
    const auto require = [](const char* key, const auto& now, const auto& then, const char* unit = "") {
        if (now != then) {
            throw InvalidArgument({.where = key,
                                   .expected = fmt::format("{}{}, as when the run began", then, unit),
                                   .got = fmt::format("{}{}", now, unit),
                                   .hint = "resume with the recipe and the data that the run began with"});
        }
    };
    require("data.train", own.size, state.size, " samples");
    if (own.keys != state.keys) {
        throw InvalidArgument({.where = "data.train",
                               .expected = "the samples that the run began with",
                               .got = "other samples of the same number",
                               .hint =
                                   "resume with the data that the run began with; a new --out DIR with model.weights "
                                   "trains on other data from the same weights"});
    }
    require("data.batch_size", own.batch_size, state.batch_size);
    require("seed", own.seed, state.seed);
    require("order of the data", own.order, state.order);
    require("data.drop_last", own.drop_last, state.drop_last);
}

LoaderState loader_state_from_json(const std::string& text) {
    try {
        const auto json = nlohmann::json::parse(text);
        const int version = json.at("version").get<int>();
        if (version != LoaderState::kVersion) {
            throw InvalidArgument({.where = "loader state",
                                   .expected = fmt::format("version {}", LoaderState::kVersion),
                                   .got = fmt::format("version {}", version),
                                   .hint = "another version of Stoker wrote it; resume with that one"});
        }
        LoaderState state;
        state.epoch = json.at("epoch").get<std::int64_t>();
        state.batch = json.at("batch").get<std::int64_t>();
        state.size = json.at("size").get<std::int64_t>();
        state.batch_size = json.at("batch_size").get<std::int64_t>();
        state.seed = parse_number(json.at("seed").get<std::string>(), 10);
        state.order = json.at("order").get<std::string>();
        state.bad_samples = json.at("bad_samples").get<std::int64_t>();
        state.keys = parse_number(json.at("keys").get<std::string>(), 16);
        state.drop_last = json.at("drop_last").get<bool>();
        return state;
    } catch (const Error&) {
        throw;
    } catch (const std::exception& error) {  // from the JSON library
        throw InvalidArgument({.where = "loader state", .expected = "a loader's state", .got = error.what()});
    }
}

}  // namespace stoker
