// Arbitrary bytes as a record of TFRecord, as a shard, and as a cached index. The first byte chooses; its highest bit
// corrects the checksums of a shard, so that changed records are read.
#include <cstring>

#include "fuzz/formats/sources.h"
#include "stoker/base/crc32c.h"
#include "stoker/formats/tfrecord/tfrecord.h"

namespace {

using namespace stoker;
using namespace stoker::fuzz;

void check_record(std::span<const std::byte> record) {
    std::vector<NamedTfFeature> features;
    if (!succeeds([&] { features = all_tf_features(record); })) {
        return;
    }
    succeeds([&] { is_sequence_example(record); });
    for (const NamedTfFeature& found : features) {
        touch(found.feature.lists);
        Buffer out;
        std::int64_t count = 0;
        const bool sound = succeeds([&] { count = count_values(found.feature); });
        for (const TfKind kind : {TfKind::floats, TfKind::integers}) {
            const std::size_t item = kind == TfKind::floats ? sizeof(float) : sizeof(std::int64_t);
            if (succeeds([&] { copy_values(found.feature, kind, out); })) {
                require(sound && out.size() == static_cast<std::size_t>(count) * item);
                touch(out.bytes());
            }
        }
        succeeds([&] { touch(single_bytes(found.feature)); });
        require(!single_integer(found.feature) || count == 1);
        std::vector<std::optional<TfFeature>> again;
        const std::vector<std::string> names = {"", found.name};
        require(succeeds([&] { again = find_tf_features(record, names); }));
        require(again[1] && again[1]->lists.data() == found.feature.lists.data());
    }
}

void check_index(std::span<const std::byte> input) {
    constexpr std::uint64_t kShard = 100'000;
    Buffer bytes(input.size());
    std::ranges::copy(input, bytes.data());
    const auto index = TfIndex::parse(std::move(bytes), kShard);
    if (!index) {
        return;
    }
    for (const TfRecordPlace& record : index->records()) {
        const ByteRange range = record.range();
        require(range.offset <= index->decoded_bytes() && range.size <= index->decoded_bytes() - range.offset);
        require(record.label <= index->max_label() || record.label < 0);
    }
}

// Makes the checksums of the records fit that the lengths give.
void correct_checksums(std::vector<std::byte>& shard) {
    const auto put = [&](std::size_t at, std::uint32_t checksum) {
        std::memcpy(&shard[at], &checksum, sizeof checksum);
    };
    for (std::size_t at = 0; shard.size() - at >= kTfHead + kTfTail;) {
        std::uint64_t length = 0;
        std::memcpy(&length, &shard[at], sizeof length);
        const auto head = std::span(shard).subspan(at);
        put(at + sizeof length, masked_crc32c(head.first(sizeof length)));
        if (length > head.size() - kTfHead - kTfTail) {
            return;
        }
        put(at + kTfHead + length, masked_crc32c(head.subspan(kTfHead, length)));
        at += kTfHead + length + kTfTail;
    }
}

void check_shard(std::span<const std::byte> input, bool correct) {
    static const Scratch scratch;
    std::vector<std::byte> shard(input.begin(), input.end());
    if (correct) {
        correct_checksums(shard);
    }
    const std::string path = scratch.write("x.tfrecord", shard).string();
    const auto open = [&](const std::vector<FieldRequest>& more) {
        return TfRecordDataset(path, Split::train, {.fields = {.image = "", .label = "", .more = more}});
    };
    // Samples may be bad ones: a record is looked at when it is read.
    succeeds([&] {
        const TfRecordDataset dataset = open({});
        static Sample sample;
        for (std::int64_t i = 0; i < std::min<std::int64_t>(dataset.size(), 8); ++i) {
            if (succeeds([&] { dataset.read(i, sample); })) {
                require(sample.label >= -1 && dataset.label(i) == sample.label);
                require_pixels(sample);
            }
            dataset.key(i);
        }
    });
    read_as_fields(open);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto input = as_input(data, size);
    if (input.empty()) {
        return 0;
    }
    const auto choice = std::to_integer<unsigned>(input[0]);
    switch (choice % 3) {
        case 0:
            check_shard(input.subspan(1), (choice & 0x80) != 0);
            break;
        case 1:
            check_record(input.subspan(1));
            break;
        default:
            check_index(input.subspan(1));
            break;
    }
    return 0;
}
