// Arbitrary bytes as a shard of an stk data set or as its manifest; the first byte chooses. A shard's hashes are
// corrected, so that damage reaches the checks behind them, and a matching manifest is written.
#include <cstring>
#include <fmt/format.h>

#include "fuzz/formats/sources.h"
#include "stoker/base/hash.h"
#include "stoker/formats/stk/stk.h"
#include "stoker/formats/stk/stk_manifest.h"

namespace {

using namespace stoker;
using namespace stoker::fuzz;

constexpr unsigned kManifest = 1;
constexpr unsigned kMend = 2;

// Hash of the part of `shard` that the footer names, if it is inside the shard.
std::uint64_t hash_of(std::span<const std::byte> shard, std::uint64_t offset, std::uint64_t size,
                      std::uint64_t otherwise) {
    const bool inside = offset <= shard.size() && size <= shard.size() - offset;
    return inside ? hash_bytes(shard.subspan(offset, size)) : otherwise;
}

StkFooter footer_of(std::span<const std::byte> shard) {
    StkFooter footer;
    std::memcpy(&footer, shard.data() + shard.size() - sizeof footer, sizeof footer);
    return footer;
}

void mend(std::vector<std::byte>& shard) {
    StkFooter footer = footer_of(shard);
    footer.file_size = shard.size();
    footer.index_hash = hash_of(shard, footer.index_offset, footer.index_size, footer.index_hash);
    footer.schema_hash = hash_of(shard, footer.schema_offset, footer.schema_size, footer.schema_hash);
    footer.hash = hash_bytes(std::as_bytes(std::span(&footer, 1)).first(kStkFooterHashed));
    std::memcpy(shard.data() + shard.size() - sizeof footer, &footer, sizeof footer);
}

void read_fields(const StkReader& reader, std::int64_t index) {
    const auto& fields = reader.schema().fields;
    for (std::size_t field = 0; field < fields.size(); ++field) {
        switch (fields[field].kind) {
            case StkKind::image:
                touch(reader.image(field, index).bytes);
                break;
            case StkKind::label:
            case StkKind::integer:
                reader.integer(field, index);
                break;
            case StkKind::number:
                reader.number(field, index);
                break;
            case StkKind::bytes:
                touch(reader.bytes(field, index));
                break;
            case StkKind::tensor: {
                const TensorView view = reader.tensor(field, index);
                touch({view.data, view.bytes()});
                break;
            }
        }
    }
    touch(as_bytes(reader.key(index)));
    succeeds([&] { reader.verify(index); });
}

void read_shard(const Scratch& scratch, std::span<const std::byte> shard) {
    const StkFooter footer = footer_of(shard);
    const std::string manifest = fmt::format(
        R"({{"format":"stk","version":1,"samples":{0},"shards":[{{"samples":{0},"bytes":{1},"hash":"{2:016x}"}}]}})",
        footer.samples, shard.size(), footer.hash);
    scratch.write(std::string(kStkManifest), as_bytes(manifest));
    scratch.write(stk_shard_name(0), shard);
    succeeds([&] {
        const StkReader reader(scratch.path());
        require(reader.size() >= 1);
        read_fields(reader, 0);
        read_fields(reader, reader.size() - 1);
    });
    succeeds([&] {
        const StkDataset source(scratch.path());
        read_samples(source);
        source.codecs();
    });
    read_as_fields([&](const std::vector<FieldRequest>& more) { return StkDataset(scratch.path(), more); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Scratch scratch;
    if (size < 1) {
        return 0;
    }
    const auto input = as_input(data + 1, size - 1);
    if ((data[0] & kManifest) != 0) {
        const auto path = scratch.write("manifest", input);
        StkManifest manifest;
        if (succeeds([&] { manifest = read_manifest(path); })) {
            // A manifest that was read can be written, and reads back the same.
            write_manifest(scratch.path() / "again", manifest);
            require(read_manifest(scratch.path() / "again").shards == manifest.shards);
        }
        return 0;
    }
    std::vector<std::byte> shard(input.begin(), input.end());
    if (shard.size() < sizeof(StkFooter)) {
        return 0;
    }
    if ((data[0] & kMend) != 0) {
        mend(shard);
    }
    read_shard(scratch, shard);
    return 0;
}
