// JSON by nlohmann; the seed is a string, since JSON numbers above 2^53 are not safe everywhere.
#include "stoker/pipeline/state.h"

#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stoker/base/error.h"

namespace stoker {
namespace {

std::uint64_t parse_seed(const std::string& text) {
    std::uint64_t seed = 0;
    const char* end = text.data() + text.size();
    const auto [stop, status] = std::from_chars(text.data(), end, seed);
    if (status != std::errc{} || stop != end) {
        throw InvalidArgument(
            {.where = "loader state", .expected = "a loader's state: a seed in [0, 2^64)", .got = '"' + text + '"'});
    }
    return seed;
}

}  // namespace

std::string to_json(const LoaderState& state) {
    const nlohmann::ordered_json json = {
        {"version", LoaderState::kVersion},   {"epoch", state.epoch}, {"batch", state.batch},
        {"bad_samples", state.bad_samples},   {"size", state.size},   {"batch_size", state.batch_size},
        {"seed", std::to_string(state.seed)}, {"order", state.order}, {"drop_last", state.drop_last},
    };
    return json.dump();
}

void require_same_order(const LoaderState& own, const LoaderState& state) {
    const auto require = [](const char* key, const auto& now, const auto& then, const char* unit = "") {
        if (now != then) {
            throw InvalidArgument({.where = key,
                                   .expected = fmt::format("{}{}, as when the run began", then, unit),
                                   .got = fmt::format("{}{}", now, unit),
                                   .hint = "resume with the recipe and the data that the run began with"});
        }
    };
    require("data.train", own.size, state.size, " samples");
    require("data.batch_size", own.batch_size, state.batch_size);
    require("seed", own.seed, state.seed);
    require("order of the data", own.order, state.order);
    require("data.drop_last", own.drop_last, state.drop_last);
}

LoaderState loader_state_from_json(const std::string& text) {
    try {
        const auto json = nlohmann::json::parse(text);
        const int version = json.at("version").get<int>();
        if (version < 1 || version > LoaderState::kVersion) {
            throw InvalidArgument({.where = "loader state",
                                   .expected = "version 1 or " + std::to_string(LoaderState::kVersion),
                                   .got = std::to_string(version)});
        }
        LoaderState state;
        state.epoch = json.at("epoch").get<std::int64_t>();
        state.batch = json.at("batch").get<std::int64_t>();
        state.size = json.at("size").get<std::int64_t>();
        state.batch_size = json.at("batch_size").get<std::int64_t>();
        state.seed = parse_seed(json.at("seed").get<std::string>());
        if (version == 1) {  // knew two orders and no bad samples
            state.order = json.at("shuffle").get<bool>() ? "shuffled" : "sequential";
        } else {
            state.order = json.at("order").get<std::string>();
            state.bad_samples = json.at("bad_samples").get<std::int64_t>();
        }
        state.drop_last = json.at("drop_last").get<bool>();
        return state;
    } catch (const Error&) {
        throw;
    } catch (const std::exception& error) {  // of the JSON library
        throw InvalidArgument({.where = "loader state", .expected = "a loader's state", .got = error.what()});
    }
}

}  // namespace stoker
