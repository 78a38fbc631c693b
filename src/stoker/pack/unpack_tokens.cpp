// The first pass finds the largest token, which decides the type.
#include "stoker/pack/unpack_tokens.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/formats/stk/stk.h"
#include "stoker/io/append_file.h"

namespace stoker {
namespace {

void require_tokens(const Dataset& dataset) {
    const std::span<const Field> fields = dataset.fields();
    const bool tokens = fields.size() == 1 && fields[0].kind == FieldKind::tokens && fields[0].dtype == DType::int64 &&
                        fields[0].shape.size() == 1 && fields[0].shape[0] > 1;
    if (!tokens || dataset.has_image()) {
        throw InvalidArgument({.where = dataset.path(),
                               .expected = "images, or one field of tokens of one length",
                               .got = "no images, and the fields " + describe_fields(fields),
                               .hint = "name the field with <--field NAME:tokens>"});
    }
}

// Reads a sample, of an stk data set with its checksum.
void read_verified(const Dataset& dataset, const StkDataset* stk, std::int64_t index, Sample& sample) {
    try {
        if (stk != nullptr) {
            stk->reader().verify(index);
        }
        dataset.read(index, sample);
    } catch (const DataError& error) {
        throw error.located({.path = dataset.path(), .key = dataset.key(index), .index = index});
    }
}

// Calls `take(index, tokens)` for the tokens of each sample, in order.
template <typename Take>
void each_window(const Dataset& dataset, const Take& take) {
    constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
    const auto* const stk = dynamic_cast<const StkDataset*>(&dataset);
    Sample sample;
    std::vector<std::int64_t> tokens;
    std::optional<std::int64_t> last;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        read_verified(dataset, stk, i, sample);
        const auto refuse = [&](std::string expected, std::int64_t got) {
            throw DataError({.path = dataset.path(), .key = dataset.key(i), .index = i},
                            {.where = "unpack", .expected = std::move(expected), .got = fmt::format("{}", got)});
        };
        const std::span<const std::byte> bytes = sample.field(0).bytes;
        if (bytes.size() != dataset.fields()[0].item_bytes()) {
            refuse(fmt::format("{} bytes of tokens", dataset.fields()[0].item_bytes()),
                   static_cast<std::int64_t>(bytes.size()));
        }
        tokens.resize(bytes.size() / sizeof(std::int64_t));
        std::memcpy(tokens.data(), bytes.data(), bytes.size());
        if (last && tokens.front() != *last) {
            refuse(fmt::format("the last token of the sample before, {}, as the first", *last), tokens.front());
        }
        const auto [least, most] = std::ranges::minmax(tokens);
        if (least < 0 || most > kMost) {
            refuse(fmt::format("tokens from 0 to {}", kMost), least < 0 ? least : most);
        }
        last = tokens.back();
        take(i, std::span<const std::int64_t>(tokens));
    }
}

template <typename Token>
void append(std::span<const std::int64_t> tokens, AppendFile& file) {
    std::vector<Token> narrow(tokens.size());
    std::ranges::transform(tokens, narrow.begin(), [](std::int64_t token) { return static_cast<Token>(token); });
    file.append(std::as_bytes(std::span(narrow)));
}

}  // namespace

std::int64_t unpack_tokens(const Dataset& dataset, const std::filesystem::path& directory,
                           const std::function<void(std::int64_t done, std::int64_t bytes)>& progress) {
    require_tokens(dataset);
    std::int64_t largest = 0;
    each_window(dataset, [&](std::int64_t /*index*/, std::span<const std::int64_t> tokens) {
        largest = std::max(largest, std::ranges::max(tokens));
    });
    const bool wide = largest > std::numeric_limits<std::uint16_t>::max();
    AppendFile file(directory / (wide ? "tokens.u32.bin" : "tokens.bin"));
    each_window(dataset, [&](std::int64_t index, std::span<const std::int64_t> tokens) {
        const auto fresh = tokens.subspan(index == 0 ? 0 : 1);
        wide ? append<std::uint32_t>(fresh, file) : append<std::uint16_t>(fresh, file);
        if (progress) {
            progress(index + 1, static_cast<std::int64_t>(file.size()));
        }
    });
    file.sync();
    return static_cast<std::int64_t>(file.size());
}

}  // namespace stoker
