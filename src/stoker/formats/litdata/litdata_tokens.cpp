// A chunk's tokens lie behind its table, without a header for each document.
#include "stoker/formats/litdata/litdata_tokens.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/array.h"
#include "stoker/formats/fields.h"
#include "stoker/formats/index_json.h"

namespace stoker {
namespace {

constexpr const char* kField = "tokens";
constexpr std::int64_t kMaxContext = std::int64_t{1} << 20;

std::vector<std::string> files_of(const std::vector<ShardInfo>& chunks) {
    std::vector<std::string> names;
    std::ranges::transform(chunks, std::back_inserter(names), &ShardInfo::file);
    return names;
}

FieldRequest request_of(const FieldNames& fields, const std::string& path) {
    const FieldRequest request =
        fields.more.empty() ? FieldRequest{.name = kField, .kind = FieldKind::tokens} : fields.more.front();
    if (fields.more.size() > 1 || request.kind.value_or(FieldKind::tokens) != FieldKind::tokens) {
        throw Unsupported({.where = path,
                           .expected = "one field, which is tokens, of a stream of tokens",
                           .got = fmt::format("{} fields", fields.more.size())});
    }
    return {.name = request.name, .from = request.from, .kind = FieldKind::tokens};
}

}  // namespace

LitTokens::LitTokens(const std::string& place, const LitIndex& index, std::vector<ShardInfo> chunks,
                     ShardFiles::Open open, std::int64_t context, const FieldNames& fields)
    : path_(shown_folder(place)),
      chunks_(std::move(chunks)),
      files_(files_of(chunks_), std::move(open)),
      type_(*index.tokens),
      block_(context + 1) {
    if (context < 1 || context > kMaxContext) {
        throw InvalidArgument({.where = "data.context",
                               .expected = fmt::format("1 to {} for a stream of tokens", kMaxContext),
                               .got = context == 0 ? "none" : fmt::format("{}", context),
                               .hint = "set it to the model's context, such as data.context = 1024"});
    }
    if (index.frames != LitFrames::none || type_.is_float()) {
        throw Unsupported({.where = path_,
                           .expected = "tokens, which are integers, in chunks without compression",
                           .got = fmt::format("{} {}", array_type_name(type_), index.compression)});
    }
    std::int64_t end = 0;
    for (std::size_t at = 0; at < chunks_.size(); ++at) {
        end += index.chunks[at].tokens / block_;
        ends_.push_back(end);
        const ShardFiles::Handle file = files_.open(at);
        const std::uint64_t needed =
            (static_cast<std::uint64_t>(chunks_[at].samples) + 2) * sizeof(std::uint32_t) +
            static_cast<std::uint64_t>(index.chunks[at].tokens) * static_cast<std::uint64_t>(type_.item_size);
        if (file->size() < needed) {
            throw DataError({.path = shown_name(chunks_[at].file)},
                            {.where = "litdata",
                             .expected = fmt::format("{} tokens in {} bytes", index.chunks[at].tokens, needed),
                             .got = fmt::format("{} bytes", file->size())});
        }
        bytes_ += static_cast<std::int64_t>(file->size());
    }
    if (size() == 0) {
        throw DataError(
            {.path = path_},
            {.where = "litdata", .expected = fmt::format("a chunk with {} tokens", block_), .got = "shorter ones"});
    }
    fields_ = {array_field(request_of(fields, path_), DType::int64, {block_}, path_)};
}

LitTokens::Place LitTokens::place(std::int64_t index) const {
    check_index(index);
    const auto chunk = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    const std::int64_t block = index - (chunk == 0 ? 0 : ends_[chunk - 1]);
    const auto size = static_cast<std::uint64_t>(block_) * static_cast<std::uint64_t>(type_.item_size);
    const std::uint64_t table = (static_cast<std::uint64_t>(chunks_[chunk].samples) + 2) * sizeof(std::uint32_t);
    return {.chunk = chunk,
            .range = {.offset = table + static_cast<std::uint64_t>(block) * size, .size = size},
            .block = block};
}

void LitTokens::read(std::int64_t index, Sample& sample) const {
    const Place at = place(index);
    const ShardFiles::Handle file = files_.open(at.chunk);
    sample.storage.resize(at.range.size);
    file->read(at.range.offset, sample.storage.bytes());
    FieldValue& value = sample.field(0);
    value.storage.resize(static_cast<std::size_t>(block_) * sizeof(std::int64_t));
    const std::span tokens(reinterpret_cast<std::int64_t*>(value.storage.data()), static_cast<std::size_t>(block_));
    const ArrayView stored{.name = {}, .type = type_, .shape = {block_}, .bytes = sample.storage.bytes()};
    for (std::int64_t i = 0; i < block_; ++i) {
        std::int64_t& token = tokens[static_cast<std::size_t>(i)];
        token = integer_at(stored, i);
        if (token < 0) {
            throw DataError({.path = shown_name(chunks_[at.chunk].file), .key = key(index)},
                            {.where = kField, .expected = "tokens from 0 on", .got = fmt::format("{}", token)});
        }
    }
    value.set_elements(tokens);
    sample.set_raw({}, 0, 0, 0);
    sample.label = -1;
}

std::string LitTokens::key(std::int64_t index) const {
    const Place at = place(index);
    return fmt::format("{}/{}", chunks_[at.chunk].name, at.block);
}

void LitTokens::prefetch(std::span<const std::int64_t> indices) const {
    for (const std::int64_t index : indices) {
        const Place at = place(index);
        const ShardFiles::Handle file = files_.open(at.chunk);
        file->will_need(at.range.offset, at.range.size);
        file->prefetch(std::span(&at.range, 1));
    }
}

std::vector<std::int64_t> LitTokens::shard_sizes() const {
    std::vector<std::int64_t> sizes;
    for (std::size_t at = 0; files_.remote() && at < ends_.size(); ++at) {
        sizes.push_back(ends_[at] - (at == 0 ? 0 : ends_[at - 1]));
    }
    std::erase(sizes, 0);
    return sizes;
}

}  // namespace stoker
