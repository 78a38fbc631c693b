// A chunk's tokens lie behind its table, without a header for each document.
#include "stoker/formats/litdata/litdata_tokens.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <numeric>
#include <utility>

#include "stoker/base/cpu_cores.h"
#include "stoker/base/error.h"
#include "stoker/base/parallel_for.h"
#include "stoker/formats/array.h"
#include "stoker/formats/fields.h"
#include "stoker/formats/index_json.h"
#include "stoker/formats/litdata/litdata_chunk.h"
#include "stoker/io/zstd.h"

namespace stoker {
namespace {

constexpr const char* kField = "tokens";
constexpr std::int64_t kMaxContext = std::int64_t{1} << 20;

std::vector<std::string> files_of(const std::vector<ShardInfo>& chunks) {
    std::vector<std::string> names;
    std::ranges::transform(chunks, std::back_inserter(names), &ShardInfo::file);
    return names;
}

// The bytes of the count and the offsets.
std::uint64_t table_bytes(std::int64_t documents) {
    return (static_cast<std::uint64_t>(documents) + 2) * sizeof(std::uint32_t);
}

// Throws for a chunk that cannot hold the tokens as the index says.
void check_chunk(const ByteFile& file, const LitChunk& chunk, const ArrayType& type) {
    const DataPlace place{.path = shown_name(file.name())};
    const std::uint64_t needed = table_bytes(chunk.samples) +
                                 static_cast<std::uint64_t>(chunk.tokens) * static_cast<std::uint64_t>(type.item_size);
    std::array<std::byte, sizeof(std::uint64_t)> head{};
    file.read(0, std::span(head).first(static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), head.size()))));
    if (is_zstd(head) || is_framed_chunk(head)) {
        throw Unsupported({.where = place.path,
                           .expected = "tokens in chunks without compression",
                           .got = is_zstd(head) ? "a zstd frame" : "a chunk of zstd frames"});
    }
    std::uint32_t count = 0;
    std::memcpy(&count, head.data(), sizeof count);
    if (file.size() < needed || count != chunk.samples) {
        throw DataError(place, {.where = "litdata",
                                .expected = fmt::format("{} documents with {} tokens in {} bytes, as the index says",
                                                        chunk.samples, chunk.tokens, needed),
                                .got = fmt::format("{} documents in {} bytes", count, file.size())});
    }
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
    make_unique_names(chunks_);
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
    for (const LitChunk& chunk : index.chunks) {
        end += chunk.tokens / block_;
        ends_.push_back(end);
    }
    std::vector<std::uint64_t> sizes(chunks_.size());
    const auto check = [&](std::int64_t first, std::int64_t last) {
        for (auto at = static_cast<std::size_t>(first); at < static_cast<std::size_t>(last); ++at) {
            const ShardFiles::Handle file = files_.open(at);
            check_chunk(*file, index.chunks[at], type_);
            sizes[at] = file->size();
        }
    };
    parallel_for(files_.remote() ? kRemoteThreads : cpu_cores().usable, std::ssize(chunks_), 1, check);
    bytes_ = static_cast<std::int64_t>(std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}));
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
    return {.chunk = chunk,
            .range = {.offset = table_bytes(chunks_[chunk].samples) + static_cast<std::uint64_t>(block) * size,
                      .size = size},
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
