// Windows overlap by one token, so every token but the first is a target once.
#include "stoker/formats/tokens/token_dataset.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stoker/base/ascii.h"
#include "stoker/base/error.h"
#include "stoker/formats/arrays/npy.h"
#include "stoker/formats/fields.h"
#include "stoker/formats/tokens/megatron_index.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kField = "tokens";
constexpr std::int64_t kMaxContext = std::int64_t{1} << 20;

bool is_bin(const std::string& path) {
    return lower_case(path).ends_with(".bin");
}

// Also false for damaged files: the reader of arrays says what is wrong with them.
bool is_flat_integers(const std::string& path) {
    if (!lower_case(path).ends_with(".npy")) {
        return false;
    }
    try {
        const MappedFile file{fs::path(path)};
        const NpyHeader header = read_npy_header(file.bytes());
        const bool integers = header.descr.size() > 1 && (header.descr[1] == 'u' || header.descr[1] == 'i');
        return integers && header.shape.size() == 1;
    } catch (const Error&) {
        return false;
    }
}

std::string file_of(const std::string& path, Split split) {
    return is_folder(path) ? (fs::path(path) / (split == Split::train ? "train.bin" : "val.bin")).string() : path;
}

[[noreturn]] void refuse(const std::string& path, std::string expected, std::string got, std::string hint = "") {
    throw DataError({.path = path},
                    {.where = kField, .expected = std::move(expected), .got = std::move(got), .hint = std::move(hint)});
}

template <typename Token>
void widen(std::span<const std::byte> bytes, std::span<std::int64_t> tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        Token token = 0;
        std::memcpy(&token, bytes.data() + i * sizeof(Token), sizeof(Token));
        tokens[i] = static_cast<std::int64_t>(token);
    }
}

void widen(const ArrayType& type, std::span<const std::byte> bytes, std::span<std::int64_t> tokens) {
    const bool is_signed = type.kind == ArrayKind::signed_integer;
    switch (type.item_size) {
        case 1:
            return widen<std::uint8_t>(bytes, tokens);
        case 2:
            return widen<std::uint16_t>(bytes, tokens);
        case 4:
            return is_signed ? widen<std::int32_t>(bytes, tokens) : widen<std::uint32_t>(bytes, tokens);
        default:
            return widen<std::int64_t>(bytes, tokens);
    }
}

bool is_token_type(const ArrayType& type) {
    const bool wide = type.item_size >= 4;
    return !type.big_endian && ((type.kind == ArrayKind::unsigned_integer && type.item_size <= 4) ||
                                (type.kind == ArrayKind::signed_integer && wide));
}

// The header of llm.c: 256 int32. The first three are a magic number, the version and the number of tokens.
constexpr std::size_t kHeaderBytes = 1024;
constexpr std::int32_t kMagic16 = 20240520;  // uint16
constexpr std::int32_t kMagic32 = 20240801;  // uint32

}  // namespace

bool tokens_have_splits(const std::string& path) {
    return is_folder(path) && is_file(fs::path(path) / "train.bin") && is_file(fs::path(path) / "val.bin");
}

bool is_token_path(const std::string& path) {
    return is_folder(path) ? tokens_have_splits(path) : is_file(path) && (is_bin(path) || is_flat_integers(path));
}

TokenDataset::TokenDataset(const std::string& path, Split split, std::int64_t context, const FieldNames& fields)
    : path_(file_of(path, split)), context_(context), file_(path_), map_(file_), map_or_read_(map_.bytes().size()) {
    if (context < 1 || context > kMaxContext) {
        throw InvalidArgument({.where = "data.context",
                               .expected = fmt::format("the number of tokens in a sample, up to {}", kMaxContext),
                               .got = context == 0 ? "none" : fmt::format("{}", context),
                               .hint = "set it to the model's context, such as data.context = 1024"});
    }
    is_bin(path_) ? open_bin() : open_npy();
    const auto count = static_cast<std::int64_t>(tokens_.size() / item_bytes());
    windows_ = count == 0 ? 0 : (count - 1) / context;
    if (windows_ == 0) {
        refuse(path_, fmt::format("at least {} tokens, one more than data.context", context + 1),
               fmt::format("{}", count));
    }
    if (fields.more.size() > 1) {
        throw Unsupported(
            {.where = path_, .expected = "one field of tokens", .got = fmt::format("{}", fields.more.size())});
    }
    FieldRequest request = fields.more.empty() ? FieldRequest{.name = kField} : fields.more.front();
    if (!request.from.empty() && request.from != kField) {
        refuse(path_, fmt::format("the field {}", kField), request.from);
    }
    request.kind = request.kind.value_or(FieldKind::tokens);
    fields_ = {array_field(request, DType::int64, {context + 1}, path_)};
}

void TokenDataset::open_npy() {
    const ArrayView array = with_place({.path = path_}, [&] { return parse_npy(map_.bytes()); });
    if (array.shape.size() != 1 || !is_token_type(array.type)) {
        throw Unsupported(
            {.where = path_,
             .expected = "one dimension of uint8, uint16, uint32, int32 or int64",
             .got = fmt::format("{} of ({})", array_type_name(array.type), fmt::join(array.shape, ", "))});
    }
    type_ = array.type;
    begin_ = static_cast<std::size_t>(array.offset);
    tokens_ = array.bytes;
}

bool TokenDataset::open_megatron() {
    const fs::path file = fs::path(path_).replace_extension(".idx");
    if (!is_file(file)) {
        return false;
    }
    const MappedFile mapped(file);
    if (!is_megatron_index(mapped.bytes())) {
        return false;
    }
    const MegatronIndex index =
        with_place({.path = file.string()}, [&] { return parse_megatron_index(mapped.bytes()); });
    type_ = index.type;
    tokens_ = map_.bytes();
    if (tokens_.size() != static_cast<std::size_t>(index.tokens) * item_bytes()) {
        refuse(path_,
               fmt::format("the {} tokens of {} that {} states", index.tokens, array_type_name(type_),
                           file.filename().string()),
               fmt::format("{} bytes", tokens_.size()));
    }
    return true;
}

void TokenDataset::open_bin() {
    if (open_megatron()) {
        return;
    }
    const std::span<const std::byte> bytes = map_.bytes();
    type_.item_size = lower_case(path_).ends_with(".u32.bin") ? 4 : 2;
    std::array<std::int32_t, 3> header = {};
    if (bytes.size() >= kHeaderBytes) {
        std::memcpy(header.data(), bytes.data(), sizeof header);
    }
    if (header[0] == kMagic16 || header[0] == kMagic32) {
        type_.item_size = header[0] == kMagic16 ? 2 : 4;
        begin_ = kHeaderBytes;
        if (header[2] < 0 || static_cast<std::size_t>(header[2]) * item_bytes() != bytes.size() - begin_) {
            refuse(path_, fmt::format("the {} tokens that its header states", header[2]),
                   fmt::format("{} bytes of tokens", bytes.size() - begin_));
        }
    }
    if (bytes.size() % item_bytes() != 0) {
        refuse(path_, fmt::format("tokens of {} bytes", item_bytes()), fmt::format("a file of {} bytes", bytes.size()),
               "x.bin holds uint16, x.u32.bin uint32");
    }
    tokens_ = bytes.subspan(begin_);
}

std::span<const std::byte> TokenDataset::window(std::int64_t index) const {
    check_index(index);
    const std::size_t begin = static_cast<std::size_t>(index * context_) * item_bytes();
    return tokens_.subspan(begin, static_cast<std::size_t>(context_ + 1) * item_bytes());
}

std::uint64_t TokenDataset::offset_of(std::int64_t index) const {
    return begin_ + static_cast<std::uint64_t>(index * context_) * item_bytes();
}

void TokenDataset::read(std::int64_t index, Sample& sample) const {
    FieldValue& value = sample.field(0);
    const auto bytes = map_or_read_.get(window(index), file_, offset_of(index), sample.storage);
    value.storage.resize(static_cast<std::size_t>(context_ + 1) * sizeof(std::int64_t));
    const std::span tokens(reinterpret_cast<std::int64_t*>(value.storage.data()),
                           static_cast<std::size_t>(context_ + 1));
    widen(type_, bytes, tokens);
    if (const auto negative = std::ranges::find_if(tokens, [](std::int64_t token) { return token < 0; });
        negative != tokens.end()) {
        throw DataError({.path = path_, .key = key(index)},
                        {.where = kField, .expected = "tokens from 0 on", .got = fmt::format("{}", *negative)});
    }
    value.set_elements(tokens);
    sample.set_raw({}, 0, 0, 0);
    sample.label = -1;
}

void TokenDataset::prefetch(std::span<const std::int64_t> indices) const {
    std::size_t ahead = 0;
    for (const std::int64_t index : indices) {
        const std::span<const std::byte> bytes = window(index);
        prefetch_bytes(bytes, ahead++, [&] { file_.will_need(offset_of(index), bytes.size()); });
    }
}

}  // namespace stoker
