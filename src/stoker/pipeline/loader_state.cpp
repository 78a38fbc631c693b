// The seed is a JSON string, because many readers round numbers above 2^53.
#include "stoker/pipeline/loader_state.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "stoker/base/cpu_cores.h"
#include "stoker/base/error.h"
#include "stoker/base/hash.h"
#include "stoker/base/parallel_for.h"

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

// The distance between 64 to 128 samples, evenly spread over all.
std::int64_t sample_stride(std::int64_t size) {
    constexpr std::int64_t kTakes = 64;
    return std::max<std::int64_t>(1, size / kTakes);
}

// -1 and below are also labels, so "not known" is another value.
std::int64_t label_or_none(const Dataset& dataset, std::int64_t index) {
    return dataset.label(index).value_or(std::numeric_limits<std::int64_t>::min());
}

// True if one of the evenly spread samples has a label: a damaged sample may have none.
bool knows_labels(const Dataset& dataset) {
    const std::int64_t size = dataset.size();
    for (std::int64_t index = 0; index < size; index += sample_stride(size)) {
        try {
            if (dataset.label(index)) {
                return true;
            }
        } catch (const DataError&) {
            continue;
        }
    }
    return false;
}

std::uint64_t hash_samples(const Dataset& dataset, std::int64_t begin, std::int64_t end) {
    std::uint64_t hash = 0;
    for (std::int64_t index = begin; index < end; ++index) {
        try {
            hash = hash_text(dataset.key(index), hash);
            const std::int64_t label = label_or_none(dataset, index);
            hash = hash_bytes(std::as_bytes(std::span(&label, 1)), hash);
        } catch (const DataError&) {  // key or label are part of a damaged record
            hash = hash_text("", hash);
        }
    }
    return hash;
}

}  // namespace

std::uint64_t data_identity(const Dataset& dataset) {
    if (!knows_labels(dataset)) {
        return 0;
    }
    constexpr std::int64_t kPiece = 4096;
    const std::int64_t size = dataset.size();
    std::vector<std::uint64_t> pieces(static_cast<std::size_t>((size + kPiece - 1) / kPiece));
    parallel_for(cpu_cores().usable, size, kPiece, [&](std::int64_t begin, std::int64_t end) {
        pieces[static_cast<std::size_t>(begin / kPiece)] = hash_samples(dataset, begin, end);
    });
    const std::uint64_t hash = hash_bytes(std::as_bytes(std::span(pieces)), static_cast<std::uint64_t>(size));
    return std::max<std::uint64_t>(hash, 1);
}

std::uint64_t keys_hash(const Dataset& dataset) {
    const std::int64_t size = dataset.size();
    const std::int64_t stride = sample_stride(size);
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
        {"identity", fmt::format("{:016x}", state.identity)},
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
                                   .hint = "resume with the settings and the data that the run began with"});
        }
    };
    require("data.train", own.size, state.size, " samples");
    const bool other_labels = own.identity != state.identity && own.identity != 0 && state.identity != 0;
    if (own.keys != state.keys || other_labels) {
        throw InvalidArgument({.where = "data.train",
                               .expected = "the samples that the run began with",
                               .got = own.keys != state.keys ? "other samples of the same number"
                                                             : "as many samples, some with other keys or labels",
                               .hint = "resume with the data that the run began with; a new run from its weights may "
                                       "train on other data"});
    }
    if (own.order.find(" tokens") == std::string::npos) {  // batch_size follows from data.batch_tokens otherwise
        require("data.batch_size", own.batch_size, state.batch_size);
    }
    require("seed", own.seed, state.seed);
    require("order of the data", own.order, state.order);
    require("data.drop_last", own.drop_last, state.drop_last);
}

void require_position(const LoaderState& state, std::int64_t batches) {
    const std::int64_t last_epoch = std::min(kMaxEpochs, std::numeric_limits<std::int64_t>::max() / batches - 1);
    const bool inside = state.bad_samples >= 0 && state.epoch >= 0 && state.epoch <= last_epoch && state.batch >= 0 &&
                        state.batch < batches;
    if (!inside) {
        throw InvalidArgument({.where = "loader state",
                               .expected = fmt::format("batch 0 to {} of epoch 0 or later", batches - 1),
                               .got = fmt::format("batch {} of epoch {}", state.batch, state.epoch)});
    }
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
        state.identity = parse_number(json.value("identity", "0"), 16);
        state.drop_last = json.at("drop_last").get<bool>();
        return state;
    } catch (const Error&) {
        throw;
    } catch (const std::exception& error) {  // from the JSON library
        throw InvalidArgument({.where = "loader state", .expected = "a loader's state", .got = error.what()});
    }
}

}  // namespace stoker
